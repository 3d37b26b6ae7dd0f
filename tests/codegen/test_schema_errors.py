"""Every kind of mistake in ops.yaml is reported with its place and with what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest
from schemas import BASE, messages

from codegen.__main__ import load, main
from codegen.errors import SchemaErrors
from codegen.render import generate_texts

# A pointwise operator to which a case adds a line, and a structured one likewise.
POINTWISE = """\
- op: new(Tensor self, *, Scalar beta=1) -> Tensor
  doc: New.
  scalar: {scalar}
  derivative: auto
  samples: [{samples}]
  reference: {reference}
"""
STRUCTURED = """\
- op: new(Tensor self, int dim, Tensor? weight=None) -> Tensor
  doc: New.
  kind: structured
  shape: {shape}
  dispatch: {dispatch}
  derivative: {derivative}
  samples: ["f(3,4), 1"]
  reference: self
"""
COMPOSITE = """\
- op: new(Tensor self, int dim=0) -> Tensor
  doc: New.
  composite: {composite}
  samples: ["f(3,4)"]
  reference: self
"""


def pointwise(scalar: str = "self + beta", samples: str = '"f(3)"', reference: str = "self") -> str:
    return POINTWISE.format(scalar=scalar, samples=samples, reference=reference)


def structured(
    shape: str = "like(self)",
    dispatch: str = "{CPU: new}",
    derivative: str = "{self: grad, weight: zero}",
) -> str:
    return STRUCTURED.format(shape=shape, dispatch=dispatch, derivative=derivative)


def composite(text: str) -> str:
    return COMPOSITE.format(composite=text)


def signature(text: str) -> str:
    return pointwise().replace("new(Tensor self, *, Scalar beta=1) -> Tensor", text)


CASES: dict[str, tuple[str, list[str]]] = {}


def case(name: str, text: str, *wanted: str) -> None:
    """`wanted` are the messages after `ops.yaml:`."""
    assert name not in CASES
    CASES[name] = (text, [f"ops.yaml:{message}" for message in wanted])


# ---- the file and its records ----
case(
    "record of no kind",
    "- opp: f(Tensor self) -> Tensor\n",
    "1:3: a record begins with 'op', 'math' or 'rule', found 'opp'; did you mean 'op'?",
)
case(
    "record that is no mapping",
    "- 3\n",
    "1:3: a record is a mapping with 'op', 'math' or 'rule'",
)
case(
    "unknown key",
    pointwise() + "  sample: [f(3)]\n",
    "7:3: new: unknown key 'sample'; did you mean 'samples'?",
)
case(
    "unknown key far from any",
    pointwise() + "  zebra: 1\n",
    "7:3: new: unknown key 'zebra'",
)
case(
    "duplicate key",
    pointwise() + "  doc: Again.\n",
    "7:3: new: key 'doc' is given twice, first in line 2",
)
case(
    "missing doc",
    "- op: new(Tensor self) -> Tensor\n  scalar: self\n  derivative: auto\n  reference: self\n",
    "1:3: new: missing key 'doc': a sentence and an example",
)
case(
    "missing kind",
    "- op: new(Tensor self) -> Tensor\n  doc: New.\n  samples: [f(3)]\n  reference: self\n",
    "1:3: new: missing key 'kind' (or 'scalar', 'composite'): pointwise, reduction, "
    "scan, view, factory, random, matmul, structured, composite, mutation",
)
case(
    "operator twice",
    pointwise().replace("new(", "exp("),
    "38:3: exp: the operator is declared twice, first in line 1",
)
case(
    "vocabulary word twice",
    "- math: exp(x)\n  derivative: exp(x)\n",
    "3:3: exp: the vocabulary word is declared twice, first in line 1",
)
case(
    "one C++ name",
    pointwise().replace("new(", "sum_x(") + pointwise().replace("new(", "sum.x("),
    "7:3: sum.x: 'sum.x' and 'sum_x' are one name in C++; rename one",
)
case(
    "vocabulary without derivative",
    "- math: f(x)\n",
    "1:3: f: missing key 'derivative': a formula, or 'zero'",
)
case(
    "vocabulary, unknown function",
    "- math: f(x)\n  derivative: exq(x)\n",
    "2:15: f: unknown function 'exq'; did you mean 'exp'?",
)
case(
    "vocabulary, argument left out",
    "- math: f(x, y)\n  derivative: {x: 1}\n",
    "2:15: f: no derivative for 'y': a formula, or 'zero'",
)

# ---- signatures ----
case(
    "signature not round",
    signature("new(Tensor self,int dim) -> Tensor"),
    "1:23: new: write the signature as `new(Tensor self, int dim) -> Tensor`",
)
case(
    "unknown type",
    signature("new(Tensr self) -> Tensor"),
    "1:11: new: unknown type 'Tensr'; did you mean 'Tensor'?",
)
case(
    "keyword as a name",
    signature("new(Tensor lambda) -> Tensor"),
    "1:18: new: 'lambda' is a keyword of Python or C++; use 'lambda_'",
)
case(
    "default out of range",
    signature("new(int n >= 1=0) -> Tensor"),
    "1:22: new: default of 'n': 0 is outside the range >= 1",
)
case(
    "default of another type",
    signature("new(Tensor self, bool b=1) -> Tensor"),
    "1:31: new: default of 'b': expected True or False, found 1",
)
case(
    "argument twice",
    signature("new(Tensor a, Tensor a) -> Tensor"),
    "1:21: new: argument 'a' is given twice",
)
case(
    "no return type",
    signature("new(Tensor a)"),
    "1:20: new: expected '->' before the return type, found the end",
)

# ---- words ----
case(
    "unknown kind",
    composite("self") + "  kind: structurd\n",
    "6:9: new: unknown word 'structurd' for 'kind'; did you mean 'structured'?",
)
case(
    "unknown variant",
    pointwise() + "  variants: [inplce]\n",
    "7:14: new: unknown word 'inplce' in 'variants'; did you mean 'inplace'?",
)
case(
    "variant without its tensor",
    structured().replace("Tensor self, int dim", "int dim, Tensor self")
    + "  variants: [inplace]\n",
    "9:3: new: 'inplace' needs a tensor as first argument",
)
case(
    "unknown dtype class",
    pointwise() + "  dtypes: [floats]\n",
    "7:12: new: unknown word 'floats' in 'dtypes'; did you mean 'float'?",
)
case(
    "unknown promotion",
    pointwise() + "  promote: sane\n",
    "7:12: new: unknown word 'sane' for 'promote'; did you mean 'same'?",
)
case(
    "unknown policy word",
    structured() + "  ties: frist\n",
    "9:9: new: unknown word 'frist' for 'ties'; did you mean 'first'?",
)
case(
    "unknown mask",
    pointwise() + "  masks: [beta]\n",
    "7:11: new: no tensor argument 'beta'; tensor arguments are self",
)
case(
    "unknown kept result",
    pointwise() + "  kept: [beta]\n",
    "7:10: new: no result 'beta'; results are unnamed",
)
case(
    "kind against scalar",
    pointwise() + "  kind: view\n",
    "7:3: new: 'scalar' makes the kind pointwise",
)
case(
    "tolerance without reason",
    pointwise() + "  tolerance: {float32: 1e-3}\n",
    "7:14: new: a tolerance needs its 'reason'",
)
case(
    "tolerance of an unknown dtype",
    pointwise() + "  tolerance: {float3: 1e-3, reason: so}\n",
    "7:15: new: unknown dtype 'float3'; did you mean 'float32'?",
)

# ---- scalar formulas ----
case(
    "scalar, unknown name",
    pointwise("slef + beta"),
    "3:11: new: unknown name 'slef'; did you mean 'self'?",
)
case(
    "scalar, unknown function",
    pointwise("exq(self) + beta"),
    "3:11: new: unknown function 'exq'; did you mean 'exp'?",
)
case(
    "scalar, wrong arity",
    pointwise("exp(self, beta)"),
    "3:11: new: exp() takes 1 argument, found 2",
)
case(
    "scalar, not a formula",
    pointwise("self +"),
    "3:11: new: not a formula: invalid syntax",
)
case(
    "scalar, tensor language",
    pointwise("self.exp() + beta"),
    "3:11: new: only functions of the vocabulary can be called",
)
case(
    "scalar, folded over lines",
    pointwise(">-\n    self +\n    slef * beta"),
    "5:5: new: unknown name 'slef'; did you mean 'self'?",
)
case(
    "scalar, outputs without formulas",
    pointwise().replace("-> Tensor", "-> (Tensor a, Tensor b)"),
    "3:3: new: 2 outputs need 2 formulas, found 1",
)

# ---- derivatives ----
case(
    "no derivative",
    pointwise().replace("  derivative: auto\n", ""),
    "1:3: new: no derivative for 'self': a formula, 'zero' or 'none: reason'",
)
case(
    "an input without derivative",
    structured(derivative="{self: grad}"),
    "6:3: new: no derivative for 'weight': a formula, 'zero' or 'none: reason'",
)
case(
    "derivative of no input",
    structured(derivative="{slef: grad, self: grad, weight: zero}"),
    "6:16: new: no tensor input 'slef'; did you mean 'self'?",
)
case(
    "two derivatives",
    structured(derivative='{self: grad, "self, weight": grad}'),
    "6:16: new: two derivatives for 'self'",
)
case(
    "auto without formula",
    structured(derivative="auto"),
    "6:3: new: no derivative for 'weight': a formula, 'zero' or 'none: reason'",
    "6:15: new: 'auto' differentiates a 'scalar' formula; state a tensor formula",
)
case(
    "none without reason",
    structured(derivative='{self: "none:", weight: zero}'),
    "6:23: new: 'none' needs its reason: 'none: reason'",
)
case(
    "derivative, unknown name",
    structured(derivative="{self: grad * slef, weight: zero}"),
    "6:29: new: unknown name 'slef'; did you mean 'self'?",
)
case(
    "derivative, unknown operator",
    structured(derivative="{self: grad.exq(), weight: zero}"),
    "6:22: new: unknown operator 'exq'; did you mean 'exp'?",
)
case(
    "derivative, wrong type",
    structured(derivative="{self: grad.sum(self), weight: zero}"),
    "6:22: new: sum(Tensor, Tensor) does not fit sum(Tensor self, int[]? dim=None, bool "
    "keepdim=False) -> Tensor",
)
case(
    "derivative, no tensor",
    structured(derivative="{self: dim, weight: zero}"),
    "6:22: new: a Tensor is wanted here, `dim` is an int",
)
case(
    "derivative composite without one",
    structured(derivative="composite"),
    "6:15: new: 'derivative: composite' needs the key 'composite' or 'composite_fn'",
)

# ---- kernels and shapes ----
case(
    "unknown device",
    structured(dispatch="{CPUs: new}"),
    "5:14: new: unknown device 'CPUs'; did you mean 'CPU'?",
)
case(
    "kernel that is no name",
    structured(dispatch='{CPU: "a b"}'),
    "5:20: new: 'a b' is no C++ name; 'none' for no kernel",
)
case(
    "nothing to run",
    structured().replace("  dispatch: {CPU: new}\n", ""),
    "1:3: new: nothing to run: give 'scalar', 'composite', 'composite_fn' or 'dispatch'",
)
case(
    "no shape",
    structured().replace("  shape: like(self)\n", ""),
    "1:3: new: kind structured needs 'shape': a shape rule over its arguments",
)
case(
    "unknown shape rule",
    structured("lik(self)"),
    "4:10: new: unknown shape rule 'lik'; did you mean 'like'?",
)
case(
    "shape rule, wrong arity",
    structured("like(self, dim)"),
    "4:10: new: like(Tensor, int) does not fit like(Tensor self) -> Meta",
)
case(
    "shapes and outputs",
    structured("[like(self), like(self)]"),
    "4:3: new: 1 outputs, 2 shapes",
)
case(
    "scalar and dispatch",
    pointwise() + "  dispatch: {CPU: new}\n",
    "7:3: new: 'scalar' gives the kernels of every device; 'dispatch' has no place",
)

# ---- composites ----
case(
    "composite, unknown operator",
    composite("self.exq()"),
    "3:14: new: unknown operator 'exq'; did you mean 'exp'?",
)
case(
    "composite, unknown name",
    composite("slef"),
    "3:14: new: unknown name 'slef'; did you mean 'self'?",
)
case(
    "composite, wrong number of results",
    composite("|\n    return self, self"),
    "4:12: new: a Tensor is wanted here, `(self, self)` is a Tensor[]",
)
case(
    "composite, not the language",
    composite('"{1: self}"'),
    "3:15: new: `{1: self}` is not part of the formula language",
)
case(
    "composite cycle",
    composite("a(self)") + composite("new(self)").replace("new(Tensor", "a(Tensor"),
    "3:14: new: the composite runs in a circle: new -> a -> new",
)
case(
    "check, unknown name",
    structured() + "  checks: {c1: {require: dmi > 0, error: wrong}}\n",
    "9:26: new: unknown name 'dmi'; did you mean 'dim'?",
)

# ---- samples, references, Python names ----
case(
    "sample that does not parse",
    pointwise(samples='"f(3"'),
    "5:14: new: sample `f(3`: not a sample: '(' was never closed",
)
case(
    "sample, unknown word",
    pointwise(samples='"g(3)"'),
    "5:14: new: sample `g(3)`: unknown sample word 'g'; known are f, pos, i, b, c, perm, t, const, slice",  # noqa: E501
)
case(
    "sample, unknown argument",
    pointwise(samples='"f(3)", "f(3), betta=2"'),
    "5:28: new: sample `f(3), betta=2`: no argument 'betta'; did you mean 'beta'?",
)
case(
    "sample, too many",
    pointwise(samples='"f(3), 1, 2"'),
    "5:20: new: sample `f(3), 1, 2`: 3 positional arguments, new takes 1",
)
case(
    "sample, too few",
    pointwise(samples='"beta=1"'),
    "5:14: new: sample `beta=1`: no value for 'self'",
)
case(
    "sample, twice",
    pointwise(samples='"f(3), self=f(2)"'),
    "5:20: new: sample `f(3), self=f(2)`: argument 'self' is given twice",
)
case(
    "no sample",
    structured().replace('  samples: ["f(3,4), 1"]\n', ""),
    "1:3: new: missing key 'samples': calls such as \"f(3,4), dim=1\"",
)
case(
    "no reference",
    pointwise().replace("  reference: self\n", ""),
    "1:3: new: missing key 'reference': a NumPy expression, or 'property': a test's name",
)
case(
    "reference that does not parse",
    pointwise(reference="np.exp(self"),
    "6:20: new: reference: not a Python expression: '(' was never closed",
)
case(
    "reference, unknown name",
    pointwise(reference="nq.exp(self)"),
    "6:14: new: reference: unknown name 'nq'",
)
case(
    "alias of another's name",
    pointwise() + "  alias: [exp]\n",
    "39:3: exp: facula.exp is 'new' of line 1 already",
)
case(
    "path of another's",
    pointwise() + "  python: [nn.x]\n" + pointwise().replace("new(", "b(") + "  python: [nn.x]\n",
    "14:3: b: facula.nn.x is 'new' of line 1 already",
)
case(
    "sign of another's",
    pointwise() + '  python: ["+"]\n',
    "20:31: add: '+' is 'new' of line 1 already",
)
case(
    "python word",
    pointwise() + '  python: ["<>"]\n',
    "7:3: new: '<>' is neither a dotted path nor an operator; did you mean '>'?",
)

SEVERAL = """\
- op: a(Tensor self) -> Tensor
  doc: A.
  scalar: exq(self) + slef
  derivative: auto
  reference: self
