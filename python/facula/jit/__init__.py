"""Programs of tensors as graphs: traced or scripted, saved, loaded without their Python source.

`trace` records what a function or module does with example inputs; `script` compiles its source,
control flow included. Both give modules with the same parameters, which can be trained, frozen, and
saved to one file of text and safetensors. See docs/jit.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from facula.jit._files import load, save
from facula.jit._marks import (
    Attribute,
    Final,
    Future,
    annotate,
    export,
    fork,
    ignore,
    interface,
    is_scripting,
    is_tracing,
    isinstance,
    script_method,
    unused,
    wait,
)
from facula.jit._modules import (
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    TopLevelTracedModule,
)
from facula.jit._passes import freeze, optimize_for_inference
from facula.jit._script import CompilationUnit, script, script_if_tracing
from facula.jit._syntax import ScriptError
from facula.jit._trace import TracingCheckError, trace, trace_module
from facula.jit._tracing import TracerWarning
from facula.utils._safetensors import FormatError

#: What a program raises of its own is Python's exception; this is what torch's programs catch.
Error = RuntimeError

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "FormatError",
    "Future",
    "RecursiveScriptModule",
    "ScriptError",
    "ScriptFunction",
    "ScriptModule",
    "TopLevelTracedModule",
    "TracerWarning",
    "TracingCheckError",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """For torch's programs: graphs run as they are, with it and without."""
    yield


def set_fusion_strategy(strategy: Any) -> list[tuple[str, int]]:
    """For torch's programs: graphs are not fused, so there is no strategy; gives none."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Nothing may be asked for: graphs are not fused.

    Raises:
        RuntimeError: for True.
    """
    if enabled:
        raise RuntimeError("enable_onednn_fusion(): facula's graphs run operator by operator")


def onednn_fusion_enabled() -> bool:
    """False: graphs are not fused."""
    return False


class strict_fusion:
    """For torch's programs: within it nothing is fused, as nowhere else.

    Raises:
        RuntimeError: when it is entered, as torch does where something is not fused.
    """

    def __enter__(self) -> None:
        raise RuntimeError("strict_fusion: facula's graphs run operator by operator, unfused")

    def __exit__(self, *error: Any) -> None:
        pass
