"""Random sampling: moments, bounds, reproducibility, and numbers that do not depend on threads."""

from __future__ import annotations

import functools
import math

import facula as fa
import numpy as np
import pytest
import scipy.stats

N = 200_000
FLOATS = (fa.float64, fa.float32, fa.float16, fa.bfloat16)


def numbers(t: fa.Tensor) -> np.ndarray:
    if t.is_complex():
        return np.array(t.tolist())
    return np.array(t.to(fa.float64).tolist())


def check_moments(x: np.ndarray, mean: float, std: float) -> None:
    """Within six standard errors of the mean, and the deviation within a few per cent."""
    assert abs(x.mean() - mean) < 6 * std / math.sqrt(x.size) + 1e-3 * std
    assert abs(x.std() - std) < 0.03 * std


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform(dtype: fa.dtype) -> None:
    fa.manual_seed(1)
    for t in (fa.rand(N, dtype=dtype), fa.rand_like(fa.zeros(N, dtype=dtype))):
        x = numbers(t)
        assert x.min() >= 0 and x.max() < 1
        check_moments(x, 0.5, math.sqrt(1 / 12))
        counts = np.histogram(x, 16, (0, 1))[0]
        assert ((counts - N / 16) ** 2 / (N / 16)).sum() < 60  # chi squared with 15 degrees
    x = numbers(fa.empty(N, dtype=dtype).uniform_(-3, 5))
    assert x.min() >= -3 and x.max() < 5
    check_moments(x, 1, 8 * math.sqrt(1 / 12))


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal(dtype: fa.dtype) -> None:
    fa.manual_seed(2)
    for t in (fa.randn(N, dtype=dtype), fa.randn_like(fa.zeros(N, dtype=dtype))):
        x = numbers(t)
        check_moments(x, 0, 1)
        assert abs((x**3).mean()) < 0.05 and abs((x**4).mean() - 3) < 0.15
        assert 3.5 < np.abs(x).max() < 7
        # neighbours and the two halves of a pair are independent
        for lag in (1, 16, 32):
            assert abs((x[:-lag] * x[lag:]).mean()) < 0.02
    check_moments(numbers(fa.empty(N, dtype=dtype).normal_(2, 3)), 2, 3)
    mean, std = fa.full((N,), 4.0, dtype=dtype), fa.full((N,), 0.5, dtype=dtype)
    for t in (
        fa.normal(mean, std),
        fa.normal(mean, 0.5),
        fa.normal(4.0, std),
        fa.normal(4.0, 0.5, (N,)),
    ):
        check_moments(numbers(t), 4, 0.5)


def test_normal_tails() -> None:
    """Shares beyond one, two and three standard deviations."""
    fa.manual_seed(3)
    x = np.abs(numbers(fa.randn(1_000_000)))
    for limit in (1, 2, 3):
        share = math.erfc(limit / math.sqrt(2))
        assert abs((x > limit).mean() - share) < 6 * math.sqrt(share / x.size)


def test_complex_numbers_have_variance_one() -> None:
    fa.manual_seed(4)
    x = numbers(fa.randn(N, dtype=fa.complex64))
    check_moments(x.real, 0, math.sqrt(0.5))
    check_moments(x.imag, 0, math.sqrt(0.5))
    x = numbers(fa.empty(N, dtype=fa.complex128).normal_(3, 2))
    check_moments(x.real, 3, math.sqrt(2))
    check_moments(x.imag, 0, math.sqrt(2))
    u = numbers(fa.rand(N, dtype=fa.complex64))
    check_moments(u.imag, 0.5, math.sqrt(1 / 12))


def test_uniform_spans_what_the_dtype_has() -> None:
    top = fa.finfo(fa.float32).max
    for low, high in ((-top, top), (-2 * top, 0.0), (0.0, 2 * top), (-0.6 * top, 0.6 * top)):
        with pytest.raises(RuntimeError, match="must be finite"):
            fa.empty(2).uniform_(low, high)
    x = numbers(fa.empty(1000).uniform_(0.4 * top, 0.9 * top))
    assert 0.4 * top <= x.min() < x.max() <= 0.9 * top


