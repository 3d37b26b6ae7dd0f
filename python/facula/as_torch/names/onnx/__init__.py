"""`torch.onnx`: what programs ask of it; there is no exporter."""

from __future__ import annotations

import enum
from typing import Any

from facula.as_torch._refused import refused_class, refused_function

__all__ = [
    "OperatorExportTypes",
    "TrainingMode",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
]


def is_in_onnx_export() -> bool:
    """Never."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Nothing: there is no exporter that would ask for it."""


unregister_custom_op_symbolic = register_custom_op_symbolic


class TrainingMode(enum.Enum):
    """In which mode a module would be exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """Which operators would be exported as what."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


for _name in "export _export dynamo_export".split():
    globals()[_name] = refused_function("onnx." + _name)
for _name in "ExportOptions ONNXProgram ExportOutput OnnxExporterError".split():
    globals()[_name] = refused_class("onnx." + _name)
