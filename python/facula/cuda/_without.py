"""What `facula.cuda` answers on a machine without a GPU: that there is none.

Settings and questions have answers; what needs a device raises an error that is a RuntimeError and
an AssertionError, as programs look for either.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import facula
from facula._legacy_types import legacy_storages, legacy_types


class NoDevice(RuntimeError, AssertionError):
    """There is no device of type "cuda"."""


def _none(caller: str) -> Any:
    from facula.cuda import _vendor

    why = "facula was built without CUDA" if not os.path.exists(_vendor.LIBRARY) else ""
    why = why or _vendor.why_not() or "no GPU was found"
    raise NoDevice(f"cuda.{caller}(): there is no device of type 'cuda': {why}")


class _NeedsDevice(type):
    """A class whose objects need a device: it can be named, asked for by `isinstance`, derived."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        _none(cls.__name__)


globals().update(legacy_types("facula.cuda", "cuda"))
globals().update(legacy_storages("facula.cuda", "cuda"))

OutOfMemoryError = facula.OutOfMemoryError
default_generators: tuple[Any, ...] = ()
has_half = False
has_magma = False
for _name in (
    "CUDAGraph CUDAPluggableAllocator Event ExternalStream GreenContext MemPool Stream graph"
).split():
    globals()[_name] = _NeedsDevice(
        _name,
        (),
        {"__doc__": "Raises NoDevice: there is no such device.", "__module__": "facula.cuda"},
    )


def _needing_device(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        _none(name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raises NoDevice: there is no such device."
    return function


for _name in (
    "caching_allocator_alloc caching_allocator_delete can_device_access_peer"
    " change_current_allocator clock_rate cudart current_blas_handle current_solver_handle"
    " device_memory_used get_per_process_memory_fraction get_stream_from_external"
    " graph_pool_handle make_graphed_callables memory_snapshot memory_usage power_draw"
    " set_per_process_memory_fraction temperature use_mem_pool utilization"
).split():
    globals()[_name] = _needing_device(_name)


class CudaError(RuntimeError):
    """An error of CUDA's run time, by its number."""

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA's error {code}")


class DeferredCudaCallError(Exception):
    """A call that waited for the first use of a device failed then."""


class cudaStatus:
    """Numbers of CUDA's run time."""

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


def check_error(res: int) -> None:
    """Raises CudaError unless the number is that of success."""
    if res != cudaStatus.SUCCESS:
        raise CudaError(res)


def init() -> None:
    """Raises NoDevice: there is no such device."""
    _none("init")


def current_device() -> int:
    """Raises NoDevice: there is no such device."""
    return int(_none("current_device"))


def set_device(device: Any) -> None:
    """Raises, unless the device is none: a negative index."""
    if not (isinstance(device, int) and device < 0):
        _none("set_device")


def synchronize(device: Any = None) -> None:
    """Raises NoDevice: there is no such device."""
    _none("synchronize")


def get_device_properties(device: Any = None) -> Any:
    """Raises NoDevice: there is no such device."""
    _none("get_device_properties")


def get_device_name(device: Any = None) -> str:
    """Raises NoDevice: there is no such device."""
    return str(_none("get_device_name"))


def get_device_capability(device: Any = None) -> Any:
    """Raises NoDevice: there is no such device."""
    _none("get_device_capability")


def current_stream(device: Any = None) -> Any:
    """Raises NoDevice: there is no such device."""
    _none("current_stream")


def default_stream(device: Any = None) -> Any:
    """Raises NoDevice: there is no such device."""
    _none("default_stream")


def mem_get_info(device: Any = None) -> Any:
    """Raises NoDevice: there is no such device."""
    _none("mem_get_info")


def get_rng_state(device: Any = "cuda") -> Any:
    """Raises NoDevice: there is no such device."""
    _none("get_rng_state")


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Raises NoDevice: there is no such device."""
    _none("set_rng_state")


def initial_seed() -> int:
    """Raises NoDevice: there is no such device."""
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


def set_stream(stream: Any) -> None:
    """The current stream: None changes nothing; there is no other."""
    if stream is not None:
        _none("set_stream")


def is_tf32_supported() -> bool:
    """By none."""
    return False


def get_gencode_flags() -> str:
    """None."""
    return ""


def get_allocator_backend() -> str:
    """What kind of allocator a device would have."""
    return "native"


def caching_allocator_enable(value: bool = True) -> None:
    """Take note of nothing: there is no memory to keep."""


@contextlib.contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Within it memory is not kept; there is none."""
    yield


def host_memory_stats() -> dict[str, int]:
    """Of no device: empty."""
    return {}


def reset_peak_host_memory_stats() -> None:
    """Nothing to reset."""


reset_accumulated_host_memory_stats = reset_peak_host_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Nothing to reset."""


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A text that says that there is no device."""
    return "no device of type 'cuda', no memory of one"


def list_gpu_processes(device: Any = None) -> str:
    """A text that says that there is no device."""
    return "no device of type 'cuda', no processes on one"


def device_count() -> int:
    """How many there are: none."""
    return 0


def is_available() -> bool:
    """Is there at least one such device? No."""
    return False
