"""Hooks of a module: before and after `forward`, and around its backward."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import facula
from facula.nn.modules import _global_hooks as everywhere
from facula.utils.hooks import RemovableHandle

__all__ = ["BackwardHooks", "HookMixin"]


class HookMixin:
    """The registration half of `Module`'s hooks; `Module.__call__` runs them."""

    _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _backward_hooks: OrderedDict[int, Callable[..., Any]]
    _backward_pre_hooks: OrderedDict[int, Callable[..., Any]]

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before `forward`; what it returns, if not None, replaces args.

        With `with_kwargs` it is `hook(module, args, kwargs)` and returns None or (args, kwargs).
        """
        flags = self._forward_pre_hooks_with_kwargs
        handle = _add(self._forward_pre_hooks, hook, prepend, [flags])
        if with_kwargs:
            flags[handle.id] = True
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after `forward`; a result not None replaces output.

        With `with_kwargs` it is `hook(module, args, kwargs, output)`. With `always_call` it also
        runs, with output None, when `forward` or another hook raised.
        """
        flags, always = self._forward_hooks_with_kwargs, self._forward_hooks_always_called
        handle = _add(self._forward_hooks, hook, prepend, [flags, always])
        if with_kwargs:
            flags[handle.id] = True
        if always_call:
            always[handle.id] = True
        return handle

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradient reaches the inputs.

        Both are tuples over the positional inputs and over the outputs, None where there is no
        gradient. A tuple that the hook returns replaces grad_input.
        """
        return _add(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` before the module's backward; its result replaces it."""
        return _add(self._backward_pre_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older name of `register_full_backward_hook`, which this is."""
        return self.register_full_backward_hook(hook)


def _add(
    hooks: OrderedDict[int, Any], hook: Callable[..., Any], prepend: bool, extra: Any = None
) -> RemovableHandle:
    if not callable(hook):
        raise TypeError(f"hook is {type(hook).__name__}, expected a callable")
    handle = RemovableHandle(hooks, extra_dict=extra)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class BackwardHooks:
    """One forward call's record: wraps inputs and outputs in identity nodes that run the hooks."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.hooks = [*everywhere.backward.values(), *module._backward_hooks.values()]
        self.pre_hooks = [*everywhere.backward_pre.values(), *module._backward_pre_hooks.values()]
        self.grad_outputs: tuple[Any, ...] | None = None
        self.input_count = 0
        self.input_positions: list[int] | None = None

    def wrap_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Pass the tensors among the positional inputs through the node that runs the hooks."""
        if not self.hooks or not facula.is_grad_enabled():
            return args
        positions = [i for i, a in enumerate(args) if isinstance(a, facula.Tensor)]
        if not any(args[i].requires_grad for i in positions):
            self.input_count = len(args)
            return args
        self.input_count, self.input_positions = len(args), positions
        wrapped = _boundary().apply(self._at_input, *(args[i] for i in positions))
        result = list(args)
        for i, tensor in zip(positions, wrapped, strict=True):
            result[i] = tensor
        return tuple(result)

    def wrap_outputs(self, output: Any) -> Any:
        """Pass the tensors of the output through the node that notes grad_output."""
        if not facula.is_grad_enabled():
            return output
        if isinstance(output, facula.Tensor):
            outputs: tuple[Any, ...] = (output,)
        elif isinstance(output, (tuple, list)):
            outputs = tuple(output)
        else:
            return output
        positions = [i for i, a in enumerate(outputs) if isinstance(a, facula.Tensor)]
        if not any(outputs[i].requires_grad for i in positions):
            return output

        def at_output(grads: tuple[Any, ...]) -> tuple[Any, ...]:
            full: list[Any] = [None] * len(outputs)
            for i, grad in zip(positions, grads, strict=True):
                full[i] = grad
            full = list(self._at_output(tuple(full)))
            return tuple(full[i] for i in positions)

        wrapped = _boundary().apply(at_output, *(outputs[i] for i in positions))
        if isinstance(output, facula.Tensor):
            return wrapped[0]
        result = list(outputs)
        for i, tensor in zip(positions, wrapped, strict=True):
            result[i] = tensor
        if hasattr(output, "_fields"):
            return type(output)(*result)
        return type(output)(result)

    def _at_output(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.pre_hooks:
            grads = _replaced(hook(self.module, grads), grads, "grad_output")
        self.grad_outputs = grads
        if self.input_positions is None:
            # No input asks for a gradient, so nothing will arrive there: this is the last moment.
            for hook in self.hooks:
                if hook(self.module, (None,) * self.input_count, grads) is not None:
                    raise RuntimeError(
                        "a full backward hook returned a grad_input, but no input of "
                        f"{type(self.module).__name__} requires a gradient"
                    )
        return grads

    def _at_input(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        assert self.input_positions is not None
        full: list[Any] = [None] * self.input_count
        for i, grad in zip(self.input_positions, grads, strict=True):
            full[i] = grad
        result = tuple(full)
        for hook in self.hooks:
            result = _replaced(
                hook(self.module, result, self.grad_outputs or ()), result, "grad_input"
            )
        return tuple(result[i] for i in self.input_positions)


def _replaced(new: Any, old: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    if new is None:
        return old
    new = new if isinstance(new, tuple) else (new,)
    if len(new) != len(old):
        raise RuntimeError(f"a backward hook returned {len(new)} {what}s, expected {len(old)}")
    return new


_boundary_class: Any = None


def _boundary() -> Any:
    # Made on first use: `facula.autograd` need not be loaded to define a module.
    global _boundary_class
    if _boundary_class is None:
        from facula.autograd import Function

        class ModuleBoundary(Function):
            """Identity on tensors whose backward hands all gradients to one callback."""

            @staticmethod
            def forward(ctx: Any, callback: Any, *tensors: Any) -> Any:
                ctx.set_materialize_grads(False)
                ctx.callback = callback
                ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
                return tensors

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return None, *ctx.callback(grads)

        _boundary_class = ModuleBoundary
    return _boundary_class
