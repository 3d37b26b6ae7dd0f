"""Namespaces of torch: where each takes its names from.

A namespace `torch.a.b` offers what `facula.a.b` has, then what `facula.as_torch.names.a.b` adds;
a few names of the latter go first (its `FIRST`). The tables here hold what differs in place.
"""

from __future__ import annotations
import __future__

import contextlib
import importlib
import os
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import facula
from facula.as_torch._refused import refused_module, refused_names

__all__ = ["Namespace", "exists", "lacking", "resolve", "space"]

# Namespaces that stand elsewhere in facula.
PLACES = {
    "_tensor": "facula",
    "distributed._composable.fsdp": "facula.distributed.fsdp",
    "distributed._composable.fully_shard": "facula.distributed.fsdp",
    "distributed.algorithms._checkpoint": "facula.distributed.algorithms",
    "distributed.algorithms._checkpoint.checkpoint_wrapper": (
        "facula.distributed.algorithms.checkpoint_wrapper"
    ),
    "distributed._tensor": "facula.distributed.tensor",
    "cpu.amp": "facula.amp",
    "fx._symbolic_trace": "facula.fx.tracer",
    "nn.modules.instancenorm": "facula.nn.modules.batchnorm",
    "functional": "facula",
    "nn.utils._per_sample_grad": "facula.func._per_sample",
    "nn.parameter": "facula.nn._lazy",
    "storage": "facula",
    "utils.data._utils": "facula.utils.data._utils",
    **{
        "utils.data._utils." + file: "facula.utils.data._utils." + file
        for file in ("collate", "fetch", "pin_memory", "worker")
    },
    # The files of torch's layers, of which facula's are another choice.
    **{
        "nn.modules." + file: "facula.nn"
        for file in (
            "activation adaptive conv distance dropout linear loss normalization pooling rnn sparse"
        ).split()
    },
    **{
        "nn.modules." + file: "facula.nn.modules.rearrange"
        for file in "channelshuffle flatten fold padding pixelshuffle upsampling".split()
    },
}
# Files of torch whose names the namespace above them has.
_ABOVE = {"cuda." + file: "cuda" for file in ("graphs", "memory", "random", "streams")}
# facula's own, of no concern to programs written for torch.
HIDDEN = frozenset(("as_torch", "examples"))

#: What children find on their path: a package `torch` that installs the finder, and its metadata.
SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
#: Does `import torch` come here? Else namespaces are looked at only, not imported.
importable = False

# Devices that torch knows, of which facula has none: tensors answer `is_mps` and its like.
DEVICES = "hpu ipu maia mps mtia vulkan xla xpu".split()

_NAMES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "names")
_MISSING = object()
#: What a namespace holds by now; its `__dict__` has all that it offers.
_held: Any = ModuleType.__dict__["__dict__"].__get__
_spaces: dict[str, Namespace] = {}


def lacking(path: str) -> str:
    """What is said of a name that is not there."""
    return (
        f"facula has no torch.{path} yet; `python -m facula.as_torch --scan PATH` lists which of "
        f"torch's names a program uses and facula lacks"
    )


def exists(path: str) -> bool:
    """Is there a namespace torch.`path` ("" for torch itself)?"""
    return (
        path == ""
        or path in _spaces
        or path in refused_names()
        or next(_sources(path), None) is not None
    )


def _sources(path: str) -> Iterator[ModuleType]:
    """The modules that a namespace takes its names from, in order."""
    path = _ABOVE.get(path, path)
    found = _found(path)
    if path.split(".")[0] == "cuda" and not facula.cuda.is_available():
        # what torch answers without a GPU goes before facula's functions, which raise there
        return reversed(list(found))
    return found


def _found(path: str) -> Iterator[ModuleType]:
    parts = path.split(".") if path else []
    if not any(part[:1] == "_" for part in parts) and not HIDDEN.intersection(parts[:1]):
        module = _import_if_there(".".join(["facula", *parts]))
        if module is not None:
            yield module
    if path in PLACES:
        yield importlib.import_module(PLACES[path])
    if os.path.exists(os.path.join(_NAMES, *parts) + (".py" if parts else "/__init__.py")) or (
        os.path.exists(os.path.join(_NAMES, *parts, "__init__.py"))
    ):
        yield importlib.import_module(".".join(["facula.as_torch.names", *parts]))
    if path in refused_names():
        yield refused_module(path)


