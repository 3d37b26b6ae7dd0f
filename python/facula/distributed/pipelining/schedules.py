"""In which order a process does forwards and backwards of microbatches.

GPipe (Y. Huang et al., NeurIPS 2019): all forwards, then all backwards. 1F1B (D. Narayanan et al.,
"PipeDream", SOSP 2019): a backward as soon as there is one, so that a stage keeps no more
microbatches than there are stages after it. Interleaved (D. Narayanan et al., SC 2021): several
stages a process, for a shorter start and end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import facula
from facula import Tensor
from facula.distributed.pipelining.stage import PipelineStage
from facula.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["Action", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B"]


class Action(NamedTuple):
    """One piece of work."""

    is_forward: bool
    stage: int  # which of this process's stages
    microbatch: int


class _Schedule:
    """What the schedules have in common.

    Args:
        stages: of this process.
        n_microbatches: into how many parts a batch goes, along the first dimension.
        loss_fn: `loss_fn(output, target)` of a microbatch, a mean over it; None: forwards alone.
        scale_grads: gradients are those of the mean of the microbatches' losses; else of their sum.

    Raises:
        ValueError: n_microbatches is below 1.
    """

    def __init__(
        self,
        stages: Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        scale_grads: bool = True,
    ) -> None:
        if n_microbatches < 1:
            raise ValueError(
                f"{type(self).__name__}: n_microbatches is {n_microbatches}; give 1 or more"
            )
        self._stages, self._count = list(stages), n_microbatches
        self._loss, self._scale = loss_fn, 1.0 / n_microbatches if scale_grads else 1.0
        for stage in self._stages:
            stage.connect(self._stages)

    def actions(self) -> list[Action]:
        """What this process does in a step with backwards, in order."""
        raise NotImplementedError(f"{type(self).__name__} has no actions()")

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        **kwargs: Any,
    ) -> Any:
        """A batch forwards and, with a loss_fn, backwards. All processes of the stages call it.

        Args:
            args: the batch, in the process of the first stage. kwargs: in any, for its own stages.
            target: in the process of the last stage.
            losses: becomes the losses of the microbatches, in the process of the last stage.

        Returns:
            the output in the process of the last stage, None in the others.
        """
        if self._loss is None:
            return self._run(args, kwargs, None, None, return_outputs, False)
        return self._run(args, kwargs, target, losses, return_outputs, True)

    def eval(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        **kwargs: Any,
    ) -> Any:
        """A batch forwards, without gradients."""
        return self._run(args, kwargs, target, losses, return_outputs, False)

    def _run(
        self, args: Any, kwargs: Any, target: Any, losses: Any, return_outputs: bool, train: bool
    ) -> Any:
        has_last = any(stage.is_last for stage in self._stages)
        if any(stage.is_first for stage in self._stages) and not args:
            raise ValueError(f"{type(self).__name__}.step: the first stage is given no batch")
        if train and has_last and target is None:
            raise ValueError(f"{type(self).__name__}.step: the last stage is given no target")
        batches = _split((args, kwargs), self._count)
        targets = _split(target, self._count)
        outputs: list[Any] = [None] * self._count
        found: dict[int, Tensor] = {}
        left = [self._count] * len(self._stages)  # backwards to come
        actions = self.actions()
        if not train:
            actions = [a for a in actions if a.is_forward]
        for is_forward, at, number in actions:
            stage = self._stages[at]
            if is_forward:
                own, named = batches[number]
                output = stage.forward(number, own, named, train)
                if stage.is_last:
                    outputs[number] = output
                    if self._loss is not None and target is not None:
                        with facula.set_grad_enabled(train):
                            found[number] = self._loss(output, targets[number])
                continue
            left[at] -= 1
            loss = found[number] if stage.is_last else None
            stage.backward(number, loss, self._scale, left[at] == 0)
        for stage in self._stages:
            stage.finish()
        if losses is not None and has_last:
            losses[:] = [found[i].detach() for i in sorted(found)]
        return _merged(outputs) if has_last and return_outputs else None


def _split(value: Any, count: int) -> list[Any]:
    """Microbatches: tensors in parts along the first dimension, other values as they are."""
    leaves, form = tree_flatten(value)
    parts = [
        list(t.tensor_split(count)) if isinstance(t, Tensor) and t.dim() else [t] * count
        for t in leaves
    ]
    for t in leaves:
        if isinstance(t, Tensor) and t.dim() and t.shape[0] < count:
            raise ValueError(
                f"pipelining: a tensor of shape {tuple(t.shape)} does not go into {count}"
                " microbatches"
            )
    return [tree_unflatten([p[i] for p in parts], form) for i in range(count)]


def _merged(outputs: list[Any]) -> Any:
    first, form = tree_flatten(outputs[0])
    rows = [tree_flatten(o)[0] for o in outputs]
    merged = [
        facula.cat([row[i].detach() for row in rows])
        if t.dim()
        else facula.stack([row[i].detach() for row in rows])
        for i, t in enumerate(first)
    ]
    return tree_unflatten(merged, form)


class _OneStage(_Schedule):
    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        name = type(self).__name__
        if any(s is not None for s in (args_chunk_spec, kwargs_chunk_spec, output_merge_spec)):
            raise NotImplementedError(
                f"{name}: batches go into parts along the first dimension; give no chunk specs"
            )
        if stage.num_stages != stage.group_size:
            raise ValueError(
                f"{name}: {stage.num_stages} stages in {stage.group_size} processes; use"
                " ScheduleInterleaved1F1B for several stages a process"
            )
        super().__init__([stage], n_microbatches, loss_fn, scale_grads)


class ScheduleGPipe(_OneStage):
    """All forwards, then all backwards: a stage keeps all microbatches of a batch."""

    def actions(self) -> list[Action]:
        """What this process does in a step with backwards, in order."""
        return [Action(f, 0, i) for f in (True, False) for i in range(self._count)]


class Schedule1F1B(_OneStage):
    """A forward, a backward by turns: stage i of n keeps n - i microbatches at most."""

    def actions(self) -> list[Action]:
        """What this process does in a step with backwards, in order."""
        stage = self._stages[0]
        first = min(self._count, stage.num_stages - stage.stage_index - 1)
        return _by_turns(
            [Action(True, 0, i) for i in range(self._count)],
            [Action(False, 0, i) for i in range(self._count)],
            first,
        )


class ScheduleInterleaved1F1B(_Schedule):
    """1F1B with several stages a process: stages r, r + n, r + 2n ... in process r of n.

    Raises:
        ValueError: n_microbatches is no multiple of the rounds, n_microbatches // n, or stages are
        not those of this process.
    """

    def __init__(
        self,
        stages: Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        scale_grads: bool = True,
    ) -> None:
        n, own = stages[0].group_size, [stage.stage_index for stage in stages]
        wanted = list(range(stages[0].group_rank, stages[0].num_stages, n))
        if own != wanted:
            raise ValueError(
                f"ScheduleInterleaved1F1B: stages are {own}; this process has {wanted}, in order"
            )
        self._rounds = max(1, n_microbatches // n)
        if n_microbatches % self._rounds:
            raise ValueError(
                f"ScheduleInterleaved1F1B: n_microbatches is {n_microbatches}; give a multiple of"
                f" {self._rounds}, the rounds that {n} processes make of it"
            )
        super().__init__(stages, n_microbatches, loss_fn, scale_grads)

    def actions(self) -> list[Action]:
        """What this process does in a step with backwards, in order."""
        n, local = self._stages[0].group_size, len(self._stages)
        each = self._count // self._rounds
        order = [
            (at, turn * each + i)
            for turn in range(self._rounds)
            for at in range(local)
            for i in range(each)
        ]
        forwards = [Action(True, at, i) for at, i in order]
        backwards = [Action(False, local - 1 - at, i) for at, i in order]
        first = (local - 1) * each + 2 * (n - 1 - self._stages[0].group_rank)
        return _by_turns(forwards, backwards, min(first, len(forwards)))


def _by_turns(forwards: list[Action], backwards: list[Action], first: int) -> list[Action]:
    """Some forwards, a forward and a backward by turns, and the backwards that are left."""
    found = forwards[:first]
    for forward, backward in zip(forwards[first:], backwards, strict=False):
        found += [forward, backward]
    return found + backwards[len(forwards) - first :]
