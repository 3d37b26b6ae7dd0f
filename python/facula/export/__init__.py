"""Programs as files for others: `onnx` writes models of ONNX, `export` a graph by itself."""

from facula.export._onnx import onnx
from facula.export._program import ExportedProgram, export, load, save
from facula.export._writer import UnsupportedError

__all__ = ["ExportedProgram", "UnsupportedError", "export", "load", "onnx", "save"]
