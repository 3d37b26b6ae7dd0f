"""What `load_state_dict(assign=True)` does: a module takes the given tensors themselves.

What was one tensor under many names stays one, and what were views of one memory stay views.
"""

from __future__ import annotations

from typing import Any

import facula
from facula.nn.parameter import Buffer, Parameter
from facula.utils._sharing import extent, groups, laid_out_alike

__all__ = ["assign_tensors"]


def assign_tensors(plan: list[tuple[Any, Any]], modules: list[Any]) -> None:
    """Put new tensors in the place of old ones, wherever the modules have these.

    Args:
        plan: pairs of an old and the new tensor. Where one old one has several, or views of one
            memory overlap, the last pair holds, as it does in a copy.
        modules: all modules that may have them.
    """
    chosen: dict[int, Any] = {}
    for old, new in plan:
        if isinstance(old, Parameter) and isinstance(new, Parameter):
            new.requires_grad_(old.requires_grad)
        elif isinstance(old, Parameter):
            new = Parameter(new, old.requires_grad)
        chosen.pop(id(old), None)  # to the end: the order of `chosen` is that of the writes
        chosen[id(old)] = new
    tables = [t for m in modules for t in (m._parameters, m._buffers)]
    owned = {id(t): t for table in tables for t in table.values() if t is not None}
    for group in groups({str(key): tensor for key, tensor in owned.items()}):
        keys = [int(key) for key in group]
        if len(keys) > 1 and any(key in chosen for key in keys):
            _share({key: owned[key] for key in keys}, chosen)
    slots = [
        (table, name, chosen[id(tensor)])
        for table in tables
        for name, tensor in table.items()
        if id(tensor) in chosen
    ]
    for table, name, tensor in slots:
        table[name] = tensor


def _share(olds: dict[int, Any], chosen: dict[int, Any]) -> None:
    """Let the chosen ones share memory as the old ones do, which are views of each other.

    The given tensors themselves are taken if they do already; else what they hold is copied.
    """
    given = {key: chosen[key] for key in chosen if key in olds}
    if given.keys() == olds.keys() and laid_out_alike(
        list(olds.values()), [given[key] for key in olds]
    ):
        return
    last = next(reversed(given.values()))
    start = min(extent(t)[0] for t in olds.values())
    stop = max(extent(t)[1] for t in olds.values())
    dtypes = {t.dtype for t in olds.values()}
    with facula.no_grad():
        if len(dtypes) == 1:
            size = next(iter(olds.values())).element_size()
            length = (stop - start) // size
            memory = facula.zeros(length, dtype=last.dtype, device=last.device)
            wholes = dict.fromkeys(dtypes, memory)
        else:  # views under several dtypes keep these
            start -= start % 16
            length = stop - start + -(stop - start) % 16
            memory = facula.zeros(length, dtype=facula.uint8, device=last.device)
            wholes = {dtype: memory.view(dtype) for dtype in dtypes}
        views = {
            key: wholes[old.dtype].as_strided(
                tuple(old.shape), old.stride(), (extent(old)[0] - start) // old.element_size()
            )
            for key, old in olds.items()
        }
        for key in olds.keys() - given.keys():
            if olds[key].device.type != "meta":
                views[key].copy_(olds[key])
        for key, new in given.items():
            views[key].copy_(new)
    for key, old in olds.items():
        chosen[key] = _in_place_of(old, views[key])


def _in_place_of(old: Any, view: Any) -> Any:
    if isinstance(old, Parameter):
        return Parameter(view, old.requires_grad)
    return Buffer(view, persistent=old.persistent) if isinstance(old, Buffer) else view
