"""Operators of users: a schema file of their own, over the operators that facula has.

What is generated is compiled against an installed facula: dispatch stubs, loops, backward nodes,
bindings, headers for the kernels, and a test of every operator. Functions of facula's own are
looked up when they are first called, so that nothing but the extension is built.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .check import check_records
from .emit import bindings, headers, render
from .emit.export import operator_record
from .emit.plans import Plan, plan_of
from .linking import explained, symbols
from .schema import cpp_types, signs
from .schema.errors import SchemaError, SchemaErrors
from .schema.model import Operator, Schema
from .schema.reader import read_records
from .schema.words import PLACES
from .tensor.traits import traits

_OWN_FILE = "facula's ops.yaml"
# The last compiles the loops again, for a higher level of x86-64.
_OPERATORS, _MODULE = "operators.cpp", "module.cpp"
SOURCES = (
    *("stubs.cpp", "autograd.cpp", "bindings.cpp", _OPERATORS, _MODULE),
    *("pointwise.cpp", "pointwise_v3.cpp"),
)
_LEVEL = """\
// Generated from ops.yaml: the loops for AVX2, where the compiler can be told so within a file.
#define FACULA_ISA {isa}
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx2,fma,bmi,bmi2,f16c,lzcnt,movbe")
{body}#endif
"""


@dataclass(frozen=True)
class Extension:
    """The operators of one file, in the namespace that they have in Python."""

    namespace: str
    schema: Schema  # the own operators with those derived from them
    base: Schema  # what facula has
    plans: tuple[Plan, ...]

    def texts(self) -> dict[str, str]:
        """Path below the folder of generated files -> text."""
        env = render.environment()
        made = [p.stub for p in self.plans]
        found = dict(headers.texts(env, self.schema, made, {}))
        found = {f"{self.namespace}/{n.partition('/')[2]}": t for n, t in found.items()}
        declarations = render.Declarations(self.schema, made, self.base)
        for stem in render.SHARDED:
            own = f"{self.namespace}::" if stem == "stubs" else ""
            some = [p for p in self.plans if stem != "bindings" or not p.op.internal]
            text = render.cpp(stem, env, declarations, some, 0, own)
            found[f"{stem}.cpp"] = text
        found["pointwise_v3.cpp"] = _LEVEL.format(isa="v3", body=found["pointwise.cpp"])
        found[_OPERATORS] = self._operators()
        found[_MODULE] = env.get_template("extension_main.cpp.j2").render(name=self.namespace)
        found = {n: render.tidy(t) for n, t in found.items()}
        found[f"test_{self.namespace}.py"] = _TEST.format(namespace=self.namespace)
        return found

    def _operators(self) -> str:
        public = tuple(op for op in self.schema if not op.internal)
        made, callables, entries = bindings.collect(Schema((), (), public))
        both = ((*self.base, *self.schema), (*self.base.definitions, *self.schema.definitions))
        of = traits(Schema((), (), *both))
        records = [
            json.dumps(self._record(op, of[op.name]), ensure_ascii=False) for op in self.schema
        ]
        lines = ["[", *(r + "," * (i + 1 < len(records)) for i, r in enumerate(records)), "]"]
        return (
            render.environment()
            .get_template("extension_module.cpp.j2")
            .render(
                space=self.namespace,
                bindings=made,
                callables=callables,
                docs={c.symbol: render.docstring(c) for c in callables},
                functions=[e for e in entries if e.path == ""],
                methods=[e for e in entries if e.path == "Tensor"],
                records=[cpp_types.quoted(line) for line in lines],
            )
        )

    def _record(self, op: Operator, traits: tuple[str, ...]) -> dict[str, object]:
        """What the tests know of an operator: names are those of Python."""
        record = operator_record(op, traits)
        names = [] if op.internal else bindings.python_names(op)
        record["name"] = f"{self.namespace}::{op.name}"
        record["python"] = [
            f"{path}.{name}" if path else f"ops.{self.namespace}.{name}" for path, name in names
        ]
        return record

    def explain(self, linker: str, objects: Sequence[str] = ()) -> str:
        """Which operator wants the functions that a linker misses in the objects."""
        defined = symbols("--defined-only", *objects) if objects else ()
        return explained(self.schema, linker, defined, "the sources")


def read(path: Path, namespace: str, base: Path) -> Extension:
    """Read and check a file of operators; raises SchemaErrors with every mistake."""
    whole, own, defined, errors = _read(path, base)
    errors += _places(own)
    if errors:
        raise SchemaErrors(errors)
    mine = {op.name for op in own.callables}
    operators = [op for op in whole if op.name in mine or op.derived_from in mine]
    rules = tuple(r for r in whole.rules if r in own.rules)
    names = {op.name for op in operators}
    others = tuple(op for op in whole if op.name not in names)
    theirs = tuple(r for r in whole.rules if r not in own.rules)
    plans = tuple(plan_of(whole, op) for op in (*operators, *own.definitions))
    return Extension(
        namespace,
        Schema(whole.math, rules, tuple(operators), own.definitions),
        Schema(whole.math, theirs, others, defined),
        plans,
    )


def _read(path: Path, base: Path) -> tuple[Schema, Schema, tuple[Operator, ...], list[SchemaError]]:
    """The completed schema of both files, the records of the one, and its mistakes.

    Definitions of facula's own are no functions that others could look up, so they stand apart.
    """
    theirs, wrong = read_records(base, _OWN_FILE)
    wrong.raise_if_any()
    own, errors = read_records(path)
    both = Schema(
        (*theirs.math, *own.math),
        (*theirs.rules, *own.rules),
        (*theirs.operators, *own.operators),
        own.definitions,
    )
    report = check_records(both, errors, own.callables)
    # facula's own were good when it was built; the tests that they name are not in the wheel
    mine = [e for e in report.errors if e.location.file != _OWN_FILE]
    return report.schema, own, theirs.definitions, mine


def _places(own: Schema) -> list[SchemaError]:
    """Operators of extensions are functions of their namespace, and methods; they have no signs."""
    found = []
    for op in own:
        for i, place in enumerate(op.python):
            if place in ("function", "method"):
                continue
            sign = place in signs.ALL or place in PLACES
            what = f"'{place}'" if sign else f"the path '{place}'"
            message = f"{what} is facula's own; operators of extensions are 'function' and 'method'"
            found.append(SchemaError(op.place(f"python.{i}"), op.name, message))
    return found


_TEST = '''\
"""Generated: the tests of the operators in facula.ops.{namespace}.

The extension is imported, or built, before: in a conftest.py, or by an `import` here.
"""

from facula.testing import operators

globals().update(operators.tests_of("{namespace}"))
'''


def write(texts: Mapping[str, str], folder: Path) -> list[Path]:
    """Write texts below a folder, touching only what changed; all paths."""
    for name, text in texts.items():
        path = folder / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [folder / name for name in texts]
