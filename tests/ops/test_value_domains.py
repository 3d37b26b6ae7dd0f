"""Elements and numbers outside of what an operator is defined for raise."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import facula as fa
import numpy as np
import pytest

F = fa.nn.functional


@pytest.mark.parametrize("dtype", [fa.float16, fa.bfloat16, fa.float32, fa.float64])
@pytest.mark.parametrize("bad", [1.1, -0.1, nan, inf, -inf])
def test_binary_cross_entropy_takes_probabilities(bad: float, dtype: fa.dtype) -> None:
    good = fa.rand(3, 700, dtype=dtype)
    for at in ((0, 0), (2, 699), (1, 350)):
        wrong = good.clone()
        wrong[at] = bad
        for given in ((wrong, good), (good, wrong), (wrong.T, good.T), (wrong[:, ::1], good)):
            with pytest.raises(RuntimeError, match=r"all elements must be in \[0, 1\]"):
                F.binary_cross_entropy(*given)
            with pytest.raises(RuntimeError, match=r"\[0, 1\]"):
                F.binary_cross_entropy(*given, weight=good, reduction="none")
    one = fa.tensor(bad, dtype=dtype)
    with pytest.raises(RuntimeError, match=r"\[0, 1\]"):
        F.binary_cross_entropy(one, fa.tensor(0.5, dtype=dtype))
    with pytest.raises(RuntimeError, match=r"\[0, 1\]"):
        fa.nn.BCELoss()(one.requires_grad_(), fa.tensor(0.5, dtype=dtype))
    F.binary_cross_entropy(good, good)  # the fault is not remembered
    fa.ones(3) + 1


def test_binary_cross_entropy_at_the_ends() -> None:
    x = fa.tensor([0.0, 1.0, 0.0, 1.0, 0.25])
    target = fa.tensor([0.0, 1.0, 1.0, 0.0, 0.5])
    got = F.binary_cross_entropy(x, target, reduction="none")
    np.testing.assert_allclose(got.numpy(), [0, 0, 100, 100, -0.5 * np.log(0.25 * 0.75)], rtol=1e-6)
    assert F.binary_cross_entropy(x.to("meta"), target.to("meta")).shape == ()


WRONG: dict[str, Callable[[], Any]] = {
    "nll_loss": lambda: F.nll_loss(fa.zeros(1, 3), fa.tensor([3])),
    "nll_loss negative": lambda: F.nll_loss(fa.zeros(1, 3), fa.tensor([-1])),
    "cross_entropy": lambda: F.cross_entropy(fa.zeros(1, 3), fa.tensor([5])),
    "cross_entropy smoothing": lambda: F.cross_entropy(fa.zeros(1, 3), fa.tensor([0]),
    label_smoothing=1.5),
    "multi_margin_loss": lambda: F.multi_margin_loss(fa.zeros(1, 3), fa.tensor([5])),
    "multi_margin_loss p": lambda: F.multi_margin_loss(fa.zeros(1, 3), fa.tensor([0]), p=3),
    "multilabel_margin_loss": lambda: F.multilabel_margin_loss(fa.zeros(1, 3), fa.tensor([[7, -1,
    -1]])),
    "bernoulli": lambda: fa.bernoulli(fa.tensor([1.5])),
    "bernoulli nan": lambda: fa.bernoulli(fa.tensor([nan])),
    "bernoulli_": lambda: fa.zeros(2).bernoulli_(1.5),
    "multinomial": lambda: fa.multinomial(fa.tensor([-1.0, 2.0]), 1),
    "multinomial nothing": lambda: fa.multinomial(fa.tensor([0.0, 0.0]), 1),
    "multinomial nan": lambda: fa.multinomial(fa.tensor([nan, 1.0]), 1),
    "gaussian_nll_loss": lambda: F.gaussian_nll_loss(fa.ones(1), fa.ones(1), fa.tensor([-1.0])),
    "gaussian_nll_loss eps": lambda: F.gaussian_nll_loss(fa.ones(1), fa.ones(1), fa.ones(1),
    eps=-1),
    "poisson": lambda: fa.poisson(fa.tensor([-1.0])),
    "poisson nan": lambda: fa.poisson(fa.tensor([nan])),
    "normal": lambda: fa.normal(fa.zeros(2), fa.tensor([1.0, -1.0])),
    "normal mean": lambda: fa.normal(0.0, fa.tensor([1.0, -1.0])),
    "normal nan": lambda: fa.normal(0.0, fa.tensor([nan])),
    "normal_": lambda: fa.zeros(2).normal_(0, -1),
    "uniform_": lambda: fa.zeros(2).uniform_(2, 1),
    "exponential_": lambda: fa.zeros(2).exponential_(-1),
    "geometric_": lambda: fa.zeros(2).geometric_(1.5),
    "quantile": lambda: fa.quantile(fa.ones(2), 1.5),
    "quantile nan": lambda: fa.quantile(fa.ones(2), nan),
    "quantile of several": lambda: fa.quantile(fa.ones(2), fa.tensor([0.5, -0.5])),
    "pdist": lambda: F.pdist(fa.ones(2, 1), p=-1),
    "pdist nan": lambda: F.pdist(fa.ones(2, 1), p=nan),
    "dropout": lambda: F.dropout(fa.ones(1), 1.5),
    "dropout nan": lambda: F.dropout(fa.ones(1), nan),
    "huber_loss": lambda: F.huber_loss(fa.ones(1), fa.ones(1), delta=0),
    "smooth_l1_loss": lambda: F.smooth_l1_loss(fa.ones(1), fa.ones(1), beta=-1),
    "hardtanh": lambda: F.hardtanh(fa.ones(1), 2.0, 1.0),
    "softshrink": lambda: F.softshrink(fa.ones(1), -1.0),
    "celu": lambda: F.celu(fa.ones(1), 0),
    "CELU": lambda: fa.nn.CELU(0.0)(fa.ones(1)),
    "cosine_similarity": lambda: F.cosine_similarity(fa.ones(1, 1), fa.ones(1, 1), eps=-1),
    "batch_norm": lambda: F.batch_norm(fa.zeros(2, 2), None, None, training=True, eps=-1),
    "local_response_norm": lambda: F.local_response_norm(fa.zeros(1, 1, 2), 0),
    "one_hot": lambda: F.one_hot(fa.tensor([3]), 2),
    "bincount": lambda: fa.bincount(fa.tensor([-1])),
    "repeat_interleave": lambda: fa.repeat_interleave(fa.tensor([1, 2]), fa.tensor([-1, 2])),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_outside_of_the_domain(name: str) -> None:
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        WRONG[name]()
