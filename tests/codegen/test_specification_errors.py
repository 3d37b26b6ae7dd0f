"""Every kind of mistake in an entry's test specification and names in Python is reported.

Other parts of an entry are in test_schema_errors.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from schemas import Cases, messages, pointwise, structured

from codegen.schema.samples import WORDS, property_tests

CASES = Cases()
case = CASES.add

# ---- samples, references, Python names ----
case(
    "derivative that no sample takes",
    pointwise(samples='"t([1.0, 2.0])"'),
    "5:3: new: no sample takes the derivative of 'self': give it a tensor by "
    "`f(...)`, `pos(...)`, `c(...)`, `spd(...)`, `tri(...)` or `orth(...)`",
)
case(
    "sample that does not parse",
    pointwise(samples='"f(3"'),
    "5:14: new: sample `f(3`: not a sample: '(' was never closed",
)
case(
    "sample, unknown word",
    pointwise(samples='"g(3)"'),
    "5:14: new: sample `g(3)`: unknown sample word 'g'; known are " + ", ".join(WORDS),
)
case(
    "sample, unknown argument",
    pointwise(samples='"f(3)", "f(3), betta=2"'),
    "5:28: new: sample `f(3), betta=2`: no argument 'betta'; did you mean 'beta'?",
)
case(
    "sample, each of nothing",
    pointwise(samples='"f(3), beta=each()"'),
    "5:25: new: sample `f(3), beta=each()`: each() takes the values of an argument, for each of "
    "which there is a call",
)
case(
    "sample, each with a mistake",
    pointwise(samples='"f(3), beta=each(1, g(2))"'),
    "5:14: new: sample `f(3), beta=g(2)`: unknown sample word 'g'; known are " + ", ".join(WORDS),
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
    "sample, unpacked",
    pointwise(samples='"*f(3)"'),
    "5:14: new: sample `*f(3)`: a sample names each argument; `*` has no place in it",
)
case(
    "sample of two calls",
    pointwise(samples='"f(3)), (f(2)"'),
    "5:14: new: sample `f(3)), (f(2)`: not a sample: write the arguments of one call, such as "
    "`f(3,4), dim=1`",
)
case(
    "sample, word without its argument",
    pointwise(samples='"f(3), beta=slice()"'),
    "5:25: new: sample `f(3), beta=slice()`: slice() takes 1 to 3 arguments, found 0",
)
case(
    "sample, unknown name",
    pointwise(samples='"f(3), beta=flaot32"'),
    "5:25: new: sample `f(3), beta=flaot32`: unknown name 'flaot32'; did you mean 'float32'?",
)
case(
    "sample beyond ASCII",
    pointwise(samples="\"f(3), beta='é', gamma=1\""),
    "5:30: new: sample `f(3), beta='é', gamma=1`: no argument 'gamma'; known are self, beta",
)
case(
    "no sample",
    structured().replace('  samples: ["f(3,4), 1, f(4)"]\n', ""),
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
    "6:14: new: reference: unknown name 'nq'; known are self, beta, np, scipy",
)
case(
    "operations, unknown name",
    pointwise() + "  flops: 2 * slef.numel()\n",
    "7:14: new: flops: unknown name 'slef'; did you mean 'self'?",
)
case(
    "operations, unknown function",
    pointwise() + "  flops: product(self.shape)\n",
    "7:10: new: flops: unknown function 'product'; did you mean 'prod'?",
)
case(
    "operations, unknown fact",
    pointwise() + "  flops: 2 * result.nelement()\n",
    "7:14: new: flops: unknown fact 'nelement'; known are ndim, numel, shape, size",
)
case(
    "ONNX, unknown name",
    pointwise() + "  onnx: Relu(slef)\n",
    "7:14: new: onnx: unknown name 'slef'; did you mean 'self'?",
)
case(
    "ONNX, unknown function",
    pointwise() + "  onnx: Expand(fill(0, self.shape, self))\n",
    "7:16: new: onnx: unknown function 'fill'; did you mean 'filled'?",
)
case(
    "reference with a lambda",
    pointwise(reference="list(map(lambda a:a, self))"),
    "6:23: new: reference: `lambda` is hard to read; write a function of tests/ops/"
    "array_reference.py or its neighbours, and call it as `ref.NAME`",
)
case(
    "reference with an import",
    pointwise(reference="__import__('math').exp(self)"),
    "6:14: new: reference: `__import__` is hard to read; write a function of tests/ops/"
    "array_reference.py or its neighbours, and call it as `ref.NAME`",
)
case(
    "reference to no function",
    pointwise(reference="ref.kthvalu(self)"),
    "6:14: new: reference: no function 'kthvalu' in tests/ops/*_reference.py; did you mean "
    "'kthvalue'?",
)
case(
    "alias of another's name",
    pointwise() + "  alias: [exp]\n",
    "39:3: exp: facula.exp is 'new' of line 1 already",
)
# What derivatives of complex functions need.
CONJ = """\
- math: conj(x)
  derivative: 1
  holomorphic: false
