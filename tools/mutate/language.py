"""`mutant(17)` as a word of both formula languages: whether the mutant of that number is on."""

from __future__ import annotations

from typing import Any

from codegen.emit import render
from codegen.scalar import cpp
from codegen.scalar.tree import Expr
from codegen.tensor import builtin
from codegen.tensor.values import BOOL, INT

SWITCH = "runtime/core/mutant.h"


def extend() -> None:
    """Teaches this process's generator the word."""
    if "mutant" in builtin.RUNTIME:
        return
    builtin.RUNTIME["mutant"] = ((INT,), BOOL)
    plain = cpp._Emitter._call

    def call(self: cpp._Emitter, e: Expr) -> cpp.Code:
        if e.text == "mutant":
            return cpp.Code(f"::facula::mutant({e.args[0].text})", "bool", atom=True)
        return plain(self, e)

    cpp._Emitter._call = call  # type: ignore[method-assign]
    file = render.cpp

    def with_switch(*args: Any) -> str:
        text = file(*args)
        return f'#include "{SWITCH}"\n{text}' if "mutant(" in text else text

    render.cpp = with_switch
