"""What a gradient check says of two Jacobians that differ."""

from __future__ import annotations

import itertools
import math
from typing import Any

_SHOWN = 6  # rows and columns of a Jacobian that are written out
_LISTED = 5  # elements that are named

Rows = list[list[float]]


def _shape(t: Any) -> tuple[int, ...]:
    return tuple(t.shape)


def _element(t: Any, part: int) -> str:
    """The index of a part of `t`: of a complex number the real and the imaginary one."""
    of = ""
    if t.dtype.is_complex:
        part, imaginary = divmod(part, 2)
        of = ".imag" if imaginary else ".real"
    index = []
    for size in reversed(_shape(t)):
        part, at = divmod(part, size)
        index.append(at)
    return f"{list(reversed(index))}{of}"


def _table(rows: Rows) -> str:
    shown = []
    for row in rows[:_SHOWN]:
        cells = [f"{v:12.6g}" for v in row[:_SHOWN]] + (["..."] if len(row) > _SHOWN else [])
        shown.append("    " + " ".join(cells))
    if len(rows) > _SHOWN:
        shown.append("    ...")
    return "\n".join(shown)


def _near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5)


def _same(a: Rows, b: Rows) -> bool:
    return len(a) == len(b) and all(
        len(x) == len(y) and all(map(_near, x, y)) for x, y in zip(a, b, strict=True)
    )


def _hint(analytical: Rows, numerical: Rows, has_gradient: bool, both_complex: bool) -> str:
    """What the two look like beside each other, where that says what may be wrong."""
    flat = [
        (a, n)
        for x, y in zip(analytical, numerical, strict=True)
        for a, n in zip(x, y, strict=True)
    ]
    if not has_gradient:
        return "There is no gradient: the output is not connected to this input in the graph."
    if all(a == 0 for a, _ in flat):
        return "The gradient is zero everywhere: is the input detached, or forgotten in backward?"
    if any(math.isnan(a) or math.isinf(a) for a, _ in flat):
        return "The gradient has elements that are not finite."
    if all(_near(n, 0.0) for _, n in flat):
        return "Finite differences see no dependence; is the function piecewise constant here?"
    if _same(analytical, [[-v for v in row] for row in numerical]):
        return "The sign of the gradient is wrong everywhere."
    ratios = [a / n for a, n in flat if not _near(n, 0.0)]
    zeros = all(_near(a, 0.0) for a, n in flat if _near(n, 0.0))
    if ratios and zeros and len(ratios) > 1 and all(_near(r, ratios[0]) for r in ratios):
        return f"The gradient is {ratios[0]:.6g} times what it should be everywhere."
    if both_complex:
        turned = [
            [-v if (r + c) % 2 else v for c, v in enumerate(row)] for r, row in enumerate(numerical)
        ]
        if _same(analytical, turned):
            return "The gradient is the complex conjugate of what it should be."
    transposed = [list(column) for column in zip(*numerical, strict=True)]
    if len(numerical) > 1 and _same(analytical, transposed):
        return "The gradient is that of the transposed Jacobian."
    return ""


def report(
    mode: str,
    output: tuple[int, Any],
    given: tuple[int, Any],
    analytical: Rows,
    numerical: Rows,
    allowed: tuple[float, float],
    has_gradient: bool = True,
) -> str | None:
    """A text on how the Jacobians differ; None if they agree.

    Args:
        mode: "reverse-mode" or "forward-mode".
        output, given: number and tensor of the output and the input.
        analytical, numerical: a row for each part of the output, a column for each of the input.
        allowed: absolute and relative tolerance.
        has_gradient: False where the graph does not lead from the output to the input.
    """
    atol, rtol = allowed
    off = []
    columns = range(len(numerical[0]) if numerical else 0)
    for r, c in itertools.product(range(len(numerical)), columns):
        a, n = analytical[r][c], numerical[r][c]
        if a == n or abs(a - n) <= atol + rtol * abs(n) or (a != a and n != n):
            continue
        error = abs(a - n)
        off.append((-math.inf if error != error else -error, r, c))
    if not off:
        return None
    off.sort()
    (i, out), (j, inp) = output, given
    total = len(numerical) * len(columns)
    whole = len(columns) == inp.numel() * (2 if inp.dtype.is_complex else 1)
    lines = [
        f"Jacobian mismatch for output {i} with respect to input {j}, {mode} derivative: "
        f"{len(off)} of {total} elements differ by more than {atol:g} + {rtol:g} * |numerical|; "
        f"the output is {out.dtype} of shape {_shape(out)}, the input {inp.dtype} of shape "
        f"{_shape(inp)}"
    ]
    for _, r, c in off[:_LISTED]:
        a, n = analytical[r][c], numerical[r][c]
        by = f"d input{_element(inp, c)}" if whole else "a random direction"
        lines.append(
            f"  d output{_element(out, r)} / {by}: analytical {a:.10g}, "
            f"numerical {n:.10g}, difference {a - n:.3g}"
        )
    if len(off) > _LISTED:
        lines.append(f"  and {len(off) - _LISTED} more, of smaller differences")
    both = out.dtype.is_complex and inp.dtype.is_complex
    hint = _hint(analytical, numerical, has_gradient, both)
    if hint:
        lines.append(hint)
    lines += ["numerical (a row for each element of the output):", _table(numerical)]
    lines += ["analytical:", _table(analytical)]
    return "\n".join(lines)
