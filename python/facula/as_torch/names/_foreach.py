"""`torch._foreach_NAME`: a method of tensors, for each of a list."""

from __future__ import annotations

from typing import Any

import facula

__all__ = ["for_each"]

# Where arguments after the lists have other names than those of the method.
_NAMES = {"norm": ("ord", "p")}
# The third argument of these, a number or one for each tensor, is the method's `value`.
_VALUED = ("addcdiv", "addcmul")


def for_each(method: str) -> Any:
    """The function for lists of the method, "add_" say.

    Lists and tuples, also as named arguments, have one entry for each tensor; other arguments are
    for all. Forms in place give None.

    Raises:
        AttributeError: there is no such method, nor function.
    """
    name = method.rstrip("_")
    apply = getattr(facula.Tensor, method, None)
    if apply is None:
        plain = getattr(facula, name, None)
        if plain is None:
            raise AttributeError("_foreach_" + method)

        def apply(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            return tensor.copy_(plain(tensor, *args, **kwargs))

    def function(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        old, new = _NAMES.get(name, ("", ""))
        if old in kwargs:
            kwargs[new] = kwargs.pop(old)
        if name in _VALUED:
            scalars = args[2] if len(args) > 2 else kwargs.pop("scalars", None)
            args = args[:2]
            if scalars is not None:
                kwargs["value"] = (
                    scalars.tolist() if isinstance(scalars, facula.Tensor) else scalars
                )
        count = len(tensors)
        rows = [_row(arg, count) for arg in args]
        named = {key: _row(arg, count) for key, arg in kwargs.items()}
        results = [
            apply(tensor, *(row[i] for row in rows), **{key: row[i] for key, row in named.items()})
            for i, tensor in enumerate(tensors)
        ]
        return None if method[-1] == "_" else results

    function.__name__ = "_foreach_" + method
    return function


def _row(arg: Any, count: int) -> list[Any]:
    row = list(arg) if isinstance(arg, (list, tuple)) else [arg] * count
    if len(row) != count:
        raise RuntimeError(f"a list of {len(row)} beside one of {count} tensors")
    return row
