"""The pieces that translate tensor formulas, each by itself; the C++ is written by hand."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from schemas import BASE, composite

from codegen.__main__ import load
from codegen.scalar.tree import from_formula
from codegen.schema import expr
from codegen.schema.model import Location, Schema, Type
from codegen.schema.signature import parse
from codegen.tensor.calls import pair
from codegen.tensor.compose import Translator
from codegen.tensor.facts import facts_of, names_used
from codegen.tensor.scope import TranslationError
from codegen.tensor.tensor_form import tensor_form
from codegen.tensor.values import (
    BOOL,
    FLOAT,
    INT,
    INTS,
    NONE,
    SCALAR,
    TENSOR,
    Value,
    argument_values,
    common,
    convert,
    fits,
    list_of,
)

OPTIONAL_INT, OPTIONAL_TENSOR = Type("int", optional=True), Type("Tensor", optional=True)
PAIR = Type("int", list_size=2)
X = Value("x", TENSOR)
HERE = Location("ops.yaml", 1, 1)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    path = tmp_path_factory.mktemp("schema") / "ops.yaml"
    path.write_text(composite("self") + BASE, encoding="utf-8")
    return load(path)


VARIABLES = {
    "x": X,
    "n": Value("n", INT),
    "s": Value("s", SCALAR),
    "dims": Value("dims", INTS),
    "maybe": Value("maybe", OPTIONAL_INT),
    "word": Value("word", Type("str")),
}
EXPRESSIONS = {
    "x + 1": "ops::add(x, wrapped_number(Scalar(int64_t{1})), Scalar(int64_t{1}))",
    "x.sum([1], keepdim=True)": "ops::sum(x, std::optional<IntList>(IntList(DimVector"
    "{int64_t{1}})), true)",
    "-x": "ops::neg(x)",
    "n // 2 + 1": "checked_add(floor_div(n, int64_t{2}), int64_t{1})",
    "-n * 2 - abs(n)": "checked_sub(checked_mul(checked_neg(n), int64_t{2}), checked_abs(n))",
    "int(s) + int(n)": "checked_add(to_int(s), int64_t(n))",
    "n / 2": "(double(n) / double(int64_t{2}))",
    "s * 2": "scalar_mul(s, int64_t{2})",
    "maybe is None": "!maybe.has_value()",
    "maybe + 1": "checked_add(maybe.value(), int64_t{1})",
    "word in ['a', 'b']": '(word == std::string_view("a") || word == std::string_view("b"))',
    "dims[0]": "list_item(dims, int64_t{0})",
    "dims[1:]": "slice_list<DimVector>(dims, int64_t{1}, std::numeric_limits<int64_t>::max())",
    "dims + [n]": "join<DimVector>(dims, DimVector{n})",
    "x.shape": "x.sizes()",
    "x.size(n)": "x.size(n)",
    "max(n, 3)": "std::max<int64_t>(n, int64_t{3})",
    "2.5 if n else 1": "((n != 0) ? double(2.5) : double(double(int64_t{1})))",
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression(text: str, small: Schema) -> None:
    translator = Translator(small, small.operator("new"), VARIABLES)
    formula = expr.parse(text, HERE)
    assert translator.expression(formula).code == EXPRESSIONS[text]


CHECKS = """\
  checks:
    plain: {require: dim > 0, error: too few}
    shown:
      require: dim > 0
      error: "{dim} of {self.dtype}, self is {self.shape}"
      raises: TypeError
    called: apart(self, n=dim + 1)
- rule: apart(Tensor self, Tensor? other=None, int? n=None) -> ()
"""


def test_checks(tmp_path: Path) -> None:
    path = tmp_path / "ops.yaml"
    path.write_text(composite("self") + CHECKS + BASE, encoding="utf-8")
    schema = load(path)
    op = schema.operator("new")
    translator = Translator(schema, op, argument_values(op))
    assert [translator.check(c) for c in op.checks] == [
        'FACULA_CHECK((dim > int64_t{0}), Value, Operator{"new", "dim"}, "too few");',
        'FACULA_CHECK((dim > int64_t{0}), Type, Operator{"new", "dim"}, dim, " of ", '
        'dtype_name(self.dtype()), ", self is ", shape_string(self.sizes()));',
        'shape::apart(Called{"new", {"self", "", "dim + 1"}}, self, {}, '
        "checked_add(dim, int64_t{1}));",
    ]


RAISES = {
    "self.ndim > 2": 'Shape, Operator{"new", "self"}',
    "self.dtype != int64": 'Dtype, Operator{"new", "self"}',
    "self.size(dim) > dim": 'Shape, Operator{"new"}',
    "dim > 2": 'Runtime, Operator{"new", "dim"}',
    "self.ndim > 2 and self.dtype == bool": 'Runtime, Operator{"new", "self"}',
}


@pytest.mark.parametrize("condition", RAISES)
def test_a_condition_says_what_kind_of_error_it_is(condition: str, tmp_path: Path) -> None:
    """Also after an inner `if`, and not beyond the end of its own."""
    text = f"""|
    if {condition}:
        if dim == 7:
            dim = 8
        raise RuntimeError("no")
    if dim == 3:
        return self
    raise ValueError("never")
