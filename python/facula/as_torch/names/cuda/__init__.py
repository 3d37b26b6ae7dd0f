"""What `torch.cuda` answers where facula's `cuda` does not: on a machine without a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import facula
from facula.as_torch._legacy_types import legacy_types
from facula.as_torch._refused import refused_class, refused_function

globals().update(legacy_types("torch.cuda", "cuda"))

OutOfMemoryError = facula.OutOfMemoryError
default_generators: tuple[Any, ...] = ()
has_half = False
has_magma = False
Event = refused_class("cuda.Event")
Stream = refused_class("cuda.Stream")
for _name in "CUDAGraph ExternalStream MemPool CUDAPluggableAllocator graph".split():
    globals()[_name] = refused_class("cuda." + _name)
for _name in "graph_pool_handle make_graphed_callables memory_snapshot use_mem_pool".split():
    globals()[_name] = refused_function("cuda." + _name)


def _none(caller: str) -> Any:
    raise RuntimeError(f"torch.cuda.{caller}(): there is no device of type 'cuda'")


def init() -> None:
    """Raises: there is no such device."""
    _none("init")


def current_device() -> int:
    """Raises: there is no such device."""
    return int(_none("current_device"))


def set_device(device: Any) -> None:
    """Raises, unless the device is none: a negative index."""
    if not (isinstance(device, int) and device < 0):
        _none("set_device")


def synchronize(device: Any = None) -> None:
    """Raises: there is no such device."""
    _none("synchronize")


def get_device_properties(device: Any = None) -> Any:
    """Raises: there is no such device."""
    _none("get_device_properties")


def get_device_name(device: Any = None) -> str:
    """Raises: there is no such device."""
    return str(_none("get_device_name"))


def get_device_capability(device: Any = None) -> Any:
    """Raises: there is no such device."""
    _none("get_device_capability")


def current_stream(device: Any = None) -> Any:
    """Raises: there is no such device."""
    _none("current_stream")


def default_stream(device: Any = None) -> Any:
    """Raises: there is no such device."""
    _none("default_stream")


def mem_get_info(device: Any = None) -> Any:
    """Raises: there is no such device."""
    _none("mem_get_info")


def get_rng_state(device: Any = "cuda") -> Any:
    """Raises: there is no such device."""
    _none("get_rng_state")


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Raises: there is no such device."""
    _none("set_rng_state")


def initial_seed() -> int:
    """Raises: there is no such device."""
    return int(_none("initial_seed"))


def get_rng_state_all() -> list[Any]:
    """None."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """States of no devices."""
    if len(list(new_states)) > 0:
        _none("set_rng_state_all")


def manual_seed(seed: int) -> None:
    """Nothing to seed."""


manual_seed_all = manual_seed


def seed() -> None:
    """Nothing to seed."""


seed_all = seed


def empty_cache() -> None:
    """Nothing to free."""


ipc_collect = empty_cache


def is_initialized() -> bool:
    """Has it been used?"""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """By none."""
    return False


def is_current_stream_capturing() -> bool:
    """By none."""
    return False


def get_arch_list() -> list[str]:
    """None."""
    return []


def memory_stats(device: Any = None) -> dict[str, int]:
    """Of no device: empty."""
    return {}


def memory_allocated(device: Any = None) -> int:
    """Bytes in use: 0."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
max_memory_cached = memory_cached = memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing to reset."""


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


@contextlib.contextmanager
def device(device: Any) -> Iterator[None]:
    """Within it another device is the current one: None or a negative index changes nothing."""
    if device is not None:
        set_device(device)
    yield


@contextlib.contextmanager
def device_of(obj: Any) -> Iterator[None]:
    """The device of a tensor; tensors on the CPU change nothing."""
    yield


class StreamContext:
    """Within it another stream is the current one; None changes nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__(*error)


def stream(stream: Any) -> StreamContext:
    """Within it another stream is the current one; there is but None."""
    return StreamContext(stream)


_sync_debug = 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Take note of 0 or "default", 1 or "warn", 2 or "error"; nothing waits for a GPU here."""
    global _sync_debug
    modes = {"default": 0, "warn": 1, "error": 2}
    level = modes.get(debug_mode, debug_mode) if isinstance(debug_mode, str) else debug_mode
    if level not in (0, 1, 2):
        raise RuntimeError(f"set_sync_debug_mode(): {debug_mode!r} is none of {modes}")
    _sync_debug = int(level)


def get_sync_debug_mode() -> int:
    """What `set_sync_debug_mode` was given."""
    return _sync_debug


def _is_in_bad_fork() -> bool:
    """Is this a child of a process that uses a GPU? It uses none."""
    return False
