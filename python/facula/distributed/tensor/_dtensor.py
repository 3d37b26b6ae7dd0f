"""Tensors of which each process has a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula import _C, Tensor
from facula.distributed import _collectives
from facula.distributed._group import current
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.tensor._layout import Layout, empty_like_whole, layout_of
from facula.distributed.tensor.placement_types import Partial, Placement, Replicate
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = [
    "DTensor",
    "ShardedParameter",
    "distribute_module",
    "distribute_tensor",
    "shard_parameter",
]


class DTensor(Tensor):
    """This process's part of a tensor, which knows where the other parts are.

    Its shape is that of the part, and operators work on the part and give ordinary tensors:
    optimizers and norms need no more. `full_tensor` brings the parts together, `redistribute`
    spreads them in another way. Made by `distribute_tensor` and `DTensor.from_local`.
    """

    _layout: Layout
    __torch_function__ = _C._disabled_torch_function_impl

    @property
    def device_mesh(self) -> DeviceMesh:
        """The processes that have the parts."""
        return self._layout.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it is spread, for each dimension of the mesh."""
        return self._layout.placements

    @property
    def full_shape(self) -> Any:
        """The shape of the whole tensor."""
        return facula.Size(self._layout.full_shape)

    def to_local(self, *, grad_placements: Any = None) -> Tensor:
        """The part as an ordinary tensor, in the same memory."""
        return self.view_as(self) if self.requires_grad else self.detach()

    def full_tensor(self, *, grad_placements: Any = None) -> Tensor:
        """The whole tensor, without a gradient; all processes of the mesh call it."""
        return _reduced(self, self._layout)

    def redistribute(
        self, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None
    ) -> DTensor:
        """The same tensor spread in another way, without a gradient; all processes call it."""
        mesh = device_mesh or self.device_mesh
        wanted = [Replicate()] * mesh.ndim if placements is None else list(placements)
        if any(p.is_partial() for p in wanted):
            raise ValueError("redistribute: a tensor cannot be made Partial; give Shard, Replicate")
        layout = Layout(mesh, wanted, self._layout.full_shape)
        return _marked(DTensor, layout.part(self.full_tensor()).contiguous(), layout)

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Any = None,
    ) -> DTensor:
        """What this process has as a part of a whole.

        Args:
            shape: of the whole; by default all parts are taken to be of one size.

        Raises:
            ValueError: the part has not the shape that this process's part of the whole has.
        """
        mesh = mesh_of(device_mesh)
        wanted = [Replicate()] * mesh.ndim if placements is None else list(placements)
        if shape is None:
            sizes = list(local_tensor.shape)
            for i, placement in enumerate(wanted):
                if placement.is_shard():
                    sizes[placement.dim] *= mesh.size(i)  # type: ignore[attr-defined]
            shape = sizes
        layout = Layout(mesh, wanted, shape)
        if layout.shape != tuple(local_tensor.shape):
            raise ValueError(
                f"DTensor.from_local: the part has shape {tuple(local_tensor.shape)}; of"
                f" {tuple(shape)} as {wanted} this process has {layout.shape}"
            )
        return _marked(DTensor, local_tensor.detach(), layout)

    def __repr__(self) -> str:
        return f"DTensor({self.detach()!r}, {self._layout!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copied = _C._deep_copy(self, memo)
            trained = isinstance(self, ShardedParameter)
            made = shard_parameter if trained else _of
            memo[id(self)] = made(copied, self._layout, self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "a DTensor belongs to its processes: save its full_tensor(), or use"
            " facula.distributed.checkpoint"
        )

    def _fill(self, name: str, args: Any, kwargs: Any) -> Any:
        """Random numbers are those that the whole tensor would get, with the same seed."""
        whole = empty_like_whole(self, self._layout)
        getattr(whole, name)(*args, **kwargs)
        with facula.no_grad():
            return self.copy_(self._layout.part(whole))


def _filler(name: str) -> Callable[..., Any]:
    def fill(self: DTensor, *args: Any, **kwargs: Any) -> Any:
        return self._fill(name, args, kwargs)

    fill.__name__ = name
    fill.__doc__ = getattr(Tensor, name).__doc__
    return fill


