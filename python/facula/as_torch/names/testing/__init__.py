"""`torch.testing`: the older name of its comparison."""

from __future__ import annotations

from typing import Any

from facula.testing import assert_close


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, **rest: Any
) -> None:
    """`assert_close` of values alone, as torch has it from before: dtypes may differ."""
    assert_close(actual, expected, rtol=rtol, atol=atol, check_dtype=False, **rest)
