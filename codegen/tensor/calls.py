"""Calls in tensor formulas: which operator a name and its arguments mean, and its C++ call.

A call is resolved against the signatures of the schema, so a wrong name, arity or type is an error
of the schema, not of C++.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence

from ..schema import cpp_types
from ..schema.errors import nearest
from ..schema.model import Argument, Operator, Signature, Type
from .builtin import builtin
from .scope import Scope, TranslationError
from .values import INT, INTS, TENSOR, Value, call_types, fits, unwrap

Keywords = Mapping[str, Value]
Pairs = list[tuple[Argument, Value | None]]


def pair(signature: Signature, arguments: Sequence[Value], keywords: Keywords) -> Pairs | None:
    """Each argument of a signature with the value given for it (None: its default), if all fit."""
    positional = [a for a in signature.arguments if not a.keyword_only]
    if len(arguments) > len(positional):
        collected = _collected(positional, arguments)
        if collected is None:
            return None
        arguments = collected
    pairs: Pairs = []
    left = set(keywords)
    for i, argument in enumerate(signature.arguments):
        value = arguments[i] if not argument.keyword_only and i < len(arguments) else None
        if argument.name in keywords:
            if value is not None:
                return None
            value = keywords[argument.name]
            left.discard(argument.name)
        if value is None and argument.default is None:
            return None
        pairs.append((argument, value))
    return None if left else pairs


def _collected(
    positional: Sequence[Argument], arguments: Sequence[Value]
) -> Sequence[Value] | None:
    """The values with those beyond the signature in one list, where its last argument is `[*]`."""
    if not positional or not positional[-1].type.varargs:
        return None
    first = len(positional) - 1
    tail = [unwrap(v) for v in arguments[first:]]
    if not all(v.type == INT for v in tail):
        return None
    return [*arguments[:first], Value(f"DimVector{{{', '.join(v.code for v in tail)}}}", INTS)]


def bindable(op: Operator, arguments: Sequence[Value], keywords: Keywords) -> bool:
    pairs = pair(op.signature, arguments, keywords)
    return pairs is not None and all(
        v is None or fits(v, a.type, numbers=_takes_numbers(op)) for a, v in pairs
    )


def _takes_numbers(op: Operator) -> bool:
    """Elementwise formulas take a number for a tensor."""
    return op.kind == "pointwise"


def function(
    scope: Scope, name: str, arguments: Sequence[Value], keywords: Keywords, node: ast.AST
) -> Value:
    """`name(arguments)`: a function of the language, a shape rule or an operator."""
    if not keywords:
        made = builtin(scope, name, arguments, node)
        if made is not None:
            return made
    rules = scope.schema.rule_signatures
    if scope.in_shape and name in rules:
        return _call(scope, rules[name], f"shape::{name}", arguments, keywords, node)
    return operator(scope, name, arguments, keywords, node)


def operator(
    scope: Scope, name: str, arguments: Sequence[Value], keywords: Keywords, node: ast.AST
) -> Value:
    """The first overload that takes these arguments; `NAME_` is an in-place form."""
    named = scope.schema.by_base_name
    inplace = name.endswith("_") and name not in named and name[:-1] in named
    candidates = named.get(name[:-1] if inplace else name, [])
    if not candidates:
        what, known = "operator", list(named)
        if scope.in_shape:
            what, known = "shape rule", list(scope.schema.rule_signatures)
        raise scope.error(node, f"unknown {what} '{name}'{nearest(name, known)}")
    for candidate in candidates:
        if inplace and "inplace" not in candidate.variants:
            continue
        if bindable(candidate, arguments, keywords):
            return invoke(scope, candidate, arguments, keywords, node, inplace=inplace)
    if inplace and not any("inplace" in c.variants for c in candidates):
        raise scope.error(node, f"'{name[:-1]}' has no in-place form; its 'variants' have none")
    raise _misfit(scope, name, arguments, keywords, [c.signature for c in candidates], node)


def sign(scope: Scope, token: str, arguments: Sequence[Value], node: ast.AST) -> Value:
    """The operator that stands for a sign, such as `+`, or for a property of tensors."""
    for candidate in scope.schema.by_token.get(token, ()):
        if bindable(candidate, arguments, {}):
            return invoke(scope, candidate, arguments, {}, node)
    types = call_types(arguments, {})
    raise scope.error(node, f"no operator of ops.yaml stands for `{token}` on {types}")


def invoke(
    scope: Scope,
    op: Operator,
    arguments: Sequence[Value],
    keywords: Keywords,
    node: ast.AST,
    *,
    inplace: bool = False,
) -> Value:
    target = f"ops::{cpp_types.identifier(op.symbol)}{'_' * inplace}"
    numbers = _takes_numbers(op)
    value = _call(scope, op.signature, target, arguments, keywords, node, numbers=numbers)
    return Value(value.code, TENSOR) if inplace else value


def _call(
    scope: Scope,
    signature: Signature,
    target: str,
    arguments: Sequence[Value],
    keywords: Keywords,
    node: ast.AST,
    *,
    numbers: bool = False,
) -> Value:
    pairs = pair(signature, arguments, keywords)
    if pairs is None:
        raise _misfit(scope, signature.name, arguments, keywords, [signature], node)
    codes = []
    for argument, value in pairs:
        if value is None:
            assert argument.default is not None
            codes.append(cpp_types.literal(argument.default, argument.type))
        else:
            codes.append(scope.convert(value, argument.type, node, numbers=numbers).code)
    code = f"{target}({', '.join(codes)})"
    returns = tuple(r.type for r in signature.returns)
    if len(returns) == 1:
        return Value(code, TENSOR if returns[0].mutable else returns[0])
    return Value(code, Type("tuple"), items=returns)


def _misfit(
    scope: Scope,
    name: str,
    arguments: Sequence[Value],
    keywords: Keywords,
    signatures: Iterable[Signature],
    node: ast.AST,
) -> TranslationError:
    given = call_types(arguments, keywords)
    wanted = " or ".join(map(str, signatures))
    return scope.error(node, f"{name}({given}) does not fit {wanted}")
