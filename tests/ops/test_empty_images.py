"""Images of nothing, NaN and infinity in images and weights: as torch, where that is sound."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.nn import functional as F

NAN, INF = math.nan, math.inf

EMPTY: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], tuple[int, ...]]] = {
    "fractional_max_pool2d": (
        lambda x: F.fractional_max_pool2d(x, 2, 3), (0, 2, 6, 6), (0, 2, 3, 3)
    ),
    "fractional_max_pool2d of a ratio": (
        lambda x: F.fractional_max_pool2d(x, 2, output_ratio=0.5), (0, 6, 6), (0, 3, 3)
    ),
    "fractional_max_pool3d": (
        lambda x: F.fractional_max_pool3d(x, 2, 2), (0, 2, 6, 6, 6), (0, 2, 2, 2, 2)
    ),
    "area": (lambda x: F.interpolate(x, 3, mode="area"), (0, 2, 6, 6), (0, 2, 3, 3)),
    "area without channels": (lambda x: F.interpolate(x, 9, mode="area"), (2, 0, 6), (2, 0, 9)),
    "area of volumes": (
        lambda x: F.interpolate(x, scale_factor=0.5, mode="area"), (0, 2, 6, 6, 6), (0, 2, 3, 3, 3)
    ),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 2), (0, 6, 6), (0, 2, 2)),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 2), (0, 6), (0, 2)),
    "local_response_norm": (lambda x: F.local_response_norm(x, 2), (2, 0, 4, 4), (2, 0, 4, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_images_of_nothing(name: str) -> None:
    function, shape, result = EMPTY[name]
    x = fa.zeros(shape, requires_grad=True)
    y = function(x)
    assert y.shape == result
    y.sum().backward()
    assert x.grad.shape == shape


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("shape, points", [
    ((0, 2, 4, 4), (0, 3, 5, 2)),
    ((2, 0, 4, 4), (2, 3, 5, 2)),
    ((2, 3, 4, 4), (2, 3, 0, 2)),
    ((0, 2, 4, 4, 4), (0, 3, 5, 2, 3)),
])  # fmt: skip
def test_grids_of_nothing(mode: str, padding: str, shape: Any, points: Any) -> None:
    if mode == "bicubic" and len(shape) == 5:
        pytest.skip("of images alone")
    x, grid = fa.ones(shape, requires_grad=True), fa.zeros(points, requires_grad=True)
    y = F.grid_sample(x, grid, mode, padding, align_corners=False)
    assert y.shape == (*shape[:2], *points[1:-1])
    y.sum().backward()
    assert x.grad.tolist() == fa.zeros(shape).tolist()
    assert grid.grad.tolist() == fa.zeros(points).tolist()


def test_spatial_dims_are_needed() -> None:
    with pytest.raises(RuntimeError, match="spatial dims may not be empty"):
        F.adaptive_avg_pool2d(fa.zeros(2, 3, 0, 4), 2)


def test_cubic_weights_slope_by_their_pixel() -> None:
    """The gradient by the grid is infinite with the pixel, with the sign of the weight's slope."""
    image = fa.zeros(1, 1, 4, 4)
    image[0, 0, 1, 1] = INF
    grid = fa.tensor([[[[-0.2, 0.1]]]], requires_grad=True)
    F.grid_sample(image, grid, "bicubic", align_corners=False).sum().backward()
    assert grid.grad.tolist() == [[[[-INF, -INF]]]]


@pytest.mark.parametrize("shape", [(3, 2), (3, 2, 1, 5), (40, 2, 7)])
def test_given_statistics_leave_inputs_out_of_gradients(shape: tuple[int, ...]) -> None:
    """y = (x - mean) / sqrt(var + eps) * w: dy/dx knows neither x nor the mean."""
    x = fa.randn(*shape)
    x[1, 1] = NAN
    x.requires_grad_()
    mean, var = fa.tensor([NAN, 0.5]), fa.tensor([4.0, 1.0])
    weight = fa.tensor([3.0, 2.0])
    F.batch_norm(x, mean, var, weight, eps=0.0).backward(fa.ones(shape))
    want = fa.tensor([1.5, 2.0]).reshape(2, *[1] * (len(shape) - 2)).expand(shape)
    np.testing.assert_allclose(x.grad.numpy(), want.numpy(), rtol=1e-6)


def test_divergence_of_what_is_no_probability() -> None:
    """target * log(target) is NaN below zero, as SciPy's xlogy."""
    x = fa.tensor([0.1, -0.2, 0.3])
    target = fa.tensor([-0.5, 0.2, 0.0], requires_grad=True)
    loss = F.kl_div(x, target, reduction="none")
    np.testing.assert_allclose(loss.tolist(), [NAN, 0.2 * math.log(0.2) + 0.04, 0.0], rtol=1e-6)
    loss.sum().backward()
    np.testing.assert_allclose(target.grad.tolist(), [NAN, math.log(0.2) + 1.2, -0.3], rtol=1e-6)


@pytest.mark.parametrize("special, grads", [
    (NAN, [[1, 0], [0, 2], [3, 4]]),
    (-INF, [[1, 2], [0, 0], [3, 4]]),
    (1.0, [[1, 2], [0, 0], [3, 4]]),
])  # fmt: skip
def test_the_largest_of_a_bag_is_one_row(special: float, grads: list[list[int]]) -> None:
    """The first of equals gets the gradient whole; NaN is above all."""
    weight = fa.tensor([[1.0, 1.0], [-2.0, special], [5.0, 6.0]], requires_grad=True)
    bags = fa.tensor([0, 1, 2]), fa.tensor([0, 2, 3])
    y = F.embedding_bag(bags[0], weight, bags[1], mode="max")
    assert y.tolist()[1:] == [[5.0, 6.0], [0.0, 0.0]]
    np.testing.assert_array_equal(y[0].tolist(), [1.0, special if special != -INF else 1.0])
    (y * fa.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum().backward()
    assert weight.grad.tolist() == grads
