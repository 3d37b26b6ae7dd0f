"""Methods that are there no more, and those of kinds of tensors that are not there: they raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "eig",
    "index",
    "int_repr",
    "lstsq",
    "mtia",
    "reinforce",
    "solve",
    "symeig",
    "to_padded_tensor",
]


def _refused(name: str, said: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{name}(){said}")

    method.__name__ = name
    method._is_refused = True  # type: ignore[attr-defined]
    method.__doc__ = f"Raises RuntimeError: {name}(){said}."
    return method


def _removed(name: str, instead: str) -> Callable[..., Any]:
    return _refused(name, f" was removed; {instead}")


eig = _removed("eig", "use linalg.eig, whose results are complex")
lstsq = _removed("lstsq", "use linalg.lstsq, whose arguments are in the other order")
reinforce = _removed("reinforce", "use distributions: log_prob(action) * reward")
solve = _removed("solve", "use linalg.solve, whose arguments are in the other order")
symeig = _removed("symeig", "use linalg.eigh, which reads the lower triangle")


def _not_of(name: str, kind: str) -> Callable[..., Any]:
    return _refused(name, f": facula has no {kind}")


int_repr = _not_of("int_repr", "quantized tensors; a tensor's elements are its numbers")
index = _not_of("index", "dims as objects; x[i, j], movedim() and einsum() index by place")
mtia = _not_of("mtia", "devices of type 'mtia'")
to_padded_tensor = _not_of("to_padded_tensor", "nested tensors; nn.utils.rnn.pad_sequence pads")
