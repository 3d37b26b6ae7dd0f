"""torch.FloatTensor and its like: constructors of one dtype, and classes for `isinstance`."""

from __future__ import annotations

from typing import Any

import facula

__all__ = ["LEGACY_TYPES", "legacy_types"]

_DTYPES = {
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
        for name, dtype in _DTYPES.items()
    }


LEGACY_TYPES = legacy_types("torch", "cpu")
