"""Operators of extensions, by the name of each: `facula.ops.NAMESPACE.NAME`.

They come when an extension is imported that was built of a file of operators (see
facula.utils.cpp_extension), and from programs (see facula.library). Those that facula has itself
are functions of `facula`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from facula import _C

_records: dict[str, list[dict[str, Any]]] = {}  # as ops.json has them
_methods: dict[str, str] = {}  # of tensors -> the namespace that it is of


def _publish(
    namespace: str,
    functions: Mapping[str, Callable[..., Any]],
    methods: Mapping[str, Any],
    records: str,
) -> None:
    """Called by an extension for its operators."""
    for name in methods:
        owner = _methods.get(name, "facula" if hasattr(_C.Tensor, name) else namespace)
        if owner != namespace:
            raise ImportError(
                f"{namespace}: tensors have a method '{name}' already, of {owner}; write "
                f"`python: [function]` in the operator's entry, or give it another name"
            )
    module = ModuleType(f"facula.ops.{namespace}", f"Operators of the extension {namespace}.")
    vars(module).update(functions)
    for name, method in methods.items():
        setattr(_C.Tensor, name, method)
        _methods[name] = namespace
    _records[namespace] = json.loads(records)
    sys.modules[module.__name__] = globals()[namespace] = module


def _of_programs() -> Any:
    library = sys.modules.get("facula.library._operator")
    return {} if library is None else library.spaces


def __getattr__(name: str) -> Any:
    defined = _of_programs()
    if name in defined:
        return defined[name]
    known = ", ".join(sorted({*_records, *defined})) or "none"
    raise AttributeError(
        f"facula.ops has no operators of an extension '{name}'; imported are: {known}"
    )


def __dir__() -> list[str]:
    return sorted({*_records, *_of_programs()})
