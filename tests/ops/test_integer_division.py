"""Integer quotients and remainders over all pairs of small types and the corners of large ones."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest

NAMES = ["uint8", "int8", "int16", "int32", "int64"]


def corners(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    some = rng.integers(info.min, info.max, 300, dtype=dtype, endpoint=True)
    near = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 100, info.max // 2]
    if info.min < 0:
        near += [-1, -2, -3, -7, -100]
    values = np.concatenate([np.array(near, dtype), some])
    a, b = np.meshgrid(values, values[values != 0])
    return a.ravel(), b.ravel()


@pytest.mark.parametrize("dtype", NAMES)
def test_quotients(dtype):
    a, b = corners(dtype)
    x, y = fa.tensor(a), fa.tensor(b)
    with np.errstate(over="ignore"):
        floor, rest, truncated = np.floor_divide(a, b), np.remainder(a, b), np.fmod(a, b)
    np.testing.assert_array_equal((x // y).numpy(), floor)
    np.testing.assert_array_equal((x % y).numpy(), rest)
    np.testing.assert_array_equal(fa.fmod(x, y).numpy(), truncated)
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    exact = [abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1) for p, q in pairs]
    bits = 8 * a.itemsize
    wrapped = np.array([v % 2**bits for v in exact], f"uint{bits}").view(dtype)
    got = fa.div(x, y, rounding_mode="trunc").numpy()
    np.testing.assert_array_equal(got, wrapped)


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("at", [0, 5, 63, 1000, 70_000])
def test_zero_divisors_are_found(dtype, at):
    b = np.ones(70_001, dtype)
    b[at] = 0
    x = fa.ones(70_001, dtype=getattr(fa, dtype))
    for function in (fa.floor_divide, fa.remainder, fa.fmod):
        with pytest.raises(ZeroDivisionError):
            function(x, fa.tensor(b))
    assert (x // x).sum().item() == 70_001
