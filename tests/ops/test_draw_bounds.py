"""Draws lie where they belong in every dtype, at its ends too, and are spread as they should be."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import facula as fa
import facula.nn.functional as F
import numpy as np
import pytest
import scipy.stats

N = 100_000
FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")


def wide(t: fa.Tensor) -> np.ndarray:
    return t.to(fa.float64).numpy()


def empty(dtype: str, n: int = N) -> fa.Tensor:
    return fa.empty(n, dtype=getattr(fa, dtype))


EPSILON = {name: fa.finfo(getattr(fa, name)).eps for name in FLOATS}
INTERVALS = [
    (1000.0, 1001.0),
    (-1001.0, -1000.0),
    (0.1, 0.7),
    (-0.7, -0.1),
    (0.0, 1e-7),
    (-1e-7, 0.0),
    (255.0, 257.0),
    (2047.0, 2050.0),
    (-3.0, 5.0),
    (0.0, 30000.0),
    (1.0, 1.0 + 2**-10),
    (1e8, 1e8 + 64),
    (60000.0, 60016.0),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_uniform_stays_inside(dtype: str, low: float, high: float) -> None:
    fa.manual_seed(1)
    t = fa.tensor([low, high], dtype=fa.float64).to(getattr(fa, dtype))
    some = wide(fa.nextafter(t, t.flip(0))).tolist() + wide(t).tolist()
    if not any(low <= v < high for v in some):
        with pytest.raises(RuntimeError, match=r"has no number from|must be finite"):
            empty(dtype).uniform_(low, high)
        return
    x = wide(empty(dtype).uniform_(low, high))
    assert x.min() >= low and x.max() < high
    # As far from uniform as rounding takes it.
    finest = 2.0**-24 if dtype == "float16" else 0.0
    step = max(EPSILON[dtype] * max(abs(low), abs(high)), finest)
    distance = scipy.stats.kstest(x, "uniform", (low, high - low)).statistic
    assert distance < 3 / math.sqrt(N) + step / (high - low)


def test_uniform_at_the_ends_of_dtypes() -> None:
    fa.manual_seed(2)
    for dtype in FLOATS:
        kind = getattr(fa, dtype)
        most, tiny = fa.finfo(kind).max, fa.finfo(kind).tiny
        for low, high in ((0, most), (-most, 0), (-most / 2, most / 2), (0, tiny), (-tiny, tiny)):
            x = wide(empty(dtype, 20_000).uniform_(low, high))
            assert np.isfinite(x).all() and x.min() >= low and x.max() < high
            place = (x / 2 - low / 2) / (high / 2 - low / 2)
            assert place.mean() == pytest.approx(0.5, abs=0.02)
        below = fa.nextafter(fa.tensor(1.0, dtype=kind), fa.tensor(0.0, dtype=kind)).item()
        assert set(empty(dtype, 1000).uniform_(below, 1).tolist()) == {below}
        for same in (0.0, 3.0, -most):
            assert set(empty(dtype, 100).uniform_(same, same).tolist()) == {same}
    with pytest.raises(RuntimeError, match="from must not be greater than to"):
        fa.zeros(2).uniform_(1, 0)
    z = fa.empty(N, dtype=fa.complex64).uniform_(1000, 1000.0002)
    assert wide(fa.view_as_real(z)).max() < 1000.0002


@pytest.mark.parametrize("dtype", FLOATS)
def test_unit_draws(dtype: str) -> None:
    fa.manual_seed(3)
    kind = getattr(fa, dtype)
    for t in (fa.rand(N, dtype=kind), fa.rand_like(fa.zeros(N, dtype=kind))):
        x = wide(t)
        assert x.min() >= 0 and x.max() < 1
        grid = {"float16": 2**-11, "bfloat16": 2**-8}.get(dtype, 0)
        assert scipy.stats.kstest(x + grid / 2, "uniform").statistic < 3 / math.sqrt(N) + grid


@pytest.mark.parametrize("dtype", FLOATS)
def test_integers_of_floating_dtypes(dtype: str) -> None:
    """The numbers of a floating dtype thin out: none is rounded to one that is outside."""
    fa.manual_seed(4)
    most = 60000 if dtype == "float16" else 2**62
    for low, high in ((0, 10), (0, 4000), (-4000, -1), (250, 259), (0, most), (2**11, 2**11 + 3)):
        x = empty(dtype).random_(low, high).to(fa.int64)
        assert low <= x.min().item() and x.max().item() < high
        y = fa.randint(low, high, (N,), dtype=getattr(fa, dtype)).to(fa.int64)
        assert low <= y.min().item() and y.max().item() < high
    for few in (1, 100):
        assert (empty(dtype, 1000).random_(few) < few).all()
    if dtype in ("float16", "bfloat16"):
        with pytest.raises(RuntimeError, match=f"{dtype} has none of the integers from 4097"):
            empty(dtype).random_(4097, 4098)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_to_the_ends(dtype: str) -> None:
    fa.manual_seed(5)
    info = fa.iinfo(getattr(fa, dtype))
    last = min(info.max, 2**63 - 2)
    for low, high in ((info.min, last + 1), (last - 2, last + 1), (info.min, info.min + 2)):
        for x in (
            fa.randint(low, high, (20_000,), dtype=getattr(fa, dtype)),
            empty(dtype, 20_000).random_(low, high),
        ):
            assert low <= x.min().item() and x.max().item() < high
            if high - low < 4:
                assert len(set(x.tolist())) == high - low
    x = empty(dtype, 20_000).random_()
    assert x.min().item() >= 0
    assert x.to(fa.float64).mean().item() == pytest.approx(info.max / 2, rel=0.03)
    if dtype == "int64":
        x = empty(dtype, 20_000).random_(info.min, None)
        assert (x < 0).to(fa.float64).mean().item() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("dtype", FLOATS)
def test_exponential_is_positive(dtype: str) -> None:
    fa.manual_seed(6)
    for rate in (1.0, 1e3, 1e-3, 1e7):
        x = wide(empty(dtype).exponential_(rate))
        assert x.min() > 0 and np.isfinite(x).all()
    tail = empty(dtype).exponential_(1e300)
    assert (tail > 0).all()
    x = wide(empty(dtype).exponential_(2.0))
    distance = scipy.stats.kstest(x, "expon", (0, 0.5)).statistic
    assert distance < 3 / math.sqrt(N) + (2**-8 if dtype == "bfloat16" else 2**-11)


@pytest.mark.parametrize("dtype", FLOATS)
def test_other_distributions(dtype: str) -> None:
    """Against SciPy's, in 16 bits as far as rounding allows."""
    fa.manual_seed(7)
    room = 3 / math.sqrt(N) + EPSILON[dtype]

    def distance(t: fa.Tensor, name: str, *args: Any) -> float:
        return float(scipy.stats.kstest(wide(t), getattr(scipy.stats, name)(*args).cdf).statistic)

    assert distance(empty(dtype).normal_(1, 2), "norm", 1, 2) < room
    assert distance(empty(dtype).cauchy_(1, 2), "cauchy", 1, 2) < room
    assert distance(empty(dtype).log_normal_(0.5, 0.7), "lognorm", 0.7, 0, math.exp(0.5)) < room
    assert not empty(dtype).cauchy_().isnan().any()
    trunc = fa.nn.init.trunc_normal_(empty(dtype), 0.0, 1.0, -1.0, 2.0)
    assert distance(trunc, "truncnorm", -1, 2) < room
    assert trunc.min() >= -1 and trunc.max() <= 2


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_geometric(dtype: str) -> None:
    fa.manual_seed(8)
    for p in (1e-9, 1e-3, 0.3, 1 - 1e-9):
        x = empty(dtype).geometric_(p)
        assert x.min() >= 1
    x = wide(empty(dtype).geometric_(0.3))
    for k in (1, 2, 3):
        share = scipy.stats.geom.pmf(k, 0.3)
        assert abs((x == k).mean() - share) < 6 * math.sqrt(share / N)


