"""What the two runs have in common, as a table, and the reasons of the rest."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

__all__ = ["Row", "row", "table"]

Results = dict[str, dict[str, Any]]


class Row:
    """A package: how many tests pass on torch, how many of those on facula, and why not the rest.

    reasons: (text, how many tests, one of them).
    """

    def __init__(self, name: str, torch: Results, facula: Results) -> None:
        self.name = name
        passed = [test for test, found in torch.items() if found["outcome"] == "passed"]
        self.torch = len(passed)
        rest = [test for test in passed if facula[test]["outcome"] != "passed"]
        self.facula = self.torch - len(rest)
        counts = Counter(short(facula[test]["reason"]) for test in rest)
        first: dict[str, str] = {}
        for test in rest:
            first.setdefault(short(facula[test]["reason"]), test)
        self.reasons = [(text, count, first[text]) for text, count in counts.most_common()]

    @property
    def share(self) -> float:
        return self.facula / self.torch if self.torch else 1.0


def row(name: str, torch: Results, facula: Results) -> Row:
    """A package's row."""
    return Row(name, torch, facula)


def short(reason: str) -> str:
    """A reason without what differs between tests that fail of the same cause."""
    text = " ".join(reason.split())
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", text)
    text = re.sub(r"(?<![\w.])-?\d+(\.\d+)?(e[-+]?\d+)?", "N", text)
    text = re.sub(r"N(, N)+", "N, ...", text)
    return text[:200]


def table(rows: list[Row], reasons: int) -> str:
    """A line a package, each with its most frequent reasons below, and the sums."""
    lines = [f"{'package':<26}{'torch':>7}{'facula':>8}{'share':>8}"]
    for r in rows:
        lines.append(f"{r.name:<26}{r.torch:>7}{r.facula:>8}{r.share:>8.1%}")
        lines += [f"  {count:4} {text}\n       {test}" for text, count, test in r.reasons[:reasons]]
    torch, facula = sum(r.torch for r in rows), sum(r.facula for r in rows)
    lines.append(f"{'all':<26}{torch:>7}{facula:>8}{facula / max(torch, 1):>8.1%}")
    return "\n".join(lines)
