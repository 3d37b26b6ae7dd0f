"""Checks of an operator at other sizes and layouts than its samples have.

What is made depends on how the operator runs on the device: a kernel of its own gets all of it, a
template or a composition less, what runs on the CPU nothing.
"""

from __future__ import annotations

import gc
import itertools
import math
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import facula
from facula.testing import _sizes
from facula.testing._arguments import (
    LAYOUTS,
    Around,
    array,
    junk,
    laid,
    made,
    mapped,
    soil,
    tensors,
)
from facula.testing._samples import OpRecord, Sample
from facula.testing._sizes import TILES, Grown
from facula.testing._suite import Suite

_LARGE = 10**7  # elements of a result
_HELD = 1 << 18  # elements of a tensor that is not left to the collector


def check_sizes(suite: Suite, op: OpRecord, call: Callable[..., Any]) -> None:
    """The checks of one operator; the report is the suite's."""
    _Sized(suite, op, call).run()


class _Sized:
    def __init__(self, suite: Suite, op: OpRecord, call: Callable[..., Any]) -> None:
        self.suite, self.op, self.call = suite, op, call
        self.random = op.kind == "random" or any(
            a["type"].startswith("Generator") for a in op.data["arguments"]
        )
        self.dtypes = suite.own - suite.fell
        way = suite.way(op)
        self.native = way == "native"
        self.own = self.native or (way == "by formula" and bool(op.reduction))
        self.formula = way == "by formula"

    def run(self) -> None:
        number = 0
        for index, text in enumerate(self.op.data["samples"]):
            if not _sizes.symbols(text):
                continue
            for grown, checks in self.plan(index, text, number):
                if self.suite.missing or (self.suite.first and self.suite.failed):
                    return
                self.one(index, grown, checks)
            number += 1

    def plan(self, index: int, text: str, number: int) -> Iterator[tuple[Grown, str]]:
        """Sizes, and which checks they get; `number` of the operator's samples came before."""
        if number > 2 and not self.own:
            return
        turns = list(_sizes.together(text))
        if self.own:
            for i, grown in enumerate(turns):  # in one of them all sizes are large
                all_of_it = i in (3, (number + 4) % len(TILES))
                yield grown, "layouts out dtypes gradient" if all_of_it else "plain"
            for grown in _sizes.each_dim(self.op, turns[3 % len(turns)]):
                yield grown, "plain"
        else:  # the first, in which all are large; the others in turn
            picked = [turns[3 % len(turns)], *turns[number::3][:2]]
            for i, grown in enumerate(dict.fromkeys(picked)):
                yield grown, "layouts out" + (" gradient dtypes" if i == 0 else "")
        for grown in _sizes.empty(text):
            yield grown, "plain out"
        along = _sizes.rows(self.op, index, self.suite.shapes.get(index, []))
        if self.own and number < 3:
            along = along or _sizes.symbols(text)[-1:]
            yield from ((g, "plain") for g in _sizes.alone(text, along[-1:], _sizes.ROWS))
            for g in _sizes.alone(text, _sizes.symbols(text), _sizes.TILES):
                yield g, "layouts out gradient" if g.sizes[0][1] == 17 else "plain"
            if "out" not in (self.op.variants or ()):  # results that fill their blocks of memory
                for g in _sizes.alone(text, _sizes.symbols(text), (128,)):
                    yield g, "watched"
        elif number == 0:  # each length with some operators of the kind
            number_of = zlib.crc32(self.op.name.encode())
            some = list(_sizes.ROWS)[number_of % 10 :: 10]
            some += [2**16 + 17] if number_of % 4 == 0 else []
            some += [_sizes.LONG] if number_of % 16 == 0 else []
            yield from ((g, "plain") for g in _sizes.alone(text, _sizes.symbols(text)[-1:], some))
        if self.own and number < 2:
            yield from ((g, "plain") for g in _sizes.long_rows(self.op, text, along))

    def one(self, index: int, grown: Grown, checks: str) -> None:
        """All checks at one of the sizes."""
        suite = self.suite
        dtypes = [d for d in suite.dtypes_of(self.op, self.op.sample(index)) if d in self.dtypes]
        if not dtypes:
            return
        for dtype in dtypes if "dtypes" in checks else dtypes[:1]:
            for variant in grown.variants():
                sample = variant.sample(self.op)
                if sample is None:
                    continue
                args, kwargs = made(sample, dtype)
                if self.sensible(args, kwargs, variant.data):
                    self.each(variant, sample, args, kwargs, dtype, checks, dtype == dtypes[0])
                    break

    def each(
        self,
        grown: Grown,
        sample: Sample,
        args: Any,
        kwargs: Any,
        dtype: str,
        checks: str,
        all_: bool,
    ) -> None:
        suite, op = self.suite, self.op

        def check(name: str, run: Callable[..., None], *given: Any) -> None:
            suite.checked(op, f"{name} of other sizes", str(grown), dtype, lambda: run(*given))

        watched = checks != "plain" or not all(new for _, new in grown.sizes)
        for layout in LAYOUTS if "layouts" in checks and all_ else LAYOUTS[:1]:
            place = (args, kwargs, dtype, layout)
            check(layout, self.values, *place, watched and layout == "plain")
            if "out" in checks and suite.has_inplace(op) and layout in ("offset", "sliced"):
                check(f"in-place, {layout}", self.values, *place, False, True)
        if "out" in checks and "out" in (op.variants or ()) and all_:
            check("out=", self.into, args, kwargs, dtype)
        real = dtype in ("float32", "float64")
        if "gradient" in checks and real and op.differentiable:
            check("gradient", suite.gradient, op, self.call, sample, dtype)
        if any(t.numel() > _HELD for t in tensors((args, kwargs))):
            gc.collect()  # errors that were caught hold frames, and those tensors

    def sensible(self, args: list[Any], kwargs: dict[str, Any], data: str) -> bool:
        """Does the CPU take these sizes, and at a cost that can be borne?"""
        suite = self.suite
        sizes = [t.numel() for t in tensors((args, kwargs))]
        shape = [s for t in tensors((args, kwargs)) for s in t.shape]
        # sums in another order differ by more, the more there are
        longest = max([1, *shape])
        suite.slack = 1.0 if self.op.kind == "pointwise" else math.sqrt(longest)
        suite.relative_slack = 1.0
        if longest > 1 << 16:  # sums may take one element after the other, templates must
            suite.slack = suite.slack if self.native else longest
            suite.relative_slack = 8.0 if self.native else 50.0
        if any(suite.lacks_dtype(t.dtype) for t in tensors((args, kwargs))):
            return False
        if max([0, *sizes]) > 1 << 12:
            try:
                meta = self.call(*mapped(args, _to_meta), **mapped(kwargs, _to_meta))
                sizes += [t.numel() for t in tensors([meta])]
            except Exception:  # what depends on values
                pass
            if max(sizes) > _LARGE:
                return False
        try:
            self.want = self.on_cpu(args, kwargs)
        except Exception:
            return False
        if self.op.reference is None and not self.random:  # what was in memory is no result
            if self.op.kind in ("factory", "mutation"):  # of other sizes that may be all there is
                return False
            again = []
            for number in (1, 2):
                soil(tensors([args, kwargs, self.want]), number)
                again.append([array(t).tobytes() for t in tensors([self.on_cpu(args, kwargs)])])
            if again[0] != again[1]:
                return False
        self.given, self.wanted = [args, kwargs], [array(t) for t in tensors([self.want])]
        suite.explained = self.explained
        if data:  # tell even small values from 0
            floats = [w for w in self.wanted if w.dtype.kind in "fc"]
            suite.slack *= min([1.0, *(float(np.abs(w).max(initial=0)) for w in floats)])
        suite.names((args, kwargs, self.want))
        return True

    def explained(self, a: Any, b: Any, rtol: float, atol: float) -> bool:
        """Would rounding of the arguments change the CPU's result as much?

        Where a sum or product of finite numbers overflows, it does so in an order of the device's.
        """
        rng = np.random.default_rng(0)
        most = 0.0
        for _ in range(2):

            def rounded(t: Any) -> Any:
                if not t.is_floating_point():
                    return t.clone()
                noise = facula.tensor(
                    rng.uniform(-1, 1, tuple(t.shape)) * 2 * facula.finfo(t.dtype).eps
                )
                return (t.double() * (1 + noise)).to(t.dtype)

            found = self.call(*mapped(self.given[0], rounded), **mapped(self.given[1], rounded))
            for x, y in zip(tensors([found]), self.wanted, strict=True):
                if x.is_floating_point() and x.numel() > 0 and y.shape == b.shape:
                    most = max(most, float(np.abs(array(x) - y).max()))
        finite = all(np.isfinite(array(t)).all() for t in tensors(self.given))
        free = finite and self.op.kind != "pointwise" and any(b is w for w in self.wanted)
        with np.errstate(all="ignore"):
            near = (a == b) | (np.abs(a - b) <= atol + rtol * np.abs(b) + 8 * most)
            near |= np.isnan(a) & np.isnan(b)
            if b.dtype.kind == "f":  # below the normal numbers a product's digits follow the order
                near |= np.maximum(np.abs(a), np.abs(b)) < np.finfo(b.dtype).tiny
            return bool((near | (free & ~np.isfinite(b))).all())

    def on_cpu(self, args: Any, kwargs: Any) -> Any:
        """The CPU's result; of its own copies where the operator writes to them."""
        return self.call(*mapped(args, lambda t: t.clone()), **mapped(kwargs, lambda t: t.clone()))

    def values(
        self, args: Any, kwargs: Any, dtype: str, layout: str, watched: bool, inplace: bool = False
    ) -> None:
        """The result, the arguments afterwards, and the memory beside all of them."""
        suite = self.suite
        call = suite.inplace_form(self.op) if inplace else self.call
        pairs: list[tuple[Any, Any]] = []

        def place(t: Any) -> tuple[Any, Any]:
            base, view = laid(t, layout)
            base = base.clone()
            there = base.to(suite.device)
            pairs.append((base, there))
            return view(base), view(there)

        placed = mapped([args, kwargs], lambda t: _Pair(place(t)))
        here, there = (_unpaired(placed, i) for i in (0, 1))
        other = layout == "offset" or any(not h.is_contiguous() for h in tensors(here))
        if layout != "plain" and not other:  # no operand has dims for it
            raise suite.skip
        want = self.want
        writes = any("!" in a["type"] for a in self.op.data["arguments"])
        if layout != "plain" or inplace or writes:
            self.given = mapped(here, lambda t: t.clone())
            try:
                want = call(*here[0], **here[1])
            except Exception:
                raise suite.skip from None
        around = Around(tensors([want]) if watched else [], suite.device)
        if self.random and self.op.kind == "mutation":
            for t in tensors(there):
                if t.is_floating_point():
                    t.fill_(math.nan)
        elsewhere = {} if tensors(there) else suite.elsewhere(self.op)
        got = call(*there[0], **there[1], **elsewhere)
        if self.random or not suite.fixed:
            _alike(got, want)
            around.check()
            return
        self.wanted = [array(t) for t in tensors([want])]
        for g, w, values in zip(tensors([got]), tensors([want]), self.wanted, strict=True):
            suite.same_kind(g, w)
            suite.close(self.op, array(g.cpu()), values, dtype, w.dtype)
        for base, moved in pairs:
            suite.close(self.op, array(moved.cpu()), array(base), dtype, base.dtype,
                        "an argument, or memory beside it: ")  # fmt: skip
        around.check()

    def into(self, args: Any, kwargs: Any, dtype: str) -> None:
        """Results given, with junk around them."""
        suite = self.suite
        if self.random or all(p.startswith("Tensor.") for p in self.op.python):
            raise suite.skip
        want = self.want
        several = isinstance(want, tuple | list)
        if not tensors([want]) or len(tensors([want])) != (len(want) if several else 1):
            raise suite.skip
        there = mapped([args, kwargs], lambda t: t.to(suite.device))
        elsewhere = {} if tensors(there) else {"device": suite.device}
        for layout in ("offset", "sliced"):
            bases, targets, expected = [], [], []
            for t in tensors([want]):
                base, view = laid(t, layout)
                clean, _ = laid(facula.full_like(t, junk(t.dtype)), layout)
                bases.append(clean.to(suite.device))
                targets.append(view(bases[-1]))
                expected.append(base)
            out = type(want)(targets) if type(want) in (tuple, list) else tuple(targets)
            self.call(*there[0], **there[1], **elsewhere, out=out if several else targets[0])
            for base, good in zip(bases, expected, strict=True):
                suite.close(self.op, array(base.cpu()), array(good), dtype, good.dtype,
                            f"out= ({layout}), or memory beside it: ")  # fmt: skip


