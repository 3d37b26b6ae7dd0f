"""Making sparse tensors of their components, and what is checked then."""

from __future__ import annotations

import contextlib
from typing import Any

import facula
from facula._errors import tell_all
from facula.sparse._tensor import (
    BSC,
    BSR,
    COALESCED,
    COO,
    CSC,
    CSR,
    LAYOUTS,
    build,
    is_sparse_tensor,
)

__all__ = [
    "check_sparse_tensor_invariants",
    "kind_of",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
]

_all_invariants = False


def kind_of(layout: Any) -> int:
    """The number of a sparse layout."""
    for kind, known in LAYOUTS.items():
        if known is layout:
            return kind
    raise ValueError(f"the layout must be a sparse one, not {layout}")


def _tensor(x: Any, name: str, who: str, dtype: Any, device: Any) -> Any:
    if is_sparse_tensor(x):
        raise TypeError(f"{who}(): argument '{name}' must be strided, not of layout {x.layout}")
    if isinstance(x, facula.Tensor):
        return x.to(dtype=dtype or x.dtype, device=device or x.device)
    return facula.tensor(x, dtype=dtype, device=device)


def _indices(x: Any, name: str, who: str, device: Any, narrow: bool = False) -> Any:
    t = x if isinstance(x, facula.Tensor) else facula.tensor(x)
    if t.numel() == 0 and not isinstance(x, facula.Tensor):
        t = t.to(facula.int64)
    if t.dtype.is_floating_point or t.dtype.is_complex or t.dtype == facula.bool:
        raise TypeError(f"{who}(): {name} must be integers, not {t.dtype}")
    wanted = t.dtype if narrow and t.dtype in (facula.int32, facula.int64) else facula.int64
    return t.detach().to(device=device, dtype=wanted)


def _sizes(size: Any, who: str) -> tuple[int, ...]:
    sizes = tuple(int(s) for s in size)
    if any(s < 0 for s in sizes):
        raise ValueError(f"{who}(): sizes must be at least 0, got {sizes}")
    return sizes


