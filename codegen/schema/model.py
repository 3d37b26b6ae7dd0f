"""The data model of ops.yaml: frozen records that every stage of the generator reads.

Nothing here knows YAML, C++ or Jinja2. `reader.py` builds these records, `check.py` validates them
and the emitters turn them into text.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Location:
    """A place in the schema file; prints as `ops.yaml:LINE:COL`."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Type:
    """An argument or return type: a base name with its modifiers.

    `base` is one of Tensor, int, float, bool, str, Scalar, ScalarType, Device, Generator,
    MemoryFormat, Meta. `list_size` is None for no list, 0 for any length, N for `int[N]`.
    `varargs` marks `int[*]`, `optional_elements` marks `Tensor?[]`, `mutable` marks `Tensor!`.
    """

    base: str
    optional: bool = False
    list_size: int | None = None
    varargs: bool = False
    optional_elements: bool = False
    mutable: bool = False

    @property
    def is_list(self) -> bool:
        return self.list_size is not None

    @property
    def is_tensor(self) -> bool:
        """True for a single tensor (optional or mutable ones included), not for lists."""
        return self.base == "Tensor" and not self.is_list

    @property
    def is_tensor_list(self) -> bool:
        return self.base == "Tensor" and self.is_list

    def __str__(self) -> str:
        text = self.base + ("!" if self.mutable else "")
        if self.is_list:
            inner = "*" if self.varargs else (str(self.list_size) if self.list_size else "")
            text += ("?" if self.optional_elements else "") + f"[{inner}]"
        return text + ("?" if self.optional else "")


@dataclass(frozen=True)
class Range:
    """A range stated in a signature; `text` is its spelling, e.g. `>= 1` or `in [0, 1)`."""

    text: str
    low: float | None
    high: float | None
    low_open: bool = False
    high_open: bool = False


@dataclass(frozen=True)
class Argument:
    name: str
    type: Type
    default: str | None = None
    range: Range | None = None
    keyword_only: bool = False

    def __str__(self) -> str:
        text = f"{self.type} {self.name}"
        if self.range is not None:
            text += f" {self.range.text}"
        return text if self.default is None else f"{text}={self.default}"


@dataclass(frozen=True)
class Return:
    name: str | None
    type: Type

    def __str__(self) -> str:
        return f"{self.type} {self.name}" if self.name else str(self.type)


@dataclass(frozen=True)
class Signature:
    """`name(arguments) -> returns`; `str()` gives back exactly the text it was parsed from."""

    name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]
    parenthesised: bool = False  # a returns tuple, even of one

    @property
    def tensor_arguments(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.type.is_tensor)

    def __str__(self) -> str:
        parts: list[str] = []
        starred = False
        for argument in self.arguments:
            if argument.keyword_only and not starred:
                parts.append("*")
                starred = True
            parts.append(str(argument))
        returns = ", ".join(str(r) for r in self.returns)
        if self.parenthesised:
            returns = f"({returns})"
        return f"{self.name}({', '.join(parts)}) -> {returns}"


@dataclass(frozen=True)
class Place:
    """Where a text stands in the file, which may fold, indent or quote it."""

    location: Location
    # (offset in the text, line, column) of each stretch that stands unbroken in the file
    runs: tuple[tuple[int, int, int], ...] = field(default=(), repr=False, compare=False)

    def at(self, offset: int) -> Location:
        """The place in the file of the character at `offset` of the text."""
        for start, line, column in reversed(self.runs):
            if offset >= start:
                return Location(self.location.file, line, column + offset - start)
        return self.location


@dataclass(frozen=True)
class Formula:
    """A parsed Python expression or program with the place it was written at."""

    text: str
    tree: ast.AST = field(repr=False, compare=False)  # ast.Expression or ast.Module
    location: Location
    runs: tuple[tuple[int, int, int], ...] = field(default=(), repr=False, compare=False)

    def at(self, offset: int) -> Location:
        """The place in the file of the character at `offset` of the text."""
        return Place(self.location, self.runs).at(offset)


# The derivative statement of a kernel that runs its composite form where gradients are recorded.
THROUGH_COMPOSITE = "it differentiates through its composite form"


@dataclass(frozen=True)
class Derivative:
    """What the schema says of one differentiable input (or of a joint group of inputs).

    Exactly one of `formula` (tensor formula), `scalar` (scalar formula, becomes a fused operator),
    `auto`, `zero` and `none` (the reason) is set. `derive.derive` turns `scalar` and `auto` into
    `formula` or `zero`.
    """

    inputs: tuple[str, ...]
    location: Location
    formula: Formula | None = None
    scalar: Formula | None = None
    auto: bool = False
    zero: bool = False
    none: str | None = None
    alone: bool = False  # `none` is said of that input, not of all in one word


@dataclass(frozen=True)
class Check:
    """A condition on the arguments with its error, or `call`: a rule that raises by itself."""

    label: str
    require: Formula | None = None
    error: Formula | None = None  # a text with `{values}`, as an f-string
    raises: str = "ValueError"
    call: Formula | None = None


@dataclass(frozen=True)
class MathFunction:
    """A word of the scalar vocabulary, with its derivative by argument (None means zero)."""

    name: str
    arguments: tuple[str, ...]
    derivatives: tuple[Formula | None, ...]
    location: Location
    holomorphic: bool = True  # the derivative also holds for complex arguments
    alike: tuple[str, ...] = ()  # dtype classes where a vector of elements computes as one alone
    onnx: Formula | None = None  # what the ONNX exporter makes of it


