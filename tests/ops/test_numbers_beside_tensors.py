"""Python numbers keep their digits beside tensors of fewer; results that fit a dtype are in it."""

import facula as fa
import numpy as np
import pytest


@pytest.mark.parametrize("dtype", [fa.bfloat16, fa.float16, fa.float32, fa.float64])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.parametrize("q", [0.3, 0.7, 1 / 3, 0.999])
def test_quantiles(name, q, dtype):
    x = fa.arange(0, 128, dtype=dtype)  # whole numbers, which all dtypes hold
    t = x.clone().requires_grad_()
    got = getattr(fa, name)(t, q)
    want = getattr(np, name)(x.double().numpy(), q)
    assert got.dtype == dtype
    assert abs(got.double().item() - want) <= fa.finfo(dtype).eps * want
    (slope,) = fa.autograd.grad(got, t)
    share = q * 127 % 1
    at = int(q * 127)
    found = slope.double().numpy()
    assert np.allclose(found[at : at + 2], [1 - share, share], atol=fa.finfo(dtype).eps)
    for how in ("lower", "higher", "nearest"):
        found = getattr(fa, name)(x, q, interpolation=how)
        assert found.item() == getattr(np, name)(x.double().numpy(), q, method=how)


@pytest.mark.parametrize("dtype", [fa.float16, fa.bfloat16])
def test_gradient_of_a_grid_stays_in_range(dtype):
    x = fa.tensor([-60000.0, -100.0, 30000.0, 59000.0, 60000.0]).to(dtype)
    for order in (1, 2):
        got = fa.gradient(x, edge_order=order, spacing=2.0)[0]
        want = np.gradient(x.double().numpy(), 2.0, edge_order=order)
        assert got.dtype == dtype
        np.testing.assert_allclose(got.double().numpy(), want, rtol=fa.finfo(dtype).eps)


def test_sizes_of_bools_are_bools():
    x = np.array([True, False])
    for got in (fa.tensor(x).abs(), abs(fa.tensor(x)), fa.absolute(fa.tensor(x))):
        assert got.dtype == fa.bool and got.tolist() == np.abs(x).tolist()