def test_integers() -> None:
    fa.manual_seed(5)
    for low, high in ((0, 10), (-7, 3), (0, 100_000), (0, 2**40), (-(2**62), 2**62)):
        x = numbers(fa.randint(low, high, (N,)))
        assert x.min() >= low and x.max() < high
        check_moments(x, (low + high - 1) / 2, (high - low) / math.sqrt(12))
    assert sorted(set(fa.randint(6, (1000,)).tolist())) == list(range(6))
    assert fa.randint(3, 5, (4,), dtype=fa.float32).dtype == fa.float32
    assert set(fa.randint_like(fa.zeros(100, dtype=fa.int8), -2, 2).tolist()) == {-2, -1, 0, 1}
    assert set(fa.empty(100, dtype=fa.uint8).random_(4).tolist()) == {0, 1, 2, 3}
    assert set(fa.empty(100).random_(2, 4).tolist()) == {2.0, 3.0}
    assert fa.empty(1000, dtype=fa.int8).random_().min() >= 0
    assert fa.empty(1000, dtype=fa.int64).random_().max() > 2**60
    with pytest.raises(RuntimeError, match="low must be less than high"):
        fa.randint(3, 3, (2,))
    with pytest.raises(RuntimeError, match="do not fit int8"):
        fa.randint(0, 1000, (2,), dtype=fa.int8)


def test_permutation() -> None:
    fa.manual_seed(6)
    for n in (0, 1, 2, 7, 1000, 100_000):
        assert sorted(fa.randperm(n).tolist()) == list(range(n))
    first = np.array([fa.randperm(4).tolist() for _ in range(6000)])
    for place in range(4):  # every number is as often in every place
        counts = np.bincount(first[:, place], minlength=4)
        assert np.abs(counts - 1500).max() < 6 * math.sqrt(1500 * 0.75)
    assert fa.randperm(5, dtype=fa.int32).dtype == fa.int32
    with pytest.raises(RuntimeError, match="uint8 holds"):
        fa.randperm(300, dtype=fa.uint8)


def test_bernoulli() -> None:
    fa.manual_seed(7)
    for p in (0.0, 0.25, 0.9, 1.0):
        draws = (
            fa.bernoulli(fa.full((N,), p)),
            fa.bernoulli(fa.zeros(N), p),
            fa.zeros(N, dtype=fa.int64).bernoulli_(p),
            fa.zeros(N).bernoulli_(fa.full((N,), p)),
        )
        for t in draws:
            x = numbers(t)
            assert set(np.unique(x)) <= {0.0, 1.0}
            assert abs(x.mean() - p) < 6 * math.sqrt(p * (1 - p) / N) + 1e-12


def test_probabilities() -> None:
    with pytest.raises(RuntimeError, match=r"must be in \[0, 1\]"):
        fa.bernoulli(fa.tensor([0.5, 1.5]))
    with pytest.raises(RuntimeError, match=r"bernoulli_\(\): p must be in \[0, 1\], not 1\.5"):
        fa.zeros(2).bernoulli_(fa.tensor([0.5, 1.5]))


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout(dtype: fa.dtype) -> None:
    """Zeros with probability p; the others scaled so that the mean stays, in the gradient too."""
    fa.manual_seed(15)
    for p in (0.0, 0.25, 0.9, 1.0):
        x = fa.ones(N, dtype=dtype).requires_grad_()
        y = fa.dropout(x, p)
        kept = numbers(y.detach()) != 0
        assert abs(kept.mean() - (1 - p)) < 6 * math.sqrt(p * (1 - p) / N) + 1e-12
        scale = np.array(fa.tensor(1 / (1 - p) if p < 1 else 0.0, dtype=dtype).item())
        np.testing.assert_array_equal(numbers(y.detach())[kept], scale)
        y.sum().backward()
        np.testing.assert_array_equal(numbers(x.grad), np.where(kept, scale, 0))
        for lag in (1, 7, 32):  # neighbours are independent
            assert abs((kept[:-lag] & kept[lag:]).mean() - (1 - p) ** 2) < 0.01
    x = fa.arange(6.0, dtype=dtype)
    assert fa.dropout(x, 0.5, training=False) is x
    y = fa.dropout(x, 0.5, inplace=True)
    assert y is x


