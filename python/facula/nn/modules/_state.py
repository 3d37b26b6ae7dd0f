"""`state_dict` and `load_state_dict`: read all of a module's tensors, or write all or none."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import facula
from facula.nn._lazy import is_lazy
from facula.nn.modules._assign import assign_tensors
from facula.nn.modules._near import hints
from facula.utils.hooks import RemovableHandle

__all__ = ["LoadReport", "Mismatch", "StateDictMixin"]

_EXTRA_STATE = "_extra_state"


class Mismatch(NamedTuple):
    """One tensor whose stored `found` (shape or dtype) is not the module's `expected`."""

    key: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.key}: the file has {self.found}, the module {self.expected}"


class _Keys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


class LoadReport(_Keys):
    """What `load_state_dict` found; unpacks as (missing_keys, unexpected_keys).

    Attributes:
        missing_keys: names the module has and the state dict has not.
        unexpected_keys: names the state dict has and the module has not.
        shape_mismatches: tensors of another shape, left as they were.
        dtype_mismatches: tensors of another dtype; they were converted if the kind (floating,
            complex, integral) is the same, else left as they were and counted as an error.
    """

    shape_mismatches: list[Mismatch]
    dtype_mismatches: list[Mismatch]

    def __new__(cls, missing_keys: list[str], unexpected_keys: list[str]) -> LoadReport:
        self = super().__new__(cls, missing_keys, unexpected_keys)
        self.shape_mismatches = []
        self.dtype_mismatches = []
        return self

    def __repr__(self) -> str:
        if not (self[0] or self[1] or self.shape_mismatches or self.dtype_mismatches):
            return "<All keys matched successfully>"
        return (
            f"LoadReport(missing_keys={self[0]}, unexpected_keys={self[1]}, "
            f"shape_mismatches={self.shape_mismatches}, dtype_mismatches={self.dtype_mismatches})"
        )

    __str__ = __repr__


def _kind(dtype: Any) -> str:
    if dtype.is_floating_point:
        return "floating"
    if dtype.is_complex:
        return "complex"
    return "integral"


