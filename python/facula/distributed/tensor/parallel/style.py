"""How a module's work is shared by the processes of a mesh.

Linear layers in pairs (M. Shoeybi et al., "Megatron-LM", 2019): the first cut along its outputs,
the second along its inputs, with one sum after both; and what lies between them cut along the
sequence (V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
MLSys 2023). All of them work on this process's parts, as ordinary tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import facula
from facula import Tensor
from facula.distributed._group import ProcessGroup
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.tensor._convert import convert, shared
from facula.distributed.tensor._dtensor import DTensor, distribute_tensor
from facula.distributed.tensor._layout import layout_of
from facula.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from facula.nn import functional as F
from facula.nn.modules.linear import Linear
from facula.nn.modules.module import Module
from facula.nn.modules.sparse import Embedding

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]

_Layouts = Placement | Sequence[Placement | None] | None


class ParallelStyle:
    """What `parallelize_module` does to a module; subclasses define `_apply`.

    Attributes:
        src_data_rank: whose parameters count.
    """

    src_data_rank: int | None = 0

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        raise NotImplementedError(f"{type(self).__name__} has no _apply()")

    def _spread(self, module: Module, mesh: DeviceMesh, **placements: Placement) -> None:
        for key, placement in placements.items():
            p = module._parameters.get(key)
            if p is None:
                continue
            _check_divides(module, key, p, placement, mesh)
            module._parameters[key] = distribute_tensor(
                p, mesh, [placement], src_data_rank=self.src_data_rank
            )


def _check_divides(
    module: Module, key: str, p: Tensor, placement: Placement, mesh: DeviceMesh
) -> None:
    if layout_of(p) is not None:
        raise ValueError(f"parallelize_module: {key} of {module} is spread over processes already")
    if isinstance(placement, Shard) and p.shape[placement.dim] % mesh.size():
        raise ValueError(
            f"parallelize_module: {key} of {module} has {p.shape[placement.dim]} entries along"
            f" dimension {placement.dim}, which do not divide among {mesh.size()} processes"
        )


def _local(t: Any) -> Any:
    return t.to_local() if isinstance(t, DTensor) else t


def _is_local(style: ParallelStyle, use_local_output: bool) -> None:
    if not use_local_output:
        raise NotImplementedError(
            f"{type(style).__name__}: use_local_output is False; outputs are this process's parts,"
            " as ordinary tensors: give True, and let what follows work on parts (an attention"
            " on its share of the heads, say)"
        )


def _same_kind(module: Module, style: ParallelStyle) -> None:
    if not isinstance(module, (Linear, Embedding)):
        raise NotImplementedError(
            f"{type(style).__name__} is for Linear and Embedding, not {type(module).__name__}"
        )


def _hooks(
    module: Module,
    before: Callable[[Any], Any] | None = None,
    after: Callable[[Any], Any] | None = None,
) -> Module:
    """Functions of the first argument of forward, and of what it gives."""
    if before is not None:
        module.register_forward_pre_hook(lambda _, args: (before(_local(args[0])), *args[1:]))
    if after is not None:
        module.register_forward_hook(lambda _, __, output: after(output))
    return module


class ColwiseParallel(ParallelStyle):
    """A Linear or Embedding of which each process has some of the outputs.

    Args:
        input_layouts: how the input comes: `Replicate()` by default.
        output_layouts: how the output leaves: `Shard(-1)` by default, as it is.
        use_local_output: True: the output is an ordinary tensor.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        _is_local(self, use_local_output)
        self.input_layouts = input_layouts or Replicate()
        self.output_layouts = output_layouts or Shard(-1)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        _same_kind(module, self)
        group = device_mesh.get_group()
        table = isinstance(module, Embedding)
        self._spread(module, device_mesh, weight=Shard(int(table)), bias=Shard(0))

        def before(x: Tensor) -> Tensor:
            whole = convert(x, self.input_layouts, Replicate(), group)
            return shared(whole, group)

        def after(y: Tensor) -> Tensor:
            return convert(y, Shard(-1), _from_end(self.output_layouts, y), group)

        return _hooks(module, before, after)


def _from_end(placement: Placement, t: Tensor) -> Placement:
    """The last dimension as -1, so that placements compare."""
    if isinstance(placement, Shard) and placement.dim == t.dim() - 1:
        return Shard(-1)
    return placement