def _finish(made: Any, values: Any, requires_grad: bool, pin_memory: bool) -> Any:
    if pin_memory:
        made = made.pin_memory()
    return made.requires_grad_() if requires_grad and not values.requires_grad else made


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Any:
    """A tensor of the values at the given places, and zeros elsewhere (layout sparse_coo).

    Args:
        indices: integers (sparse dims, nnz), a column for each value. A place may come twice: its
            values count together.
        values: (nnz, *dense dims), or one number for all.
        size: of the tensor, sparse dims first; without it, as large as the indices ask for. Given
            alone, `sparse_coo_tensor((2, 3))`, it makes an empty one.
        check_invariants: False skips the look at the indices; True also proves `is_coalesced`.
        is_coalesced: says that the indices are in row-major order, each once.

    The result's gradient is that of `values`, if these require one.

    Raises:
        ValueError, IndexError: components that do not fit together; an index beyond its size.

    >>> i = [[0, 1, 1], [2, 0, 2]]
    >>> facula.sparse_coo_tensor(i, [3., 4., 5.], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    who = "sparse_coo_tensor"
    if values is None:
        if size is not None:
            raise TypeError(f"{who}(): values are missing")
        sizes = _sizes(indices, who)
        where = facula.zeros(len(sizes), 0, dtype=facula.int64, device=device)
        none = facula.zeros(0, dtype=dtype, device=device)
        return _finish(build(sizes, COALESCED, none, (where,)), none, requires_grad, pin_memory)
    v = _tensor(values, "values", who, dtype, device)
    i = _indices(indices, "indices", who, v.device)
    if i.dim() == 1 and i.numel() == 0 and v.shape[:1] == (0,):
        i = i.reshape(0 if size is None else len(tuple(size)) - v.dim() + 1, 0)
    if i.dim() != 2:
        raise ValueError(f"{who}(): indices are {tuple(i.shape)}, expected (sparse dims, nnz)")
    if v.dim() == 0:
        v = v.expand(i.shape[1]).clone()
    if v.shape[0] != i.shape[1]:
        raise ValueError(
            f"{who}(): there are {i.shape[1]} columns of indices and {v.shape[0]} values; each "
            "value has a column"
        )
    if size is None:
        if i.shape[1] == 0 and len(i):
            raise ValueError(f"{who}(): without entries the size must be given")
        sizes = (*(int(n) + 1 for n in (i.amax(1).tolist() if len(i) else ())), *v.shape[1:])
    else:
        sizes = _sizes(size, who)
    if len(sizes) != len(i) + v.dim() - 1 or sizes[len(i) :] != tuple(v.shape[1:]):
        raise ValueError(
            f"{who}(): size {sizes} does not fit indices {tuple(i.shape)} and values "
            f"{tuple(v.shape)}: it has the {len(i)} sparse dims, then {tuple(v.shape[1:])}"
        )
    if check_invariants is not False and i.device.type != "meta":
        _check_within(i, sizes, who)
    if is_coalesced and (check_invariants or (check_invariants is None and _all_invariants)):
        _check_rising(i, sizes, who)
    kind = COALESCED if is_coalesced or i.shape[1] == 0 else COO
    return _finish(build(sizes, kind, v, (i,)), v, requires_grad, pin_memory)


def _check_within(indices: Any, sizes: tuple[int, ...], who: str) -> None:
    if indices.numel() == 0:
        return
    low, high = indices.amin(1).tolist(), indices.amax(1).tolist()
    for d, (a, b, n) in enumerate(zip(low, high, sizes, strict=False)):
        if a < 0 or b >= n:
            raise IndexError(
                f"{who}(): dim {d} has size {n} and the index {a if a < 0 else b} is not within it"
            )


def _check_rising(indices: Any, sizes: tuple[int, ...], who: str) -> None:
    from facula.sparse._places import key_of

    key = key_of(indices, sizes[: len(indices)])
    if not bool((key[1:] > key[:-1]).all()):
        raise ValueError(f"{who}(): is_coalesced=True, but the indices do not rise")


def _compressed(
    who: str,
    kind: int,
    compressed: Any,
    plain: Any,
    values: Any,
    size: Any,
    dtype: Any,
    device: Any,
    pin_memory: bool,
    requires_grad: bool,
    check_invariants: bool | None,
) -> Any:
    v = _tensor(values, "values", who, dtype, device)
    by_row = kind in (CSR, BSR)
    names = ("crow_indices", "col_indices") if by_row else ("ccol_indices", "row_indices")
    starts = _indices(compressed, names[0], who, v.device, narrow=True)
    others = _indices(plain, names[1], who, v.device, narrow=True)
    if starts.dtype != others.dtype:
        starts, others = starts.to(facula.int64), others.to(facula.int64)
    block_dims = 2 if kind in (BSR, BSC) else 0
    batch = tuple(starts.shape[:-1])
    n = len(batch)
    if starts.dim() < 1 or tuple(others.shape[:-1]) != batch or starts.dim() != others.dim():
        raise ValueError(
            f"{who}(): {names[0]} are {tuple(starts.shape)} and {names[1]} {tuple(others.shape)}; "
            "expected one dim each, after the same dims of a batch"
        )
    if starts.shape[-1] < 1:
        raise ValueError(
            f"{who}(): {names[0]} are {tuple(starts.shape)}; expected one more than there are "
            f"{'rows' if by_row else 'columns'}"
        )
    if v.dim() < n + 1 + block_dims or v.shape[: n + 1] != others.shape:
        raise ValueError(
            f"{who}(): there are {tuple(others.shape)} {names[1]} and values {tuple(v.shape)}; "
            f"expected one {'block' if block_dims else 'value'} for each"
        )
    block = tuple(v.shape[n + 1 : n + 1 + block_dims]) or (1, 1)
    dense = tuple(v.shape[n + 1 + block_dims :])
    if size is None:
        beyond, lines = int(others.max()) + 1 if others.numel() else 0, starts.shape[-1] - 1
        outer = (lines, beyond) if by_row else (beyond, lines)
        sizes = (*batch, outer[0] * block[0], outer[1] * block[1], *dense)
    else:
        sizes = _sizes(size, who)
    if len(sizes) < n + 2 or sizes[:n] != batch or sizes[n + 2 :] != dense:
        raise ValueError(
            f"{who}(): size {sizes} does not fit values {tuple(v.shape)}: it has "
            f"{f'the batch {batch}, ' if n else ''}two sparse dims, then {dense}"
        )
    high, wide = sizes[n : n + 2]
    if high % max(block[0], 1) or wide % max(block[1], 1) or 0 in block:
        raise ValueError(f"{who}(): blocks of {block} do not divide the size {sizes}")
    outer = (high // block[0], wide // block[1])
    lines, across = outer if by_row else outer[::-1]
    if starts.shape[-1] != lines + 1:
        raise ValueError(
            f"{who}(): {names[0]} has {starts.shape[-1]} numbers, expected {lines + 1} for size "
            f"{sizes}"
        )
    if check_invariants is not False and v.device.type != "meta":
        every = check_invariants or (check_invariants is None and _all_invariants)
        _check_compressed(who, names, starts, others, across, bool(every))
    return _finish(build(sizes, kind, v, (starts, others)), v, requires_grad, pin_memory)


def _check_compressed(
    who: str, names: tuple[str, str], starts: Any, plain: Any, across: int, every: bool
) -> None:
    count = plain.shape[-1]
    begun = bool((starts[..., 0] == 0).all()) and bool((starts[..., -1] == count).all())
    if not begun or not bool((starts[..., 1:] >= starts[..., :-1]).all()):
        raise ValueError(
            f"{who}(): {names[0]} must begin with 0, not fall, and end with the number of entries, "
            f"{count}; it goes from {starts[..., 0].tolist()} to {starts[..., -1].tolist()}"
        )
    if plain.numel() == 0:
        return
    low, high = int(plain.min()), int(plain.max())
    if low < 0 or high >= across:
        raise IndexError(
            f"{who}(): {names[1]} must be within 0 to {across - 1}, but one is "
            f"{low if low < 0 else high}"
        )
    if every:
        first = facula.zeros(*plain.shape[:-1], count + 1, dtype=facula.bool, device=plain.device)
        first = first.scatter(-1, starts.to(facula.int64), True)
        if not bool(((plain[..., 1:] > plain[..., :-1]) | first[..., 1:-1]).all()):
            raise ValueError(f"{who}(): {names[1]} must rise within each row or column")


_DOC = """A matrix by compressed {lines} (layout {layout}).

    Args:
        {starts}: integers, one more than there are {outer}: where the entries of each begin, and
            the end.
        {plain}: integers (nnz,): the {inner} of each entry.
        values: (nnz, {block}*dense dims). Of a batch of matrices with as many entries each, the
            dims of the batch come before, in all three.
        size: of the tensor; without it, as large as the indices ask for.
        check_invariants: False skips the look at the indices; True also wants them to rise
            within each of the compressed {lines}.

    Raises:
        ValueError, IndexError: components that do not fit together; an index beyond its size.
    """


def _maker(name: str, kind: int, starts: str, plain: str) -> Any:
    def make(
        compressed: Any,
        plain: Any,
        values: Any,
        size: Any = None,
        *,
        dtype: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        check_invariants: bool | None = None,
    ) -> Any:
        rest = (size, dtype, device, pin_memory, requires_grad, check_invariants)
        return _compressed(name, kind, compressed, plain, values, *rest)

    def named(*args: Any, **kwargs: Any) -> Any:
        for given, own in ((starts, "compressed"), (plain, "plain")):
            if given in kwargs:
                kwargs[own] = kwargs.pop(given)
        return make(*args, **kwargs)

    by_row, blocks = kind in (CSR, BSR), kind in (BSR, BSC)
    named.__name__ = named.__qualname__ = name
    named.__module__ = "facula.sparse"
    named.__doc__ = _DOC.format(
        lines=("rows" if by_row else "columns") + (" of blocks" if blocks else ""),
        layout=name[:-7],
        starts=starts,
        plain=plain,
        outer="rows" if by_row else "columns",
        inner="column" if by_row else "row",
        block="rows and columns of a block, " if blocks else "",
    )
    return named


sparse_csr_tensor = _maker("sparse_csr_tensor", CSR, "crow_indices", "col_indices")
sparse_csc_tensor = _maker("sparse_csc_tensor", CSC, "ccol_indices", "row_indices")
sparse_bsr_tensor = _maker("sparse_bsr_tensor", BSR, "crow_indices", "col_indices")
sparse_bsc_tensor = _maker("sparse_bsc_tensor", BSC, "ccol_indices", "row_indices")


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:
    """`sparse_csr_tensor` and its like, by the layout."""
    if layout is None or (kind := kind_of(layout)) <= COALESCED:
        raise ValueError(
            "sparse_compressed_tensor(): layout must be sparse_csr, sparse_csc, sparse_bsr or "
            f"sparse_bsc, not {layout}"
        )
    rest = (size, dtype, device, pin_memory, requires_grad, check_invariants)
    who = "sparse_compressed_tensor"
    return _compressed(who, kind, compressed_indices, plain_indices, values, *rest)


class check_sparse_tensor_invariants(contextlib.ContextDecorator):
    """Whether all invariants are checked where `check_invariants` is not given: order, too.

    A context, a decorator, or a switch for the process: `enable()`, `disable()`, `is_enabled()`.
    Sizes, and that indices lie within them, are looked at in any case.
    """

    def __init__(self, enable: bool = True) -> None:
        self._wanted = enable
        self._before: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Are they checked?"""
        return _all_invariants

    @staticmethod
    def enable() -> None:
        """Check them from now on."""
        global _all_invariants
        _all_invariants = True

    @staticmethod
    def disable() -> None:
        """Check no more than what could lead out of the tensor."""
        global _all_invariants
        _all_invariants = False

    def __enter__(self) -> check_sparse_tensor_invariants:
        global _all_invariants
        self._before.append(_all_invariants)
        _all_invariants = self._wanted
        return self

    def __exit__(self, *error: Any) -> None:
        global _all_invariants
        _all_invariants = self._before.pop()


tell_all(globals(), __all__)
