"""Results large enough for streaming stores: all forms, ends and layouts of them."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest

ODD = (1 << 21) + 77  # float32 elements: 8 MiB and no whole number of lines


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=ODD).astype(np.float32)


def test_pointwise(x):
    t = fa.tensor(x)
    np.testing.assert_array_equal((t + t).numpy(), x + x)
    np.testing.assert_array_equal((t * 3).numpy(), x * np.float32(3))
    np.testing.assert_array_equal((t > 0).numpy(), x > 0)
    out = fa.empty(ODD)
    fa.add(t, t, out=out)
    np.testing.assert_array_equal(out.numpy(), x + x)
    room = fa.zeros(ODD + 8)
    fa.mul(t, t, out=room[3 : 3 + ODD])  # begins no line
    np.testing.assert_array_equal(room.numpy()[3 : 3 + ODD], x * x)
    assert room.numpy()[:3].sum() == 0 and room.numpy()[3 + ODD :].sum() == 0
    t.add_(t)
    np.testing.assert_array_equal(t.numpy(), x + x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "uint8"])
def test_types(x, dtype):
    kind = getattr(fa, dtype)
    many = fa.tensor(np.tile(np.abs(x), 4) * 20).to(kind)
    small = many[:1000]
    assert fa.equal((many + many)[:1000], small + small)
    assert fa.equal((many + many)[-77:], many[-77:].clone() + many[-77:].clone())
    assert fa.equal(many.to(fa.float32)[-999:], many[-999:].clone().to(fa.float32))


def test_layouts(x):
    m = x[: 1 << 21].reshape(2048, 1024)
    t = fa.tensor(m)
    np.testing.assert_array_equal((t.t() + t.t()).numpy(), m.T + m.T)
    np.testing.assert_array_equal((t + t[:, :1]).numpy(), m + m[:, :1])
    np.testing.assert_array_equal((t + t[:1]).numpy(), m + m[:1])
    wide = fa.zeros(2048, 2048)
    fa.add(t, t, out=wide[:, 512:1536])
    np.testing.assert_array_equal(wide.numpy()[:, 512:1536], m + m)
    assert wide.numpy()[:, :512].sum() == 0 and wide.numpy()[:, 1536:].sum() == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_converted_operands(x, dtype):
    """Numbers of 16 bits are computed in float32 and rounded: each step is one of NumPy's."""
    kind = getattr(fa, dtype)
    a = fa.tensor(np.tile(x, 3)[: (1 << 22) + 9300]).to(kind)
    b, row = a.flip(0), a[:300]
    wide = a.float().numpy()
    for got, want in [
        (a + b, wide + wide[::-1]),
        (a * 3 - b, fa.tensor(wide * np.float32(3)).to(kind).float().numpy() - wide[::-1]),
        (fa.where(a > b, a, b), np.maximum(wide, wide[::-1])),
        (a.view(-1, 4)[:, :2] + b.view(-1, 4)[:, 2:], None),
    ]:
        if want is None:
            want = wide.reshape(-1, 4)[:, :2] + wide[::-1].reshape(-1, 4)[:, 2:]
        assert fa.equal(got, fa.tensor(np.ascontiguousarray(want)).to(kind))
    whole = a[: 300 * 13_990].view(-1, 300)
    want = wide[: 300 * 13_990].reshape(-1, 300) + row.float().numpy()
    assert fa.equal(whole + row, fa.tensor(want).to(kind))


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "complex128"])
@pytest.mark.parametrize("step", [2, 3, 4, 5, 9])
def test_steps(dtype, step):
    """Every so many columns, in rows that are no whole number of pieces."""
    kind = getattr(fa, dtype)
    columns = 1543
    rows = (8 << 20) // (columns * fa.empty((), dtype=kind).element_size()) + 2
    x = np.random.default_rng(5).integers(0, 100, size=(rows, columns * step)).astype(np.uint8)
    t = fa.tensor(x).to(kind)
    for got, want in [
        (t[:, ::step], x[:, ::step]),
        (t[:, 1::step].flip(1), x[:, 1::step][:, ::-1]),
    ]:
        assert fa.equal(got.contiguous(), fa.tensor(np.ascontiguousarray(want)).to(kind))


