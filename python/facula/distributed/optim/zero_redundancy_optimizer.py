"""An optimizer whose state is spread over the processes of a group."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import facula
from facula import Tensor, distributed
from facula.distributed.algorithms.join import Join, Joinable, JoinHook
from facula.optim import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class _Step(JoinHook):
    """A step of a process that has no batch: of the gradients that the others made."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        self._optimizer.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Each process keeps the state of its share of the parameters, updates these, and sends them.

    The result is that of the optimizer alone, and the memory of its state is divided by the number
    of processes (S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
    Parameter Models", SC 2020, stage 1). Gradients must be the same in all processes, as
    `DistributedDataParallel` makes them.

    Args:
        params: parameters, or groups of them, in the same order in all processes.
        optimizer_class: such as `optim.Adam`; `defaults` are its arguments.
        process_group: all processes by default.
        parameters_as_bucket_view: taken; parameters stay where they are.

    Raises:
        ValueError: no parameters. TypeError: `overlap_with_ddp`, which is not served.
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: Callable[..., Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise TypeError("ZeroRedundancyOptimizer: overlap_with_ddp is not served; leave it out")
        self._group = process_group or distributed.group.WORLD
        if self._group is None:
            raise ValueError("ZeroRedundancyOptimizer: call init_process_group first")
        self._class, self._class_defaults = optimizer_class, defaults
        self._whole: dict[str, Any] | None = None
        self.optim: Optimizer | None = None
        super().__init__(params, defaults)
        self._build()

    def _build(self) -> None:
        """Shares out the parameters, each to whoever has least so far."""
        n, rank = self._group.size(), self._group.rank()
        loads = [0] * n
        every = [p for group in self.param_groups for p in group["params"]]
        self._owner: dict[int, int] = {}
        for p in sorted(every, key=lambda p: -p.numel()):  # a stable order
            owner = loads.index(min(loads))
            self._owner[id(p)] = owner
            loads[owner] += p.numel()
        self._mine = [
            {**group, "params": [p for p in group["params"] if self._owner[id(p)] == rank]}
            for group in self.param_groups
        ]
        held = [group for group in self._mine if group["params"]]
        self.optim = self._class(held, **self._class_defaults) if held else None
        if self.optim is not None:  # rates and the like that the class adds
            for group, shown in zip(self.optim.param_groups, self._shown(), strict=True):
                for key, value in group.items():
                    if key != "params":
                        shown.setdefault(key, value)

    def _shown(self) -> list[dict[str, Any]]:
        """The groups of all parameters, of which this process has a share."""
        pairs = zip(self.param_groups, self._mine, strict=True)
        return [group for group, mine in pairs if mine["params"]]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """One more group of parameters; all processes add the same."""
        super().add_param_group(param_group)
        if self.optim is not None or self._whole is not None:
            raise RuntimeError(
                "ZeroRedundancyOptimizer: groups are given when it is made; make a new one"
            )

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """One step of this process's share; then all have all parameters."""
        Join.notify_join_context(self)
        loss = None
        if closure is not None:
            with facula.enable_grad():
                loss = closure()
        if self.optim is not None:
            for group, shown in zip(self.optim.param_groups, self._shown(), strict=True):
                for key, value in shown.items():  # what a scheduler changed
                    if key != "params":
                        group[key] = value
            self.optim.step(**kwargs)
        self._send()
        return loss

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without inputs does in `Join([ddp, zero])`."""
        return _Step(self)

    @property
    def join_device(self) -> Any:
        """Where the parameters are."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """All that have a share."""
        return self._group

    def _send(self) -> None:
        works = []
        for owner in range(self._group.size()):
            kinds: dict[Any, list[Tensor]] = {}
            for group in self.param_groups:
                for p in group["params"]:
                    if self._owner[id(p)] == owner:
                        kinds.setdefault((p.dtype, p.device), []).append(p.detach())
            for alike in kinds.values():
                flat = facula.cat([t.reshape(-1) for t in alike])
                work = distributed.broadcast(flat, None, self._group, True, group_src=owner)
                works.append((work, flat, alike, owner))
        for work, flat, alike, owner in works:
            work.wait()
            if owner != self._group.rank():
                parts = flat.split([t.numel() for t in alike])
                for t, part in zip(alike, parts, strict=True):
                    t.copy_(part.view(t.shape))

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Brings the whole state to process `to`, for its `state_dict`; all processes call this."""
        mine = self._local_state()
        box: list[Any] = [None] * self._group.size() if self._group.rank() == to else []
        distributed.gather_object(mine, box or None, group=self._group, group_dst=to)
        if not box:
            self._whole = None
            return
        states: dict[int, Any] = {}
        for part in box:
            states.update(part)
        groups, at = [], 0
        for group in self.param_groups:
            count = len(group["params"])
            kept = {k: v for k, v in group.items() if k != "params"}
            groups.append({**kept, "params": list(range(at, at + count))})
            at += count
        self._whole = {"state": states, "param_groups": groups}

    def _numbers(self) -> dict[int, int]:
        every = [p for group in self.param_groups for p in group["params"]]
        return {id(p): i for i, p in enumerate(every)}

    def _local_state(self) -> dict[int, Any]:
        if self.optim is None:
            return {}
        numbers = self._numbers()
        return {numbers[id(p)]: state for p, state in self.optim.state.items()}

    def state_dict(self) -> dict[str, Any]:
        """The whole state, as the optimizer alone would give it.

        Raises:
            RuntimeError: `consolidate_state_dict` was not called for this process.
        """
        if self._whole is None:
            raise RuntimeError(
                "ZeroRedundancyOptimizer: this process has a share of the state only; all"
                " processes call"
                f" consolidate_state_dict(to={self._group.rank()}) first"
            )
        return self._whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes this process's share of a whole state; of any number of processes."""
        if len(state_dict["param_groups"]) != len(self.param_groups):
            raise ValueError(
                f"ZeroRedundancyOptimizer: the state has {len(state_dict['param_groups'])}"
                " groups, and"
                f" there are {len(self.param_groups)}"
            )
        for group, given in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({k: v for k, v in given.items() if k != "params"})
        if self.optim is None:
            return
        numbers = self._numbers()
        order = [p for group in self.optim.param_groups for p in group["params"]]
        states = {
            i: copy.deepcopy(state_dict["state"][numbers[id(p)]])
            for i, p in enumerate(order)
            if numbers[id(p)] in state_dict["state"]
        }
        local = self.optim.state_dict()
        pairs = zip(local["param_groups"], self._shown(), strict=True)
        groups = [{**own, **{k: v for k, v in g.items() if k != "params"}} for own, g in pairs]
        self.optim.load_state_dict({"state": states, "param_groups": groups})
