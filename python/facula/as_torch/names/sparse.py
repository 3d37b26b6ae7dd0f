"""torch.sparse, and the older constructors of one dtype that it has."""

from __future__ import annotations

from typing import Any

import facula
from facula import _legacy_types

_INDEX = {"ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor"}
_INDEX |= {"BFloat16Tensor", "IntTensor", "LongTensor", "ShortTensor"}


class _LegacySparse(type):
    """Calls make a tensor of layout sparse_coo; instances are by dtype."""

    dtype: Any

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        if all(isinstance(a, int) for a in args):
            return facula.sparse_coo_tensor(args, dtype=cls.dtype, device=device)
        return facula.sparse_coo_tensor(*args, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, facula.Tensor)
            and instance.is_sparse
            and instance.dtype == cls.dtype
        )


def __getattr__(name: str) -> Any:
    if name in _INDEX:
        made = _LegacySparse(name, (), {"dtype": _legacy_types.DTYPES[name]})
        globals()[name] = made
        return made
    raise AttributeError(f"module 'facula.as_torch.names.sparse' has no attribute '{name}'")
