"""Distributions of matrices: Wishart, and the Cholesky factors of LKJ correlation matrices."""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions._draws import standard_gamma
from facula.distributions.dirichlet import Beta
from facula.distributions.distribution import Distribution, broadcast_shape
from facula.distributions.exp_family import ExponentialFamily
from facula.distributions.multivariate_normal import (
    half_log_det,
    inverse_of,
    one_of,
    solve_lower,
    tril_of_precision,
)
from facula.distributions.utils import holds, lazy_property, mvlgamma, standard_normal

__all__ = ["LKJCholesky", "Wishart"]


class Wishart(ExponentialFamily):
    """Positive definite matrices: the sum of `df` x x^T of normal x of covariance V (p x p).

    Of `covariance_matrix` (V), `precision_matrix` and `scale_tril` one is given. `df`, which need
    not be whole, is above p - 1. Draws are by Bartlett's decomposition (Anderson 2003, 7.2).
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _fields = ("df", "covariance_matrix", "precision_matrix", "scale_tril")
    _kept_fields = ("_unbroadcasted_scale_tril",)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = one_of(
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        df = facula.as_tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch = broadcast_shape(matrix.shape[:-2], df.shape)
        event_shape = matrix.shape[-2:]
        self.df = df.expand(tuple(batch))
        setattr(self, name, matrix.expand(tuple(batch) + tuple(event_shape)))
        if not holds(df > event_shape[-1] - 1):
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}."
            )
        super().__init__(batch, event_shape, validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = facula.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = tril_of_precision(matrix)

    def _matrices(self, matrix: Any) -> Any:
        return matrix.expand(tuple(self._batch_shape) + tuple(self._event_shape))

    @lazy_property
    def scale_tril(self) -> Any:
        return self._matrices(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        tril = self._unbroadcasted_scale_tril
        return self._matrices(tril @ tril.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        return self._matrices(inverse_of(self._unbroadcasted_scale_tril))

    def _df(self) -> Any:
        return self.df.reshape((*tuple(self._batch_shape), 1, 1))

    @property
    def mean(self) -> Any:
        return self._df() * self.covariance_matrix

    @property
    def mode(self) -> Any:
        """NaN where df < p + 1."""
        factor = self._df() - self._event_shape[-1] - 1
        return facula.where(factor > 0, factor, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        covariance = self.covariance_matrix
        diag = covariance.diagonal(dim1=-2, dim2=-1)
        return self._df() * (covariance**2 + diag.unsqueeze(-1) * diag.unsqueeze(-2))

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Any:
        """Draws; those that rounding has made singular are drawn again, `max_try_correction` times.

        By default 3 times for matrices of more than 3 rows, 10 times else.
        """
        p = self._event_shape[-1]
        tries = (3 if p > 3 else 10) if max_try_correction is None else max_try_correction
        value = self._bartlett(facula.Size(sample_shape))
        bad = ~self.support.check(value.detach())
        while tries > 0 and not holds(~bad):
            again = self._bartlett(facula.Size(sample_shape))
            value = facula.where(bad[..., None, None], again, value)
            bad = ~self.support.check(value.detach())
            tries -= 1
        if not holds(~bad):
            warnings.warn("Singular sample detected.", stacklevel=2)
        return value

    def _bartlett(self, sample_shape: Any) -> Any:
        p = self._event_shape[-1]
        shape = self._extended_shape(sample_shape)
        rows = facula.arange(p, dtype=self.df.dtype, device=self.df.device)
        half = ((self.df.unsqueeze(-1) - rows) / 2).expand(shape[:-1])
        diag = (2 * standard_gamma(half)).clamp(min=facula.finfo(half.dtype).tiny).sqrt()
        noise = standard_normal(shape, self.df).tril(-1) + diag.diag_embed()
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        p, tril = self._event_shape[-1], self._unbroadcasted_scale_tril
        value_tril = facula.linalg.cholesky(value)
        trace = (solve_lower(tril, value_tril) ** 2).sum((-2, -1))  # of V^-1 value
        constant = self.df * (p * math.log(2) / 2 + half_log_det(tril)) + mvlgamma(self.df / 2, p)
        return (self.df - p - 1) * half_log_det(value_tril) - trace / 2 - constant

    def entropy(self) -> Any:
        p, tril = self._event_shape[-1], self._unbroadcasted_scale_tril
        rows = facula.arange(p, dtype=self.df.dtype, device=self.df.device)
        slopes = (((self.df.unsqueeze(-1) - rows) / 2).digamma()).sum(-1)
        return (
            (p + 1) * (half_log_det(tril) + p * math.log(2) / 2)
            + mvlgamma(self.df / 2, p)
            - (self.df - p - 1) / 2 * slopes
            + self.df * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        p = self._event_shape[-1]
        return -self.precision_matrix / 2, (self.df - p - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        p = self._event_shape[-1]
        y = y + (p + 1) / 2
        return y * (p * math.log(2) - 2 * half_log_det(facula.linalg.cholesky(-2 * x))) + mvlgamma(
            y, p
        )


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices R (dim x dim): density det(R)^(concentration - 1).

    1 makes all correlation matrices alike, more prefers those near the identity (Lewandowski,
    Kurowicka & Joe 2009). Draws are by the onion method, row by row.
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _fields = ("concentration",)
    _kept_fields = ("dim",)

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if not isinstance(dim, int) or dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        if not facula.is_tensor(concentration):
            concentration = facula.tensor(float(concentration))
        self.concentration = concentration
        super().__init__(concentration.shape, (dim, dim), validate_args=validate_args)

    def sample(self, sample_shape: Any = ()) -> Any:
        with facula.no_grad():
            # Row i (from 1) is a point in a ball of i dimensions: a direction and a squared radius.
            like = self.concentration
            rows = facula.arange(self.dim - 1, dtype=like.dtype, device=like.device)
            marginal = (like + 0.5 * (self.dim - 2)).unsqueeze(-1)
            radius = Beta(rows / 2 + 0.5, marginal - rows / 2, validate_args=False)
            square = radius.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            noise = standard_normal((*tuple(shape[:-2]), self.dim - 1, self.dim), like).tril()
            direction = noise / (noise**2).sum(-1, True).sqrt()
            below = square.sqrt() * direction
            first = facula.zeros(
                (*tuple(shape[:-2]), 1, self.dim), dtype=like.dtype, device=like.device
            )
            below = facula.cat([first, below], -2)
            least = facula.finfo(like.dtype).tiny
            diag = (1 - (below**2).sum(-1)).clamp(min=least).sqrt()
            return below + diag.diag_embed()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        like = self.concentration
        diag = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        order = facula.arange(2, self.dim + 1, dtype=like.dtype, device=like.device)
        powers = 2 * (like - 1).unsqueeze(-1) + self.dim - order
        # The constant of Lewandowski et al., equation 16, in multivariate gamma functions.
        less = self.dim - 1
        alpha = like + 0.5 * less
        constant = 0.5 * less * math.log(math.pi) + mvlgamma(alpha - 0.5, less)
        return (powers * diag.log()).sum(-1) - (constant - less * alpha.lgamma())
