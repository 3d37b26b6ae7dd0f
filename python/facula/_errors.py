"""Whose fault an error is: the function that was called and its argument, not what it is made of.

`operator`, `argument`, `kind` and `text` are attributes of an error; `operator` stands before the
text once. Errors of operators have these facts from where they were found, which may be far inside.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any

__all__ = ["tell_alias", "tell_all", "tell_as", "tell_call", "telling"]

# What an error is, where Python raised it: its first type here.
_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (ZeroDivisionError, "zero_division"),
    (OverflowError, "overflow"),
    (NotImplementedError, "unsupported"),
    (MemoryError, "memory"),
    (IndexError, "index"),
    (TypeError, "type"),
    (ValueError, "value"),
    (BufferError, "buffer"),
    (RuntimeError, "runtime"),
)
_SIGNATURE = "\n  signature: "
# How two operands are called within: "self is (2, 3) and other is (4,)".
_INNER = re.compile(r"\b(self|other|mat1|mat2|src)\b")
_NAMED = re.compile(r"[\w.]+(?:\(\))?: ")


def tell_as(error: Exception, function: Callable[..., Any], args: Any, kwargs: Any) -> Exception:
    """What to raise for an error within a call of `function`: the error, as the function's own.

    What code of others raised, such as a function among the arguments, stays as it is.
    """
    name, signature = function.__name__, inspect.signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:  # the call's own fault, of which Python tells
        return error
    if not _is_ours(error, given):
        return error
    if hasattr(error, "operator"):
        text = error.text  # type: ignore[attr-defined]
        if _SIGNATURE in text and error.operator != name:
            text = f"{text.partition(_SIGNATURE)[0]}{_SIGNATURE}{name}{signature}"
        _set(error, name, error.argument, error.kind, text)  # type: ignore[attr-defined]
        tell_call(error, given, tuple(signature.parameters))
        return error
    return _of_python(error, name, given, signature)


def _is_ours(error: Exception, given: Mapping[str, Any]) -> bool:
    """Whether only code of facula was under way, and none of the functions among the arguments."""
    functions = [v for v in given.values() if callable(v) and not isinstance(v, type)]
    codes = [_code_of(f) for f in functions]
    operator = str(getattr(error, "operator", None)).rpartition(".")[2]
    if any(getattr(f, "__name__", None) == operator for f in functions):
        return False
    if hasattr(error, "_facula_module"):  # from within a module, which is always the caller's
        return False
    trace = error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.partition(".")[0] != "facula" or trace.tb_frame.f_code in codes:
            return False
        trace = trace.tb_next
    return error.__traceback__ is not None


def _code_of(function: Any) -> Any:
    """The Python code that a call of a function, method, partial or other object runs, or None."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(function, "__code__", None)
    return code or getattr(type(function).__call__, "__code__", None)


def _of_python(
    error: Exception, name: str, given: Mapping[str, Any], signature: inspect.Signature
) -> Exception:
    """Of an error without facts that our Python code raised."""
    kind = next((word for known, word in _KINDS if isinstance(error, known)), None)
    if isinstance(error, AttributeError):
        found = next((n for n, v in given.items() if v is error.obj), None)
        if found is None or not _wants_tensor(error, signature.parameters[found]):
            return error
        wrong = TypeError()
        text = f"argument '{found}' must be a Tensor, not {_kind_of(error.obj)}"
        _set(wrong, name, found, "type", text)
        return wrong.with_traceback(error.__traceback__)
    if kind is None or len(error.args) != 1 or not isinstance(error.args[0], str):
        return error
    text = error.args[0]
    start = _NAMED.match(text)
    if start is not None:
        text = text[start.end() :]
    first = text.partition(" ")[0].rstrip(",:'")
    argument = first if first in given else None
    if argument is None and isinstance(error, TypeError):
        # Python's own: it says of which type a value is, not which value.
        argument = _only(n for n, v in given.items() if f"'{type(v).__name__}'" in text)
        if argument is not None:
            text = f"{argument} is of type {_kind_of(given[argument])}: {text}"
    _set(error, name, argument, kind, text)
    return error


def _wants_tensor(error: AttributeError, parameter: inspect.Parameter) -> bool:
    """Whether Python misses an attribute of tensors, at an argument that may be one."""
    import facula

    return (
        error.name is not None  # what is raised by hand does not say of what it is
        and "has no attribute" in str(error)
        and hasattr(facula.Tensor, error.name)
        and not isinstance(error.obj, facula.Tensor)
        and any(kind in str(parameter.annotation) for kind in ("Any", "Tensor", "_empty"))
    )


