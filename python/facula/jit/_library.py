"""What programs may call: operators by their names in ops.json, functions of facula, of Python.

A program that comes from a file can call nothing else, so that loading and running it does what
tensors and numbers do, and no more.
"""

from __future__ import annotations

import builtins
import collections
import difflib
import functools
import json
import math
import operator
import os
import string
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula import _C, _exports
from facula.jit._types import matches

__all__ = [
    "MANAGERS",
    "METHODS",
    "PYTHON",
    "RAISED",
    "READABLE",
    "formatted",
    "name_of",
    "operator_records",
    "python_name_of",
    "resolve",
    "result_types",
    "schema",
]

# ---- operators and functions of facula

# Functions of the compiled module that are no operators: they make tensors, or tell of them.
_UTILITIES = (
    "tensor as_tensor asarray scalar_tensor from_numpy is_tensor is_floating_point is_complex"
    " is_storage numel result_type promote_types can_cast get_default_dtype is_grad_enabled"
    " is_same_size is_nonzero is_inference_mode_enabled"
).split()
# Modules of names of `facula` that are no functions of tensors.
_NOT_OF_TENSORS = frozenset(
    "facula.serialization facula.random facula._version facula._tensor_str facula.amp.autocast_mode"
    " facula.autograd.grad_mode facula._storage facula.multiprocessing._sharing facula._type_info"
    " facula.func facula._pinning".split()
)


