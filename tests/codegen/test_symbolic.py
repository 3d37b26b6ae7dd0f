"""Derivatives of the scalar vocabulary against mpmath's numerical ones, at random points."""

from __future__ import annotations

import ast
import itertools
import operator
import random
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import pytest
from mpmath import mpf

from codegen.__main__ import ROOT, load
from codegen.scalar.symbolic import ONE, ZERO, Calculus, NoDerivative, pull
from codegen.scalar.tree import Expr, call, from_ast, name
from codegen.schema import expr
from codegen.schema.model import MathFunction

SCHEMA = load(ROOT / "ops.yaml")
CALCULUS = Calculus(SCHEMA.math)


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mpmath.workdps(40):
        yield


def sign(x: Any) -> Any:
    return mpmath.sign(x)


def fmod(x: Any, y: Any) -> Any:
    return x - y * trunc(x / y)


def trunc(x: Any) -> Any:
    return mpmath.floor(x) if x >= 0 else mpmath.ceil(x)


def bessel(n: int, scaled: bool = False) -> Callable[[Any], Any]:
    return lambda x: mpmath.besseli(n, x) * (mpmath.exp(-abs(x)) if scaled else 1)


def order_of(f: Callable[[Any], Any], n: Any, x: Any) -> Any:
    return mpmath.diff(f, x, int(n)) if n else f(x)


def erfcx_integral(n: int, x: Any) -> Any:
    """By repeated integration, which lowers n from order to order (DLMF 7.18.7)."""
    below, value = 2 / mpmath.sqrt(mpmath.pi), mpmath.exp(x * x) * mpmath.erfc(x)
    for k in range(1, n + 1):
        below, value = value, (below - 2 * x * value) / (2 * k)
    return value


def gamma_log_slope(a: Any, y: Any) -> Any:
    x = mpmath.exp(y)
    change = mpmath.diff(lambda t: mpmath.gammainc(t, 0, x, regularized=True), a)
    return -change / mpmath.exp(a * y - x - mpmath.loggamma(a))


