"""What the tests of extensions share: a cache of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

collect_ignore_glob: list[str] = []
if shutil.which("g++") is None or "san" in os.environ.get("LD_PRELOAD", ""):
    collect_ignore_glob.append("test_*.py")  # no compiler, or one under a sanitizer


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FACULA_CACHE", str(folder))
        yield folder
