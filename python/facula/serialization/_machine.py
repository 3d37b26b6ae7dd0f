"""Runs pickles by a machine that calls, fills and changes only what its `Globals` allow.

It is compiled (runtime/bindings/files/pickle.cpp): a state dict has some 30 opcodes a tensor.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any, Protocol

from facula import _C

__all__ = ["Globals", "Machine", "Malformed"]

_FEW = 1 << 16  # bytes that are looked through first


class Malformed(Exception):
    """What is wrong with a pickle; whoever runs the machine names the file."""


class Globals(Protocol):
    """What a pickle may name, call, make and change."""

    def find(self, module: str, name: str) -> Any: ...
    def call(self, function: Any, args: tuple[Any, ...]) -> Any: ...
    def make(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def build(self, value: Any, state: Any) -> None: ...
    def fills(self, value: Any) -> bool: ...


class Machine:
    """Runs one pickle.

    Args:
        data: bytes, bytearray or mmap, or what gives slices of a file as bytes.
        at: where in it the pickle starts; after `run`, the place after it.
        persistent: gives what a persistent id stands for.
        encoding: of Python 2's strings; "bytes" leaves them bytes.
    """

    def __init__(
        self,
        data: Any,
        at: int,
        names: Globals,
        persistent: Callable[[Any], Any] | None = None,
        encoding: str = "utf-8",
    ) -> None:
        self.data, self.at, self.names = data, at, names
        self.persistent, self.encoding = persistent, encoding

    def run(self) -> Any:
        """What the pickle describes.

        Raises:
            Malformed: it is cut short, or does what data does not need.
        """
        data, start = self.data, 0
        if not isinstance(data, (bytes, bytearray, mmap.mmap)):
            data, start = self._read(), self.at
        if self.at > len(self.data):
            raise Malformed("its pickle is cut short")
        value, end = _C._run_pickle(
            data, self.at - start, self.names, self._find, self.persistent, self.encoding, Malformed
        )
        self.at = start + end
        return value

    def _read(self) -> bytes:
        """The bytes of the file from the pickle's first to its last, or to the file's."""
        size = _FEW
        while True:
            data = bytes(self.data[self.at : self.at + size])
            if _C._pickle_end(data, 0) >= 0 or self.at + size >= len(self.data):
                return data
            size *= 8

    def _find(self, module: str, name: str, protocol: int) -> Any:
        if protocol < 3:
            import _compat_pickle as old

            if (module, name) in old.NAME_MAPPING:
                module, name = old.NAME_MAPPING[module, name]
            else:
                module = old.IMPORT_MAPPING.get(module, module)
        return self.names.find(module, name)
