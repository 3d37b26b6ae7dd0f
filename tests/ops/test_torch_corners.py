"""Corners where torch's documented behaviour decides: values written down from torch 2.13."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.nn import functional as F

NAN = math.nan
INF = math.inf


def gradient(f: Callable[[fa.Tensor], fa.Tensor], values: list[float]) -> list[float]:
    x = fa.tensor(values, dtype=fa.float64, requires_grad=True)
    f(x).sum().backward()
    return x.grad.tolist()


def test_where_as_method() -> None:
    x, y, c = fa.tensor([1.0, 2.0]), fa.tensor([9.0, 8.0]), fa.tensor([True, False])
    assert x.where(c, y).tolist() == [1.0, 8.0]
    assert x.where(c, 0.0).tolist() == [1.0, 0.0]
    assert fa.tensor([3, 4]).where(c, -1).tolist() == [3, -1]


def test_matrix_power_as_method() -> None:
    assert fa.tensor([[1.0, 1.0], [0.0, 1.0]]).matrix_power(3).tolist() == [[1.0, 3.0], [0.0, 1.0]]


def test_sums_of_masks_are_masks() -> None:
    a, b = fa.tensor([True, True, False]), fa.tensor([True, False, False])
    assert (a + b).dtype is fa.bool and (a + b).tolist() == [True, True, False]
    assert fa.add(a, b, alpha=2).dtype is fa.bool
    assert (a + fa.tensor([], dtype=fa.bool)[:0].reshape(0, 1)).dtype is fa.bool
    a += b
    assert a.tolist() == [True, True, False]
    assert (b + 1).tolist() == [2, 1, 1] and (b + 1).dtype is fa.int64
    assert (b + 0.5).dtype is fa.float32 and b.sum().dtype is fa.int64
    for f in (lambda: a - b, lambda: -a, lambda: fa.rsub(a, b)):
        with pytest.raises(NotImplementedError, match="not implemented for bool"):
            f()


EDGES = [-6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 6.0]


def test_gradients_at_kinks() -> None:
    assert gradient(F.hardswish, [-6.0, -3.0, 0.0, 3.0, 6.0]) == [0, 0, 0.5, 1, 1]
    low, high = fa.full((7,), -1.0, dtype=fa.float64), fa.full((7,), 3.0, dtype=fa.float64)
    inside = [0, 0, 1, 1, 1, 1, 0]
    assert gradient(lambda x: x.clamp(-1.0, 3.0), EDGES) == inside
    assert gradient(lambda x: x.clamp(low, high), EDGES) == inside
    assert gradient(lambda x: x.clamp(min=low), EDGES) == [0, 0, 1, 1, 1, 1, 1]
    assert gradient(lambda x: x.clamp(max=high), EDGES) == [1, 1, 1, 1, 1, 1, 0]
    assert gradient(lambda x: x.clamp(high, low), EDGES) == [0] * 7  # limits that cross: max wins
    one = fa.ones(7, dtype=fa.float64)
    assert gradient(lambda x: one.clamp(x, high), EDGES) == [0, 0, 0, 0, 0, 1, 0]
    assert gradient(lambda x: one.clamp(max=x), EDGES) == [1, 1, 1, 1, 0, 0, 0]


def test_clamp_by_tensors_with_nan() -> None:
    x, n = fa.tensor([1.0, NAN, 5.0]), fa.tensor([NAN, 0.0, 2.0])
    for got, want in (
        (x.clamp(min=n), np.maximum(x.numpy(), n.numpy())),
        (x.clamp(max=n), np.minimum(x.numpy(), n.numpy())),
    ):
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e20, 1e30])
def test_gradient_of_atan2_at_any_scale(scale: float) -> None:
    y = fa.tensor(3 * scale, requires_grad=True)
    x = fa.tensor(4 * scale, requires_grad=True)
    fa.atan2(y, x).backward()
    assert y.grad.item() == pytest.approx(4 / 25 / scale, rel=1e-5)
    assert x.grad.item() == pytest.approx(-3 / 25 / scale, rel=1e-5)


def test_gradient_of_atan2_at_the_origin() -> None:
    y, x = fa.zeros(1, requires_grad=True), fa.zeros(1, requires_grad=True)
    fa.atan2(y, x).backward()
    assert y.grad.item() == 0 and x.grad.item() == 0


def test_losses_of_nan_have_nan_gradients() -> None:
    zero = fa.zeros(2, dtype=fa.float64)
    for loss in (F.smooth_l1_loss, F.huber_loss, F.mse_loss):
        g = gradient(lambda x, f=loss: f(x, zero, reduction="none"), [NAN, 3.0])
        assert math.isnan(g[0]) and g[1] in (1.0, 6.0)
    zero_beta = gradient(lambda x: F.smooth_l1_loss(x, zero, beta=0.0, reduction="sum"), [0.0, 2.0])
    assert zero_beta == [0.0, 1.0]


def test_medians_share_gradients_among_ties() -> None:
    assert gradient(fa.median, [1.0, 2.0, 2.0, 3.0]) == [0, 0.5, 0.5, 0]
    assert gradient(fa.nanmedian, [2.0, NAN, 2.0]) == [0.5, 0, 0.5]
    assert gradient(fa.max, [1.0, NAN, 2.0]) == [0, 1, 0]


def test_complex_logsumexp() -> None:
    z = np.array([[1 + 2j, 0.5 - 1j], [30j, 200 + 1j]])
    want = np.log(np.exp(z - z.real.max(1, keepdims=True)).sum(1)) + z.real.max(1)
    got = fa.logsumexp(fa.from_numpy(z), 1)
    assert got.dtype is fa.complex128
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_means_of_no_complex_numbers() -> None:
    e = fa.empty(2, 0, dtype=fa.complex64)
    for t in (e.mean(1), e.mean().reshape(1), fa.var_mean(e, 1)[1]):
        for z in t.tolist():
            assert math.isnan(z.real) and math.isnan(z.imag)


def test_dtypes_of_results() -> None:
    half = fa.tensor([[0.1, 0.2]], dtype=fa.bfloat16)
    target, weight = fa.tensor([0]), fa.tensor([0.1, 0.2], dtype=fa.bfloat16)
    for w in (None, weight):
        assert F.cross_entropy(half, target, w, label_smoothing=0.2).dtype is fa.bfloat16
    assert F.cosine_similarity(half, fa.tensor([[1, 2]])).dtype is fa.bfloat16
    assert F.cosine_similarity(half, fa.ones(1, 2)).dtype is fa.float32
    assert fa.repeat_interleave(fa.tensor([1, 2], dtype=fa.int32)).dtype is fa.int32


def test_cosine_similarity_of_integers() -> None:
    a = np.array([[200, 100, 7]], np.uint8)
    b = np.array([[2.0, -1.0, 0.5]])
    want = (a * b).sum() / np.linalg.norm(a.astype(float)) / np.linalg.norm(b)
    got = F.cosine_similarity(fa.from_numpy(a), fa.from_numpy(b))
    np.testing.assert_allclose(got.numpy(), [want], rtol=1e-12)


def test_out_gives_factories_their_dtype() -> None:
    out = fa.empty(0, dtype=fa.int16)
    assert fa.arange(2.5, out=out).tolist() == [0, 1, 2] and out.dtype is fa.int16
    assert fa.ones(2, out=fa.empty(2, dtype=fa.bool)).tolist() == [True, True]
    assert fa.eye(2, out=fa.empty(2, 2, dtype=fa.int64)).tolist() == [[1, 0], [0, 1]]
    assert fa.linspace(0, 4, 3, out=fa.empty(3, dtype=fa.int32)).tolist() == [0, 2, 4]


def test_numbers_before_tensors() -> None:
    assert fa.div(7, fa.tensor([2, -2]), rounding_mode="floor").tolist() == [3, -4]
    assert fa.div(7.0, fa.tensor([2.0]), rounding_mode="trunc").tolist() == [3.0]


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (lambda y: y.pow_(2), [[2, 4], [6, 10]]),
        (lambda y: y.pow_(3), [[3, 12], [27, 75]]),
        (lambda y: y.pow_(fa.tensor(2.0)), [[2, 4], [6, 10]]),
        (lambda y: y[:].pow_(2), [[2, 4], [6, 10]]),
        (
            lambda y: y.clamp_(fa.full((2,), 1.5).double(), fa.full((2,), 4).double()),
            [[0, 1], [1, 0]],
        ),
        (lambda y: y.div_(fa.tensor([2.0, 2.0]), rounding_mode="floor"), [[0, 0], [0, 0]]),
    ],
)
def test_composites_in_place_have_gradients(change: Any, want: list[list[float]]) -> None:
    x = fa.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=fa.float64, requires_grad=True)
    y = x * 1
    change(y)
    y.sum().backward()
    assert x.grad.tolist() == want


def test_renorm_in_place_has_the_gradient_of_renorm() -> None:
    grads = []
    for f in (lambda y: fa.renorm(y, 2, 0, 1.0), lambda y: y.renorm_(2, 0, 1.0)):
        x = fa.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=fa.float64, requires_grad=True)
        f(x * 1).sum().backward()
        grads.append(x.grad.tolist())
    # d/dx of x / (|x| + 1e-7), by hand
    rows = np.array([[1.0, 2.0], [3.0, 5.0]])
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    want = 1 / norms - rows * rows.sum(1, keepdims=True) / norms**3
    for g in grads:
        np.testing.assert_allclose(g, want, rtol=1e-6)


def test_out_that_requires_grad() -> None:
    for f in (
        lambda out: fa.add(fa.ones(3), 1, out=out),
        lambda out: fa.cumsum(fa.ones(3), 0, out=out),
        lambda out: fa.zeros(3, out=out),
        lambda out: fa.cat([fa.ones(3)], out=out),
    ):
        leaf = fa.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="grad"):
            f(leaf)
        assert leaf.tolist() == [1, 1, 1]
        with fa.no_grad():
            f(leaf)


def test_detached_leaves_get_no_gradient() -> None:
    x = fa.ones(2, requires_grad=True)
    y = (x * 2).sum()
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None


def test_dilated_windows_beside_the_input() -> None:
    # Both taps of the window lie in the padding: no element, so no maximum and no gradient.
    for dims, pool in ((1, F.max_pool1d), (2, F.max_pool2d), (3, F.max_pool3d)):
        x = fa.ones(2, 3, *[1] * dims, requires_grad=True)
        for _ in range(20):
            y = pool(x, 2, stride=1, padding=1, dilation=2)
            assert y.flatten().tolist() == [-INF] * 6
            (g,) = fa.autograd.grad(y.sum(), x)
            assert g.flatten().tolist() == [0] * 6
            _, places = pool(x, 2, stride=1, padding=1, dilation=2, return_indices=True)
            assert places.flatten().tolist() == [-1] * 6
    x = fa.arange(3.0).reshape(1, 1, 1, 3)
    x.requires_grad_()
    y = F.max_pool2d(x, 2, stride=1, padding=1, dilation=(2, 1), ceil_mode=True)
    assert y.flatten().tolist() == [-INF] * y.numel()
    y.sum().backward()
    assert x.grad.flatten().tolist() == [0, 0, 0]


def test_an_empty_batch_leaves_the_running_statistics() -> None:
    mean, var = fa.tensor([1.0, 2.0, 3.0]), fa.tensor([4.0, 5.0, 6.0])
    for shape in ((0, 3), (0, 3, 2), (2, 3, 0)):
        F.batch_norm(fa.ones(shape), mean, var, training=True)
        assert mean.tolist() == [1, 2, 3] and var.tolist() == [4, 5, 6]


def test_batch_norm_of_an_empty_batch() -> None:
    for shape in ((0, 3), (0, 3, 5), (4, 3, 0)):
        w, b = fa.ones(3, requires_grad=True), fa.ones(3, requires_grad=True)
        F.batch_norm(fa.zeros(*shape), None, None, w, b, True).sum().backward()
        assert w.grad.tolist() == [0, 0, 0] and b.grad.tolist() == [0, 0, 0]


def test_attention_of_matrices_with_a_mask() -> None:
    rng = np.random.default_rng(0)
    q, k, v, m = (rng.standard_normal(s) for s in ((5, 4), (6, 4), (6, 2), (5, 6)))
    scores = q @ k.T / 2 + m
    p = np.exp(scores - scores.max(1, keepdims=True))
    want = p / p.sum(1, keepdims=True) @ v
    got = F.scaled_dot_product_attention(*(fa.from_numpy(a) for a in (q, k, v, m)))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    keep = m > 0
    keep[:, 0] = True
    p = np.where(keep, np.exp(q @ k.T / 2), 0)
    want = p / p.sum(1, keepdims=True) @ v
    got = F.scaled_dot_product_attention(*(fa.from_numpy(a) for a in (q, k, v, keep)))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_circular_padding_goes_round_what_is_left() -> None:
    x = fa.arange(5.0).reshape(1, 1, 5)
    for amounts, want in (
        ((-1, 2), [1, 2, 3, 4, 1, 2]),
        ((2, -1), [2, 3, 0, 1, 2, 3]),
        ((3, -2), [0, 1, 2, 0, 1, 2]),
        ((2, 1), [3, 4, 0, 1, 2, 3, 4, 0]),
    ):
        assert F.pad(x, amounts, "circular").flatten().tolist() == want


def test_adaptive_sizes_of_none() -> None:
    x = fa.arange(24.0).reshape(1, 1, 4, 6)
    for size in ((None, 3), (None, None), None):
        shape = F.adaptive_avg_pool2d(x, size).shape
        assert shape == (1, 1, 4, 3 if size == (None, 3) else 6)
    assert F.adaptive_avg_pool3d(x, (None, 2, None)).shape == (1, 1, 2, 6)
    with pytest.raises(ValueError, match="expected 2 sizes"):
        F.adaptive_avg_pool2d(x, (None, 3, 3))


def test_repeats_must_add_up_to_the_output_size() -> None:
    repeats = fa.tensor([1, 2])
    assert fa.repeat_interleave(repeats, output_size=3).tolist() == [0, 1, 1]
    for size in (2, 4, -1, (1 << 63) - 1):
        with pytest.raises(RuntimeError, match="output_size"):
            fa.repeat_interleave(repeats, output_size=size)


def test_formats_are_strings() -> None:
    for t in (fa.tensor(1.0), fa.ones(2)):
        with pytest.raises(TypeError, match="__format__"):
            t.__format__(3)


def test_differences_of_integers_do_not_wrap() -> None:
    low = -(1 << 31)
    for a, b in (
        (fa.tensor([0], dtype=fa.int32), fa.tensor([low], dtype=fa.int32)),
        (fa.tensor([2], dtype=fa.uint8), fa.tensor([250], dtype=fa.uint8)),
        (fa.tensor([(1 << 63) - 1]), fa.tensor([-(1 << 63)])),
    ):
        assert not fa.allclose(a, b) and not fa.isclose(b, a).item()
        with pytest.raises(AssertionError):
            fa.testing.assert_close(a, b)
    assert fa.isclose(fa.tensor([2], dtype=fa.uint8), fa.tensor([5], dtype=fa.uint8), 10.0).item()
    y = fa.tensor([200, 250, 100], dtype=fa.uint8)
    assert fa.trapezoid(y).item() == 400
    assert fa.trapezoid(y, fa.tensor([9, 5, 200], dtype=fa.uint8)).item() == -4 * 225 + 195 * 175
    assert fa.cumulative_trapezoid(y).tolist() == [225, 400]


def test_views_made_under_no_grad_are_not_changed_in_place() -> None:
    x = fa.ones(4, requires_grad=True)
    for base in (x * 2, x):
        with fa.no_grad():
            view = base.view(2, 2)
            view.mul_(1)  # without gradients it may be
        for change in (
            lambda v: v.mul_(2),
            lambda v: v.copy_(fa.zeros(2, 2)),
            lambda v: v.zero_(),
            lambda v: v.pow_(2),
            lambda v: v.__setitem__(0, 1.0),
            lambda v: v.uniform_(),
        ):
            with pytest.raises(RuntimeError, match="under no_grad"):
                change(view)
        view.detach().mul_(1)
    whole = fa.ones(4)
    with fa.no_grad():
        view = whole[:2]
    view.add_(1)
    assert whole.tolist() == [2, 2, 1, 1]


def test_data_replaced_after_the_forward_pass() -> None:
    x = fa.ones(5, requires_grad=True)
    y = (x * 3).sum()
    x.data = fa.ones(2)
    with pytest.raises(RuntimeError, match="data were replaced"):
        y.backward()


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("kind", ["bool", "added"])
def test_attention_rows_that_see_nothing(kind: str, learned: bool) -> None:
    """They are zero and so are their gradients (softmax of them alone would be 0 / 0)."""
    seen = np.array([[False, False, False], [True, False, True]])
    mask = fa.tensor(seen if kind == "bool" else np.where(seen, 0.0, -np.inf))
    if learned and kind == "added":
        mask.requires_grad_()
    q, k, v = (fa.randn(1, 1, n, 4, dtype=fa.float64, requires_grad=True) for n in (2, 3, 3))
    dropout = 1e-300 if learned else 0.0  # takes the way that stores the scores
    out = F.scaled_dot_product_attention(q, k, v, mask, dropout)
    scores = q.detach().numpy()[0, 0] @ k.detach().numpy()[0, 0].T / 2
    p = np.where(seen[1], np.exp(scores[1]), 0)
    p /= p.sum()
    values = v.detach().numpy()[0, 0]
    np.testing.assert_allclose(out.detach().numpy()[0, 0], [np.zeros(4), p @ values], atol=1e-12)
    (out * out).sum().backward()
    grad = 2 * (p @ values)
    inner = p * (values @ grad - p @ (values @ grad)) / 2
    want = [np.zeros(4), inner @ k.detach().numpy()[0, 0]]
    np.testing.assert_allclose(q.grad.numpy()[0, 0], want, atol=1e-12)
    want = np.outer(inner, q.detach().numpy()[0, 0, 1])
    np.testing.assert_allclose(k.grad.numpy()[0, 0], want, atol=1e-12)
    np.testing.assert_allclose(v.grad.numpy()[0, 0], np.outer(p, grad), atol=1e-12)
    if mask.requires_grad:
        np.testing.assert_allclose(mask.grad.numpy(), [np.zeros(3), 2 * inner], atol=1e-12)


def test_attention_without_features_is_the_mean() -> None:
    """All scores are empty sums, 0, whatever the scale."""
    v = fa.arange(6.0).reshape(1, 1, 3, 2)
    out = F.scaled_dot_product_attention(fa.ones(1, 1, 2, 0), fa.ones(1, 1, 3, 0), v)
    assert out.tolist() == [[[[2, 3], [2, 3]]]]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64", "complex128"])
def test_products_times_zero_keep_nan(dtype: str) -> None:
    """alpha scales the product, 0 NaN = NaN; beta = 0 leaves `self` out."""
    a, b, c = np.ones((3, 4)), np.ones((4, 5)), np.ones((3, 5))
    a[1, 2] = np.nan
    x, y, z = (fa.tensor(t).to(getattr(fa, dtype)) for t in (a, b, c))
    missing = [[False] * 5, [True] * 5, [False] * 5]
    for beta in (0, 1):
        results = [
            fa.addmm(z, x, y, alpha=0, beta=beta),
            fa.baddbmm(z[None], x[None], y[None], alpha=0, beta=beta)[0],
            fa.addbmm(z, x[None], y[None], alpha=0, beta=beta),
            fa.addmv(z[:, 0], x, y[:, 0], alpha=0, beta=beta)[:, None].expand(3, 5),
        ]
        for result in results:
            assert result.isnan().tolist() == missing
            assert result[0].tolist() == [beta] * 5


def test_integers_have_no_negative_powers() -> None:
    """torch raises too; NumPy calls it a ValueError. A float exponent or base is another matter."""
    x = fa.tensor([2, 1])
    with pytest.raises(RuntimeError, match=r"pow\(\): integers have no negative integer powers"):
        x**-1
    with pytest.raises(RuntimeError, match="negative integer powers"):
        x.clone().pow_(-2)
    assert (x**-1.0).tolist() == [0.5, 1.0]
    assert (x.double() ** -1).tolist() == [0.5, 1.0]
    assert (x**2j).dtype == fa.complex64
    assert (x**0).tolist() == [1, 1]


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_a_loss_that_broadcasts_is_warned_of(loss: Callable[..., fa.Tensor]) -> None:
    column, row = fa.zeros(3, 1), fa.zeros(3)
    with pytest.warns(
        UserWarning, match=rf"{loss.__name__}\(\): target is \(3,\) and input \(3, 1\)"
    ):
        assert loss(column, row, reduction="none").shape == (3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(row, row)
        with pytest.raises(UserWarning, match="broadcast"):
            loss(column, row)


def test_nansum_skips_nan_before_it_converts() -> None:
    x = fa.tensor([[1.0, NAN, 2.0], [NAN, NAN, NAN]])
    total = fa.nansum(x, dtype=fa.int64)
    assert total.item() == 3 and total.dtype is fa.int64
    assert fa.nansum(x, 1, dtype=fa.int32).tolist() == [3, 0]
    assert fa.nansum(x, 1, dtype=fa.bool).tolist() == [True, False]
    assert fa.nansum(x.half().t(), 0, True, dtype=fa.int64).tolist() == [[3, 0]]


HALVES = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])


@HALVES
def test_finite_numbers_of_half_types(dtype: str) -> None:
    half = getattr(fa, dtype)
    most = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}[dtype]
    x = fa.tensor([INF, -INF, NAN, 2.0], dtype=half)
    assert x.nan_to_num().tolist() == [most, -most, 0.0, 2.0]
    assert x.nan_to_num(1.0, neginf=-3.0).tolist() == [most, -3.0, 1.0, 2.0]
    out = fa.empty(4, dtype=half)
    assert fa.nan_to_num(x, out=out) is out and out.tolist()[0] == most
    assert x.nan_to_num_().tolist() == [most, -most, 0.0, 2.0]
    assert gradient(fa.nan_to_num, [INF, NAN, 1.0]) == [0.0, 0.0, 1.0]
    assert fa.nan_to_num(fa.tensor([1, 2])).tolist() == [1, 2]


@HALVES
def test_nextafter_steps_in_half_types(dtype: str) -> None:
    """The next larger magnitude is the next larger pattern of bits."""
    half = getattr(fa, dtype)
    bits = np.arange(0x7C00 if dtype == "float16" else 0x7F80, dtype=np.int16)  # 0 to the largest
    x = fa.from_numpy(np.append(bits, bits[-1] + 1).astype(np.int16)).view(half)  # and infinity
    low, high = x[:-1], x[1:]
    inf = fa.tensor(INF, dtype=half)
    assert fa.equal(fa.nextafter(low, inf), high)
    assert fa.equal(fa.nextafter(high, -inf), low)
    assert fa.equal(fa.nextafter(-low, -inf), -high)
    assert fa.equal(fa.nextafter(-high, inf), -low)
    assert fa.equal(fa.nextafter(x, x), x)
    nan = fa.tensor(NAN, dtype=half)
    assert fa.nextafter(x, nan).isnan().all() and fa.nextafter(nan, x).isnan().all()
    one = fa.ones(1, dtype=half)
    assert one.nextafter_(inf).item() == 1 + fa.finfo(half).eps
    assert fa.nextafter(one, fa.ones(1)).dtype is fa.float32


def test_real_alpha_makes_no_nan_of_complex_infinity() -> None:
    """As NumPy adds them."""
    z, one = np.array([complex(INF, 0), complex(1, INF)]), np.array([1 + 2j, 2.0])
    t, u = fa.from_numpy(z), fa.from_numpy(one)
    cases = (
        (1j + fa.tensor([INF]), 1j + np.array([INF])),
        (fa.tensor([INF]) + 1j, np.array([INF]) + 1j),
        (2 + t, 2 + z),
        (t + 2, 2 + z),
        (2 - t, 2 - z),
        (fa.rsub(t, 2), 2 - z),
        (1j - fa.tensor([INF]), 1j - np.array([INF])),
        (u + t, one + z),
        (u - t, one - z),
    )
    for got, want in cases:
        np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(fa.add(u, t, alpha=2).numpy(), [complex(INF, 2), complex(4, INF)])
    assert fa.add(u, u, alpha=2j).tolist() == [(-3 + 4j), (2 + 4j)]


def test_tensors_of_no_dims_promote_as_tensors() -> None:
    """Also where an overload takes a number: the result's dtype depends on no value."""
    small, five = fa.tensor(3, dtype=fa.int8), fa.tensor(5)
    two = fa.tensor(2.0, dtype=fa.float64)
    assert fa.pow(small, five).item() == 243 and fa.pow(small, five).dtype is fa.int64
    assert small.pow(fa.tensor(2)).dtype is fa.int64
    assert fa.pow(fa.tensor([3]), two).dtype is fa.float64
    assert fa.pow(fa.tensor([3]), exponent=two).dtype is fa.float64
    assert fa.pow(fa.tensor([3], dtype=fa.int8), five).dtype is fa.int8
    assert fa.pow(small, 2).dtype is fa.int8
    for clamp in (fa.clamp, fa.clip, fa.clamp_min):
        assert clamp(small, five).item() == 5 and clamp(small, five).dtype is fa.int64
        assert clamp(fa.tensor([3]), two).dtype is fa.float64
        assert clamp(fa.tensor([3]), two).tolist() == [3.0]
        assert clamp(small, 2).dtype is fa.int8
    assert fa.clamp(fa.tensor([3], dtype=fa.uint8), max=fa.tensor(300)).tolist() == [3]
    assert fa.clamp_max(small, five).item() == 3 and fa.clamp_max(small, five).dtype is fa.int64
    assert fa.clamp(fa.tensor([3.0]), fa.tensor(4.0), 5).tolist() == [
        4.0
    ]  # with a number, a number
    x = fa.tensor([1.0, 3.0], requires_grad=True)
    low = fa.tensor(2.0, requires_grad=True)
    x.clamp_min(low).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0] and low.grad.item() == 1.0


