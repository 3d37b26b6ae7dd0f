"""The words of samples, such as `f(3,4), dim=1`, and whether a sample fits a signature."""

from __future__ import annotations

import ast

from .errors import nearest
from .model import Argument, Operator
from .signature import DTYPES, MEMORY_FORMATS

# word -> (most positional arguments, or None for a shape of any length; keywords)
WORDS: dict[str, tuple[int | None, tuple[str, ...]]] = {
    "f": (None, ("low", "high")),
    "pos": (None, ()),
    "i": (None, ("low", "high")),
    "b": (None, ()),
    "c": (None, ()),
    "perm": (1, ()),
    "t": (1, ()),
    "const": (1, ()),
    "slice": (3, ()),
}
_NAMES = (*DTYPES, *MEMORY_FORMATS, "inf", "nan")
_PREFIX = "call("


def check_sample(op: Operator, text: str) -> tuple[int, str] | None:
    """(offset in the text, what is wrong) of a sample, or None."""
    try:
        call = ast.parse(f"{_PREFIX}{text})", mode="eval").body
    except SyntaxError as error:
        return max((error.offset or 1) - 1 - len(_PREFIX), 0), f"not a sample: {error.msg}"
    assert isinstance(call, ast.Call)
    for node in ast.walk(call):
        problem = None if node in (call, call.func) else _word_problem(node)
        if problem:
            return max(getattr(node, "col_offset", len(_PREFIX)) - len(_PREFIX), 0), problem
    return _binding_problem(op, call)


def _word_problem(node: ast.AST) -> str | None:
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in WORDS:
            word = ast.unparse(node.func)
            return f"unknown sample word '{word}'{nearest(word, WORDS) or _known()}"
        most, keywords = WORDS[node.func.id]
        if most is not None and len(node.args) > most:
            return f"{node.func.id}() takes at most {most} arguments"
        for keyword in node.keywords:
            if keyword.arg not in keywords:
                return f"{node.func.id}() has no keyword '{keyword.arg}'"
    elif isinstance(node, ast.Name) and node.id not in (*WORDS, *_NAMES):
        return f"unknown name '{node.id}'{nearest(node.id, [*WORDS, *_NAMES]) or _known()}"
    elif isinstance(node, ast.Lambda | ast.Attribute | ast.Subscript | ast.Await):
        return f"{ast.unparse(node)} has no place in a sample"
    return None


def _known() -> str:
    return f"; known are {', '.join(WORDS)}"


def _binding_problem(op: Operator, call: ast.Call) -> tuple[int, str] | None:
    arguments = op.signature.arguments
    positional = [a for a in arguments if not a.keyword_only]
    varargs = bool(positional) and positional[-1].type.varargs
    if len(call.args) > len(positional) and not varargs:
        at = call.args[len(positional)].col_offset - len(_PREFIX)
        return at, f"{len(call.args)} positional arguments, {op.base_name} takes {len(positional)}"
    bound: set[str] = {a.name for a in positional[: len(call.args)]}
    for keyword in call.keywords:
        names = [a.name for a in arguments]
        if keyword.arg not in names:
            at = keyword.col_offset - len(_PREFIX)
            return at, f"no argument '{keyword.arg}'{nearest(keyword.arg or '', names)}"
        if keyword.arg in bound:
            return keyword.col_offset - len(_PREFIX), f"argument '{keyword.arg}' is given twice"
        bound.add(keyword.arg or "")
    missing = [a.name for a in arguments if a.name not in bound and _needed(a)]
    return (0, f"no value for '{missing[0]}'") if missing else None


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
