"""The compiler and what it is told: flags, folders of headers, and its complaints."""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import facula
from facula import _C

CORE = Path(_C.__file__)
# As facula itself: no value depends on these, or on the level of the machine.
FLAGS = (
    "-std=gnu++20 -O2 -DNDEBUG -fPIC -fvisibility=hidden -fvisibility-inlines-hidden"
    " -fno-math-errno -fno-trapping-math -ffp-contract=off -fwrapv -fopenmp-simd"
).split()
LINK_FLAGS = ["-shared", "-Wl,--no-as-needed", str(CORE), "-Wl,--as-needed", "-lm"]


class BuildError(RuntimeError):
    """The compiler or the linker refused; the text is all that it said."""


def abi() -> str:
    """What an extension must have been built for, to be loaded here."""
    return str(_C._abi)


def include_paths() -> list[str]:
    """Folders of the headers that extensions are compiled with.

    Raises RuntimeError for a build of facula without them.
    """
    found = [Path(facula.__file__).parent / "include", CORE.parent / "include"]
    if not (found[1] / "facula" / "abi.h").exists():
        raise RuntimeError(f"this facula has no headers for extensions below {found[1]}; reinstall")
    return list(dict.fromkeys(map(str, found)))


def python_headers() -> str:
    folder = sysconfig.get_path("include")
    if not (Path(folder) / "Python.h").exists():
        raise RuntimeError(
            f"building extensions needs Python's headers, and there is no {folder}/Python.h; "
            "install them (`apt install python3-dev`, `dnf install python3-devel`)"
        )
    return folder


def pybind11_headers(needed: bool) -> list[str]:
    if importlib.util.find_spec("pybind11") is None:
        if not needed:
            return []
        raise RuntimeError(
            "C++ functions become Python's through pybind11, which is not installed; "
            "`pip install 'facula[extension]'` brings it"
        )
    import pybind11

    return [str(pybind11.get_include())]


def compiler() -> list[str]:
    """The command that compiles C++, with what CXX says it takes."""
    stated = shlex.split(os.environ.get("CXX", ""))
    for command in (stated,) if stated else (["g++"], ["c++"], ["clang++"]):
        if shutil.which(command[0]):
            return command
    what = f"CXX is '{stated[0]}', and there is no such program" if stated else ""
    raise RuntimeError(
        "building extensions needs a C++ compiler that knows C++20: "
        + (what or "there is no g++, c++ or clang++ on PATH; install one (`apt install g++`)")
    )


def version_of(command: Sequence[str]) -> str:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return done.stdout


def include_flags(pybind11: bool) -> list[str]:
    """Folders of others' headers, whose changes are not looked for; those of pybind11 where it is
    installed, which it must be where it is needed."""
    folders = [*include_paths(), python_headers(), *pybind11_headers(pybind11)]
    flags = [flag for folder in folders for flag in ("-isystem", folder)]
    return flags + abi_flags()


def abi_flags() -> list[str]:
    """What makes the C++ library's strings those that facula has."""
    return ["-D_GLIBCXX_USE_CXX11_ABI=0"] if abi().endswith("-old-strings") else []


def run(command: Sequence[str], what: str, verbose: bool) -> str:
    """Runs the compiler; what it says is shown, or in the BuildError that is raised, whole."""
    if verbose:
        print(shlex.join(command), flush=True)
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, env=_environment()
    )
    said = (done.stdout + done.stderr).strip()
    if done.returncode != 0:
        raise BuildError(f"{what} failed:\n{shlex.join(command)}\n{said}")
    if verbose and said:
        print(said, flush=True)
    return said


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")
