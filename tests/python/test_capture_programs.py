"""Random programs, eager against captured, bit for bit.

Statements make views, write in place, alias, draw numbers, branch on data, raise in the middle, ask
for gradients. `python tests/python/test_capture_programs.py SECONDS [SEED]` runs more of them.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

import facula as fa
import pytest
from facula import _C

SIZES = (6, 8)


class Program:
    """Statements over a list of float tensors, the same for a seed whoever runs them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self) -> Any:
        self.rng = random.Random(self.seed)
        fa.manual_seed(self.seed)
        self.log: list[Any] = []
        dtypes = [fa.float32, fa.float64, fa.float32, fa.float16]
        self.values = [fa.randn(SIZES).to(d) for d in dtypes]
        self.values.append(fa.randn(SIZES).requires_grad_() * 1)
        error = None
        try:
            for _ in range(self.rng.randint(3, 25)):
                self.statement()
        except (RuntimeError, ValueError, LookupError, TypeError) as e:
            error = (type(e), str(e))
        grads = []
        for v in self.values:
            if v.requires_grad and not error:
                grads.append(bits(v.float().sum()))
        return error, self.log, [bits(v) for v in self.values], grads

    def pick(self) -> fa.Tensor:
        return self.rng.choice(self.values)

    def like(self, t: fa.Tensor) -> fa.Tensor:
        """Another value of a shape that goes with t's."""
        fits = [v for v in self.values if v.shape == t.shape or v.dim() < 2]
        return self.rng.choice(fits or [t])

    def statement(self) -> None:
        r, t = self.rng, self.pick()
        kind = r.randrange(25)
        number = r.choice([0.5, -1.25, 2, 3.0, 0.1])
        if kind < 5:
            name = r.choice(["add", "mul", "sub", "maximum", "atan2"])
            self.values.append(getattr(fa, name)(t, self.like(t)))
        elif kind < 8:
            self.values.append(getattr(t, r.choice(["sin", "tanh", "abs", "neg", "sigmoid"]))())
        elif kind < 10:
            self.values.append(r.choice([t + number, t * number, number - t, t > number]) * 1.0)
        elif kind < 13:
            target = t.detach() if r.random() < 0.5 else t
            name = r.choice(["add_", "mul_", "sub_", "copy_"])
            getattr(target, name)(self.like(target).detach())
        elif kind == 13 and t.dim() == 2:
            self.values.append(r.choice([t.t(), t[1:], t[:, ::2], t[0], t.reshape(-1), t[:, :1]]))
        elif kind == 14 and t.dim() == 2:
            self.values.append(t.expand(2, *t.shape)[1])
        elif kind == 15:
            out = fa.empty_like(t.detach())
            fa.mul(t.detach(), number, out=out)
            self.values.append(out)
        elif kind == 16:
            if float(t.detach().float().sum()) > 0:
                self.values.append(t * 2)
            else:
                t.detach().mul_(0.5)
        elif kind == 17:
            self.values.append(fa.rand(t.shape) * t)
        elif kind == 18:
            self.log.append(
                r.choice([lambda: repr(t.tolist()), lambda: repr(t), lambda: bits(t)])()
            )
        elif kind == 19:
            self.values.append(fa.where(t > number, t, self.like(t)))
        elif kind == 20:
            self.forget_or_fail()
        elif kind in (21, 22) and t.dim() > 0:
            self.values.append(self.reduced(t * number if r.random() < 0.7 else t))
        elif kind == 23:
            self.values.append(self.cast(t))
        elif t.requires_grad and t.is_floating_point():
            self.values.append(
                r.choice(
                    [
                        t.sum(),
                        t.softmax(-1),
                        t.float() @ t.float().t() if t.dim() == 2 else t.cumsum(0),
                    ]
                )
            )

    def reduced(self, t: fa.Tensor) -> fa.Tensor:
        name = self.rng.choice(["sum", "mean", "amax", "amin", "std"])
        dims = [d for d in range(t.dim()) if self.rng.random() < 0.6] or [t.dim() - 1]
        return getattr(t, name)(dims, keepdim=self.rng.random() < 0.5)

    def cast(self, t: fa.Tensor) -> fa.Tensor:
        dtype = self.rng.choice([fa.float32, fa.float64, fa.float16])
        return self.rng.choice([t.to(dtype), t.clone(), t.contiguous(), t.to(dtype, copy=True)])

    def forget_or_fail(self) -> None:
        if self.rng.random() < 0.1:
            raise KeyError("in the middle")
        if len(self.values) > 4:
            del self.values[self.rng.randrange(len(self.values))]


def bits(t: fa.Tensor) -> Any:
    t = t.detach()
    return tuple(t.shape), t.stride(), str(t.dtype), t.numpy().tobytes()


def run_both(seed: int) -> None:
    program = Program(seed)
    eager = program()
    for symbolic in (False, True):
        with _C._Capture(symbolic, True, False):
            captured = program()
        assert captured == eager, f"program {seed}"


@pytest.mark.parametrize("part", range(4))
def test_random_programs_are_the_same(part: int) -> None:
    for seed in range(part * 150, (part + 1) * 150):
        run_both(seed)


if __name__ == "__main__":
    end = time.monotonic() + float(sys.argv[1])
    seed = first = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    while time.monotonic() < end:
        run_both(seed)
        seed += 1
    print(seed - first, "programs")
