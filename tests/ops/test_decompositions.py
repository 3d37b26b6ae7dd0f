"""Decompositions against kernels: operators that have both, run without their kernel."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import facula
import numpy as np
import pytest
import test_random_properties
from emptied import emptied, outcome
from facula.testing._samples import OpRecord, operators
from harness import arguments, call, compare, to_numpy

from tests.grouped import grouped

BOTH = [
    op
    for op in operators()
    if op.samples()
    and op.composite
    and "CPU" in (op.dispatch or {})
    and op.kind != "random"
    and not op.property
]
CASES = [
    pytest.param(op, i, id=f"{op.name}-{i}") for op in BOTH for i in range(len(op.data["samples"]))
]


@contextmanager
def without_kernel(name: str) -> Iterator[None]:
    """The CPU kernel of an operator taken out of the table."""
    kernel = facula._C._swap_cpu_kernel(name, 0)
    try:
        yield
    finally:
        facula._C._swap_cpu_kernel(name, kernel)


def decomposed(op: OpRecord, run: Callable[[], Any]) -> Any:
    """The result, if the decomposition serves these arguments, as that of the first sample must."""
    try:
        return run()
    except facula.backends.MissingKernelError as error:
        assert error.op == op.name and "its decomposition does not serve them" in error.refusal
        pytest.skip(error.refusal)


@pytest.mark.parametrize("op", BOTH, ids=lambda op: op.name)
def test_a_decomposition_serves_something(op: OpRecord) -> None:
    _, args, kwargs = arguments(op.sample(0), "float64")
    with without_kernel(op.name):
        call(op, args, kwargs)


@grouped(("op", "index"), CASES)
def test_decomposition(op: OpRecord, index: int) -> None:
    _, args, kwargs = arguments(op.sample(index), "float64")
    want = call(op, copy.deepcopy(args), kwargs)
    with without_kernel(op.name):
        got = decomposed(op, lambda: call(op, args, kwargs))
    compare(op, to_numpy(got), to_numpy(want), "float64")
    for g, w in zip(
        *([x] if isinstance(x, facula.Tensor) else x for x in (got, want)), strict=True
    ):
        assert not isinstance(g, facula.Tensor) or g.dtype == w.dtype


# Sums with weights of which some are zero: what is not finite reaches those that it has no part in.
WEIGHED = ("adaptive_avg_pool", "adaptive_avg_pool_backward", "col2im", "im2col", "_slogdet")
FILLS: dict[str, Callable[[facula.Tensor], facula.Tensor]] = {
    "zeros": facula.zeros_like,
    "ones": facula.ones_like,
    "large": lambda x: x * 1000,
    "ties": lambda x: x.round(),
    "inf": lambda x: x.flatten().index_fill(0, facula.tensor(0), math.inf).reshape(x.shape),
    "-inf": lambda x: x.flatten().index_fill(0, facula.tensor(0), -math.inf).reshape(x.shape),
    "nan": lambda x: x.flatten().index_fill(0, facula.tensor(0), math.nan).reshape(x.shape),
}


def _flat(value: Any) -> list[Any]:
    return [value] if isinstance(value, facula.Tensor) else [t for v in value for t in _flat(v)]


@grouped(("op", "fill"), [(op, fill) for op in BOTH for fill in FILLS])
def test_decompositions_of_special_numbers(op: OpRecord, fill: str) -> None:
    if fill in ("inf", "-inf", "nan") and op.name in WEIGHED:
        return
    for index in range(len(op.data["samples"])):
        _, args, kwargs = arguments(op.sample(index), "float64")
        many = [
            isinstance(a, facula.Tensor) and a.is_floating_point() and a.numel() > 1 for a in args
        ]
        if True not in many:
            continue
        at = many.index(True)
        args[at] = FILLS[fill](args[at])
        try:
            want = call(op, copy.deepcopy(args), kwargs)
        except (RuntimeError, ValueError, IndexError):
            continue  # of other numbers than these
        with without_kernel(op.name):
            try:
                got = call(op, args, kwargs)
            except facula.backends.MissingKernelError:
                continue
        for k, (g, w) in enumerate(zip(_flat(got), _flat(want), strict=True)):
            if (op.name, fill, k) == ("softmax_nll_forward", "nan", 2):
                continue  # the largest of a row with NaN is of no use
            np.testing.assert_allclose(to_numpy(g), to_numpy(w), rtol=1e-9, atol=1e-9)


def _numbers(*shape: int) -> facula.Tensor:
    facula.manual_seed(4)
    return facula.randn(shape, dtype=facula.float64)


def _zero_in() -> facula.Tensor:
    return facula.tensor([[1.0, 0.0, -2.0], [0.0, 0.0, 0.0]], dtype=facula.float64)


# Calls of operators with arguments that their samples do not have.
MORE: dict[str, list[Callable[[], Any]]] = {
    "tril": [lambda d=d: _numbers(2, 3, 4).tril(d) for d in (-3, -1, 0, 2, 5)],
    "triu": [lambda d=d: _numbers(2, 3, 4).triu(d) for d in (-3, -1, 0, 2, 5)],
    "linalg_vector_norm": [
        lambda ord=ord, x=x, dim=dim: facula.linalg.vector_norm(x, ord, dim)
        for ord in (0, 0.5, 1, 2, 3, -1, -2, math.inf, -math.inf)
        for x in (_numbers(3, 4), _numbers(3, 4) * 1e200, _numbers(3, 4) * 1e-200, _zero_in())
        for dim in (None, 1)
    ],
    "softmax": [lambda x=x: x.softmax(1) for x in (_numbers(3, 4) * 1e4, _numbers(2, 3, 4) - 9e5)],
    "_mean_square": [
        lambda x=x: facula._C._ops._mean_square(x, [1])
        for x in (_numbers(3, 4) * 1e150, _numbers(3, 4) * 1e-150, _zero_in())
    ],
    "std.correction": [
        lambda n=n, c=c: facula.std(_numbers(3, n), 1, correction=c)
        for n in (1, 2, 3)
        for c in (0, 1, 2, 5)
    ],
    "var.correction": [
        lambda n=n, c=c: facula.var(_numbers(3, n), 1, correction=c)
        for n in (1, 2, 3)
        for c in (0, 1, 2, 5)
    ],
    "log_softmax": [lambda x=x: x.log_softmax(1) for x in (_numbers(3, 4) * 1e4,)],
}


@pytest.mark.parametrize("name", MORE)
def test_decompositions_of_other_arguments(name: str) -> None:
    for run in MORE[name]:
        want = run()
        with without_kernel(name):
            got = run()
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)


INPLACE = [p for p in CASES if "inplace" in p.values[0].variants and not p.values[0].internal]


@grouped(("op", "index"), INPLACE)
def test_decomposition_in_place(op: OpRecord, index: int) -> None:
    _, args, kwargs = arguments(op.sample(index), "float64")
    want = op.function()(*args, **kwargs)
    mine = args[0].clone()
    if mine.shape != want.shape or mine.dtype != want.dtype:
        pytest.skip("the result does not fit self")
    with without_kernel(op.name):
        decomposed(op, lambda: getattr(mine, op.base_name + "_")(*args[1:], **kwargs))
    compare(op, to_numpy(mine), to_numpy(want), "float64")


RANDOM = [
    op
    for op in operators()
    if op.composite and "CPU" in (op.dispatch or {}) and op.property and op.kind == "mutation"
]


@pytest.mark.parametrize("op", RANDOM, ids=lambda op: op.name)
def test_decompositions_draw_alike(op: OpRecord) -> None:
    """What is known of the numbers that a kernel draws holds without it."""
    check = getattr(test_random_properties, op.property)
    given = [mark.args[1][1] for mark in getattr(check, "pytestmark", ())]
    with without_kernel(op.name):
        decomposed(op, lambda: check(*given))


def test_decomposed_integers_of_a_range() -> None:
    facula.manual_seed(3)
    with without_kernel("random_.from_"):
        for low, high in ((0, 10), (-7, 3), (5, 2**40), (-(2**61), 2**61), (0, 2**63 - 3)):
            x = facula.empty(20_000, dtype=facula.int64).random_(low, high)
            assert low <= int(x.min()) and int(x.max()) < high
            assert (
                abs(float(x.double().mean()) / (high - low) - (low + high - 1) / 2 / (high - low))
                < 0.02
            )
        with pytest.raises(facula.backends.MissingKernelError, match="2\\^63 numbers"):
            facula.empty(1, dtype=facula.int64).random_(0, 2**63 - 2)


def test_decomposed_choices() -> None:
    """As often as the weights say, with replacement; without, all those that have a weight."""
    facula.manual_seed(6)
    w = facula.tensor([0.0, 1.0, 3.0, 0.0, 4.0])
    for kind in (facula.float32, facula.float64):
        with without_kernel("multinomial"):
            many = facula.multinomial(w.to(kind), 40_000, True)
            one = facula.stack([facula.multinomial(w.to(kind), 1)[0] for _ in range(4000)])
            all_ = facula.multinomial(w.to(kind).expand(50, 5), 3)
        for drawn in (many, one):
            share = drawn.bincount(minlength=5).double() / drawn.numel()
            np.testing.assert_allclose(share.numpy(), w.numpy() / 8, atol=0.03)
        assert all_.sort(1)[0].tolist() == [[1, 2, 4]] * 50


@pytest.mark.parametrize("p", [0.0, 0.25, 0.9, 1.0])
def test_decomposed_dropout(p: float) -> None:
    facula.manual_seed(7)
    x = facula.ones(40_000, dtype=facula.float64, requires_grad=True)
    with without_kernel("native_dropout"):
        y = facula.nn.functional.dropout(x, p, True)
        (slope,) = facula.autograd.grad(y.sum(), x)
    kept = y.detach().numpy() != 0
    assert abs(kept.mean() - (1 - p)) < 0.02 and (p not in (0.0, 1.0) or kept.mean() == 1 - p)
    np.testing.assert_allclose(y.detach().numpy()[kept], 1 / (1 - p) if p < 1 else 0)
    np.testing.assert_array_equal(slope.numpy(), y.detach().numpy())


def test_decomposed_normal_numbers() -> None:
    facula.manual_seed(8)
    for kind in (facula.float32, facula.float64, facula.complex64, facula.complex128):
        with without_kernel("normal_"):
            x = facula.empty(100_000, dtype=kind).normal_(2.0, 3.0).numpy()
        assert abs(x.mean() - 2) < 0.06 and abs(x.std() - 3) < 0.05
        if kind.is_complex:
            assert abs(x.real.std() - x.imag.std()) < 0.05
        if kind in (facula.float64, facula.complex128):  # all digits are drawn
            assert (x.real != x.real.astype(np.float32)).mean() > 0.99


def test_decompositions_of_nothing() -> None:
    """Empty operands, forward and backward, as on a device that has none of these kernels."""
    names = [o.name for o in operators() if o.composite and "CPU" in (o.dispatch or {})]
    public = [op for op in operators() if op.samples() and op.function() and op.kind != "random"]
    cases = [(op, sample) for op in public for sample in emptied(op)]
    want = [outcome(op, sample, "float32", "cpu", True) for op, sample in cases]
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(without_kernel(name))
        got = [outcome(op, sample, "float32", "cpu", True) for op, sample in cases]
    served = 0
    for (op, sample), g, w in zip(cases, got, want, strict=True):
        # What has no derivative as a whole may have one by its parts.
        if g == "MissingKernelError" or w == "NotImplementedError":
            continue
        served += 1
        kinds = [x if isinstance(x, str) else [r and r[:2] for r in x] for x in (g, w)]
        assert kinds[0] == kinds[1], (op.name, sample)
    assert served > len(cases) // 2
