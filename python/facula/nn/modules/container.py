"""Modules that hold modules or parameters by position or by name."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import facula
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = [
    "Container",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]

MOST_LAYERS = 1 << 16  # that one constructor makes


def _position(index: Any, length: int) -> int:
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range for {length} entries")
    return index % length


class Container(Module):
    """Modules by name, as the first torch had them; `ModuleDict` is what is meant today."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn(
            "nn.Container is deprecated. All of its functionality is now implemented in nn.Module; "
            "subclass that instead",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Positions(Module):
    """Children under the names "0", "1", ..., which stay consecutive."""

    def _renumber(self, modules: Iterable[Any]) -> None:
        self._modules.clear()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, idx: int | slice) -> Any:
        values = list(self._modules.values())
        if isinstance(idx, slice):
            return type(self)(*values[idx])
        return values[_position(idx, len(values))]

    def __setitem__(self, idx: int, module: Module) -> None:
        key = list(self._modules)[_position(idx, len(self))]
        setattr(self, key, module)

    def __delitem__(self, idx: int | slice) -> None:
        keys = list(self._modules)
        gone = keys[idx] if isinstance(idx, slice) else [keys[_position(idx, len(keys))]]
        doomed = set(gone)
        self._renumber([m for k, m in self._modules.items() if k not in doomed])

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def pop(self, key: int | slice) -> Any:
        """Remove and return the child at `key`."""
        found = self[key]
        del self[key]
        return found

    def insert(self, index: int, module: Module) -> Any:
        """Put `module` before position `index`."""
        if not isinstance(module, Module):
            raise TypeError(f"insert(): module is {type(module).__name__}, expected a Module")
        values = list(self._modules.values())
        values.insert(index, module)
        self._renumber(values)
        return self

    def append(self, module: Module) -> Any:
        """Add `module` at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add all of `modules` at the end."""
        for module in list(modules):
            self.append(module)
        return self


class Sequential(_Positions):
    """Feeds each child's result to the next.

    Args:
        *args: modules, or one ordered dictionary from name to module.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(dict(list(self._modules.items())[idx]))
        return super().__getitem__(idx)

    def __delitem__(self, idx: int | slice) -> None:
        keys = list(self._modules)
        numbered = keys == [str(i) for i in range(len(keys))]
        if numbered:
            super().__delitem__(idx)
            return
        doomed = keys[idx] if isinstance(idx, slice) else [keys[_position(idx, len(keys))]]
        for key in doomed:
            delattr(self, key)

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            return NotImplemented
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            return NotImplemented
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        if operator.index(times) <= 0:
            raise ValueError(f"times is {times}, expected a positive integer")
        return Sequential(*(m for _ in range(times) for m in self))

    __rmul__ = __mul__

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Positions):
    """A list of modules; it has no `forward` of its own."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return super().__getitem__(idx)

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        # Runs of equal children are printed once, as torch does.
        runs: list[tuple[int, int, str]] = []
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        if not runs:
            return f"{self._get_name()}()"
        lines = []
        for first, last, text in runs:
            head = f"({first})" if first == last else f"({first}-{last})"
            count = "" if first == last else f"{last - first + 1} x "
            lines.append(f"{head}: {count}{text}".replace("\n", "\n  "))
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class _Names:
    """Mapping methods shared by the two dictionaries."""

    def _entries(self) -> dict[str, Any]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._entries())

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def __contains__(self, key: object) -> bool:
        return key in self._entries()

    def __delitem__(self, key: str) -> None:
        del self._entries()[key]

    def __getitem__(self, key: str) -> Any:
        return self._entries()[key]

    def clear(self) -> None:
        """Remove all entries."""
        self._entries().clear()

    def pop(self, key: str) -> Any:
        """Remove and return the entry `key`."""
        return self._entries().pop(key)

    def keys(self) -> Any:
        """The names."""
        return self._entries().keys()

    def values(self) -> Any:
        """The entries."""
        return self._entries().values()

    def items(self) -> Any:
        """(name, entry) pairs."""
        return self._entries().items()

    def _update(self, entries: Any) -> None:
        pairs = entries.items() if hasattr(entries, "items") else entries
        for key, value in list(pairs):
            self[key] = value  # type: ignore[index]


class ModuleDict(_Names, Module):
    """A dictionary of modules in insertion order."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def update(self, modules: Any) -> None:
        """Add or replace entries from a mapping or from (name, entry) pairs."""
        self._update(modules)

    def _entries(self) -> dict[str, Any]:
        return self._modules

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)


def _describe(value: Any) -> str:
    if isinstance(value, facula.Tensor):
        kind = "Parameter" if isinstance(value, Parameter) else type(value).__name__
        return f"{kind} containing: [{value.dtype} of size {'x'.join(map(str, value.shape))}]"
    return f"Object of type: {type(value).__name__}"


class ParameterList(Module):
    """A list of parameters; plain tensors put into it become parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, str(i)) for i in range(self._size))

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return getattr(self, str(_position(idx, self._size)))

    def __setitem__(self, idx: int, param: Any) -> None:
        if isinstance(param, facula.Tensor) and not isinstance(param, Parameter):
            param = Parameter(param)
        setattr(self, str(_position(idx, self._size)), param)

    def append(self, value: Any) -> ParameterList:
        """Add `value` at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add all of `values` at the end."""
        for value in list(values):
            self.append(value)
        return self

    __iadd__ = extend

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_describe(v)}" for i, v in enumerate(self))


class ParameterDict(_Names, Module):
    """A dictionary of parameters; plain tensors put into it become parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def update(self, parameters: Any) -> None:
        """Add or replace entries from a mapping or from (name, entry) pairs."""
        self._update(parameters)

    def _entries(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in self._keys}

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if isinstance(value, facula.Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        if key not in self._keys:
            self._check_name("parameter", key, {})
        self._keys[key] = None
        setattr(self, key, value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def pop(self, key: str) -> Any:
        found = self[key]
        del self[key]
        return found

    def clear(self) -> None:
        for key in list(self._keys):
            del self[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The entry, or `default`."""
        return self[key] if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The entry; if there is none, `default` becomes it."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the (name, entry) pair that came last."""
        if not self._keys:
            raise KeyError("popitem(): the ParameterDict is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def copy(self) -> ParameterDict:
        """Another one with the same entries."""
        return ParameterDict(self)

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new one in which each of the names has the entry `default`."""
        return ParameterDict((key, default) for key in keys)

    def __or__(self, other: ParameterDict) -> ParameterDict:
        both = self.copy()
        both.update(other)
        return both

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def extra_repr(self) -> str:
        return "\n".join(f"  ({k}): {_describe(v)}" for k, v in self.items())