class StateDictMixin:
    """The part of `Module` that turns it into a state dict and back."""

    _version: int = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def get_extra_state(self) -> Any:
        """Return what else belongs in the state dict; override together with set_extra_state."""
        raise NotImplementedError(f"{type(self).__name__} has no get_extra_state()")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` returned."""
        raise NotImplementedError(f"{type(self).__name__} has no set_extra_state()")

    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not StateDictMixin.get_extra_state

    def _own_tensors(self) -> dict[str, Any]:
        """This module's own parameters and persistent buffers, in order."""
        found = {k: p for k, p in self._parameters.items() if p is not None}
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                found[name] = buffer
        return found

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, tensor in self._own_tensors().items():
            kept = keep_vars or is_lazy(tensor)
            destination[prefix + name] = tensor if kept else tensor.detach()
        if self._has_extra_state():
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    def state_dict(
        self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Any]:
        """Return an ordered dictionary from dotted name to tensor.

        The tensors share memory with the module and are detached, unless `keep_vars`.
        """
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local_metadata)
            if result is not None:
                destination = result
        return destination

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any],
        strict: bool = True,
        assign: bool = False,
        *,
        on_mismatch: str = "raise",
    ) -> LoadReport:
        """Copy the tensors of `state_dict` into this module and its submodules.

        Args:
            state_dict: dotted name to tensor, as `state_dict()` gives.
            strict: whether missing and unexpected keys are errors.
            assign: take the given tensors themselves (their dtype and device too), do not copy.
                Parameters and buffers that are views of one memory stay so: the given tensors are
                taken if they share memory in that way, else copied into memory that does.
            on_mismatch: "raise", or "skip" to leave tensors of another shape or kind of dtype as
                they are and only report them.

        Returns:
            LoadReport: missing and unexpected keys, and shape and dtype mismatches.

        One tensor under many names (tied weights) stays one. If the state dict has different values
        for them the last holds, with or without `assign`, and a warning names the two.

        Raises:
            RuntimeError: with every fault listed; the module is then unchanged, unless hooks that
                run after loading left missing or unexpected keys in the report. Shapes must be
                equal: a tensor of shape (1,) does not fit one of shape ().
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"state_dict is {type(state_dict).__name__}, expected a mapping")
        if on_mismatch not in ("raise", "skip"):
            raise ValueError(f"on_mismatch is {on_mismatch!r}, expected 'raise' or 'skip'")
        given = OrderedDict(state_dict)
        metadata = getattr(state_dict, "_metadata", None) or {}
        report, errors = LoadReport([], []), []
        modules = list(_named_paths(self))
        own_way = [m for m in modules if _loads_its_own_way(m[1])]
        for prefix, module in modules:
            local = metadata.get(prefix[:-1], {})
            for hook in module._load_state_dict_pre_hooks.values():
                hook(module, given, prefix, local, strict, report[0], report[1], errors)

        plan: list[tuple[Any, str]] = []  # own tensor, key of the new one
        extra: list[tuple[Any, Any]] = []
        known: set[str] = set()
        for prefix, module in modules:
            if any(module is other for _, other in own_way):
                known.update(module._keys_below(given, prefix))
                continue
            for name, tensor in module._own_tensors().items():
                key = prefix + name
                known.add(key)
                if key not in given:
                    report.missing_keys.append(key)
                elif _fits(key, tensor, given[key], assign, report, errors):
                    plan.append((tensor, key))
            if module._has_extra_state():
                key = prefix + _EXTRA_STATE
                known.add(key)
                if key in given:
                    extra.append((module, given[key]))
                else:
                    report.missing_keys.append(key)
        report.unexpected_keys.extend(k for k in given if k not in known)
        for prefix, module in own_way:
            local = metadata.get(prefix[:-1], {}) | (
                {"assign_to_params_buffers": True} if assign else {}
            )
            module._load_from_state_dict(given, prefix, local, True, report[0], report[1], errors)

        hooks = [(m, h) for _, m in modules for h in m._load_state_dict_post_hooks.values()]
        # Hooks may make up for keys, which they take from the report then.
        if not hooks or _faults(report, errors, False, on_mismatch):
            self._refuse(_faults(report, errors, strict, on_mismatch), "nothing")
        _warn_of_ties([(own, key, given[key]) for own, key in plan])
        pairs = [(own, given[key]) for own, key in plan]
        if assign:
            assign_tensors(pairs, [module for _, module in modules])
        else:
            _copy(pairs)
        for module, state in extra:
            module.set_extra_state(state)
        for module, hook in hooks:
            hook(module, report)
        if hooks:
            self._refuse(_faults(report, errors, strict, on_mismatch), "all else")
        return report

    def _refuse(self, faults: list[str], loaded: str) -> None:
        if faults:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__} ({loaded} was loaded):"
                + "".join(f"\n\t{fault}" for fault in faults)
            )

    def _keys_below(self, state_dict: Mapping[str, Any], prefix: str) -> list[str]:
        """Keys that are this module's own: of none of its submodules."""
        own = (k for k in state_dict if k.startswith(prefix))
        return [k for k in own if k[len(prefix) :].partition(".")[0] not in self._modules]

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own tensors, at once; a class that defines it loads its own way.

        Its lists get what `load_state_dict` tells of. Modules whose class does not define it are
        loaded all together, after every check.
        """
        report = LoadReport(missing_keys, unexpected_keys)
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        own = self._own_tensors()
        pairs = []
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                if _fits(key, tensor, state_dict[key], assign, report, error_msgs):
                    pairs.append((tensor, state_dict[key]))
            elif strict:
                missing_keys.append(key)
        error_msgs.extend(_faults(report, [], False, "raise"))
        if self._has_extra_state():
            if prefix + _EXTRA_STATE in state_dict:
                self.set_extra_state(state_dict[prefix + _EXTRA_STATE])
            elif strict:
                missing_keys.append(prefix + _EXTRA_STATE)
        if strict:
            known = {prefix + name for name in own} | {prefix + _EXTRA_STATE}
            below = self._keys_below(state_dict, prefix)
            unexpected_keys.extend(k for k in below if k not in known)
        if assign:
            assign_tensors(pairs, [self])
        else:
            _copy(pairs)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` at the end of `state_dict`."""
        return _register(self._state_dict_hooks, hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` at the start of `state_dict`."""
        return _register(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` before loading; it may edit the (copied) state dict.
        """
        return _register(self._load_state_dict_pre_hooks, hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, report)` after loading."""
        return _register(self._load_state_dict_post_hooks, hook)


def _register(hooks: OrderedDict[int, Any], hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def _loads_its_own_way(module: Any) -> bool:
    return (
        type(module)._load_from_state_dict is not StateDictMixin._load_from_state_dict
        or "_load_from_state_dict" in vars(module)
    )


def _named_paths(module: Any, prefix: str = "") -> Any:
    # Unlike named_modules this visits a shared module under each of its names, because
    # state_dict writes it under each.
    yield prefix, module
    for name, child in module._modules.items():
        if child is not None:
            yield from _named_paths(child, f"{prefix}{name}.")


def _fits(
    key: str, own: Any, new: Any, assign: bool, report: LoadReport, errors: list[str]
) -> bool:
    if not isinstance(new, facula.Tensor):
        errors.append(f"{key}: found {type(new).__name__}, expected a Tensor")
        return False
    if is_lazy(new):
        if not is_lazy(own):
            errors.append(
                f"{key}: the state dict has a parameter without a shape, of a lazy module that was "
                "never called; call it once before taking its state_dict()"
            )
        return False
    if new.is_meta and not (assign or own.is_meta):
        errors.append(
            f"{key}: the state dict has a tensor on the meta device, which has no values to copy; "
            "load with assign=True to take it as it is"
        )
        return False
    if tuple(own.shape) != tuple(new.shape):
        report.shape_mismatches.append(Mismatch(key, tuple(own.shape), tuple(new.shape)))
        return False
    if own.dtype != new.dtype and not assign:
        report.dtype_mismatches.append(Mismatch(key, own.dtype, new.dtype))
        return _kind(own.dtype) == _kind(new.dtype)
    return True


def _faults(report: LoadReport, errors: list[str], strict: bool, on_mismatch: str) -> list[str]:
    faults = list(errors)
    if strict and report.unexpected_keys:
        keys = ", ".join(f'"{k}"' for k in report.unexpected_keys)
        faults.append(f"Unexpected key(s) in state_dict: {keys}.")
    if strict and report.missing_keys:
        keys = ", ".join(f'"{k}"' for k in report.missing_keys)
        faults.append(f"Missing key(s) in state_dict: {keys}.")
    if strict:
        faults.extend(hints(report.missing_keys, report.unexpected_keys))
    if on_mismatch == "raise":
        for m in report.shape_mismatches:
            faults.append(
                f"size mismatch for {m.key}: the state dict has shape {m.found}, "
                f"the module has {m.expected}."
            )
        for m in report.dtype_mismatches:
            if _kind(m.expected) != _kind(m.found):
                faults.append(
                    f"dtype mismatch for {m.key}: the state dict has {m.found}, "
                    f"the module has {m.expected}."
                )
    return faults


def _copy(pairs: list[tuple[Any, Any]]) -> None:
    with facula.no_grad():
        for own, new in pairs:
            own.copy_(new)


def _warn_of_ties(loaded: list[tuple[Any, str, Any]]) -> None:
    """Tell which values a tied tensor does not get: the state dict has others for another name."""
    seen: dict[int, tuple[str, Any]] = {}
    for own, key, new in loaded:
        before = seen.get(id(own))
        if before is not None and not _same_values(before[1], new):
            warnings.warn(
                f"load_state_dict(): {before[0]} and {key} are one tensor of the module, and the "
                f"state dict has different values for them; those of {key} are taken. Untie the "
                "names before loading if both matter",
                stacklevel=3,
            )
        seen[id(own)] = (key, new)


def _same_values(a: Any, b: Any) -> bool:
    if a is b or "meta" in (a.device.type, b.device.type):
        return True
    with facula.no_grad():
        b = b.to(a.device)
        same = a == b
        if not bool(same.all()):
            same = same | ((a != a) & (b != b))  # NaN
        return bool(same.all())
