"""Programs written for torch run on facula, unchanged.

    python -m facula.as_torch SCRIPT ARGS       `import torch` is facula there and in its children
    python -m facula.as_torch -m MODULE ARGS
    python -m facula.as_torch --scan PATH       which of torch's names PATH uses, which are missing

A program of one's own calls `facula.as_torch.install()` before anything imports torch.
"""

from __future__ import annotations

import os
import sys

from facula.as_torch._version import TorchVersion, __version__

__all__ = ["TorchVersion", "__version__", "install", "is_installed"]


# Attributes of torch's tensors that say nothing any more, or always the same.
_NO_MORE = {
    "grad_dtype": lambda self: self.dtype,
    "name": lambda self: None,
    "volatile": lambda self: False,
}


def is_installed() -> bool:
    """Does `import torch` give facula in this process?"""
    from facula.as_torch._finder import Finder

    return Finder in sys.meta_path


def install() -> None:
    """Let `import torch`, and of all its submodules, give facula: here and in child processes.

    The environment variable PYTHONPATH gets an entry, so children need nothing else, unless they
    ignore it (`python -I`, `python -E`). `importlib.metadata.version("torch")` answers with
    `facula.as_torch.__version__`. A second call does nothing.

    Raises:
        RuntimeError: torch itself is imported already.
    """
    from facula import _C
    from facula._legacy_types import LEGACY_STORAGES, LEGACY_TYPES
    from facula._moving import add_device
    from facula.as_torch import _spaces
    from facula.as_torch._absent import name_absent_devices
    from facula.as_torch._finder import Finder
    from facula.as_torch._storages import complete_storages

    if Finder in sys.meta_path:
        return
    there = sys.modules.get("torch")
    stand_in = os.path.join(_spaces.SITE, "torch", "__init__.py")  # half imported when it calls
    if there is not None and getattr(there, "__file__", None) != stand_in:
        raise RuntimeError(
            f"facula.as_torch.install(): torch {getattr(there, '__version__', '')} is imported "
            f"already, from {getattr(there, '__file__', None)}; call install() before anything "
            f"imports torch, or run the program by `python -m facula.as_torch`"
        )
    sys.meta_path.insert(0, Finder)
    _spaces.importable = True
    name_absent_devices()
    complete_storages()
    _C._speak_as_torch(True)
    # A tensor has one Python object through its life, which serves as its identity.
    _C.Tensor._cdata = property(id)
    for device in _spaces.DEVICES:
        add_device(device)
    for kind in (*LEGACY_TYPES.values(), *LEGACY_STORAGES.values()):
        kind.__module__ = "torch"
    for name, answer in _NO_MORE.items():
        setattr(_C.Tensor, name, property(answer))
    if _spaces.SITE not in sys.path:
        sys.path.insert(0, _spaces.SITE)
    inherited = os.environ.get("PYTHONPATH")
    entries = inherited.split(os.pathsep) if inherited else []
    if _spaces.SITE not in entries:
        os.environ["PYTHONPATH"] = os.pathsep.join([_spaces.SITE, *entries])
