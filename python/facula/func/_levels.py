"""What transforms share: levels that open and close, trees of tensors that go in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import _C
from facula.autograd._levels import gradient_level
from facula.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["debug_unwrap", "gradient_level"]


def entered(level: int, tree: Any) -> Any:
    """The tree with its tensors as ones of the level."""
    return tree_map(lambda t: _C._enter_level(t, level, None) if _C.is_tensor(t) else t, tree)


def left(level: int, tree: Any) -> Any:
    """The tree with its tensors as they are outside of a level of gradients."""
    return tree_map(lambda t: _C._leave_level(t, level)[0] if _C.is_tensor(t) else t, tree)


def tensors_of(tree: Any, who: str, what: str) -> tuple[list[Any], Any]:
    """Leaves and structure of a tree of tensors.

    Raises:
        TypeError: a leaf is no tensor, or there is none.
    """
    leaves, spec = tree_flatten(tree)
    for leaf in leaves:
        if not _C.is_tensor(leaf):
            raise TypeError(
                f"{who}(): {what} must be a Tensor or lists, tuples and dicts of them, "
                f"and there is a {type(leaf).__name__}"
            )
    if not leaves:
        raise TypeError(f"{who}(): {what} has no tensors")
    return leaves, spec


def with_aux(result: Any, has_aux: bool, who: str) -> tuple[Any, Any]:
    """What the function returned: its value, and beside it what is passed on as it is."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{who}(): with has_aux=True the function returns a tuple (output, aux), "
            f"not {_described(result)}"
        )
    return result


def _described(result: Any) -> str:
    if isinstance(result, tuple):
        return f"a tuple of {len(result)}"
    return f"a {type(result).__name__}"


def aux_of(level: int, aux: Any, who: str) -> Any:
    """`aux`, of tensors alone, outside of the level."""
    leaves, spec = tree_flatten(aux)
    for leaf in leaves:
        if not _C.is_tensor(leaf):
            raise RuntimeError(
                f"{who}(): aux must hold tensors alone, and there is a {type(leaf).__name__}"
            )
    return left(level, tree_unflatten(leaves, spec))


def named(func: Callable[..., Any]) -> str:
    """The function's name, for messages."""
    return getattr(func, "__name__", type(func).__name__)


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """The tensor that one of a transform stands for, to look at while debugging.

    Args:
        tensor: of any level, or of none.
        recurse: go through all levels; else through the innermost one.

    Raises:
        TypeError: it is no tensor.
    """
    if not _C.is_tensor(tensor):
        raise TypeError(f"debug_unwrap(): tensor must be a Tensor, not {type(tensor).__name__}")
    while (found := _C._level_of(tensor)) is not None:
        tensor = found[2]
        if not recurse:
            break
    return tensor
