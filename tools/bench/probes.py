"""Rows that are not timed in a loop: memory, imports, installed size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tools.bench.result import Result

PROBES: dict[str, Callable[[Any, Any, int], Result]] = {}
