"""What the wheel's shared objects show to other libraries of the process: their own names alone.

A C++ runtime that is linked in statically brings symbols that are unique in a process
(STB_GNU_UNIQUE). Where they are visible, libraries that are loaded later use them instead of their
own runtime's.
"""

from __future__ import annotations

import ctypes
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import facula
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(facula._C.__file__).parent
LIBRARIES = sorted(FOLDER.glob("*.so"))
# Of the core what packages of devices and tests may link against; of a device its entry points.
OWN = {"_C": r"PyInit__C|_ZT[ISVWH]N6facula|_ZNK?6facula", "_cuda": "facula_"}


def exported(library: Path) -> list[tuple[str, str]]:
    """(kind, mangled name) of each symbol that a shared object defines for others."""
    if shutil.which("nm") is None:
        pytest.skip("needs nm")
    command = ["nm", "-D", "--defined-only", "--no-demangle", str(library)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    return [(line.split()[-2], line.split()[-1]) for line in listed.stdout.splitlines()]


def strangers(library: Path) -> list[str]:
    own = re.compile(OWN[library.name.partition(".")[0]])
    return [name for kind, name in exported(library) if kind == "u" or not own.match(name)]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)
def test_only_own_names_are_visible(library: Path) -> None:
    assert exported(library)
    assert strangers(library) == []


STREAMS = """
#include <iomanip>
#include <locale>
#include <sstream>
extern "C" int streams() {
  std::ostringstream out;
  out << 12345L << ' ' << std::setprecision(3) << 2.5 << ' ' << std::boolalpha << true << ' ';
  std::istringstream in("7 8.5");
  long a = 0;
  double b = 0;
  in >> a >> b;
  return out.str().rfind("12345 2.5 true ", 0) == 0 && a == 7 && b == 8.5 &&
         std::has_facet<std::numpunct<char>>(std::locale());
}
"""


def link_command(target: str) -> tuple[Path, list[str]]:
    """The newest build tree here and the command that links `target` in it, or a skip."""
    trees = [p.parent for p in ROOT.glob("build/*/build.ninja") if (p.parent / target).exists()]
    if not trees or shutil.which("ninja") is None or shutil.which("g++") is None:
        pytest.skip("needs the build tree, ninja and g++")
    tree = max(trees, key=lambda t: (t / target).stat().st_mtime)
    command = ["ninja", "-C", str(tree), "-t", "commands", target]
    listed = subprocess.run(command, check=False, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip(f"the newest build tree does not make {target}")
    words = shlex.split(listed.stdout.splitlines()[-1])
    return tree, [w for w in words if w not in (":", "&&")]


def test_a_static_runtime_stays_inside(tmp_path: Path) -> None:
    """Some compilers link the C++ runtime statically: force it, then load a C++ library."""
    tree, command = link_command("_cuda.so")
    place = command.index("-o") + 1
    assert command[place] == "_cuda.so"
    library = tmp_path / "_cuda.so"
    command[place] = str(library)
    subprocess.run([*command, "-static-libstdc++", "-static-libgcc"], check=True, cwd=tree)
    needed = subprocess.run(["readelf", "-d", str(library)], check=True, capture_output=True)
    if b"libstdc++" in needed.stdout:
        pytest.skip("this compiler has no static C++ runtime")
    assert strangers(library) == []
    (tmp_path / "streams.cpp").write_text(STREAMS)
    module = tmp_path / "streams.so"
    command = ["g++", "-shared", "-fPIC", str(tmp_path / "streams.cpp"), "-o", str(module)]
    subprocess.run(command, check=True)
    code = (
        "import ctypes, sys; ctypes.CDLL(sys.argv[1]); "
        "sys.exit(ctypes.CDLL(sys.argv[2]).streams() - 1)"
    )
    subprocess.run([sys.executable, "-c", code, str(library), str(module)], check=True)
    assert ctypes.CDLL(str(module)).streams() == 1