def test_ldexp_keeps_to_the_range() -> None:
    """As C's ldexp."""
    for dtype, to in ((fa.float32, np.float32), (fa.float64, np.float64)):
        x = np.array([0.0, -0.0, 1e-30, 1e-45, 3e38, 1.5, -INF, NAN, 1.0, 1e-38], to)
        n = np.array([200, 2000, 140, 277, -280, -148, -5000, 3, 1 << 20, -20])
        got = fa.ldexp(fa.from_numpy(x), fa.from_numpy(n))
        assert got.dtype is dtype
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(got.numpy(), np.ldexp(x, n.astype(np.int32)))
    assert fa.ldexp(fa.tensor([2.0]), fa.tensor([0.5])).item() == pytest.approx(2 * 2**0.5)
    assert fa.ldexp(fa.tensor([2.0]), fa.tensor([-1.5])).item() == pytest.approx(2 * 2**-1.5)
    ends = fa.ldexp(fa.tensor([1.0, 1.0, 1.0]), fa.tensor([INF, -INF, NAN])).tolist()
    assert ends[:2] == [INF, 0.0] and math.isnan(ends[2])
    assert gradient(lambda x: fa.ldexp(x, fa.tensor([3, -2])), [0.0, 1.0]) == [8.0, 0.25]
    slope = gradient(lambda y: fa.ldexp(fa.tensor([0.0, 3.0], dtype=fa.float64), y), [2000.0, 2.0])
    assert slope == pytest.approx([0.0, 12 * math.log(2)])


