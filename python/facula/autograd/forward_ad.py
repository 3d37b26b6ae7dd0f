"""Forward mode: numbers that carry their derivative along one direction.

>>> import facula
>>> from facula.autograd import forward_ad
>>> with forward_ad.dual_level():
...     x = forward_ad.make_dual(facula.tensor(3.0), facula.tensor(1.0))
...     primal, tangent = forward_ad.unpack_dual(x * x)
>>> tangent
tensor(6.)
"""

from __future__ import annotations

from collections import namedtuple

from facula import _C

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

UnpackedDualTensor = namedtuple("UnpackedDualTensor", ["primal", "tangent"])


def enter_dual_level():
    """Open the level that dual tensors live in; there is one at a time in a thread."""
    _C._enter_dual_level()
    return 0


def exit_dual_level(*, level=None):
    """Close it: tensors lose their tangents."""
    _C._exit_dual_level()


class dual_level:
    """A `with` block in which dual tensors can be made."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *exc):
        exit_dual_level()


def make_dual(tensor, tangent, *, level=None):
    """A view of `tensor` with `tangent`, of the same shape and dtype, as its derivative."""
    return _C._make_dual(tensor, tangent)


def unpack_dual(tensor, *, level=None):
    """The tensor and its tangent, None if it has none."""
    return UnpackedDualTensor(*_C._unpack_dual(tensor))
