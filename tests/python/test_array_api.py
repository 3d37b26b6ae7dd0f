"""`facula.array_api`: what the standard gives other meanings than torch, against NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula import array_api as xp

RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((3, 4, 5))
WHOLE = RNG.integers(0, 5, (3, 4, 5)).astype(np.int16)
BYTES = WHOLE.astype(np.uint8)


def alike(got: Any, want: Any) -> None:
    """The same values, shape and dtype."""
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            alike(g, w)
        return
    want = np.asarray(want)
    assert got.numpy().dtype == want.dtype and tuple(got.shape) == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("name", "sum prod max min all any mean std var count_nonzero".split())
def test_reductions(name: str, axis: Any, keepdims: bool) -> None:
    of_np, of_xp = getattr(np, name), getattr(xp, name)
    inputs = [REAL] if name in ("mean", "std", "var") else [REAL, WHOLE, BYTES, WHOLE > 2]
    if name in ("max", "min"):
        inputs = inputs[:3]
    for x in inputs:
        alike(
            of_xp(fa.tensor(x), axis=axis, keepdims=keepdims),
            of_np(x, axis=axis, keepdims=keepdims),
        )
    number = inputs[0][0, 0, 0]
    alike(of_xp(fa.tensor(number), keepdims=keepdims), of_np(number, keepdims=keepdims))


@pytest.mark.parametrize("axis", [None, 1, (0, 2), -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_median(axis: Any, keepdims: bool) -> None:
    got = xp.median(fa.tensor(REAL), axis=axis, keepdims=keepdims)
    alike(got, np.median(REAL, axis=axis, keepdims=keepdims))


def both(call: Callable[[Any, Callable[[Any], Any]], Any]) -> None:
    """`call(namespace, array)` in NumPy and in facula."""
    alike(call(xp, lambda v: fa.tensor(np.asarray(v))), call(np, np.asarray))


def test_names_of_other_meanings() -> None:
    both(lambda m, a: m.equal(a(WHOLE), a(BYTES)))
    both(lambda m, a: m.sort(a(REAL), axis=1))
    both(lambda m, a: m.nonzero(a(WHOLE)))
    both(lambda m, a: m.meshgrid(a([1, 2, 3]), a([4, 5])))
    both(lambda m, a: m.sign(a([-2.0, 0.0, np.nan, 3.0])))
    both(lambda m, a: m.sign(a([3 + 4j, 0j])))
    both(lambda m, a: m.clip(a([1, 5, 9]), 2, 6))
    both(lambda m, a: m.clip(a([1.0, np.nan]), max=a(0.5)))
    both(lambda m, a: m.arange(5, 1))
    both(lambda m, a: m.eye(3, 4, k=1, dtype=m.float64))
    both(lambda m, a: m.eye(3, k=-1, dtype=m.int64))
    both(lambda m, a: m.linspace(0.0, 1.0, 4, endpoint=False, dtype=m.float64))
    both(lambda m, a: m.flip(a(WHOLE)))
    both(lambda m, a: m.concat([a(WHOLE), a(WHOLE[0])], axis=None))
    both(lambda m, a: m.take(a(REAL), a([1, -1, 0]), axis=1))
    both(lambda m, a: m.tensordot(a(REAL), a(REAL), axes=([0, 1], [0, 1])))
    both(lambda m, a: m.reshape(a(WHOLE), (-1, 2), copy=True))
    both(lambda m, a: m.where(a([True, False]), a(np.int16(1)), a(np.array([2, 3], np.int8))))
    both(lambda m, a: m.add(a(np.array(1, np.int16)), a(np.array([1, 2], np.int8))))
    both(lambda m, a: m.cumulative_sum(a(BYTES), axis=1, include_initial=True))
    both(lambda m, a: m.cumulative_prod(a([1.0, 2.0, 3.0])))
    both(lambda m, a: m.unique_all(a([3, 1, 3, 2])))
    both(lambda m, a: m.unique_counts(a([3.0, 1.0, 3.0])))
    both(lambda m, a: m.unique_inverse(a(WHOLE)))
    both(lambda m, a: m.vecdot(a(REAL + 1j), a(REAL[0, 0] - 2j)))
    both(lambda m, a: m.vecdot(a(BYTES), a(BYTES)))
    both(lambda m, a: m.repeat(a(WHOLE), a(np.array([0, 2, 1], np.int16)), axis=0))
    both(lambda m, a: m.unstack(a(WHOLE), axis=1))
    both(lambda m, a: m.linalg.trace(a(BYTES), offset=1))
    both(lambda m, a: m.linalg.outer(a([1, 2]), a([1.0, 0.5])))
    both(lambda m, a: m.linalg.cross(a(REAL[:, 0, :3]), a(REAL[0, 0, :3])))
    both(lambda m, a: m.fft.rfftn(a(REAL), axes=(0, 2)))
    both(lambda m, a: m.fft.fftshift(a(REAL), axes=(1,)))
    both(lambda m, a: m.tril(a(REAL), k=-1))
    both(lambda m, a: m.broadcast_to(a([1, 2]), shape=(3, 2)))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="dim 0 has size 3"):
        xp.squeeze(fa.tensor(REAL), axis=0)
    with pytest.raises(ValueError, match="0-d"):
        xp.nonzero(fa.tensor(1))
    with pytest.raises(ValueError, match="needs an axis"):
        xp.take(fa.tensor(REAL), fa.tensor([0]))
    with pytest.raises(ValueError, match="needs an axis"):
        xp.cumulative_sum(fa.tensor(REAL))
    with pytest.raises((ValueError, RuntimeError)):
        xp.reshape(fa.tensor(REAL).mT, (-1,), copy=False)
    with pytest.raises(ValueError, match="kind must be one of"):
        xp.isdtype(fa.int8, "whole")
    with pytest.raises(ValueError, match="stream must be None"):
        fa.ones(1).to_device("cpu", stream=3)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        xp.nothing  # noqa: B018


def test_the_namespace_of_a_tensor() -> None:
    assert fa.ones(1).__array_namespace__() is xp
    assert xp.finfo(fa.ones(1)).dtype is fa.float32 and xp.iinfo(fa.int8).max == 127
    assert xp.isdtype(fa.uint8, ("real floating", "unsigned integer"))
    assert not xp.isdtype(fa.bool, "numeric")
    assert xp.result_type(fa.ones((), dtype=fa.float64), fa.ones(2)) is fa.float64
    assert xp.result_type(fa.int8, 1.5) is fa.float32
    assert set(xp.__array_namespace_info__().dtypes(kind="real floating")) == {"float32", "float64"}
    assert fa.ones(1).to_device("cpu").device == fa.device("cpu")


SCIPY = """
import numpy as np, facula as fa, scipy.stats as st, scipy.special as sp, scipy.fft as sf
import scipy.cluster.vq as vq, scipy.integrate as si, scipy.signal as ss, scipy.differentiate as sd
rng = np.random.default_rng(0)
A, v, p = rng.normal(size=(20, 3)), rng.normal(size=40), rng.uniform(0.1, 0.9, size=40)
calls = [
    lambda a: st.zscore(a(A)), lambda a: st.skew(a(A)),
    lambda a: st.ttest_ind(a(A), a(A + 1)).pvalue,
    lambda a: st.entropy(a(p)), lambda a: st.rankdata(a(v)), lambda a: st.quantile(a(v), a(p)),
    lambda a: sp.logsumexp(a(A), axis=1), lambda a: sp.softmax(a(A), axis=1),
    lambda a: sp.ndtr(a(v)),
    lambda a: sf.rfftn(a(A)), lambda a: ss.fftconvolve(a(v), a(p)), lambda a: ss.detrend(a(v)),
    lambda a: vq.whiten(a(A)), lambda a: si.trapezoid(a(v)),
    lambda a: si.cumulative_trapezoid(a(v)),
    lambda a: sd.derivative(lambda x: x**3, a(p[:3])).df,
]
for call in calls:
    got, want = call(fa.tensor), call(np.asarray)
    assert isinstance(got, fa.Tensor), type(got)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-12)
