"""Looking at the backward graph, and at what it saves."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula import _C

Node = _C.Node
HookHandle = _C.HookHandle

__all__ = [
    "HookHandle",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "save_on_cpu",
    "saved_tensors_hooks",
]

_refusals = threading.local()  # why this thread may not enter hooks now


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

    def __exit__(self, *exc: object) -> None:
        _C._pop_saved_hooks()


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
    """Within the context, tensors that backward needs may be changed in place: copies are saved.

    That takes the memory of all that is saved, whether it is changed or not.

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
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        yield
