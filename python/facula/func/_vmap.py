"""vmap: a function of one example becomes one of a batch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import facula
from facula import _C
from facula.autograd._levels import batch_level
from facula.func._levels import named
from facula.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

__all__ = ["vmap"]

_RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that maps `func` over a dim of its arguments, by operators of whole batches.

    Args:
        func: takes tensors without that dim, and other values; gives tensors in any tree.
        in_dims: which dim of each argument is mapped over; an int for all, or a tree with ints or
            None (not mapped: all calls share it) in the places of arguments, or of parts of them.
        out_dims: where the dim stands in the results; an int for all, or a tree as the results.
            None gives a result that does not depend on mapped arguments as it is, a tensor or not.
        randomness: drawing random numbers is an `"error"`, or every call draws `"different"` or
            the `"same"` ones.
        chunk_size: map over so many at a time, which takes less memory; None for all.

    Returns:
        A function of the same arguments, each with its dim more; keyword arguments are not mapped
        over, all calls share them. It nests with itself and with the other transforms.

    Raises:
        ValueError: in_dims or out_dims do not fit, or sizes of mapped dims differ.
        RuntimeError: a value is read within `func` that differs from call to call.

    >>> import facula
    >>> facula.vmap(lambda x, y: x @ y, in_dims=(0, None))(facula.ones(2, 3), facula.ones(3))
    tensor([3., 3.])
    """
    if not callable(func):
        raise TypeError(f"vmap(): func must be callable, not {type(func).__name__}")
    if randomness not in _RANDOMNESS:
        raise RuntimeError(
            f"vmap(): randomness must be 'error', 'different' or 'same', not {randomness!r}"
        )
    if chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size > 0):
        raise ValueError(f"vmap(): chunk_size must be positive or None, not {chunk_size!r}")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if chunk_size is None and not kwargs and type(out_dims) is int:
            found = _mapped(args, in_dims)
            if found is not None:
                return _run_plainly(func, args, *found, out_dims, randomness)
        plan = _Plan(func, in_dims, out_dims, randomness, args, kwargs)
        if chunk_size is None or chunk_size >= plan.size:
            return plan.run(plan.leaves, plan.size)
        return plan.run_in_chunks(chunk_size)

    return wrapper


def _mapped(args: tuple[Any, ...], in_dims: Any) -> tuple[tuple[Any, ...], int] | None:
    """Dims and the batch's size where all arguments are tensors, without trees; else None."""
    if type(in_dims) is int:
        dims: tuple[Any, ...] = (in_dims,) * len(args)
    elif type(in_dims) is tuple and len(in_dims) == len(args):
        dims = in_dims
    else:
        return None
    size = -1
    is_tensor = _C.is_tensor
    for t, dim in zip(args, dims, strict=True):
        if not is_tensor(t):
            return None
        if dim is None:
            continue
        if type(dim) is not int or not -t.dim() <= dim < t.dim():
            return None
        rows = t.size(dim)
        if size not in (-1, rows):
            return None
        size = rows
    return (dims, size) if size >= 0 else None


def _run_plainly(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    dims: tuple[Any, ...],
    size: int,
    out_dim: int,
    randomness: str,
) -> Any:
    with batch_level(size, randomness) as level:
        enter = _C._enter_level
        rows = [
            t if dim is None else enter(t, level, dim) for t, dim in zip(args, dims, strict=True)
        ]
        result = func(*rows)
        if _C.is_tensor(result):
            inner = _leave(func, result, out_dim, level, size)
            return inner if out_dim == 0 else inner.movedim(0, out_dim)
        outputs, spec = tree_flatten(result)
        found = [_leave(func, o, out_dim, level, size) for o in outputs]
    return tree_unflatten([o if out_dim == 0 else o.movedim(0, out_dim) for o in found], spec)


