"""One forward through sharded modules and its backward: who gathers when, and who waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import facula
from facula import _C, Tensor
from facula.autograd import Function
from facula.autograd.function import once_differentiable
from facula.autograd.graph import current_saved_tensors_hooks, saved_tensors_hooks
from facula.distributed.fsdp._sharding import ParameterGroup, Reduced, find_open
from facula.utils._pytree import tree_leaves, tree_map

__all__ = ["cast_floats", "running"]


class Session:
    """A forward of an outermost module, with all that it calls."""

    def __init__(self, groups: list[ParameterGroup], order: list[ParameterGroup]) -> None:
        self.groups, self._last = groups, order
        self.order: list[ParameterGroup] = []  # in which they run, this time
        self.ended: list[ParameterGroup] = []  # in which forwards ended
        self.parameters = [p for g in groups for p in g.parameters if p.parameter.requires_grad]
        self.reduced: list[Reduced] = []
        self.anchor: Tensor | None = None
        self._task = 0

    def begin(self) -> None:
        if facula.is_grad_enabled() and self.parameters:
            self.anchor = _Anchor.apply(self, *[p.parameter for p in self.parameters])

    # ---- forward ----

    def entered(self, group: ParameterGroup) -> None:
        """A group's module begins: its parameters are whole, and the next group's on their way."""
        wholes = list(group.unshard())
        self.order.append(group)
        at = len(self.order) - 1
        following = group.forward_prefetch
        if following is None:
            expected = self._last[: at + 2]
            follows = len(expected) == at + 2 and expected[:-1] == self.order
            following = expected[-1:] if follows else []
        for other in following:
            other.start()
        trained = group.trained if self.anchor is not None else []
        if trained:
            made = _Gathered.apply(self.anchor, self, group, trained)
            for i, w in zip(trained, made, strict=True):
                wholes[i] = w
        group.stand_in(wholes)

    def left(self, group: ParameterGroup, output: Any, is_root: bool) -> None:
        """A group's module has run."""
        self.ended.append(group)
        outputs = [t for t in tree_leaves(output) if isinstance(t, Tensor) and t.requires_grad]
        for t in outputs:
            t.register_hook(lambda _: self.backward_begins(group))
        free = group.reshard_after_forward
        if group.in_backward:  # it runs again, for what a checkpoint did not keep
            return
        if free if free is not None else not is_root or not outputs:
            group.reshard()
        else:
            for p in group.parameters:
                p.stand_in(p.parameter)

    # ---- backward ----

    def backward_begins(self, group: ParameterGroup) -> None:
        """The gradient of a module's output is there."""
        task = _C._task_number()
        if task != self._task and task != 0:
            self._task = task
            _C._task_at_end(self.backward_ends)
        for other in self.ended:  # those without gradients of their own have no end of their own
            if other.in_backward and not other.trained and other is not group:
                other.reshard()
        group.in_backward = True
        trained = set(group.trained)  # a checkpoint that computes again must see the same
        wholes = enumerate(group.unshard())
        group.stand_in([w.detach().requires_grad_(i in trained) for i, w in wholes])
        following = group.backward_prefetch
        if following is None:
            at = len(self.ended) - 1 - self.ended[::-1].index(group)
            following = self.ended[max(0, at - 1) : at]
        for other in following:
            other.start()

    def gradients(self, group: ParameterGroup, grads: dict[int, Tensor]) -> None:
        """All whole gradients of a group are there."""
        self.reduced += group.reduce(grads)
        if group.reshard_after_backward:
            group.reshard()
        else:
            group.in_backward = False
            for p in group.parameters:
                p.stand_in(p.parameter)

    def finish(self) -> dict[int, Tensor]:
        """The gradients of all parts, by parameter."""
        found: dict[int, Tensor] = {}
        for reduced in self.reduced:
            for p, grad in reduced.group.finished(reduced):
                found[id(p)] = found[id(p)] + grad if id(p) in found else grad
        self.reduced = []
        return found

    def backward_ends(self, _: Any = None) -> None:
        """What was gathered and not used, or has no gradients, goes."""
        for group in self.groups:
            if group.reshard_after_backward:
                group.reshard()


class _Anchor(Function):
    """From the parts to what all groups begin with: its backward is the last, and waits."""

    @staticmethod
    def forward(ctx: Any, session: Session, *parts: Tensor) -> Tensor:
        ctx.session = session
        return facula.zeros(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        found = ctx.session.finish()
        return None, *[found.get(id(p)) for p in ctx.session.parameters]


class _Gathered(Function):
    """The whole parameters of a group; its backward sends their gradients on their way."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, session: Session, group: ParameterGroup, trained: list[int]
    ) -> Any:
        ctx.session, ctx.group, ctx.trained = session, group, trained
        ctx.set_materialize_grads(False)
        wholes = group.unshard()
        return tuple(wholes[i].detach() for i in trained)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        pairs = zip(ctx.trained, grads, strict=True)
        ctx.session.gradients(ctx.group, {i: g for i, g in pairs if g is not None})
        return facula.zeros(0), None, None, None


class _Running(threading.local):
    session: Session | None = None


_running = _Running()


def _keeping() -> Any:
    """Backward keeps of whole parameters where to find them; the rest is for the hooks around.

    In each module anew: a checkpoint between has hooks of its own.
    """
    outer = current_saved_tensors_hooks()
    if outer is not None and getattr(outer[0], "_of_parameters", False):
        return nullcontext()

    def pack(t: Tensor) -> Any:
        found = find_open(t)
        if found is not None:
            return (*found, t.size(), t.stride(), t.storage_offset())
        return t if outer is None else (outer[0](t),)

    def unpack(kept: Any) -> Tensor:
        if not isinstance(kept, tuple):
            return kept  # type: ignore[no-any-return]
        if len(kept) > 1:
            group, *rest = kept
            return group.view(*rest)  # type: ignore[no-any-return]
        assert outer is not None
        return outer[1](kept[0])  # type: ignore[no-any-return]

    pack._of_parameters = True  # type: ignore[attr-defined]
    return saved_tensors_hooks(pack, unpack)


@contextmanager
def running(state: Any, groups: Callable[[], list[ParameterGroup]]) -> Iterator[Any]:
    """A forward of a sharded module; the outermost one begins a session. Gives its `left`."""
    group: ParameterGroup | None = state.group
    session, is_root = _running.session, False
    if session is None:
        session, is_root = Session(groups(), state.order), True
        session.begin()
        _running.session = session
    try:
        if group is not None:
            session.entered(group)

        def left(output: Any) -> None:
            if group is not None:
                session.left(group, output, is_root)

        with _keeping():
            yield left
        if is_root:
            state.order = session.order
    except BaseException:
        if group is not None and not group.in_backward:
            group.reshard()
        raise
    finally:
        if is_root:
            _running.session = None
            session.anchor = None  # it leads to the graph, which leads here
            for other in session.groups:
                if other not in session.order and other.whole is None:
                    other.reshard()  # it was on its way, and nobody wanted it


def cast_floats(value: Any, dtype: Any) -> Any:
    """Floating tensors in it as this dtype."""

    def cast(t: Any) -> Any:
        fits = isinstance(t, Tensor) and t.is_floating_point() and t.dtype != dtype
        return t.to(dtype) if fits else t

    return tree_map(cast, value)
