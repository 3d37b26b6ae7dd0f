"""Looking at the backward graph, and at what it saves."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import facula
from facula import _C

Node = _C.Node
HookHandle = _C.HookHandle

__all__ = [
    "GradientEdge",
    "HookHandle",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]

_refusals = threading.local()  # why this thread may not enter hooks now
_entered = threading.local()  # the hooks that this thread is within


def current_saved_tensors_hooks() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """The hooks that count on this thread, for hooks that pass on what is not theirs."""
    pairs = getattr(_entered, "pairs", None)
    return pairs[-1] if pairs else None


class saved_tensors_hooks:
    """Within the context, operations keep for backward what `pack_hook` makes of a tensor.

    Args:
        pack_hook: called with each tensor that is saved, without recording; gives any object. It
            must not change the tensor.
        unpack_hook: called with that object when backward wants the tensor, perhaps several times;
            gives a tensor of the same shape and dtype.

    Of contexts within each other the innermost counts, alone. Hooks are the thread's.

    >>> import facula
    >>> from facula.autograd.graph import saved_tensors_hooks
    >>> x = facula.tensor(3.0, requires_grad=True)
    >>> with saved_tensors_hooks(lambda t: t.item(), lambda n: facula.tensor(n)):
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor(6.)
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        refusal = getattr(_refusals, "text", None)
        if refusal is not None:
            raise RuntimeError(refusal)
        _C._push_saved_hooks(self.pack_hook, self.unpack_hook)
        _entered.__dict__.setdefault("pairs", []).append((self.pack_hook, self.unpack_hook))

    def __exit__(self, *exc: object) -> None:
        _C._pop_saved_hooks()
        _entered.pairs.pop()


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in the CPU's memory until backward wants them on their device again.

    Args:
        pin_memory: in memory from which copies to the device are faster and need not be waited for.
        device_type: of the device that the memory is pinned for.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Any) -> tuple[Any, Any]:
            if not pin_memory:
                return tensor.device, tensor.cpu()
            packed = facula.empty(tensor.size(), dtype=tensor.dtype).pin_memory(device_type)
            packed.copy_(tensor)
            return tensor.device, packed

        def unpack(packed: tuple[Any, Any]) -> Any:
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Within the context, entering `saved_tensors_hooks` raises a RuntimeError of this text."""
    before = getattr(_refusals, "text", None)
    _refusals.text = error_message
    try:
        yield
    finally:
        _refusals.text = before


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Within the context, operations keep for backward tensors that may be changed in place.

    A change, there or later, first leaves a copy of what is kept. It takes memory where tensors are
    changed, and of tensors within function transforms, which are copied at once. Changes are not
    seen, and gradients wrong, where they go through what shared the memory before it was kept: an
    array, buffer or DLPack capsule, or `.data` that was taken earlier.

    >>> import facula
    >>> with facula.autograd.graph.allow_mutation_on_saved_tensors():
    ...     x = facula.ones(2, requires_grad=True)
    ...     y = x * 1
    ...     z = (y**2).sum()
    ...     _ = y.zero_()
    >>> z.backward()
    >>> x.grad
    tensor([2., 2.])
    """
    with saved_tensors_hooks(_C._keep_elements, _C._kept_elements):
        yield


class GradientEdge(NamedTuple):
    """A place in the graph: gradient number `output_nr` of `node`.

    `autograd.grad` and `autograd.backward` take it in the place of a tensor, which need not be kept
    alive then.
    """

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The place in the graph where the gradient of `tensor` arrives.

    Raises:
        RuntimeError: it does not require a gradient.

    >>> import facula
    >>> x = facula.ones(2, requires_grad=True)
    >>> y = x * 3
    >>> edge = facula.autograd.graph.get_gradient_edge(y)
    >>> z = (y * y).sum()
    >>> facula.autograd.grad(z, edge)
    (tensor([6., 6.]),)
    """
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor: Any) -> None:
    """Count `tensor`, or each of several, as changed in place.

    For what writes to memory past facula: a backward that needs the old elements then raises.
    """
    for t in (tensor,) if _C.is_tensor(tensor) else tensor:
        _C._increment_version(t)


class _Handles:
    """Removes several hooks at once."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Take the hook off all its tensors."""
        while self._handles:
            self._handles.pop().remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[[Any], None], *, mode: str = "all"
) -> Any:
    """Call `fn` when gradients of several tensors have been computed, once in a backward pass.

    Args:
        tensors: that require gradients.
        fn: with mode `"all"` called with a tuple of the gradients, None of tensors that the pass
            does not come to; with `"any"` with the first gradient that is there.
        mode: wait for all of those that the pass comes to, or for the first.

    Returns:
        A handle with `remove()`.

    Raises:
        ValueError: another mode, or no tensors.
        RuntimeError: a tensor does not require a gradient.

    >>> import facula
    >>> a, b = facula.ones(2, requires_grad=True), facula.ones(2, requires_grad=True)
    >>> hook = facula.autograd.graph.register_multi_grad_hook((a, b), print)
    >>> (a * 2 + b * 3).sum().backward()
    (tensor([2., 2.]), tensor([3., 3.]))
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook(): mode must be 'all' or 'any', not {mode!r}")
    tensors = tuple(tensors)
    if not tensors:
        raise ValueError("register_multi_grad_hook(): there are no tensors")
    edges = [get_gradient_edge(t) for t in tensors]
    places: dict[Any, list[tuple[int, int]]] = {}  # of a leaf or a node's address
    for i, (tensor, edge) in enumerate(zip(tensors, edges, strict=True)):
        # A node must not be held by its own hooks.
        key = tensor if tensor.is_leaf else edge.node._address()
        places.setdefault(key, []).append((i, edge.output_nr))
    wait = _Waiting(len(tensors), list(places), fn, mode == "any")
    handles = []
    for key, at in places.items():
        hook = wait.hook(at)
        if _C.is_tensor(key):
            handles.append(key.register_hook(lambda grad, hook=hook: hook((grad,))))
        else:
            node = edges[at[0][0]].node
            handles.append(node.register_prehook(hook))
    return _Handles(handles)


class _Waiting:
    """What has arrived of a hook's gradients, for each backward pass that runs."""

    def __init__(self, count: int, keys: list[Any], fn: Callable[[Any], None], first: bool) -> None:
        self.count, self.keys, self.fn, self.first = count, keys, fn, first
        self.lock = threading.Lock()
        self.passes: dict[int, tuple[list[int], list[Any]]] = {}  # how many are missing; which came

    def hook(self, at: list[tuple[int, int]]) -> Callable[[Any], None]:
        def arrive(grads: Any) -> None:
            number = _C._task_number()
            with self.lock:
                known = self.passes.get(number)
                if known is None:
                    missing = 1 if self.first else sum(_C._task_reaches(self.keys))
                    known = self.passes[number] = [missing], [None] * self.count
                    _C._task_at_end(lambda _: self.end(number))
                missing, came = known
                for i, output in at:
                    came[i] = grads[output]
                if missing[0] <= 0 or (self.first and all(grads[o] is None for _, o in at)):
                    return
                missing[0] -= 1
                if missing[0] > 0:
                    return
            self.call(came)

        return arrive

    def call(self, came: list[Any]) -> None:
        self.fn(next(g for g in came if g is not None) if self.first else tuple(came))

    def end(self, number: int) -> None:
        """The pass is done: gradients that are zero did not go to their nodes."""
        with self.lock:
            (missing,), came = self.passes.pop(number)
        if missing > 0 and not self.first:
            self.call(came)
