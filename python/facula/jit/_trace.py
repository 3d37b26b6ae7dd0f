"""`trace` and `trace_module`."""

from __future__ import annotations

import contextlib
import inspect
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula import nn
from facula.jit._graph import Graph, Parameter, Path
from facula.jit._modules import (
    ScriptFunction,
    ScriptModule,
    TopLevelTracedModule,
    TracedPart,
    class_of,
    holder_of,
    note_places,
)
from facula.jit._text import is_name
from facula.jit._tracing import Recorder, TracerWarning

__all__ = ["TracingCheckError", "trace", "trace_module"]


class TracingCheckError(Exception):
    """A traced graph gives other results than the program that was traced."""


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """A graph of what a function or a module does with example inputs, as a function or a module.

    The program runs once, on the inputs themselves; each operator is recorded with its arguments.
    Sizes of tensors that come from the inputs are recorded too, so other sizes can be given. What
    depends on values, an `if`, a loop, `item()`, is kept as it went: a TracerWarning names the
    line. Tensors that are no parameters, buffers or inputs become constants.

    Args:
        func: a function, a module, or a method of a module.
        example_inputs: the arguments, a tuple, or the only one: tensors, numbers, and tuples,
            lists and dicts of these. The traced function has as many parameters.
        check_trace: run program and graph again, on the same inputs and on the same values in
            another order, and compare. Buffers and random numbers are then as after one run.
        check_inputs: tuples of arguments to compare on, besides.
        check_tolerance: relative and absolute tolerance of the comparison.
        strict: for torch's programs; containers are results either way.
        example_kwarg_inputs: arguments by name, in place of `example_inputs`.

    Returns:
        A ScriptFunction, or a module with the parameters, buffers and submodules of the traced
        one: shared, not copied. It keeps the mode, training or not, in which it was traced.

    Raises:
        TypeError: an input is of no type that a trace can vary.
        TracingCheckError: the graph gives other results on `example_inputs` or `check_inputs`.

    >>> import facula
    >>> def scaled(x, y):
    ...     return x * y.sum() / x.size(0)
    >>> traced = facula.jit.trace(scaled, (facula.ones(2, 3), facula.ones(4)))
    >>> traced(facula.ones(5, 1), facula.ones(5)).flatten()
    tensor([1., 1., 1., 1., 1.])
    """
    if isinstance(func, ScriptFunction) or getattr(func, "_graphs", None):
        return func
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("trace() needs example_inputs, or example_kwarg_inputs")
    check = _Check(check_trace, check_inputs, check_tolerance)
    given = (example_inputs, example_kwarg_inputs)
    if isinstance(func, nn.Module):
        return _traced_module(func, {"forward": given}, check)
    owner = getattr(func, "__self__", None)
    if isinstance(owner, nn.Module):
        made = _traced_module(owner, {func.__name__: given}, check)
        return getattr(made, func.__name__) if func.__name__ != "forward" else made
    if not callable(func):
        raise TypeError(f"trace() takes a function or a module, not {type(func).__name__}")
    graph = _recorded(func, None, given, False)[0]
    made = ScriptFunction(graph, func.__doc__)
    check.compare(func, made, given, None)
    return made


