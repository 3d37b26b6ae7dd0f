"""What it costs to have the package: to import it, to install it."""

from __future__ import annotations

from tools.bench.row import Family

rows = Family("package", tolerance=None, threads=(1,))


def nothing(lib, inputs):
    """These are probes of `probes.py`; no statement is timed."""


rows.add("import", 0.06, measure="import")(nothing)
rows.add("installed size, with dependencies", 0.3, measure="size")(nothing)
