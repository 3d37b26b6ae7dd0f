"""Random programs of pointwise operators, the same for a seed: what `compile` makes groups of."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import facula as fa
from facula.testing._samples import OpRecord, operators

DTYPES = {
    "float": ("float32", "bfloat16", "float16", "float64"),
    "complex": ("complex64", "complex128"),
}


@cache
def formulas() -> tuple[tuple[Callable[..., Any], int], ...]:
    """Functions of tensors alone that are formulas of elements, and how many they take; none of
    those whose elements must be within limits."""
    found = []
    for op in operators():
        function = op.function()
        arguments = op.data["arguments"]
        tensors = [a for a in arguments if a["type"] == "Tensor"]
        rest = [a for a in arguments if a not in tensors and "default" not in a]
        limited = "within(" in str(op.data.get("scalar"))
        if op.data.get("scalar") and not limited and function and tensors and not rest:
            found.append((function, len(tensors)))
    return tuple(found)


def with_formula() -> list[OpRecord]:
    """Operators with a formula and samples."""
    return [op for op in operators() if op.data.get("scalar") and op.samples() and op.function()]


def program(seed: int, device: str, class_: str = "float") -> list[fa.Tensor]:
    """Runs a program; what it returns are the values that somebody still holds at its end."""
    rng = random.Random(seed)
    generator = fa.Generator().manual_seed(seed)
    dtypes = [getattr(fa, rng.choice(DTYPES[class_])) for _ in range(2)]
    rows, columns = rng.choice([(33, 64), (17, 130), (64, 96)])

    def made(*shape: int) -> fa.Tensor:
        values = fa.randn(*shape, generator=generator) * rng.choice([1, 1, 8])
        return values.to(rng.choice(dtypes)).to(device)

    values = [made(rows, columns), made(rows, columns), made(columns), made(rows, 1)]
    extra = [
        lambda: made(columns, rows).t(),
        lambda: made(rows, 2 * columns)[:, ::2],
        lambda: made(rows, columns + 8)[:, 8:],
        lambda: made(rows, columns).abs() > 0.5,
        lambda: made(1).reshape(()),
    ]
    values += [rng.choice(extra)() for _ in range(2)]
    for _ in range(rng.randint(2, 20)):
        statement(rng, values)
    return [v for v in values[6:] if rng.random() < 0.4] + values[:2]


def statement(rng: random.Random, values: list[fa.Tensor]) -> None:
    """One call on random values; what is refused leaves no value."""
    number = rng.choice([0.5, -1.25, 2, 3.0, 0.1])
    x = rng.choice(values)
    try:
        kind = rng.randrange(13)
        if kind < 4:
            function, count = rng.choice(formulas())
            found = function(x, *(rng.choice(values) for _ in range(count - 1)))
            values += [found] if isinstance(found, fa.Tensor) else found
        elif kind < 6:
            values.append(rng.choice([x + number, x * number, number - x, x / 3, x - x * number]))
        elif kind < 8:
            values.append(rng.choice([x * rng.choice(values) + number, x.sigmoid() * x]))
        elif kind == 8:
            target = rng.choice(values[:2])
            getattr(target, rng.choice(["add_", "mul_", "sub_"]))(x)
        elif kind == 11:  # along rows, and back
            fold = rng.choice([fa.amax, fa.amin, fa.sum, fa.mean])
            folded = fold(x, [-1], True)
            values.append(rng.choice([x - folded, folded * number, x * (folded + number)]))
        elif kind == 12:
            values.append(rng.choice([fa.softmax, fa.log_softmax])(x * number, -1))
        elif kind == 9:
            values.append(x.to(getattr(fa, rng.choice(DTYPES["float"]))))
        else:
            values.append(fa.where(x.abs() > 0.5, x, rng.choice(values)))
    except (RuntimeError, ValueError, TypeError):
        pass
