"""Samples of other sizes, made from those of ops.yaml.

Equal sizes in a sample's arrays are one size: in `f(3,4), f(4,5)` the 4 is what both share. Each
gets the sizes around which kernels change their ways, alone and together with the others; what the
CPU then refuses is no sample.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

import numpy as np

from facula.testing._samples import Constant, OpRecord, Sample, Varying, evaluate

TILES = (1, 15, 16, 17, 64, 129, 1000)
ROWS = range(1, 71)
LONG = 2**20 + 17
_MOST = 1 << 14  # elements of an array, but for long rows
_SQUARE = ("spd", "tri", "orth")  # their last size is that of rows and columns
_ARRAYS = ("f", "pos", "i", "b", "c", "perm", *_SQUARE)


@dataclass(frozen=True)
class Grown:
    """A sample's sizes replaced."""

    text: str
    sizes: tuple[tuple[int, int], ...]
    literals: bool = False  # numbers outside of arrays too
    dim: int | None = None  # in the place of the argument `dim`
    data: str = ""  # of long rows

    def sample(self, op: OpRecord) -> Sample | None:
        """Its arguments, or None if these sizes make no sense of them."""
        rng = np.random.default_rng(len(self.text) + sum(new for _, new in self.sizes))
        try:
            made = evaluate(_opened(self.text, self.literals), rng, self.size)
        except (ValueError, MemoryError):  # say, integers from an empty interval
            return None
        arrays = [a for a in made.args if isinstance(a, np.ndarray)]
        largest = sorted((a.size for a in arrays), reverse=True)[:2]
        if math.prod(largest) > _MOST * (_MOST if len(largest) > 1 else 8) and not self.far:
            return None  # say, windows of many channels over many places
        if self.dim is not None and not _put(op, made, "dim", self.dim):
            return None
        if self.data:
            made.args = [_long(a, self.data) for a in made.args]
        return made

    def size(self, old: int) -> int:
        """What stands for a number of the sample."""
        new = dict(self.sizes).get(abs(old), abs(old))
        return new if old > 0 else -new

    @property
    def far(self) -> bool:
        """Is one of the sizes itself that large?"""
        return any(new > _MOST for _, new in self.sizes)

    def variants(self) -> Iterator[Grown]:
        """What the sizes may mean for other numbers of the sample, the likeliest first."""
        changed = dict(self.sizes)
        multiples = {}
        for size in symbols(self.text):
            for old in sorted(changed, reverse=True):
                if size not in changed and size % old == 0:  # say, 4 gates of 3
                    multiples[size] = size // old * changed[old]
                    break
        more = [{}, multiples, *({s: n} for s, n in multiples.items() if len(multiples) > 1)]
        for added in more[: 1 if not multiples else 5]:
            for literals in (False, True):
                sizes = tuple({**changed, **added}.items())
                yield Grown(self.text, sizes, literals, self.dim, self.data)

    def __str__(self) -> str:
        changes = ", ".join(f"{old} as {new}" for old, new in self.sizes)
        return "; ".join(
            [self.text, changes]
            + ([f"dim {self.dim}"] if self.dim is not None else [])
            + ([self.data] if self.data else [])
        )


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _ARRAYS:
            yield node


def _parsed(text: str) -> ast.Expression:
    return ast.parse(f"call({text})", mode="eval")


@lru_cache(maxsize=8)
def shapes(text: str) -> list[tuple[int, ...]]:
    """The sizes of the arrays in a sample."""
    found = []
    for call in _calls(_parsed(text)):
        sizes = tuple(a.value for a in call.args if isinstance(a, ast.Constant))
        square = isinstance(call.func, ast.Name) and call.func.id in _SQUARE
        found.append((*sizes, *sizes[-1:]) if square else sizes)
    return found


def symbols(text: str) -> list[int]:
    """The different sizes of a sample's arrays that can be others."""
    return list(dict.fromkeys(s for shape in shapes(text) for s in shape if s > 1))


class _Open(ast.NodeTransformer):
    """Puts `_size(n)` in the place of each size n that may be another."""

    def __init__(self, literals: bool) -> None:
        self.literals = literals

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = getattr(node.func, "id", "")
        if name in ("t", "slice"):
            return node
        if name not in _ARRAYS:
            return self.generic_visit(node)
        node.args = [self.number(a) for a in node.args]
        if name == "i":  # positions of a dim of that size
            for keyword in node.keywords:
                keyword.value = self.number(keyword.value)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return self.number(node) if self.literals else node

    def number(self, node: ast.expr) -> ast.expr:
        value = ast.literal_eval(node)
        if type(value) is not int:
            return node
        return ast.Call(ast.Name("_size", ast.Load()), [ast.Constant(value)], [])


@lru_cache(maxsize=512)
def _opened(text: str, literals: bool) -> CodeType:
    """Compiled once for all sizes."""
    tree = _Open(literals).visit(_parsed(text))
    return compile(ast.fix_missing_locations(tree), "<sample>", "eval")


