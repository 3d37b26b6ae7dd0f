"""Derivatives along one direction: grad, vjp, jvp."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula import _C
from facula._errors import tell_all
from facula.autograd import forward_ad
from facula.func._levels import aux_of, gradient_level, left, tensors_of, with_aux
from facula.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["grad", "grad_and_value", "jvp", "linearize", "vjp"]

argnums_t = int | tuple[int, ...]


def _chosen(args: tuple[Any, ...], argnums: Any, who: str) -> tuple[int, ...]:
    """Which arguments are differentiated by, from 0."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers:
        raise RuntimeError(f"{who}(): argnums must not be empty")
    found = []
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool):
            raise RuntimeError(
                f"{who}(): argnums must be an int or a tuple of ints, not {argnums!r}"
            )
        if not -len(args) <= number < len(args):
            raise RuntimeError(
                f"{who}(): argnum {number} is out of range for {len(args)} positional arguments"
            )
        found.append(number % len(args))
    if len(set(found)) != len(found):
        raise RuntimeError(f"{who}(): argnums must be different, not {argnums!r}")
    return tuple(found)


def _differentiable(level: int, tree: Any, who: str) -> tuple[Any, list[Any]]:
    """The tree as one of the level, and its tensors, which require grad."""
    leaves, spec = tensors_of(tree, who, "an argument to differentiate by")
    inputs = [_entered(x, level, who) for x in leaves]
    return tree_unflatten(inputs, spec), inputs


def _gradients(
    outputs: list[Any], inputs: list[Any], seeds: list[Any] | None, *, keep: bool = False
) -> list[Any]:
    """Gradients of a level, zeros where an output does not depend on an input."""
    pairs = zip(outputs, [None] * len(outputs) if seeds is None else seeds, strict=True)
    depending = [(o, s) for o, s in pairs if o.requires_grad]
    if depending:
        grads = facula.autograd.grad(
            [o for o, _ in depending],
            inputs,
            None if seeds is None else [s for _, s in depending],
            retain_graph=keep,
            allow_unused=True,
        )
    else:
        grads = (None,) * len(inputs)
    return [
        facula.zeros_like(x.detach()) if g is None else g
        for x, g in zip(inputs, grads, strict=True)
    ]