- op: conj(Tensor self) -> Tensor
  doc: Conjugate.
  scalar: conj(self)
  dtypes: [float, complex]
  derivative: {self: conj(grad)}
  reference: np.conj(self)
"""
case(
    "path of another's",
    pointwise() + "  python: [a.x]\n" + pointwise().replace("new(", "b(") + "  python: [a.x]\n",
    "14:3: b: facula.a.x is 'new' of line 1 already",
)
case(
    "path into no module",
    pointwise() + "  python: [nn.functionl.new]\n",
    "7:12: new: no module 'facula.nn.functionl' in python/facula leads to 'nn.functionl.new'",
)
case(
    "path into a module that takes no operators",
    pointwise() + "  python: [function, nn.utils.new]\n",
    "7:22: new: 'nn.utils.new' cannot be reached: facula/nn/utils/__init__.py takes nothing from "
    "_C._nn_utils",
)
case(
    "method of no tensor",
    pointwise(samples='"1, f(3)"').replace(
        "Tensor self, *, Scalar beta=1", "float beta, Tensor self"
    )
    + "  python: [method]\n  variants: [out]\n",
    "7:12: new: a 'method' needs a tensor as first argument",
)
case(
    "in-place form that cannot work",
    pointwise() + "  dtypes: [bool, int]\n  promote: float\n",
    "1:3: new: no `self` of bool or int holds the result in place: 'promote: float' gives a "
    "higher dtype; 'variants' without 'inplace'",
)
case(
    "in-place form of integers beside floats",
    pointwise() + "  dtypes: [int, float]\n  promote: float\n",
)
case(
    "vocabulary, no such function in C++",
    "- math: exp3(x)\n  derivative: exp(x)\n",
    "1:3: exp3: no function 'exp3' in math.h, math_special.h, math_gamma.h, math_slopes.h, "
    "math_normal.h, math_bessel.h, math_polynomials.h of python/facula/include/facula; "
    "did you mean 'exp'?",
)
case(
    "dtype that a word does not take",
    "- math: erf(x)\n  derivative: 1\n" + pointwise("erf(self)") + "  dtypes: [float, complex]\n",
    "5:11: new: erf() does not take complex numbers, of which 'dtypes' speaks",
)
case(
    "dtype that a sign does not take",
    pointwise("where(self < 1, self, beta)") + "  dtypes: [float, complex]\n" + CONJ,
    "3:11: new: `<` does not take complex numbers, of which 'dtypes' speaks",
)
case(
    "dtype that a word of the derivative does not take",
    "- math: sin(x)\n  derivative: digamma(x)\n- math: digamma(x)\n  derivative: 1\n"
    + pointwise("sin(self)")
    + "  dtypes: [float, complex]\n"
    + CONJ,
    "5:3: new: digamma() does not take complex numbers, of which 'dtypes' speaks; the derivative, "
    "`mul0(grad_output, conj(digamma(self)))`, calls it",
)
case(
    "sign of another's",
    pointwise() + '  python: ["+"]\n',
    "20:31: add: '+' is 'new' of line 1 already",
)
case(
    "python word",
    pointwise() + '  python: ["<>"]\n',
    "7:13: new: '<>' is neither a place, a dotted path nor an operator; did you mean '>'?",
)

case(
    "dotted path of one misspelt word",
    pointwise() + "  python: [function, methd]\n",
    "7:22: new: 'methd' is neither a place, a dotted path nor an operator; did you mean 'method'?",
)
case(
    "alias that is a path",
    pointwise() + "  alias: [nn.x]\n",
    "7:11: new: 'nn.x' is no Python name; paths such as nn.functional.x go to 'python'",
)

# ---- property tests ----
case(
    "property of no test",
    pointwise().replace("reference: self", "property: test_unifrm"),
    "6:13: new: no property test 'test_unifrm'; did you mean 'test_uniform'?",
)
case(
    "property far from any test",
    pointwise().replace("reference: self", "property: zebra"),
    "6:13: new: no property test 'zebra'; known are " + ", ".join(property_tests()),
)
case(
    "property beside a reference",
    pointwise() + "  property: test_uniform\n",
    "7:13: new: 'property' stands instead of 'reference'",
)


def test_property_tests_are_those_of_the_folder(tmp_path: Path) -> None:
    """What `property` may name is what stands in the files of property tests."""
    code = "def test_a() -> None: ...\n\n\ndef helper() -> None: ...\n"
    (tmp_path / "test_x_properties.py").write_text(code, encoding="utf-8")
    (tmp_path / "test_values.py").write_text("def test_b() -> None: ...\n", encoding="utf-8")
    assert property_tests(tmp_path) == ("test_a",)
    assert {"test_uniform", "test_dropout", "test_view"} <= set(property_tests())


@pytest.mark.parametrize("name", CASES)
def test_error(name: str, tmp_path: Path) -> None:
    text, wanted = CASES[name]
    assert messages(tmp_path, text) == wanted
