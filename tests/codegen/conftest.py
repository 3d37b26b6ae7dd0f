"""`--update-golden` rewrites the files of tests/codegen/golden from what is generated now."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from codegen.__main__ import ROOT, load
from codegen.schema.model import Schema

sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture(scope="session")
def schema() -> Schema:
    """The schema of the library itself, with derived operators."""
    return load(ROOT / "ops.yaml")


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden", default=False))