def _import_if_there(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (error.name == name or name.startswith(error.name + ".")):
            return None
        raise  # one of its own imports is missing


def space(path: str) -> Namespace:
    """The namespace torch.`path`, the same object each time."""
    if path not in _spaces:
        _spaces[path] = Namespace(path)
    return _spaces[path]


def resolve(path: str) -> Any:
    """What torch.`path` is, "nn.Linear" say.

    Raises:
        AttributeError: facula lacks it.
    """
    value: Any = space("")
    for part in path.split(".") if path else []:
        value = getattr(value, part)
    return value


class _Loader:
    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        return space(spec.name[6:])

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        pass

    @staticmethod
    def is_package(fullname: str) -> bool:
        return True

    @staticmethod
    def get_code(fullname: str) -> Any:  # what runpy asks for
        raise ImportError(f"{fullname} is facula's; there is no program of that name to run")


def spec_of(fullname: str) -> ModuleSpec:
    """The spec of a namespace, "torch.nn" say."""
    origin = os.path.join(SITE, "torch", "__init__.py")
    spec = ModuleSpec(fullname, _Loader, origin=origin, is_package=True)  # type: ignore[arg-type]
    spec.has_location = fullname == "torch"
    return spec


class Namespace(ModuleType):
    """torch, or a namespace below it. What a program sets on it stays here, not in facula."""

    def __init__(self, path: str) -> None:
        name = "torch." + path if path else "torch"
        super().__init__(name, f"{name}, as facula has it; see docs/users.md.")
        self.__spec__ = spec_of(name)
        self.__loader__ = self.__spec__.loader
        self.__package__ = name
        self.__path__: list[str] = []
        if not path:
            self.__file__ = self.__spec__.origin
        _held(self)["_path"] = path
        _held(self)["_modules"] = list(_sources(path))

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """All public names, for programs that go through them, `vars(torch.distributions)` say."""
        held = _held(self)
        if not held.get("_whole"):
            held["_whole"] = True
            for name in {n for module in held["_modules"] for n in dir(module)}:
                if name[:1] != "_" and name not in held:
                    with contextlib.suppress(AttributeError, ImportError):
                        value = self._own(name)
                        if value is not _MISSING:  # no namespaces, which would all be imported
                            held[name] = value
        return held

    def _own(self, name: str) -> Any:
        modules = _held(self)["_modules"]
        first = [m for m in modules if name in getattr(m, "FIRST", ())]
        found = (_public(module, name) for module in first or modules)
        return next((value for value in found if value is not _MISSING), _MISSING)

    def __getattr__(self, name: str) -> Any:
        path, modules = _held(self)["_path"], _held(self)["_modules"]
        inner = f"{path}.{name}" if path else name
        if name == "__all__":
            return _all_of(modules)
        if name == "torch":  # what torch's files import at their top is theirs too
            return space("")
        if name[:2] != "__" or any(name in getattr(m, "FIRST", ()) for m in modules):
            value = self._own(name)
            if value is not _MISSING:
                _held(self)[name] = value  # the next use does not come here
                return value
        if (name[:2] != "__" or name == "__config__") and exists(inner):
            return importlib.import_module("torch." + inner) if importable else space(inner)
        raise AttributeError(lacking(inner), name=name, obj=self)

    def __dir__(self) -> list[str]:
        names = set(_held(self))
        for module in _held(self)["_modules"]:
            names.update(getattr(module, "FIRST", ()))
            for name in dir(module):
                if isinstance(getattr(module, name, None), ModuleType):
                    if name[0] != "_" and exists(f"{_held(self)['_path']}.{name}".lstrip(".")):
                        names.add(name)
                elif name[:2] != "__" and _public(module, name) is not _MISSING:
                    names.add(name)
        return sorted(names - {"FIRST"})

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


def _public(module: ModuleType, name: str) -> Any:
    """What `module` offers under a name; private names are those of classes torch has too."""
    value = getattr(module, name, _MISSING)
    if isinstance(value, (ModuleType, __future__._Feature)):
        return _MISSING
    ours = module.__name__.startswith("facula.as_torch.")
    if name[:1] == "_" and not (ours or (isinstance(value, type) and value.__name__ == name)):
        return _MISSING
    return value


def _all_of(modules: list[ModuleType]) -> list[str]:
    names: set[str] = set()
    for module in modules:
        listed = getattr(module, "__all__", None)
        names.update(n for n in dir(module) if n[0] != "_") if listed is None else names.update(
            n for n in listed if n[:1] != "_"
        )
    return sorted(n for n in names if any(_public(m, n) is not _MISSING for m in modules))
