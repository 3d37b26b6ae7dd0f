"""`torch.export`: names of sizes, and what there is not."""

from __future__ import annotations

from typing import Any

from facula.as_torch._refused import refused_class, refused_function

__all__ = ["Dim", "dims"]


class Dim:
    """A name for a size in `dynamic_shapes`; sizes of inputs may always differ."""

    AUTO, DYNAMIC, STATIC = "auto", "dynamic", "static"

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.__name__, self.min, self.max = name, min, max

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r})"


def dims(*names: str, **limits: Any) -> tuple[Dim, ...]:
    """Several of them."""
    return tuple(Dim(name, **limits) for name in names)


Exporter = refused_class("export.Exporter")
register_dataclass = refused_function("export.register_dataclass")
