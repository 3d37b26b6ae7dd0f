"""`torch.jit` as torch has it under PYTORCH_JIT=0: functions and modules stay what they are."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from facula import nn
from facula.as_torch._refused import refused_class
from facula.as_torch._spaces import lacking

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


class Error(RuntimeError):
    """What scripted code would raise; nothing does."""


class TracerWarning(Warning):
    """What tracing would warn of; nothing does."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Nothing: there are none."""


class ScriptModule(nn.Module):
    """A base class for modules with `script_method`s; a module like others."""


class ScriptFunction:
    """The type of scripted functions, of which there are none."""

    def __new__(cls, *args: Any, **kwargs: Any) -> ScriptFunction:
        raise RuntimeError(lacking("jit.ScriptFunction"))


CompilationUnit = refused_class("jit.CompilationUnit")


def interface(obj: Any) -> Any:
    """The class as it is."""
    return obj


def script(obj: Any, *args: Any, **options: Any) -> Any:
    """The function, class or module as it is."""
    return obj


def trace(func: Any, example_inputs: Any = None, **options: Any) -> Any:
    """The function or module as it is; it is not run."""
    return func


def trace_module(mod: Any, inputs: Any, **options: Any) -> Any:
    """The module as it is; it is not run."""
    return mod


def script_method(fn: Any) -> Any:
    """The method as it is."""
    return fn


script_if_tracing = _script_if_tracing = export = _overload_method = script_method


def ignore(drop: Any = False, **options: Any) -> Any:
    """The function as it is, or a decorator that leaves it so."""
    return drop if callable(drop) else script_method


def unused(fn: Any) -> Any:
    """The function as it is."""
    return fn


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """The module as it is."""
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module as it is."""
    return mod


def Attribute(value: Any, type: Any) -> Any:
    """The value."""
    return value


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's own, for types without parameters."""
    return builtins.isinstance(obj, target_type)


def is_scripting() -> bool:
    """Never."""
    return False


def is_tracing() -> bool:
    """Never."""
    return False


class Future:
    """What `fork` gives."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def wait(self) -> Any:
        return self._value

    def value(self) -> Any:
        return self._value

    def done(self) -> bool:
        return True


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call the function now; `wait` gives its result."""
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """The result of what `fork` called."""
    return future.wait()


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Nothing."""
    yield


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Nothing; there was none before."""
    return []


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Raises: there is no program to write."""
    raise RuntimeError(
        "torch.jit.save(): facula has no scripted programs; save m.state_dict() by torch.save"
    )


def load(f: Any, map_location: Any = None, **options: Any) -> Any:
    """Raises: facula runs no scripted programs."""
    raise RuntimeError(
        "torch.jit.load(): facula runs no scripted programs; load a state_dict by torch.load"
    )
