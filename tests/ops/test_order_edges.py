"""Ordering with NaN, ties, zeros of both signs and infinities, over lengths where methods change.

The oracle is the definition, element by element in Python: NaN comes after all numbers, the two
zeros are equal, and what is equal keeps its order.
"""

from __future__ import annotations

import math
from typing import Any

import facula as fa
import numpy as np
import pytest
from harness import to_numpy

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int64")
LENGTHS = (1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 33, 64, 65, 130, 300, 2100)
KINDS = ("few", "nan", "zeros", "same", "falling")


def rows(kind: str, length: int, dtype: str) -> np.ndarray:
    """Two rows of numbers among which many are equal."""
    rng = np.random.default_rng(length)
    some = {
        "few": [3.0, -2.0, 0.5, 7.0, -7.0],
        "nan": [1.0, math.nan, -math.inf, math.inf, 2.0, math.nan, -0.0],
        "zeros": [0.0, -0.0, -0.0, 0.0, 1.0, -1.0],
        "same": [4.0],
        "falling": sorted(rng.integers(-100, 100, length), reverse=True),
    }[kind]
    picked = rng.choice(np.array(some, float), (2, length))
    if kind == "falling":
        picked = np.array([some, some[::-1]], float)
    if "int" in dtype:
        picked = np.nan_to_num(np.rint(picked * 2), nan=5, posinf=100, neginf=-100)
        return np.abs(picked) if dtype == "uint8" else picked
    return picked


def key(v: float) -> tuple[bool, float]:
    return (True, 0.0) if v != v else (False, v + 0.0)


def ranked(row: list[float], descending: bool = False) -> list[int]:
    if descending:
        return sorted(range(len(row)), key=lambda i: (not key(row[i])[0], -key(row[i])[1]))
    return sorted(range(len(row)), key=lambda i: key(row[i]))


def same(a: Any, b: Any) -> bool:
    """The same value, zeros with their signs and NaN too."""
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def equal(a: float, b: float) -> bool:
    return key(a) == key(b)


def tensors(kind: str, length: int, dtype: str) -> tuple[fa.Tensor, list[list[float]]]:
    """Rows as they lie and as columns of another tensor, in turn; and what they hold."""
    t = fa.tensor(rows(kind, length, dtype)).to(getattr(fa, dtype))
    if length % 2:
        t = t.t().contiguous().t()
    return t, to_numpy(t).tolist()


@pytest.fixture(params=[f"{k}-{d}" for k in KINDS for d in DTYPES])
def cases(request: pytest.FixtureRequest) -> list[tuple[fa.Tensor, list[list[float]]]]:
    kind, dtype = request.param.split("-")
    return [tensors(kind, n, dtype) for n in LENGTHS]


def lists(result: Any) -> list[list[list[Any]]]:
    return [to_numpy(r).tolist() for r in result]


def test_sort_and_argsort(cases: Any) -> None:
    for t, data in cases:
        for descending in (False, True):
            values, places = lists(fa.sort(t, 1, descending, stable=True))
            assert to_numpy(fa.argsort(t, 1, descending, stable=True)).tolist() == places
            for row, got, at in zip(data, values, places, strict=True):
                assert at == ranked(row, descending)
                assert all(same(row[i], v) for i, v in zip(at, got, strict=True))


