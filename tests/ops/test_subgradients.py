"""Derivatives where there is a choice, at ties, zeros and edges: the values that PyTorch has.

Each entry whose derivative has one says so in its `doc`.
"""

import json
from collections.abc import Callable, Sequence
from importlib import resources
from math import inf, log, nan
from typing import Any, NamedTuple

import facula as fa
import pytest
from facula import special

F = fa.nn.functional
third = 1 / 3


class Case(NamedTuple):
    entry: str
    call: Callable[..., Any]
    inputs: Sequence[Any]
    gradients: Sequence[Any]


FIVE, TIES = [2.0, 2.0, 1.0, 3.0, 2.0], [1.0, 1.0, 3.0, 3.0]
EDGES = [-2.0, -1.0, 0.0, 1.0, 2.0]
CASES = [
    Case("abs", fa.abs, [[-1.0, 0.0, 2.0]], [[-1, 0, 1]]),
    Case("sign", fa.sign, [[-1.0, 0.0, 2.0]], [[0, 0, 0]]),
    Case("sgn", fa.sgn, [[-1.0, 0.0, 2.0]], [[0, 0, 0]]),
    Case("copysign", fa.copysign, [[0.0, -2.0, 3.0], [1.0, 1.0, -0.0]], [[0, -1, -1], [0, 0, 0]]),
    Case("maximum", fa.maximum, [[1.0, 2.0, 3.0], [1.0, 1.0, 4.0]], [[0.5, 1, 0], [0.5, 0, 1]]),
    Case("minimum", fa.minimum, [[1.0, 2.0, 3.0], [1.0, 1.0, 4.0]], [[0.5, 0, 1], [0.5, 1, 0]]),
    Case("fmax", fa.fmax, [[1.0, 2.0, 3.0], [1.0, 1.0, 4.0]], [[1, 1, 0], [0, 0, 1]]),
    Case("fmin", fa.fmin, [[1.0, 2.0, 3.0], [1.0, 1.0, 4.0]], [[1, 0, 1], [0, 1, 0]]),
    Case("clamp", lambda x: x.clamp(-1, 1), [EDGES], [[0, 1, 1, 1, 0]]),
    Case("clamp", lambda x: x.clamp(1, -1), [EDGES], [[0, 0, 0, 0, 0]]),
    Case(
        "clamp.tensor",
        fa.clamp,
        [EDGES, [-1.0] * 5, [1.0] * 5],
        [[0, 1, 1, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]],
    ),
    Case("clamp_min", lambda x: x.clamp_min(1), [[0.0, 1.0, 2.0]], [[0, 1, 1]]),
    Case("clamp_max", lambda x: x.clamp_max(1), [[0.0, 1.0, 2.0]], [[1, 1, 0]]),
    Case("clamp_min.tensor", fa.clamp_min, [[0.0, 1, 2], [1.0, 1, 1]], [[0, 1, 1], [1, 0, 0]]),
    Case("clamp_max.tensor", fa.clamp_max, [[0.0, 1, 2], [1.0, 1, 1]], [[1, 1, 0], [0, 0, 1]]),
    Case("nan_to_num", fa.nan_to_num, [[nan, inf, -inf, 1.0]], [[0, 0, 0, 1]]),
    Case("floor", fa.floor, [[1.0, 1.5]], [[0, 0]]),
    Case("ceil", fa.ceil, [[1.0, 1.5]], [[0, 0]]),
    Case("trunc", fa.trunc, [[1.0, 1.5]], [[0, 0]]),
    Case("round", fa.round, [[1.0, 0.5]], [[0, 0]]),
    Case("frac", fa.frac, [[1.0, 1.5]], [[1, 1]]),
    Case("fmod", fa.fmod, [[4.0, 5.0], [2.0, 3.0]], [[1, 1], [-2, -1]]),
    Case("remainder", fa.remainder, [[4.0, -5.0], [2.0, 3.0]], [[1, 1], [-2, 2]]),
    Case("sqrt", fa.sqrt, [[0.0, 4.0]], [[inf, 0.25]]),
    Case("rsqrt", fa.rsqrt, [[0.0, 4.0]], [[-inf, -1 / 16]]),
    Case("pow.scalar", lambda x: x**0.0, [[0.0, 2.0]], [[0, 0]]),
    Case("pow.scalar", lambda x: x**1.0, [[0.0, 2.0]], [[1, 1]]),
    Case(
        "pow.tensor",
        fa.pow,
        [[0.0, 0.0, 0.0, 2.0], [0.0, 1.0, 2.0, 0.0]],
        [[0, 1, 0, 0], [0, 0, 0, log(2)]],
    ),
    Case("xlogy", fa.xlogy, [[0.0, 0.0, 1.0], [0.0, 2.0, 0.0]], [[0, log(2), -inf], [0, 0, inf]]),
    Case(
        "xlog1py",
        special.xlog1py,
        [[0.0, 0.0, 1.0], [-1.0, 1.0, -1.0]],
        [[0, log(2), -inf], [0, 0, inf]],
    ),
    Case("atan2", fa.atan2, [[0.0, 0.0], [0.0, 1.0]], [[0, 1], [0, 0]]),
    Case("hypot", fa.hypot, [[0.0, 3.0], [0.0, 4.0]], [[0, 0.6], [0, 0.8]]),
    Case("entr", special.entr, [[0.0, 1.0, -1.0]], [[inf, -1, 0]]),
    Case(
        "logit",
        lambda x: fa.logit(x, 0.25),
        [[0.0, 0.25, 0.5, 0.75, 1.0]],
        [[0, 16 / 3, 4, 16 / 3, 0]],
    ),
    Case("angle", fa.angle, [[0.0, -1.0, 1.0]], [[0, 0, 0]]),
    Case("amax", lambda x: x.amax(0), [[1.0, 3.0, 3.0]], [[0, 0.5, 0.5]]),
    Case("amin", lambda x: x.amin(0), [[1.0, 1.0, 3.0]], [[0.5, 0.5, 0]]),
    Case("max", fa.max, [[1.0, 3.0, 3.0]], [[0, 0.5, 0.5]]),
    Case("min", fa.min, [[1.0, 1.0, 3.0]], [[0.5, 0.5, 0]]),
    Case("max.dim", lambda x: x.max(0)[0], [[1.0, 3.0, 3.0]], [[0, 1, 0]]),
    Case("min.dim", lambda x: x.min(0)[0], [[1.0, 1.0, 3.0]], [[1, 0, 0]]),
    Case("aminmax", lambda x: sum(fa.aminmax(x)), [TIES], [[0.5] * 4]),
    Case("aminmax", lambda x: sum(fa.aminmax(x, dim=0)), [TIES], [[0.5] * 4]),
    Case("median", fa.median, [FIVE], [[third, third, 0, 0, third]]),
    Case("median.dim", lambda x: x.median(0)[0], [FIVE], [[0, 1, 0, 0, 0]]),
    Case("nanmedian", fa.nanmedian, [FIVE], [[third, third, 0, 0, third]]),
    Case("nanmedian.dim", lambda x: x.nanmedian(0)[0], [FIVE], [[0, 1, 0, 0, 0]]),
    Case("kthvalue", lambda x: x.kthvalue(2)[0], [FIVE], [[1, 0, 0, 0, 0]]),
    Case("mode", lambda x: x.mode(0)[0], [FIVE], [[0, 0, 0, 0, 1]]),
    Case("quantile", lambda x: x.quantile(0.5), [[2.0, 2.0, 1.0, 3.0]], [[0.5, 0.5, 0, 0]]),
    Case(
        "sort",
        lambda x: x.sort()[0] * fa.arange(4.0, dtype=fa.float64),
        [[2.0, 1.0, 2.0, 2.0]],
        [[1, 0, 2, 3]],
    ),
    Case(
        "msort",
        lambda x: x.msort() * fa.arange(4.0, dtype=fa.float64),
        [[2.0, 1.0, 2.0, 2.0]],
        [[1, 0, 2, 3]],
    ),
    Case("topk", lambda x: x.topk(1)[0], [[1.0, 3.0, 2.0]], [[0, 1, 0]]),
    Case("cummax", lambda x: x.cummax(0)[0], [[1.0, 1.0, 2.0, 2.0, 1.0]], [[1, 1, 1, 2, 0]]),
    Case("cummin", lambda x: x.cummin(0)[0], [[2.0, 2.0, 1.0, 1.0, 2.0]], [[1, 1, 1, 2, 0]]),
    Case("prod", fa.prod, [[0.0, 2.0, 3.0]], [[6, 0, 0]]),
    Case("prod", fa.prod, [[0.0, 2.0, 0.0]], [[0, 0, 0]]),
    Case("cumprod", lambda x: x.cumprod(0), [[2.0, 0.0, 3.0]], [[1, 8, 0]]),
    Case("std", fa.std, [[1.0, 1.0, 1.0]], [[0, 0, 0]]),
    Case("std.dim", lambda x: x.std(0, False), [[1.0, 1.0, 1.0]], [[0, 0, 0]]),
    Case("std.correction", lambda x: x.std(0, correction=0), [[1.0, 1.0, 1.0]], [[0, 0, 0]]),
    Case("norm", fa.norm, [[0.0, 0.0]], [[0, 0]]),
    Case("linalg_vector_norm", lambda x: fa.linalg.vector_norm(x, 1), [[0.0, -2.0]], [[0, -1]]),
    Case("linalg_vector_norm", lambda x: fa.linalg.vector_norm(x, 3), [[0.0, 0.0]], [[0, 0]]),
    Case(
        "linalg_vector_norm",
        lambda x: fa.linalg.vector_norm(x, inf),
        [[2.0, -2.0, 1.0]],
        [[0.5, -0.5, 0]],
    ),
    Case(
        "linalg_vector_norm",
        lambda x: fa.linalg.vector_norm(x, -inf),
        [[1.0, -1.0, 2.0]],
        [[0.5, -0.5, 0]],
    ),
    Case("dist", fa.dist, [[1.0, 2.0], [1.0, 2.0]], [[0, 0], [0, 0]]),
    Case(
        "cdist",
        fa.cdist,
        [[[1.0, 2.0]], [[1.0, 2.0], [4.0, 6.0]]],
        [[[-0.6, -0.8]], [[0, 0], [0.6, 0.8]]],
    ),
    Case(
        "cdist",
        lambda x, y: fa.cdist(x, y, p=1),
        [[[1.0, 2.0]], [[1.0, 2.0], [1.0, 6.0]]],
        [[[0, -1]], [[0, 0], [0, 1]]],
    ),
    Case(
        "cdist",
        lambda x, y: fa.cdist(x, y, p=inf),
        [[[1.0, 2.0]], [[1.0, 2.0], [4.0, 5.0], [-2.0, 5.0], [4.0, 2.0]]],
        [[[-1, -2]], [[0, 0], [1, 1], [-1, 1], [1, 0]]],
    ),
    Case(
        "scatter_reduce",
        lambda x, s: x.scatter_reduce(0, fa.tensor([0, 0, 1]), s, "amax"),
        [[1.0, 5.0], [1.0, 1.0, 2.0]],
        [[third, 1], [third, third, 0]],
    ),
    Case(
        "index_reduce",
        lambda x, s: x.index_reduce(0, fa.tensor([0, 0, 1]), s, "amax"),
        [[1.0, 5.0], [1.0, 1.0, 2.0]],
        [[third, 1], [third, third, 0]],
    ),
    Case("relu", F.relu, [[-1.0, 0.0, 1.0]], [[0, 0, 1]]),
    Case("relu6", F.relu6, [[-1.0, 0.0, 3.0, 6.0, 7.0]], [[0, 0, 1, 0, 0]]),
    Case("hardtanh", F.hardtanh, [EDGES], [[0, 0, 1, 0, 0]]),
    Case("leaky_relu", lambda x: F.leaky_relu(x, 0.25), [[-1.0, 0.0, 1.0]], [[0.25, 0.25, 1]]),
    Case("threshold", lambda x: F.threshold(x, 1.0, 5.0), [[0.0, 1.0, 2.0]], [[0, 0, 1]]),
    Case("hardswish", F.hardswish, [[-4.0, -3.0, 0.0, 3.0, 4.0]], [[0, 0, 0.5, 1, 1]]),
    Case("hardsigmoid", F.hardsigmoid, [[-4.0, -3.0, 0.0, 3.0, 4.0]], [[0, 0, 1 / 6, 0, 0]]),
    Case("hardshrink", lambda x: F.hardshrink(x, 1.0), [EDGES], [[1, 0, 0, 0, 1]]),
    Case("softshrink", lambda x: F.softshrink(x, 1.0), [EDGES], [[1, 0, 0, 0, 1]]),
    Case("elu", lambda x: F.elu(x, 2.0), [[0.0, 1.0]], [[2, 1]]),
    Case("selu", F.selu, [[0.0, 1.0]], [[1.7580993408473766, 1.0507009873554805]]),
    Case("celu", lambda x: F.celu(x, 2.0), [[0.0, 1.0]], [[1, 1]]),
    Case("prelu", F.prelu, [[-1.0, 0.0, 1.0], [0.25]], [[0.25, 0.25, 1], [-1]]),
    Case(
        "max_pool", lambda x: F.max_pool1d(x, 3), [[[1.0, 2, 2, 3, 3, 3]]], [[[0, 1, 0, 1, 0, 0]]]
    ),
    Case(
        "adaptive_max_pool",
        lambda x: F.adaptive_max_pool1d(x, 2),
        [[[1.0, 2, 2, 3, 3, 3]]],
        [[[0, 1, 0, 1, 0, 0]]],
    ),
    Case(
        "l1_loss",
        lambda x, y: F.l1_loss(x, y, reduction="sum"),
        [[1.0, 2.0], [1.0, 3.0]],
        [[0, -1], [0, 1]],
    ),
    Case(
        "smooth_l1_loss",
        lambda x, y: F.smooth_l1_loss(x, y, reduction="sum"),
        [[0.0, 1.0, -1.0], [0.0, 0.0, 0.0]],
        [[0, 1, -1], [0, -1, 1]],
    ),
    Case(
        "smooth_l1_loss",
        lambda x, y: F.smooth_l1_loss(x, y, reduction="sum", beta=0.0),
        [[0.0, 1.0], [0.0, 0.0]],
        [[0, 1], [0, -1]],
    ),
    Case(
        "huber_loss",
        lambda x, y: F.huber_loss(x, y, reduction="sum"),
        [[0.0, 1.0, -1.0], [0.0, 0.0, 0.0]],
        [[0, 1, -1], [0, -1, 1]],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.entry)
def test_gradients_where_there_is_a_choice(case: Case) -> None:
    inputs = [fa.tensor(x, dtype=fa.float64, requires_grad=True) for x in case.inputs]
    found = fa.autograd.grad(case.call(*inputs).sum(), inputs)
    for g, expected in zip(found, case.gradients, strict=True):
        wanted = fa.tensor(expected, dtype=fa.float64)
        assert fa.allclose(g, wanted, rtol=1e-12, atol=0), (case.entry, g, wanted)


def test_entries_say_what_their_gradients_are() -> None:
    text = resources.files("facula").joinpath("ops.json").read_text(encoding="utf-8")
    docs = {o["name"]: o["doc"] for o in json.loads(text)["operators"]}
    entries = {case.entry for case in CASES}
    assert not [name for name in sorted(entries) if "gradient" not in docs[name].lower()]
