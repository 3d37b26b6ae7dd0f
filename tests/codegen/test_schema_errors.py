"""Every kind of mistake in ops.yaml is reported with its place and with what would be right.

Here the form of records, signatures and words; test specifications are in
test_specification_errors.py, formulas in test_formula_errors.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from schemas import BASE, Cases, composite, messages, pointwise, signature, structured

from codegen.__main__ import load, main
from codegen.check import check
from codegen.emit.render import generate_texts
from codegen.schema.errors import SchemaErrors
from codegen.schema.samples import WORDS
from codegen.schema.words import KEYS

CASES = Cases()
case = CASES.add

# ---- the file and its records ----
case(
    "record of no kind",
    "- opp: f(Tensor self) -> Tensor\n",
    "1:3: a record begins with 'op', 'define', 'math' or 'rule', found 'opp'; did you mean 'op'?",
)
case(
    "record that is no mapping",
    "- 3\n",
    "1:3: a record is a mapping with 'op', 'define', 'math' or 'rule'",
)
case(
    "unknown key",
    pointwise() + "  sample: [f(3)]\n",
    "7:3: new: unknown key 'sample'; did you mean 'samples'?",
)
case(
    "unknown key far from any",
    pointwise() + "  zebra: 1\n",
    "7:3: new: unknown key 'zebra'; known are " + ", ".join(KEYS["op"]),
)
case(
    "duplicate key",
    pointwise() + "  doc: Again.\n",
    "7:3: new: key 'doc' is given twice, first in line 2",
)
case(
    "missing doc",
    "- op: new(Tensor self) -> Tensor\n  scalar: self\n  derivative: auto\n  reference: self\n",
    "1:3: new: missing key 'doc': what it computes, in a sentence",
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
    "7:3: sum.x: 'sum.x' and 'sum_x' are one name in C++, sum_x; rename one",
)
case(
    "operator of the name of an out= form",
    structured().replace("new(Tensor", "exp.out(Tensor"),
    "40:3: exp: 'exp' and 'exp.out' are one name in C++, exp_out; rename one",
)
case(
    "vocabulary without derivative",
    "- math: f(x)\n",
    "1:3: f: missing key 'derivative': a formula, or 'zero'",
)
case(
    "vocabulary, unknown function",
    "- math: sec(x)\n  derivative: exq(x)\n",
    "2:15: sec: unknown function 'exq'; did you mean 'exp'?",
)
case(
    "vocabulary, argument left out",
    "- math: fmax(x, y)\n  derivative: {x: 1}\n",
    "2:15: fmax: no derivative for 'y': a formula, or 'zero'",
)

case(
    "key not first",
    "- doc: New.\n  op: new(Tensor self) -> Tensor\n",
    "1:3: a record begins with 'op', 'define', 'math' or 'rule', found 'doc'; 'op' comes first",
)
case(
    "key that is no text",
    pointwise() + "  ? [a]\n  : b\n",
    "7:5: new: a key must be plain text",
)
case(
    "text that is a list",
    pointwise().replace("doc: New.", "doc: [New]"),
    "2:8: new: 'doc' must be text; quote a text that begins with '[' or '{'",
)
case(
    "doc with an example",
    pointwise().replace("doc: New.", "doc: New. >>> 1"),
    "2:8: new: 'doc' is sentences; the example is 'example', "
    "where `python -m codegen fmt` moves it",
)
case(
    "doc of nothing",
    pointwise().replace("doc: New.", 'doc: ""'),
    "2:8: new: 'doc' is a sentence",
)
case(
    "example without code",
    pointwise().replace("doc: New.", "doc: New.\n  example: 1"),
    "3:12: new: 'example' begins with `>>> ` and code, its output below",
)
case(
    "vocabulary, unknown argument",
    "- math: sec(x)\n  derivative: {x: 1, y: 1}\n",
    "2:22: sec: no argument 'y'; the arguments are x",
)
case(
    "vocabulary, unknown word",
    "- math: sec(x)\n  derivative: 1\n  holomorphic: maybe\n",
    "3:16: sec: unknown word 'maybe' for 'holomorphic'; known are true, false",
)
case(
    "vocabulary without arguments",
    "- math: f\n  derivative: 1\n",
    "1:9: f: a vocabulary entry is written like 'pow(x, y)'",
)
case(
    "shape rule twice",
    "- rule: like(Tensor self) -> Meta\n",
    "8:3: like: the shape rule is declared twice, first in line 1",
)
case(
    "shape rule of no shape",
    "- rule: f(Tensor self) -> Tensor\n",
    "1:27: f: a rule returns Meta, or () where it checks only",
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
    "name of generated code",
    signature("new(Tensor result_) -> Tensor"),
    "1:18: new: 'result_' ends in '_', as names of generated code do; use 'result'",
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

case(
    "list that C++ does not have",
    signature("new(Tensor self, float[] w) -> Tensor"),
    "1:24: new: no lists of float; lists are of int, bool, Tensor",
)
case(
    "default of a type without any",
    signature('new(Tensor self, Device d="cpu") -> Tensor'),
    "1:33: new: default of 'd': a Device takes no default but None, as 'Device? ...=None'",
)
case(
    "default of too many bits",
    signature("new(Tensor self, int n=9223372036854775808) -> Tensor"),
    "1:30: new: default of 'n': 9223372036854775808 does not fit in 64 bits",
)
case(
    "Meta in an operator",
    signature("new(Meta self) -> Tensor"),
    "1:11: new: Meta is what shape rules return; operators have Tensors",
)
case(
    "keyword as an operator",
    signature("lambda(Tensor self) -> Tensor"),
    "1:7: lambda: 'lambda' is a keyword of Python; use 'lambda_'",
)
case(
    "range that is none",
    signature("new(int n >= a) -> Tensor"),
    "1:17: new: a range is '>= 1', '< 5' or 'in [0, 1)'",
)
case(
    "open number of ints before others",
    composite("dim").replace("Tensor self, int dim=0", "int[*] size, Tensor dim"),
    "1:11: new: 'size' takes all that follows; put '*' after it, or write int[]",
    "4:14: new: sample `f(3,4)`: no value for 'dim'",
    "5:14: new: reference: unknown name 'self'; known are size, dim, np, scipy",
)
case(
    "result that nothing writes",
    structured().replace("-> Tensor", "-> Tensor!"),
    "1:57: new: 'Tensor!' is the argument that is written, but no argument is a 'Tensor!'",
)
case(
    "result that Python does not get",
    structured().replace("-> Tensor", "-> str"),
    "1:57: new: no results of type str; known are Tensor, Tensor[], bool, int, float, Scalar, "
    "int[], Tensor!",
)
case(
    "argument of the out= form",
    pointwise("out + beta", reference="out").replace("Tensor self", "Tensor out"),
    "1:11: new: 'out' is the argument of the out= form; use another name",
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
    "unknown cast",
    pointwise() + "  autocast: lowr\n",
    "7:13: new: unknown word 'lowr' for 'autocast'; did you mean 'lower'?",
)
case(
    "unknown cast of a device",
    pointwise() + "  autocast: {CPU: float23}\n",
    "7:19: new: unknown word 'float23' for 'autocast'; did you mean 'float32'?",
)
case(
    "cast of an unknown device",
    pointwise() + "  autocast: {CPUs: lower}\n",
    "7:14: new: unknown device 'CPUs' in 'autocast'; did you mean 'CPU'?",
)
case(
    "one cast of all devices, twice",
    pointwise() + "  autocast: {CPU: lower, device: lower}\n",
    "7:13: new: 'autocast: lower' says it of every device",
)
case(
    "cast of integers",
    pointwise() + "  dtypes: [int]\n  autocast: lower\n",
    "8:3: new: 'autocast' is for operators of floats; 'dtypes' has int",
)
MADE = """\
- rule: sized(int n) -> Meta
- op: new(int dim) -> Tensor
  doc: New.
  kind: structured
  autocast: lower
  shape: sized(dim)
  dispatch: {CPU: new}
  samples: ["3"]
  reference: np.ones(dim)
