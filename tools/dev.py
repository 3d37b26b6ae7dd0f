#!/usr/bin/env python3
"""The developer's command line: build, check, test, show, new-op, diff, golden, bench.

python tools/dev.py build            install in editable form; rebuilds what changed
python tools/dev.py check            schema, formatting, linters, types
python tools/dev.py test -o add      tests of one operator; without -o all tests
python tools/dev.py show add         where its entry, kernel, shape rule and tests are;
                                     --generated: also everything generated for it
python tools/dev.py new-op NAME      a schema entry to start from (--structured: with a kernel)
python tools/dev.py diff REV         how generated code changes against a git revision (--stat)
python tools/dev.py golden           accept what is generated now as the golden files
python tools/dev.py bench            compare with torch and NumPy (see docs/benchmarks.md)
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPP_FOLDERS = ("runtime", "aten", "tests/cpp")
PYTHON_FOLDERS = ("codegen", "python", "tests", "tools")


def run(*command: str, check: bool = True, env: dict[str, str] | None = None) -> int:
    """Run a command in the repository's root, showing it first, long lists of files cut short."""
    more = f" ... ({len(command) - 12} more)" if len(command) > 12 else ""
    print("$ " + " ".join(command[:12]) + more, flush=True)
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **(env or {})}, check=False)
    if check and done.returncode:
        sys.exit(done.returncode)
    return done.returncode


def python(*arguments: str, check: bool = True) -> int:
    return run(sys.executable, *arguments, check=check)


def build(args: argparse.Namespace) -> None:
    if sys.prefix == sys.base_prefix:
        sys.exit(
            "build: would install into the system's Python; make an environment and use its own:"
            "\n  python3 -m venv .venv && . .venv/bin/activate && python tools/dev.py build"
        )
    needs = ["scikit-build-core>=0.10", "pyyaml>=6", "jinja2>=3.1", "pybind11>=2.13"]
    needs += ["ninja>=1.13", "cmake>=3.22"]
    python("-m", "pip", "install", "-q", *needs)
    settings = ["-C", "cmake.define.FACULA_WERROR=ON"] if args.werror else []
    python("-m", "pip", "install", "--no-build-isolation", *settings, "-e", ".[test,examples]")


def cpp_files() -> list[str]:
    return sorted(
        str(p.relative_to(ROOT))
        for folder in CPP_FOLDERS
        for p in (ROOT / folder).rglob("*")
        if p.suffix in (".h", ".cpp")
    )


def same_names(folder: Path) -> int:
    """Test files of one name in two folders, of which pytest imports only the first; 1 if any."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        found.setdefault(path.name, []).append(str(path.relative_to(folder.parent)))
    twice = [paths for paths in found.values() if len(paths) > 1]
    for paths in twice:
        print(f"{' and '.join(paths)}: one name; tests of all folders need different ones")
    return int(bool(twice))


def check(args: argparse.Namespace) -> None:
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    formatter = shutil.which("clang-format", path=places)
    if formatter is None:
        sys.exit("check: no clang-format; pip install -e '.[lint]' brings all that is needed")
    folders = [f for f in PYTHON_FOLDERS if (ROOT / f).exists()]
    fix = ["--fix"] if args.fix else []
    results = [
        python("-m", "codegen", "check", check=False),
        python("-m", "codegen", "fmt", *([] if args.fix else ["--check"]), check=False),
        python("-m", "ruff", "check", *fix, *folders, check=False),
        python("-m", "ruff", "format", *([] if args.fix else ["--check"]), *folders, check=False),
        run(
            formatter,
            *(["-i"] if args.fix else ["--dry-run", "-Werror"]),
            *cpp_files(),
            check=False,
        ),
        python("-m", "mypy", check=False),
        python("tools/lint_names.py", check=False),
        python("tools/lint_layers.py", check=False),
        same_names(ROOT / "tests"),
    ]
    if any(results):
        sys.exit("check: failed")
    print("check: all good")


def test(args: argparse.Namespace) -> None:
    command = ["-m", "pytest", "-q", "-n", str(args.jobs), "tests"]
    if args.op:
        command = ["-m", "pytest", "-q", "tests/ops", "--op", args.op]
    sys.exit(python(*command, *args.rest, check=False))


def show(args: argparse.Namespace) -> None:
    python("-m", "codegen", "explain", "--parts", args.op)
    if args.generated:
        python("-m", "codegen", "explain", args.op)


POINTWISE = """
- op: {name}(Tensor self, *, Scalar beta=1) -> Tensor
  doc: What it computes, in one sentence.
  scalar: self / (beta + abs(self))
  derivative: auto
  samples: ["f(3,4)", "f(0)", "f(), beta=2"]
  reference: self / (beta + np.abs(self))