@functools.cache
def schema() -> dict[str, Any]:
    """What ops.json holds."""
    path = os.path.join(os.path.dirname(_C.__file__), "ops.json")
    with open(path, encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


@functools.cache
def operator_records() -> dict[str, list[dict[str, Any]]]:
    """By the path at which Python has it, "nn.functional.linear" say, the records of ops.json."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in schema()["operators"]:
        for place in record["python"]:
            found.setdefault(place, []).append(record)
            if "inplace" in record["variants"]:
                found.setdefault(place + "_", []).append(record)
    return found


def _at(path: str) -> Any:
    """The compiled function, method or getter at a path of ops.json; None where there is none."""
    space, _, leaf = path.rpartition(".")
    if space == "Tensor":
        return vars(facula.Tensor).get(leaf)
    owner = getattr(_C, "_" + space.lstrip("_").replace(".", "_"), None) if space else _C
    return getattr(owner, leaf, None)


def _is_taken(path: str) -> bool:
    space, _, leaf = path.rpartition(".")
    if space != "nn.functional":
        return False
    return getattr(facula.nn.functional, leaf, None) is not _at(path)


@functools.cache
def _operators() -> tuple[dict[str, Any], dict[int, str]]:
    """Operators by name, and their names by the identity of each function and method."""
    records = operator_records()
    by_name: dict[str, Any] = {}
    names: dict[int, str] = {}
    of_leaf: dict[str, list[str]] = {}
    for path in records:
        of_leaf.setdefault(path.rpartition(".")[2], []).append(path)
    for path, own in records.items():
        found = _at(path)
        if found is None:
            continue
        # Places that take the same arguments have one name, that of a function if there is one.
        same = [p for p in of_leaf[path.rpartition(".")[2]] if records[p] == own and _at(p)]
        # A function in Python that is public under the name takes more arguments.
        same = [p for p in same if not _is_taken(p)] or same
        name = min(same, key=lambda p: (p.startswith("Tensor."), len(p), p))
        names[id(found)] = name
        by_name[path] = found
    return by_name, names


@functools.cache
def _functions() -> tuple[dict[str, Any], dict[int, str]]:
    """Functions that are written in Python, by path; and the paths by identity."""
    import facula.nn.functional as F

    found: dict[str, Any] = {}
    for name in _UTILITIES:
        if hasattr(facula, name):
            found[name] = getattr(facula, name)
    for module, names in _exports.ATTRIBUTES.items():
        if module not in _NOT_OF_TENSORS:
            found.update({n: getattr(facula, n) for n in names.split()})
    for name in F.__all__:
        found["nn.functional." + name] = getattr(F, name)
    for name in ("pad_sequence", "pack_padded_sequence", "pad_packed_sequence", "pack_sequence"):
        found["nn.utils.rnn." + name] = getattr(facula.nn.utils.rnn, name)
    by_name = _operators()[0]
    found = {p: f for p, f in found.items() if by_name.get(p) is not f and callable(f)}
    return found, {id(f): p for p, f in reversed(found.items())}


def name_of(function: Any) -> str | None:
    """The name by which a program calls a function or method of facula; None if it cannot."""
    name = _operators()[1].get(id(function))
    return name if name is not None else _functions()[1].get(id(function))


def resolve(name: str) -> Any:
    """What a name of `name_of` stands for; None where nothing does."""
    found = _functions()[0].get(name)
    if found is None:
        found = _operators()[0].get(name)
    if found is None:
        space, _, leaf = name.partition(".")  # an operator of an extension: ops.NAMESPACE.NAME
        if space == "ops":
            return _of_extension(leaf)
        return None
    if not callable(found):  # an attribute that is an operator, `T` say
        return operator.attrgetter(name.rpartition(".")[2])
    return found


def _of_extension(path: str) -> Any:
    space, _, leaf = path.partition(".")
    if space not in facula.ops._records or leaf.startswith("_"):
        return None
    return getattr(getattr(facula.ops, space), leaf, None)


@functools.cache
def result_types(name: str) -> tuple[str, ...] | None:
    """The types of an operator's results where all its overloads agree; None where unknown."""
    records = operator_records().get(name)
    if not records:
        return None
    kinds = {tuple(_type_of(r["type"]) for r in record["returns"]) for record in records}
    return kinds.pop() if len(kinds) == 1 else None


def _type_of(text: str) -> str:
    plain = text.rstrip("!")
    if plain.endswith("[]"):
        return f"List[{_type_of(plain[:-2])}]"
    return {"Scalar": "number"}.get(plain, plain)


# ---- Python


def _unpacked(value: Any, count: int) -> Any:
    items = list(value)
    if len(items) != count:
        raise ValueError(f"expected {count} values to unpack, got {len(items)}")
    return items


def _format(value: Any, conversion: str, spec: str) -> str:
    change = {"r": repr, "s": str, "a": ascii}.get(conversion)
    return format(value if change is None else change(value), spec)


@functools.cache
def _named_class(name: str, fields: tuple[str, ...]) -> Any:
    return collections.namedtuple(name, fields)


def _named(name: str, fields: tuple[str, ...], items: tuple[Any, ...]) -> Any:
    """A named tuple; its class is made here, for files hold none."""
    return _named_class(name, fields)(*items)


class _Formatter(string.Formatter):
    """`str.format` without attributes, which would lead out of the program."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        if "." in field_name:
            raise ValueError(f"format(): {field_name!r} reads attributes, which a program cannot")
        return super().get_field(field_name, args, kwargs)


def formatted(text: Any, *args: Any, **kwargs: Any) -> str:
    """`text.format(...)` in a program."""
    return _Formatter().format(text, *args, **kwargs)


def _joined(*parts: str) -> str:
    return "".join(parts)


def _tuple_of(*items: Any) -> tuple[Any, ...]:
    return tuple(i for part in items for i in part)


#: Types that `isinstance` may ask for in a program.
KINDS: dict[str, Any] = {
    "Tensor": facula.Tensor, "int": int, "float": float, "bool": bool, "str": str, "list": list,
    "tuple": tuple, "dict": dict, "complex": complex, "None": type(None), "device": facula.device,
    "dtype": facula.dtype, "Size": facula.Size, "slice": slice,
}  # fmt: skip


def _is_a(value: Any, *kinds: str) -> bool:
    return any(isinstance(value, KINDS[k]) for k in kinds)


_OPERATORS = (
    "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge is_"
    " is_not contains getitem setitem delitem neg pos invert not_"
    " iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift"
).split()
_BUILTINS = (
    "abs bool float int str len range enumerate zip min max sum all any round sorted reversed"
    " divmod list tuple dict ord chr print complex repr hex bin map_"
).split()
_OF_MATH = (
    "sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan atan2 sinh cosh tanh asinh"
    " acosh atanh floor ceil trunc fabs fmod pow isnan isinf isfinite gcd factorial copysign erf"
    " erfc gamma lgamma degrees radians hypot ldexp frexp modf prod"
).split()

#: Functions of Python by the names that programs have for them.
PYTHON: dict[str, Any] = {
    **{n: getattr(operator, n) for n in _OPERATORS},
    **{n: getattr(builtins, n) for n in _BUILTINS if hasattr(builtins, n)},
    **{"math." + n: getattr(math, n) for n in _OF_MATH},
    "unpack": _unpacked,
    "format": _format,
    "join": _joined,
    "named": _named,
    "concat": _tuple_of,
    "isinstance": _is_a,
    "finfo": lambda dtype: facula.finfo(dtype),
    "iinfo": lambda dtype: facula.iinfo(dtype),
    "device": lambda *args: facula.device(*args),
    "warn": lambda message, *args, **kwargs: warnings.warn(str(message), stacklevel=2),
    "is_type": lambda value, kind: matches(value, kind),
    "size": lambda tensor, dim: int(tensor.shape[dim]),
}
_PYTHON_NAMES = {id(f): n for n, f in reversed(PYTHON.items())}


def python_name_of(function: Any) -> str | None:
    """The name of a function of Python, of `PYTHON`; None if programs cannot call it."""
    return _PYTHON_NAMES.get(id(function))


#: Exceptions that programs raise.
RAISED: dict[str, Any] = {
    n: getattr(builtins, n)
    for n in (
        "Exception RuntimeError ValueError TypeError IndexError KeyError AssertionError"
        " NotImplementedError AttributeError ArithmeticError OverflowError ZeroDivisionError"
        " LookupError StopIteration"
    ).split()
}


def _managers() -> dict[str, Callable[..., Any]]:
    from facula.autograd import grad_mode

    names = ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode")
    return {n: getattr(grad_mode, n) for n in names}


class _Managers:
    """Context managers that programs enter; looked up late, for the import's sake."""

    def __contains__(self, name: str) -> bool:
        return name in _managers()

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return _managers()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_managers())


