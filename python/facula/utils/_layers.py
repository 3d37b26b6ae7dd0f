"""Places for the boxes of an acyclic graph, in layers.

The steps are those of K. Sugiyama, S. Tagawa and M. Toda, "Methods for visual understanding of
hierarchical system structures", 1981: a layer for each box, places on the way for long arrows, an
order in which few arrows cross (by averages of neighbours), coordinates.
"""

from __future__ import annotations

import itertools

__all__ = ["Layers"]

_SWEEPS = 8
_BEND = 8.0  # the width of a place on the way of a long arrow


class Layers:
    """Centres of boxes, and the points that arrows go through.

    Args:
        sizes: width and height of each box.
        arrows: from which box to which; without cycles.
        gap, rise: between boxes of a layer, and between layers.
    """

    def __init__(
        self,
        sizes: list[tuple[float, float]],
        arrows: list[tuple[int, int]],
        *,
        gap: float,
        rise: float,
    ) -> None:
        self._gap = gap
        arrows = list(dict.fromkeys(arrows))
        depth = _depths(len(sizes), arrows)
        widths = [w for w, _ in sizes]
        chains = []
        for a, b in arrows:
            chain = [a]
            for level in range(depth[a] + 1, depth[b]):
                chain.append(len(widths))
                widths.append(_BEND)
                depth.append(level)
            chains.append([*chain, b])
        self._widths = widths
        layers: list[list[int]] = [[] for _ in range(max(depth, default=0) + 1)]
        for i, level in enumerate(depth):
            layers[level].append(i)
        self._above: list[list[int]] = [[] for _ in widths]
        self._below: list[list[int]] = [[] for _ in widths]
        for chain in chains:
            for a, b in itertools.pairwise(chain):
                self._below[a].append(b)
                self._above[b].append(a)
        x = self._ordered(layers)
        left = min((x[i] - w / 2 for i, w in enumerate(widths)), default=0.0)
        tall = [max((sizes[i][1] for i in layer if i < len(sizes)), default=0) for layer in layers]
        middle, top = [], 0.0
        for height in tall:
            middle.append(top + height / 2)
            top += height + rise
        self.height = max(top - rise, 0.0)
        self.width = max((x[i] + w / 2 - left for i, w in enumerate(widths)), default=0.0)
        self.centres = [(x[i] - left, middle[depth[i]]) for i in range(len(sizes))]
        self.paths = []
        for chain in chains:
            points = [(x[i] - left, middle[depth[i]]) for i in chain]
            a, b = chain[0], chain[-1]
            points[0] = (points[0][0], points[0][1] + sizes[a][1] / 2)
            points[-1] = (points[-1][0], points[-1][1] - sizes[b][1] / 2)
            self.paths.append(points)

    def _ordered(self, layers: list[list[int]]) -> list[float]:
        """Sorts the layers, and gives the middle of each box across."""
        x = [0.0] * len(self._widths)
        for layer in layers:
            self._spread(layer, x, [0.0] * len(layer))
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            nearer = self._above if down else self._below
            for layer in layers if down else reversed(layers):
                wanted = {
                    i: sum(x[j] for j in nearer[i]) / len(nearer[i]) if nearer[i] else x[i]
                    for i in layer
                }
                layer.sort(key=wanted.__getitem__)
                self._spread(layer, x, [wanted[i] for i in layer])
        return x

    def _spread(self, layer: list[int], x: list[float], wanted: list[float]) -> None:
        """Places as near to the wanted ones as their order and widths let them be.

        Boxes that would overlap are moved together, about their average.
        """
        runs: list[list[float]] = []  # left end, width, sum of wanted left ends, how many
        for i, at in zip(layer, wanted, strict=True):
            w = self._widths[i] + self._gap
            runs.append([at - w / 2, w, at - w / 2, 1.0])
            while len(runs) > 1 and runs[-2][0] + runs[-2][1] > runs[-1][0]:
                _, width, total, count = runs.pop()
                last = runs[-1]
                last[2] += total - count * last[1]
                last[3] += count
                last[1] += width
                last[0] = last[2] / last[3]
        boxes = iter(layer)
        for left, _, _, count in runs:
            for _ in range(int(count)):
                i = next(boxes)
                w = self._widths[i] + self._gap
                x[i] = left + w / 2
                left += w


def _depths(count: int, arrows: list[tuple[int, int]]) -> list[int]:
    """The layer of each box: one below the lowest that an arrow comes from."""
    below: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for a, b in arrows:
        below[a].append(b)
        missing[b] += 1
    first = [i for i in range(count) if missing[i] == 0]
    depth = [0] * count
    ready = list(first)
    while ready:
        i = ready.pop()
        for j in below[i]:
            depth[j] = max(depth[j], depth[i] + 1)
            missing[j] -= 1
            if missing[j] == 0:
                ready.append(j)
    for i in first:  # right above what it goes to
        if below[i]:
            depth[i] = min(depth[j] for j in below[i]) - 1
    return depth
