"""`torch._C`: the few of its names that programs use, though it is torch's own."""

from __future__ import annotations

from typing import Any

import facula
from facula import _C
from facula.as_torch._refused import refused_class
from facula.library import Argument as Argument
from facula.library import FunctionSchema as FunctionSchema
from facula.library import parse_schema as parse_schema
from facula.library._keys import DispatchKey as DispatchKey
from facula.library._keys import DispatchKeySet as DispatchKeySet
from facula.library._keys import ExcludeDispatchKeyGuard
from facula.overrides import DisableTorchFunction, DisableTorchFunctionSubclass

_disabled_torch_function_impl = _C._disabled_torch_function_impl
_TensorMeta = type(facula.Tensor)
_TensorBase = TensorBase = facula.Tensor
Generator, Size, device, dtype = facula.Generator, facula.Size, facula.device, facula.dtype
memory_format, layout = facula.memory_format, facula.layout

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "Generator", "Size"]


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""


def _get_tracing_state() -> None:
    """None: nothing is traced to a script."""


def _is_tracing() -> bool:
    """Never."""
    return False


def _is_torch_function_enabled() -> bool:
    """Are classes asked for answers now?"""
    return bool(_C._is_torch_function_enabled())


def _get_privateuse1_backend_name() -> str:
    """The name of a device of others, which has no other name yet."""
    return "privateuseone"


def _get_accelerator(check: bool = False) -> Any:
    """The current accelerator, else the CPU."""
    return facula.accelerator.current_accelerator() or facula.device("cpu")


def _no_effect(*args: Any) -> bool:
    """A setting of torch's compiler, of which there is none; what it was before: False."""
    return False


for _name in (
    "_jit_can_fuse_on_cpu _jit_can_fuse_on_gpu _jit_override_can_fuse_on_cpu"
    " _jit_override_can_fuse_on_gpu _jit_set_nvfuser_enabled _jit_set_nvfuser_guard_mode"
    " _jit_set_profiling_executor _jit_set_profiling_mode _jit_set_texpr_fuser_enabled"
    " _jit_texpr_fuser_enabled _jit_set_fusion_strategy"
).split():
    globals()[_name] = _no_effect


class _nn:
    """`torch._C._nn`."""

    @staticmethod
    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        """What `Tensor.to` is told: (device, dtype, non_blocking, memory_format)."""
        device = kwargs.pop("device", None)
        dtype = kwargs.pop("dtype", None)
        rest = list(args)
        for name in ("tensor", "other"):
            if name in kwargs:
                rest.insert(0, kwargs.pop(name))
        if rest and isinstance(rest[0], facula.Tensor):
            like = rest.pop(0)
            device, dtype = like.device, like.dtype
        if (
            rest
            and isinstance(rest[0], (str, int, facula.device))
            and not isinstance(rest[0], bool)
        ):
            device = rest.pop(0)
        elif rest and rest[0] is None:
            rest.pop(0)
        if rest and isinstance(rest[0], facula.dtype):
            dtype = rest.pop(0)
        non_blocking = bool(rest.pop(0)) if rest else bool(kwargs.get("non_blocking", False))
        device = None if device is None else facula.device(device)
        return device, dtype, non_blocking, kwargs.get("memory_format")


_ExcludeDispatchKeyGuard = ExcludeDispatchKeyGuard

for _name in "PyTorchFileReader PyTorchFileWriter Graph Value Node ScriptMethod".split():
    globals()[_name] = refused_class("_C." + _name)
