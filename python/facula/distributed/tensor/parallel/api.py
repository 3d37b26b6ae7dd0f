"""`parallelize_module`: a plan of styles for the modules of a model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.tensor._dtensor import mesh_of
from facula.distributed.tensor.parallel.style import ParallelStyle
from facula.nn.modules.module import Module

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Shares a module's work over the processes of a mesh, in place, and returns the module.

    All processes call it. Their inputs must be the same, or the parts that the plan says.

    Args:
        device_mesh: of one dimension, as `mesh["tp"]`; all processes by default.
        parallelize_plan: a style, or names of submodules and the style of each; a name may have
            wildcards, such as "layers.*.attention.wq".
        src_data_rank: whose parameters count; None: each process's own, which are the same.

    Raises:
        ValueError: the mesh has several dimensions, or something does not divide.
    """
    mesh = mesh_of(device_mesh)
    if mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module: the mesh has {mesh.ndim} dimensions; give one of them, such as"
            " mesh['tp']"
        )
    if parallelize_plan is None:
        warnings.warn("parallelize_module: no plan, so nothing is done", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        return _styled(module, mesh, parallelize_plan, src_data_rank)
    for pattern, style in parallelize_plan.items():
        if not isinstance(style, ParallelStyle):
            raise TypeError(
                f"parallelize_module: the plan has {style!r} for {pattern!r}; give a ParallelStyle"
            )
        found = [m for name, m in module.named_modules() if _matches(name, pattern)]
        if not found:
            warnings.warn(f"parallelize_module: no module is named {pattern!r}", stacklevel=2)
        for m in found:
            _styled(m, mesh, style, src_data_rank)
    return module


def _styled(module: Module, mesh: DeviceMesh, style: Any, src_data_rank: int | None) -> Module:
    style.src_data_rank = src_data_rank
    made: Module = style._apply(module, mesh)
    return made


def _matches(name: str, pattern: str) -> bool:
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))
