"""Networks: modules, parameters, functions, initial values, and helpers, under torch's names."""

from __future__ import annotations

from typing import Any as _Any

from facula._moving import add_owner as _add_owner
from facula.nn import functional, init, modules, utils
from facula.nn._lazy import UninitializedBuffer, UninitializedParameter
from facula.nn.modules import *  # noqa: F403
from facula.nn.parallel import DataParallel
from facula.nn.parameter import Buffer, Parameter

_add_owner(Module)  # noqa: F405


def factory_kwargs(kwargs: dict[str, _Any] | None) -> dict[str, _Any]:
    """The `device`, `dtype` and `memory_format` among a layer's keyword arguments.

    They may also stand in a dictionary under "factory_kwargs".

    Raises:
        TypeError: there are others, or one is given in both ways.
    """
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    others = kwargs.keys() - simple - {"factory_kwargs"}
    if others:
        raise TypeError(f"unexpected kwargs {sorted(others)}")
    result = dict(kwargs.get("factory_kwargs", {}))
    for name in simple & kwargs.keys():
        if name in result:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        result[name] = kwargs[name]
    return result


__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "factory_kwargs",
    "functional",
    "init",
    "utils",
    *modules.__all__,
]
