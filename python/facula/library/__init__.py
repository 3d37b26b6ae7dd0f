"""Operators that programs define in Python, with gradients and rules for `vmap`.

`custom_op` makes one of a function; `define`, `impl` and `Library` make one of a signature and
functions for each device. An operator "space::name" is called as `facula.ops.space.name(...)`.
Operators in C++ or by formulas come from facula.utils.cpp_extension.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from facula.library import _operator
from facula.library._custom import CustomOpDef, custom_op, set_answer, set_cast, set_formula
from facula.library._infer import infer_schema
from facula.library._kernels import fallthrough_kernel, get_kernel
from facula.library._opcheck import opcheck
from facula.library._operator import OpOverload, OpOverloadPacket, operator_of
from facula.library._schema import Argument, FunctionSchema, parse_schema

__all__ = [
    "Argument",
    "CustomOpDef",
    "FunctionSchema",
    "Library",
    "OpOverload",
    "OpOverloadPacket",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "parse_schema",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]


def _defined(name: str, schema: str, tags: Any) -> OpOverload:
    operator = _operator.add(parse_schema(f"{name}{schema}"))
    operator.tags = [tags] if isinstance(tags, str) else list(tags or ())
    return operator


def define(qualname: str, schema: Any, *, lib: Any = None, tags: Any = ()) -> Any:
    """An operator without kernels yet.

    Args:
        qualname: "space::name".
        schema: its signature, "(Tensor x, int n=2) -> Tensor".
        lib: a `Library` whose end is the operator's.
        tags: kept.

    Raises:
        ValueError: the name is none.
        RuntimeError: the signature is none, or there is an operator of that name.
    """
    if "::" not in qualname:
        raise ValueError(f"define(): an operator is named as 'space::name', not {qualname!r}")
    if not isinstance(schema, str):
        raise ValueError(f"define(): a signature is a text, not a {type(schema).__name__}")
    operator = _defined(qualname, schema, tags)
    if lib is not None:
        lib._undo.append(lambda: _operator.remove(operator))


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """The kernel of types of devices, "cpu" or a list of them; "default" is all. Decorates too.

    Gradients pass through what the kernel calls, unless `register_autograd` gives a formula.
    """
    if func is None:
        return lambda function: impl(qualname, types, function, lib=lib)
    for key in [types] if isinstance(types, str) or types is None else types:
        _set(_kernels(qualname), _operator.key_of(key), func, lib)
    return func


def _kernels(op: Any) -> dict[str, Any]:
    return _operator.kernels_of(op) if isinstance(op, str) else operator_of(op)._kernels


def _set(kernels: dict[str, Any], key: str, func: Any, lib: Any) -> None:
    kernels[key] = func
    if lib is not None:
        lib._undo.append(lambda: kernels.pop(key, None))


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """The kernel of types of devices; None means all. Decorates too."""
    return impl(op, device_types, func, lib=lib)


def register_fake(
    op: Any,
    func: Any = None,
    /,
    *,
    lib: Any = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """The shapes and dtypes of results: the kernel of tensors on "meta". Decorates too."""
    if func is None:
        return lambda function: register_fake(op, function, lib=lib)
    _set(_kernels(op), "meta", func, lib)
    return func


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: Any, /, *, setup_context: Any = None, lib: Any = None
) -> None:
    """The derivative of an operator: see CustomOpDef.register_autograd."""
    set_formula(operator_of(op), backward, setup_context)


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """The rule for `vmap`: see CustomOpDef.register_vmap. Decorates too."""
    if func is None:
        return lambda function: register_vmap(op, function, lib=lib)
    operator_of(op)._batching = func
    return func


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """The dtype that inputs are cast to under autocast: see CustomOpDef.register_autocast."""
    set_cast(operator_of(op), device_type, cast_inputs)


def register_torch_dispatch(
    op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Any = None
) -> Any:
    """What a class of tensors does for it: fn(cls, func, types, args, kwargs). Decorates too."""
    if func is None:
        return lambda function: register_torch_dispatch(op, torch_dispatch_class, function)
    set_answer(operator_of(op), torch_dispatch_class, func)
    return func


def get_ctx() -> Any:
    """Raises RuntimeError: sizes are never unknown, so that no fake kernel needs a context."""
    raise RuntimeError(
        "get_ctx(): there is no context of unknown sizes here; tensors on 'meta' have sizes, and "
        "an operator whose result's size depends on values has no kernel for them"
    )


def triton_op(name: str, fn: Any = None, /, *, mutates_args: Any, schema: Any = None) -> Any:
    """Raises RuntimeError: kernels of Triton are not run; `custom_op` takes Python."""
    raise RuntimeError(
        f"triton_op({name!r}): facula runs no Triton kernels; custom_op makes operators of Python "
        f"functions, and facula.utils.cpp_extension of C++ and formulas"
    )


def wrap_triton(triton_kernel: Any, /) -> Any:
    """Raises RuntimeError: kernels of Triton are not run."""
    raise RuntimeError(
        "wrap_triton(): facula runs no Triton kernels; facula.utils.cpp_extension makes operators "
        "of C++ and of formulas, which run on CUDA too"
    )


_KINDS = ("DEF", "FRAGMENT", "IMPL")
_whole: dict[str, weakref.ref[Library]] = {}  # the library that defines a space


class Library:
    """Operators of one space, which end with it.

    Args:
        ns: the space.
        kind: "DEF" defines operators, of which there is one library a space; "FRAGMENT" defines
            more of them; "IMPL" gives kernels to those that others define.
        dispatch_key: what kernels are for unless `impl` says so: "CPU", "CUDA", "Meta", ...

    Raises:
        ValueError: there is no such kind, or the space is the library's own.
        RuntimeError: another library defines that space.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in _KINDS:
            raise ValueError(f"Library(): kind is {kind!r}, none of {_KINDS}")
        if ns in ("aten", "prim", "prims") and kind != "IMPL":
            raise ValueError(f"Library(): the space '{ns}' is for facula's own operators")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._undo: list[Callable[[], Any]] = []
        if kind == "DEF":
            there = _whole.get(ns)
            if there is not None and there() is not None:
                raise RuntimeError(
                    f"Only a single Library(..., 'DEF') can be used to define the space '{ns}'; "
                    f"use 'FRAGMENT' to add operators to it"
                )
            _whole[ns] = weakref.ref(self)
        weakref.finalize(self, _take_back, self._undo).atexit = False

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """An operator, by its signature "name(Tensor x) -> Tensor"; gives its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        if self.kind == "IMPL":
            raise ValueError("a Library of kind 'IMPL' defines no operators; take 'FRAGMENT'")
        operator = _defined(f"{self.ns}::{schema.strip()}", "", tags)
        self._undo.append(lambda: _operator.remove(operator))
        dot = "." if operator._schema.overload_name else ""
        return f"{operator._opname}{dot}{operator._schema.overload_name}"

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """The kernel of an operator, for the library's key unless another is given.

        Raises:
            RuntimeError: there is one already, or the operator is facula's own.
            NotImplementedError: a kernel that asks for the set of keys.
        """
        if not callable(fn):
            raise TypeError(f"impl(): a kernel is a function, not a {type(fn).__name__}")
        if with_keyset:
            raise NotImplementedError("impl(): there is no set of keys to give to a kernel")
        if isinstance(op_name, str):
            name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
        else:
            name = operator_of(op_name).name()
        kernels = _operator.kernels_of(name)
        if fn is fallthrough_kernel:
            return
        key = _operator.key_of(dispatch_key or self.dispatch_key or _operator.IMPLICIT)
        if key in kernels and not allow_override:
            raise RuntimeError(
                f"{name} has a kernel for {key!r} already; allow_override=True replaces it"
            )
        _set(kernels, key, fn, self)

    def _destroy(self) -> None:
        _take_back(self._undo)
        there = _whole.get(self.ns)
        if there is not None and there() is self:
            del _whole[self.ns]


def _take_back(undo: list[Callable[[], Any]]) -> None:
    while undo:
        undo.pop()()
