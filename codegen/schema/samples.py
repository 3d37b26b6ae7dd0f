"""What proves an operator: samples, such as `f(3,4), dim=1`, and tests that `property` may name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from .dtypes import DTYPES
from .errors import nearest
from .model import Argument, Operator
from .signature import MEMORY_FORMATS

# word -> (least and most positional arguments, or None for a shape of any length; keywords)
WORDS: dict[str, tuple[tuple[int, int] | None, tuple[str, ...]]] = {
    "f": (None, ("low", "high")),
    "pos": (None, ()),
    "i": (None, ("low", "high")),
    "b": (None, ()),
    "c": (None, ()),
    "spd": ((1, 3), ()),
    "tri": ((1, 3), ()),
    "orth": ((1, 3), ()),
    "perm": ((1, 1), ()),
    "t": ((1, 1), ()),
    "const": ((1, 1), ()),
    "slice": ((1, 3), ()),
    "each": (None, ()),
}
_NAMES = (*DTYPES, *MEMORY_FORMATS, "inf", "nan")
_PREFIX = "call("
# The tests of what no reference says; their names are the words of `property`.
PROPERTY_TESTS = Path(__file__).resolve().parents[2] / "tests" / "ops"


def property_tests(folder: Path = PROPERTY_TESTS) -> tuple[str, ...]:
    """Names of the test functions in `test_*_properties.py` of a folder."""
    texts = [p.read_text(encoding="utf-8") for p in sorted(folder.glob("test_*_properties.py"))]
    return tuple(re.findall(r"^def (test_\w+)\(", "\n".join(texts), re.M))


def reference_functions(folder: Path = PROPERTY_TESTS) -> tuple[str, ...]:
    """Names of the functions in `*_reference.py` of a folder: what `ref.NAME` may name."""
    texts = [p.read_text(encoding="utf-8") for p in sorted(folder.glob("*_reference.py"))]
    return tuple(re.findall(r"^def ([a-z]\w*)\(", "\n".join(texts), re.M))


def each_of(text: str) -> tuple[str, ...]:
    """The samples that one text stands for: one for each value of an `each(...)` in it."""
    try:
        call = ast.parse(f"{_PREFIX}{text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (text,)  # `check_sample` says what is wrong
    for node in ast.walk(call):
        match node:
            case ast.Call(func=ast.Name(id="each"), args=[_, *_] as values, keywords=[]):
                start, end = _offset(text, node), _end(text, node)
                words = (text[_offset(text, v) : _end(text, v)] for v in values)
                return tuple(s for w in words for s in each_of(text[:start] + w + text[end:]))
    return (text,)


def check_sample(op: Operator, text: str) -> tuple[int, str] | None:
    """(offset in the text, what is wrong) of a sample, or None."""
    try:
        call = ast.parse(f"{_PREFIX}{text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        offset = (getattr(error, "offset", None) or 1) - 1 - len(_PREFIX)
        return min(max(offset, 0), max(len(text) - 1, 0)), f"not a sample: {_reason(error)}"
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != _PREFIX[:-1]:
        return 0, "not a sample: write the arguments of one call, such as `f(3,4), dim=1`"
    for node in ast.walk(call):
        problem = None if node in (call, call.func) else _word_problem(node)
        if problem:
            return _offset(text, node), problem
    return _binding_problem(op, text, call)


def _reason(error: BaseException) -> str:
    return str(getattr(error, "msg", error)) or "nested too deeply"


def _offset(text: str, node: ast.AST) -> int:
    """Where a node begins in the sample (columns of `ast` count bytes)."""
    column = max(getattr(node, "col_offset", 0) - len(_PREFIX), 0)
    return len(text.encode()[:column].decode())


def _end(text: str, node: ast.expr) -> int:
    column = max((node.end_col_offset or 0) - len(_PREFIX), 0)
    return len(text.encode()[:column].decode())


def _word_problem(node: ast.AST) -> str | None:
    match node:
        case ast.Call(func=ast.Name(id="each")):
            return "each() takes the values of an argument, for each of which there is a call"
        case ast.Call(func=ast.Name(id=word), args=args, keywords=keywords) if word in WORDS:
            count, known = WORDS[word]
            if count is not None and not count[0] <= len(args) <= count[1]:
                least, most = count
                wanted = str(most) if least == most else f"{least} to {most}"
                plural = "s" if most > 1 else ""
                return f"{word}() takes {wanted} argument{plural}, found {len(args)}"
            for keyword in keywords:
                if keyword.arg not in known:
                    hint = f"; known are {', '.join(known)}" if known else "; it takes none"
                    return f"{word}() has no keyword '{keyword.arg}'{hint}"
        case ast.Call(func=func):
            word = ast.unparse(func)
            return f"unknown sample word '{word}'{nearest(word, WORDS) or _known()}"
        case ast.Name(id=name) if name not in (*WORDS, *_NAMES):
            return f"unknown name '{name}'{nearest(name, [*WORDS, *_NAMES]) or _known()}"
        case ast.Starred() | ast.keyword(arg=None):
            return "a sample names each argument; `*` has no place in it"
        case ast.Lambda() | ast.Attribute() | ast.Subscript() | ast.Await() | ast.NamedExpr():
            return f"`{ast.unparse(node)}` has no place in a sample"
    return None


def _known() -> str:
    return f"; known are {', '.join(WORDS)}"


def _binding_problem(op: Operator, text: str, call: ast.Call) -> tuple[int, str] | None:
    arguments = op.signature.arguments
    positional = [a for a in arguments if not a.keyword_only]
    varargs = bool(positional) and positional[-1].type.varargs
    if len(call.args) > len(positional) and not varargs:
        found, most = len(call.args), len(positional)
        plural = "s" if found > 1 else ""
        at = _offset(text, call.args[most])
        return at, f"{found} positional argument{plural}, {op.base_name} takes {most}"
    bound: set[str] = {a.name for a in positional[: len(call.args)]}
    for keyword in call.keywords:
        names = [a.name for a in arguments]
        if keyword.arg not in names:
            hint = nearest(keyword.arg or "", names) or f"; known are {', '.join(names)}"
            return _offset(text, keyword), f"no argument '{keyword.arg}'{hint}"
        if keyword.arg in bound:
            return _offset(text, keyword), f"argument '{keyword.arg}' is given twice"
        bound.add(keyword.arg or "")
    missing = [a.name for a in arguments if a.name not in bound and _needed(a)]
    plural = "s" if len(missing) > 1 else ""
    listed = ", ".join(f"'{name}'" for name in missing)
    return (0, f"no value{plural} for {listed}") if missing else None


def _needed(argument: Argument) -> bool:
    return argument.default is None and not argument.type.varargs


def default_samples(op: Operator) -> tuple[str, ...]:
    """Samples of a pointwise operator that states none: whole, empty, 0-d and broadcast inputs."""
    needed = [a for a in op.signature.arguments if a.default is None]
    if not all(a.type.is_tensor for a in needed):
        return ()
    if "float" in op.dtypes:
        maker, extra = "f", ""
    else:
        maker, extra = ("i", "low=-9,high=9") if "int" in op.dtypes else ("b", "")
    shapes = [["3,4"] * len(needed), ["0"] * len(needed), [""] * len(needed)]
    if len(needed) > 1:
        shapes.insert(1, ["3,4", *["4"] * (len(needed) - 1)])
        shapes.insert(2, ["3,1", *["1,4"] * (len(needed) - 1)])
    samples = []
    for sizes in shapes:
        samples.append(
            ", ".join(f"{maker}({','.join(x for x in (size, extra) if x)})" for size in sizes)
        )
    return tuple(samples)


# Words of arrays that derivatives are taken of.
DIFFERENTIABLE = ("f", "pos", "c", "spd", "tri", "orth")


def differentiated(op: Operator, text: str) -> set[str]:
    """Names of the arguments that a (good) sample gives tensors that derivatives are taken of."""
    call = ast.parse(f"{_PREFIX}{text})", mode="eval").body
    assert isinstance(call, ast.Call)
    positional = [a for a in op.signature.arguments if not a.keyword_only]
    given = [(positional[min(i, len(positional) - 1)].name, v) for i, v in enumerate(call.args)]
    given += [(k.arg or "", k.value) for k in call.keywords]
    return {name for name, value in given if _is_differentiable(value)}


def _is_differentiable(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=word)):
            return word in DIFFERENTIABLE
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return any(_is_differentiable(item) for item in items)
    return False
