"""`torch.onnx`: what programs ask of it; `export` is facula.export.onnx."""

from __future__ import annotations

import enum
from typing import Any

import facula
from facula.as_torch._refused import refused_class, refused_function
from facula.export import UnsupportedError as UnsupportedOperatorError
from facula.export import onnx as _onnx

__all__ = [
    "OperatorExportTypes",
    "TrainingMode",
    "UnsupportedOperatorError",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
]


OnnxExporterError = UnsupportedOperatorError


def is_in_onnx_export() -> bool:
    """Never: what is exported is traced as it runs elsewhere."""
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


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    export_params: bool = True,
    verbose: bool | None = None,
    training: TrainingMode = TrainingMode.EVAL,
    input_names: Any = None,
    output_names: Any = None,
    opset_version: int | None = None,
    dynamic_axes: Any = None,
    do_constant_folding: bool = True,
    **options: Any,
) -> Any:
    """facula.export.onnx, in the mode that `training` says; `options` are taken and not used.

    Raises:
        ValueError: export_params is False, which would leave the weights out.
    """
    if not export_params:
        raise ValueError("onnx.export(): export_params=False leaves the weights out; facula cannot")
    if isinstance(args, list):
        args = tuple(args)
    if isinstance(args, tuple) and args and isinstance(args[-1], dict) and kwargs is None:
        args, kwargs = args[:-1], args[-1] or None
    before = getattr(model, "training", None)
    if before is not None and training is not TrainingMode.PRESERVE:
        model.train(training is TrainingMode.TRAINING)
    try:
        with facula.no_grad():
            made = _onnx(
                model,
                args,
                f,
                kwargs=kwargs,
                input_names=input_names,
                output_names=output_names,
                dynamic_axes=dynamic_axes,
                opset_version=max(opset_version or 18, 18),
            )
    finally:
        if before is not None:
            model.train(before)
    if verbose:
        print(made.graph)
    return made


for _name in "_export dynamo_export".split():
    globals()[_name] = refused_function("onnx." + _name)
for _name in "ExportOptions ONNXProgram ExportOutput".split():
    globals()[_name] = refused_class("onnx." + _name)
