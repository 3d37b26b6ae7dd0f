"""For tests: compare tensors with tolerances by dtype, and make random ones."""

from __future__ import annotations

from facula.testing._comparison import assert_allclose, assert_close
from facula.testing._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
