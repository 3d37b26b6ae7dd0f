"""Limit gradients by norm (Pascanu et al. 2013) or by value, in place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import facula

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, facula.Tensor) else list(tensors)


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
    device = tensors[0].device
    with facula.no_grad():
        norms = [facula.linalg.vector_norm(t, norm_type) for t in tensors]
        total = facula.linalg.vector_norm(facula.stack([n.to(device) for n in norms]), norm_type)
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
        # Without a comparison: that would have to wait for the device.
        scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for parameter in _listed(parameters):
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
    grads = [p.grad for p in parameters if p.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of the gradients to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    with facula.no_grad():
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.clamp_(min=-clip_value, max=clip_value)
