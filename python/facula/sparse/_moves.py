"""Copies, dtypes and devices; and what rearranges or picks dims and elements."""

from __future__ import annotations

from typing import Any

import facula
from facula import _C
from facula.sparse import _places
from facula.sparse._convert import made, zero_
from facula.sparse._rules import refusal, rule, rule_of
from facula.sparse._tensor import (
    BSC,
    BSR,
    COALESCED,
    COO,
    CSC,
    CSR,
    Parts,
    SparseTensor,
    block_of,
    build,
    is_sparse_tensor,
    parts,
)

__all__: list[str] = []

_TRANSPOSED = {CSR: CSC, CSC: CSR, BSR: BSC, BSC: BSR}


def _dim(name: str, dim: int, ndim: int) -> int:
    if not -ndim <= dim < ndim:
        raise IndexError(f"{name}(): dim {dim} is out of range for a tensor of {ndim} dims")
    return dim % ndim


def _with(own: Parts, values: Any, indices: Any = None) -> Any:
    return build(own.size, own.kind, values, own.indices if indices is None else indices)


# ---- copies


@rule("clone", "_dense_copy")
def clone(self: Any, *, memory_format: Any = None) -> Any:
    own = parts(self)
    return _with(own, own.values.clone(), tuple(i.clone() for i in own.indices))


@rule("detach")
def detach(self: Any) -> Any:
    own = parts(self, False)
    return _C._make_compound(own.size, own.kind, (own.values.detach(), *own.indices))


rule("zero_")(zero_)


@rule("contiguous", "view_as", "lift_fresh", "alias")
def contiguous(self: Any, *args: Any, **kwargs: Any) -> Any:
    if args and is_sparse_tensor(args[0]) and args[0].shape != self.shape:
        raise refusal("view_as")
    return self


