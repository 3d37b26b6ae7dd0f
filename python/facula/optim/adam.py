"""Adam (Kingma & Ba 2015), AMSGrad (Reddi et al. 2018), AdamW (Loshchilov & Hutter 2019)."""

from __future__ import annotations

import math
from typing import Any

import facula
from facula.optim.optimizer import (
    Optimizer,
    as_grad,
    check_range,
    new_step,
    next_step,
    zeros_like,
)

__all__ = ["Adam", "AdamW", "Adamax", "NAdam"]


def _check_common(group: dict[str, Any]) -> None:
    check_range("learning rate", group["lr"])
    check_range("epsilon value", group["eps"])
    check_range("weight_decay value", group["weight_decay"])
    for i, beta in enumerate(group["betas"]):
        check_range(f"beta parameter at index {i}", beta, 0.0, 1.0)


class Adam(Optimizer):
    """m and v are running means of g and g^2; p -= lr m' / (sqrt(v') + eps), ' without bias.

    weight_decay is added to the gradient, or with decoupled_weight_decay shrinks p by
    lr * weight_decay. amsgrad divides by the largest v' so far. foreach, capturable,
    differentiable and fused are taken for compatibility and have no effect.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        _check_common(group)

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        state["exp_avg"] = zeros_like(param)
        state["exp_avg_sq"] = zeros_like(param)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        lr, eps = group["lr"], group["eps"]
        beta1, beta2 = group["betas"]
        decoupled = group["decoupled_weight_decay"]
        for p, raw, state in zip(params, grads, states, strict=True):
            step = next_step(state)
            if decoupled:
                grad = -raw if group["maximize"] else raw
                if group["weight_decay"] != 0:
                    p.mul_(1 - lr * group["weight_decay"])
            else:
                grad = as_grad(raw, p, group)
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            mean.lerp_(grad, 1 - beta1)
            square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            root = math.sqrt(1 - beta2**step)
            if group["amsgrad"]:
                largest = state["max_exp_avg_sq"]
                largest.copy_(facula.maximum(largest, square))
                square = largest
            denominator = square.sqrt().div_(root).add_(eps)
            p.addcdiv_(mean, denominator, value=-lr / (1 - beta1**step))


class AdamW(Adam):
    """Adam with decoupled weight decay: p shrinks by lr * weight_decay at each step."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


class Adamax(Optimizer):
    """Adam with the largest decayed |g| in place of sqrt(v) (Kingma & Ba 2015, section 7)."""

    def __init__(
        self,
        params: Any,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        _check_common(group)

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        state["exp_avg"] = zeros_like(param)
        state["exp_inf"] = zeros_like(param)

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        beta1, beta2 = group["betas"]
        for p, raw, state in zip(params, grads, states, strict=True):
            step = next_step(state)
            grad = as_grad(raw, p, group)
            mean, largest = state["exp_avg"], state["exp_inf"]
            mean.lerp_(grad, 1 - beta1)
            largest.copy_(facula.maximum(largest.mul_(beta2), grad.abs().add_(group["eps"])))
            p.addcdiv_(mean, largest, value=-group["lr"] / (1 - beta1**step))


class NAdam(Optimizer):
    """Adam with Nesterov momentum (Dozat 2016)."""

    def __init__(
        self,
        params: Any,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        _check_common(group)
        check_range("momentum_decay value", group["momentum_decay"])

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        state["mu_product"] = facula.ones((), dtype=facula.float32)
        state["exp_avg"] = zeros_like(param)
        state["exp_avg_sq"] = zeros_like(param)

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        lr, eps, decay = group["lr"], group["eps"], group["momentum_decay"]
        beta1, beta2 = group["betas"]
        for p, raw, state in zip(params, grads, states, strict=True):
            step = next_step(state)
            if group["decoupled_weight_decay"]:
                grad = -raw if group["maximize"] else raw
                p.mul_(1 - lr * group["weight_decay"])
            else:
                grad = as_grad(raw, p, group)
            mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * decay))
            mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * decay))
            state["mu_product"] *= mu
            product = float(state["mu_product"])
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            mean.lerp_(grad, 1 - beta1)
            square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            denominator = square.div(1 - beta2**step).sqrt_().add_(eps)
            p.addcdiv_(grad, denominator, value=-lr * (1.0 - mu) / (1.0 - product))
            p.addcdiv_(mean, denominator, value=-lr * mu_next / (1.0 - product * mu_next))