def trace_module(
    mod: nn.Module,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """A module of the graphs of several methods; see `trace`.

    Args:
        mod: the module.
        inputs: example inputs by the name of the method.
        example_inputs_is_kwarg: they are dicts of arguments by name.
    """
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    several = check_inputs if check_inputs is not None else []
    check = _Check(check_trace, several, check_tolerance)
    named = example_inputs_is_kwarg
    given = {n: (None, v) if named else (v, None) for n, v in inputs.items()}
    return _traced_module(mod, given, check)


# ---- recording


def _recorded(
    function: Any, root: nn.Module | None, given: Any, method: bool
) -> tuple[Graph, set[Path]]:
    """The graph of one run, and the submodules that it calls as they are."""
    args, kwargs = _arguments(*given)
    name = getattr(function, "__name__", type(function).__name__)
    graph = Graph(name if is_name(name) else "traced", [])
    values = _parameters(graph, function, args, kwargs, method)
    recorder = Recorder(graph, root)
    with recorder:
        traced = [recorder.input(p, v) for p, v in values]
        positional = [t for t, (p, _) in zip(traced, values, strict=True) if not p.keyword_only]
        named = {p.name: t for t, (p, _) in zip(traced, values, strict=True) if p.keyword_only}
        if kwargs:
            result = function(**{p.name: t for t, (p, _) in zip(traced, values, strict=True)})
        else:
            result = function(*positional, **named)
        recorder.end(result)
    return graph, recorder.whole


def _arguments(args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if kwargs is not None:
        if not isinstance(kwargs, dict):
            raise TypeError(f"example_kwarg_inputs is {type(kwargs).__name__}, expected a dict")
        return (), kwargs
    if isinstance(args, (list, tuple)):
        return tuple(args), {}
    return (args,), {}


def _parameters(
    graph: Graph, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], method: bool
) -> list[tuple[Parameter, Any]]:
    """Fill in the graph's parameters; gives them with their example values."""
    try:
        known = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        known = []
    plain = [p.name for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if method:
        graph.parameters.append(Parameter("self"))
    found: list[tuple[Parameter, Any]] = []
    for i, value in enumerate(args):
        name = plain[i] if i < len(plain) else f"argument_{i}"
        found.append((Parameter(name if is_name(name) else f"argument_{i}"), value))
    for name, value in kwargs.items():
        found.append((Parameter(name), value))
    for parameter, value in found:
        if value is None:
            parameter.default = (None,)
    # A default stands behind all parameters without one: those are given by name.
    late = False
    for parameter, _ in found:
        if late and not parameter.default:
            parameter.default = (None,)
        late = late or bool(parameter.default)
    graph.parameters += [p for p, _ in found]
    return found


def _traced_module(mod: nn.Module, methods: dict[str, Any], check: _Check) -> Any:
    graphs: dict[str, Graph] = {}
    whole: set[Path] = set()
    for name, given in methods.items():
        function = mod if name == "forward" else getattr(mod, name)
        graph, called = _recorded(_signed(function, mod, name), mod, given, True)
        graph.name = name
        graphs[name] = graph
        whole |= called
    for graph in graphs.values():
        note_places(graph, [mod])
    kind = class_of(TopLevelTracedModule, type(mod).__name__, graphs)
    parts: dict[int, Any] = {}

    def part(prefix: tuple[str, ...], module: nn.Module) -> Any:
        if Path(prefix) in whole or _is_script(module):
            return module
        if id(module) not in parts:
            space = {"_original_name": type(module).__name__}
            made = type("TracedPart", (TracedPart,), space)
            parts[id(module)] = new = made.__new__(made)
            holder_of(module, new, lambda name, child: part((*prefix, name), child))
        return parts[id(module)]

    new = kind.__new__(kind)
    traced = holder_of(mod, new, lambda name, child: part((name,), child))
    for name, given in methods.items():
        original = mod if name == "forward" else getattr(mod, name)
        check.compare(original, traced if name == "forward" else getattr(traced, name), given, mod)
    return traced


def _is_script(module: nn.Module) -> bool:
    return isinstance(module, ScriptModule) and bool(module._graphs)


def _signed(function: Any, mod: nn.Module, name: str) -> Any:
    """The function under its method's name and signature."""

    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    called.__name__ = name
    with contextlib.suppress(TypeError, ValueError):
        called.__signature__ = inspect.signature(getattr(mod, name))  # type: ignore[attr-defined]
    return called


# ---- comparing


class _Check:
    def __init__(self, wanted: bool, inputs: Any, tolerance: float) -> None:
        self.wanted, self.inputs, self.tolerance = wanted, inputs or [], tolerance

    def compare(self, program: Any, traced: Any, given: Any, mod: nn.Module | None) -> None:
        """Run both on the example inputs, on others, and on the same values in another order."""
        if not self.wanted or os.environ.get("PYTORCH_JIT") == "0":
            return
        args, kwargs = _arguments(*given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TracerWarning)
            for sample in [(args, kwargs), *(_arguments(i, None) for i in self.inputs)]:
                message = self._differs(program, traced, sample, mod)
                if message:
                    raise TracingCheckError(
                        f"trace(): the traced graph {message}. What is random, computed by NumPy or"
                        " by an autograd.Function, or kept in Python between calls, cannot be"
                        " traced; facula.jit.script takes control flow"
                    )
            if self.inputs:
                return
            shuffled = (_shuffled(args), _shuffled(kwargs))
            try:
                message = self._differs(program, traced, shuffled, mod)
            except Exception:
                return  # these values in this order are no valid input
        if message:
            warnings.warn(
                f"trace(): for the example inputs with their values in another order the graph "
                f"{message}; something in the program depends on values",
                TracerWarning,
                stacklevel=5,
            )

    def _differs(self, program: Any, traced: Any, sample: Any, mod: nn.Module | None) -> str:
        results = []
        for called in (program, traced):
            with _as_before(mod):
                args, kwargs = _cloned(sample[0]), _cloned(sample[1])
                results.append(called(*args, **kwargs))
        return _difference(results[0], results[1], self.tolerance, "")


@contextlib.contextmanager
def _as_before(mod: nn.Module | None) -> Iterator[None]:
    """Buffers, gradients and random numbers are afterwards as they were."""
    state = facula.get_rng_state()
    kept = [] if mod is None else [(b, b.detach().clone()) for b in mod.buffers()]
    try:
        yield
    finally:
        facula.set_rng_state(state)
        with facula.no_grad():
            for buffer, value in kept:
                buffer.copy_(value)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, facula.Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(_mapped(v, change) for v in value)
    if isinstance(value, (tuple, list)):
        return type(value)(_mapped(v, change) for v in value)
    if isinstance(value, dict):
        return {k: _mapped(v, change) for k, v in value.items()}
    return value


def _cloned(values: Any) -> Any:
    return _mapped(values, lambda t: t.detach().clone().requires_grad_(t.requires_grad))


def _shuffled(values: Any) -> Any:
    """The same values in reverse order, which are as valid as the others mostly."""

    def change(t: Any) -> Any:
        flat = t.detach().reshape(-1).flip(0).reshape(t.shape)
        return flat.clone().requires_grad_(t.requires_grad)

    return _mapped(values, change)


def _difference(a: Any, b: Any, tolerance: float, at: str) -> str:
    """How two results differ, as the end of a sentence; "" if they do not."""
    name = f"result{at}"
    if isinstance(a, facula.Tensor):
        if not isinstance(b, facula.Tensor):
            return f"gives a {type(b).__name__} for the tensor {name}"
        if a.shape != b.shape or a.dtype != b.dtype:
            return (
                f"gives {name} of {tuple(b.shape)} {b.dtype}, the program of {tuple(a.shape)} "
                f"{a.dtype}"
            )
        if a.layout != facula.strided:
            return ""
        close = facula.allclose(a.detach(), b.detach(), tolerance, tolerance, equal_nan=True)
        return "" if close else f"gives other values than the program for {name}"
    if isinstance(a, (tuple, list)):
        if not isinstance(b, (tuple, list)) or len(a) != len(b):
            return f"gives {name} of another length"
        pairs = enumerate(zip(a, b, strict=True))
        found = (_difference(x, y, tolerance, f"{at}[{i}]") for i, (x, y) in pairs)
        return next((f for f in found if f), "")
    if isinstance(a, dict):
        if not isinstance(b, dict) or a.keys() != b.keys():
            return f"gives {name} with other keys"
        found = (_difference(v, b[k], tolerance, f"{at}[{k!r}]") for k, v in a.items())
        return next((f for f in found if f), "")
    return ""
