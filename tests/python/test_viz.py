"""Drawings of graphs: what they hold, and where boxes stand."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import facula as fa
import pytest
from facula import nn
from facula.utils import viz
from facula.utils._layers import Layers

SVG = "{http://www.w3.org/2000/svg}"


def boxes(drawing: str) -> dict[str, tuple[float, float, float, float]]:
    """Left, top, right and bottom of each box, by its lines of text."""
    found = {}
    for group in ElementTree.fromstring(drawing).findall(SVG + "g"):
        rect = group.find(SVG + "rect")
        assert rect is not None
        x, y, w, h = (float(rect.get(k, "nan")) for k in ("x", "y", "width", "height"))
        found["|".join(t.text or "" for t in group.findall(SVG + "text"))] = (x, y, x + w, y + h)
    return found


def test_operations_and_leaves() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    drawing = viz.graph(net(fa.ones(2, 3)).sum(), net.named_parameters())
    found = boxes(drawing)
    texts = " ".join(found)
    for part in ("0.weight|(4, 3)", "0.bias|(4,)", "Tanh|(2, 4)", "Sum|()", "output|()"):
        assert part in texts, (part, texts)
    top = {name.split("|")[0]: box[1] for name, box in found.items()}
    assert top["0.weight"] < top["Tanh"] < top["Sum"] < top["output"]


def test_boxes_do_not_overlap() -> None:
    w = fa.ones(2, requires_grad=True)
    ys = [(w * i).sin() for i in range(6)]
    total = sum((a * b for a, b in itertools.combinations(ys, 2)), fa.zeros(2)).sum()
    drawing = viz.graph(total)
    rects = [
        [float(v) for v in m]
        for m in re.findall(r'<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)"', drawing)
    ]
    assert len(rects) > 30
    for (x, y, w1, h1), (u, v, w2, h2) in itertools.combinations(rects, 2):
        apart = x + w1 <= u or u + w2 <= x or y + h1 <= v or v + h2 <= y
        assert apart, ((x, y), (u, v))


def test_dot_has_the_same_graph() -> None:
    a, b = (fa.ones(2, requires_grad=True) for _ in range(2))
    drawing = viz.graph((a * b).sum(), {"a": a, 'b"': b})
    lines = drawing.dot.splitlines()
    assert lines[0] == "digraph {" and lines[-1] == "}"
    assert sum(" -> " in line for line in lines) == 4
    assert any('label="b\\"' in line for line in lines)
    assert drawing.count("marker-end") == 4


def test_lines_of_python() -> None:
    x = fa.ones(2, requires_grad=True)
    with fa.autograd.detect_anomaly():
        y = x.sin()
    assert "SinBackward0, made at" in viz.graph(y) and "test_viz.py:" in viz.graph(y)
    assert "Sin|(2,)" in " ".join(boxes(viz.graph(y)))
    assert "Pow|(2,)" in " ".join(boxes(viz.graph(x**x)))


def test_files(tmp_path: Path) -> None:
    drawing = viz.graph(fa.ones(2, requires_grad=True) * 2)
    drawing.save(tmp_path / "graph.svg")
    drawing.save(tmp_path / "graph.dot")
    assert (tmp_path / "graph.svg").read_text() == drawing == drawing._repr_svg_()
    assert (tmp_path / "graph.dot").read_text() == drawing.dot


def test_large_graphs_are_cut() -> None:
    y = x = fa.ones(2, requires_grad=True)
    for _ in range(3000):
        y = y * x
    drawing = viz.graph(y, max_nodes=50)
    assert drawing.count("<rect") == 52  # with the output and what stands for the rest
    assert ">...<" in drawing


def test_bad_arguments() -> None:
    x = fa.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="output 1 does not require grad"):
        viz.graph([x, fa.ones(2)])
    with pytest.raises(TypeError, match="must be a Tensor"):
        viz.graph([])
    with pytest.raises(ValueError, match="max_nodes"):
        viz.graph(x, max_nodes=0)


def test_long_arrows_go_around() -> None:
    # 0 -> 1 -> 2 -> 3 and 0 -> 3: the short cut has places beside the boxes between
    placed = Layers([(40, 20)] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)], gap=10, rise=30)
    long = placed.paths[3]
    assert len(long) == 4
    for point, box in zip(long[1:3], (1, 2), strict=True):
        assert abs(point[0] - placed.centres[box][0]) >= 20
    assert [y for _, y in placed.centres] == [10, 60, 110, 160]
