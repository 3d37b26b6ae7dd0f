"""A pytest plugin: collects, draws or takes the named tests, and notes what becomes of each.

`FACULA_PACKAGES` names a folder. `wanted` there lists the tests to run (none: only list what is
collected, in `collected`); what was done goes to `done`, a line of JSON a test, so that a run
that a crash ends is known up to it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.environ["FACULA_PACKAGES"])


def _note(**entry: Any) -> None:
    with open(FOLDER / "done", "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = FOLDER / "wanted"
    if not wanted.exists():
        names = "\n".join(item.nodeid for item in items)
        (FOLDER / "collected").write_text(names, encoding="utf-8")
        items[:] = []
        return
    order = json.loads(wanted.read_text(encoding="utf-8"))
    place = {name: index for index, name in enumerate(order)}
    items[:] = sorted(
        (item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid]
    )


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _note(file=report.nodeid, reason=_reason(report))


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    _note(start=nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        reason = "" if report.outcome == "passed" else _reason(report)
        _note(test=report.nodeid, outcome=report.outcome, reason=reason, where=_where(report))


def _where(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return f"{crash.path}:{crash.lineno}" if crash else ""


def _reason(report: Any) -> str:
    """The line that says what went wrong."""
    longrepr = report.longrepr
    chain = getattr(longrepr, "chain", None)  # the error that led to the others comes first
    crash = chain[0][1] if chain else getattr(longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message)[:600]
    if isinstance(longrepr, tuple):
        return str(longrepr[-1])[:600]
    lines = [line for line in str(longrepr).splitlines() if line.startswith("E ")]
    return "\n".join(line[1:].strip() for line in lines)[-600:] or str(longrepr)[-600:]
