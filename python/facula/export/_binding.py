"""Which overload of an operator a call means, and its arguments by name."""

from __future__ import annotations

import ast
import re
from typing import Any

import facula
from facula.export._wires import Held

__all__ = ["bound", "with_arguments"]

_ARGUMENT = re.compile(r"(?P<type>[\w\[\]?!*]+) (?P<name>\w+)[^=]*(?:=(?P<default>.*))?")


def bound(
    records: list[dict[str, Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The record that fits best, and the values of its arguments; None where none fits."""
    best: tuple[int, dict[str, Any], dict[str, Any]] | None = None
    for record in records:
        found = _values(record["arguments"], args, kwargs)
        if found is not None and (best is None or found[0] < best[0]):
            best = (found[0], record, found[1])
    return None if best is None else best[1:]


def _values(
    arguments: list[dict[str, Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[int, dict[str, Any]] | None:
    positional = [a for a in arguments if not a.get("keyword_only")]
    values: dict[str, Any] = {}
    cost = 0
    given = list(args)
    for a in positional:
        if not given:
            break
        if a["type"].startswith("int[") and _is_int(given[0]):
            if a["type"].startswith("int[*]"):  # view(x, 2, 3) is view(x, [2, 3])
                values[a["name"]], given = given, []
                if not all(map(_is_int, values[a["name"]])):
                    return None
                continue
            count = a["type"][4:].split("]")[0]
            values[a["name"]] = [given.pop(0)] * (int(count) if count.isdigit() else 1)
            continue
        values[a["name"]] = given.pop(0)
    if given:
        return None
    names = {a["name"] for a in arguments}
    for key, value in kwargs.items():
        name = {"axis": "dim", "input": "self"}.get(key, key) if key not in names else key
        if name not in names or name in values:
            return None
        values[name] = value
    for a in arguments:
        name = a["name"]
        if name not in values:
            if "default" not in a:
                return None
            values[name] = _default(a)
            continue
        score = _misfit(a["type"], values[name])
        if score is None:
            return None
        cost += score
        if a["type"].startswith("int[") and _is_int(values[name]):
            count = a["type"][4:].split("]")[0]
            values[name] = [values[name]] * (int(count) if count.isdigit() else 1)
        elif isinstance(values[name], tuple):
            values[name] = list(values[name])
    return cost, values


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _default(argument: dict[str, Any]) -> Any:
    text = argument["default"]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = {"inf": float("inf"), "-inf": -float("inf")}.get(text, getattr(facula, text, text))
    kind = argument["type"]
    if kind.startswith("int[") and _is_int(value):
        count = kind[4:].split("]")[0]
        return [value] * (int(count) if count.isdigit() else 1)
    return value


def _misfit(kind: str, value: Any) -> int | None:
    """0 where a value is of a type, more where it serves, None where it does not."""
    if kind.endswith("?"):
        return 0 if value is None else _misfit(kind[:-1], value)
    kind = kind.rstrip("!")
    number = isinstance(value, (int, float, complex))
    if kind == "Tensor":
        return 0 if isinstance(value, Held) else (2 if number else None)
    if kind in ("Tensor[]", "Tensor![]", "Tensor?[]"):
        listed = isinstance(value, (list, tuple))
        return 0 if listed and all(v is None or isinstance(v, Held) for v in value) else None
    if kind == "Scalar":
        return 0 if number else (3 if isinstance(value, Held) and value.ndim == 0 else None)
    if kind == "int":
        return 0 if _is_int(value) else None
    if kind == "bool":
        return 0 if isinstance(value, bool) else None
    if kind == "float":
        return 0 if isinstance(value, float) else (1 if number else None)
    if kind == "str":
        return 0 if isinstance(value, str) else None
    if kind.startswith(("int[", "bool[", "float[")):
        if _is_int(value):
            return 1
        listed = isinstance(value, (list, tuple))
        return 0 if listed and all(isinstance(v, (int, float)) for v in value) else None
    types = {
        "ScalarType": facula.dtype, "Device": (facula.device, str),
        "MemoryFormat": facula.memory_format, "Generator": facula.Generator,
    }  # fmt: skip
    return 0 if isinstance(value, types.get(kind, object)) else None


def with_arguments(record: dict[str, Any]) -> dict[str, Any]:
    """A record with its arguments; those of definitions stand in their signature alone."""
    if "arguments" not in record:
        text = record["signature"]
        inner = text[text.index("(") + 1 : text.rindex(") ->")]
        record["arguments"] = []
        keyword_only = False
        for part in re.split(r", (?![^\[(]*[\])])", inner) if inner else ():
            keyword_only = keyword_only or part == "*"
            match = _ARGUMENT.fullmatch(part)
            if match is None:
                continue
            argument = {"name": match["name"], "type": match["type"], "keyword_only": keyword_only}
            if match["default"] is not None:
                argument["default"] = match["default"].strip().strip('"')
            record["arguments"].append(argument)
    return record
