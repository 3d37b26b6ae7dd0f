"""Operators that draw: each element is drawn, by all digits, and without the kernel too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.testing._samples import OpRecord, Sample, operators
from harness import arguments, to_numpy
from test_decompositions import without_kernel

RANDOM = [
    op
    for op in operators()
    if "random" in (op.traits or ()) and op.function() and op.name not in ("native_dropout",)
]
SMALL = 7
# Samples of these say that nothing, or all, is dropped.
GIVEN: dict[str, list[Any]] = {
    "dropout": [np.ones(SMALL), 0.5],
    "multinomial": [np.ones(50), SMALL],
    "randperm": [SMALL + 20],
    "bernoulli_.tensor": [np.zeros(SMALL), np.full(SMALL, 0.5)],
    "binomial": [np.full(SMALL, 40.0), np.full(SMALL, 0.5)],
    "_binomial": [np.full(SMALL, 40.0), np.full(SMALL, 0.5)],
    "poisson": [np.full(SMALL, 40.0)],
}


@contextmanager
def kernels(names: list[str], kept: bool) -> Iterator[None]:
    with ExitStack() as stack:
        for name in names if not kept else []:
            stack.enter_context(without_kernel(name))
        yield


COMPOSED = [op.name for op in RANDOM if op.composite and "CPU" in (op.dispatch or {})]
COMPOSED += ["native_dropout"]


def sample_of(op: OpRecord) -> Sample:
    if op.name in GIVEN:
        return Sample(GIVEN[op.name], {})
    return op.samples()[0]


@pytest.mark.parametrize("kept", [True, False], ids=["kernel", "decomposition"])
@pytest.mark.parametrize("op", RANDOM, ids=lambda op: op.name)
def test_each_element_is_drawn(op: OpRecord, kept: bool) -> None:
    """None keeps its number over many draws, into memory that was used before."""
    if not kept and not op.composite:
        return
    fa.manual_seed(11)
    found = []
    with kernels(COMPOSED, kept):
        for _ in range(40):
            _, args, kwargs = arguments(sample_of(op), None)
            try:
                result = op.function()(*args, **kwargs)
            except fa.backends.MissingKernelError:
                return
            found.append(np.asarray(to_numpy(result)).ravel())
    steady = (np.stack(found) == found[0]).all(0)
    if "t([3.0, 40.0, 0.0])" not in str(op.data["samples"][0]) or op.name in GIVEN:
        assert not steady.any(), np.flatnonzero(steady)


CONTINUOUS = ["rand", "randn", "uniform_", "normal_", "exponential_", "cauchy_", "log_normal_"]
CONTINUOUS += ["_standard_gamma", "_standard_log_gamma", "_sample_dirichlet"]
CONTINUOUS += ["normal", "normal.tensors", "normal.mean", "normal.std", "rand_like", "randn_like"]


@pytest.mark.parametrize("kept", [True, False], ids=["kernel", "decomposition"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_all_digits_are_drawn(name: str, kept: bool) -> None:
    """In float64 more than float32 has, whatever dtype is the default; in float32 no fewer."""
    op = next(o for o in RANDOM if o.name == name)
    names = [a["name"] for a in op.data["arguments"]]
    for dtype in (fa.float64, fa.float32):
        fa.manual_seed(12)
        with kernels(COMPOSED, kept):
            drawn = []
            for _ in range(30):
                _, args, kwargs = arguments(op.samples()[0], str(dtype).rpartition(".")[2])
                if "dtype" in names:
                    kwargs["dtype"] = dtype
                try:
                    result = op.function()(*args, **kwargs)
                except fa.backends.MissingKernelError:
                    return
                assert result.dtype == dtype
                drawn.append(result.numpy().ravel())
        x = np.concatenate(drawn)
        if dtype == fa.float64:
            assert (x != x.astype(np.float32)).mean() > 0.9
        else:
            assert (x != x.astype(np.float16)).mean() > 0.9 and len(np.unique(x)) > 0.9 * x.size


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("dtype", [fa.float32, fa.float64, fa.float16, fa.bfloat16])
def test_weights_that_only_their_dtype_has(dtype: fa.dtype, replacement: bool) -> None:
    """A choice by weights is made in float64 where they are, and by all of float16's."""
    tiny = {fa.float64: 1e-60, fa.float32: 1e-30, fa.float16: 6e-8, fa.bfloat16: 1e-30}[dtype]
    w = fa.zeros(30, dtype=dtype)
    w[3], w[17], w[29] = tiny, tiny, tiny
    for kept in (True, False):
        fa.manual_seed(13)
        with kernels(["multinomial"], kept):
            drawn = [i for _ in range(40) for i in fa.multinomial(w, 2, replacement).tolist()]
        assert set(drawn) == {3, 17, 29}, kept
