"""Rectified Adam (Liu et al. 2020)."""

from __future__ import annotations

from typing import Any

from facula import _C
from facula.optim.adam import check_adam_group, decayed
from facula.optim.optimizer import (
    Optimizer,
    as_real,
    counted,
    gathered,
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
        done = [float(state["step"]) for state in states]
        for t in dict.fromkeys(done):
            at = [i for i, n in enumerate(done) if n == t]
            self._step(t + 1, *([kind[i] for i in at] for kind in (params, grads, states)), group)

    def _step(self, t: float, params: Any, grads: Any, states: Any, group: Any) -> None:
        """The step number t, which these parameters have in common."""
        lr, decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
        rate, rise = _rates(t, beta1, beta2)
        if rise is not None:
            # Adam's step of another rate: its eps stands beside sqrt(v / (1 - beta2^t)).
            left = (1 - beta2**t) ** 0.5
            share = float(rise / left)
            decoupled = group["decoupled_weight_decay"]
            _C._ops.adam_step(
                params,
                grads,
                gathered(states, "exp_avg"),
                gathered(states, "exp_avg_sq"),
                [],
                gathered(states, "step"),
                float(lr) * share,
                float(beta1),
                float(beta2),
                float(group["eps"] / left),
                float(decay) / share if decoupled else float(decay),
                decoupled,
                group["maximize"],
            )
            return
        for param, raw, state in zip(params, grads, states, strict=True):
            state["step"] += 1
            p, grad = as_real(param), as_real(-raw if group["maximize"] else raw)
            if group["decoupled_weight_decay"]:
                p.mul_(1 - lr * decay)
            elif decay != 0:
                grad = grad.add(p, alpha=decay)
            as_real(state["exp_avg_sq"]).mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            p.add_(as_real(state["exp_avg"]).lerp_(grad, 1 - beta1), alpha=-lr * rate)

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
