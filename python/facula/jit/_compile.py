"""Functions of Python compiled to graphs: their statements."""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

from facula import nn
from facula.jit import _library, _types
from facula.jit._expressions import BINARY, Expressions
from facula.jit._graph import (
    Call,
    Constant,
    Graph,
    Jump,
    Loop,
    Name,
    Parameter,
    Path,
    Return,
    Store,
    Throw,
    When,
    Within,
)
from facula.jit._modules import is_plain
from facula.jit._syntax import Renamed, Source, advice, loaded, shared
from facula.jit._text import is_name
from facula.jit._units import Unit, compile_function
from facula.jit._values import Known, MethodAt, ModuleAt, Row, Runtime, Value

__all__ = ["Function"]


class Function(Expressions):
    """Compiles one function to its graph."""

    def __init__(self, unit: Unit, source: Source, graph: Graph, owner: ModuleAt | None) -> None:
        self.unit, self.source, self.graph, self.owner = unit, source, graph, owner
        self.block = graph.body
        self.statics: dict[str, Value] = {}
        self.locals: set[str] = set()
        self.types: dict[str, str] = {}
        self.assigned: set[str] = {
            n.id
            for n in ast.walk(source.node)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        self.taken: dict[str, int] = {
            n.id: 0 for n in ast.walk(source.node) if isinstance(n, ast.Name)
        }
        self.taken.update((a.arg, 0) for a in ast.walk(source.node) if isinstance(a, ast.arg))
        self.constants: dict[int, Constant] = {}
        self.kept: list[Any] = []
        self.loops: list[str] = []

    # ---- names

    def fresh(self, stem: str) -> str:
        """A name that no variable has."""
        stem = stem.rpartition(".")[2].strip("_") or "value"
        stem = stem if is_name(stem) else f"{stem}_value"
        number = self.taken.get(stem)
        if number is None:
            self.taken[stem] = 0
            return stem
        while f"{stem}_{number + 1}" in self.taken:
            number += 1
        self.taken[stem] = number + 1
        self.taken[f"{stem}_{number + 1}"] = 0
        return f"{stem}_{number + 1}"

    def renamed(self, name: str) -> str:
        """A variable's name in the graph."""
        if is_name(name):
            return name
        if name not in ("self", "inf", "nan") and not name.startswith("__"):
            raise self.source.error(
                self.source.node, f"{name!r} cannot be a variable's name: use ASCII letters"
            )
        return f"local_{name.strip('_')}"

    # ---- the function

    def compile(self) -> None:
        """Fill in the graph."""
        node, function = self.source.node, self.source.function
        arguments = node.args
        if arguments.vararg or arguments.kwarg:
            raise self.source.error(
                arguments.vararg or arguments.kwarg or node,
                "`*args` and `**kwargs` are not in the subset: name the parameters",
            )
        given = [*arguments.posonlyargs, *arguments.args]
        if self.owner is not None and given:
            self.statics[given[0].arg] = self.owner
            self.graph.parameters.append(Parameter("self"))
            given = given[1:]
        defaults = dict(inspect.signature(function).parameters)
        annotations = getattr(function, "__annotations__", {})
        for arg in [*given, *arguments.kwonlyargs]:
            default = defaults[arg.arg].default
            kind = _types.text_of(annotations.get(arg.arg, ""), function.__globals__)
            atoms: tuple[Any, ...] = ()
            if default is not inspect.Parameter.empty:
                if not is_plain(default):
                    raise self.source.error(
                        arg, "the default of a parameter is a number, a string, None, or such"
                    )
                atoms = (self._literal(default, arg),)
            elif arg.arg not in annotations and not kind:
                kind = "Tensor"
            if default is None and kind and not kind.startswith(("Optional", "Union", "None")):
                kind = f"Optional[{kind}]"
            self.locals.add(arg.arg)
            self.types[arg.arg] = kind
            name = self.renamed(arg.arg)
            self.graph.parameters.append(Parameter(name, kind, atoms, arg in arguments.kwonlyargs))
        result = annotations.get("return", "")
        self.graph.result = _types.text_of(result, function.__globals__) if result != "" else ""
        self.statements(node.body)

    def statements(self, nodes: list[ast.stmt]) -> bool:
        """Compile statements; gives whether what follows them is never reached."""
        for node in nodes:
            method = getattr(self, "_" + type(node).__name__, None)
            if method is None:
                raise self.source.error(node, advice(node))
            if method(node):
                return True
        return False

    def _where(self, node: ast.AST) -> str:
        return self.source.where(node)

    def _Pass(self, node: ast.Pass) -> None:
        pass

    def _Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        before = len(self.block)
        value = self.value(node.value)
        # A result that nothing takes needs no variable.
        if len(self.block) > before and isinstance(value, Runtime):
            last = self.block[-1]
            if isinstance(last, Call) and [Name(o[0]) for o in last.outs] == [value.atom]:
                last.outs = []

    # ---- assignment

    def _Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        if (
            len(node.targets) > 1
            and isinstance(value, Runtime)
            and not isinstance(value.atom, Name)
        ):
            value = self._held(value, node)
        for target in node.targets:
            self.assign(target, value)

    def _held(self, value: Value, node: ast.AST) -> Runtime:
        out = self.fresh("value")
        self.copy(out, self.type_of(value), self.to_atom(value, node), node)
        return Runtime(Name(out), self.type_of(value))

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            return
        value = self.value(node.value)
        kind = _types.text_of(self._python_value(node.annotation))
        if isinstance(node.target, ast.Name):
            self.locals.discard(node.target.id)
        self.assign(node.target, value, kind)

    def assign(self, target: ast.expr, value: Value, kind: str = "") -> None:
        """`target = value`."""
        if isinstance(target, ast.Name):
            self._assign_name(target, value, kind)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value)
            if not isinstance(owner, ModuleAt):
                raise self.source.error(target, "attributes of modules alone can be set")
            if target.attr in owner.module._modules:
                raise self.source.error(target, "a submodule cannot be replaced by a program")
            path = Path((*owner.path, target.attr))
            if not hasattr(owner.module, target.attr):
                raise self.source.error(
                    target, f"the module has no attribute {target.attr!r}: set it in __init__"
                )
            made = Store(path, self.to_atom(value, target), where=self._where(target))
            self.block.append(made)
        elif isinstance(target, ast.Subscript):
            args = [self.atom(target.value), self.atom(target.slice), self.to_atom(value, target)]
            self.block.append(Call([], "py", "setitem", args, where=self._where(target)))
        else:
            raise self.source.error(target, advice(target))

    def _assign_name(self, target: ast.Name, value: Value, kind: str) -> None:
        name = target.id
        compiling = isinstance(value, (ModuleAt, MethodAt)) or (
            isinstance(value, Row) and not self._is_runtime(value)
        )
        compiling = compiling or (
            isinstance(value, Known)
            and not is_plain(value.value)
            and not hasattr(value.value, "shape")
        )
        if compiling:
            self.statics[name] = value
            self.locals.discard(name)
            return
        self.statics.pop(name, None)
        found = kind or self.type_of(value)
        out = self.renamed(name)
        atom = self.to_atom(value, target)
        last = self.block[-1] if self.block else None
        # A call's result goes to the variable itself.
        fresh = isinstance(last, Call) and len(last.outs) == 1 and last.kind != "copy"
        if fresh and atom == Name(last.outs[0][0]) and self._is_temporary(last.outs[0][0]):
            last.outs = [(out, found)]
        else:
            self.copy(out, found, atom, target)
        before = self.types.get(name)
        self.types[name] = found if name not in self.locals or before == found else ""
        if len(self.loops) == 0 and not self.nested:
            self.types[name] = found
        self.locals.add(name)

    nested = 0

    def _is_temporary(self, name: str) -> bool:
        return name not in self.assigned and name not in [p.name for p in self.graph.parameters]

    def _is_runtime(self, value: Value) -> bool:
        if isinstance(value, Row):
            return all(self._is_runtime(i) for i in value.items)
        return isinstance(value, Runtime) or (isinstance(value, Known) and is_plain(value.value))

    def _unpack(self, target: ast.Tuple | ast.List, value: Value) -> None:
        names = target.elts
        if any(isinstance(n, ast.Starred) for n in names):
            raise self.source.error(target, "`*` in an assignment: take the items by their places")
        items = value.items if isinstance(value, Row) else None
        if isinstance(value, Known) and isinstance(value.value, (tuple, list)):
            items = [Known(v) for v in value.value]
        if items is not None:
            if len(items) != len(names):
                raise self.source.error(target, f"{len(items)} values for {len(names)} names")
            # All values are there before the first name changes.
            held = [
                self._held(v, target)
                if isinstance(v, Runtime) and isinstance(v.atom, (Name, Path))
                else v
                for v in items
            ]
            for name, item in zip(names, held, strict=True):
                self.assign(name, item)
            return
        head, kinds = _types.split(self.type_of(value))
        each = kinds if head == "Tuple" and len(kinds) == len(names) else None
        kind = {"List": kinds[0] if kinds else "", "Tensor": "Tensor"}.get(head, "")
        outs = [self.fresh("item") for _ in names]
        types = each or [kind] * len(names)
        atom = self.to_atom(value, target)
        call = Call(list(zip(outs, types, strict=True)), "copy", "", [atom])
        if len(names) == 1:
            call = Call(call.outs, "py", "getitem", [atom, 0])
        call.where = self._where(target)
        self.block.append(call)
        for i, (name, out) in enumerate(zip(names, outs, strict=True)):
            if isinstance(name, ast.Name):
                self.statics.pop(name.id, None)
                call.outs[i] = (self.renamed(name.id), types[i])
                self.locals.add(name.id)
                self.types[name.id] = types[i]
            else:
                self.assign(name, Runtime(Name(out), types[i]))

    def _AugAssign(self, node: ast.AugAssign) -> None:
        op = "i" + BINARY[type(node.op).__name__].rstrip("_")
        target = shared(node.target)
        left = self.value(ast.copy_location(loaded(target), node.target))
        right = self.value(node.value)
        kinds = (self.type_of(left), self.type_of(right))
        kind = kinds[0] if kinds[0] == kinds[1] or kinds[0] in ("Tensor", "float", "List") else ""
        kind = "float" if op == "itruediv" and kind == "int" else kind
        args = [self.to_atom(left, node), self.to_atom(right, node)]
        self.assign(target, self.emit("py", op, args, {}, kind, node))

    def _Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                args = [self.atom(target.value), self.atom(target.slice)]
                self.block.append(Call([], "py", "delitem", args, where=self._where(node)))
            elif isinstance(target, ast.Name):
                self.statics.pop(target.id, None)
            else:
                raise self.source.error(target, "an attribute cannot be deleted by a program")

    # ---- ends

    def _Return(self, node: ast.Return) -> bool:
        value = None if node.value is None else self.atom(node.value)
        self.block.append(Return(value, where=self._where(node)))
        return True

    def _Raise(self, node: ast.Raise) -> bool:
        kind, message = "RuntimeError", Known("")
        raised = node.exc
        if isinstance(raised, ast.Call):
            found = self.value(raised.func)
            parts = [self.value(a) for a in raised.args]
            if len(parts) == 1:
                message = parts[0]  # type: ignore[assignment]
            elif parts:
                message = Known(", ".join(str(getattr(p, "value", "...")) for p in parts))
        elif raised is not None:
            found = self.value(raised)
        else:
            raise self.source.error(node, "`raise` alone: name what is raised")
        kind = getattr(getattr(found, "value", None), "__name__", "")
        if kind not in _library.RAISED:
            value = getattr(found, "value", None)
            bases = value.__mro__ if isinstance(value, type) else ()
            kind = next((b.__name__ for b in bases if b.__name__ in _library.RAISED), "")
        if not kind:
            raise self.source.error(node, "what is raised is one of Python's exceptions")
        made = Throw(kind, self.to_atom(message, node), where=self._where(node))
        self.block.append(made)
        return True

    def _Assert(self, node: ast.Assert) -> None:
        self.asserted(node.test, node.msg or ast.copy_location(ast.Constant(""), node), node)

    def asserted(self, test: ast.expr, message: ast.expr, node: ast.AST) -> None:
        """Raise AssertionError unless a test holds."""
        value = self.value(test)
        known = self.truth(value)
        if known is True:
            return
        with self.inner() as block:
            text = self.atom(message)
            block.append(Throw("AssertionError", text, where=self._where(node)))
        if known is False:
            self.block += block
            return
        made = When(self.to_atom(value, test), [], block, where=self._where(node))
        negated = self.emit("py", "not_", [made.test], {}, "bool", node)
        self.block.append(When(negated.atom, block, [], where=self._where(node)))

    # ---- control flow

    @contextlib.contextmanager
    def _branch(self) -> Iterator[list[Any]]:
        """A block that may not run: submodules that it binds to names are not known behind it."""
        statics, local = dict(self.statics), set(self.locals)
        self.nested += 1
        try:
            with self.inner() as block:
                yield block
        finally:
            self.nested -= 1
            self.branch_locals = set(self.locals)
            lost = {n for n, v in statics.items() if self.statics.get(n) is not v}
            self.statics = {n: v for n, v in statics.items() if n not in lost}
            self.locals = local | {n for n in self.locals if n in self.assigned}

    def _If(self, node: ast.If) -> bool:
        test = self.value(node.test)
        known = self.truth(test)
        if known is not None:  # the other branch need not be in the subset
            return self.statements(node.body if known else node.orelse)
        atom = self.to_atom(test, node.test)
        before = dict(self.types)
        with self._branch() as then:
            ended = self.statements(node.body)
        mine, self.types = self.types, before
        with self._branch() as other:
            ended_other = self.statements(node.orelse)
        for name, kind in mine.items():
            if ended:
                continue
            if ended_other or name not in self.types or name not in before:
                self.types[name] = kind if self.types.get(name, kind) == kind else ""
            elif self.types[name] != kind:
                self.types[name] = ""
        self.block.append(When(atom, then, other, where=self._where(node)))
        return ended and ended_other

    def _While(self, node: ast.While) -> None:
        if node.orelse:
            raise self.source.error(node, "`else` of a loop is not in the subset")
        self._forget_types(node)
        with self._looped("loop"), self._branch() as body:
            test = self.value(node.test)
            known = self.truth(test)
            if known is False:
                return
            if known is None:
                atom = self.to_atom(test, node.test)
                negated = self.emit("py", "not_", [atom], {}, "bool", node.test)
                stop: list[Any] = [Jump("break")]
                body.append(When(negated.atom, stop, [], where=self._where(node)))
            self.statements(node.body)
        self.block.append(Loop(None, None, body, where=self._where(node)))

    @contextlib.contextmanager
    def _looped(self, kind: str) -> Iterator[None]:
        self.loops.append(kind)
        try:
            yield
        finally:
            self.loops.pop()

    def _forget_types(self, node: ast.AST) -> None:
        """Variables that a loop assigns may have another type when it comes round."""
        for inner in ast.walk(node):
            stored = isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
            if stored and self.types.get(inner.id) != "Tensor":
                self.types.pop(inner.id, None)

    def iterated(self, node: ast.expr) -> Value:
        """What a loop goes through: a Row is unrolled."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            if isinstance(owner, ModuleAt) and node.func.attr in (
                "items", "values", "keys", "children", "named_children", "modules",
            ):  # fmt: skip
                return self._row_of(owner, node.func.attr, node)
        over = self.value(node)
        if isinstance(over, ModuleAt):
            if isinstance(over.module, nn.ModuleDict):
                return Row([Known(name) for name in over.module._modules])
            return Row(self.items_of(over, node))
        if isinstance(over, Row) and self._is_runtime(over):
            return Runtime(self.to_atom(over, node), self.type_of(over))
        return over

    def _row_of(self, owner: ModuleAt, method: str, node: ast.AST) -> Row:
        if method == "modules":
            raise self.source.error(node, "modules() is not in the subset: go through one list")
        items = owner.module._modules.items()
        pairs = [(Known(n), ModuleAt((*owner.path, n), m)) for n, m in items if m is not None]
        if method == "keys":
            return Row([n for n, _ in pairs])
        if method in ("values", "children"):
            return Row([m for _, m in pairs])
        return Row([Row([n, m]) for n, m in pairs])

    def _For(self, node: ast.For) -> bool:
        if node.orelse:
            raise self.source.error(node, "`else` of a loop is not in the subset")
        over = self.iterated(node.iter)
        if isinstance(over, Row):
            with self._looped("unrolled"):
                for item in over.items:
                    self.assign(node.target, item)
                    if self.statements(node.body):
                        return True
            return False
        self._forget_types(node)
        atom = self.to_atom(over, node.iter)
        head, kinds = _types.split(self.type_of(over))
        kind = {"range": "int", "Tensor": "Tensor", "str": "str"}.get(head, "")
        kind = kinds[0] if head == "List" and kinds else kind
        simple = isinstance(node.target, ast.Name)
        out = self.renamed(node.target.id) if isinstance(node.target, ast.Name) else None
        variable = out or self.fresh("each")
        with self._looped("loop"), self._branch() as body:
            if simple:
                assert isinstance(node.target, ast.Name)
                self.statics.pop(node.target.id, None)
                self.locals.add(node.target.id)
                self.types[node.target.id] = kind
            else:
                self.assign(node.target, Runtime(Name(variable), kind))
            self.statements(node.body)
        self.block.append(Loop((variable, kind), atom, body, where=self._where(node)))
        return False

    def _jump(self, kind: str, node: ast.AST) -> bool:
        if self.loops and self.loops[-1] == "unrolled":
            raise self.source.error(
                node, f"`{kind}` in a loop over submodules, which is unrolled: use a flag and `if`"
            )
        self.block.append(Jump(kind, where=self._where(node)))
        return True

    def _Break(self, node: ast.Break) -> bool:
        return self._jump("break", node)

    def _Continue(self, node: ast.Continue) -> bool:
        return self._jump("continue", node)

    def _With(self, node: ast.With) -> bool:
        outer = self.block
        for item in node.items:
            call = item.context_expr
            name, args = self._manager(call)
            if item.optional_vars is not None:
                raise self.source.error(item.optional_vars, "`as` of a context manager")
            if name is not None:
                within = Within(name, args, [], where=self._where(node))
                self.block.append(within)
                self.block = within.body
        try:
            return self.statements(node.body)
        finally:
            self.block = outer

    def _manager(self, call: ast.expr) -> tuple[str | None, list[Any]]:
        function = call.func if isinstance(call, ast.Call) else call
        value = self.value(function)
        found = getattr(value, "value", None)
        for name in _library.MANAGERS:
            if found is _library.MANAGERS[name]:
                args = call.args if isinstance(call, ast.Call) else []
                return name, [self.atom(a) for a in args]
        if getattr(found, "__name__", "") in ("record_function", "optimized_execution"):
            return None, []
        known = ", ".join(_library.MANAGERS)
        raise self.source.error(call, f"a program can enter {known}; this is none of them")

    # ---- comprehensions

    @contextlib.contextmanager
    def scope(self, target: ast.expr, node: ast.AST) -> Iterator[None]:
        """Names that a comprehension binds are its own."""
        names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
        before = {n: (self.statics.get(n), n in self.locals, self.types.get(n)) for n in names}
        try:
            yield
        finally:
            for name, (static, local, kind) in before.items():
                self.statics.pop(name, None)
                if static is not None:
                    self.statics[name] = static
                if not local:
                    self.locals.discard(name)
                self.types[name] = kind or ""

    def _comprehend(self, node: Any, over: Value, put: Any) -> None:
        """The loop of a comprehension, whose variables get names of their own."""
        generator = node.generators[0]
        names = {n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)}
        changed = {n: self.fresh(n) for n in names}
        renamed = Renamed(changed)
        target = renamed.visit(generator.target)
        node.elt = renamed.visit(node.elt) if hasattr(node, "elt") else None
        if isinstance(node, ast.DictComp):
            node.key, node.value = renamed.visit(node.key), renamed.visit(node.value)
        self.assigned.update(changed.values())
        head, kinds = _types.split(self.type_of(over))
        kind = {"range": "int", "Tensor": "Tensor"}.get(
            head, kinds[0] if head == "List" and kinds else ""
        )
        with self._looped("loop"), self._branch() as body:
            simple = isinstance(target, ast.Name)
            variable = target.id if simple else self.fresh("each")
            if simple:
                self.locals.add(variable)
                self.types[variable] = kind
            else:
                self.assign(target, Runtime(Name(variable), kind))
            for test in generator.ifs:
                atom = self.atom(renamed.visit(test))
                negated = self.emit("py", "not_", [atom], {}, "bool", test)
                body.append(When(negated.atom, [Jump("continue")], []))
            put()
        atom = self.to_atom(over, node)
        self.block.append(Loop((variable, kind), atom, body, where=self._where(node)))


def _compile(unit: Unit, source: Source, graph: Graph, owner: ModuleAt | None) -> None:
    Function(unit, source, graph, owner).compile()


compile_function.append(_compile)
