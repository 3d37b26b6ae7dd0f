"""Which names a file may say, and what they are here: torch's mean facula's."""

from __future__ import annotations

import importlib
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import facula
from facula.serialization import _numpy, _values
from facula.serialization._machine import Malformed
from facula.serialization._rebuild import Rebuild, attributes, set_attributes
from facula.utils._safetensors import FormatError

__all__ = [
    "STORAGES",
    "Globals",
    "RefusedGlobal",
    "StorageType",
    "add_safe_globals",
    "clear_safe_globals",
    "counterpart",
    "get_safe_globals",
    "safe_globals",
]

# What torch calls the storage of a dtype; those that it has added since have no name of their own.
STORAGES = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexDouble": "complex128",
    "ComplexFloat": "complex64",
}
# Types that stand for themselves: what is no call of code.
_PLAIN = (bool, dict, float, int, list, str, tuple)
# What else a `defaultdict` makes.
_MADE = (set, frozenset, bytes, bytearray, complex, deque, Counter, OrderedDict)


class RefusedGlobal(FormatError, pickle.UnpicklingError):
    """A file names what it may not name."""

    __module__ = "facula.serialization"


class StorageType:
    """What a file calls a storage's type: its dtype, or None for bytes."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


# ---- what callers allow


_allowed: dict[str, Any] = {}


def _entries(items: Iterable[Any]) -> dict[str, Any]:
    entries = {}
    for item in items:
        named = isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], str)
        value, name = item if named else (item, None)
        if not callable(value):
            raise TypeError(
                f"safe globals are classes and functions, or pairs of one and its name in files; "
                f"got a {type(value).__name__}"
            )
        entries[name or f"{value.__module__}.{value.__qualname__}"] = value
    return entries


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let files that are loaded with `weights_only=True` name these classes and functions.

    Args:
        safe_globals: classes and functions, or pairs (class or function, "module.name"): the name
            by which files know it. Files can then make such objects, set their attributes, and call
            them with any arguments.

    Raises:
        TypeError: one of them is no class or function.
    """
    _allowed.update(_entries(safe_globals))


def get_safe_globals() -> list[Any]:
    """The classes and functions that were added, as they were given."""
    return [
        value if name == f"{value.__module__}.{value.__qualname__}" else (value, name)
        for name, value in _allowed.items()
    ]


def clear_safe_globals() -> None:
    """Forget all that `add_safe_globals` has added."""
    _allowed.clear()


class safe_globals:
    """`with safe_globals([Config]): load(path)`: add for a while, see `add_safe_globals`."""

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self._entries = _entries(safe_globals)

    def __enter__(self) -> None:
        self._before = dict(_allowed)
        _allowed.update(self._entries)

    def __exit__(self, *_: Any) -> None:
        _allowed.clear()
        _allowed.update(self._before)


# ---- torch's classes that are here


# Functions that torch shows in `nn.functional` and pickles by where they are compiled.
_COMPILED = "torch._C._nn."


def counterpart(name: str) -> Any:
    """What facula has under a name of torch's, or None: "torch.nn.modules.linear.Linear"."""
    if name.startswith(_COMPILED):
        name = "torch.nn.functional." + name.removeprefix(_COMPILED)
    path = name.split(".")
    if path[0] != "torch" or len(path) < 3 or path[1] not in ("nn", "optim"):
        return None
    for depth in range(len(path) - 1, 1, -1):
        # Where it is in torch, or what one of the packages above shows.
        try:
            module = importlib.import_module(".".join(["facula", *path[1:depth]]))
        except ImportError:
            continue
        value = getattr(module, path[-1], None)
        if callable(value):
            return value
    return None


