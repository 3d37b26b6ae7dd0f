"""Modules as functions of their parameters."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import facula
from facula.nn.utils.stateless import functional_call as _call

__all__ = ["functional_call", "functionalize", "stack_module_state"]


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with other parameters and buffers; its own come back after it.

    Args:
        module: what is called.
        parameter_and_buffer_dicts: tensors by name, as `named_parameters` has them, or several
            such dictionaries. Names that are not given keep their tensors.
        args: the arguments, a tuple, or the only one.
        kwargs: named arguments.
        tie_weights: what is one tensor under several names takes the tensor of any of them.
        strict: all parameters and buffers must be given.

    Raises:
        ValueError: a name is in two dictionaries, or two names of one tensor get different ones.
        RuntimeError: a name is none of the module's; with strict, one is missing.
    """
    given: dict[str, Any] = {}
    several = parameter_and_buffer_dicts
    for tensors in [several] if isinstance(several, Mapping) else several:
        twice = given.keys() & tensors.keys()
        if twice:
            raise ValueError(f"functional_call(): {sorted(twice)} are given twice")
        given.update(tensors)
    return _call(module, given, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of several modules of one class, stacked along a new first dim.

    What `vmap` maps over to call an ensemble at once.

    Args:
        models: a list or tuple of modules, of the same class and all in the same mode.

    Returns:
        `(params, buffers)`, dictionaries by name. Parameters are leaves that require grad where
        those of the models do.

    Raises:
        RuntimeError: there are none, or they differ in class, mode, names or `requires_grad`.

    >>> import facula
    >>> models = [facula.nn.Linear(3, 2) for _ in range(5)]
    >>> params, buffers = facula.func.stack_module_state(models)
    >>> params["weight"].shape
    facula.Size([5, 2, 3])
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state(): expected at least one model, got none")
    if len({m.training for m in models}) > 1:
        raise RuntimeError(
            "stack_module_state(): some models are in training mode and others are not; "
            "call train() or eval() on all"
        )
    if len({type(m) for m in models}) > 1:
        kinds = sorted({type(m).__name__ for m in models})
        raise RuntimeError(f"stack_module_state(): models must be of one class, not {kinds}")
    params = _stacked([dict(m.named_parameters()) for m in models])
    buffers = _stacked([dict(m.named_buffers()) for m in models])
    return params, buffers


def _stacked(states: list[dict[str, Any]]) -> dict[str, Any]:
    made = {}
    for state in states[1:]:
        if state.keys() != states[0].keys():
            names = sorted(state.keys() ^ states[0].keys())
            raise RuntimeError(f"stack_module_state(): not all models have {names}")
    for name in states[0]:
        tensors = [state[name] for state in states]
        wanted = {t.requires_grad for t in tensors}
        if len(wanted) > 1:
            raise RuntimeError(
                f"stack_module_state(): {name} requires grad in some models and not in others"
            )
        if len({t.shape for t in tensors}) > 1:
            shapes = sorted({tuple(t.shape) for t in tensors})
            raise RuntimeError(f"stack_module_state(): {name} has different shapes: {shapes}")
        made[name] = facula.stack([t.detach() for t in tensors]).requires_grad_(wanted.pop())
    return made


def functionalize(func: Any, *, remove: str = "mutations") -> Any:
    """A function that does what `func` does, results and writes to its arguments alike.

    The form that graph compilers ask for: there in-place operations (and views) of what `func`
    makes on its way become others, which nobody sees from outside. Here nothing is compiled from
    such a trace, and transforms take in-place operations as they are, so nothing is rewritten.

    Args:
        func: any function of tensors.
        remove: "mutations" or "mutations_and_views".

    Raises:
        RuntimeError: `remove` is another word.

    >>> import facula
    >>> def f(x):
    ...     y = x.clone()
    ...     return y.add_(1)
    >>> facula.func.functionalize(f)(facula.zeros(2))
    tensor([1., 1.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(): remove must be 'mutations' or 'mutations_and_views', not {remove!r}"
        )

    @functools.wraps(func)
    def same(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return same
