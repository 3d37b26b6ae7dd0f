"""grid_sample and affine_grid, beside SciPy's interpolation and finite differences."""

from __future__ import annotations

import facula as fa
import facula.nn.functional as F
import numpy as np
import pytest
from facula.autograd import gradcheck
from scipy import ndimage

RNG = np.random.default_rng(7)


def pixels(grid, sizes, align):
    """Positions in pixels of points in -1..1, axis by axis as the image has them."""
    found = []
    for i, n in enumerate(sizes):
        x = grid[..., len(sizes) - 1 - i]
        found.append((x + 1) / 2 * (n - 1) if align else ((x + 1) * n - 1) / 2)
    return np.stack(found)


@pytest.mark.parametrize("space", [2, 3])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("mode, order", [("bilinear", 1), ("nearest", 0)])
@pytest.mark.parametrize("padding, outside", [("zeros", "constant"), ("border", "nearest"),
                                              ("reflection", "reflect")])  # fmt: skip
def test_values_are_scipys(space, align, mode, order, padding, outside):
    sizes, points = (5, 6, 7)[:space], (3, 4, 2)[:space]
    image = RNG.standard_normal((2, 3, *sizes))
    inner = padding == "zeros"  # beyond the edge SciPy's constant mode differs
    grid = RNG.uniform(-0.8, 0.8, (2, *points, space)) if inner else RNG.uniform(
        -1.6, 1.6, (2, *points, space)
    )  # fmt: skip
    if outside == "reflect" and align:
        outside = "mirror"
    found = F.grid_sample(
        fa.tensor(image), fa.tensor(grid), mode=mode, padding_mode=padding, align_corners=align
    )
    for n in range(2):
        at = pixels(grid[n], sizes, align)
        if order == 0:
            if padding != "zeros":
                continue  # SciPy rounds before it moves a point inside
            at = np.rint(at)
        for c in range(3):
            want = ndimage.map_coordinates(image[n, c], at, order=order, mode=outside)
            np.testing.assert_allclose(found[n, c].numpy(), want, atol=1e-12)


def test_zeros_lie_outside():
    image = fa.ones(1, 1, 2, 2)
    grid = fa.tensor([[[[-1.0, -1.0], [3.0, 0.0], [0.0, 0.0]]]])
    found = F.grid_sample(image, grid, align_corners=False)
    assert found.flatten().tolist() == [0.25, 0.0, 1.0]


def test_cubic_has_the_pixels_and_their_sum():
    image = fa.tensor(RNG.standard_normal((1, 2, 4, 5)))
    theta = fa.tensor([[[1.0, 0, 0], [0, 1, 0]]], dtype=fa.float64)
    grid = F.affine_grid(theta, (1, 2, 4, 5), align_corners=True)
    found = F.grid_sample(image, grid, mode="bicubic", align_corners=True)
    np.testing.assert_allclose(found.numpy(), image.numpy(), atol=1e-12)
    flat = F.grid_sample(
        fa.ones(1, 1, 4, 5, dtype=fa.float64), grid * 0.73, "bicubic", "border", False
    )
    np.testing.assert_allclose(flat.numpy(), np.ones((1, 1, 4, 5)), atol=1e-12)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_slopes(mode, padding):
    image = fa.tensor(RNG.standard_normal((1, 2, 3, 4)), requires_grad=True)
    grid = fa.tensor(RNG.uniform(-1.4, 1.4, (1, 2, 2, 2)), requires_grad=True)
    assert gradcheck(lambda x, g: F.grid_sample(x, g, mode, padding, False), (image, grid))


def test_affine_grids():
    theta = np.array([[[0.5, 0.1, -0.2], [0.3, 2.0, 0.4]]])
    found = F.affine_grid(fa.tensor(theta), (1, 3, 2, 4), align_corners=False).numpy()
    for i, y in enumerate((-0.5, 0.5)):
        for j, x in enumerate((-0.75, -0.25, 0.25, 0.75)):
            np.testing.assert_allclose(found[0, i, j], theta[0] @ [x, y, 1], atol=1e-14)
    volume = F.affine_grid(fa.ones(2, 3, 4), (2, 1, 2, 3, 4), align_corners=True)
    assert tuple(volume.shape) == (2, 2, 3, 4, 3)
    assert volume[0, 1, 2, 3].tolist() == [4.0, 4.0, 4.0]


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: F.grid_sample(fa.ones(1, 1, 2, 2), fa.ones(1, 1, 1, 2), mode="cubic"), "mode"),
        (lambda: F.grid_sample(fa.ones(1, 1, 2, 2), fa.ones(1, 1, 1, 2), padding_mode="x"), "x"),
        (lambda: F.grid_sample(fa.ones(1, 1, 2, 2), fa.ones(1, 1, 1, 3)), "last size"),
        (lambda: F.grid_sample(fa.ones(2, 1, 2, 2), fa.ones(1, 1, 1, 2)), "batch"),
        (lambda: F.grid_sample(fa.ones(1, 1, 2, 2), fa.ones(1, 1, 1, 2).double()), "dtype"),
        (lambda: F.grid_sample(fa.ones(1, 1, 0, 2), fa.ones(1, 1, 1, 2)), "non-empty"),
        (lambda: F.affine_grid(fa.ones(1, 2, 3), (1, 1, 2)), "4D and 5D"),
        (lambda: F.affine_grid(fa.ones(1, 2, 2), (1, 1, 2, 2)), "shape"),
        (lambda: F.affine_grid(fa.ones(1, 2, 3, dtype=fa.int64), (1, 1, 2, 2)), "floating"),
    ],
)
def test_what_does_not_fit_is_refused(call, error):
    with pytest.raises((ValueError, RuntimeError), match=error):
        call()
