"""One module in many processes, each with its part of the batch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import facula
from facula import Tensor, distributed
from facula.distributed.algorithms.join import Join, Joinable, JoinHook
from facula.nn.modules.module import Module
from facula.nn.parallel._reducer import GradBucket, Hook, Reducer
from facula.utils._pytree import tree_leaves, tree_map

__all__ = ["DistributedDataParallel", "GradBucket"]

_FIRST = 1 << 20  # bytes of the first bucket: it starts early


class DistributedDataParallel(Module, Joinable):
    """A module whose gradients are the mean over all processes, as each backward ends.

    All processes make it around the same module and call it equally often. Parameters and buffers
    begin as those of rank 0. With a loss that is a mean over each process's part of the batch, and
    parts of one size, training is that of one process with the whole batch.

    Args:
        module: with parameters on any device.
        device_ids: at most one; the module must be there already, and inputs are moved there.
        broadcast_buffers: buffers (means of batch norm) are those of rank 0 in each forward.
        process_group: all processes by default.
        bucket_cap_mb: how much is sent at once, in MB; 25 by default.
        find_unused_parameters: some parameters may take no part in a loss; costs a walk over the
            graph in each forward.
        gradient_as_bucket_view: gradients live in what is sent: less memory, one copy less.
        static_graph: what takes part is the same in all iterations.

    Raises:
        ValueError: no parameter wants a gradient. RuntimeError: the processes' parameters differ,
        or
        the last backward did not bring all gradients.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(
                f"DistributedDataParallel: device_ids is {list(device_ids)}; one process serves one"
                " device: give one, or None"
            )
        for name, given in (
            ("mixed_precision", mixed_precision),
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
        ):
            if given is not None:
                raise NotImplementedError(
                    f"DistributedDataParallel: {name} is not served; give None"
                )
        if device_mesh is not None:
            process_group = device_mesh.get_group()
        self.process_group = process_group or distributed.group.WORLD
        if self.process_group is None:
            raise ValueError("DistributedDataParallel: call init_process_group first")
        self.module = module
        self.dim, self.device_ids, self.output_device = dim, device_ids, output_device
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.require_backward_grad_sync = True
        self._divides_by_active = False  # in `join`
        self._unused: frozenset[int] | None = None  # of a static graph, once known
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [
            (n, p) for n, p in module.named_parameters() if p.requires_grad and n not in ignored
        ]
        if not named:
            raise ValueError("DistributedDataParallel: no parameter of the module wants a gradient")
        cap = 25.0 if bucket_cap_mb is None else float(bucket_cap_mb)
        if not cap > 0:
            raise ValueError(f"DistributedDataParallel: bucket_cap_mb is {cap}; give MB above 0")
        self._synced = [
            t.detach()
            for n, t in (*module.named_parameters(), *module.named_buffers())
            if n not in ignored
        ]
        self._buffers_ignored = ignored
        if init_sync:
            self._compare([(n, str(p.dtype), tuple(p.shape)) for n, p in named])
            self._broadcast(self._synced)
        size = int(cap * (1 << 20))
        self.reducer = Reducer(
            [n for n, _ in named],
            [p for _, p in named],
            self.process_group,
            (min(_FIRST, size), size),
            gradient_as_bucket_view,
        )

    def _compare(self, mine: list[Any]) -> None:
        box = [mine]
        distributed.broadcast_object_list(box, group=self.process_group, group_src=0)
        theirs = box[0]
        found = [""] * distributed.get_world_size(self.process_group)
        text = ""
        if mine != theirs:
            pairs = [(a, b) for a, b in zip(mine, theirs, strict=False) if a != b]
            text = f"it has {len(mine)} parameters, rank 0 {len(theirs)}"
            if pairs:
                text = "its {} is {} {}, that of rank 0 is {} {} {}".format(
                    *pairs[0][0], *pairs[0][1]
                )
        distributed.all_gather_object(found, text, self.process_group)
        wrong = [f"rank {r}: {t}" for r, t in enumerate(found) if t]
        if wrong:
            raise RuntimeError(
                "DistributedDataParallel: the processes' modules differ. " + "; ".join(wrong)
            )

    def _broadcast(self, tensors: list[Tensor], source: int = 0) -> None:
        """The tensors become those of one process, in one message a dtype."""
        kinds: dict[Any, list[Tensor]] = {}
        for t in tensors:
            kinds.setdefault((t.dtype, t.device), []).append(t)
        for alike in kinds.values():
            flat = facula.cat([t.reshape(-1) for t in alike])
            distributed.broadcast(flat, group=self.process_group, group_src=source)
            for t, part in zip(alike, flat.split([t.numel() for t in alike]), strict=True):
                t.copy_(part.view(t.shape))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Calls the module; the next backward is averaged, unless under `no_sync`."""
        if self.process_group.size() == 1 and self.reducer.hook is None:
            return self.module(*inputs, **kwargs)  # the mean of one
        sync = facula.is_grad_enabled() and self.require_backward_grad_sync
        if sync:
            self.reducer.check_finished()
        same = self.broadcast_buffers and self.require_backward_grad_sync and self.training
        source = 0
        if self._join_config.enable:
            begun = Join.notify_join_context(self)
            source = self._iteration(sync, same)[2]
            if begun is not None and self._divides_by_active:
                active = begun.result()[0].item()
                self.reducer.scale = self.process_group.size() / active
        if same:
            self._same_buffers(source)
        if self.device_ids:  # inputs may come from the host
            inputs, kwargs = tree_map(self._moved, (inputs, kwargs))
        output = self.module(*inputs, **kwargs)
        if sync:
            learn = self.static_graph and self._unused is None
            if self.find_unused_parameters or learn:
                unused = self._unreached(output)
                self._unused = frozenset(unused) if self.static_graph else None
                self.reducer.prepare(unused, unsure=True)
            else:
                self.reducer.prepare(self._unused, unsure=False)
        return output

    def _moved(self, value: Any) -> Any:
        return value.to(self.join_device) if isinstance(value, Tensor) else value

    def _same_buffers(self, source: int) -> None:
        """Buffers become those of one process."""
        buffers = [
            b.detach() for n, b in self.module.named_buffers() if n not in self._buffers_ignored
        ]
        if buffers:
            with facula.no_grad():
                self._broadcast(buffers, source)

    # ---- uneven inputs ----

    def _iteration(self, sync: bool, same: bool, active: bool = True) -> list[int]:
        """What the processes that have inputs do: do gradients and buffers go, and who is one."""
        rank = self.process_group.rank() if active else -1
        facts = facula.tensor([int(sync), int(same), rank], device=self.process_group.carrier)
        distributed.all_reduce(facts, distributed.ReduceOp.MAX, self.process_group)
        found: list[int] = facts.tolist()
        return found

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """Within `with ddp.join():` processes may have different numbers of batches.

        Those that have none left add zeros to the others' gradients. In the end all have the
        parameters of the last ones.

        Args:
            divide_by_initial_world_size: gradients are sums divided by the number of all processes;
                else by the number of those that have a batch.
            enable, throw_on_early_termination: as those of `distributed.algorithms.join.Join`.

        Raises:
            ValueError: the graph is said to be static.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without inputs does."""
        if self.static_graph:
            raise ValueError("DistributedDataParallel.join: static_graph is True; give False")
        self._divides_by_active = not kwargs.get("divide_by_initial_world_size", True)
        self.reducer.keep_order()
        return _Shadow(self)

    @property
    def join_device(self) -> Any:
        """Where the parameters are."""
        return self.reducer.parameters[0].device

    @property
    def join_process_group(self) -> Any:
        """All that average gradients."""
        return self.process_group

    def _unreached(self, output: Any) -> list[int]:
        """Which parameters the graph of the output does not lead to."""
        nodes = [
            t.grad_fn
            for t in tree_leaves(output)
            if isinstance(t, Tensor) and t.grad_fn is not None
        ]
        reached, seen = set(), set(nodes)
        while nodes:
            node = nodes.pop()
            leaf = getattr(node, "variable", None)
            if leaf is not None:
                reached.add(id(leaf))
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    nodes.append(following)
        return [i for i, p in enumerate(self.reducer.parameters) if id(p) not in reached]

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, gradients add up in each process alone; the next backward outside averages."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def average_next_backward(self) -> None:
        """The next backward is averaged though its forward was under `no_sync`.

        For forwards and backwards in another order than one after the other, as in a pipeline. All
        parameters must take part in what was added up by then.
        """
        self.reducer.check_finished()
        self.reducer.prepare(None, unsure=False)

    def register_comm_hook(self, state: Any, hook: Hook) -> None:
        """`hook(state, bucket)` sends a bucket's gradients instead, and returns a future of them.

        The result must be the mean already. See `distributed.algorithms.ddp_comm_hooks`.
        """
        if not callable(hook):
            raise TypeError(f"register_comm_hook: hook is {hook!r}; give a function")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook: there is a hook already, and there can be one")
        self.reducer.hook = (state, hook)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: Any) -> None:
        module._ddp_params_and_buffers_to_ignore = list(names)  # type: ignore[assignment]

    def __getstate__(self) -> Any:
        raise TypeError(
            "DistributedDataParallel belongs to its processes; save the module, or its state_dict"
        )


class _Shadow(JoinHook):
    """The collectives of an iteration, without a forward and backward."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self._ddp = ddp

    def main_hook(self) -> None:
        ddp = self._ddp
        sync, same, source = ddp._iteration(False, False, active=False)
        if same:
            ddp._same_buffers(source)
        if sync:
            ddp.reducer.add_nothing(ddp.find_unused_parameters)

    def post_hook(self, is_last_joiner: bool) -> None:
        ddp = self._ddp
        ddp.reducer.scale = 1.0
        source = ddp._iteration(False, False, active=is_last_joiner)[2]
        with facula.no_grad():
            ddp._broadcast(ddp._synced, source)
