"""A device of another shared library does what docs/vendors.md promises, and no less."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import facula
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCRIPT = """
import ctypes, sys
import facula as fa
acme = ctypes.CDLL(sys.argv[1])
acme.start()
x = fa.empty(3, device="acme")
assert str(x.device) == "acme" and x[1:].shape == (2,)
x.requires_grad_()
y = x.exp()
assert y.device.type == "acme" and acme.calls(0) == 1
y.backward(fa.empty(3, device="acme"))
assert x.grad.device.type == "acme" and acme.calls(0) > 1
x.cumsum(0)
assert acme.calls(1) == 1
try:
    x.sort()
except NotImplementedError as error:
    assert "sort" in str(error) and "acme" in str(error)
else:
    raise AssertionError("sort() has no kernel there")
print("good")
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="g++ under a sanitizer")
def test_device_of_another_library(tmp_path: Path) -> None:
    library = tmp_path / "acme.so"
    made = facula._C.__file__
    flags = ["-std=c++20", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}"]
    command = ["g++", *flags, str(HERE / "acme.cpp"), made, "-o", str(library)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    command = [sys.executable, "-c", SCRIPT, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "good\n", done.stderr
