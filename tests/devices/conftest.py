"""The strict device: a package as tools/new_backend.py writes it, with another device.cpp."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(HERE)]

from device_packages import build, environment  # noqa: E402


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
