"""`--op NAME` keeps the tests of one operator, or of several."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--op", action="append", help="only the tests of this operator")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--op", default=None)
    if not wanted:
        return
    kept = []
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if getattr(params.get("op"), "name", None) in wanted:
            kept.append(item)
    found = {item.callspec.params["op"].name for item in kept}  # type: ignore[attr-defined]
    for name in wanted:
        if name not in found:
            raise pytest.UsageError(
                f"--op {name}: no tests; the facula that is installed has no operator of that name "
                "(python tools/dev.py build installs what ops.yaml has now)"
            )
    config.hook.pytest_deselected(items=[i for i in items if i not in kept])
    items[:] = kept
