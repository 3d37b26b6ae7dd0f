"""Writes everything that is generated from a schema into a build directory."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import jinja2

from ..schema import cpp_types, jsonschema
from ..schema.model import Schema
from . import bindings, export, headers, pointwise, pyi, stubs
from .plans import Plan, plans_of
from .pointwise import SHARDS, shard_of

STUB_SHARDS = 13
AUTOGRAD_SHARDS = 13
BINDING_SHARDS = 12
# Stems of the sharded files with the number of shards.
SHARDED = {
    "pointwise": SHARDS,
    "stubs": STUB_SHARDS,
    "autograd": AUTOGRAD_SHARDS,
    "bindings": BINDING_SHARDS,
}


@functools.cache
def environment() -> jinja2.Environment:
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    env.filters["cpp_string"] = cpp_types.quoted
    env.filters["identifier"] = cpp_types.identifier
    return env


def generate_texts(schema: Schema, sources: Mapping[str, str] | None = None) -> dict[str, str]:
    """Path below the build directory -> text; `sources` has those of headers `for/`."""
    env = environment()
    plans = plans_of(schema)
    all_stubs = [p.stub for p in plans]
    declarations = Declarations(schema, all_stubs)
    texts: dict[str, str] = {
        **dict(headers.texts(env, schema, all_stubs, sources or {})),
        "facula/ops.json": export.to_json(schema),
        "facula/ops.schema.json": jsonschema.text(),
        headers.EXTENSION_OPS: env.get_template("extension_ops.h.j2").render(
            stubs=all_stubs, looked_up=headers.looked_up, signs=list(headers.cpp_signs(schema))
        ),
        "module_table.cpp": _module_table(schema, env),
        "register.cpp": env.get_template("register.cpp.j2").render(
            stub_shards=STUB_SHARDS,
            autograd_shards=AUTOGRAD_SHARDS,
            rules=[
                (rule.signature, function)
                for rule, function in zip(
                    schema.rules, headers.shape_functions(schema, defaults=False), strict=True
                )
            ],
        ),
    }
    for stem, count in SHARDED.items():
        for k in range(count):
            some = [p for p in plans if shard_of(p.op, count) == k]
            texts[f"{stem}_{k}.cpp"] = cpp(stem, env, declarations, some, k)
    texts = {n: tidy(t) if n.endswith((".cpp", ".h")) else t for n, t in texts.items()}
    return texts | pyi.generate(schema, env)


_SEVERAL_BLANK = re.compile(r"\n\n\n+")
_LAST_COMMA = re.compile(r",  ?\};")


def tidy(text: str) -> str:
    """C++ without the blank lines and commas that templates leave behind."""
    text = _SEVERAL_BLANK.sub("\n\n", "\n".join(line.rstrip() for line in text.split("\n")))
    text = re.sub(r"\n\n(?= *\}\n)", "\n", _LAST_COMMA.sub("};", text))
    return re.sub(r"\{\n\n(?= )", "{\n", text)


def cpp(
    stem: str,
    env: jinja2.Environment,
    declarations: Declarations,
    plans: list[Plan],
    shard: int,
    namespace: str = "",
) -> str:
    """One generated source file of `plans`, whose operators' names begin with the namespace."""
    template = env.get_template(f"{stem}.cpp.j2")
    match stem:
        case "pointwise":
            return template.render(tables=[t for p in plans for t in p.tables])
        case "stubs":
            some = [p.stub for p in plans]
            names = [n for s in some if s.pointwise for n in pointwise.table_names(s.op)]
            text = template.render(stubs=some, shard=shard, names=names, namespace=namespace)
        case "autograd":
            text = template.render(plans=[p.layer for p in plans if p.layer.forms], shard=shard)
        case _:
            bound = [bindings.binding_of(p.op) for p in plans if not p.op.definition]
            text = template.render(bindings=bound)
    return declarations.insert(text)


_USES = re.compile(r"\b(ops|cpu|any|device|composite|shape|entries)::(\w+)")