"""
COMPOSITE = """
- op: {name}(Tensor self, int dim, bool keepdim=False) -> Tensor
  doc: What it computes, in one sentence.
  composite: self.amax([dim], keepdim) - self.amin([dim], keepdim)
  samples: ["f(3,4), dim=1", "f(3,4), 0, True"]
  reference: np.ptp(self, axis=dim, keepdims=keepdim)
"""
STRUCTURED = """
- op: {name}(Tensor self, int dim) -> Tensor
  doc: What it computes, in one sentence.
  shape: cloned(self, None, None, None)
  dispatch: {{CPU: {name}}}
  derivative: {{self: grad}}
  samples: ["f(3,4), dim=1", "f(0,4), dim=0"]
  reference: self
"""


def at_end_of(section: str, text: str, entry: str) -> str:
    """A text of ops.yaml with an entry more in a section."""
    names = re.findall(r"^# ---- (.*) ----$", text, re.M)
    if section not in names:
        sys.exit(f"new-op: no section '{section}'; there are: {', '.join(names)}")
    following = names[names.index(section) + 1 :]
    if not following:
        return text + entry
    heading = f"# ---- {following[0]} ----\n"
    before, after = text.split("\n" + heading)
    return f"{before}{entry}\n{heading}{after}"


def new_op(args: argparse.Namespace) -> None:
    kind = STRUCTURED if args.structured else COMPOSITE if args.composite else POINTWISE
    entry = kind.format(name=args.name)
    schema = ROOT / "ops.yaml"
    before = schema.read_text(encoding="utf-8")
    changed = at_end_of(args.section, before, entry) if args.section else before + entry
    schema.write_text(changed, encoding="utf-8")
    if python("-m", "codegen", "check", check=False):
        schema.write_text(before, encoding="utf-8")
        sys.exit("new-op: nothing was added")
    where = f"in its section '{args.section}'" if args.section else "at the end; --section NAME"
    print(f"{args.name} stands in ops.yaml, {where}:{entry}")
    if args.structured:
        print(
            "now write, in a file of aten/cpu/, new ones of which the build finds by itself\n"
            "(docs/contributors.md works one out):\n"
            f"  void {args.name}(const Tensor& self, int64_t dim, const Tensor& out)"
        )


def diff(args: argparse.Namespace) -> None:
    sys.exit(python("-m", "codegen", "diff", args.revision, *args.rest, check=False))


def golden(args: argparse.Namespace) -> None:
    sys.exit(python("-m", "pytest", "-q", "tests/codegen", "--update-golden", check=False))


def bench(args: argparse.Namespace) -> None:
    sys.exit(python("tools/bench", *args.rest, check=False))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    p = commands.add_parser("build")
    p.add_argument("--werror", action="store_true", help="warnings are errors")
    p.set_defaults(run=build)
    p = commands.add_parser("check")
    p.add_argument("--fix", action="store_true", help="format and fix what can be")
    p.set_defaults(run=check)
    p = commands.add_parser("test")
    p.add_argument("-o", "--op", help="one operator")
    p.add_argument("-n", "--jobs", default=2)
    p.set_defaults(run=test)
    p = commands.add_parser("show")
    p.add_argument("op")
    p.add_argument("--generated", action="store_true", help="also all that is generated")
    p.set_defaults(run=show)
    p = commands.add_parser("new-op")
    p.add_argument("name")
    p.add_argument("--composite", action="store_true", help="of other operators")
    p.add_argument("--structured", action="store_true", help="with a kernel")
    p.add_argument("--section", help="of ops.yaml, from its contents; else the end of the file")
    p.set_defaults(run=new_op)
    p = commands.add_parser("diff")
    p.add_argument("revision")
    p.set_defaults(run=diff)
    p = commands.add_parser("golden")
    p.set_defaults(run=golden)
    p = commands.add_parser("bench")
    p.set_defaults(run=bench)
    args, args_rest = parser.parse_known_args()
    args.rest = args_rest
    args.run(args)


if __name__ == "__main__":
    main()
