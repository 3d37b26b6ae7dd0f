"""Stochastic gradient descent with momentum (Polyak 1964; Nesterov 1983, as in Sutskever 2013)."""

from __future__ import annotations

from typing import Any

import facula
from facula import _C
from facula.optim.optimizer import Optimizer, check_implementation, check_range

__all__ = ["SGD"]


class SGD(Optimizer):
    """b = momentum b + (1 - dampening) g; p -= lr b, or lr (g + momentum b) with nesterov.

    g includes weight_decay * p. The first step sets b = g. All parameters step in one operator,
    whatever foreach and fused say. Of a sparse gradient only the entries that it has are stepped,
    unless there is a weight_decay, which goes to all; so is b kept.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        check_range("learning rate", group["lr"])
        check_range("momentum value", group["momentum"])
        check_range("weight_decay value", group["weight_decay"])
        check_implementation(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if group["momentum"] != 0:
            state["momentum_buffer"] = None

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        momentum = float(group["momentum"])
        if momentum == 0:
            self._run(params, grads, [], group, False)
            return
        buffers = [state.get("momentum_buffer") for state in states]
        for i, buffer in enumerate(buffers):
            if buffer is not None and buffer.layout is not facula.strided:
                buffers[i] = states[i]["momentum_buffer"] = buffer.to_dense()
        fresh = [i for i, buffer in enumerate(buffers) if buffer is None]
        for i in fresh:
            buffers[i] = states[i]["momentum_buffer"] = facula.empty_like(params[i].detach())
        if not fresh or len(fresh) == len(params):
            self._run(params, grads, buffers, group, bool(fresh))
            return
        old = [i for i in range(len(params)) if i not in set(fresh)]
        for part, first in ((fresh, True), (old, False)):
            chosen = ([kind[i] for i in part] for kind in (params, grads, buffers))
            self._run(*chosen, group, first)

    def _update_sparse(self, param: Any, grad: Any, state: dict[str, Any], group: Any) -> None:
        momentum = float(group["momentum"])
        # Without momentum the entries of one place are added one after another.
        if grad.is_sparse and momentum != 0:
            grad = grad.coalesce()
        grad = -grad if group["maximize"] else grad
        if group["weight_decay"] != 0:
            grad = param * float(group["weight_decay"]) + grad  # strided from here on
        if momentum != 0:
            buffer = state.get("momentum_buffer")
            buffer = (
                grad.clone()
                if buffer is None
                else buffer * momentum + grad * (1 - float(group["dampening"]))
            )
            state["momentum_buffer"] = buffer
            grad = grad + buffer * momentum if group["nesterov"] else buffer
        param.add_(grad, alpha=-float(group["lr"]))

    def _formula(self, x: Any, grad: Any, state: Any, group: Any) -> Any:
        momentum, d = group["momentum"], grad + group["weight_decay"] * x
        if momentum != 0:
            old = state.get("momentum_buffer")
            b = d if old is None else momentum * old + (1 - group["dampening"]) * d
            state["momentum_buffer"] = b
            d = d + momentum * b if group["nesterov"] else b
        return x - group["lr"] * d

    def _run(self, params: Any, grads: Any, buffers: Any, group: Any, first: bool) -> None:
        _C._ops.sgd_step(
            params,
            grads,
            buffers,
            float(group["lr"]),
            float(group["momentum"]),
            float(group["dampening"]),
            float(group["weight_decay"]),
            group["nesterov"],
            group["maximize"],
            first,
        )