SAME_NAME = (
    "exp expm1 log log1p sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2"
    " hypot erf erfc erfinv digamma floor ceil frac conj sec sech"
).split()
ORACLE: dict[str, Callable[..., Any]] = {
    **{n: getattr(mpmath, n) for n in SAME_NAME},
    "exp2": lambda x: mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
    "log10": mpmath.log10,
    "normal_cdf": mpmath.ncdf,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "pow": lambda x, y: x**y,
    "power_term": lambda c, x, y: c * x**y,
    "lgamma": mpmath.loggamma,
    "polygamma": lambda n, x: mpmath.polygamma(int(n), x),
    "i0": bessel(0),
    "i1": bessel(1),
    "i0e": bessel(0, scaled=True),
    "i1e": bessel(1, scaled=True),
    "sinc": lambda x: mpmath.sincpi(x),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "logit": lambda x: mpmath.log(x / (1 - x)),
    "log1pexp": lambda x: mpmath.log(1 + mpmath.exp(x)),
    "logaddexp": lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)),
    "logaddexp2": lambda x, y: mpmath.log(mpf(2) ** x + mpf(2) ** y, 2),
    "xlogy": lambda x, y: x * mpmath.log(y),
    "xlog1py": lambda x, y: x * mpmath.log(1 + y),
    "mul0": operator.mul,
    "trunc": trunc,
    "round": mpmath.nint,
    "fmod": fmod,
    "remainder": lambda x, y: x - y * mpmath.floor(x / y),
    "floor_divide": lambda x, y: mpmath.floor(x / y),
    "trunc_divide": lambda x, y: trunc(x / y),
    "maximum": max,
    "minimum": min,
    "fmax": max,
    "fmin": min,
    "within": lambda x, low, high: x,
    "copysign": lambda x, y: abs(x) * sign(y),
    "ldexp": lambda x, y: x * mpf(2) ** y,
    "sigmoid_slope": lambda x: 1 / (2 + mpmath.exp(x) + mpmath.exp(-x)),
    "gauss": lambda x, scale: mpmath.exp(-scale * x * x),
    "one_minus_square": lambda x: 1 - x * x,
    "sqrt_one_minus_square": lambda x: mpmath.sqrt(1 - x * x),
    "atan_slope": lambda x: 1 / (1 + x * x),
    "asinh_slope": lambda x: 1 / mpmath.sqrt(1 + x * x),
    "acosh_slope": lambda x: 1 / (mpmath.sqrt(x - 1) * mpmath.sqrt(x + 1)),
    "hypot_slope": lambda x, y: x / mpmath.hypot(x, y),
    "atan2_slope": lambda y, x: x / (x * x + y * y),
    "tanhshrink": lambda x: x - mpmath.tanh(x),
    "erfinv_slope": lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(mpmath.erfinv(x) ** 2),
    "sinc_slope": lambda n, x: order_of(mpmath.sincpi, n, x),
    "bessel_i": lambda n, x: mpmath.besseli(n, x),
    "bessel_ie": lambda n, order, x: order_of(
        lambda t: mpmath.besseli(n, t) * mpmath.exp(-t), order, abs(x)
    ),
    "zeta": lambda x, q: mpmath.zeta(x, q),
    "erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
    "erfcx_integral": lambda n, x: erfcx_integral(int(n), x),
    "ndtri": lambda x: mpmath.sqrt(2) * mpmath.erfinv(2 * x - 1),
    "ndtri_slope": lambda x: mpmath.sqrt(2 * mpmath.pi) * mpmath.exp(mpmath.erfinv(2 * x - 1) ** 2),
    "log_ndtr": lambda x: mpmath.log(mpmath.ncdf(x)),
    "gammainc": lambda a, x: mpmath.gammainc(a, 0, x, regularized=True),
    "gammaincc": lambda a, x: mpmath.gammainc(a, x, regularized=True),
    "gamma_density": lambda a, x: x ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a),
    "gamma_log_slope": gamma_log_slope,
    "abs": abs,
    "sign": sign,
    "sgn": sign,
    "angle": lambda x: mpmath.arg(x),
    "real": lambda x: x,
    "imag": lambda x: mpf(0),
}
# Values of integers or truth values: nothing to differentiate, and the schema says `zero`.
FLAT = frozenset(
    "nextafter gcd lcm isnan isinf isfinite isposinf isneginf signbit binary_exponent".split()
)
# Words whose slopes the vocabulary does not have: NaN stands for them, and operators refuse.
WITHOUT = frozenset(
    "bessel_j0 bessel_j1 bessel_y0 bessel_y1 bessel_k0 bessel_k1 bessel_k0e bessel_k1e airy_ai"
    " chebyshev_t chebyshev_u chebyshev_v chebyshev_w shifted_chebyshev_t shifted_chebyshev_u"
    " shifted_chebyshev_v shifted_chebyshev_w hermite_h hermite_he laguerre_l legendre_p".split()
)
# Words whose slope by the first argument has none itself: NaN stands for it.
ONCE = frozenset("gammainc gammaincc gamma_log_slope".split())
# Arguments that count: nothing to differentiate either.
ORDERS = frozenset(("n", "order"))
# Where the arguments are drawn from, when not from (0.2, 0.9).
DOMAIN: dict[str, tuple[tuple[float, float], ...]] = {
    "acosh": ((1.2, 3),),
    "acosh_slope": ((1.2, 3),),
    "fmod": ((2, 5), (0.8, 1.4)),
    "remainder": ((-5, -2), (0.8, 1.4)),
    "floor_divide": ((2, 5), (0.8, 1.4)),
    "trunc_divide": ((2, 5), (0.8, 1.4)),
    "copysign": ((-2, -0.5), (0.5, 2)),
    "i0": ((-2, 2),),
    "i1": ((-2, 2),),
    "i0e": ((-2, 2),),
    "i1e": ((-2, 2),),
    "sgn": ((-2, -0.5),),
    "abs": ((-2, -0.5),),
    "lgamma": ((0.5, 4),),
    "digamma": ((0.5, 4),),
    "atan2": ((-2, 2), (-2, 2)),
    "sigmoid": ((-4, 4),),
    "log1pexp": ((-4, 4),),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "//": lambda x, y: mpmath.floor(x / y),
    "%": lambda x, y: x - y * mpmath.floor(x / y),
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "and": lambda x, y: bool(x) and bool(y),
    "or": lambda x, y: bool(x) or bool(y),
}


