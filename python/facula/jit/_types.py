"""Types of values as text, `Dict[str, List[Tensor]]`: of annotations, and asked of values."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any

import facula

__all__ = ["matches", "of_value", "split", "text_of"]

_PLAIN = {
    int: "int", float: "float", bool: "bool", str: "str", complex: "complex", type(None): "None",
    facula.Tensor: "Tensor", facula.dtype: "dtype", facula.device: "device", list: "List",
    facula.layout: "layout", facula.memory_format: "memory_format", dict: "Dict", tuple: "Tuple",
    facula.Size: "List[int]", facula.Generator: "Generator",
}  # fmt: skip
_GENERIC = {list: "List", dict: "Dict", tuple: "Tuple"}


def text_of(annotation: Any, space: Mapping[str, Any] | None = None) -> str:
    """An annotation as text; "" where nothing is known.

    Args:
        annotation: a type, one of `typing`'s, or its source as a string.
        space: what the names in a string stand for.
    """
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, dict(space or {}))
        except Exception:
            return ""
    if annotation is None:
        return "None"
    if annotation in (inspect.Parameter.empty, Any):
        return ""
    found = _PLAIN.get(annotation) if isinstance(annotation, type) else None
    if found is not None:
        return found
    if isinstance(annotation, type) and issubclass(annotation, facula.Tensor):
        return "Tensor"
    if isinstance(annotation, type) and issubclass(annotation, tuple):
        fields = getattr(annotation, "_fields", ())
        return f"NamedTuple[{', '.join(fields)}]" if fields else "Tuple"
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        kinds = [text_of(a, space) for a in args]
        rest = [k for k in kinds if k != "None"]
        if len(rest) == 1 and len(kinds) == 2:
            return f"Optional[{rest[0]}]" if rest[0] else ""
        return f"Union[{', '.join(kinds)}]" if all(kinds) else ""
    if origin in _GENERIC:
        kinds = [text_of(a, space) for a in args if a is not ...]
        if not all(kinds) or ... in args:
            return _GENERIC[origin]
        return f"{_GENERIC[origin]}[{', '.join(kinds)}]" if kinds else _GENERIC[origin]
    if isinstance(annotation, (typing.TypeVar, typing.ForwardRef)):
        return ""
    return ""


def of_value(value: Any) -> str:
    """The type of a value, as far as it is one of those of programs."""
    if isinstance(value, facula.Tensor):
        return "Tensor"
    return _PLAIN.get(type(value), "")


def split(text: str) -> tuple[str, list[str]]:
    """A type's head and its arguments."""
    head, bracket, rest = text.partition("[")
    if not bracket:
        return head, []
    parts, depth, start = [], 0, 0
    inner = rest[:-1]
    for i, char in enumerate(inner):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            parts.append(inner[start:i].strip())
            start = i + 1
    parts.append(inner[start:].strip())
    return head, parts


_KINDS: dict[str, Any] = {name: kind for kind, name in _PLAIN.items() if "[" not in name}


def matches(value: Any, text: str) -> bool:
    """Is a value of a type, its items too?"""
    head, args = split(text)
    if head in ("", "Any"):
        return True
    if head == "Optional":
        return value is None or matches(value, args[0])
    if head == "Union":
        return any(matches(value, a) for a in args)
    if head == "NamedTuple":  # its arguments are the names of its fields
        return isinstance(value, tuple) and len(value) == len(args)
    kind = _KINDS.get(head)
    if kind is None or not isinstance(value, kind) or (kind is int and value is True):
        return False
    if kind in (int, float) and isinstance(value, bool):
        return False
    if not args:
        return True
    if head == "List":
        return all(matches(v, args[0]) for v in value)
    if head == "Dict":
        return all(matches(k, args[0]) and matches(v, args[-1]) for k, v in value.items())
    return len(value) == len(args) and all(map(matches, value, args))
