"""Parser of operator signatures, e.g. `gelu(Tensor self, *, str approximate="none") -> Tensor`.

Every parse must round-trip: `str(parse(text)) == text`. Errors carry the column in the text.
"""

from __future__ import annotations

import ast
import keyword
import math
import re

from . import cpp_types
from .dtypes import DTYPES
from .errors import nearest, suggestion
from .model import Argument, Range, Return, Signature, Type

# Types that C++ has, and Meta, which shape rules return.
BASE_TYPES = (*cpp_types.SCALARS, "Meta")
LIST_BASES = tuple(cpp_types.LISTS)
MEMORY_FORMATS = tuple(cpp_types.MEMORY_FORMATS)
FLOAT_NAMES = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_NAME = re.compile(r"[A-Za-z_]\w*")
_OPERATOR_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")
_BOUND = re.compile(r"(>=|<=|>|<)\s*(-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)")
_INTERVAL = re.compile(r"in\s*([\[(])\s*(-?[\w.]+)\s*,\s*(-?[\w.]+)\s*([\])])")


class SignatureError(ValueError):
    """A mistake in a signature; `column` counts characters of its text from 0."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(message)
        self.column = column
        self.message = message


class _Cursor:
    def __init__(self, text: str, rule: bool) -> None:
        self.text = text
        self.at = 0
        self.rule = rule

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self, token: str) -> bool:
        self.skip()
        return self.text.startswith(token, self.at)

    def take(self, token: str) -> bool:
        if self.peek(token):
            self.at += len(token)
            return True
        return False

    def expect(self, token: str, what: str) -> None:
        if not self.take(token):
            found = self.text[self.at : self.at + 1]
            raise self.error(
                f"expected '{token}' {what}, found {repr(found) if found else 'the end'}"
            )

    def match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        self.skip()
        match = pattern.match(self.text, self.at)
        if match is None:
            raise self.error(f"expected {what}, found {self.text[self.at : self.at + 12]!r}")
        self.at = match.end()
        return match

    def error(self, message: str, at: int | None = None) -> SignatureError:
        return SignatureError(self.at if at is None else at, message)


def parse(text: str, *, rule: bool = False) -> Signature:
    """Parse the signature of an operator or shape rule; a mistake raises SignatureError."""
    cursor = _Cursor(text, rule)
    name = cursor.match(_OPERATOR_NAME, "the operator's name").group()
    if keyword.iskeyword(name):
        raise cursor.error(f"'{name}' is a keyword of Python; use '{name}_'", 0)
    cursor.expect("(", f"after '{name}'")
    arguments = _arguments(cursor)
    cursor.expect("->", "before the return type")
    cursor.skip()
    start = cursor.at
    returns, parenthesised = _returns(cursor)
    cursor.skip()
    if cursor.at != len(text):
        raise cursor.error(f"nothing may follow the return type, found {text[cursor.at :]!r}")
    if rule and [str(r.type) for r in returns] not in ([], ["Meta"]):
        raise cursor.error("a rule returns Meta, or () where it checks only", start)
    signature = Signature(name, arguments, returns, parenthesised)
    spelled = str(signature)
    if spelled != text:
        column = next(
            (i for i, (a, b) in enumerate(zip(spelled, text, strict=False)) if a != b),
            min(len(spelled), len(text)),
        )
        raise SignatureError(column, f"write the signature as `{spelled}`")
    return signature


def _arguments(cursor: _Cursor) -> tuple[Argument, ...]:
    arguments: list[Argument] = []
    starred = False
    if cursor.take(")"):
        return ()
    while True:
        cursor.skip()
        start = cursor.at
        if cursor.take("*"):
            if starred:
                raise cursor.error("a second '*'; one separates the keyword-only arguments", start)
            starred = True
            if cursor.peek(")"):
                raise cursor.error("no argument follows '*'", start)
        else:
            argument = _argument(cursor, starred)
            if any(a.name == argument.name for a in arguments):
                raise cursor.error(f"argument '{argument.name}' is given twice", start)
            previous = arguments[-1] if arguments else None
            if (
                argument.default is None
                and not starred
                and previous is not None
                and previous.default is not None
            ):
                raise cursor.error(
                    f"'{argument.name}' has no default but follows '{previous.name}', which has",
                    start,
                )
            arguments.append(argument)
        if cursor.take(")"):
            return tuple(arguments)
        cursor.expect(",", "or ')' between arguments")


def _argument(cursor: _Cursor, keyword_only: bool) -> Argument:
    type_ = _type(cursor)
    cursor.skip()
    start = cursor.at
    name = cursor.match(_NAME, f"a name after the type '{type_}'").group()
    if keyword.iskeyword(name) or name in cpp_types.KEYWORDS:
        raise cursor.error(f"'{name}' is a keyword of Python or C++; use '{name}_'", start)
    plain = name.rstrip("_")
    if plain != name and not (keyword.iskeyword(plain) or plain in cpp_types.KEYWORDS):
        message = f"'{name}' ends in '_', as names of generated code do; use '{plain}'"
        raise cursor.error(message, start)
    range_ = _range(cursor, type_)
    default = None
    if cursor.take("="):
        cursor.skip()
        start = cursor.at
        default = _default_text(cursor)
        problem = check_default(type_, default, range_)
        if problem:
            raise cursor.error(f"default of '{name}': {problem}", start)
    return Argument(name, type_, default, range_, keyword_only)


def _type(cursor: _Cursor) -> Type:
    cursor.skip()
    start = cursor.at
    base = cursor.match(_NAME, "a type").group()
    if base not in BASE_TYPES:
        raise cursor.error(f"unknown type '{base}'{suggestion(base, BASE_TYPES)}", start)
    if base == "Meta" and not cursor.rule:
        raise cursor.error("Meta is what shape rules return; operators have Tensors", start)
    mutable = base == "Tensor" and cursor.text.startswith("!", cursor.at)
    cursor.at += mutable
    optional = cursor.text.startswith("?", cursor.at)
    cursor.at += optional
    if not cursor.text.startswith("[", cursor.at):
        return Type(base, optional, mutable=mutable)
    cursor.at += 1
    size, varargs = 0, False
    if cursor.take("*"):
        varargs = True
    elif not cursor.peek("]"):
        size = int(cursor.match(re.compile(r"[1-9]\d*"), "a list length, '*' or ']'").group())
    cursor.expect("]", "after the list length")
    if base not in LIST_BASES:
        raise cursor.error(f"no lists of {base}; lists are of {', '.join(LIST_BASES)}", start)
    if optional and base != "Tensor":
        raise cursor.error(f"write '{base}[]?' for an optional list", start)
    list_optional = cursor.text.startswith("?", cursor.at)
    cursor.at += list_optional
    return Type(base, list_optional, size, varargs, optional_elements=optional, mutable=mutable)


def _range(cursor: _Cursor, type_: Type) -> Range | None:
    cursor.skip()
    start = cursor.at
    match = _BOUND.match(cursor.text, start)
    if match:
        text, (sign, number) = f"{match[1]} {match[2]}", match.groups()
        low = float(number) if sign[0] == ">" else None
        high = float(number) if sign[0] == "<" else None
        range_ = Range(text, low, high, low_open=sign == ">", high_open=sign == "<")
    else:
        match = _INTERVAL.match(cursor.text, start)
        if match is None:
            if re.match(r"in\b|[<>]", cursor.text[start:]):
                raise cursor.error("a range is '>= 1', '< 5' or 'in [0, 1)'", start)
            return None
        try:
            low, high = float(match[2]), float(match[3])
        except ValueError:
            raise cursor.error("the ends of a range are numbers", start) from None
        if not low <= high:
            raise cursor.error(f"the range {match.group()} is empty", start)
        text = f"in {match[1]}{match[2]}, {match[3]}{match[4]}"
        range_ = Range(text, low, high, match[1] == "(", match[4] == ")")
    if type_.base not in ("int", "float", "Scalar"):
        raise cursor.error(f"a range needs a number, not {type_}", start)
    cursor.at = match.end()
    return range_


def _default_text(cursor: _Cursor) -> str:
    """Text up to the ',' or ')' that ends the argument, minding brackets and quotes."""
    text, start, depth, quote = cursor.text, cursor.at, 0, ""
    at = start
    while at < len(text):
        char = text[at]
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "([":
            depth += 1
        elif char in ")]" and depth:
            depth -= 1
        elif char in ",)" and not depth:
            break
        at += 1
    cursor.at = at
    default = text[start:at].rstrip()
    if not default:
        raise cursor.error("expected a default after '='", start)
    return default


def _number(text: str) -> int | float | bool | None:
    if text in FLOAT_NAMES:
        return FLOAT_NAMES[text]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return value if isinstance(value, int | float) else None


def _in_range(value: float, range_: Range) -> bool:
    low = range_.low is None or (value > range_.low if range_.low_open else value >= range_.low)
    high = range_.high is None or (
        value < range_.high if range_.high_open else value <= range_.high
    )
    return low and high


def check_default(type_: Type, default: str, range_: Range | None) -> str | None:
    """What is wrong with a default, or None."""
    if default == "None":
        return None if type_.optional else f"None needs an optional type: {type_}?"
    if type_.is_list:
        return _check_list_default(type_, default, range_)
    value = _number(default)
    match type_.base:
        case "int":
            if not isinstance(value, int) or isinstance(value, bool):
                return f"expected an integer, found {default}"
            if not -(2**63) <= value < 2**63:
                return f"{default} does not fit in 64 bits"
        case "float":
            if value is None or isinstance(value, bool):
                return f"expected a number, found {default}"
        case "Scalar":
            if value is None:
                return f"expected a number, found {default}"
        case "bool":
            if default not in ("True", "False"):
                return f"expected True or False, found {default}"
        case "str":
            if not re.fullmatch(r'"[^"\\]*"', default):
                return f"expected text in double quotes, found {default}"
        case "ScalarType":
            if default not in DTYPES:
                return f"expected a dtype name, found {default}{nearest(default, DTYPES)}"
        case "MemoryFormat":
            if default not in MEMORY_FORMATS:
                return f"unknown memory format {default}{nearest(default, MEMORY_FORMATS)}"
        case _:
            return f"a {type_.base} takes no default but None, as '{type_.base}? ...=None'"
    if range_ is not None and value is not None and not _in_range(value, range_):
        return f"{default} is outside the range {range_.text}"
    return None


def _check_list_default(type_: Type, default: str, range_: Range | None) -> str | None:
    element = Type(type_.base)
    if not default.startswith("["):
        if not type_.list_size:
            return f"expected a list, found {default}"
        return check_default(element, default, range_)
    items = [item.strip() for item in default[1:-1].split(",")] if default != "[]" else []
    if not default.endswith("]"):
        return f"expected a list, found {default}"
    if type_.list_size and len(items) != type_.list_size:
        return f"expected {type_.list_size} items, found {len(items)}"
    for item in items:
        problem = check_default(element, item, range_)
        if problem:
            return problem
    return None


def _returns(cursor: _Cursor) -> tuple[tuple[Return, ...], bool]:
    if not cursor.take("("):
        return (Return(None, _type(cursor)),), False
    returns: list[Return] = []
    if cursor.take(")"):
        return (), True
    while True:
        type_ = _type(cursor)
        cursor.skip()
        start = cursor.at
        match = _NAME.match(cursor.text, start)
        if match:
            cursor.at = match.end()
            if any(r.name == match.group() for r in returns):
                raise cursor.error(f"output '{match.group()}' is given twice", start)
        returns.append(Return(match.group() if match else None, type_))
        if cursor.take(")"):
            return tuple(returns), True
        cursor.expect(",", "or ')' between outputs")