def test_tails_of_truncated_normal_numbers() -> None:
    """The ends of a wide interval are not drawn in their stead."""
    fa.manual_seed(9)
    for dtype in FLOATS:
        x = fa.nn.init.trunc_normal_(empty(dtype), 0.0, 1.0, -100.0, 100.0)
        assert x.abs().max() < 7


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "ends", [(8.0, 9.0), (-9.0, -8.0), (0.5, 0.5005), (-0.333, 0.777), (40.0, 41.0)]
)
def test_parts_of_normal_numbers(dtype: str, ends: tuple[float, float]) -> None:
    """Within the interval as given, not as the dtype rounds it, and spread as they should."""
    fa.manual_seed(10)
    kind, (a, b) = getattr(fa, dtype), ends
    if (a, b) == (0.5, 0.5005) and dtype == "bfloat16":
        b = 0.51
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the mean is far off
        x = wide(fa.nn.init.trunc_normal_(fa.empty(N, dtype=kind), 0.0, 1.0, a, b))
    assert x.min() >= a and x.max() <= b
    if dtype in ("float64", "float32"):
        expected = scipy.stats.truncnorm(a, b)
        assert (
            scipy.stats.kstest(x, expected.cdf).statistic < 3 / math.sqrt(N) + EPSILON[dtype] * 1e4
        )


