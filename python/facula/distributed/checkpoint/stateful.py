"""Objects that a checkpoint asks for their state."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """Has `state_dict` and `load_state_dict`, as modules and optimizers have."""

    def state_dict(self) -> dict[str, Any]:
        """What is to be kept."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Takes what was kept."""
        ...