"""
case("cast without a tensor", MADE, "5:3: new: 'autocast' needs a tensor to cast")
case(
    "cast of a factory",
    MADE.replace("structured", "factory"),
    "5:3: new: 'autocast' is for operators that neither write nor draw",
)
case(
    "unknown policy word",
    structured() + "  aliasing: slef\n",
    "9:13: new: unknown word 'slef' for 'aliasing'; did you mean 'self'?",
)
case(
    "unknown mask",
    pointwise() + "  masks: [beta]\n",
    "7:11: new: no tensor argument 'beta'; tensor arguments are self",
)
case(
    "unknown kept result",
    pointwise() + "  kept: [beta]\n",
    "7:10: new: no result 'beta'",
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
    "limits without reason",
    pointwise() + "  ulp: {float32: 8}\n",
    "7:8: new: limits of 'ulp' need their 'reason'",
)
case(
    "tolerance of an unknown dtype",
    pointwise() + "  tolerance: {float3: 1e-3, reason: so}\n",
    "7:15: new: unknown dtype 'float3'; did you mean 'float32'?",
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
    "9:14: b: sample `g(3)`: unknown sample word 'g'; known are " + ", ".join(WORDS),
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
    "colon": (
        "- op: a\n  doc: b: c\n",
        "ops.yaml:2:9: not YAML: mapping values are not allowed in this context; "
        "quote a text that holds ': '",
    ),
    "two documents": (
        "- op: a\n---\n- op: b\n",
        "ops.yaml:2:1: not YAML: but found another document; the file is one list of records",
    ),
    "control character": (
        "- op: a\n  doc: \x07\n",
        "ops.yaml:2:8: not YAML: the character '\\x07' is not allowed",
    ),
    "unclosed": ("- op: [a\n", "ops.yaml:2:1: not YAML: did not find expected ',' or ']'"),
    "no list": ("op: 3\n", "ops.yaml:1:1: the file is a list of records: - op: ..., - math: ..."),
}


@pytest.mark.parametrize("name", NOT_YAML)
def test_no_schema_at_all(name: str, tmp_path: Path) -> None:
    text, wanted = NOT_YAML[name]
    with pytest.raises(SchemaErrors) as caught:
        messages(tmp_path, text, base="")
    assert str(caught.value) == wanted


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "ops.yaml"
    path.write_bytes(b"- op: a\n  doc: \xff\n")
    with pytest.raises(SchemaErrors) as caught:
        check(path)
    assert str(caught.value) == "ops.yaml:2:8: not YAML: the byte 0xff is no UTF-8"


def test_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--schema", str(tmp_path / "none.yaml"), "check"]) == 1
    assert capsys.readouterr().err.endswith(f"No such file or directory: '{tmp_path}/none.yaml'\n")


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
