"""`custom_op`: an operator of a Python function, a black box with rules of its own."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import facula
from facula.library import _operator
from facula.library._formula import Formula
from facula.library._infer import infer_schema
from facula.library._operator import OpOverload
from facula.library._schema import parse_schema

__all__ = ["CustomOpDef", "custom_op", "set_formula"]


def set_formula(operator: OpOverload, backward: Any, setup_context: Any) -> None:
    """Gives an operator its derivative."""
    schema = operator._schema
    if schema.is_mutable or not schema.returns:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {operator} with schema "
            f"{schema}. Please create a functional operator and register an autograd formula for "
            f"that."
        )
    by_name = [a.name for a in operator._by_name if a.base == "Tensor"]
    if by_name:
        raise NotImplementedError(
            f"register_autograd with kwarg-only Tensor args: {operator.name()} has {by_name} after "
            f"'*'; a gradient goes to arguments that can be given by place"
        )
    operator._formula = Formula(backward, setup_context)


class CustomOpDef:
    """An operator of a Python function. Calling it runs the kernel of its arguments' device.

    To gradients, `vmap` and tensors on "meta" it is a black box: `register_autograd`,
    `register_vmap` and `register_fake` say what they need to know of it.
    """

    def __init__(
        self, namespace: str, name: str, schema: str, fn: Callable[..., Any], tags: Any = None
    ) -> None:
        self._namespace, self._name, self._schema = namespace, name, schema
        self._init_fn = fn
        self.__name__, self.__doc__ = name, fn.__doc__
        self.__wrapped__ = fn
        parsed = parse_schema(f"{namespace}::{name}{schema}")
        _forget(f"{namespace}::{name}")
        self._opoverload = _operator.add(parsed)
        self._opoverload._closed = True
        self._opoverload.tags = list(tags or ())

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    @property
    def _opname(self) -> str:
        return self._name

    @property
    def _opoverload_packet(self) -> Any:
        return self._opoverload.overloadpacket

    @property
    def default(self) -> OpOverload:
        """The operator's only signature."""
        return self._opoverload

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def register_kernel(
        self, device_types: Any, fn: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """The kernel of one or several types of devices; None means all. Decorates too."""
        if fn is None:
            return functools.partial(self.register_kernel, device_types)
        several = [device_types] if isinstance(device_types, str) else device_types
        for device in several or [None]:
            self._opoverload._kernels[_operator.key_of(device)] = fn
        return fn

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """The shapes and dtypes of results: a kernel for tensors without elements, on "meta"."""
        self._opoverload._kernels["meta"] = fn
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """The derivative.

        Args:
            backward: (ctx, *grads) -> a gradient, or None, for each argument by place; a list of
                them for a list of tensors.
            setup_context: (ctx, inputs, output) -> None keeps what backward needs; where there are
                arguments after '*', (ctx, inputs, keyword_only_inputs, output).

        Raises:
            RuntimeError: the operator writes to an argument, or has no result.
        """
        set_formula(self._opoverload, backward, setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """The rule for `vmap`: (info, in_dims, *args) -> (output, out_dims). Decorates too.

        `info` has `batch_size` and `randomness`; `in_dims` has the form of the arguments, None
        for those that are the same in all calls. Without a rule it is called once a row.
        """

        def register(func: Callable[..., Any]) -> Callable[..., Any]:
            self._opoverload._batching = func
            return func

        return register if func is None else register(func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Under autocast of the device, floating-point inputs are cast to this dtype.

        Args:
            device_type: "cpu" or "cuda".
            cast_inputs: a floating-point dtype.
        """
        set_cast(self._opoverload, device_type, cast_inputs)

    def register_torch_dispatch(
        self, torch_dispatch_class: Any, fn: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """What a class of tensors does for it: fn(cls, func, types, args, kwargs). Decorates."""
        if fn is None:
            return functools.partial(self.register_torch_dispatch, torch_dispatch_class)
        set_answer(self._opoverload, torch_dispatch_class, fn)
        return fn

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Within it the kernel of a type of device is in use, or the one for all devices is."""
        key = _operator.key_of(device_type)
        off = self._opoverload._off
        before = key in off
        (off.discard if enabled else off.add)(key)
        try:
            yield
        finally:
            (off.add if before else off.discard)(key)


def set_cast(operator: OpOverload, device_type: str, cast_inputs: Any) -> None:
    """Gives an operator the dtype that autocasting brings its inputs to."""
    if device_type not in ("cpu", "cuda"):
        raise ValueError(
            f"register_autocast(): device_type is {device_type!r}, not 'cpu' or 'cuda'"
        )
    if not (isinstance(cast_inputs, facula.dtype) and cast_inputs.is_floating_point):
        raise TypeError(f"register_autocast(): {cast_inputs!r} is no floating-point dtype")
    operator._casts[device_type] = cast_inputs


def set_answer(operator: OpOverload, kind: Any, fn: Callable[..., Any]) -> None:
    """Lets a class of tensors answer for an operator."""
    if not (isinstance(kind, type) and issubclass(kind, facula.Tensor)):
        raise TypeError(
            f"register_torch_dispatch(): {kind!r} is no subclass of Tensor; modes of dispatch are "
            f"not there, and facula.overrides.TorchFunctionMode sees all calls"
        )
    facula._C._use_overrides()
    operator._answers.append((kind, fn))


def _forget(name: str) -> None:
    """Takes an operator away that is defined anew, as notebooks do."""
    with contextlib.suppress(RuntimeError):
        _operator.remove(_operator.found(name))


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """An operator of a function, to which gradients and batches do not look in; decorates too.

    Args:
        name: "space::name"; it can be called as `facula.ops.space.name` too.
        fn: what it computes. Its results share no memory with arguments.
        mutates_args: names of the arguments that it writes to; "unknown": any of them.
        device_types: a type of device, or several, that `fn` is for; None means all.
        schema: its signature, "(Tensor x) -> Tensor"; by default that of `fn`'s annotations, see
            `infer_schema`.
        tags: kept.

    Returns:
        The operator, a `CustomOpDef`.

    Raises:
        ValueError: the name is none, or there are annotations missing.

    >>> import facula
    >>> @facula.library.custom_op("example::cube", mutates_args=())
    ... def cube(x: facula.Tensor) -> facula.Tensor:
    ...     return facula.from_numpy(x.detach().numpy() ** 3)
    >>> def keep(ctx, inputs, output):
    ...     ctx.save_for_backward(inputs[0])
    >>> def backward(ctx, grad):
    ...     return grad * 3 * ctx.saved_tensors[0] ** 2
    >>> cube.register_autograd(backward, setup_context=keep)
    >>> x = facula.tensor(2., requires_grad=True)
    >>> cube(x).backward()
    >>> x.grad
    tensor(12.)
    """
    space, _, leaf = name.partition("::")
    if not leaf or not space:
        raise ValueError(
            f"custom_op(): an operator is named as 'space::name', not {name!r}; the space is that "
            f"of your package"
        )
    if "." in leaf:
        raise ValueError(f"custom_op(): {name!r} has an overload, which it cannot have here")

    def make(function: Callable[..., Any]) -> CustomOpDef:
        if schema is None:
            signature = infer_schema(function, mutates_args=mutates_args)
        else:
            signature = schema
            parsed = parse_schema(f"{name}{signature}")
            written = {a.name for a in parsed.arguments if a.is_write}
            named = {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
            if mutates_args != "unknown" and named != written:
                raise ValueError(
                    f"custom_op(): mutates_args is {sorted(named)}, and the signature {signature} "
                    f"says that {sorted(written)} are written to"
                )
        operator = CustomOpDef(space, leaf, signature, function, tags)
        operator.register_kernel(device_types, function)
        return operator

    return make if fn is None else make(fn)
