"""`facula.export.onnx`: programs as models of ONNX."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import facula
from facula import nn
from facula.export._binding import bound
from facula.export._wires import Dim, Held
from facula.export._writer import Writer
from facula.jit import _library
from facula.jit._graph import (
    Block,
    Call,
    Constant,
    Graph,
    Items,
    Jump,
    Loop,
    Name,
    Path,
    Return,
    Span,
    Star,
    Store,
    Throw,
    When,
)
from facula.jit._graph import Mapping as Table
from facula.jit._modules import ScriptFunction, ScriptModule
from facula.jit._trace import trace
from facula.utils._atomic import write_file

__all__ = ["onnx"]

OPSET = 18


def onnx(
    module: Any,
    args: Any = (),
    path: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    opset_version: int = OPSET,
) -> Any:
    """Write a module or function as a model of ONNX, which onnxruntime and others run.

    It is traced with the arguments. Each operator becomes what its entry in ops.yaml says: the key
    `onnx`, its formula, or its decomposition. What does not depend on the inputs is computed here.

    Args:
        module: a module, in eval mode unless training is meant; a function; what is traced or
            scripted. Control flow that depends on the values of tensors cannot be written.
        args: example inputs: tensors, a tuple, or the only one.
        path: the file, or one open for writing bytes; None writes none.
        kwargs: further example inputs, by name.
        input_names, output_names: of tensors, in order; parameters' names and "output" by default.
        dynamic_axes: by name of an input, the dims whose size may differ from the example's: a list
            of dims, or a dict of their names by dim.
        opset_version: version of ONNX's operators, 18 at least.

    Returns:
        The `onnx.ModelProto`.

    Raises:
        ImportError: the package `onnx` is missing: `pip install 'facula[onnx]'`.
        UnsupportedError: an operator has no form in ONNX; the line that called it is named.
    """
    try:
        import onnx as package
    except ImportError as error:
        raise ImportError(
            "export.onnx() writes with the package onnx: pip install onnx", name="onnx"
        ) from error
    if opset_version < OPSET:
        warnings.warn(
            f"export.onnx(): opset_version {opset_version} is before {OPSET}, the first that is "
            f"written; the model has {OPSET}",
            stacklevel=2,
        )
    given = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    traced = _traced(module, given, kwargs)
    names = dict(dynamic_axes or {})
    writer = Writer(bool(names))
    run = _Run(writer, traced if isinstance(traced, nn.Module) else None)
    graph: Graph = traced.graph
    values, inputs = _inputs(writer, graph, given, kwargs or {}, input_names, names)
    result = run.graph(graph, values)
    outputs = _outputs(writer, result, output_names)
    made = package.helper.make_graph(
        writer.nodes, graph.name, inputs, outputs, initializer=_used(writer)
    )
    opset = package.helper.make_opsetid("", max(opset_version, OPSET))
    model = package.helper.make_model(
        made, producer_name="facula", producer_version=facula.__version__, opset_imports=[opset]
    )
    model.ir_version = min(model.ir_version, 9)
    _check(package, model, writer)
    if path is not None:
        data = model.SerializeToString()
        if hasattr(path, "write"):
            path.write(data)
        else:
            write_file(os.fsdecode(path), lambda file: file.write(data))
    return model


def _check(package: Any, model: Any, writer: Writer) -> None:
    """What ONNX's own checker and its shape rules say, of a node by the line that it is of."""
    try:
        package.checker.check_model(model, full_check=True)
    except (package.checker.ValidationError, package.shape_inference.InferenceError) as error:
        named = [n for n in model.graph.node if f"({n.name})" in str(error)]
        writer.where, writer.op = (named[0].doc_string, named[0].op_type) if named else ("", "")
        raise writer.unsupported(f"ONNX refuses it: {str(error).strip()}") from None


