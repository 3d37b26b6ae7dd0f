"""Which of torch's names a file uses, by its syntax tree; nothing of it is run."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from facula.as_torch import _spaces

__all__ = ["Use", "uses_of"]

#: What `torch.Tensor` of `facula.as_torch.__version__` has.
with open(os.path.join(os.path.dirname(__file__), "tensor_names.txt"), encoding="utf-8") as _file:
    TENSOR_NAMES = frozenset(_file.read().split())
# What of a tensor gives no tensor.
_NO_TENSORS = frozenset(
    "backward data_ptr dim element_size get_device is_complex is_contiguous is_floating_point"
    " is_pinned item nelement ndimension numel numpy register_hook size storage storage_offset"
    " stride tolist type untyped_storage".split()
)
# Methods and functions that give several tensors, or do for some arguments.
_SEVERAL = frozenset(
    "aminmax chunk cummax cummin frexp kthvalue max median meshgrid min mode nonzero sort split"
    " std_mean tensor_split topk unbind unique unique_consecutive var_mean".split()
)
_TENSOR_ATTRIBUTES = frozenset("H T data grad imag mH mT real".split())
# Functions of torch that give no tensor.
_NO_TENSOR_FUNCTIONS = frozenset(
    "torch.compile torch.device torch.dtype torch.finfo torch.get_default_dtype torch.get_rng_state"
    " torch.iinfo torch.is_tensor torch.load torch.manual_seed torch.numel torch.save"
    " torch.is_grad_enabled torch.no_grad torch.set_grad_enabled torch.enable_grad"
    " torch.typename".split()
)


@dataclass(frozen=True)
class Use:
    """One use: `name` without "torch.", line, and what is known of it.

    sure: False for a method of what may be a tensor or not.
    guarded: the program does without it (an ImportError caught, a `hasattr` before).
    """

    name: str
    line: int
    sure: bool = True
    guarded: bool = False


def uses_of(source: str, filename: str = "<source>") -> list[Use]:
    """The uses in a file's text, in order.

    Raises:
        SyntaxError: it is no Python of this version.
    """
    reader = _Reader()
    reader.visit(ast.parse(source, filename))
    return sorted(set(reader.uses), key=lambda use: (use.line, use.name))


def _locals_of(function: Any) -> Iterator[str]:
    """Names that a function binds, besides those its own functions do."""
    args = function.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    yield from (arg.arg for arg in every if arg is not None)
    body = function.body if isinstance(function.body, list) else []
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        pending.extend(ast.iter_child_nodes(node))


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.uses: list[Use] = []
        # Innermost last: name -> path of torch ("" is torch), or None for another thing.
        self.scopes: list[dict[str, str | None]] = [{}]
        self.tensors: list[set[str]] = [set()]
        self.guards: list[frozenset[str]] = []
        self.caught = 0

    # ---- what names stand for

    def _path(self, node: ast.AST) -> str | None:
        """torch's path of `torch.a.b`, without "torch."; None for other expressions."""
        if isinstance(node, ast.Name):
            for scope in reversed(self.scopes):
                if node.id in scope:
                    return scope[node.id]
            return None
        if isinstance(node, ast.Attribute):
            inner = self._path(node.value)
            return None if inner is None else f"{inner}.{node.attr}".lstrip(".")
        return None

    def _add(self, name: str, node: Any, *, sure: bool = True, guarded: bool = False) -> None:
        guarded = guarded or self.caught > 0 or any(name in names for names in self.guards)
        self.uses.append(Use(name, node.lineno, sure, guarded))

    # ---- imports

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name != "torch" and not alias.name.startswith("torch."):
                continue
            path = alias.name[6:]
            if path:
                self._add(path, node)
            self.scopes[-1][alias.asname or "torch"] = path if alias.asname else ""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or (module != "torch" and not module.startswith("torch.")):
            for alias in node.names:
                if alias.asname or alias.name in self.scopes[-1]:
                    self.scopes[-1][alias.asname or alias.name] = None
            return
        path = module[6:]
        for alias in node.names:
            if alias.name == "*":
                if path:
                    self._add(path, node)
                for name in dir(_spaces.space(path)) if _spaces.exists(path) else ():
                    if name[:1] != "_":
                        self.scopes[-1].setdefault(name, f"{path}.{name}".lstrip("."))
                continue
            inner = f"{path}.{alias.name}".lstrip(".")
            self._add(inner, node)
            self.scopes[-1][alias.asname or alias.name] = inner

    # ---- scopes

    def _visit_function(self, node: Any) -> None:
        for part in ("decorator_list",):
            for child in getattr(node, part, ()):
                self.visit(child)
        args = node.args
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        tensors = set()
        for child in [*args.defaults, *args.kw_defaults, getattr(node, "returns", None)]:
            if child is not None:
                self.visit(child)
        for arg in every:
            if arg is not None and arg.annotation is not None:
                self.visit(arg.annotation)
                if self._path(arg.annotation) == "Tensor":
                    tensors.add(arg.arg)
        imported = {
            (a.asname or a.name).split(".")[0]
            for n in ast.walk(node)
            if isinstance(n, (ast.Import, ast.ImportFrom))
            for a in n.names
        }
        own = {name: None for name in _locals_of(node) if name not in imported}
        self.scopes.append(dict(own))
        self.tensors.append(tensors)
        for child in node.body if isinstance(node.body, list) else [node.body]:
            self.visit(child)
        self.tensors.pop()
        self.scopes.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for child in [*node.decorator_list, *node.bases, *node.keywords]:
            self.visit(child)
        self.scopes.append({})  # its names are not seen by its methods
        self.tensors.append(set())
        for child in node.body:
            self.visit(child)
        self.tensors.pop()
        self.scopes.pop()
        self.scopes[-1][node.name] = None

    # ---- what a program does without

    def visit_Try(self, node: ast.Try) -> None:
        names = {
            n.id if isinstance(n, ast.Name) else getattr(n, "attr", "")
            for handler in node.handlers
            for n in (ast.walk(handler.type) if handler.type else [ast.Name("Exception")])
        }
        catches = names & {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception"}
        self.caught += bool(catches)
        for child in node.body:
            self.visit(child)
        self.caught -= bool(catches)
        for child in [*node.handlers, *node.orelse, *node.finalbody]:
            self.visit(child)

    def _visit_if(self, node: Any) -> None:
        asked = frozenset(
            name
            for call in ast.walk(node.test)
            if isinstance(call, ast.Call) and (name := self._asked(call)) is not None
        )
        self.visit(node.test)
        self.guards.append(asked)
        for child in node.body if isinstance(node.body, list) else [node.body]:
            self.visit(child)
        for child in node.orelse if isinstance(node.orelse, list) else [node.orelse]:
            self.visit(child)
        self.guards.pop()

    visit_If = visit_IfExp = _visit_if

    def _asked(self, call: ast.Call, function: str = "hasattr") -> str | None:
        """The name that `hasattr(torch.nn, "Name")` asks for."""
        if not (isinstance(call.func, ast.Name) and call.func.id == function):
            return None
        if len(call.args) < 2 or not isinstance(call.args[1], ast.Constant):
            return None
        path = self._path(call.args[0])
        return None if path is None else f"{path}.{call.args[1].value}".lstrip(".")

    # ---- uses

    def visit_Call(self, node: ast.Call) -> None:
        name = self._asked(node)
        if name is not None:
            self._add(name, node, guarded=True)
        name = self._asked(node, "getattr")
        if name is not None:
            self._add(name, node, guarded=len(node.args) > 2)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        path = self._path(node) if isinstance(node.ctx, ast.Load) else None
        if path:
            self._add(path, node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path(node)
        if path is not None:
            if isinstance(node.ctx, ast.Load):  # what a program sets is its own
                self._add(path, node)
            return
        if isinstance(node.ctx, ast.Load) and node.attr in TENSOR_NAMES:
            self._add("Tensor." + node.attr, node, sure=self._is_tensor(node.value))
        self.visit(node.value)

    # ---- tensors, as far as one can tell

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        path = self._path(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.scopes[-1][target.id] = path
                known = self.tensors[-1]
                (known.add if self._is_tensor(node.value) else known.discard)(target.id)
            else:
                self.visit(target)

    def visit_For(self, node: ast.For) -> None:
        for name in ast.walk(node.target):
            if isinstance(name, ast.Name):
                self.scopes[-1][name.id] = None
                self.tensors[-1].discard(name.id)
        self.generic_visit(node)

    def _is_tensor(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.tensors[-1]
        if isinstance(node, ast.BinOp):
            return self._is_tensor(node.left) or self._is_tensor(node.right)
        if isinstance(node, ast.UnaryOp):
            return self._is_tensor(node.operand)
        if isinstance(node, ast.Subscript):
            return self._is_tensor(node.value)
        if isinstance(node, ast.Attribute):
            return node.attr in _TENSOR_ATTRIBUTES and self._is_tensor(node.value)
        if not isinstance(node, ast.Call):
            return False
        path = self._path(node.func)
        if path is not None:
            return _gives_a_tensor(path)
        if isinstance(node.func, ast.Attribute) and self._is_tensor(node.func.value):
            name = node.func.attr
            return name in TENSOR_NAMES and name not in _NO_TENSORS | _SEVERAL
        return False


def _gives_a_tensor(path: str) -> bool:
    """Does a call of torch.`path` give a tensor? Functions of few namespaces do."""
    space, _, name = path.rpartition(".")
    if "torch." + path in _NO_TENSOR_FUNCTIONS or name in _NO_TENSORS or name[:3] in ("is_", "set"):
        return False
    if space not in ("", "nn.functional", "fft", "special"):
        return False
    try:
        value = _spaces.resolve(path)
    except AttributeError:
        return False
    return not isinstance(value, type) and name not in _SEVERAL
