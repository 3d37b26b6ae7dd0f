"""Values while a graph is written as ONNX: tensors that are known, and wires between nodes."""

from __future__ import annotations

from typing import Any

import facula

Writer = Any  # `_writer.Writer`, which stands above

__all__ = ["Dim", "Held", "Wire"]


class Wire:
    """The result of a node of ONNX, by its name; arithmetic makes further nodes.

    Numbers in it become constants of the wire's dtype.
    """

    def __init__(self, writer: Writer, name: str, dtype: Any) -> None:
        self.writer, self.name, self.dtype = writer, name, dtype

    def _with(self, kind: str, other: Any, reflected: bool = False) -> Wire:
        if not isinstance(other, (Wire, Held)):
            other = self.writer.number(other, self)
        inputs = (other, self) if reflected else (self, other)
        made: Wire = self.writer.node(kind, *inputs)
        return made

    def __neg__(self) -> Wire:
        made: Wire = self.writer.node("Neg", self)
        return made


def _sign(kind: str, reflected: bool = False) -> Any:
    return lambda self, other: self._with(kind, other, reflected)


for _name, _kind in {
    "add": "Add", "sub": "Sub", "mul": "Mul", "truediv": "Div", "pow": "Pow", "matmul": "MatMul",
}.items():  # fmt: skip
    setattr(Wire, f"__{_name}__", _sign(_kind))
    setattr(Wire, f"__r{_name}__", _sign(_kind, True))
for _name, _kind in {
    "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
}.items():  # fmt: skip
    setattr(Wire, f"__{_name}__", _sign(_kind))


class Dim(int):
    """A size of the example that another input may have otherwise; `wire` computes it."""

    wire: Wire

    @staticmethod
    def of(value: int, wire: Wire) -> Dim:
        """A size that a wire, a scalar of int64, computes."""
        made = Dim(value)
        made.wire = wire
        return made

    def _with(self, kind: str, value: int, other: Any, reflected: bool) -> Any:
        if type(other) not in (int, Dim):
            return NotImplemented
        there = other.wire if isinstance(other, Dim) else self.wire.writer.number(int(other), None)
        inputs = (there, self.wire) if reflected else (self.wire, there)
        return Dim.of(value, self.wire.writer.node(kind, *inputs))

    def __neg__(self) -> Any:
        return Dim.of(-int(self), -self.wire)


def _dim_sign(name: str, kind: str, reflected: bool) -> Any:
    magic = f"__{'r' if reflected else ''}{name}__"

    def method(self: Dim, other: Any) -> Any:
        value = getattr(int, magic)(int(self), int(other) if type(other) is Dim else other)
        if type(value) is not int:
            return value
        return self._with(kind, value, other, reflected)

    return method


for _name, _kind in {"add": "Add", "sub": "Sub", "mul": "Mul", "floordiv": "Div"}.items():
    setattr(Dim, f"__{_name}__", _dim_sign(_name, _kind, False))
    setattr(Dim, f"__r{_name}__", _dim_sign(_name, _kind, True))


class Held:
    """A tensor of the program with its value for the example inputs.

    `depends` says whether it comes from the inputs; else it is a constant. Methods are the
    operators of tensors, written as ONNX in turn.
    """

    def __init__(self, writer: Writer, value: Any, name: str | None = None) -> None:
        self.writer, self.value, self._name = writer, value, name
        self.depends = name is not None

    @property
    def name(self) -> str:
        """Its name in the model; a constant becomes an initializer when it is asked for."""
        if self._name is None:
            self._name = self.writer.initializer(self.value)
        return self._name

    dtype = property(lambda self: self.value.dtype)
    device = property(lambda self: self.value.device)
    ndim = property(lambda self: self.value.ndim)
    is_bool = property(lambda self: self.value.dtype == facula.bool)

    @property
    def shape(self) -> list[int]:
        """The sizes, those that may differ as Dim."""
        return [self.size(i) for i in range(self.ndim)]

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            return self.shape
        if not -self.ndim <= dim < self.ndim:
            raise self.writer.unsupported(f"a tensor of {self.ndim} dims has no dim {dim} in ONNX")
        value = int(self.value.shape[dim])
        if not (self.depends and self.writer.any_dynamic):
            return value
        at = dim % self.ndim
        return Dim.of(value, self.writer.size_of(self, at))

    def dim(self) -> int:
        return int(self.value.ndim)

    def numel(self) -> Any:
        count: Any = 1
        for n in self.shape:
            count = count * n
        return count

    def is_complex(self) -> bool:
        return bool(self.value.is_complex())

    def is_floating_point(self) -> bool:
        return bool(self.value.is_floating_point())

    def is_contiguous(self, *args: Any, **kwargs: Any) -> bool:
        return bool(self.value.is_contiguous())

    def item(self) -> Any:
        if self.depends:
            raise self.writer.unsupported("a value of a tensor is read, which ONNX's graphs cannot")
        return self.value.item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.writer.call(name, (self, *args), kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self.writer.item(self, key)

    def _operator(self, magic: str, other: Any) -> Any:
        name = _OPERATORS[magic.replace("r", "", 1) if magic in _REFLECTED else magic]
        args = (other, self) if magic in _REFLECTED else (self, other)
        return self.writer.call(name, args, {})

    def __neg__(self) -> Any:
        return self.writer.call("neg", (self,), {})

    def __invert__(self) -> Any:
        return self.writer.call("bitwise_not", (self,), {})

    __hash__ = object.__hash__


#: Methods of tensors that stand for Python's operators.
_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow", "matmul": "matmul",
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "mod": "remainder", "floordiv": "floor_divide",
}  # fmt: skip
_REFLECTED = {"r" + n for n in ("add", "sub", "mul", "truediv", "pow", "matmul", "and", "or")}


def _method(magic: str) -> Any:
    return lambda self, other: self._operator(magic, other)


for _name in [*_OPERATORS, *sorted(_REFLECTED)]:
    setattr(Held, f"__{_name}__", _method(_name))
