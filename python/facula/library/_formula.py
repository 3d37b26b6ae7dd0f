"""Gradients and batches of operators that programs define, and what is checked of their memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import facula
from facula import _C
from facula.autograd import Function
from facula.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

__all__ = ["Formula", "cast", "check_memory", "count_writes", "recorded"]


@dataclass
class Formula:
    """The derivative of an operator: what is kept of a call, and gradients from gradients."""

    backward: Callable[..., Any]
    setup_context: Callable[..., Any] | None


class _Call:
    """A call of an operator: how its tensors make its arguments, and its results."""

    def __init__(self, operator: Any, spec: TreeSpec, named: dict[str, Any]) -> None:
        self.operator, self.spec, self.named = operator, spec, named
        self.results: TreeSpec | None = None
        self.is_tensor: list[bool] = []

    def arguments(self, leaves: Any) -> tuple[Any, ...]:
        """The arguments by place, of leaves."""
        return tuple(tree_unflatten(list(leaves), self.spec))

    def leaves_of(self, result: Any) -> tuple[Any, ...]:
        """The results in a row; their form is kept."""
        leaves, self.results = tree_flatten(result)
        self.is_tensor = [_C.is_tensor(v) for v in leaves]
        return tuple(leaves)

    def result(self, leaves: Any) -> Any:
        """The results in their form."""
        assert self.results is not None
        return tree_unflatten(list(leaves), self.results)


class _Context:
    """The context as a formula sees it: `needs_input_grad` has the form of the arguments."""

    def __init__(self, ctx: Any, call: _Call) -> None:
        self.__dict__.update(_ctx=ctx, _call=call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)

    @property
    def needs_input_grad(self) -> tuple[Any, ...]:
        """For each argument, or each item of a list, whether its gradient is asked for."""
        return self._call.arguments(self._ctx.needs_input_grad[1:])


class _Recorded(Function):
    """A call with its formula. The first input is the `_Call`; the others are leaves."""

    @staticmethod
    def forward(call: _Call, *leaves: Any) -> Any:
        return call.leaves_of(call.operator.run(call.arguments(leaves), call.named))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        call = inputs[0]
        ctx._program_call = call
        formula = call.operator._formula
        if formula is None or formula.setup_context is None:
            return
        given = [_Context(ctx, call), call.arguments(inputs[1:])]
        if call.operator._by_name:
            given.append(call.named)
        formula.setup_context(*given, call.result(output))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        call = ctx._program_call
        operator = call.operator
        if operator._formula is None:
            raise RuntimeError(
                f"Trying to backward through {operator} but no autograd formula was registered. "
                f"Please use register_autograd to add one."
            )
        known = [
            g if is_tensor else None for g, is_tensor in zip(grads, call.is_tensor, strict=True)
        ]
        several = call.result(known)
        given = several if isinstance(several, tuple) else (several,)
        found = operator._formula.backward(_Context(ctx, call), *given)
        found = found if isinstance(found, tuple) else (found,)
        return (None, *_gradients(call, found))

    @staticmethod
    def vmap(info: Any, in_dims: Any, call: _Call, *leaves: Any) -> Any:
        operator = call.operator
        dims = call.arguments(in_dims[1:])
        if operator._batching is None:
            return _one_by_one(info, in_dims[1:], call, leaves)
        result, out_dims = operator._batching(info, dims, *call.arguments(leaves), **call.named)
        flat = call.leaves_of(result)
        return flat, _spread(out_dims, len(flat))


def _spread(dims: Any, count: int) -> tuple[Any, ...]:
    if dims is None or isinstance(dims, int):
        return (dims,) * count
    flat = tuple(tree_flatten(dims, is_leaf=lambda d: d is None)[0])
    return flat if len(flat) == count else flat * count


def _gradients(call: _Call, found: tuple[Any, ...]) -> list[Any]:
    """Gradients in the form of the arguments, as a row."""
    specs = call.spec.children_specs
    if len(found) != len(specs):
        raise RuntimeError(
            f"{call.operator}: its formula gave {len(found)} gradients for {len(specs)} arguments "
            f"by place; give None for those without one"
        )
    row: list[Any] = []
    for number, (grad, spec) in enumerate(zip(found, specs, strict=True)):
        if spec.is_leaf():
            row.append(grad)
        elif grad is None:
            row += [None] * spec.num_leaves
        elif isinstance(grad, (list, tuple)) and len(grad) == spec.num_leaves:
            row += list(grad)
        else:
            raise RuntimeError(
                f"{call.operator}: argument {number} is a list of {spec.num_leaves}, and its "
                f"formula must give a list of as many gradients for it, or None"
            )
    return row


def _one_by_one(info: Any, dims: Any, call: _Call, leaves: Any) -> Any:
    """The results of a batch, one call a row: what is true of every operator."""
    warnings.warn(
        f"{call.operator.name()} has no rule for vmap and is called once for each of "
        f"{info.batch_size} rows; register_vmap gives it a rule",
        stacklevel=2,
    )
    if info.batch_size == 0:
        raise RuntimeError(
            f"{call.operator.name()}: a batch of no rows needs a rule for vmap; register_vmap "
            f"gives it one"
        )
    rows = []
    for number in range(info.batch_size):
        row = [v if d is None else v.select(d, number) for v, d in zip(leaves, dims, strict=True)]
        rows.append(call.leaves_of(call.operator(*call.arguments(row), **call.named)))
    columns = [
        facula.stack(list(column)) if _C.is_tensor(column[0]) else column[0]
        for column in zip(*rows, strict=True)
    ]
    return tuple(columns), tuple(0 if _C.is_tensor(c) else None for c in columns)


def recorded(operator: Any, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The result of a call, which gradients pass and which may be a row of a batch."""
    leaves, spec = tree_flatten(values)
    call = _Call(operator, spec, named)
    out = _Recorded.apply(call, *leaves)
    return call.result(out)


def cast(values: Any, device: str, dtype: Any) -> Any:
    """The arguments, with floating-point tensors of a type of device in another dtype."""

    def one(value: Any) -> Any:
        if (
            _C.is_tensor(value)
            and value.is_floating_point()
            and value.device.type == device
            and value.dtype != facula.float64
        ):
            return value.to(dtype)
        return value

    return tree_map(one, values)


def _memory(values: Any) -> list[Any]:
    return [v for v in tree_flatten(values)[0] if _C.is_tensor(v) and v.device.type != "meta"]


def check_memory(operator: Any, values: Any, named: Any, result: Any) -> None:
    """Raises RuntimeError if a result shares memory with an argument, or with another result."""
    kept = {t.untyped_storage().data_ptr() for t in _memory((values, named)) if t.numel()}
    for t in _memory(result):
        if not t.numel():
            continue
        place = t.untyped_storage().data_ptr()
        if place in kept:
            raise RuntimeError(
                f"{operator.name()}: The output of this custom operator (1) must not also be an "
                f"input to this custom operator and (2) may not alias any inputs to this custom "
                f"operator or other returns. Return a copy, x.clone() say"
            )
        kept.add(place)


def count_writes(operator: Any, values: Any, named: Any) -> None:
    """Notes that arguments were written to, for those who kept them for a gradient."""
    given = [*zip(operator._positional, values, strict=True)]
    given += [(a, named[a.name]) for a in operator._by_name]
    written = [t for a, v in given if a.is_write for t in tree_flatten(v)[0] if _C.is_tensor(t)]
    if written:
        facula.autograd.graph.increment_version(written)