class RowwiseParallel(ParallelStyle):
    """A Linear of which each process takes some of the inputs, or an Embedding with some rows.

    Args:
        input_layouts: how the input comes: `Shard(-1)` by default; of an Embedding `Replicate()`.
        output_layouts: how the output leaves: `Replicate()` by default, by a sum over processes.
        use_local_output: True: the output is an ordinary tensor.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        _is_local(self, use_local_output)
        self.input_layouts = input_layouts
        self.output_layouts = output_layouts or Replicate()

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        _same_kind(module, self)
        group, out = device_mesh.get_group(), self.output_layouts
        if isinstance(module, Embedding):
            if module.max_norm is not None or module.scale_grad_by_freq:
                raise NotImplementedError(
                    "RowwiseParallel: an Embedding with max_norm or scale_grad_by_freq, which need"
                    " all rows; use ColwiseParallel"
                )
            given, wanted = self.input_layouts or Replicate(), Replicate()
            rows = module.weight.shape[0] // group.size()
            self._spread(module, device_mesh, weight=Shard(0))

            def forward(x: Tensor) -> Tensor:
                whole = convert(_local(x), given, wanted, group)
                return convert(_looked_up(module, whole, rows, group), Partial(), out, group)

        else:
            have = self.input_layouts or Shard(-1)
            self._spread(module, device_mesh, weight=Shard(1), bias=Replicate())

            def forward(x: Tensor) -> Tensor:
                part = convert(_local(x), _from_end(have, x), Shard(-1), group)
                y = convert(F.linear(part, module.weight), Partial(), out, group)
                bias = module.bias
                return y if bias is None else y + _of_part(bias, _from_end(out, y), group)

        module.__dict__["forward"] = forward  # the bias is added once, after the sum
        return module


def _of_part(bias: Tensor, out: Placement, group: ProcessGroup) -> Tensor:
    """The bias for a part of the output."""
    if isinstance(out, Shard) and out.dim == -1:
        return convert(bias, Replicate(), Shard(0), group)
    return shared(bias, group) if isinstance(out, Shard) else bias


def _looked_up(module: Any, index: Tensor, rows: int, group: ProcessGroup) -> Tensor:
    """The rows that this process has, and zeros."""
    first = group.rank() * rows
    here = (index >= first) & (index < first + rows)
    pad = module.padding_idx
    own = None if pad is None or not first <= pad < first + rows else pad - first
    local = facula.where(here, index - first, facula.zeros_like(index))
    found = F.embedding(local, module.weight, own, sparse=module.sparse)
    return found.masked_fill(~here.unsqueeze(-1), 0)


class SequenceParallel(ParallelStyle):
    """A module that works on each place of a sequence by itself, such as LayerNorm or Dropout.

    Each process does its part of the sequence; parameters are whole in all, and their gradients
    sums over processes.

    Args:
        sequence_dim: along which the sequence runs.
        use_local_output: of no effect: outputs are ordinary tensors.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_dim = sequence_dim

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        group = device_mesh.get_group()
        self._spread(module, device_mesh, **dict.fromkeys(module._parameters, Replicate()))
        inner = type(module).forward

        def forward(*args: Any, **kwargs: Any) -> Any:
            own = dict(module._parameters)
            for key, p in own.items():
                if p is not None:
                    module._parameters[key] = shared(p, group)
            try:
                return inner(module, *(_local(a) for a in args), **kwargs)
            finally:
                module._parameters.update(own)

        module.__dict__["forward"] = forward
        return module


def _each(layouts: _Layouts) -> list[Placement | None]:
    if layouts is None:
        return []
    return [layouts] if isinstance(layouts, Placement) else list(layouts)


class PrepareModuleInput(ParallelStyle):
    """Converts the inputs of a module, and leaves the module as it is.

    Args:
        input_layouts: how each positional input comes; None: no tensor, or as it is.
        desired_input_layouts: how the module wants it.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same by name.
        use_local_output: of no effect: inputs are ordinary tensors.

    Raises:
        ValueError: of one there are more than of the other.
    """

    def __init__(
        self,
        *,
        input_layouts: _Layouts = None,
        desired_input_layouts: _Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.have, self.want = _each(input_layouts), _each(desired_input_layouts)
        self.have_named = dict(input_kwarg_layouts or {})
        self.want_named = dict(desired_input_kwarg_layouts or {})
        if len(self.have) != len(self.want) or self.have_named.keys() != self.want_named.keys():
            raise ValueError(
                "PrepareModuleInput: input_layouts and desired_input_layouts differ in number;"
                f" there are {self.have} and {self.want}, {self.have_named} and {self.want_named}"
            )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        group = device_mesh.get_group()

        def before(_: Any, args: Any, kwargs: Any) -> Any:
            if self.have and len(args) != len(self.have):
                raise ValueError(
                    f"PrepareModuleInput: forward gets {len(args)} inputs, and there are"
                    f" {len(self.have)} layouts"
                )
            pairs = zip(self.have, self.want, strict=True)
            if self.have:
                args = tuple(
                    _converted(a, h, w, group) for a, (h, w) in zip(args, pairs, strict=True)
                )
            for name, have in self.have_named.items():
                if name in kwargs:
                    kwargs[name] = _converted(kwargs[name], have, self.want_named[name], group)
            return args, kwargs

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


def _converted(t: Any, have: Placement | None, want: Placement | None, group: Any) -> Any:
    if have is None or want is None or not isinstance(t, Tensor):
        return _local(t)
    return convert(_local(t), have, want, group)


class PrepareModuleOutput(ParallelStyle):
    """Converts the outputs of a module, and leaves the module as it is.

    Args:
        output_layouts: how each output leaves the module; None: no tensor, or as it is.
        desired_output_layouts: how it is wanted.
        use_local_output: of no effect: outputs are ordinary tensors.
    """

    def __init__(
        self,
        *,
        output_layouts: _Layouts,
        desired_output_layouts: _Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.have, self.want = _each(output_layouts), _each(desired_output_layouts)
        if len(self.have) != len(self.want):
            raise ValueError(
                f"PrepareModuleOutput: output_layouts are {self.have}, and desired_output_layouts"
                f" {self.want}; give as many"
            )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        group = device_mesh.get_group()

        def after(_: Any, __: Any, output: Any) -> Any:
            many = isinstance(output, (tuple, list))
            outputs = list(output) if many else [output]
            if len(outputs) != len(self.have):
                raise ValueError(
                    f"PrepareModuleOutput: forward gives {len(outputs)} outputs, and there are"
                    f" {len(self.have)} layouts"
                )
            found = [
                _converted(o, h, w, group)
                for o, h, w in zip(outputs, self.have, self.want, strict=True)
            ]
            return type(output)(found) if many else found[0]

        module.register_forward_hook(after)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """`PrepareModuleInput` and `PrepareModuleOutput` in one; arguments as theirs."""

    def __init__(
        self,
        *,
        input_layouts: _Layouts = None,
        desired_input_layouts: _Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: _Layouts,
        desired_output_layouts: _Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.before = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
        )
        self.after = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return self.after._apply(self.before._apply(module, device_mesh), device_mesh)
