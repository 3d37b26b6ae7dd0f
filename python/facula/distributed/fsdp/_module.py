"""`fully_shard`: a module whose parameters are in parts, gathered while it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import facula
from facula import Tensor
from facula.distributed import _group
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.fsdp._policies import MixedPrecisionPolicy, OffloadPolicy
from facula.distributed.fsdp._session import cast_floats, running
from facula.distributed.fsdp._sharding import ParameterGroup, Sharded
from facula.distributed.tensor._dtensor import as_dtensor, mesh_of
from facula.distributed.tensor._layout import layout_of
from facula.nn.modules.module import Module

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method"]

_AS_IT_IS, _STAY = MixedPrecisionPolicy(), OffloadPolicy()


class State:
    """What a sharded module knows of itself."""

    def __init__(
        self, group: ParameterGroup | None, modules: list[Module], policy: MixedPrecisionPolicy
    ) -> None:
        self.group, self.modules, self.policy = group, modules, policy
        self.order: list[ParameterGroup] = []  # of groups, in the last forward as outermost


class UnshardHandle:
    """Parameters on their way, of `unshard(async_op=True)`."""

    def __init__(self, module: FSDPModule) -> None:
        self._module = module

    def wait(self) -> None:
        """Waits until the module has its whole parameters."""
        self._module.unshard()


class FSDPModule:
    """What `fully_shard` adds to a module's class."""

    _fsdp: State

    def _groups(self, recurse: bool = True) -> list[ParameterGroup]:
        parts = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        found = [m._fsdp.group for m in parts if isinstance(m, FSDPModule)]
        return list(dict.fromkeys(g for g in found if g is not None))

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gathers this module's own group of parameters; all processes of the mesh call it.

        Until `reshard` or the next forward or backward the module has them whole. What is written
        to them is lost.
        """
        group = self._fsdp.group
        if async_op:
            if group is not None:
                group.start()
            return UnshardHandle(self)
        if group is not None:
            group.stand_in(group.unshard())
        return None

    def reshard(self) -> None:
        """Frees this module's own group of whole parameters."""
        if self._fsdp.group is not None:
            self._fsdp.group.reshard()

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Without sync, whole gradients add up in each process, until a backward with it."""
        for group in self._groups(recurse):
            group.syncs = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """On a mesh of two dimensions: without it, averages over the processes that shard add up,
        and wait for a backward with it."""
        for group in self._groups(recurse):
            group.syncs_replicas = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Are whole parameters freed between forward and backward?"""
        for group in self._groups(recurse):
            group.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Are whole parameters freed in backward? If not, the next forward need not gather them,
        unless the optimizer changed them."""
        for group in self._groups(recurse):
            group.reshard_after_backward = reshard_after_backward

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Taken for programs that say so; each backward here ends with its gradients."""

    def set_modules_to_forward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Whose parameters come while this module's forward runs; by default those of the next."""
        self._own().forward_prefetch = _groups_of("set_modules_to_forward_prefetch", modules)

    def set_modules_to_backward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Whose parameters come while this module's backward runs; by default of the one before."""
        self._own().backward_prefetch = _groups_of("set_modules_to_backward_prefetch", modules)

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Gradients are their sum over processes, divided by this; by their number by default."""
        if not factor > 0:
            raise ValueError(f"set_gradient_divide_factor: factor is {factor}; give one above 0")
        self._own().divide_by = float(factor)

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def _own(self) -> ParameterGroup:
        if self._fsdp.group is None:
            raise ValueError(f"{type(self).__name__}: the module has no parameters of its own")
        return self._fsdp.group

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """Conversions are of the parts."""
        for group in self._groups():
            group.reshard()
        return super()._apply(fn, recurse)  # type: ignore[misc]

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("a sharded module belongs to its processes: copy it before fully_shard")


def _groups_of(what: str, modules: Iterable[Any]) -> list[ParameterGroup]:
    found = []
    for m in modules:
        if not isinstance(m, FSDPModule):
            raise ValueError(f"{what}: {type(m).__name__} is not sharded; give fully_shard's")
        found.append(m._own())
    return found


def _mesh_of(given: Any) -> DeviceMesh:
    if given is None:
        if not _group.is_initialized():
            raise ValueError("fully_shard: call init_process_group first")
        return mesh_of(None)
    if isinstance(given, _group.ProcessGroup):
        return DeviceMesh("cpu", list(given.ranks), _groups=[given])
    if not isinstance(given, DeviceMesh) or given.ndim not in (1, 2):
        raise ValueError(
            f"fully_shard: mesh is {given!r}; give a DeviceMesh of one dimension (all shard), or of"
            " two (replicas, processes that shard), or a group"
        )
    return given


def _managed(module: Module, ignored: set[int], seen: set[int]) -> Iterable[tuple[str, Module]]:
    """A module and those below it which are not sharded already, with their names."""
    stack: list[tuple[str, Module]] = [("", module)]
    while stack:
        name, found = stack.pop()
        if id(found) in seen or (isinstance(found, FSDPModule) and found is not module):
            continue
        seen.add(id(found))
        yield name, found
        below = [(f"{name}.{key}".lstrip("."), m) for key, m in found.named_children()]
        stack.extend(reversed(below))


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Tensor], Any] | None = None,
    mp_policy: MixedPrecisionPolicy = _AS_IT_IS,
    offload_policy: OffloadPolicy = _STAY,
    ignored_params: set[Tensor] | None = None,
) -> Any:
    """Shards a module's parameters over processes, in place, and returns the module.

    Each process keeps rows of each parameter, its gradients and what the optimizer has of them; the
    whole ones are there while the module runs (S. Rajbhandari et al., "ZeRO", SC 2020, stage 3;
    Y. Zhao et al., "PyTorch FSDP", VLDB 2023). Call it on layers first, then on the whole model:
    each call makes one group of the parameters that no call before has, gathered in one go. Make
    the optimizer after. A parameter is a `DTensor`: its shape is that of the part.

    Args:
        module: all processes have the same, with the same values; or on the meta device: then
            `to_empty`, and initialise it (`nn.init` gives the parts what the whole would get) or
            load a state. A list of modules that run one after the other is one group.
        mesh: a DeviceMesh of one dimension, or of two: replicas first. Or a group; all processes by
            default.
        reshard_after_forward: are whole parameters freed between forward and backward, and gathered
            again? True for all but the outermost module by default.
        mp_policy, offload_policy: dtypes, and where parts are.
        ignored_params: parameters that stay as they are.

    Raises:
        ValueError: the module is sharded already; a parameter has no dimension, or is shared with a
        module that is sharded; no job. NotImplementedError: a number as reshard_after_forward;
        shard_placement_fn that wants another dimension than the first.
    """
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    for m in modules:
        if not isinstance(m, Module):
            raise ValueError(f"fully_shard: {type(m).__name__} is no module")
        if isinstance(m, FSDPModule):
            raise ValueError(f"fully_shard: the {type(m).__name__} is sharded already")
    if not isinstance(reshard_after_forward, (bool, type(None))):
        raise NotImplementedError(
            f"fully_shard: reshard_after_forward is {reshard_after_forward!r}; give True, False or"
            " None"
        )
    chosen = _mesh_of(mesh)
    ignored = {id(p) for p in ignored_params or ()}
    places: dict[int, list[tuple[Any, str]]] = {}
    names: dict[int, str] = {}
    seen: set[int] = set()
    for m in modules:
        for path, part in _managed(m, ignored, seen):
            for key, p in part._parameters.items():
                if p is None or id(p) in ignored:
                    continue
                name = f"{path}.{key}".lstrip(".")
                if hasattr(p, "_fully_sharded"):
                    raise ValueError(
                        f"fully_shard: parameter {name} is also {p._fully_sharded} of a module"
                        " that is sharded; parameters that are one must be in one group: leave"
                        " both to the module around them"
                    )
                if shard_placement_fn is not None:
                    _check_placement(name, shard_placement_fn(p))
                places.setdefault(id(p), []).append((part, key))
                names.setdefault(id(p), name)
    sharded = [Sharded(names[i], where, chosen, offload_policy) for i, where in places.items()]
    group = None
    if sharded:
        group = ParameterGroup(sharded, chosen, mp_policy, offload_policy, reshard_after_forward)
    for m in modules:
        cls = type(m)
        added = {"forward": _wrapped(cls.forward), "_sharded_class": cls}
        m.__class__ = type("FSDP" + cls.__name__, (FSDPModule, cls), added)
        m._fsdp = State(group, modules, mp_policy)
        own = m.__dict__.get("forward")
        if own is not None:
            m.__dict__["forward"] = functools.partial(_wrapped(_of_instance(own)), m)
        m.register_load_state_dict_pre_hook(_cut)
        m.register_state_dict_post_hook(_mark)
    return module


def _check_placement(name: str, placement: Any) -> None:
    if placement is not None and not placement.is_shard(0):
        raise NotImplementedError(
            f"fully_shard: shard_placement_fn gives {placement} for {name}; parameters are cut"
            " along the first dimension: give Shard(0) or None"
        )


def _of_instance(function: Any) -> Any:
    return lambda self, *args, **kwargs: function(*args, **kwargs)


def _wrapped(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A method that has the whole parameters."""

    @functools.wraps(forward)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        policy = self._fsdp.policy
        if policy.cast_forward_inputs and policy.param_dtype is not None:
            args, kwargs = cast_floats((args, kwargs), policy.param_dtype)
        with running(self._fsdp, self._groups) as left:
            output = forward(self, *args, **kwargs)
            if policy.output_dtype is not None:
                output = cast_floats(output, policy.output_dtype)
            left(output)
        return output

    return wrapped


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """A method of a sharded module has the whole parameters too, as forward has.

    Raises:
        ValueError: there is no such method.
    """
    if not isinstance(module, FSDPModule):
        return  # so that programs run without sharding
    if not hasattr(module, method_name):
        raise ValueError(
            f"register_fsdp_forward_method: {type(module).__name__} has no method {method_name!r}"
        )
    setattr(type(module), method_name, _wrapped(getattr(type(module), method_name)))


# ---- states ----


def _mark(module: Any, state: dict[str, Any], prefix: str, _: Any) -> None:
    """The values of a state know where their other parts are."""
    for name, p in module.named_parameters(remove_duplicate=False):
        value = state.get(prefix + name)
        layout = layout_of(p)
        if value is not None and layout is not None and layout_of(value) is None:
            state[prefix + name] = as_dtensor(value, layout)


def _cut(module: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Whole values in a state become parts; what is gathered of the old ones goes."""
    module.reshard()
    for name, p in module.named_parameters(remove_duplicate=False):
        value, layout = state.get(prefix + name), layout_of(p)
        if layout is None or not isinstance(value, Tensor) or layout_of(value) is not None:
            continue
        if tuple(value.shape) == layout.full_shape:
            with facula.no_grad():
                state[prefix + name] = layout.part(value)
