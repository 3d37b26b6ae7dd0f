"""The parameters that are gathered and freed together, and how they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import facula
from facula import Tensor
from facula.distributed import _collectives
from facula.distributed._group import ProcessGroup
from facula.distributed._reduce import ReduceOp
from facula.distributed._work import Work
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.fsdp._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from facula.distributed.tensor._dtensor import ShardedParameter, shard_parameter
from facula.distributed.tensor._layout import Layout, chunk, layout_of
from facula.distributed.tensor.placement_types import Replicate, Shard

__all__ = ["ParameterGroup", "Sharded", "find_open"]

_ALONE = 1 << 16  # bytes of a whole parameter from which it comes in a message of its own, in place

# Whole parameters that are there now: where their memory is, and whose they are.
_open: dict[int, tuple[ParameterGroup, int]] = {}


def find_open(t: Tensor) -> tuple[ParameterGroup, int] | None:
    """Which whole parameter the tensor is a view of, if any: of its dtype, and not conjugated."""
    if not _open or t.layout is not facula.strided or t.device.type == "meta" or not t.numel():
        return None
    found = _open.get(t.untyped_storage().data_ptr())
    if found is None or (t.is_complex() and (t.is_conj() or t.is_neg())):
        return None
    whole = found[0].whole
    return found if whole is not None and whole[found[1]].dtype == t.dtype else None


class Sharded:
    """One parameter in parts, and the places in modules where it stands.

    Attributes:
        name: its dotted name in the module that was sharded.
        places: (module, key) of each.
        layout: which rows this process has.
        parameter: the part, which optimizers see.
        rows: of the whole, along the first dimension.
    """

    def __init__(
        self, name: str, places: list[tuple[Any, str]], mesh: DeviceMesh, offload: OffloadPolicy
    ) -> None:
        self.name, self.places = name, places
        module, key = places[0]
        whole = module._parameters[key]
        if whole.dim() == 0:
            raise ValueError(
                f"fully_shard: parameter {name} has no dimension to shard along; make it one of"
                " shape (1,)"
            )
        placements = [Replicate()] * (mesh.ndim - 1) + [Shard(0)]
        self.layout = Layout(mesh, placements, whole.shape, layout_of(whole))
        self.shape = tuple(whole.shape)  # of what is gathered; with other layouts, a part too
        self.rows = self.shape[0]
        self.requires_grad = whole.requires_grad
        self.device = whole.device
        part = self.layout.steps[-1].part(whole.detach())
        part = part.clone(memory_format=facula.contiguous_format)
        if isinstance(offload, CPUOffloadPolicy) and part.device.type not in ("cpu", "meta"):
            part = part.cpu()
            part = part.pin_memory() if offload.pin_memory else part
        whole._fully_sharded = name
        self.parameter = shard_parameter(part, self.layout, whole.requires_grad)
        self.stand_in(self.parameter)

    def stand_in(self, tensor: Tensor) -> None:
        """The modules have this tensor as their parameter from now on."""
        for module, key in self.places:
            module._parameters[key] = tensor

    def current(self) -> ShardedParameter:
        """The part; one that `load_state_dict(assign=True)` put there becomes it."""
        module, key = self.places[0]
        found = module._parameters[key]
        if found is not self.parameter:
            if tuple(found.shape) != self.layout.shape:
                raise RuntimeError(
                    f"fully_shard: parameter {self.name} is now of shape {tuple(found.shape)};"
                    f" this process's part has {self.layout.shape}"
                )
            if not isinstance(found, ShardedParameter):
                found = shard_parameter(found, self.layout, found.requires_grad)
            self.parameter = found
            self.stand_in(found)
        return self.parameter

    def padded(self, dtype: Any, device: Any, parts: int) -> Tensor:
        """The part as it is sent: all processes send equally many rows."""
        part = self.parameter.detach().to(device=device, dtype=dtype)
        size = chunk(self.rows, parts)
        if part.shape[0] == size and part.is_contiguous():
            return part
        whole = part.new_zeros((size, *self.shape[1:]))
        whole[: part.shape[0]].copy_(part)
        return whole


class ParameterGroup:
    """Parameters that are gathered before their modules run, and freed after.

    Args:
        parameters: them.
        mesh: of one dimension, to shard over, or two: replicas, and processes to shard over.
        reshard_after_forward: are they freed between forward and backward? None: unless it is the
            outermost.
    """

    def __init__(
        self,
        parameters: Sequence[Sharded],
        mesh: DeviceMesh,
        policy: MixedPrecisionPolicy,
        offload: OffloadPolicy,
        reshard_after_forward: bool | None,
    ) -> None:
        self.parameters, self.policy, self.offload = list(parameters), policy, offload
        self.group: ProcessGroup = mesh.get_group(mesh.ndim - 1)
        self.replicas: ProcessGroup | None = mesh.get_group(0) if mesh.ndim == 2 else None
        self.mesh = mesh
        self.reshard_after_forward = reshard_after_forward
        self.reshard_after_backward = True
        self.syncs = self.syncs_replicas = True
        self.divide_by: float | None = None
        self.whole: list[Tensor] | None = None  # when they are there
        self.in_backward = False
        self.forward_prefetch: list[ParameterGroup] | None = None
        self.backward_prefetch: list[ParameterGroup] | None = None
        self._versions: list[int] = []
        self._small: list[tuple[Tensor, Tensor]] = []
        self._coming: tuple[list[Work], list[Tensor], Tensor | None] | None = None
        self._held: dict[int, Tensor] = {}  # whole gradients that were not averaged yet
        self._partial: dict[tuple[int, ...], Tensor] = {}  # averaged, but not over replicas

    # ---- parameters ----

    def _dtype(self, p: Sharded) -> Any:
        wide = p.parameter.dtype
        given = self.policy.param_dtype
        return given if given is not None and wide.is_floating_point else wide

    def _device(self, p: Sharded) -> Any:
        """Where it is computed with."""
        if isinstance(self.offload, CPUOffloadPolicy):
            return facula.device(self.mesh.device_type)
        return p.parameter.device

    def start(self) -> None:
        """Begins to gather, unless that is done."""
        if self._coming is not None:
            return
        if self.whole is not None:
            if self._versions == [p.parameter._version for p in self.parameters]:
                return
            self.reshard()  # the parts were written to since
        self._versions = [p.current()._version for p in self.parameters]
        n = self.group.size()
        works, wholes = [], []
        small: list[tuple[Tensor, Tensor]] = []
        for p in self.parameters:
            if p.current().device.type == "meta":
                raise RuntimeError(
                    f"fully_shard: parameter {p.name} is on the meta device; call"
                    " module.to_empty(device=...) and give it values first"
                )
            part = p.padded(self._dtype(p), self._device(p), n)
            if n == 1:
                wholes.append(part)
                continue
            whole = part.new_empty((n * part.shape[0], *part.shape[1:]))
            wholes.append(whole)
            if not whole.numel():
                continue
            if whole.numel() * whole.element_size() < _ALONE:
                small.append((part, whole))
            else:
                works.append(
                    _collectives.all_gather_into_tensor(whole, part, self.group, async_op=True)
                )
        self._small = small
        flat = None
        if small:  # the bytes of all of them as one message
            sent = facula.cat([part.reshape(-1).view(facula.uint8) for part, _ in small])
            flat = sent.new_empty((n, sent.numel()))
            works.append(_collectives.all_gather_into_tensor(flat, sent, self.group, async_op=True))
        self._coming = ([w for w in works if w is not None], wholes, flat)

    def unshard(self) -> list[Tensor]:
        """The whole parameters, when they have come."""
        if self.whole is None:
            self.start()
            assert self._coming is not None
            works, wholes, flat = self._coming
            for work in works:
                work.wait()
            if flat is not None:
                at = 0
                for part, whole in self._small:
                    size = part.numel() * part.element_size()
                    rows = whole.view(self.group.size(), -1).view(facula.uint8)
                    rows.copy_(flat[:, at : at + size])
                    at += size
            self._coming, self._small = None, []
            self.whole = [w[: p.rows] for w, p in zip(wholes, self.parameters, strict=True)]
            for i, w in enumerate(self.whole):
                if w.numel():
                    _open[w.untyped_storage().data_ptr()] = (self, i)
        return self.whole

    def reshard(self) -> None:
        """Frees the whole parameters, as far as nobody else has them; shards stand in."""
        for p in self.parameters:
            p.stand_in(p.parameter)
        self._coming = None  # what is on its way has its memory until it is there
        for w in self.whole or ():
            found = _open.get(w.untyped_storage().data_ptr())
            if found is not None and found[0] is self:
                del _open[w.untyped_storage().data_ptr()]
        self.whole = None
        self.in_backward = False

    def view(self, index: int, size: Any, stride: Any, offset: int) -> Tensor:
        """What backward saved of a whole parameter, gathered again if it must be."""
        return self.unshard()[index].as_strided(size, stride, offset)

    def stand_in(self, wholes: Sequence[Tensor]) -> None:
        """The modules have the whole parameters."""
        for p, w in zip(self.parameters, wholes, strict=True):
            p.stand_in(w)

    @property
    def trained(self) -> list[int]:
        """Which of them want gradients."""
        return [i for i, p in enumerate(self.parameters) if p.parameter.requires_grad]

    # ---- gradients ----

    def reduce(self, grads: dict[int, Tensor]) -> list[Reduced]:
        """Begins to average whole gradients; without sync they are added up here, and wait."""
        for i, grad in self._held.items():
            grads[i] = grads[i] + grad if i in grads else grad
        self._held = {}
        if not self.syncs:
            wide = self.policy.reduce_dtype
            self._held = {i: g.detach().to(wide or g.dtype).clone() for i, g in grads.items()}
            return []
        kinds: dict[Any, list[int]] = {}
        for i, grad in sorted(grads.items()):
            kinds.setdefault(self.policy.reduce_dtype or grad.dtype, []).append(i)
        return [self._sent(indices, grads, dtype) for dtype, indices in kinds.items()]

    def _sent(self, indices: list[int], grads: dict[int, Tensor], dtype: Any) -> Reduced:
        n = self.group.size()
        shapes = []
        for i in indices:
            p = self.parameters[i]
            shapes.append((chunk(p.rows, n), *p.shape[1:]))
        sizes = [_product(shape) for shape in shapes]
        first = grads[indices[0]]
        sent = facula.empty((n, sum(sizes)), dtype=dtype, device=first.device)
        at = 0
        for i, size in zip(indices, sizes, strict=True):
            grad, place = grads[i].reshape(-1), sent[:, at : at + size]
            full = grad.numel() // size if size else 0  # processes whose part has all rows
            if full:
                place[:full].copy_(grad[: full * size].view(full, size))
            if full < n:
                place[full:].zero_()
                rest = grad[full * size :]
                if rest.numel():
                    place[full, : rest.numel()].copy_(rest)
            at += size
        out = sent.new_empty(sum(sizes))
        op = ReduceOp.AVG if self.divide_by is None else ReduceOp.SUM
        work = _collectives.reduce_scatter_tensor(out, sent, op, self.group, async_op=True)
        return Reduced(self, indices, shapes, sizes, out, work, op)

    def finished(self, reduced: Reduced) -> list[tuple[Sharded, Tensor]]:
        """The gradients of the parts, when they have come."""
        if reduced.work is not None:
            reduced.work.wait()
        out = reduced.out
        if self.replicas is not None:
            key = tuple(reduced.indices)
            if key in self._partial:
                out = out + self._partial.pop(key)
            if not self.syncs_replicas:
                self._partial[key] = out
                return []
            _collectives.all_reduce(out, reduced.op, self.replicas)
        if self.divide_by is not None:
            out = out / self.divide_by
        found = []
        parts = out.split(reduced.sizes)
        for i, part, shape in zip(reduced.indices, parts, reduced.shapes, strict=True):
            p = self.parameters[i]
            first, last = p.layout.steps[-1].range
            own = part.view(shape)[: last - first]
            dtype, device = p.parameter.dtype, p.parameter.device
            found.append((p, own.to(dtype=dtype, device=device)))
        return found


class Reduced:
    """Gradients on their way."""

    def __init__(
        self,
        group: ParameterGroup,
        indices: list[int],
        shapes: list[tuple[int, ...]],
        sizes: list[int],
        out: Tensor,
        work: Work | None,
        op: ReduceOp,
    ) -> None:
        self.group, self.indices, self.shapes, self.sizes = group, indices, shapes, sizes
        self.out, self.work, self.op = out, work, op


def _product(shape: Sequence[int]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count
