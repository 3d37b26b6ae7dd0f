"""What `trace` records: a function runs once, and what it does with tensors becomes a graph."""

from __future__ import annotations

import contextlib
import operator
import os
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import facula
from facula import _C, nn
from facula.jit import _library
from facula.jit._graph import (
    Call,
    Constant,
    Graph,
    Items,
    Mapping,
    Name,
    Parameter,
    Path,
    Return,
    Span,
)
from facula.jit._text import is_name
from facula.overrides import DisableTorchFunctionSubclass, TorchFunctionMode

__all__ = ["Recorder", "TracedTensor", "TracerWarning", "current"]

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_local = threading.local()


class TracerWarning(Warning):
    """A trace may not hold for other inputs."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Nothing: lines of facula itself warn of nothing."""


def current() -> Recorder | None:
    """What records in this thread, if anything does."""
    found: Recorder | None = getattr(_local, "recorder", None)
    return found


def _warn(what: str) -> None:
    file, line = _C._user_line()
    message = (
        f"{os.path.basename(file)}:{line}: {what}; the trace keeps what these inputs gave, for all "
        "inputs. Use facula.jit.script for what depends on data"
    )
    warnings.warn_explicit(message, TracerWarning, file, line)


# ---- numbers that come from inputs: sizes, and what is computed of them


class _Number:
    """A number while tracing, which knows how it is computed; nothing is recorded before it is
    an argument of an operator."""

    _make: Callable[[], Any]

    def atom(self) -> Any:
        made = self._make()
        if not isinstance(made, Name):
            return made
        self._make = lambda: made
        return made


class _Int(int, _Number):
    __hash__ = int.__hash__


class _Float(float, _Number):
    __hash__ = float.__hash__


def _plain(value: Any) -> Any:
    """An int or float without what it is computed of."""
    if type(value) in (int, float):
        return value
    return int.__int__(value) if isinstance(value, int) else float.__float__(value)


def _number(value: Any, make: Callable[[], Any]) -> Any:
    made = _Int(value) if type(value) is int else _Float(value)
    made._make = make
    return made


def _arithmetic(op: str, reflected: bool) -> Any:
    def method(self: Any, other: Any) -> Any:
        if type(other) not in (int, float, _Int, _Float):
            return NotImplemented
        operands = (_plain(other), _plain(self)) if reflected else (_plain(self), _plain(other))
        value = _library.PYTHON[op](*operands)
        recorder = current()
        if recorder is None or type(value) not in (int, float):
            return value
        given = (other, self) if reflected else (self, other)
        return _number(value, lambda: recorder.python(op, given, type(value).__name__))

    return method


def _rounded(op: str) -> Any:
    def method(self: Any) -> Any:
        value = _library.PYTHON[op](_plain(self))
        recorder = current()
        return (
            value
            if recorder is None
            else _number(value, lambda: recorder.python(op, (self,), "int"))
        )

    return method


def _converted(plain: Any) -> Any:
    def method(self: Any) -> Any:
        if current() is not None:
            _warn("a number that comes from sizes is made a plain one")
        return plain(self)

    return method


def _compared(plain: Any) -> Any:
    def method(self: Any, other: Any) -> Any:
        # What facula itself compares are checks.
        if current() is not None and not sys._getframe(1).f_code.co_filename.startswith(_HERE):
            _warn("a number that comes from sizes is compared")
        return plain(self, other)

    return method


for _kind in (_Int, _Float):
    _base = _kind.__bases__[0]
    for _op in ("floor", "ceil", "trunc"):
        setattr(_kind, f"__{_op}__", _rounded(f"math.{_op}"))
    for _op in ("int", "float"):
        setattr(_kind, f"__{_op}__", _converted(getattr(_base, f"__{_op}__")))
    for _op in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(_kind, f"__{_op}__", _compared(getattr(_base, f"__{_op}__")))
    for _op in "add sub mul truediv floordiv mod pow".split():
        setattr(_kind, f"__{_op}__", _arithmetic(_op, False))
        setattr(_kind, f"__r{_op}__", _arithmetic(_op, True))
    _kind.__neg__ = lambda self: 0 - self


