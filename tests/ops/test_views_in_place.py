"""In-place changes of views and of their bases: gradients, versions and what was saved."""

from __future__ import annotations

from typing import Any

import facula as fa
import pytest
from facula.testing._samples import OpRecord, operators
from harness import arguments


def view_of(op: OpRecord, i: int) -> tuple[fa.Tensor, Any]:
    """A leaf, and a function from a tensor like it to the views."""
    _, args, kwargs = arguments(
        op.sample(i), "float64" if "float" in (op.dtypes or "float") else None
    )
    if not (
        args
        and isinstance(args[0], fa.Tensor)
        and (args[0].is_floating_point() or args[0].is_complex())
    ):
        raise LookupError("no tensor that may have a gradient")

    def function(x: fa.Tensor) -> list[fa.Tensor]:
        out = op.function()(x, *args[1:], **kwargs)
        return list(out) if isinstance(out, tuple | list) else [out]

    whole = args[0] * 1
    given = function(whole)
    if not all(isinstance(v, fa.Tensor) and v._base is whole for v in given):
        raise LookupError("no view, or none that gradients follow")
    return args[0], function


def views() -> list[Any]:
    """Calls whose result shows memory of their first argument, by what they do."""
    found = []
    for op in operators():
        if op.kind not in ("view", "composite") or op.internal or op.derived_from:
            continue
        for i, text in enumerate(op.data["samples"] or ()):
            try:
                view_of(op, i)
            except LookupError:
                continue
            found.append(pytest.param(op, i, id=f"{op.name}-{text}"))
    return found


def is_writable(view: fa.Tensor) -> bool:
    """Does it reach no element through two indices?"""
    try:
        view.detach().add_(0)
    except RuntimeError:
        return False
    return True


def real_sum(tensors: list[fa.Tensor]) -> fa.Tensor:
    parts = [fa.view_as_real(t) if t.is_complex() else t for t in tensors]
    return sum(
        (p * fa.arange(1.0, p.numel() + 1, dtype=p.dtype).reshape(p.shape)).sum() for p in parts
    )


@pytest.mark.parametrize(("op", "i"), views())
def test_base_changes_after_an_operation_that_saves_nothing(op: OpRecord, i: int) -> None:
    leaf, function = view_of(op, i)

    def gradient(change: bool) -> list[Any]:
        x = leaf.detach().clone().requires_grad_()
        base = x * 1
        views = function(base)
        outs = [v + 2 for v in views]
        if change:
            with fa.no_grad():
                base.mul_(3)
                for v in views:
                    if is_writable(v):
                        v.add_(1)
        real_sum(outs).backward()
        return x.grad.tolist()

    assert gradient(True) == gradient(False)


@pytest.mark.parametrize(("op", "i"), views())
def test_gradients_through_changes_of_base_and_view(op: OpRecord, i: int) -> None:
    """Each against finite differences."""
    leaf, function = view_of(op, i)

    def base_changed(x: fa.Tensor) -> fa.Tensor:
        base = x * 1
        views = function(base)
        base.mul_(x * x)
        return real_sum([v * v for v in views])

    x = leaf.detach().clone().requires_grad_()
    if x.numel() == 0:
        real_sum(function(x * 1)).backward()
        return
    assert fa.autograd.gradcheck(base_changed, x)
    first = function(x.detach() * 1)[0]
    if not is_writable(first):
        return
    factor, shift = fa.rand_like(first) + 1, fa.rand_like(first)

    def view_changed(x: fa.Tensor) -> fa.Tensor:
        base = x * 1
        view = function(base)[0]
        view.mul_(factor)
        view.add_(shift)
        return real_sum([base * base])

    assert fa.autograd.gradcheck(view_changed, x)
    assert fa.autograd.gradgradcheck(view_changed, x)


# ---- versions ----
def test_data_counts_for_itself() -> None:
    x = fa.ones(3)
    data = x.data
    data.add_(1)
    assert (x._version, data._version, x.tolist()) == (0, 1, [2.0] * 3)
    x.mul_(2)
    x.mul_(2)
    assert (x._version, data._version, data.tolist()) == (2, 1, [8.0] * 3)
    assert x.data._version == 0
    assert x.detach()._version == 2
    assert data.data.data_ptr() == x.data_ptr()


