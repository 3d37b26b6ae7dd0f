"""Normal vectors, with a covariance, a precision, a Cholesky factor, or of low rank."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions.distribution import Distribution, broadcast_shape
from facula.distributions.utils import lazy_property, standard_normal

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]


def batch_mv(matrix: Any, vector: Any) -> Any:
    """Matrices times vectors, both with batches."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def half_log_det(tril: Any) -> Any:
    """log of the product of the diagonal of triangular matrices."""
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def solve_lower(tril: Any, right: Any) -> Any:
    """L^-1 B, of lower triangular L."""
    return facula.linalg.solve_triangular(tril, right, upper=False)


def squared_length(tril: Any, vector: Any) -> Any:
    """x^T (L L^T)^-1 x, the squared distance of Mahalanobis."""
    return (solve_lower(tril, vector.unsqueeze(-1)).squeeze(-1) ** 2).sum(-1)


def inverse_of(tril: Any) -> Any:
    """(L L^T)^-1."""
    eye = facula.eye(tril.shape[-1], dtype=tril.dtype, device=tril.device)
    inverse = solve_lower(tril, eye.expand(tril.shape))
    return inverse.mT @ inverse


def tril_of_precision(precision: Any) -> Any:
    """The lower factor L of the inverse of P = L^-T L^-1.

    P read backwards has a factor M, whose entries read backwards are L^-T; so L needs no inverse.
    """
    backwards = facula.linalg.cholesky(precision.flip((-2, -1)))
    upper = backwards.flip((-2, -1)).mT
    eye = facula.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return solve_lower(upper, eye.expand(precision.shape))


def one_of(**given: Any) -> tuple[str, Any]:
    """Name and value of the one argument that is not None."""
    named = [(name, value) for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise ValueError(
            f"Exactly one of {' or '.join(given)} may be specified, not"
            f" {' and '.join(name for name, _ in named) or 'none'}."
        )
    name, value = named[0]
    if value.dim() < 2:
        raise ValueError(
            f"{name} must be at least two-dimensional, with optional leading batch dimensions; its"
            f" shape is {tuple(value.shape)}"
        )
    return name, value


class MultivariateNormal(Distribution):
    """Normal vectors of mean `loc` (..., n) and covariance (..., n, n).

    Of `covariance_matrix`, `precision_matrix` (its inverse) and `scale_tril` (its lower Cholesky
    factor) one is given. All computation is with the factor, so that is the cheapest.
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _fields = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")
    _kept_fields = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = one_of(
            covariance_matrix=covariance_matrix,
            scale_tril=scale_tril,
            precision_matrix=precision_matrix,
        )
        batch = broadcast_shape(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(tuple(batch) + tuple(matrix.shape[-2:])))
        self.loc = loc.expand(tuple(batch) + tuple(loc.shape[-1:]))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = facula.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = tril_of_precision(matrix)

    def _matrices(self, matrix: Any) -> Any:
        return matrix.expand(tuple(self._batch_shape) + tuple(self._event_shape) * 2)

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

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        variance = (self._unbroadcasted_scale_tril**2).sum(-1)
        return variance.expand(tuple(self._batch_shape) + tuple(self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        tril = self._unbroadcasted_scale_tril
        square = squared_length(tril, value - self.loc)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + square) - half_log_det(tril)

    def entropy(self) -> Any:
        n = self._event_shape[0]
        entropy = 0.5 * n * (1 + math.log(2 * math.pi)) + half_log_det(
            self._unbroadcasted_scale_tril
        )
        return entropy.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of covariance W W^T + diag(d), W `cov_factor` (..., n, r), d `cov_diag`.

    Nothing larger than W is factored: the determinant lemma and Woodbury's identity give both
    determinant and inverse from the matrix I + W^T diag(d)^-1 W of r rows.
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _fields = (
        "loc",
        "cov_factor",
        "cov_diag",
        "scale_tril",
        "covariance_matrix",
        "precision_matrix",
    )
    _kept_fields = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch"
                f" dimensions; its shape is {tuple(cov_factor.shape)}"
            )
        if tuple(cov_factor.shape[-2:-1]) != tuple(event_shape):
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m, not"
                f" {tuple(cov_factor.shape)}"
            )
        if tuple(cov_diag.shape[-1:]) != tuple(event_shape):
            raise ValueError(
                f"cov_diag must be a batch of vectors with shape {tuple(event_shape)}, not"
                f" {tuple(cov_diag.shape)}"
            )
        try:
            batch = broadcast_shape(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {tuple(loc.shape)}, cov_factor"
                f" {tuple(cov_factor.shape)}, cov_diag {tuple(cov_diag.shape)}"
            ) from error
        self.loc = loc.expand(tuple(batch) + tuple(event_shape))
        self.cov_factor = cov_factor.expand(tuple(batch) + tuple(cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand(tuple(batch) + tuple(event_shape))
        super().__init__(batch, event_shape, validate_args=validate_args)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        scaled = cov_factor.mT / cov_diag.unsqueeze(-2)
        eye = facula.eye(cov_factor.shape[-1], dtype=loc.dtype, device=loc.device)
        self._capacitance_tril = facula.linalg.cholesky(scaled @ cov_factor + eye)

    def _matrices(self, matrix: Any) -> Any:
        return matrix.expand(tuple(self._batch_shape) + tuple(self._event_shape) * 2)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        variance = (self._unbroadcasted_cov_factor**2).sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(tuple(self._batch_shape) + tuple(self._event_shape))

    @lazy_property
    def scale_tril(self) -> Any:
        # sqrt(D) times the factor of I + D^-1/2 W W^T D^-1/2
        root = self._unbroadcasted_cov_diag.sqrt()
        factor = self._unbroadcasted_cov_factor / root.unsqueeze(-1)
        inner = factor @ factor.mT
        inner = inner + facula.eye(inner.shape[-1], dtype=inner.dtype, device=inner.device)
        return self._matrices(root.unsqueeze(-1) * facula.linalg.cholesky(inner))

    @lazy_property
    def covariance_matrix(self) -> Any:
        factor = self._unbroadcasted_cov_factor
        return self._matrices(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Any:
        diag = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / diag.unsqueeze(-2)
        inner = solve_lower(self._capacitance_tril, scaled)
        return self._matrices(diag.reciprocal().diag_embed() - inner.mT @ inner)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        rank = self.cov_factor.shape[-1]
        low = standard_normal((*tuple(shape[:-1]), rank), self.loc)
        noise = standard_normal(shape, self.loc)
        spread = batch_mv(self._unbroadcasted_cov_factor, low)
        return self.loc + spread + self._unbroadcasted_cov_diag.sqrt() * noise

    def _log_det(self) -> Any:
        return 2 * half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        diff = value - self.loc
        square = low_rank_length(
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            diff,
            self._capacitance_tril,
        )
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + self._log_det() + square)

    def entropy(self) -> Any:
        n = self._event_shape[0]
        entropy = 0.5 * (n * (1 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(self._batch_shape)


def low_rank_length(factor: Any, diag: Any, vector: Any, capacitance_tril: Any) -> Any:
    """x^T (W W^T + D)^-1 x, by Woodbury's identity."""
    own = (vector**2 / diag).sum(-1)
    inner = batch_mv(factor.mT / diag.unsqueeze(-2), vector)
    return own - squared_length(capacitance_tril, inner)