@pytest.mark.parametrize(
    "name", ["dropout", "dropout1d", "alpha_dropout", "feature_alpha_dropout", "Dropout"]
)
def test_dropout_probabilities(name: str) -> None:
    """One fault has one error, whether an operator, a function or a module finds it."""
    x = fa.ones(2, 3, 4)
    module = getattr(fa.nn, name, None)
    call = module or functools.partial(getattr(fa.nn.functional, name), x)
    who = name if module else rf"{name}\(\)"
    for p in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=rf"^{who}: p must be in \[0, 1\], not {p}"):
            call(p)
    with pytest.raises(TypeError, match=rf"^{who}: argument 'p' must be a float, not str"):
        call("x")


def test_exponential() -> None:
    fa.manual_seed(8)
    for dtype in (fa.float32, fa.float64):
        x = numbers(fa.empty(N, dtype=dtype).exponential_(2.0))
        assert x.min() > 0
        check_moments(x, 0.5, 0.5)
    with pytest.raises(ValueError, match="lambd must be > 0, not 0"):
        fa.zeros(3).exponential_(0.0)


def test_geometric() -> None:
    fa.manual_seed(9)
    x = numbers(fa.empty(N).geometric_(0.3))
    assert x.min() >= 1 and (x == np.rint(x)).all()
    check_moments(x, 1 / 0.3, math.sqrt(0.7) / 0.3)
    assert abs((x == 1).mean() - 0.3) < 0.01


def test_cauchy() -> None:
    fa.manual_seed(10)
    x = numbers(fa.empty(N).cauchy_(1.0, 2.0))
    assert abs(np.median(x) - 1) < 0.05
    low, high = np.quantile(x, (0.25, 0.75))
    assert abs((high - low) / 2 - 2) < 0.1


def test_log_normal() -> None:
    fa.manual_seed(11)
    check_moments(np.log(numbers(fa.empty(N, dtype=fa.float64).log_normal_(0.5, 0.25))), 0.5, 0.25)


def test_poisson() -> None:
    fa.manual_seed(12)
    for rate in (0.0, 0.5, 4.0, 9.9, 10.0, 50.0, 1000.0):
        x = numbers(fa.poisson(fa.full((N,), rate)))
        assert (x >= 0).all() and (x == np.rint(x)).all()
        if rate > 0:
            check_moments(x, rate, math.sqrt(rate))
    for rate in (3.0, 10.0, 40.0):
        x = numbers(fa.poisson(fa.full((1_000_000,), rate))).astype(int)
        counts = np.bincount(x)
        want = x.size * scipy.stats.poisson.pmf(np.arange(counts.size), rate)
        often = want > 50
        chi = ((counts - want)[often] ** 2 / want[often]).sum()
        assert scipy.stats.chi2.sf(chi, often.sum() - 1) > 1e-4
    with pytest.raises(RuntimeError, match="must not be negative"):
        fa.poisson(fa.tensor([-1.0]))


def test_multinomial() -> None:
    fa.manual_seed(13)
    weights = fa.tensor([1.0, 0.0, 3.0, 4.0])
    x = np.array(fa.multinomial(weights, N, True).tolist())
    shares = np.bincount(x, minlength=4) / N
    assert shares[1] == 0 and np.abs(shares - np.array([0.125, 0, 0.375, 0.5])).max() < 0.01
    rows = fa.multinomial(weights.expand(20_000, 4), 2)
    assert rows.shape == (20_000, 2) and (rows[:, 0] != rows[:, 1]).all() and (rows != 1).all()
    first = np.bincount(np.array(rows[:, 0].tolist()), minlength=4) / 20_000
    assert np.abs(first - np.array([0.125, 0, 0.375, 0.5])).max() < 0.02
    for bad, text in ((fa.tensor([-1.0, 2.0]), "not negative"), (fa.zeros(3), "all zero")):
        with pytest.raises(RuntimeError, match=text):
            fa.multinomial(bad, 1)
    with pytest.raises(RuntimeError, match="without replacement"):
        fa.multinomial(fa.ones(3), 4)