class _Pair:
    def __init__(self, both: tuple[Any, Any]) -> None:
        self.both = both


def _unpaired(value: Any, which: int) -> Any:
    if isinstance(value, _Pair):
        return value.both[which]
    if isinstance(value, list | tuple) and not isinstance(value, facula.Size):
        return type(value)(_unpaired(v, which) for v in value)
    if isinstance(value, dict):
        return {k: _unpaired(v, which) for k, v in value.items()}
    return value


def _to_meta(t: Any) -> Any:
    return t.to("meta")


def _alike(got: Any, want: Any) -> None:
    """Two samples of one distribution: the largest distance between their shares below a number."""
    for g, w in itertools.zip_longest(tensors([got]), tensors([want])):
        assert g.shape == w.shape, f"shape {tuple(g.shape)}, the CPU has {tuple(w.shape)}"
        a, b = (np.sort(array(t.cpu()).astype(np.float64), axis=None) for t in (g, w))
        assert not np.isnan(a).any() or np.isnan(b).any(), "random numbers have NaN among them"
        if a.size < 100:
            continue
        both = np.concatenate([a, b])
        apart = [np.searchsorted(x, both, side="right") / x.size for x in (a, b)]
        most = np.abs(apart[0] - apart[1]).max()
        assert most < 3 * math.sqrt(2 / a.size), (
            f"distributed otherwise than the CPU's ({most:.2f})"
        )
