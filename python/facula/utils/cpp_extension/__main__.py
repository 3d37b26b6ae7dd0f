"""For build systems: `cmake` prints what CMake must know, `finish FILE` ends a build."""

from __future__ import annotations

import argparse
from pathlib import Path

from facula.utils.cpp_extension import _build, _tools


def cmake() -> str:
    """Settings of variables, in CMake's language."""
    from facula.codegen.extension import SOURCES

    folders = [*_tools.include_paths(), *_tools.pybind11_headers(False)]
    facts = {
        "facula_VERSION": [_tools.abi().partition("-")[0]],
        "facula_FLAGS": [*_tools.FLAGS, *_tools.abi_flags()],
        "facula_INCLUDE_DIRS": folders,
        "facula_LINK": [f for f in _tools.LINK_FLAGS if f != "-shared"],
        "facula_GENERATED": list(SOURCES),
    }
    return "\n".join(f"set({name} {_listed(values)})" for name, values in facts.items())


def _listed(values: list[str]) -> str:
    return " ".join(f"[==[{value}]==]" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m facula.utils.cpp_extension", description=__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("cmake")
    commands.add_parser("finish").add_argument("file", type=Path)
    args = parser.parse_args()
    if args.command == "cmake":
        print(cmake())
    else:
        name = args.file.name.partition(".")[0]
        try:
            _build.finish(args.file, name)
        except _tools.BuildError as error:
            raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
