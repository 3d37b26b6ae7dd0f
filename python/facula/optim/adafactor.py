"""Adafactor (Shazeer & Stern 2018): second moments by row and column alone."""

from __future__ import annotations

from typing import Any

import facula
from facula.optim.optimizer import Optimizer, check_range, new_step, zeros_like

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """p -= alpha u / max(1, rms(u) / d), where u = g / sqrt(v) and alpha = max(eps2, rms(p)) rho.

    rho = min(lr, t^-1/2) at the t-th step. Of parameters with two dims or more v is the product of
    the means of g^2 over the last dim and over the one before, divided by the mean of both; means
    over time take 1 - t^beta2_decay of what they were. foreach has no effect.

    Args:
        params: real tensors, or groups.
        lr: the largest relative step.
        beta2_decay: at most 0.
        eps: (eps1, eps2), the least root of v and the least size of a parameter; eps1 None means
            the dtype's eps.
        d: at least 1; updates of a larger root mean square are scaled down.
        weight_decay: p is multiplied by 1 - lr weight_decay first.
        maximize: step uphill.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        check_range("learning rate", group["lr"])
        check_range("weight_decay value", group["weight_decay"])
        check_range("epsilon1", group["eps"][0] or 0.0)
        check_range("epsilon2", group["eps"][1])
        if not group["beta2_decay"] <= 0:
            raise ValueError(f"Invalid beta2_decay: {group['beta2_decay']}; it must be at most 0")
        if not group["d"] >= 1:
            raise ValueError(f"Invalid clipping threshold d: {group['d']}; it must be at least 1")
        if any(p.is_complex() for p in group["params"]):
            raise ValueError("Adafactor does not support complex parameters")

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        if param.dim() > 1:
            shape = list(param.shape)
            state["row_var"] = param.detach().new_zeros([*shape[:-1], 1])
            state["col_var"] = param.detach().new_zeros([*shape[:-2], 1, shape[-1]])
        else:
            state["variance"] = zeros_like(param)

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        lr, (least_root, least_size) = float(group["lr"]), group["eps"]
        for p, raw, state in zip(params, grads, states, strict=True):
            # Contiguous: the order of sums, and so their last bits, follows the layout.
            grad = (-raw if group["maximize"] else raw).contiguous()
            eps = facula.finfo(p.dtype).eps if least_root is None else least_root
            state["step"] += 1
            t = float(state["step"])
            share = t ** group["beta2_decay"]
            alpha = max(least_size, _rms(p.contiguous())) * min(lr, t**-0.5)
            if group["weight_decay"] != 0:
                p.mul_(1 - lr * group["weight_decay"])
            if p.dim() > 1:
                rows, columns = state["row_var"], state["col_var"]
                rows.lerp_((grad * grad).mean(-1, keepdim=True), share)
                columns.lerp_((grad * grad).mean(-2, keepdim=True), share)
                variance = rows @ columns
                variance.div_(rows.mean(-2, keepdim=True).clamp_(min=eps))
            else:
                variance = state["variance"].lerp_(grad * grad, share).clone()
            update = variance.clamp_(min=eps * eps).rsqrt_().mul_(grad)
            p.add_(update, alpha=-alpha / max(1.0, _rms(update) / group["d"]))


def _rms(tensor: Any) -> float:
    """The root mean square; 0 of nothing."""
    return float(tensor.norm()) / max(tensor.numel(), 1) ** 0.5