def test_a_write_to_data_is_not_seen_by_what_was_saved() -> None:
    x = fa.ones(3, requires_grad=True)
    y = x * x
    x.data.mul_(5)
    y.sum().backward()
    assert x.grad.tolist() == [10.0] * 3
    z = (x * x).sum()
    x.detach().mul_(5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_assigned_data_keep_the_version() -> None:
    x, y = fa.ones(3), fa.zeros(3)
    x.add_(1)
    y.add_(1)
    y.add_(1)
    x.data = y
    assert (x._version, y._version, x.data_ptr() == y.data_ptr()) == (1, 2, True)
    x.add_(4)
    assert (x._version, y._version, y.tolist()) == (2, 2, [6.0] * 3)
    x.data = x.data
    assert x._version == 2


def test_many_assignments_of_data_leave_no_chain() -> None:
    x = fa.ones(3)
    for _ in range(100_000):
        x.data = x.data
    assert x.tolist() == [1.0] * 3
    x.resize_(5000)  # nobody else has the memory
    assert x[:3].tolist() == [1.0] * 3


def test_data_hold_the_memory() -> None:
    x = fa.ones(3)
    data = x.data
    with pytest.raises(RuntimeError, match="other tensors"):
        x.resize_(5000)
    with pytest.raises(RuntimeError, match="other tensors"):
        data.resize_(5000)
    del x
    data.resize_(5000)
    assert data[:3].tolist() == [1.0] * 3


def test_gradients_that_are_data_of_a_tensor_are_not_written_over() -> None:
    held = fa.ones(3)

    class Hands(fa.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: fa.Tensor) -> fa.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: fa.Tensor) -> fa.Tensor:
            return held.data

    x = fa.ones(3, requires_grad=True)
    (Hands.apply(x) + Hands.apply(x) + x).sum().backward()
    assert (x.grad.tolist(), held.tolist()) == ([3.0] * 3, [1.0] * 3)
    (Hands.apply(x)).sum().backward()
    assert held.tolist() == [1.0] * 3


# ---- gradients that did not arrive ----
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("materialize", [False, True])
@pytest.mark.parametrize("used", range(1, 8))
def test_materialized_gradients(used: int, materialize: bool, create_graph: bool) -> None:
    seen: list[fa.Tensor | None] = []

    class Three(fa.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: fa.Tensor) -> tuple[fa.Tensor, ...]:
            ctx.set_materialize_grads(materialize)
            ctx.save_for_backward(x)
            return x * x, (2 * x).double(), x.sum()

        @staticmethod
        def backward(ctx: Any, *grads: fa.Tensor | None) -> fa.Tensor:
            (x,) = ctx.saved_tensors
            seen[:] = grads
            a, b, c = (fa.zeros(()) if g is None else g for g in grads)
            return a * 2 * x + 2 * b.float() + c

    x = fa.tensor([1.0, 3.0], requires_grad=True)
    outs = Three.apply(x)
    total = sum(o.sum() for k, o in enumerate(outs) if used >> k & 1)
    (grad,) = fa.autograd.grad(total, x, create_graph=create_graph)
    expected = [sum(v for k, v in enumerate((2 * t, 2, 1)) if used >> k & 1) for t in (1.0, 3.0)]
    assert grad.tolist() == expected
    for k, (out, g) in enumerate(zip(outs, seen, strict=True)):
        if used >> k & 1:
            assert g is not None
        elif not materialize:
            assert g is None
        else:
            assert g is not None
            assert (g.shape, g.dtype, g.requires_grad, g.grad_fn) == (
                out.shape,
                out.dtype,
                False,
                None,
            )
            assert g.sum().item() == 0
    if create_graph and used & 1:
        (second,) = fa.autograd.grad(grad.sum(), x)
        assert second.tolist() == [2.0, 2.0]


def test_zeros_in_the_place_of_none_require_grad_as_others_do() -> None:
    x, y = fa.ones(2, requires_grad=True), fa.ones(3, requires_grad=True)
    for create_graph in (False, True):
        grads = fa.autograd.grad(
            (x * x).sum(), (x, y), materialize_grads=True, create_graph=create_graph
        )
        assert [g.requires_grad for g in grads] == [create_graph] * 2
        assert grads[1].tolist() == [0.0] * 3
