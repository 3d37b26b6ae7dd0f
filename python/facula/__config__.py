"""What this facula was built with and what it found on this machine; for reports of faults.

`python -m facula.__config__` prints it.
"""

from __future__ import annotations

import platform

import facula
from facula import _C, backends

__all__ = ["show"]


def show() -> str:
    """The version, the compiler, instruction sets, BLAS, threads and devices, as text."""
    found = _C._build_info()
    levels = f"{found['active_instruction_set']} (built: {', '.join(found['instruction_sets'])})"
    amx = ", AMX for products of bfloat16" if found["amx"] else ""
    blas = found["blas"] or "none (`pip install scipy-openblas32`, or FACULA_BLAS=FILE)"
    return "\n".join(
        [
            f"facula {facula.__version__}",
            f"  - Python {platform.python_version()}, {platform.platform()}",
            f"  - compiler: {found['compiler']}",
            f"  - instruction set: {levels}{amx}",
            f"  - BLAS for complex products: {blas}",
            f"  - threads: {facula.get_num_threads()}",
            f"  - devices: {', '.join(_devices())}",
        ]
    )


def _devices() -> list[str]:
    """Types of devices, with their number where the package is loaded: it is on first use."""
    registered = backends.names()
    return [
        "cpu",
        "meta",
        *(f"{name} ({_C._device_count(name)})" for name in registered),
        *(f"{n} (not loaded)" for n in sorted(backends.entry_points()) if n not in registered),
    ]


if __name__ == "__main__":
    print(show())
