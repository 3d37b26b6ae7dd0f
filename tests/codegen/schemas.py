"""Small schemas for the tests of the generator, and cases of what is wrong with them."""

from __future__ import annotations

from pathlib import Path

from codegen.check import Report, check

# Enough of a vocabulary and of operators for formulas, derivatives and composites to stand on.
BASE = """\
- math: exp(x)
  derivative: exp(x)
- math: mul0(x, y)
  derivative: {x: y, y: x}
- math: sign(x)
  derivative: zero
- rule: like(Tensor self) -> Meta
- rule: reduced(Tensor self, int[]? dim, bool keepdim) -> Meta
- op: add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  doc: Sum.
  scalar: self + alpha * other
  derivative: auto
  python: [function, method, "+"]
  reference: self + alpha * other
- op: mul(Tensor self, Tensor other) -> Tensor
  doc: Product.
  scalar: self * other
  derivative: auto
  python: [function, method, "*"]
  reference: self * other
- op: mul0(Tensor self, Tensor other) -> Tensor
  doc: Product with zero winning.
  scalar: mul0(self, other)
  derivative: auto
  reference: self * other
- op: neg(Tensor self) -> Tensor
  doc: Negation.
  scalar: -self
  derivative: auto
  python: [function, method, "unary -"]
  reference: -self
- op: exp(Tensor self) -> Tensor
  doc: Exponential.
  scalar: exp(self)
  derivative: auto
  reference: np.exp(self)
- op: sum(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor
  doc: Sum over dims.
  kind: reduction
  shape: reduced(self, dim, keepdim)
  dispatch: {CPU: sum}
  derivative: {self: grad * self}
  samples: ["f(3,4)"]
  reference: np.sum(self, axis=dim, keepdims=keepdim)
"""


def report(folder: Path, text: str, base: str = BASE) -> Report:
    """What a check says of `text`, which stands before the base, so that lines count from it."""
    path = folder / "ops.yaml"
    path.write_text(text + base, encoding="utf-8")
    return check(path)


def messages(folder: Path, text: str, base: str = BASE) -> list[str]:
    return [str(e) for e in report(folder, text, base).errors]


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
  samples: ["f(3,4), 1, f(4)"]
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


class Cases(dict[str, tuple[str, list[str]]]):
    """Names of cases with a text and the messages that it must give."""

    def add(self, name: str, text: str, *wanted: str) -> None:
        """`wanted` are the messages after `ops.yaml:`."""
        assert name not in self
        self[name] = (text, [f"ops.yaml:{message}" for message in wanted])
