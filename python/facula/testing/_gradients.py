"""The derivatives of an operator: finite differences, second order, forward mode.

Each check takes a record and the number of one of its samples; it raises, or skips what says
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import facula
from facula.autograd import forward_ad, gradcheck, gradgradcheck
from facula.testing._calls import arguments
from facula.testing._samples import Constant, Formed, OpRecord, Varying

Function = Callable[..., tuple[facula.Tensor, ...]]


def is_differentiable(op: OpRecord) -> bool:
    """Whether its samples have derivatives that finite differences can judge."""
    return bool(
        op.samples()
        and (op.differentiable or (op.composite and not op.dispatch))
        and not op.derived_from
        and not op.property
        and op.kind not in ("factory", "random", "mutation")
        and all(r["type"].startswith("Tensor") for r in op.returns)
    )


def has_forward(op: OpRecord) -> bool:
    """All that have a gradient, but for those that state why not."""
    return not op.data.get("forward_reason")


# Results that finite differences can judge.
PRECISE = (facula.float64, facula.complex128)


def taken(value: object) -> bool:
    """Is a derivative taken of this sample value?"""
    return isinstance(value, Varying) and not isinstance(value, Constant)


def leaf(value: Any, tensor: facula.Tensor) -> facula.Tensor:
    """What is varied: the tensor, or the free numbers that a matrix of some form is made of."""
    given = facula.tensor(value.free) if isinstance(value, Formed) else tensor
    return given.detach().requires_grad_()


def form_of(value: Any) -> Callable[[facula.Tensor], facula.Tensor]:
    """From what is varied to the tensor."""
    if isinstance(value, Formed):
        return lambda free: value.form(free, facula.tensor)
    return lambda tensor: tensor


def mutated(op: OpRecord, position: int) -> bool:
    arguments = op.data["arguments"]
    return position < len(arguments) and "!" in arguments[position]["type"]


def takes_complex(op: OpRecord, index: int) -> bool:
    """Whether the sample's derivatives are taken of complex numbers too."""
    sample = op.sample(index)
    values = [*sample.args, *sample.kwargs.values()]
    flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
    return "complex" in (op.dtypes or ()) and not any(isinstance(v, Formed) for v in flat)


def function_of_floats(
    op: OpRecord, index: int, dtype: str = "float64"
) -> tuple[Function, list[facula.Tensor]]:
    """(f, inputs): the operator as a function of its float tensors alone, of that dtype."""
    sample = op.sample(index)
    _, args, kwargs = arguments(sample, dtype)
    allowed = set(op.differentiable) or set(op.argument_names)
    inputs, places, forms = [], [], []
    for i, value in enumerate(sample.args):
        name = op.argument_names[min(i, len(op.argument_names) - 1)]
        if name not in allowed:
            continue
        if taken(value):
            places.append((i, None))
            inputs.append(leaf(value, args[i]))
            forms.append(form_of(value))
        elif isinstance(value, list | tuple):
            for j, item in enumerate(value):
                if taken(item):
                    places.append((i, j))
                    inputs.append(leaf(item, args[i][j]))
                    forms.append(form_of(item))
    names = [k for k, v in sample.kwargs.items() if taken(v) and k in allowed]
    inputs += [leaf(sample.kwargs[k], kwargs[k]) for k in names]
    forms += [form_of(sample.kwargs[k]) for k in names]

    def function(*free: facula.Tensor) -> tuple[facula.Tensor, ...]:
        tensors = [form(t) for form, t in zip(forms, free, strict=True)]
        mine = [list(a) if isinstance(a, list | tuple) else a for a in args]
        for (i, j), t in zip(places, tensors, strict=False):
            if j is None:
                mine[i] = t
            else:
                mine[i][j] = t
        named = dict(zip(names, tensors[len(places) :], strict=True))
        # what the operator writes to must not be the leaf itself
        mine = [
            m.clone() if isinstance(m, facula.Tensor) and mutated(op, k) else m
            for k, m in enumerate(mine)
        ]
        result = op.function()(*mine, **{**kwargs, **named})
        results = result if isinstance(result, tuple | list) else (result,)
        if op.kept:  # no gradient goes through these
            fields = [r["name"] for r in op.returns]
            results = [r for r, n in zip(results, fields, strict=True) if n not in op.kept]
        return tuple(r for r in results if isinstance(r, facula.Tensor) and r.dtype in PRECISE)

    return function, inputs


def prepared(
    op: OpRecord, index: int, dtype: str = "float64"
) -> tuple[Function, list[facula.Tensor]]:
    function, inputs = function_of_floats(op, index, dtype)
    if not inputs:
        pytest.skip("no float input in this sample")
    outputs = function(*inputs)
    if op.composite and not op.differentiable and len(inputs) > 1:
        # a part may state that an input is a constant, as the weights of classes are
        total = sum(inner(o, facula.ones_like(o)) for o in outputs if o.requires_grad)
        if isinstance(total, facula.Tensor):
            grads = facula.autograd.grad(total, inputs, allow_unused=True)
            for t, g in zip(inputs, grads, strict=True):
                t.requires_grad_(g is not None)
            outputs = function(*inputs)
    if not any(o.requires_grad for o in outputs):  # also where there is none that can be judged
        pytest.skip("the output does not depend on a float input")
    return function, inputs


def check_gradient(op: OpRecord, index: int, dtype: str = "float64") -> None:
    """Against finite differences."""
    function, inputs = prepared(op, index, dtype)
    assert gradcheck(function, inputs, fast_mode=True)


