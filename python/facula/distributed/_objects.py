"""Collectives of Python objects, which go as pickles. Processes of a job trust each other."""

from __future__ import annotations

import pickle
from typing import Any

import facula
from facula import Tensor
from facula.distributed import _collectives, _point_to_point
from facula.distributed._collectives import root_of
from facula.distributed._group import ProcessGroup, resolved

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _pickled(value: Any, group: ProcessGroup) -> Tensor:
    data = bytearray(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))
    return facula.frombuffer(data, dtype=facula.uint8).to(group.carrier)


def _loaded(t: Tensor, size: int) -> Any:
    return pickle.loads(bytes(memoryview(t[:size].contiguous().cpu().numpy())))


def _sizes(t: Tensor, group: ProcessGroup) -> list[int]:
    sizes = facula.empty(group.size(), dtype=facula.int64, device=t.device)
    mine = facula.tensor([t.numel()], dtype=facula.int64, device=t.device)
    _collectives.all_gather_into_tensor(sizes, mine, group)
    return [int(s) for s in sizes.tolist()]


def _padded(t: Tensor, size: int) -> Tensor:
    out = facula.zeros(size, dtype=facula.uint8, device=t.device)
    out[: t.numel()] = t
    return out


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """`object_list[i]` becomes the `obj` of process i of the group."""
    chosen = resolved("all_gather_object", group)
    if chosen is None:
        return
    _check_list("all_gather_object", "object_list", object_list, chosen.size())
    mine = _pickled(obj, chosen)
    sizes = _sizes(mine, chosen)
    whole = facula.empty((chosen.size(), max(sizes)), dtype=facula.uint8, device=chosen.carrier)
    _collectives.all_gather_into_tensor(whole, _padded(mine, max(sizes)), chosen)
    object_list[:] = [_loaded(whole[i], size) for i, size in enumerate(sizes)]


def _check_list(what: str, name: str, given: Any, size: int) -> None:
    if not isinstance(given, list) or len(given) < size:
        raise ValueError(f"{what}: {name} must be a list of {size} items, one a process")


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """In process `dst`, `object_gather_list[i]` becomes the `obj` of process i."""
    chosen = resolved("gather_object", group)
    if chosen is None:
        return
    root = root_of("gather_object", chosen, dst, group_dst, "dst")
    here = chosen.rank() == root
    if here:
        _check_list("gather_object", "object_gather_list", object_gather_list, chosen.size())
    mine = _pickled(obj, chosen)
    sizes = _sizes(mine, chosen)
    most = max(sizes)
    parts = (
        [facula.empty(most, dtype=facula.uint8, device=chosen.carrier) for _ in sizes]
        if here
        else None
    )
    _collectives.gather(_padded(mine, most), parts, group=chosen, group_dst=root)
    if here and parts is not None and object_gather_list is not None:
        object_gather_list[:] = [_loaded(p, s) for p, s in zip(parts, sizes, strict=True)]


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """The items of `object_list` become those of process `src`; the lists have one length."""
    chosen = resolved("broadcast_object_list", group)
    if chosen is None:
        return
    root = root_of("broadcast_object_list", chosen, src, group_src, "src")
    here = chosen.rank() == root
    data = (
        _pickled(list(object_list), chosen)
        if here
        else facula.empty(0, dtype=facula.uint8, device=chosen.carrier)
    )
    size = facula.tensor([data.numel()], dtype=facula.int64, device=chosen.carrier)
    _collectives.broadcast(size, group=chosen, group_src=root)
    if not here:
        data = facula.empty(int(size.item()), dtype=facula.uint8, device=chosen.carrier)
    _collectives.broadcast(data, group=chosen, group_src=root)
    if not here:
        items = _loaded(data, data.numel())
        if len(items) != len(object_list):
            raise ValueError(
                f"broadcast_object_list: object_list has {len(object_list)} items, and that of src"
                f" {len(items)}"
            )
        object_list[:] = items


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """`scatter_object_output_list[0]` of process i becomes item i of the list of process `src`."""
    what = "scatter_object_list"
    chosen = resolved(what, group)
    if chosen is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(f"{what}: scatter_object_output_list must be a list with an item")
    root = root_of(what, chosen, src, group_src, "src")
    here = chosen.rank() == root
    parts: list[Tensor] | None = None
    sizes = facula.empty(chosen.size(), dtype=facula.int64, device=chosen.carrier)
    if here:
        _check_list(what, "scatter_object_input_list", scatter_object_input_list, chosen.size())
        parts = [_pickled(item, chosen) for item in scatter_object_input_list or ()]
        sizes = facula.tensor([p.numel() for p in parts], dtype=facula.int64, device=chosen.carrier)
    _collectives.broadcast(sizes, group=chosen, group_src=root)
    most = int(sizes.max().item())
    mine = facula.empty(most, dtype=facula.uint8, device=chosen.carrier)
    padded = None if parts is None else [_padded(p, most) for p in parts]
    _collectives.scatter(mine, padded, group=chosen, group_src=root)
    scatter_object_output_list[0] = _loaded(mine, int(sizes[chosen.rank()].item()))


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
) -> None:
    """Sends the items of a list to process `dst`."""
    chosen = resolved("send_object_list", group)
    if chosen is None:
        return
    data = _pickled(list(object_list), chosen)
    size = facula.tensor([data.numel()], dtype=facula.int64, device=chosen.carrier)
    _point_to_point.send(size, dst, chosen, group_dst=group_dst)
    _point_to_point.send(data, dst, chosen, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> int:
    """The items of a list become those that process `src` (or anyone) sends; returns who did."""
    chosen = resolved("recv_object_list", group)
    if chosen is None:
        return -1
    size = facula.empty(1, dtype=facula.int64, device=chosen.carrier)
    sender = _point_to_point.recv(size, src, chosen, group_src=group_src)
    data = facula.empty(int(size.item()), dtype=facula.uint8, device=chosen.carrier)
    _point_to_point.recv(data, sender, chosen)
    items = _loaded(data, data.numel())
    if len(items) != len(object_list):
        raise ValueError(
            f"recv_object_list: object_list has {len(object_list)} items, and {len(items)} came"
        )
    object_list[:] = items
    return sender
