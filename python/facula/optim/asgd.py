"""Averaged SGD (Polyak & Juditsky 1992, as in Bottou 2010)."""

from __future__ import annotations

from typing import Any

from facula.optim.optimizer import Optimizer, check_range, new_step, zeros_like

__all__ = ["ASGD"]


class ASGD(Optimizer):
    """p -= eta (g + lambd p), and state["ax"] is the mean of p over the steps after t0.

    At the t-th step eta = lr / (1 + lambd lr (t - 1))^alpha. foreach and
    capturable are taken for compatibility and have no effect; differentiable is refused.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        check_range("learning rate", group["lr"])
        check_range("weight_decay value", group["weight_decay"])

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        state["ax"] = zeros_like(param)

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        lr, lambd = group["lr"], group["lambd"]
        for p, raw, state in zip(params, grads, states, strict=True):
            done = float(state["step"])
            state["step"] += 1
            eta = lr / (1 + lambd * lr * done) ** group["alpha"]
            grad = -raw if group["maximize"] else raw
            if group["weight_decay"] != 0:
                grad = grad.add(p, alpha=group["weight_decay"])
            p.mul_(1 - lambd * eta).add_(grad, alpha=-eta)
            state["ax"].lerp_(p, 1 / max(1.0, done - group["t0"]))
