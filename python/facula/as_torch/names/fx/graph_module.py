"""`torch.fx.graph_module`: names that programs take from that file."""

from facula import nn
from facula.fx.graph_module import _copy_attribute as _copy_attr

__all__ = ["_copy_attr"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


class _CodeOnlyModule(nn.Module):
    """A module of attributes alone, whose `forward` is given later."""

    def __init__(self, body: dict[str, object]) -> None:
        super().__init__()
        self.__dict__ = body
