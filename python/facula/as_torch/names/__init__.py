"""What `torch` has beside facula's names, and the few names that mean something else there."""

from __future__ import annotations

import importlib
from typing import Any

import facula
from facula.as_torch import _storages
from facula.as_torch._absent_dtypes import ABSENT_DTYPES, finfo
from facula.as_torch._legacy_types import LEGACY_TYPES
from facula.as_torch._refused import refused_class
from facula.as_torch._version import __version__ as __version__
from facula.as_torch.names import _checks, _foreach, _symbolic
from facula.as_torch.names.futures import Future
from facula.distributions._draws import sample_dirichlet, standard_gamma
from facula.overrides import DisableTorchFunction, DisableTorchFunctionSubclass

__all__ = [
    "CompilationUnit",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "are_deterministic_algorithms_enabled",
    "compile",
    "finfo",
    "fork",
    "from_file",
    "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "get_deterministic_debug_mode",
    "get_device_module",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_autocast_cpu_enabled",
    "is_distributed",
    "is_same_size",
    "is_storage",
    "is_warn_always_enabled",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
    "wait",
    *ABSENT_DTYPES,
    *LEGACY_TYPES,
]
# Names of facula.jit, which is imported when one of them is asked for.
_OF_JIT = ("CompilationUnit", "ScriptFunction", "ScriptModule", "fork", "wait")
FIRST = ("__version__", "compile", "finfo")

globals().update({**LEGACY_TYPES, **ABSENT_DTYPES})
for _module in (_checks, _symbolic):
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})
StorageBase = facula.UntypedStorage
from_file = _storages.from_file
_standard_gamma, _sample_dirichlet = standard_gamma, sample_dirichlet
Event = refused_class("Event")
Stream = refused_class("Stream")
for _name in ("PyTorchFileReader", "PyTorchFileWriter"):
    globals()[_name] = refused_class(_name)

_settings: dict[str, Any] = {
    "deterministic": False,
    "interop_threads": 1,
    "matmul": "highest",
    "warn_always": False,
    "warn_only": False,
}


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """`facula.compile`; what chooses among torch's compilers is taken and not used."""
    return facula.compile(model, dynamic=dynamic, disable=disable)


def set_float32_matmul_precision(precision: str) -> None:
    """Take note of "highest", "high" or "medium"; products keep all bits of float32 regardless."""
    if precision not in ("highest", "high", "medium"):
        raise ValueError(
            f"set_float32_matmul_precision(): {precision!r} is none of 'highest', 'high', 'medium'"
        )
    _settings["matmul"] = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given."""
    return str(_settings["matmul"])


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Take note of it; docs/users.md tells what is the same in each run."""
    _settings["deterministic"], _settings["warn_only"] = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was given."""
    return bool(_settings["deterministic"])


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What `use_deterministic_algorithms` was given as `warn_only`."""
    return bool(_settings["warn_only"])


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """0 or "default", 1 or "warn", 2 or "error": see `use_deterministic_algorithms`."""
    modes = {"default": 0, "warn": 1, "error": 2}
    level = modes.get(debug_mode, debug_mode) if isinstance(debug_mode, str) else debug_mode
    if level not in (0, 1, 2):
        raise ValueError(f"set_deterministic_debug_mode(): {debug_mode!r} is none of {modes}")
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: what `use_deterministic_algorithms` makes of it."""
    return int(_settings["deterministic"]) + int(
        _settings["deterministic"] and not _settings["warn_only"]
    )


def get_device_module(device: Any = None) -> Any:
    """The namespace of a device's type, `torch.cuda` say; of the accelerator by default.

    Raises:
        RuntimeError: there is none.
    """
    from facula.as_torch import _spaces

    if device is None:
        device = facula.accelerator.current_accelerator() or "cpu"
    kind = facula.device(device).type
    if not _spaces.exists(kind):
        raise RuntimeError(f"Invalid device '{device}': there is no namespace torch.{kind}")
    return getattr(_spaces.space(""), kind)


def is_autocast_cpu_enabled() -> bool:
    """Is autocasting on for the CPU?"""
    return bool(facula.is_autocast_enabled("cpu"))


def get_autocast_cpu_dtype() -> Any:
    """The dtype of autocasting on the CPU."""
    return facula.get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> Any:
    """The dtype of autocasting on a GPU."""
    return facula.get_autocast_dtype("cuda")


def is_same_size(input: Any, other: Any) -> bool:
    """Have they one shape?"""
    return bool(input.shape == other.shape)


def set_num_interop_threads(num_threads: int) -> None:
    """Take note of it: one operator runs at a time, on `get_num_threads()` threads."""
    if num_threads < 1:
        raise RuntimeError(f"set_num_interop_threads(): {num_threads} is not a positive number")
    _settings["interop_threads"] = num_threads


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was given, else 1."""
    return int(_settings["interop_threads"])


def set_flush_denormal(mode: bool) -> bool:
    """False: numbers below the normal range are kept, which torch calls not supported."""
    return False


def set_warn_always(b: bool) -> None:
    """Take note of it: warnings follow Python's filters."""
    _settings["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was given."""
    return bool(_settings["warn_always"])


def is_storage(obj: Any) -> bool:
    """Is it the memory of a tensor?"""
    return isinstance(obj, facula.UntypedStorage)


def _shape_as_tensor(self: Any) -> Any:
    """The sizes as a tensor of int64."""
    return facula.tensor(list(self.shape), dtype=facula.int64)


def is_distributed(input: Any) -> bool:
    """False: no tensor is spread over processes."""
    return False


def set_default_tensor_type(t: Any) -> None:
    """The dtype of a legacy type, or of its name "torch.DoubleTensor", as the default one."""
    if isinstance(t, str):
        known = LEGACY_TYPES.get(t.removeprefix("torch."))
        if known is None:
            raise TypeError(f"set_default_tensor_type(): {t!r} is none of {[*LEGACY_TYPES]}")
        t = known
    facula.set_default_dtype(getattr(t, "dtype", t))


def __getattr__(name: str) -> Any:
    """`_foreach_NAME`: the tensors' method NAME, for each of a list; `vmap` is torch.func's."""
    if name in _OF_JIT:
        return getattr(importlib.import_module("facula.jit"), name)
    if name == "vmap":
        from facula.as_torch import _spaces

        return _spaces.space("func").vmap
    method = name.removeprefix("_foreach_")
    if method == name:
        raise AttributeError(name)
    return _foreach.for_each(method)


def __dir__() -> list[str]:
    return sorted({*globals(), *_OF_JIT})
