"""How schema types look in C++: parameters, owned values, defaults and results."""

from __future__ import annotations

import ast
import math

from .model import Argument, Operator, Return, Type

# base -> (plain parameter, optional parameter, owned value)
SCALARS: dict[str, tuple[str, str, str]] = {
    "int": ("int64_t", "std::optional<int64_t>", "int64_t"),
    "float": ("double", "std::optional<double>", "double"),
    "bool": ("bool", "std::optional<bool>", "bool"),
    "str": ("std::string_view", "std::optional<std::string_view>", "std::string"),
    "Scalar": ("const Scalar&", "const std::optional<Scalar>&", "Scalar"),
    "ScalarType": ("ScalarType", "std::optional<ScalarType>", "ScalarType"),
    "Device": ("Device", "std::optional<Device>", "Device"),
    "MemoryFormat": ("MemoryFormat", "std::optional<MemoryFormat>", "MemoryFormat"),
    "Generator": ("const Generator&", "const Generator&", "Generator"),
    "Tensor": ("const Tensor&", "const Tensor&", "Tensor"),
}
LISTS: dict[str, tuple[str, str]] = {
    "int": ("IntList", "DimVector"),
    "bool": ("const std::vector<bool>&", "std::vector<bool>"),
    "Tensor": ("TensorList", "std::vector<Tensor>"),
}
MEMORY_FORMATS = {
    "contiguous_format": "MemoryFormat::Contiguous",
    "preserve_format": "MemoryFormat::Preserve",
    "channels_last": "MemoryFormat::ChannelsLast",
    "channels_last_3d": "MemoryFormat::ChannelsLast3d",
}
KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t"
    " char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr"
    " constinit continue decltype default delete do double dynamic_cast else enum explicit export"
    " extern false float for friend goto if inline int long mutable namespace new noexcept not"
    " not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires"
    " return short signed sizeof static static_assert static_cast struct switch template this"
    " thread_local throw true try typedef typeid typename union unsigned using virtual void"
    " volatile wchar_t while xor xor_eq".split()
)


def identifier(name: str) -> str:
    """A schema name as a C++ identifier: keywords get a trailing underscore."""
    return name + "_" if name in KEYWORDS else name


def parameter(t: Type) -> str:
    """The type of a function parameter."""
    if t.is_list:
        plain = LISTS[t.base][0]
        # an absent tensor list is an empty one
        return f"std::optional<{plain}>" if t.optional and t.base != "Tensor" else plain
    return SCALARS[t.base][1 if t.optional else 0]


def owned(t: Type) -> str:
    """The type of a field or local that keeps such a value alive."""
    if t.is_list:
        plain = LISTS[t.base][1]
        return f"std::optional<{plain}>" if t.optional and t.base != "Tensor" else plain
    plain = SCALARS[t.base][2]
    keeps_null = t.base in ("Tensor", "Generator")
    return f"std::optional<{plain}>" if t.optional and not keeps_null else plain


def is_storable(t: Type) -> bool:
    """Whether values of a type have a C++ type that owns them."""
    return t.base in (LISTS if t.is_list else SCALARS)


def dtype_literal(name: str) -> str:
    """`float32` -> `ScalarType::Float32`."""
    fixed = "BFloat16" if name == "bfloat16" else name.capitalize().replace("Uint", "UInt")
    return f"ScalarType::{fixed}"


