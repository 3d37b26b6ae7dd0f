"""What `torch.__config__` has: texts on how it was built."""

from __future__ import annotations

import facula
from facula.__config__ import show

__all__ = ["parallel_info", "show"]


def parallel_info() -> str:
    """How many threads an operator uses, as text."""
    return f"ATen/Parallel:\n\tat::get_num_threads() : {facula.get_num_threads()}\n"
