"""Floating-point operations of calls, by the formulas that the schema states for operators."""

from __future__ import annotations

import functools
import json
import math
import os
from typing import Any

from facula import _C, ops

__all__ = ["flops_of"]


class _Shaped:
    """A tensor as formulas ask for it."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.shape, self.ndim = sizes, len(sizes)

    def size(self, dim: int) -> int:
        return self.shape[dim]

    def numel(self) -> int:
        return math.prod(self.shape)


_WORDS = {"prod": math.prod, "len": len, "min": min, "max": max}


@functools.cache
def _formulas() -> dict[str, tuple[list[str], list[str], Any]]:
    """Operator -> names of its arguments, names of its results, formula."""
    path = os.path.join(os.path.dirname(_C.__file__), "ops.json")
    found = {}
    with open(path, encoding="utf-8") as file:
        for line in file:  # an operator a line; few have a formula
            if '"flops"' in line:
                _add(found, json.loads(line.rstrip().rstrip(",")), "")
    return found


@functools.lru_cache(maxsize=8)
def _of_extensions(count: int) -> dict[str, tuple[list[str], list[str], Any]]:
    found: dict[str, tuple[list[str], list[str], Any]] = {}
    for namespace, records in ops._records.items():
        for record in records:
            if "flops" in record:
                _add(found, record, namespace + "::")
    return found


def _add(found: dict[str, Any], record: dict[str, Any], prefix: str) -> None:
    arguments = [a["name"] for a in record["arguments"]]
    results = [r["name"] for r in record["returns"]]
    code = compile(record["flops"], f"<flops of {record['name']}>", "eval")
    found[prefix + record["name"]] = arguments, results, code


def _value(noted: Any) -> Any:
    """What a formula sees of an argument: tensors were noted as (sizes, dtype, device)."""
    if isinstance(noted, tuple):
        return _Shaped(noted[0])
    if isinstance(noted, list):
        return [_value(v) for v in noted]
    return noted


def flops_of(operator: str, arguments: tuple[Any, ...], results: tuple[Any, ...]) -> int:
    """Operations of one call, as noted by an observation; 0 of operators without a formula.

    A multiplication and an addition are two. Arguments and results are those of the call in order,
    tensors as (sizes, dtype, device).
    """
    known = _formulas().get(operator) or _of_extensions(len(ops._records)).get(operator)
    if known is None:
        return 0
    names, outs, code = known
    scope: dict[str, Any] = dict(_WORDS)
    scope.update((n, _value(v)) for n, v in zip(names, arguments, strict=False))
    given = list(results) or list(arguments[len(names) :])  # out= forms return nothing
    for name, value in zip(outs, given, strict=False):
        scope[name or "result"] = _value(value)
    if given:
        scope.setdefault("result", _value(given[0]))
    return int(eval(code, {"__builtins__": {}}, scope))


def operators_with_formula() -> list[str]:
    """Names of the operators that are counted."""
    return sorted({*_formulas(), *_of_extensions(len(ops._records))})
