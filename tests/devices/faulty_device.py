"""A device whose kernels are the CPU's, for every operator that can have one, and faults to plant."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import facula as fa
import numpy as np
from facula.backends import Backend, Buffer
from facula.testing._samples import OpRecord, operators
from numpy_device import NumpyDevice

LARGE = 16  # from where a fast path goes


@cache
def records() -> dict[str, OpRecord]:
    return {op.name: op for op in operators()}


def with_kernels() -> list[OpRecord]:
    """The operators that a device can have kernels of its own for, and that the kit can call."""
    return [op for op in operators() if set(op.dispatch or {}) == {"CPU"} and op.samples()]


def buffers(value: Any) -> Iterator[Buffer]:
    if isinstance(value, Buffer):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from buffers(v)


class Call:
    """One call of a kernel or a template, as a fault sees and changes it."""

    def __init__(self, op: str, ins: list[Any], outs: list[Any], right: Callable[[Call], Any]) -> None:
        self.op, self.ins, self.outs, self.right = op, ins, outs, right
        self.held: list[np.ndarray] = []  # memory of replaced arguments

    def run(self) -> Any:
        return self.right(self)

    def reads(self) -> list[np.ndarray]:
        return [np.asarray(b) for b in buffers(self.ins)]

    def results(self) -> list[np.ndarray]:
        return [np.asarray(b) for b in buffers(self.outs)]

    def replace(self, change: Callable[[Buffer], Buffer]) -> None:
        """Other buffers in the place of those that are read."""

        def changed(value: Any) -> Any:
            if isinstance(value, Buffer):
                return change(value)
            return type(value)(map(changed, value)) if isinstance(value, (tuple, list)) else value

        self.ins = [changed(v) for v in self.ins]

    def copied(self, b: Buffer, array: np.ndarray) -> Buffer:
        self.held.append(np.ascontiguousarray(array))
        last = self.held[-1]
        return Buffer(last.ctypes.data, b.shape, tuple(s // last.itemsize for s in last.strides), b.dtype, b.index)


class FaultyDevice(NumpyDevice):
    """`fault(call)` runs each call, rightly or wrongly; `struck` counts the operators where it was wrong."""

    name = "faulty"
    flags = Backend.CACHING | Backend.HOST_MEMORY | Backend.CPU_FALLBACK
    dtypes = (fa.bool, fa.uint8, fa.int32, fa.int64, fa.float32, fa.float64)
    fault: Callable[[Call], Any] | None = None
    struck: Counter[str] = Counter()  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.kernels = {op.name: self._kernel(op) for op in with_kernels()}

    def device_count(self) -> int:
        return 1

    def allocate(self, index: int, nbytes: int, stream: int) -> int:
        return super().allocate(index, nbytes + 4096, stream)  # for what is written past the end

    def _kernel(self, op: OpRecord) -> Callable[..., Any]:
        arguments = op.data["arguments"]
        written = [i for i, a in enumerate(arguments) if a["type"].startswith("Tensor!")]

        def kernel(*args: Any) -> Any:
            ins, outs = list(args[: len(arguments)]), list(args[len(arguments) :])
            outs += [ins[i] for i in written]
            for i in written:
                ins[i] = None

            def right(call: Call) -> Any:
                given = list(call.ins)
                for i, value in zip(written, call.outs[len(call.outs) - len(written) :], strict=True):
                    given[i] = value
                return on_cpu(op, given, call.outs[: len(call.outs) - len(written)])

            return self.run(Call(op.name, ins, outs, right))

        return kernel

    def run(self, call: Call) -> Any:
        if FaultyDevice.fault is None:
            return call.run()
        before = [a.copy() for a in call.results()]
        result = call.run()
        want, reads = [a.copy() for a in call.results()], [a.copy() for a in call.reads()]
        for a, old in zip(call.results(), before, strict=True):
            a[...] = old
        told = FaultyDevice.fault(call)
        found, after = call.results(), call.reads()
        wrong = [*zip(want, found, strict=True), *(zip(reads, after, strict=True) if not call.held else ())]
        if told or not all(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in wrong):
            self.struck[call.op] += 1
        return result

    def pointwise(self, op: str, variant: str, inputs: Any, outputs: Any, *rest: Any) -> None:
        self.run(Call(op, list(inputs), list(outputs), lambda c: super(FaultyDevice, self).pointwise(
            op, variant, tuple(c.ins), tuple(c.outs), *rest)))  # fmt: skip

    def reduction(self, op: str, input: Buffer, output: Buffer, *rest: Any) -> None:
        self.run(Call(op, [input], [output], lambda c: super(FaultyDevice, self).reduction(
            op, c.ins[0], c.outs[0], *rest)))  # fmt: skip


def on_cpu(op: OpRecord, given: list[Any], outs: list[Any]) -> Any:
    """The operator's results by the CPU's kernel, into `outs`."""
    positional, keyword = [], {}
    for a, value in zip(op.data["arguments"], given, strict=True):
        value = _tensors(value, a["type"])
        if a["type"].startswith("Generator"):
            seed, offset = value
            value = fa.Generator().manual_seed((seed * 7919 + offset) % 2**31)
        elif a["type"].startswith("Device"):
            value = "cpu"
        if a.get("keyword_only"):
            keyword[a["name"]] = value
        else:
            positional.append(value)
    result = op.function()(*positional, **keyword)
    if not outs:
        return result if not isinstance(result, fa.Tensor) else None
    results = result if isinstance(result, (tuple, list)) else [result]
    for out, value in zip(outs, results, strict=True):
        np.asarray(out)[...] = value.detach().numpy()
    return None


def _tensors(value: Any, type_: str) -> Any:
    if isinstance(value, Buffer):
        array = np.asarray(value)
        return fa.from_numpy(array if array.size else np.empty_like(array))
    if type_.startswith("Tensor"):
        if isinstance(value, (tuple, list)):
            return [_tensors(v, "Tensor") for v in value]
        if isinstance(value, (bool, int, float, complex)):
            return fa.tensor(value)
    return list(value) if isinstance(value, tuple) and not type_.startswith("Generator") else value


# ---- faults: each runs a call wrongly where it strikes ----


def zeroed_fast_path(call: Call) -> None:
    """A fast path for large sizes that writes zeros."""
    call.run()
    shapes = [a.shape for a in [*call.reads(), *call.results()] if a.ndim > 0]
    if shapes and all(n >= LARGE for shape in shapes for n in shape[-2:]):
        for a in call.results():
            a[...] = 0


def forgotten_tail(call: Call) -> None:
    """The last elements of rows that are no multiple of a vector are left as they were."""
    before = [a.copy() for a in call.results()]
    call.run()
    for a, old in zip(call.results(), before, strict=True):
        if a.ndim > 0 and a.shape[-1] > 16:
            n = a.shape[-1] // 16 * 16
            a[..., n:] = old[..., n:]


def one_length(call: Call) -> None:
    """Rows of one length are wrong."""
    call.run()
    if any(33 in a.shape for a in [*call.reads(), *call.results()]):
        for a in call.results():
            a[...] = 0


def strides_ignored(call: Call) -> None:
    """Operands are read as if they were contiguous."""

    def change(b: Buffer) -> Buffer:
        dense = []
        for n in reversed(b.shape):
            dense.insert(0, 1 if not dense else dense[0] * last)
            last = max(n, 1)
        at_stake = [s for s, n in zip(b.strides, b.shape, strict=True) if n > 1]
        return b if 0 in at_stake or 0 in b.shape else b._replace(strides=tuple(dense))

    call.replace(change)
    call.held.append(np.empty(0))
    call.run()


def offsets_refused(call: Call) -> None:
    """Operands that do not begin at a multiple of 16 bytes make zeros."""
    call.run()
    if any(b.data % 16 and 0 not in b.shape for b in buffers(call.ins)):
        for a in call.results():
            a[...] = 0


def _cut(call: Call, most: int) -> None:
    def change(b: Buffer) -> Buffer:
        array = np.array(np.asarray(b))
        if array.size <= most:
            return b
        array.reshape(-1)[most:] = 0
        return call.copied(b, array)

    call.replace(change)
    call.held.append(np.empty(0))
    call.run()


def beyond_2_to_16(call: Call) -> None:
    """Nothing but zeros beyond the first 2^16 elements."""
    _cut(call, 1 << 16)


def beyond_2_to_20(call: Call) -> None:
    _cut(call, 1 << 20)


def empty_unwritten(call: Call) -> None:
    """Nothing is written where an operand is empty."""
    if not any(a.size == 0 for a in call.reads()):
        call.run()


def written_outside(call: Call) -> bool:
    """One element more than the result has."""
    call.run()
    told = False
    for b in buffers(call.outs):
        if b.shape and 0 not in b.shape:
            last = sum((n - 1) * s for n, s in zip(b.shape, b.strides, strict=True))
            size = b.dtype.itemsize
            ctypes.memset(b.data + (last + 1) * size, 0x55, size)
            told = True
    return told


def input_changed(call: Call) -> None:
    """A kernel that uses an operand as its workspace."""
    call.run()
    for a in call.reads()[:1]:
        if a.size > 0:
            a.reshape(-1)[:1] if a.ndim == 0 else None
            index = (0,) * a.ndim
            a[index] = not a[index] if a.dtype == bool else a[index] + 1


def other_dims(call: Call) -> None:
    """Wrong along every dim but the last."""
    call.run()
    names = [a["name"] for a in records()[call.op].data["arguments"]] if call.op in records() else []
    if "dim" not in names or not call.reads():
        return
    dim = call.ins[names.index("dim")] if len(call.ins) == len(names) else None
    if type(dim) is int and dim % max(call.reads()[0].ndim, 1) != call.reads()[0].ndim - 1:
        for a in call.results():
            a[...] = 0


def one_dtype(call: Call) -> None:
    """Large operands of float64 make zeros."""
    call.run()
    if any(a.dtype == np.float64 and a.shape[-1:] >= (LARGE,) for a in call.reads()):
        for a in call.results():
            a[...] = 0


FAULTS = [zeroed_fast_path, forgotten_tail, one_length, strides_ignored, offsets_refused, beyond_2_to_16,
          beyond_2_to_20, empty_unwritten, written_outside, input_changed, other_dims, one_dtype]  # fmt: skip