for (
    _name
) in "bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_".split():
    setattr(DTensor, _name, _filler(_name))


class ShardedParameter(DTensor, Parameter):
    """A parameter of which this process has a part; so has an optimizer's state for it."""

    def __new__(cls, data: Any, requires_grad: bool = True) -> ShardedParameter:
        raise TypeError("ShardedParameter: made by fully_shard and parallelize_module")

    def __repr__(self) -> str:
        return f"Parameter containing:\n{DTensor.__repr__(self)}"


def _marked(cls: Any, data: Tensor, layout: Layout, requires_grad: bool = False) -> Any:
    made = Tensor._make_subclass(cls, data, requires_grad)
    made._layout = layout
    return made


def _of(part: Tensor, layout: Layout, requires_grad: bool) -> DTensor:
    return _marked(DTensor, part.detach(), layout, requires_grad)  # type: ignore[no-any-return]


def as_dtensor(part: Tensor, layout: Layout) -> DTensor:
    """A part, in the same memory, that knows its layout."""
    return _of(part, layout, False)


def shard_parameter(part: Tensor, layout: Layout, requires_grad: bool) -> ShardedParameter:
    """A parameter over a part, whose gradients know the layout too."""
    made = _marked(ShardedParameter, part.detach(), layout, requires_grad)

    def mark(p: Any) -> None:
        if p.grad is not None and layout_of(p.grad) is None:
            p.grad = as_dtensor(p.grad, layout)

    if requires_grad:
        made.register_post_accumulate_grad_hook(mark)
    return made  # type: ignore[no-any-return]


def _reduced(part: Tensor, layout: Layout) -> Tensor:
    whole = layout.whole(part)
    for i, placement in enumerate(layout.placements):
        if isinstance(placement, Partial):
            op = getattr(_collectives.ReduceOp, placement.reduce_op.upper())
            _collectives.all_reduce(whole, op, layout.mesh.get_group(i))
    return whole


def mesh_of(given: DeviceMesh | None) -> DeviceMesh:
    """The mesh, or one of all processes."""
    world = current().world
    return given or DeviceMesh("cpu", list(world.ranks), _groups=[world])


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """Spreads a tensor over the processes of a mesh, all of which call it.

    Args:
        tensor: the same shape and dtype everywhere.
        device_mesh: all processes by default.
        placements: one a dimension of the mesh; each process has all by default.
        src_data_rank: whose values count, by its rank along each dimension of the mesh; None: each
            process's own, which are the same.
    """
    mesh = mesh_of(device_mesh)
    wanted = [Replicate()] * mesh.ndim if placements is None else list(placements)
    if any(p.is_partial() for p in wanted):
        raise ValueError("distribute_tensor: placements are Shard or Replicate, not Partial")
    layout = Layout(mesh, wanted, tensor.shape, layout_of(tensor))
    whole = tensor.detach()
    if src_data_rank is not None and whole.device.type != "meta":
        whole = whole.clone(memory_format=facula.contiguous_format)
        for group in mesh.get_all_groups():
            _collectives.broadcast(whole, group=group, group_src=src_data_rank)
    steps = layout.steps[len(getattr(layout_of(tensor), "steps", ())) :]
    for step in steps:
        whole = step.part(whole)
    part = whole.clone(memory_format=facula.contiguous_format)
    if isinstance(tensor, Parameter):
        return shard_parameter(part, layout, tensor.requires_grad)
    made: DTensor = _marked(DTensor, part, layout)
    return made


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
    output_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
) -> Module:
    """Spreads a module's parameters, in place, and converts what goes in and comes out.

    Args:
        partition_fn: `(name, submodule, mesh)` spreads a submodule's own parameters, by
            `submodule.register_parameter(name, distribute_tensor(...))`. What it leaves each
            process has, all of it.
        input_fn, output_fn: `(module, inputs, mesh)` before, `(module, output, mesh)` after
            forward.
    """
    mesh = mesh_of(device_mesh)
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        for key, p in list(part._parameters.items()):
            if p is not None and layout_of(p) is None:
                part._parameters[key] = distribute_tensor(p, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, _, output: output_fn(m, output, mesh))
    return module
