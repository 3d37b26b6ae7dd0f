"""Whole Jacobians, column by column (forward mode) or row by row (reverse mode)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula.autograd._levels import unit_vectors
from facula.func._gradients import _chosen, jvp, vjp
from facula.func._levels import tensors_of
from facula.func._vmap import vmap
from facula.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["hessian", "jacfwd", "jacrev"]


def _split(func: Callable[..., Any], argnums: Any, args: Any, kwargs: Any, who: str) -> Any:
    """The function of the chosen arguments alone, and these."""
    numbers = _chosen(args, argnums, who)

    def partial(*chosen: Any) -> Any:
        given = list(args)
        for number, value in zip(numbers, chosen, strict=True):
            given[number] = value
        return func(*given, **kwargs)

    return partial, tuple(args[number] for number in numbers)


def _check_real(tensors: list[Any], who: str, what: str) -> None:
    """Raise for complex ones, whose derivatives are no one matrix of such a shape."""
    for t in tensors:
        if t.is_complex():
            raise RuntimeError(
                f"{who}(): {what} must be real, not {t.dtype}; take the real and the imaginary "
                "part (view_as_real) apart, or products with the Jacobian by vjp and jvp"
            )


def jacrev(
    func: Callable[..., Any],
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`, by one batch of backward passes.

    Args:
        func: of tensors or trees of them; gives such a tree, or with has_aux a tuple of it and aux.
        argnums: which argument to differentiate by; several as a tuple.
        has_aux: the result is then (jacobian, aux), whose aux, tensors in any tree, is passed on.
        chunk_size: so many rows at a time, which takes less memory; None for all.

    Returns:
        A function of the same arguments. Its result has a tensor of shape
        `output.shape + input.shape` for each output and input: the tree of outputs, each with the
        tree of the argument in its place (in a tuple for a tuple `argnums`).

    Raises:
        ValueError: chunk_size is not positive.
        RuntimeError: an input or an output is complex.

    >>> import facula
    >>> facula.func.jacrev(facula.sin)(facula.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"jacrev(): chunk_size must be positive or None, not {chunk_size!r}")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        partial, primals = _split(func, argnums, args, kwargs, "jacrev")
        _check_real(
            tensors_of(primals, "jacrev", "an argument to differentiate by")[0], "jacrev", "inputs"
        )
        output, back, *aux = vjp(partial, *primals, has_aux=has_aux)
        outputs, spec = tensors_of(output, "jacrev", "the output of the function")
        _check_real(outputs, "jacrev", "outputs")

        def rows(*seeds: Any) -> Any:
            return back(tree_unflatten(seeds, spec))

        found = vmap(rows, chunk_size=chunk_size)(*unit_vectors(outputs))
        # By input leaf, then by output: (n, *input.shape) -> output.shape + input.shape.
        leaves, in_spec = tree_flatten(found)
        parts = [leaf.split([o.numel() for o in outputs]) for leaf in leaves]
        inputs = tree_flatten(primals)[0]
        table = []
        for k, o in enumerate(outputs):
            row = [
                p[k].reshape(tuple(o.shape) + tuple(x.shape))
                for p, x in zip(parts, inputs, strict=True)
            ]
            by_argument = tree_unflatten(row, in_spec)
            table.append(by_argument if isinstance(argnums, tuple) else by_argument[0])
        jacobian = tree_unflatten(table, spec)
        return (jacobian, aux[0]) if has_aux else jacobian

    return wrapper


def jacfwd(
    func: Callable[..., Any],
    argnums: Any = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`, by one batch of forward passes.

    Args:
        func: of tensors or trees of them; gives such a tree, or with has_aux a tuple of it and aux.
        argnums: which argument to differentiate by; several as a tuple.
        has_aux: the result is then (jacobian, aux), whose aux, tensors in any tree, is passed on.
        randomness: what drawing random numbers does, see `vmap`.

    Returns:
        A function of the same arguments. Its result has a tensor of shape
        `output.shape + input.shape` for each output and input: the tree of outputs, each with the
        tree of the argument in its place (in a tuple for a tuple `argnums`).

    Raises:
        RuntimeError: an input or an output is complex.

    >>> import facula
    >>> facula.func.jacfwd(facula.sin)(facula.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        partial, primals = _split(func, argnums, args, kwargs, "jacfwd")
        inputs, in_spec = tensors_of(primals, "jacfwd", "an argument to differentiate by")
        _check_real(inputs, "jacfwd", "inputs")

        def column(*directions: Any) -> Any:
            tangents = tree_unflatten(directions, in_spec)
            output, product, *aux = jvp(partial, primals, tangents, has_aux=has_aux)
            return product, (output, *aux)

        found, (output, *aux) = vmap(column, out_dims=(-1, None), randomness=randomness)(
            *unit_vectors(inputs)
        )
        products, spec = tree_flatten(found)
        outputs = tree_flatten(output)[0]
        _check_real(outputs, "jacfwd", "outputs")
        table = []
        for p, o in zip(products, outputs, strict=True):
            row = [
                c.reshape(tuple(o.shape) + tuple(x.shape))
                for c, x in zip(p.split([x.numel() for x in inputs], -1), inputs, strict=True)
            ]
            by_argument = tree_unflatten(row, in_spec)
            table.append(by_argument if isinstance(argnums, tuple) else by_argument[0])
        jacobian = tree_unflatten(table, spec)
        return (jacobian, aux[0]) if has_aux else jacobian

    return wrapper


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """A function that gives second derivatives: forward mode over reverse mode.

    Args:
        func: of tensors or trees of them; gives such a tree.
        argnums: which argument to differentiate by; several as a tuple.

    Returns:
        A function of the same arguments, `jacfwd(jacrev(func, argnums), argnums)`.

    >>> import facula
    >>> facula.func.hessian(lambda x: (x**3).sum())(facula.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
