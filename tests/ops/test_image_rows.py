"""An image's convolution is its own: alike alone and in any batch, beside NaN and infinity too."""

from __future__ import annotations

import math

import facula as fa
import pytest

F = fa.nn.functional
# channels, output channels, size: about the bounds of Winograd's method, and of others
SHAPES = [(16, 16, 5), (16, 32, 7), (64, 17, 8), (32, 32, 9), (16, 16, 16), (3, 8, 13), (8, 8, 6)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", [fa.contiguous_format, fa.channels_last], ids=str)
@pytest.mark.parametrize("name", ["float32", "float64", "float16"])
def test_images_of_a_batch(
    name: str, layout: fa.memory_format, shape: tuple[int, int, int]
) -> None:
    fa.manual_seed(0)
    channels, out, size = shape
    dtype = getattr(fa, name)
    x = fa.randn(6, channels, size, size).to(dtype).to(memory_format=layout)
    x[2, 0, 1, 1] = math.inf
    x[4, 1, 2, 0] = math.nan
    w, back = fa.randn(out, channels, 3, 3).to(dtype), fa.randn(channels, out, 3, 3).to(dtype)
    for padding in (0, 1):
        calls = {
            "conv2d": lambda x, p=padding: F.conv2d(x, w, padding=p),
            "conv_transpose2d": lambda x, p=padding: F.conv_transpose2d(x, back, padding=p),
        }
        for call, function in calls.items():
            whole = function(x)
            for i in range(6):
                alone = function(x[i : i + 1])[0]
                same = fa.equal(alone.nan_to_num(7.0), whole[i].nan_to_num(7.0))
                assert same and fa.equal(alone.isnan(), whole[i].isnan()), (call, padding, i)
