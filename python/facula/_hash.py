"""`hash_tensor`: a number that tells whether two tensors have the same elements."""

from __future__ import annotations

from typing import Any

import facula
from facula._errors import tell_all

__all__ = ["hash_tensor"]


def hash_tensor(input: Any, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Any:
    """The exclusive or of the elements' bits, as uint64: it is the same in any order.

    Args:
        input: numbers; floating-point ones are taken as float64, integers as int64.
        dim: which dims to combine; none for all.
        keepdim: keep them, with size 1.
        mode: 0, the exclusive or; there is no other.

    Raises:
        RuntimeError: another mode, complex elements, or no elements and no dim.

    >>> import facula
    >>> facula.hash_tensor(facula.tensor([1, 5, 9])).item()
    13
    """
    if mode != 0:
        raise RuntimeError(f"hash_tensor(): unknown mode {mode}; 0, the exclusive or, is there")
    if input.is_complex():
        raise RuntimeError("hash_tensor(): complex elements; take view_as_real(input)")
    dims = [dim] if isinstance(dim, int) else list(dim)
    if not dims and not input.numel():
        raise RuntimeError("hash_tensor(): input has no elements; say which dims to combine")
    if input.is_floating_point():
        bits = input.detach().to(facula.float64).contiguous().view(facula.int64)
    else:
        bits = input.to(facula.int64)
    where = sorted({d % max(input.dim(), 1) for d in dims} or range(input.dim()))
    for d in where:
        bits = _combined(bits, d)
    if not keepdim:
        for d in reversed(where):
            bits = bits.squeeze(d)
    return bits.contiguous().view(facula.uint64)


def _combined(bits: Any, dim: int) -> Any:
    """The exclusive or along a dim, which keeps the size 1."""
    if bits.dim() == 0:
        return bits
    if bits.size(dim) == 0:
        shape = list(bits.shape)
        shape[dim] = 1
        return facula.zeros(shape, dtype=bits.dtype, device=bits.device)
    while (count := bits.size(dim)) > 1:
        half = count // 2
        left, right = bits.narrow(dim, 0, half), bits.narrow(dim, half, half)
        rest = [bits.narrow(dim, 2 * half, 1)] if count % 2 else []
        bits = facula.cat([left ^ right, *rest], dim)
    return bits


tell_all(globals(), __all__)
