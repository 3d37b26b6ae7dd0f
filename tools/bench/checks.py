"""What must hold beside speed: the error against float64, the same numbers at any thread count."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tools.bench.row import Check

SAMPLE = 1 << 18  # elements that are computed again in float64


def ulp(
    limit: float, exact: Callable[..., Any], operands: Callable[[Any], tuple[Any, ...]]
) -> Check:
    """The largest error in units of the last place of the float32 result. `exact` computes in
    NumPy's float64 what facula computed of `operands`."""

    def measure(trial: Any) -> float:
        import numpy as np

        step = None
        wide = []
        for operand in operands(trial):
            flat = operand.detach().numpy().reshape(-1)
            step = step or max(1, flat.size // SAMPLE)
            wide.append(flat[::step].astype(np.float64))
        got = trial.call().detach().numpy().reshape(-1)[::step].astype(np.float64)
        with np.errstate(all="ignore"):
            right = exact(*wide)
            unit = np.spacing(np.abs(right).astype(np.float32)).astype(np.float64)
        return float((np.abs(got - right) / unit).max())

    return Check("ulp", limit, measure)


def pairwise(exact: Callable[[Any], tuple[Any, Any, int]]) -> Check:
    """The largest error as a part of what summing float32 by pairs may have: of n terms,
    log2(n) roundings of the sum of their sizes. `exact(trial)` gives the right values, those
    sizes, and n."""

    def measure(trial: Any) -> float:
        import numpy as np

        right, sizes, n = exact(trial)
        got = trial.call().detach().numpy().astype(np.float64)
        bound = (math.log2(n) + 1) * 2.0**-24 * np.abs(sizes)
        return float((np.abs(got - right) / bound).max())

    return Check("error/pairwise", 1.0, measure)


def same_at_any_threads() -> Check:
    """How many numbers of thread change the result of one seed: none may."""

    def measure(trial: Any) -> float:
        import numpy as np

        lib, kept = trial.lib, trial.lib.get_num_threads()
        found = []
        try:
            for threads in (1, 2, 3):
                lib.set_num_threads(threads)
                lib.manual_seed(7)
                found.append(trial.call().numpy().copy())
        finally:
            lib.set_num_threads(kept)
        return float(sum(not np.array_equal(found[0], other) for other in found[1:]))

    return Check("numbers changed by threads", 0.0, measure)


def linear_memory(
    make: Callable[[Any, tuple[int, ...]], Callable[[], Any]], shape: tuple[int, ...]
) -> Check:
    """Peak memory of work on long inputs, in sizes of one input: a handful, where memory grows
    linearly with the length, which is the last but one of the shape."""

    def measure(trial: Any) -> float:
        from tools.bench.memory import peak_of

        short = (*shape[:-2], 64, shape[-1])
        make(trial, short)()  # loads what the first call loads
        return peak_of(make(trial, shape)) / (4 * math.prod(shape))

    return Check("peak/input", 12.0, measure, fresh=True)
