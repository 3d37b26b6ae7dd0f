"""FloatTensor, FloatStorage and their like: constructors of one dtype, classes for `isinstance`."""

from __future__ import annotations

from typing import Any

import facula

__all__ = ["DTYPES", "LEGACY_STORAGES", "LEGACY_TYPES", "legacy_storages", "legacy_types"]

DTYPES = {
    "BFloat16Tensor": facula.bfloat16,
    "BoolTensor": facula.bool,
    "ByteTensor": facula.uint8,
    "CharTensor": facula.int8,
    "DoubleTensor": facula.float64,
    "FloatTensor": facula.float32,
    "HalfTensor": facula.float16,
    "IntTensor": facula.int32,
    "LongTensor": facula.int64,
    "ShortTensor": facula.int16,
}


class _LegacyType(type):
    """Calls make a tensor: of sizes, uninitialized, or of data; instances are by dtype."""

    dtype: Any
    _device: str

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        device = cls._device if device is None else device
        if all(isinstance(arg, int) and not isinstance(arg, bool) for arg in args):
            return facula.empty(args or (0,), dtype=cls.dtype, device=device)
        if len(args) != 1:
            raise TypeError(
                f"{cls.__name__}() takes sizes (integers), or one sequence, array or tensor; "
                f"got {len(args)} arguments, of types {[type(a).__name__ for a in args]}"
            )
        if isinstance(args[0], facula.Size):
            return facula.empty(args[0], dtype=cls.dtype, device=device)
        return facula.tensor(args[0], dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, facula.Tensor)
            and instance.dtype == cls.dtype
            and instance.device.type == cls._device
        )


def legacy_types(module: str, device: str) -> dict[str, Any]:
    """The classes of one device, by name."""
    return {
        name: _LegacyType(name, (), {"dtype": dtype, "_device": device, "__module__": module})
        for name, dtype in DTYPES.items()
    }


class _LegacyStorage(type):
    """Calls make the memory of so many elements, or of a sequence; instances are by dtype."""

    dtype: Any
    _device: str

    def __call__(cls, *args: Any) -> Any:
        if not args:
            return facula.empty(0, dtype=cls.dtype, device=cls._device).storage()
        if len(args) != 1:
            raise TypeError(f"{cls.__name__}() takes a size or a sequence, not {len(args)} values")
        given = args[0]
        if isinstance(given, int):
            return facula.empty(given, dtype=cls.dtype, device=cls._device).storage()
        if isinstance(given, facula.TypedStorage):
            given = given.tolist()
        return facula.tensor(list(given), dtype=cls.dtype, device=cls._device).storage()

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, facula.TypedStorage)
            and instance.dtype == cls.dtype
            and instance.device.type == cls._device
        )

    def from_buffer(cls, data: Any) -> Any:
        """Elements with the bytes of an object with a buffer, which are copied."""
        return facula.frombuffer(bytearray(data), dtype=cls.dtype).storage()


def legacy_storages(module: str, device: str) -> dict[str, Any]:
    """The classes of one device, by name."""
    kinds = {name.replace("Tensor", "Storage"): dtype for name, dtype in DTYPES.items()}
    kinds |= {
        "ComplexDoubleStorage": facula.complex128,
        "ComplexFloatStorage": facula.complex64,
    }
    return {
        name: _LegacyStorage(name, (), {"dtype": dtype, "_device": device, "__module__": module})
        for name, dtype in kinds.items()
    }


LEGACY_TYPES = legacy_types("facula", "cpu")
LEGACY_STORAGES = legacy_storages("facula", "cpu")
globals().update({**LEGACY_TYPES, **LEGACY_STORAGES})


def __getattr__(name: str) -> Any:  # for checkers of types: the names above come from a table
    raise AttributeError(f"there is no type {name!r} of that kind")
