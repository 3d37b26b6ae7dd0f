"""The class of sparse tensors, and how autograd goes through one.

A sparse tensor is a compound of the runtime (`Compound` in runtime/core/tensor.h): values and
indices, strided tensors both, under a shape that has no memory of its own. Every call with one asks
this class, from Python by `__torch_function__`, from C++ (the autograd engine) by the runtime;
`_rules` has the answers, which are operators over the components. Its gradient is as sparse as
itself, and may stand anywhere where gradients do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import facula
from facula import _C
from facula.autograd.function import Function

__all__ = [
    "LAYOUTS",
    "Parts",
    "SparseTensor",
    "build",
    "is_sparse_tensor",
    "masked_values",
    "parts",
]

# The numbers by which the runtime knows the layouts.
COO, COALESCED, CSR, CSC, BSR, BSC = range(6)
LAYOUTS = {
    COO: _C.sparse_coo,
    COALESCED: _C.sparse_coo,
    CSR: _C.sparse_csr,
    CSC: _C.sparse_csc,
    BSR: _C.sparse_bsr,
    BSC: _C.sparse_bsc,
}


# What modules above this one do for the class; each enters its own.
_hooks: dict[str, Callable[..., Any]] = {}


def hook(function: Any) -> Any:
    """Decorator: the class calls the function by its name."""
    _hooks[function.__name__] = function
    return function


class Parts(NamedTuple):
    """What a sparse tensor is made of."""

    size: tuple[int, ...]
    kind: int
    values: Any  # (nnz, *dense dims); of a batch of matrices (*batch, nnz, ...)
    indices: tuple[Any, ...]  # COO: (sparse dims, nnz); compressed: of rows (or columns), and plain

    @property
    def batch(self) -> tuple[int, ...]:
        """Sizes of the dims before those of the matrices, which compressed layouts may have."""
        return () if self.kind <= COALESCED else tuple(self.indices[0].shape[:-1])

    @property
    def sparse_dims(self) -> int:
        """How many dims come before the dense ones."""
        return len(self.indices[0]) if self.kind <= COALESCED else 2 + len(self.batch)

    @property
    def nnz(self) -> int:
        """How many values are kept, of each matrix (blocks count as one)."""
        return int(self.values.shape[len(self.batch)])


def is_sparse_tensor(x: Any) -> bool:
    kind = type(x)
    if kind is facula.Tensor or not issubclass(kind, facula.Tensor):
        return False
    return kind is SparseTensor or _C._compound_parts(x) is not None  # a parameter, say


def parts(x: Any, record: bool = True) -> Parts:
    """The components of a sparse tensor, whose gradient goes through the values if `record`."""
    kind, (values, *indices) = _C._compound_parts(x)
    if record and x.requires_grad and _C.is_grad_enabled():
        values = _Values.apply(x)
    return Parts(tuple(x.shape), kind, values, tuple(indices))


def build(size: Any, kind: int, values: Any, indices: tuple[Any, ...]) -> Any:
    """A sparse tensor of components, which have been checked."""
    size = tuple(size)
    # What function transforms differentiate goes on within the values.
    if values.requires_grad and _C.is_grad_enabled() and _C._level_of(values) is None:
        return _Assembled.apply(values, size, kind, *indices)
    if values.requires_grad and _C._level_of(values) is None:
        values = values.detach()
    return _C._make_compound(size, kind, (values, *indices))


def same_places(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Are they the very same indices? Looks at no element."""
    return len(a) == len(b) and all(
        s is t
        or (
            s.shape == t.shape
            and s.data_ptr() == t.data_ptr()
            and s.stride() == t.stride()
            and s.dtype == t.dtype
            and s.device == t.device
        )
        for s, t in zip(a, b, strict=True)
    )


def masked_values(x: Any, of: Parts, block: tuple[int, ...] | None = None) -> Any:
    """The values that `x`, strided or sparse, has in the places of these components."""
    if is_sparse_tensor(x):
        own = parts(x)
        if own.size == of.size and own.kind == of.kind and same_places(own.indices, of.indices):
            return own.values
    if block is None:
        block = block_of(of)
    return _hooks["values_at"](x, of.size, of.kind, of.indices, block)


def block_of(own: Parts) -> tuple[int, ...]:
    """The size of a block; () in layouts without."""
    n = len(own.batch) + 1
    return tuple(own.values.shape[n : n + 2]) if own.kind in (BSR, BSC) else ()


class _Values(Function):
    """A sparse tensor's values; the gradient is as sparse as the tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.of = parts(x, record=False)
        return ctx.of.values.detach()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return build(ctx.of.size, ctx.of.kind, grad, ctx.of.indices)


class _Assembled(Function):
    """A sparse tensor of values; what the gradient has in their places is theirs."""

    @staticmethod
    def forward(ctx: Any, values: Any, size: Any, kind: int, *indices: Any) -> Any:
        ctx.of = Parts(size, kind, None, indices)
        ctx.block = block_of(ctx.of._replace(values=values))
        return _C._make_compound(size, kind, (values.detach(), *indices))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        values = masked_values(grad, ctx.of, ctx.block)
        return (values, None, None, *(None for _ in ctx.of.indices))


class SparseTensor(facula.Tensor):
    """A tensor whose elements are zero but for those that it keeps, in one of the sparse layouts.

    Made by `sparse_coo_tensor`, `sparse_csr_tensor`, ... and `Tensor.to_sparse`; not by the class.
    """

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _hooks["called"](func, types, args, kwargs or {})

    @property
    def layout(self) -> Any:  # type: ignore[override]
        """One of the sparse layouts."""
        return LAYOUTS[_C._compound_parts(self)[0]]

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Is the layout sparse_coo?"""
        return bool(self.layout is _C.sparse_coo)

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Is the layout sparse_csr?"""
        return bool(self.layout is _C.sparse_csr)

    @property
    def T(self) -> Any:  # type: ignore[override]
        return self.t()

    @property
    def mT(self) -> Any:  # type: ignore[override]
        return self.transpose(-2, -1)

    @property
    def H(self) -> Any:  # type: ignore[override]
        return self.t().conj()

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        raise RuntimeError(
            f"nbytes: a tensor of layout {self.layout} has its bytes in its components; add up "
            "those of its indices and values"
        )

    def __repr__(self) -> str:  # type: ignore[override]
        return str(_hooks["text"](self))

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def __deepcopy__(self, memo: Any) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "deepcopy(): only tensors that the user made can be copied, not results of "
                "recorded operations; use t.detach().clone()"
            )
        own = parts(self, record=False)
        copies = [p.clone() for p in (own.values, *own.indices)]
        made = _C._make_compound(own.size, own.kind, tuple(copies))
        memo[id(self)] = made.requires_grad_(self.requires_grad)
        if self.grad is not None:
            from copy import deepcopy

            made.grad = deepcopy(self.grad, memo)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _hooks["reduced"](self)


def _answer(schema: str, variant: int, args: tuple[Any, ...]) -> Any:
    """What the runtime asks for a call that reached C++."""
    return _hooks["answered"](schema, variant, args)


_C._set_compound_class(SparseTensor, _answer)
