"""`python -m codegen COMMAND`: the generator's command line."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .schema.errors import SchemaErrors
from .schema.model import Schema

ROOT = Path(__file__).resolve().parent.parent


def load(path: Path) -> Schema:
    """The schema with its derived operators."""
    from .schema.reader import read_schema
    from .tensor.derive import derive

    return derive(read_schema(path))


def gen(args: argparse.Namespace) -> int:
    from .emit import render

    if args.list:
        print("\n".join(render.output_names(ROOT, args.sources)))
        return 0
    names = args.names.read_text(encoding="utf-8").split() if args.names else ()
    written = render.generate(load(args.schema), args.out, ROOT, names)
    print(f"codegen: {len(written)} files changed")
    if args.stamp:
        args.stamp.touch()
    return 0


def check(args: argparse.Namespace) -> int:
    from .check import check as checked

    report = checked(args.schema)
    for error in report.errors:
        print(error, file=sys.stderr)
    if report.errors:
        count = len(report.errors)
        print(f"codegen check: {count} mistake{'s' * (count > 1)}", file=sys.stderr)
        return 1
    print(f"{args.schema.name}: good; {report.summary()}")
    return 0


def fmt(args: argparse.Namespace) -> int:
    from .diff import stat, unified
    from .fmt.form import formatted, long_lines

    name = args.schema.name
    old, new = args.schema.read_text(encoding="utf-8"), formatted(args.schema)
    if old != new and not args.check:
        args.schema.write_text(new, encoding="utf-8")
    elif old != new:
        lines = list(unified({name: old}, {name: new}, "is"))
        print("\n".join([*lines[:40], *["..."] * (len(lines) > 40), *stat(lines)]))
        print(
            f"codegen fmt: {name} is not in its form; `python -m codegen fmt` brings it there",
            file=sys.stderr,
        )
    errors = list(long_lines(new, name))
    for error in errors:
        print(error, file=sys.stderr)
    return int(bool(errors) or (args.check and old != new))


def explain(args: argparse.Namespace) -> int:
    from .explain import UnknownOperator
    from .explain import explain as text_of
    from .parts import parts

    schema = load(args.schema)
    try:
        if args.parts:
            print(parts(schema, ROOT, args.operator))
        else:
            print(text_of(schema, args.operator))
    except UnknownOperator as error:
        print(f"codegen explain: {error}", file=sys.stderr)
        return 1
    return 0


def diff(args: argparse.Namespace) -> int:
    from .diff import RevisionError, stat, texts_at, unified
    from .emit import render

    try:
        old = texts_at(ROOT, args.revision)
    except RevisionError as error:
        print(f"codegen diff: {error}", file=sys.stderr)
        return 2
    lines = list(unified(old, render.generate_texts(load(args.schema)), args.revision))
    print("\n".join(stat(lines) if args.stat else lines))
    return 0


def extension(args: argparse.Namespace) -> int:
    from .extension import read, write

    name = args.module or args.file.stem
    if not name.isidentifier():
        print(f"codegen: '{name}' is no name of a module; give one by --module", file=sys.stderr)
        return 2
    made = write(read(args.file, name, args.schema).texts(), args.out)
    print(f"codegen: {len(made)} files of {name} in {args.out}")
    return 0


def jsonschema(args: argparse.Namespace) -> int:
    from .schema.jsonschema import text

    print(text(), end="")
    return 0


def stats(args: argparse.Namespace) -> int:
    from .stats import report

    print("\n".join(report(args.schema)))
    return 0


def batching(args: argparse.Namespace) -> int:
    from .emit.batching import table
    from .emit.batching_page import page

    if args.page is not None:
        args.page.write_text(page(load(args.schema)))
        return 0
    print("\n".join(table(load(args.schema))))
    return 0


def docs(args: argparse.Namespace) -> int:
    from .emit import docs as pages

    count = pages.generate(load(args.schema), args.out)
    print(f"codegen: {count} pages in {args.out}")
    return 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m codegen", description=__doc__)
    parser.add_argument("--schema", type=Path, default=ROOT / "ops.yaml")
    commands = parser.add_subparsers(dest="command", required=True)
    generate = commands.add_parser("gen", help="write the generated files")
    generate.add_argument("--out", type=Path, default=ROOT / "build" / "generated")
    generate.add_argument("--stamp", type=Path)
    generate.add_argument("--sources", help="with --list: a folder whose sources get headers")
    generate.add_argument("--names", type=Path, help="file with what --list printed")
    generate.add_argument("--list", action="store_true", help="print the names of the files only")
    generate.set_defaults(run=gen)
    validate = commands.add_parser("check", help="find every mistake of the schema")
    validate.set_defaults(run=check)
    form = commands.add_parser("fmt", help="bring the schema to its one form")
    form.add_argument("--check", action="store_true", help="say what would change, change nothing")
    form.set_defaults(run=fmt)
    explained = commands.add_parser("explain", help="print all that one operator becomes")
    explained.add_argument("operator")
    explained.add_argument(
        "--parts", action="store_true", help="print where its entry, kernel and tests are instead"
    )
    explained.set_defaults(run=explain)
    changes = commands.add_parser("diff", help="how generated files change against a revision")
    changes.add_argument("revision")
    changes.add_argument("--stat", action="store_true", help="count lines only")
    changes.set_defaults(run=diff)
    own = commands.add_parser(
        "extension", help="write what a file of your own operators becomes; `FILE --out DIR` is it"
    )
    own.add_argument("file", type=Path)
    own.add_argument("--out", type=Path, required=True)
    own.add_argument("--module", help="the module's name, and the namespace of its operators")
    own.set_defaults(run=extension)
    editors = commands.add_parser("jsonschema", help="print the JSON Schema of the file")
    editors.set_defaults(run=jsonschema)
    lengths = commands.add_parser("stats", help="print how long entries are, and why")
    lengths.set_defaults(run=stats)
    batches = commands.add_parser("batching", help="print what vmap makes of each operator")
    batches.add_argument("--page", type=Path, help="write the page of docs instead")
    batches.set_defaults(run=batching)
    pages = commands.add_parser("docs", help="write the documentation pages")
    pages.add_argument("--out", type=Path, default=ROOT / "docs" / "_generated")
    pages.set_defaults(run=docs)
    given = sys.argv[1:] if argv is None else argv
    if given and given[0].endswith((".yaml", ".yml")):
        given = ["extension", *given]
    args = parser.parse_args(given)
    try:
        return int(args.run(args))
    except SchemaErrors as errors:
        print(errors, file=sys.stderr)
        return 1
    except BrokenPipeError:  # `| head` has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except OSError as error:
        print(f"codegen: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
