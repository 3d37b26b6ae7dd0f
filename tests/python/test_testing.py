"""assert_close and make_tensor."""

from __future__ import annotations

import facula
import numpy as np
import pytest
from facula.autograd import gradcheck
from facula.testing import assert_close, make_tensor
from facula.testing._samples import evaluate


def test_equal_things_pass():
    assert_close(facula.ones(2), facula.ones(2) + 1e-7)
    assert_close({"a": [1.0, facula.zeros(1)]}, {"a": [1.0, facula.zeros(1)]})
    assert_close(float("nan"), float("nan"), equal_nan=True)
    assert_close(facula.tensor(float("inf")), facula.tensor(float("inf")))
    assert_close(facula.empty(0, 3), facula.empty(0, 3))


@pytest.mark.parametrize(
    ("actual", "expected", "text"),
    [
        (facula.ones(2), facula.ones(3), "shape"),
        (facula.ones(2), facula.ones(2, dtype=facula.float64), "dtype"),
        (facula.tensor([[1.0, 5.0]]), facula.tensor([[1.0, 2.0]]), r"1 / 2 .*\n.*\(0, 1\)"),
        (facula.tensor([float("nan"), 1]), facula.tensor([0.0, 9]), r"2 / 2 .*\n.*\(0,\)"),
        (facula.tensor([1, 2]), facula.tensor([1, 3]), "1 / 2"),
        ([1, 2], [1], "length"),
        ({"a": 1}, {"b": 1}, "keys"),
        ({"a": [1.0]}, {"a": [2.0]}, r"item \['a'\]\[0\]"),
        (float("nan"), float("nan"), "not close"),
        (1, 1.0, "types differ"),
    ],
)
def test_unequal_things_fail(actual, expected, text):
    with pytest.raises(AssertionError, match=text):
        assert_close(actual, expected)


def test_misuse():
    with pytest.raises(TypeError, match="cannot compare"):
        assert_close(facula.ones(1), "text")
    with pytest.raises(ValueError, match="both"):
        assert_close(1.0, 1.0, rtol=1.0)
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close(1.0, 2.0, msg="mine")


@pytest.mark.parametrize("name", ["bool", "uint8", "int32", "float16", "float64", "complex64"])
def test_make_tensor(name):
    dtype = getattr(facula, name)
    t = make_tensor((5, 40), dtype=dtype, device="cpu", noncontiguous=True, exclude_zero=True)
    assert t.dtype == dtype and tuple(t.shape) == (5, 40) and not t.is_contiguous()
    assert not bool((t == 0).any())
    if not dtype.is_complex and name != "bool":
        low = make_tensor(100, dtype=dtype, device="cpu", low=2, high=4)
        assert float(low.min()) >= 2 and float(low.max()) <= 4
    with pytest.raises(ValueError, match="less than"):
        make_tensor(2, dtype=dtype, device="cpu", low=3, high=3)


def test_samples_of_matrices():
    """Each stays of its form wherever its free numbers go."""
    sample = evaluate("spd(4), tri(2,3), orth(5)", np.random.default_rng(0))
    assert [m.shape for m in sample.args] == [(4, 4), (2, 3, 3), (5, 5)]
    for scale in (0, 1, -3):
        s, t, q = (m.form(m.free + scale, np.asarray) for m in sample.args)
        assert np.array_equal(s, s.T) and np.linalg.eigvalsh(s).min() > 3.9
        assert np.array_equal(t, np.tril(t)) and np.diagonal(t, 0, 1, 2).min() >= 1
        np.testing.assert_allclose(q @ q.T, np.eye(5), atol=1e-13)
    for m in sample.args:
        free = facula.tensor(m.free, requires_grad=True)
        np.testing.assert_allclose(m.form(free, facula.tensor).detach().numpy(), m, rtol=1e-12)
        assert gradcheck(lambda x, m=m: m.form(x, facula.tensor), [free])