def grad_and_value(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of `func` and its value, as a tuple.

    Args:
        func: gives a tensor with one element (0-d), or with has_aux a tuple (tensor, aux).
        argnums: which argument to differentiate by, tensors or trees of them; several as a tuple.
        has_aux: the value is then (output, aux), whose aux, tensors in any tree, is passed on.

    Returns:
        A function of the same arguments that gives `(gradient, value)`. Gradients have the
        structure of the argument; a tuple of them for a tuple `argnums`.

    Raises:
        RuntimeError: the output is no 0-d tensor, or an argument has no floating-point dtype.

    >>> import facula
    >>> gradient, value = facula.func.grad_and_value(lambda x: x**2)(facula.tensor(3.0))
    >>> gradient, value
    (tensor(6.), tensor(9.))
    """
    return _grad_and_value(func, argnums, has_aux, "grad_and_value")


def _grad_and_value(
    func: Callable[..., Any], argnums: Any, has_aux: bool, who: str
) -> Callable[..., Any]:
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if type(argnums) is int and 0 <= argnums < len(args) and _C.is_tensor(args[argnums]):
            return _of_tensor(func, argnums, has_aux, who, args, kwargs)
        numbers = _chosen(args, argnums, who)
        with gradient_level() as level:
            given = list(args)
            inputs: list[Any] = []
            for number in numbers:
                given[number], leaves = _differentiable(level, args[number], who)
                inputs += leaves
            output, aux = with_aux(func(*given, **kwargs), has_aux, who)
            _check_number(output, who)
            flat = _gradients([output], inputs, None)
            values = left(level, output)
            if has_aux:
                values = values, aux_of(level, aux, who)
            gradients = iter(left(level, flat))
        parts = tuple(_like(args[number], gradients) for number in numbers)
        return parts if isinstance(argnums, tuple) else parts[0], values

    return wrapper


def _check_number(output: Any, who: str) -> None:
    if not _C.is_tensor(output):
        raise RuntimeError(
            f"{who}(): the function must return a Tensor, not {type(output).__name__}; "
            "beside it, anything with has_aux=True"
        )
    if output.dim() != 0:
        raise RuntimeError(
            f"{who}(): the function must return a 0-d tensor, not one of shape "
            f"{tuple(output.shape)}; vjp and jacrev are for others"
        )


def _of_tensor(
    func: Callable[..., Any], number: int, has_aux: bool, who: str, args: Any, kwargs: Any
) -> Any:
    """Gradient and value by one argument that is a tensor: the same without trees."""
    with gradient_level() as level:
        x = _entered(args[number], level, who)
        result = func(*args[:number], x, *args[number + 1 :], **kwargs)
        output, aux = with_aux(result, has_aux, who)
        _check_number(output, who)
        found = None
        if output.requires_grad:
            (found,) = _C._run_backward(output, None, False, False, x, True, False)
        gradient = _C._leave_level(facula.zeros_like(x.detach()) if found is None else found, level)
        value = _C._leave_level(output, level)[0]
        if has_aux:
            value = value, aux_of(level, aux, who)
    return gradient[0], value


def _entered(x: Any, level: int, who: str) -> Any:
    """A tensor as one of the level, which requires a gradient."""
    x = _C._enter_level(x, level, None)
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError(
            f"{who}(): gradients are with respect to floating-point and complex tensors, "
            f"not {x.dtype} ones"
        )
    return x.requires_grad_()


def _like(tree: Any, leaves: Any) -> Any:
    """The tree with the next of `leaves` in the places of its own."""
    return tree_map(lambda _: next(leaves), tree)


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of `func`.

    Args:
        func: gives a tensor with one element (0-d), or with has_aux a tuple (tensor, aux).
        argnums: which argument to differentiate by, tensors or trees of them; several as a tuple.
        has_aux: the result is then (gradient, aux), whose aux, tensors in any tree, is passed on.

    Returns:
        A function of the same arguments. Gradients have the structure of the argument; a tuple of
        them for a tuple `argnums`.

    Raises:
        RuntimeError: the output is no 0-d tensor, or an argument has no floating-point dtype.

    >>> import facula
    >>> facula.func.grad(facula.func.grad(facula.sin))(facula.tensor(0.5))
    tensor(-0.4794)
    """
    both = _grad_and_value(func, argnums, has_aux, "grad")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`func(*primals)`, and a function that multiplies cotangents with its Jacobian.

    Args:
        func: of tensors or trees of them; gives such a tree, or with has_aux a tuple of it and aux.
        primals: where it is linearised.
        has_aux: pass on aux, tensors in any tree, as a third result.

    Returns:
        `(output, vjp_fn)` or `(output, vjp_fn, aux)`. `vjp_fn(cotangents)`, which may be called
        several times, takes a tree as the output and gives a tuple with a part for each primal.

    Raises:
        RuntimeError: the cotangents have another structure or shape than the output.

    >>> import facula
    >>> output, back = facula.func.vjp(facula.sin, facula.zeros(2))
    >>> back(facula.ones(2))
    (tensor([1., 1.]),)
    """
    with gradient_level() as level:
        given, inputs = _differentiable(level, primals, "vjp")
        output, aux = with_aux(func(*given), has_aux, "vjp")
        outputs, spec = tensors_of(output, "vjp", "the output of the function")
        values = left(level, output)
        passed = aux_of(level, aux, "vjp") if has_aux else None

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds = _seeds(cotangents, outputs, spec)
        with gradient_level(level):
            grads = iter(left(level, _gradients(outputs, inputs, seeds, keep=True)))
        return _like(primals, grads)

    return (values, vjp_fn, passed) if has_aux else (values, vjp_fn)


def _seeds(cotangents: Any, outputs: list[Any], spec: Any) -> list[Any]:
    leaves, given = tree_flatten(cotangents)
    if given != spec:
        raise RuntimeError(
            f"vjp(): the cotangents must have the structure of the output, {spec}, not {given}"
        )
    for i, (seed, output) in enumerate(zip(leaves, outputs, strict=True)):
        if not _C.is_tensor(seed):
            raise RuntimeError(f"vjp(): cotangent {i} must be a Tensor, not {type(seed).__name__}")
        if seed.shape != output.shape:
            raise RuntimeError(
                f"vjp(): cotangent {i} has shape {tuple(seed.shape)}, the output "
                f"{tuple(output.shape)}"
            )
    return leaves


def _check_tangents(primals: Any, tangents: Any, who: str) -> tuple[list[Any], list[Any], Any]:
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError(f"{who}(): primals and tangents must be tuples")
    points, spec = tensors_of(primals, who, "primals")
    directions, given = tensors_of(tangents, who, "tangents")
    if given != spec:
        raise RuntimeError(
            f"{who}(): tangents must have the structure of primals, {spec}, not {given}"
        )
    return points, directions, spec


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """`func(*primals)`, and the product of its Jacobian with `tangents`, by forward mode.

    Args:
        func: of tensors or trees of them; gives such a tree, or with has_aux a tuple of it and aux.
        primals: a tuple of arguments.
        tangents: a tuple of the same structure, shapes and dtypes.
        strict: an output that does not depend on the primals is an error, not zeros.
        has_aux: pass on aux, tensors in any tree, as a third result.

    Returns:
        `(output, product)` or `(output, product, aux)`.

    Raises:
        RuntimeError: primals and tangents do not fit each other.

    >>> import facula
    >>> facula.func.jvp(facula.sin, (facula.zeros(2),), (facula.ones(2),))
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    points, directions, spec = _check_tangents(primals, tangents, "jvp")
    with gradient_level() as level, forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(_C._enter_level(x, level, None), v)
            for x, v in zip(points, directions, strict=True)
        ]
        output, aux = with_aux(func(*tree_unflatten(duals, spec)), has_aux, "jvp")
        outputs, out_spec = tensors_of(output, "jvp", "the output of the function")
        values, products = [], []
        for i, o in enumerate(outputs):
            value, product = forward_ad.unpack_dual(o)
            if product is None and strict:
                raise RuntimeError(f"jvp(): with strict=True, output {i} depends on no primal")
            values.append(left(level, value))
            product = facula.zeros_like(values[-1]) if product is None else product
            products.append(left(level, product))
        passed = aux_of(level, aux, "jvp") if has_aux else None
    results = tree_unflatten(values, out_spec), tree_unflatten(products, out_spec)
    return (*results, passed) if has_aux else results


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """`func(*primals)`, and a function that multiplies its Jacobian with tangents.

    The function runs once. What was recorded of it, a linear function of cotangents, is transposed
    (J. Townsend, "A new trick for calculating Jacobian vector products", 2017).

    Args:
        func: of tensors or trees of them; gives such a tree.
        primals: where it is linearised.

    Returns:
        `(output, jvp_fn)`; `jvp_fn(*tangents)` takes tangents like the primals and gives a tree
        like the output.

    Raises:
        RuntimeError: tangents do not fit the primals.
    """
    with gradient_level() as level:
        given, inputs = _differentiable(level, primals, "linearize")
        output = func(*given)
        outputs, spec = tensors_of(output, "linearize", "the output of the function")
        values = left(level, output)
        seeds = [facula.zeros_like(o.detach()).detach() for o in outputs]
        seeds = [_C._enter_level(left(level, s), level, None).requires_grad_() for s in seeds]
        depending = [i for i, o in enumerate(outputs) if o.requires_grad]
        rows: Sequence[Any] = (None,) * len(inputs)
        if depending:
            rows = facula.autograd.grad(
                [outputs[i] for i in depending],
                inputs,
                [seeds[i] for i in depending],
                create_graph=True,
                allow_unused=True,
            )

    def jvp_fn(*tangents: Any) -> Any:
        _, directions, _ = _check_tangents(primals, tangents, "linearize")
        for x, v in zip(inputs, directions, strict=True):
            if v.shape != x.shape or v.dtype != x.dtype:
                raise RuntimeError(
                    f"linearize(): a tangent is {v.dtype} of shape {tuple(v.shape)}, its primal "
                    f"{x.dtype} of shape {tuple(x.shape)}"
                )
        pairs = [
            (g, v)
            for g, v in zip(rows, directions, strict=True)
            if g is not None and g.requires_grad
        ]
        with gradient_level(level):
            products = _gradients([g for g, _ in pairs], seeds, [v for _, v in pairs], keep=True)
            return tree_unflatten(left(level, products), spec)

    return values, jvp_fn


tell_all(globals(), __all__)
