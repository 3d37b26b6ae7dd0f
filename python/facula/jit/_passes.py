"""`freeze` and `optimize_for_inference`: graphs with what does not change computed beforehand."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import facula
import facula.nn.functional as F
from facula import nn
from facula.jit import _library
from facula.jit._graph import (
    Block,
    Call,
    Constant,
    Graph,
    Items,
    Mapping,
    Name,
    Parameter,
    Path,
    Return,
    Span,
    Star,
    Statement,
    Store,
    When,
    atoms_of,
    blocks_of,
    leaves,
    map_atom,
    map_statement,
    walk,
)
from facula.jit._modules import (
    LibraryScriptModule,
    RecursiveScriptModule,
    ScriptModule,
    class_of,
    is_plain,
)
from facula.nn.utils.fusion import fuse_conv_bn_weights

__all__ = ["freeze", "optimize_for_inference"]


def freeze(
    mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True
) -> Any:
    """A module whose tensors and attributes are constants of its graphs.

    Calls of scripted submodules are inlined where they return at their end, branches that are known
    are taken, what depends on constants alone is computed, and what nothing uses is left out.
    Submodules of facula.nn stay. Constants stay on their device: move the module before.

    Args:
        mod: a scripted or traced module, in eval mode.
        preserved_attrs: names of attributes that stay attributes, and of methods that are kept
            beside `forward`.
        optimize_numerics: fold a batch normalisation into the convolution before it, which changes
            results by rounding.

    Raises:
        TypeError: it is neither scripted nor traced. RuntimeError: it is in training mode.
    """
    if isinstance(mod, LibraryScriptModule):
        mod = _wrapped(mod)
    if not isinstance(mod, ScriptModule) or not mod._graphs:
        raise TypeError(
            "freeze() takes a scripted or traced module; call facula.jit.script or trace before"
        )
    if mod.training:
        raise RuntimeError("freeze() takes a module in eval mode: call eval() before")
    kept = set(preserved_attrs or ())
    graphs: dict[str, Graph] = {}
    for name, graph in mod._graphs.items():
        if name == "forward" or name in kept:
            graphs[name] = _Freezer(mod, graph, kept).frozen(optimize_numerics)
    made = class_of(RecursiveScriptModule, mod.original_name, graphs)
    new = made.__new__(made)
    nn.Module.__init__(new)
    new.training = False
    used = {p for g in graphs.values() for s in walk(g.body) for p in _paths(s)}
    for path in sorted(used | {Path((n,)) for n in kept if n not in mod._graphs}, key=str):
        _share(mod, new, path.parts)
    return new


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """`freeze` of a module in eval mode; a frozen one comes back as it is.

    Args:
        mod: a scripted or traced module.
        other_methods: methods to keep beside `forward`.
    """
    if isinstance(mod, ScriptModule) and not list(mod.parameters()) and not mod.training:
        return mod
    return freeze(mod, other_methods)


def _paths(statement: Statement) -> list[Path]:
    found = [
        leaf for atom in atoms_of(statement) for leaf in leaves(atom) if isinstance(leaf, Path)
    ]
    return found + ([statement.path] if isinstance(statement, Store) else [])


def _share(old: Any, new: Any, parts: tuple[str, ...]) -> None:
    """Let the new module have what stands at a path in the old one."""
    for part in parts[:-1]:
        old = getattr(old, part)
        if part not in new._modules:
            inner = RecursiveScriptModule()
            inner.training = old.training
            new._modules[part] = inner
        elif new._modules[part] is old:
            return
        new = new._modules[part]
    if not parts:
        return
    for place in ("_parameters", "_buffers", "_modules", ""):
        owner = old.__dict__[place] if place else old.__dict__
        if parts[-1] in owner:
            (new.__dict__[place] if place else new.__dict__)[parts[-1]] = owner[parts[-1]]


def _wrapped(module: nn.Module) -> Any:
    """One of facula's layers within a module that has a graph."""
    parameters = [Parameter("self")]
    for p in list(inspect.signature(module._kind.forward).parameters.values())[1:]:
        default: tuple[Any, ...] = ()
        if p.default is not p.empty:
            default = (p.default,) if is_plain(p.default) else (None,)
        parameters.append(Parameter(p.name, "", default, p.kind is p.KEYWORD_ONLY))
    args = [Path(("module",)), *(Name(p.name) for p in parameters[1:])]
    body: Block = [Call([("result", "")], "module", "forward", args), Return(Name("result"))]
    graph = Graph("forward", parameters, "", body)
    kind = class_of(RecursiveScriptModule, module.original_name, {"forward": graph})
    new = kind.__new__(kind)
    nn.Module.__init__(new)
    new.training = module.training
    new._modules["module"] = module
    return new


