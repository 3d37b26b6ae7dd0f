"""Writing nodes of ONNX: operators by their formulas in ops.json, constants, sizes."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable
from typing import Any

import facula
from facula.export._binding import bound, with_arguments
from facula.export._formulas import Elements, evaluate
from facula.export._wires import Dim, Held, Wire
from facula.jit import _library
from facula.serialization._tree import bytes_of

__all__ = ["UnsupportedError", "Writer"]


class UnsupportedError(RuntimeError):
    """A program cannot be written as ONNX; the operator and the line that called it are named."""


class Writer:
    """The nodes and initializers of a model.

    Args:
        any_dynamic: whether sizes of inputs may differ from those of the example.
    """

    def __init__(self, any_dynamic: bool) -> None:
        import onnx

        self.onnx = onnx
        self.any_dynamic = any_dynamic
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.where = ""  # the line of the program
        self.op = ""  # the operator that is being written
        self._names: dict[str, int] = {}
        self._sizes: dict[tuple[str, int], Wire] = {}
        self._constants: dict[Any, str] = {}
        self._kept: list[Any] = []
        self.functions = {
            "number": self.number,
            "dims": _dims,
            "swapped": _swapped,
            "pads": _pads,
            "filled": self.filled,
            "prod": math.prod,
            "wrap_dim": lambda dim, n: dim % max(n, 1),
        }

    def unsupported(self, why: str) -> UnsupportedError:
        """The error for what ONNX has not."""
        where = f" ({self.where})" if self.where else ""
        return UnsupportedError(f"export.onnx(): {self.op or 'the program'}{where}: {why}")

    def fresh(self, stem: str) -> str:
        """A name that nothing in the model has."""
        number = self._names.get(stem, -1) + 1
        self._names[stem] = number
        return f"{stem}_{number}" if number else stem

    # ---- constants

    def initializer(self, tensor: Any) -> str:
        """The name of a constant."""
        key = id(tensor)
        if key not in self._constants:
            self._kept.append(tensor)
            self._constants[key] = self._initializer(tensor.detach(), "constant")
        return self._constants[key]

    def _initializer(self, tensor: Any, stem: str) -> str:
        name = self.fresh(stem)
        made = self.onnx.TensorProto()
        made.name, made.data_type = name, self.code(tensor.dtype)
        made.dims.extend(tensor.shape)
        made.raw_data = bytes(bytes_of(tensor))
        self.initializers.append(made)
        return name

    def code(self, dtype: Any) -> int:
        """ONNX's number of a dtype.

        Raises:
            UnsupportedError: it has none.
        """
        name = str(dtype).rpartition(".")[2]
        names = {"float32": "FLOAT", "float64": "DOUBLE", "float8_e4m3fn": "FLOAT8E4M3FN"}
        found = getattr(self.onnx.TensorProto, names.get(name, name.upper()), None)
        if not isinstance(found, int):
            raise self.unsupported(f"ONNX has no {dtype}")
        return found

    def number(self, value: Any, like: Any) -> Wire:
        """A number as a constant of the dtype of `like`; of int64 where that is None."""
        if isinstance(value, Dim):
            wire = value.wire
            return wire if like is None else self.node("Cast", wire, to=like.dtype)
        if isinstance(value, Held):
            return self.node("Cast", value, to=like.dtype)
        dtype = facula.int64 if like is None else like.dtype
        key = ("number", repr(value), str(dtype))
        if key not in self._constants:
            self._constants[key] = self._initializer(facula.tensor(value, dtype=dtype), "number")
        return Wire(self, self._constants[key], dtype)

    def numbers(self, values: Iterable[Any]) -> Wire:
        """A vector of int64, of numbers and sizes."""
        values = list(values)
        if not any(isinstance(v, Dim) for v in values):
            key = ("numbers", *map(int, values))
            if key not in self._constants:
                tensor = facula.tensor([int(v) for v in values], dtype=facula.int64)
                self._constants[key] = self._initializer(tensor, "numbers")
            return Wire(self, self._constants[key], facula.int64)
        parts = [self.node("Unsqueeze", self.number(v, None), [0]) for v in values]
        return self.node("Concat", parts, axis=0)

    def filled(self, value: Any, size: list[Any], like: Any) -> Any:
        """A tensor of one number."""
        return self.node("Expand", self.number(value, like), list(size))

    def size_of(self, held: Held, dim: int) -> Wire:
        """A size of a tensor, as a scalar of int64."""
        key = (held.name, dim)
        if key not in self._sizes:
            shape = self.node("Shape", held, start=dim, end=dim + 1)
            self._sizes[key] = self.node("Squeeze", shape, [0])
        return self._sizes[key]

    # ---- nodes

    def node(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Append a node; gives its result, or a list of several."""
        if kind == "Cast" and getattr(inputs[0], "dtype", None) == attributes["to"]:
            return inputs[0]
        if kind == "Transpose" and not attributes.get("perm"):  # of a scalar
            return inputs[0]
        if kind in ("IsNaN", "IsInf") and not inputs[0].dtype.is_floating_point:
            return self.node("Not", self.node("Equal", inputs[0], inputs[0]))
        if kind == "Reshape" and isinstance(inputs[1], (list, tuple)) and 0 in inputs[1]:
            attributes.setdefault("allowzero", 1)
        names: list[str] = []
        dtypes: list[Any] = []
        for given in inputs:
            if isinstance(given, (list, tuple)) and given and isinstance(given[0], (Held, Wire)):
                names += [g.name for g in given]
                dtypes += [g.dtype for g in given]
                continue
            wire = self._input(given)
            names.append("" if wire is None else wire.name)
            dtypes.append(None if wire is None else wire.dtype)
        while names and not names[-1]:
            names.pop()
        plain = {k: self._attribute(v) for k, v in attributes.items() if v is not None}
        outs = [self.fresh(kind.lower()) for _ in range(outputs)]
        made = self.onnx.helper.make_node(kind, names, outs, name=outs[0], **plain)
        if self.where:
            made.doc_string = self.where
        self.nodes.append(made)
        dtype = _dtype_of(kind, dtypes, attributes)
        others = facula.int64 if kind == "TopK" else dtype
        wires = [Wire(self, out, others if i else dtype) for i, out in enumerate(outs)]
        return wires if outputs > 1 or kind == "Split" else wires[0]

    def _input(self, given: Any) -> Any:
        if given is None or isinstance(given, (Held, Wire)):
            return given
        if isinstance(given, (list, tuple)):
            return self.numbers(given)
        if isinstance(given, int):
            return self.number(given, None)
        raise self.unsupported(f"{given!r} is no input of a node")

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, facula.dtype):
            return self.code(value)
        if isinstance(value, (list, tuple)):
            return [v if isinstance(v, str) else int(v) for v in value]
        return int(value) if isinstance(value, int) else value

    # ---- operators of facula

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator, by its name or its path in Python: values, written as ONNX on the way."""
        records = _records(name)
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        found = bound(records, args, kwargs)
        if found is None:
            raise self.unsupported(f"{name}() is no operator that takes these arguments")
        record, values = found
        outer, self.op = self.op, self.op or name
        try:
            return self._written(record, values, (args, kwargs))
        finally:
            self.op = outer

    def _written(self, record: dict[str, Any], values: dict[str, Any], given: Any) -> Any:
        function = _callable(record)
        depends = any(h.depends for h in _held(values)) or _any_dim(list(values.values()))
        if depends and any(h.dtype.is_complex for h in _held(values)):
            raise self.unsupported("ONNX's operators take no complex numbers")
        if function is None:  # what formulas alone call: its value is that of its parts
            return evaluate(self, _composite(self, record), values, self.functions)
        with facula.no_grad():
            result = _run(function, record, values)
        if not depends:
            if "random" in record.get("traits", ()) or record["kind"] == "random":
                raise self.unsupported("it draws numbers; export the module in eval mode")
            return _as_held(self, result)
        if record.get("onnx"):
            wanted = {**values, "result": _as_held(self, result)}
            try:
                wires = evaluate(self, record["onnx"], wanted, self.functions)
            except NotImplementedError as error:
                raise self.unsupported(str(error)) from None
            return self._joined(wires, result)
        if record.get("scalar"):
            return self._joined(self._elements(record, values, result), result)
        return evaluate(self, _composite(self, record), values, self.functions)

    def _joined(self, wires: Any, result: Any) -> Any:
        """Wires with their values."""
        if isinstance(result, (tuple, list)):
            pairs = zip(wires, result, strict=True)
            return [self._joined(w, r) for w, r in pairs]
        if isinstance(wires, Held):
            return wires
        wire = self.node("Cast", wires, to=result.dtype)
        return Held(self, result, wire.name)

    def _elements(self, record: dict[str, Any], values: dict[str, Any], result: Any) -> Any:
        texts = record["scalar"]
        variants = [v for v in values.values() if isinstance(v, str) and v in texts]
        text = texts.get(variants[0] if variants else "")
        if text is None or not isinstance(result, facula.Tensor):
            raise self.unsupported("its formula has several results")
        tensors = {n: v for n, v in values.items() if isinstance(v, Held)}
        masks = record.get("masks", ())
        dtype = result.dtype
        if dtype == facula.bool:
            kinds = [v.value for n, v in tensors.items() if n not in masks]
            numbers = [v for v in values.values() if type(v) in (int, float)]
            dtype = kinds[0].dtype if kinds else facula.bool
            for other in [*kinds[1:], *numbers]:
                dtype = facula.result_type(facula.empty(1, dtype=dtype), other)
            for value in kinds:
                dtype = facula.promote_types(dtype, value.dtype) if value.ndim else dtype
        tests = _tested(text)
        wires: dict[str, Any] = dict(values)
        for name, held in tensors.items():
            to = facula.bool if name in masks or name in tests else dtype
            cast = self.node("Cast", held, to=to)
            wires[name] = Wire(self, cast.name, to)
        like = Wire(self, "", dtype)
        made = Elements(self, wires, like).write(text)
        return made if isinstance(made, Wire) else self.number(made, like)

    # ---- items

    def item(self, held: Held, key: Any) -> Any:
        """`held[key]`.

        Raises:
            UnsupportedError: the key has a mask, or several tensors.
        """
        keys = list(key) if isinstance(key, tuple) else [key]
        named = sum(1 for k in keys if k is not None and k is not ...)
        if ... in [k for k in keys if not isinstance(k, Held)]:
            at = next(i for i, k in enumerate(keys) if k is ...)
            keys[at : at + 1] = [slice(None)] * (held.ndim - named)
        dim = 0
        found: Any = held
        for k in keys:
            if k is None:
                found = self.call("unsqueeze", (found, dim), {})
                dim += 1
            elif isinstance(k, slice):
                if (k.start, k.stop, k.step) != (None, None, None):
                    step = 1 if k.step is None else k.step
                    found = self.call("slice", (found, dim, k.start, k.stop, step), {})
                dim += 1
            elif isinstance(k, int) and not isinstance(k, bool):
                found = self.call("select", (found, dim, k), {})
            elif isinstance(k, Held) and not k.is_bool and self._only_tensor(keys):
                value = found.value[(slice(None),) * dim + (k.value,)]
                wire = self.node("Gather", found, k, axis=dim)
                found = Held(self, value, wire.name)
                dim += k.ndim
            else:
                raise self.unsupported("an item by a mask or by several tensors of indices")
        return found

    @staticmethod
    def _only_tensor(keys: list[Any]) -> bool:
        return sum(isinstance(k, Held) for k in keys) == 1


def _records(name: str) -> list[dict[str, Any]]:
    """The records of an operator: by path, by name, by the part of it before the dot."""
    found = _library.operator_records().get(name)
    if found:
        return found
    schema = _library.schema()
    every = [*schema["operators"], *schema["definitions"]]
    found = [with_arguments(r) for r in every if r["name"].split(".")[0] == name]
    return found or _library.operator_records().get("Tensor." + name, [])


def _callable(record: dict[str, Any]) -> Any:
    for path in sorted(record.get("python", ()), key=lambda p: p.startswith("Tensor.")):
        found = _library._at(path)
        if found is not None:
            return found
    return None


def _run(function: Any, record: dict[str, Any], values: dict[str, Any]) -> Any:
    """What an operator gives for the example."""
    named = {a["name"] for a in record["arguments"] if a.get("keyword_only")}
    args = [_plain(values[a["name"]]) for a in record["arguments"] if a["name"] not in named]
    return function(*args, **{n: _plain(values[n]) for n in named})


def _composite(writer: Writer, record: dict[str, Any]) -> str:
    text = record.get("composite")
    if not isinstance(text, str):
        raise writer.unsupported(
            f"ONNX has no form of {record['name']}; an operator gets one by the key `onnx` of its "
            "entry in ops.yaml"
        )
    return text


def _held(values: Any) -> list[Held]:
    if isinstance(values, Held):
        return [values]
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, (list, tuple)):
        return [h for v in values for h in _held(v)]
    return []


def _any_dim(value: Any) -> bool:
    """Is there a size that may differ?"""
    if isinstance(value, (list, tuple)):
        return any(map(_any_dim, value))
    return type(value) is Dim


def _plain(value: Any) -> Any:
    if isinstance(value, Held):
        return value.value
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value))
    return int(value) if type(value) is Dim else value


def _as_held(writer: Writer, result: Any) -> Any:
    if isinstance(result, facula.Tensor):
        return Held(writer, result)
    if isinstance(result, (list, tuple)):
        return [_as_held(writer, r) for r in result]
    return result


def _tested(text: str) -> set[str]:
    """Names in a formula that are the test of a choice: read as truths."""
    return {
        n.test.id
        for n in ast.walk(ast.parse(text))
        if isinstance(n, ast.IfExp) and isinstance(n.test, ast.Name)
    }


def _dims(dim: Any, held: Any) -> list[int]:
    """The dims that a reduction takes, all where none is given."""
    given = [dim] if isinstance(dim, int) else dim
    if not given:
        return list(range(held.ndim))
    return [d % max(held.ndim, 1) for d in given]


def _swapped(ndim: int, a: int, b: int) -> list[int]:
    """The order of dims with two of them exchanged."""
    order = list(range(ndim))
    if ndim:
        order[a], order[b] = order[b], order[a]
    return order


def _pads(pad: list[int], ndim: int) -> list[int]:
    """Pairs of the last dims on, as all beginnings and then all ends."""
    before, after = [0] * ndim, [0] * ndim
    for i in range(len(pad) // 2):
        before[ndim - 1 - i], after[ndim - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return before + after


_TRUTHS = frozenset(
    "Less LessOrEqual Greater GreaterOrEqual Equal Not And Or Xor IsNaN IsInf".split()
)
_WHOLE = frozenset("Shape ArgMax ArgMin Size NonZero".split())


def _dtype_of(kind: str, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """The dtype of a node's first result."""
    if kind == "Cast":
        return attributes["to"]
    if kind in _TRUTHS:
        return facula.bool
    if kind in _WHOLE:
        return facula.int64
    return inputs[1] if kind == "Where" else inputs[0]
