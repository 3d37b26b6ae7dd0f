"""Replacing what matches a pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from facula import nn
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule, _copy_attribute
from facula.fx.node import Node
from facula.fx.tracer import symbolic_trace

__all__ = ["Match", "replace_pattern"]


class Match(NamedTuple):
    """Where a pattern was found: its last node, and the graph's node for each of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


def _matches(pattern: Node, node: Any, found: dict[Node, Any]) -> bool:
    if pattern in found:
        return found[pattern] is node
    if pattern.op == "placeholder":
        found[pattern] = node
        return True
    if not isinstance(node, Node) or pattern.op != node.op:
        return False
    if pattern.op != "output" and pattern.target != node.target:
        return False
    found[pattern] = node
    return _fits(pattern.args, node.args, found) and _fits(pattern.kwargs, node.kwargs, found)


def _fits(pattern: Any, given: Any, found: dict[Node, Any]) -> bool:
    if isinstance(pattern, Node):
        return _matches(pattern, given, found)
    if isinstance(pattern, (tuple, list)):
        same = isinstance(given, (tuple, list)) and len(pattern) == len(given)
        return same and all(_fits(p, g, found) for p, g in zip(pattern, given, strict=True))
    if isinstance(pattern, dict):
        same = isinstance(given, dict) and pattern.keys() == given.keys()
        return same and all(_fits(pattern[k], given[k], found) for k in pattern)
    return type(pattern) is type(given) and bool(pattern == given)


def _enclosed(found: dict[Node, Any], anchor: Node) -> bool:
    """Does nobody outside use what is within the match?"""
    inner = {n for p, n in found.items() if p.op != "placeholder" and isinstance(n, Node)}
    return all(user in inner for n in inner if n is not anchor for user in n.users)


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | Any, replacement: Callable[..., Any] | Any
) -> list[Match]:
    """Replace what computes as `pattern` does by what `replacement` does.

    Args:
        gm: is changed.
        pattern, replacement: functions or modules with as many inputs as each other, and one
            result; they are traced.

    Returns the matches, none of which overlap.
    """
    found_graph, new_graph = _graph_of(pattern), _graph_of(replacement)
    last = found_graph.output_node().args[0]
    if not isinstance(last, Node):
        raise ValueError("replace_pattern(): the pattern must return one value")
    inputs = [n for n in found_graph.nodes if n.op == "placeholder"]
    new_inputs = [n for n in new_graph.nodes if n.op == "placeholder"]
    if len(inputs) != len(new_inputs):
        raise ValueError(
            f"replace_pattern(): pattern has {len(inputs)} inputs, replacement {len(new_inputs)}"
        )
    made: list[Match] = []
    used: set[Node] = set()
    for node in list(gm.graph.nodes):
        nodes: dict[Node, Any] = {}
        if node.op == "output" or not _matches(last, node, nodes) or not _enclosed(nodes, node):
            continue
        inner = [n for p, n in nodes.items() if p.op != "placeholder"]
        if used.intersection(inner):
            continue
        used.update(inner)
        known = {
            new: nodes[old] for old, new in zip(inputs, new_inputs, strict=True) if old in nodes
        }
        with gm.graph.inserting_before(node):
            result = gm.graph.graph_copy(new_graph, known)
        node.replace_all_uses_with(result)
        for old in sorted(inner, reverse=True):
            gm.graph.erase_node(old)
        made.append(Match(node, nodes))
    if isinstance(replacement, nn.Module):
        for inner_node in new_graph.nodes:
            if inner_node.op in ("call_module", "get_attr"):
                _copy_attribute(replacement, gm, inner_node.target)
    gm.recompile()
    return made


def _graph_of(what: Any) -> Graph:
    if isinstance(what, Graph):
        return what
    return what.graph if isinstance(what, GraphModule) else symbolic_trace(what).graph
