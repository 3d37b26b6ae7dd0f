"""How sparse tensors are pickled: their components, and what they say of them."""

from __future__ import annotations

from typing import Any

from facula import _C
from facula.sparse._tensor import hook, parts

__all__ = ["rebuilt", "reduced"]


@hook
def reduced(x: Any) -> tuple[Any, ...]:
    """What pickle asks for."""
    if not x.is_leaf:
        raise RuntimeError(
            "pickle: the tensor has a history that would be lost; pickle t.detach() instead"
        )
    own = parts(x, False)
    return rebuilt, (own.kind, own.size, own.values.detach(), own.indices, x.requires_grad)


def rebuilt(
    kind: int, size: tuple[int, ...], values: Any, indices: tuple[Any, ...], requires_grad: bool
) -> Any:
    """A tensor that was pickled."""
    return _C._make_compound(tuple(size), kind, (values, *indices)).requires_grad_(requires_grad)
