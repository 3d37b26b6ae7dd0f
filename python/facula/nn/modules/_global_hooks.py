"""Hooks of all modules at once.

While there are any, `Module.__call__` is one that runs them; without, the compiled one, to which
they cost nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from facula.utils.hooks import RemovableHandle

__all__ = [
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_module_class: Any = None


class _Hooks(OrderedDict[int, Any]):
    """A table of hooks; when its first entry comes or its last one goes, calls change."""

    def __setitem__(self, key: int, value: Any) -> None:
        super().__setitem__(key, value)
        _choose_call()

    def pop(self, key: int, *default: Any) -> Any:
        found = super().pop(key, *default)
        _choose_call()
        return found


forward_pre = _Hooks()
forward = _Hooks()
backward = _Hooks()
backward_pre = _Hooks()
with_kwargs: OrderedDict[int, bool] = OrderedDict()
always: OrderedDict[int, bool] = OrderedDict()
_registrations: dict[str, OrderedDict[int, Any]] = {
    kind: OrderedDict() for kind in ("parameter", "buffer", "module")
}


def offer(module_class: type) -> None:
    """Say which class is `Module`."""
    global _module_class
    _module_class = module_class


def any_backward() -> bool:
    """Are there hooks of every backward?"""
    return bool(backward or backward_pre)


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return self._call_with_hooks(args, kwargs)
    except Exception as error:
        self._note_failure(error)
        raise


def _choose_call() -> None:
    wanted = bool(forward_pre or forward or backward or backward_pre)
    if wanted and "__call__" not in vars(_module_class):
        _module_class.__call__ = _call
    elif not wanted and "__call__" in vars(_module_class):
        del _module_class.__call__


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """What the hooks of registrations make of a new parameter, buffer or submodule."""
    for hook in list(_registrations[kind].values()):
        changed = hook(module, name, value)
        if changed is not None:
            value = changed
    return value


def _add(hooks: OrderedDict[int, Any], hook: Any, *extra: OrderedDict[int, bool]) -> Any:
    if not callable(hook):
        raise TypeError(f"hook is {type(hook).__name__}, expected a callable")
    handle = RemovableHandle(hooks, extra_dict=list(extra))
    hooks[handle.id] = hook
    return handle


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before each `forward`; a result that is not None replaces args."""
    return _add(forward_pre, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after each `forward`, before the module's own hooks.

    With `with_kwargs` it is `hook(module, args, kwargs, output)`; with `always_call` it also runs,
    with output None, when `forward` raised.
    """
    flags = globals()["with_kwargs"]
    handle = _add(forward, hook, flags, always)
    if with_kwargs:
        flags[handle.id] = True
    if always_call:
        always[handle.id] = True
    return handle


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` in the backward of each module."""
    return _add(backward, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` before the backward of each module."""
    return _add(backward_pre, hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older name of `register_module_full_backward_hook`, which this is."""
    return register_module_full_backward_hook(hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` when one is registered; its result, if any, is taken."""
    return _add(_registrations["parameter"], hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` when one is registered; its result, if any, is taken."""
    return _add(_registrations["buffer"], hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` when one is registered; its result, if any, is taken."""
    return _add(_registrations["module"], hook)
