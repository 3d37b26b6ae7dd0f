"""Mistakes in formulas: of elements, derivatives, shapes, composites and checks."""

from __future__ import annotations

from pathlib import Path

import pytest
from schemas import Cases, composite, messages, pointwise, structured

CASES = Cases()
case = CASES.add

# An operator of two results.
TWO = """\
- op: two(Tensor self) -> (Tensor a, Tensor b)
  doc: Two.
  composite: self, self
  samples: ["f(3)"]
  reference: self, self
"""

# ---- scalar formulas ----
case(
    "scalar, an argument of a name that derivatives give a meaning",
    pointwise("self + beta * grad", '"f(3), f(3)"').replace(
        "Tensor self,", "Tensor self, Tensor grad,"
    ),
    "1:3: new: 'grad' is the incoming gradient in derivatives; give the argument another name",
)
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

case(
    "scalar, bits of floats",
    pointwise("self << 2"),
    "3:11: new: `<<` is for bools and integers; 'dtypes' has float",
)
case(
    "scalar, None of what is always given",
    pointwise("self if beta is None else self * beta"),
    "3:19: new: `is` asks whether an optional argument is None (this operator has none)",
)
case(
    "scalar, contained",
    pointwise("where(self in beta, 1, 0)"),
    "3:17: new: `in` has no place in a scalar formula; compare with `==`",
)
case(
    "scalar, keyword",
    pointwise("exp(x=self)"),
    "3:11: new: exp() takes no keywords in a scalar formula",
)
case(
    "scalar, no number",
    pointwise("self * 1j + None"),
    "3:18: new: 1j is not a number",
    "3:23: new: None is not a number",
)
case(
    "scalar, too deep",
    pointwise("-" * 3000 + "self"),
    "3:11: new: not a formula: nested more than 100 deep",
)
case(
    "scalar, keys of neither outputs nor words",
    pointwise().replace("scalar: self + beta", "scalar: {a: self, b: beta}"),
    "3:3: new: the keys of 'scalar' are the outputs, which have no names, or the values of one "
    "str argument",
)
case(
    "scalar, no output",
    pointwise().replace("-> Tensor", "-> ()"),
    "3:3: new: a formula needs an output; '-> Tensor' in the signature",
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
    "6:15: new: 'auto' is for operators with a 'scalar' formula; state a tensor formula",
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

case(
    "derivative, misspelt word",
    structured(derivative="autp"),
    "6:15: new: a derivative is 'auto', 'zero', 'composite', 'none: reason' or a mapping "
    "{input: formula}; did you mean 'auto'?",
)
case(
    "derivative, misspelt result",
    structured(derivative="{self: grad * reslt, weight: zero}"),
    "6:29: new: unknown name 'reslt'; did you mean 'result'?",
)
case(
    "derivative, list of gradients of one output",
    structured(derivative='{self: "grads[0]", weight: zero}'),
    "6:23: new: unknown name 'grads'; did you mean 'grad'?",
)
case(
    "derivative, one for two",
    structured(derivative='{"self, weight": grad}'),
    "6:32: new: 2 gradients are wanted here, each a Tensor, found 1",
)
case(
    "derivative, three for two",
    structured(derivative='{"self, weight": "(grad, grad, grad)"}'),
    "6:33: new: 2 gradients are wanted here, each a Tensor, found 3",
)
case(
    "forward, misspelt word",
    structured() + "  forward: linaer\n",
    "9:12: new: unknown word 'linaer' for 'forward'; did you mean 'linear'?",
)
case(
    "forward, misspelt tangent",
    structured() + "  forward: slef_t * 2\n",
    "9:12: new: unknown name 'slef_t'; did you mean 'self_t'?",
)
case(
    "forward, none without reason",
    structured() + '  forward: "none:"\n',
    "9:13: new: 'none' needs its reason: 'none: reason'",
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
    "4:3: new: 1 output, 2 shapes",
)
case(
    "scalar and dispatch",
    pointwise() + "  dispatch: {CPU: new}\n",
    "7:3: new: 'scalar' gives the kernels of every device; 'dispatch' has no place",
)

case(
    "function that is no name",
    structured() + "  composite_fn: a + b\n  opaque: steps\n",
    "9:17: new: 'a + b' is no C++ name; a formula over operators goes to 'composite'",
)
case(
    "function without a reason",
    structured() + "  composite_fn: steps\n",
    "9:17: new: 'composite_fn' is C++, which formulas could not say: why not is 'opaque'",
)
case(
    "batching without a reason",
    structured() + "  batch_fn: rows\n",
    "9:13: new: 'batch_fn' is C++, which formulas could not say: why not is 'opaque'",
)
case(
    "reason of nothing",
    structured() + "  opaque: it loops\n",
    "9:11: new: 'opaque' says why something is C++: neither 'composite_fn' nor 'batch_fn' is",
)
case(
    "shape that is none",
    structured("self"),
    "4:10: new: a Meta is wanted here, `self` is a Tensor",
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
    "composite cycle through an in-place form",
    (composite("a(self)") + composite("self.new_()").replace("new(Tensor", "a(Tensor")).replace(
        "  samples", "  variants: [inplace]\n  samples"
    ),
    "3:14: new: the composite runs in a circle: new -> a -> new",
)
case(
    "check, unknown name",
    structured() + "  checks: {c1: {require: dmi > 0, error: wrong}}\n",
    "9:26: new: unknown name 'dmi'; did you mean 'dim'?",
)
case(
    "program, no return",
    composite("|\n    x = self + 1\n    x + 1"),
    "5:5: new: the program may end here without 'return'",
)
case(
    "program, return on one path",
    composite("|\n    if dim > 0:\n        return self"),
    "4:5: new: the program may end here without 'return'",
)
case(
    "program, bare return",
    composite("|\n    return"),
    "4:5: new: return needs a value",
)
case(
    "program, loop",
    composite("|\n    while dim:\n        dim = 0\n    return self"),
    "4:5: new: `while dim:` is not part of the formula language",
)
case(
    "program, range of nothing",
    composite("|\n    for i in range():\n        pass\n    return self"),
    "4:14: new: range() takes 1 to 3 numbers here, found 0",
)
case(
    "program, unknown error",
    composite("|\n    raise Foo('x')"),
    "4:5: new: unknown error Foo; allowed: ValueError, RuntimeError, TypeError, IndexError, "
    "NotImplementedError, LinAlgError",
)
case(
    "program, formatted message",
    composite("|\n    raise ValueError(f'{dim:3d}')"),
    "4:22: new: a message shows values without conversions and formats",
)
case(
    "program, warning of a tensor",
    composite("|\n    warn(f'{self}')\n    return self"),
    "4:10: new: a message cannot show a Tensor",
)
case(
    "program, message of a Scalar",
    composite("|\n    raise ValueError(f'{value}')").replace("int dim=0", "Scalar value=0"),
    "4:22: new: a message cannot show a Scalar",
)
case(
    "program, message of a tensor",
    composite("|\n    raise ValueError(f'{self}')"),
    "4:22: new: a message cannot show a Tensor",
)
case(
    "program, results in one name",
    composite("|\n    x = two(self)\n    return self") + TWO,
    "4:5: new: 2 results need 2 names, or an index",
)
case(
    "program, more names than results",
    composite("|\n    a, b, c = two(self)\n    return a") + TWO,
    "4:5: new: 3 names for 2 values",
)
case(
    "composite, chain of comparisons",
    composite("self if 0 < dim < 3 else self"),
    "3:22: new: write a chain of comparisons as `a < b and b < c`",
)
case(
    "composite, unlike types compared",
    composite("self if dim == 'a' else self"),
    "3:22: new: `==` does not compare int and str",
)
case(
    "composite, branches of unlike types",
    composite("self if dim else dim"),
    "3:14: new: the two branches are Tensor and int",
)
case(
    "composite, step of a slice",
    composite("self.sum(self.shape[::2])"),
    "3:23: new: a slice of a list has no step in formulas",
)
case(
    "composite, index of a tensor",
    composite("self[0]"),
    "3:14: new: a Tensor is not indexed in formulas; use select or slice",
)
case(
    "composite, method of tensors without its dim",
    composite("self + self.size()"),
    "3:21: new: size() takes the number of a dim in formulas",
)
case(
    "composite, unpacked keywords",
    composite("self.sum(**dim)"),
    "3:14: new: a call names each argument; `**` is not in the language",
)
case(
    "composite, list of unlike elements",
    composite("self.sum([None])"),
    "3:23: new: a list holds ints, bools or tensors",
)
case(
    "composite, in-place form that is none",
    composite("self.sum_()"),
    "3:14: new: 'sum' has no in-place form; its 'variants' have none",
)
case(
    "composite, sign without operator",
    composite("self % 2"),
    "3:14: new: no operator of ops.yaml stands for `%` on Tensor, int",
)
case(
    "check that is no condition",
    structured() + "  checks: {c1: {require: self, error: wrong}}\n",
    "9:26: new: a bool is wanted here, `self` is a Tensor",
)
case(
    "check, unknown key",
    structured() + "  checks: {c1: {requires: dim > 0, error: wrong}}\n",
    "9:16: new: check 'c1' has the keys 'require' and 'error', and may have 'raises'",
)
case(
    "check, unknown error",
    structured() + "  checks: {c1: {require: dim > 0, error: wrong, raises: ValuError}}\n",
    "9:57: new: unknown error 'ValuError'; did you mean 'ValueError'?",
)
case(
    "check, unknown name in its error",
    structured() + '  checks: {c1: {require: dim > 0, error: "dim is {dmi}, not more"}}\n',
    "9:51: new: unknown name 'dmi'; did you mean 'dim'?",
)
case(
    "check, no formula in its error",
    structured() + '  checks: {c1: {require: dim > 0, error: "dim is {dim +}"}}\n',
    "9:51: new: not a formula: invalid syntax",
)
case(
    "check, a brace alone in its error",
    structured() + '  checks: {c1: {require: dim > 0, error: "dim is {dim"}}\n',
    "9:50: new: '{' without its partner",
)
case(
    "check, an error that shows a tensor",
    structured() + '  checks: {c1: {require: dim > 0, error: "given {self}"}}\n',
    "9:43: new: a message cannot show a Tensor",
)
case(
    "check that is neither",
    structured() + "  checks: {c1: dim > 0}\n",
    "9:16: new: a check has 'require' and 'error', or calls a rule",
)
case(
    "check by an unknown rule",
    structured() + "  checks: {c1: positve(dim)}\n- rule: positive(int dim) -> ()\n",
    "9:16: new: no rule 'positve' that returns (); did you mean 'positive'?",
)
case(
    "check by a shape rule",
    structured() + "  checks: {c1: like(self)}\n- rule: positive(int dim) -> ()\n",
    "9:16: new: no rule 'like' that returns (); known are positive",
)
case(
    "check by a rule, wrong arity",
    structured() + "  checks:\n    c1: positive(dim, 1)\n- rule: positive(int dim) -> ()\n",
    "10:9: new: positive(int, int) does not fit positive(int dim) -> ()",
)
case(
    "shape from a rule that only checks",
    structured(shape="positive(dim)") + "- rule: positive(int dim) -> ()\n",
    "4:10: new: a Meta is wanted here, `positive(dim)` is a tuple",
)


@pytest.mark.parametrize("name", CASES)
def test_error(name: str, tmp_path: Path) -> None:
    text, wanted = CASES[name]
    assert messages(tmp_path, text) == wanted
