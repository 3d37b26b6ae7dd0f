"""`python -m facula.as_torch`: runs a program, or tells which of torch's names it uses."""

from __future__ import annotations

import os
import runpy
import sys

from facula.as_torch import install

_USAGE = """usage: python -m facula.as_torch SCRIPT [ARGS...]
       python -m facula.as_torch -m MODULE [ARGS...]
       python -m facula.as_torch --scan PATH... [--json]

Runs a program written for torch: `import torch` is facula in it and in its children.
--scan tells, without running anything, which of torch's names the files use and which facula
lacks; the exit status is 1 if any. PATH is a file, a folder, or the name of a package.
"""


def main(arguments: list[str]) -> int:
    """Run; the exit status, unless the program sets its own."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE, end="")
        return 0 if arguments else 2
    first = arguments[0]
    if first == "--scan":
        from facula.as_torch.scan import main as scan

        return scan(arguments[1:])
    if first == "-m":
        if len(arguments) < 2:
            print(f"-m needs a module\n{_USAGE}", end="", file=sys.stderr)
            return 2
        install()
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    if first[:1] == "-":
        print(f"unknown option {first}\n{_USAGE}", end="", file=sys.stderr)
        return 2
    if not os.path.exists(first):
        print(f"facula.as_torch: there is no file {first!r}", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(first))  # it was the current folder, by -m
    install()
    runpy.run_path(first, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
