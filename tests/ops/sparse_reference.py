"""Plain NumPy and SciPy definitions of operators on sparse matrices: `ref.NAME` in ops.yaml."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

Array = np.ndarray


def csr_product(crow: Any, col: Any, values: Array, dense: Array) -> Array:
    shape = (len(crow) - 1, len(dense))
    return scipy.sparse.csr_array((values, col, crow), shape=shape) @ dense


def csr_sampled(crow: Any, col: Any, left: Array, right: Array) -> Array:
    rows = np.repeat(np.arange(len(crow) - 1), np.diff(crow))
    return (left[rows] * right[np.asarray(col, dtype=int)]).sum(1, dtype=left.dtype)


def group_indices(index: Array, groups: int) -> tuple[Array, Array]:
    order = np.argsort(index, kind="stable")
    return np.searchsorted(index[order], np.arange(groups + 1)), order
