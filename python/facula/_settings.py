"""Settings that programs make and ask about: what facula does about each is said at each."""

from __future__ import annotations

from typing import Any

import facula

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_device_module",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "has_lapack",
    "has_mkl",
    "has_openmp",
    "has_spectral",
    "init_num_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_storage",
    "is_warn_always_enabled",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
]

#: What there is: factorisations and transforms of facula's own or OpenBLAS's; threads of its own.
has_lapack = has_spectral = True
has_mkl = has_openmp = False

_settings: dict[str, Any] = {
    "deterministic": False,
    "interop_threads": 1,
    "matmul": "highest",
    "warn_always": False,
    "warn_only": False,
}


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
    """The namespace of a device's type, `facula.cuda` say; of the accelerator by default.

    Raises:
        RuntimeError: there is none.
    """
    if device is None:
        device = facula.accelerator.current_accelerator() or "cpu"
    kind = facula.device(device).type
    found = getattr(facula, kind, None)
    if found is None:
        raise RuntimeError(f"Invalid device '{device}': there is no namespace facula.{kind}")
    return found


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


def init_num_threads() -> None:
    """Nothing: threads start when they are first needed, `set_num_threads` says how many."""


def set_default_tensor_type(t: Any) -> None:
    """The dtype of a legacy type, or of its name "torch.DoubleTensor", as the default one."""
    from facula._legacy_types import LEGACY_TYPES

    if isinstance(t, str):
        known = LEGACY_TYPES.get(t.rpartition(".")[2])
        if known is None:
            raise TypeError(f"set_default_tensor_type(): {t!r} is none of {[*LEGACY_TYPES]}")
        t = known
    facula.set_default_dtype(getattr(t, "dtype", t))