@rule("zeros_like", "empty_like")
def zeros_like(
    self: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Any:
    dtype, device = dtype or self.dtype, device or self.device
    if layout is not None and layout is _C.strided:
        return facula.zeros(self.shape, dtype=dtype, device=device, requires_grad=requires_grad)
    with facula.no_grad():
        found = zero_(clone(detach(self)).to(dtype=dtype, device=device))
    return found.requires_grad_(requires_grad)


@rule("new_zeros", "new_empty")
def new_zeros(self: Any, *size: Any, dtype: Any = None, device: Any = None, **rest: Any) -> Any:
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    return facula.zeros(size, dtype=dtype or self.dtype, device=device or self.device)


# ---- dtypes and devices


def _moved(name: str) -> Any:
    """A method of tensors that gives their elements another dtype or device."""

    def move(self: Any, *args: Any, **kwargs: Any) -> Any:
        own = parts(self)
        plain = [a.new_empty(0) if is_sparse_tensor(a) else a for a in args]
        if own.kind == COO and len(own.values) > 0:
            dtype = getattr(own.values[:0].detach(), name)(*plain, **kwargs).dtype
            if facula.promote_types(dtype, self.dtype) != dtype:
                own = _places.coalesced(own)  # what is rounded are sums
        values = getattr(own.values, name)(*plain, **kwargs)
        if values is own.values:
            return self
        return _with(own, values, tuple(i.to(values.device) for i in own.indices))

    return move


for _name in (
    "to type_as float double half bfloat16 int long short char byte bool cfloat cdouble cpu cuda"
).split():
    rule(_name)(_moved(_name))


@rule("type")
def type_(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    if dtype is None:
        package, _, kind = self._values().type().rpartition(".")
        return f"{package}.sparse.{kind}"
    return _moved("type")(self, dtype)


@rule("to_device", "to_copy", "_to_copy")
def to_device(self: Any, device: Any = None, dtype: Any = None, *rest: Any) -> Any:
    return self.to(device=device or self.device, dtype=dtype or self.dtype)


@rule("pin_memory")
def pin_memory(self: Any, device: Any = None) -> Any:
    own = parts(self)
    return _with(own, own.values.pin_memory(), tuple(i.pin_memory() for i in own.indices))


@rule("is_pinned")
def is_pinned(self: Any, device: Any = None) -> bool:
    return bool(parts(self, False).values.is_pinned())


@rule("share_memory_")
def share_memory_(self: Any) -> Any:
    own = parts(self, False)
    for part in (own.values, *own.indices):
        part.share_memory_()
    return self


@rule("is_shared")
def is_shared(self: Any) -> bool:
    return bool(parts(self, False).values.is_shared())


@rule("record_stream")
def record_stream(self: Any, stream: Any) -> None:
    own = parts(self, False)
    for part in (own.values, *own.indices):
        part.record_stream(stream)


# ---- the order and the number of dims


@rule("t", "adjoint", "numpy_T", "matrix_H", "mH")
def t(self: Any) -> Any:
    if self.dim() > 2:
        raise ValueError(f"t(): expected at most two dims, the tensor is {tuple(self.shape)}")
    return self if self.dim() < 2 else transpose(self, 0, 1)


@rule("transpose", "swapaxes", "swapdims")
def transpose(self: Any, dim0: int, dim1: int) -> Any:
    ndim = self.dim()
    order = list(range(ndim))
    a, b = _dim("transpose", dim0, ndim), _dim("transpose", dim1, ndim)
    order[a], order[b] = b, a
    return permute(self, order)


@rule("permute")
def permute(self: Any, *dims: Any) -> Any:
    dims = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    ndim = self.dim()
    order = [_dim("permute", d, ndim) for d in dims]
    if sorted(order) != list(range(ndim)):
        raise ValueError(f"permute(): {dims} are not the {ndim} dims of the tensor, each once")
    if order == list(range(ndim)):
        return self
    own = parts(self)
    n = own.sparse_dims
    outer, inner = order[:n], order[n:]
    if any(d >= n for d in outer):
        raise RuntimeError(
            f"permute(): sparse dims (the first {n}) and dense ones do not change places; make the "
            "tensor dense before"
        )
    size = tuple(own.size[d] for d in order)
    values = own.values
    if inner != list(range(n, ndim)):
        blocks = len(block_of(own)) + len(own.batch)
        kept = list(range(1 + blocks))
        values = values.permute(*kept, *(d - n + 1 + blocks for d in inner))
    if own.kind > COALESCED:
        if outer == list(range(n)):
            return build(size, own.kind, values, own.indices)
        batch = n - 2
        if outer != [*range(batch), batch + 1, batch]:
            raise RuntimeError(
                "permute(): of a batch of matrices in a compressed layout, the two dims of the "
                "matrices alone change places; make the tensor dense before"
            )
        if block_of(own):
            values = values.transpose(batch + 1, batch + 2)
        return build(size, _TRANSPOSED[own.kind], values, own.indices)
    if outer == list(range(n)):
        return build(size, own.kind, values, own.indices)
    return build(size, COO, values, (own.indices[0][outer],))


@rule("unsqueeze")
def unsqueeze(self: Any, dim: int) -> Any:
    own = _places.as_coo(parts(self))
    dim = _dim("unsqueeze", dim, self.dim() + 1)
    size = (*own.size[:dim], 1, *own.size[dim:])
    n = own.sparse_dims
    if dim > n:
        return made(Parts(size, own.kind, own.values.unsqueeze(dim - n + 1), own.indices))
    where = own.indices[0]
    zeros = where.new_zeros((1, where.shape[1]))
    return made(own._replace(size=size, indices=(facula.cat([where[:dim], zeros, where[dim:]]),)))


@rule("squeeze")
def squeeze(self: Any, *dim: Any) -> Any:
    dims = dim[0] if len(dim) == 1 and not isinstance(dim[0], int) else dim
    ndim = self.dim()
    chosen = {_dim("squeeze", d, ndim) for d in dims} if dim else set(range(ndim))
    chosen = {d for d in chosen if self.shape[d] == 1}
    own = _places.as_coo(parts(self))
    n = own.sparse_dims
    inner = sorted(d - n + 1 for d in chosen if d >= n)
    values = own.values.squeeze(tuple(inner)) if inner else own.values
    size = tuple(s for d, s in enumerate(own.size) if d not in chosen)
    where = own.indices[0][[d for d in range(n) if d not in chosen]]
    return made(Parts(size, own.kind, values, (where,)))


@rule("reshape", "view", "flatten")
def reshape(self: Any, *shape: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    own = _places.as_coo(parts(self))
    if own.sparse_dims != len(own.size):
        raise refusal("reshape", "of a tensor with dense dims")
    given = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    total = _places.count_of(own.size)
    if not shape:  # flatten
        a, b = _dim("flatten", start_dim, self.dim()), _dim("flatten", end_dim, self.dim())
        given = (*own.size[:a], _places.count_of(own.size[a : b + 1]), *own.size[b + 1 :])
    known = _places.count_of(tuple(s for s in given if s != -1))
    if given.count(-1) == 1 and known > 0 and total % known == 0:
        given = tuple(total // known if s == -1 else s for s in given)
    if -1 in given or _places.count_of(given) != total:
        raise ValueError(f"reshape(): {own.size} has {total} elements and does not become {given}")
    where = _places.indices_of(_places.key_of(own.indices[0], own.size), given)
    return made(Parts(given, own.kind, own.values, (where,)))


# ---- picking


def _picked(own: Parts, where: Any, size: tuple[int, ...], kept: Any, kind: int) -> Any:
    return made(Parts(size, kind, own.values.index_select(0, kept), (where,)))


@rule("index_select")
def index_select(self: Any, dim: int, index: Any) -> Any:
    dim = _dim("index_select", dim, self.dim())
    own = _places.as_coo(parts(self))
    n = own.sparse_dims
    index = index.reshape(-1).to(facula.int64)
    size = (*own.size[:dim], len(index), *own.size[dim + 1 :])
    if len(index) and (int(index.min()) < 0 or int(index.max()) >= own.size[dim]):
        raise IndexError(
            f"index_select(): indices must be within dim {dim} of size {own.size[dim]}, they go "
            f"from {int(index.min())} to {int(index.max())}"
        )
    if dim >= n:
        values = own.values.index_select(dim - n + 1, index)
        return made(Parts(size, own.kind, values, own.indices))
    starts, order = _places.groups(own.indices[0][dim], own.size[dim])
    count = (starts[1:] - starts[:-1]).index_select(0, index)
    new = facula.repeat_interleave(facula.arange(len(index), device=index.device), count)
    first = (starts.index_select(0, index) - count.cumsum(0) + count).index_select(0, new)
    kept = order.index_select(0, facula.arange(len(new), device=index.device) + first)
    where = own.indices[0].index_select(1, kept)
    where = facula.cat([where[:dim], new.unsqueeze(0), where[dim + 1 :]])
    found = Parts(size, COO, own.values.index_select(0, kept), (where,))
    return made(_places.coalesced(found) if own.kind == COALESCED else found)


@rule("narrow")
def narrow(self: Any, dim: int, start: Any, length: int) -> Any:
    dim, start = _dim("narrow", dim, self.dim()), int(start)
    size = self.shape[dim]
    start = start + size if start < 0 else start
    if not 0 <= start <= size or not 0 <= length <= size - start:
        raise IndexError(
            f"narrow(): {length} from {start} are not within dim {dim}, which has size {size}"
        )
    own = _places.as_coo(parts(self))
    n = own.sparse_dims
    sizes = (*own.size[:dim], length, *own.size[dim + 1 :])
    if dim >= n:
        values = own.values.narrow(dim - n + 1, start, length)
        return made(Parts(sizes, own.kind, values, own.indices))
    row = own.indices[0][dim]
    kept = facula.nonzero((row >= start) & (row < start + length)).reshape(-1)
    where = own.indices[0].index_select(1, kept)
    where = facula.cat([where[:dim], where[dim : dim + 1] - start, where[dim + 1 :]])
    return _picked(own, where, sizes, kept, own.kind)


@rule("narrow_copy")
def narrow_copy(self: Any, dim: int, start: Any, length: int) -> Any:
    return narrow(self, dim, start, length)


@rule("select")
def select(self: Any, dim: int, index: Any) -> Any:
    dim, index = _dim("select", dim, self.dim()), int(index)
    size = self.shape[dim]
    if not -size <= index < size:
        raise IndexError(f"select(): index {index} is out of range for dim {dim} of size {size}")
    whole = parts(self)
    if dim < len(whole.batch):
        sizes = (*whole.size[:dim], *whole.size[dim + 1 :])
        indices = tuple(i.select(dim, index) for i in whole.indices)
        return build(sizes, whole.kind, whole.values.select(dim, index), indices)
    own = _places.as_coo(parts(self))
    n = own.sparse_dims
    if dim >= n:
        values = own.values.select(dim - n + 1, index)
        sizes = (*own.size[:dim], *own.size[dim + 1 :])
        return made(Parts(sizes, own.kind, values, own.indices))
    one = narrow(self, dim, index % size, 1)
    return _places_sum(parts(one)) if n == 1 else squeeze(one, dim)


def _places_sum(own: Parts) -> Any:
    """What a tensor with one place for values holds there: strided."""
    return own.values.sum(0, dtype=own.values.dtype)


@rule("unbind", "__iter__")
def unbind(self: Any, dim: int = 0) -> tuple[Any, ...]:
    return tuple(select(self, dim, i) for i in range(self.shape[dim]))


@rule("__getitem__", "getitem")
def getitem(self: Any, index: Any) -> Any:
    items = list(index) if isinstance(index, tuple) else [index]
    given = sum(1 for i in items if i is not None and i is not Ellipsis)
    if Ellipsis in [i for i in items if i is Ellipsis]:
        at = next(k for k, i in enumerate(items) if i is Ellipsis)
        items[at : at + 1] = [slice(None)] * (self.dim() - given)
    if given > self.dim():
        raise IndexError(f"too many indices for a sparse tensor of {self.dim()} dims: {given}")
    result, dim = self, 0
    for item in items:
        if not is_sparse_tensor(result):
            return result[tuple(items[items.index(item) :])]
        if item is None:
            result, dim = unsqueeze(result, dim), dim + 1
        elif isinstance(item, slice):
            result, dim = _sliced(result, dim, item), dim + 1
        elif isinstance(item, int) and not isinstance(item, bool):
            result = select(result, dim, item)
        elif _is_places(item) and sum(map(_is_places, items)) == 1:
            places = facula.as_tensor(item, device=self.device)
            if places.dtype == facula.bool:
                places = facula.nonzero(places).reshape(-1)
            places = facula.where(places < 0, places + result.shape[dim], places)
            result, dim = index_select(result, dim, places), dim + 1
        else:
            raise refusal("getitem", "only with integers, slices, None and one list of places")
    return result


def _is_places(item: Any) -> bool:
    if isinstance(item, list):
        return all(isinstance(i, int) for i in item)
    return isinstance(item, facula.Tensor) and not is_sparse_tensor(item) and item.dim() == 1


def _sliced(x: Any, dim: int, item: slice) -> Any:
    size = x.shape[dim]
    start, stop, step = item.indices(size)
    if step < 1:
        raise ValueError(f"a slice must have a step above zero, not {step}")
    if step == 1:
        return x if stop - start == size else narrow(x, dim, start, max(0, stop - start))
    return index_select(x, dim, facula.arange(start, max(start, stop), step, device=x.device))


# ---- joining


@rule("cat", "concat", "concatenate")
def cat(tensors: Any, dim: int = 0) -> Any:
    tensors = list(tensors)
    if not all(is_sparse_tensor(t) for t in tensors):
        raise refusal("cat", "of strided and sparse tensors together")
    first = tensors[0]
    dim = _dim("cat", dim, first.dim())
    all_parts = [_places.as_coo(parts(t)) for t in tensors]
    n = all_parts[0].sparse_dims
    others = [(*p.size[:dim], *p.size[dim + 1 :]) for p in all_parts]
    if any(p.sparse_dims != n for p in all_parts) or len(set(others)) != 1:
        raise ValueError(
            f"cat(): the tensors are {[p.size for p in all_parts]}, with "
            f"{[p.sparse_dims for p in all_parts]} sparse dims; they may differ in dim {dim} alone"
        )
    size = (*others[0][:dim], sum(p.size[dim] for p in all_parts), *others[0][dim:])
    where, values, before = [], [], 0
    for p in all_parts:
        rows, v = p.indices[0], p.values
        if dim < n:
            rows = facula.cat([rows[:dim], rows[dim : dim + 1] + before, rows[dim + 1 :]])
        else:
            around = [*v.shape]
            around[dim - n + 1] = before
            after = [*v.shape]
            after[dim - n + 1] = size[dim] - before - p.size[dim]
            v = facula.cat([v.new_zeros(around), v, v.new_zeros(after)], dim - n + 1)
        where.append(rows)
        values.append(v)
        before += p.size[dim]
    found = Parts(size, COO, facula.cat(values), (facula.cat(where, 1),))
    kind = parts(first, False).kind
    if kind > COALESCED and not block_of(parts(first, False)):
        return made(_places.as_kind(_places.coalesced(found), kind))
    known = all(p.kind == COALESCED for p in all_parts)
    return made(_places.coalesced(found) if known else found)


@rule("stack")
def stack(tensors: Any, dim: int = 0) -> Any:
    if not all(is_sparse_tensor(t) for t in tensors):
        raise refusal("stack", "of strided and sparse tensors together")
    return cat([unsqueeze(t, dim) for t in tensors], dim)


# ---- what only strided tensors have


def _only_strided(name: str) -> Any:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise refusal(name)

    return refuse


for _name in (
    "numpy tolist item data_ptr storage untyped_storage storage_offset stride is_contiguous "
    "__array__ __dlpack__ __setitem__ set_ resize_ as_strided view_as_real view_as_complex"
).split():
    rule(_name)(_only_strided(_name))


# Methods that ask no class when they are called.
_ASKED_DIRECTLY = (
    "is_contiguous is_pinned is_set_to is_shared pin_memory record_stream share_memory_ storage "
    "stride storage_offset tolist type untyped_storage"
).split()
rule("is_set_to")(lambda self, other: self is other)
for _name in _ASKED_DIRECTLY:
    setattr(SparseTensor, _name, rule_of(_name))
