"""Optimizers as Lua torch's optim has them: `sgd(opfunc, x, config, state)`.

`opfunc(x)` gives the loss and its gradient for the vector of parameters `x`, which is changed in
place; the result is (x, [loss]). What is kept from step to step is in `state`, by default `config`
itself, so that the same dictionary is given each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula

__all__ = ["adadelta", "adagrad", "adam", "adamax", "nag", "rmsprop", "rprop", "sgd"]

_Function = Callable[[Any], tuple[Any, Any]]
_Config = dict[str, Any] | None


class _Step:
    """One call: loss, gradient with weight decay, learning rate after decay."""

    def __init__(
        self, opfunc: _Function, x: Any, config: _Config, state: _Config, rate: float, known: str
    ) -> None:
        if config is None and state is None:
            raise ValueError(
                "no state table: give a dictionary as config, the same one in each step"
            )
        self.config = {} if config is None else config
        self.state = self.config if state is None else state
        unknown = [
            k
            for k in self.config
            if k not in known.split()
            and not k.startswith("_")
            and k not in ("learningRate", "learningRateDecay", "weightDecay")
        ]
        if unknown:
            raise ValueError(
                f"unknown config {unknown}; there are learningRate, "
                f"learningRateDecay, weightDecay {known}"
            )
        loss, grad = opfunc(x)
        self.result = (x, [float(loss)])
        with facula.no_grad():
            decay = self.get("weightDecay", 0)
            self.grad = grad.detach() + decay * x.detach() if decay else grad.detach()
        self.count = self.state.get("_count", 0)
        self.state["_count"] = self.count + 1
        rate = self.get("learningRate", rate)
        self.rate = rate / (1 + self.count * self.get("learningRateDecay", 0))

    def get(self, name: str, default: Any) -> Any:
        return self.config.get(name, default)

    def kept(self, name: str, fill: float = 0.0) -> Any:
        """A tensor of the state, at first filled with a number."""
        if name not in self.state:
            self.state[name] = facula.full_like(self.grad, fill)
        return self.state[name]


@facula.no_grad()
def _update(x: Any, change: Any) -> None:
    x.sub_(change)


def sgd(opfunc: _Function, x: Any, config: _Config = None, state: _Config = None) -> Any:
    """x -= lr v with v = momentum v + (1 - dampening) g.

    Config: learningRate (1e-3), learningRateDecay, weightDecay, momentum, dampening (as the
    momentum), nesterov, learningRates (a tensor of factors).
    """
    s = _Step(opfunc, x, config, state, 1e-3, "momentum dampening nesterov learningRates")
    momentum, grad = s.get("momentum", 0), s.grad
    damp, nesterov = s.get("dampening", momentum), s.get("nesterov", False)
    if nesterov and not (momentum > 0 and damp == 0):
        raise ValueError("Nesterov momentum requires a momentum and zero dampening")
    if momentum:
        if "_velocity" not in s.state:
            s.state["_velocity"] = grad.clone()
        else:
            s.state["_velocity"].mul_(momentum).add_(grad, alpha=1 - damp)
        velocity = s.state["_velocity"]
        grad = grad + momentum * velocity if nesterov else velocity
    rates = s.get("learningRates", None)
    _update(x, s.rate * (grad if rates is None else grad * rates))
    return s.result


def nag(opfunc: _Function, x: Any, config: _Config = None, state: _Config = None) -> Any:
    """Nesterov's accelerated gradient: opfunc is called ahead, where momentum leads.

    Config: learningRate (1e-3), learningRateDecay, weightDecay, momentum (0.9).
    """
    own = (config if state is None else state) or {}
    momentum = (config or {}).get("momentum", 0.9)
    if momentum <= 0:
        raise ValueError("momentum must be positive for Nesterov's accelerated gradient")
    if "_velocity" in own:
        _update(x, -momentum * own["_velocity"])
    s = _Step(opfunc, x, config, state, 1e-3, "momentum")
    velocity = s.kept("_velocity")
    velocity.mul_(momentum).sub_(s.grad, alpha=s.rate)
    _update(x, s.rate * s.grad)
    return s.result


def adam(opfunc: _Function, x: Any, config: _Config = None, state: _Config = None) -> Any:
    """x -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon) (Kingma & Ba 2015).

    Config: learningRate (1e-3), learningRateDecay, weightDecay, beta1 (0.9), beta2 (0.999),
    epsilon (1e-8).
    """
    s = _Step(opfunc, x, config, state, 1e-3, "beta1 beta2 epsilon")
    b1, b2, t = s.get("beta1", 0.9), s.get("beta2", 0.999), s.count + 1
    m = s.kept("_m").mul_(b1).add_(s.grad, alpha=1 - b1)
    v = s.kept("_v").mul_(b2).addcmul_(s.grad, s.grad, value=1 - b2)
    rate = s.rate * (1 - b2**t) ** 0.5 / (1 - b1**t)
    _update(x, rate * m / (v.sqrt() + s.get("epsilon", 1e-8)))
    return s.result


def adamax(opfunc: _Function, x: Any, config: _Config = None, state: _Config = None) -> Any:
    """x -= lr / (1 - beta1^t) m / u with u = max(beta2 u, |g| + epsilon).

    Config: learningRate (2e-3), learningRateDecay, weightDecay, beta1 (0.9), beta2 (0.999),
    epsilon (1e-38).
    """
    s = _Step(opfunc, x, config, state, 2e-3, "beta1 beta2 epsilon")
    b1, b2 = s.get("beta1", 0.9), s.get("beta2", 0.999)
    m = s.kept("_m").mul_(b1).add_(s.grad, alpha=1 - b1)
    u = s.kept("_u")
    u.copy_(facula.maximum(b2 * u, s.grad.abs() + s.get("epsilon", 1e-38)))
    _update(x, s.rate / (1 - b1 ** (s.count + 1)) * m / u)
    return s.result


def adagrad(opfunc: _Function, x: Any, config: _Config = None, state: _Config = None) -> Any:
    """x -= lr g / (sqrt(sum of g^2) + 1e-10) (Duchi et al. 2011).

    Config: learningRate (1e-3), learningRateDecay, weightDecay.
    """
    s = _Step(opfunc, x, config, state, 1e-3, "")
    total = s.kept("_squares").addcmul_(s.grad, s.grad)
    _update(x, s.rate * s.grad / (total.sqrt() + 1e-10))
    return s.result


def adadelta(opfunc: _Function, x: Any, config: _Config = None, state: _Config = None) -> Any:
    """x -= sqrt(d + eps) / sqrt(v + eps) g; d and v are means of squares (Zeiler 2012).

    Config: rho (0.9), eps (1e-6), weightDecay, learningRate (1).
    """
    s = _Step(opfunc, x, config, state, 1.0, "rho eps")
    rho, eps = s.get("rho", 0.9), s.get("eps", 1e-6)
    v, d = s.kept("_v").mul_(rho).addcmul_(s.grad, s.grad, value=1 - rho), s.kept("_d")
    change = (d + eps).sqrt() / (v + eps).sqrt() * s.grad
    d.mul_(rho).addcmul_(change, change, value=1 - rho)
    _update(x, s.rate * change)
    return s.result


def rmsprop(opfunc: _Function, x: Any, config: _Config = None, state: _Config = None) -> Any:
    """x -= lr g / (sqrt(v) + epsilon) with v = alpha v + (1 - alpha) g^2 (Hinton 2012).

    Config: learningRate (1e-2), learningRateDecay, weightDecay, alpha (0.99), epsilon (1e-8).
    """
    s = _Step(opfunc, x, config, state, 1e-2, "alpha epsilon")
    alpha = s.get("alpha", 0.99)
    v = s.kept("_v").mul_(alpha).addcmul_(s.grad, s.grad, value=1 - alpha)
    _update(x, s.rate * s.grad / (v.sqrt() + s.get("epsilon", 1e-8)))
    return s.result


def rprop(opfunc: _Function, x: Any, config: _Config = None, state: _Config = None) -> Any:
    """Steps of their own for each element, by the signs of its gradients (Riedmiller 1993).

    Config: stepsize (0.1), etaplus (1.2), etaminus (0.5), stepsizemax (50), stepsizemin (1e-6).
    """
    s = _Step(opfunc, x, config, state, 1.0, "stepsize etaplus etaminus stepsizemax stepsizemin")
    sizes, before = s.kept("_sizes", s.get("stepsize", 0.1)), s.kept("_before")
    turned = (s.grad * before).sign()
    factor = facula.ones_like(sizes)
    factor[turned > 0], factor[turned < 0] = s.get("etaplus", 1.2), s.get("etaminus", 0.5)
    sizes.mul_(factor).clamp_(s.get("stepsizemin", 1e-6), s.get("stepsizemax", 50.0))
    grad = facula.where(turned < 0, facula.zeros_like(s.grad), s.grad)
    before.copy_(grad)
    _update(x, grad.sign() * sizes)
    return s.result
