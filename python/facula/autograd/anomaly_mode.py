"""Anomaly mode: find the operation whose backward made the first NaN."""

from __future__ import annotations

from facula import _C

__all__ = [
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "set_anomaly_enabled",
    "set_detect_anomaly",
]


def _state():
    return _C.is_anomaly_enabled(), _C._checks_nan()


def _set_state(state):
    _C._set_anomaly(state[0])
    _C._set_check_nan(state[1])


def set_anomaly_enabled(enabled, check_nan=True):
    """Switch anomaly mode on or off for good: see set_detect_anomaly."""
    _set_state((bool(enabled), bool(check_nan)))


def is_anomaly_check_nan_enabled():
    """Does anomaly mode look for NaN?"""
    return _C._checks_nan()


class set_detect_anomaly:
    """Switch anomaly mode on or off: at once when called, until the end of the block in `with`.

    In this mode a backward function that makes NaN raises, and messages say where the operation was
    called, and for a second derivative also the operation that it is of. It is slow.

    Args:
        mode: on or off.
        check_nan: look for NaN; else messages of other errors alone say more.
    """

    def __init__(self, mode, check_nan=True):
        self._saved = _state()
        _set_state((bool(mode), bool(check_nan)))

    def __enter__(self):
        return None

    def __exit__(self, *exc):
        _set_state(self._saved)


class detect_anomaly:
    """Anomaly mode for a `with` block; see `set_detect_anomaly`."""

    def __init__(self, check_nan=True):
        self._check_nan = bool(check_nan)
        self._saved = []

    def __enter__(self):
        self._saved.append(_state())
        _set_state((True, self._check_nan))

    def __exit__(self, *exc):
        _set_state(self._saved.pop())
