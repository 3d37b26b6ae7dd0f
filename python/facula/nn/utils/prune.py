"""Pruning: weights set to zero by a mask that stays with the module.

A pruned `weight` is computed before each forward from `weight_orig`, which is trained, and the
buffer `weight_mask`. Sources: LeCun et al. 1990 (by magnitude), Li et al. 2017 (whole channels).
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import facula
from facula.nn.modules.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod(ABC):
    """A way to choose what is pruned: a subclass has `PRUNING_TYPE` and `compute_mask`.

    Its object becomes a hook before forward. PRUNING_TYPE says of a later method what is left to
    it: "unstructured" the elements that are not zero, "structured" the channels that are not all
    zero, "global" everything.
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask for `t`, ones where it stays, on top of `default_mask`."""

    def apply_mask(self, module: Module) -> Any:
        """The original times the mask."""
        original = getattr(module, self._tensor_name + "_orig")
        mask = getattr(module, self._tensor_name + "_mask")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune `module.name` by this method, after those that have pruned it before.

        Args:
            importance_scores: tensor of its shape by which to choose, in place of its values.
        """
        old = [(k, h) for k, h in module._forward_pre_hooks.items() if _prunes(h, name)]
        if len(old) > 1:
            raise AssertionError(f"{len(old)} pruning hooks on {name!r}, expected one at most")
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        if old:
            key, hook = old[0]
            del module._forward_pre_hooks[key]
            container = hook if isinstance(hook, PruningContainer) else PruningContainer(hook)
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise ValueError(
                f"importance_scores should have the same shape as parameter {name} of "
                f"{type(module).__name__}: {tuple(original.shape)}, not "
                f"{tuple(importance_scores.shape)}"
            )
        fresh = not old
        if fresh:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            default_mask = facula.ones_like(original.detach())
        else:
            default_mask = getattr(module, name + "_mask").detach().clone()
        try:
            with facula.no_grad():
                mask = method.compute_mask(importance_scores.detach(), default_mask=default_mask)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if fresh:  # as it was
                module.__dict__.pop(name, None)
                module.register_parameter(name, original)
                del module._parameters[name + "_orig"]
            else:
                module.register_forward_pre_hook(hook)
            raise
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """`t` pruned, without a module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise ValueError("importance_scores should have the same shape as tensor t")
        mask = facula.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Let the pruned values be the parameter itself."""
        name = self._tensor_name
        if not any(_prunes(hook, name) for hook in module._forward_pre_hooks.values()):
            raise AssertionError(
                f"Module {type(module).__name__} has to be pruned before pruning can be removed"
            )
        with facula.no_grad():
            weight = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.detach()
        del module._buffers[name + "_mask"]
        module.register_parameter(name, original)


def _prunes(hook: Any, name: str) -> bool:
    return isinstance(hook, BasePruningMethod) and hook._tensor_name == name


class PruningContainer(BasePruningMethod):
    """Several methods in the order in which they were applied to one tensor."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        methods = tuple(args[0]) if len(args) == 1 and isinstance(args[0], Iterable) else args
        for i, method in enumerate(methods):
            if i == 0 and isinstance(method, BasePruningMethod):
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add one, which must be of the same tensor."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The last method's mask of what the others have left."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        kind = method.PRUNING_TYPE
        if kind == "unstructured":
            left: Any = mask == 1
        elif kind == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    "Pruning methods of PRUNING_TYPE 'structured' need to have the attribute `dim`"
                )
            dim = method.dim % t.dim()
            keep = mask.sum([d for d in range(t.dim()) if d != dim]) != 0 if t.dim() > 1 else mask
            index = keep.nonzero().reshape(-1)
            left = tuple([slice(None)] * dim + [index])
        elif kind == "global":
            left = tuple([slice(None)] * t.dim())
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
        new = method.compute_mask(t[left], default_mask=mask[left])
        mask = mask.clone()
        mask[left] = new.to(dtype=mask.dtype)
        return mask


def _check_amount(amount: Any) -> None:
    if isinstance(amount, bool) or not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    fits = amount >= 0 if isinstance(amount, numbers.Integral) else 0.0 <= float(amount) <= 1.0
    if not fits:
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _count(amount: Any, size: int) -> int:
    """How many of `size` an amount is: itself, or that fraction rounded half to even."""
    if isinstance(amount, numbers.Integral):
        if amount > size:
            raise ValueError(
                f"amount={amount} should be smaller than the number of parameters to prune={size}"
            )
        return int(amount)
    return round(float(amount) * size)


def _check_structured(t: Any) -> None:
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {tuple(t.shape)} with {t.dim()} dims"
        )


def _check_dim(dim: int, t: Any) -> None:
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {tuple(t.shape)}")


def _without(mask: Any, flat: Any) -> Any:
    """A copy of the mask with zeros at places of its flattened form."""
    new = mask.clone(memory_format=facula.contiguous_format)
    if flat.numel():
        new.reshape(-1)[flat] = 0
    return new


class Identity(BasePruningMethod):
    """Prunes nothing, but lets the module have the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Any:  # type: ignore[override]
        return super().apply(module, name)


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random: `amount` of them, or that fraction in [0, 1]."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        count = _count(self.amount, t.numel())
        chosen = facula.rand(t.numel(), device=t.device).topk(count).indices
        return _without(default_mask, chosen)

    @classmethod
    def apply(cls, module: Module, name: str, amount: Any) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount)


