"""Which function answers for which call with a sparse tensor.

`@rule("name", ...)` says that a function computes the operator or the function of that name, for
sparse tensors among its arguments. Forms in place and `out=` come from it. What has no rule of its
own is one of these:

* pointwise, with one sparse tensor: it is applied to the values if zero goes to zero;
* a composition of other operators: these are asked one by one;
* else an error, which says what to do. A number is never made up.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import facula
from facula import _C
from facula.overrides import DisableTorchFunctionSubclass
from facula.sparse._tensor import SparseTensor, build, hook, is_sparse_tensor, parts

__all__ = ["NoRule", "answered", "called", "rule"]

_RULES: dict[str, Callable[..., Any]] = {}


class NoRule(NotImplementedError):
    """There is no meaning, or none yet, of an operator for a sparse tensor."""

    operator = ""
    kind = "layout"


def rule(*names: str) -> Callable[[Any], Any]:
    """Decorator: the function answers for operators of these names."""

    def enter(function: Any) -> Any:
        for name in names:
            _RULES[name] = function
        return function

    return enter


def rule_of(name: str) -> Callable[..., Any]:
    """The function that answers for the name."""
    return _RULES[name]


def refusal(name: str, *why: str) -> NoRule:
    """The error for an operator that a sparse tensor cannot be given to."""
    error = NoRule(
        f"{name}(): not implemented for sparse tensors"
        + "".join(f" ({w})" for w in why)
        + "; convert the argument to the strided layout first, with x.to_dense()"
    )
    error.operator = name
    return error


@hook
def called(func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer for a call from Python."""
    if not all(issubclass(t, SparseTensor) for t in types):
        return NotImplemented
    name = getattr(func, "__name__", str(func))
    if not callable(func):  # an attribute
        func = functools.partial(_get, func)
    found = _found(name)
    if found is not None:
        return found(*args, **kwargs)
    if name.strip("_") in _pointwise():
        return _written(name, functools.partial(_apply, name, func), args, kwargs)
    try:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    except NoRule as error:
        raise refusal(name, *_reason(name, error)) from None
    except TypeError as error:
        if getattr(error, "kind", None) != "layout":
            raise
        raise refusal(name) from None


def _get(attribute: Any, x: Any) -> Any:
    return attribute.__get__(x, type(x))


def _reason(name: str, error: NoRule) -> tuple[str, ...]:
    inner = error.operator
    return () if inner.strip("_") == name.strip("_") else (f"which needs {inner}()",)


@hook
def answered(schema: str, variant: int, args: tuple[Any, ...]) -> Any:
    """The answer for a call from C++: the arguments are in the order of the schema."""
    name, names, keyword_only = _signature(schema)
    if variant == 1:
        name += "_"
    kwargs = {n: a for n, a in zip(names, args, strict=False) if n in keyword_only}
    given = tuple(a for n, a in zip(names, args, strict=False) if n not in keyword_only)
    if variant == 2:
        kwargs["out"] = args[len(names)] if len(args) == len(names) + 1 else args[len(names) :]
    while given and given[-1] is None:
        given = given[:-1]
    kwargs = {n: a for n, a in kwargs.items() if a is not None}
    found = _found(name)
    if found is None and name.strip("_") in _pointwise():
        func = getattr(_C, name.strip("_"), None)
        if func is not None:
            found = functools.partial(_written, name, functools.partial(_apply, name, func))
            return found(given, kwargs)
    if found is None:
        raise refusal(name)
    return found(*given, **kwargs)


@functools.cache
def _signature(schema: str) -> tuple[str, list[str], frozenset[str]]:
    """Name without overload, names of the arguments, and which of them are keywords only."""
    head, _, rest = schema.partition("(")
    names: list[str] = []
    keywords: set[str] = set()
    after_star, depth, item = False, 0, ""
    for c in rest + ",":
        if (c == "," and depth == 0) or (c == ")" and depth == 0):
            words = item.split("=")[0].split()
            if words == ["*"]:
                after_star = True
            elif len(words) > 1:
                names.append(words[1])
                if after_star:
                    keywords.add(words[1])
            item = ""
            if c == ")":
                break
            continue
        depth += (c in "([") - (c in ")]")
        item += c
    return head.partition(".")[0], names, frozenset(keywords)