@pytest.mark.parametrize("shape", [(2100, 70, 2048), (2049, 1056, 2080), (2048, 32, 2050)])
def test_products(shape):
    """Of small whole numbers, whose sums are exact in float32, so that results are rounded once."""
    m, k, n = shape
    rng = np.random.default_rng(6)
    x, y = rng.integers(-8, 9, size=(m, k)), rng.integers(-8, 9, size=(k, n))
    exact = fa.tensor(x.astype(np.float32) @ y.astype(np.float32))
    want = exact.to(fa.bfloat16)
    a, b = (fa.tensor(v.astype(np.float32)).to(fa.bfloat16) for v in (x, y))
    assert fa.equal(a @ b, want)
    assert fa.equal(a @ b.t().contiguous().t(), want)
    assert fa.equal(a.t().contiguous().t() @ b, want)
    c = want.clone()
    fa.addmm(c, a, b, out=c)
    assert fa.equal(c, (want.float() + exact).to(fa.bfloat16))


def softmax(x, axis):
    x = x.astype(np.float64)
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("shape", [(2100, 1030), (1030, 2100), (3, 900, 801), (2048, 1024)])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax(shape, dim):
    rng = np.random.default_rng(1)
    x = rng.normal(size=shape).astype(np.float32)
    g = rng.normal(size=shape).astype(np.float32)
    want = softmax(x, dim)
    for name in ("softmax", "log_softmax"):
        t = fa.tensor(x, requires_grad=True)
        y = getattr(fa.nn.functional, name)(t, dim)
        np.testing.assert_allclose(
            y.detach().numpy(), np.log(want) if name[0] == "l" else want, rtol=3e-6, atol=3e-6
        )
        (slope,) = fa.autograd.grad(y, t, fa.tensor(g))
        if name == "softmax":
            right = want * (g - (g * want).sum(dim, keepdims=True))
        else:
            right = g - want * g.sum(dim, keepdims=True, dtype=np.float64)
        np.testing.assert_allclose(slope.numpy(), right, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_of_masks_and_nan(dim):
    x = np.random.default_rng(2).normal(size=(200, 300)).astype(np.float32)
    x[3, 5], x[7, :100], x[:100, 9], x[11, 13] = -np.inf, -np.inf, -200.0, -80.0
    y = fa.softmax(fa.tensor(x), dim).numpy()
    assert y[3, 5] == 0 and (y[7, :100] == 0).all()
    np.testing.assert_allclose(y, softmax(x, dim), rtol=3e-6, atol=1e-37)
    x[50, 60] = np.nan
    y = fa.softmax(fa.tensor(x), dim).numpy()
    line = y[50] if dim == 1 else y[:, 60]
    assert np.isnan(line).all() and np.isnan(y).sum() == line.size


@pytest.mark.parametrize("shape", [(2048, 1024), (2050, 1027), (40, 60_001)])
def test_layer_norm(shape):
    rng = np.random.default_rng(3)
    x = (rng.normal(size=shape) + 100).astype(np.float32)
    w, b = rng.normal(size=(2, shape[1])).astype(np.float32)
    g = rng.normal(size=shape).astype(np.float32)
    ts = [fa.tensor(v, requires_grad=True) for v in (x, w, b)]
    y = fa.nn.functional.layer_norm(ts[0], shape[1:], ts[1], ts[2])
    wide = x.astype(np.float64)
    rstd = 1 / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    xhat = (wide - wide.mean(1, keepdims=True)) * rstd
    np.testing.assert_allclose(y.detach().numpy(), xhat * w + b, rtol=2e-4, atol=2e-4)
    gx, gw, gb = (v.numpy() for v in fa.autograd.grad(y, ts, fa.tensor(g)))
    gh = g.astype(np.float64) * w
    right = rstd * (gh - gh.mean(1, keepdims=True) - xhat * (gh * xhat).mean(1, keepdims=True))
    np.testing.assert_allclose(gx, right, rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(gw, (g * xhat).sum(0), rtol=2e-3, atol=2e-2)
    np.testing.assert_allclose(gb, g.sum(0, dtype=np.float64), rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("groups", [1, 4])
def test_group_and_batch_norm(groups):
    rng = np.random.default_rng(4)
    shape = (9, 8, 177, 171)
    x = (rng.normal(size=shape) * 3 + 50).astype(np.float32)
    t = fa.tensor(x)
    wide = x.astype(np.float64).reshape(9, groups, -1)
    want = (wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-5)
    got = fa.nn.functional.group_norm(t, groups).numpy()
    np.testing.assert_allclose(got, want.reshape(shape), rtol=1e-4, atol=1e-4)
    if groups == 1:
        wide = x.astype(np.float64)
        want = (wide - wide.mean((0, 2, 3), keepdims=True)) / np.sqrt(
            wide.var((0, 2, 3), keepdims=True) + 1e-5
        )
        got = fa.nn.functional.batch_norm(t, None, None, training=True).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