class Declarations:
    """Hands each generated file just the declarations it uses, so that a new operator does not
    recompile the files of the others."""

    def __init__(
        self, schema: Schema, all_stubs: list[stubs.Stub], base: Schema | None = None
    ) -> None:
        """Of an extension's `schema`, `base` has what facula itself has, which is looked up."""
        self._lines: dict[tuple[str, str], list[str]] = {}
        for op in base or ():
            for form in stubs.forms_of(op):
                self._add("ops", form.name, headers.looked_up(op, form))
        for function, line in headers.looked_up_rules(base) if base else ():
            self._add("shape", function.name, line)
        for stub in all_stubs:
            for form in stub.forms:
                self._add("ops", form.name, f"{form.result} {form.name}({form.parameters});")
            if not stub.op.definition:
                self._add("entries", stub.entry, f"extern OperatorEntry {stub.entry};")
        shapes = {"shape": headers.shape_functions(schema, defaults=False)}
        for space, functions in {**headers.kernel_spaces(schema), **shapes}.items():
            for f in functions:
                self._add(space, f.name, f"{f.result} {f.name}({f.parameters});")

    def _add(self, space: str, name: str, line: str) -> None:
        self._lines.setdefault((space, name), []).append(line)

    def insert(self, text: str) -> str:
        """`text` with its declarations in the place of the marker."""
        used: dict[str, list[str]] = {}
        for space, name in sorted(set(_USES.findall(text))):
            used.setdefault(space, []).extend(self._lines.get((space, name), []))
        blocks = [
            "\n".join(
                [
                    "#pragma GCC visibility push(hidden)  // so that a missing one does not link",
                    *[f"namespace facula::{space} {{", *lines, f"}}  // namespace facula::{space}"],
                    "#pragma GCC visibility pop",
                ]
            )
            for space, lines in used.items()
            if lines
        ]
        return text.replace("// DECLARATIONS\n", "\n".join(blocks) + "\n")


def _module_table(schema: Schema, env: jinja2.Environment) -> str:
    made, callables, entries = bindings.collect(schema)
    binary, unary = bindings.slot_bindings(schema)
    return env.get_template("module_table.cpp.j2").render(
        bindings=made,
        callables=callables,
        docs={c.symbol: docstring(c) for c in callables},
        binary=binary,
        unary=unary,
        sign_params=bindings.sign_params(schema),
        functions=[e for e in entries if e.path != "Tensor"],
        methods=[e for e in entries if e.path == "Tensor"],
        properties=bindings.property_operators(schema),
    )


def docstring(c: bindings.Callable_) -> str:
    """Signatures, what the operator computes, and its example."""
    parts = [str(b.op.signature) for b in c.bindings]
    parts += [b.op.doc for b in c.bindings[:1]]
    if c.bindings[0].op.example and not c.inplace:
        parts.append(c.bindings[0].op.example)
    return "\n\n".join(["\n".join(parts[: len(c.bindings)]), *parts[len(c.bindings) :]])


LISTED = "generated.txt"  # what the last run wrote, so that the next can delete what is no more


def generate(schema: Schema, outdir: Path, root: Path, names: Iterable[str] = ()) -> list[Path]:
    """Write all texts below `outdir`, touching only what changed; returns what was written.

    Sources of the repository's `root` get those headers of their own that are among `names`. Files
    that an earlier run wrote there and this one does not are deleted.
    """
    written = []
    texts = generate_texts(schema, headers.read_sources(root, names))
    listed = outdir / LISTED
    earlier = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    for name in set(earlier) - set(texts):
        (outdir / name).unlink(missing_ok=True)
    for name, text in (texts | {LISTED: "\n".join(sorted(texts)) + "\n"}).items():
        path = outdir / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def output_names(root: Path, folder: str | None = None) -> list[str]:
    """The files `generate` writes that the build knows of, whatever the schema holds."""
    return [
        *(f"{stem}_{k}.cpp" for stem, count in SHARDED.items() for k in range(count)),
        *("module_table.cpp", "register.cpp", "facula/ops.json", "facula/ops.schema.json"),
        *headers.NAMES,
        headers.EXTENSION_OPS,
        *headers.own_headers(root, folder),
    ]
