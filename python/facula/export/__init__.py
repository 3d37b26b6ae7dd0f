"""Programs as files for others: `onnx` writes models of ONNX, `export` a graph by itself."""

from facula.export._onnx import UnsupportedError, onnx

__all__ = ["UnsupportedError", "onnx"]
