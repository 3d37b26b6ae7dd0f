"""Resilient propagation (Riedmiller & Braun 1993)."""

from __future__ import annotations

from typing import Any

import facula
from facula.optim.optimizer import (
    Optimizer,
    as_real,
    check_range,
    counted,
    new_step,
    zeros_like,
)

__all__ = ["Rprop"]


class Rprop(Optimizer):
    """p -= s sign(g); s grows by etas[1] where g keeps its sign, else shrinks by etas[0].

    s starts as lr and stays within step_sizes. Where the sign changed, p rests for a step. Complex
    parameters are pairs of real ones.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        check_range("learning rate", group["lr"])
        down, up = group["etas"]
        if not 0.0 < down < 1.0 < up:
            message = "the first lies between 0 and 1, the second is greater than 1"
            raise ValueError(f"Invalid eta values: {down}, {up}; {message}")

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        state["prev"] = zeros_like(param)
        state["step_size"] = facula.zeros_like(param.detach())
        as_real(state["step_size"]).fill_(group["lr"])

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        down, up = group["etas"]
        for p, raw, state in zip(params, grads, states, strict=True):
            state["step"] += 1
            grad = as_real(-raw if group["maximize"] else raw)
            prev, size = as_real(state["prev"]), as_real(state["step_size"])
            same = grad * prev
            factor = facula.ones_like(size).masked_fill_(same > 0, up).masked_fill_(same < 0, down)
            size.mul_(factor).clamp_(*group["step_sizes"])
            grad = grad.masked_fill(same < 0, 0)
            as_real(p).addcmul_(grad.sign(), size, value=-1)
            prev.copy_(grad)

    def _formula(self, x: Any, grad: Any, state: Any, group: Any) -> Any:
        counted(state)
        down, up = group["etas"]
        same = grad * state["prev"]
        size = state["step_size"]
        size = facula.where(same > 0, size * up, facula.where(same < 0, size * down, size))
        size = size.clamp(*group["step_sizes"])
        state["step_size"] = size
        grad = state["prev"] = facula.where(same < 0, 0.0, grad)
        return x - grad.sign() * size
