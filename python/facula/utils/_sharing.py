"""Which tensors use the same memory."""

from __future__ import annotations

from typing import Any

__all__ = ["extent", "groups", "laid_out_alike"]


def extent(tensor: Any) -> tuple[int, int]:
    """First and one past the last byte that the tensor's elements occupy.

    Addresses; on the meta device, which has none, places in the storage.
    """
    size = tensor.element_size()
    meta = tensor.device.type == "meta"
    start = tensor.storage_offset() * size if meta else tensor.data_ptr()
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * size


def space(tensor: Any) -> str:
    """Within what the numbers of `extent` tell places apart."""
    device = str(tensor.device)
    return f"{device} {hash(tensor.untyped_storage())}" if tensor.device.type == "meta" else device


def groups(tensors: dict[str, Any]) -> list[list[str]]:
    """Names of tensors whose memory overlaps, together; the others alone.

    In the order of the first name of each: where memory lies is another thing in every run.
    """
    spans: list[tuple[str, int, int, str]] = []
    alone: list[list[str]] = []
    for name, tensor in tensors.items():
        if tensor.numel() == 0:
            alone.append([name])
            continue
        start, stop = extent(tensor)
        spans.append((space(tensor), start, stop, name))
    spans.sort(key=lambda span: span[:3])
    found: list[list[str]] = []
    where, end = "", -1
    for place, start, stop, name in spans:
        if found and place == where and start < end:
            found[-1].append(name)
            end = max(end, stop)
        else:
            found.append([name])
            where, end = place, stop
    places = {name: i for i, name in enumerate(tensors)}
    return sorted(found + alone, key=lambda group: min(places[name] for name in group))


def laid_out_alike(tensors: list[Any], others: list[Any]) -> bool:
    """Whether `others`, of the shapes of `tensors`, lie in memory relative to each other as those.

    Of other dtypes they may be: then all of one in place of all of one.
    """
    if len({space(t) for t in others}) > 1:
        return False
    dtypes, others_dtypes = [t.dtype for t in tensors], [t.dtype for t in others]
    if dtypes != others_dtypes and len({*dtypes}) + len({*others_dtypes}) > 2:
        return False
    places = []
    for several in (tensors, others):
        start = min(extent(t)[0] for t in several)
        # counted in elements of the first, which all have or whose sizes are equal on both sides
        size = several[0].element_size()
        places.append([((extent(t)[0] - start) / size, t.stride()) for t in several])
    return places[0] == places[1]
