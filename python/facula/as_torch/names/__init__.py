"""What `torch` has beside facula's names, and the few names that mean something else there."""

from __future__ import annotations

import importlib
from typing import Any

import facula
from facula.as_torch._refused import refused_class
from facula.as_torch._version import __version__ as __version__
from facula.as_torch.names import _checks, _foreach, _symbolic
from facula.distributions._draws import sample_dirichlet, standard_gamma

__all__ = [
    "CompilationUnit",
    "ScriptFunction",
    "ScriptModule",
    "compile",
    "fork",
    "get_device_module",
    "is_distributed",
    "is_same_size",
    "wait",
]
# Names of facula.jit, which is imported when one of them is asked for.
_OF_JIT = ("CompilationUnit", "ScriptFunction", "ScriptModule", "fork", "wait")
FIRST = ("__version__", "compile", "get_device_module")

for _module in (_checks, _symbolic):
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})
StorageBase = facula.UntypedStorage
_standard_gamma, _sample_dirichlet = standard_gamma, sample_dirichlet
for _name in ("PyTorchFileReader", "PyTorchFileWriter"):
    globals()[_name] = refused_class(_name)


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


def is_same_size(input: Any, other: Any) -> bool:
    """Have they one shape?"""
    return bool(input.shape == other.shape)


def _shape_as_tensor(self: Any) -> Any:
    """The sizes as a tensor of int64."""
    return facula.tensor(list(self.shape), dtype=facula.int64)


def is_distributed(input: Any) -> bool:
    """False: no tensor is spread over processes."""
    return False


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
