"""Layers that learn their input's size from the first input."""

from __future__ import annotations

from typing import Any

import facula
from facula.nn._lazy import UninitializedBuffer, UninitializedParameter, is_lazy
from facula.nn.modules.batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from facula.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from facula.nn.modules.linear import Linear

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]


def _infer(module: Any, args: Any, kwargs: Any) -> None:
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
    _settle(module)


def _settle(module: Any) -> None:
    for key, hook in list(module._forward_pre_hooks.items()):
        if hook is _infer:
            del module._forward_pre_hooks[key]
            module._forward_pre_hooks_with_kwargs.pop(key, None)
    for key, hook in list(module._load_state_dict_pre_hooks.items()):
        if hook is _take_shapes:
            del module._load_state_dict_pre_hooks[key]
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


def _take_shapes(module: Any, state: Any, prefix: str, *rest: Any) -> None:
    """Before a state dict is loaded: the shapes of what it has."""
    for name, own in [*module._parameters.items(), *module._buffers.items()]:
        new = state.get(prefix + name)
        if is_lazy(own) and isinstance(new, facula.Tensor) and not is_lazy(new):
            with facula.no_grad():
                own.materialize(new.shape)


class LazyModuleMixin:
    """Makes a Module lazy: put it before the module's class, and say in `initialize_parameters`.

    A subclass makes `UninitializedParameter` or `UninitializedBuffer`s and overrides
    `initialize_parameters(*args, **kwargs)`, which the first call of the module runs with its
    arguments. Then the module becomes one of `cls_to_become`, if that is not None.
    """

    cls_to_become: type | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        me: Any = self
        me.register_forward_pre_hook(_infer, with_kwargs=True)
        me.register_load_state_dict_pre_hook(_take_shapes)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters shapes and values for these arguments of `forward`."""
        raise NotImplementedError(f"{type(self).__name__} has no initialize_parameters()")

    def has_uninitialized_params(self) -> bool:
        """Has a parameter or buffer of this module itself no shape yet?"""
        me: Any = self
        return any(is_lazy(t) for t in [*me._parameters.values(), *me._buffers.values()])


def _fresh_bias(module: Any, bias: bool, **where: Any) -> None:
    if bias:
        module._parameters.pop("bias", None)
        module.bias = UninitializedParameter(**where)


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` whose `in_features` is the last size of the first input."""

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        _fresh_bias(self, bias, device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:  # type: ignore[override]
        if self.has_uninitialized_params():
            with facula.no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # shapes came from a state dict
            self.in_features = self.weight.shape[-1]


class _LazyConvXdMixin(LazyModuleMixin):
    """Of all convolutions: `in_channels` is the input's."""

    def reset_parameters(self) -> None:
        me: Any = self
        if not self.has_uninitialized_params() and me.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def _lazy(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        me: Any = self
        if out_channels % me.groups:
            raise ValueError(
                f"{type(self).__name__}: out_channels {out_channels} must be divisible by groups "
                f"{me.groups}"
            )
        me.out_channels = out_channels
        me.weight = UninitializedParameter(device=device, dtype=dtype)
        _fresh_bias(me, bias, device=device, dtype=dtype)

    def initialize_parameters(self, input: Any, *rest: Any, **more: Any) -> None:
        me: Any = self
        if self.has_uninitialized_params():
            n = len(me.kernel_size)
            if input.dim() not in (n + 1, n + 2):
                raise RuntimeError(
                    f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to "
                    f"{type(self).__name__}, but got input of size: {tuple(input.shape)}"
                )
            channels = input.shape[-n - 1]
            if channels % me.groups:
                raise ValueError(
                    f"in_channels must be divisible by groups: the input has {channels} channels, "
                    f"groups is {me.groups}"
                )
            me.in_channels = channels
            pair = (channels, me.out_channels // me.groups)
            if not me.transposed:
                pair = (me.out_channels, channels // me.groups)
            with facula.no_grad():
                me.weight.materialize((*pair, *me.kernel_size))
                if me.bias is not None:
                    me.bias.materialize((me.out_channels,))
                self.reset_parameters()
        if me.in_channels == 0:
            me.in_channels = me.weight.shape[0 if me.transposed else 1]
            if not me.transposed:
                me.in_channels *= me.groups


def _lazy_conv(cls: type, transposed: bool) -> type:
    if transposed:

        def init(
            self: Any,
            out_channels: int,
            kernel_size: Any,
            stride: Any = 1,
            padding: Any = 0,
            output_padding: Any = 0,
            groups: int = 1,
            bias: bool = True,
            dilation: Any = 1,
            padding_mode: str = "zeros",
            device: Any = None,
            dtype: Any = None,
        ) -> None:
            given = (kernel_size, stride, padding, output_padding, groups, False, dilation)
            super(made, self).__init__(0, 0, *given, padding_mode)  # type: ignore[misc]
            self._lazy(out_channels, bias, device, dtype)

    else:

        def init(  # type: ignore[misc]
            self: Any,
            out_channels: int,
            kernel_size: Any,
            stride: Any = 1,
            padding: Any = 0,
            dilation: Any = 1,
            groups: int = 1,
            bias: bool = True,
            padding_mode: str = "zeros",
            device: Any = None,
            dtype: Any = None,
        ) -> None:
            given = (kernel_size, stride, padding, dilation, groups, False, padding_mode)
            super(made, self).__init__(0, 0, *given)  # type: ignore[misc]
            self._lazy(out_channels, bias, device, dtype)

    made = _class_of(
        cls, _LazyConvXdMixin, f"`{cls.__name__}` with the channels of its first input."
    )
    init.__name__, init.__qualname__ = "__init__", f"{made.__name__}.__init__"
    made.__init__ = init  # type: ignore[misc]
    return made


def _class_of(cls: type, mixin: type, doc: str) -> type:
    space = {"cls_to_become": cls, "__module__": __name__, "__doc__": doc}
    return type("Lazy" + cls.__name__, (mixin, cls), space)


class _LazyNormBase(LazyModuleMixin):
    """Of batch and instance normalisations: `num_features` is the input's channels."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False)
        me: Any = self
        where = {"device": device, "dtype": dtype}
        me.affine, me.track_running_stats = affine, track_running_stats
        if affine:
            me.weight = UninitializedParameter(**where)
            _fresh_bias(me, bias, **where)
        if track_running_stats:
            me.running_mean = UninitializedBuffer(**where)
            me.running_var = UninitializedBuffer(**where)
            me.num_batches_tracked = facula.tensor(0, dtype=facula.int64, device=device)

    def reset_parameters(self) -> None:
        me: Any = self
        if not self.has_uninitialized_params() and me.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any) -> None:  # type: ignore[override]
        me: Any = self
        if self.has_uninitialized_params():
            me._check_input_dim(input)
            batch = 1 if input.dim() > self._unbatched_dim() else 0
            me.num_features = input.shape[batch]
            with facula.no_grad():
                for tensor in [*me._parameters.values(), *me._buffers.values()]:
                    if is_lazy(tensor):
                        tensor.materialize((me.num_features,))
                self.reset_parameters()
        if me.num_features == 0:
            known = [*me._parameters.values(), me.running_mean]
            me.num_features = next((t.numel() for t in known if t is not None), 0)

    def _unbatched_dim(self) -> int:
        """How many dims an input without a batch has, where there is such a thing."""
        return int(getattr(self, "_space", 0)) + 1


LazyConv1d = _lazy_conv(Conv1d, False)
LazyConv2d = _lazy_conv(Conv2d, False)
LazyConv3d = _lazy_conv(Conv3d, False)
LazyConvTranspose1d = _lazy_conv(ConvTranspose1d, True)
LazyConvTranspose2d = _lazy_conv(ConvTranspose2d, True)
LazyConvTranspose3d = _lazy_conv(ConvTranspose3d, True)
_OF_CHANNELS = "`{}` with the channels of its first input."
LazyBatchNorm1d = _class_of(BatchNorm1d, _LazyNormBase, _OF_CHANNELS.format("BatchNorm1d"))
LazyBatchNorm2d = _class_of(BatchNorm2d, _LazyNormBase, _OF_CHANNELS.format("BatchNorm2d"))
LazyBatchNorm3d = _class_of(BatchNorm3d, _LazyNormBase, _OF_CHANNELS.format("BatchNorm3d"))
LazyInstanceNorm1d = _class_of(InstanceNorm1d, _LazyNormBase, _OF_CHANNELS.format("InstanceNorm1d"))
LazyInstanceNorm2d = _class_of(InstanceNorm2d, _LazyNormBase, _OF_CHANNELS.format("InstanceNorm2d"))
LazyInstanceNorm3d = _class_of(InstanceNorm3d, _LazyNormBase, _OF_CHANNELS.format("InstanceNorm3d"))
