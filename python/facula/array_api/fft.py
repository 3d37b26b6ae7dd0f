"""The extension `fft` of the Array API standard, which is `facula.fft`."""

from __future__ import annotations

from typing import Any

import facula


def __getattr__(name: str) -> Any:
    return getattr(facula.fft, name)


def __dir__() -> list[str]:
    return dir(facula.fft)
