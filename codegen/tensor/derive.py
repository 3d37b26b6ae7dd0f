"""Completes the schema: `derivative: auto` and `scalar:` statements become fused operators.

The backward of operator X is the pointwise operator `X_backward`, or `X_backward_INPUT` for several
inputs, of `grad_output`, the inputs or result (named `output`) that it needs, and X's other
arguments. Its own derivatives are tensor formulas over operators, so that every order exists.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ..scalar.symbolic import (
    GRAD,
    ZERO,
    Calculus,
    NoDerivative,
    add,
    coefficient,
    is_zero,
    mul,
    pull,
    reuse_result,
)
from ..scalar.tree import Expr, call, from_formula, name
from ..schema import expr
from ..schema.errors import Errors
from ..schema.model import Argument, Derivative, Operator, Return, Schema, Signature, Type
from .tensor_form import Library, operators_used, simple, tensor_form

_TENSOR = Type("Tensor")


def derive(schema: Schema) -> Schema:
    """The schema with derived operators added and every derivative a tensor formula."""
    derived, errors = derive_records(schema)
    errors.raise_if_any()
    return derived


def derive_records(schema: Schema) -> tuple[Schema, Errors]:
    """As `derive`, with the mistakes beside the schema."""
    deriver = _Deriver(schema)
    return deriver.run(), deriver.errors


@dataclass(frozen=True)
class _Backward:
    """The gradient of one input: a formula for each variant, over `grad_output` and the rest."""

    input: str
    formulas: tuple[tuple[str, Expr], ...]

    def names(self) -> set[str]:
        return set().union(*(e.names() for _, e in self.formulas))


class _Deriver:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.calculus = Calculus(schema.math)
        self.errors = Errors()
        self.names = {op.name for op in schema.callables}
        self.base_names = {op.base_name for op in schema.callables}
        self.library = Library({})
        for op in schema.operators:
            if op.scalar and not op.scalar_variants and len(op.signature.returns) == 1:
                self.library.add(op, from_formula(op.scalar[0][1]))

    def run(self) -> Schema:
        operators: list[Operator] = []
        derived: list[Operator] = []
        for op in self.schema.operators:
            if any(d.auto or d.scalar for d in op.derivatives) and op.scalar:
                op, made = self.operator(op)
                derived += made
            operators.append(op)
        return dataclasses.replace(self.schema, operators=(*operators, *derived))

    def operator(self, op: Operator) -> tuple[Operator, list[Operator]]:
        backwards: dict[int, _Backward] = {}
        statements = list(op.derivatives)
        for a in op.signature.arguments:
            if a.name in _MEANT:
                message = (
                    f"'{a.name}' is {_MEANT[a.name]} in derivatives; give the argument another name"
                )
                self.errors.add(op.location, op.name, message)
                return op, []
        for i, statement in enumerate(op.derivatives):
            if not (statement.auto or statement.scalar):
                continue
            [input_] = statement.inputs
            if input_ in op.masks:
                statements[i] = Derivative(statement.inputs, statement.location, none="a mask")
                continue
            try:
                backwards[i] = self.backward(op, statement)
            except NoDerivative as error:
                self.errors.add(
                    statement.location, op.name, f"no automatic derivative by '{input_}': {error}"
                )
        several = sum(d.none is None and not d.zero for d in statements) > 1
        made: list[Operator] = []
        for i, backward in backwards.items():
            statement = statements[i]
            if all(is_zero(e) for _, e in backward.formulas):
                statements[i] = Derivative(statement.inputs, statement.location, zero=True)
                continue
            text = self.as_tensor_formula(op, backward)
            if text is None:
                new = self.derived_operator(op, backward, several)
                if new.name in self.names:
                    self.errors.add(op.location, op.name, f"'{new.name}' is declared by hand")
                made.append(new)
                text = _call_text(op, new)
                if not new.scalar_variants:
                    self.library.add(new, from_formula(new.scalar[0][1]))
            formula = expr.synthetic(text, statement.location)
            statements[i] = Derivative(statement.inputs, statement.location, formula=formula)
        return op.replace(derivatives=tuple(statements)), made

    # ---- gradients of declared operators ----

    def backward(self, op: Operator, statement: Derivative) -> _Backward:
        [input_] = statement.inputs
        if statement.scalar is not None:
            stated = from_formula(statement.scalar).substitute({"grad": GRAD})
            if coefficient(stated, GRAD.text) is None:
                self.errors.add(
                    statement.scalar.location, op.name, "a scalar derivative is linear in 'grad'"
                )
            variants = [key for key, _ in op.scalar] if op.scalar_variants else [""]
            return _Backward(input_, tuple((key, stated) for key in variants))
        tensors = [a.name for a in op.signature.tensor_arguments]
        if op.scalar_variants or len(op.signature.returns) == 1:
            formulas = []
            for key, formula in op.scalar:
                forward = from_formula(formula)
                slope = self.slope(op, forward, input_)
                slope = reuse_result(slope, {"result": forward}, tensors)
                formulas.append((key, self.pull(op, GRAD, slope)))
            return _Backward(input_, tuple(formulas))
        outputs = {key: from_formula(formula) for key, formula in op.scalar}
        total = ZERO
        for key, forward in outputs.items():
            slope = reuse_result(self.slope(op, forward, input_), outputs, tensors)
            total = add(total, self.pull(op, name(f"grad_output_{key}"), slope))
        return _Backward(input_, (("", total),))

    def slope(self, op: Operator, forward: Expr, input_: str) -> Expr:
        if "complex" in op.dtypes and not self.calculus.holomorphic(forward):
            raise NoDerivative("the formula is not holomorphic; state a tensor formula")
        return self.calculus.slope(forward, input_)

    def pull(self, op: Operator, grad: Expr, slope: Expr) -> Expr:
        plain = {a.name for a in op.signature.arguments if not a.type.is_tensor}
        return pull(grad, slope, conj="complex" in op.dtypes, plain=plain)

    def as_tensor_formula(self, op: Operator, backward: _Backward) -> str | None:
        """The gradient as a call of what exists already, or None if it needs its own operator."""
        [(_, target), *others] = backward.formulas
        if any(e != target for _, e in others):
            return None
        tensors = {a.name for a in op.signature.tensor_arguments} | {GRAD.text}
        grads = {n: name(n.replace("grad_output", "grad", 1)) for n in target.names()}
        text = None
        inner = target.args[0] if target.head == "neg" else target
        if inner == GRAD:
            text = str(target.substitute(grads))
        elif inner.head == "*" and inner.args[0] == GRAD and simple(inner.args[1]):
            factor = inner.args[1]
            one = _default_is_one(op, factor)
            text = str(target.substitute(grads))
            if one is not None:
                plain = "grad" if target is inner else "-grad"
                text = f"{plain} if {one} == 1 else {text}"
        else:
            text = self.library.find(target.substitute(grads), op.name, tensors | {"grad"})
        return text

    # ---- derived operators ----

    def derived_operator(self, op: Operator, backward: _Backward, several: bool) -> Operator:
        suffix = f"_backward_{backward.input}" if several else "_backward"
        outputs = {r.name or "result" for r in op.signature.returns}
        kept_output = _output_name(op)
        rename = {"result": name(kept_output)} if len(outputs) == 1 else {}
        formulas = tuple((k, e.substitute(rename)) for k, e in backward.formulas)
        used = set().union(*(e.names() for _, e in formulas))
        arguments = [Argument(n, _TENSOR) for n in sorted(used) if n.startswith("grad_output")]
        kept = [a for a in op.signature.arguments if a.name in used]
        arguments += [Argument(a.name, a.type) for a in kept if a.type.is_tensor]
        arguments += [
            Argument(n, _TENSOR)
            for n in ((kept_output,) if rename else sorted(outputs))
            if n in used
        ]
        by_variant = op.scalar_variants and len(formulas) > 1
        for a in op.signature.arguments:
            if not a.type.is_tensor and (a.name in used or (by_variant and a.type.base == "str")):
                arguments.append(Argument(a.name, a.type))
        signature = Signature(
            op.symbol + suffix, tuple(arguments), (Return(None, _TENSOR),), parenthesised=False
        )
        if not by_variant:
            formulas = (("", formulas[0][1]),)
        new = Operator(
            signature=signature,
            location=op.location,
            kind="pointwise",
            doc=f"Gradient of {op.base_name} with respect to `{backward.input}`.",
            example="",
            scalar=tuple((k, expr.synthetic(str(e), op.location)) for k, e in formulas),
            scalar_variants=by_variant,
            dtypes=tuple(c for c in op.dtypes if c in ("float", "complex")),
            promote="same",
            masks=tuple(m for m in op.masks if m in used),
            internal=True,
            derived_from=op.name,
            forward="elementwise",
        )
        return new.replace(derivatives=self.second_order(new, formulas))

    def second_order(
        self, op: Operator, formulas: Sequence[tuple[str, Expr]]
    ) -> tuple[Derivative, ...]:
        """Derivatives of a derived operator, as tensor formulas."""
        conj = "complex" in op.dtypes
        grads = [a.name for a in op.signature.arguments if a.name.startswith(GRAD.text)]
        tensors = [a.name for a in op.signature.tensor_arguments]
        found: list[Derivative] = []
        for input_ in tensors:
            if input_ in op.masks:
                found.append(Derivative((input_,), op.location, none="a mask"))
            elif input_ in grads and len(grads) == 1:
                others = [a.name for a in op.signature.arguments if a.name != input_]
                text = f"{op.name}({', '.join(['conj(grad)' if conj else 'grad', *others])})"
                text = f"conj({text})" if conj else text
                formula = expr.synthetic(text, op.location)
                found.append(Derivative((input_,), op.location, formula=formula))
            else:
                found.append(self._second(op, formulas, input_, grads, tensors, conj))
        return tuple(found)

    def _second(
        self,
        op: Operator,
        formulas: Sequence[tuple[str, Expr]],
        input_: str,
        grads: Sequence[str],
        tensors: Sequence[str],
        conj: bool,
    ) -> Derivative:
        incoming = call("conj", name("grad")) if conj else name("grad")
        terms: list[tuple[str, Expr]] = []
        for key, formula in formulas:
            total = ZERO
            for grad in grads:
                only = formula.substitute({g: ZERO for g in grads if g != grad})
                factor = coefficient(only, grad)
                if factor is None:
                    continue
                if input_ in grads:
                    if input_ == grad:
                        total = add(total, self.pull(op, name("grad"), factor))
                    continue
                try:
                    slope = self.calculus.slope(factor, input_)
                except NoDerivative as error:
                    self.errors.add(op.location, op.derived_from or op.name, str(error))
                    slope = ZERO
                if "nan" in slope.names() - factor.names():  # what the vocabulary has no slope of
                    return Derivative((input_,), op.location, none=_NO_SLOPE)
                total = add(total, self.pull(op, mul(incoming, name(grad)), slope))
            terms.append((key, total))
        self._note_missing(op, [e for _, e in terms])
        if all(is_zero(e) for _, e in terms):
            return Derivative((input_,), op.location, zero=True)
        variant = next((a.name for a in op.signature.arguments if a.type.base == "str"), "")
        lines = []
        for key, term in terms:
            body = tensor_form(term, [*tensors, "grad"])
            if key != terms[-1][0]:
                lines.append(f'if {variant} == "{key}":')
                body = [f"    {line}" for line in body]
            lines += body
        stated = expr.synthetic("\n".join(lines), op.location)
        return Derivative((input_,), op.location, formula=stated)

    def _note_missing(self, op: Operator, terms: Sequence[Expr]) -> None:
        """Words of the vocabulary that a second derivative needs but no operator is named after."""
        for word in sorted(set().union(*(operators_used(e) for e in terms)) - self.base_names):
            subject = op.derived_from or op.name
            self.errors.add(
                op.location, subject, f"its second derivative needs an operator named '{word}'"
            )


# Names with a meaning of their own in the formulas that are made.
_MEANT = {
    "grad": "the incoming gradient",
    "grad_output": "the incoming gradient",
    "result": "the result",
}
_NO_SLOPE = "a second derivative that has no formula"


def _output_name(op: Operator) -> str:
    """What the result is called among a derived operator's arguments."""
    taken = {a.name for a in op.signature.arguments}
    return "output" if "output" not in taken else "its_output"


def _call_text(op: Operator, new: Operator) -> str:
    """The call of a derived operator in the words of the declared operator's derivative."""
    words = []
    output = _output_name(op)
    for argument in new.signature.arguments:
        word = argument.name.replace("grad_output", "grad", 1)
        words.append("result" if word == output and argument.type.is_tensor else word)
    return f"{new.name}({', '.join(words)})"


def _default_is_one(op: Operator, factor: Expr) -> str | None:
    """The non-tensor argument that a gradient is multiplied with, if it is 1 by default."""
    inner = factor.args[0] if factor.head == "call" else factor
    for a in op.signature.arguments:
        if a.name == inner.text and not a.type.is_tensor and a.default in ("1", "1.0"):
            return a.name
    return None