class Globals:
    """The names that one file may say, for `Machine`.

    Args:
        rebuild: makes tensors of the file's storages.
        path: of the file, for errors.
    """

    def __init__(self, rebuild: Rebuild, path: str) -> None:
        self.rebuild, self.path = rebuild, path
        # By name: the value, and what a call of it does, if it may be called.
        self.table = _table(rebuild)
        self.calls: dict[int, tuple[Any, Callable[..., Any]]] = {}
        self.classes: dict[int, Any] = {}

    def find(self, module: str, name: str) -> Any:
        full = f"{module}.{name}".replace("numpy.core.", "numpy._core.")
        entry = self.table.get(full)
        if entry is not None:
            value, call = entry
            if call is not None:
                self.calls[id(value)] = value, call
            return value
        value = self._type_of_torch(module, name)
        if value is not None:
            return value
        if full.startswith("numpy."):
            value, call = _numpy.find(full, self.rebuild)
            if value is not None:
                self.calls[id(value)] = value, call
                return value
        result = _values.find(full)
        if result is not None:
            self.calls[id(result[0])] = result
            return result[0]
        value = self._allowed(full)
        if value is None:
            raise self._refused(full)
        self.calls[id(value)] = value, value
        if isinstance(value, type):
            self.classes[id(value)] = value
        return value

    @staticmethod
    def _allowed(full: str) -> Any:
        value = _allowed.get(full)
        if value is None and full.startswith("torch."):
            # Who allows facula's class allows it under torch's name.
            mine = counterpart(full)
            if any(mine is value for value in _allowed.values()):
                return mine
        return value

    def _type_of_torch(self, module: str, name: str) -> Any:
        if module not in ("torch", "torch.cuda", "torch.storage"):
            return None
        for ending in ("Storage", "Tensor"):
            dtype = STORAGES.get(name.removesuffix(ending))
            if name.endswith(ending) and dtype is not None:
                return StorageType(getattr(facula, dtype))
        # Not getattr: that may load the package of a device.
        value = vars(facula).get(name)
        kinds = (facula.dtype, facula.layout, facula.memory_format)
        return value if module == "torch" and isinstance(value, kinds) else None

    def takes(self, module: str, name: str) -> bool:
        """Whether a file may say the name, as things are."""
        try:
            self.find(module, name)
        except FormatError:
            return False
        return True

    def _refused(self, full: str) -> RefusedGlobal:
        start = f"load(): {self.path!r} needs the global {full!r}"
        if full.startswith("torch.") and counterpart(full) is None:
            return RefusedGlobal(f"{start}, which facula does not have")
        mine = "facula" + full[5:] if full.startswith("torch.") else full
        return RefusedGlobal(
            f"{start}, which is not among those that a file may name. If you trust the file, allow "
            f"it: facula.serialization.add_safe_globals([{mine}]) or, for a while, "
            f"`with facula.serialization.safe_globals([{mine}])`; weights_only=False allows any, "
            "and lets the file run code"
        )

    # ---- what the machine asks

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        entry = self.calls.get(id(function))
        if entry is None:
            raise Malformed(f"its pickle calls a {type(function).__name__}")
        return entry[1](*args)

    def make(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if id(cls) not in self.classes and not (_values.makes(cls) and not args and not kwargs):
            what = getattr(cls, "__qualname__", type(cls).__name__)
            raise Malformed(f"its pickle makes a {what}, of which none can be made")
        return cls.__new__(cls, *args, **kwargs)

    def fills(self, value: Any) -> bool:
        """Whether the pickle may put items into a value: those of allowed classes."""
        return id(type(value)) in self.classes

    def build(self, value: Any, state: Any) -> None:
        if self.fills(value):
            _set_state(value, state)
        elif type(value) is OrderedDict and isinstance(state, dict):
            value.__dict__.update(attributes(state))
        elif isinstance(value, facula.Tensor):
            set_attributes(value, state)
        elif not _numpy.build(value, state) and not _values.build(value, state, attributes):
            raise Malformed(f"its pickle sets the state of a {type(value).__name__}")


def _set_state(value: Any, state: Any) -> None:
    """As `pickle` does it."""
    if hasattr(value, "__setstate__"):
        value.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        value.__dict__.update(attributes(state))
    for name, entry in attributes(slots or {}).items():
        setattr(value, name, entry)


# ---- what every file may say


def _default_dict(factory: Any = None, *items: Any) -> Any:
    if items or (factory is not None and not any(factory is t for t in (*_PLAIN, *_MADE))):
        raise Malformed("its pickle has a defaultdict of something else than a plain type")
    return defaultdict(factory)


def _byte_array(*args: Any) -> bytearray:
    if args and not (isinstance(args[0], bytes) or (isinstance(args[0], str) and len(args) == 2)):
        raise Malformed("its pickle has a bytearray of something else than bytes")
    return (
        bytearray(args[0] if isinstance(args[0], bytes) else _encode(*args))
        if args
        else bytearray()
    )


def _no_bytes(*args: Any) -> bytes:
    if args:
        raise Malformed("its pickle has bytes made of something else than a text")
    return b""


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise Malformed("its pickle has bytes in an encoding other than latin1")
    return text.encode("latin1")


def _complex(*args: Any) -> complex:
    if len(args) != 2 or not all(type(n) in (int, float) for n in args):
        raise Malformed("its pickle has a complex number of something else than two numbers")
    return complex(*args)


def _layout(name: Any) -> Any:
    layout = vars(facula).get(str(name).removeprefix("torch."))
    if not isinstance(layout, facula.layout):
        raise Malformed(f"it has the layout {name!r}, which facula does not have")
    return layout


def _device(*args: Any) -> Any:
    if not all(type(a) in (str, int) for a in args):
        raise Malformed("its pickle has a device of something else than a name and a number")
    return facula.device(*args)


def _table(rebuild: Rebuild) -> dict[str, tuple[Any, Callable[..., Any] | None]]:
    def copied(cls: type) -> Callable[..., Any]:
        """A container of the items of another: who copies one often must not fill the memory."""

        def call(*items: Any) -> Any:
            if not items:
                return cls()
            if len(items) > 1 or not isinstance(items[0], (list, tuple, dict, set)):
                raise Malformed(f"its pickle has a {cls.__name__} of something else than items")
            rebuild.spend(64 * len(items[0]))
            return cls(*items)

        return call

    def size(*items: Any) -> Any:
        numbers = items[0] if items else ()
        if len(items) > 1 or not isinstance(numbers, (list, tuple)):
            raise Malformed("its pickle has a Size of something else than numbers")
        rebuild.numbers("Size", numbers)
        return facula.Size(numbers)

    def encode(text: Any, *encoding: Any) -> bytes:
        rebuild.spend(len(text) if type(text) is str else 0)
        return _encode(text, *encoding)

    def byte_array(*args: Any) -> bytearray:
        rebuild.spend(len(args[0]) if args and isinstance(args[0], (str, bytes)) else 0)
        return _byte_array(*args)

    return {
        **_FIXED,
        "builtins.set": (set, copied(set)),
        "builtins.frozenset": (frozenset, copied(frozenset)),
        "builtins.bytearray": (bytearray, byte_array),
        "collections.OrderedDict": (OrderedDict, copied(OrderedDict)),
        "collections.Counter": (Counter, copied(Counter)),
        "_codecs.encode": (encode, encode),
        "torch.Size": (facula.Size, size),
        **rebuild.functions(),
    }


# By name: the value, and what a call of it does, if it may be called.
_FIXED: dict[str, tuple[Any, Callable[..., Any] | None]] = {
    **{f"builtins.{plain.__name__}": (plain, None) for plain in _PLAIN},
    "builtins.bytes": (bytes, _no_bytes),
    "builtins.complex": (complex, _complex),
    "collections.defaultdict": (defaultdict, _default_dict),
    "torch.device": (facula.device, _device),
    "torch.Tensor": (facula.Tensor, None),
    "torch.serialization._get_layout": (_layout, _layout),
    "torch.storage.UntypedStorage": (StorageType(None), None),
    **_values.calls(),
}
