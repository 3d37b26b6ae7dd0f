"""`torch.optim.optimizer`: what optimizers of packages take from that file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import facula
from facula.optim.optimizer import Optimizer

__all__ = ["Optimizer", "ParamsT"]

ParamsT = Iterable[facula.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, facula.Tensor]]
_params_t = ParamsT

_params_doc = "params: parameters, groups of them, or pairs of names and parameters."
_foreach_doc = "foreach: taken; facula updates all parameters of a group at once anyway."
_fused_doc = "fused: taken, likewise."
_capturable_doc = "capturable: whether a step may be captured in a graph of a GPU."
_differentiable_doc = "differentiable: whether gradients flow through a step."
_maximize_doc = "maximize: whether the objective is made large, not small."


def _use_grad_for_differentiable(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step during which gradients are recorded where the optimizer is differentiable."""

    @functools.wraps(step)
    def decorated(self: Any, *args: Any, **kwargs: Any) -> Any:
        with facula.set_grad_enabled(bool(self.defaults["differentiable"])):
            return step(self, *args, **kwargs)

    return decorated


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[..., Any]:
    """Changes nothing: there is no compiler to be kept away."""
    return lambda function: function


def _default_to_fused_or_foreach(
    params: list[Any], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(fused, foreach): neither; optimizers of packages then go parameter by parameter."""
    return False, False


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Types of devices whose work can be captured in a graph."""
    return ["cuda"]


def _get_value(x: Any) -> Any:
    """The number in a tensor of one element."""
    return x.item() if isinstance(x, facula.Tensor) else x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without dims; other things as they are."""
    return x.squeeze() if isinstance(x, facula.Tensor) and x.dim() else x


def _stack_if_compiling(x: Any) -> Any:
    """As it is: nothing is compiled."""
    return x


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    """The dtype of a count of steps."""
    wide = facula.get_default_dtype() == facula.float64 and not is_fused
    return facula.float64 if wide else facula.float32


def _view_as_real(params: list[Any], *states: list[Any]) -> None:
    """Puts views of pairs of real numbers in the place of complex tensors, in each list."""
    for i, param in enumerate(params):
        if facula.is_complex(param):
            for tensors in (params, *states):
                tensors[i] = facula.view_as_real(tensors[i])
