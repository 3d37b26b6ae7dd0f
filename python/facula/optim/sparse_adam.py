"""`SparseAdam`: for sparse gradients, which facula does not have."""

from __future__ import annotations

from typing import Any

from facula.optim.optimizer import Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam that updates only the entries which a sparse gradient has.

    Gradients of facula are dense, and `step` refuses those as torch's does: use `Adam`.

    Raises:
        ValueError: lr, betas or eps is out of its range.
        RuntimeError: by `step`, a parameter has a gradient.
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

    def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
        raise RuntimeError(
            "SparseAdam does not support dense gradients, and facula has no others; use Adam"
        )
