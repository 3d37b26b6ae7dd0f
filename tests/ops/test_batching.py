"""Every operator under vmap against itself, row by row: values, dtypes, shapes, what is drawn.

Over all tensor arguments at once and over each alone. What has a rule, or parts that have, may not
go row by row; what has neither is counted. What has a shape that depends on values says so.
"""

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
    *("as_strided", "as_strided_scatter", "view_as_complex", "view.dtype"),
    *("as_strided_copy", "view_as_complex_copy", "view_copy.dtype"),
)
UNSET = ("empty_like", "new_empty", "new_empty_strided")
RESIZES = ("resize_as_",)  # refused
# Shapes that depend on values: one error for all. With the sizes given, these are not refused.
SHAPED_BY_VALUES = (
    *("tensor_split.tensor", "masked_select", "nonzero", "nonzero_tuple", "argwhere", "bincount"),
    *("where.condition", "_unique", "_unique_dim", "_unique_consecutive", "one_hot"),
    *("repeat_interleave.each", "repeat_interleave.index"),
    *("lstm.data", "gru.data", "rnn_tanh.data", "rnn_relu.data"),
)
# Without a rule and without parts that have one.
ROW_BY_ROW = ("view.dtype", "nonzero_fill", "resize_")
# What has no function to call is not tried; what draws numbers is below.
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
        fa.func.vmap_fallback_counts(reset=True)
        try:
            with fa.func.vmap_fallback("quiet"):
                _try(op, op.sample(i))
        except (RuntimeError, ValueError) as e:
            assert op.name in SHAPED_BY_VALUES, op.name
            assert "reads a value, which differs by row of the batch that vmap()" in str(e), e
        if op.data.get("batching") != "rows" and op.name not in ROW_BY_ROW:
            assert not fa.func.vmap_fallback_counts().keys() - set(ROW_BY_ROW)


def test_sizes_that_are_given_leave_nothing_to_values() -> None:
    kinds, counts = fa.tensor([[0, 2], [1, 1]]), fa.tensor([[1, 2, 0], [0, 0, 3]])
    hot = fa.vmap(lambda k: fa.nn.functional.one_hot(k, 3))(kinds)
    assert hot.tolist() == np.eye(3, dtype=int)[kinds.numpy()].tolist()
    nested = fa.vmap(fa.vmap(lambda k: fa.nn.functional.one_hot(k, 3)))(kinds)
    assert nested.tolist() == hot.tolist()
    for bad in (fa.tensor([[0, 3]]), fa.tensor([[0, -1]])):
        with pytest.raises(RuntimeError, match=r"one_hot\(\): class"):
            fa.vmap(lambda k: fa.nn.functional.one_hot(k, 3))(bad)
    got = fa.vmap(lambda c: fa.repeat_interleave(c, output_size=3))(counts)
    assert got.tolist() == [np.repeat(np.arange(3), c).tolist() for c in counts.numpy()]
    x = fa.arange(6.0).reshape(2, 3)
    got = fa.vmap(lambda r, c: r.repeat_interleave(c, output_size=3))(x, counts)
    assert got.tolist() == [
        np.repeat(*rc).tolist() for rc in zip(x.numpy(), counts.numpy(), strict=True)
    ]
    with pytest.raises(RuntimeError, match="add up to"):
        fa.vmap(lambda c: fa.repeat_interleave(c, output_size=3))(counts[:, :2])
    places = fa.vmap(lambda r: fa.nonzero_static(r > 1, size=2, fill_value=7))(x)
    assert places.tolist() == [[[2], [7]], [[0], [1]]]


# ---- what draws numbers ----

DRAWING = [
    pytest.param(op, id=op.name)
    for op in operators()
    if op.function() is not None and "random" in (op.traits or ()) and op.data["samples"]
]


@pytest.mark.parametrize("op", DRAWING)
def test_draws_of_rows(op: OpRecord) -> None:
    for i in range(len(op.data["samples"])):
        _, given, named = arguments(op.sample(i), None)

        def draw(_: Any, given: Any = given, named: Any = named) -> Any:
            return op.function()(*_copied(given), **_copied(named))

        def of_rows(*rows: Any, given: Any = given, named: Any = named) -> Any:
            tensors = iter(rows)
            own = [next(tensors) if fa.is_tensor(a) else a for a in given]
            return op.function()(*own, **_copied(named))

        fa.manual_seed(1)
        before = fa.get_rng_state()
        alone = draw(None)
        if not fa.is_tensor(alone) or fa.equal(before, fa.get_rng_state()):
            continue  # dropout of nothing draws nothing
        mapped = [fa.stack([a] * ROWS) for a in given if fa.is_tensor(a)]
        writes = op.name.split(".")[0].endswith("_")
        for run in (draw, of_rows):
            batch = mapped if run is of_rows and mapped else [fa.zeros(ROWS)]
            if (run is of_rows and not mapped) or (run is draw and writes):
                continue  # what all rows share is not filled
            with fa.func.vmap_fallback("quiet"):
                with pytest.raises(RuntimeError, match="randomness"):
                    fa.vmap(run)(*_copied(batch))
                different = fa.vmap(run, randomness="different")(*_copied(batch))
                fa.manual_seed(1)
                same = fa.vmap(run, randomness="same")(*_copied(batch))
            for got in (different, same):
                assert got.dtype == alone.dtype
                assert got.shape == (ROWS, *alone.shape)
            want = to_numpy(alone)
            for row in to_numpy(same):
                np.testing.assert_array_equal(row, want)
            if alone.numel() > 7 and len(np.unique(want)) > 2:
                drawn = to_numpy(different)
                assert not np.array_equal(drawn[0], drawn[1]), op.name
