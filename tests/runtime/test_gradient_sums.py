"""Sums of the gradients of one tensor that is used often."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("uses", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sixteen_bits(dtype: str, uses: int, create_graph: bool) -> None:
    """Of two the rounded sum, of more one in float32: 1,000 halves are not 256."""
    t = getattr(fa, dtype)
    x = fa.ones(5, dtype=t, requires_grad=True)
    inner = x * 1  # a node of its own, whose gradients are added too
    factor = fa.tensor(0.51, dtype=t)
    total = sum((v * factor).float().sum() for v in [inner] * uses)
    (leaf, middle) = fa.autograd.grad(total, (x, inner), create_graph=create_graph)
    for got in (leaf, middle):
        assert got.dtype == t
        eps = fa.finfo(t).eps
        np.testing.assert_allclose(got.double().detach().numpy(), uses * factor.item(), rtol=eps)


def test_views_and_hooks_see_the_narrow_type() -> None:
    seen = []
    x = fa.ones(4, dtype=fa.bfloat16, requires_grad=True)
    y = x[1:3]
    y.register_hook(lambda g: seen.append(g.dtype))
    sum((y * 0.3).float().sum() for _ in range(300)).backward()
    assert seen == [fa.bfloat16] and x.grad.dtype == fa.bfloat16
    want = 300 * fa.tensor(0.3, dtype=fa.bfloat16).item()
    np.testing.assert_allclose(x.grad.float().tolist(), [0, want, want, 0], rtol=2**-7)


def test_only_sums_of_sixteen_bits_are_widened() -> None:
    x = fa.ones(3, requires_grad=True)
    half = x.half()
    sum((half * half).float().sum() for _ in range(50)).backward()
    assert x.grad.dtype == fa.float32 and x.grad.tolist() == [100.0] * 3