def _put(op: OpRecord, sample: Sample, name: str, value: int) -> bool:
    at = op.argument_names.index(name)
    if at < len(sample.args) and type(sample.args[at]) is int:
        sample.args[at] = value
    elif type(sample.kwargs.get(name)) is int:
        sample.kwargs[name] = value
    else:
        return False
    return True


@lru_cache(maxsize=4)
def _different(n: int) -> np.ndarray:
    """Different in float32, with a product near 1."""
    step = next(s for s in range(611953, 2 * n) if math.gcd(s, n) == 1)
    order = np.arange(n) * step % n
    return 1.00066 + (order - (n - 1) / 2) * 2.0**-23


def _long(value: object, data: str) -> object:
    """Values by which a sum, a product and an order of very many still tell of each."""
    if not isinstance(value, np.ndarray) or value.size < LONG:
        return value
    if isinstance(value, Varying):
        n = value.size
        if data == "the last is one":
            made = np.zeros(n)
            made[-1] = 1
        elif data == "the last is zero":
            made = np.ones(n)
            made[-1] = 0
        else:
            made = _different(n)
        return made.reshape(value.shape).view(type(value))
    if value.dtype == bool:
        return np.arange(value.size).reshape(value.shape) != value.size - 1
    return value


def _fits(text: str, sizes: dict[int, int]) -> dict[int, int]:
    """The same with fewer elements, where an array would have too many."""
    sizes = dict(sizes)
    for shape in shapes(text):
        while math.prod(sizes.get(s, s) for s in shape) > _MOST:
            largest = max(shape, key=lambda s: sizes.get(s, s))
            if largest not in sizes or sizes[largest] <= 4:
                break
            sizes[largest] = {1000: 129, 129: 64, 64: 17}.get(sizes[largest], 3)
    return sizes


def together(text: str) -> Iterator[Grown]:
    """All sizes grown at once, each having each of the tiles' sizes in turn."""
    found = symbols(text)
    seen = set()
    for turn in range(len(TILES) if found else 0):
        # each step apart from the others: all of them are 16 or more in one of the turns
        sizes = {s: TILES[(turn + 3 * i) % len(TILES)] for i, s in enumerate(found)}
        grown = Grown(text, tuple(_fits(text, sizes).items()))
        if grown.sizes not in seen:
            seen.add(grown.sizes)
            yield grown


def alone(text: str, wanted: Sequence[int], lengths: Sequence[int]) -> Iterator[Grown]:
    """One size at a time, the others being the sample's."""
    for s in symbols(text):
        if s in wanted:
            for length in lengths:
                yield Grown(text, ((s, length),))


def empty(text: str) -> Iterator[Grown]:
    """One size being zero, and all of them."""
    found = symbols(text)
    for s in found:
        yield Grown(text, ((s, 0),))
    if len(found) > 1:
        yield Grown(text, tuple((s, 0) for s in found))


def each_dim(op: OpRecord, grown: Grown) -> Iterator[Grown]:
    """The same with another dim, for operators that work along one."""
    if "dim" in op.argument_names:
        for dim in range(max((len(s) for s in shapes(grown.text)), default=0)):
            yield Grown(grown.text, grown.sizes, dim=dim)


def rows(op: OpRecord, index: int, results: list[tuple[int, ...]]) -> list[int]:
    """The sizes along which an operator goes: those that no result has, or those of its `dim`."""
    text = op.data["samples"][index]
    found = symbols(text)
    gone = [s for s in found if not any(s in shape for shape in results)]
    if gone or not found:
        return gone
    sample = op.sample(index)
    arrays = [a for a in sample.args if isinstance(a, np.ndarray) and a.ndim > 0]
    if not arrays:
        return found[-1:]
    first = arrays[0].shape
    dim = op.bound(sample).get("dim", -1)
    dims = dim if isinstance(dim, list | tuple) else [dim if type(dim) is int else -1]
    return [first[d] for d in dims if -len(first) <= d < len(first) and first[d] in found]


def long_rows(op: OpRecord, text: str, wanted: Sequence[int]) -> Iterator[Grown]:
    """More than 2^20 elements in one row."""
    if not wanted:
        return
    sizes = {s: LONG if s == wanted[-1] else 1 if s in wanted else min(s, 2) for s in symbols(text)}
    if any(math.prod(sizes.get(s, s) for s in shape) > 4 * LONG for shape in shapes(text)):
        return
    kinds = ["all differ"]
    if op.kind in ("reduction", "scan"):
        kinds += ["the last is one", "the last is zero"]
    for data in kinds:
        yield Grown(text, tuple(sizes.items()), data=data)


__all__ = ["LONG", "ROWS", "TILES", "Constant", "Grown", "alone", "each_dim", "empty", "long_rows",
           "rows", "shapes", "symbols", "together"]  # fmt: skip
