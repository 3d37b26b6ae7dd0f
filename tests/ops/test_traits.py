"""The traits of operators, stated in the schema or inferred, against what their samples do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import facula
import pytest
from emptied import placed, tensors_in
from facula.testing._samples import OpRecord, operators
from harness import arguments

CALLED = [op for op in operators() if op.samples() and op.function()]


def aliases(op: OpRecord, args: list[Any], kwargs: dict[str, Any]) -> bool:
    places = {t.untyped_storage().data_ptr() for t in tensors_in([*args, *kwargs.values()])}
    if all(r["type"].startswith("Tensor!") for r in op.data["returns"]):
        return False  # the written argument itself
    results = tensors_in(op.function()(*args, **kwargs))
    return any(t.numel() > 0 and t.untyped_storage().data_ptr() in places for t in results)


def draws(op: OpRecord, args: list[Any], kwargs: dict[str, Any]) -> bool:
    before = facula.get_rng_state()
    op.function()(*args, **kwargs)
    return not bool((facula.get_rng_state() == before).all())


def depends_on_values(op: OpRecord, args: list[Any], kwargs: dict[str, Any]) -> bool:
    """Without elements, on the meta device, there is no result, or none of that shape."""
    try:
        got = op.function()(
            *placed(args, "meta", False), **{k: placed(v, "meta", False) for k, v in kwargs.items()}
        )
    except (RuntimeError, NotImplementedError) as error:
        assert "meta" in str(error), error
        return True
    want = op.function()(*args, **kwargs)
    assert [t.shape for t in tensors_in(got)] == [t.shape for t in tensors_in(want)]
    return False


@pytest.mark.parametrize(
    ("trait", "shows"),
    [("may_alias", aliases), ("random", draws), ("value_dependent", depends_on_values)],
)
def test_traits(trait: str, shows: Callable[..., bool]) -> None:
    """Who lacks a trait never shows it; of the others many do, as some just raise by values."""
    having, showing = set(), set()
    for op in CALLED:
        for sample in op.samples():
            _, args, kwargs = arguments(sample, "float64")
            shown = shows(op, copy.deepcopy(args), copy.deepcopy(kwargs))
            assert not shown or trait in op.data.get("traits", ()), (op.name, sample)
            if trait in op.data.get("traits", ()):
                having.add(op.name)
                showing |= {op.name} if shown else set()
    assert 3 * len(showing) > len(having) > 10
