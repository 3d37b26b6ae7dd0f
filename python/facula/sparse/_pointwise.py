"""Sums, differences, products and comparisons, element by element."""

from __future__ import annotations

from typing import Any

import facula
from facula.sparse import _places
from facula.sparse._convert import made
from facula.sparse._rules import refusal, rule, write
from facula.sparse._tensor import (
    COALESCED,
    COO,
    Parts,
    block_of,
    build,
    is_sparse_tensor,
    masked_values,
    parts,
    same_places,
)

__all__: list[str] = []


def _is_number(x: Any) -> bool:
    return not is_sparse_tensor(x) and (not isinstance(x, facula.Tensor) or x.dim() == 0)


def _check_same(name: str, a: Any, b: Any) -> None:
    if a.shape != b.shape:
        raise ValueError(
            f"{name}(): sparse tensors are not broadcast, and the shapes are {tuple(a.shape)} and "
            f"{tuple(b.shape)}"
        )


# ---- sums


@rule("add", "__add__", "__radd__")
def add(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    if _is_number(other) or _is_number(self):
        raise refusal("add", "a number added to all elements leaves none zero")
    _check_same("add", self, other)
    if is_sparse_tensor(self) and is_sparse_tensor(other):
        return _sum(parts(self), parts(other), alpha)
    if is_sparse_tensor(other):
        return _onto(self, parts(other), alpha)
    return _onto(other if alpha == 1 else other * alpha, parts(self), 1)


@rule("sub", "subtract", "__sub__")
def sub(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return add(self, other, alpha=-alpha)


@rule("rsub", "__rsub__")
def rsub(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return add(other, self, alpha=-alpha)


def _times(values: Any, alpha: Any) -> Any:
    return values if isinstance(alpha, (int, float)) and alpha == 1 else values * alpha


def _sum(a: Parts, b: Parts, alpha: Any) -> Any:
    if a.kind == b.kind and same_places(a.indices, b.indices) and block_of(a) == block_of(b):
        return build(a.size, a.kind, a.values + _times(b.values, alpha), a.indices)
    kind = a.kind if a.kind > COALESCED and block_of(a) == () else COALESCED
    plain = a.kind == COO or b.kind == COO
    left, right = _places.as_coo(a), _places.as_coo(b)
    if left.sparse_dims != right.sparse_dims:
        raise ValueError(
            f"add(): the tensors have {left.sparse_dims} and {right.sparse_dims} sparse dims; "
            "bring them to one number with x.to_dense().to_sparse(n)"
        )
    dtype = facula.result_type(left.values, right.values)
    values = [left.values.to(dtype), _times(right.values, alpha).to(dtype)]
    where = facula.cat([left.indices[0], right.indices[0]], 1)
    both = Parts(a.size, COO, facula.cat(values), (where,))
    if plain and a.kind <= COALESCED:
        return made(both)  # values in one place count together anyway
    return made(_places.as_kind(_places.coalesced(both), kind))


def _onto(dense: Any, own: Parts, alpha: Any) -> Any:
    """dense + alpha * the sparse tensor: strided."""
    own = _places.as_coo(own)
    n = own.sparse_dims
    dtype = facula.result_type(dense, own.values)
    key = _places.key_of(own.indices[0], own.size[:n])
    flat = dense.to(dtype).reshape(_places.count_of(own.size[:n]), *own.size[n:])
    if isinstance(alpha, facula.Tensor):
        alpha = alpha.item()
    return flat.index_add(0, key, own.values.to(dtype), alpha=alpha).reshape(own.size)


@rule("add_", "__iadd__")
def add_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    if is_sparse_tensor(self):
        if not is_sparse_tensor(other):
            raise RuntimeError(
                "add_(): a strided tensor is added to a sparse one in place, which cannot become "
                "strided; use x = other + x"
            )
        return write(self, add(self, other, alpha=alpha))
    _check_same("add_", self, other)
    own = _places.as_coo(parts(other))
    if facula.result_type(self, own.values) != self.dtype:
        own = own._replace(values=own.values.to(self.dtype))
    values = own.values.to(self.dtype)
    n = own.sparse_dims
    if isinstance(alpha, facula.Tensor):
        alpha = alpha.item()
    if self.is_contiguous():
        flat = self.view(_places.count_of(own.size[:n]), *own.size[n:])
        flat.index_add_(0, _places.key_of(own.indices[0], own.size[:n]), values, alpha=alpha)
        return self
    return self.index_put_(tuple(own.indices[0]), _times(values, alpha), accumulate=True)


@rule("sub_", "subtract_", "__isub__")
def sub_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return add_(self, other, alpha=-alpha)


@rule("sum_to_size")
def sum_to_size(self: Any, *size: Any) -> Any:
    wanted = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    if wanted != tuple(self.shape):
        raise refusal("sum_to_size", f"to {wanted}")
    return self


# ---- products


@rule("mul", "multiply", "__mul__", "__rmul__")
def mul(self: Any, other: Any) -> Any:
    if not is_sparse_tensor(self):
        self, other = other, self
    own = parts(self)
    if _is_number(other):
        return build(own.size, own.kind, own.values * other, own.indices)
    if is_sparse_tensor(other):
        _check_same("mul", self, other)
        return _common(own, parts(other))
    # In places with several values each is multiplied.
    whole = _broadcast("mul", self, other)
    return build(own.size, own.kind, own.values * masked_values(whole, own), own.indices)


def _broadcast(name: str, x: Any, dense: Any) -> Any:
    try:
        return dense.expand(x.shape)
    except (RuntimeError, ValueError):
        raise ValueError(
            f"{name}(): the strided operand is {tuple(dense.shape)}, which does not broadcast to "
            f"the sparse one's {tuple(x.shape)}"
        ) from None


def _common(a: Parts, b: Parts) -> Any:
    """The product of two: in places that both keep."""
    if a.kind == b.kind != COO and same_places(a.indices, b.indices) and block_of(a) == block_of(b):
        return build(a.size, a.kind, a.values * b.values, a.indices)
    left, right = _places.coalesced(_places.as_coo(a)), _places.coalesced(_places.as_coo(b))
    n = left.sparse_dims
    if n != right.sparse_dims:
        raise ValueError(f"mul(): the tensors have {n} and {right.sparse_dims} sparse dims")
    keys = [_places.key_of(p.indices[0], a.size[:n]) for p in (left, right)]
    at, there = _places.found_in(keys[1], keys[0])
    kept = facula.nonzero(there).reshape(-1)
    values = left.values.index_select(0, kept) * right.values.index_select(0, at[kept])
    where = left.indices[0].index_select(1, kept)
    both = Parts(a.size, COALESCED, values, (where,))
    return made(_places.as_kind(both, a.kind) if a.kind > COALESCED and not block_of(a) else both)


@rule("div", "divide", "true_divide", "__truediv__")
def div(self: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    if not is_sparse_tensor(self):
        raise refusal("div", "a number divided by zeros is no sparse tensor")
    own = parts(self)
    if rounding_mode is not None and own.kind == COO:
        own = _places.coalesced(own)
    if _is_number(other):
        values = facula.div(own.values, other, rounding_mode=rounding_mode)
        return build(own.size, own.kind, values, own.indices)
    if is_sparse_tensor(other):
        raise refusal("div", "0 / 0 has no value")
    whole = masked_values(_broadcast("div", self, other), own)
    values = facula.div(own.values, whole, rounding_mode=rounding_mode)
    return build(own.size, own.kind, values, own.indices)


@rule("neg", "negative", "__neg__")
def neg(self: Any) -> Any:
    own = parts(self)
    return build(own.size, own.kind, -own.values, own.indices)


@rule("conj", "conj_physical", "resolve_conj", "resolve_neg")
def conj(self: Any) -> Any:
    own = parts(self)
    return build(own.size, own.kind, own.values.conj(), own.indices)


@rule("pow", "__pow__")
def pow(self: Any, exponent: Any) -> Any:
    if not is_sparse_tensor(self) or not isinstance(exponent, (int, float)) or not exponent > 0:
        raise refusal("pow", "only with a number above zero as the exponent")
    own = parts(self)
    own = _places.coalesced(own) if own.kind == COO else own
    return build(own.size, own.kind, own.values**exponent, own.indices)


# ---- in place, and comparisons of whole tensors


@rule("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    if not is_sparse_tensor(self):
        return self.copy_(src.to_dense())
    if not is_sparse_tensor(src):
        src = src.to_sparse(layout=self.layout)
    return write(self, src.clone())


@rule("equal")
def equal(self: Any, other: Any) -> bool:
    if self.shape != other.shape or self.dtype != other.dtype:
        return False
    if not (is_sparse_tensor(self) and is_sparse_tensor(other)):
        return bool(facula.equal(_strided(self), _strided(other)))
    a, b = _aligned(self, other)
    return bool(facula.equal(a, b))


@rule("allclose")
def allclose(
    self: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    if self.shape != other.shape:
        raise ValueError(
            f"allclose(): the shapes are {tuple(self.shape)} and {tuple(other.shape)}, expected one"
        )
    if not (is_sparse_tensor(self) and is_sparse_tensor(other)):
        return bool(facula.allclose(_strided(self), _strided(other), rtol, atol, equal_nan))
    return bool(facula.allclose(*_aligned(self, other), rtol, atol, equal_nan))


def _strided(x: Any) -> Any:
    return x.to_dense() if is_sparse_tensor(x) else x


def _aligned(a: Any, b: Any) -> tuple[Any, Any]:
    """Values of both in all places that one of them keeps."""
    with facula.no_grad():
        left, right = _places.as_coo(parts(a)), _places.as_coo(parts(b))
        if left.sparse_dims != right.sparse_dims:
            return a.to_dense(), b.to_dense()
        where = facula.cat([left.indices[0], right.indices[0]], 1)
        nothing = facula.zeros(where.shape[1], device=where.device)
        sizes = left.size[: left.sparse_dims]
        union = _places.coalesced(Parts(sizes, COO, nothing, (where,)))
        at = union._replace(size=left.size)
        return masked_values(a, at), masked_values(b, at)