def test_hardtanh_of_integers() -> None:
    x = fa.tensor([-3, 0, 5])
    assert F.hardtanh(x).dtype is fa.int64 and F.hardtanh(x).tolist() == [-1, 0, 1]
    assert F.hardtanh(x, -1.5, 2.7).tolist() == [-1, 0, 2]
    assert F.hardtanh(x, -INF, 4.0).tolist() == [-3, 0, 4]
    assert F.hardtanh(x.to(fa.int8), -1000, 1000).tolist() == [-3, 0, 5]
    assert F.hardtanh(x.clone(), inplace=True).tolist() == [-1, 0, 1]


def test_mode_counts_nan_as_one_value() -> None:
    """torch's answer depends on the order here; scipy.stats.mode has it so."""
    for values, value, index in (
        ([NAN, NAN, 1.0], NAN, 1),
        ([NAN, 1.0, NAN, 1.0, NAN], NAN, 4),
        ([1.0, 1.0, NAN, NAN], 1.0, 1),
        ([NAN, 1.0], 1.0, 1),
        ([NAN], NAN, 0),
    ):
        for dtype in (fa.float32, fa.float64, fa.float16):
            got = fa.mode(fa.tensor(values, dtype=dtype))
            np.testing.assert_equal(got.values.item(), value)
            assert got.indices.item() == index


