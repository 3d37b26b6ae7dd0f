"""`__torch_function__`: classes that answer for the calls that their objects are given to.

A class with a class method `__torch_function__(cls, func, types, args=(), kwargs=None)` is asked
before a function of facula runs, where an argument, or an item of a list among the arguments, is
its object: a subclass of Tensor, or any other class. `func` is the function or the method of
Tensor that was called; what is returned is the result, NotImplemented leaves it to the next class.
NumPy's NEP 18 describes the protocol. `TorchFunctionMode` asks an object for all calls instead.
Attributes of tensors and what tells of their shape (`size`, `dim`) are not asked about.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import facula
from facula import _C
from facula._errors import tell_as

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "overridable",
    "resolve_name",
]

_MISSING = object()


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Is any of them an object whose class answers for its calls, or a mode open?"""
    if not _C._is_torch_function_enabled():
        return False
    return bool(_C._overriding(tuple(relevant_args), {})) or bool(_stack())


def has_torch_function_unary(obj: Any) -> bool:
    """`has_torch_function` of one."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*objs: Any) -> bool:
    """`has_torch_function` of several."""
    return has_torch_function(objs)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """The answer of the first class that takes the call; subclasses come before their bases.

    Raises:
        TypeError: none does.
    """
    return _dispatch(public_api, _C._overriding(tuple(relevant_args), {}), args, kwargs)


def is_tensor_like(inp: Any) -> bool:
    """Is it a tensor, or does its class define `__torch_function__`?"""
    return isinstance(inp, facula.Tensor) or hasattr(type(inp), "__torch_function__")


def _dispatch(function: Any, overriding: list[Any], args: Any, kwargs: Any) -> Any:
    order: list[Any] = []
    for arg in overriding:
        at = next((i for i, o in enumerate(order) if isinstance(arg, type(o))), len(order))
        order.insert(at, arg)
    types = tuple(map(type, order))
    modes = _stack()
    if modes and not getattr(_local, "off", False):
        mode = modes.pop()  # what the mode calls goes to those outside it
        _C._count_modes(len(modes))
        try:
            result = mode.__torch_function__(function, types, args, kwargs)
        finally:
            modes.append(mode)
            _C._count_modes(len(modes))
        if result is not NotImplemented:
            return result
    for arg in order:
        result = type(arg).__torch_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    if not order:
        raise TypeError(f"the mode {mode!r} gave NotImplemented for {resolve_name(function)}")
    raise TypeError(
        f"no class answers for {resolve_name(function) or function}: __torch_function__ of "
        f"{[t.__name__ for t in types]} gave NotImplemented"
    )


def _answer(name: str, method: bool, overriding: list[Any], args: Any, kwargs: Any) -> Any:
    """What the compiled module asks for a call of the operator `name`."""
    return _dispatch(_callable_of(name, method), overriding, args, kwargs)


@functools.cache
def _callable_of(name: str, method: bool) -> Any:
    if method:
        found = getattr(facula.Tensor, name.rpartition(".")[2])
        return found if callable(found) else found.__get__  # of an attribute, such as T
    path, _, leaf = name.rpartition(".")
    if path:
        return getattr(getattr(_C, "_" + path.replace(".", "_")), leaf)
    if leaf in facula._SOURCES and hasattr(_C._ops, leaf):
        return getattr(facula, leaf)  # the function that users call is Python
    for place in (_C, *(getattr(_C, n, None) for n in _places())):
        found = getattr(place, leaf, None)
        if found is not None:
            return found
    raise RuntimeError(f"there is no function {name!r}")  # the schema has all that are called


def _places() -> list[str]:
    return ["_" + p.lstrip("_").replace(".", "_") for p in _C._namespaces]


# ---- functions written in Python

_more_spaces: dict[str, ModuleType] = {}


def add_space(path: str, module: ModuleType) -> None:
    """Let `resolve_name` and `get_overridable_functions` know of a module of functions."""
    _more_spaces[path] = module


def overridable(function: Any, arrange: Any = None) -> Any:
    """A function that asks the classes of its arguments first, as those of operators do.

    `arrange` gives the positional arguments the form in which classes are told them. Errors of what
    the function is made of are told as its own.
    The result has the name, the signature and the documentation of `function`.
    """
    in_use, find = _C._overrides_in_use, _C._overriding

    @functools.wraps(function)
    def asking(*args: Any, **kwargs: Any) -> Any:
        if arrange is not None:
            args = arrange(args)
        if in_use():
            overriding = find(args, kwargs)
            if overriding or (_stack() and not getattr(_local, "off", False)):
                return _dispatch(asking, overriding, args, kwargs)
        try:
            return function(*args, **kwargs)
        except Exception as error:
            overriding = [] if in_use() else find(args, kwargs)
            if not overriding:
                told = tell_as(error, asking, args, kwargs)
                if told is error:
                    raise
                raise told from None
            _C._use_overrides()
        return _dispatch(asking, overriding, args, kwargs)

    return asking


# ---- the default, and ways not to ask


def _default(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What tensors answer: the call, with tensors among the results as objects of the class."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return result if func in _plain_results() else _in_class(result, cls)


@functools.cache
def _plain_results() -> frozenset[Any]:
    return frozenset(getattr(facula.Tensor, n) for n in ("type", "numpy", "tolist", "item"))


def _in_class(result: Any, cls: Any) -> Any:
    if cls is facula.Tensor:
        return result
    if isinstance(result, facula.Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        items = [_in_class(item, cls) for item in result]
        if type(result) in (tuple, list):
            return type(result)(items)
        return type(result)(items) if not hasattr(result, "_fields") else type(result)(*items)
    return result


class _Off:
    _switches: tuple[Any, ...] = ()

    def __enter__(self) -> None:
        self._before = [switch(True) for switch in self._switches]

    def __exit__(self, *error: Any) -> None:
        for switch, before in zip(self._switches, self._before, strict=True):
            switch(before)


class DisableTorchFunctionSubclass(_Off):
    """Within it classes are not asked, modes are; results are plain tensors."""

    _switches = (_C._set_overrides_off,)


def _set_modes_off(off: bool) -> bool:
    _local.off = off
    return bool(_C._set_modes_off(off))


class DisableTorchFunction(_Off):
    """Within it neither classes nor modes are asked."""

    _switches = (_C._set_overrides_off, _set_modes_off)


# ---- modes

_local = threading.local()


def _stack() -> list[Any]:
    found: list[Any] | None = getattr(_local, "modes", None)
    if found is None:
        found = _local.modes = []
    return found


class TorchFunctionMode:
    """Within `with mode:` its `__torch_function__` is asked for every call in this thread.

    The innermost mode is asked first; what it calls itself goes to those outside it.
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The answer for a call; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} defines no __torch_function__")

    def __enter__(self) -> TorchFunctionMode:
        _C._use_overrides()
        _stack().append(self)
        _C._count_modes(len(_stack()))
        return self

    def __exit__(self, *error: Any) -> None:
        _stack().pop()
        _C._count_modes(len(_stack()))

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> TorchFunctionMode:
        """A mode to enter."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls what was called."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


# ---- what there is


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Is it a method of Tensor, or the getter of one of its attributes?"""
    name = getattr(func, "__name__", None)
    if name == "__get__":
        return True
    return name is not None and vars(facula.Tensor).get(name, _MISSING) is func


