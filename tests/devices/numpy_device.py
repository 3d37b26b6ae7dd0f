"""A device in pure Python: memory is NumPy arrays, formulas are evaluated by NumPy."""

from __future__ import annotations

import ctypes
from typing import Any

import facula as fa
import numpy as np
from facula.backends import Backend, Buffer, register
from facula.backends.interpret import Interpreter

np.seterr(all="ignore")
_NUMPY = {
    fa.bool: np.bool_, fa.uint8: np.uint8, fa.int8: np.int8, fa.int16: np.int16, fa.int32: np.int32,
    fa.int64: np.int64, fa.float16: np.float16, fa.float32: np.float32, fa.float64: np.float64,
    fa.complex64: np.complex64, fa.complex128: np.complex128,
}  # fmt: skip


def bmm(self: Buffer, mat2: Buffer, out: Buffer) -> None:
    np.asarray(out)[...] = np.matmul(np.asarray(self), np.asarray(mat2))


def cumsum(self: Buffer, dim: int, dtype: Any, out: Buffer) -> None:
    result = np.asarray(out)
    if result.ndim == 0:
        result[...] = np.asarray(self)
    else:
        np.cumsum(np.asarray(self), axis=dim, dtype=result.dtype, out=result)


class NumpyDevice(Backend):
    name = "numpyfied"
    package = "tests"
    flags = Backend.CACHING | Backend.CPU_FALLBACK | Backend.FORK_SAFE | Backend.HOST_MEMORY
    dtypes = tuple(_NUMPY)
    kernels = {"bmm": bmm, "cumsum": cumsum}  # noqa: RUF012

    def __init__(self) -> None:
        self._memory: dict[int, np.ndarray] = {}
        self._interpreter = Interpreter(np)

    def device_count(self) -> int:
        return 2

    def allocate(self, index: int, nbytes: int, stream: int) -> int:
        block = np.empty(nbytes + 64, np.uint8)
        start = (block.ctypes.data + 63) // 64 * 64
        self._memory[start] = block
        return start

    def deallocate(self, index: int, data: int, nbytes: int, stream: int) -> None:
        del self._memory[data]

    def copy(
        self, dst: int, dst_index: int, src: int, src_index: int, nbytes: int, stream: int
    ) -> None:
        ctypes.memmove(dst, src, nbytes)

    def pointwise(
        self,
        op: str,
        variant: str,
        inputs: Any,
        outputs: Any,
        values: Any,
        compute: Any,
        masks: int,
        stream: int,
    ) -> None:
        to = _NUMPY[compute]
        arrays = [
            np.asarray(x).astype(np.bool_ if masks >> i & 1 else to, copy=False)
            for i, x in enumerate(inputs)
        ]
        results = self._interpreter.pointwise(op, variant, arrays, values, to)
        for out, result in zip(outputs, results, strict=True):
            target = np.asarray(out)
            result = np.asarray(result)
            if result.dtype.kind == "c" and target.dtype.kind != "c":
                result = result.real if target.dtype.kind != "b" else result != 0
            target[...] = result

    def reduction(
        self, op: str, input: Buffer, output: Buffer, nreduced: int, compute: Any, stream: int
    ) -> None:
        array = np.asarray(input)
        kept = array.shape[: array.ndim - nreduced]
        if array.dtype.kind == "c" and not compute.is_complex and compute != fa.bool:
            array = array.real
        array = array != 0 if compute == fa.bool else array.astype(_NUMPY[compute])
        flat = np.reshape(array, (*kept, -1))
        start = {"sum": 0, "any": False, "prod": 1, "all": True}.get(op)
        if start is not None:
            start = np.full(kept, start, _NUMPY[compute])
        np.asarray(output)[...] = self._reduction(op, start, flat)

    def _reduction(self, op: str, start: Any, flat: np.ndarray) -> Any:
        """Along the last dim; long rows as parallel devices do it, several parts side by side."""
        n = flat.shape[-1]
        if n > 1024:
            width = int(n**0.5)
            whole = n // width * width
            parts = flat[..., :whole].reshape(*flat.shape[:-1], -1, width)
            first = None if start is None else np.broadcast_to(start[..., None], parts.shape[:-1])
            flat = np.concatenate([self._reduction(op, first, parts), flat[..., whole:]], -1)
        elements = (flat[..., i] for i in range(flat.shape[-1]))
        return self._interpreter.reduction(op, start, elements)


def start() -> None:
    """The entry point."""
    register(NumpyDevice())
