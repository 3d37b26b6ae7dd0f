"""The key `axes`: which dims of its tensors an operator treats alike.

`(...,m,k), (...,k,n) -> (...,m,n)` has a list for each tensor argument and for each result. A dim
of inputs that a result has too is free: each place along it is computed by itself. One that no
result has is reduced: the order of its places does not matter. `n~` depends on all places along it,
in any order, `n!` promises nothing. `...` are all dims that no other name takes; inputs broadcast
along them. The name of an `int` argument is the dim that it counts, of an `int[]` one these dims,
and `NAME*` are as many dims as that list has items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .errors import suggestion
from .model import Argument, Operator, Signature

REST = "..."
_DIM = re.compile(r"(\.\.\.|[A-Za-z_]\w*\*?)([~!]?)")
_LIST = re.compile(r"\(([^()]*)\)")


class AxesError(ValueError):
    """A mistake in the text; `offset` counts its characters from 0."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


@dataclass(frozen=True)
class Dim:
    name: str  # "..." or as written, without its mark
    mark: str = ""  # "", "~" or "!"

    def __str__(self) -> str:
        return self.name + self.mark


Dims = tuple[Dim, ...]


@dataclass(frozen=True)
class Axes:
    inputs: tuple[Dims, ...]  # of each tensor argument
    results: tuple[Dims, ...]

    def __str__(self) -> str:
        sides = (
            ", ".join(f"({','.join(map(str, d))})" for d in s) for s in (self.inputs, self.results)
        )
        return " -> ".join(sides)


def tensors(signature: Signature) -> list[Argument]:
    return [a for a in signature.arguments if a.type.is_tensor]


def parse(text: str, signature: Signature) -> Axes:
    """The lists of each tensor and result; raises AxesError."""
    left, arrow, right = text.partition("->")
    if not arrow:
        raise AxesError(0, "write `(dims), ... -> (dims)`, a list for each tensor and each result")
    inputs = tuple(_lists(left, 0, text))
    results = tuple(_lists(right, len(left) + 2, text))
    taken = [a.name for a in tensors(signature)]
    for found, wanted, what in (
        (inputs, len(taken), f"tensor arguments ({', '.join(taken)})"),
        (results, len(signature.returns), "results"),
    ):
        if len(found) != wanted:
            offset = 0 if found is inputs else len(left)
            raise AxesError(offset, f"{len(found)} lists of dims for {wanted} {what}")
    known = {d.name for dims in inputs for d in dims}
    lists = [a.name for a in signature.arguments if a.type.base == "int" and a.type.is_list]
    for dims in (*inputs, *results):
        for dim in dims:
            offset = text.index(dim.name)
            if dim.name.endswith("*") and dim.name[:-1] not in lists:
                hint = suggestion(dim.name[:-1], lists, "lists of ints are")
                raise AxesError(offset, f"no argument int[] '{dim.name[:-1]}'{hint}")
            if dims in results and not dim.mark and dim.name not in known:
                message = f"no input has '{dim.name}'; '{dim.name}!' is a dim of results alone"
                raise AxesError(text.rindex(dim.name), message)
    marks: dict[str, str] = {}
    for dims in (*inputs, *results):
        for dim in dims:
            if marks.setdefault(dim.name, dim.mark) != dim.mark:
                raise AxesError(text.index(dim.name), f"'{dim.name}' has two marks")
    return Axes(inputs, results)


def _lists(text: str, start: int, whole: str) -> Iterator[Dims]:
    rest = _LIST.sub("", text).replace(",", "").strip()
    if rest:
        raise AxesError(whole.index(rest[0], start), f"'{rest}' is no list of dims, as (m,k)")
    for match in _LIST.finditer(text):
        dims = []
        for item in match[1].split(",") if match[1].strip() else ():
            found = _DIM.fullmatch(item.strip())
            if found is None:
                offset = start + match.start(1) + match[1].index(item)
                raise AxesError(offset, f"'{item.strip()}' is no dim: a name, `...`, with ~ or !")
            dims.append(Dim(found[1], found[2]))
        yield tuple(dims)


def inferred(op: Operator) -> Axes | None:
    """What the kind tells: formulas treat dims alike, reductions and scans all but their own."""
    count = len(tensors(op.signature))
    results = len(op.signature.returns)
    if op.scalar:
        return Axes(((Dim(REST),),) * count, ((Dim(REST),),) * results)
    dim = next((a for a in op.signature.arguments if a.name == "dim"), None)
    if op.kind not in ("reduction", "scan") or dim is None or count != 1:
        return None
    inner = Dim("dim", "!" if op.kind == "scan" or not _sums(op) else "")
    left = (Dim(REST), inner) if op.kind == "scan" else (Dim(REST),)
    return Axes(((Dim(REST), inner),), (left,) * results)


def _sums(op: Operator) -> bool:
    """Whether the order along the dim does not matter: no result is a place in it."""
    return "index" not in dict(op.reduction) and all(
        r.name != "indices" for r in op.signature.returns
    )


def axes_of(op: Operator) -> Axes | None:
    """Stated or inferred."""
    return parse(op.axes, op.signature) if op.axes else inferred(op)


def _plain(dims: Dims) -> list[str]:
    return [d.name for d in dims if not d.mark]


def batch_roles(op: Operator) -> tuple[str, tuple[tuple[tuple[str, str], ...], ...]]:
    """The batching rule of a kernel that follows from what it states: see emit/batching.py."""
    if not op.axes or op.scalar or not op.dispatch:
        return "", ()
    axes = parse(op.axes, op.signature)
    lists = axes.inputs
    if len(lists) > 1 and all(_plain(dims) == [REST] == [d.name for d in dims] for dims in lists):
        return "elements", ()
    arguments = {a.name: a for a in op.signature.arguments}
    counted = {d.name for dims in lists for d in dims if d.name in arguments}
    roles: dict[str, str] = {}
    shared = [dims for dims in lists if dims and REST in _plain(dims)]
    first = {dims[0].name for dims in lists if dims and not dims[0].mark}
    for argument, dims in zip(tensors(op.signature), lists, strict=True):
        if dims in shared:
            if len(shared) > 1 and not counted:
                roles[argument.name] = "aligned"
        elif shared or not dims or dims[0].mark:
            roles[argument.name] = "alone"
        elif len(first) == 1 and all(r and r[0].name in first for r in axes.results):
            roles[argument.name] = "fold"
        else:
            return "", ()
    for name in (a.name for a in op.signature.arguments if a.name in counted):
        whole = arguments[name].type.optional or arguments[name].default == "[]"
        roles[name] = "reduced" if whole else "dim"
    ordered = {a.name: roles[a.name] for a in op.signature.arguments if a.name in roles}
    return "leading", ((tuple(ordered.items()),) if ordered else ())
