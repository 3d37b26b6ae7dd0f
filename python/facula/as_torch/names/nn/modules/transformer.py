"""`torch.nn.modules.transformer`: helpers of that file which packages call."""

from facula.nn.modules.transformer import _activation as _get_activation_fn
from facula.nn.modules.transformer import _copies as _get_clones

__all__ = ["_get_activation_fn", "_get_clones"]
