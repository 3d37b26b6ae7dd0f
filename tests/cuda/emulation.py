"""Kernels that are compiled for the host: the headers that they include, in a folder."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent


def link_headers(include: Path) -> None:
    (include / "facula").mkdir(parents=True)
    (include / "emulated.h").symlink_to(HERE / "emulated.h")
    sources = HERE.parents[1]
    (include / "facula" / "cuda").symlink_to(sources / "aten" / "cuda" / "kernels")
    for header in (sources / "python" / "facula" / "include" / "facula").glob("*.h"):
        (include / "facula" / header.name).symlink_to(header)
