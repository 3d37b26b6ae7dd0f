"""Step sizes from running squares: Adagrad (Duchi 2011), RMSprop (Hinton), Adadelta (Zeiler)."""

from __future__ import annotations

from typing import Any

import facula
from facula import _C
from facula.optim.optimizer import (
    Optimizer,
    check_implementation,
    check_range,
    counted,
    gathered,
    mixed,
    new_step,
    root,
    zeros_like,
)

__all__ = ["Adadelta", "Adagrad", "RMSprop"]


class RMSprop(Optimizer):
    """v = alpha v + (1 - alpha) g^2; p -= lr g / (sqrt(v) + eps).

    centered subtracts the square of the running mean of g from v; momentum accumulates steps.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        check_range("learning rate", group["lr"])
        check_range("epsilon value", group["eps"])
        check_range("momentum value", group["momentum"])
        check_range("weight_decay value", group["weight_decay"])
        check_range("alpha value", group["alpha"])
        check_implementation(group)

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        state["square_avg"] = zeros_like(param)
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = zeros_like(param)

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        _C._ops.rmsprop_step(
            params,
            grads,
            gathered(states, "square_avg"),
            gathered(states, "grad_avg") if group["centered"] else [],
            gathered(states, "momentum_buffer") if group["momentum"] > 0 else [],
            gathered(states, "step"),
            float(group["lr"]),
            float(group["alpha"]),
            float(group["eps"]),
            float(group["weight_decay"]),
            float(group["momentum"]),
            group["maximize"],
        )

    def _formula(self, x: Any, grad: Any, state: Any, group: Any) -> Any:
        lr, alpha = group["lr"], group["alpha"]
        counted(state)
        grad = grad + group["weight_decay"] * x
        v = state["square_avg"] = mixed(state["square_avg"], grad * grad, alpha)
        if group["centered"]:
            m = state["grad_avg"] = mixed(state["grad_avg"], grad, alpha)
            v = v - m * m
        step = grad / (root(v) + group["eps"])
        if group["momentum"] > 0:
            step = state["momentum_buffer"] = group["momentum"] * state["momentum_buffer"] + step
        return x - lr * step


class Adagrad(Optimizer):
    """s += g^2; p -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps)."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        # Not at the first step: torch has the sums from the start, and programs read them.
        for group in self.param_groups:
            for p in group["params"]:
                self._init_state(p, self.state[p], group)

    def _check_group(self, group: dict[str, Any]) -> None:
        check_range("learning rate", group["lr"])
        check_range("lr_decay value", group["lr_decay"])
        check_range("weight_decay value", group["weight_decay"])
        check_range("initial_accumulator_value value", group["initial_accumulator_value"])
        check_range("epsilon value", group["eps"])
        check_implementation(group)

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        start = group["initial_accumulator_value"]
        if param.is_complex():  # a sum for each of the two parts
            start = complex(start, start)
        state["sum"] = facula.full_like(param.detach(), start)

    def _update_sparse(self, param: Any, grad: Any, state: dict[str, Any], group: Any) -> None:
        if group["weight_decay"] != 0:
            raise RuntimeError("Adagrad: weight_decay does not go with sparse gradients")
        state["step"] += 1
        rate = float(group["lr"]) / (1 + (float(state["step"]) - 1) * float(group["lr_decay"]))
        grad = grad.coalesce() if grad.is_sparse else grad
        grad = -grad if group["maximize"] else grad
        squares = grad * grad
        if grad.is_complex():
            raise RuntimeError(
                "Adagrad: sparse gradients of complex parameters are not implemented"
            )
        state["sum"].add_(squares)
        sums = state["sum"].sparse_mask(grad)._values()
        values = grad._values() / (sums.sqrt() + float(group["eps"]))
        param.add_(facula.sparse._like(grad, values), alpha=-rate)

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        _C._ops.adagrad_step(
            params,
            grads,
            gathered(states, "sum"),
            gathered(states, "step"),
            float(group["lr"]),
            float(group["lr_decay"]),
            float(group["eps"]),
            float(group["weight_decay"]),
            group["maximize"],
        )

    def _formula(self, x: Any, grad: Any, state: Any, group: Any) -> Any:
        t = counted(state)
        grad = grad + group["weight_decay"] * x
        total = state["sum"] = state["sum"] + grad * grad
        rate = group["lr"] / (1 + (t - 1) * group["lr_decay"])
        return x - rate * (grad / (root(total) + group["eps"]))


class Adadelta(Optimizer):
    """p -= lr g sqrt(u + eps) / sqrt(v + eps), v and u running means of g^2 and of the steps^2."""

    def __init__(
        self,
        params: Any,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        check_range("learning rate", group["lr"])
        check_range("rho value", group["rho"], 0.0, 1.0, closed=True)
        check_range("epsilon value", group["eps"])
        check_range("weight_decay value", group["weight_decay"])

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        state["square_avg"] = zeros_like(param)
        state["acc_delta"] = zeros_like(param)

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        _C._ops.adadelta_step(
            params,
            grads,
            gathered(states, "square_avg"),
            gathered(states, "acc_delta"),
            gathered(states, "step"),
            float(group["lr"]),
            float(group["rho"]),
            float(group["eps"]),
            float(group["weight_decay"]),
            group["maximize"],
        )

    def _formula(self, x: Any, grad: Any, state: Any, group: Any) -> Any:
        rho, eps = group["rho"], group["eps"]
        counted(state)
        grad = grad + group["weight_decay"] * x
        v = state["square_avg"] = mixed(state["square_avg"], grad * grad, rho)
        step = root(state["acc_delta"] + eps) / root(v + eps) * grad
        state["acc_delta"] = mixed(state["acc_delta"], step * step, rho)
        return x - group["lr"] * step