def test_parts_that_a_dtype_has_not() -> None:
    with pytest.raises(ValueError, match="has no number from"):
        fa.nn.init.trunc_normal_(fa.empty(3, dtype=fa.bfloat16), 0.0, 1.0, 1.001, 1.002)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "ends", [(1000.0, 1001.0), (0.99, 1.0), (-1.0, -0.99), (60000.0, 60032.0), (0.0, 1.0)]
)
def test_uniform_distribution_stays_below_its_end(dtype: str, ends: tuple[float, float]) -> None:
    fa.manual_seed(11)
    low, high = (fa.tensor(v, dtype=getattr(fa, dtype), requires_grad=True) for v in ends)
    if not low < high:
        return
    x = fa.distributions.Uniform(low, high).rsample((N,))
    assert (x >= low).all() and (x < high).all()
    slopes = fa.autograd.grad(x.double().mean(), (low, high))
    assert sum(s.item() for s in slopes) == pytest.approx(1, abs=0.01)


def test_normal_of_no_and_infinite_deviation() -> None:
    fa.manual_seed(10)
    for dtype in FLOATS:
        assert (empty(dtype, 1000).normal_(3, 0) == 3).all()
        assert not empty(dtype, 1 << 20).normal_(3, math.inf).isnan().any()
        assert not empty(dtype, 1 << 20).log_normal_(3, math.inf).isnan().any()


def test_certain_and_impossible() -> None:
    fa.manual_seed(11)
    for dtype in (*FLOATS, *INTEGERS, "bool"):
        assert empty(dtype).bernoulli_(1).all() and not empty(dtype).bernoulli_(0).any()
    for p in (0.0, 1.0):
        chances = fa.full((N,), p)
        assert (fa.bernoulli(chances) == p).all()
        assert (empty("float32").bernoulli_(chances) == p).all()


DROPOUTS: dict[str, tuple[Callable[..., fa.Tensor], tuple[int, ...]]] = {
    "dropout": (F.dropout, (40, 30)),
    "dropout1d": (F.dropout1d, (40, 30, 5)),
    "dropout2d": (F.dropout2d, (40, 30, 5, 2)),
    "dropout3d": (F.dropout3d, (40, 30, 5, 2, 2)),
    "alpha_dropout": (F.alpha_dropout, (40, 30)),
    "feature_alpha_dropout": (F.feature_alpha_dropout, (40, 30, 5)),
}


