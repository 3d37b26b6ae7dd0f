"""Ready parametrizations of weights: orthogonal, of given norms, of spectral norm 1."""

from __future__ import annotations

from typing import Any

import facula
from facula.nn import functional as F
from facula.nn.modules.module import Module
from facula.nn.utils import parametrize
from facula.nn.utils._norms import as_matrix, norm_except, power_iteration, spectral_scaled
from facula.nn.utils._orthogonal import OrthogonalMap
from facula.nn.utils.spectral_norm import default_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _tensor_of(module: Module, name: str) -> Any:
    weight = getattr(module, name, None)
    if not isinstance(weight, facula.Tensor):
        raise ValueError(
            f"Module '{type(module).__name__}' has no parameter or buffer with name '{name}'"
        )
    return weight


class _Orthogonal(Module):
    """x to an orthogonal matrix; `base`, with trivialization, is where x = 0 leads."""

    base: Any

    def __init__(self, weight: Any, orthogonal_map: str, *, use_trivialization: bool = True):
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = tuple(weight.shape)
        self.orthogonal_map = orthogonal_map
        self._map = OrthogonalMap(self.shape, orthogonal_map)
        if use_trivialization:
            self.register_buffer("base", None)
        self._trivial = use_trivialization

    def forward(self, X: Any) -> Any:
        return self._map.forward(X, self.base if self._trivial else None)

    def right_inverse(self, Q: Any) -> Any:
        if tuple(Q.shape) != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {tuple(Q.shape)}."
            )
        with facula.no_grad():
            if not self._trivial:
                return self._map.inverse(Q)
            self.base, x = self._map.base_for(Q)
            return x


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix (*, m, n), or each of a batch, orthogonal: Q^H Q = 1, of wide ones Q Q^H = 1.

    Args:
        orthogonal_map: "matrix_exp" (exp of a skew matrix; by default for square and complex
            matrices), "householder" (a product of reflections; by default for others) or "cayley"
            ((1 + A/2)(1 - A/2)^-1, which needs `facula.linalg.solve`).
        use_trivialization: start from a base, which assigning a matrix sets. Without it
            "matrix_exp" and "cayley" cannot be assigned to.

    Source: Lezcano-Casado, Trivializations for gradient-based optimization on manifolds, 2019.

    Raises:
        ValueError: no such tensor, fewer than two dims, or another map.
        NotImplementedError: "cayley" while there is no `facula.linalg.solve`.
    """
    weight = _tensor_of(module, name)
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    if orthogonal_map == "cayley" and not hasattr(facula.linalg, "solve"):
        made._map.forward(facula.zeros(made.shape), None)  # says what is missing
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Let `module.name` be g v / |v| (Salimans & Kingma 2016).

    g is `module.parametrizations.NAME.original0`, v is `original1`. State dicts of the older
    `nn.utils.weight_norm`, with NAME_g and NAME_v, can be loaded.

    Args:
        dim: the norm is of each slice along it; None for one norm of all.
    """
    made = _WeightNorm(dim)
    parametrize.register_parametrization(module, name, made, unsafe=True)

    def take_old(
        own: Module, state: Any, prefix: str, local: Any, strict: bool, *reports: Any
    ) -> None:
        old = (f"{prefix}{name}_g", f"{prefix}{name}_v")
        if all(key in state for key in old):
            for i, key in enumerate(old):
                state[f"{prefix}parametrizations.{name}.original{i}"] = state.pop(key)

    module.register_load_state_dict_pre_hook(take_old)
    return module


class _SpectralNorm(Module):
    """Buffers `_u` and `_v` follow the first singular vectors by power iteration, in training."""

    def __init__(
        self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.dim() <= dim < weight.dim():
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{weight.dim()}, {weight.dim() - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % weight.dim()
        self.eps, self.n_power_iterations = eps, n_power_iterations
        if weight.dim() > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            n, m = matrix.shape
            u, v = matrix.new_empty(n).normal_(0, 1), matrix.new_empty(m).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            power_iteration(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Any) -> Any:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            power_iteration(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        return spectral_scaled(weight, matrix, self._u, self._v)

    def right_inverse(self, value: Any) -> Any:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Let `module.name` be the weight over its largest singular value (Miyato et al. 2018).

    Args:
        n_power_iterations: steps towards the singular vectors each time it is read in training.
        dim: the one of the outputs; 0 by default, 1 for transposed convolutions.
    """
    weight = _tensor_of(module, name)
    made = _SpectralNorm(
        weight, n_power_iterations, default_dim(module) if dim is None else dim, eps
    )
    return parametrize.register_parametrization(module, name, made)