@functools.cache
def _found(name: str) -> Callable[..., Any] | None:
    """The rule for a function or method of that name; forms in place of what has one."""
    found = _RULES.get(name)
    if found is not None:
        return _with_out(found)
    if name.endswith("_") and not name.endswith("__") and (base := _RULES.get(name[:-1])):
        return lambda *args, **kwargs: _written(name, base, args, kwargs)
    return None


def _with_out(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return result if out is None else write(out, result)

    return call


def _written(name: str, function: Any, args: Any, kwargs: Any) -> Any:
    """The call; where the name ends with `_`, its result over the first argument."""
    out = kwargs.pop("out", None)
    result = function(*args, **kwargs)
    if name.endswith("_"):
        out = args[0]
    return result if out is None else write(out, result)


def write(out: Any, result: Any) -> Any:
    """`result` in the place of what `out` held."""
    if not is_sparse_tensor(out):
        if is_sparse_tensor(result):
            raise RuntimeError(
                f"the result has layout {result.layout} and is to be written to a strided tensor; "
                "use the form that returns a new tensor"
            )
        return out.copy_(result)
    if not is_sparse_tensor(result):
        raise RuntimeError(
            f"the result is strided and is to be written to a tensor of layout {out.layout}; use "
            "the form that returns a new tensor"
        )
    if _C.is_grad_enabled() and (out.requires_grad or result.requires_grad):
        raise RuntimeError(
            "a sparse tensor that takes part in autograd cannot be changed in place; use the form "
            "that returns a new tensor, or no_grad()"
        )
    if result.shape != out.shape:
        raise RuntimeError(
            f"the result is {tuple(result.shape)} and is to be written to a sparse tensor of shape "
            f"{tuple(out.shape)}"
        )
    if result.layout is not out.layout:
        result = result.to_sparse(layout=out.layout)
    return _C._become_compound(out, result.to(out.dtype) if result.dtype != out.dtype else result)


# ---- pointwise operators


@functools.cache
def _pointwise() -> Mapping[str, bool]:
    """Names of the schema's pointwise operators."""
    path = os.path.join(os.path.dirname(_C.__file__), "ops.json")
    with open(path, encoding="utf-8") as file:
        records = json.load(file)["operators"]
    return {r["name"].partition(".")[0]: True for r in records if r["kind"] == "pointwise"}


def _apply(name: str, func: Any, *args: Any, **kwargs: Any) -> Any:
    """A pointwise function of one sparse tensor and numbers, which maps zero to zero."""
    if name.endswith("_"):
        func = getattr(facula.Tensor, name[:-1], None) or getattr(_C, name[:-1])
    sparse = [a for a in (*args, *kwargs.values()) if is_sparse_tensor(a)]
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, facula.Tensor) and a.dim() > 0]
    if len(sparse) != 1 or len(tensors) > 1:
        raise refusal(name, "only with one tensor, and numbers")
    x = sparse[0]
    if x.layout is _C.sparse_coo:
        x = x.coalesce()  # the function of a sum is no sum of functions
    own = parts(x)

    def computed(t: Any) -> Any:
        return func(
            *(t if is_sparse_tensor(a) else a for a in args),
            **{k: t if is_sparse_tensor(a) else a for k, a in kwargs.items()},
        )

    with facula.no_grad():
        of_zero = computed(own.values.new_zeros(1))
    if bool((of_zero != 0).any()):
        raise refusal(name, f"zero becomes {of_zero.item()}, so that no element would be zero")
    return build(own.size, own.kind, computed(own.values), own.indices)
