"""Extensions that setuptools and CMake build, and what `import facula` takes of it all."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import facula as fa
import pytest
from extension_sources import KERNEL, OPERATORS, run

pytest.importorskip("pybind11")
SETUP = """
from setuptools import setup
from facula.utils.cpp_extension import BuildExtension, CppExtension
packed = CppExtension("packed", ["packed.cpp"], ops="own.yaml", extra_compile_args=["-O0"])
setup(name="packed", ext_modules=[packed], cmdclass={"build_ext": BuildExtension})
"""
PACKED = """
#include <facula/extension.h>
facula::Tensor negative(const facula::Tensor& x) { return facula::ops::neg(x); }
FACULA_EXTENSION(packed, m) { m.def("negative", &negative); }
"""
USE = """
import facula, packed
x = facula.tensor([2.0])
assert packed.negative(x).tolist() == [-2.0]
assert facula.ops.packed.squared_distance(x, -x).item() == 16
"""


def test_setuptools(tmp_path: Path) -> None:
    """Functions and an operator in one module."""
    pytest.importorskip("setuptools")
    (tmp_path / "own.yaml").write_text(OPERATORS.split("\n\n")[2] + "\n")
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "packed.cpp").write_text(PACKED)
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=tmp_path)
    run(sys.executable, "-c", USE, cwd=tmp_path)


CMAKE = """
cmake_minimum_required(VERSION 3.22)
project(packed LANGUAGES CXX)
find_package(facula REQUIRED)
facula_add_extension(mine mirror.cpp OPS own.yaml)
"""


def test_cmake(tmp_path: Path) -> None:
    """An extension of operators with a kernel, which pybind11 is not needed for."""
    place = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    cmake = shutil.which("cmake", path=place)
    if cmake is None or shutil.which("make") is None:
        pytest.skip("needs cmake and make")
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "own.yaml").write_text("\n\n".join(OPERATORS.split("\n\n")[:2]) + "\n")
    (tmp_path / "mirror.cpp").write_text(KERNEL)
    prefix = f"-DCMAKE_PREFIX_PATH={fa.utils.cmake_prefix_path}"
    options = [prefix, f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Debug"]
    run(cmake, "-S", ".", "-B", "build", "-G", "Unix Makefiles", *options, cwd=tmp_path)
    run(cmake, "--build", "build", "-j", "2", cwd=tmp_path)
    code = "import facula as fa, mine; print(fa.tensor([1.0]).soft_sign().mirror_fold(0))"
    assert run(sys.executable, "-c", code, cwd=tmp_path / "build") == "tensor([0.7500])\n"


def test_import_takes_none_of_it() -> None:
    code = (
        "import sys, facula; "
        "late = ('facula.utils', 'facula.ops', 'facula.codegen', 'pybind11'); "
        "print([n for n in sys.modules if n.startswith(late)])"
    )
    assert run(sys.executable, "-c", code, cwd=Path.cwd()) == "[]\n"
