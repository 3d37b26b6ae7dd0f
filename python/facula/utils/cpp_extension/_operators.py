"""Operators of users: what the generator makes of their file, as sources to compile."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from facula.utils.cpp_extension import _tools
from facula.utils.cpp_extension._build import Unit, write_text

_NEEDS = {"yaml": "PyYAML", "jinja2": "Jinja2"}


@dataclass
class Operators:
    """Generated texts, and who explains what the linker misses."""

    texts: Mapping[str, str]
    sources: tuple[str, ...]
    explain: Any

    def units(self, folder: Path) -> list[Unit]:
        """Writes the headers; the sources are written when they are compiled."""
        for name, text in self.texts.items():
            if name.endswith((".h", ".py")):
                write_text(folder / name, text)
        fast = {n: ("-O3",) for n in self.sources if n.startswith("pointwise")}
        return [Unit(folder / n, self.texts[n], fast.get(n, ())) for n in self.sources]


def generated(path: Path, namespace: str) -> Operators:
    """What `python -m facula.codegen` writes; raises ValueError with every mistake of the file."""
    missing = [name for module, name in _NEEDS.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise RuntimeError(
            f"generating operators needs {' and '.join(missing)}; `pip install 'facula[extension]'`"
        )
    from facula.codegen import extension
    from facula.codegen.schema.errors import SchemaErrors

    try:
        read = extension.read(path, namespace, _tools.CORE.parent / "ops.yaml")
    except SchemaErrors as errors:
        raise ValueError(f"ops: {path} has mistakes:\n{errors}") from None
    return Operators(read.texts(), extension.SOURCES, read.explain)
