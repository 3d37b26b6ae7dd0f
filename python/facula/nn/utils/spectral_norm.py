"""Spectral normalisation (Miyato et al. 2018) by a hook: w / sigma(w), computed before forward.

`facula.nn.utils.parametrizations.spectral_norm` is the same as a parametrization.
"""

from __future__ import annotations

from typing import Any

import facula
from facula.nn import functional as F
from facula.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter
from facula.nn.utils._norms import as_matrix, power_iteration, spectral_scaled

__all__ = ["SpectralNorm", "default_dim", "remove_spectral_norm", "spectral_norm"]


def default_dim(module: Module) -> int:
    """The dim of the outputs in the module's weight."""
    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)))


class SpectralNorm:
    """The hook: `name`_orig is trained, `name`_u and `name`_v follow its singular vectors."""

    _version = 1

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.eps = name, dim, eps
        self.n_power_iterations = n_power_iterations

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Any:
        """The weight over its spectral norm, after steps towards that if asked."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            power_iteration(matrix, u, v, self.n_power_iterations, self.eps)
        return spectral_scaled(weight, matrix, u, v)

    def remove(self, module: Module) -> None:
        """Let the weight be a parameter again, of its present value."""
        with facula.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for end in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Put the original and its vectors in the place of the parameter, and the hook."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters.get(name)
        if weight is None:
            raise ValueError(
                f"`SpectralNorm` cannot be applied as parameter `{name}` is None or missing"
            )
        with facula.no_grad():
            n, m = as_matrix(weight, dim).shape
            u = F.normalize(weight.new_empty(n).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(m).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # A plain attribute, of which the optimizer sees nothing.
        setattr(module, name, weight.detach())
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(fn)
        module._state_dict_hooks[id(fn)] = _version_hook(fn)
        return fn


def _version_hook(fn: SpectralNorm) -> Any:
    def note(module: Module, state: Any, prefix: str, local: dict[str, Any]) -> None:
        local.setdefault("spectral_norm", {})[fn.name + ".version"] = fn._version

    note.spectral_norm = fn  # type: ignore[attr-defined]
    return note


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Let `module.name` be the weight over its largest singular value.

    That is estimated by power iteration, `n_power_iterations` steps at each call in training.

    Args:
        dim: the one of the outputs; 0 by default, 1 for transposed convolutions.
    """
    SpectralNorm.apply(
        module, name, n_power_iterations, default_dim(module) if dim is None else dim, eps
    )
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo `spectral_norm`; the weight keeps its normalised value."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            module._state_dict_hooks.pop(id(hook), None)
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {type(module).__name__}")
