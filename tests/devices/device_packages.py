"""Packages of devices as tools/new_backend.py writes them, built for tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def build(name: str, folder: Path, device: Path | None = None) -> Path:
    """The library of a new package for the device `name`."""
    import new_backend

    new_backend.write(name, folder)
    if device is not None:
        text = device.read_text(encoding="utf-8").replace("@NAME@", name)
        (folder / "src" / "device.cpp").write_text(text, encoding="utf-8")
        exports = folder / "exports.map"
        more = "".join(f" {name};" for name in exported(text))
        shown = exports.read_text().replace("global:", f"global:{more}")
        exports.write_text(shown, encoding="utf-8")
    made = folder / "build"
    for command in (
        ["cmake", "-S", str(folder), "-B", str(made), "-G", "Ninja",
         f"-DPython_EXECUTABLE={sys.executable}",
         "-DCMAKE_CXX_FLAGS=-Werror"],
        ["cmake", "--build", str(made)],
    ):  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment()
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return next(made.glob(f"{name}*.so"))


def exported(source: str) -> list[str]:
    """The functions that a source shows."""
    return re.findall(r"FACULA_EXPORT [\w ]+?(\w+)\(", source)


def shown(library: Path) -> list[tuple[str, str]]:
    """The symbols that a library defines for others, each with its kind."""
    done = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    )
    return [(line.split()[-1], line.split()[-2]) for line in done.stdout.splitlines()]


def environment() -> dict[str, str]:
    path = os.pathsep.join(p for p in sys.path if p)
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PYTHONPATH": path, "PATH": tools}


def install(folder: Path, module: str, text: str, **devices: str) -> None:
    """A package in `folder` that offers devices, each by a function of its one module."""
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    name = module.replace("_", "-")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{device} = {module}:{start}\n" for device, start in devices.items()]
    (info / "entry_points.txt").write_text("[facula.backends]\n" + "".join(lines))
    (folder / f"{module}.py").write_text(text)


def run(script: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process of its own, with more folders to import from."""
    env = environment()
    env["PYTHONPATH"] = ":".join([*map(str, folders), env["PYTHONPATH"]])
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=env, check=False
    )
