"""Anomaly mode: find the operation whose backward made the first NaN."""

from __future__ import annotations

from facula import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Switch anomaly mode on or off: at once when called, until the end of the block in `with`.

    In this mode a backward function that makes NaN raises, and messages say where the operation was
    called. It is slow.
    """

    def __init__(self, mode, check_nan=True):
        self._saved = _C.is_anomaly_enabled()
        _C._set_anomaly(bool(mode))

    def __enter__(self):
        return None

    def __exit__(self, *exc):
        _C._set_anomaly(self._saved)


class detect_anomaly:
    """Anomaly mode for a `with` block; see `set_detect_anomaly`."""

    def __init__(self, check_nan=True):
        self._saved = []

    def __enter__(self):
        self._saved.append(_C.is_anomaly_enabled())
        _C._set_anomaly(True)

    def __exit__(self, *exc):
        _C._set_anomaly(self._saved.pop())
