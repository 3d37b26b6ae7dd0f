"""The base class of devices that are written in Python, and what is known of each device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import facula
from facula import _C

_ABSENT_IN_NUMPY = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # their bits count as a number


@functools.cache
def _typestr(dtype: Any) -> str:
    """NumPy's code of a dtype: the byte order, the kind and the number of bytes."""
    name = str(dtype).rpartition(".")[2]
    if name == "bool":
        kind = "b"
    elif name in _ABSENT_IN_NUMPY:
        kind = "u"
    elif dtype.is_complex or dtype.is_floating_point:
        kind = "c" if dtype.is_complex else "f"
    else:
        kind = "i" if dtype.is_signed else "u"
    return f"{'<' if dtype.itemsize > 1 else '|'}{kind}{dtype.itemsize}"


class Buffer(NamedTuple):
    """A tensor as a kernel sees it. Strides are in elements; `data` is an address on the device.

    `numpy.asarray(buffer)` is an array over the memory, for devices whose memory the host can reach
    (bfloat16 appears as uint16, the floats of 8 bits as uint8).
    """

    data: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    index: int

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "data": (self.data or 1, False),
            "shape": self.shape,
            "strides": tuple(s * self.dtype.itemsize for s in self.strides),
            "typestr": _typestr(self.dtype),
        }


class Backend:
    """A device in Python: override what the device has, then `facula.backends.register(Backend())`.

    `index` is the device's number, `stream` its stream (0 the default one), addresses are ints. A
    method that raises NotImplementedError, or returns NotImplemented, leaves the call to the next
    way (the CPU, where `CPU_FALLBACK` allows it); MemoryError means that the device is full.
    """

    CACHING, CPU_FALLBACK, FORK_SAFE, DETERMINISTIC, HOST_MEMORY = 1, 2, 4, 8, 16
    ALL_DTYPES: ClassVar[tuple[Any, ...]] = tuple(
        dict.fromkeys(value for value in vars(_C).values() if isinstance(value, facula.dtype))
    )

    name: str = ""
    package: str | None = None
    flags: int = CPU_FALLBACK
    dtypes: Sequence[Any] = ALL_DTYPES
    kernels: Mapping[str, Callable[..., Any]] = {}
    """Kernels by operator: called with the arguments of its signature, then its results as Buffers.
    Numbers stay numbers; a generator comes as the (seed, offset) of this call's Philox stream."""
    autocast_dtype: str | None = None
    autocast_lower: Sequence[str] = ()
    autocast_float32: Sequence[str] = ()
    serialization_tag: str | None = None
    dlpack_type: int = 0
    """The DLDeviceType by which other libraries name this memory; 0: it is not shared."""

    def device_count(self) -> int:
        return 1

    def device_name(self, index: int) -> str:
        return self.name

    def allocate(self, index: int, nbytes: int, stream: int) -> int:
        raise NotImplementedError

    def deallocate(self, index: int, data: int, nbytes: int, stream: int) -> None:
        raise NotImplementedError

    def copy(
        self, dst: int, dst_index: int, src: int, src_index: int, nbytes: int, stream: int
    ) -> None:
        """Bytes from `src` to `dst`; an index of -1 is the host."""
        raise NotImplementedError

    def pin(self, nbytes: int) -> int:
        raise NotImplementedError

    def unpin(self, data: int, nbytes: int) -> None:
        raise NotImplementedError

    def create_stream(self, index: int, priority: int) -> int:
        raise NotImplementedError

    def pointwise(
        self,
        op: str,
        variant: str,
        inputs: tuple[Any, ...],
        outputs: tuple[Buffer, ...],
        values: tuple[Any, ...],
        compute: Any,
        masks: int,
        stream: int,
    ) -> Any:
        """Any pointwise operator; `facula.backends.translate` has its formula."""
        raise NotImplementedError

    def reduction(
        self, op: str, input: Buffer, output: Buffer, nreduced: int, compute: Any, stream: int
    ) -> Any:
        """Any reduction of the last `nreduced` dims of `input`."""
        raise NotImplementedError

    @property
    def _dtype_bits(self) -> int:
        unknown = [d for d in self.dtypes if d not in self.ALL_DTYPES]
        if unknown:
            raise ValueError(
                f"register(): dtypes holds {unknown[0]!r}, which is no dtype of devices"
            )
        return sum(1 << i for i, d in enumerate(self.ALL_DTYPES) if d in self.dtypes)

    @property
    def _kernel_names(self) -> list[str]:
        if not isinstance(self.kernels, Mapping):
            raise TypeError(
                f"register(): kernels must be a mapping, not {type(self.kernels).__name__}"
            )
        for name, function in self.kernels.items():
            if not callable(function):
                kind = type(function).__name__
                raise TypeError(f"register(): kernels[{name!r}] is {kind}, expected a function")
        return list(self.kernels)


def info(name: str) -> dict[str, Any]:
    """Its package, dtypes, own kernels, streams, fallback, autocast lists and so on."""
    found = _C._backend_info(name)
    flags, bits = found.pop("flags"), found.pop("dtypes")
    found["dtypes"] = [d for i, d in enumerate(Backend.ALL_DTYPES) if bits >> i & 1]
    for flag in ("CACHING", "FORK_SAFE", "DETERMINISTIC", "HOST_MEMORY"):
        found[flag.lower()] = bool(flags & getattr(Backend, flag))
    return found