def _leave(func: Callable[..., Any], output: Any, out_dim: Any, level: int, size: int) -> Any:
    """A result with the mapped dim first, or without it where `out_dim` is None."""
    if not _C.is_tensor(output):
        if out_dim is None:
            return output
        raise ValueError(
            f"vmap({named(func)}): the function must return tensors, in any tree, and returned a "
            f"{type(output).__name__}; None in its place of out_dims gives it as it is"
        )
    inner, dim = _C._leave_level(output, level)
    if out_dim is None:
        if dim is not None:
            raise ValueError(
                f"vmap({named(func)}): out_dims has None for a result that differs from call to "
                "call; give the dim where the calls are to stand"
            )
        return inner
    if not -output.dim() - 1 <= out_dim <= output.dim():
        raise IndexError(
            f"vmap({named(func)}): out_dims has {out_dim} for a result of {output.dim()} dims; "
            f"expected {-output.dim() - 1} to {output.dim()}"
        )
    if dim is None:
        return inner.expand(size, *inner.shape)
    return inner if dim == 0 else inner.movedim(dim, 0)


class _Plan:
    """One call: the arguments' leaves, and which dim of each is mapped over."""

    def __init__(
        self,
        func: Callable[..., Any],
        in_dims: Any,
        out_dims: Any,
        randomness: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.func, self.out_dims, self.randomness = func, out_dims, randomness
        self.kwargs = kwargs  # as they are, in all calls
        self.leaves, self.spec = tree_flatten(args)
        if not isinstance(in_dims, int | tuple | list) or isinstance(in_dims, bool):
            raise ValueError(
                f"vmap({named(func)}): in_dims must be an int or a tuple like the arguments, "
                f"not {in_dims!r}"
            )
        if not args:
            shared = "; keyword arguments are shared by all calls" if kwargs else ""
            raise ValueError(
                f"vmap({named(func)}): there are no positional arguments to map over{shared}"
            )
        dims = _spread(tuple(in_dims) if isinstance(in_dims, list) else in_dims, self.spec)
        if dims is None:
            raise ValueError(
                f"vmap({named(func)}): in_dims {in_dims!r} does not fit the arguments, "
                f"which are {_drawn(args)}"
            )
        self.dims = [self._dim(dim, leaf) for dim, leaf in zip(dims, self.leaves, strict=True)]
        self.size = self._size()

    def _dim(self, dim: Any, leaf: Any) -> int | None:
        if dim is None:
            return None
        who = f"vmap({named(self.func)})"
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise ValueError(f"{who}: in_dims holds {dim!r}, and may hold ints and None only")
        if not _C.is_tensor(leaf):
            raise ValueError(
                f"{who}: in_dims has {dim} for an argument of type {type(leaf).__name__}; "
                "only tensors are mapped over, others have None"
            )
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                f"{who}: in_dims has {dim} for a tensor of {leaf.dim()} dims; expected "
                + (f"{-leaf.dim()} to {leaf.dim() - 1}" if leaf.dim() else "None")
            )
        return dim % leaf.dim()

    def _size(self) -> int:
        mapped = zip(self.leaves, self.dims, strict=True)
        sizes = [int(t.shape[d]) for t, d in mapped if d is not None]
        if not sizes:
            raise ValueError(
                f"vmap({named(self.func)}): no argument is mapped over; in_dims must have an int"
            )
        if len(set(sizes)) > 1:
            raise ValueError(
                f"vmap({named(self.func)}): the dims that are mapped over must have one size, "
                f"not {sizes}"
            )
        return sizes[0]

    def run(self, leaves: list[Any], size: int) -> Any:
        outputs, dims, spec = self._outputs(leaves, size)
        placed = [o if d is None else o.movedim(0, d) for o, d in zip(outputs, dims, strict=True)]
        return tree_unflatten(placed, spec)

    def run_in_chunks(self, chunk_size: int) -> Any:
        parts = []
        state = _C.default_generator.get_state()
        for start in range(0, self.size, chunk_size):
            if self.randomness == "same":  # over all parts
                _C.default_generator.set_state(state)
            size = min(chunk_size, self.size - start)
            rows = [
                t if d is None else t.narrow(d, start, size)
                for t, d in zip(self.leaves, self.dims, strict=True)
            ]
            parts.append(self._outputs(rows, size))
        _, dims, spec = parts[0]
        whole = [
            column[0] if d is None else facula.cat(column).movedim(0, d)
            for d, column in zip(dims, zip(*(p[0] for p in parts), strict=True), strict=True)
        ]
        return tree_unflatten(whole, spec)

    def _outputs(self, leaves: list[Any], size: int) -> tuple[list[Any], list[Any], TreeSpec]:
        """Results with the mapped dim first (or without it), and where it is to stand."""
        with batch_level(size, self.randomness) as level:
            rows = [
                t if d is None else _C._enter_level(t, level, d)
                for t, d in zip(leaves, self.dims, strict=True)
            ]
            args = tree_unflatten(rows, self.spec)
            result = self.func(*args, **self.kwargs)
            outputs, spec = tree_flatten(result)
            dims = self._out_dims(spec, result)
            found = [
                _leave(self.func, o, d, level, size) for o, d in zip(outputs, dims, strict=True)
            ]
        return found, dims, spec

    def _out_dims(self, spec: TreeSpec, result: Any) -> list[Any]:
        who = f"vmap({named(self.func)})"
        given = self.out_dims
        if isinstance(given, tuple | list) and len(given) == 1 and spec.is_leaf():
            given = given[0]
        dims = _spread(given, spec)
        if dims is None:
            raise ValueError(
                f"{who}: out_dims {self.out_dims!r} does not fit the results, which are "
                f"{_drawn(result)}"
            )
        for dim in dims:
            if dim is not None and (not isinstance(dim, int) or isinstance(dim, bool)):
                raise ValueError(f"{who}: out_dims holds {dim!r}, and may hold ints and None only")
        return dims


