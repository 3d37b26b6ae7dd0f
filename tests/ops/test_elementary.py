"""Elementary functions in single precision over all kinds of numbers, by level of instructions."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
from harness import run_python

FUNCTIONS = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin,
    "cos": np.cos,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "atan": np.arctan,
    "sqrt": np.sqrt,
}
SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    -1e-45,
    1e-38,
    -1e-38,
    3.4e38,
    -3.4e38,
    1.0,
    -1.0,
]
EDGES = [
    -104.5,
    -103.9,
    -87.4,
    -87.3,
    88.72,
    88.73,
    -150.0,
    -149.0,
    -126.0,
    127.9999,
    128.0,
    0.5,
    2.0,
]


def numbers() -> np.ndarray:
    """Every 65,521st bit pattern, and the numbers around which functions change."""
    bits = np.arange(0, 2**32, 65521, dtype=np.uint64).astype(np.uint32)
    near = np.random.default_rng(0).normal(size=4096).astype(np.float32) * np.float32(4)
    given = np.array(SPECIAL + EDGES, np.float32)
    return np.concatenate([bits.view(np.float32), near, given])


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of single precision."""
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
        distance = np.abs(got.astype(np.float64) - want) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same, 0, np.where(np.isfinite(distance), distance, np.inf))


def check(name: str) -> None:
    x = numbers()
    if name in ("sin", "cos"):
        x = x[~(np.abs(x) > 1e6) | ~np.isfinite(x)]
    with np.errstate(all="ignore"):
        want = FUNCTIONS[name](x.astype(np.float64))
    got = getattr(fa, name)(fa.tensor(x)).numpy()
    error = ulps(got, want)
    worst = int(np.argmax(error))
    assert error[worst] <= 4, (name, x[worst], got[worst], want[worst], error[worst])
    zero = want == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(want[zero])), name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(name: str) -> None:
    check(name)


@pytest.mark.parametrize("level", ["baseline", "v3"])
def test_accuracy_of_lower_levels(level: str) -> None:
    code = "import test_elementary as t\nfor name in t.FUNCTIONS: t.check(name)"
    run_python(code, FACULA_ISA=level)
