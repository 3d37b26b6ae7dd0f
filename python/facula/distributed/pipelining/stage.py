"""A part of a model in a process, with those before and after it elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import facula
from facula import Tensor, autograd
from facula.distributed._group import ProcessGroup, resolved
from facula.distributed.fsdp import FSDPModule
from facula.distributed.pipelining._link import Link
from facula.nn.modules.module import Module

__all__ = ["PipelineStage"]


class PipelineStage:
    """Part `stage_index` of a model that goes through `num_stages` parts.

    Stage i is in process i of the group; with more stages than processes, in process i modulo
    their number. What a stage's forward gives, one tensor or several, are the arguments of the
    next one's.

    Args:
        submodule: the part; it may be under `fully_shard` or `DistributedDataParallel`: gradients
            are then averaged once, with the last microbatch.
        device: that computes.
        input_args, output_args: taken; shapes go with each message.
        group: the processes of the stages; all by default.

    Raises:
        ValueError: stage_index is out of range, or belongs to another process.
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Any = None,
        output_args: Any = None,
        group: ProcessGroup | None = None,
    ) -> None:
        found = resolved("PipelineStage", group)
        if found is None:
            raise ValueError("PipelineStage: this process is not in the group")
        if not 0 <= stage_index < num_stages:
            raise ValueError(
                f"PipelineStage: stage_index is {stage_index}; give 0 to {num_stages - 1}"
            )
        n = found.size()
        if num_stages % n:
            raise ValueError(
                f"PipelineStage: num_stages is {num_stages}; give a multiple of the {n} processes"
            )
        if stage_index % n != found.rank():
            raise ValueError(
                f"PipelineStage: stage {stage_index} belongs to rank {stage_index % n} of the"
                f" group, and this is rank {found.rank()}"
            )
        self.submodule, self.device = submodule, facula.device(device)
        self.stage_index, self.num_stages, self.group = stage_index, num_stages, found
        self.group_rank, self.group_size = found.rank(), n
        self._links: dict[str, Link] = {}
        self._kept: dict[int, tuple[list[Tensor], list[Tensor]]] = {}

    @property
    def is_first(self) -> bool:
        """Does it take the batch?"""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Does it give the output?"""
        return self.stage_index == self.num_stages - 1

    def connect(self, stages: Sequence[PipelineStage]) -> None:
        """Opens the ways to the stages before and after; `stages` are those of this process."""
        own = {stage.stage_index: stage for stage in stages}
        for name, other, back, tag in (
            ("inputs", self.stage_index - 1, "outputs", 2 * self.stage_index),
            ("input_grads", self.stage_index - 1, "output_grads", 2 * self.stage_index + 1),
            ("outputs", self.stage_index + 1, "inputs", 2 * self.stage_index + 2),
            ("output_grads", self.stage_index + 1, "input_grads", 2 * self.stage_index + 3),
        ):
            if not 0 <= other < self.num_stages:
                continue
            shared = own[other]._links.get(back) if other in own else None
            self._links[name] = shared or Link(self.group, other % self.group_size, tag)

    def forward(self, number: int, args: Any, kwargs: dict[str, Any], train: bool) -> Any:
        """One microbatch through this stage; `args` count in the first one alone."""
        inputs: list[Tensor] = []
        if not self.is_first:
            for t, wants in self._links["inputs"].receive():
                moved = t.to(self.device)
                inputs.append(moved.requires_grad_(wants and train))
            args = inputs
        quiet = getattr(self.submodule, "no_sync", contextlib.nullcontext)  # DDP has it
        with quiet(), facula.set_grad_enabled(train):
            output = self.submodule(*args, **kwargs)
        outputs = list(output) if isinstance(output, (tuple, list)) else [output]
        if not all(isinstance(t, Tensor) for t in outputs):
            kinds = [type(t).__name__ for t in outputs]
            raise TypeError(f"PipelineStage: forward gives {kinds}; stages pass on tensors")
        if not self.is_last:
            self._links["outputs"].send(outputs)
        if train:
            self._kept[number] = (inputs, outputs)
        return output

    def backward(self, number: int, loss: Tensor | None, scale: float, is_last: bool) -> None:
        """The gradients of one microbatch.

        Args:
            loss: in the last stage.
            scale: of the loss.
            is_last: is it the last microbatch of the batch?
        """
        inputs, outputs = self._kept.pop(number)
        self._average(is_last)
        if loss is not None:
            autograd.backward(loss, facula.full_like(loss, scale))
        else:
            grads = [g.to(self.device) for g, _ in self._links["output_grads"].receive()]
            wanted = [t for t in outputs if t.requires_grad]
            if wanted:
                autograd.backward(wanted, grads)
        if not self.is_first:
            self._links["input_grads"].send(
                [
                    facula.zeros_like(t) if t.grad is None else t.grad
                    for t in inputs
                    if t.requires_grad
                ]
            )

    def _average(self, now: bool) -> None:
        """Gradients are averaged over other processes with the same stage in the last backward."""
        for m in self.submodule.modules():
            if isinstance(m, FSDPModule):
                m.set_requires_gradient_sync(now, recurse=False)
        prepare = getattr(self.submodule, "average_next_backward", None)
        if now and prepare is not None:
            prepare()

    def finish(self) -> None:
        """Waits until all that was sent has gone."""
        for link in self._links.values():
            link.finish()
        self._kept.clear()
