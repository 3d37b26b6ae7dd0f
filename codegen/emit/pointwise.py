"""CPU loops of pointwise operators: one contiguous loop for each formula and compute type."""

from __future__ import annotations

import zlib
from collections.abc import Set
from dataclasses import dataclass, replace

from ..scalar import cpp as scalar_cpp
from ..scalar.cpp import Body, variable
from ..scalar.tree import Expr, from_formula
from ..schema import cpp_types
from ..schema.model import Argument, Formula, Operator
from ..schema.words import ALIKE_CLASSES

SHARDS = 13


@dataclass(frozen=True)
class Loop:
    """A loop template with the compute types it is instantiated for."""

    name: str
    inputs: tuple[tuple[str, str], ...]  # (name, element type)
    outputs: tuple[str, ...]  # pointer names
    output_type: str
    scalars: tuple[tuple[str, int, str], ...]  # (name, index in LoopArgs, type)
    flags: tuple[tuple[str, int], ...]  # (flag name, index in LoopArgs)
    bindings: tuple[str, ...]
    values: tuple[str, ...]
    divides: bool  # notes zero divisors
    whole: bool  # elements that are left over are computed in a whole vector
    limits: tuple[tuple[str, str], ...]  # that elements are noted not to be within

    @property
    def function(self) -> str:
        """The C++ function with the loop; of `whole` ones another one calls it."""
        return f"{self.name}_whole" if self.whole else self.name

    @property
    def stored(self) -> list[str]:
        """Types of the operands' elements in memory, results first."""
        results = [self.output_type] * len(self.outputs)
        return [f"stored_t<{t}>" for t in (*results, *(t for _, t in self.inputs))]


@dataclass(frozen=True)
class Table:
    """The loops of one operator, or of one variant of it, by compute type."""

    name: str  # `NAME` or `NAME_VARIANT`; the C++ object is `NAME_loops`
    formula: str
    loops: tuple[Loop, ...]
    slots: tuple[tuple[str, str, str], ...]  # (ScalarType, loop name, C++ type)


def loop_arguments(op: Operator) -> tuple[Argument, ...]:
    """The arguments that reach a loop in LoopArgs, in order: numbers, not the variant's name."""
    numbers = ("Scalar", "float", "int", "bool")
    return tuple(a for a in op.signature.arguments if a.type.base in numbers and not a.type.is_list)


def table_names(op: Operator) -> tuple[str, ...]:
    """Names of an operator's loop tables: one, or one for each variant."""
    if not op.scalar_variants:
        return (op.symbol,)
    return tuple(f"{op.symbol}_{key}" for key, _ in op.scalar)


def tables(op: Operator, alike: Set[tuple[str, str]]) -> tuple[Table, ...]:
    """The loops of an operator; `alike` has the functions that need no vector (Schema.alike)."""
    if op.scalar_variants:
        groups: list[tuple[tuple[str, Formula], ...]] = [(one,) for one in op.scalar]
    else:
        groups = [op.scalar]
    found = []
    for name, group in zip(table_names(op), groups, strict=True):
        formulas = tuple(from_formula(formula) for _, formula in group)
        made = [(c, _loop(op, formulas, c, alike)) for c in op.dtypes]
        loops: dict[Loop, str] = {}
        slots = []
        for class_, loop in made:
            suffix = f"_{class_}" if loop not in loops and loops else ""
            loop_name = loops.setdefault(loop, f"loop_{name}{suffix}")
            for cpp, scalar_type in scalar_cpp.TYPES[class_]:
                slots.append((scalar_type, loop_name, cpp))
        named = tuple(replace(loop, name=loop_name) for loop, loop_name in loops.items())
        text = "; ".join(" ".join(formula.text.split()) for _, formula in group)
        found.append(Table(name, text, named, tuple(slots)))
    return tuple(found)


def _loop(
    op: Operator, formulas: tuple[Expr, ...], class_: str, alike: Set[tuple[str, str]]
) -> Loop:
    types: dict[str, str] = {}
    inputs = []
    for a in op.signature.tensor_arguments:
        types[a.name] = "bool" if a.name in op.masks else "T"
        inputs.append((variable(a.name), types[a.name]))
    used = set().union(*(f.names() for f in formulas))
    scalars, flags = [], []
    for index, a in enumerate(loop_arguments(op)):
        if a.name not in used:
            continue
        types[a.name] = "bool" if a.type.base == "bool" else "T"
        scalars.append((variable(a.name), index, types[a.name]))
        if a.type.optional:
            flags.append((f"has_{a.name}", index))
    bindings: list[str] = []
    values: list[str] = []
    divides = whole = False
    limits: list[tuple[str, str]] = []
    for formula in formulas:
        body = scalar_cpp.emit(formula, class_, types, [n for n, _, _ in scalars])
        divides |= body.divides
        limits += body.limits
        whole |= class_ in ALIKE_CLASSES and not body.functions <= alike
        if len(formulas) > 1:  # locals of several formulas are kept apart by scopes of their own
            body = _scoped(body)
        bindings += body.bindings
        values.append(body.value)
    return Loop(
        "",
        tuple(inputs),
        cpp_types.out_names(op),
        {"bool": "bool", "real": "R"}.get(op.promote, "T"),
        tuple(scalars),
        tuple(flags),
        tuple(bindings),
        tuple(values),
        divides,
        whole,
        tuple(limits),
    )


def _scoped(body: Body) -> Body:
    if not body.bindings:
        return body
    return Body([], f"[&] {{ {' '.join(body.bindings)} return {body.value}; }}()")


def shard_of(op: Operator, shards: int = SHARDS) -> int:
    """An operator and its derived ones share a shard, which no edit elsewhere changes."""
    return zlib.crc32((op.derived_from or op.name).encode()) % shards
