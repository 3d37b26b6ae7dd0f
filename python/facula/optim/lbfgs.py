"""L-BFGS (Nocedal 1980), with a line search for the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import facula
from facula.optim.optimizer import Optimizer, as_real, check_range

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Steps along -H g, where H is the inverse Hessian that the last steps' gradients tell.

    One `step(closure)` makes up to max_iter iterations and calls the closure at most max_eval times
    (a line search may go beyond by what it began). It keeps 2 history_size vectors as long as all
    parameters together.

    Args:
        params: tensors of one device and dtype; one group alone.
        lr: length of a step, the first guess of a line search.
        max_iter: iterations in a step.
        max_eval: calls of the closure in a step; None means 5/4 max_iter.
        tolerance_grad: done when no element of the gradient is larger.
        tolerance_change: done when a step, or the loss, changes by less.
        history_size: steps that are kept.
        line_search_fn: None for steps of length lr, or "strong_wolfe".

    Raises:
        ValueError: several groups, a negative lr, another line search.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add the one group.

        Raises:
            ValueError: there is one already.
        """
        if self.param_groups:
            raise ValueError("LBFGS takes one parameter group; give all parameters in one list")
        super().add_param_group(param_group)

    def _check_group(self, group: dict[str, Any]) -> None:
        check_range("learning rate", group["lr"])
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ValueError(
                f"Invalid line_search_fn: {group['line_search_fn']!r}; it must be 'strong_wolfe' "
                f"or None"
            )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move towards the minimum.

        Args:
            closure: clears the gradients, recomputes the loss, calls backward, returns the loss.
                Where there is no element to move it is called once.

        Returns:
            The loss before the step.

        Raises:
            TypeError: there is no closure.
        """
        if closure is None:
            raise TypeError("LBFGS.step() needs a closure that recomputes the loss")
        with facula.no_grad():
            return self._minimize(closure, self.param_groups[0])

    def _minimize(self, closure: Callable[[], Any], group: dict[str, Any]) -> Any:
        params = group["params"]
        if not any(p.numel() for p in params):
            with facula.enable_grad():
                return closure()
        state = self.state[params[0]]  # of all: there it moves along when it is loaded
        for count in ("func_evals", "n_iter"):
            state.setdefault(count, 0)

        def evaluate() -> Any:
            state["func_evals"] += 1
            with facula.enable_grad():
                return closure()

        before = state["func_evals"]
        first_loss = evaluate()
        loss, grad = float(first_loss), _flat_grad(params)
        if float(grad.abs().max()) <= group["tolerance_grad"]:
            return first_loss
        for i in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = state["d"] = _direction(state, grad, group["history_size"])
            state["prev_flat_grad"], last_loss = grad.clone(), loss
            state["prev_loss"] = loss
            lr = float(group["lr"])
            t = min(1.0, 1.0 / float(grad.abs().sum())) * lr if state["n_iter"] == 1 else lr
            slope = float(grad.dot(d))
            if slope > -group["tolerance_change"]:
                state["t"] = t
                break
            if group["line_search_fn"] is None:
                _add(params, t, d)
                if i < group["max_iter"]:  # the next step's first call would be the same
                    loss = float(evaluate())
                    grad = _flat_grad(params)
            else:
                start = [p.clone() for p in params]

                def at(t: float, start: Any = start, d: Any = d) -> _Point:
                    _add(params, t, d)
                    value = float(evaluate())
                    here = _flat_grad(params)
                    for p, old in zip(params, start, strict=True):
                        p.copy_(old)
                    return _Point(t, value, here, float(here.dot(d)))

                left = group["max_eval"] - (state["func_evals"] - before)
                reach = float(d.abs().max())
                found = _wolfe(
                    at, _Point(0.0, loss, grad, slope), t, reach, left, group["tolerance_change"]
                )
                t, loss, grad = found.t, found.loss, found.grad
                _add(params, t, d)
            state["t"] = t
            if (
                i == group["max_iter"]
                or state["func_evals"] - before >= group["max_eval"]
                or float(grad.abs().max()) <= group["tolerance_grad"]
                or float(d.mul(t).abs().max()) <= group["tolerance_change"]
                or abs(loss - last_loss) < group["tolerance_change"]
            ):
                break
        return first_loss


def _flat_grad(params: list[Any]) -> Any:
    return facula.cat(
        [as_real(facula.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in params]
    )


def _add(params: list[Any], t: float, d: Any) -> None:
    start = 0
    for p in params:
        real = as_real(p)
        real.add_(d[start : start + real.numel()].reshape(real.shape), alpha=t)
        start += real.numel()


def _direction(state: dict[str, Any], grad: Any, size: int) -> Any:
    """-H grad, by the two loops over the steps kept (Nocedal & Wright, algorithm 7.4)."""
    if state["n_iter"] == 1:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
        return grad.neg()
    changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
    y, s = grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
    ys = float(y.dot(s))
    if ys > 1e-10:  # curvature that keeps H positive
        if len(changes) == size:
            for kept in (changes, steps, ro):
                kept.pop(0)
        changes.append(y)
        steps.append(s)
        ro.append(1.0 / ys)
        state["H_diag"] = ys / float(y.dot(y))
    q = grad.neg()
    shares = [0.0] * len(changes)
    for i in reversed(range(len(changes))):
        shares[i] = float(steps[i].dot(q)) * float(ro[i])
        q.add_(changes[i], alpha=-shares[i])
    q = q.mul(float(state["H_diag"]))
    for i in range(len(changes)):
        q.add_(steps[i], alpha=shares[i] - float(changes[i].dot(q)) * float(ro[i]))
    return q


class _Point(NamedTuple):
    """On the line at t: the loss, the gradient, and its part along the line."""

    t: float
    loss: float
    grad: Any
    slope: float


def _cubic(a: _Point, b: _Point, low: float, high: float) -> float:
    """The minimum of the cubic through two points and their slopes, within [low, high]."""
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = square**0.5
    if a.t > b.t:
        a, b = b, a
    t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return min(max(t, low), high)


def _wolfe(
    at: Callable[[float], _Point],
    start: _Point,
    t: float,
    reach: float,
    most: int,
    tolerance: float,
    c1: float = 1e-4,
    c2: float = 0.9,
) -> _Point:
    """A point with enough decrease and little slope left (Nocedal & Wright, algorithm 3.5).

    `reach` is the largest element of the direction; `most` bounds the points tried after the first.
    """

    def too_high(p: _Point) -> bool:
        return p.loss > start.loss + c1 * p.t * start.slope

    def flat(p: _Point) -> bool:
        return abs(p.slope) <= -c2 * start.slope

    last, new = start, at(t)
    tried = 0
    while tried < most:
        if too_high(new) or (tried > 1 and new.loss >= last.loss):
            break
        if flat(new):
            return new
        if new.slope >= 0:
            break
        t = _cubic(last, new, new.t + 0.01 * (new.t - last.t), new.t * 10)
        last, new = new, at(t)
        tried += 1
    ends = [start if tried == most else last, new]

    low = 0 if ends[0].loss <= ends[1].loss else 1
    stuck = False
    while tried < most and abs(ends[1].t - ends[0].t) * reach >= tolerance:
        left, right = sorted(p.t for p in ends)
        t = _cubic(*ends, left, right)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:  # at the edge: twice, or beyond it, is no progress
            if stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = at(t)
        tried += 1
        if too_high(new) or new.loss >= ends[low].loss:
            ends[1 - low] = new
            low = 0 if ends[0].loss <= ends[1].loss else 1
            continue
        done = flat(new)
        if not done and new.slope * (ends[1 - low].t - ends[low].t) >= 0:
            ends[1 - low] = ends[low]
        ends[low] = new
        if done:
            break
    return ends[low]
