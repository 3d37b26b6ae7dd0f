"""Operators that programs define: their kernels, and which of them a call runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula import _C
from facula.library._schema import Argument, FunctionSchema

__all__ = [
    "OpOverload",
    "OpOverloadPacket",
    "Operators",
    "found",
    "operator_of",
    "space",
    "spaces",
]

#: Keys of kernels that are no types of devices. The kernel of EXPLICIT serves all devices, that of
#: IMPLICIT does too and is differentiated through; that of AUTOGRAD is called before all others.
EXPLICIT, IMPLICIT, AUTOGRAD = (
    "CompositeExplicitAutograd",
    "CompositeImplicitAutograd",
    "Autograd",
)
#: Kernels for keys of torch's for which there is no layer here; they are kept and never called.
#: Spaces of operators that are no program's.
OWN = ("aten", "prim", "prims")
_UNUSED = ("ADInplaceOrView", "BackendSelect", "Functionalize", "Python", "Tracer", "ZeroTensor")


def key_of(name: str | None) -> str:
    """A key of kernels from torch's name of it: a type of device, or one of those above.

    Raises:
        ValueError: there is none of that name.
    """
    if name in (None, "", "default", EXPLICIT):
        return EXPLICIT
    if name in (IMPLICIT, AUTOGRAD):
        return str(name)
    word = str(name).lower()
    if name in _UNUSED or word.startswith(("autograd", "autocast")):
        raise ValueError(
            f"a kernel cannot be registered for {name!r}: facula has no such layer; keys are types "
            f"of devices ('cpu', 'cuda', 'meta'), {EXPLICIT!r}, {IMPLICIT!r} and {AUTOGRAD!r}; "
            f"register_autograd and register_autocast serve the others"
        )
    try:
        return str(facula.device(word).type)
    except RuntimeError:
        if word.isidentifier():  # of a device whose package is not installed
            return word
        raise ValueError(f"{name!r} is no type of device and no key of kernels") from None


def _tensors(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, facula.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


_NUMBERS = {
    "int": (int,),
    "SymInt": (int,),
    "float": (float, int),
    "SymFloat": (float, int),
    "bool": (bool,),
    "SymBool": (bool,),
    "Scalar": (float, int, complex),
    "number": (float, int, complex),
    "complex": (float, int, complex),
    "str": (str,),
}


def _fits(value: Any, argument: Argument) -> bool:
    """May the value be given for the argument? Types that are not listed here take anything."""
    if value is None:
        return argument.is_optional or argument.base not in ("Tensor", *_NUMBERS)
    if argument.is_list:
        if isinstance(value, (list, tuple)):
            kinds = _kinds(argument.base)
            optional = "?[" in argument.type
            return kinds is None or all(
                isinstance(v, kinds) or (v is None and optional) for v in value
            )
        return argument.N is not None and isinstance(value, _kinds(argument.base) or object)
    kinds = _kinds(argument.base)
    if kinds is None:
        return True
    if isinstance(value, bool) and argument.base in ("int", "SymInt"):
        return True
    if isinstance(value, facula.Tensor) and argument.base in _NUMBERS and argument.base != "str":
        return value.dim() == 0
    return isinstance(value, kinds)


def _kinds(base: str) -> tuple[type, ...] | None:
    return (facula.Tensor,) if base == "Tensor" else _NUMBERS.get(base)


class OpOverload:
    """One signature of an operator, and its kernels. Calling it runs the one that is fit."""

    def __init__(self, schema: FunctionSchema) -> None:
        self._schema = schema
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._formula: Any = None  # see _formula.Formula
        self._batching: Callable[..., Any] | None = None
        self._casts: dict[str, Any] = {}  # type of device -> dtype
        self._answers: list[tuple[type, Callable[..., Any]]] = []  # of classes of tensors
        self._off: set[str] = set()  # devices whose kernels are switched off
        self._closed = False  # is it a black box, for which gradients need a formula?
        self.tags: list[Any] = []
        self.namespace, _, leaf = schema.name.partition("::")
        self._overloadname = schema.overload_name or "default"
        self._opname = leaf
        self.__name__ = f"{leaf}.{self._overloadname}"
        self.__qualname__ = self.__name__
        self.__module__ = f"facula.ops.{self.namespace}"
        self._positional = [a for a in schema.arguments if not a.kwarg_only]
        self._by_name = [a for a in schema.arguments if a.kwarg_only]
        self._names = {a.name for a in schema.arguments}

    def name(self) -> str:
        """ "space::name", with ".overload" where it has one."""
        dot = "." if self._schema.overload_name else ""
        return f"{self._schema.name}{dot}{self._schema.overload_name}"

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return (
            f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"
        )

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The operator with all its signatures."""
        return getattr(space(self.namespace), self._opname)

    @property
    def op(self) -> OpOverload:
        """Itself."""
        return self

    def has_kernel_for_dispatch_key(self, k: Any) -> bool:
        """Is there a kernel of a type of device, or of a key?"""
        return key_of(str(k).rpartition(".")[2]) in self._kernels

    # ---- a call

    def bind(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as the signature has them: those by place, and those by name.

        Raises:
            RuntimeError: they do not fit.
        """
        say = f"Declaration: {self._schema}"
        if len(args) > len(self._positional):
            raise RuntimeError(
                f"{self.name()}() expected at most {len(self._positional)} argument(s) by place "
                f"but received {len(args)}. {say}"
            )
        unknown = [name for name in kwargs if name not in self._names]
        if unknown:
            raise RuntimeError(f"{self.name()}(): unknown keyword argument {unknown[0]!r}. {say}")
        values = []
        for place, argument in enumerate(self._positional):
            if place < len(args):
                if argument.name in kwargs:
                    raise RuntimeError(f"{self.name()}(): '{argument.name}' is given twice. {say}")
                values.append(self._checked(args[place], argument, place))
            else:
                values.append(self._from(kwargs, argument, place))
        named = {a.name: self._from(kwargs, a, None) for a in self._by_name}
        return tuple(values), named

    def _from(self, kwargs: Any, argument: Argument, place: int | None) -> Any:
        if argument.name in kwargs:
            return self._checked(kwargs[argument.name], argument, place)
        if not argument.has_default:
            raise RuntimeError(
                f"{self.name()}() is missing value for argument '{argument.name}'. "
                f"Declaration: {self._schema}"
            )
        value = argument.default_value
        if isinstance(value, str) and argument.base in ("ScalarType", "dtype"):
            return getattr(facula, value)
        if isinstance(value, str) and argument.base == "Device":
            return facula.device(value)
        return list(value) if isinstance(value, list) else value

    def _checked(self, value: Any, argument: Argument, place: int | None) -> Any:
        if type(value) is facula.Tensor and argument.type == "Tensor":
            return value
        if not _fits(value, argument):
            raise RuntimeError(
                f"{self.name()}() Expected a value of type '{argument.type}' for argument "
                f"'{argument.name}' but instead found type '{type(value).__name__}'."
                + (f"\nPosition: {place}" if place is not None else "")
                + f"\nValue: {value!r}\nDeclaration: {self._schema}"
            )
        if argument.is_list and not isinstance(value, (list, tuple)):
            return [value] * int(argument.N or 1)
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _C._overrides_in_use():
            overriding = _C._overriding(args, kwargs)
            answer = self._answer(args, kwargs)
            if answer is not None:
                return answer(*args, **kwargs)
            if overriding and _C._is_torch_function_enabled():
                from facula.overrides import handle_torch_function

                return handle_torch_function(self, overriding, *args, **kwargs)
        values, named = self.bind(args, kwargs)
        return self._cast(values, named)

    def _answer(self, args: Any, kwargs: Any) -> Callable[..., Any] | None:
        """What a class of tensors among the arguments does for the operator."""
        tensors = list(_tensors((*args, *kwargs.values())))
        for kind, function in self._answers:
            if any(isinstance(t, kind) for t in tensors):
                return lambda *a, **k: function(kind, self, tuple({type(t) for t in tensors}), a, k)
        return None

    def _cast(self, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
        for device, dtype in self._casts.items():
            if facula.is_autocast_enabled(device):
                from facula.library._formula import cast

                values, named = cast(values, device, dtype), cast(named, device, dtype)
                with facula.autocast(device, enabled=False):
                    return self._recorded(values, named)
        return self._recorded(values, named)

    def _recorded(self, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The call with its gradients, at whatever level of function transforms."""
        own = self._kernels.get(AUTOGRAD)
        if own is not None:
            return own(*values, **named)
        if self._is_transparent(values, named):
            return self._returned(self.kernel(values, named)(*values, **named))
        if _C._level_depth() or (
            _C.is_grad_enabled()
            and any(t.requires_grad for t in _tensors((*values, *named.values())))
        ):
            from facula.library._formula import recorded

            return recorded(self, values, named)
        return self.run(values, named)

    def _is_transparent(self, values: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Is its kernel differentiated, and batched, through the operators that it calls?"""
        if self._formula is not None or self._closed:
            return False
        if not _C._level_depth() or self._key(values, named) == IMPLICIT:
            return True
        return bool(_C._current_level()[1] == "gradients")

    def _key(self, values: Any, named: Any) -> str | None:
        tensors = _tensors((*values, *named.values()))
        kind = next((t.device.type for t in tensors), None)
        if kind is None:  # no tensors: a kernel of any device serves
            kind = next((k for k in self._kernels if k not in (AUTOGRAD, EXPLICIT, IMPLICIT)), "")
        keys = ((kind,) if kind not in self._off else ()) + (EXPLICIT, IMPLICIT)
        if kind == "meta" and not self._closed:
            keys = ("meta", EXPLICIT, IMPLICIT)
        elif kind == "meta":  # what a program says of the shapes alone
            keys = ("meta", IMPLICIT)
        return next((k for k in keys if k in self._kernels), None)

    def kernel(self, values: Any, named: Any) -> Callable[..., Any]:
        """The kernel of the arguments' device.

        Raises:
            NotImplementedError: there is none.
        """
        key = self._key(values, named)
        if key is not None:
            return self._kernels[key]
        kind = next((t.device.type for t in _tensors((*values, *named.values()))), "no device")
        there = sorted(k for k in self._kernels if k != AUTOGRAD)
        if kind == "meta":
            raise NotImplementedError(
                f"{self.name()}: attempted to run this operator with Meta tensors, but there was "
                f"no fake impl or Meta kernel registered; register_fake adds one"
            )
        raise NotImplementedError(
            f"{self.name()}: no kernel for tensors on {kind!r}; it has kernels for "
            f"{there or 'nothing'}; register_kernel adds one"
        )

    def _returned(self, result: Any) -> Any:
        """What a kernel returned, which must be what the signature says."""
        declared = self._schema.returns
        if type(result) is facula.Tensor and len(declared) == 1 and declared[0].type == "Tensor":
            return result
        given = [result] if len(declared) == 1 else result
        if declared and not (
            isinstance(given, (list, tuple))
            and len(given) == len(declared)
            and all(map(_fits, given, declared))
        ):
            kinds = type(result).__name__
            if isinstance(result, (list, tuple)):
                kinds += f" of {', '.join(type(r).__name__ for r in result) or 'nothing'}"
            raise RuntimeError(
                f"{self.name()}(): its kernel returned a value of type {kinds}, against its "
                f"signature. Declaration: {self._schema}"
            )
        return result

    def run(self, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The kernel's result; of a black box, what it did to memory is looked at."""
        result = self._returned(self.kernel(values, named)(*values, **named))
        if self._closed:
            from facula.library._formula import check_memory, count_writes

            check_memory(self, values, named, result)
            count_writes(self, values, named)
        return result


class OpOverloadPacket:
    """An operator with all its signatures; calling it runs the first that takes the arguments."""

    def __init__(self, space: str, name: str) -> None:
        self._namespace, self.__name__ = space, name
        self._qualified_op_name = f"{space}::{name}"
        self.__module__ = f"facula.ops.{space}"
        self._overloads: dict[str, OpOverload] = {}

    def overloads(self) -> list[str]:
        """The names of its signatures."""
        return list(self._overloads)

    def __iter__(self) -> Iterator[str]:
        return iter(self._overloads)

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._namespace}.{self.__name__}')>"

    def __getattr__(self, name: str) -> Any:
        overloads = self.__dict__.get("_overloads", {})
        if name in overloads:
            return overloads[name]
        raise AttributeError(
            f"The underlying op of '{self}' has no overload name '{name}'; it has {[*overloads]}",
            name=name,
            obj=self,
        )

    @property
    def _schemas(self) -> dict[str, FunctionSchema]:
        return {name: o._schema for name, o in self._overloads.items()}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(self._overloads) == 1:
            return next(iter(self._overloads.values()))(*args, **kwargs)
        refusals = []
        for overload in self._overloads.values():
            try:
                overload.bind(args, kwargs)
            except RuntimeError as error:
                refusals.append(str(error).partition("\n")[0])
                continue
            return overload(*args, **kwargs)
        raise RuntimeError(f"{self}: no signature takes these arguments:\n" + "\n".join(refusals))


class Operators:
    """A space of operators: `facula.ops.NAME`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._packets: dict[str, OpOverloadPacket] = {}

    def __getattr__(self, name: str) -> Any:
        packets = self.__dict__.get("_packets", {})
        if name in packets:
            return packets[name]
        raise AttributeError(
            f"'_OpNamespace' '{self.__dict__.get('_name')}' object has no attribute '{name}'",
            name=name,
            obj=self,
        )

    def __dir__(self) -> list[str]:
        return sorted(self._packets)

    def __repr__(self) -> str:
        return f"<facula.ops.{self._name}: {', '.join(sorted(self._packets)) or 'no operators'}>"


#: Kernels by key of operators that are not defined yet, by name.
waiting: dict[str, dict[str, Callable[..., Any]]] = {}
#: The spaces that programs define operators in.
spaces: dict[str, Operators] = {}


def space(name: str) -> Operators:
    """The space of a name, the same object each time."""
    return spaces.setdefault(name, Operators(name))


def add(schema: FunctionSchema) -> OpOverload:
    """A new operator, or one more signature of one.

    Raises:
        RuntimeError: there is one of that name.
    """
    where, _, name = schema.name.partition("::")
    if where in OWN:
        raise RuntimeError(f"{schema.name}: the space '{where}' is for the library's own operators")
    packets = space(where)._packets
    packet = packets.setdefault(name, OpOverloadPacket(where, name))
    overload = OpOverload(schema)
    if overload._overloadname in packet._overloads:
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name "
            f"multiple times; there is {packet._overloads[overload._overloadname]._schema}"
        )
    packet._overloads[overload._overloadname] = overload
    for key, kernel in waiting.pop(overload.name(), {}).items():
        overload._kernels.setdefault(key, kernel)
    extension = vars(facula.ops).get(where)
    if extension is not None:  # its space has the operators of programs too
        setattr(extension, name, packet)
    return overload


def remove(overload: OpOverload) -> None:
    """Takes an operator away."""
    packets = space(overload.namespace)._packets
    packet = packets.get(overload._opname)
    if packet is not None:
        packet._overloads.pop(overload._overloadname, None)
        if not packet._overloads:
            packets.pop(overload._opname, None)


def kernels_of(name: str) -> dict[str, Callable[..., Any]]:
    """The kernels of an operator; one that is not defined yet has them when it is.

    Raises:
        RuntimeError: it is one of facula's own.
    """
    try:
        return found(name)._kernels
    except RuntimeError:
        if name.partition("::")[0] in OWN:
            raise
        return waiting.setdefault(name, {})


def found(name: str) -> OpOverload:
    """The operator "space::name" or "space::name.overload".

    Raises:
        RuntimeError: there is none.
    """
    qualified, _, overload = name.partition(".")
    where, _, leaf = qualified.partition("::")
    if not leaf:
        raise ValueError(f"an operator is named as 'space::name', not {name!r}")
    packet = spaces[where]._packets.get(leaf) if where in spaces else None
    operator = packet._overloads.get(overload or "default") if packet is not None else None
    if operator is None:
        hint = (
            "facula's own operators cannot be given other kernels"
            if where in OWN
            else "define() or custom_op() makes one"
        )
        raise RuntimeError(f"Could not find the operator {name}: {hint}")
    return operator


def operator_of(op: Any) -> OpOverload:
    """The operator that a name, a definition, or the operator itself means."""
    if isinstance(op, str):
        return found(op)
    inner = op.default if isinstance(op, OpOverloadPacket) else getattr(op, "_opoverload", op)
    if not isinstance(inner, OpOverload):
        raise ValueError(f"{op!r} is no operator, nor the name of one as 'space::name'")
    return inner
