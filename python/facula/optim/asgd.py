"""Averaged SGD (Polyak & Juditsky 1992, as in Bottou 2010)."""

from __future__ import annotations

from typing import Any

import facula
from facula.optim.optimizer import (
    Optimizer,
    as_real,
    check_range,
    counted,
    mixed,
    new_step,
    zeros_like,
)

__all__ = ["ASGD"]


class ASGD(Optimizer):
    """p -= eta (g + lambd p), and state["ax"] is the mean of p over the steps after t0.

    At the t-th step eta = lr / (1 + lambd lr (t - 1))^alpha with the lr that the group had at the
    end of the step before, as torch has it. foreach and capturable are taken for compatibility and
    have no effect.
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
        self._next(state, group, 0.0)

    def _next(self, state: dict[str, Any], group: dict[str, Any], done: float) -> None:
        """Note the rate and the weight in the mean of the step after `done` ones.

        As torch has it the rate is that of the group now, not that at the step itself.
        """
        lr = float(group["lr"])
        eta = lr / (1 + group["lambd"] * lr * done) ** group["alpha"]
        state["eta"] = facula.tensor(eta, device="cpu")
        state["mu"] = facula.tensor(1 / max(1.0, done - group["t0"]), device="cpu")

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        for param, raw, state in zip(params, grads, states, strict=True):
            if "eta" not in state:  # of files that do not have it
                self._next(state, group, float(state["step"]))
            state["step"] += 1
            p, grad = as_real(param), as_real(-raw if group["maximize"] else raw)
            if group["weight_decay"] != 0:
                grad = grad.add(p, alpha=group["weight_decay"])
            eta = float(state["eta"])
            p.mul_(1 - group["lambd"] * eta).add_(grad, alpha=-eta)
            mean, weight = as_real(state["ax"]), float(state["mu"])
            if weight == 1:
                mean.copy_(p)
            else:
                mean.lerp_(p, weight)
            self._next(state, group, float(state["step"]))

    def _formula(self, x: Any, grad: Any, state: Any, group: Any) -> Any:
        if "eta" not in state:
            self._next(state, group, float(state["step"]))
        t, eta = counted(state), float(state["eta"])
        grad = grad + group["weight_decay"] * x
        x = x * (1 - group["lambd"] * eta) - eta * grad
        state["ax"] = mixed(state["ax"], x, 1 - float(state["mu"]))
        self._next(state, group, t)
        return x
