"""What follows from reductions over rows, in compiled functions: the bits of eager calls.

Tensors are large enough to run block of rows by block of rows; the last block is a part of one. The
oracle is facula run eagerly.
"""

from __future__ import annotations

import random

import facula as fa
import numpy as np
import pytest

RNG = np.random.default_rng(9)


def floats(*shape):
    return fa.tensor(RNG.standard_normal(shape).astype("float32"))


def bits(t):
    return str(t.dtype), tuple(t.shape), t.stride(), t.float().numpy().tobytes()


def check(function, *args):
    compiled = fa.compile(function)
    for _ in range(2):
        mine, others = [a.clone() for a in args], [a.clone() for a in args]
        eager, captured = function(*mine), compiled(*others)
        assert list(map(bits, captured)) == list(map(bits, eager))
        assert list(map(bits, others)) == list(map(bits, mine))


def softmax(x, w):
    x = x * 0.5
    e = (x - x.amax(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True),)


def layer_norm(x, w):
    x = x * 2
    d = x - x.mean(-1, keepdim=True)
    return ((d / (d.square().mean(-1, keepdim=True) + 1e-5).sqrt()) * w + w,)


def rms_norm(x, w):
    mean = x.square().mean(-1)
    return (x * (mean + 1e-6).rsqrt().unsqueeze(-1) * w, mean)


def held(x, w):
    t = x * w
    total = t.sum(-1, keepdim=True)
    u = t - total
    return t, total, u, u * 2 + total


def in_place(x, w):
    t = x * 1
    t -= t.amax(-1, keepdim=True)
    t.exp_()
    t /= t.sum(-1, keepdim=True)
    return t, x.mul_(t)


def halves(x, w):
    h = x.half() * 2
    e = (h - h.amax(-1, keepdim=True)).float().exp()
    return (e / e.sum(-1, keepdim=True)).half(), e.bfloat16().sum(-1)


def columns_after_rows(x, w):
    t = x * 2
    return (t - t.mean(-1, keepdim=True)).sum(0), (t * t).sum(-1).sum()


def beyond_the_range(x, w):
    t = x.sign() * 3e38
    return (t * t.abs().mean(-1, keepdim=True).reciprocal(),)


def other_views(x, w):
    t = x.transpose(0, -1).contiguous() * 2
    s = (x * 2).sum(-1)
    return t - t.amax(-1, keepdim=True), s * s.flatten()[0], x * s.unsqueeze(-1)


SHAPES = [(131, 1100), (4097, 40), (64, 33, 100), (2, 70, 1024), (300, 1, 700)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("checked", ["1", "check"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "function",
    [
        softmax,
        layer_norm,
        rms_norm,
        held,
        in_place,
        halves,
        columns_after_rows,
        beyond_the_range,
        other_views,
    ],
)
def test_is_bit_for_bit_the_same(function, shape, checked, threads, monkeypatch):
    monkeypatch.setenv("FACULA_COMPILE", checked)
    before = fa.get_num_threads()
    fa.set_num_threads(threads)
    try:
        check(function, floats(*shape), floats(shape[-1]))
    finally:
        fa.set_num_threads(before)


def test_squares_whose_other_dim_has_the_same_size():
    x = floats(400, 400)

    def over_columns(x):
        t = x * 2
        return t - t.sum(0), t * t.sum(0, keepdim=True), t.amax(1) - t, t.amax(1, keepdim=True) - t

    check(over_columns, x)


def test_gradients():
    def step(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        (layer_norm(x, w)[0].square().sum() + softmax(x, w)[0].amax(-1).sum()).backward()
        return x.grad, w.grad

    check(step, floats(200, 800), floats(800))


class Program:
    """Random statements over a few tensors of the same rows."""

    def __init__(self, seed):
        self.seed = seed

    def __call__(self, x, w):
        rng = random.Random(self.seed)
        values, columns = [x * 2], [x.mean(-1, keepdim=True)]
        for _ in range(rng.randint(4, 14)):
            t, kind = rng.choice(values), rng.randrange(8)
            if kind < 3:
                name = rng.choice(["sum", "mean", "amax", "amin", "std"])
                columns.append(getattr(t, name)(-1, keepdim=True))
            elif kind == 3:
                values.append(rng.choice([t * w, t + w, t * rng.choice(columns), t.tanh()]))
            elif kind == 4:
                values.append(t - rng.choice(columns))
            elif kind == 5:
                rng.choice([t.mul_, t.add_])(rng.choice([*columns, *values, 0.5]))
            elif kind == 6:
                columns.append(rng.choice(columns) * rng.choice(columns) + 1)
            elif len(values) > 1:
                del values[rng.randrange(len(values))]
        return values + columns


@pytest.mark.parametrize("part", range(4))
def test_random_programs_over_rows(part):
    for seed in range(part * 15, (part + 1) * 15):
        check(Program(seed), floats(*SHAPES[seed % len(SHAPES)]), floats(SHAPES[seed % 5][-1]))
