"""Scalar formulas as C++ over one element.

The text is generic in `T`, the compute type, and `R`, its real type; what differs between classes
of types (bool, int, float, complex) is decided here. Both branches of a condition are computed
and one is chosen, so that loops vectorise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ..schema import expr
from .tree import COMPARISONS, Expr

# C++ types of each class, with the name of their ScalarType.
TYPES: dict[str, tuple[tuple[str, str], ...]] = {
    "bool": (("bool", "Bool"),),
    "int": (
        ("uint8_t", "UInt8"),
        ("int8_t", "Int8"),
        ("int16_t", "Int16"),
        ("int32_t", "Int32"),
        ("int64_t", "Int64"),
        ("uint64_t", "UInt64"),
    ),
    "float": (("float", "Float32"), ("double", "Float64")),
    "complex": (("complex64", "Complex64"), ("complex128", "Complex128")),
}
# Vocabulary whose value is bool, or real for complex arguments.
PREDICATES = frozenset({"isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit"})
REAL_VALUED = frozenset({"abs", "real", "imag", "angle"})
# Vocabulary that of integers adds to `by_zero` whether a divisor is zero.
DIVISIONS = frozenset({"floor_divide", "trunc_divide", "remainder", "fmod"})
# Comparisons that complex numbers do not have.
ORDERS = frozenset({"<", "<=", ">", ">="})
# The word that notes elements outside of its limits, each pair in a variable of its own.
LIMITED = "within"
RESERVED = frozenset({"n", "i", "T", "R", "outs", "ins", "args", "out", "math", "by_zero"})


@dataclass(frozen=True)
class Code:
    """C++ text of an expression with its type: `T`, `R` or `bool`."""

    text: str
    type: str
    atom: bool = False  # needs no parentheses

    def __str__(self) -> str:
        return self.text if self.atom else f"({self.text})"


@dataclass
class Body:
    """The statements that bind repeated subexpressions, and the value."""

    bindings: list[str] = field(default_factory=list)
    value: str = ""
    divides: bool = False  # an integer may be divided by zero
    # Functions of the vocabulary that are called, with the class of their arguments.
    functions: set[tuple[str, str]] = field(default_factory=set)
    limits: list[tuple[str, str]] = field(default_factory=list)  # that elements are to be within


def variable(name: str) -> str:
    """The C++ name of a schema name inside a loop."""
    is_local = name[:1] == "t" and name[1:].isdigit()
    return f"{name}_" if name in RESERVED or is_local else name


def emit(
    formula: Expr, class_: str, types: Mapping[str, str], numbers: Collection[str] = ()
) -> Body:
    """C++ of a formula for a class of compute types; `types` maps names to `T`, `R` or `bool`
    and names of presence flags of optional arguments to themselves, `numbers` are the names of
    what is one number for all elements."""
    emitter = _Emitter(class_, types, numbers)
    emitter.count(formula)
    code = emitter.code(formula)
    return Body(emitter.bindings, code.text, emitter.divides, emitter.functions, emitter.limits)


def literal(text: str, real: str = "R") -> str:
    """A number in the real type; 17 digits are exact for double, and rounded once for float."""
    if text.isdigit() and len(text) < 10:
        return f"{real}({text})"
    value = float(text)
    return f"{real}({value!r})"


class _Emitter:
    def __init__(
        self, class_: str, types: Mapping[str, str], numbers: Collection[str] = ()
    ) -> None:
        self.class_ = class_
        self.types = types
        self.numbers = numbers
        self.counts: Counter[Expr] = Counter()
        self.locals: dict[Expr, Code] = {}
        self.bindings: list[str] = []
        self.divides = False
        self.functions: set[tuple[str, str]] = set()
        self.limits: list[tuple[str, str]] = []

    def count(self, e: Expr) -> None:
        self.counts[e] += 1
        if self.counts[e] == 1:
            for a in e.args:
                self.count(a)

    def code(self, e: Expr) -> Code:
        known = self.locals.get(e)
        if known is not None:
            return known
        code = self._code(e)
        repeated = self.counts[e] > 1 and e.args and e.number is None
        return self.bind(e, code) if repeated else code

    def bind(self, e: Expr, code: Code) -> Code:
        local = Code(f"t{len(self.bindings)}", code.type, atom=True)
        self.bindings.append(f"const {code.type} {local.text} = {code.text};")
        self.locals[e] = local
        return local

    def atom(self, e: Expr) -> Code:
        """Code of a tree that is going to be written more than once."""
        code = self.code(e)
        return code if code.atom and e.head == "name" else self.locals.get(e) or self.bind(e, code)

    # ---- kinds of nodes ----

    def _code(self, e: Expr) -> Code:
        if e.head == "num":
            return Code(literal(e.text), "R", atom=True)
        if e.head == "name":
            return self._name(e.text)
        if e.head == "isnone":
            return Code(f"!has_{e.args[0].text}", "bool")
        if e.head == "call":
            return self._call(e)
        if e.head == "where":
            condition = self.truth(self.code(e.args[0]))
            yes, no = self._common(self.code(e.args[1]), self.code(e.args[2]))
            return Code(
                f"math::where({condition.text}, {yes.text}, {no.text})", yes.type, atom=True
            )
        if e.head in ("and", "or", "not"):
            sides = [self.truth(self.code(a)) for a in e.args]
            if e.head == "not":
                return Code(f"!{sides[0]}", "bool")
            # No short circuit: it would be a branch inside the loop.
            return Code(f"{sides[0]} {'&' if e.head == 'and' else '|'} {sides[1]}", "bool")
        if e.head in COMPARISONS:
            left, right = self._common(*(self.code(a) for a in e.args))
            if e.head in ORDERS and self.class_ == "complex" and left.type == "T":
                self.functions.add((e.head, self.class_))  # refused by the schema's check
            return Code(f"{left} {e.head} {right}", "bool")
        if e.head == "**":
            return self._power(e)
        return self._arithmetic(e)

    def _name(self, text: str) -> Code:
        if text in self.types:
            return Code(variable(text), self.types[text], atom=True)
        value = expr.CONSTANTS[text]
        special = {"nan": "math::nan<R>", "inf": "math::infinity<R>"}
        return Code(special.get(text) or literal(repr(value)), "R", atom=True)

    def _call(self, e: Expr) -> Code:
        args = [self.code(a) for a in e.args]
        if "T" in {a.type for a in args} or self.class_ != "complex":
            args = [self.cast(a, "T") for a in args]
            type_ = "T"
        else:
            args = [self.cast(a, "R") for a in args]
            type_ = "R"
        if e.text in PREDICATES:
            type_ = "bool"
        elif e.text in REAL_VALUED and self.class_ == "complex":
            type_ = "R"
        return self._function(e.text, args, type_)

    def _function(self, name: str, args: list[Code], type_: str) -> Code:
        texts = [a.text for a in args]
        real = self.class_ == "complex" and "T" not in {a.type for a in args}
        self.functions.add((name, "float" if real else self.class_))
        if name in DIVISIONS and self.class_ in ("bool", "int"):
            self.divides = True
            texts.append("by_zero")
        if name == LIMITED:
            limits = (texts[1], texts[2])
            if limits not in self.limits:
                self.limits.append(limits)
            texts.append(f"outside{self.limits.index(limits)}")
        return Code(f"math::{name}({', '.join(texts)})", type_, atom=True)

    def _arithmetic(self, e: Expr) -> Code:
        args = [self.numeric(self.code(a)) for a in e.args]
        complex_ = self.class_ == "complex"
        type_ = "T" if "T" in {a.type for a in args} else "R"
        if e.head == "neg":
            return self._narrow(Code(f"-{args[0]}", type_))
        if e.head == "~":
            return Code(f"math::invert({args[0].text})", type_, atom=True)
        names = {"%": "remainder", "//": "floor_divide", "<<": "shift_left", ">>": "shift_right"}
        if e.head in names:
            return self._function(names[e.head], list(self._common(*args)), type_)
        left, right = args
        product, quotient = e.head == "*" and left.type == "T", e.head == "/"
        if complex_ and right.type == "T" and (product or quotient):
            # The compiler's own complex product and quotient call library functions.
            name = "mul" if product else "div"
            if product and e.args[0].head == "name" and e.args[0].text in self.numbers:
                name = "scale"
            return Code(f"math::{name}({left.text}, {right.text})", "T", atom=True)
        return self._narrow(Code(f"{left} {e.head} {right}", type_))

    def _narrow(self, code: Code) -> Code:
        """Small integers compute in int; the value wraps in the compute type."""
        if self.class_ in ("bool", "int"):
            return Code(f"{code.type}({code.text})", code.type, atom=True)
        return code

    def _power(self, e: Expr) -> Code:
        base, exponent = e.args
        n = exponent.number
        if n in (2, 3, 4):
            value = self.numeric(self.atom(base))
            square = self._product(value, value)
            if n == 2:
                return square
            other = value if n == 3 else square
            if n == 4:
                key = Expr("**", (base, Expr("num", (), "2")))
                square = other = self.locals.get(key) or self.bind(key, square)
            return self._product(square, other)
        if n == 0.5 and self.class_ in ("float", "complex"):
            root = self.code(base)
            return self._function("sqrt", [root], root.type)
        left, right = self.code(base), self.code(exponent)
        type_ = "T" if "T" in (left.type, right.type) else "R"
        left, right = self.cast(left, type_), self.cast(right, type_)
        return self._function("pow", [left, right], type_)

    def _product(self, a: Code, b: Code) -> Code:
        if self.class_ == "complex" and a.type == b.type == "T":
            return Code(f"math::mul({a.text}, {b.text})", "T", atom=True)
        return self._narrow(Code(f"{a} * {b}", a.type))

    # ---- types ----

    def truth(self, code: Code) -> Code:
        return code if code.type == "bool" else Code(f"math::truth({code.text})", "bool", atom=True)

    def numeric(self, code: Code) -> Code:
        return self.cast(code, "R") if code.type == "bool" and self.class_ != "bool" else code

    def cast(self, code: Code, type_: str) -> Code:
        if code.type == type_ or (self.class_ == "float" and {code.type, type_} == {"T", "R"}):
            return Code(code.text, type_, code.atom)
        return Code(f"{type_}({code.text})", type_, atom=True)

    def _common(self, a: Code, b: Code) -> tuple[Code, Code]:
        """Both in one type, for a choice or a comparison."""
        if a.type == b.type:
            return a, b
        type_ = "T" if "T" in (a.type, b.type) else "R"
        return self.cast(a, type_), self.cast(b, type_)
