"""Peak resident memory of this process, from Linux's counters."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path


def status(field: str) -> int:
    """Bytes of a field of /proc/self/status, such as VmRSS."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise NotImplementedError(f"/proc/self/status has no {field}")


def peak_of(work: Callable[[], object]) -> float:
    """How far the resident memory rises above what it is now while `work` runs."""
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # VmHWM starts anew
    except OSError as error:
        raise NotImplementedError(f"the peak cannot be measured here: {error}") from None
    before = status("VmRSS")
    work()
    return float(status("VmHWM") - before)