def test_topk_and_kthvalue(cases: Any) -> None:
    for t, data in cases:
        length = len(data[0])
        for k in sorted({1, (length + 1) // 2, length}):
            for largest in (False, True):
                values, places = lists(fa.topk(t, k, 1, largest))
                for row, got, at in zip(data, values, places, strict=True):
                    wanted = [row[i] for i in ranked(row, largest)[:k]]
                    assert all(map(equal, got, wanted)) and len(set(at)) == k
                    assert all(same(row[i], v) for i, v in zip(at, got, strict=True))
            values, places = lists(fa.kthvalue(t, k, 1))
            for row, got, at in zip(data, values, places, strict=True):
                assert equal(got, row[ranked(row)[k - 1]]) and same(row[at], got)


def test_median_and_mode(cases: Any) -> None:
    for t, data in cases:
        medians, places = lists(fa.median(t, 1))
        without, others = lists(fa.nanmedian(t, 1))
        modes, last = lists(fa.mode(t, 1))
        for r, row in enumerate(data):
            numbers = sorted(v for v in row if v == v)
            middle = numbers[(len(numbers) - 1) // 2] if numbers else math.nan
            wanted = middle if len(numbers) == len(row) else math.nan
            assert equal(medians[r], wanted) and equal(row[places[r]], wanted)
            assert equal(without[r], middle) and equal(row[others[r]], middle)
            counts: dict[Any, int] = {}
            for v in row:
                counts[key(v)] = counts.get(key(v), 0) + 1
            most = min(k for k, n in counts.items() if n == max(counts.values()))
            assert key(modes[r]) == most
            assert last[r] == max(i for i, v in enumerate(row) if key(v) == most)


def test_extremes(cases: Any) -> None:
    """A NaN is the extreme; of equal ones the first is."""
    for t, data in cases:
        for low, name in ((False, "max"), (True, "min")):
            values, places = lists(getattr(fa, name)(t, 1))
            plain = to_numpy(getattr(fa, "a" + name)(t, 1)).tolist()
            args = to_numpy(getattr(fa, "arg" + name)(t, 1)).tolist()
            both = to_numpy(fa.aminmax(t, dim=1)[not low]).tolist()
            for r, row in enumerate(data):
                nan = [i for i, v in enumerate(row) if v != v]
                best = (min if low else max)(v for v in row if v == v) if not nan else math.nan
                first = nan[0] if nan else row.index(best)
                assert (places[r], args[r]) == (first, first)
                assert all(equal(v, best) for v in (values[r], plain[r], both[r]))
            one = float(getattr(fa, name)(t))
            flat = [v for row in data for v in row]
            nan = [v for v in flat if v != v]
            assert equal(one, nan[0] if nan else (min if low else max)(flat))


def test_running_extremes(cases: Any) -> None:
    """A NaN stays from where it is; of equal ones the last place counts."""
    for t, data in cases:
        for low, function in ((False, fa.cummax), (True, fa.cummin)):
            values, places = lists(function(t, 1))
            for row, got, at in zip(data, values, places, strict=True):
                best = 0
                for i, v in enumerate(row):
                    before = row[best]
                    better = v <= before if low else v >= before
                    best = i if v != v or (before == before and better) else best
                    assert equal(got[i], row[best]) and at[i] == best


def test_unique_and_searchsorted(cases: Any) -> None:
    for t, data in cases:
        flat = [v for row in data for v in row]
        values, places, counts = fa.unique(t, return_inverse=True, return_counts=True)
        got = to_numpy(values).tolist()
        numbers = sorted({v + 0.0 for v in flat if v == v})
        nans = sum(v != v for v in flat)
        assert [v for v in got if v == v] == numbers
        assert len(got) == len(numbers) + nans  # each NaN is one, as in torch
        for v, n in zip(got, counts.tolist(), strict=True):
            assert n == (1 if v != v else flat.count(v))
        assert all(equal(got[i], v) for i, v in zip(places.reshape(-1).tolist(), flat, strict=True))
        ordered = fa.sort(t, 1)[0].contiguous()
        for right in (False, True):
            found = to_numpy(fa.searchsorted(ordered, t.contiguous(), right=right)).tolist()
            for row, line, at in zip(data, to_numpy(ordered).tolist(), found, strict=True):
                keys = [key(v) for v in line]
                wanted = np.searchsorted(np.array(line), row, "right" if right else "left")
                assert at == wanted.tolist(), (keys[:5], row[:5])
