"""Calls while another thread writes to their tensors, or gives these other sizes and memory.

Run as a program, since a fault is a crash: `other_threads.py PART OF [SECONDS]` does every OF-th
case from PART on, each for so many seconds, and says on stderr which one it is at. Results are
anybody's guess; the process must live.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import facula as fa
from facula.testing._samples import OpRecord, operators
from harness import arguments

Call = Callable[[], Any]
ALLOWED = (
    ArithmeticError,
    AttributeError,
    BufferError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
F = fa.nn.functional


def tensors_of(values: Any) -> list[fa.Tensor]:
    """The tensors among arguments or results."""
    if isinstance(values, fa.Tensor):
        return [values]
    if isinstance(values, dict):
        values = list(values.values())
    return [t for v in values for t in tensors_of(v)] if isinstance(values, list | tuple) else []


def own(values: Any) -> Any:
    """The same arguments with tensors that are no views, whose memory may be replaced."""
    if isinstance(values, fa.Tensor):
        return values.clone()
    if isinstance(values, dict):
        return {k: own(v) for k, v in values.items()}
    return type(values)(own(v) for v in values) if isinstance(values, list | tuple) else values


def wild_numbers(dtype: fa.dtype, n: int) -> list[Any]:
    """What a tensor of n elements had better not hold. No sizes that a machine could have."""
    if dtype is fa.bool:
        return [True, False]
    if dtype.is_floating_point or dtype.is_complex:
        return [float("nan"), float("inf"), -1e30, 0.0]
    largest = {8: 1 << 40, 4: 70000, 2: 30000}.get(dtype.itemsize, 100)
    return [largest, 0, n] if dtype is fa.uint8 else [largest, -largest, 0, -1, n]


def writes_to(t: fa.Tensor) -> Call:
    """Some thousand writes at one go, without Python's lock; in the end it holds what it held."""
    line = t.data.view(-1)
    held, n = line.clone(), t.numel()
    contents = [held]
    for number in wild_numbers(t.dtype, n):
        contents += [fa.full((n,), number, dtype=t.dtype), held]
    rounds = max(1, 4000 // (n * len(contents)))
    values = fa.cat(contents * rounds)
    at = fa.arange(n).repeat(len(contents) * rounds)
    return lambda: line.index_put_((at,), values)


def resizes_of(t: fa.Tensor) -> Call:
    """Other sizes, strides and memory; in the end what it had."""
    was = t.data
    spare = was.clone()  # not while the other thread may be writing into it
    others = [fa.zeros(0, dtype=t.dtype), fa.zeros([3] * 7, dtype=t.dtype), fa.ones(2), was]

    def resize() -> None:
        for other in others:
            t.data = other
        if t.requires_grad:
            return
        t.data = spare
        for shape in [(1,), (64, 64), (0,), (2, 1, 1, 1, 1, 1, 2), tuple(was.shape)]:
            t.resize_(shape)
        t.data = was

    return resize


class Beside(threading.Thread):
    """Does the same again and again, until the block is left."""

    def __init__(self, work: list[Call]) -> None:
        super().__init__(daemon=True)
        self.work, self.over = work, False

    def run(self) -> None:
        while not self.over:
            for work in self.work:
                with contextlib.suppress(ALLOWED):
                    work()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.over = True
        self.join()


def with_backward(call: Call, leaves: list[fa.Tensor]) -> Call:
    def run() -> None:
        outs = [t for t in tensors_of(call()) if t.requires_grad]
        if outs:
            fa.autograd.grad(
                [o.real if o.is_complex() else o for o in outs],
                leaves,
                [fa.ones_like(o.real if o.is_complex() else o) for o in outs],
                allow_unused=True,
            )

    return run


def sample_cases() -> Iterator[tuple[str, Call, list[fa.Tensor]]]:
    """Every operator with what the schema's samples give it."""
    for op in operators():
        if not op.samples() or op.derived_from:
            continue
        for i in range(min(2, len(op.data["samples"]))):
            yield from _cases_of(op, i)


def _cases_of(op: OpRecord, i: int) -> Iterator[tuple[str, Call, list[fa.Tensor]]]:
    function = op.function()
    assert function is not None
    for recorded in (False, True):
        _, args, kwargs = arguments(
            op.sample(i), "float32" if not op.dtypes or "float" in op.dtypes else None
        )
        args, kwargs = own(args), own(kwargs)
        given = [t for t in tensors_of([args, kwargs]) if t.numel() > 0]
        leaves = [t.requires_grad_() for t in given if recorded and t.is_floating_point()]
        if not given or (recorded and not (leaves and op.differentiable)):
            continue

        def call(args: Any = args, kwargs: Any = kwargs) -> Any:
            return function(*args, **kwargs)

        what = f"{op.name} {op.data['samples'][i]}{' backward' if recorded else ''}"
        yield what, with_backward(call, leaves) if recorded else call, given


def large_cases() -> Iterator[tuple[str, Call, list[fa.Tensor]]]:
    """Sizes at which kernels go other ways: many blocks, several threads, whole rows."""
    fa.manual_seed(0)
    n = 6000
    x, line, wide = fa.randn(n, 40), fa.randn(n), fa.randn(200, 300)
    at, pairs = fa.randint(0, n, (n,)), fa.randint(0, 200, (200, 300))
    mask, weight = fa.randn(200, 300) > 0, fa.rand(40)
    long_line, many = fa.randn(70000), fa.randint(0, 70000, (70000,))
    classes = fa.randint(0, 40, (n,))
    batches = fa.randint(0, 16, (n,)).sort()[0]
    table = x.clone().requires_grad_()

    def backward(call: Call, leaf: fa.Tensor) -> Call:
        return lambda: fa.autograd.grad(call().sum(), leaf)

    calls: dict[str, tuple[Call, list[fa.Tensor]]] = {
        "x[at]": (lambda: x[at], [at]),
        "x[at, at]": (lambda: wide[at[:200] % 200, classes[:200]], [classes]),
        "two indices": (lambda: x[at, classes], [at, classes]),
        "x[:, i]": (lambda: x.T[:, at], [at]),
        "index_add_ rows": (lambda: x.clone().index_add_(0, at, x), [at]),
        "index_add_ elements": (lambda: long_line.clone().index_add_(0, many, long_line), [many]),
        "index_put_": (lambda: x.clone().index_put_((at, classes), line), [at, classes]),
        "index_copy_": (lambda: x.clone().index_copy_(0, at, x), [at]),
        "index_fill_": (lambda: x.clone().index_fill_(0, at, 1.0), [at]),
        "take": (lambda: long_line.take(many), [many]),
        "put_": (lambda: long_line.clone().put_(many, long_line, True), [many]),
        "embedding": (lambda: F.embedding(at, x), [at]),
        "embedding backward": (backward(lambda: F.embedding(at, table), table), [at]),
        "embedding by frequency": (
            backward(lambda: F.embedding(at, table, scale_grad_by_freq=True), table),
            [at],
        ),
        "x[at] backward": (backward(lambda: table[at], table), [at]),
        "gather 0": (lambda: wide.gather(0, pairs), [pairs]),
        "gather 1": (lambda: wide.gather(1, pairs), [pairs]),
        "gather line": (lambda: long_line.gather(0, many), [many]),
        "scatter 0": (lambda: wide.scatter(0, pairs, wide), [pairs]),
        "scatter_ 1": (lambda: wide.clone().scatter_(1, pairs, wide), [pairs]),
        "scatter_add_ 0": (lambda: wide.clone().scatter_add_(0, pairs, wide), [pairs]),
        "scatter_add_ line": (
            lambda: long_line.clone().scatter_add_(0, many, long_line),
            [many],
        ),
        "scatter_reduce": (lambda: wide.scatter_reduce(0, pairs, wide, "mean"), [pairs]),
        "x[mask]": (lambda: wide[mask], [mask]),
        "nonzero": (lambda: mask.nonzero(), [mask]),
        "nonzero of floats": (lambda: long_line.nonzero(), [long_line]),
        "masked_scatter": (lambda: wide.masked_scatter(mask, wide), [mask]),
        "one_hot": (lambda: F.one_hot(classes), [classes]),
        "bincount": (lambda: at.bincount(), [at]),
        "repeat_interleave": (lambda: line[:200].repeat_interleave(pairs[:, 0] % 9), [pairs]),
        "nll_loss": (lambda: F.nll_loss(x, classes), [classes]),
        "nll_loss weighted": (lambda: F.nll_loss(x, classes, weight), [classes, weight]),
        "cross_entropy": (lambda: F.cross_entropy(x, classes, weight), [classes]),
        "cross_entropy backward": (
            backward(lambda: F.cross_entropy(table, classes), table),
            [classes],
        ),
        "sort": (lambda: long_line.sort(), [long_line]),
        "sort float64": (lambda: (d := long_line.double()).sort() or d, [long_line]),
        "sort int64": (lambda: many.sort(), [many]),
        "topk": (lambda: long_line.topk(5), [long_line]),
        "topk, many": (lambda: long_line.topk(900), [long_line]),
        "topk, most": (lambda: long_line.topk(9000), [long_line]),
        "topk rows": (lambda: wide.topk(20), [wide]),
        "kthvalue": (lambda: long_line.kthvalue(400), [long_line]),
        "median": (lambda: wide.median(1), [wide]),
        "nanmedian": (lambda: long_line.nanmedian(), [long_line]),
        "mode": (lambda: many.mode(), [many]),
        "quantile": (lambda: line.quantile(weight), [line, weight]),
        "unique": (lambda: many.unique(return_inverse=True, return_counts=True), [many]),
        "unique rows": (lambda: wide.unique(dim=0, return_inverse=True), [wide]),
        "unique_consecutive": (lambda: many.unique_consecutive(return_inverse=True), [many]),
        "searchsorted": (lambda: fa.searchsorted(line, long_line), [line, long_line]),
        "searchsorted, sorter": (lambda: fa.searchsorted(line, line, sorter=at), [at]),
        "bucketize": (lambda: fa.bucketize(long_line, line), [line]),
        "histc": (lambda: long_line.histc(50), [long_line]),
        "multinomial": (lambda: weight.multinomial(20), [weight]),
        "multinomial again": (lambda: weight.multinomial(2000, True), [weight]),
        "tolist": (lambda: at.tolist(), [at]),
        "repr": (lambda: repr(long_line), [long_line]),
        "geometry": (lambda: geometry_of(x), [x]),
        "errors": (lambda: x.sum(dim=line), [x, line]),
        "gradients": (lambda: fa.autograd.grad((table * x).sum(), table), [table, x]),
        "batches": (lambda: batches.bincount(minlength=16), [batches]),
    }
    for name, (call, given) in calls.items():
        yield name, call, given


def geometry_of(t: fa.Tensor) -> tuple[Any, ...]:
    """All that tells what a tensor is without a look at its elements."""
    called = (t.size, t.stride, t.dim, t.numel, t.storage_offset, t.data_ptr, t.element_size)
    kinds = (t.is_floating_point, t.is_complex, t.is_signed, t.get_device, t.is_contiguous)
    plain = (t.shape, t.ndim, t.dtype, t.device, t.itemsize, t.nbytes, t.is_cpu, t.is_meta)
    return *(f() for f in (*called, *kinds, t.untyped_storage)), *plain, t._version, t.size(0)


def main(part: int, of: int, seconds: float) -> None:
    fa._C._set_release_gil_numel(0)
    sys.setswitchinterval(1e-5)
    cases = [*sample_cases(), *large_cases()]
    for what, call, given in cases[part::of]:
        for kind, work in (("writes", writes_to), ("sizes", resizes_of)):
            sys.stderr.write(f"{kind}: {what}\n")
            held = [t.data.clone() for t in given]
            with Beside([work(t) for t in given]):
                end = time.monotonic() + seconds
                while True:
                    with contextlib.suppress(ALLOWED):
                        call()
                    if time.monotonic() > end:
                        break
            for t, data in zip(given, held, strict=True):
                t.data = data


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 0.004)