# ---- tensors


class TracedTensor(facula.Tensor):
    """A tensor while tracing: its sizes are remembered as its own, reading its values warns."""

    __torch_function__ = _C._disabled_torch_function_impl

    @property
    def shape(self) -> Any:  # type: ignore[override]
        plain = facula.Tensor.shape.__get__(self)  # type: ignore[attr-defined]
        recorder = current()
        if recorder is None:
            return plain
        return _Sizes(recorder.size(self, dim, n) for dim, n in enumerate(plain))

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    @property
    def data(self) -> Any:  # type: ignore[override]
        return self.detach()

    def _become_view(self, view: Any) -> Any:
        """What methods that change a shape in place end with."""
        with DisableTorchFunctionSubclass():
            super()._become_view(view)  # type: ignore[misc]
        recorder = current()
        if recorder is not None:
            recorder.atoms[id(self)] = recorder.atom(view)
        return self

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        if isinstance(dtype, facula.dtype):
            return self.to(dtype)
        return super().type() if dtype is None else super().type(dtype, non_blocking)

    def __iter__(self) -> Any:
        return iter(self.unbind(0))

    def __len__(self) -> int:
        return super().__len__()

    def numel(self) -> Any:
        count: Any = 1
        for n in self.shape:
            count = count * n
        return count

    nelement = numel


class _Sizes(tuple):  # type: ignore[type-arg]
    """A shape whose numbers are traced."""

    def numel(self) -> Any:
        count: Any = 1
        for n in self:
            count = count * n
        return count


def _reading(name: str, what: str) -> Any:
    plain = getattr(facula.Tensor, name)

    def method(self: Any, *args: Any) -> Any:
        if current() is not None:
            _warn(f"{what} of a traced tensor is read")
        return plain(self, *args)

    method.__name__ = name
    return method


for _name in "item tolist numpy __bool__ __int__ __float__ __index__ __complex__".split():
    if hasattr(facula.Tensor, _name):
        _what = "the truth" if _name == "__bool__" else "a value"
        setattr(TracedTensor, _name, _reading(_name, _what))