@dataclass(frozen=True)
class ShapeRule:
    signature: Signature
    location: Location


@dataclass(frozen=True)
class Operator:
    """One record of ops.yaml, checked and with every default filled in."""

    signature: Signature
    location: Location
    kind: str
    doc: str
    example: str
    scalar: tuple[tuple[str, Formula], ...] = ()  # (variant or output name or "", formula)
    scalar_variants: bool = False  # `scalar` keys are values of the one str argument
    reduction: tuple[tuple[str, Formula], ...] = ()  # (start, step or index, formula)
    dtypes: tuple[str, ...] = ("float",)
    promote: str = "same"
    masks: tuple[str, ...] = ()  # tensor inputs that are read as bool and do not promote
    flops: Formula | None = None  # floating-point operations of a call, by its shapes
    onnx: Formula | None = None  # what the ONNX exporter makes of a call
    kept: tuple[str, ...] = ()  # results for the backward alone, without gradients of their own
    autocast: tuple[tuple[str, str], ...] = ()  # (CPU or device, lower, float32 or widest)
    shape: tuple[Formula, ...] = ()
    dispatch: tuple[tuple[str, str], ...] = ()
    axes: str = ""  # as stated; codegen/schema/axes.py infers that of others
    batch: str = ""  # a word of BATCHES; "" for what the kind says
    # Alternatives, each of (argument or result, word of BATCH_ROLES)
    batch_rules: tuple[tuple[tuple[str, str], ...], ...] = ()
    composite: Formula | None = None
    batch_fn: str | None = None  # a C++ function that serves a batch of calls
    composite_fn: str | None = None
    opaque: str = ""  # why it is C++ and no formula
    derivatives: tuple[Derivative, ...] = ()
    forward: str = "none"  # elementwise, linear, composite, formula, none
    forward_formula: Formula | None = None
    forward_reason: str = ""
    variants: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    alias: tuple[str, ...] = ()
    internal: bool = False
    definition: bool = (
        False  # of formulas alone: a C++ function, neither registered nor seen by Python
    )
    family: str = ""  # the name as a record that stands for several has it, such as `pool{n}d`
    derived_from: str | None = None  # set on operators the generator made (backward kernels)
    samples: tuple[str, ...] = ()
    reference: str | None = None
    property_test: str | None = None  # key `property`
    tolerance: tuple[tuple[str, float], ...] = ()
    ulp: tuple[tuple[str, float], ...] = ()
    checks: tuple[Check, ...] = ()
    traits: tuple[str, ...] = ()  # as stated; codegen/tensor/traits.py infers the others
    policies: tuple[tuple[str, str], ...] = ()  # keys of POLICY_WORDS
    # Where things stand in the file: `samples`, `samples.2`, `dispatch.CPU`, `derivative.self`.
    places: Mapping[str, Place] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Full name with overload, e.g. `max.dim`."""
        return self.signature.name

    @property
    def through_composite(self) -> bool:
        return any(d.none == THROUGH_COMPOSITE for d in self.derivatives)

    @property
    def base_name(self) -> str:
        """The name Python sees: the part before the dot."""
        return self.signature.name.split(".")[0]

    @property
    def symbol(self) -> str:
        """A C++ identifier that is unique to this operator, e.g. `max_dim`."""
        return self.signature.name.replace(".", "_")

    def place(self, key: str, offset: int = 0) -> Location:
        """Where the text of a key (or of an item of it) stands; the record's place if unknown."""
        found = self.places.get(key)
        return self.location if found is None else found.at(offset)

    def replace(self, **changes: object) -> Operator:
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Schema:
    """Everything ops.yaml says."""

    math: tuple[MathFunction, ...]
    rules: tuple[ShapeRule, ...]
    operators: tuple[Operator, ...]
    definitions: tuple[Operator, ...] = ()  # what formulas call beside operators

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.operators)

    @property
    def callables(self) -> tuple[Operator, ...]:
        """All that formulas may call."""
        return (*self.operators, *self.definitions)

    @functools.cached_property
    def alike(self) -> frozenset[tuple[str, str]]:
        """(word of the vocabulary, dtype class) that compute an element alone as in a vector."""
        return frozenset((f.name, class_) for f in self.math for class_ in f.alike)

    @functools.cached_property
    def by_base_name(self) -> dict[str, list[Operator]]:
        """Operators by each name that formulas may call them by, in file order."""
        found: dict[str, list[Operator]] = {}
        for op in self.callables:
            for name in dict.fromkeys((op.base_name, op.symbol, *op.alias)):
                found.setdefault(name, []).append(op)
        return found

    @functools.cached_property
    def by_token(self) -> dict[str, list[Operator]]:
        """Operators by the entries of their `python` key, operator signs above all."""
        found: dict[str, list[Operator]] = {}
        for op in self.operators:
            for token in op.python:
                found.setdefault(token, []).append(op)
        return found

    @functools.cached_property
    def rule_signatures(self) -> dict[str, Signature]:
        return {rule.signature.name: rule.signature for rule in self.rules}

    def operator(self, name: str) -> Operator:
        for op in self.callables:
            if op.name == name:
                return op
        raise KeyError(name)

    def overloads(self, base_name: str) -> tuple[Operator, ...]:
        return tuple(op for op in self.operators if op.base_name == base_name)
