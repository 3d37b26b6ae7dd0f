"""Functions with a hand-written backward."""

from __future__ import annotations

import functools

from facula import _C
from facula.autograd.grad_mode import no_grad

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx(_C._FunctionCtx):
    """What `forward` and `backward` share: any attribute, and tensors by save_for_backward."""

    def save_for_forward(self, *tensors):
        """Keep tensors for `jvp`, as ctx.saved_tensors there."""
        self._for_jvp = tensors


class _JvpCtx:
    """The context as `jvp` sees it: its saved tensors are those of save_for_forward."""

    def __init__(self, ctx):
        self.__dict__["_ctx"] = ctx

    def __getattr__(self, name):
        return getattr(self._ctx, name)

    def __setattr__(self, name, value):
        setattr(self._ctx, name, value)

    @property
    def saved_tensors(self):
        kept = getattr(self._ctx, "_for_jvp", None)
        return self._ctx.saved_tensors if kept is None else kept


class Function(FunctionCtx):
    """An operation with its own formula for gradients.

    Subclasses have static methods `forward(ctx, *args)` and `backward(ctx, *grads)`, which returns
    a gradient or None for each argument of forward. With `setup_context(ctx, inputs, output)`,
    forward takes no ctx. Called by `apply`, never made.

    Forward mode uses `jvp(ctx, *tangents)`, which gives a tangent for each output. Within function
    transforms setup_context is needed; `vmap` uses `vmap(info, in_dims, *args)`, which gives
    `(output, out_dims)`, or with `generate_vmap_rule = True` the other methods.

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

    vjp = backward  # a subclass may name its formula either way

    _node_type = None  # of its nodes' objects, made at the first one

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._node_type = None
        own = cls.__dict__
        if "vjp" in own and "backward" in own:
            raise RuntimeError(
                f"{cls.__name__} has both backward and vjp, which are two names of one formula; "
                "keep one"
            )
        if "vjp" in own:
            cls.backward = own["vjp"]
        elif "backward" in own:
            cls.vjp = own["backward"]

    @staticmethod
    def jvp(ctx, *grad_inputs):
        raise NotImplementedError(
            "the Function has no static method jvp, so it cannot be used in forward mode"
        )

    @staticmethod
    def vmap(info, in_dims, *args):
        raise NotImplementedError("the Function has no static method vmap")

    generate_vmap_rule = False

    @classmethod
    def apply(cls, *args, **kwargs):
        separate = cls.setup_context is not Function.setup_context
        if separate and (kwargs or getattr(cls.forward, "__defaults__", None)):
            args, kwargs = cls._bound(args, kwargs), {}
        if _C._level_depth():
            from facula.autograd import _function_levels

            return _function_levels.apply(cls, Function, args)
        if kwargs:
            return _C._function_apply(cls, FunctionCtx(), False, args, kwargs)
        return cls._apply(*args)

    @classmethod
    def _bound(cls, args, kwargs):
        """All arguments of forward by position, those by default too: setup_context gets them."""
        import inspect

        bound = inspect.signature(cls.forward).bind(*args, **kwargs)
        by_name = dict(bound.kwargs)
        bound.apply_defaults()
        if by_name:
            raise TypeError(
                f"{cls.__name__}.apply(): forward takes {', '.join(by_name)} by name alone; "
                "with setup_context every argument must have a place"
            )
        return bound.args

    @classmethod
    def _apply(cls, *args):
        separate = cls.setup_context is not Function.setup_context
        return _C._function_apply(cls, FunctionCtx(), separate, args)

    @classmethod
    def _tangents(cls, ctx, *tangents):
        found = cls.jvp(_JvpCtx(ctx), *tangents)
        return found if isinstance(found, tuple) else (found,)


class _NotTwice(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(name, count, *tensors):
        return tuple(t.detach() if t is not None else None for t in tensors[:count])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.name = inputs[0]

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(
            f"{ctx.name} is marked once_differentiable, but a gradient of its gradient is asked for"
        )


def once_differentiable(fn):
    """Decorator for `backward`: it is not recorded, and differentiating it again raises.

    For one that computes by other means than operators of tensors, NumPy say: without the decorator
    a second derivative would leave out what was not recorded. Levels of transforms further out
    raise as well.

    >>> import facula
    >>> class Cube(facula.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     @facula.autograd.function.once_differentiable
    ...     def backward(ctx, grad):
    ...         return facula.tensor(3 * ctx.saved_tensors[0].detach().numpy() ** 2) * grad
    >>> x = facula.tensor(2.0, requires_grad=True)
    >>> facula.autograd.grad(Cube.apply(x), x)
    (tensor(12.),)
    """

    @functools.wraps(fn)
    def wrapper(ctx, *grads):
        with no_grad():
            outputs = fn(ctx, *grads)
        kept = ()
        if _C._level_depth():
            kept = ctx.saved_tensors  # levels further out may differentiate by these
        else:
            if not _C.is_grad_enabled():
                return outputs
            if not any(_C.is_tensor(g) and g.requires_grad for g in grads):
                return outputs
        many = isinstance(outputs, tuple)
        tensors = outputs if many else (outputs,)
        marked = _NotTwice.apply(fn.__qualname__, len(tensors), *tensors, *grads, *kept)
        return marked if many else marked[0]

    return wrapper
