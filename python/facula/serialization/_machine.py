"""A machine for pickles that runs no code but that of the functions it is given.

Python's own calls whatever stands on its stack, sets attributes of whatever it built and takes the
sizes in a file at their word. This one knows the opcodes of protocols 0 to 5 that data needs: it
calls, fills and sets the state of what its `Globals` allow only, and its memory is bounded by the
file's size. Source of the opcodes: Lib/pickletools.py of CPython.
"""

from __future__ import annotations

import codecs
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

__all__ = ["Machine", "walk"]

# How an opcode's argument follows it: a number of n bytes, bytes after a length of n bytes, lines.
_NONE, _NUMBER, _SIGNED, _DOUBLE, _BYTES, _LINE, _TWO_LINES = range(7)
_BARE = b"(.012NR]}abdelstu)Q\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94"
_ARGUMENTS: dict[int, tuple[int, int]] = {
    **dict.fromkeys(_BARE, (_NONE, 0)),
    **dict.fromkeys(b"Khq\x80", (_NUMBER, 1)),
    **dict.fromkeys(b"M", (_NUMBER, 2)),
    **dict.fromkeys(b"jr", (_NUMBER, 4)),
    **dict.fromkeys(b"\x95", (_NUMBER, 8)),
    **dict.fromkeys(b"J", (_SIGNED, 4)),
    **dict.fromkeys(b"G", (_DOUBLE, 8)),
    **dict.fromkeys(b"CU\x8a\x8c", (_BYTES, 1)),
    **dict.fromkeys(b"BTX\x8b", (_BYTES, 4)),
    **dict.fromkeys(b"\x8d\x8e\x96", (_BYTES, 8)),
    **dict.fromkeys(b"FILPSVgp", (_LINE, 0)),
    **dict.fromkeys(b"c", (_TWO_LINES, 0)),
}  # fmt: skip
_MOST_NESTED = 500
_MARK = object()


class Malformed(Exception):
    """What is wrong with a pickle; whoever runs the machine names the file."""


def _line(data: Any, at: int) -> tuple[bytes, int]:
    end = data.find(b"\n", at)
    if end < 0:
        raise Malformed("its pickle is cut short")
    return bytes(data[at:end]), end + 1


def decode(data: Any, at: int) -> tuple[int, Any, int]:
    """Opcode and argument at a place, and the place after it."""
    if at >= len(data):
        raise Malformed("its pickle is cut short")
    op = data[at]
    at += 1
    form = _ARGUMENTS.get(op)
    if form is None:
        raise Malformed(f"its pickle has the opcode 0x{op:02x}, which data does not need")
    kind, size = form
    if kind == _NONE:
        return op, None, at
    if kind == _LINE:
        return op, *_line(data, at)
    if kind == _TWO_LINES:
        first, at = _line(data, at)
        second, at = _line(data, at)
        return op, (first, second), at
    raw, at = data[at : at + size], at + size
    if len(raw) != size:
        raise Malformed("its pickle is cut short")
    if kind == _DOUBLE:
        return op, struct.unpack(">d", raw)[0], at
    number = int.from_bytes(raw, "little", signed=kind == _SIGNED)
    if kind != _BYTES:
        return op, number, at
    if number > len(data) - at:
        raise Malformed(f"its pickle has an item of {number} bytes and ends before")
    return op, bytes(data[at : at + number]), at + number