class _Freezer:
    def __init__(self, module: Any, graph: Graph, kept: set[str]) -> None:
        self.module, self.graph, self.kept = module, graph, kept
        self.taken = {n for s in walk(graph.body) for n in _assigned(s)}
        self.taken |= {p.name for p in graph.parameters}
        self.functions = dict(graph.functions)
        self.constants: dict[int, Constant] = {}
        self.held: list[Any] = []

    def frozen(self, numerics: bool) -> Graph:
        body = self._inlined(self.graph.body, ())
        self.stored = {p for s in walk(body) if isinstance(s, Store) for p in [s.path]}
        body = [map_statement(s, self._constant) for s in body]
        body = self._folded(body, _once(body))
        if numerics:
            body = self._without_norms(body)
        body = _needed(body)
        parameters = [dataclasses.replace(p) for p in self.graph.parameters]
        return Graph(self.graph.name, parameters, self.graph.result, body, self.functions)

    def fresh(self, name: str) -> str:
        number, found = 0, name
        while found in self.taken:
            number += 1
            found = f"{name}_{number}"
        self.taken.add(found)
        return found

    # ---- calls of submodules

    def _inlined(self, block: Block, prefix: tuple[str, ...]) -> Block:
        found: Block = []
        for s in block:
            if isinstance(s, Call) and s.kind == "module":
                inner = self._body_of(s)
                if inner is not None:
                    found += inner
                    continue
            for name in ("then", "other", "body"):
                if hasattr(s, name) and not isinstance(s, (Call, Return)):
                    s = dataclasses.replace(s, **{name: self._inlined(getattr(s, name), prefix)})
            found.append(s)
        return found

    def _body_of(self, call: Call) -> Block | None:
        """The statements of a call of a scripted submodule; None where they must stay a call."""
        path: Path = call.args[0]
        module: Any = self.module
        for part in path.parts:
            module = getattr(module, part)
        graph = module._graphs.get(call.op) if isinstance(module, ScriptModule) else None
        if graph is None or any(isinstance(a, Star) for a in call.args):
            return None
        returns = [s for s in walk(graph.body) if isinstance(s, Return)]
        if len(returns) != 1 or graph.body[-1] is not returns[0]:
            return None
        given = dict(zip([p.name for p in graph.parameters[1:]], call.args[1:], strict=False))
        given.update(call.kwargs)
        renamed: dict[str, str] = {}
        for s in walk(graph.body):
            for name in _assigned(s):
                renamed.setdefault(name, self.fresh(name))
        found: Block = []
        for p in graph.parameters[1:]:
            if p.name not in given and not p.default:
                return None  # the call itself says what is wrong
            value = given.get(p.name, p.default[0] if p.default else None)
            renamed.setdefault(p.name, self.fresh(p.name))
            found.append(Call([(renamed[p.name], p.type)], "copy", "", [value], where=call.where))

        def change(atom: Any) -> Any:
            if isinstance(atom, Name):
                return Name(renamed[atom.id])
            return Path((*path.parts, *atom.parts)) if isinstance(atom, Path) else atom

        for s in graph.body[:-1]:
            moved = map_statement(s, change)
            for inner in walk([moved]):
                self._moved(inner, renamed, path, graph)
            found.append(moved)
        result = map_atom(returns[0].value, change)
        if call.outs:
            found.append(Call(call.outs, "copy", "", [result], where=call.where))
        return self._inlined(found, path.parts)

    def _moved(self, s: Statement, renamed: dict[str, str], path: Path, graph: Graph) -> None:
        """Rename what a copied statement assigns, stores and calls."""
        if isinstance(s, Call):
            s.outs = [(renamed[name], kind) for name, kind in s.outs]
            if s.kind == "call":
                called, name = graph.functions[s.op], s.op
                while self.functions.get(name, called) is not called:
                    name += "_"
                self.functions[name] = called
                s.op = name
        elif isinstance(s, Store):
            s.path = Path((*path.parts, *s.path.parts))
        elif getattr(s, "out", None) is not None:
            s.out = (renamed[s.out[0]], s.out[1])  # type: ignore[attr-defined]

    # ---- constants

    def _constant(self, atom: Any) -> Any:
        if not isinstance(atom, Path) or atom in self.stored or not atom.parts:
            return atom
        if atom.parts[0] in self.kept:
            return atom
        found: Any = self.module
        for part in atom.parts:
            found = getattr(found, part)
        if isinstance(found, facula.Tensor):
            return self._tensor(found, "_".join(atom.parts))
        if is_plain(found):
            return _literal(found)
        return atom

    def _tensor(self, tensor: Any, stem: str) -> Constant:
        known = self.constants.get(id(tensor))
        if known is None:
            name = self.fresh(stem if stem.isidentifier() else f"tensor_{len(self.constants)}")
            known = self.constants[id(tensor)] = Constant(name, tensor.detach())
            self.held.append(tensor)  # keeps its identity its own
        return known

    # ---- folding

    def _folded(self, block: Block, once: set[str]) -> Block:
        """Compute what is known; take the branches that are."""
        known: dict[str, Any] = {}

        def put(atom: Any) -> Any:
            return known.get(atom.id, atom) if isinstance(atom, Name) else atom

        def fold(block: Block) -> Block:
            found: Block = []
            for s in block:
                s = map_statement(s, put)
                if isinstance(s, When) and type(s.test) in (bool, int, float, str):
                    found += fold(s.then if s.test else s.other)
                    continue
                for name in ("then", "other", "body"):
                    if hasattr(s, name) and not isinstance(s, (Call, Return)):
                        s = dataclasses.replace(s, **{name: fold(getattr(s, name))})
                if isinstance(s, Call) and len(s.outs) == 1 and s.outs[0][0] in once:
                    value = self._computed(s)
                    if value is not _UNKNOWN:
                        known[s.outs[0][0]] = value
                        continue
                found.append(s)
            return found

        return fold(block)

    def _computed(self, s: Call) -> Any:
        atoms = [leaf for atom in atoms_of(s) for leaf in leaves(atom)]
        if any(isinstance(a, (Path, Star)) for a in atoms):
            return _UNKNOWN
        if s.kind == "copy":
            single = not isinstance(s.args[0], (Items, Mapping, Span))
            names = any(isinstance(a, Name) for a in atoms)
            return s.args[0] if single and not names else _UNKNOWN
        if any(isinstance(a, Name) for a in atoms) or not _is_pure(s):
            return _UNKNOWN
        target = _library.resolve(s.op) if s.kind == "op" else _library.PYTHON[s.op]
        try:
            with facula.no_grad():
                result = target(*map(_value, s.args), **{k: _value(v) for k, v in s.kwargs.items()})
        except Exception:
            return _UNKNOWN  # it raises where the program runs, with its line
        if isinstance(result, facula.Tensor):
            return self._tensor(result, s.outs[0][0])
        return result if type(result) in (bool, int, float, str) else _UNKNOWN

    def _without_norms(self, block: Block) -> Block:
        """Batch normalisations of constants, folded into the convolution that feeds them alone."""
        norm = _library.name_of(F.batch_norm)
        convolutions = {_library.name_of(f): f for f in (F.conv1d, F.conv2d, F.conv3d)}
        uses = _use_counts(block)
        made = {s.outs[0][0]: s for s in block if isinstance(s, Call) and len(s.outs) == 1}
        found: Block = []
        changed: dict[str, Any] = {}
        for s in block:
            if isinstance(s, Call) and s.kind == "op" and s.op == norm and not s.kwargs:
                x, mean, var, weight, bias, training, _, eps = (*s.args, *[None] * 8)[:8]
                conv = made.get(x.id) if isinstance(x, Name) else None
                constant = all(isinstance(a, Constant) for a in (mean, var))
                affine = all(a is None or isinstance(a, Constant) for a in (weight, bias))
                if conv is not None and conv.op in convolutions and uses[x.id] == 1:
                    fixed = isinstance(conv.args[1], Constant) if len(conv.args) > 1 else False
                    if constant and affine and fixed and training is False and eps is not None:
                        conv.args[1:3] = self._fused(conv, mean, var, weight, bias, eps)
                        changed[s.outs[0][0]] = x
                        continue
            found.append(s)
        return [map_statement(s, lambda a: _through(a, changed)) for s in found]

    def _fused(self, conv: Call, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
        of_conv = conv.args[2] if len(conv.args) > 2 else None
        values = [None if a is None else a.value for a in (of_conv, weight, bias)]
        with facula.no_grad():
            fused = fuse_conv_bn_weights(
                conv.args[1].value, values[0], mean.value, var.value, eps, values[1], values[2]
            )
        stem = conv.outs[0][0]
        return [self._tensor(t.detach(), f"{stem}_{n}") for t, n in zip(fused, "wb", strict=True)]


_UNKNOWN = object()


def _through(atom: Any, changed: dict[str, Any]) -> Any:
    return changed.get(atom.id, atom) if isinstance(atom, Name) else atom


def _assigned(s: Statement) -> list[str]:
    """The variables that a statement itself assigns."""
    if isinstance(s, Call):
        return [name for name, _ in s.outs]
    out = getattr(s, "out", None)
    return [out[0]] if out is not None else []


def _once(block: Block) -> set[str]:
    """The variables that are assigned in one place, and not in a loop's head."""
    counts: dict[str, int] = {}
    for s in walk(block):
        for name in _assigned(s):
            counts[name] = counts.get(name, 0) + (1 if isinstance(s, Call) else 2)
    return {name for name, n in counts.items() if n == 1}


def _is_pure(s: Call) -> bool:
    """Does a call give the same each time, and change nothing?"""
    if s.kind in ("copy", "get"):
        return True
    if s.kind == "py":
        return s.op not in ("print", "warn", "setitem", "delitem") and not s.op.startswith("i")
    if s.kind != "op" or s.op.endswith("_") or "out" in s.kwargs:
        return False
    records = _library.operator_records().get(s.op)
    if not records:
        return False
    return all(
        r["kind"] not in ("random", "mutation") and "random" not in (r.get("traits") or ())
        and not any("!" in a["type"] for a in r["arguments"])
        for r in records
    )  # fmt: skip


def _use_counts(block: Block) -> dict[str, int]:
    counts: dict[str, int] = {}
    for s in walk(block):
        for atom in atoms_of(s):
            for leaf in leaves(atom):
                if isinstance(leaf, Name):
                    counts[leaf.id] = counts.get(leaf.id, 0) + 1
    return counts


def _needed(block: Block) -> Block:
    """Without calls that change nothing and whose results nothing uses."""
    while True:
        counts = _use_counts(block)
        removed = False

        def keep(s: Statement, counts: dict[str, int] = counts) -> bool:
            unused = isinstance(s, Call) and not any(counts.get(n) for n, _ in s.outs)
            return not (unused and _is_pure(s))  # type: ignore[arg-type]

        def clean(block: Block) -> Block:
            nonlocal removed
            found: Block = []
            for s in block:
                if not keep(s):
                    removed = True
                    continue
                if blocks_of(s):
                    names = [n for n in ("then", "other", "body") if hasattr(s, n)]
                    s = dataclasses.replace(s, **{n: clean(getattr(s, n)) for n in names})
                found.append(s)
            return found

        block = clean(block)
        if not removed:
            return block


def _literal(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return Items("list" if isinstance(value, list) else "tuple", tuple(map(_literal, value)))
    if isinstance(value, dict):
        return Mapping(tuple((_literal(k), _literal(v)) for k, v in value.items()))
    return value


def _value(atom: Any) -> Any:
    """A constant atom's value."""
    if isinstance(atom, Constant):
        return atom.value
    if isinstance(atom, Items):
        items = [_value(item) for item in atom.items]
        return items if atom.kind == "list" else tuple(items)
    if isinstance(atom, Mapping):
        return {_value(k): _value(v) for k, v in atom.pairs}
    if isinstance(atom, Span):
        return slice(_value(atom.start), _value(atom.stop), _value(atom.step))
    return atom
