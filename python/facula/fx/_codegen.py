"""The Python source of a graph."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from typing import Any

import facula
from facula.fx.node import Node, _type_text, qualified_name

__all__ = ["CodeGen", "PythonCode"]


@dataclass
class PythonCode:
    """Source text, the objects that its names stand for, and the line of each node."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] = field(default_factory=dict)


_SIGNS = {
    operator.add: "{} + {}",
    operator.sub: "{} - {}",
    operator.mul: "{} * {}",
    operator.floordiv: "{} // {}",
    operator.truediv: "{} / {}",
    operator.mod: "{} % {}",
    operator.pow: "{} ** {}",
    operator.lshift: "{} << {}",
    operator.rshift: "{} >> {}",
    operator.and_: "{} & {}",
    operator.or_: "{} | {}",
    operator.xor: "{} ^ {}",
    operator.matmul: "{} @ {}",
    operator.getitem: "{}[{}]",
    operator.eq: "{} == {}",
    operator.ne: "{} != {}",
    operator.lt: "{} < {}",
    operator.gt: "{} > {}",
    operator.le: "{} <= {}",
    operator.ge: "{} >= {}",
    operator.pos: "+{}",
    operator.neg: "-{}",
    operator.invert: "~{}",
}


class _Writer:
    def __init__(self) -> None:
        self.globals: dict[str, Any] = {"facula": facula}
        self.names: dict[int, str] = {}

    def name_of(self, obj: Any, hint: str) -> str:
        """The name of an object in the code: its path, or one of `globals`."""
        root = hint.split(".")[0]
        if root == "facula" or (not hint.count(".") and _is_builtin(hint, obj)):
            found: Any = facula if root == "facula" else obj
            for part in hint.split(".")[1:]:
                found = getattr(found, part, None)
            if found is obj:
                return hint
        known = self.names.get(id(obj))
        if known is None:
            stem = re.sub(r"\W+", "_", hint)
            known, number = stem, 0
            while known in self.globals:
                number += 1
                known = f"{stem}_{number}"
            self.names[id(obj)] = known
            self.globals[known] = obj
        return known

    def text(self, a: Any) -> str:
        """An argument as source."""
        if isinstance(a, Node):
            return a.name
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            fields = ", ".join(map(self.text, a))
            return f"{self.name_of(type(a), qualified_name(type(a)))}({fields})"
        if isinstance(a, facula.Size):
            return f"facula.Size({list(a)})"
        if isinstance(a, tuple):
            return f"({', '.join(map(self.text, a))}{',' if len(a) == 1 else ''})"
        if isinstance(a, list):
            return f"[{', '.join(map(self.text, a))}]"
        if isinstance(a, dict):
            return "{" + ", ".join(f"{self.text(k)}: {self.text(v)}" for k, v in a.items()) + "}"
        if isinstance(a, slice):
            return f"slice({', '.join(map(self.text, (a.start, a.stop, a.step)))})"
        if a is None or a is ... or type(a) in (int, bool, str, complex, range):
            return "..." if a is ... else repr(a)
        if type(a) is float:
            return repr(a) if a - a == 0 else f"float({str(a)!r})"
        if isinstance(a, facula.dtype):
            return str(a)
        if isinstance(a, facula.device):
            return f"facula.device({str(a)!r})"
        if callable(a):
            return self.name_of(a, qualified_name(a))
        return self.name_of(a, f"_{type(a).__name__}_value")

    def call(self, node: Node) -> str:
        named = [f"{k} = {self.text(v)}" for k, v in node.kwargs.items() if k.isidentifier()]
        if len(named) < len(node.kwargs):
            named = ["**" + self.text(node.kwargs)]
        return ", ".join([*map(self.text, node.args), *named])


def _is_builtin(name: str, obj: Any) -> bool:
    import builtins

    return getattr(builtins, name, None) is obj


def _path(root: str, target: str) -> str:
    text = root
    for part in target.split("."):
        text = f"{text}.{part}" if part.isidentifier() else f"getattr({text}, {part!r})"
    return text


class CodeGen:
    """Writes the code of a graph; subclasses write other signatures."""

    def __init__(self) -> None:
        self._body_transformer = None

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The line that begins the function."""
        first = [] if free_vars and free_vars[0] == "self" else ["self"]
        return f"def forward({', '.join([*first, *free_vars])}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any) -> str:
        """The line that returns."""
        return f"return {output_args}"

    def process_inputs(self, *args: Any) -> Any:
        """Arguments of the function, as those of the placeholders."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """A result of the graph, as that of the function."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the code of a subclass uses."""
        return []

    def gen(self, nodes: Any, root_module: str) -> PythonCode:
        """The code, with each value let go behind its last use."""
        writer = _Writer()
        writer.globals.update(self.additional_globals())
        last: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(nodes):
            for used in (node, *node.all_input_nodes):
                if used not in seen:
                    seen.add(used)
                    if used is not node or not node.users:
                        last.setdefault(node, []).append(used)
        inputs: list[str] = []
        lines: list[str] = []
        returned = ""
        for node in nodes:
            kind = f" : {_annotation(writer, node.type)}" if node.type is not None else ""
            if node.op == "placeholder":
                default = f" = {writer.text(node.args[0])}" if node.args else ""
                inputs.append(f"{node.target}{kind}{default}")
                raw = node.target.lstrip("*")
                if raw != node.name:
                    lines.append(f"{node.name} = {raw}")
                continue
            if node.op == "output":
                returned = f" -> {kind[3:]}" if kind else ""
                lines.append(self.generate_output(writer.text(node.args[0] if node.args else None)))
                continue
            done = [n.name for n in last.get(node, ()) if n is not node]
            ended = f";  {' = '.join(done)} = None" if done else ""
            lines.append(f"{_statement(writer, node, root_module, kind)}{ended}")
        head = self.gen_fn_def(inputs, returned)
        body = "".join("\n    " + line for line in lines or ["pass"])
        return PythonCode(f"{head}{body}\n", writer.globals)


def _annotation(writer: _Writer, kind: Any) -> str:
    if isinstance(kind, type) and kind.__module__ in ("builtins", "facula", "facula._C"):
        return writer.name_of(kind, qualified_name(kind))
    return repr(_type_text(kind))


def _statement(writer: _Writer, node: Node, root: str, kind: str) -> str:
    target = node.target
    if node.op == "get_attr":
        return f"{node.name}{kind} = {_path(root, target)}"
    if node.op == "call_module":
        return f"{node.name}{kind} = {_path(root, target)}({writer.call(node)})"
    if node.op == "call_method":
        owner = node.args[0]
        rest = [writer.text(a) for a in node.args[1:]]
        rest += [f"{k} = {writer.text(v)}" for k, v in node.kwargs.items()]
        return f"{node.name}{kind} = {writer.text(owner)}.{target}({', '.join(rest)})"
    sign = _SIGNS.get(target)
    if sign is not None and not node.kwargs and sign.count("{}") == len(node.args):
        return f"{node.name}{kind} = {sign.format(*map(writer.text, node.args))}"
    if target is operator.setitem and len(node.args) == 3:
        owner, key, value = map(writer.text, node.args)
        return f"{owner}[{key}] = {value};  {node.name} = None"
    if target is getattr and len(node.args) == 2 and str(node.args[1]).isidentifier():
        return f"{node.name}{kind} = {writer.text(node.args[0])}.{node.args[1]}"
    function = writer.name_of(target, qualified_name(target))
    return f"{node.name}{kind} = {function}({writer.call(node)})"
