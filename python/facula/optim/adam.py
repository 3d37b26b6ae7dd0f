"""Adam (Kingma & Ba 2015), AMSGrad (Reddi et al. 2018), AdamW (Loshchilov & Hutter 2019)."""

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

__all__ = ["Adam", "AdamW", "Adamax", "NAdam"]


def check_adam_group(group: dict[str, Any]) -> None:
    """Raise for options that no optimizer of Adam's kind can have."""
    check_range("learning rate", group["lr"])
    check_range("epsilon value", group["eps"])
    check_range("weight_decay value", group["weight_decay"])
    for i, beta in enumerate(group["betas"]):
        check_range(f"beta parameter at index {i}", beta, 0.0, 1.0)
    check_implementation(group)


def decayed(x: Any, grad: Any, group: dict[str, Any]) -> tuple[Any, Any]:
    """The parameter and its gradient with weight_decay in the one or the other."""
    decay = group["weight_decay"]
    if group.get("decoupled_weight_decay"):
        return x * (1 - group["lr"] * decay), grad
    return x, grad + decay * x


class Adam(Optimizer):
    """m and v are running means of g and g^2; p -= lr m' / (sqrt(v') + eps), ' without bias.

    weight_decay is added to the gradient, or with decoupled_weight_decay shrinks p by
    lr * weight_decay. amsgrad divides by the largest v' so far. All parameters step in one
    operator, whatever foreach and fused say; capturable has no effect.
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
        check_adam_group(group)

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        state["exp_avg"] = zeros_like(param)
        state["exp_avg_sq"] = zeros_like(param)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        beta1, beta2 = group["betas"]
        _C._ops.adam_step(
            params,
            grads,
            gathered(states, "exp_avg"),
            gathered(states, "exp_avg_sq"),
            gathered(states, "max_exp_avg_sq") if group["amsgrad"] else [],
            gathered(states, "step"),
            float(group["lr"]),
            float(beta1),
            float(beta2),
            float(group["eps"]),
            float(group["weight_decay"]),
            group["decoupled_weight_decay"],
            group["maximize"],
        )

    def _formula(self, x: Any, grad: Any, state: Any, group: Any) -> Any:
        lr, (beta1, beta2), t = group["lr"], group["betas"], counted(state)
        x, grad = decayed(x, grad, group)
        m = state["exp_avg"] = mixed(state["exp_avg"], grad, beta1)
        v = state["exp_avg_sq"] = mixed(state["exp_avg_sq"], grad * grad, beta2)
        if group["amsgrad"]:
            v = state["max_exp_avg_sq"] = facula.maximum(state["max_exp_avg_sq"], v)
        over = root(v) / (1 - beta2**t) ** 0.5 + group["eps"]
        return x - lr / (1 - beta1**t) * (m / over)


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
        check_adam_group(group)

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        state["exp_avg"] = zeros_like(param)
        state["exp_inf"] = zeros_like(param)

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        beta1, beta2 = group["betas"]
        _C._ops.adamax_step(
            params,
            grads,
            gathered(states, "exp_avg"),
            gathered(states, "exp_inf"),
            gathered(states, "step"),
            float(group["lr"]),
            float(beta1),
            float(beta2),
            float(group["eps"]),
            float(group["weight_decay"]),
            group["maximize"],
        )

    def _formula(self, x: Any, grad: Any, state: Any, group: Any) -> Any:
        lr, (beta1, beta2), t = group["lr"], group["betas"], counted(state)
        x, grad = decayed(x, grad, group)
        m = state["exp_avg"] = mixed(state["exp_avg"], grad, beta1)
        u = facula.maximum(beta2 * state["exp_inf"], grad.abs() + group["eps"])
        state["exp_inf"] = u
        return x - lr / (1 - beta1**t) * (m / u)


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
        check_adam_group(group)
        check_range("momentum_decay value", group["momentum_decay"])

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        state["mu_product"] = facula.ones((), dtype=facula.float32, device="cpu")
        state["exp_avg"] = zeros_like(param)
        state["exp_avg_sq"] = zeros_like(param)

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        beta1, beta2 = group["betas"]
        _C._ops.nadam_step(
            params,
            grads,
            gathered(states, "exp_avg"),
            gathered(states, "exp_avg_sq"),
            gathered(states, "mu_product"),
            gathered(states, "step"),
            float(group["lr"]),
            float(beta1),
            float(beta2),
            float(group["eps"]),
            float(group["weight_decay"]),
            float(group["momentum_decay"]),
            group["decoupled_weight_decay"],
            group["maximize"],
        )

    def _formula(self, x: Any, grad: Any, state: Any, group: Any) -> Any:
        lr, (beta1, beta2), t = group["lr"], group["betas"], counted(state)
        now, after = (beta1 * (1 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (t, t + 1))
        state["mu_product"] = state["mu_product"] * now
        product = float(state["mu_product"])
        x, grad = decayed(x, grad, group)
        m = state["exp_avg"] = mixed(state["exp_avg"], grad, beta1)
        v = state["exp_avg_sq"] = mixed(state["exp_avg_sq"], grad * grad, beta2)
        over = root(v / (1 - beta2**t)) + group["eps"]
        own, mean = (1 - now) / (1 - product), after / (1 - product * after)
        return x - lr * (own * grad + mean * m) / over
