"""Results of one element are written: kernels return early only where there is nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula as fa
import pytest

F = fa.nn.functional
X = fa.tensor([[[[4.0]]]])
M, V, W = X[0, 0], X[0, 0, 0], fa.tensor([[[[2.0]]]])
ZERO = fa.zeros(1, dtype=fa.int64)


def slope(f: Callable[[fa.Tensor], Any], x: fa.Tensor) -> fa.Tensor:
    x = x.clone().requires_grad_()
    return fa.autograd.grad(f(x).sum(), x)[0]


CALLS: dict[str, tuple[Callable[[], Any], float]] = {
    "max_pool1d": (lambda: F.max_pool1d(X[0], 1), 4),
    "max_pool2d": (lambda: F.max_pool2d(X, 1), 4),
    "places of max_pool2d": (lambda: F.max_pool2d(X, 1, return_indices=True)[1], 0),
    "max_pool3d": (lambda: F.max_pool3d(X[None], 1), 4),
    "avg_pool1d": (lambda: F.avg_pool1d(X[0], 1), 4),
    "avg_pool2d": (lambda: F.avg_pool2d(X, 1), 4),
    "avg_pool3d": (lambda: F.avg_pool3d(X[None], 1), 4),
    "adaptive_avg_pool2d": (lambda: F.adaptive_avg_pool2d(X, 1), 4),
    "adaptive_max_pool2d": (lambda: F.adaptive_max_pool2d(X, 1), 4),
    "slope of max_pool2d": (lambda: slope(lambda x: F.max_pool2d(x, 1), X), 1),
    "slope of avg_pool2d": (lambda: slope(lambda x: F.avg_pool2d(x, 1), X), 1),
    "slope of adaptive_avg_pool2d": (lambda: slope(lambda x: F.adaptive_avg_pool2d(x, 1), X), 1),
    "slope of adaptive_max_pool2d": (lambda: slope(lambda x: F.adaptive_max_pool2d(x, 1), X), 1),
    "lp_pool2d": (lambda: F.lp_pool2d(X, 2, 1), 4),
    "unfold": (lambda: F.unfold(X, 1), 4),
    "fold": (lambda: F.fold(X[0], (1, 1), 1), 4),
    "conv1d": (lambda: F.conv1d(X[0], W[0]), 8),
    "conv2d": (lambda: F.conv2d(X, W), 8),
    "conv3d": (lambda: F.conv3d(X[None], W[None]), 8),
    "conv_transpose2d": (lambda: F.conv_transpose2d(X, W), 8),
    "slope of conv2d": (lambda: slope(lambda x: F.conv2d(x, W), X), 2),
    "slope of the weight": (lambda: slope(lambda w: F.conv2d(X, w), W), 4),
    "pad": (lambda: F.pad(fa.ones(0), [1, 0], value=3.0), 3),
    "reflected": (lambda: F.pad(X, [0, 0, 0, 0], mode="reflect"), 4),
    "interpolate": (lambda: F.interpolate(X, size=1), 4),
    "linear": (lambda: F.linear(V, M), 16),
    "bilinear": (lambda: F.bilinear(M, M, W[0]), 32),
    "mm": (lambda: M @ M, 16),
    "bmm": (lambda: X[0] @ X[0], 16),
    "mv": (lambda: M @ V, 16),
    "dot": (lambda: V @ V, 16),
    "addmm": (lambda: fa.addmm(M, M, M), 20),
    "outer": (lambda: fa.outer(V, V), 16),
    "einsum": (lambda: fa.einsum("ij,jk->ki", M, M), 16),
    "tril": (lambda: M.tril(), 4),
    "triu": (lambda: M.triu(), 4),
    "nothing of tril": (lambda: M.tril(-1), 0),
    "nothing of triu": (lambda: M.triu(1), 0),
    "diag": (lambda: fa.diag(V), 4),
    "diag_embed": (lambda: fa.diag_embed(V), 4),
    "cumsum": (lambda: V.cumsum(0), 4),
    "cumprod": (lambda: V.cumprod(0), 4),
    "cummax": (lambda: V.cummax(0)[0], 4),
    "cummin": (lambda: V.cummin(0)[0], 4),
    "logcumsumexp": (lambda: V.logcumsumexp(0), 4),
    "sort": (lambda: V.sort()[0], 4),
    "argsort": (lambda: V.argsort(), 0),
    "topk": (lambda: V.topk(1)[0], 4),
    "kthvalue": (lambda: V.kthvalue(1)[0], 4),
    "median": (lambda: V.median(0)[0], 4),
    "mode": (lambda: V.mode(0)[0], 4),
    "unique": (lambda: V.unique(), 4),
    "unique of rows": (lambda: M.unique(dim=0), 4),
    "searchsorted": (lambda: fa.searchsorted(V, V, right=True), 1),
    "bucketize": (lambda: fa.bucketize(V, V), 0),
    "bincount": (lambda: fa.bincount(ZERO), 1),
    "histc": (lambda: fa.histc(V, 1, 0, 8), 1),
    "sum": (lambda: V.sum(0), 4),
    "mean": (lambda: V.mean(0), 4),
    "prod": (lambda: V.prod(0), 4),
    "amax": (lambda: V.amax(0), 4),
    "argmax": (lambda: V.argmax(0), 0),
    "any": (lambda: V.any(0).float(), 1),
    "all": (lambda: V.all(0).float(), 1),
    "logsumexp": (lambda: V.logsumexp(0), 4),
    "var": (lambda: V.var(0, correction=0), 0),
    "norm": (lambda: fa.linalg.vector_norm(V, 2, 0), 4),
    "count_nonzero": (lambda: V.count_nonzero(0), 1),
    "softmax": (lambda: V.softmax(0), 1),
    "log_softmax": (lambda: V.log_softmax(0), 0),
    "layer_norm": (lambda: F.layer_norm(V, [1]), 0),
    "rms_norm": (lambda: F.rms_norm(V, [1], eps=0.0), 1),
    "group_norm": (lambda: F.group_norm(X, 1), 0),
    "batch_norm": (lambda: F.batch_norm(X, fa.zeros(1), fa.ones(1), eps=0.0), 4),
    "attention": (lambda: F.scaled_dot_product_attention(X, X, W), 2),
    "nll_loss": (lambda: F.nll_loss(M, ZERO), -4),
    "nll_loss of each": (lambda: F.nll_loss(M, ZERO, reduction="none"), -4),
    "cross_entropy": (lambda: F.cross_entropy(M, ZERO, reduction="none"), 0),
    "mse_loss": (lambda: F.mse_loss(V, V * 0), 16),
    "one_hot": (lambda: F.one_hot(ZERO, 1), 1),
    "embedding": (lambda: F.embedding(ZERO, M), 4),
    "slope of embedding": (lambda: slope(lambda m: F.embedding(ZERO, m), M), 1),
    "gather": (lambda: V.gather(0, ZERO), 4),
    "slope of gather": (lambda: slope(lambda v: v.gather(0, ZERO), V), 1),
    "take": (lambda: V.take(ZERO), 4),
    "index_select": (lambda: V.index_select(0, ZERO), 4),
    "an index": (lambda: V[ZERO], 4),
    "slope of an index": (lambda: slope(lambda v: v[ZERO], V), 1),
    "a mask": (lambda: V[V > 0], 4),
    "scatter": (lambda: fa.zeros(1).scatter(0, ZERO, V), 4),
    "scatter_add": (lambda: fa.ones(1).scatter_add(0, ZERO, V), 5),
    "scatter_reduce": (lambda: fa.ones(1).scatter_reduce(0, ZERO, V, "prod"), 4),
    "index_add": (lambda: fa.ones(1).index_add(0, ZERO, V), 5),
    "index_copy": (lambda: fa.ones(1).index_copy(0, ZERO, V), 4),
    "index_fill": (lambda: fa.ones(1).index_fill(0, ZERO, 4.0), 4),
    "index_put": (lambda: fa.ones(1).index_put((ZERO,), V), 4),
    "masked_select": (lambda: fa.masked_select(V, V > 0), 4),
    "masked_fill": (lambda: V.masked_fill(V > 0, 3.0), 3),
    "masked_scatter": (lambda: fa.ones(1).masked_scatter(V > 0, V), 4),
    "nonzero": (lambda: V.nonzero(), 0),
    "where": (lambda: fa.where(V > 0, V, 0.0), 4),
    "flip": (lambda: V.flip(0), 4),
    "roll": (lambda: V.roll(1, 0), 4),
    "repeat": (lambda: V.repeat(1, 1), 4),
    "repeat_interleave": (lambda: V.repeat_interleave(1), 4),
    "cat": (lambda: fa.cat([V, V[:0]]), 4),
    "stack": (lambda: fa.stack([fa.tensor(4.0)]), 4),
    "clone": (lambda: V.clone(), 4),
    "a conversion": (lambda: V.double(), 4),
    "full": (lambda: fa.full((1,), 4.0), 4),
    "zeros": (lambda: fa.zeros(1), 0),
    "arange": (lambda: fa.arange(4.0, 5.0), 4),
    "linspace": (lambda: fa.linspace(4, 9, 1), 4),
    "logspace": (lambda: fa.logspace(2, 9, 1, base=2.0), 4),
    "eye": (lambda: fa.eye(1), 1),
    "randint": (lambda: fa.randint(4, 5, (1,)), 4),
    "randperm": (lambda: fa.randperm(1), 0),
    "multinomial": (lambda: fa.multinomial(V, 1), 0),
    "bernoulli": (lambda: fa.bernoulli(V / 4), 1),
    "a normal number": (lambda: fa.normal(V, 0.0), 4),
    "a uniform number": (lambda: fa.empty(1).uniform_(4.0, 4.0), 4),
    "dropout": (lambda: F.dropout(V, 0.0, True), 4),
    "lerp": (lambda: fa.lerp(V, V, 0.5), 4),
    "a product": (lambda: V * V, 16),
}


@pytest.mark.parametrize("name", CALLS)
def test_one_element(name: str) -> None:
    run, want = CALLS[name]
    for junk in (fa.nan, 7.0):
        for dtype in (fa.float32, fa.float64, fa.int64):
            # memory that the next results get
            held = [fa.full((1,), 7 if dtype == fa.int64 else junk, dtype=dtype) for _ in range(9)]
            del held
        got = run()
        assert got.numel() == 1 and got.item() == pytest.approx(want, rel=1e-6), junk
