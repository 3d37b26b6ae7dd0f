"""Results in each memory layout, gradients that only one operand asks for, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest

F = fa.nn.functional


@pytest.mark.parametrize("dtype", [fa.float32, fa.float64, fa.bfloat16])
@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.avg_pool2d(x, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: F.max_pool2d(x, 2, 1),
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.adaptive_avg_pool2d(x, 3),
        lambda x: F.adaptive_max_pool2d(x, 3),
    ],
)
def test_pools_of_channels_last(pool: Callable[[fa.Tensor], fa.Tensor], dtype: fa.dtype) -> None:
    """As those of contiguous images, with gradients that lie as their operands do."""
    fa.manual_seed(1)
    x = fa.randn(2, 5, 7, 6).to(dtype).requires_grad_()
    last = x.detach().contiguous(memory_format=fa.channels_last).requires_grad_()
    want, got = pool(x), pool(last)
    assert got.is_contiguous(memory_format=fa.channels_last)
    by = fa.randn(want.shape).to(dtype)
    want.backward(by)
    got.backward(by.contiguous(memory_format=fa.channels_last))
    tolerance = 2e-2 if dtype == fa.bfloat16 else 1e-6
    fa.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, check_stride=False)
    fa.testing.assert_close(last.grad, x.grad, rtol=tolerance, atol=tolerance, check_stride=False)
    assert last.grad.is_contiguous(memory_format=fa.channels_last)


@pytest.mark.parametrize("heads", [2, 3])
def test_attention_lies_as_its_queries(heads: int) -> None:
    """Heads that are views of one row a token are given back so: joining them copies nothing."""
    q, k, v = (fa.randn(2, 5, heads, 4).transpose(1, 2).requires_grad_() for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v)
    assert out.transpose(1, 2).is_contiguous()
    for grad in fa.autograd.grad(out.sum(), (q, k, v)):
        assert grad.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("asks", ["weight", "bias"])
def test_batch_norm_of_one_learned_operand(asks: str) -> None:
    fa.manual_seed(2)
    x = fa.randn(4, 3, dtype=fa.float64)
    operands = {"weight": fa.rand(3, dtype=fa.float64), "bias": fa.rand(3, dtype=fa.float64)}
    operands[asks].requires_grad_()
    F.batch_norm(x, None, None, **operands, training=True).square().sum().backward()
    a = x.numpy()
    unit = (a - a.mean(0)) / np.sqrt(a.var(0) + 1e-5)
    slope = 2 * (unit * operands["weight"].detach().numpy() + operands["bias"].detach().numpy())
    want = (slope * (unit if asks == "weight" else 1)).sum(0)
    np.testing.assert_allclose(operands[asks].grad.numpy(), want, rtol=1e-10)


@pytest.mark.parametrize("dtype", [fa.float32, fa.float64, fa.int64])
@pytest.mark.parametrize("largest", [True, False])
def test_extremes_late_in_long_columns(dtype: fa.dtype, largest: bool) -> None:
    """Each thread looks at some of the rows: the places are counted from the first of all."""
    a = np.arange(200_000 * 3).reshape(-1, 3) % 977
    places = [199_999, 123_456, 70_001]
    a[places, range(3)] = 5000 if largest else -5000
    t = fa.tensor(a).to(dtype)
    assert (t.argmax(0) if largest else t.argmin(0)).tolist() == places
    values, found = t.max(0) if largest else t.min(0)
    assert found.tolist() == places and values.tolist() == a[places, range(3)].tolist()


def test_slopes_of_norms_at_zero() -> None:
    """The subgradient zero; and counting elements has no slope anywhere."""
    for ord in (0, 0.5, 1, 1.5, 2, 3, math.inf):
        x = fa.zeros(3, dtype=fa.float64, requires_grad=True)
        assert fa.autograd.grad(fa.linalg.vector_norm(x, ord), x)[0].tolist() == [0] * 3
    x = fa.tensor([2.0, 0.0, -1.0], requires_grad=True)
    assert fa.autograd.grad(fa.linalg.vector_norm(x, 0), x)[0].tolist() == [0] * 3
    # of one element that is zero among others
    slope = fa.autograd.grad(fa.linalg.vector_norm(x, 1.5), x)[0]
    n = (2**1.5 + 1) ** (1 / 1.5)
    np.testing.assert_allclose(slope.numpy(), [(2 / n) ** 0.5, 0, -((1 / n) ** 0.5)], rtol=1e-6)


def test_slopes_of_powers_of_zero() -> None:
    base = fa.zeros(4, dtype=fa.float64)
    exponent = fa.tensor([0.0, 2.0, 0.5, -1.0], dtype=fa.float64, requires_grad=True)
    (base**exponent).sum().backward()
    assert exponent.grad.tolist() == [0, 0, 0, -math.inf]
    exponent = fa.tensor([0.0, 2.0], dtype=fa.float64, requires_grad=True)
    (fa.tensor([3.0, 4.0], dtype=fa.float64) ** exponent).sum().backward()
    np.testing.assert_allclose(exponent.grad.numpy(), [math.log(3), 16 * math.log(4)], rtol=1e-14)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_infinite_terms_share_the_slope(name: str) -> None:
    values = [math.inf, -math.inf, 1.0, 800.0], [math.inf, -math.inf, 2.0, -800.0]
    x, y = (fa.tensor(v, dtype=fa.float64, requires_grad=True) for v in values)
    getattr(fa, name)(x, y).sum().backward()
    base = math.e if name == "logaddexp" else 2.0
    share = 1 / (1 + base)
    np.testing.assert_allclose(x.grad.numpy(), [0.5, 0.5, share, 1], rtol=1e-14)
    np.testing.assert_allclose(y.grad.numpy(), [0.5, 0.5, 1 - share, 0], rtol=1e-14)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_infinite_terms_have_no_curvature(name: str) -> None:
    x, y = (
        fa.tensor(v, dtype=fa.float64, requires_grad=True)
        for v in ([math.inf, -math.inf, 1.0, 1.0], [math.inf, -math.inf, 1.0, 2.0])
    )
    slopes = fa.autograd.grad(getattr(fa, name)(x, y).sum(), (x, y), create_graph=True)
    unit = 1.0 if name == "logaddexp" else math.log(2)
    s = 1 / (1 + math.exp(unit))
    bend = [0, 0, unit / 4, unit * s * (1 - s)]
    for slope, sign in zip(slopes, (1, -1), strict=True):
        xx, xy = fa.autograd.grad(slope.sum(), (x, y), retain_graph=True)
        np.testing.assert_allclose(xx.numpy(), [sign * b for b in bend], rtol=1e-12)
        np.testing.assert_allclose(xy.numpy(), [-sign * b for b in bend], rtol=1e-12)


def test_curvature_of_powers_of_zero() -> None:
    base = fa.zeros(3, dtype=fa.float64)
    exponent = fa.tensor([0.0, 2.0, 0.5], dtype=fa.float64, requires_grad=True)
    (slope,) = fa.autograd.grad((base**exponent).sum(), exponent, create_graph=True)
    assert fa.autograd.grad(slope.sum(), exponent)[0].tolist() == [0, 0, 0]


def test_var_mean_of_complex_numbers() -> None:
    a = np.array([[1 + 2j, 3 - 1j, 0.5j], [4, -2j, 1 + 1j]])
    var, mean = fa.var_mean(fa.tensor(a), 1)
    assert var.dtype == fa.float64 and mean.dtype == fa.complex128
    np.testing.assert_allclose(var.numpy(), a.var(1, ddof=1))
    np.testing.assert_allclose(mean.numpy(), a.mean(1))


def refused(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


def test_recurrent_networks_refuse_wrong_states_and_lengths() -> None:
    net = fa.nn.GRU(3, 4)
    weights = list(net.parameters())
    x, tail = fa.zeros(5, 2, 3), (True, 1, 0.0, False, False)
    for shape in ((2, 2, 4), (1, 8), (1, 1, 2, 4), (2, 4)):
        refused(
            lambda shape=shape: fa.gru(x, fa.zeros(shape), weights, *tail, False),
            RuntimeError,
            "hx is|initial",
        )
    h = fa.zeros(1, 2, 4)
    for sizes in ([1, 2], [2, -1], [2, 1, 2]):
        rows = fa.zeros(max(sum(sizes), 0), 3)
        refused(
            lambda rows=rows, sizes=sizes: fa.gru(rows, fa.tensor(sizes), h, weights, *tail),
            (ValueError, RuntimeError),
            "batch_sizes",
        )


def test_steps_refuse_momentum_without_buffers() -> None:
    p, g, b = [fa.ones(2)], [fa.ones(2)], [fa.zeros(2)]
    step = fa._C._ops.sgd_step
    for buffers, momentum in (([], 0.9), (b, 0.0)):
        refused(
            lambda buffers=buffers, momentum=momentum: step(
                p, g, buffers, 0.1, momentum, 0.0, 0.0, False, True, False
            ),
            (ValueError, RuntimeError),
            "momentum",
        )
    assert p[0].tolist() == [1, 1]
    step([], [], [], 0.1, 0.9, 0.0, 0.0, False, True, False)  # nothing to do


def test_pools_refuse_by_their_own_names() -> None:
    for name in ("adaptive_avg_pool2d", "adaptive_max_pool2d"):
        refused(
            lambda name=name: getattr(F, name)(fa.ones(1, 1, 4, 4, dtype=fa.int64), 2),
            (RuntimeError, TypeError),
            rf"{name}\w*\(\): input is int64",
        )
    refused(lambda: fa.ones(2, 2, 2).H, RuntimeError, "mH")
    assert fa.tensor(3 + 1j).H == 3 - 1j
