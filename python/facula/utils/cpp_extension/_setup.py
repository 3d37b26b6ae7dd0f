"""Extensions in packages that setuptools builds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext

from facula.utils.cpp_extension import _build, _operators, _tools

__all__ = ["BuildExtension", "CppExtension"]


def CppExtension(
    name: str,
    sources: Sequence[str] = (),
    *args: Any,
    ops: str | os.PathLike[str] | None = None,
    **kwargs: Any,
) -> Extension:
    """A setuptools.Extension of C++ that `#include <facula/extension.h>`, to be built by
    BuildExtension. `ops`: a file of operators, which become `facula.ops.NAME.OPERATOR` for the last
    part of the module's name."""
    extension = Extension(name, list(map(str, sources)), *args, language="c++", **kwargs)
    extension.facula_ops = None if ops is None else os.fspath(ops)
    return extension


class BuildExtension(build_ext):
    """`cmdclass={"build_ext": BuildExtension}`: the compiler gets facula's headers and flags."""

    def build_extension(self, ext: Any) -> None:
        """Generates, compiles and links one extension, and looks that it lacks nothing."""
        _tools.compiler()
        space = ext.name.rpartition(".")[2]
        explain = None
        if getattr(ext, "facula_ops", None) is not None:
            made = _operators.generated(Path(ext.facula_ops), space)
            folder = Path(self.build_temp).absolute() / f"{space}_generated"
            units = made.units(folder)
            for unit in units:
                _build.write_text(unit.source, unit.text)
            ext.sources = [*ext.sources, *(os.path.relpath(u.source) for u in units)]
            ext.include_dirs = [str(folder), *ext.include_dirs]
            ext.depends = [*ext.depends, ext.facula_ops]
            explain = made.explain
        flags = [*_tools.FLAGS, *_tools.include_flags(False)]
        ext.extra_compile_args = [*flags, *ext.extra_compile_args]
        link = [f for f in _tools.LINK_FLAGS if f != "-shared"]
        ext.extra_link_args = [*link, *ext.extra_link_args]
        super().build_extension(ext)
        _build.finish(Path(self.get_ext_fullpath(ext.name)), ext.name, explain)
