"""The normal distribution function and what is made of it, in the tail too, against mpmath."""

from __future__ import annotations

import facula as fa
import mpmath
import numpy as np
import pytest
from harness import run_python

POINTS = [
    -36.9,
    -25.3,
    -12.9,
    -12.1,
    -8.77,
    -5.42,
    -3.0001,
    -2.1,
    -1.3,
    -0.7,
    -1e-3,
    1e-30,
    0.3,
    1.1,
    2.7,
    5.9,
]


def units(got: np.ndarray, want: list[mpmath.mpf]) -> float:
    """The largest distance in units of the last place, of results that are normal numbers."""
    least = np.finfo(got.dtype).tiny
    errors = []
    for g, w in zip(got.tolist(), want, strict=True):
        if abs(w) > least:
            errors.append(abs(g - w) / mpmath.mpf(float(np.spacing(got.dtype.type(abs(w))))))
    return float(max(errors))


def check(dtype: str, limit: float) -> None:
    rng = np.random.default_rng(0)
    spread = rng.uniform(-13 if dtype == "float32" else -37, 8, 3000)
    x = np.concatenate([np.array(POINTS), spread]).astype(dtype)
    cdf = [mpmath.ncdf(mpmath.mpf(v)) for v in x.tolist()]
    assert units(fa.special.ndtr(fa.tensor(x)).numpy(), cdf) < limit
    gelu = [mpmath.mpf(v) * c for v, c in zip(x.tolist(), cdf, strict=True)]
    assert units(fa.nn.functional.gelu(fa.tensor(x)).numpy(), gelu) < limit


@pytest.mark.parametrize(("dtype", "limit"), [("float32", 4), ("float64", 10)])
def test_tail(dtype, limit):
    check(dtype, limit)


@pytest.mark.parametrize("level", ["baseline", "v3"])
def test_tail_at_other_levels(level):
    code = "import test_normal; test_normal.check('float32', 4); test_normal.check('float64', 10)"
    run_python(code, FACULA_ISA=level)


def test_ends():
    got = fa.special.ndtr(fa.tensor([-np.inf, -1e30, -0.0, 1e30, np.inf, np.nan])).numpy()
    np.testing.assert_array_equal(got, np.array([0, 0, 0.5, 1, 1, np.nan], np.float32))


def test_tanh_form_keeps_its_tail():
    """0.5 x (1 + tanh(u)) is all rounding error below -5."""
    x = np.linspace(-9, 3, 500).astype(np.float32)
    got = fa.nn.functional.gelu(fa.tensor(x), approximate="tanh").numpy()
    for v, g in zip(x.tolist(), got.tolist(), strict=True):
        u = mpmath.sqrt(2 / mpmath.pi) * (v + mpmath.mpf("0.044715") * mpmath.mpf(v) ** 3)
        want = mpmath.mpf(v) / (1 + mpmath.exp(-2 * u))
        assert abs(g - want) <= 3e-5 * abs(want)