"""

SKLEARN = """
import numpy as np, facula as fa, sklearn
from sklearn import discriminant_analysis, linear_model, metrics, naive_bayes, preprocessing
sklearn.set_config(array_api_dispatch=True)
rng = np.random.default_rng(0)
A = rng.normal(size=(60, 4)); y = (A[:, 0] > 0).astype(np.int64); s = rng.uniform(size=60)
r = A @ np.arange(4.0)
calls = [
    lambda a: preprocessing.StandardScaler().fit_transform(a(A)),
    lambda a: preprocessing.MinMaxScaler().fit_transform(a(A)),
    lambda a: preprocessing.PolynomialFeatures().fit_transform(a(A)),
    lambda a: linear_model.Ridge(solver="svd").fit(a(A), a(r)).coef_,
    lambda a: discriminant_analysis.LinearDiscriminantAnalysis().fit(a(A), a(y)).predict(a(A)),
    lambda a: naive_bayes.GaussianNB().fit(a(A), a(y)).predict(a(A)),
    lambda a: metrics.pairwise.euclidean_distances(a(A), a(A[:5] + 1)),
    lambda a: metrics.confusion_matrix(a(y), a(1 - y)), lambda a: metrics.roc_auc_score(a(y), a(s)),
    lambda a: metrics.median_absolute_error(a(r), a(s)), lambda a: metrics.r2_score(a(r), a(s)),
    lambda a: metrics.f1_score(a(y), a(1 - y)), lambda a: metrics.log_loss(a(y), a(s)),
]
for call in calls:
    np.testing.assert_allclose(np.asarray(call(fa.tensor)), call(np.asarray), rtol=1e-7, atol=1e-9)
"""


@pytest.mark.parametrize(("package", "program"), [("scipy", SCIPY), ("sklearn", SKLEARN)])
def test_other_packages(package: str, program: str) -> None:
    pytest.importorskip(package)
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)