def check_second_gradient(op: OpRecord, index: int, dtype: str = "float64") -> None:
    """The gradient's own gradient, against finite differences."""
    function, inputs = prepared(op, index, dtype)
    try:
        assert gradgradcheck(function, inputs, fast_mode=True)
    except NotImplementedError as error:
        # An entry states that there is none, and must not be silent.
        if getattr(error, "kind", None) != "derivative":
            raise


def directed(
    op: OpRecord, index: int, dtype: str = "float64"
) -> tuple[Any, list[facula.Tensor], list[facula.Tensor]]:
    """The function, fresh leaves for it, and a direction to move each that is differentiable."""
    function, inputs = prepared(op, index, dtype)
    facula.manual_seed(0)
    inputs = [i.detach().requires_grad_(i.requires_grad) for i in inputs]
    moving = [facula.randn(i.shape, dtype=i.dtype) * float(i.requires_grad) for i in inputs]
    return function, inputs, moving


def inner(a: facula.Tensor, b: facula.Tensor) -> facula.Tensor:
    """The real inner product of two tensors."""
    product = a * b.conj()
    return (product.real if product.is_complex() else product).sum()


def check_forward(op: OpRecord, index: int, dtype: str = "float64") -> None:
    """<v, J u> computed both ways."""
    function, inputs, directions = directed(op, index, dtype)
    outputs = function(*inputs)
    weights = [facula.randn(o.shape, dtype=o.dtype) for o in outputs]
    total = sum(inner(o, w) for o, w in zip(outputs, weights, strict=True))
    wanted = [i for i in inputs if i.requires_grad]
    grads = iter(facula.autograd.grad(total, wanted, allow_unused=True))
    pairs = [
        (next(grads) if i.requires_grad else None, u)
        for i, u in zip(inputs, directions, strict=True)
    ]
    reverse = sum(float(inner(g, u)) for g, u in pairs if g is not None)
    with forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(i.detach(), u) for i, u in zip(inputs, directions, strict=True)
        ]
        try:
            tangents = [forward_ad.unpack_dual(o).tangent for o in function(*duals)]
        except NotImplementedError:
            if not op.composite:
                raise
            pytest.skip("a part of it has no forward-mode derivative")
        forward = sum(
            float(inner(t, w)) for t, w in zip(tangents, weights, strict=True) if t is not None
        )
    assert forward == pytest.approx(reverse, rel=1e-6, abs=1e-8)


class Second:
    """<w, H u>, which modes of second derivatives compare; `reverse` is two backward passes."""

    def __init__(self, op: OpRecord, index: int, dtype: str) -> None:
        self.function, self.inputs, self.moving = directed(op, index, dtype)
        self.wanted = [k for k, i in enumerate(self.inputs) if i.requires_grad]
        inputs = self.inputs
        self.across = [facula.randn(inputs[k].shape, dtype=inputs[k].dtype) for k in self.wanted]
        outputs = self.function(*inputs)
        self.weights = [facula.randn(o.shape, dtype=o.dtype) for o in outputs]

    def total(self, outputs: Sequence[facula.Tensor | None]) -> facula.Tensor | float:
        pairs = zip(outputs, self.weights, strict=True)
        return sum(inner(o, w) for o, w in pairs if o is not None)

    def gradients(self, total: facula.Tensor, points: list[facula.Tensor]) -> Any:
        leaves = [points[k] for k in self.wanted]
        return facula.autograd.grad(total, leaves, create_graph=True, allow_unused=True)

    def along(self, found: Sequence[facula.Tensor | None]) -> Any:
        pairs = zip(found, self.across, strict=True)
        return sum(inner(g, w) for g, w in pairs if g is not None)

    def reverse(self) -> float:
        first = self.gradients(self.total(self.function(*self.inputs)), self.inputs)
        total = self.along([g if g is not None and g.requires_grad else None for g in first])
        if not isinstance(total, facula.Tensor):
            return 0.0
        second = self.gradients(total, self.inputs)
        pairs = [(h, self.moving[k]) for h, k in zip(second, self.wanted, strict=True)]
        return sum(float(inner(h, u)) for h, u in pairs if h is not None)

    def duals(self) -> list[facula.Tensor]:
        pairs = zip(self.inputs, self.moving, strict=True)
        return [forward_ad.make_dual(i, u) for i, u in pairs]


def check_forward_over_reverse(op: OpRecord, index: int, dtype: str = "float64") -> None:
    """<w, H u>: the tangent of the gradient, and the gradient of <w, gradient>."""
    second = Second(op, index, dtype)
    reverse = second.reverse()
    with forward_ad.dual_level():
        duals = second.duals()
        try:
            found = second.gradients(second.total(second.function(*duals)), duals)
        except NotImplementedError:
            pytest.skip("its gradient has no forward-mode derivative")
        tangents = [g if g is None else forward_ad.unpack_dual(g).tangent for g in found]
        forward = float(second.along(tangents))
    assert forward == pytest.approx(reverse, rel=1e-6, abs=1e-8)


def check_reverse_over_forward(op: OpRecord, index: int, dtype: str = "float64") -> None:
    """<w, H u>: the gradient of the tangent, and the gradient of <w, gradient>."""
    second = Second(op, index, dtype)
    try:
        reverse = second.reverse()
    except NotImplementedError:
        pytest.skip("its gradient has none")
    with forward_ad.dual_level():
        try:
            outputs = second.function(*second.duals())
        except NotImplementedError:
            pytest.skip("a part of it has no forward-mode derivative")
        total = second.total([forward_ad.unpack_dual(o).tangent for o in outputs])
    found = 0.0
    if isinstance(total, facula.Tensor) and total.requires_grad:
        found = float(second.along(second.gradients(total, second.inputs)))
    assert found == pytest.approx(reverse, rel=1e-6, abs=1e-8)
