"""Checkpoints that keep the results of some operators, and compute the others again.

Within its contexts a mode is asked for every call of a public function or method. The first time it
asks the policy, and keeps a result where that says so; the second time the call is not made: what
it would have saved for its backward was kept, or is one of its arguments.
"""

from __future__ import annotations

import enum
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import facula
from facula import _C
from facula.autograd.graph import saved_tensors_hooks
from facula.overrides import TorchFunctionMode, resolve_name
from facula.utils.checkpoint._saving import current_frame, detached_here
from facula.utils.checkpoint._state import generators_of, tensors_in

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]

#: Functions that a policy is not asked about.
SAC_IGNORED_OPS: set[Any] = {facula.Tensor.detach}


class CheckpointPolicy(enum.Enum):
    """Whether a result is kept in forward, or computed again in backward.

    MUST and PREFER say the same here: no compiler chooses otherwise. What is offloaded waits in the
    memory of the CPU.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVED = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
_OFFLOADED = (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)


class SelectiveCheckpointContext:
    """What a policy is told: the call's result. It is asked in the first run alone."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


_groups = threading.local()


class GraphExecGroup:
    """Backward passes of one graph, within which a checkpoint is computed again at most once.

    That holds here without it too: what was computed again waits for all of the graph that wants
    it, until backward frees that.

    Raises:
        RuntimeError: it is opened within another one.
    """

    def __enter__(self) -> GraphExecGroup:
        if getattr(_groups, "open", None) is not None:
            raise RuntimeError("GraphExecGroup(): one is open already; they cannot be nested")
        _groups.open = self
        return self

    def __exit__(self, *error: object) -> None:
        _groups.open = None

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        found: GraphExecGroup | None = getattr(_groups, "open", None)
        return found


def _public(func: Any) -> Any:
    """The function that stands for a method too, so that `a @ b` and `matmul(a, b)` are one."""
    path = resolve_name(func) or ""
    if not path.startswith("torch.Tensor."):
        return func
    name = path.rpartition(".")[2]
    return getattr(facula, name, getattr(facula.nn.functional, name, func))


class _Kept:
    """A tensor of the first run, for the second."""

    def __init__(self, tensor: Any, offload: bool) -> None:
        self.device = tensor.device
        self.tensor = detached_here(tensor, True)
        self.version = self.tensor._version
        if offload and self.device.type != "cpu":
            self.tensor = self.tensor.to("cpu")
            self.version = self.tensor._version

    def get(self, may_change: bool = True) -> Any:
        if not may_change and self.tensor._version != self.version:
            raise RuntimeError(
                "checkpoint(): a result that the policy keeps was changed in place; change a copy, "
                "or pass allow_cache_entry_mutation=True"
            )
        tensor = self.tensor
        return detached_here(
            tensor if tensor.device == self.device else tensor.to(self.device), True
        )


class _Call:
    """A call whose result is kept."""

    def __init__(self) -> None:
        self.result: Any = None
        self.sources: list[tuple[int, Any]] = []  # what is saved of arguments, in its order
        self.draws: list[tuple[Any, Any]] = []  # generators and their states after it


_RECOMPUTE = object()


class _Mode(TorchFunctionMode):
    def __init__(self, storage: Any) -> None:
        super().__init__()
        self.storage = storage
        self.counts: defaultdict[Any, int] = defaultdict(int)

    def __enter__(self) -> Any:
        if not getattr(self, "inside", False):
            self.counts.clear()
        return super().__enter__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in SAC_IGNORED_OPS or current_frame() is None:
            return func(*args, **kwargs)
        parts = getattr(func, "__wrapped__", None)
        if parts is not None:  # a function in Python: its parts are asked about
            self.inside = True
            try:
                with self:
                    return parts(*args, **kwargs)
            finally:
                self.inside = False
        op = _public(func)
        index = self.counts[op]
        self.counts[op] += 1
        return self.call(op, index, func, args, kwargs)

    def call(self, op: Any, index: int, func: Any, args: Any, kwargs: Any) -> Any:
        raise NotImplementedError


class _First(_Mode):
    def __init__(self, policy: Callable[..., Any], storage: Any) -> None:
        super().__init__(storage)
        self.policy = policy

    def call(self, op: Any, index: int, func: Any, args: Any, kwargs: Any) -> Any:
        frame, given = current_frame(), list(tensors_in((args, kwargs)))
        packed: list[Any] = []  # until the call ends, tensors that it may want itself
        saved: list[Any] = []
        call = _Call()

        def pack(tensor: Any) -> Any:
            place = frame.place()
            source = _source(tensor, given) if place == len(frame.levels) - 1 else None
            packed.append((_itself, (tensor,)))
            if not _C._saves_for_now():
                saved.append((len(packed) - 1, tensor, place, source))
            return _Slot(len(packed) - 1, packed)

        generators = generators_of(given)
        before = [g.get_state() for g in generators]
        with saved_tensors_hooks(pack, _Slot.get):
            result = func(*args, **kwargs)
        wanted = {i for i, *_ in saved}
        for i in range(len(packed)):
            if i not in wanted:  # the call has ended
                packed[i] = None
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        with facula.no_grad():
            policy = self.policy(context, op, *args, **kwargs)
        if not isinstance(policy, CheckpointPolicy):
            policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        results = list(tensors_in(result))
        # What is written to in place is written to again.
        keeps = policy in _SAVED + _OFFLOADED and results
        keeps = keeps and not any(r is t for r in results for t in given)
        for i, tensor, place, source in saved:
            if keeps and source is None:  # of levels further out as it is
                if place == len(frame.levels) - 1:
                    packed[i] = (_Kept(tensor, policy in _OFFLOADED).get, ())
                continue
            if keeps:
                call.sources.append(source)
            packed[i] = (frame.unpack, (frame.pack_at(place, tensor),))
        if not keeps:
            self.storage[op][index] = _RECOMPUTE
            return result
        offload = policy in _OFFLOADED
        call.result = _mapped(facula.Tensor, lambda r: _Kept(r, offload), result)
        after = [g.get_state() for g in generators]
        call.draws = [
            (g, b)
            for g, a, b in zip(generators, before, after, strict=True)
            if not facula.equal(a, b)
        ]
        self.storage[op][index] = call
        return result


