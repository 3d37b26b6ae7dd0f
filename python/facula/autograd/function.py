"""Functions with a hand-written backward."""

from __future__ import annotations

import functools

from facula import _C
from facula.autograd.grad_mode import no_grad

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx(_C._FunctionCtx):
    """What `forward` and `backward` share: any attribute, and tensors by save_for_backward."""


class Function(FunctionCtx):
    """An operation with its own formula for gradients.

    Subclasses have static methods `forward(ctx, *args)` and `backward(ctx, *grads)`, which returns
    a gradient or None for each argument of forward. With `setup_context(ctx, inputs, output)`,
    forward takes no ctx. Called by `apply`, never made.

    >>> import facula
    >>> class Double(facula.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = facula.ones(3, requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad
    tensor([2., 2., 2.])
    """

    def __init__(self, *args, **kwargs):
        raise RuntimeError(
            f"{type(self).__name__} is called through its static method apply: "
            f"{type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("a subclass of Function must have a static method forward")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError("setup_context is not defined")

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError(
            "the Function has no static method backward, so it cannot be differentiated"
        )

    @classmethod
    def apply(cls, *args):
        separate = cls.setup_context is not Function.setup_context
        return _C._function_apply(cls, FunctionCtx(), separate, args)


class _NotTwice(Function):
    @staticmethod
    def forward(ctx, name, count, *tensors):
        ctx.name = name
        return tuple(t.detach() if t is not None else None for t in tensors[:count])

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(
            f"{ctx.name} is marked once_differentiable, but a gradient of its gradient is asked for"
        )


def once_differentiable(fn):
    """Decorator for `backward`: it is not recorded, and differentiating it again raises."""

    @functools.wraps(fn)
    def wrapper(ctx, *grads):
        with no_grad():
            outputs = fn(ctx, *grads)
        if not _C.is_grad_enabled():
            return outputs
        if not any(_C.is_tensor(g) and g.requires_grad for g in grads):
            return outputs
        many = isinstance(outputs, tuple)
        tensors = outputs if many else (outputs,)
        marked = _NotTwice.apply(fn.__qualname__, len(tensors), *tensors, *grads)
        return marked if many else marked[0]

    return wrapper