def quoted(text: str) -> str:
    """Text as a string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def unbounded(value: float) -> str:
    """An infinity or NaN."""
    sign = "-" if value < 0 else ""
    which = "infinity" if math.isinf(value) else "quiet_NaN"
    return f"{sign}std::numeric_limits<double>::{which}()"


def literal(text: str, t: Type, *, owned_value: bool = False) -> str:
    """A default written in the schema, as a C++ expression of the parameter's (or owned) type."""
    if text == "None":
        if t.base == "Tensor":
            return "std::vector<Tensor>{}" if t.is_list and owned_value else "{}"
        return "nullptr" if t.base == "Generator" else "std::nullopt"
    if t.is_list:
        value = ast.literal_eval(text)
        items = list(value) if isinstance(value, list | tuple) else [value] * (t.list_size or 1)
        body = ", ".join(str(v).lower() if isinstance(v, bool) else str(v) for v in items)
        kind = (
            owned(Type(t.base, list_size=0))
            if owned_value
            else parameter(Type(t.base, list_size=0))
        )
        kind = kind.removeprefix("const ").removesuffix("&")
        inner = f"{kind}{{{body}}}" if kind != "IntList" else f"IntList({{{body}}})"
        return f"{owned(t) if owned_value else parameter(t)}({inner})" if t.optional else inner
    if t.base == "str":
        plain = quoted(str(ast.literal_eval(text)))
        return f"std::string({plain})" if owned_value else plain
    if t.base == "Scalar":
        if text in ("inf", "-inf", "nan"):
            return f"Scalar({unbounded(float(text))})"
        value = ast.literal_eval(text)
        if isinstance(value, bool):
            return f"Scalar({str(value).lower()})"
        return f"Scalar(int64_t{{{value}}})" if isinstance(value, int) else f"Scalar({value!r})"
    if t.base == "bool":
        return text.lower()
    if t.base == "int":
        return f"int64_t{{{text}}}"
    if t.base == "float":
        return f"double({text})" if math.isfinite(float(text)) else unbounded(float(text))
    if t.base == "ScalarType":
        return dtype_literal(text)
    if t.base == "MemoryFormat":
        return MEMORY_FORMATS[text]
    raise ValueError(f"no C++ literal for default {text!r} of type {t}")


def declared_parameter(argument: Argument, with_default: bool = False) -> str:
    text = f"{parameter(argument.type)} {identifier(argument.name)}"
    if with_default and argument.default is not None:
        text += f" = {literal(argument.default, argument.type)}"
    return text


def parameters(op: Operator, with_defaults: bool = False) -> str:
    """The parameter list; C++ wants defaults last, so those before a plain argument are dropped."""
    arguments = op.signature.arguments
    last_plain = max((i for i, a in enumerate(arguments) if a.default is None), default=-1)
    return ", ".join(
        declared_parameter(a, with_defaults and i > last_plain) for i, a in enumerate(arguments)
    )


def joined(*parts: str) -> str:
    """Parts of a list of parameters or arguments, of which some may be empty."""
    return ", ".join(part for part in parts if part)


def names(op: Operator) -> str:
    return ", ".join(identifier(a.name) for a in op.signature.arguments)


def result_type(returns: tuple[Return, ...]) -> str:
    """What the functional form returns."""
    if not returns:
        return "void"
    if len(returns) > 1:
        return f"std::tuple<{', '.join(owned(r.type) for r in returns)}>"
    only = returns[0].type
    return "const Tensor&" if only.mutable else owned(only)


def returns_tensors(op: Operator) -> bool:
    """True when every result is a fresh single tensor, so that out= and kernels with outs exist."""
    returns = op.signature.returns
    return bool(returns) and all(r.type.is_tensor and not r.type.mutable for r in returns)


def output_names(op: Operator) -> tuple[str, ...]:
    """Names of the results: those of the schema, or `result`, `result0`..."""
    returns = op.signature.returns
    if len(returns) == 1:
        return (returns[0].name or "result",)
    return tuple(r.name or f"result{i}" for i, r in enumerate(returns))


def mutable_names(op: Operator) -> tuple[str, ...]:
    """The arguments that the operator writes to, as C++ names."""
    return tuple(identifier(a.name) for a in op.signature.arguments if a.type.mutable)


def mutates(op: Operator) -> bool:
    return bool(mutable_names(op))


def out_names(op: Operator) -> tuple[str, ...]:
    """C++ names of the tensors that kernels and out= forms write their results to."""
    count = len(op.signature.returns)
    return ("out",) if count == 1 else tuple(f"out{i}" for i in range(count))


def kernel_parameters(op: Operator) -> str:
    """Parameters of a device kernel: the arguments, then one output tensor a result."""
    text = parameters(op)
    if returns_tensors(op) and op.kind != "view":
        text = joined(text, *(f"const Tensor& {o}" for o in out_names(op)))
    return text


def kernel_result(op: Operator) -> str:
    if op.kind == "view" or not (
        returns_tensors(op) or (op.signature.returns and op.signature.returns[0].type.mutable)
    ):
        return result_type(op.signature.returns)
    return "void"