def walk(data: Any, at: int = 0) -> Iterator[tuple[int, Any, int]]:
    """All opcodes of one pickle with their arguments and the places after them."""
    op = -1
    while op != ord("."):
        op, argument, at = decode(data, at)
        yield op, argument, at


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
        data: bytes, bytearray or mmap. at: where in it the pickle starts.
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
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.protocol = 0
        # Tuples of tuples: Python's hash of them takes as much of the C stack as they are deep.
        self.depths: dict[int, tuple[Any, int]] = {}

    def run(self) -> Any:
        """What the pickle describes; `at` is then the place after it."""
        data, ops, at = self.data, _OPS, self.at
        try:
            while True:
                op, argument, at = decode(data, at)
                if op == 0x2E:  # STOP
                    self.at = at
                    return self.pop()
                ops[op](self, argument)
        except (IndexError, KeyError) as error:
            raise Malformed(f"its pickle takes what it has not put ({error})") from error

    # ---- the stack

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise Malformed("its pickle takes a mark for a value")
        return value

    def top(self) -> Any:
        value = self.stack[-1]
        if value is _MARK:
            raise Malformed("its pickle takes a mark for a value")
        return value

    def pop_mark(self) -> list[Any]:
        stack = self.stack
        for i in range(len(stack) - 1, -1, -1):
            if stack[i] is _MARK:
                items = stack[i + 1 :]
                del stack[i:]
                return items
        raise Malformed("its pickle lacks a mark")

    def tuple(self, items: Any) -> tuple[Any, ...]:
        return self.nested(tuple(items))

    def nested(self, value: Any) -> Any:
        """Note how deep a tuple is."""
        if isinstance(value, tuple):
            inner = [x for x in value if isinstance(x, tuple)]
            if inner:
                depth = 1 + max(self.depths.get(id(x), (x, 1))[1] for x in inner)
                if depth > _MOST_NESTED:
                    raise Malformed(f"its tuples are nested more than {_MOST_NESTED} deep")
                self.depths[id(value)] = value, depth
        return value

    # ---- opcodes

    def _nothing(self, _: Any) -> None:
        pass

    def _proto(self, number: int) -> None:
        if number > 5:
            raise Malformed(f"its pickle has protocol {number}, this program reads 0 to 5")
        self.protocol = number

    def _long_line(self, raw: bytes) -> None:
        if raw in (b"00", b"01"):
            self.push(raw == b"01")
        else:
            self.push(int(raw.rstrip(b"L")))

    def _text(self, raw: bytes) -> None:
        self.push(raw.decode("utf-8", "surrogatepass"))

    def _string(self, raw: bytes) -> None:
        self.push(raw if self.encoding == "bytes" else raw.decode(self.encoding))

    def _quoted(self, raw: bytes) -> None:
        if len(raw) < 2 or raw[:1] != raw[-1:] or raw[:1] not in (b"'", b'"'):
            raise Malformed("its pickle has a string without quotes")
        self._string(codecs.escape_decode(raw[1:-1])[0])  # type: ignore[attr-defined]

    def _put(self, index: int) -> None:
        self.memo[index] = self.top()

    def _pop_top(self, _: Any) -> None:
        self.stack.pop()

    def _take(self, count: int) -> list[Any]:
        return [self.pop() for _ in range(count)][::-1]

    def _append(self, _: Any) -> None:
        self._extend([self.pop()])

    def _extend(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) not in (list, deque) and not (
            self.names.fills(target) and hasattr(target, "extend")
        ):
            raise Malformed(f"its pickle appends to a {type(target).__name__}")
        target.extend(items)

    def _fill(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) not in (dict, OrderedDict, Counter, defaultdict) and not (
            self.names.fills(target) and hasattr(target, "__setitem__")
        ):
            raise Malformed(f"its pickle sets items of a {type(target).__name__}")
        if len(items) % 2:
            raise Malformed("its pickle has a key without a value")
        for i in range(0, len(items), 2):
            target[items[i]] = items[i + 1]

    def _dict(self, _: Any) -> None:
        items = self.pop_mark()
        self.push({})
        self._fill(items)

    def _add_items(self, _: Any) -> None:
        items, target = self.pop_mark(), self.top()
        if type(target) is not set:
            raise Malformed(f"its pickle adds members to a {type(target).__name__}")
        target.update(items)

    def _global(self, names: tuple[bytes, bytes]) -> None:
        self._find(names[0].decode("utf-8"), names[1].decode("utf-8"))

    def _stack_global(self, _: Any) -> None:
        module, name = self._take(2)
        if type(module) is not str or type(name) is not str:
            raise Malformed("its pickle has a global whose name is no text")
        self._find(module, name)

    def _find(self, module: str, name: str) -> None:
        if self.protocol < 3:
            import _compat_pickle as old

            if (module, name) in old.NAME_MAPPING:
                module, name = old.NAME_MAPPING[module, name]
            else:
                module = old.IMPORT_MAPPING.get(module, module)
        self.push(self.names.find(module, name))

    def _reduce(self, _: Any) -> None:
        function, args = self._take(2)
        if type(args) is not tuple:
            raise Malformed(f"its pickle calls with a {type(args).__name__} as arguments")
        self.push(self.nested(self.names.call(function, args)))

    def _new(self, _: Any) -> None:
        cls, args = self._take(2)
        self._make(cls, args, {})

    def _new_ex(self, _: Any) -> None:
        self._make(*self._take(3))

    def _make(self, cls: Any, args: Any, kwargs: Any) -> None:
        if type(args) is not tuple or type(kwargs) is not dict:
            raise Malformed(f"its pickle makes an object of a {type(args).__name__}")
        self.push(self.nested(self.names.make(cls, args, kwargs)))

    def _build(self, _: Any) -> None:
        state = self.pop()
        self.names.build(self.top(), state)

    def _persistent_line(self, raw: bytes) -> None:
        self._persist(raw.decode("ascii"))

    def _persistent_top(self, _: Any) -> None:
        self._persist(self.pop())

    def _persist(self, key: Any) -> None:
        if self.persistent is None:
            raise Malformed("its pickle has a persistent id where none is expected")
        self.push(self.persistent(key))

    def _long(self, raw: bytes) -> None:
        self.push(int.from_bytes(raw, "little", signed=True))


