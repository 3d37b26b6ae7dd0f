"""Every operator under vmap against itself, row by row: values, dtypes, shapes."""

from __future__ import annotations

from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.testing._samples import Formed, OpRecord, Sample, Varying, operators
from harness import arguments, to_numpy

ROWS = 3
# What these do depends on strides; what those do on where memory begins, or was before.
BY_LAYOUT = (
    *("as_strided", "view_as_complex", "view.dtype"),
    *("as_strided_copy", "view_as_complex_copy", "view_copy.dtype"),
)
UNSET = ("empty_like", "new_empty", "new_empty_strided", "as_strided_scatter")
RESIZES = ("resize_as_",)  # refused
# What draws numbers, or has no function to call, is not tried here.
CASES = [
    pytest.param(op, id=op.name)
    for op in operators()
    if op.function() is not None
    and "random" not in (op.traits or ())
    and op.name not in UNSET + RESIZES
]


def _other(value: Any, row: int) -> Any:
    """The sample's array with its elements moved on by `row` places."""
    if isinstance(value, list) and all(isinstance(v, np.ndarray) for v in value):
        return [_other(v, row) for v in value]
    if not isinstance(value, np.ndarray) or isinstance(value, Formed):
        return value
    moved = np.roll(np.asarray(value).reshape(-1), row).reshape(value.shape)
    return moved.view(type(value)) if isinstance(value, Varying) else moved


def _rows(sample: Sample, moved: bool) -> list[tuple[list[Any], dict[str, Any]]]:
    found = []
    for row in range(ROWS):
        by = row if moved else 0
        args = [_other(a, by) for a in sample.args]
        kwargs = {k: _other(v, by) for k, v in sample.kwargs.items()}
        _, given, named = arguments(Sample(args, kwargs), None)
        found.append((given, named))
    return found


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(fa.is_tensor, value))


def _stacked(rows: list[Any], dim: int) -> Any:
    if _is_list(rows[0]):
        return [fa.stack(column, dim) for column in zip(*rows, strict=True)]
    return fa.stack(rows, dim)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for v in value for leaf in _leaves(v)]
    return [value]


def _same(op: OpRecord, got: Any, rows: list[Any], dim: int) -> None:
    got = _leaves(got)
    rows = [_leaves(row) for row in rows]
    assert len(got) == len(rows[0]), op.name
    for i, g in enumerate(got):
        want = fa.stack([row[i] for row in rows], dim)
        assert g.dtype == want.dtype, f"{op.name}: {g.dtype}, row by row {want.dtype}"
        assert g.shape == want.shape, f"{op.name}: {g.shape}, row by row {want.shape}"
        a, b = to_numpy(g), to_numpy(want)
        size = np.abs(b[np.isfinite(b)]).max(initial=1.0) if b.dtype.kind in "fc" else 1.0
        loose = 2e-6 if g.dtype in (fa.float32, fa.complex64) else 1e-11
        np.testing.assert_allclose(a, b, rtol=loose, atol=loose * size, err_msg=op.name)


def _copied(value: Any) -> Any:
    """With tensors of its own, which may be written to."""
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value))
    return value.clone() if fa.is_tensor(value) else value


def _loop(op: OpRecord, rows: list[tuple[list[Any], dict[str, Any]]]) -> list[Any]:
    return [op.function()(*_copied(args), **_copied(named)) for args, named in rows]


def _try(op: OpRecord, sample: Sample) -> None:
    rows = _rows(sample, moved=True)
    try:
        expected = _loop(op, rows)
    except Exception:  # elements whose order has a meaning
        rows = _rows(sample, moved=False)
        expected = _loop(op, rows)
    args, named = rows[0]
    places: list[int | str] = [i for i, a in enumerate(args) if fa.is_tensor(a) or _is_list(a)]
    places += [k for k, v in named.items() if fa.is_tensor(v) or _is_list(v)]
    if not places or not all(fa.is_tensor(leaf) for leaf in _leaves(expected[0])):
        return

    def run(chosen: list[int | str], dim: int) -> Any:
        def value(row: int, place: int | str) -> Any:
            return rows[row][1][place] if isinstance(place, str) else rows[row][0][place]

        batch = [_stacked([value(r, p) for r in range(ROWS)], dim) for p in chosen]

        def one(*parts: Any) -> Any:
            own = [list(a) if _is_list(a) else a for a in args]
            by_name = dict(named)
            for place, part in zip(chosen, parts, strict=True):
                if isinstance(place, str):
                    by_name[place] = part
                else:
                    own[place] = part
            return op.function()(*own, **by_name)

        return fa.vmap(one, in_dims=dim, out_dims=dim)(*batch)

    _same(op, run(places, 0), expected, 0)
    if op.name not in BY_LAYOUT:
        _same(op, run(places, -1), expected, -1)
    if len(places) == 1:
        return
    for place in places:

        def given(row: int, place: int | str = place) -> tuple[list[Any], dict[str, Any]]:
            own, by_name = list(args), dict(named)
            if isinstance(place, str):
                by_name[place] = rows[row][1][place]
            else:
                own[place] = rows[row][0][place]
            return own, by_name

        try:
            alone = _loop(op, [given(row) for row in range(ROWS)])
        except Exception:
            continue
        try:
            got = run([place], 0)
        except RuntimeError as e:
            assert "share" in str(e), e  # what all rows share is not written to
            continue
        _same(op, got, alone, 0)


@pytest.mark.parametrize("op", CASES)
def test_batch_is_the_rows(op: OpRecord) -> None:
    for i in range(len(op.data["samples"])):
        if op.name == "resize_":
            with pytest.raises(RuntimeError, match="size"):
                _try(op, op.sample(i))
            continue
        if "value_dependent" not in (op.traits or ()):
            _try(op, op.sample(i))
            continue
        try:
            _try(op, op.sample(i))
        except (RuntimeError, ValueError) as e:
            assert "vmap" in str(e), e