def test_gradient_of_logsumexp_at_infinity() -> None:
    assert gradient(lambda x: x.logsumexp(0), [INF, 1.0, 2.0]) == [1.0, 0.0, 0.0]
    assert gradient(lambda x: x.logsumexp(0), [-INF, -INF]) == [0.5, 0.5]
    assert gradient(lambda x: x.logsumexp(0), [-INF, 1.0]) == [0.0, 1.0]


def test_interpolate_by_a_factor_that_keeps_the_size() -> None:
    """Linear modes copy such a dim, "nearest" in two dims, where doubling is exact as well."""
    x = fa.tensor([[[1.0, 2.0, 3.0, 4.0, 5.0, 7.0]]])
    same = x.tolist()
    assert F.interpolate(x, scale_factor=1.1, mode="linear").tolist() == same
    assert F.interpolate(x, scale_factor=1.1, mode="nearest").tolist() == [[[1, 1, 2, 3, 4, 5]]]
    flat = x[:, :, None].expand(1, 1, 2, 6)
    for mode in ("bilinear", "nearest"):
        assert F.interpolate(flat, scale_factor=1.1, mode=mode).tolist() == flat.tolist()
    assert (
        F.interpolate(x[:, :, None, None], scale_factor=1.1, mode="trilinear")[0, 0, 0].tolist()
        == same[0]
    )
    small = fa.arange(3.0).reshape(1, 1, 1, 3)
    twice = [[[[0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2]]]]
    assert F.interpolate(small, scale_factor=2.2, mode="nearest").tolist() == twice
    assert F.interpolate(small[0], scale_factor=2.2).tolist() == [[[0, 0, 0, 1, 1, 2]]]
    wide = F.interpolate(flat, scale_factor=(1.1, 2.5), mode="bilinear")[0, 0, 1].tolist()
    want = [1, 1.1, 1.5, 1.9, 2.3, 2.7, 3.1, 3.5, 3.9, 4.3, 4.7, 5.2, 6.0, 6.8, 7]
    assert wide == pytest.approx(want)
