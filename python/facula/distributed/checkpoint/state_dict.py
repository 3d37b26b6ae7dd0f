"""States of models and optimizers by the names of parameters, in parts or whole.

Names do not tell in how many processes a model is, nor how it is wrapped: what one job saves any
other loads, and one process too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import facula
from facula import Tensor, distributed
from facula.distributed.algorithms.join import Joinable
from facula.distributed.tensor._dtensor import DTensor, as_dtensor
from facula.distributed.tensor._layout import layout_of
from facula.nn.modules.module import Module
from facula.optim import Optimizer

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]


@dataclass(frozen=True)
class StateDictOptions:
    """How states are given and taken.

    Args:
        full_state_dict: tensors are whole, not parts. All processes call the function.
        cpu_offload: tensors are in the CPU's memory; whole ones in the first process alone, the
            others get an empty dictionary.
        ignore_frozen_params: without parameters that want no gradient.
        strict: names that are missing or unknown are errors.
        broadcast_from_rank0: taking whole tensors: those of the first process count, the others may
            give an empty dictionary.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    strict: bool = True
    broadcast_from_rank0: bool = False


_PLAIN = StateDictOptions()


def _inner(model: Module) -> Module:
    """The module in a DistributedDataParallel, whose names are those of the module alone."""
    found: Module = model.module if isinstance(model, Joinable) else model
    return found


def _first() -> bool:
    return not distributed.is_initialized() or distributed.get_rank() == 0


def _given(value: Any, options: StateDictOptions) -> Any:
    """A value as it is asked for."""
    if not isinstance(value, Tensor):
        return value
    found = value
    if options.full_state_dict and isinstance(value, DTensor):
        found = value.full_tensor()
    if options.cpu_offload and not isinstance(found, DTensor):
        found = found.cpu()
    return found


