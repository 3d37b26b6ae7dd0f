"""`opcheck`: does an operator keep what it says of itself?"""

from __future__ import annotations

from typing import Any

import facula
from facula import _C
from facula.library._operator import operator_of
from facula.utils._pytree import tree_flatten, tree_map

__all__ = ["opcheck"]


def _copies(values: Any) -> Any:
    def copy(t: Any) -> Any:
        return t.detach().clone().requires_grad_(t.requires_grad) if _C.is_tensor(t) else t

    return tree_map(copy, values)


def _tensors(values: Any) -> list[Any]:
    return [t for t in tree_flatten(values)[0] if _C.is_tensor(t)]


def _place(t: Any) -> int:
    return int(t.untyped_storage().data_ptr())


def _schema(op: Any, args: Any, kwargs: Any) -> None:
    """It writes to those arguments alone that the signature marks; results are new memory."""
    args, kwargs = _copies((args, kwargs))
    with facula.no_grad():
        values, named = op.bind(args, kwargs)
        given = [*zip(op._positional, values, strict=True)]
        given += [(a, named[a.name]) for a in op._by_name]
        before = [(a, t, t.clone()) for a, v in given for t in _tensors(v)]
        result = op(*args, **kwargs)
    for argument, t, old in before:
        if not argument.is_write and not facula.equal(t, old):
            raise RuntimeError(
                f"opcheck(): {op.name()} wrote to '{argument.name}', which its signature does not "
                f"mark as written to: {op._schema}"
            )
    marks: dict[int, frozenset[str]] = {}
    for argument, t, _ in before:
        marks[_place(t)] = argument.alias_info.before_set if argument.alias_info else frozenset()
    declared = op._schema.returns
    parts = result if isinstance(result, tuple) and len(declared) != 1 else (result,)
    for part, stated in zip(parts, declared, strict=len(declared) > 0):
        for t in _tensors(part):
            own = stated.alias_info.before_set if stated.alias_info else frozenset()
            if t.numel() and _place(t) in marks and not own & marks[_place(t)]:
                raise RuntimeError(
                    f"opcheck(): a result of {op.name()} shares memory with an argument, which its "
                    f"signature does not say: {op._schema}"
                )


def _autograd(op: Any, args: Any, kwargs: Any) -> None:
    """Where an input requires grad, gradients arrive, if there is a formula or a way through."""
    args, kwargs = _copies((args, kwargs))
    if not any(t.requires_grad for t in _tensors((args, kwargs))):
        return
    result = [t for t in _tensors(op(*args, **kwargs)) if t.requires_grad]
    if not result:
        return
    leaves = [t for t in _tensors((args, kwargs)) if t.requires_grad]
    sums = facula.stack([t.sum().abs() if t.is_complex() else t.sum() for t in result]).sum()
    facula.autograd.grad(sums, leaves, allow_unused=True)


def _fake(op: Any, args: Any, kwargs: Any) -> None:
    """On "meta" it gives the shapes, strides and dtypes that it gives with elements."""
    args, kwargs = _copies((args, kwargs))
    there = tree_map(lambda t: t.detach().to("meta") if _C.is_tensor(t) else t, (args, kwargs))
    with facula.no_grad():
        real = _tensors(op(*args, **kwargs))
        fake = _tensors(op(*there[0], **there[1]))
    if len(real) != len(fake):
        raise RuntimeError(
            f"opcheck(): {op.name()} gives {len(real)} tensors, and {len(fake)} on 'meta'"
        )
    for number, (r, f) in enumerate(zip(real, fake, strict=True)):
        for what in ("shape", "dtype"):
            if getattr(r, what) != getattr(f, what):
                raise RuntimeError(
                    f"opcheck(): result {number} of {op.name()} has the {what} "
                    f"{getattr(r, what)}, and {getattr(f, what)} on 'meta'"
                )
        if r.stride() != f.stride():
            raise RuntimeError(
                f"opcheck(): result {number} of {op.name()} has the strides {r.stride()}, and "
                f"{f.stride()} on 'meta'"
            )


_TESTS = {
    "test_schema": _schema,
    "test_autograd_registration": _autograd,
    "test_faketensor": _fake,
}


def opcheck(
    op: Any,
    args: Any,
    kwargs: Any = None,
    *,
    test_utils: Any = tuple(_TESTS),
    raise_exception: bool = True,
    atol: Any = None,
    rtol: Any = None,
) -> dict[str, str]:
    """Does an operator of a program keep what it says of itself, for these arguments?

    Args:
        op: an operator, as `custom_op` or `facula.ops.space.name` gives it.
        args: arguments by place.
        kwargs: arguments by name.
        test_utils: which are looked at: "test_schema" (what is written to and shared),
            "test_autograd_registration" (gradients arrive), "test_faketensor" (shapes on "meta").
        raise_exception: raise what was found; else it is in the result.

    Returns:
        For each of them "SUCCESS", or what was found.

    Raises:
        RuntimeError: one of them fails.
        ValueError: there is none of that name.
    """
    operator = operator_of(op)
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    unknown = [name for name in names if name not in _TESTS]
    if unknown:
        raise ValueError(f"opcheck(): test_utils has {unknown}; there are {[*_TESTS]}")
    found = {}
    for name in names:
        try:
            _TESTS[name](operator, tuple(args), dict(kwargs or {}))
        except Exception as error:
            if raise_exception:
                raise
            found[name] = str(error)
        else:
            found[name] = "SUCCESS"
    return found
