"""Jacobians, Hessians and products with them, of functions of tensors."""

from __future__ import annotations

import facula
from facula import _C
from facula.autograd import forward_ad, grad
from facula.autograd._levels import batch_level, unit_vectors
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

    Args:
        func: of one or several tensors; gives one or a tuple of them.
        inputs: a tensor or a tuple of them.
        create_graph: record the derivatives.
        strict: outputs that do not depend on an input are an error, not zeros.
        vectorize: all rows (columns) in one batch, as `vmap` makes it.
        strategy: `"reverse-mode"`, or `"forward-mode"` with vectorize.

    Returns a tensor of shape `output.shape + input.shape`, in a tuple by input and a tuple by
    output where there are several.

    Raises:
        RuntimeError: an output is complex, in reverse mode: of a complex input only forward mode
            gives derivatives that are one number for each pair of elements.

    >>> import facula
    >>> jacobian = facula.autograd.functional.jacobian
    >>> jacobian(lambda x, y: x * y, (facula.tensor([1.0, 2.0]), facula.tensor(3.0)))
    (tensor([[3., 0.],
            [0., 3.]]), tensor([1., 2.]))
    """
    return _jacobian(func, inputs, create_graph, strict, vectorize, strategy, "jacobian")


def _jacobian(func, inputs, create_graph, strict, vectorize, strategy, who):
    _check_strategy(strategy, vectorize, create_graph, strict, who)
    many_in, given = _as_tuple(inputs, who, "inputs")
    if strategy == "forward-mode":
        many_out, table = _columns(func, given)
        return _pack(many_out, [_pack(many_in, row) for row in table])
    fresh = _fresh(given, create_graph)
    many_out, outputs = _call(func, fresh, who)
    table = []
    for i, output in enumerate(outputs):
        if output.is_complex():
            raise RuntimeError(
                f"{who}(): output {i} is {output.dtype}, and rows of a Jacobian by reverse mode "
                "are of real outputs; take its real and its imaginary part (view_as_real), or "
                "strategy='forward-mode' with vectorize=True"
            )
        rows = [[] for _ in fresh]
        flat = output.reshape(-1)
        if vectorize and not strict:
            table.append(_rows(flat, output, fresh, create_graph))
            continue
        for k in range(output.numel()):
            seed = facula.zeros_like(flat, requires_grad=False)
            seed[k] = 1
            with enable_grad():
                grads = _grads([flat], fresh, [seed], create_graph, strict, who)
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


def _check_strategy(strategy, vectorize, create_graph, strict, who):
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(
            f"{who}(): strategy must be 'reverse-mode' or 'forward-mode', not {strategy!r}"
        )
    if strategy == "forward-mode" and (not vectorize or create_graph):
        raise NotImplementedError(
            f"{who}(): strategy='forward-mode' needs vectorize=True and create_graph=False; "
            "func.jacfwd is recorded by what surrounds it"
        )
    if vectorize and strict:
        raise RuntimeError(f"{who}(): strict=True goes with vectorize=False only")


def _rows(flat, output, inputs, create_graph):
    """Rows of a Jacobian, by one batch of backward passes."""
    seeds = facula.eye(flat.numel(), dtype=flat.dtype, device=flat.device)
    if flat.requires_grad and flat.numel():
        with enable_grad():
            found = grad(
                [flat],
                inputs,
                [seeds],
                retain_graph=True,
                create_graph=create_graph,
                allow_unused=True,
                is_grads_batched=True,
            )
    else:
        found = (None,) * len(inputs)
    shapes = [tuple(output.shape) + tuple(x.shape) for x in inputs]
    return [
        x.new_zeros(shape) if g is None else _finish(g, create_graph).reshape(shape)
        for g, x, shape in zip(found, inputs, shapes, strict=True)
    ]


def _columns(func, inputs):
    """Whether there are several outputs, and Jacobians by output and input, by forward passes."""
    counts = [x.numel() for x in inputs]
    total = sum(counts)
    with batch_level(total, "error") as level, forward_ad.dual_level():
        duals = []
        for x, directions in zip(inputs, unit_vectors(inputs), strict=True):
            tangent = _C._enter_level(directions, level, 0)
            primal = _C._enter_level(x.detach(), level, None)
            duals.append(forward_ad.make_dual(primal, tangent))
        many, outputs = _as_tuple(func(*duals), "jacobian", "the result of func")
        pairs = [forward_ad.unpack_dual(o) for o in outputs]
        found = [
            (None, None) if p.tangent is None else _C._leave_level(p.tangent, level) for p in pairs
        ]
        shapes = [tuple(o.shape) for o in outputs]
    table = []
    for (columns, dim), shape, o in zip(found, shapes, pairs, strict=True):
        if columns is None or dim is None:  # depends on no input
            whole = facula.zeros(*shape, total, dtype=o.primal.dtype, device=o.primal.device)
        else:
            whole = columns.movedim(dim, -1)
        parts = whole.split(counts, -1)
        table.append(
            [p.reshape(shape + tuple(x.shape)) for p, x in zip(parts, inputs, strict=True)]
        )
    return many, table


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
        # Those of forward mode require no gradient yet.
        args = tuple(a if a.requires_grad else a.view_as(a).requires_grad_() for a in args)
        return _grads([one(*args)], args, [None], True, strict, "hessian")

    if outer_jacobian_strategy == "forward-mode":
        _check_strategy(outer_jacobian_strategy, vectorize, create_graph, strict, "hessian")
    result = _jacobian(
        gradient, given, create_graph, strict, vectorize, outer_jacobian_strategy, "hessian"
    )
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
    return _hessian_product(func, inputs, v, create_graph, strict, "vhp")


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """The same as `vhp`: Hessians are symmetric.

    >>> import facula
    >>> x, v = facula.tensor([1.0, 2.0]), facula.tensor([1.0, 0.0])
    >>> facula.autograd.functional.hvp(lambda x: (x**3).sum(), x, v)
    (tensor(9.), tensor([6., 0.]))
    """
    return _hessian_product(func, inputs, v, create_graph, strict, "hvp")


def _hessian_product(func, inputs, v, create_graph, strict, who):
    many, given = _as_tuple(inputs, who, "inputs")
    fresh = _fresh(given, create_graph)
    vectors = _vectors(v, fresh, who, "input")
    with enable_grad():
        output = _scalar(func, who)(*fresh)
        gradient = _grads([output], fresh, [None], True, strict, who)
        products = _grads(gradient, fresh, vectors, create_graph, strict, who)
    return _finish(output, create_graph), _pack(many, products)
