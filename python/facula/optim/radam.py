"""Rectified Adam (Liu et al. 2020)."""

from __future__ import annotations

import math
from typing import Any

from facula.optim.adam import check_adam_group
from facula.optim.optimizer import Optimizer, new_step, zeros_like

__all__ = ["RAdam"]


class RAdam(Optimizer):
    """Adam whose adaptive part waits until its variance is bounded.

    rho_t = rho - 2 t beta2^t / (1 - beta2^t) with rho = 2 / (1 - beta2) - 1. Where rho_t > 5,
    p -= lr r_t m' sqrt(1 - beta2^t) / (sqrt(v) + eps) with r_t^2 = (rho_t - 4) (rho_t - 2) rho /
    ((rho - 4) (rho - 2) rho_t); else p -= lr m'. foreach and capturable are taken
    for compatibility and have no effect; differentiable is refused.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        check_adam_group(group)

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        state["exp_avg"] = zeros_like(param)
        state["exp_avg_sq"] = zeros_like(param)

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        lr, decay = group["lr"], group["weight_decay"]
        beta1, beta2 = group["betas"]
        longest = 2 / (1 - beta2) - 1
        for p, raw, state in zip(params, grads, states, strict=True):
            state["step"] += 1
            step = float(state["step"])
            grad = -raw if group["maximize"] else raw
            if group["decoupled_weight_decay"]:
                p.mul_(1 - lr * decay)
            elif decay != 0:
                grad = grad.add(p, alpha=decay)
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            mean.lerp_(grad, 1 - beta1)
            square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            left = 1 - beta2**step
            length = longest - 2 * step * beta2**step / left
            rate = -lr / (1 - beta1**step)
            if length <= 5:
                p.add_(mean, alpha=rate)
                continue
            rise = (length - 4) * (length - 2) * longest
            rate *= math.sqrt(left * rise / ((longest - 4) * (longest - 2) * length))
            p.addcdiv_(mean, square.sqrt().add_(group["eps"]), value=rate)