def evaluate(e: Expr, values: dict[str, Any]) -> Any:
    """The value of a tree in mpmath's arithmetic."""
    match e.head:
        case "num":
            return mpf(e.text)
        case "name":
            exact = {"pi": mpmath.pi, "e": mpmath.e, "M_LN2": mpmath.ln2, "M_LN10": mpmath.ln10}
            exact["M_2_SQRTPI"] = 2 / mpmath.sqrt(mpmath.pi)
            exact["M_1_SQRT2PI"] = 1 / mpmath.sqrt(2 * mpmath.pi)
            known = exact.get(e.text)
            return values[e.text] if e.text in values else known or mpf(expr.CONSTANTS[e.text])
        case "neg":
            return -evaluate(e.args[0], values)
        case "not":
            return not evaluate(e.args[0], values)
        case "where":
            return evaluate(e.args[1 if evaluate(e.args[0], values) else 2], values)
        case "call" if e.text in ("isnan", "isinf"):
            return getattr(mpmath, e.text)(evaluate(e.args[0], values))
        case "call":
            return ORACLE[e.text](*(evaluate(a, values) for a in e.args))
    return BINARY[e.head](*(evaluate(a, values) for a in e.args))


def points(function: MathFunction, count: int = 4) -> list[dict[str, Any]]:
    rng = random.Random(function.name)
    domain = DOMAIN.get(function.name, ((0.2, 0.9),) * len(function.arguments))
    found = []
    for _ in range(count):
        drawn = [mpf(rng.uniform(*bounds)) for bounds in domain[: len(function.arguments)]]
        found.append(dict(zip(function.arguments, drawn, strict=False)))
        for counted in ORDERS & set(function.arguments):
            found[-1] |= {counted: mpf(rng.randint(1, 2)), "x": mpf(rng.uniform(0.5, 2))}
    return found


def test_every_word_has_an_oracle() -> None:
    """A new word of the vocabulary comes with its value in ORACLE here."""
    words = {f.name for f in SCHEMA.math}
    assert words <= set(ORACLE) | FLAT | WITHOUT
    # Tables name no word that is gone: what they said of it would go unsaid of its successor.
    assert {*DOMAIN, *SMOOTH} | FLAT | WITHOUT | ONCE <= words


@pytest.mark.parametrize("function", SCHEMA.math, ids=lambda f: f.name)
def test_first_and_second_order(function: MathFunction) -> None:
    whole = call(function.name, *(name(a) for a in function.arguments))
    for variable in function.arguments:
        slope = CALCULUS.slope(whole, variable)
        if function.name in FLAT or variable in ORDERS:
            assert slope == ZERO
            continue
        if function.name in WITHOUT:
            assert str(slope) == "nan"
            continue
        for at in points(function):

            def value(x: Any, at: dict[str, Any] = at, variable: str = variable) -> Any:
                return ORACLE[function.name](*({**at, variable: x}[a] for a in function.arguments))

            if (function.name, variable) in (("gamma_log_slope", "a"), ("zeta", "x")):
                assert mpmath.isnan(evaluate(slope, at))
                continue
            got = evaluate(slope, at)
            assert mpmath.almosteq(got, mpmath.diff(value, at[variable]), 1e-12, 1e-12), at
            try:
                second = CALCULUS.slope(slope, variable)
            except NoDerivative as error:
                pytest.fail(f"no second derivative: {error}")
            if function.name in ONCE and variable == "a":
                assert mpmath.isnan(evaluate(second, at))
                continue
            want = mpmath.diff(value, at[variable], 2)
            assert mpmath.almosteq(evaluate(second, at), want, 1e-9, 1e-9), at


# Points at which a function is smooth and its textbook derivative is not defined, or has a branch.
SMOOTH = {
    "sinc": ({"x": 0},),
    "i1": ({"x": 0},),
    "i0": ({"x": 0},),
    "tanhshrink": ({"x": 0},),
    "sech": ({"x": 0},),
    "erfinv": ({"x": 0},),
    "sigmoid": ({"x": 0},),
    "logit": ({"x": mpf(1) / 2}, {"x": mpf(1) / 4}),
    "logaddexp": ({"x": 0, "y": 0}, {"x": 3, "y": 3}),
    "logaddexp2": ({"x": 0, "y": 0}, {"x": -2, "y": -2}),
    "pow": ({"x": 2, "y": 0}, {"x": 2, "y": 1}, {"x": mpf(1) / 3, "y": 2}),
    "hypot": ({"x": 0, "y": 2}, {"x": 2, "y": 0}),
    "atan2": ({"x": 0, "y": 2}, {"x": 2, "y": 0}),
    "xlogy": ({"x": 0, "y": 2}, {"x": 2, "y": 1}),
    "xlog1py": ({"x": 0, "y": 2}, {"x": 2, "y": 0}),
    "copysign": ({"x": 2, "y": -3}, {"x": -2, "y": 3}),
    "ldexp": ({"x": 0, "y": 2}, {"x": 2, "y": 0}),
}


