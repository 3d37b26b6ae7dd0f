"""Gradients of each sample of a batch, left in `grad_sample` of the parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import facula
from facula.func._modules import functional_call
from facula.func._vmap import vmap
from facula.utils import _pytree

__all__ = ["call_for_per_sample_grads"]


def call_for_per_sample_grads(
    module: Any,
    *,
    batch_size: int | None = None,
    loss_reduction: str = "sum",
    batch_first: bool = True,
) -> Callable[..., Any]:
    """A function that calls `module`; `backward` from its results gives gradients a sample.

    Each trainable parameter of shape `S` gets `grad_sample` of shape `(batch_size, *S)`, and no
    `grad`. The module is mapped over samples (`vmap`), so it sees batches of one: a layer that
    takes statistics of its batch has those of one sample.

    Args:
        module: an `nn.Module` that takes a batch and gives one, in tensors or structures of them.
        batch_size: how many samples there are; by default what the arguments have.
        loss_reduction: "sum" or "mean", how the loss is taken over the batch; gradients are those
            of each sample's own loss.
        batch_first: samples lie along dim 0, else along dim 1, of arguments and results.

    Raises:
        RuntimeError: `module` is no module, `batch_size` no positive int, `loss_reduction` another
            word; a parameter still has its `grad_sample`; in the call, tensors of other batch
            sizes, or none.

    >>> linear = fa.nn.Linear(3, 2)
    >>> run = fa.func.call_for_per_sample_grads(linear)
    >>> run(fa.ones(4, 3)).sum().backward()
    >>> linear.weight.grad_sample.shape
    facula.Size([4, 2, 3])
    """
    _check(module, batch_size, loss_reduction)
    dim = 0 if batch_first else 1

    @functools.wraps(module.forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = _pytree.tree_flatten((args, kwargs))
        count = _batch_size(leaves, dim, batch_size)
        copies, fixed = {}, {}
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                scale = count if loss_reduction == "mean" else 1
                copies[name] = _copies(parameter, count, scale)
            else:
                fixed[name] = parameter

        def one(own: Any, *given: Any) -> Any:
            sample = [x.unsqueeze(dim) if isinstance(x, facula.Tensor) else x for x in given]
            args, kwargs = _pytree.tree_unflatten(sample, structure)
            result = functional_call(module, {**own, **fixed}, args, kwargs)
            return _pytree.tree_map(lambda y: y.squeeze(dim), result)

        places = tuple(dim if isinstance(x, facula.Tensor) else None for x in leaves)
        mapped = vmap(one, (0, *places), dim, randomness="different")
        return mapped(copies, *leaves)

    return call


def _copies(parameter: Any, count: int, scale: int) -> Any:
    """The parameter once a sample, a leaf whose gradient goes to `grad_sample`."""
    copies = parameter.detach().expand(count, *parameter.shape).requires_grad_()

    def keep(copies: Any) -> None:
        found, copies.grad = copies.grad * scale if scale != 1 else copies.grad, None
        before = getattr(parameter, "grad_sample", None)
        parameter.grad_sample = found if before is None else before + found

    copies.register_post_accumulate_grad_hook(keep)
    return copies


def _check(module: Any, batch_size: Any, loss_reduction: Any) -> None:
    who = "call_for_per_sample_grads():"
    if not isinstance(module, facula.nn.Module):
        raise RuntimeError(f"{who} module must be an nn.Module, got {type(module).__name__}")
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"{who} loss_reduction must be 'sum' or 'mean', got {loss_reduction!r}")
    if batch_size is not None and not isinstance(batch_size, int):
        name = type(batch_size).__name__
        raise RuntimeError(f"{who} batch_size must be None or an integer, got {name}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"{who} batch_size must be positive, got {batch_size}")
    for name, parameter in module.named_parameters():
        if getattr(parameter, "grad_sample", None) is not None:
            raise RuntimeError(
                f"{who} the parameter {name} has a grad_sample still; set it to None before the "
                "next call"
            )


def _batch_size(leaves: list[Any], dim: int, wanted: int | None) -> int:
    who = "call_for_per_sample_grads():"
    shapes = [tuple(x.shape) for x in leaves if isinstance(x, facula.Tensor)]
    if any(len(shape) <= dim for shape in shapes):
        raise RuntimeError(
            f"{who} tensors of the shapes {shapes}, not all with a batch in dim {dim}"
        )
    sizes = {shape[dim] for shape in shapes} | ({wanted} if wanted is not None else set())
    if not shapes or len(sizes) != 1:
        what = (
            f"tensors of the batch sizes {sorted(sizes)}"
            if shapes
            else "no tensor in the arguments"
        )
        raise RuntimeError(f"{who} {what}; expected the same size of all in dim {dim}")
    size: int = sizes.pop()
    return size
