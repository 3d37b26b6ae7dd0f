"""A GPU for the tests that want one, and a driver that only pretends for those that do not."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import facula
import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from rank_programs import run_ranks  # noqa: E402

LIBRARY = Path(facula._C.__file__).parent / "_cuda.so"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a GPU each file is skipped once for all of its tests that want one."""
    here = [item for item in items if HERE in item.path.parents]
    if not here:
        return
    reason = why_not()
    if LIBRARY.exists():
        here = [item for item in here if item.get_closest_marker("cuda")]
    if not reason:
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in here:
        files.setdefault(item.path, []).append(item)
    for first, *others in files.values():
        needs = "needs a GPU: " if LIBRARY.exists() else ""
        first.add_marker(pytest.mark.skip(reason=f"{needs}{reason} ({1 + len(others)} tests)"))
        config.hook.pytest_deselected(items=others)
        left = set(others)
        items[:] = [item for item in items if item not in left]


def why_not() -> str:
    """Why there is no GPU, without registering the device: other tests look at what is there."""
    if not LIBRARY.exists():
        return "facula was built without CUDA"
    text = ctypes.create_string_buffer(1000)
    ctypes.CDLL(str(LIBRARY)).facula_cuda_why(text, ctypes.c_size_t(len(text)))
    return text.value.decode()


@pytest.fixture(scope="session")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a driver that notes launches and runs none."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("driver")
    wheel = folder / "nvidia" / "fake" / "lib"
    wheel.mkdir(parents=True)
    for source, library in (
        ("fake_cuda.cpp", folder / "libcuda.so.1"),
        ("fake_cudnn.cpp", wheel / "libcudnn.so.9"),
        ("fake_nccl.cpp", wheel / "libnccl.so.2"),
    ):
        made = subprocess.run(
            ["g++", "-std=c++20", "-shared", "-fPIC", str(HERE / source), "-o", str(library)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
    shutil.copy(folder / "libcuda.so.1", wheel / "libnvrtc.so.13")
    return folder


START = """
import ctypes, os, re
import facula as fa
fake = ctypes.CDLL("libcuda.so.1")
for name in ("fake_launches", "fake_text"):
    getattr(fake, name).restype = ctypes.c_char_p
def launched(call):
    fake.fake_clear()
    call()
    return [line.split() for line in fake.fake_launches().decode().splitlines()]
def form():
    return dict(re.findall(r"#define FACULA_(FORM|VEC|DIMS|SPLATS|SCALARS|TURNED|WIDE|ROWS) (\\d+)",
                           fake.fake_text().decode()))
"""


@pytest.fixture
def run(pretended: Path, tmp_path: Path) -> Callable[..., str]:
    """Runs a script in a process of its own in which the pretended driver is found."""

    def run_script(script: str, **variables: str) -> str:
        path = os.pathsep.join([str(pretended), *(p for p in sys.path if p)])
        env = {
            **os.environ, "LD_LIBRARY_PATH": str(pretended), "PYTHONPATH": path,
            "FACULA_CACHE": str(tmp_path / "cache"), **variables,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", START + script],
            capture_output=True, text=True, env=env, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        return done.stdout

    return run_script


@pytest.fixture
def pretended_ranks(pretended: Path, tmp_path: Path) -> Callable[..., list[tuple[int, str]]]:
    """`run_ranks` with the pretended driver and a pretended NCCL."""

    def run(code: str, size: int = 2, **variables: str) -> list[tuple[int, str]]:
        exchange = tmp_path / f"exchange {len(list(tmp_path.iterdir()))}"
        exchange.mkdir()
        path = os.pathsep.join([str(pretended), *(p for p in sys.path if p)])
        return run_ranks(
            code, size,
            **{
                "LD_LIBRARY_PATH": str(pretended), "PYTHONPATH": path, "FAKE_CUDA_QUIET": "1",
                "FACULA_CACHE": str(tmp_path / "cache"), "FAKE_NCCL_DIR": str(exchange),
                **variables,
            },
        )  # fmt: skip

    return run
