"""Muon (Jordan 2024): momentum, made orthogonal, for the matrices of hidden layers."""

from __future__ import annotations

import math
from typing import Any

import facula
from facula.optim.optimizer import Optimizer, check_range, zeros_like

__all__ = ["Muon"]

_MATCHES = (None, "original", "match_rms_adamw")


class Muon(Optimizer):
    """b = momentum b + (1 - momentum) g; p = (1 - lr weight_decay) p - lr' orthogonal(b).

    With nesterov g + momentum (b - g) takes the place of b. `orthogonal` is a polynomial iteration
    (Newton-Schulz) in bfloat16 that brings all singular values close to 1.

    Args:
        params: matrices, or groups of them; other parameters go to another optimizer.
        lr, weight_decay, momentum, nesterov: as above.
        ns_coefficients: (a, b, c) of the polynomial a x + b x^3 + c x^5.
        eps: the least norm that is divided by.
        ns_steps: iterations, less than 100.
        adjust_lr_fn: "original" (or None) multiplies lr by sqrt(max(1, rows / columns)),
            "match_rms_adamw" by 0.2 sqrt(max(rows, columns)).

    Raises:
        ValueError: a parameter is no real matrix, or an option is out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        check_range("learning rate", group["lr"])
        check_range("momentum value", group["momentum"])
        check_range("weight_decay value", group["weight_decay"])
        if group["adjust_lr_fn"] not in _MATCHES:
            raise ValueError(
                f"Invalid adjust_lr_fn: {group['adjust_lr_fn']!r}; it must be one of {_MATCHES}"
            )
        if group["ns_steps"] >= 100 or len(group["ns_coefficients"]) != 3:
            raise ValueError("Muon takes less than 100 ns_steps, and three ns_coefficients")
        for p in group["params"]:
            if p.dim() != 2 or p.is_complex():
                raise ValueError(
                    f"Muon takes real matrices, but a parameter has shape {tuple(p.shape)} and "
                    f"dtype {p.dtype}; give it to another optimizer"
                )

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["momentum_buffer"] = zeros_like(param)

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        lr, momentum = float(group["lr"]), group["momentum"]
        for p, grad, state in zip(params, grads, states, strict=True):
            mean = state["momentum_buffer"].lerp_(grad, 1 - momentum)
            step = grad.lerp(mean, momentum) if group["nesterov"] else mean
            step = _orthogonal(step, group["ns_coefficients"], group["ns_steps"], group["eps"])
            p.mul_(1 - lr * group["weight_decay"])
            p.add_(step.to(p.dtype), alpha=-lr * _ratio(p.shape, group["adjust_lr_fn"]))


def _ratio(shape: Any, kind: str | None) -> float:
    rows, columns = shape
    if kind == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns)) if columns else 1.0


def _orthogonal(matrix: Any, coefficients: Any, steps: int, eps: float) -> Any:
    """The matrix with singular values close to 1, in bfloat16."""
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.to(facula.bfloat16)
    x = x.mT if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = facula.addmm(x, facula.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
