"""The dims that operators treat alike, as the key `axes` says it or the kind tells it.

Along a free dim a permutation or a part of the inputs gives that permutation or part of the
results; the order along a reduced one is all the same, and one with `~` takes permutations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.testing._samples import OpRecord, Sample, operators
from harness import arguments, to_numpy

Label = tuple[str, int]  # of `...`, which of them from the right; of NAME*, which from the left
_DIM = re.compile(r"([\w.]+\*?)([~!]?)")


def lists(text: str) -> list[list[tuple[str, str]]]:
    """(name, mark) of each dim of each tensor."""
    return [
        [_DIM.fullmatch(d).groups() for d in inner.split(",") if d]  # type: ignore[union-attr]
        for inner in re.findall(r"\(([^)]*)\)", text)
    ]


def tensor_names(op: OpRecord) -> list[str]:
    return [a["name"] for a in op.data["arguments"] if a["type"].rstrip("?!") == "Tensor"]


class Unfit(Exception):
    """A call whose tensors have other numbers of dims than the key speaks of."""


def counted(op: OpRecord, values: dict[str, Any], name: str, ndim: int) -> list[int] | None:
    """The dims that an argument of that name counts; None for a name of its own."""
    types = {a["name"]: a["type"] for a in op.data["arguments"]}
    if not types.get(name, "").startswith("int"):
        return None
    given = values.get(name)
    if given is None or given == []:
        return list(range(ndim))
    return [int(d) % max(ndim, 1) for d in np.atleast_1d(given)] if ndim else []


def labels(
    op: OpRecord, values: dict[str, Any], dims: list[tuple[str, str]], ndim: int
) -> list[Label]:
    """What each dim of a tensor is."""
    found: list[Label | None] = [None] * ndim
    left: list[str] = []
    for name, _ in dims:
        places = counted(op, values, name, ndim)
        if places is None:
            left += [name] * (len(values[name[:-1]]) if name.endswith("*") else 1)
        for i, place in enumerate(places or ()):
            found[place] = (name, i)
    open_ = [i for i in range(ndim) if found[i] is None]
    before = left.index("...") if "..." in left else len(left)
    after = left[before + 1 :]
    if len(open_) < before + len(after) or (before == len(left) < len(open_)):
        raise Unfit
    for i, (place, name) in enumerate(zip(open_, left[:before], strict=False)):
        found[place] = (name, left[:i].count(name))
    for i, (place, name) in enumerate(zip(open_[len(open_) - len(after) :], after, strict=True)):
        found[place] = (name, after[:i].count(name))
    for i, place in enumerate(reversed(open_[before : len(open_) - len(after)])):
        found[place] = ("...", i)
    return [label for label in found if label is not None]


def results(op: OpRecord, sample: Sample) -> list[np.ndarray]:
    floats = "float" in (op.dtypes or "float")
    _, args, kwargs = arguments(sample, "float64" if floats else None)
    out = op.function()(*args, **kwargs)  # type: ignore[misc]
    return [to_numpy(t) for t in out] if isinstance(out, tuple | list) else [to_numpy(out)]


class Call:
    """One call, with what each dim of its tensors and results is."""

    def __init__(self, op: OpRecord, index: int) -> None:
        self.op, self.sample = op, op.sample(index)
        left, right = op.axes.split("->")
        self.values = op.bound(self.sample)
        self.marks = {name: mark for dims in lists(op.axes) for name, mark in dims}
        self.inputs: dict[str, list[Label]] = {}
        for name, dims in zip(tensor_names(op), lists(left), strict=True):
            if isinstance(self.values.get(name), np.ndarray):
                ndim = np.ndim(self.values[name])
                self.inputs[name] = labels(op, self.values, dims, ndim)
        self.before = results(op, self.sample)
        self.results = [
            self.of_result(dims, r.ndim) for dims, r in zip(lists(right), self.before, strict=True)
        ]

    def of_result(self, dims: list[tuple[str, str]], ndim: int) -> list[Label]:
        try:
            found = labels(self.op, self.values, dims, ndim)
        except Unfit:
            found = []
        rest = max((sum(d[0] == "..." for d in i) for i in self.inputs.values()), default=0)
        alike = self.marks.get("...") == "!" or sum(d[0] == "..." for d in found) == rest
        if alike and len(found) == ndim:
            return found
        whole = next(iter(self.inputs.values()))
        if len(whole) == ndim:  # reduced dims are kept, with one place
            return [d if d[0] == "..." else ("kept", 0) for d in whole]
        raise Unfit

    def sizes(self) -> dict[Label, int]:
        found: dict[Label, int] = {}
        for name, of in self.inputs.items():
            for label, size in zip(of, np.shape(self.values[name]), strict=True):
                found[label] = max(size, found.get(label, 0))
        return found

    def after(self, label: Label, size: int, places: np.ndarray) -> list[np.ndarray]:
        """The results where each input has these places along a dim."""
        changed = Sample(list(self.sample.args), dict(self.sample.kwargs))
        for name, of in self.inputs.items():
            array = self.values[name]
            if label not in of or array.shape[of.index(label)] != size:
                continue
            taken = np.take(array, places, axis=of.index(label)).view(type(array))
            at = self.op.argument_names.index(name)
            if at < len(changed.args):
                changed.args[at] = taken
            else:
                changed.kwargs[name] = taken
        return results(self.op, changed)

    def check(self, label: Label, size: int, places: np.ndarray) -> None:
        for of, before, after in zip(
            self.results, self.before, self.after(label, size, places), strict=True
        ):
            expected = np.take(before, places, axis=of.index(label)) if label in of else before
            bound = 1e-5 if before.dtype in (np.float32, np.complex64) else 1e-9
            np.testing.assert_allclose(after, expected, rtol=bound, atol=bound, err_msg=str(label))


def stated(op: OpRecord) -> bool:
    usable = op.axes and op.kind not in ("mutation", "random", "factory") and op.data["python"]
    return bool(usable and op.data["samples"] and "random" not in (op.traits or ()))


CASES = [pytest.param(op, id=op.name) for op in operators() if stated(op)]


def dims_to_try(call: Call) -> Iterator[tuple[Label, int, str]]:
    free = {label for of in call.results for label in of}
    for label, size in call.sizes().items():
        mark = call.marks[label[0]]
        if size > 1 and mark != "!":
            kind = "free" if label in free else "reduced"
            yield label, size, "mixed" if mark == "~" else kind


def tried(op: OpRecord) -> int:
    """Checks every sample, and counts the dims that there were."""
    count = 0
    for index in range(len(op.data["samples"])):
        try:
            call = Call(op, index)
        except Unfit:
            continue
        for label, size, kind in dims_to_try(call):
            count += 1
            call.check(label, size, np.roll(np.arange(size)[::-1], 1))
            if kind == "free":
                call.check(label, size, np.arange(size - 1))
    return count


@pytest.mark.parametrize("op", CASES)
def test_dims_are_alike(op: OpRecord) -> None:
    assert tried(op) or not re.search(r"[\w.][,)]", op.axes.split("->")[0])


def test_many_operators_say_it() -> None:
    assert len([c for c in CASES if c.values[0].kind == "pointwise"]) > 150
    assert len([c for c in CASES if c.values[0].kind != "pointwise"]) > 80


@pytest.mark.parametrize(
    ("name", "said"),
    {
        "mm": "(m!,k),(k,n)->(m!,n!)",  # true, but says less
        "cumsum": "(...,dim)->(...,dim)",
        "sort": "(...,dim~)->(...,dim~),(...,dim~)",
        "softmax": "(...,dim)->(...,dim)",
        "bmm": "(b,m,k),(b,k,n)->(b,n,m)",
        "fft_fft": "(...,dim~)->(...,dim~)",
        "linalg_cholesky": "(...,n~,n~)->(...,n~,n~)",
        "max_pool1d": "(c,...)->(c,...)",
    }.items(),
)
def test_what_is_untrue_shows(name: str, said: str) -> None:
    op = next(o for o in operators() if o.name == name)
    other = OpRecord({**op.data, "axes": said}, name)
    if name == "mm":
        assert tried(other)
        return
    with pytest.raises((AssertionError, IndexError, RuntimeError, fa.linalg.LinAlgError)):
        tried(other)
