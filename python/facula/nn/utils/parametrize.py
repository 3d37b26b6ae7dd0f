"""Parametrizations: a parameter that is computed, whenever it is read, from other ones.

`register_parametrization(module, "weight", f)` lets `module.weight` be f(original), where
`module.parametrizations.weight.original` is what is trained.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

import facula
from facula.nn.modules.container import ModuleDict, ModuleList
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache_depth = 0
_cache: dict[tuple[int, str], Any] = {}


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Within this context a parametrized tensor is computed when it is first read, and kept."""
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if not _cache_depth:
            _cache.clear()


def _register(module: Module, name: str, tensor: Any) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _put(place: Any, tensor: Any) -> None:
    """Let `place`, which optimizers may hold, have the memory of `tensor`."""
    place.data = tensor.detach() if tensor is not place else tensor.data


def _same_kind(what: str, new: Any, old: Any) -> None:
    if not isinstance(new, facula.Tensor):
        raise ValueError(f"A parametrization must return a Tensor; {what} is {type(new).__name__}")
    if new.dtype != old.dtype:
        raise ValueError(
            f"Registering a parametrization may not change the dtype of the tensor unless "
            f"unsafe=True is given: it is {old.dtype}, {what} is {new.dtype}"
        )
    if new.shape != old.shape:
        raise ValueError(
            f"Registering a parametrization may not change the shape of the tensor unless "
            f"unsafe=True is given: it is {tuple(old.shape)}, {what} is {tuple(new.shape)}"
        )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied one after the other, and its originals.

    Attributes:
        original: what the first one is given; `original0`, `original1`, ... if its `right_inverse`
            returns several tensors.
        unsafe: whether it was registered without the checks of dtype and shape.
    """

    original: Any
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new: Any = original
        with facula.no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        new = module.right_inverse(new)
        several = isinstance(new, Sequence) and not isinstance(new, str)
        if not isinstance(new, facula.Tensor) and not several:
            raise ValueError(
                "'right_inverse' must return a Tensor or a sequence of tensors, not "
                f"{type(new).__name__}"
            )
        self.is_tensor = isinstance(new, facula.Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if new.dtype != original.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype: the "
                    f"tensor is {original.dtype}, right_inverse gave {new.dtype}"
                )
            _put(original, new)
            _register(self, "original", original)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, facula.Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a sequence of tensors; its "
                        f"element {i} is {type(part).__name__}"
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad and part.is_floating_point())
                _register(self, f"original{i}", part)
        if not unsafe:
            _same_kind("the result", self(), original)

    def _parts(self) -> list[Any]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the parametrized tensor becomes `value`.

        Raises:
            RuntimeError: a parametrization has no `right_inverse`.
            ValueError: it returned other tensors than the originals are.
        """
        with facula.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            values = [value] if self.is_tensor else list(value)
            if len(values) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of {self.ntensors} tensors, got "
                    f"{len(values)}"
                )
            for own, new in zip(self._parts(), values, strict=True):
                if not isinstance(new, facula.Tensor):
                    raise ValueError(
                        f"`right_inverse` should return a tensor. Got {type(new).__name__}"
                    )
                if new.dtype != own.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {new.dtype}, the "
                        f"original is {own.dtype}"
                    )
                _put(own, new)

    def forward(self) -> Any:
        first, *rest = list(self)
        result = first(*self._parts())
        for module in rest:
            result = module(result)
        return result


def _refuse_pickling(self: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See: "
        "remove_parametrizations(), and state_dict() with load_state_dict() on a module that is "
        "parametrized in the same way"
    )


def _deepcopy(self: Module, memo: dict[int, Any]) -> Module:
    # With a class of its own: its properties go when its own parametrizations are removed.
    base = type_before_parametrizations(self)
    replica = base.__new__(base)
    memo[id(self)] = replica
    replica.__dict__.update(copy.deepcopy(self.__dict__, memo))
    _inject_class(replica)
    for name in replica.parametrizations:
        _inject_property(replica, name)
    return replica


