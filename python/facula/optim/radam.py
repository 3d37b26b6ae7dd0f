"""Rectified Adam (Liu et al. 2020)."""

from __future__ import annotations

from typing import Any

from facula.optim.adam import check_adam_group, decayed
from facula.optim.optimizer import (
    Optimizer,
    as_real,
    counted,
    mixed,
    new_step,
    root,
    zeros_like,
)

__all__ = ["RAdam"]


class RAdam(Optimizer):
    """Adam whose adaptive part waits until its variance is bounded.

    rho_t = rho - 2 t beta2^t / (1 - beta2^t) with rho = 2 / (1 - beta2) - 1. Where rho_t > 5,
    p -= lr r_t m' sqrt(1 - beta2^t) / (sqrt(v) + eps) with r_t^2 = (rho_t - 4) (rho_t - 2) rho /
    ((rho - 4) (rho - 2) rho_t); else p -= lr m'. foreach and capturable are taken
    for compatibility and have no effect.
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
        for param, raw, state in zip(params, grads, states, strict=True):
            state["step"] += 1
            p, grad = as_real(param), as_real(-raw if group["maximize"] else raw)
            if group["decoupled_weight_decay"]:
                p.mul_(1 - lr * decay)
            elif decay != 0:
                grad = grad.add(p, alpha=decay)
            mean, square = as_real(state["exp_avg"]), as_real(state["exp_avg_sq"])
            mean.lerp_(grad, 1 - beta1)
            square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            rate, rise = _rates(float(state["step"]), beta1, beta2)
            if rise is None:
                p.add_(mean, alpha=-lr * rate)
            else:
                p.addcdiv_(mean, square.sqrt().add_(group["eps"]), value=-lr * rate * rise)

    def _formula(self, x: Any, grad: Any, state: Any, group: Any) -> Any:
        beta1, beta2 = group["betas"]
        rate, rise = _rates(counted(state), beta1, beta2)
        x, grad = decayed(x, grad, group)
        mean = state["exp_avg"] = mixed(state["exp_avg"], grad, beta1)
        square = state["exp_avg_sq"] = mixed(state["exp_avg_sq"], grad * grad, beta2)
        step = rate * mean
        return x - group["lr"] * (
            step if rise is None else rise * step / (root(square) + group["eps"])
        )


def _rates(t: float, beta1: Any, beta2: Any) -> tuple[Any, Any]:
    """1 / (1 - beta1^t), and r_t sqrt(1 - beta2^t) where rho_t > 5."""
    longest = 2 / (1 - beta2) - 1
    left = 1 - beta2**t
    length = longest - 2 * t * beta2**t / left
    rate = 1 / (1 - beta1**t)
    if length <= 5:
        return rate, None
    rise = (length - 4) * (length - 2) * longest
    return rate, (left * rise / ((longest - 4) * (longest - 2) * length)) ** 0.5
