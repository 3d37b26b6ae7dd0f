"""What a linker misses, in the words of ops.yaml: the operator and the function it wants.

Operators bind to hand-written functions by C++ symbol, so a missing or misspelt one is found when
the module is linked. The linker knows only the symbol; this module knows who wants it.

CMake runs the linker through `cmake/link.py`, which is `link` below. A Python module may have
undefined symbols, Python's own; one of facula's would show at import only, and is an error here.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from .emit.headers import Function, kernel_functions, shape_functions
from .schema.errors import SchemaError, SchemaErrors, nearest
from .schema.model import Location, Schema

# Where the functions of each namespace are written.
FOLDERS = {
    "cpu": "aten/cpu",
    "any": "aten",
    "device": "aten",
    "composite": "aten/composite",
    "shape": "aten/shape",
}
_SYMBOL = re.compile(rf"\bfacula::({'|'.join(FOLDERS)})::(\w+)\(")
# ld, gold, mold and lld say `undefined`, macOS' linker `"f()", referenced from:`
_COMPLAINT = re.compile(r"undefined|referenced from:")


@dataclass(frozen=True)
class Use:
    """A record that wants a function."""

    location: Location
    subject: str
    function: Function


def uses(schema: Schema) -> dict[tuple[str, str], list[Use]]:
    """Who wants each function, by namespace and name."""
    found: dict[tuple[str, str], list[Use]] = {}
    for op in schema.callables:
        for space, function in kernel_functions(op):
            use = Use(op.location, op.name, function)
            found.setdefault((space, function.name), []).append(use)
    functions = shape_functions(schema, defaults=False)
    for rule, function in zip(schema.rules, functions, strict=True):
        use = Use(rule.location, rule.signature.name, function)
        found.setdefault(("shape", function.name), []).append(use)
    return found


def missing_functions(text: str) -> list[tuple[str, str]]:
    """Namespace and name of the undefined functions in a linker's or `nm`'s text."""
    lines = [line for line in text.splitlines() if _COMPLAINT.search(line)]
    return list(dict.fromkeys(m.groups() for line in lines for m in _SYMBOL.finditer(line)))  # type: ignore[misc]


def explained(
    schema: Schema, linker: str, defined: Collection[str] = (), where: str | None = None
) -> str:
    """The mistakes behind a linker's complaints; `defined` are the symbols of the objects.

    `where` functions are to be looked for, if not in the folders of their namespaces.
    """
    wanted = uses(schema)
    errors = [
        SchemaError(use.location, use.subject, _message(key[0], use.function, defined, where))
        for key in missing_functions(linker)
        for use in wanted.get(key, ())
    ]
    return str(SchemaErrors(errors)) if errors else ""


def _message(space: str, function: Function, defined: Collection[str], where: str | None) -> str:
    written = f"{function.result} facula::{space}::{function.name}({function.parameters})"
    message = f"no function `{written}` in {where or FOLDERS[space] + '/'}"
    others = dict(_names(space, defined))
    if function.name in others:
        return f"{message}; the one there has other parameters: `{others[function.name]}`"
    return message + nearest(function.name, others)


def _names(space: str, defined: Collection[str]) -> Iterator[tuple[str, str]]:
    """Name and signature of the functions of a namespace among demangled symbols."""
    for symbol in defined:
        match = _SYMBOL.search(symbol)
        if match and match[1] == space:
            yield match[2], symbol[match.start() :]


# ---- the linker itself ----


def link(schema: Path, command: list[str]) -> int:
    """Run a linker, and after its own words say what they mean; the exit status."""
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    sys.stderr.write(done.stderr)
    words, status = expanded(command), done.returncode
    output = Path(words[words.index("-o") + 1]) if "-o" in words[:-1] else None
    complaint = done.stderr
    if status == 0 and output is not None:
        # A weak one may be missing: gcc 11 asks so for start functions of variables that have none.
        undefined = [n for n in symbols("-u", "-D", str(output), kind="U") if "facula::" in n]
        complaint = "".join(f"undefined symbol: {n}\n" for n in undefined)
        if undefined:
            status = 1
            sys.stderr.write(complaint)
            output.unlink()
    if status and missing_functions(complaint):
        from .schema.reader import read_schema
        from .tensor.derive import derive

        objects = [w for w in words if w.endswith(".o")]
        defined = symbols("--defined-only", *objects) if objects else ()
        text = explained(derive(read_schema(schema)), complaint, defined)
        print(f"\nfunctions that {schema.name} names are missing:\n{text}", file=sys.stderr)
    return status


def expanded(command: list[str]) -> list[str]:
    """The arguments of a command, with those that it reads from `@file`."""
    found: list[str] = []
    for word in command:
        file = Path(word[1:])
        if word.startswith("@") and file.is_file():
            found += expanded(shlex.split(file.read_text(encoding="utf-8")))
        else:
            found.append(word)
    return found


def symbols(*options: str, kind: str = "[A-Za-z]") -> list[str]:
    """Demangled names of a kind as `nm` lists them; none where it is missing or knows not all."""
    try:
        done = subprocess.run(
            ["nm", "-C", *options], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError:
        return []
    return re.findall(rf"^ *[0-9a-f]* *{kind} (.+)$", done.stdout, re.M)