def _traced(module: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    if isinstance(module, ScriptFunction) or (
        isinstance(module, ScriptModule) and bool(module._graphs)
    ):
        return module
    if kwargs:
        names = list(inspect.signature(getattr(module, "forward", module)).parameters)
        kwargs = {**dict(zip(names, args, strict=False)), **kwargs}
        return trace(module, example_kwarg_inputs=kwargs, check_trace=False)
    return trace(module, args, check_trace=False)


def _inputs(
    writer: Writer,
    graph: Graph,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    names: Sequence[str] | None,
    dynamic: dict[str, Any],
) -> tuple[dict[str, Any], list[Any]]:
    """Values of the parameters, and what the model says of its inputs."""
    parameters = [p for p in graph.parameters if p.name != "self"]
    given = {p.name: v for p, v in zip(parameters, args, strict=False)}
    given.update(kwargs)
    wanted = list(names or ())
    inputs: list[Any] = []

    def held(value: Any, name: str) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(held(v, f"{name}_{i}") for i, v in enumerate(value))
        if isinstance(value, dict):
            return {k: held(v, f"{name}_{k}") for k, v in value.items()}
        if not isinstance(value, facula.Tensor):
            return value
        called = writer.fresh(wanted[len(inputs)] if len(inputs) < len(wanted) else name)
        axes = dynamic.get(called, {})
        axes = {d: f"{called}_{d}" for d in axes} if not isinstance(axes, dict) else axes
        axes = {d % value.ndim: n for d, n in axes.items()}
        shape = [axes.get(i, int(n)) for i, n in enumerate(value.shape)]
        code = writer.code(value.dtype)
        inputs.append(writer.onnx.helper.make_tensor_value_info(called, code, shape))
        return Held(writer, value.detach(), called)

    values = {name: held(value, name) for name, value in given.items()}
    unknown = set(dynamic) - {i.name for i in inputs}
    unknown = {n for n in unknown if not n.startswith("output")}
    if unknown and names is None:
        raise ValueError(
            f"export.onnx(): dynamic_axes names {sorted(unknown)}; the inputs are "
            f"{[i.name for i in inputs]}"
        )
    return values, inputs


def _outputs(writer: Writer, result: Any, names: Sequence[str] | None) -> list[Any]:
    flat: list[Any] = []

    def collect(value: Any) -> None:
        if isinstance(value, (tuple, list)):
            for item in value:
                collect(item)
        elif isinstance(value, dict):
            for item in value.values():
                collect(item)
        elif isinstance(value, Held):
            flat.append(value)
        elif isinstance(value, Dim):
            flat.append(Held(writer, facula.tensor(int(value)), value.wire.name))
        elif type(value) in (int, float, bool):
            flat.append(Held(writer, facula.tensor(value)))

    collect(result)
    outputs = []
    for i, held in enumerate(flat):
        default = "output" if len(flat) == 1 else f"output_{i}"
        name = writer.fresh(names[i] if names is not None and i < len(names) else default)
        node = writer.onnx.helper.make_node("Identity", [held.name], [name])
        writer.nodes.append(node)
        shape = [None if writer.any_dynamic else int(n) for n in held.value.shape]
        code = writer.code(held.dtype)
        outputs.append(writer.onnx.helper.make_tensor_value_info(name, code, shape))
    return outputs


def _used(writer: Writer) -> list[Any]:
    """Initializers that some node takes."""
    used = {name for node in writer.nodes for name in node.input}
    return [tensor for tensor in writer.initializers if tensor.name in used]


class _Ended(Exception):
    """A `return`, with its value; or `break` and `continue`."""

    def __init__(self, kind: str, value: Any = None) -> None:
        self.kind, self.value = kind, value


class _Run:
    """Goes through a graph's statements; tensors are Held, the rest is Python's own."""

    def __init__(self, writer: Writer, module: nn.Module | None) -> None:
        self.writer, self.module = writer, module
        self._parameters: dict[int, Held] = {}
        self.inner: Graph | None = None

    def graph(self, graph: Graph, values: dict[str, Any]) -> Any:
        """The result of a graph for values of its parameters."""
        env = {p.name: self._literal(p.default[0]) for p in graph.parameters if p.default}
        env.update(values)
        outer, self.inner = self.inner, graph
        try:
            self.block(graph.body, env)
        except _Ended as ended:
            return ended.value
        finally:
            self.inner = outer
        return None

    def _literal(self, atom: Any) -> Any:
        return self.atom(atom, {})

    def atom(self, a: Any, env: dict[str, Any]) -> Any:
        """The value of an atom."""
        if isinstance(a, Name):
            return env[a.id]
        if isinstance(a, Constant):
            return self._constant(a.value)
        if isinstance(a, Path):
            found: Any = self.module
            for part in a.parts:
                found = getattr(found, part)
            return self._constant(found) if isinstance(found, facula.Tensor) else found
        if isinstance(a, Items):
            items = [self.atom(i, env) for i in a.items]
            return items if a.kind == "list" else tuple(items)
        if isinstance(a, Table):
            return {self.atom(k, env): self.atom(v, env) for k, v in a.pairs}
        if isinstance(a, Span):
            return slice(*(self.atom(p, env) for p in (a.start, a.stop, a.step)))
        return a

    def _constant(self, tensor: Any) -> Held:
        known = self._parameters.get(id(tensor))
        if known is None:
            known = self._parameters[id(tensor)] = Held(self.writer, tensor)
        return known

    def block(self, block: Block, env: dict[str, Any]) -> None:
        for s in block:
            self.writer.where = s.where or self.writer.where
            if isinstance(s, Call):
                self.call(s, env)
            elif isinstance(s, Return):
                raise _Ended("return", self.atom(s.value, env))
            elif isinstance(s, Jump):
                raise _Ended(s.kind)
            elif isinstance(s, When):
                self.block(s.then if self._truth(s.test, env) else s.other, env)
            elif isinstance(s, Loop):
                self.loop(s, env)
            elif isinstance(s, Throw):
                raise self.writer.unsupported(f"it raises: {self.atom(s.message, env)}")
            elif isinstance(s, Store):
                raise self.writer.unsupported("it sets an attribute, which models do not keep")
            else:
                self.block(s.body, env)  # type: ignore[attr-defined]

    def _truth(self, atom: Any, env: dict[str, Any]) -> bool:
        value = self.atom(atom, env)
        if isinstance(value, Held) and value.depends:
            raise self.writer.unsupported("its control flow depends on the values of tensors")
        return bool(value)

    def loop(self, s: Loop, env: dict[str, Any]) -> None:
        over = iter(int, 1) if s.out is None else self.atom(s.over, env)
        if isinstance(over, Held):
            over = [self.writer.item(over, i) for i in range(int(over.value.shape[0]))]
        for item in over:
            if s.out is not None:
                env[s.out[0]] = item
            try:
                self.block(s.body, env)
            except _Ended as ended:
                if ended.kind == "return":
                    raise
                if ended.kind == "break":
                    return

    def call(self, s: Call, env: dict[str, Any]) -> None:
        args: list[Any] = []
        for a in s.args:
            if isinstance(a, Star):
                args += list(self.atom(a.value, env))
            elif s.kind == "module" and isinstance(a, Path) and not args:
                args.append(a)
            else:
                args.append(self.atom(a, env))
        kwargs = {k: self.atom(v, env) for k, v in s.kwargs.items()}
        result = self._result(s, args, kwargs)
        if len(s.outs) == 1:
            env[s.outs[0][0]] = result
        elif s.outs:
            if isinstance(result, Held):
                result = [self.writer.item(result, i) for i in range(len(s.outs))]
            for (name, _), value in zip(s.outs, result, strict=True):
                env[name] = value

    def _result(self, s: Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
        writer = self.writer
        if s.kind == "copy":
            return args[0]
        if s.kind == "op":
            return self._operator(s.op, args, kwargs)
        if s.kind == "get":
            if not isinstance(args[0], Held):
                return getattr(args[0], s.op)
            if hasattr(type(args[0]), s.op):
                return getattr(args[0], s.op)
            value = args[0].value
            if s.op in ("T", "mT"):
                return writer.call("permute", (args[0], _turned(value.ndim, s.op)), {})
            if s.op == "data":
                return args[0]
            found = getattr(value, s.op)
            if isinstance(found, facula.Tensor):
                raise writer.unsupported(f"{s.op} of a tensor has no form in ONNX")
            return found
        if s.kind == "py":
            return self._python(s.op, args, kwargs)
        if s.kind == "method":
            if isinstance(args[0], Held) and not hasattr(type(args[0]), s.op):
                return self._operator(f"Tensor.{s.op}", args, kwargs)
            return getattr(args[0], s.op)(*args[1:], **kwargs)
        assert self.inner is not None
        if s.kind == "call":
            called = self.inner.functions[s.op]
            return self.graph(called, _bound(called.parameters, args, kwargs))
        return self._module(args[0], s.op, args[1:], kwargs)

    def _operator(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name.endswith("_") and not name.endswith("__"):
            name = name[:-1]  # the variable of its result stands for the changed tensor
        records = _library.operator_records().get(name)
        function = _library.resolve(name)
        fits = records is not None and bound(records, tuple(args), kwargs) is not None
        if fits or (records is not None and not inspect.isfunction(function)):
            return self.writer.call(name, tuple(args), kwargs)
        if not any(isinstance(a, Held) for a in args):
            return function(*args, **kwargs)
        if function is None:
            raise self.writer.unsupported(f"{name}_() changes a tensor in place")
        # A function in Python: what it calls is traced.
        return self._inline(function, args, kwargs)

    def _inline(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        places = [i for i, a in enumerate(args) if isinstance(a, Held)]
        tensors = {k: v for k, v in kwargs.items() if isinstance(v, Held)}

        def called(*given: Any) -> Any:
            full = list(args)
            for i, value in zip(places, given, strict=False):
                full[i] = value
            named = dict(zip(tensors, given[len(places) :], strict=True))
            return function(*full, **{**kwargs, **named})

        held = [*(args[i] for i in places), *tensors.values()]
        made = trace(called, tuple(h.value for h in held), check_trace=False)
        names = [p.name for p in made.graph.parameters]
        return self.graph(made.graph, dict(zip(names, held, strict=True)))

    def _python(self, op: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if op == "size":
            return args[0].size(args[1])
        if op == "setitem" and isinstance(args[0], Held):
            raise self.writer.unsupported("a tensor's items are set, which ONNX's graphs cannot")
        if op in ("is_type", "isinstance") and isinstance(args[0], Held):
            args = [args[0].value, *args[1:]]
        if op[:1] == "i" and isinstance(args[0], Held) and op[1:] in _library.PYTHON:
            op = op[1:]
        return _library.PYTHON[op](*args, **kwargs)

    def _module(self, path: Path, op: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        module: Any = self.module
        for part in path.parts:
            module = getattr(module, part)
        if isinstance(module, ScriptModule):
            graph = module._graphs[op]
            inner = _Run(self.writer, module)
            inner._parameters = self._parameters
            return inner.graph(graph, _bound(graph.parameters[1:], args, kwargs))
        return self._inline(module, args, kwargs)


def _bound(parameters: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**dict(zip([p.name for p in parameters], args, strict=False)), **kwargs}


def _turned(ndim: int, name: str) -> list[int]:
    order = list(range(ndim))
    return order[::-1] if name == "T" else [*order[:-2], *order[-2:][::-1]]
