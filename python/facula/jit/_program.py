"""A whole program as text: classes with their graphs, functions, and the tree of modules.

    facula program 1
    main object 0
    class 0 "Net" {
      graph forward(self, x: Tensor) -> Tensor { ... }
    }
    graph helper(x: Tensor) -> Tensor { ... }
    object 0 class 0 {
      training True
      parameter scale "scale" True
      attribute depth 3
      module fc 1
    }
    object 1 library Linear { ... }

An object is a module: of a class of the program, or of facula's own (`library`). Its tensors are
named by their keys among the weights; a parameter says whether it requires grad, a buffer whether
it is persistent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula import nn
from facula.jit import _library
from facula.jit._graph import (
    Call,
    Constant,
    Graph,
    Items,
    Mapping,
    Path,
    Store,
    atoms_of,
    leaves,
    map_statement,
    walk,
)
from facula.jit._modules import (
    _INTERNAL,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    TopLevelTracedModule,
    TracedPart,
    as_script,
    class_of,
    is_plain,
    note_places,
)
from facula.jit._parsing import MOST_NESTED, Reader
from facula.jit._running import function_of
from facula.jit._text import atom_text, graph_text
from facula.jit._units import is_library

__all__ = ["VERSION", "Text", "parse"]

VERSION = 1
_BASES: dict[str, Any] = {
    "script": RecursiveScriptModule,
    "traced": TopLevelTracedModule,
    "part": TracedPart,
}


def _literal(value: Any) -> Any:
    """A plain value as an atom."""
    if isinstance(value, (tuple, list)):
        return Items("list" if isinstance(value, list) else "tuple", tuple(map(_literal, value)))
    if isinstance(value, dict):
        return Mapping(tuple((_literal(k), _literal(v)) for k, v in value.items()))
    return value


def _value(atom: Any) -> Any:
    """What `_literal` was given."""
    if isinstance(atom, Items):
        items = [_value(item) for item in atom.items]
        return items if atom.kind == "list" else tuple(items)
    if isinstance(atom, Mapping):
        return {_value(k): _value(v) for k, v in atom.pairs}
    return atom


class Text:
    """Writes a program.

    Args:
        program: a ScriptFunction or a ScriptModule.

    Raises:
        RuntimeError: something in it is Python, or of a type that no file holds.
    """

    def __init__(self, program: Any) -> None:
        self.tensors: dict[str, Any] = {}
        self._keys: dict[int, str] = {}
        self._functions: dict[int, str] = {}
        self._function_lines: list[str] = []
        self._constants: dict[int, str] = {}
        self._classes: dict[tuple[str, ...], int] = {}
        self._class_lines: list[str] = []
        self._objects: dict[int, int] = {}
        self._object_lines: list[list[str]] = []
        if isinstance(program, ScriptFunction):
            main = f"main function {self._function(program.graph)}"
        else:
            main = f"main object {self._object(program, ())}"
        lines = [f"facula program {VERSION}", main, *self._class_lines, *self._function_lines]
        for body in self._object_lines:
            lines += body
        self.text = "\n".join(lines) + "\n"

    def _function(self, graph: Graph) -> str:
        known = self._functions.get(id(graph))
        if known is not None:
            return known
        if getattr(graph, "is_python", False):
            raise RuntimeError(
                f"save(): {graph.name}() is marked by jit.ignore and stays Python, which a file "
                "cannot hold; script it, or mark it by jit.unused"
            )
        name, taken = graph.name, set(self._functions.values())
        while name in taken:
            name += "_"
        self._functions[id(graph)] = name
        text = graph_text(self._renamed(graph, name))
        self._function_lines.append(text.rstrip())
        return name

    def _renamed(self, graph: Graph, name: str) -> Graph:
        """A copy whose functions and constants have their names in the file."""

        def change(atom: Any) -> Any:
            if not isinstance(atom, Constant):
                return atom
            known = self._constants.get(id(atom.value))
            if known is None:
                known, taken = atom.name, set(self._constants.values())
                while known in taken:
                    known += "_"
                self._constants[id(atom.value)] = known
                self.tensors[f"constant:{known}"] = atom.value
            return Constant(known, atom.value)

        body = [map_statement(s, change) for s in graph.body]
        for statement in walk(body):
            if isinstance(statement, Call) and statement.kind == "call":
                statement.op = self._function(graph.functions[statement.op])
        return Graph(name, graph.parameters, graph.result, body)

    def _class(self, module: ScriptModule) -> int:
        kind = type(module)
        python = [n for n in vars(kind) if getattr(vars(kind)[n], "__jit_mark__", "") == "ignore"]
        if python:
            raise RuntimeError(
                f"save(): {module.original_name}.{python[0]}() is marked by jit.ignore and stays "
                "Python, which a file cannot hold; script it, or mark it by jit.unused"
            )
        base = next(n for n, b in _BASES.items() if isinstance(module, b))
        graphs = [graph_text(self._renamed(g, n)).rstrip() for n, g in module._graphs.items()]
        key = (base, module.original_name, *graphs)
        if key not in self._classes:
            number = self._classes[key] = len(self._classes)
            head = f"class {number} {json.dumps(module.original_name)} {base} {{"
            self._class_lines += [head, *graphs, "}"]
        return self._classes[key]

    def _tensor(self, tensor: Any, path: tuple[str, ...]) -> str:
        known = self._keys.get(id(tensor))
        if known is None:
            known = self._keys[id(tensor)] = ".".join(path)
            self.tensors[known] = tensor
        return known

    def _object(self, module: nn.Module, path: tuple[str, ...]) -> int:
        known = self._objects.get(id(module))
        if known is not None:
            return known
        number = self._objects[id(module)] = len(self._objects)
        lines: list[str] = []
        self._object_lines.append(lines)
        where = ".".join(path) or "the module"
        if is_library(module):
            kind = f"library {(getattr(type(module), '_kind', None) or type(module)).__name__}"
        elif isinstance(module, ScriptModule) and isinstance(module, tuple(_BASES.values())):
            kind = f"class {self._class(module)}"
        else:
            raise RuntimeError(
                f"save(): {where} is a {type(module).__name__}, which is neither scripted nor one "
                "of facula.nn; script the whole module"
            )
        hooks = [n for n, v in module.__dict__.items() if n.endswith("_hooks") and v]
        if hooks:
            raise RuntimeError(
                f"save(): {where} has {hooks[0].strip('_')}, which are Python; remove them before"
            )
        lines.append(f"object {number} {kind} {{")
        lines.append(f"  training {bool(module.training)}")
        persistent = module._non_persistent_buffers_set
        for name, tensor in module._parameters.items():
            lines.append(
                self._line("parameter", name, tensor, path, getattr(tensor, "requires_grad", False))
            )
        for name, tensor in module._buffers.items():
            lines.append(self._line("buffer", name, tensor, path, name not in persistent))
        for name, value in module.__dict__.items():
            if name not in _INTERNAL:
                lines.append(self._attribute(name, value, path, where))
        for name, child in module._modules.items():
            inner = None if child is None else self._object(child, (*path, name))
            lines.append(f"  module {json.dumps(name)} {inner}")
        lines.append("}")
        return number

    def _line(self, word: str, name: str, tensor: Any, path: tuple[str, ...], flag: bool) -> str:
        if tensor is None:
            return f"  {word} {json.dumps(name)} None {flag}"
        key = self._tensor(tensor, (*path, name))
        return f"  {word} {json.dumps(name)} {json.dumps(key)} {flag}"

    def _attribute(self, name: str, value: Any, path: tuple[str, ...], where: str) -> str:
        if isinstance(value, facula.Tensor):
            key = self._tensor(value, (*path, name))
            return f"  tensor {json.dumps(name)} {json.dumps(key)}"
        if is_plain(value):
            return f"  attribute {json.dumps(name)} {atom_text(_literal(value))}"
        known = _library.name_of(value) if callable(value) else None
        if known is not None:
            return f"  function {json.dumps(name)} {json.dumps(known)}"
        raise RuntimeError(
            f"save(): the attribute {name!r} of {where} is a {type(value).__name__}, which a file "
            "cannot hold"
        )


# ---- reading


class _Parser:
    def __init__(
        self,
        text: str,
        tensor: Callable[[str], Any],
        constants: dict[str, Any],
        fault: Callable[[str], Exception],
    ) -> None:
        self.reader = Reader(text, fault, constants)
        self.tensor, self.fault = tensor, fault
        self.classes: list[tuple[str, str, dict[str, Graph]]] = []
        self.kinds: list[Any] = []
        self.functions: dict[str, Graph] = {}
        self.objects: list[nn.Module] = []
        self.links: list[list[tuple[str, int | None]]] = []

    def program(self) -> Any:
        r = self.reader
        r.skip_lines()
        r.take("facula")
        r.take("program")
        version = self._number()
        if version > VERSION:
            raise self.fault(f"it is of version {version}, this facula reads up to {VERSION}")
        r.end_of_line()
        r.skip_lines()
        r.take("main")
        kind = r.take("name")
        main: Any = r.take("name") if kind == "function" else self._number()
        if kind not in ("function", "object"):
            raise r.fault(f"the main thing is a {kind!r}, expected a function or an object")
        r.end_of_line()
        r.skip_lines()
        while r.kind != "end":
            if r.next == "class":
                self._class()
            elif r.next == "graph":
                graph = r.graph()
                if graph.name in self.functions:
                    raise r.fault(f"the function {graph.name!r} occurs twice")
                self.functions[graph.name] = graph
            elif r.next == "object":
                self._object()
            else:
                raise r.fault(f"expected a class, a graph or an object, got {r.next!r}")
            r.skip_lines()
        return self._joined(kind, main)

    def _number(self) -> int:
        value = self.reader.atom()
        if type(value) is not int or value < 0:
            raise self.reader.fault(f"expected a number, got {value!r}")
        return value

    def _text(self) -> str:
        value = self.reader.atom()
        if type(value) is not str:
            raise self.reader.fault("expected a string")
        return value

    def _name(self) -> str:
        name = self._text()
        if not name or name.startswith("__") or "." in name or name in _INTERNAL:
            raise self.reader.fault(f"{name!r} is no name of an attribute of a module")
        return name

    def _flag(self) -> bool:
        value = self.reader.atom()
        if type(value) is not bool:
            raise self.reader.fault("expected True or False")
        return value

    def _class(self) -> None:
        r = self.reader
        r.take("class")
        if self._number() != len(self.classes):
            raise r.fault(f"expected class {len(self.classes)}")
        name, base = self._text(), r.take("name")
        if base not in _BASES:
            raise r.fault(f"{base!r} is no kind of class")
        r.take("{")
        r.end_of_line()
        r.skip_lines()
        graphs: dict[str, Graph] = {}
        while r.next != "}":
            graph = r.graph()
            if not graph.name.isidentifier() or graph.name.startswith("__"):
                raise r.fault(f"{graph.name!r} is no name of a method")
            if hasattr(nn.Module, graph.name) and graph.name != "forward":
                raise r.fault(f"{graph.name!r} is a method of all modules")
            if not graph.parameters or graph.parameters[0].name != "self":
                raise r.fault(f"the method {graph.name!r} has no parameter self")
            graphs[graph.name] = graph
            r.skip_lines()
        r.take("}")
        r.end_of_line()
        self.classes.append((name, base, graphs))

    def _object(self) -> None:
        r = self.reader
        r.take("object")
        if self._number() != len(self.objects):
            raise r.fault(f"expected object {len(self.objects)}")
        word = r.take("name")
        made: Any
        if word == "class":
            number = self._number()
            if number >= len(self.classes):
                raise r.fault(f"there is no class {number}")
            made = self._kind(number)
        elif word == "library":
            made = _library_class(r.take("name"))
            if made is None:
                raise r.fault("facula.nn has no such module")
        else:
            raise r.fault(f"expected class or library, got {word!r}")
        module = made.__new__(made)
        nn.Module.__init__(module)
        links: list[tuple[str, int | None]] = []
        self.objects.append(module)
        self.links.append(links)
        r.take("{")
        r.end_of_line()
        r.skip_lines()
        while r.next != "}":
            self._entry(module, links)
            r.end_of_line()
            r.skip_lines()
        r.take("}")
        r.end_of_line()

    def _kind(self, number: int) -> Any:
        while len(self.kinds) <= number:
            name, base, graphs = self.classes[len(self.kinds)]
            self.kinds.append((name, base, graphs, type("Unfinished", (nn.Module,), {})))
        return self.kinds[number][3]

    def _entry(self, module: Any, links: list[tuple[str, int | None]]) -> None:
        r = self.reader
        word = r.take("name")
        if word == "training":
            module.training = self._flag()
            return
        if word == "module":
            name = self._name()
            links.append((name, None if r.next == "None" else self._number()))
            if r.next == "None":
                r.take()
            return
        name = self._name()
        if word in ("parameter", "buffer"):
            key = r.atom()
            flag = self._flag()
            value = None if key is None else self._tensor_at(key)
            if word == "parameter":
                if value is not None and not isinstance(value, nn.Parameter):
                    value = self._parameter(key, value, flag)
                module._parameters[name] = value
            else:
                module._buffers[name] = value
                if not flag:
                    module._non_persistent_buffers_set.add(name)
        elif word == "tensor":
            module.__dict__[name] = self._tensor_at(r.atom())
        elif word == "attribute":
            atom = r.atom()
            if not is_plain(_checked(atom, r)):
                raise r.fault(f"the attribute {name!r} is no plain value")
            module.__dict__[name] = _value(atom)
        elif word == "function":
            found = _library.resolve(self._text())
            if found is None:
                raise r.fault(f"the attribute {name!r} is a function that facula has not")
            module.__dict__[name] = found
        else:
            raise r.fault(f"{word!r} is nothing that a module has")

    def _tensor_at(self, key: Any) -> Any:
        if type(key) is not str:
            raise self.reader.fault("the key of a tensor is a string")
        found = self.tensor(key)
        if found is None:
            raise self.reader.fault(f"there is no tensor {key!r} among the weights")
        return found

    _made: dict[str, Any] | None = None

    def _parameter(self, key: str, value: Any, requires_grad: bool) -> Any:
        self._made = self._made if self._made is not None else {}
        if key not in self._made:
            floating = value.is_floating_point() or value.is_complex()
            if requires_grad and not floating:
                raise self.reader.fault(f"the parameter {key!r} of {value.dtype} requires grad")
            self._made[key] = nn.Parameter(value, requires_grad=requires_grad)
        return self._made[key]

    # ---- putting it together

    def _joined(self, kind: str, main: Any) -> Any:
        for graph in [*self.functions.values(), *(g for c in self.classes for g in c[2].values())]:
            graph.functions = self.functions
        for graph in self.functions.values():
            self._check_free(graph)
            graph.compiled = function_of(graph, self.fault)
        for module, links in zip(self.objects, self.links, strict=True):
            for name, number in links:
                if number is not None and number >= len(self.objects):
                    raise self.fault(f"there is no object {number}")
                module._modules[name] = None if number is None else self.objects[number]
        self._finish()
        if kind == "function":
            if main not in self.functions:
                raise self.fault(f"there is no function {main!r}")
            return ScriptFunction(self.functions[main])
        if main >= len(self.objects):
            raise self.fault(f"there is no object {main}")
        self._check_tree(self.objects[main], 0, set())
        for module in self.objects:
            for graph in getattr(module, "_graphs", {}).values():
                self._check(module, graph)
        found = self.objects[main]
        return found if isinstance(found, ScriptModule) else as_script(found)

    def _finish(self) -> None:
        """Give objects the classes of the program, whose methods are compiled now."""
        finished = {}
        for made in self.kinds:
            name, base, graphs, unfinished = made
            objects = [m for m in self.objects if type(m) is unfinished]
            for graph in graphs.values():
                note_places(graph, objects)
                graph.compiled = function_of(graph, self.fault)
            finished[unfinished] = class_of(_BASES[base], name, graphs)
        for module in self.objects:
            module.__class__ = finished.get(type(module), type(module))

    def _check_tree(self, module: nn.Module, depth: int, above: set[int]) -> None:
        if id(module) in above or depth > 10 * MOST_NESTED:
            raise self.fault("a module is within itself, or modules are nested too deeply")
        for child in module._modules.values():
            if child is not None:
                self._check_tree(child, depth + 1, above | {id(module)})

    def _check_free(self, graph: Graph) -> None:
        for path in _paths(graph):
            raise self.fault(f"the function {graph.name!r} reads self.{'.'.join(path.parts)}")

    def _check(self, module: Any, graph: Graph) -> None:
        """Are the paths in a method those of tensors, attributes and submodules?"""
        for statement in walk(graph.body):
            if isinstance(statement, Call) and statement.kind == "module":
                owner = self._at(module, statement.args[0], graph)
                ok = statement.op == "forward" or statement.op in getattr(owner, "_graphs", {})
                if not isinstance(owner, nn.Module) or not ok:
                    raise self.fault(f"{graph.name}() calls what is no method of a module")
                if statement.op == "forward" and "forward" not in getattr(
                    owner, "_graphs", {"forward": None}
                ):
                    raise self.fault(f"{graph.name}() calls a module that has no forward")
                rest = [*statement.args[1:], *statement.kwargs.values()]
            else:
                rest = atoms_of(statement)
                if isinstance(statement, Store):
                    owner = self._at(module, Path(statement.path.parts[:-1]), graph)
                    if not _has(owner, statement.path.parts[-1]):
                        raise self.fault(f"{graph.name}() sets an attribute that there is not")
            for atom in rest:
                for leaf in leaves(atom):
                    found = self._at(module, leaf, graph) if isinstance(leaf, Path) else None
                    if isinstance(found, nn.Module):
                        raise self.fault(f"{graph.name}() uses a module as a value")

    def _at(self, module: Any, path: Any, graph: Graph) -> Any:
        found = module
        if not isinstance(path, Path):
            raise self.fault(f"{graph.name}() calls a method of what is no module")
        for part in path.parts:
            if not isinstance(found, nn.Module) or not (
                _has(found, part) or part in found._modules
            ):
                raise self.fault(
                    f"{graph.name}() reads self.{'.'.join(path.parts)}, which no module has"
                )
            found = getattr(found, part)
        return found


def _checked(atom: Any, reader: Reader) -> Any:
    for leaf in leaves(atom):
        if not is_plain(leaf):
            raise reader.fault("an attribute is a literal")
    return None


def _has(module: Any, name: str) -> bool:
    """Is it the name of a tensor or of a plain attribute?"""
    if name in module._parameters or name in module._buffers or name == "training":
        return True
    value = module.__dict__.get(name, module)
    return name not in _INTERNAL and (is_plain(value) or isinstance(value, facula.Tensor))


def _paths(graph: Graph) -> Iterator[Path]:
    for statement in walk(graph.body):
        atoms = atoms_of(statement)
        if isinstance(statement, Store):
            yield statement.path
        for atom in atoms:
            for leaf in leaves(atom):
                if isinstance(leaf, Path):
                    yield leaf


def _library_class(name: str) -> Any:
    import sys

    found = getattr(nn, name, None)
    if found is None:
        for path, module in list(sys.modules.items()):
            if path.startswith("facula.nn.modules."):
                found = found or vars(module).get(name)
    ok = isinstance(found, type) and issubclass(found, nn.Module) and found is not nn.Module
    if not ok or not found.__module__.startswith("facula.nn."):
        return None
    return found


def parse(
    text: str,
    tensor: Callable[[str], Any],
    constants: dict[str, Any],
    fault: Callable[[str], Exception],
) -> Any:
    """The module or function of a text.

    Args:
        tensor: the tensor of a key, or None.
        constants: the tensors that are the program's own, by name.
        fault: makes the error for what is wrong, of a sentence.
    """
    return _Parser(text, tensor, constants, fault).program()