"""
    path = tmp_path / "ops.yaml"
    path.write_text(composite(text) + BASE, encoding="utf-8")
    op = load(path).operator("new")
    assert op.composite is not None
    translator = Translator(load(path), op, argument_values(op))
    lines = translator.program(op.composite, (TENSOR,))
    raised = [line for line in lines if line.startswith("raise(")]
    assert raised[0] == f'raise(ErrorKind::{RAISES[condition]}, std::string_view("no"));'
    assert raised[1] == 'raise(ErrorKind::Value, Operator{"new"}, std::string_view("never"));'


def test_a_formula_leaves_the_next_alone(small: Schema) -> None:
    """Names that a program declares are its own."""
    translator = Translator(small, small.operator("new"), VARIABLES)
    program = expr.parse("y = x + x\nreturn y", HERE, program=True)
    assert translator.program(program, (TENSOR,)) == [
        "Tensor y_v{};",
        "y_v = ops::add(x, x, Scalar(int64_t{1}));",
        "return y_v;",
    ]
    with pytest.raises(TranslationError, match="unknown name 'y'"):
        translator.expression(expr.parse("y", HERE))


def test_facts_keep_no_tensor() -> None:
    def facts(text: str) -> tuple[bool, set[str]]:
        return facts_of(ast.parse(text), "x")

    assert facts("f(x.shape, x.dtype)") == (False, {"shape", "dtype"})
    assert facts("x.size(n) + x.numel() + x.dim()") == (False, {"shape", "ndim"})
    assert facts("x.is_complex()") == (False, {"dtype"})
    assert facts("f(x, x.shape)") == (True, {"shape"})
    assert facts("x.exp()") == (True, set())
    assert facts("x.is_contiguous()") == (False, {"is_contiguous"})
    assert facts("y.shape") == (False, set())


def test_names_used_without_parts() -> None:
    tree = ast.parse("f(a, g(b, c)) + b")
    call = next(n for n in ast.walk(tree) if isinstance(n, ast.Call) and len(n.args) == 2)
    inner = call.args[1]
    assert names_used(tree) == {"f", "a", "g", "b", "c"}
    assert names_used(tree, [inner]) == {"f", "a", "b"}


def test_fits() -> None:
    one, none = Value("1", INT), Value("{}", NONE)
    assert fits(one, INT) and fits(one, FLOAT) and fits(one, SCALAR) and fits(one, PAIR)
    assert not fits(one, INTS) and not fits(one, BOOL) and not fits(one, TENSOR)
    assert fits(one, TENSOR, numbers=True)
    assert fits(none, OPTIONAL_INT) and fits(none, OPTIONAL_TENSOR) and not fits(none, INT)
    assert fits(Value("", list_of("int"), elements=()), list_of("Tensor"))
    assert not fits(Value("t", Type("tuple"), items=(TENSOR, TENSOR)), TENSOR)


def test_convert() -> None:
    assert convert(Value("n", INT), PAIR).code == "DimVector{n, n}"
    assert convert(Value("n", INT), SCALAR).code == "Scalar(n)"
    assert convert(Value("{}", NONE), OPTIONAL_INT).code == "std::optional<int64_t>{}"
    assert convert(Value("d", INTS), INTS, owned=True).code == "to_owned(d)"
    assert convert(Value("m", OPTIONAL_INT), INT).code == "m.value()"


def test_common() -> None:
    one, half, none = Value("1", INT), Value("0.5", FLOAT), Value("{}", NONE)
    assert common(one, half) == common(half, one) == FLOAT
    assert common(one, none) == OPTIONAL_INT
    assert common(X, none) == TENSOR
    assert common(X, Value("y", OPTIONAL_TENSOR)) == TENSOR
    assert common(X, one) is None


def test_pair() -> None:
    signature = parse("f(Tensor self, int[*] size, *, bool b=True) -> Tensor")
    one, two = Value("1", INT), Value("2", INT)
    given = pair(signature, [X, one, two], {"b": Value("false", BOOL)})
    assert given is not None
    assert [v.code if v else None for _, v in given] == ["x", "DimVector{1, 2}", "false"]
    plain = pair(signature, [X, one], {})
    assert plain is not None and [v.code if v else None for _, v in plain] == ["x", "1", None]
    assert pair(signature, [X], {}) is None
    assert pair(signature, [X, one], {"c": one}) is None
    assert pair(signature, [X, one], {"size": two}) is None


def test_what_a_tree_repeats_gets_a_name() -> None:
    tree = from_formula(expr.parse("exp(a * b) + exp(a * b) * c", HERE))
    lines = ["part1 = exp(a * b)", "return part1 + part1 * c"]
    assert tensor_form(tree, ["a", "b"]) == lines


def test_a_name_in_place_of_tensors_is_a_tensor() -> None:
    tree = from_formula(expr.parse("where(a + 1 == 0, 0, a + 1)", HERE))
    assert tensor_form(tree, ["a"]) == ["part1 = a + 1", "return where(part1 == 0, 0, part1)"]


def test_a_condition_on_numbers_decides_what_is_computed() -> None:
    """Neither branch is computed ahead of the condition, as often as it is repeated inside."""
    tree = from_formula(expr.parse("where(n == 0, 0, exp(a) * exp(a))", HERE))
    assert tensor_form(tree, ["a"]) == ["return 0 if n == 0 else exp(a) * exp(a)"]
