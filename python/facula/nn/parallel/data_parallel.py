"""`DataParallel` and its parts: scatter, replicate, parallel_apply, gather."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from typing import Any

import facula
from facula.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]


def _device(place: Any) -> Any:
    return facula.device(f"cuda:{place}" if isinstance(place, int) else place)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """`inputs` for each device: tensors are cut along `dim`, all else goes to each.

    Args:
        inputs: tensors, in tuples, lists and dictionaries.
        target_gpus: devices, or numbers of GPUs.

    Returns:
        As many as there are parts: fewer than devices where the tensors are shorter.
    """
    devices = [_device(place) for place in target_gpus]

    def parts(value: Any) -> list[Any]:
        if isinstance(value, facula.Tensor):
            pieces = value.chunk(len(devices), dim)
            return [p.to(device) for p, device in zip(pieces, devices, strict=False)]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return [type(value)(*entries) for entries in _together(map(parts, value))]
        if isinstance(value, (tuple, list)) and value:
            return [type(value)(entries) for entries in _together(map(parts, value))]
        if isinstance(value, dict) and value:
            rows = _together(map(parts, value.values()))
            return [type(value)(zip(value, entries, strict=True)) for entries in rows]
        return [value] * len(devices)

    return parts(inputs)


def _together(columns: Any) -> list[Any]:
    return list(zip(*columns, strict=False))


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """One result of those of the parts: tensors joined along `dim`, numbers to a vector.

    Raises:
        TypeError: they hold anything else, or differ in kind.
    """
    first, device = outputs[0], _device(target_device)
    if isinstance(first, facula.Tensor):
        if all(o.dim() == 0 for o in outputs) and dim == 0:
            warnings.warn("gather(): results of no dim are joined to a vector", stacklevel=2)
            return facula.stack([o.to(device) for o in outputs])
        return facula.cat([o.to(device) for o in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(o.keys() != first.keys() for o in outputs):
            raise TypeError("gather(): the results are dictionaries of different keys")
        return type(first)((k, gather([o[k] for o in outputs], device, dim)) for k in first)
    if isinstance(first, (tuple, list)):
        entries = [gather(column, device, dim) for column in zip(*outputs, strict=True)]
        return type(first)(*entries) if hasattr(first, "_fields") else type(first)(entries)
    raise TypeError(f"gather(): results must hold tensors, not {type(first).__name__}")


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """Copies of a module whose parameters are the module's own, moved to each device.

    Gradients go back to the module's parameters; `detach` cuts them off. The first copy has the
    buffers themselves where they are on its device: running statistics are updated in them.
    """
    return [
        _replica(network, _device(place), detach, i == 0, {}) for i, place in enumerate(devices)
    ]


def _replica(
    module: Module, device: Any, detach: bool, is_first: bool, made: dict[int, Any]
) -> Module:
    if id(module) in made:
        return made[id(module)]
    copy = module.__new__(type(module))
    made[id(module)] = copy
    state = dict(module.__dict__)

    def moved(tensor: Any) -> Any:
        if tensor is None:
            return None
        if id(tensor) not in made:
            value = tensor.detach() if detach else tensor
            made[id(tensor)] = value.to(device)
        return made[id(tensor)]

    state["_parameters"] = {}
    # What is no leaf is no parameter of the copy, and yet its attribute.
    state.update({name: moved(p) for name, p in module._parameters.items()})
    state["_buffers"] = {
        name: moved(b) if is_first or b is None else b.detach().to(device, copy=True)
        for name, b in module._buffers.items()
    }
    state["_modules"] = {
        name: None if child is None else _replica(child, device, detach, is_first, made)
        for name, child in module._modules.items()
    }
    copy.__dict__ = state
    return copy


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Each module's result of its own input, in a thread for each.

    Raises:
        Exception: what the first of them that failed raised.
    """
    named = kwargs_tup if kwargs_tup is not None else [{}] * len(modules)
    if not len(modules) == len(inputs) == len(named):
        raise ValueError(
            f"parallel_apply(): {len(modules)} modules, {len(inputs)} inputs and {len(named)} "
            "kwargs_tup; expected as many of each"
        )
    results: list[Any] = [None] * len(modules)
    failed: dict[int, BaseException] = {}
    follows = facula.is_grad_enabled()
    casts = [
        (kind, facula.is_autocast_enabled(kind), facula.get_autocast_dtype(kind))
        for kind in {d.type for d in map(_device, devices or ["cpu"])}
    ]

    def run(i: int, module: Any, given: Any, options: dict[str, Any]) -> None:
        given = given if isinstance(given, (tuple, list)) else (given,)
        try:
            with facula.set_grad_enabled(follows):
                calls = module
                for kind, enabled, dtype in casts:
                    if enabled:
                        calls = facula.autocast(kind, dtype=dtype)(calls)
                results[i] = calls(*given, **options)
        except BaseException as error:
            failed[i] = error

    tasks = list(zip(range(len(modules)), modules, inputs, named, strict=True))
    threads = [threading.Thread(target=run, args=task) for task in tasks[1:]]
    for thread in threads:
        thread.start()
    if tasks:
        run(*tasks[0])
    for thread in threads:
        thread.join()
    if failed:
        raise failed[min(failed)]
    return results


class DataParallel(Module):
    """The module on several devices: each computes a part of the batch.

    Args:
        module: what is called; it moves to the first device.
        device_ids: devices, or numbers of GPUs; None means all GPUs. Without any the module is
            called as it is.
        output_device: where the results are joined; the first by default.
        dim: along which tensors are cut and joined.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids = list(_every() if device_ids is None else device_ids)
        self.output_device = output_device
        if self.device_ids:
            if output_device is None:
                self.output_device = self.device_ids[0]
            self.module.to(_device(self.device_ids[0]))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if len(self.device_ids) < 2:
            if self.device_ids:
                ((inputs, kwargs),) = scatter((inputs, kwargs), self.device_ids, self.dim)
            return self.module(*inputs, **kwargs)
        parts = scatter((inputs, kwargs), self.device_ids, self.dim)
        devices = self.device_ids[: len(parts)]
        outputs = parallel_apply(
            replicate(self.module, devices), [p[0] for p in parts], [p[1] for p in parts], devices
        )
        return gather(outputs, self.output_device, self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """`DataParallel(module, ...)(*inputs, **module_kwargs)` once."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*given, **(module_kwargs or {}))


def _every() -> list[Any]:
    from facula import cuda

    return list(range(cuda.device_count())) if cuda.is_available() else []