def _mapped(kind: type, function: Callable[[Any], Any], value: Any) -> Any:
    """A result with `function` of what is of a kind in it."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, (tuple, list)):
        parts = [_mapped(kind, function, v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _itself(tensor: Any) -> Any:
    return tensor


class _Slot:
    """What the graph keeps while a call whose result may be kept goes on, and after it."""

    __slots__ = ("index", "packed")

    def __init__(self, index: int, packed: list[Any]) -> None:
        self.index, self.packed = index, packed

    def get(self) -> Any:
        function, args = self.packed[self.index]
        return function(*args)


class _Second(_Mode):
    keeps_results = True

    def __init__(self, storage: Any, may_change: bool) -> None:
        super().__init__(storage)
        self.may_change = may_change

    def call(self, op: Any, index: int, func: Any, args: Any, kwargs: Any) -> Any:
        found = self.storage[op].get(index) if op in self.storage else None
        if found is None:
            raise RuntimeError(
                f"checkpoint(): {resolve_name(op)} is called in backward, number {index + 1} of "
                "its calls, and was not in forward: the function must do the same when it runs "
                "again"
            )
        if found is _RECOMPUTE:
            return func(*args, **kwargs)
        frame, given = current_frame(), list(tensors_in((args, kwargs)))
        for number, geometry in found.sources:
            tensor = given[number]
            if geometry is not None:
                sizes, strides, offset = geometry
                tensor = tensor.detach().as_strided(
                    sizes, strides, tensor.storage_offset() + offset
                )
            frame.note(tensor)
        for generator, state in found.draws:
            generator.set_state(state)
        return _mapped(_Kept, lambda k: k.get(self.may_change), found.result)


def _source(tensor: Any, given: list[Any]) -> tuple[int, Any] | None:
    """Which argument a saved tensor is, or a view of its memory; None of others."""
    for i, t in enumerate(given):
        if t is tensor:
            return i, None
    if _C._level_depth():
        return None
    for i, t in enumerate(given):
        if t.layout is facula.strided and tensor.layout is facula.strided and _shares(t, tensor):
            offset = tensor.storage_offset() - t.storage_offset()
            return i, (tuple(tensor.shape), tensor.stride(), offset)
    return None


def _shares(a: Any, b: Any) -> bool:
    return (
        a.dtype is b.dtype
        and a.numel() > 0
        and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    )


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Contexts of a checkpoint that keeps the results of some functions.

    For `context_fn` of `checkpoint`, through functools.partial. What is kept is not computed again.

    Args:
        policy_fn_or_list: functions whose results are kept, `facula.mm` say, which stands for the
            method too; or a policy: called with a SelectiveCheckpointContext, the function, and its
            arguments, it gives a CheckpointPolicy, or a bool (keep it?). It is asked about calls
            that the checkpointed function makes, not about what these are made of. What a call
            writes in place is never kept.
        allow_cache_entry_mutation: take what is kept even where it was changed in place.

    Raises:
        TypeError: it is neither a function nor a list.
        ValueError: the list has something else than functions.

    >>> import functools
    >>> import facula as fa
    >>> from facula.utils import checkpoint as ck
    >>> keep = functools.partial(ck.create_selective_checkpoint_contexts, [fa.matmul])
    >>> x = fa.ones(2, 2, requires_grad=True)
    >>> y = ck.checkpoint(lambda t: (t @ t).exp(), x, use_reentrant=False, context_fn=keep)
    >>> fa.autograd.grad(y.sum(), x)[0].shape
    facula.Size([2, 2])
    """
    if isinstance(policy_fn_or_list, (list, tuple, set)):
        for op in policy_fn_or_list:
            if not callable(op):
                raise ValueError(
                    "create_selective_checkpoint_contexts(): the list must hold functions, such as "
                    f"facula.mm, and there is {op!r}"
                )
        kept = {_public(op) for op in policy_fn_or_list}

        def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
            return op in kept

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError(
            "create_selective_checkpoint_contexts(): a function or a list of functions is "
            f"expected, not {type(policy_fn_or_list).__name__}"
        )
    storage: defaultdict[Any, dict[int, Any]] = defaultdict(dict)
    return _First(policy, storage), _Second(storage, allow_cache_entry_mutation)
