"""Stochastic gradient descent with momentum (Polyak 1964; Nesterov 1983, as in Sutskever 2013)."""

from __future__ import annotations

from typing import Any

from facula.optim.optimizer import Optimizer, as_grad, check_range

__all__ = ["SGD"]


class SGD(Optimizer):
    """b = momentum b + (1 - dampening) g; p -= lr b, or lr (g + momentum b) with nesterov.

    g includes weight_decay * p. The first step sets b = g. foreach, fused and differentiable are
    taken for compatibility and have no effect.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        check_range("learning rate", group["lr"])
        check_range("momentum value", group["momentum"])
        check_range("weight_decay value", group["weight_decay"])
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if group["momentum"] != 0:
            state["momentum_buffer"] = None

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        lr, momentum, nesterov = group["lr"], group["momentum"], group["nesterov"]
        for p, raw, state in zip(params, grads, states, strict=True):
            grad = as_grad(raw, p, group)
            if momentum != 0:
                buffer = state.get("momentum_buffer")
                if buffer is None:
                    buffer = state["momentum_buffer"] = grad.detach().clone()
                else:
                    buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
                grad = grad.add(buffer, alpha=momentum) if nesterov else buffer
            p.add_(grad, alpha=-lr)