class Recorder(TorchFunctionMode):
    """Records in a graph what is done with tensors while it is open.

    Args:
        graph: where statements go.
        root: the module whose parameters and buffers are paths from `self`.
    """

    def __init__(self, graph: Graph, root: nn.Module | None) -> None:
        super().__init__()
        self.graph, self.root = graph, root
        self.atoms: dict[int, Any] = {}
        self.kept: list[Any] = []  # keeps identities unique
        self.taken: dict[str, int] = {p.name: 0 for p in graph.parameters}
        self.inside: list[Any] = []  # functions in Python that are being run
        self.submodules: dict[int, Path] = {}
        self.whole: set[Path] = set()  # submodules that are called, not traced into
        if root is not None:
            for path, module in root.named_modules():
                parts = tuple(path.split(".")) if path else ()
                self.submodules[id(module)] = Path(parts)
                for owned in (module._parameters, module._buffers):
                    for name, tensor in owned.items():
                        if tensor is not None:
                            self.atoms.setdefault(id(tensor), Path((*parts, name)))
                            self.kept.append(tensor)

    # ---- opening

    def __enter__(self) -> Recorder:
        if not self.inside:
            self.before = current()
            _local.recorder = self
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if not self.inside:
            _local.recorder = self.before

    # ---- values

    def fresh(self, stem: str) -> str:
        """A name that no variable has."""
        stem = stem.rpartition(".")[2].strip("_") or "value"
        if not is_name(stem):
            stem = f"{stem}_value" if is_name(f"{stem}_value") else "value"
        number = self.taken.get(stem)
        if number is None:
            self.taken[stem] = 0
            return stem
        while f"{stem}_{number + 1}" in self.taken:
            number += 1
        self.taken[stem] = number + 1
        self.taken[f"{stem}_{number + 1}"] = 0
        return f"{stem}_{number + 1}"

    def where(self) -> str:
        """The line of the program that runs."""
        file, line = _C._user_line()
        return f"{os.path.basename(file)}:{line}"

    def bind(self, tensor: Any, atom: Any) -> Any:
        """A tensor that stands for an atom from here on."""
        if type(tensor) is facula.Tensor:
            with DisableTorchFunctionSubclass():
                tensor = tensor.as_subclass(TracedTensor)
        self.atoms[id(tensor)] = atom
        self.kept.append(tensor)
        return tensor

    def size(self, tensor: Any, dim: int, value: int) -> Any:
        """A size of a tensor; of what is constant, a number."""
        atom = self.atoms.get(id(tensor))
        if not isinstance(atom, Name):
            return value
        return _number(value, lambda: self.python("size", (atom, dim), "int"))

    def python(self, op: str, args: tuple[Any, ...], kind: str) -> Name:
        """Record a call of a function of Python."""
        name = self.fresh(op)
        atoms = [self.atom(a) for a in args]
        self.graph.body.append(Call([(name, kind)], "py", op, atoms, where=self.where()))
        return Name(name)

    def atom(self, value: Any) -> Any:
        """What stands for an argument.

        Raises:
            TypeError: a graph cannot hold it.
        """
        if isinstance(value, (Name, Path, Constant)):
            return value
        if isinstance(value, facula.Tensor):
            known = self.atoms.get(id(value))
            if known is None:
                known = Constant(self.fresh("tensor"), value.detach())
                self.atoms[id(value)] = known
                self.kept.append(value)
            return known
        if isinstance(value, _Number):
            return value.atom()
        if value is None or value is ... or type(value) in (bool, int, float, complex, str):
            return value
        if isinstance(value, (tuple, list)):
            kind = "list" if isinstance(value, list) else "tuple"
            return Items(kind, tuple(map(self.atom, value)))
        if isinstance(value, slice):
            return Span(*map(self.atom, (value.start, value.stop, value.step)))
        if isinstance(value, dict):
            return Mapping(tuple((self.atom(k), self.atom(v)) for k, v in value.items()))
        named = (facula.dtype, facula.layout, facula.memory_format, facula.device)
        if isinstance(value, named):
            return value
        if isinstance(value, range):
            return Items("list", tuple(value))
        if not getattr(value, "shape", ()):  # NumPy's numbers, members of enumerations
            for convert in (operator.index, float):
                with contextlib.suppress(TypeError):
                    return convert(value)
        raise TypeError(
            f"trace(): {self.where()}: an operator gets a {type(value).__name__}, which a graph "
            "cannot hold; give it tensors, numbers, strings, dtypes, devices and lists of these"
        )

    # ---- calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = _library._operators()[1].get(id(func))
        leaf = getattr(func, "__name__", "")
        if name is None and func in self.inside and hasattr(_C._ops, leaf):
            # What a function in Python calls is told by the name of that function.
            func = getattr(_C._ops, leaf)
            name = _library._operators()[1].get(id(func))
        if leaf == "__get__":  # of an attribute that is an operator, `T` say
            return self.record("get", func.__self__.__name__, func, args, kwargs)
        if name is not None:
            return self.record("op", name, func, args, kwargs)
        if leaf in ("__getitem__", "__setitem__", "__contains__"):
            return self.record("py", leaf.strip("_"), func, args, kwargs)
        self.inside.append(func)
        try:
            with self:
                return getattr(func, "__wrapped__", func)(*args, **kwargs)
        finally:
            self.inside.pop()

    def record(self, kind: str, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """Run a call, and note it."""
        atoms = [self.atom(a) for a in args]
        named = {k: self.atom(v) for k, v in kwargs.items()}
        with DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
            if any(result is a for a in args) and not isinstance(result, TracedTensor):
                if name.endswith("_"):  # an attribute of a module that is changed in place
                    self.graph.body.append(Call([], kind, name, atoms, named, where=self.where()))
                    return result
                result = result.as_subclass(TracedTensor)
        return self.note(kind, name, atoms, named, result)

    def note(self, kind: str, name: str, atoms: Any, named: Any, result: Any) -> Any:
        """Append a call that gave a result; gives the result, traced."""
        call = Call([], kind, name, atoms, named, where=self.where())
        self.graph.body.append(call)
        return self._outs(call, result, name)

    def _outs(self, call: Call, result: Any, stem: str) -> Any:
        if result is None:
            return None
        if isinstance(result, facula.Tensor):
            out = self.fresh(stem)
            call.outs = [(out, "Tensor")]
            return self.bind(result, Name(out))
        if isinstance(result, (tuple, list)) and result:
            names = [self.fresh(stem) for _ in result]
            call.outs = [(n, self._kind(r)) for n, r in zip(names, result, strict=True)]
            if len(names) == 1:  # the items of one: taken by its place
                whole = self.fresh(stem)
                call.outs = [(whole, "")]
            made = []
            for n, r in zip(names, result, strict=True):
                if len(names) == 1:
                    call = Call([(n, self._kind(r))], "py", "getitem", [Name(whole), 0])
                    self.graph.body.append(call)
                made.append(self._inner(Name(n), r))
            if type(result) in (tuple, list):
                return type(result)(made)
            return type(result)(made) if not hasattr(result, "_make") else result._make(made)
        if isinstance(result, dict):
            whole = self.fresh(stem)
            call.outs = [(whole, "Dict")]
            return self._inner(Name(whole), result)
        if type(result) in (int, float):
            out = self.fresh(stem)
            call.outs = [(out, type(result).__name__)]
            return _number(result, lambda: Name(out))
        if type(result) is bool:
            _warn(f"the truth that {stem}() gives is read")
        return result

    def _inner(self, atom: Name, value: Any) -> Any:
        """A value within a result, of the variable `atom`."""
        if isinstance(value, facula.Tensor):
            return self.bind(value, atom)
        if type(value) in (int, float):
            return _number(value, lambda: atom)
        if isinstance(value, (tuple, list)):
            made = [self._item(atom, i, v) for i, v in enumerate(value)]
            return value._make(made) if hasattr(value, "_make") else type(value)(made)
        if isinstance(value, dict):
            return {k: self._item(atom, k, v) for k, v in value.items()}
        return value

    def _item(self, owner: Name, key: Any, value: Any) -> Any:
        if not isinstance(value, (facula.Tensor, int, float, tuple, list, dict)):
            return value
        name = self.fresh(owner.id)
        call = Call([(name, self._kind(value))], "py", "getitem", [owner, self.atom(key)])
        self.graph.body.append(call)
        return self._inner(Name(name), value)

    @staticmethod
    def _kind(value: Any) -> str:
        return "Tensor" if isinstance(value, facula.Tensor) else ""

    def input(self, parameter: Parameter, value: Any) -> Any:
        """An example input as the traced value of a parameter.

        Raises:
            TypeError: it is of no type that a trace can vary.
        """
        if value is None:
            return None
        if type(value) in (bool, str) or not isinstance(
            value, (facula.Tensor, int, float, tuple, list, dict)
        ):
            raise TypeError(
                f"trace(): the example input {parameter.name!r} is a {type(value).__name__}; a "
                "trace takes tensors, numbers, and tuples, lists and dicts of these. Bind other "
                "arguments in a function of your own, and trace that"
            )
        parameter.type = self._kind(value)
        return self._inner(Name(parameter.name), value)

    def end(self, result: Any) -> None:
        """Note what the traced function returned."""
        self.graph.body.append(Return(self.atom(result)))
        if isinstance(result, facula.Tensor):
            self.graph.result = "Tensor"
