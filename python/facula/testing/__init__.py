"""For tests: compare tensors with tolerances by dtype, and make random ones."""

from __future__ import annotations

from facula.testing._comparison import assert_allclose, assert_close
from facula.testing._creation import make_tensor
from facula.testing._file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]