MANAGERS = _Managers()

# ---- methods and attributes, of values whose type is not known before

_OF_VALUES = {
    list: "append extend insert pop remove clear copy count index reverse sort",
    dict: "keys values items get pop setdefault update clear copy",
    str: "join split strip lstrip rstrip startswith endswith lower upper replace find format count"
    " isdigit isalpha isnumeric title capitalize zfill rfind rsplit splitlines",
    tuple: "count index",
}
_OF_TENSORS = (
    "item tolist size dim numel nelement stride is_contiguous is_floating_point is_complex"
    " requires_grad_ type element_size new_tensor backward get_device cpu cuda to storage_offset"
    " detach_ is_signed is_pinned ndimension unique unique_consecutive nonzero"
).split()


@functools.cache
def _methods() -> frozenset[str]:
    from_schema = (p.rpartition(".")[2] for p in operator_records() if p.startswith("Tensor."))
    plain = (n for names in _OF_VALUES.values() for n in names.split())
    return frozenset([*from_schema, *plain, *_OF_TENSORS])


class _Names:
    """Names of methods, or of attributes."""

    def __init__(self, names: Callable[[], frozenset[str]]) -> None:
        self._names = names

    def __contains__(self, name: str) -> bool:
        return name in self._names()

    def near(self, name: str) -> str:
        """A sentence that proposes a name like it."""
        found = difflib.get_close_matches(name, self._names(), n=1)
        return f"; did you mean {found[0]!r}?" if found else ""


METHODS = _Names(_methods)
_READABLE = frozenset(
    "shape dtype device layout ndim requires_grad is_cuda is_leaf grad data T mT H mH real imag"
    " itemsize nbytes index is_sparse is_quantized names max min eps tiny smallest_normal bits"
    " resolution start stop step values indices sign logabsdet Q R L U S V LU pivots eigenvalues"
    " eigenvectors solution residuals rank singular_values output is_meta is_mps is_xpu type"
    " sorted_indices unsorted_indices batch_sizes is_nested".split()
)
#: Attributes that a program may read.
READABLE = _Names(lambda: _READABLE)
