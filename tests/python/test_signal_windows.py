"""facula.signal.windows beside scipy.signal.windows."""

from __future__ import annotations

from typing import Any

import facula as fa
import numpy as np
import pytest
import scipy.signal.windows as scipy_windows

WINDOWS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("bartlett", "bartlett", {}, {}),
    ("blackman", "blackman", {}, {}),
    ("cosine", "cosine", {}, {}),
    ("exponential", "exponential", {"tau": 2.5}, {"tau": 2.5}),
    ("gaussian", "gaussian", {"std": 1.7}, {"std": 1.7}),
    ("general_cosine", "general_cosine", {"a": [0.4, 0.4, 0.2]}, {"a": [0.4, 0.4, 0.2]}),
    ("general_hamming", "general_hamming", {"alpha": 0.6}, {"alpha": 0.6}),
    ("hamming", "hamming", {}, {}),
    ("hann", "hann", {}, {}),
    ("kaiser", "kaiser", {"beta": 9.0}, {"beta": 9.0}),
    ("nuttall", "nuttall", {}, {}),
]


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("name, other, ours, theirs", WINDOWS)
def test_values(name: str, other: str, ours: Any, theirs: Any, sym: bool) -> None:
    for n in (1, 2, 7, 64):
        got = getattr(fa.signal.windows, name)(n, sym=sym, dtype=fa.float64, **ours)
        want = getattr(scipy_windows, other)(n, sym=sym, **theirs)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)
    assert getattr(fa.signal.windows, name)(0, **ours).shape == (0,)
    assert getattr(fa.signal.windows, name)(3, **ours).dtype == fa.float32


def test_a_center() -> None:
    got = fa.signal.windows.exponential(9, center=2.0, sym=False, dtype=fa.float64)
    want = scipy_windows.exponential(9, center=2.0, sym=False)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-13)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda w: w.hann(-1), ValueError, "non-negative window length"),
        (lambda w: w.hann(3, dtype=fa.int64), ValueError, "floating-point dtype"),
        (lambda w: w.gaussian(3, std=0), ValueError, "Standard deviation must be positive"),
        (lambda w: w.exponential(3, tau=-1), ValueError, "Tau must be positive"),
        (lambda w: w.exponential(3, center=1), ValueError, "Center must be None"),
        (lambda w: w.kaiser(3, beta=-1), ValueError, "beta must be non-negative"),
        (lambda w: w.general_cosine(3, a=[]), ValueError, "cannot be empty"),
        (lambda w: w.general_cosine(3, a=0.5), TypeError, "list/tuple"),
    ],
)
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(fa.signal.windows)