def _spaces() -> Iterator[tuple[str, Any]]:
    yield "torch", facula
    for name in (n.lstrip("_") for n in _C._namespaces):
        space = getattr(facula, name, None)
        if "." not in name and isinstance(space, ModuleType):
            yield "torch." + name, space
    yield from _more_spaces.items()


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """By namespace, the functions and methods that ask classes."""
    found: dict[Any, list[Any]] = {}
    for _, space in _spaces():
        asked = [f for f in vars(space).values() if _is_asking(f)]
        found[space] = asked
    methods = vars(facula.Tensor)
    found[facula.Tensor] = [f for n, f in methods.items() if callable(f) and n[:2] != "__"]
    return found


def _is_asking(function: Any) -> bool:
    module = getattr(function, "__module__", None) or ""
    compiled = type(function) is type(_C.add) and module.split(".")[0] == "facula"
    return compiled or getattr(function, "__code__", None) is overridable(len).__code__


def resolve_name(f: Any) -> str | None:
    """The path of a function or method, "torch.Tensor.add" say; None where there is none."""
    if isinstance(f, str):
        return f
    name = getattr(f, "__name__", None)
    if name is None:
        return None
    if vars(facula.Tensor).get(name, _MISSING) is f:
        return "torch.Tensor." + name
    for path, space in _spaces():
        if getattr(space, name, _MISSING) is f:
            return f"{path}.{name}"
    return None
