"""Judges a schema: everything that can be wrong with ops.yaml beyond the form of its records.

`check` reads as far as it can and reports all mistakes of one run, each with its place. A record
that could not be read at all is "lost": what only follows from its absence is not reported.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import cpp_types, expr
from .autograd import is_differentiable
from .bindings import TOKENS, inplace_names, python_names
from .compose import FormulaError
from .derive import derive_records
from .errors import Errors, SchemaError, SchemaErrors, nearest
from .model import Derivative, Location, Operator, Schema
from .reader import DEFAULT_VARIANTS, DEVICES, POLICY_WORDS, read_records
from .render import plan_of
from .samples import check_sample

# Kinds whose kernels write into outputs that a shape rule has made.
SHAPED = ("reduction", "scan", "matmul", "structured")
_NO_TOKEN = "no operator of ops.yaml stands for"
_REFERENCE_NAMES = frozenset({"np", "scipy", "ref", *dir(builtins)})


@dataclass(frozen=True)
class Report:
    """What a check found: the completed schema and its mistakes in file order."""

    schema: Schema
    errors: tuple[SchemaError, ...]

    def summary(self) -> str:
        """The numbers of operators, and the primitives by name."""
        declared = [op for op in self.schema if op.derived_from is None]
        derived = len(self.schema.operators) - len(declared)
        pointwise = sum(bool(op.scalar) for op in declared)
        composites = sum(op.kind == "composite" for op in declared)
        found = primitives(self.schema)
        lines = [
            f"{len(declared)} operators ({derived} more derived for gradients): "
            f"{pointwise} pointwise, {composites} composites, "
            f"{len(declared) - pointwise - composites} with kernels",
            f"{len(found)} primitives, the kernels that a device must have: "
            + ", ".join(op.name for op in found),
        ]
        return "\n".join(lines)


def primitives(schema: Schema) -> list[Operator]:
    """Operators with neither formula nor composite, nor one function that serves all devices."""
    return [
        op
        for op in schema
        if op.dispatch
        and not (op.scalar or op.composite or op.composite_fn)
        and op.kind != "view"
        and "any" not in dict(op.dispatch)
    ]


def check(path: Path) -> Report:
    """Read and judge a schema file; only a file that is no YAML at all raises."""
    schema, errors = read_records(path)
    lost = {e.subject for e in errors}
    _Checker(schema, errors, lost).run()
    faulty = {e.subject for e in errors}
    whole, more = derive_records(_sound(schema, faulty))
    known = {op.name for op in schema} | {f.name for f in schema.math} | set(schema.rule_signatures)
    more += _formula_errors(whole)
    errors += [e for e in more if not _follows(e, lost - known, faulty)]
    errors += _cycles(whole) if not errors else []
    return Report(whole, tuple(SchemaErrors(errors).errors))


def _sound(schema: Schema, faulty: set[str]) -> Schema:
    """The schema without what is known to be wrong, which would only be reported again."""
    return Schema(
        schema.math, schema.rules, tuple(_repaired(op, op.name in faulty) for op in schema)
    )


def _repaired(op: Operator, faulty: bool) -> Operator:
    inputs = {a.name for a in op.signature.arguments if a.type.base == "Tensor"}
    kept: list[Derivative] = []
    for derivative in op.derivatives:
        automatic = derivative.auto or derivative.scalar is not None
        if inputs.issuperset(derivative.inputs) and not (automatic and (faulty or not op.scalar)):
            inputs.difference_update(derivative.inputs)
            kept.append(derivative)
    return op.replace(derivatives=tuple(kept), scalar=() if faulty else op.scalar)


def _follows(error: SchemaError, unreadable: set[str], faulty: set[str]) -> bool:
    """Whether a mistake only follows from a record that could not be read or differentiated."""
    if unreadable and error.message.startswith(_NO_TOKEN):
        return True
    quoted = set(re.findall(r"[`']([\w.]+)(?:\(\))?[`']", error.message))
    named = set(re.findall(r"\b(\w+)\(\) has no 'math:' record", error.message))
    bases = {name.split(".")[0] for name in unreadable}
    gradients = {n for n in quoted for f in faulty if n.startswith(f"{f}_backward")}
    return bool(gradients or (quoted | named) & (unreadable | bases))


class _Checker:
    """The checks that need no code to be made."""

    def __init__(self, schema: Schema, errors: Errors, faulty: set[str]) -> None:
        self.schema = schema
        self.errors = errors
        self.faulty = faulty  # what is missing from these may be a mistake already noted
        self.arity = {f.name: len(f.arguments) for f in schema.math}
        self.operator_names = {op.name for op in schema}

    def run(self) -> None:
        schema = self.schema
        self.twice("operator", [(op.name, op.location) for op in schema])
        self.twice("vocabulary word", [(f.name, f.location) for f in schema.math])
        self.twice("shape rule", [(r.signature.name, r.location) for r in schema.rules])
        self.symbols()
        self.vocabulary()
        for op in schema:
            self.scalar(op)
            self.derivatives(op)
            self.parts(op)
            self.words(op)
            self.proof(op)
        self.clashes()

    def twice(self, what: str, records: Iterable[tuple[str, Location]]) -> None:
        first: dict[str, Location] = {}
        for name, place in records:
            if name in first:
                message = f"the {what} is declared twice, first in line {first[name].line}"
                self.errors.add(place, name, message)
            first.setdefault(name, place)

    def symbols(self) -> None:
        """`max.dim` and `max_dim` would be one C++ function."""
        seen: dict[str, Operator] = {}
        for op in self.schema:
            other = seen.setdefault(op.symbol, op)
            if other.name != op.name:
                message = f"'{op.name}' and '{other.name}' are one name in C++; rename one"
                self.errors.add(op.location, op.name, message)

    def vocabulary(self) -> None:
        for function in self.schema.math:
            checker = expr.Checker(self.errors, function.name)
            for formula in function.derivatives:
                if formula is not None:
                    checker.scalar(formula, function.arguments, self.arity)

    # ---- formulas of elements ----

    def scalar(self, op: Operator) -> None:
        arguments = op.signature.arguments
        known = [a.name for a in arguments if a.type.base != "str" and not a.type.is_list]
        checker = expr.Checker(self.errors, op.name)
        for _, formula in op.scalar:
            checker.scalar(formula, known, self.arity)
        for derivative in op.derivatives:
            if derivative.scalar is not None:
                checker.scalar(derivative.scalar, [*known, "grad", "result"], self.arity)
        outputs = [r.name for r in op.signature.returns]
        keys = [key for key, _ in op.scalar]
        if op.scalar and op.name not in self.faulty:
            if op.scalar_variants and sum(a.type.base == "str" for a in arguments) != 1:
                message = (
                    "the keys of 'scalar' are the outputs "
                    f"({', '.join(str(o) for o in outputs)}) or the values of one str argument"
                )
                self.errors.add(op.place("scalar"), op.name, message)
            elif not op.scalar_variants and len(outputs) != len(keys):
                message = f"{len(outputs)} outputs need {len(outputs)} formulas, found {len(keys)}"
                self.errors.add(op.place("scalar"), op.name, message)
        for name in op.masks:
            if name not in {a.name for a in op.signature.tensor_arguments}:
                tensors = [a.name for a in op.signature.tensor_arguments]
                near = nearest(name, tensors) or f"; tensor arguments are {', '.join(tensors)}"
                place = op.place(f"masks.{op.masks.index(name)}")
                self.errors.add(place, op.name, f"no tensor argument '{name}'{near}")
        results = [r.name for r in op.signature.returns if r.name is not None]
        for i, name in enumerate(op.kept):
            if name not in results:
                near = nearest(name, results) or f"; results are {', '.join(results) or 'unnamed'}"
                self.errors.add(op.place(f"kept.{i}"), op.name, f"no result '{name}'{near}")

    # ---- derivatives ----

    def derivatives(self, op: Operator) -> None:
        inputs = [a.name for a in op.signature.arguments if a.type.base == "Tensor"]
        stated: list[str] = []
        for derivative in op.derivatives:
            for name in derivative.inputs:
                place = op.place(f"derivative.{name}")
                if name not in inputs:
                    near = nearest(name, inputs) or f"; tensor inputs are {', '.join(inputs)}"
                    self.errors.add(place, op.name, f"no tensor input '{name}'{near}")
                elif name in stated:
                    self.errors.add(place, op.name, f"two derivatives for '{name}'")
                stated.append(name)
            self.incoming(op, derivative, inputs)
            automatic = derivative.auto or derivative.scalar is not None
            if automatic and not op.scalar and op.name not in self.faulty:
                which = "auto" if derivative.auto else "scalar"
                message = f"'{which}' differentiates a 'scalar' formula; state a tensor formula"
                self.errors.add(derivative.location, op.name, message)
                break
        missing = [n for n in inputs if n not in stated and n not in op.masks]
        if missing and needs_derivatives(op) and op.name not in self.faulty:
            names = ", ".join(f"'{n}'" for n in missing)
            message = f"no derivative for {names}: a formula, 'zero' or 'none: reason'"
            self.errors.add(op.place("derivative"), op.name, message)

    # ---- kernels, shapes, variants ----

    def parts(self, op: Operator) -> None:
        add, arguments = self.errors.add, op.signature.arguments
        for device, symbol in op.dispatch:
            place = op.place(f"dispatch.{device}")
            if device not in DEVICES:
                hint = nearest(device, DEVICES) or f"; known are {', '.join(DEVICES)}"
                add(place, op.name, f"unknown device '{device}'{hint}")
            elif symbol == "none" and device != "CUDA":
                add(place, op.name, f"a kernel for {device}, or no entry for it")
        if op.scalar and op.dispatch:
            message = "'scalar' gives the kernels of every device; 'dispatch' has no place"
            add(op.place("dispatch"), op.name, message)
        runs = op.scalar or op.dispatch or op.composite or op.composite_fn
        if op.name in self.faulty:
            return
        if not runs:
            message = "nothing to run: give 'scalar', 'composite', 'composite_fn' or 'dispatch'"
            add(op.location, op.name, message)
        if op.composite and op.composite_fn:
            message = "'composite' and 'composite_fn' say the same twice; keep one"
            add(op.place("composite_fn"), op.name, message)
        shaped = op.kind in SHAPED and op.dispatch and cpp_types.returns_tensors(op)
        if shaped and len(op.shape) != len(op.signature.returns):
            if op.shape:
                message = f"{len(op.signature.returns)} outputs, {len(op.shape)} shapes"
            else:
                message = f"kind {op.kind} needs 'shape': a shape rule over its arguments"
            add(op.place("shape"), op.name, message)
        if op.scalar and op.shape:
            add(op.place("shape"), op.name, "a pointwise operator broadcasts; drop 'shape'")
        if op.variants != DEFAULT_VARIANTS.get(op.kind, ()):
            first = arguments[0].type.is_tensor if arguments else False
            if "inplace" in op.variants and not first:
                add(op.place("variants"), op.name, "'inplace' needs a tensor as first argument")
            if "out" in op.variants and not cpp_types.returns_tensors(op):
                add(op.place("variants"), op.name, "'out' needs results that are new tensors")

    def words(self, op: Operator) -> None:
        for key, word in op.policies:
            known = POLICY_WORDS[key]
            if word not in known:
                hint = nearest(word, known) or f"; known are {', '.join(known)}"
                message = f"unknown word '{word}' for '{key}'{hint}"
                self.errors.add(op.place(key), op.name, message)

    def incoming(self, op: Operator, derivative: Derivative, inputs: Sequence[str]) -> None:
        """Where an input is called `grad`, the incoming gradient is `grad_output`."""
        if derivative.formula is None or "grad" not in inputs or len(op.signature.returns) != 1:
            return
        if "grad_output" not in expr.names(derivative.formula):
            message = "'grad' is the input of that name; the incoming gradient is 'grad_output'"
            self.errors.add(derivative.formula.location, op.name, message)

    # ---- samples and references ----

    def proof(self, op: Operator) -> None:
        add = self.errors.add
        for i, sample in enumerate(op.samples):
            problem = check_sample(op, sample)
            if problem is not None:
                offset, message = problem
                add(op.place(f"samples.{i}", offset), op.name, f"sample `{sample}`: {message}")
        if op.reference is not None:
            self.reference(op, op.reference)
        if op.internal or op.name in self.faulty:
            return
        if not op.samples:
            add(op.location, op.name, "missing key 'samples': calls such as \"f(3,4), dim=1\"")
        if op.reference is None and op.property_test is None:
            message = "missing key 'reference': a NumPy expression, or 'property': a test's name"
            add(op.location, op.name, message)
        if op.reference is not None and op.property_test is not None:
            add(op.place("property"), op.name, "'property' stands instead of 'reference'")

    def reference(self, op: Operator, text: str) -> None:
        place = op.places.get("reference")
        runs = place.runs if place is not None else ()
        try:
            formula = expr.parse(text.rstrip(), op.place("reference"), runs)
        except expr.FormulaError as error:
            message = error.message.replace("not a formula", "not a Python expression")
            at = op.place("reference", error.offset)
            self.errors.add(at, op.name, f"reference: {message}")
            return
        arguments = [a.name for a in op.signature.arguments]
        known = {*arguments, *_bound(formula.tree)}
        for node in ast.walk(formula.tree):
            if not isinstance(node, ast.Name) or node.id in known or node.id in _REFERENCE_NAMES:
                continue
            hint = nearest(node.id, [*arguments, "np", "scipy"])
            at = expr.place(formula, node)
            self.errors.add(at, op.name, f"reference: unknown name '{node.id}'{hint}")

    # ---- names that Python sees ----

    def clashes(self) -> None:
        """One Python name serves one operator with its overloads."""
        owners: dict[tuple[str, str], Operator] = {}
        noted: set[tuple[str, str]] = set()
        for op in self.schema:
            for path, name in [*python_names(op), *inplace_names(op)]:
                other = owners.setdefault((path, name), op)
                pair = (op.name, other.name)
                if pair in noted or other.base_name == op.base_name:
                    continue
                if not _shared(op, other, name):
                    noted.add(pair)
                    shown = f"facula.{path}.{name}" if path else f"facula.{name}"
                    message = f"{shown} is '{other.name}' of line {other.location.line} already"
                    key = f"alias.{op.alias.index(name)}" if name in op.alias else "python"
                    self.errors.add(op.place(key), op.name, message)
            for i, token in enumerate(op.python):
                if token in TOKENS - {"function", "method", "property"}:
                    other = owners.setdefault(("operator", token), op)
                    if other.base_name != op.base_name:
                        message = f"'{token}' is '{other.name}' of line {other.location.line}"
                        self.errors.add(op.place(f"python.{i}"), op.name, f"{message} already")


def _shared(op: Operator, other: Operator, name: str) -> bool:
    """An alias may collect overloads of the operators that it stands for."""
    return name in op.alias and name in other.alias


def needs_derivatives(op: Operator) -> bool:
    """Whether each tensor input needs a statement: kernels that take and make real numbers."""
    if op.kind == "composite" or not (op.dispatch or op.scalar):
        # It differentiates through its parts, but for inputs stated as `none`; or says all.
        return any(d.none is None for d in op.derivatives)
    if op.scalar:
        return op.promote != "bool" and bool({"float", "complex"} & set(op.dtypes))
    return any(r.type.base == "Tensor" for r in op.signature.returns)


def _bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


# ---- formulas over operators, by translating them ----


def _formula_errors(schema: Schema) -> Iterator[SchemaError]:
    for op in schema:
        try:
            plan_of(schema, op)
        except FormulaError as whole:
            found = list(_each_formula(schema, op)) or [whole]
            for error in found:
                subject = op.derived_from or op.name
                yield SchemaError(error.location, subject, error.message)


def _each_formula(schema: Schema, op: Operator) -> Iterator[FormulaError]:
    """The mistakes of an operator's formulas, each translated by itself."""
    bare = op.replace(
        derivatives=(), composite=None, shape=(), checks=(), forward="none", forward_formula=None
    )
    pieces = [bare.replace(derivatives=(d,)) for d in op.derivatives if d.none is None]
    if op.composite is not None:
        pieces.append(bare.replace(composite=op.composite))
    pieces += [bare.replace(shape=(shape,)) for shape in op.shape]
    pieces += [bare.replace(checks=(one,)) for one in op.checks]
    if op.forward != "none" and is_differentiable(op):
        zero = tuple(dataclasses.replace(d, formula=None, zero=True) for d in op.derivatives)
        stated = bare.replace(forward=op.forward, forward_formula=op.forward_formula)
        pieces.append(stated.replace(derivatives=zero))
    for piece in pieces:
        try:
            plan_of(schema, piece)
        except FormulaError as error:
            yield error


def _cycles(schema: Schema) -> Iterator[SchemaError]:
    """A composite that ends in itself would never return."""
    calls: dict[str, list[str]] = {}
    by_symbol = {cpp_types.identifier(op.symbol): op for op in schema}
    for op in schema:
        if op.composite is not None:
            body = "\n".join(plan_of(schema, op).stub.body)
            used = dict.fromkeys(re.findall(r"\bops::(\w+)\(", body))
            calls[op.name] = [by_symbol[s].name for s in used if s in by_symbol]
    done: set[str] = set()
    for start in calls:
        cycle = _cycle_from(start, calls, done, [])
        if cycle:
            op = schema.operator(cycle[0])
            assert op.composite is not None
            path = " -> ".join([*cycle, cycle[0]])
            message = f"the composite runs in a circle: {path}"
            yield SchemaError(op.composite.location, op.name, message)


def _cycle_from(
    name: str, calls: dict[str, list[str]], done: set[str], path: list[str]
) -> list[str]:
    if name in path:
        return path[path.index(name) :]
    if name in done or name not in calls:
        return []
    for other in calls[name]:
        cycle = _cycle_from(other, calls, done, [*path, name])
        if cycle:
            done.update(cycle)
            return cycle
    done.add(name)
    return []