@pytest.mark.parametrize("name", DROPOUTS)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_dropped_is_gone(name: str, value: float) -> None:
    """An infinity or NaN that is dropped leaves none behind, in the value and in the gradient."""
    fa.manual_seed(12)
    function, shape = DROPOUTS[name]
    for dtype in FLOATS:
        x = fa.full(shape, value, dtype=getattr(fa, dtype), requires_grad=True)
        assert (function(x, 1.0, True) == 0).all()
        assert (function(x.detach().clone(), 1.0, True, True) == 0).all()
        y = function(x, 0.5, True)
        finite = y.isfinite()
        assert 0.3 < finite.to(fa.float32).mean().item() < 0.7
        (y * fa.where(finite, math.inf, 1.0)).sum().backward()
        assert (x.grad[finite] == 0).all()
        z = function(x.detach().clone(), 0.5, True, True)
        assert 0.3 < z.isfinite().to(fa.float32).mean().item() < 0.7
        assert function(x, 0.0, True) is x


def test_multinomial_draws_no_zero_weight() -> None:
    fa.manual_seed(13)
    for dtype in FLOATS:
        w = fa.zeros(1000, dtype=getattr(fa, dtype))
        w[3::7] = 1.0
        w[10] = fa.finfo(w.dtype).tiny
        for replacement in (True, False):
            for _ in range(20):
                drawn = fa.multinomial(w, 100, replacement)
                assert (w[drawn] > 0).all()
    for scale in (5e-324, 1e308):
        w = fa.tensor([0.0, 1.0, 0.0, 1.0], dtype=fa.float64) * scale
        for replacement in (True, False):
            picks = [fa.multinomial(w, 2, replacement).tolist() for _ in range(200)]
            assert {i for pick in picks for i in pick} == {1, 3}
    mixed = fa.tensor([0.0, 5e-324, 1e300], dtype=fa.float64)
    assert all(fa.multinomial(mixed, 2).tolist() == [2, 1] for _ in range(50))


def test_multinomial_of_nothing() -> None:
    """Rows may be none; a row has categories, and as many as are drawn without replacement."""
    for w, count, replacement in ((fa.ones(0, 3), 2, False), (fa.ones(0, 0), 2, True)):
        assert fa.multinomial(w, count, replacement).shape == (0, 2)
    assert sorted(fa.multinomial(fa.ones(2, 3), 3).sum(1).tolist()) == [3, 3]
    for w, count, text in (
        (fa.ones(2, 0), 1, "no categories"),
        (fa.ones(0), 1, "no categories"),
        (fa.ones(0, 0), 2, "cannot draw 2 of 0"),
        (fa.ones(3), 4, "cannot draw 4 of 3"),
        (fa.ones(1, 1, 3), 1, "one or two dims"),
        (fa.tensor(1.0), 1, "one or two dims"),
    ):
        with pytest.raises(RuntimeError, match=text):
            fa.multinomial(w, count)


LAST = {"bool": 1, "uint8": 255, "int8": 127, "int16": 32767, "float16": 65504}


@pytest.mark.parametrize("dtype", LAST)
def test_integers_that_a_dtype_has_not(dtype: str) -> None:
    kind, last = getattr(fa, dtype), LAST[dtype]
    least = 0 if dtype in ("bool", "uint8") else -last - (dtype != "float16")
    assert fa.randint(last, last + 1, (2,), dtype=kind).tolist() == [last] * 2
    assert fa.randint(least, least + 1, (2,), dtype=kind).tolist() == [least] * 2
    for low, high in ((last, last + 2), (least - 1, least + 1)):
        with pytest.raises(RuntimeError, match="do not fit"):
            fa.randint(low, high, (2,), dtype=kind)


@pytest.mark.parametrize(("dtype", "most"), [("uint8", 256), ("int8", 128), ("bfloat16", 257)])
def test_permutations_that_a_dtype_has(dtype: str, most: int) -> None:
    kind = getattr(fa, dtype)
    got = fa.randperm(most, dtype=kind)
    assert got.dtype == kind and sorted(got.tolist()) == list(range(most))
    with pytest.raises(RuntimeError, match=f"holds the numbers below {most} only"):
        fa.randperm(most + 1, dtype=kind)


