"""The strict device: a package as tools/new_backend.py writes it, with another device.cpp."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(HERE)]


def build(name: str, folder: Path, device: Path | None = None) -> Path:
    """The library of a new package for the device `name`."""
    import new_backend

    new_backend.write(name, folder)
    if device is not None:
        text = device.read_text(encoding="utf-8").replace("@NAME@", name)
        (folder / "src" / "device.cpp").write_text(text, encoding="utf-8")
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


def environment() -> dict[str, str]:
    path = os.pathsep.join(p for p in sys.path if p)
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PYTHONPATH": path, "PATH": tools}


@pytest.fixture(scope="session")
def strict_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = environment()["PATH"]
    if not all(shutil.which(tool, path=where) for tool in ("cmake", "ninja", "g++")):
        pytest.skip("needs cmake, ninja and g++")
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("a compiler under a sanitizer")
    # one build for all workers of a run
    shared = Path(tempfile.gettempdir()) / f"facula-strict-{os.getppid()}" if os.environ.get(
        "PYTEST_XDIST_WORKER") else tmp_path_factory.mktemp("strict")  # fmt: skip
    shared.mkdir(exist_ok=True)
    with open(shared / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        library = next(shared.glob("package/build/strict*.so"), None)
        return library or build("strict", shared / "package", HERE / "strict_device.cpp")


@pytest.fixture(scope="session")
def strict(strict_library: Path) -> ctypes.CDLL:
    """The registered strict device: its functions for tests."""
    from facula import backends

    if "strict" not in backends.names():
        backends.load_library(strict_library)
    return ctypes.CDLL(str(strict_library))


@pytest.fixture(scope="session")
def numpyfied() -> str:
    """The registered device in Python."""
    import numpy_device
    from facula import backends

    if "numpyfied" not in backends.names():
        numpy_device.start()
    return "numpyfied"
