"""Peak memory of each training step, above the library as imported."""

from __future__ import annotations

from dataclasses import replace

from tools.bench.row import Family
from tools.bench.rows import training

rows = Family("memory")
rows.rows += [
    replace(row, family="memory", goal=1.0, measure="memory", tolerance=None)
    for row in training.rows.rows
]
