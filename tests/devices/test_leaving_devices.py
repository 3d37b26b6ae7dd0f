"""The process ends while streams and threads work on devices: with status 0, saying nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

WORK = """
import sys, threading, time
import facula as fa
{start}
def work():
    while True:
        x = fa.rand(300, requires_grad=True)
        y = x.to({device!r})
        y.register_hook(lambda g: g + sum(range(100)))
        (y * y).sum().backward()
for _ in range(3): threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
x = fa.ones(1000, device={device!r})
for _ in range(50): x = x + 1
{ending}
"""


def run(start: str, device: str, ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORK.format(start=start, device=device, ending=ending)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("ending", ["", "sys.exit()"], ids=["end", "exit"])
def test_streams_of_a_vendor(strict_library: Path, ending: str) -> None:
    start = f"fa.backends.load_library({str(strict_library)!r})"
    run(start, "strict", ending)


@pytest.mark.parametrize("ending", ["", "sys.exit()"], ids=["end", "exit"])
def test_device_in_python(ending: str) -> None:
    pytest.importorskip("numpy")
    run("import numpy_device; numpy_device.start()", "numpyfied", ending)