DRAWS = [
    lambda g: fa.rand(100_003, generator=g),
    lambda g: fa.rand(50_001, generator=g, dtype=fa.float64),
    lambda g: fa.randn(100_003, generator=g),
    lambda g: fa.randn(50_001, generator=g, dtype=fa.float64),
    lambda g: fa.randint(0, 50, (100_003,), generator=g),
    lambda g: fa.randint(0, 2**50, (100_003,), generator=g),
    lambda g: fa.randperm(100_003, generator=g),
    lambda g: fa.zeros(100_003).bernoulli_(0.3, generator=g),
    lambda g: fa.bernoulli(fa.full((100_003,), 0.3), generator=g),
    lambda g: fa.empty(100_003).exponential_(generator=g),
    lambda g: fa.poisson(fa.full((100_003,), 12.0), g),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_reproducible_at_any_number_of_threads(draw) -> None:  # type: ignore[no-untyped-def]
    threads = fa.get_num_threads()
    results = []
    try:
        for n in (1, 2, 3):
            fa.set_num_threads(n)
            results.append(draw(fa.Generator().manual_seed(17)))
    finally:
        fa.set_num_threads(threads)
    assert all(fa.equal(results[0], r) for r in results)
    g = fa.Generator().manual_seed(17)
    first, second = draw(g), draw(g)
    assert fa.equal(first, results[0]) and not fa.equal(first, second)


@pytest.mark.parametrize("dtype", (fa.float32, fa.float64))
def test_element_depends_on_its_index_alone(dtype: fa.dtype) -> None:
    """A shorter draw, another shape and another layout hold the same numbers."""

    def of(make):  # type: ignore[no-untyped-def]
        return make(fa.Generator().manual_seed(3))

    for kind in (fa.rand, fa.randn):
        long = of(lambda g: kind(5000, generator=g, dtype=dtype))  # noqa: B023
        assert fa.equal(of(lambda g: kind(777, generator=g, dtype=dtype)), long[:777])  # noqa: B023
        assert fa.equal(of(lambda g: kind(50, 100, generator=g, dtype=dtype)).view(-1), long)  # noqa: B023
    strided = fa.zeros(100, 50, dtype=dtype).t()
    strided.uniform_(generator=fa.Generator().manual_seed(3))
    long = of(lambda g: fa.rand(5000, generator=g, dtype=dtype))
    assert fa.equal(strided.reshape(-1), long)


def test_known_numbers() -> None:
    """A seed stands for these numbers, on every machine and in every release."""
    g = fa.Generator().manual_seed(0)
    words = fa.randint(0, 1000, (4,), generator=g).tolist()
    uniform = fa.rand(3, generator=g, dtype=fa.float64).tolist()
    normal = fa.randn(3, generator=g, dtype=fa.float64).tolist()
    assert words == KNOWN["words"]
    assert uniform == pytest.approx(KNOWN["uniform"], abs=0)
    assert normal == pytest.approx(KNOWN["normal"], rel=1e-14)


def test_seed_of_the_default_generator() -> None:
    fa.manual_seed(42)
    a = fa.rand(5)
    fa.manual_seed(42)
    assert fa.equal(a, fa.rand(5))
    assert not fa.equal(a, fa.rand(5))


def test_gradient_of_a_filled_tensor_is_zero() -> None:
    x = fa.ones(4).requires_grad_()
    y = x * 2
    y.uniform_()
    y.sum().backward()
    assert (x.grad == 0).all()


KNOWN = {
    "words": [399, 972, 19, 787],
    "uniform": [0.9396580854702459, 0.8507002549690588, 0.7433432016459636],
    "normal": [-0.6615400616174514, 1.9947186992661115, 0.22315673837478958],
}