_OPS: dict[int, Callable[[Any, Any], None]] = {
    ord("("): lambda m, _: m.push(_MARK),
    ord("0"): Machine._pop_top,
    ord("1"): lambda m, _: m.pop_mark() and None,
    ord("2"): lambda m, _: m.push(m.top()),
    ord("N"): lambda m, _: m.push(None),
    0x88: lambda m, _: m.push(True),
    0x89: lambda m, _: m.push(False),
    **dict.fromkeys(b"JKMG", lambda m, number: m.push(number)),
    0x8A: Machine._long, 0x8B: Machine._long,
    ord("I"): Machine._long_line, ord("L"): Machine._long_line,
    ord("F"): lambda m, raw: m.push(float(raw)),
    **dict.fromkeys(b"X\x8c\x8d", Machine._text),
    ord("V"): lambda m, raw: m.push(raw.decode("raw-unicode-escape")),
    ord("T"): Machine._string, ord("U"): Machine._string, ord("S"): Machine._quoted,
    **dict.fromkeys(b"BC\x8e", lambda m, raw: m.push(raw)),
    0x96: lambda m, raw: m.push(bytearray(raw)),
    ord("]"): lambda m, _: m.push([]),
    ord("}"): lambda m, _: m.push({}),
    ord(")"): lambda m, _: m.push(()),
    0x8F: lambda m, _: m.push(set()),
    ord("t"): lambda m, _: m.push(m.tuple(m.pop_mark())),
    0x85: lambda m, _: m.push(m.tuple(m._take(1))),
    0x86: lambda m, _: m.push(m.tuple(m._take(2))),
    0x87: lambda m, _: m.push(m.tuple(m._take(3))),
    ord("l"): lambda m, _: m.push(m.pop_mark()),
    0x91: lambda m, _: m.push(frozenset(m.pop_mark())),
    ord("d"): Machine._dict,
    ord("a"): Machine._append,
    ord("e"): lambda m, _: m._extend(m.pop_mark()),
    ord("s"): lambda m, _: m._fill(m._take(2)),
    ord("u"): lambda m, _: m._fill(m.pop_mark()),
    0x90: Machine._add_items,
    ord("c"): Machine._global, 0x93: Machine._stack_global,
    ord("R"): Machine._reduce, 0x81: Machine._new, 0x92: Machine._new_ex, ord("b"): Machine._build,
    ord("g"): lambda m, raw: m.push(m.memo[int(raw)]),
    **dict.fromkeys(b"hj", lambda m, index: m.push(m.memo[index])),
    ord("p"): lambda m, raw: m._put(int(raw)),
    **dict.fromkeys(b"qr", Machine._put),
    0x94: lambda m, _: m._put(len(m.memo)),
    ord("P"): Machine._persistent_line, ord("Q"): Machine._persistent_top,
    0x80: Machine._proto, 0x95: Machine._nothing,
}  # fmt: skip
