"""`SparseAdam`: Adam for sparse gradients (Kingma & Ba 2014, of the entries that there are)."""

from __future__ import annotations

import math
from typing import Any

import facula
from facula.optim.optimizer import Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam that updates only the entries which a sparse gradient has, their moments too.

    m and v of an entry stay as they are while it has no gradient; the bias is corrected by the
    number of steps of the whole parameter.

    Raises:
        ValueError: lr, betas or eps is out of its range; a parameter is sparse itself.
        RuntimeError: by `step`, where a gradient is strided: use `Adam`.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        if not group["lr"] > 0:
            raise ValueError(f"Invalid learning rate: {group['lr']}")
        if not group["eps"] > 0:
            raise ValueError(f"Invalid epsilon value: {group['eps']}")
        for i, beta in enumerate(group["betas"]):
            if not 0 <= beta < 1:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        if any(p.layout is not facula.strided for p in group["params"]):
            raise ValueError("SparseAdam: parameters must be strided; their gradients are sparse")

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = 0
        state["exp_avg"] = facula.zeros_like(param.detach())
        state["exp_avg_sq"] = facula.zeros_like(param.detach())

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        raise RuntimeError("SparseAdam does not support dense gradients; use Adam")

    def _update_sparse(self, param: Any, grad: Any, state: dict[str, Any], group: Any) -> None:
        state["step"] += 1
        beta1, beta2 = group["betas"]
        grad = grad.coalesce() if grad.is_sparse else grad
        values = -grad._values() if group["maximize"] else grad._values()
        if len(values) == 0:
            return
        moments = []
        for name, of, beta in (
            ("exp_avg", values, beta1),
            ("exp_avg_sq", values * values, beta2),
        ):
            old = state[name].sparse_mask(grad)._values()
            change = (of - old) * (1 - beta)
            state[name].add_(facula.sparse._like(grad, change))
            moments.append(old + change)
        denominator = moments[1].sqrt() + group["eps"]
        rate = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
        param.add_(facula.sparse._like(grad, moments[0] / denominator), alpha=-rate)