- op: b(Tensor self) -> Tensor
  doc: B.
  composite: self.exq() + self
  samples: ["g(3)", "f(3), 1"]
  reference: slf
- op: c(Tensor self) -> Tensor
  doc: C.
  kind: structured
  shape: lik(self)
  dispatch: {CPU: c}
  derivative: {self: grad * a(selff)}
  smaples: []
"""
case(
    "several in one run",
    SEVERAL,
    "3:11: a: unknown function 'exq'; did you mean 'exp'?",
    "3:23: a: unknown name 'slef'; did you mean 'self'?",
    "8:14: b: unknown operator 'exq'; did you mean 'exp'?",
    "9:14: b: sample `g(3)`: unknown sample word 'g'; known are f, pos, i, b, c, perm, t, const, slice",  # noqa: E501
    "9:28: b: sample `f(3), 1`: 2 positional arguments, b takes 1",
    "10:14: b: reference: unknown name 'slf'; did you mean 'self'?",
    "14:10: c: unknown shape rule 'lik'; did you mean 'like'?",
    "16:31: c: unknown name 'selff'; did you mean 'self'?",
    "17:3: c: unknown key 'smaples'; did you mean 'samples'?",
)
# What depends on a record that cannot be read is not reported as well.
case(
    "only causes",
    "- op: a(Tensr self) -> Tensor\n  doc: A.\n" + composite("a(self) + exp(self)"),
    "1:3: a: missing key 'kind' (or 'scalar', 'composite'): pointwise, reduction, scan, "
    "view, factory, random, matmul, structured, composite, mutation",
    "1:9: a: unknown type 'Tensr'; did you mean 'Tensor'?",
)


NOT_YAML = {
    "unclosed": ("- op: [a\n", "ops.yaml:2:1: not YAML: did not find expected ',' or ']'"),
    "no list": ("op: 3\n", "ops.yaml:1:1: the file is a list of records: - op: ..., - math: ..."),
}


@pytest.mark.parametrize("name", NOT_YAML)
def test_no_schema_at_all(name: str, tmp_path: Path) -> None:
    text, wanted = NOT_YAML[name]
    with pytest.raises(SchemaErrors) as caught:
        messages(tmp_path, text, base="")
    assert str(caught.value) == wanted


def test_base_is_good(tmp_path: Path) -> None:
    assert messages(tmp_path, "") == []
    assert messages(tmp_path, pointwise() + structured().replace("new", "other")) == []


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints every mistake and fails."""
    path = tmp_path / "ops.yaml"
    path.write_text(SEVERAL + BASE, encoding="utf-8")
    assert main(["--schema", str(path), "check"]) == 1
    printed = capsys.readouterr().err.splitlines()
    assert printed[:-1] == CASES["several in one run"][1]
    assert printed[-1] == f"codegen check: {len(printed) - 1} mistakes"


def test_gen_reports_the_same(tmp_path: Path) -> None:
    """Mistakes of formulas over operators are found all at once by `gen` as well."""
    path = tmp_path / "ops.yaml"
    text = composite("self.exq()") + structured(derivative="{self: grad * slef, weight: zero}")
    path.write_text(text.replace("new", "other", 1) + BASE, encoding="utf-8")
    with pytest.raises(SchemaErrors) as caught:
        generate_texts(load(path))
    assert [e.subject for e in caught.value.errors] == ["other", "new"]


@pytest.mark.parametrize("name", CASES)
def test_error(name: str, tmp_path: Path) -> None:
    text, wanted = CASES[name]
    assert messages(tmp_path, text) == wanted
