"""Checkpoints by hooks of saved tensors: what a function saves is computed again when wanted.

Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula import _C
from facula.autograd import Function, forward_ad
from facula.autograd._levels import batch_level, gradient_level
from facula.autograd.graph import saved_tensors_hooks
from facula.utils.checkpoint._state import Surroundings

__all__ = ["CheckpointError", "current_frame", "detached_here", "saving_frame"]


_TIP = ". checkpoint(..., debug=True) tells which operators ran, and where"


class CheckpointError(RuntimeError):
    """A function did something else when it ran again."""


class _StopRecomputation(BaseException):
    """All that was wanted is there. No Exception: the function must not catch it."""


class _Inputs(Function):
    """Has the tensors among a function's arguments as its saved tensors.

    So that within another checkpoint that one keeps them, or rather does not.
    """

    @staticmethod
    def forward(ctx: Any, anchor: Any, *tensors: Any) -> Any:
        ctx.save_for_backward(*tensors)
        return anchor.detach().clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise AssertionError("nothing leads here")


class _Holder:
    """What the graph keeps in the place of a saved tensor."""

    __slots__ = ("__weakref__", "place")

    def __init__(self, place: int) -> None:
        self.place = place


class _Saved:
    """What one level saved in the first run; of no transform there is one level."""

    def __init__(self) -> None:
        self.facts: list[tuple[Any, ...]] = []
        self.holders: list[weakref.ref[_Holder]] = []


def _facts(t: Any) -> tuple[Any, ...]:
    return tuple(t.shape), t.dtype, str(t.device)


def detached_here(t: Any, requires_grad: bool = False) -> Any:
    """The tensor without its history at the innermost level of gradients; others keep theirs.

    Args:
        t: of any level, or of none.
        requires_grad: let it require a gradient there where `t` does.
    """
    return _detached(t, _C._open_levels() if _C._level_depth() else [], requires_grad)


def _detached(t: Any, levels: list[Any], requires_grad: bool) -> Any:
    if not levels:
        found = t.detach()
    else:
        number, kind, *_ = levels[0]
        inner, dim = _C._leave_level(t, number)
        if kind == "batch":
            inner = _detached(inner, levels[1:], requires_grad)
            return inner if dim is None else _C._enter_level(inner, number, dim)
        found = _C._enter_level(inner, number, dim)
    return found.requires_grad_() if requires_grad and t.requires_grad else found


_running = threading.local()


def current_frame() -> Any:
    """The checkpoint whose function runs in this thread, the first time or again."""
    return getattr(_running, "frame", None)


@contextlib.contextmanager
def _as_current(frame: Any) -> Iterator[None]:
    before, _running.frame = current_frame(), frame
    try:
        yield
    finally:
        _running.frame = before


class _Frame:
    """One call of a checkpointed function.

    Within transforms each level of gradients saves tensors of its own. What a level wants again is
    computed with the levels within it open once more, so that their tensors serve as before. Those
    that had tangents, which end with their level, get them again.
    """

    def __init__(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], **options: Any
    ) -> None:
        self.function = function
        self.options = options
        self.around = Surroundings((args, kwargs), options["preserve_rng_state"])
        self.levels = list(reversed(_C._open_levels())) if _C._level_depth() else []
        self.places = {level[0]: i for i, level in enumerate(self.levels)}
        tangents = list(reversed(_C._open_tangents())) if _C._in_forward_mode() else []
        self.tangents = tangents or [None] * (len(self.levels) + 1)  # by place, from -1 on
        # A policy's results have no tangents, so that what is computed of them is kept as it is.
        dual = [max(i, 0) for i, found in enumerate(self.tangents, -1) if found is not None]
        by_policy = getattr(options["context"], "keeps_results", False)
        self.first = max(dual, default=-1) if by_policy else -1
        self.saved: defaultdict[int, _Saved] = defaultdict(_Saved)
        # As long as the graph keeps a holder, it may ask again, for a second backward.
        self.found: weakref.WeakKeyDictionary[_Holder, Any] = weakref.WeakKeyDictionary()
        self.wanted: int | None = None  # the level that the function runs again for
        self.seen = 0
        self._keep(args, kwargs)

    def _keep(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # With transforms tensors' histories and tangents are those of every level.
        self.whole = bool(self.levels) or self.tangents[0] is not None
        if self.whole:
            self.given = args, kwargs
            return
        named = [(True, k, v) for k, v in kwargs.items()]
        given = [(False, i, v) for i, v in enumerate(args)] + named
        self.arguments = [
            (named, key, None if isinstance(v, facula.Tensor) else v) for named, key, v in given
        ]
        tensors = [v for _, _, v in given if isinstance(v, facula.Tensor)]
        self.tensors = [i for i, (_, _, v) in enumerate(given) if isinstance(v, facula.Tensor)]
        anchor = facula.empty(0, requires_grad=True)
        with facula.enable_grad():
            self.inputs = _Inputs.apply(anchor, *tensors).grad_fn

    def _given(self) -> tuple[Any, dict[str, Any]]:
        if self.whole:
            return self.given
        values = [value for _, _, value in self.arguments]
        for i, tensor in zip(self.tensors, self.inputs.saved_tensors, strict=True):
            values[i] = tensor
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for (named, key, _), value in zip(self.arguments, values, strict=True):
            if named:
                kwargs[key] = value
            else:
                args.append(value)
        return args, kwargs

    def place(self) -> int | None:
        """Of the level that saves now among those of the call, -1 for none; None of one within."""
        level = _C._current_level()
        return -1 if level is None else self.places.get(level[0])

    # ---- the hooks of the first run

    def pack(self, tensor: Any) -> Any:
        return self.pack_at(self.place(), tensor)

    def pack_at(self, place: int | None, tensor: Any) -> Any:
        """What the graph keeps of a tensor that the level at a place saves."""
        if place is None or place < self.first or _C._saves_for_now():
            return tensor
        saved = self.saved[place]
        holder = _Holder(place)
        saved.holders.append(weakref.ref(holder))
        saved.facts.append(_facts(tensor))
        return holder

    def unpack(self, holder: Any) -> Any:
        if not isinstance(holder, _Holder):
            return holder
        try:
            if holder not in self.found:
                self._run_again(holder.place)
            if holder not in self.found:
                raise self._other_count(holder.place)
        except CheckpointError as error:
            told = self.options["told"]
            if told is None:
                raise
            raise told(error) from error
        return self.found[holder]

    # ---- the second run

    def _run_again(self, place: int) -> None:
        self.seen = 0
        before, self.wanted = self.wanted, place
        try:
            # On for the level that wants it, and for the innermost one when the others are open.
            with facula.enable_grad():
                args, kwargs = self._given()
                with (
                    self.around.again(),
                    self._levels_within(place),
                    self.options["context"],
                    facula.enable_grad(),
                    saved_tensors_hooks(self.note, lambda tensor: tensor),
                    _as_current(self),
                    contextlib.suppress(_StopRecomputation),
                ):
                    self.function(*args, **kwargs)
        finally:
            self.wanted = before
        if self.seen < len(self.saved[place].facts) and not self.options["early_stop"]:
            raise self._other_count(place)

    def _other_count(self, place: int) -> CheckpointError:
        return CheckpointError(
            "facula.utils.checkpoint: a different number of tensors was saved during the "
            f"original forward and recomputation: {len(self.saved[place].facts)} and {self.seen}. "
            f"The function must do the same when it runs again{_TIP}"
        )

    @contextlib.contextmanager
    def _levels_within(self, place: int) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if place < 0 and not _C._in_forward_mode():
                self._with_tangents(stack, -1)
            for i, (number, kind, size, randomness, _) in enumerate(self.levels):
                if i <= place:
                    continue
                stack.enter_context(
                    gradient_level(number)
                    if kind == "gradients"
                    else batch_level(size, randomness, number)
                )
                self._with_tangents(stack, i)
            yield

    def _with_tangents(self, stack: contextlib.ExitStack, place: int) -> None:
        found = self.tangents[place + 1]
        if found is not None:
            stack.enter_context(forward_ad.dual_level())
            _C._restore_tangents(found)

    def note(self, tensor: Any) -> Any:
        """Take what the second run saves for what the first one saved in its place."""
        if self.wanted is None or self.place() != self.wanted or _C._saves_for_now():
            return tensor
        saved = self.saved[self.wanted]
        index, count = self.seen, len(saved.facts)
        self.seen += 1
        tensor = detached_here(tensor)
        if index >= count:
            if self.options["early_stop"]:
                raise _StopRecomputation
            raise CheckpointError(
                "facula.utils.checkpoint: trying to save more tensors during recomputation than "
                f"during the original forward pass, which saved {count}{_TIP}"
            )
        if self.options["determinism_check"] == "default" and _facts(tensor) != saved.facts[index]:
            was, now = saved.facts[index], _facts(tensor)
            raise CheckpointError(
                "facula.utils.checkpoint: Recomputed values for the following tensors have "
                "different metadata than during the forward pass: saved tensor "
                f"{index} had shape {was[0]}, dtype {was[1]}, device {was[2]}, and now has "
                f"{now[0]}, {now[1]}, {now[2]}{_TIP}"
            )
        holder = saved.holders[index]()
        if holder is not None:
            self.found[holder] = tensor
        if self.options["early_stop"] and self.seen == count:
            raise _StopRecomputation
        return tensor


@contextlib.contextmanager
def saving_frame(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], **options: Any
) -> Iterator[Callable[..., Any]]:
    """A context in which `function(*args, **kwargs)` saves nothing but how to run it again.

    Args:
        options: preserve_rng_state, determinism_check, early_stop, `context`, in which it runs
            again, and `told`, which makes another error of a CheckpointError, or None.
    """
    frame = _Frame(function, args, kwargs, **options)
    with saved_tensors_hooks(frame.pack, frame.unpack), _as_current(frame):
        yield function