def _drawn(tree: Any) -> str:
    """A tree with the types of its leaves, for messages."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{k!r}: {_drawn(v)}" for k, v in tree.items()) + "}"
    if isinstance(tree, list | tuple):
        parts = ", ".join(map(_drawn, tree))
        if isinstance(tree, list):
            return f"[{parts}]"
        return f"({parts},)" if len(tree) == 1 else f"({parts})"
    return type(tree).__name__


def _spread(dims: Any, spec: TreeSpec) -> list[Any] | None:
    """A value for each leaf of `spec`, of a tree that may end above them; None if it misfits."""
    if dims is None or isinstance(dims, int):
        return [dims] * spec.num_leaves
    leaves, given = tree_flatten(dims)
    if given.is_leaf():
        return [dims] * spec.num_leaves
    return list(itertools.chain(*parts)) if (parts := _parts(leaves, given, spec)) else None


def _parts(leaves: list[Any], given: TreeSpec, spec: TreeSpec) -> list[list[Any]] | None:
    if given.is_leaf():
        return [[leaves[0]] * spec.num_leaves]
    sequences = (list, tuple)
    same = given.type is spec.type or (given.type in sequences and spec.type in sequences)
    if not same or len(given.children_specs) != len(spec.children_specs):
        return None
    if given.type is dict and given.context != spec.context:
        order = {key: i for i, key in enumerate(given.context)}
        if order.keys() != set(spec.context):
            return None
        starts = list(itertools.accumulate((c.num_leaves for c in given.children_specs), initial=0))
        chosen = [order[key] for key in spec.context]
        leaves = [x for i in chosen for x in leaves[starts[i] : starts[i + 1]]]
        given = TreeSpec(dict, spec.context, [given.children_specs[i] for i in chosen])
    found: list[list[Any]] = []
    for inner, outer in zip(given.children_specs, spec.children_specs, strict=True):
        count = inner.num_leaves
        parts = _parts(leaves[:count], inner, outer)
        if parts is None:
            return None
        found += parts
        leaves = leaves[count:]
    return found or [[]]