def _inject_class(module: Module) -> None:
    base = type(module)
    space = {
        "__getstate__": _refuse_pickling,
        "__doc__": base.__doc__,
        "__module__": base.__module__,
    }
    if "__deepcopy__" not in dir(base):
        space["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), space)


def _inject_property(module: Module, name: str) -> None:
    def get(self: Module) -> Any:
        parametrization = self.parametrizations[name]
        if not _cache_depth:
            return parametrization()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    def put(self: Module, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)
        _cache.pop((id(self), name), None)

    setattr(type(module), name, property(get, put))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let `module.tensor_name` be what `parametrization` makes of the tensor that is there now.

    A second one is applied to the result of the first. Assigning to the attribute calls
    `right_inverse` of the parametrizations, in reverse order; where they have it, the first value
    is the present one.

    Args:
        module: has the parameter or buffer.
        tensor_name: its name.
        parametrization: Module from a tensor to one of the same dtype and shape. Its method
            `right_inverse(tensor)`, if any, gives one tensor or several, which `forward` is given.
        unsafe: dtype and shape may change; nothing is checked.

    Raises:
        ValueError: there is no such tensor, or dtype or shape would change.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            with facula.no_grad():
                now = getattr(module, tensor_name)
                _same_kind("the result", parametrization(now), now)
                if hasattr(parametrization, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        _same_kind("right_inverse's", parametrization.right_inverse(now), now)
        chain = module.parametrizations[tensor_name]
        chain.append(parametrization)
        chain.unsafe = chain.unsafe or unsafe
        return module
    if tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        if original is None:
            raise ValueError(f"'{tensor_name}' of {type(module).__name__} is None")
        chain = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = chain
        return module
    raise ValueError(
        f"Module '{type(module).__name__}' does not have a parameter, a buffer, or a parametrized "
        f"element with name '{tensor_name}'"
    )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Has the module parametrizations; with a name, has this tensor any?"""
    kept = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(kept, ModuleDict):
        return False
    return len(kept) > 0 if tensor_name is None else tensor_name in kept


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Let `module.tensor_name` be a parameter or buffer again.

    Args:
        module: is changed, and returned.
        tensor_name: a parametrized tensor of it.
        leave_parametrized: it keeps the computed value; else the original, which must be one.

    A parameter that is computed from one tensor stays the same object, so that optimizers follow.

    Raises:
        ValueError: the tensor is not parametrized; or it has several originals and
            `leave_parametrized` is False.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"{type(module).__name__} does not have a parametrization on {tensor_name}"
        )
    chain = module.parametrizations[tensor_name]
    if chain.is_tensor:
        original = chain.original
        if leave_parametrized:
            with facula.no_grad():
                _put(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before it was parametrized; its class if it is not."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give `to_module` the parametrizations of `from_module` and copies of what they are made from.

    Args:
        tensor_name: of this tensor alone; else of all, and all other parameters are set too.
    """
    if not is_parametrized(from_module):
        return to_module
    if tensor_name is not None and not is_parametrized(from_module, tensor_name):
        raise ValueError(
            f"{type(from_module).__name__} does not have a parametrization on {tensor_name}"
        )
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        if not hasattr(to_module, name):
            computed = getattr(from_module, name)
            _register(to_module, name, Parameter(computed.detach().clone()))
        for parametrization in from_module.parametrizations[name]:
            register_parametrization(
                to_module, name, parametrization, unsafe=from_module.parametrizations[name].unsafe
            )
        own, theirs = to_module.parametrizations[name], from_module.parametrizations[name]
        for mine, other in zip(own._parts(), theirs._parts(), strict=True):
            _put(mine, other.detach().clone())
    if tensor_name is None:
        for name, parameter in from_module.named_parameters(recurse=False):
            _register(to_module, name, Parameter(parameter.detach().clone()))
    return to_module
