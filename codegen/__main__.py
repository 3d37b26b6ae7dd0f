"""`python -m codegen COMMAND`: the generator's command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from codegen.errors import SchemaErrors

ROOT = Path(__file__).resolve().parent.parent


def load(path: Path):  # type: ignore[no-untyped-def]
    from codegen.derive import derive
    from codegen.reader import read_schema

    return derive(read_schema(path))


def gen(args: argparse.Namespace) -> int:
    from codegen import render

    if args.list:
        print("\n".join(render.output_names()))
        return 0
    written = render.generate(load(args.schema), args.out)
    print(f"codegen: {len(written)} files changed")
    if args.stamp:
        args.stamp.touch()
    return 0


def docs(args: argparse.Namespace) -> int:
    from codegen import docs as pages

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
    generate.add_argument("--list", action="store_true", help="print the names of the files only")
    generate.set_defaults(run=gen)
    pages = commands.add_parser("docs", help="write the documentation pages")
    pages.add_argument("--out", type=Path, default=ROOT / "docs" / "_generated")
    pages.set_defaults(run=docs)
    args = parser.parse_args(argv)
    try:
        return int(args.run(args))
    except SchemaErrors as errors:
        print(errors, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
