"""Graphs of programs: tracing a module, changing its graph, running the changed module.

`symbolic_trace(module)` runs the module's `forward` with stand-ins for its inputs; what it does
becomes a `Graph` of `Node`s, and a `GraphModule` whose code is the graph.
"""

from facula.fx.graph import CodeGen, Graph, PythonCode
from facula.fx.graph_module import GraphModule
from facula.fx.interpreter import Interpreter, Transformer
from facula.fx.node import Node, has_side_effect, map_arg
from facula.fx.proxy import Proxy
from facula.fx.subgraph_rewriter import replace_pattern
from facula.fx.tracer import PH, Tracer, symbolic_trace, wrap

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "PythonCode",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
