#!/usr/bin/env python3
"""Writes a complete package that brings a device: `python tools/new_backend.py NAME [FOLDER]`.

It builds against the installed facula (`pip install --no-build-isolation ./facula-NAME`) and passes
its tests as it is: a device in host memory, with both templates and a few kernels. `src/device.cpp`
is where a driver goes, `formulas.py` where the text of another kernel language goes,
`src/kernels.cpp` where kernels are added as `facula.backends.fallbacks("NAME")` asks for them.
"""

from __future__ import annotations

import argparse
import keyword
import re
import runpy
from pathlib import Path

SOURCE = Path(__file__).resolve().parent / "backend"
EXPORTS = SOURCE.parents[1] / "python" / "facula" / "_exports.py"


def write(name: str, folder: Path) -> list[Path]:
    """The files of the package for the device `name`, below `folder`."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{,63}", name):
        raise SystemExit(
            f"'{name}' is no device name: at most 64 lower-case letters, digits and '_'"
        )
    if keyword.iskeyword(name) or name in ("cpu", "meta", *runpy.run_path(str(EXPORTS))["VENDORS"]):
        raise SystemExit(f"'{name}' means something else already; name the device otherwise")
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} exists and is not empty")
    written = []
    for path in sorted(
        p for p in SOURCE.rglob("*") if p.is_file() and "__pycache__" not in p.parts
    ):
        where = str(path.relative_to(SOURCE)).removesuffix(".in")
        where = where.replace("package/", f"facula_{name}/")
        target = folder / where.replace("test_device", f"test_{name}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            path.read_text(encoding="utf-8").replace("@NAME@", name), encoding="utf-8"
        )
        written.append(target)
    return written


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name")
    parser.add_argument("folder", nargs="?", type=Path, help="facula-NAME unless given")
    args = parser.parse_args()
    for path in write(args.name, args.folder or Path(f"facula-{args.name}")):
        print(path)


if __name__ == "__main__":
    main()
