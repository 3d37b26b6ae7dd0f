"""Pictures made of characters, for examples that run in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import facula as fa

_SHADES = " .:-=+*#%@"


def picture(image: fa.Tensor) -> str:
    """(H, W) values in [0, 1] as H lines; two characters are one value."""
    rows = (image.clamp(0, 1) * (len(_SHADES) - 1)).round().to(fa.int64).tolist()
    return "\n".join("".join(2 * _SHADES[value] for value in row) for row in rows)


def beside(blocks: Sequence[str]) -> str:
    """Pictures of the same height, one beside the other."""
    return "\n".join(
        "  ".join(lines) for lines in zip(*(b.split("\n") for b in blocks), strict=True)
    )


def scatter(groups: dict[str, fa.Tensor], width: int = 61, height: int = 25) -> str:
    """Points (N, 2) under the characters that stand for them; later groups lie on top."""
    points = fa.cat(list(groups.values()))
    low, high = points.min(0).values, points.max(0).values
    span = (high - low).clamp(min=1e-12)
    grid = [[" "] * width for _ in range(height)]
    for mark, group in groups.items():
        for x, y in ((group - low) / span).tolist():
            grid[height - 1 - round(y * (height - 1))][round(x * (width - 1))] = mark
    return "\n".join("".join(row).rstrip() for row in grid)
