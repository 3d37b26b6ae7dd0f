"""Validates a schema: everything that can be wrong with ops.yaml beyond the form of its records.

`check` reads as far as it can and reports all mistakes of one run, each with its place. A record
that could not be read at all is "lost": what only follows from its absence is not reported.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .emit.autograd import is_differentiable
from .emit.plans import Plan, plan_of
from .fmt.sections import mistakes
from .scalar import vocabulary
from .scalar.cpp import ORDERS
from .schema.errors import Errors, SchemaError, SchemaErrors
from .schema.model import Derivative, Location, Operator, Schema
from .schema.reader import read_records
from .tensor.derive import derive_records
from .tensor.scope import TranslationError
from .validate import Validator

# Those that were accepted.
PRIMITIVES = Path(__file__).resolve().parents[1] / "tests" / "codegen" / "golden" / "primitives.txt"
_NO_TOKEN = "no operator of ops.yaml stands for"


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
        count = len(self.schema.definitions)
        defined = f"; {count} definitions" if count else ""
        found = primitives(self.schema)
        lines = [
            f"{len(declared)} operators ({derived} more derived for gradients): "
            f"{pointwise} pointwise, {composites} composites, "
            f"{len(declared) - pointwise - composites} with kernels{defined}",
            f"{len(found)} primitives, the kernels that a device must have "
            "beside its copies and two templates: " + ", ".join(op.name for op in found),
        ]
        if added := [op.name for op in found if op.name not in _known()]:
            lines.append(
                f"{len(added)} of them new, which every device's package must bring from now on: "
                f"{', '.join(added)}; a decomposition as 'composite' beside 'dispatch' spares it "
                "that, `python tools/dev.py golden` accepts it"
            )
        return "\n".join(lines)


def _known() -> list[str]:
    return PRIMITIVES.read_text(encoding="utf-8").split() if PRIMITIVES.exists() else []


def primitives(schema: Schema) -> list[Operator]:
    """Operators with neither formula nor composite, nor one function that serves all devices."""
    return [
        op
        for op in schema
        if op.dispatch
        and not (op.scalar or op.composite or op.composite_fn)
        and op.kind != "view"
        and not {"any", "device"} & set(dict(op.dispatch))
        and not op.reduction
    ]


def check(path: Path) -> Report:
    """Read and validate a schema file; only a file that is no YAML at all raises."""
    report = check_records(*read_records(path))
    return Report(report.schema, tuple(SchemaErrors([*report.errors, *mistakes(path)]).errors))


def check_records(schema: Schema, errors: Errors, own: Collection[Operator] = ()) -> Report:
    """Validate what was read, with the mistakes of reading it.

    `own`: those whose formulas are looked at, where others are known to be good.
    """
    lost = {e.subject for e in errors}
    Validator(schema, errors, lost).run()
    invalid = {e.subject for e in errors}
    whole, more = derive_records(_sound(schema, invalid))
    known = (
        {op.name for op in schema.callables}
        | {f.name for f in schema.math}
        | set(schema.rule_signatures)
    )
    names = {op.name for op in own or schema.callables}
    some = [op for op in whole.callables if op.name in names or op.derived_from in names]
    plans, wrong = _planned(whole, some)
    errors += [e for e in (*more, *wrong) if not _follows(e, lost - known, invalid)]
    errors += _words(whole) if not errors else []
    errors += _cycles(plans) if not errors else []
    return Report(whole, tuple(SchemaErrors(errors).errors))


def _sound(schema: Schema, invalid: set[str]) -> Schema:
    """The schema without what is known to be wrong, which would only be reported again."""
    sound = tuple(_repaired(op, op.name in invalid) for op in schema)
    return dataclasses.replace(schema, operators=sound)


def _repaired(op: Operator, invalid: bool) -> Operator:
    inputs = {a.name for a in op.signature.arguments if a.type.base == "Tensor"}
    kept: list[Derivative] = []
    for derivative in op.derivatives:
        automatic = derivative.auto or derivative.scalar is not None
        if inputs.issuperset(derivative.inputs) and not (automatic and (invalid or not op.scalar)):
            inputs.difference_update(derivative.inputs)
            kept.append(derivative)
    return op.replace(derivatives=tuple(kept), scalar=() if invalid else op.scalar)


def _follows(error: SchemaError, unreadable: set[str], invalid: set[str]) -> bool:
    """Whether a mistake only follows from a record that could not be read or differentiated."""
    if unreadable and error.message.startswith(_NO_TOKEN):
        return True
    quoted = set(re.findall(r"[`']([\w.]+)(?:\(\))?[`']", error.message))
    named = set(re.findall(r"\b(\w+)\(\) has no 'math:' record", error.message))
    named |= set(re.findall(r"^(\w+)\(.*\) does not fit", error.message))
    bases = {name.split(".")[0] for name in unreadable}
    gradients = {n for n in quoted for f in invalid if n.startswith(f"{f}_backward")}
    return bool(gradients or (quoted | named) & (unreadable | bases))


# ---- formulas over operators, by translating them ----


def _planned(schema: Schema, some: Sequence[Operator]) -> tuple[list[Plan], list[SchemaError]]:
    """The plans of some operators that have one, and the mistakes of the others."""
    plans: list[Plan] = []
    errors: list[SchemaError] = []
    for op in some:
        try:
            plans.append(plan_of(schema, op))
        except TranslationError as whole:
            subject = op.derived_from or op.name
            found = list(_each_formula(schema, op)) or [whole]
            errors += [SchemaError(e.location, subject, e.message) for e in found]
    return plans, errors


def _each_formula(schema: Schema, op: Operator) -> Iterator[TranslationError]:
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
        except TranslationError as error:
            yield error


# ---- what only the completed schema shows ----


def _words(schema: Schema) -> Iterator[SchemaError]:
    """Formulas, and those of derivatives, that call words with what these do not take."""
    said: set[tuple[str, str, str]] = set()
    for op in sorted(schema, key=lambda op: op.derived_from is not None):
        subject = op.derived_from or op.name
        for word, class_ in vocabulary.refused(op):
            if (subject, word, class_) in said:
                continue
            said.add((subject, word, class_))
            shown = f"`{word}`" if word in ORDERS else f"{word}()"
            message = f"{shown} does not take {class_} numbers, of which 'dtypes' speaks"
            if op.derived_from is not None:
                message += f"; the derivative, `{op.scalar[0][1].text}`, calls it"
            yield SchemaError(op.scalar[0][1].location, subject, message)


def _cycles(plans: Sequence[Plan]) -> Iterator[SchemaError]:
    """A composite that ends in itself would never return."""
    owners = {form.name: plan.op.name for plan in plans for form in plan.stub.forms}
    places: dict[str, Location] = {}
    calls: dict[str, list[str]] = {}
    for plan in plans:
        if plan.op.composite is not None:
            used = dict.fromkeys(re.findall(r"\bops::(\w+)\(", "\n".join(plan.stub.body)))
            calls[plan.op.name] = [owners[s] for s in used if s in owners]
            places[plan.op.name] = plan.op.composite.location
    done: set[str] = set()
    for start in calls:
        cycle = _cycle_from(start, calls, done, [])
        if cycle:
            message = f"the composite runs in a circle: {' -> '.join([*cycle, cycle[0]])}"
            yield SchemaError(places[cycle[0]], cycle[0], message)


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
