"""Where the parts of an operator stand: its entry, kernels, shape rules and tests, as path:line."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from .emit import batching
from .emit.bindings import inplace_names, python_names
from .emit.headers import kernel_functions
from .explain import find
from .schema.model import Formula, Operator, Schema, ShapeRule

_NAMESPACE = re.compile(r"^namespace facula(?:::(\w+))? \{", re.M)
_TEST = re.compile(r"^def (test_\w+)\(", re.M)
_TEST_OF_EACH = re.compile(r"^def (test_\w+)\((?:[^)]*\W)?op: ", re.M)
_CALL = re.compile(r"\b([A-Za-z_]\w*)\(")


def parts(schema: Schema, root: Path, name: str) -> str:
    """The parts of an operator, or of all overloads of a Python name, a line each."""
    lines: list[str] = []
    for op in find(schema, name):
        lines += [str(op.signature)]
        for title, places in (
            ("entry", [f"{op.location.file}:{op.location.line}"]),
            ("kernel", list(kernels(op, root))),
            ("shape rule", list(rules(schema, op, root))),
            ("in a batch", [batching.told(op)]),
            ("test specification", list(_test_specification(op, root))),
            ("tests of every operator", list(_tests_of_each(root)) if op.samples else []),
            ("tests that name it", list(_tests_that_name(op, root))),
        ):
            lines += [f"  {title}", *(f"    {place}" for place in places)] if places else []
    return "\n".join(lines)


@functools.cache
def _sources(folder: Path, pattern: str) -> tuple[tuple[Path, str], ...]:
    return tuple((p, p.read_text(encoding="utf-8")) for p in sorted(folder.rglob(pattern)))


def _at(root: Path, path: Path, text: str, offset: int) -> str:
    return f"{path.relative_to(root)}:{text.count(chr(10), 0, offset) + 1}"


# ---- C++ ----


def kernels(op: Operator, root: Path) -> Iterator[str]:
    """What computes an operator: its formula, and functions of each device and for all."""
    if op.scalar:
        place = op.place("scalar")
        yield f"{place.file}:{place.line} `scalar`, whose loops are generated"
    if op.composite is not None:
        place = op.composite.location
        yield f"{place.file}:{place.line} `composite`, over other operators"
    for space, function in kernel_functions(op):
        where = _definition(root, space, function.name)
        yield f"{where or 'aten/ (not found):'} {space}::{function.name}"
    registered = re.compile(rf'\{{"{re.escape(op.name)}", ')
    for path, text in _sources(root / "aten", "*.cpp"):
        yield from (
            f"{_at(root, path, text, match.start())} registered by name"
            for match in registered.finditer(text)
        )


def _definition(root: Path, space: str, name: str) -> str | None:
    """Where a function of a namespace below `facula` is defined; one that a macro makes, named."""
    define = re.compile(rf"^[A-Za-z_][\w:<>,&* ]*[ &]{re.escape(name)}\((?:[^;{{]*)\{{", re.M)
    mention = re.compile(rf"^[A-Z_]+\((?:.*\W)?{re.escape(name)}\W", re.M)
    for pattern in (define, mention):
        for path, text in _sources(root / "aten", "*.cpp"):
            if name not in text or space not in _NAMESPACE.findall(text):
                continue
            if match := pattern.search(text):
                return _at(root, path, text, match.start())
    return None


def rules(schema: Schema, op: Operator, root: Path) -> Iterator[str]:
    """The shape rules that an operator calls, and its checks."""
    formulas = [*op.shape, *(check.call for check in op.checks if check.call is not None)]
    for rule in _called(schema.rules, formulas):
        where = _definition(root, "shape", rule.signature.name)
        stated = f"declared in {rule.location.file}:{rule.location.line}"
        yield f"{where or 'aten/shape/ (not found):'} shape::{rule.signature.name}, {stated}"
    for check in op.checks:
        if check.require is not None:
            place = check.require.location
            yield f"{place.file}:{place.line} check `{check.label}`"


def _called(rules: Sequence[ShapeRule], formulas: Sequence[Formula]) -> list[ShapeRule]:
    names = {name for formula in formulas for name in _CALL.findall(formula.text)}
    return [rule for rule in rules if rule.signature.name in names]


# ---- tests ----


def _test_specification(op: Operator, root: Path) -> Iterator[str]:
    for key, count in (("samples", len(op.samples)), ("reference", 0), ("example", 0)):
        if key in op.places:
            place = op.place(key)
            yield f"{place.file}:{place.line} {f'{count} ' if count else ''}{key}"
    if op.property_test is not None:
        for path, text in _sources(root / "tests" / "ops", "test_*_properties.py"):
            if match := re.search(rf"^def {re.escape(op.property_test)}\(", text, re.M):
                yield f"{_at(root, path, text, match.start())} {op.property_test}"


def _tests_of_each(root: Path) -> Iterator[str]:
    """The tests that run for each operator, made from what its entry says."""
    for path, text in _sources(root / "tests" / "ops", "test_*.py"):
        found = list(_TEST_OF_EACH.finditer(text))
        if found:
            names = ", ".join(match[1] for match in found)
            yield f"{_at(root, path, text, found[0].start())} {names}"


def _tests_that_name(op: Operator, root: Path) -> Iterator[str]:
    names = {name for _, name in [*python_names(op), *inplace_names(op)]} | {op.name}
    words = "|".join(sorted(map(re.escape, names)))
    named = re.compile(rf"(?:\.(?:{words})\(|[\"'](?:{words})[\"'])")
    for path, text in _sources(root / "tests", "test_*.py"):
        tests = list(_TEST.finditer(text))
        found: dict[str, int] = {}
        for match in named.finditer(text):
            above = [test for test in tests if test.start() < match.start()]
            found.setdefault(above[-1][1] if above else "at its head", match.start())
        for name, offset in list(found.items())[:1]:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            yield f"{_at(root, path, text, offset)} {name}{more}"