def _offered(values: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        got = _given(value, options)
        if _first() or not (options.full_state_dict and options.cpu_offload):
            found[name] = got
    return found


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """A model's state by name; parameters in parts are `DTensor`s, unless options say otherwise."""
    if submodules is not None:
        raise NotImplementedError("get_model_state_dict: submodules are not served; give None")
    options, module = options or _PLAIN, _inner(model)
    state = module.state_dict()
    if options.ignore_frozen_params:
        for name, p in module.named_parameters(remove_duplicate=False):
            if not p.requires_grad:
                state.pop(name, None)
    return _offered(state, options)


def set_model_state_dict(
    model: Module, model_state_dict: Mapping[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """A model takes a state, of parts or of whole tensors; as `load_state_dict` says."""
    options, module = options or _PLAIN, _inner(model)
    state: Mapping[str, Any] = model_state_dict
    if options.broadcast_from_rank0:
        layouts = {n: layout_of(p) for n, p in module.named_parameters(remove_duplicate=False)}
        state = _broadcast(model_state_dict, layouts)
    return module.load_state_dict(state, strict=options.strict)


def _broadcast(state: Mapping[str, Any], layouts: Mapping[str, Any]) -> dict[str, Any]:
    """The first process's values, tensors one by one and cut at once."""
    facts = {}
    for name, value in state.items() if _first() else ():
        is_tensor = isinstance(value, Tensor)
        facts[name] = (tuple(value.shape), value.dtype) if is_tensor else (None, value)
    box = [facts]
    distributed.broadcast_object_list(box, src=0)
    found: dict[str, Any] = {}
    for name, (shape, what) in box[0].items():
        if shape is None:
            found[name] = what
            continue
        value = state[name] if _first() else facula.empty(shape, dtype=what)
        value = value.detach().cpu().contiguous()
        distributed.broadcast(value, src=0)
        layout = layouts.get(name)
        if layout is not None and layout.full_shape == tuple(shape):
            value = as_dtensor(layout.part(value).clone(), layout)
        found[name] = value
    return found


# ---- optimizers ----


def _names(model: Module) -> dict[int, str]:
    """Of parameters, by identity; of several names the first."""
    return {id(p): name for name, p in _inner(model).named_parameters()}


def _started(optimizer: Optimizer) -> None:
    """An optimizer that did no step gets its state, so that a checkpoint can fill it."""
    if optimizer.state:
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    trained = [p for p in parameters if p.requires_grad]
    grads = [p.grad for p in trained]
    rates = [(group, group["lr"]) for group in optimizer.param_groups if "lr" in group]
    for p in trained:
        p.grad = facula.zeros_like(p)
    for group, rate in rates:  # nothing moves
        group["lr"] = facula.zeros_like(rate) if isinstance(rate, Tensor) else 0.0
    try:
        optimizer.step()
    finally:
        for group, rate in rates:
            group["lr"] = rate
        for p, grad in zip(trained, grads, strict=True):
            p.grad = grad


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of optimizers of a model's parameters, by the parameters' names.

    An optimizer that did no step yet gets a state, which `checkpoint.load` can fill.

    Returns:
        {"state": {name: {...}}, "param_groups": [{..., "params": [names]}]}.

    Raises:
        ValueError: an optimizer has a parameter that is not the model's.
    """
    if submodules is not None:
        raise NotImplementedError("get_optimizer_state_dict: submodules are not served; give None")
    options, names = options or _PLAIN, _names(model)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _listed(optimizers):
        _started(optimizer)
        for _, p in _parameters(optimizer, names):
            values = {key: _spread(value, p) for key, value in optimizer.state.get(p, {}).items()}
            if values:
                state[names[id(p)]] = _offered(values, options)
        for group in optimizer.param_groups:
            rest = {k: v for k, v in group.items() if k != "params"}
            groups.append({**rest, "params": [names[id(p)] for p in group["params"]]})
    if options.full_state_dict and options.cpu_offload and not _first():
        return {}
    return {"state": state, "param_groups": groups}


def _spread(value: Any, p: Tensor) -> Any:
    """What an optimizer keeps for a part is a part."""
    layout = layout_of(p)
    fits = layout is not None and isinstance(value, Tensor) and value.shape == p.shape
    return as_dtensor(value, layout) if fits and value.dim() else value  # type: ignore[arg-type]


def _listed(optimizers: Any) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _parameters(optimizer: Optimizer, names: Mapping[int, str]) -> Iterator[tuple[Any, Any]]:
    for group in optimizer.param_groups:
        for p in group["params"]:
            if id(p) not in names:
                raise ValueError(
                    "the optimizer has a parameter that is not the model's; make the optimizer"
                    " after fully_shard and parallelize_module"
                )
            yield group, p


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Optimizers take a state by names, of parts or of whole tensors.

    Raises:
        KeyError: it lacks a group for a parameter. ValueError: a tensor has another shape, or an
        optimizer has a parameter that is not the model's.
    """
    options, names = options or _PLAIN, _names(model)
    listed = _listed(optimizers)
    by_name = {names[id(p)]: p for o in listed for _, p in _parameters(o, names)}
    state, groups = optim_state_dict.get("state", {}), optim_state_dict.get("param_groups", [])
    if options.broadcast_from_rank0:
        state, groups = _broadcast_states(state, groups, by_name)
    options_of = {
        name: {k: v for k, v in group.items() if k != "params"}
        for group in groups
        for name in group["params"]
    }
    for optimizer in listed:
        _started(optimizer)
        order = [p for group in optimizer.param_groups for p in group["params"]]
        packed = optimizer.state_dict()
        for group, own in zip(packed["param_groups"], optimizer.param_groups, strict=True):
            for p in own["params"][:1]:
                name = names[id(p)]
                if name not in options_of:
                    raise KeyError(f"set_optimizer_state_dict: the state has no group for {name}")
                group.update(options_of[name])
        found = {}
        for i, p in enumerate(order):
            given = state.get(names[id(p)])
            if given is None:
                if i in packed["state"] and options.strict:
                    raise KeyError(
                        f"set_optimizer_state_dict: the state has nothing for {names[id(p)]}"
                    )
                continue
            own = optimizer.state.get(p, {})
            found[i] = {k: _part(names[id(p)], k, v, p, own.get(k)) for k, v in given.items()}
        optimizer.load_state_dict({**packed, "state": found})


def _broadcast_states(
    state: Mapping[str, Any], groups: Any, parameters: Mapping[str, Any]
) -> tuple[dict[str, Any], Any]:
    """The first process's state of an optimizer."""
    flat = {f"{key} {name}": v for name, values in state.items() for key, v in values.items()}
    box: list[Any] = [(list(flat), groups)]
    distributed.broadcast_object_list(box, src=0)
    keys, groups = box[0]
    places = {both: both.partition(" ")[::2] for both in keys}
    layouts = {both: layout_of(parameters.get(name)) for both, (_, name) in places.items()}
    found: dict[str, Any] = {}
    for both, value in _broadcast(flat, layouts).items():
        key, name = places[both]
        found.setdefault(name, {})[key] = value
    return found, groups


def _part(name: str, key: str, value: Any, p: Tensor, own: Any) -> Any:
    """This process's part of what an optimizer keeps for a parameter."""
    layout = layout_of(p)
    if not isinstance(value, Tensor) or not isinstance(own, Tensor):
        return value
    if value.shape == own.shape:
        return value.detach()
    if layout is not None and own.shape == p.shape and tuple(value.shape) == layout.full_shape:
        return layout.part(value).clone()
    raise ValueError(
        f"set_optimizer_state_dict: {key} of {name} has shape {tuple(value.shape)}, and"
        f" {tuple(own.shape)} here"
    )


# ---- both ----


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """`get_model_state_dict` and `get_optimizer_state_dict`."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: Mapping[str, Any],
    optim_state_dict: Mapping[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """`set_model_state_dict` and `set_optimizer_state_dict`."""
    report = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return report