def partial(f: Callable[..., Any], order: dict[str, int], at: dict[str, Any]) -> Any:
    """A mixed derivative of a function, by a derivative of derivatives."""
    for variable, n in order.items():
        if n:
            rest = {**order, variable: 0}

            def along(v: Any, variable: str = variable, rest: dict[str, int] = rest) -> Any:
                return partial(f, rest, {**at, variable: v})

            return mpmath.diff(along, at[variable], n)
    return f(**at)


@pytest.mark.parametrize(
    "function", [f for f in SCHEMA.math if f.name in SMOOTH], ids=lambda f: f.name
)
def test_branches_are_limits(function: MathFunction) -> None:
    """Derivatives to the third order, mixed ones too, where formulas choose and beside."""
    whole = call(function.name, *(name(a) for a in function.arguments))
    for order in itertools.product(range(4), repeat=len(function.arguments)):
        if not 0 < sum(order) <= 3:
            continue
        counts = list(zip(function.arguments, order, strict=True))
        slopes = []  # one argument after the other, and the other way round
        for way in (counts, counts[::-1]):
            slope = whole
            for variable, n in way:
                for _ in range(n):
                    slope = CALCULUS.slope(slope, variable)
            slopes.append(slope)
        for at in SMOOTH[function.name]:
            for step in (0, mpf("1e-6"), mpf("-1e-3")):
                here = {a: mpf(v) + step * (i + 1) for i, (a, v) in enumerate(at.items())}

                def value(**given: Any) -> Any:
                    return ORACLE[function.name](*(given[a] for a in function.arguments))

                with mpmath.workdps(60):
                    want = partial(value, dict(counts), here)
                    for slope in slopes:
                        got = evaluate(slope, here)
                        assert mpmath.almosteq(got, want, 1e-12, 1e-12), (order, here, str(slope))


FORMULAS = [
    "x * y + x / y - x ** 3",
    "(x + y) ** y",
    "exp(-x * x) / (1 + y)",
    "where(x > y, x * y, x / y) % 0.7",
    "tanh(x * y) * sigmoid(x) - log1p(x ** 2)",
    "0.5 * x * (1 + erf(x * M_SQRT1_2))",
    "x // y + x",
    "x if x < 0.5 and y > 0 else y ** 2 * x",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas(text: str) -> None:
    """Sums, products, quotients, powers, conditions: first and mixed second derivatives."""
    tree = from_ast(ast.parse(text, mode="eval").body)
    rng = random.Random(text)
    for _ in range(5):
        at = {"x": mpf(rng.uniform(0.2, 2)), "y": mpf(rng.uniform(0.3, 2))}

        def value(x: Any, y: Any) -> Any:
            return evaluate(tree, {"x": x, "y": y})

        for variable, order in (("x", (1, 0)), ("y", (0, 1))):
            slope = CALCULUS.slope(tree, variable)
            want = mpmath.diff(value, (at["x"], at["y"]), order)
            assert mpmath.almosteq(evaluate(slope, at), want, 1e-10, 1e-10)
            mixed = CALCULUS.slope(slope, "y")
            want = mpmath.diff(value, (at["x"], at["y"]), (order[0], order[1] + 1))
            assert mpmath.almosteq(evaluate(mixed, at), want, 1e-7, 1e-7)


def test_zero_gradient_stays_zero() -> None:
    """The gradient term of a formula has `mul0` around every slope that may be infinite."""
    grad = name("grad_output")
    slope = CALCULUS.slope(call("sqrt", name("x")), "x")
    assert str(pull(grad, slope, conj=False)) == "mul0(grad_output, 0.5 / sqrt(x))"
    assert str(pull(grad, slope, conj=True)) == "mul0(grad_output, conj(0.5 / sqrt(x)))"
    assert pull(grad, ONE, conj=True) == grad
    assert pull(grad, ZERO, conj=True) == ZERO


def test_unknown_function() -> None:
    with pytest.raises(NoDerivative, match=r"nosuch\(\) has no 'math:' record"):
        CALCULUS.slope(call("nosuch", name("x")), "x")
