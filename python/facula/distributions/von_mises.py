"""The von Mises distribution of angles."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import facula
from facula import _C
from facula.distributions import constraints
from facula.distributions.distribution import Distribution
from facula.distributions.utils import broadcast_all, holds, lazy_property

__all__ = ["VonMises"]

_NORMAL_FROM = 1e6


class VonMises(Distribution):
    """Angles of density proportional to exp(concentration cos(x - loc)).

    Any number is an angle; draws are in [-pi, pi).
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support = constraints.real
    has_rsample = False
    _fields = ("loc", "concentration")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        # i0e(k) is exp(-k) I0(k)
        k = self.concentration
        closeness = -2 * k * (0.5 * (value - self.loc)).sin() ** 2
        return closeness - math.log(2 * math.pi) - facula.special.i0e(k).log()

    @property
    def mean(self) -> Any:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        """The circular variance, 1 - I1(k) / I0(k)."""
        # Of large k by the series of the ratio (DLMF 10.40.1); in double, since it cancels.
        k = self.concentration.double()
        large = k > 1000
        own = facula.where(large, 1.0, k)
        direct = 1 - facula.special.i1e(own) / facula.special.i0e(own)
        u = 1 / facula.where(large, k, 1000.0)
        series = u * (1 / 2 + u * (1 / 8 + u * (1 / 8 + u * (25 / 128 + u * (13 / 32)))))
        return facula.where(large, series, direct).to(self.concentration.dtype)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws by rejection from a wrapped Cauchy distribution (Best & Fisher 1979).

        Of concentrations above 1e6 they are normal numbers: the difference is below 1e-6.
        """
        with facula.no_grad():
            shape = self._extended_shape(sample_shape)
            loc = self.loc.expand(shape)
            # In double: r cancels for small concentrations, which are next to uniform.
            given = self.concentration.double().expand(shape).reshape(-1)
            angle = facula.randn(given.shape, dtype=given.dtype, device=given.device)
            angle = angle * given.rsqrt()  # NaN of what is no concentration
            k = given.clamp(min=1e-30, max=_NORMAL_FROM)
            tau = 1 + (1 + 4 * k * k).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = (1 + rho * rho) / (2 * rho)
            r = facula.where(k < 1e-5, 1 / k + k, r)
            left = (given >= 0) & (given <= _NORMAL_FROM)
            angle = (_drawn_by_all if _C._level_depth() else _drawn)(k, r, left, angle)
            turned = angle.reshape(shape) + loc
            wrapped = (turned + math.pi) % (2 * math.pi) - math.pi
            # what needs no turn keeps the digits of a small angle
            inside = (turned >= -math.pi) & (turned < math.pi)
            return facula.where(inside, turned, wrapped).to(self.loc.dtype)


def _tried(k: Any, r: Any) -> tuple[Any, Any]:
    """Angles that were drawn, and which of them are taken."""
    u = facula.rand(3, k.numel(), dtype=k.dtype, device=k.device)
    z = (math.pi * u[0]).cos()
    f = (1 + r * z) / (r + z)
    c = k * (r - f)
    taken = (c * (2 - c) > u[1]) | ((c / u[1]).log() + 1 >= c)
    return (u[2] - 0.5).sign() * f.clamp(min=-1, max=1).acos(), taken


def _drawn(k: Any, r: Any, left: Any, angle: Any) -> Any:
    places = left.nonzero().reshape(-1)
    while places.numel() > 0:
        found, taken = _tried(k[places], r[places])
        angle[places[taken]] = found[taken]
        places = places[~taken]
    return angle


def _drawn_by_all(k: Any, r: Any, left: Any, angle: Any) -> Any:
    """The same for calls of vmap, of which each would have other places left: all try on."""
    while not holds(~left):
        found, taken = _tried(k, r)
        angle = facula.where(left & taken, found, angle)
        left = left & ~taken
    return angle
