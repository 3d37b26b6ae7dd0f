"""Where the tensors of a file were, and where they go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import facula

__all__ = ["location_of", "placer"]


def location_of(device: Any) -> str:
    """What a file says for a device: the tag of its package, and the index."""
    from facula import backends

    if device.type == "cpu":
        return "cpu"
    tag = backends.info(device.type)["tag"]
    return tag if device.index is None else f"{tag}:{device.index}"


def _device_name(location: str) -> str:
    """The name of the device that a file means by a tag; the tag where no package has it."""
    from facula import backends

    tag, colon, index = location.partition(":")
    return (backends._name_with("tag", tag) or tag) + colon + index


def _restored(tensor: Any, location: str) -> Any:
    """The tensor on the device that a file names."""
    if location == "cpu":
        return tensor
    try:
        return tensor.to(_device_name(location))
    except RuntimeError as error:
        raise RuntimeError(
            f"load(): a tensor was saved on '{location}', where it cannot go ({error}); pass "
            "map_location='cpu' or another device"
        ) from error


def placer(map_location: Any) -> Callable[[Any, str], Any]:
    """A function of a tensor and its location that gives it where `map_location` puts it."""
    if map_location is None:
        return _restored
    if isinstance(map_location, Mapping):
        table = {str(key): value for key, value in map_location.items()}

        def look_up(tensor: Any, location: str) -> Any:
            known = location in table or location == "cpu"
            key = location if known else _device_name(location)
            return tensor.to(table[key]) if key in table else _restored(tensor, location)

        return look_up
    if callable(map_location) and not isinstance(map_location, facula.device):

        def call(tensor: Any, location: str) -> Any:
            moved = map_location(tensor, location)
            return _restored(tensor, location) if moved is None else moved

        return call
    return lambda tensor, location: tensor.to(map_location)