class L1Unstructured(BasePruningMethod):
    """Prunes the elements of least magnitude."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        count = _count(self.amount, t.numel())
        chosen = t.abs().reshape(-1).topk(count, largest=False).indices
        return _without(default_mask, chosen)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any, importance_scores: Any = None
    ) -> Any:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Prunes whole channels along `dim` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        _check_structured(t)
        _check_dim(self.dim, t)
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        chosen = facula.rand(size, device=t.device).topk(count).indices
        return _without_channels(default_mask, self.dim, chosen)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any, dim: int = -1
    ) -> Any:
        return super().apply(module, name, amount=amount, dim=dim)


def _without_channels(mask: Any, dim: int, chosen: Any) -> Any:
    new = mask.clone()
    if chosen.numel():
        new[tuple([slice(None)] * (dim % mask.dim()) + [chosen])] = 0
    return new


class LnStructured(BasePruningMethod):
    """Prunes the channels along `dim` of least n-norm; n as in `facula.linalg.vector_norm`."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        _check_structured(t)
        _check_dim(self.dim, t)
        count = _count(self.amount, t.shape[self.dim])
        rest = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        order = 2 if self.n == "fro" else self.n
        norms = facula.linalg.vector_norm(t, float(order), rest)
        chosen = norms.topk(count, largest=False).indices
        return _without_channels(default_mask, self.dim, chosen)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
    ) -> Any:
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        if default_mask.shape != self.mask.shape:
            raise ValueError(
                f"the mask is {tuple(self.mask.shape)}, the tensor {tuple(default_mask.shape)}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype, device=default_mask.device)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Any) -> Any:  # type: ignore[override]
        return super().apply(module, name, mask=mask)


def identity(module: Module, name: str) -> Module:
    """Give `module.name` a mask of ones: `name`_orig and `name`_mask."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prune elements at random: `amount` as an int is how many, as a float which fraction."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: Any, importance_scores: Any = None
) -> Module:
    """Prune the elements of least magnitude, or of least score."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prune channels along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
) -> Module:
    """Prune the channels along `dim` of least n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Any] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several tensors as if they were one vector.

    Args:
        parameters: (module, name) pairs.
        pruning_method: of PRUNING_TYPE "unstructured"; `kwargs` are for it, such as `amount`.
        importance_scores: tensors by pair, in place of the values.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    if not pairs:
        raise ValueError("global_unstructured(): parameters is empty")
    values = [getattr(module, name).detach() for module, name in pairs]
    relevant = facula.cat(
        [scores.get(p, v).detach().reshape(-1) for p, v in zip(pairs, values, strict=True)]
    )
    default = facula.cat(
        [
            getattr(module, name + "_mask", facula.ones_like(value)).reshape(-1)
            for (module, name), value in zip(pairs, values, strict=True)
        ]
    )
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container = PruningContainer()
    container._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    final = container.compute_mask(relevant, default)
    start = 0
    for (module, name), value in zip(pairs, values, strict=True):
        stop = start + value.numel()
        custom_from_mask(module, name, final[start:stop].reshape(value.shape))
        start = stop


def custom_from_mask(module: Module, name: str, mask: Any) -> Module:
    """Prune by a mask of ones and zeros of the tensor's shape."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make pruning of `module.name` final: a plain parameter again, with its zeros."""
    for key, hook in module._forward_pre_hooks.items():
        if _prunes(hook, name):
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Is any tensor of the module, or below it, pruned?"""
    return any(
        isinstance(hook, BasePruningMethod)
        for inner in module.modules()
        for hook in inner._forward_pre_hooks.values()
    )
