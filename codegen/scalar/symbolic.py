"""Differentiation of scalar formulas.

Slopes are built with constructors that drop zeros and ones and fold numbers. What stands in the
forward formula is embedded as it is, so that it can be found again and replaced by the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping

from ..schema import expr
from ..schema.model import MathFunction
from .tree import COMPARISONS, Expr, call, from_formula, name, num

ZERO = num(0)
ONE = num(1)
GRAD = name("grad_output")
# Comparisons and logic have no slope, rounding up to a multiple neither.
_FLAT = frozenset(
    {*COMPARISONS, "and", "or", "not", "isnone", "//", "&", "|", "^", "~", "<<", ">>"}
)

_FOLDABLE: dict[str, Callable[..., float]] = {
    f: getattr(math, f)
    for f in [
        "exp",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "erf",
        "lgamma",
    ]
}


def is_zero(e: Expr) -> bool:
    return e.number == 0


def constant(e: Expr) -> float | None:
    """The value of a tree without variables, such as `2 / sqrt(pi)`."""
    if e.number is not None:
        return e.number
    if e.head == "name":
        return expr.CONSTANTS.get(e.text)
    values = [constant(a) for a in e.args]
    if not values or any(v is None for v in values):
        return None
    v = [float(value) for value in values if value is not None]
    try:
        match e.head:
            case "neg":
                return -v[0]
            case "+":
                return v[0] + v[1]
            case "-":
                return v[0] - v[1]
            case "*":
                return v[0] * v[1]
            case "/":
                return v[0] / v[1]
            case "**":
                return float(v[0] ** v[1])
            case "call" if e.text in _FOLDABLE:
                return _FOLDABLE[e.text](*v)
    except (ArithmeticError, ValueError):
        return None
    return None


def _fold(e: Expr) -> Expr:
    """A number for a tree of numbers; a lone name such as `pi` keeps its spelling."""
    value = constant(e) if e.args else None
    return e if value is None or not math.isfinite(value) else num(value)


def neg(a: Expr) -> Expr:
    if a.head == "neg":
        return a.args[0]
    if is_zero(a):
        return a
    if a.head == "-":
        return sub(a.args[1], a.args[0])
    return Expr("neg", (a,))


def add(a: Expr, b: Expr) -> Expr:
    if is_zero(a):
        return b
    if is_zero(b):
        return a
    if b.head == "neg":
        return sub(a, b.args[0])
    if a.head == "neg":
        return sub(b, a.args[0])
    return _fold(Expr("+", (a, b)))


def sub(a: Expr, b: Expr) -> Expr:
    if is_zero(b):
        return a
    if is_zero(a):
        return neg(b)
    if b.head == "neg":
        return add(a, b.args[0])
    if a == b:
        return ZERO
    if b.head == "-" and b.args[0] == a:
        return b.args[1]
    if b.number is not None and a.head == "-" and a.args[1].number is not None:
        return sub(a.args[0], num(a.args[1].number + b.number))
    return _fold(Expr("-", (a, b)))


def mul(a: Expr, b: Expr) -> Expr:
    if is_zero(a) or is_zero(b):
        return ZERO
    if a.number == 1:
        return b
    if b.number == 1:
        return a
    if a.head == "neg" and b.head == "neg":
        return mul(a.args[0], b.args[0])
    if a.head == "neg":
        return neg(mul(a.args[0], b))
    if b.head == "neg":
        return neg(mul(a, b.args[0]))
    if b.number is not None and a.number is None:
        return mul(b, a)
    if a.number is not None and b.head == "*" and b.args[0].number is not None:
        return mul(num(a.number * b.args[0].number), b.args[1])
    if b.head == "/" and b.args[0].number == 1:
        return div(a, b.args[1])
    if a.head == "/" and a.args[0].number == 1:
        return div(b, a.args[1])
    for one, other in ((a, b), (b, a)):
        if one.head == "where" and (is_zero(one.args[1]) or is_zero(one.args[2])):
            return where(one.args[0], mul(one.args[1], other), mul(one.args[2], other))
    return _fold(Expr("*", (a, b)))


def div(a: Expr, b: Expr) -> Expr:
    if is_zero(a) or b.number == 1:
        return a
    if a.head == "neg":
        return neg(div(a.args[0], b))
    if b.head == "neg":
        return neg(div(a, b.args[0]))
    return _fold(Expr("/", (a, b)))


def power(a: Expr, b: Expr) -> Expr:
    if b.number == 0:
        return ONE
    if b.number == 1:
        return a
    return _fold(Expr("**", (a, b)))


def where(c: Expr, a: Expr, b: Expr) -> Expr:
    known = _known_condition(c)
    if known is not None:
        return a if known else b
    # A choice that was made is not made again.
    a = a.args[1] if a.head == "where" and a.args[0] == c else a
    b = b.args[2] if b.head == "where" and b.args[0] == c else b
    return a if a == b else Expr("where", (c, a, b))


def _known_condition(c: Expr) -> bool | None:
    """The truth of a condition between numbers, as `2 == 0`."""
    if c.head == "and" or c.head == "or":
        sides = [_known_condition(a) for a in c.args]
        decisive = c.head == "or"
        if decisive in sides:
            return decisive
        return None if None in sides else not decisive
    if c.head not in COMPARISONS:
        return None
    left, right = (constant(a) for a in c.args)
    if left is None or right is None:
        return None
    tests: dict[str, bool] = {"==": left == right, "!=": left != right, "<": left < right}
    tests |= {"<=": left <= right, ">": left > right, ">=": left >= right}
    return tests[c.head]


def rebuild(e: Expr, values: Mapping[str, Expr]) -> Expr:
    """A formula with its names replaced by given trees, simplified around them only."""
    if e.head == "name":
        return values.get(e.text, e)
    args = [rebuild(a, values) for a in e.args]
    makers: dict[str, Callable[..., Expr]] = {
        "+": add,
        "-": sub,
        "*": mul,
        "/": div,
        "**": power,
        "neg": neg,
        "where": where,
    }
    if e.head in makers:
        return makers[e.head](*args)
    return _fold(Expr(e.head, tuple(args), e.text))


def _mul0(factor: Expr, other: Expr) -> Expr:
    """A product whose first factor is zero wherever that is, a number times something finite."""
    if factor.number is not None or other.number is not None:
        return mul(factor, other)
    return (
        neg(_mul0(factor.args[0], other)) if factor.head == "neg" else call("mul0", factor, other)
    )


class NoDerivative(Exception):
    """The formula uses something that has no stated derivative."""


class Calculus:
    """Derivatives by the rules of the `math:` records."""

    def __init__(self, functions: Iterable[MathFunction]) -> None:
        self.functions = {f.name: f for f in functions}
        self._rules = {
            f.name: [None if d is None else from_formula(d) for d in f.derivatives]
            for f in self.functions.values()
        }

    def slope(self, e: Expr, variable: str) -> Expr:
        """d e / d variable."""
        if e.head == "name":
            return ONE if e.text == variable else ZERO
        if variable not in e.names() or e.head in _FLAT:
            return ZERO
        a = e.args
        match e.head:
            case "neg":
                return neg(self.slope(a[0], variable))
            case "+":
                return add(self.slope(a[0], variable), self.slope(a[1], variable))
            case "-":
                return sub(self.slope(a[0], variable), self.slope(a[1], variable))
            case "*":
                left = mul(self.slope(a[0], variable), a[1])
                return add(left, mul(a[0], self.slope(a[1], variable)))
            case "/":
                # (a / b)' = a' / b - (a / b) / b * b': the quotient is often the result itself.
                right = mul(div(e, a[1]), self.slope(a[1], variable))
                return sub(div(self.slope(a[0], variable), a[1]), right)
            case "%":
                floor = Expr("//", a)
                right = mul(floor, self.slope(a[1], variable))
                return sub(self.slope(a[0], variable), right)
            case "**":
                return self._power(e, variable)
            case "where":
                return where(a[0], self.slope(a[1], variable), self.slope(a[2], variable))
            case "call":
                return self._call(e, variable)
        raise NoDerivative(f"'{e.head}' has no derivative")

    def _power(self, e: Expr, variable: str) -> Expr:
        base, exponent = e.args
        value = constant(exponent)
        if value is None:
            return self.slope(call("pow", base, exponent), variable)
        inner = self.slope(base, variable)
        return mul(mul(num(value), power(base, num(value - 1))), inner)

    def _call(self, e: Expr, variable: str) -> Expr:
        function = self.functions.get(e.text)
        if function is None:
            raise NoDerivative(f"{e.text}() has no 'math:' record")
        if e.text == "mul0":  # a zero stays one in each order
            factor, other = e.args
            left, right = self.slope(factor, variable), self.slope(other, variable)
            return add(_mul0(left, other), _mul0(factor, right))
        values = dict(zip(function.arguments, e.args, strict=True))
        total = ZERO
        for rule, argument in zip(self._rules[e.text], e.args, strict=True):
            inner = self.slope(argument, variable)
            if rule is not None and not is_zero(inner):
                total = add(total, mul(rebuild(rule, values), inner))
        return total

    def holomorphic(self, e: Expr) -> bool:
        """Whether the rules hold for complex arguments too; conditions may be real."""
        if e.head in _FLAT:
            return True
        if e.head == "call" and e.text in self.functions and not self.functions[e.text].holomorphic:
            return False
        return all(self.holomorphic(a) for a in e.args)


def pull(grad: Expr, slope: Expr, *, conj: bool, plain: Collection[str] = ()) -> Expr:
    """The gradient term `grad * conj(slope)` in which a zero gradient stays zero.

    Slopes made of numbers and of the names in `plain` are finite and multiply directly.
    """
    if is_zero(slope):
        return ZERO
    if slope.number is not None:
        return _scaled(grad, slope)
    if slope.head == "neg":
        return neg(pull(grad, slope.args[0], conj=conj, plain=plain))
    if slope.head == "where":
        c, a, b = slope.args
        return where(
            c, pull(grad, a, conj=conj, plain=plain), pull(grad, b, conj=conj, plain=plain)
        )
    real = slope.names() <= set(expr.CONSTANTS) and not slope.functions()
    factor = call("conj", slope) if conj and not real else slope
    if slope.names() <= set(plain) | set(expr.CONSTANTS) and slope.head in ("name", "num"):
        return Expr("*", (grad, factor))
    return call("mul0", grad, factor)


def _scaled(grad: Expr, factor: Expr) -> Expr:
    if factor.number == 1:
        return grad
    if factor.number == -1:
        return neg(grad)
    return Expr("*", (grad, factor))


def coefficient(e: Expr, grad: str) -> Expr | None:
    """c such that e == grad * conj(c), for a formula that is linear in `grad`; else None."""
    if e.head == "name":
        return ONE if e.text == grad else None
    a = e.args
    if is_zero(e):
        return ZERO
    match e.head:
        case "neg":
            inner = coefficient(a[0], grad)
            return None if inner is None else neg(inner)
        case "+" | "-":
            left, right = coefficient(a[0], grad), coefficient(a[1], grad)
            if left is None or right is None:
                return None
            return add(left, right) if e.head == "+" else sub(left, right)
        case "where" if grad not in a[0].names():
            yes, no = coefficient(a[1], grad), coefficient(a[2], grad)
            return None if yes is None or no is None else where(a[0], yes, no)
    product = e.head == "*" or (e.head == "call" and e.text == "mul0")
    if product or e.head == "/":
        for one, other in ((a[0], a[1]), (a[1], a[0])) if product else ((a[0], a[1]),):
            if grad not in other.names():
                inner = coefficient(one, grad)
                if inner is None:
                    return None
                other = without_conj(other)
                return mul(inner, other) if product else div(inner, other)
    return None


def without_conj(e: Expr) -> Expr:
    return e.map(
        lambda n: without_conj(n.args[0]) if n.head == "call" and n.text == "conj" else None
    )


def reuse_result(slope: Expr, results: Mapping[str, Expr], tensors: Collection[str]) -> Expr:
    """Replace whole forward formulas in a slope by the operator's outputs where no input is needed
    beside them: then inputs may be written to, and without that, the outputs."""
    replaced = slope
    for output, formula in results.items():
        if formula.args:
            replaced = replaced.map(
                lambda e, f=formula, o=output: name(o) if e == f else None  # type: ignore[misc]
            )
    return slope if replaced.names() & set(tensors) else replaced
