"""`torch.testing._internal.common_utils`: the test case that compares tensors within anything."""

from __future__ import annotations

import unittest
from collections.abc import Mapping, Sequence
from typing import Any

import facula
from facula.testing import assert_close, make_tensor

__all__ = ["TEST_CUDA", "TestCase", "make_tensor", "run_tests"]

TEST_CUDA = facula.cuda.is_available()


class TestCase(unittest.TestCase):
    """`unittest.TestCase` whose `assertEqual` takes tensors, numbers, and what holds them."""

    def assertEqual(
        self,
        x: Any,
        y: Any,
        msg: Any = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool = True,
        exact_device: bool = False,
        **rest: Any,
    ) -> None:
        """AssertionError unless both are close; other objects are compared by ==."""
        how: dict[str, Any] = {
            "atol": atol,
            "rtol": rtol,
            "equal_nan": equal_nan,
            "exact_dtype": exact_dtype,
            "exact_device": exact_device,
        }
        limits: dict[str, Any] = {"atol": atol, "rtol": rtol, "equal_nan": equal_nan, "msg": msg}
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            super().assertEqual(x.keys(), y.keys(), msg)
            for key in x:
                self.assertEqual(x[key], y[key], msg, **how)
        elif (
            isinstance(x, Sequence) and isinstance(y, Sequence) and not isinstance(x, (str, bytes))
        ):
            super().assertEqual(len(x), len(y), msg)
            for a, b in zip(x, y, strict=True):
                self.assertEqual(a, b, msg, **how)
        elif isinstance(x, facula.Tensor) or isinstance(y, facula.Tensor):
            both = isinstance(x, facula.Tensor) and isinstance(y, facula.Tensor)
            exact_dtype = exact_dtype and both  # numbers have no dtype to agree on
            x, y = (facula.as_tensor(v) for v in (x, y))
            assert_close(x, y, check_dtype=exact_dtype, check_device=exact_device, **limits)
        elif all(isinstance(v, (int, float, complex)) for v in (x, y)):
            assert_close(x, y, check_dtype=False, **limits)
        else:
            super().assertEqual(x, y, msg)


def run_tests(argv: list[str] | None = None) -> None:
    """Runs the tests of the program, as `unittest.main` does."""
    unittest.main(argv=argv)
