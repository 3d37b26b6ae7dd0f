"""Jacobians, Hessians and products with them, of functions of tensors."""

from __future__ import annotations

import facula
from facula.autograd import grad
from facula.autograd.grad_mode import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(x, who, name):
    many = isinstance(x, (tuple, list))
    items = tuple(x) if many else (x,)
    for i, t in enumerate(items):
        if not facula.is_tensor(t):
            place = f"element {i} of {name}" if many else name
            raise TypeError(f"{who}(): {place} must be a Tensor, not {type(t).__name__}")
    return many, items


def _fresh(inputs, create_graph):
    """Inputs to differentiate by: views of the given ones, or leaves."""
    if create_graph:
        return tuple(
            x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs
        )
    return tuple(x.detach().requires_grad_() for x in inputs)


def _call(func, inputs, who):
    with enable_grad():
        return _as_tuple(func(*inputs), who, "the result of func")


def _finish(result, create_graph):
    return result if create_graph else result.detach()


def _grads(outputs, inputs, seeds, create_graph, strict, who):
    depends = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    if depends:
        grads = grad(
            [o for o, _ in depends],
            inputs,
            [s for _, s in depends],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
    else:
        grads = (None,) * len(inputs)
    result = []
    for i, (g, x) in enumerate(zip(grads, inputs, strict=True)):
        if g is None and strict:
            raise RuntimeError(f"{who}(): the outputs do not depend on input {i}")
        result.append(facula.zeros_like(x) if g is None else _finish(g, create_graph))
    return tuple(result)


def _pack(many, items):
    return tuple(items) if many else items[0]


def jacobian(
    func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"
):
    """Derivatives of each output element by each input element.

    Returns a tensor of shape `output.shape + input.shape`, in a tuple by input and a tuple by
    output where there are several.
    """
    many_in, given = _as_tuple(inputs, "jacobian", "inputs")
    fresh = _fresh(given, create_graph)
    many_out, outputs = _call(func, fresh, "jacobian")
    table = []
    for output in outputs:
        rows = [[] for _ in fresh]
        flat = output.reshape(-1)
        for k in range(output.numel()):
            seed = facula.zeros_like(flat, requires_grad=False)
            seed[k] = 1
            with enable_grad():
                grads = _grads([flat], fresh, [seed], create_graph, strict, "jacobian")
            for row, g in zip(rows, grads, strict=True):
                row.append(g)
        table.append(
            [
                facula.stack(row).reshape(tuple(output.shape) + tuple(x.shape))
                if row
                else x.new_zeros(tuple(output.shape) + tuple(x.shape))
                for row, x in zip(rows, fresh, strict=True)
            ]
        )
    return _pack(many_out, [_pack(many_in, row) for row in table])


def _scalar(func, who):
    def one(*args):
        out = func(*args)
        if not facula.is_tensor(out) or out.numel() != 1:
            raise RuntimeError(f"{who}(): func must return a Tensor with one element")
        return out.reshape(())

    return one


def hessian(
    func,
    inputs,
    create_graph=False,
    strict=False,
    vectorize=False,
    outer_jacobian_strategy="reverse-mode",
):
    """Second derivatives of a function with one output element."""
    many, given = _as_tuple(inputs, "hessian", "inputs")
    one = _scalar(func, "hessian")

    def gradient(*args):
        return _grads([one(*args)], args, [None], True, strict, "hessian")

    result = jacobian(gradient, given, create_graph=create_graph, strict=strict)
    return result if many else result[0][0]


def _vectors(v, outputs, who, name):
    if v is None:
        if len(outputs) != 1 or outputs[0].numel() != 1:
            raise RuntimeError(f"{who}(): v may be left out only for one {name} element")
        return (facula.ones_like(outputs[0]),)
    _, vectors = _as_tuple(v, who, "v")
    if len(vectors) != len(outputs):
        raise RuntimeError(
            f"{who}(): v has {len(vectors)} tensors, there are {len(outputs)} {name}s"
        )
    for i, (a, b) in enumerate(zip(vectors, outputs, strict=True)):
        if a.shape != b.shape:
            raise RuntimeError(
                f"{who}(): v[{i}] has shape {tuple(a.shape)}, the {name} {tuple(b.shape)}"
            )
    return vectors


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """`func(*inputs)` and the product of `v` with its Jacobian."""
    many_in, given = _as_tuple(inputs, "vjp", "inputs")
    fresh = _fresh(given, create_graph)
    many_out, outputs = _call(func, fresh, "vjp")
    vectors = _vectors(v, outputs, "vjp", "output")
    grads = _grads(outputs, fresh, vectors, create_graph, strict, "vjp")
    return (
        _pack(many_out, [_finish(o, create_graph) for o in outputs]),
        _pack(many_in, grads),
    )


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """`func(*inputs)` and the product of its Jacobian with `v`, by two backward passes."""
    _, given = _as_tuple(inputs, "jvp", "inputs")
    fresh = _fresh(given, create_graph)
    vectors = _vectors(v, fresh, "jvp", "input")
    many_out, outputs = _call(func, fresh, "jvp")
    # The product of a seed with the Jacobian is linear in the seed; its derivative is what we want.
    seeds = tuple(facula.zeros_like(o).requires_grad_() for o in outputs)
    with enable_grad():
        grads = _grads(outputs, fresh, seeds, True, strict, "jvp")
        products = _grads(grads, seeds, vectors, create_graph, strict, "jvp")
    return (
        _pack(many_out, [_finish(o, create_graph) for o in outputs]),
        _pack(many_out, products),
    )


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """`func(*inputs)`, of one element, and the product of `v` with its Hessian."""
    many, given = _as_tuple(inputs, "vhp", "inputs")
    fresh = _fresh(given, create_graph)
    vectors = _vectors(v, fresh, "vhp", "input")
    with enable_grad():
        output = _scalar(func, "vhp")(*fresh)
        gradient = _grads([output], fresh, [None], True, strict, "vhp")
        products = _grads(gradient, fresh, vectors, create_graph, strict, "vhp")
    return _finish(output, create_graph), _pack(many, products)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """The same as `vhp`: Hessians are symmetric."""
    return vhp(func, inputs, v, create_graph, strict)
