"""Graphs of nodes, and the Python code that they are."""

from __future__ import annotations

import builtins
import contextlib
import keyword
import re
from collections.abc import Callable, Iterator
from typing import Any

from facula.fx._codegen import CodeGen, PythonCode
from facula.fx.node import Argument, Node, Target, map_arg

__all__ = ["CodeGen", "Graph", "PythonCode"]


class _Names:
    """Names that no other node of the graph has, and no builtin."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}

    def create(self, candidate: str) -> str:
        stem = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if stem[0].isdigit():
            stem = "_" + stem
        ended = re.fullmatch(r"(.*)_(\d+)", stem)
        base, number = (ended[1], int(ended[2])) if ended else (stem, 0)
        name = stem
        number = max(number, self.counts.get(base, 0))
        while name in self.taken or keyword.iskeyword(name) or _means_something(name):
            number += 1
            name = f"{base}_{number}"
        self.counts[base] = number
        self.taken.add(name)
        return name


def _means_something(name: str) -> bool:
    return hasattr(builtins, name) or name in ("torch", "facula", "device", "dtype", "inf", "nan")


class _Nodes:
    """The nodes in order, as long as one iterates; those put behind the current one come too."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> _Nodes:
        return _Nodes(self.graph, "_prev" if self.direction == "_next" else "_next")

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        return self.graph.find_nodes(op=op, target=target)


class Graph:
    """A program as a list of nodes, in an order in which it can run.

    New nodes come at the insertion point, which is the end unless `inserting_before` or
    `inserting_after` moves it. `GraphModule` makes it a module that runs.
    """

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._len = 0
        self._names = _Names()
        self._insert: Callable[[Node], None] = self._root.prepend
        self._codegen = CodeGen()
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras

    @property
    def nodes(self) -> _Nodes:
        """All nodes in order; `reversed(graph.nodes)` has them from the last one on."""
        return _Nodes(self)

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of one kind, and of one target where that is given."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The node that returns."""
        return next(iter(n for n in reversed(self.nodes) if n.op == "output"))

    # ---- making nodes

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A node at the insertion point.

        Raises:
            ValueError: `op` is none, or `target` is no such thing as it needs.
        """
        candidate = name if name is not None else _name_of(op, target)
        node = Node(
            self, self._names.create(candidate), op, target, args or (), kwargs or {}, type_expr
        )
        self._insert(node)
        self._len += 1
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An input; `...` means that it has no default."""
        args = () if default_value is ... or _is_empty(default_value) else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """An attribute of the module, "layer.weight" say."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a submodule, by its path."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a method of `args[0]`."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """What the graph returns: nodes, or tuples, lists, dicts of them."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] | None = None
    ) -> Node:
        """A node like one of another graph, whose inputs `arg_transform` translates."""

        def refuse(inner: Node) -> Argument:
            raise ValueError(f"node_copy(): {node} uses {inner}; give arg_transform")

        translate = arg_transform or refuse
        args, kwargs = map_arg(node.args, translate), map_arg(node.kwargs, translate)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False
    ) -> Any:
        """Copy the nodes of another graph here; gives what its output returns.

        Args:
            g: the other graph.
            val_map: what stands for its nodes here; those that are missing are copied and added.
            return_output_node: give (result, output node) instead.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        made._codegen = self._codegen
        known: dict[Node, Any] = {}
        result = made.graph_copy(self, known, return_output_node=True)
        if memo is not None:
            memo[id(self)] = made
        if result is not None:
            value, old = result
            made.output(value, old.type).meta = dict(old.meta)
        return made

    # ---- places

    @contextlib.contextmanager
    def _inserting(self, insert: Callable[[Node], None]) -> Iterator[None]:
        before, self._insert = self._insert, insert
        try:
            yield
        finally:
            self._insert = before

    def inserting_before(self, n: Node | None = None) -> Any:
        """Within it new nodes come before `n`; without one, at the start."""
        if n is None:
            return self.inserting_after(self._root)
        self._own(n, "inserting_before")
        return self._inserting(n.prepend)

    def inserting_after(self, n: Node | None = None) -> Any:
        """Within it new nodes come behind `n`, in the order in which they are made."""
        if n is None:
            return self.inserting_before(self._root)
        self._own(n, "inserting_after")
        last = n

        def insert(node: Node) -> None:
            nonlocal last
            last.append(node)
            last = node

        return self._inserting(insert)

    def _own(self, n: Node, who: str) -> None:
        if n.graph is not self:
            raise ValueError(f"{who}(): the node {n} is of another graph")

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out.

        Raises:
            RuntimeError: others use it.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {list(to_erase.users)}!"
            )
        if to_erase.graph is not self or to_erase._erased:
            raise RuntimeError(f"erase_node(): {to_erase} is no node of this graph")
        to_erase._leave_list()  # its own links stay, so that a loop over the nodes goes on
        to_erase._erased = True
        self._len -= 1
        to_erase._set((), {})

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out nodes that nobody uses and that do nothing else; was there any?"""
        self.lint()
        impure = is_impure_node or Node.is_impure
        changed = False
        for node in list(reversed(self.nodes)):
            if not node.users and not impure(node):
                self.erase_node(node)
                changed = True
        return changed

    # ---- checks and text

    def lint(self) -> None:
        """Check it.

        Raises:
            RuntimeError: a node comes before what it uses, two have one name, or a target is
                missing from the module.
        """
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node {node} does not belong to this graph")
            for used in node.all_input_nodes:
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! "
                        f"Please check that Nodes in the graph are topologically ordered\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                found = self.owning_module
                for part in node.target.split("."):
                    if not hasattr(found, part):
                        raise RuntimeError(
                            f"Node {node} target {node.target} references nonexistent attribute "
                            f"{part} of {type(found).__name__}"
                        )
                    found = getattr(found, part)
            seen.add(node)
            names.add(node.name)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Another way to write code."""
        self._codegen = codegen

    def python_code(self, root_module: str, **options: Any) -> PythonCode:
        """The source of a `forward`, where the module is called `root_module`."""
        return self._codegen.gen(self.nodes, root_module)

    def process_inputs(self, *args: Any) -> Any:
        """Arguments of the code, as those of the placeholders."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """A result of the graph, as that of the code."""
        return self._codegen.process_outputs(out)

    def on_generate_code(self, make_transformer: Any) -> Any:
        """Raises NotImplementedError: code is not transformed."""
        raise NotImplementedError("Graph.on_generate_code(): derive a CodeGen and set_codegen it")

    def print_tabular(self) -> None:
        """Print a table of the nodes."""
        rows = [["opcode", "name", "target", "args", "kwargs"]]
        rows += [
            [n.op, n.name, n._pretty_print_target(n.target), str(n.args), str(n.kwargs)]
            for n in self.nodes
        ]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        rows.insert(1, ["-" * width for width in widths])
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))

    def __str__(self) -> str:
        inputs = ", ".join(f"%{n.name}" for n in self.nodes if n.op == "placeholder")
        lines = [n.format_node() for n in self.nodes]
        return f"graph({inputs}):" + "".join("\n    " + line for line in lines)


def _is_empty(value: Any) -> bool:
    import inspect

    return value is inspect.Parameter.empty


def _name_of(op: str, target: Target) -> str:
    if isinstance(target, str):
        text = target.rpartition("*")[2] if op == "placeholder" else target.replace(".", "_")
        return text if op != "call_method" or text[:2] != "__" else text.strip("_")
    name = getattr(target, "__name__", type(target).__name__)
    plain = name.strip("_") or name
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", plain)
    return snake.lower() if plain != plain.lower() else plain
