"""What all tests share: how a run is divided, and the cases of grouped tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from tests import grouped

# Where single tests take seconds, as they start processes and compilers: these go first, while
# there is enough to do beside them.
SLOW = (
    "test_adding.py",
    "extensions",
    "devices",
    "distributed",
    "docs",
    "tools",
    "codegen",
    "runtime",
    "python",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--case", action="append", help="of grouped tests, only cases whose id has this in it"
    )


def pytest_configure(config: pytest.Config) -> None:
    grouped.WANTED[:] = config.getoption("--case", default=None) or []


def _rank(item: pytest.Item) -> int:
    names = item.nodeid.split("::")[0].split("/")
    return next((k for k, name in enumerate(SLOW) if name in names), len(SLOW))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)


@pytest.fixture(scope="module", autouse=True)
def _little_garbage() -> Iterator[None]:
    """What is there before a file stays: its collections look at what its tests make alone.

    Of thousands of tests and the schema a collection takes a second, and some files make hundreds.
    """
    gc.collect()
    gc.freeze()
    yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Neighbours stay together, as they share what is prepared; who is free takes from others."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    counts = [value for r in reports for key, value in r.user_properties if key == "cases"]
    if counts:
        terminalreporter.write_line(f"{sum(counts)} cases in {len(counts)} grouped tests")
