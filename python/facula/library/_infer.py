"""The signature of an operator from the annotations of a Python function."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

import facula

__all__ = ["infer_schema"]

_BASES: dict[Any, str] = {
    facula.Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    facula.dtype: "ScalarType",
    facula.device: "Device",
}
_NUMBER = frozenset((int, float, bool))
_SEQUENCES = (list, collections.abc.Sequence)
#: What a list may hold.
_ITEMS = frozenset(("Tensor", "SymInt", "float", "bool", "Scalar", "ScalarType", "Tensor?"))
_RETURNS = ("Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar")
_ALLOWED = (
    "Tensor, int, float, bool, str, int | float | bool, facula.dtype, facula.device, "
    "None with each of them, and list or Sequence of tensors or numbers"
)


def _type_of(annotation: Any) -> str | None:
    """The schema's word for an annotation, or None."""
    if annotation in _BASES:
        return _BASES[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in inner if a is not type(None)]
        if frozenset(rest) == _NUMBER:
            word: str | None = "Scalar"
        else:
            word = _type_of(rest[0]) if len(rest) == 1 else None
        if word is None or len(rest) == len(inner):
            return word
        return None if word.endswith("?") else word + "?"
    if origin in _SEQUENCES and len(inner) == 1:
        word = _type_of(inner[0])
        return f"{word}[]" if word in _ITEMS else None
    return None


def _default(value: Any, fail: Callable[[str], Any], name: str) -> str:
    if value is None or isinstance(value, (int, float, bool)):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, facula.dtype):
        return str(value).rpartition(".")[2]
    if isinstance(value, facula.device):
        return f'"{value}"'
    return fail(
        f"the default of '{name}' is a {type(value).__name__}; defaults may be None, numbers, "
        f"texts, dtypes and devices"
    )


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
) -> str:
    """The signature of a function, by its annotations.

    Args:
        prototype_function: each parameter and the result have annotations: tensors, numbers,
            texts, dtypes, devices, optional ones, and lists of tensors or of numbers.
        mutates_args: names of the arguments that it writes to; "unknown": all that are tensors.
        op_name: what the signature begins with; nothing by default.

    Raises:
        ValueError: an annotation is missing or is none of these.

    >>> import facula
    >>> def scale(x: facula.Tensor, by: float = 2.0) -> facula.Tensor: ...
    >>> facula.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    named = getattr(prototype_function, "__name__", "function")

    def fail(what: str) -> Any:
        raise ValueError(f"infer_schema(): {what}. The function is {named}{signature}")

    try:
        hints = typing.get_type_hints(prototype_function)
    except NameError as error:
        fail(f"an annotation cannot be read: {error}")
    unknown = mutates_args == "unknown"
    written = {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
    parts: list[str] = []
    found: set[str] = set()
    star = False
    for count, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            fail(
                f"'{name}' is an argument without a name of its own (*args, **kwargs, or before /)"
            )
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            star = True
            parts.append("*")
        if name not in hints:
            fail(f"Parameter {name} must have a type annotation")
        word = _type_of(hints[name])
        if word is None:
            fail(f"Parameter {name} has unsupported type {hints[name]}; allowed are {_ALLOWED}")
        assert word is not None
        if name in written or (unknown and word.startswith("Tensor")):
            found.add(name)
            if not word.startswith("Tensor"):
                fail(f"Parameter {name} is in mutates_args but only tensors can be written to")
            word = word.replace("Tensor", f"Tensor(a{count}!)", 1)
        text = f"{word} {name}"
        if parameter.default is not parameter.empty:
            text += "=" + _default(parameter.default, fail, name)
        parts.append(text)
    if not unknown and written != found:
        fail(f"mutates_args has {sorted(written - found)}, which are no parameters")
    return f"{op_name or ''}({', '.join(parts)}) -> {_returned(hints, fail)}"


def _returned(hints: dict[str, Any], fail: Callable[[str], Any]) -> str:
    if "return" not in hints:
        fail("No return type annotation was provided. Please add one")
    annotation = hints["return"]
    if annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        words = [_type_of(a) for a in typing.get_args(annotation)]
        if words and all(w in _RETURNS for w in words):
            return f"({', '.join(map(str, words))})"
    word = _type_of(annotation)
    if word not in _RETURNS:
        fail(
            f"Return has unsupported type {annotation}; allowed are Tensor, list[Tensor], int, "
            f"float, bool, None and tuples of them"
        )
    return str(word)
