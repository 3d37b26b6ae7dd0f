"""Limit gradients by norm (Pascanu et al. 2013) or by value, in place."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import facula
from facula._errors import tell_all

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, facula.Tensor) else list(tensors)


def _norms(tensors: list[Any], norm_type: float, owners: list[Any] | None = None) -> Any:
    """The norm of each tensor, those of 16-bit floats in float32, whose range they may need.

    Of tensors in parts on several processes (`DTensor`) come the norms of the parts of all.
    """
    device = tensors[0].device
    norms = []
    for t in tensors:
        wide = facula.float32 if t.dtype in (facula.float16, facula.bfloat16) else None
        some = t if t.numel() else t.new_zeros(1)  # a process may have no part
        norms.append(facula.linalg.vector_norm(some, norm_type, dtype=wide).to(device))
    layouts = [
        getattr(t, "_layout", None) or getattr(owner, "_layout", None)
        for t, owner in zip(tensors, owners or tensors, strict=True)
    ]
    spread = next(filter(None, layouts), None)
    return facula.stack(norms) if spread is None else spread.of_all_parts(norms, layouts, norm_type)


def get_total_norm(
    tensors: Iterable[Any],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Norm of all the tensors as one vector: a 0-d tensor on the first one's device."""
    tensors = _listed(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return facula.tensor(0.0)
    with facula.no_grad():
        total = facula.linalg.vector_norm(_norms(tensors, norm_type), norm_type)
    return _checked(total, norm_type, error_if_nonfinite)


def _checked(total: Any, norm_type: float, error_if_nonfinite: bool) -> Any:
    if error_if_nonfinite and not bool(facula.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients is non-finite, so it cannot be "
            "clipped; set error_if_nonfinite=False to scale by it anyway"
        )
    return total


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None
) -> None:
    """Scale the gradients by max_norm / total_norm where that is below 1."""
    with facula.no_grad():
        _clip(_listed(parameters), float(max_norm), total_norm, 1e-6)


def _clip(parameters: list[Any], max_norm: float, total_norm: Any, epsilon: float) -> None:
    # Without a comparison: that would have to wait for the device.
    scale = (max_norm / (total_norm + epsilon)).clamp(max=1.0)
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.mul_(scale.to(parameter.grad.device))


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Scale all gradients so that their joint norm is at most `max_norm`.

    Returns:
        The norm before, a 0-d tensor.

    Raises:
        RuntimeError: with `error_if_nonfinite`, if that norm is not finite.
    """
    parameters = _listed(parameters)
    trained = [p for p in parameters if p.grad is not None]
    if not trained:
        return facula.tensor(0.0)
    norm_type = float(norm_type)
    with facula.no_grad():
        norms = _norms([p.grad for p in trained], norm_type, trained)
        total = _checked(facula.linalg.vector_norm(norms, norm_type), norm_type, error_if_nonfinite)
        # Scaled down, in which the norm stays in the range where its parts are.
        far = 1.0 if norm_type == 0 or max_norm < 1e-15 else 2.0**-64
        scaled = total if far == 1 else facula.linalg.vector_norm(norms * far, norm_type)
        _clip(parameters, float(max_norm) * far, scaled, 1e-6 * far)
    return total


def clip_grad_norm(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """The older name of `clip_grad_norm_`."""
    warnings.warn(
        "`clip_grad_norm` is now deprecated in favor of `clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of the gradients to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    with facula.no_grad():
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.clamp_(min=-clip_value, max=clip_value)


tell_all(globals(), __all__)
