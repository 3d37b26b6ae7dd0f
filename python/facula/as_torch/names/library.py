"""`torch.library`: operators that programs define in Python.

An operator "space::name" is called as `torch.ops.space.name(...)`. Its kernels are functions, by
type of device; `register_fake` gives the one for tensors on "meta", `register_autograd` its
derivative. Schemas are kept, not read: arguments go to the kernels as they come.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import facula
from facula.as_torch._refused import refused_function
from facula.autograd import Function

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "get_ctx",
    "impl",
    "impl_abstract",
    "register_autograd",
    "register_fake",
    "register_kernel",
]

for _name in "infer_schema register_torch_dispatch register_vmap triton_op wrap_triton".split():
    globals()[_name] = refused_function("library." + _name)

# What a kernel is registered for -> the type of device; others are for all devices.
_KEYS = {"cpu": "cpu", "cuda": "cuda", "meta": "meta", "xpu": "xpu", "mps": "mps"}
_operators: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """An operator of a program; calling it runs the kernel of its arguments' device."""

    def __init__(self, name: str, schema: str | None = None) -> None:
        space, _, leaf = name.partition("::")
        if not leaf:
            raise ValueError(f"an operator is named as 'space::name', not {name!r}")
        self._qualname = name
        self.__name__ = leaf
        self.__module__ = f"torch.ops.{space}"
        self._schema = schema
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    @property
    def default(self) -> CustomOpDef:
        """The operator: it has one signature."""
        return self

    def overloads(self) -> list[str]:
        """The names of its signatures."""
        return ["default"]

    def register_kernel(
        self, device_types: Any, func: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """The kernel of one or several types of devices; None means all. Decorates too."""
        if func is None:
            return functools.partial(self.register_kernel, device_types)
        several = [device_types] if isinstance(device_types, str) else device_types
        for device in several or ["all"]:
            self._kernels[_KEYS.get(str(device).lower(), "all")] = func
        return func

    def register_fake(self, abstract_impl: Callable[..., Any], /) -> Callable[..., Any]:
        """The kernel of tensors without elements, on "meta"."""
        return self.register_kernel("meta", abstract_impl)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Its derivative.

        Args:
            backward: (ctx, *grads) -> a gradient, or None, for each argument.
            setup_context: (ctx, inputs, output) -> None keeps what backward needs.
        """
        self._backward, self._setup = backward, setup_context

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        items = [x for a in given for x in (a if isinstance(a, (list, tuple)) else [a])]
        device = next((t.device.type for t in items if isinstance(t, facula.Tensor)), "all")
        kernel = self._kernels.get(device, self._kernels.get("all"))
        if kernel is None:
            raise NotImplementedError(
                f"{self._qualname}: no kernel for tensors on {device!r}; it has kernels for "
                f"{sorted(self._kernels) or 'nothing'}; register_kernel adds one"
            )
        return kernel(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._backward is None:
            return self._run(*args, **kwargs)
        return self._function.apply(*self._in_order(args, kwargs))

    def _in_order(self, args: Any, kwargs: Any) -> Any:
        import inspect

        bound = inspect.signature(next(iter(self._kernels.values()))).bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args

    @functools.cached_property
    def _function(self) -> Any:
        operator = self

        def forward(*args: Any) -> Any:
            return operator._run(*args)

        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            if operator._setup is not None:
                operator._setup(ctx, inputs, output)

        def backward(ctx: Any, *grads: Any) -> Any:
            assert operator._backward is not None
            return operator._backward(ctx, *grads)

        space = {
            "forward": staticmethod(forward),
            "setup_context": staticmethod(setup_context),
            "backward": staticmethod(backward),
        }
        return type(self.__name__, (Function,), space)


def _found(name: Any) -> CustomOpDef:
    if isinstance(name, CustomOpDef):
        return name
    qualified = str(name).partition(".")[0]
    if qualified not in _operators:
        _operators[qualified] = CustomOpDef(qualified)
    return _operators[qualified]


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any = (),
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """An operator of a function; decorates too.

    Args:
        name: "space::name".
        fn: what it computes.
        mutates_args: names of arguments that it writes to; noted.
        device_types: types of devices that `fn` is for; None means all.
        schema: its signature; kept.
    """
    if fn is None:
        return functools.partial(
            custom_op, name, mutates_args=mutates_args, device_types=device_types, schema=schema
        )
    operator = _operators[name] = CustomOpDef(name, schema)
    operator.register_kernel(device_types, fn)
    operator.__doc__ = fn.__doc__
    return operator


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = None) -> None:
    """An operator without kernels yet."""
    _operators[qualname] = CustomOpDef(qualname, schema)


def impl(qualname: str, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """The kernel of types of devices; decorates too."""
    return _found(qualname).register_kernel(types, *([] if func is None else [func]))


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """The kernel of types of devices; decorates too."""
    return _found(op).register_kernel(device_types, *([] if func is None else [func]))


def register_fake(op: Any, func: Any = None, /, *, lib: Any = None, **options: Any) -> Any:
    """The kernel of tensors on "meta"; decorates too."""
    if func is None:
        return lambda function: register_fake(op, function)
    return _found(op).register_fake(func)


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: Any, /, *, setup_context: Any = None, lib: Any = None
) -> None:
    """The derivative of an operator: see CustomOpDef.register_autograd."""
    _found(op).register_autograd(backward, setup_context=setup_context)


def get_ctx() -> Any:
    """Raises RuntimeError: sizes are never unknown, so that no fake kernel needs it."""
    raise RuntimeError("torch.library.get_ctx(): there is no context of unknown sizes here")


class Library:
    """Operators of one space: those it defines ("DEF", "FRAGMENT"), or kernels ("IMPL")."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Library(): kind is {kind!r}, none of 'DEF', 'FRAGMENT', 'IMPL'")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """An operator, by its signature "name(Tensor x) -> Tensor"; gives its name."""
        name = schema.partition("(")[0].strip()
        define(f"{self.ns}::{name.partition('.')[0]}", schema)
        return name

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        """The kernel of an operator."""
        name = op_name if isinstance(op_name, str) else op_name._qualname
        qualified = name if "::" in name else f"{self.ns}::{name}"
        key = dispatch_key or self.dispatch_key or "all"
        if key.lower() in _KEYS or key in ("all", "CompositeImplicitAutograd"):
            _found(qualified).register_kernel(key, fn)
        elif key == "CompositeExplicitAutograd":
            _found(qualified).register_kernel(None, fn)
        # Kernels for autograd's and autocast's keys of torch are not called: there are none here.
