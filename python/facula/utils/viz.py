"""Drawings of what autograd records, as SVG.

>>> import facula
>>> from facula.utils import viz
>>> w = facula.ones(2, requires_grad=True)
>>> drawing = viz.graph((w * 2).sum(), names={"w": w})
>>> drawing.startswith("<svg")
True
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from os import PathLike
from typing import Any

from facula import _C
from facula.utils._layers import Layers

__all__ = ["Drawing", "graph"]

_CHARACTER, _LINE, _MARGIN, _GAP, _RISE = 7.0, 15.0, 12.0, 18.0, 34.0
_COLOURS = {"leaf": "#cfe8cf", "operation": "#e6e6ee", "function": "#f6e3c5", "output": "#cfdff5"}


class Drawing(str):
    """The text of an SVG, which notebooks show; `dot` is the same graph for Graphviz."""

    dot: str

    def __new__(cls, svg: str, dot: str) -> Drawing:
        drawing = super().__new__(cls, svg)
        drawing.dot = dot
        return drawing

    def _repr_svg_(self) -> str:
        return str(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a file: the text for Graphviz to one that ends in .dot or .gv, else SVG."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.dot if str(path).endswith((".dot", ".gv")) else str(self))


def graph(
    outputs: Any,
    names: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None,
    *,
    max_nodes: int = 1000,
) -> Drawing:
    """Draws the graph that a backward pass from `outputs` would go through.

    Leaves stand above, outputs below: the picture reads as the forward pass went. Operations name
    the shape that they made; within `autograd.detect_anomaly` a tooltip says on which line of
    Python they were called.

    Args:
        outputs: a tensor that requires a gradient, or several.
        names: of leaves, as `module.named_parameters()` or a dict gives them; others are named
            after their shapes.
        max_nodes: draw no more than so many, those next to the outputs; the rest is drawn as "...".

    Returns:
        SVG text: a `str` that notebooks show, with `save(path)` and `dot`.

    Raises:
        TypeError: outputs are no tensors.
        ValueError: an output requires no gradient, so there is no graph, or max_nodes is below 1.
    """
    given = (outputs,) if _C.is_tensor(outputs) else tuple(outputs)
    if not given or not all(map(_C.is_tensor, given)):
        raise TypeError("graph(): outputs must be a Tensor that requires grad, or several")
    for i, t in enumerate(given):
        if not t.requires_grad:
            raise ValueError(f"graph(): output {i} does not require grad, so it has no graph")
    if max_nodes < 1:
        raise ValueError(f"graph(): max_nodes must be at least 1, not {max_nodes}")
    pairs = names.items() if isinstance(names, Mapping) else names or ()
    return _Graph(given, [(name, t) for name, t in pairs], max_nodes).drawing()


class Boxes:
    """Boxes with lines of text, and arrows between them; a kind of box is a colour."""

    def __init__(self) -> None:
        self.boxes: list[tuple[str, list[str], str]] = []  # kind, lines, tooltip
        self.arrows: list[tuple[int, int]] = []

    def add(self, kind: str, lines: list[str], tooltip: str) -> int:
        """A box more; its number, which arrows name it by."""
        self.boxes.append((kind, lines, tooltip))
        return len(self.boxes) - 1

    def drawing(self) -> Drawing:
        """The picture, arrows pointing down."""
        return Drawing(self.svg(), self.dot())

    def dot(self) -> str:
        lines = ["digraph {", '  node [shape=box, style=filled, fontname="sans-serif"];']
        for i, (kind, text, tooltip) in enumerate(self.boxes):
            label = "\\n".join(_quoted(part) for part in text)
            lines.append(
                f'  n{i} [label="{label}", fillcolor="{_COLOURS[kind]}", '
                f'tooltip="{_quoted(tooltip)}"];'
            )
        lines += [f"  n{a} -> n{b};" for a, b in self.arrows]
        return "\n".join([*lines, "}"]) + "\n"

    def svg(self) -> str:
        sizes = [
            (
                max(len(line) for line in lines) * _CHARACTER + 2 * _MARGIN,
                len(lines) * _LINE + _MARGIN,
            )
            for _, lines, _ in self.boxes
        ]
        placed = Layers(sizes, self.arrows, gap=_GAP, rise=_RISE)
        width, height = placed.width + 2 * _MARGIN, placed.height + 2 * _MARGIN
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {width:.0f} {height:.0f}" '
            'font-family="sans-serif" font-size="12">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker>'
            "</defs>",
        ]
        for points in placed.paths:
            parts.append(
                f'<path d="{_curve(points)}" fill="none" stroke="#555" marker-end="url(#tip)"/>'
            )
        for (kind, lines, tooltip), (x, y), (w, h) in zip(
            self.boxes, placed.centres, sizes, strict=True
        ):
            parts.append(
                f'<g><title>{escape(tooltip)}</title><rect x="{x - w / 2:.1f}" y="{y - h / 2:.1f}" '
                f'width="{w:.1f}" height="{h:.1f}" rx="4" fill="{_COLOURS[kind]}" stroke="#888"/>'
            )
            first = y - (len(lines) - 1) * _LINE / 2 + 4
            for i, line in enumerate(lines):
                parts.append(
                    f'<text x="{x:.1f}" y="{first + i * _LINE:.1f}" text-anchor="middle">'
                    f"{escape(line)}</text>"
                )
            parts.append("</g>")
        return "\n".join([*parts, "</svg>"]) + "\n"


class _Graph(Boxes):
    """What a backward pass goes through; arrows in the direction of the forward pass."""

    def __init__(self, outputs: tuple[Any, ...], names: list[tuple[str, Any]], limit: int) -> None:
        super().__init__()
        self.names = names
        self.places: dict[Any, int] = {}
        waiting: list[tuple[Any, int]] = []
        for i, t in enumerate(outputs):
            name = "output" if len(outputs) == 1 else f"output {i}"
            at = self.add("output", [name, _described(tuple(t.shape), str(t.dtype))], "")
            waiting.append((_C._gradient_edge(t)[0], at))
        done = 0
        while done < len(waiting):  # breadth first: what is near the outputs is kept
            node, below = waiting[done]
            done += 1
            at = self.places.get(node)
            if at is None:
                if len(self.boxes) >= limit + len(outputs):
                    self._continued(below)
                    continue
                at = self.places[node] = self._add_node(node)
                waiting += [(n, at) for n, _ in node.next_functions if n is not None]
            self.arrows.append((at, below))

    def _continued(self, below: int) -> None:
        if "..." not in self.places:
            self.places["..."] = self.add("operation", ["..."], "more, which max_nodes leaves out")
        self.arrows.append((self.places["..."], below))

    def _add_node(self, node: Any) -> int:
        if node.name() == "AccumulateGrad":
            leaf = node.variable
            name = next((n for n, t in self.names if t is leaf), "")
            shape = _described(tuple(leaf.shape), str(leaf.dtype))
            return self.add("leaf", [*([name] if name else []), shape], "a leaf")
        name = node.name()
        short = re.sub(r"Backward\d*$", "", name)
        kind = "operation" if short != name else "function"
        made = node._made_at
        shapes = [_described(*output) for output in node._output_shapes]
        return self.add(
            kind,
            [short, *shapes[:3], *(["..."] if len(shapes) > 3 else [])],
            f"{name}, made at {made}" if made else name,
        )


def _described(shape: tuple[int, ...], dtype: str) -> str:
    kind = dtype.removeprefix("facula.")
    return f"{shape}" if kind == "float32" else f"{shape} {kind}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _curve(points: list[tuple[float, float]]) -> str:
    """A smooth line through points that go downwards."""
    (x, y), *rest = points
    parts = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in rest:
        bend = (to_y - y) / 2
        parts.append(f"C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return " ".join(parts)
