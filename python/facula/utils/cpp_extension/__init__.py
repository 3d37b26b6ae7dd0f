"""C++ beside facula: functions over tensors, and operators of your own, built when they are asked.

`load_inline` and `load` compile and import in one step; `CppExtension` with `BuildExtension` are
for setuptools, `facula.utils.cmake_prefix_path` for `find_package(facula)` of CMake. A compiler
that knows C++20 and Python's headers must be there; functions need pybind11 as well, operators
PyYAML and Jinja2: `pip install 'facula[extension]'`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from facula.utils.cpp_extension import _build, _operators, _tools, _wrapper
from facula.utils.cpp_extension._build import Project, Unit
from facula.utils.cpp_extension._tools import BuildError, include_paths

__all__ = [
    "BuildError",
    "BuildExtension",
    "CppExtension",
    "include_paths",
    "load",
    "load_inline",
]

PathLike = str | os.PathLike[str]
Functions = str | Sequence[str] | Mapping[str, str]
_loaded: dict[str, tuple[Path, ModuleType]] = {}


def load(
    name: str,
    sources: PathLike | Sequence[PathLike] = (),
    extra_cflags: Sequence[str] = (),
    extra_ldflags: Sequence[str] = (),
    extra_include_paths: Sequence[PathLike] = (),
    build_directory: PathLike | None = None,
    verbose: bool = False,
    *,
    functions: Functions = (),
    ops: PathLike | None = None,
) -> ModuleType:
    """Builds the extension `name` of C++ files, imports it and gives the module.

    `functions`: names of C++ functions that the module gets, or a mapping of names to their texts;
    without it a source has `FACULA_EXTENSION(name, m) { ... }`. Namespaces go before a name:
    "mine::twice" is `twice` in Python. Parameters keep their names and defaults.
    `ops`: a file of operators in the language of ops.yaml; they become `facula.ops.NAME.OPERATOR`,
    and methods of tensors where they say so. Sources hold the kernels that it names.

    Only what changed since the last time is compiled, headers of yours among it; the folder is
    `build_directory`, or one below FACULA_CACHE, XDG_CACHE_HOME or ~/.cache. Processes that
    want the same extension wait for the one that builds it.

    Raises BuildError with all that the compiler said; RuntimeError where compiler, Python's headers
    or pybind11 are missing; ValueError for a name that is none, or a function that no source has.
    """
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    paths = [Path(s).absolute() for s in given]
    _check(name, paths, functions, ops)
    folder = _build.folder_of(name, build_directory, *map(str, [*paths, ops]))
    extension = _Extension(name, folder, functions, ops)
    with _build.locked(folder):
        project = extension.project(paths, extra_cflags, extra_ldflags, extra_include_paths)
        project.verbose = verbose
        return _imported(name, project.build())


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str] = (),
    cuda_sources: str | Sequence[str] | None = None,
    functions: Functions = (),
    extra_cflags: Sequence[str] = (),
    extra_ldflags: Sequence[str] = (),
    extra_include_paths: Sequence[PathLike] = (),
    build_directory: PathLike | None = None,
    verbose: bool = False,
    *,
    ops: PathLike | None = None,
) -> ModuleType:
    """As `load`, of C++ given as text; `#include <facula/extension.h>` is put before it.

    `cuda_sources` are refused: devices have kernels through their packages (facula.backends).
    """
    if cuda_sources:
        raise _no_cuda("cuda_sources=")
    texts = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    folder = _build.folder_of(name, build_directory, "inline")
    _check(name, [], functions, ops)
    with _build.locked(folder):
        paths = []
        for i, text in enumerate(texts):
            paths.append(folder / f"inline_{i}.cpp")
            _build.write_text(
                paths[-1], f'#include <facula/extension.h>\n#line 1 "{name}"\n{text}\n'
            )
        extension = _Extension(name, folder, functions, ops)
        project = extension.project(paths, extra_cflags, extra_ldflags, extra_include_paths)
        project.verbose = verbose
        return _imported(name, project.build())


class _Extension:
    """What is compiled for an extension: sources, the module around them, generated operators."""

    def __init__(self, name: str, folder: Path, functions: Functions, ops: PathLike | None) -> None:
        self.name, self.folder = name, folder
        listed = [functions] if isinstance(functions, str) else functions
        self.functions = dict(listed) if isinstance(listed, Mapping) else dict.fromkeys(listed, "")
        self.ops = _operators.generated(Path(ops), name) if ops is not None else None

    def project(
        self,
        paths: Sequence[Path],
        cflags: Sequence[str],
        ldflags: Sequence[str],
        folders: Sequence[PathLike],
    ) -> Project:
        texts = {p: p.read_text(encoding="utf-8", errors="replace") for p in paths}
        units = self._units(texts)
        whole = "".join([*texts.values(), *(u.text for u in units)])
        pybind11 = "facula/extension.h" in whole or "pybind11/" in whole
        flags = [f"-I{Path(f).absolute()}" for f in folders]
        if self.ops is not None:
            flags.append(f"-I{self.folder / 'generated'}")
            units += self.ops.units(self.folder / "generated")
        flags += [*_tools.include_flags(pybind11), *cflags]
        explain = self.ops.explain if self.ops is not None else None
        return Project(self.name, self.folder, units, flags, list(ldflags), explain=explain)

    def _units(self, texts: Mapping[Path, str]) -> list[Unit]:
        """The sources; those with functions for Python lie within the file that binds them."""
        found = {}
        for function in self.functions:
            for path, text in texts.items():
                listed = _wrapper.parameters(text, function.rpartition("::")[2])
                if listed is not None:
                    found[function] = (path, listed)
                    break
            else:
                names = ", ".join(p.name for p in texts) or "no source"
                raise ValueError(f"functions: '{function}' is defined in none of: {names}")
        units = []
        within = list(dict.fromkeys(path for path, _ in found.values()))
        own = [name for text in texts.values() for name in _wrapper.modules(text)]
        if within and own:
            raise ValueError(
                "functions: a source has FACULA_EXTENSION already; name the functions in one place"
            )
        if own and own[0] != self.name:
            raise ValueError(f"name: it is '{self.name}', and the module in the source '{own[0]}'")
        lines = _wrapper.bindings(self.functions, {f: listed for f, (_, listed) in found.items()})
        units += [Unit(path, "") for path in texts if path not in within]
        main = self.folder / f"{self.name}_module.cpp"
        if within:
            parts = ["#include <facula/extension.h>", *(f'#include "{p}"' for p in within), ""]
            text = "\n".join([*parts, _wrapper.module_text(self.name, lines)])
            # the texts too: the compiler names the files, and their change is one of this file
            units.append(Unit(main, text))
        elif not own and self.ops is None:
            raise ValueError(
                "functions: name the C++ functions that Python gets, or write "
                f"`FACULA_EXTENSION({self.name}, m) {{ m.def(...); }}` in a source"
            )
        return units


def _check(name: str, paths: Sequence[Path], functions: Functions, ops: PathLike | None) -> None:
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError(f"name: '{name}' is no name of a module: letters, digits and '_'")
    if name in sys.modules and name not in _loaded:
        raise ValueError(f"name: a module '{name}' is imported already; give the extension another")
    for path in paths:
        if path.suffix in (".cu", ".cuh"):
            raise _no_cuda(path.name)
        if not path.exists():
            raise FileNotFoundError(f"sources: there is no {path}")
    if ops is not None and not Path(ops).exists():
        raise FileNotFoundError(f"ops: there is no {Path(ops).absolute()}")


def _no_cuda(what: str) -> NotImplementedError:
    return NotImplementedError(
        f"{what}: extensions are C++ for the CPU, and compositions of operators for every device; "
        "a kernel of a device belongs to its package, see facula.backends"
    )


def _imported(name: str, library: Path) -> ModuleType:
    """The module; the same object as long as its library is the same."""
    known = _loaded.get(name)
    if known is not None and known[0] == library:
        return known[1]
    # pybind11 gives the module that it made before where one of the same name is asked for again.
    full_name = name if known is None else f"{library.stem}.{name}"
    spec = importlib.util.spec_from_file_location(full_name, library)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.__name__ = name
    sys.modules[name] = module
    _loaded[name] = (library, module)
    return module


def __getattr__(name: str) -> Any:
    if name in ("BuildExtension", "CppExtension"):  # setuptools is not there everywhere
        from facula.utils.cpp_extension import _setup

        return getattr(_setup, name)
    raise AttributeError(f"module 'facula.utils.cpp_extension' has no attribute {name!r}")
