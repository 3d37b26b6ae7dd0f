"""Subprocesses that take facula from a folder, also where it is installed in editable form."""

from __future__ import annotations

from pathlib import Path


def prefer(folder: Path) -> None:
    """With `folder` first on PYTHONPATH, its facula wins over the finder of an editable install."""
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if 'facula' not in type(f).__module__]\n",
        encoding="utf-8",
    )
