"""Weight normalisation (Salimans & Kingma 2016) by a hook: w = g v / |v|, computed before forward.

`facula.nn.utils.parametrizations.weight_norm` is the same as a parametrization.
"""

from __future__ import annotations

from typing import Any

from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter
from facula.nn.utils._norms import norm_except

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook; `name` is the weight's, `dim` the one that keeps a norm of each slice."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """g v / |v| of the module's parameters."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except(v, self.dim))

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Put `name`_g and `name`_v in the place of the parameter, and the hook."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two weight_norm hooks on the same parameter {name}"
                )
        fn = WeightNorm(name, dim)
        weight = module._parameters.get(name)
        if weight is None:
            raise ValueError(f"{type(module).__name__} has no parameter {name!r} to normalise")
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except(weight.detach(), fn.dim)))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Module) -> None:
        """Let the weight be a parameter again, of its present value."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Let `module.name` be g v / |v| with parameters `name`_g and `name`_v.

    Args:
        dim: the norm is of each slice along it; None for one norm of all.

    Raises:
        RuntimeError: it is normalised already. ValueError: there is no such parameter.
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo `weight_norm`; the weight keeps its value."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {type(module).__name__}")
