"""An optimizer that works on other tensors for a while."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from facula.optim.optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Any], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Within the context the optimizer steps other parameters, with another state.

    Args:
        optimizer: has its own ones again after it.
        swapin_parameters: tensors in the order of the optimizer's parameters.
        swapin_optim_state: as `optimizer.state_dict()`; its tensors are used themselves, so that
            changes in place stay in it, and others are lost.

    Raises:
        ValueError: there are more or fewer parameters, or groups, than the optimizer has.
    """
    tensors = list(swapin_parameters.values())
    groups, state = optimizer.param_groups, optimizer.state
    count = sum(len(g["params"]) for g in groups)
    given = swapin_optim_state["param_groups"]
    sizes = [len(g["params"]) for g in groups]
    if len(tensors) != count or [len(g["params"]) for g in given] != sizes:
        raise ValueError(
            f"swap_in_optimizer_params_and_state(): the optimizer has groups of {sizes} "
            f"parameters; given are {len(tensors)} tensors and groups of "
            f"{[len(g['params']) for g in given]}"
        )
    ids = [i for g in given for i in g["params"]]
    by_id = dict(zip(ids, tensors, strict=True))
    fresh: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
    for key, values in swapin_optim_state["state"].items():
        fresh[by_id.get(key, key)] = dict(values)
    optimizer.param_groups = [
        {**old, **new, "params": [by_id[i] for i in new["params"]]}
        for old, new in zip(groups, given, strict=True)
    ]
    optimizer.state = fresh
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = groups, state
