"""What packages take from `torch._jit_internal`: marks for `script`, and types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.futures import Future
from facula.jit import export, ignore, is_scripting, unused

__all__ = ["Future", "boolean_dispatch", "export", "ignore", "is_scripting", "unused"]


class _Lists:
    """`BroadcastingList2[int]`: in annotations, one number or several."""

    def __getitem__(self, kind: Any) -> None:
        return None


BroadcastingList1, BroadcastingList2, BroadcastingList3 = _Lists(), _Lists(), _Lists()


def _copy_to_script_wrapper(fn: Any) -> Any:
    return fn


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """A function that is one or another of two, as an argument says."""

    def fn(*args: Any, **kwargs: Any) -> Any:
        by_name = kwargs.get(arg_name, default)
        chosen = args[arg_index] if arg_index < len(args) else by_name
        return (if_true if chosen else if_false)(*args, **kwargs)

    fn.__name__, fn.__doc__ = func_name, if_true.__doc__
    return fn
