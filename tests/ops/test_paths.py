"""Paths of kernels and compositions that samples do not take: the arguments that lead there.

Each has its oracle beside it: NumPy, a definition, or the same call another way.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.testing._samples import operators
from harness import arguments
from test_decompositions import without_kernel

F = fa.nn.functional
OPS = fa._C._ops


@pytest.fixture
def three_threads() -> Any:
    before = fa.get_num_threads()
    fa.set_num_threads(3)
    yield
    fa.set_num_threads(before)


# ---- statistics and networks in training and in evaluation ----


@pytest.mark.parametrize("given", ["mean", "var"])
def test_one_running_statistic(given: str) -> None:
    x = np.random.default_rng(1).normal(2.0, 3.0, (5, 3, 4))
    state = fa.full((3,), 0.5, dtype=fa.float64)
    mean, var = (state, None) if given == "mean" else (None, state)
    F.batch_norm(fa.tensor(x), mean, var, training=True, momentum=0.25)
    of = x.mean((0, 2)) if given == "mean" else x.var((0, 2), ddof=1)
    np.testing.assert_allclose(state.numpy(), 0.75 * 0.5 + 0.25 * of, rtol=1e-12)


NETS: dict[str, tuple[int, int]] = {
    "rnn_tanh": (1, 1),
    "rnn_relu": (1, 1),
    "gru": (3, 1),
    "lstm": (4, 2),
}


@pytest.mark.parametrize("p", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("name", NETS)
def test_dropout_between_layers(name: str, p: float) -> None:
    """None in evaluation; in training as often as said, and not behind the last layer."""
    gates, states = NETS[name]
    fa.manual_seed(2)
    x = fa.randn(6, 2, 3)
    zeros = [fa.zeros(2, 2, 50) for _ in range(states)]
    w = [0.3 * fa.randn(gates * 50, n) for n in (3, 50, 50, 50)]

    def run(dropout: float, train: bool) -> fa.Tensor:
        hx: Any = zeros if states > 1 else zeros[0]
        return getattr(fa, name)(x, hx, w, False, 2, dropout, train, False, False)[0]

    plain = run(0.0, False)
    assert fa.equal(run(p, False), plain) and fa.equal(run(0.0, True), plain)
    trained = run(p, True)
    if p == 0.0:
        assert fa.equal(trained, plain)
    else:
        assert not fa.allclose(trained, plain)
    if p == 1.0:  # the second layer sees nothing
        np.testing.assert_allclose(trained.numpy(), 0 * trained.numpy(), atol=1e-6)
    elif p > 0:
        assert (trained != 0).float().mean() > 0.4


@pytest.mark.parametrize("dtype", [fa.float32, fa.float64])
def test_channels_far_from_zero(dtype: fa.dtype) -> None:
    """Means so many spreads away that their own rounding would be seen: against fractions."""
    step, base = (2.0**-14, 2.0**10) if dtype == fa.float64 else (2.0**-3, 2.0**16)
    places = [0, 3, 5, 6, 7, 11, 13]
    x = np.array([[base + step * k, -base - 2 * step * k] for k in places])
    got = F.batch_norm(fa.tensor(x).to(dtype), None, None, training=True, eps=0.0).double().numpy()
    mean = Fraction(sum(places), len(places))
    spread = math.sqrt(sum((k - mean) ** 2 for k in places) / len(places))
    want = np.array([float(k - mean) / spread for k in places])
    rtol = 1e-12 if dtype == fa.float64 else 2e-6
    np.testing.assert_allclose(got, np.stack([want, -want], 1), rtol, rtol)


def test_smoothing_all_of_the_label() -> None:
    logits = np.random.default_rng(3).normal(size=(4, 3))
    logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    for smoothing, target in ((0.0, [0, 2, 1, 1]), (1.0, [0, 2, 1, 1]), (0.5, [2, 2, 0, 1])):
        each = -(1 - smoothing) * logp[range(4), target] - smoothing * logp.mean(1)
        for reduction, want in (("none", each), ("sum", each.sum()), ("mean", each.mean())):
            got = F.cross_entropy(
                fa.tensor(logits),
                fa.tensor(target),
                label_smoothing=smoothing,
                reduction=reduction,
            )
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


# ---- windows, images, rows ----


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [fa.float32, fa.float64])
def test_windows_that_pass_by_the_image(dtype: fa.dtype, channels_last: bool) -> None:
    """Both taps of a dilated window lie in the margin: nothing is the largest."""
    x = fa.arange(1.0, 17.0, dtype=dtype).reshape(1, 16, 1, 1)
    if channels_last:
        x = x.to(memory_format=fa.channels_last)
    y = F.max_pool2d(x, 2, 1, 1, 2)
    assert y.shape == (1, 16, 1, 1) and (y == -math.inf).all()
    row = fa.arange(1.0, 33.0, dtype=dtype).reshape(1, 16, 1, 2)
    if channels_last:
        row = row.to(memory_format=fa.channels_last)
    assert (F.max_pool2d(row, 2, 1, 1, 2) == -math.inf).all()


ROWS = 5000


@pytest.mark.parametrize("lies", ["dense", "transposed", "gaps", "reversed", "one row"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_many_rows_into_few(dtype: str, lies: str) -> None:
    """Rows wherever they lie, and results too."""
    draw = np.random.default_rng(4)
    index = draw.integers(0, 3000, ROWS)
    values = draw.integers(-9, 9, (ROWS, 40)).astype(dtype)

    def placed(a: np.ndarray) -> fa.Tensor:
        if lies == "transposed":
            return fa.tensor(np.ascontiguousarray(a.T)).t()
        if lies == "gaps":
            return fa.tensor(np.repeat(a, 2, 1))[:, ::2]
        if lies == "reversed":
            return fa.tensor(a[:, ::-1].copy()).flip(1)
        return fa.tensor(a)

    if lies == "one row":
        values = np.repeat(values[:1], ROWS, 0)
    source = fa.tensor(values[:1]).expand(ROWS, 40) if lies == "one row" else placed(values)
    start = draw.integers(-9, 9, (3000, 40)).astype(dtype)
    want = start.copy()
    np.add.at(want, index, values)
    at = fa.tensor(index)
    for target in (fa.tensor(start), placed(start.copy())):
        np.testing.assert_array_equal(target.index_add(0, at, source).numpy(), want)
        target = target.clone(memory_format=fa.preserve_format)
        target.index_put_((at,), source, accumulate=True)
        np.testing.assert_array_equal(target.numpy(), want)
    wide = placed(start.copy())
    wide.index_add_(0, at, source)
    np.testing.assert_array_equal(wide.numpy(), want)
    if dtype != "int64":
        table = placed(start.copy()).requires_grad_()
        for read in (
            lambda t: t[at],
            lambda t: t.index_select(0, at),
            lambda t: F.embedding(at, t),
        ):
            (slope,) = fa.autograd.grad(read(table), table, source)
            np.testing.assert_array_equal(slope.numpy(), want - start)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("shape", [(70, 60, 9), (3, 4000, 5), (900, 40, 3)])
def test_pieces_of_reading(shape: tuple[int, ...]) -> None:
    """Threads read their own positions and write nowhere else."""
    draw = np.random.default_rng(7)
    x = draw.normal(size=shape)
    index = draw.integers(0, shape[1], 333)
    want = x[:, index]
    room = fa.full((want.size + 4096,), 7.0, dtype=fa.float64)
    out = room[: want.size].view(want.shape)
    fa.index_select(fa.tensor(x), 1, fa.tensor(index), out=out)
    np.testing.assert_array_equal(out.numpy(), want)
    assert (room[want.size :] == 7).all()
    np.testing.assert_array_equal(fa.tensor(x)[:, fa.tensor(index)].numpy(), want)


# ---- linear algebra ----


@pytest.mark.parametrize("dtype", [fa.float32, fa.float64, fa.complex128])
def test_first_zero_without_exchanges(dtype: fa.dtype) -> None:
    """The place of the first pivot that is zero, from 1; 0 where there is none."""
    for n in (1, 2, 5):
        for place in range(n + 1):
            a = fa.eye(n, dtype=dtype)
            if place < n:
                a[place, place] = 0
            if n > 2 and place < n - 1:
                a[n - 1, n - 1] = 0  # a second one is not told
            _, pivots, info = fa.linalg.lu_factor_ex(a, pivot=False)
            assert info.item() == (place + 1 if place < n else 0)
            assert pivots.tolist() == list(range(1, n + 1)) or not pivots.numel()
    m = np.array([[4.0, 3, 2], [8, 8, 5], [4, 7, 9], [12, 11, 10]])
    LU = fa.linalg.lu_factor(fa.tensor(m).to(dtype), pivot=False)[0].numpy()
    low = np.tril(LU, -1)[:, :3] + np.eye(4, 3)
    np.testing.assert_allclose(low @ np.triu(LU[:3]), m, rtol=1e-6)


@pytest.mark.parametrize("power", [-1050, -600, 0, 600, 1000])
@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, math.inf, -math.inf, -1])
def test_norms_of_complex_numbers_of_any_size(p: float, power: int) -> None:
    """A power of two brings the norm with it, exactly but for subnormal numbers."""
    draw = np.random.default_rng(8)
    for n in range(1, 8):
        z = draw.integers(1, 9, n) + 1j * draw.integers(-9, 9, n)
        want = np.linalg.norm(z, p) if p != 0.5 else (np.abs(z) ** 0.5).sum() ** 2
        x = fa.ldexp(fa.view_as_real(fa.tensor(z)), fa.tensor(float(power)).double())
        got = fa.linalg.vector_norm(fa.view_as_complex(x), p).item()
        least = 2.0**-1071  # of which results that small are multiples, in double
        assert math.isclose(got, math.ldexp(want, power), rel_tol=1e-9, abs_tol=least)


def test_products_of_what_is_not_finite() -> None:
    far = [2.0**600, 2.0**600, 2.0**-700, 2.0**-500]
    for special in (0.0, math.inf, -math.inf, math.nan, -0.0):
        for place in range(5):
            x = [*far[:place], special, *far[place:]]
            want = special * 1.0
            got = fa.tensor(x, dtype=fa.float64).prod().item()
            assert got == want or (math.isnan(got) and math.isnan(want))
    z = fa.tensor([2.0**600 + 0j, 2.0**600 * 1j, 2.0**-700, 2.0**-500], dtype=fa.complex128)
    assert z.prod().item() == 1j


def test_chains_of_products_in_any_order() -> None:
    draw = np.random.default_rng(9)
    for sizes in ((2, 9, 3, 7, 1, 5), (9, 1, 8, 1, 7), (1, 5, 5, 1)):
        parts = [draw.integers(-3, 4, s).astype(float) for s in itertools.pairwise(sizes)]
        want = np.linalg.multi_dot(parts)
        np.testing.assert_array_equal(fa.linalg.multi_dot([fa.tensor(p) for p in parts]), want)


# ---- derivatives beside branches ----


def test_slopes_of_products_with_zeros() -> None:
    """Of scatter_reduce by "prod": each slope is the product of the others."""
    index = [0, 1, 1, 2, 0, 2, 3]
    for values, start in (
        ([2.0, 0, 3, 0, 5, 0, 7], [2.0, 3, 4, 5]),
        ([2.0, 3, 0, 5, 1, 2, 0], [0.0, 2, 0, 3]),
    ):
        for whole in (True, False):
            a = fa.tensor(start, dtype=fa.float64, requires_grad=True)
            b = fa.tensor(values, dtype=fa.float64, requires_grad=True)
            weight = fa.tensor([1.0, 2, 3, 4], dtype=fa.float64)
            y = a.scatter_reduce(0, fa.tensor(index), b, "prod", include_self=whole)
            ga, gb = fa.autograd.grad((y * weight).sum(), (a, b))
            for k, i in enumerate(index):
                rest = math.prod(v for j, v in enumerate(values) if index[j] == i and j != k)
                assert gb[k].item() == (i + 1) * rest * (start[i] if whole else 1)
            for i in range(4):
                rest = math.prod(v for j, v in enumerate(values) if index[j] == i)
                assert ga[i].item() == ((i + 1) * rest if whole else 0)


# Second derivatives there, of each slope by each argument.
CURVED: dict[tuple[str, float, float], list[list[float]]] = {
    ("xlogy", 0, 2): [[0, 0.5], [0.5, 0]],
    ("xlogy", 2, 1): [[0, 1], [1, -2]],
    ("xlog1py", 0, 1): [[0, 0.5], [0.5, 0]],
    ("xlog1py", 2, 0): [[0, 1], [1, -2]],
    ("pow", 0, 2): [[2, 0], [0, 0]],
    ("hypot", 0, 0): [[0, 0], [0, 0]],
    ("hypot", 3, 0): [[0, 0], [0, 1 / 3]],
    ("hypot", 0, -2): [[0.5, 0], [0, 0]],
}
KEEP = {"allow_unused": True, "materialize_grads": True, "retain_graph": True}
POINTS: dict[str, tuple[Callable[..., fa.Tensor], list[tuple[float, float]], list[list[float]]]] = {
    # At guarded points: the slopes by each argument, as torch's rules have them.
    "xlogy": (
        fa.xlogy,
        [(0, 0), (0, -1), (0, 2), (2, 1)],
        [[0, 0], [0, 0], [math.log(2), 0], [0, 2]],
    ),
    "xlog1py": (
        fa.special.xlog1py,
        [(0, -1), (0, -2), (0, 1), (2, 0)],
        [[0, 0], [0, 0], [math.log(2), 0], [0, 2]],
    ),
    "pow": (
        fa.pow,
        [(0, 0), (0, 2), (0, 1), (2, 0), (1, 3)],
        [[0, 0], [0, 0], [1, 0], [0, math.log(2)], [3, 0]],
    ),
    "hypot_slope": (OPS.hypot_slope, [(0, 0), (0, 2), (3, 0)], [[0, 0], [0.5, 0], [0, 0]]),
    "hypot": (fa.hypot, [(0, 0), (3, 0), (0, -2), (3, 4)], [[0, 0], [1, 0], [0, -1], [0.6, 0.8]]),
}


@pytest.mark.parametrize("name", POINTS)
def test_slopes_at_guarded_points(name: str) -> None:
    f, points, slopes = POINTS[name]
    for (a, b), want in zip(points, slopes, strict=True):
        x, y = (fa.tensor(v, dtype=fa.float64, requires_grad=True) for v in (a, b))
        got = fa.autograd.grad(f(x, y), (x, y), create_graph=True)
        np.testing.assert_allclose([g.item() for g in got], want, atol=1e-15, err_msg=str((a, b)))
        for g, curved in zip(got, CURVED.get((name, a, b), ()), strict=False):
            again = fa.autograd.grad(g, (x, y), **KEEP)
            np.testing.assert_allclose([v.item() for v in again], curved, err_msg=str((a, b)))


def test_logarithms_of_losses_end_at_minus_100() -> None:
    for e in (-99.0, -99.5, -99.99, -100.01, -100.5, -101.0, -103.0, -300.0):
        x = fa.tensor([math.exp(e)], dtype=fa.float64)
        one, none = fa.ones(1, dtype=fa.float64), fa.zeros(1, dtype=fa.float64)
        want = min(-e, 100.0)
        np.testing.assert_allclose(F.binary_cross_entropy(x, one).item(), want, rtol=1e-12)
        target = one.clone().requires_grad_()
        (g,) = fa.autograd.grad(F.binary_cross_entropy(x, target), target)
        np.testing.assert_allclose(g.item(), want, rtol=1e-12)
    for answer in (0.0, 1.0):
        x = fa.tensor([answer], dtype=fa.float64)
        assert F.binary_cross_entropy(x, 1 - x).item() == 100.0
        target = (1 - x).requires_grad_()
        (g,) = fa.autograd.grad(F.binary_cross_entropy(x, target), target)
        assert g.item() == (100.0 if answer == 0 else -100.0)
    assert F.binary_cross_entropy(none, none).item() == 0.0


@pytest.mark.parametrize("close", [(1.0, 2.0), (2.0, 1.0), (-1.0, -2.0), (0.0, 1.0)])
def test_closeness_on_the_bound(close: tuple[float, float]) -> None:
    """abs(self - other) <= atol + rtol * abs(other), the bound itself being close."""
    a, b = (fa.tensor([v], dtype=fa.float64) for v in close)
    for rtol, atol in ((0.0, 1.0), (1.0 / abs(close[1]), 0.0), (0.5 / abs(close[1]), 0.5)):
        assert fa.isclose(a, b, rtol=rtol, atol=atol).item()
        assert not fa.isclose(a, b, rtol=rtol * 0.99, atol=atol * 0.99).item()
    assert not fa.isclose(a, b, rtol=0.0, atol=0.0).item()


# ---- decompositions ----


@pytest.mark.parametrize("classes", [0, 1, 2])
def test_decomposed_loss_of_few_classes(classes: int) -> None:
    x = fa.arange(1.0, 1 + 3.0 * classes, dtype=fa.float64).reshape(3, classes) / 4
    rows = 3 if classes else 0
    x, target = x[:rows], fa.zeros(rows, dtype=fa.int64)
    for reduction in ("none", "sum"):
        found = []
        for kernel in (True, False):
            leaf = x.clone().requires_grad_()
            if kernel:
                y = F.cross_entropy(leaf, target, reduction=reduction)
                (g,) = fa.autograd.grad(y.sum(), leaf)
            else:
                with without_kernel("softmax_nll_forward"):
                    y = F.cross_entropy(leaf, target, reduction=reduction)
                    (g,) = fa.autograd.grad(y.sum(), leaf)
            found.append((y.detach().numpy(), g.numpy()))
        for kept, made in zip(*found, strict=True):
            np.testing.assert_allclose(made, kept, atol=1e-14)
        if classes == 1:
            np.testing.assert_allclose(found[0][0], 0)


def test_decomposed_tops_of_few_classes() -> None:
    for rows, classes in ((2, 0), (2, 1), (2, 3)):
        x = fa.arange(1.0, 1 + float(rows * classes), dtype=fa.float64).reshape(rows, classes)
        target = fa.full((rows,), -100)
        run = lambda x=x, t=target: OPS.softmax_nll_forward(x, t, None, -100, "sum")  # noqa: E731
        want = run()
        with without_kernel("softmax_nll_forward"):
            got = run()
        for g, w in zip(got, want, strict=True):
            assert g.shape == w.shape and g.dtype == w.dtype
            if classes:
                np.testing.assert_allclose(g.numpy(), w.numpy(), atol=1e-14)


STEPS = [o for o in operators() if o.name.endswith("_step") and o.composite and o.samples()]


@pytest.mark.parametrize("op", STEPS, ids=lambda op: op.name)
@pytest.mark.parametrize("count", [1, 2])
def test_decomposed_steps_of_some_parameters(op: Any, count: int) -> None:
    """All lists cut to one parameter, or to two."""
    for sample in op.samples():
        _, args, kwargs = arguments(sample, "float64")
        args = [a[:count] if isinstance(a, list) and a and fa.is_tensor(a[0]) else a for a in args]

        def copied(args: list[Any] = args) -> list[Any]:
            return [
                [t.clone() for t in a] if isinstance(a, list) and a and fa.is_tensor(a[0]) else a
                for a in args
            ]

        kept, made = copied(), copied()
        getattr(OPS, op.name)(*kept, **kwargs)
        with without_kernel(op.name):
            getattr(OPS, op.name)(*made, **kwargs)
        for k, m in zip(kept, made, strict=True):
            if isinstance(k, list) and k and fa.is_tensor(k[0]):
                for a, b in zip(k, m, strict=True):
                    np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-9, atol=1e-12)