DRAWN: dict[str, tuple[tuple[float, ...], str]] = {
    # arguments, and of which kinds numbers are drawn
    "uniform_": ((), "float complex"),
    "normal_": ((), "float complex"),
    "cauchy_": ((), "float"),
    "log_normal_": ((), "float"),
    "exponential_": ((), "float"),
    "geometric_": ((0.5,), "float int"),
    "random_": ((), "float int bool"),
    "bernoulli_": ((0.5,), "float int bool complex"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_kinds_of_numbers_that_are_drawn(name: str) -> None:
    args, kinds = DRAWN[name]
    for kind, dtypes in (
        ("float", ("float16", "bfloat16", "float32", "float64")),
        ("complex", ("complex64", "complex128")),
        ("int", ("uint8", "int8", "int16", "int32", "int64")),
        ("bool", ("bool",)),
    ):
        for dtype in dtypes:
            x = fa.zeros(3, dtype=getattr(fa, dtype))
            if kind in kinds.split():
                assert getattr(x, name)(*args) is x
                continue
            with pytest.raises((RuntimeError, TypeError), match=dtype):
                getattr(x, name)(*args)


def test_refused_ranges() -> None:
    for kind in (fa.bool, fa.complex64):
        with pytest.raises((RuntimeError, NotImplementedError), match="not implemented"):
            fa.randperm(2, dtype=kind)
    for low, high in ((3, 3), (4, 3)):
        with pytest.raises(RuntimeError, match="less than"):
            fa.zeros(2).random_(low, high)
        with pytest.raises(RuntimeError, match="less than"):
            fa.randint(low, high, (2,))
    for bounds in ((), (3,), (1, 3)):
        with pytest.raises(TypeError, match="not implemented for complex64"):
            fa.zeros(2, dtype=fa.complex64).random_(*bounds)


def test_gumbel_softmax_is_finite() -> None:
    fa.manual_seed(14)
    for dtype in FLOATS:
        for hard in (False, True):
            y = F.gumbel_softmax(fa.zeros(20_000, 8, dtype=getattr(fa, dtype)), hard=hard)
            assert y.isfinite().all()
        counts = wide(y).sum(0)
        assert np.abs(counts / 20_000 - 1 / 8).max() < 0.02


def test_slopes_of_rrelu() -> None:
    fa.manual_seed(15)
    for dtype in FLOATS:
        x = fa.full((N,), -1.0, dtype=getattr(fa, dtype))
        slopes = -wide(F.rrelu(x, 0.9, 0.99, True))
        assert slopes.min() >= 0.9 and slopes.max() < 0.99


def test_made_tensors_stay_below_their_end() -> None:
    from facula.testing import make_tensor

    fa.manual_seed(16)
    for dtype in FLOATS:
        x = wide(make_tensor(N, dtype=getattr(fa, dtype), device="cpu", low=1000, high=1008))
        assert x.min() >= 1000 and x.max() < 1008


def test_streams_stay() -> None:
    """What was right before is drawn still: values of seeds, from the first version on."""
    fa.manual_seed(17)
    half = fa.empty(6, dtype=fa.float16).uniform_(-3, 5)
    single = fa.empty(4).uniform_(2, 7)
    whole = fa.randint(0, 100, (5,), dtype=fa.bfloat16)
    waits = fa.empty(3).exponential_(2.0)
    assert (half.tolist(), single.tolist(), whole.tolist(), waits.tolist()) == STREAMS


STREAMS = (
    [0.26953125, 2.16015625, -0.5625, -0.39453125, 1.9765625, 1.81640625],
    [4.80167818069458, 3.5499165058135986, 6.985031604766846, 3.257455587387085],
    [23.0, 83.0, 28.0, 75.0, 34.0],
    [0.7573198080062866, 0.6839474439620972, 0.10529039055109024],
)
