"""Modules called with other parameters and buffers than their own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from facula.nn.modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with other parameters and buffers; its own come back after it.

    Args:
        module: what is called.
        parameters_and_buffers: tensors by name, as `named_parameters` and `named_buffers` have
            them. Names that are not given keep their tensors.
        args: the arguments, a tuple, or the only one.
        kwargs: named arguments.
        tie_weights: what is one tensor under several names takes the tensor of any of them.
        strict: all parameters and buffers must be given.

    Raises:
        ValueError: two names of one tensor get different ones.
        RuntimeError: a name is none of the module's; with strict, one is missing.
    """
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, dict(parameters_and_buffers), tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


@contextlib.contextmanager
def _replaced(module: Any, given: dict[str, Any], tied: bool, strict: bool) -> Iterator[None]:
    places = {}  # name -> (dictionary of a module, key in it)
    for prefix, inner in module.named_modules(remove_duplicate=False):
        for held in (inner._parameters, inner._buffers):
            for key, value in held.items():
                if value is not None:
                    places[f"{prefix}.{key}".lstrip(".")] = held, key
    unknown = given.keys() - places.keys()
    missing = places.keys() - given.keys() if strict else set()
    if unknown or missing:
        raise RuntimeError(
            f"functional_call(): unexpected names {sorted(unknown)}, missing {sorted(missing)}; "
            f"the module has {sorted(places)}"
        )
    chosen = dict(given)
    if tied:
        owners: dict[int, Any] = {}
        for name, tensor in given.items():
            held, key = places[name]
            if owners.setdefault(id(held[key]), tensor) is not tensor:
                raise ValueError(
                    f"functional_call(): {name} is the tensor of another name, for which another "
                    f"one is given; give both the same, or tie_weights=False"
                )
        for name, (held, key) in places.items():
            if id(held[key]) in owners:
                chosen[name] = owners[id(held[key])]
    with _with([(*places[name], tensor) for name, tensor in chosen.items()]):
        yield


Replacement = list[tuple[dict[str, Any], str, Any]]  # dictionaries of modules, keys and tensors
_local = threading.local()


def replacements() -> tuple[Replacement, ...]:
    """Those of this thread that are in force, for `replaced_again`."""
    return getattr(_local, "open", ())


@contextlib.contextmanager
def replaced_again(all_of_them: tuple[Replacement, ...]) -> Iterator[None]:
    """Tensors of modules as calls of functional_call had them, once more."""
    with contextlib.ExitStack() as stack:
        for one in all_of_them:
            stack.enter_context(_with(one))
        yield


@contextlib.contextmanager
def _with(replacement: Replacement) -> Iterator[None]:
    before = [(held, key, held[key]) for held, key, _ in replacement]
    outer = replacements()
    try:
        _local.open = (*outer, replacement)
        for held, key, tensor in replacement:
            held[key] = tensor
        yield
    finally:
        _local.open = outer
        for held, key, tensor in before:
            held[key] = tensor
