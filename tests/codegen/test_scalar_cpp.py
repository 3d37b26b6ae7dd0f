"""C++ text of scalar formulas for each class of compute types."""

from __future__ import annotations

import ast

import pytest

from codegen.scalar.cpp import emit, literal, variable
from codegen.scalar.tree import from_ast

CASES = [
    # formula, class, statements, value
    ("x + y", "float", [], "x + y"),
    ("x + y", "int", [], "T(x + y)"),
    ("x - y * x", "float", [], "x - (y * x)"),
    ("x * y", "complex", [], "math::mul(x, y)"),
    ("x / y", "complex", [], "math::div(x, y)"),
    ("2 * x", "complex", [], "R(2) * x"),
    ("x % y", "float", [], "math::remainder(x, y)"),
    ("x // y", "int", [], "math::floor_divide(x, y, by_zero)"),
    ("x << y", "int", [], "math::shift_left(x, y)"),
    ("~x", "int", [], "math::invert(x)"),
    ("-x", "float", [], "-x"),
    ("x ** 2", "float", [], "x * x"),
    ("x ** 3", "float", [], "(x * x) * x"),
    ("x ** 4", "float", ["const T t0 = x * x;"], "t0 * t0"),
    ("x ** 2", "complex", [], "math::mul(x, x)"),
    ("x ** 0.5", "float", [], "math::sqrt(x)"),
    ("x ** y", "float", [], "math::pow(x, y)"),
    ("exp(x)", "float", [], "math::exp(x)"),
    ("abs(x)", "complex", [], "math::abs(x)"),
    ("isnan(x)", "complex", [], "math::isnan(x)"),
    ("x < y", "float", [], "x < y"),
    ("0 < x < y", "float", [], "(R(0) < x) & (x < y)"),
    ("not x", "int", [], "!math::truth(x)"),
    ("x and y", "float", [], "math::truth(x) & math::truth(y)"),
    ("where(x > 0, x, 0)", "float", [], "math::where(x > R(0), x, R(0))"),
    ("x if m else y", "float", [], "math::where(m, x, y)"),
    ("x if o is None else x * o", "float", [], "math::where(!has_o, x, x * o)"),
    ("exp(x) * exp(x)", "float", ["const T t0 = math::exp(x);"], "t0 * t0"),
    ("x + inf", "float", [], "x + math::infinity<R>"),
    ("x + nan", "float", [], "x + math::nan<R>"),
    ("x * pi", "float", [], "x * R(3.141592653589793)"),
    ("(x == 0) * 2", "float", [], "R(x == R(0)) * R(2)"),
]
TYPES = {"x": "T", "y": "T", "m": "bool", "o": "T"}


@pytest.mark.parametrize(("text", "class_", "bindings", "value"), CASES)
def test_emit(text: str, class_: str, bindings: list[str], value: str) -> None:
    body = emit(from_ast(ast.parse(text, mode="eval").body), class_, TYPES)
    assert (body.bindings, body.value) == (bindings, value)


def test_literals() -> None:
    """Numbers keep 17 digits: exact for double, rounded once for float."""
    assert literal("2") == "R(2)"
    assert literal("0.1") == "R(0.1)"
    assert literal("12345678901") == "R(12345678901.0)"
    assert float(literal("0.3183098861837907")[2:-1]) == 0.3183098861837907


def test_names_that_cpp_keeps_for_itself() -> None:
    names = ("self", "n", "out", "t0", "t")
    assert [variable(n) for n in names] == ["self", "n_", "out_", "t0_", "t"]
