"""`export`: a module as one graph by itself, in the spirit of torch.export."""

from __future__ import annotations

import inspect
from typing import Any

from facula import nn
from facula.jit import _files
from facula.jit._graph import Graph
from facula.jit._modules import ScriptModule
from facula.jit._trace import trace

__all__ = ["ExportedProgram", "export", "load", "save"]


class ExportedProgram:
    """A graph of a module with its parameters and buffers.

    `module()` gives what can be called; `graph` the graph, `code` the Python that it runs.
    """

    def __init__(self, module: ScriptModule) -> None:
        self._module = module

    def module(self) -> ScriptModule:
        """The module that runs the graph."""
        return self._module

    @property
    def graph(self) -> Graph:
        """The graph of `forward`."""
        return self._module.graph

    @property
    def code(self) -> str:
        """The graph as the Python that it runs."""
        return self._module.code

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers by name."""
        return dict(self._module.state_dict())

    def parameters(self) -> Any:
        """The parameters."""
        return self._module.parameters()

    def named_parameters(self) -> Any:
        """Names and parameters."""
        return self._module.named_parameters()

    def buffers(self) -> Any:
        """The buffers."""
        return self._module.buffers()

    def named_buffers(self) -> Any:
        """Names and buffers."""
        return self._module.named_buffers()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("an ExportedProgram is not called: call program.module()(...)")

    def __str__(self) -> str:
        return str(self.graph)


def export(
    mod: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> ExportedProgram:
    """Trace a module to one graph of operators.

    Args:
        mod: the module.
        args, kwargs: example inputs.
        dynamic_shapes: taken for torch's programs: sizes of inputs may always differ.

    Raises:
        TypeError: `mod` is no module, or an input is of no type that a trace can vary.
        TracingCheckError: the graph gives other results than the module.
    """
    if not isinstance(mod, nn.Module):
        raise TypeError(f"export() takes a module, not {type(mod).__name__}")
    if kwargs:
        names = list(inspect.signature(mod.forward).parameters)
        named = {**dict(zip(names, args, strict=False)), **kwargs}
        return ExportedProgram(trace(mod, example_kwarg_inputs=named))
    return ExportedProgram(trace(mod, tuple(args)))


def save(ep: ExportedProgram, f: Any, *, extra_files: Any = None, **options: Any) -> None:
    """Write a program to a file; see facula.jit.save."""
    _files.save(ep.module(), f, extra_files)


def load(f: Any, *, extra_files: Any = None, **options: Any) -> ExportedProgram:
    """Read what `save` wrote.

    Raises:
        FormatError: it is no such file, or is damaged.
    """
    found = _files.load(f, None, extra_files)
    if not isinstance(found, ScriptModule):
        raise _files.FormatError(f"export.load(): {f!r} holds a function; jit.load reads it")
    return ExportedProgram(found)
