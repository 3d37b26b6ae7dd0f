"""Types for annotations, as `torch.types` has them."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import facula
from facula import Size, Tensor

Device: TypeAlias = "facula.device | str | int | None"
FileLike: TypeAlias = "str | os.PathLike[str] | Any"
IntLikeType: TypeAlias = builtins.int
FloatLikeType: TypeAlias = builtins.float
BoolLikeType: TypeAlias = builtins.bool
Number: TypeAlias = builtins.int | builtins.float | builtins.bool
PySymType: TypeAlias = "builtins.int | builtins.float | builtins.bool"
Storage = facula.UntypedStorage
TensorOrTensors: TypeAlias = "Tensor | Sequence[Tensor]"
_dtype = facula.dtype
_device = facula.device
_layout = facula.layout
_size: TypeAlias = "Size | list[builtins.int] | tuple[builtins.int, ...]"
_TensorOrTensors = TensorOrTensors
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
