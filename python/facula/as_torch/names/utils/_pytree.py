"""`torch.utils._pytree`: functions over the leaves of nested lists, tuples, dictionaries.

Libraries use it though its name says private.
"""

from __future__ import annotations

from facula.utils import _pytree

globals().update({name: value for name, value in vars(_pytree).items() if name[:2] != "__"})