def _kind_of(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def tell_call(error: Exception, given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Let an error of a call name the call's arguments, where it names those of an inner one.

    Args:
        error: with facts.
        given: the arguments by name, as far as they are given.
        names: of all parameters.
    """
    facts: Any = error
    text, argument = facts.text.partition("; called with ")[0], facts.argument
    if argument in names or (argument == "out" and "out" not in names):
        return
    if argument is None:
        words = set(_INNER.findall(text)) - set(names)
        if words - ({"self"} & set(_aliases(names))):
            _set(error, facts.operator, None, facts.kind, text + _shapes(given))
        return
    found = _culprit(text, argument, facts.kind, given)
    if found is None:
        text += _shapes(given)
    elif argument == "index" and text.startswith("index "):
        text = f"{found}: {text}"
    else:
        text = re.sub(rf"(?<![\w.]){re.escape(argument)}(?!\w)", found, text, count=1)
    argument = found and found.partition("[")[0]
    _set(error, facts.operator, argument, facts.kind, text)


def tell_alias(error: Exception, own: str, alias: str) -> None:
    """Let an error of `own` say `alias`, the name by which that was called."""
    facts: Any = error
    if getattr(error, "operator", None) != own:
        return
    # Signatures stand each on a line.
    lines = rf"(?m)^(  (?:signature: )?){re.escape(own.rpartition('.')[2])}(?=[.(])"
    text = re.sub(lines, rf"\1{alias.rpartition('.')[2]}", facts.text)
    _set(error, alias, facts.argument, facts.kind, text)


def _aliases(names: tuple[str, ...]) -> tuple[str, ...]:
    # A method's tensor is called self, whatever the function calls it.
    return ("self",) if names and names[0] == "input" else ()


def _culprit(text: str, argument: str, kind: str, given: Mapping[str, Any]) -> str | None:
    """The argument that an error is about, where only one can be meant."""
    tensors = _tensors(given)
    start = rf"{re.escape(argument)}\b"
    number = re.match(start + r" (-?\d+)\b", text)
    if kind == "index" and (argument == "index" or re.match(start + ": index ", text)):
        return _only(n for n, t in tensors.items() if _holds_indices(t))
    if number is not None:
        value = int(number[1])
        return _only(n for n, v in given.items() if _says(v, value))
    if kind == "type":
        last = text.partition(_SIGNATURE)[0].rpartition(" ")[2]
        return _only(n for n, v in given.items() if _kind_of(v) == last)
    device = re.match(start + r" is on (\w+)", text)
    if device is not None:
        return _only(n for n, t in tensors.items() if t.device.type == device[1])
    dtype = re.match(start + r" (?:must be|is) .*?\b(?:not|is) (\w+)", text)
    if dtype is not None and any(_dtype(t) == dtype[1] for t in tensors.values()):
        return _only(n for n, t in tensors.items() if _dtype(t) == dtype[1])
    shape = re.match(start + r"[^(]*(\([\d, ]*\))", text)
    if shape is not None:
        return _only(n for n, t in tensors.items() if str(tuple(t.shape)) == shape[1])
    return None


def _dtype(t: Any) -> str:
    return str(t.dtype).rpartition(".")[2]


def _tensors(given: Mapping[str, Any]) -> dict[str, Any]:
    import facula

    found = {}
    for name, value in given.items():
        if isinstance(value, facula.Tensor):
            found[name] = value
        elif isinstance(value, (list, tuple)):
            entries = ((f"{name}[{i}]", v) for i, v in enumerate(value[:8]))
            found.update((n, v) for n, v in entries if isinstance(v, facula.Tensor))
    return found


def _holds_indices(t: Any) -> bool:
    return not (t.dtype.is_floating_point or t.dtype.is_complex or _dtype(t) == "bool")


def _says(value: Any, number: int) -> bool:
    if isinstance(value, (list, tuple)):
        return any(type(v) is int and v == number for v in value)
    return type(value) is int and value == number


def _only(names: Any) -> str | None:
    found = list(names)
    return found[0] if len(found) == 1 else None


def _shapes(given: Mapping[str, Any]) -> str:
    shapes = [f"{n} {tuple(t.shape)}" for n, t in _tensors(given).items()]
    return f"; called with {', '.join(shapes)}" if shapes else ""


def _set(error: Any, operator: str, argument: str | None, kind: str, text: str) -> None:
    error.args = (f"{operator}(): {text}",)
    error.operator, error.argument, error.kind, error.text = operator, argument, kind, text


def telling(function: Any) -> Any:
    """Decorates a function of several operators, whose errors are told as its own."""

    @functools.wraps(function)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            told = tell_as(error, decorated, args, kwargs)
            if told is error:
                raise
            raise told from None

    return decorated


def tell_all(space: dict[str, Any], names: Iterable[str]) -> None:
    """Decorate the functions of a module so, those of these names."""
    for name in names:
        if isinstance(space[name], FunctionType):
            space[name] = telling(space[name])
