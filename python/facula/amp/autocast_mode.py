"""Autocast: which operators run in which dtype stands in `ops.yaml` and in devices' own lists."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from facula import _C
from facula.autograd.grad_mode import _decorate

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def is_autocast_available(device_type: str) -> bool:
    """Does `autocast` know the device type?"""
    try:
        _C.get_autocast_dtype(device_type)
    except (RuntimeError, ValueError):
        return False
    return True


def _dtype_in_force(device_type: str) -> Any:
    """The lower dtype; None of a device whose package is there and cannot be loaded."""
    try:
        return _C.get_autocast_dtype(device_type)
    except RuntimeError:
        from facula import backends

        if device_type in backends.entry_points():
            return None
        raise


class autocast:
    """A `with` block, or decorator, in which operators choose the dtype that they run in.

    Products (matrix products, convolutions, attention, recurrent layers) run in the lower dtype;
    on other devices than the CPU, what loses too much in it (exponentials, sums, norms, losses; on
    the CPU losses and a few more) runs in float32; what takes several tensors of one dtype, in the
    widest of them. All else runs in the dtype that it gets. Inputs of float64, integers, in-place
    forms and calls with `out=` are left alone. Casts of parameters are kept until the outermost
    block ends; the gradients of what was cast arrive in the parameter's own dtype. Holds for this
    thread; blocks nest. Backward needs no block: gradients have the dtypes of the forward.

    Args:
        device_type: "cpu", or the type of a registered device.
        dtype: the lower dtype, bfloat16 or float16; None for the one in force, at first bfloat16 on
            the CPU, and on a device the one that its package names.
        enabled: False for a part of a block that runs as it is.
        cache_enabled: False casts parameters each time; None leaves that as it is.

    Raises:
        ValueError: `device_type` is no str.
        RuntimeError: there is no such device type. One whose package cannot be loaded here (as
            "cuda" in a build without it) is told of, and the block does nothing.

    >>> w = fa.ones(2, 2, requires_grad=True)
    >>> with fa.autocast("cpu"):
    ...     y = w @ w
    >>> y.dtype
    facula.bfloat16
    >>> y.sum().backward()
    >>> w.grad.dtype
    facula.float32
    """

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            kind = type(device_type)
            raise ValueError(f"Expected `device_type` of type `str`, got: `{kind}`")
        self.device = device_type
        known = _dtype_in_force(device_type)
        self._there = known is not None
        if enabled and not self._there:
            warnings.warn(
                f"autocast(): {device_type} is not available; autocast is disabled", stacklevel=2
            )
            enabled = False
        self.fast_dtype = dtype or known or _C.float16
        if not isinstance(self.fast_dtype, _C.dtype):
            raise TypeError(f"autocast(): dtype must be a facula dtype, not {dtype!r}")
        if enabled and self.fast_dtype not in (_C.bfloat16, _C.float16):
            name = str(self.fast_dtype).rpartition(".")[2]
            warnings.warn(
                f"autocast(): {device_type} has bfloat16 and float16 as lower dtypes, not {name}; "
                "autocast is disabled",
                stacklevel=2,
            )
            enabled = False
        self._enabled = bool(enabled)
        self._cache_enabled = cache_enabled
        self._entered: list[Any] = []

    def __enter__(self) -> autocast:
        cache = self._cache_enabled
        if cache is None:
            cache = _C.is_autocast_cache_enabled()
        state = None
        if self._there:
            state = _C._enter_autocast(self.device, self.fast_dtype, self._enabled, cache)
        self._entered.append(state)
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._entered:
            raise RuntimeError("autocast: __exit__() without an __enter__() before it")
        state = self._entered.pop()
        if state is not None:
            _C._exit_autocast(state)

    def __call__(self, function: Callable[..., Any]) -> Any:
        return _decorate(self._again, function)

    def _again(self) -> autocast:
        """A block of its own for each call, which may be in another thread or within this one."""
        made = object.__new__(autocast)
        made.__dict__.update(self.__dict__, _entered=[])
        return made


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    if isinstance(value, _C.Tensor):
        floating = value.is_floating_point() and value.dtype != _C.float64
        return value.to(dtype) if floating and value.device.type == device_type else value
    if isinstance(value, dict):
        return {k: _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_cast(v, device_type, dtype) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def in_float32(*devices: str) -> Callable[[Any], Any]:
    """Decorates a function made of several operators that autocast runs in float32 as a whole.

    `devices` are "CPU" and "device" (all others), as in `ops.yaml`; without any, all.
    """

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            if not _C.is_autocast_enabled():
                return function(*args, **kwargs)
            tensor = next((v for v in (*args, *kwargs.values()) if isinstance(v, _C.Tensor)), None)
            kind = None if tensor is None else tensor.device.type
            known = not devices or ("CPU" if kind == "cpu" else "device") in devices
            if kind in (None, "meta") or not known or not _C.is_autocast_enabled(kind):
                return function(*args, **kwargs)
            with autocast(kind, enabled=False):
                args, kwargs = (_cast(v, kind, _C.float32) for v in (args, kwargs))
                return function(*args, **kwargs)

        return decorated

    return decorate


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorates `forward` of an `autograd.Function`: its backward then runs as the forward did.

    With `cast_inputs`, a dtype, its floating tensors on `device_type` are cast to that within
    autocast, and it runs without autocast.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        on = _C.is_autocast_enabled(device_type)
        ctx._autocast_dtype = _C.get_autocast_dtype(device_type)
        ctx._autocast_enabled = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            args, kwargs = (_cast(v, device_type, cast_inputs) for v in (args, kwargs))
            return fwd(ctx, *args, **kwargs)

    return decorated


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorates `backward` of a function whose `forward` has `custom_fwd`."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx: Any, *args: Any) -> Any:
        with autocast(device_type, ctx._autocast_dtype, enabled=ctx._autocast_enabled):
            return bwd(ctx, *args)

    return decorated
