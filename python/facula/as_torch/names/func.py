"""`torch.func`: modules called with other parameters; transforms of functions can be imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from facula.as_torch._refused import refused_function
from facula.nn.utils.stateless import functional_call as _call

__all__ = ["functional_call"]

for _name in (
    "functionalize grad grad_and_value hessian jacfwd jacrev jvp linearize stack_module_state vjp"
    " vmap"
).split():
    globals()[_name] = refused_function("func." + _name)


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
