"""Products of groups of matrices, and of matrices with scales of their parts."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import facula

__all__ = [
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "DType",
    "ScalingType",
    "SwizzleType",
    "assert_int_or_pair",
    "boolean_dispatch",
    "grouped_mm",
    "scaled_grouped_mm",
    "scaled_mm",
]

DType = int


class _Lists:
    """`BroadcastingList2[int]` in annotations: a list of two, or one that stands for both."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = _Lists()
BroadcastingList2 = _Lists()
BroadcastingList3 = _Lists()


class ScalingType(enum.Enum):
    """Which part of a matrix a scale is of."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.Enum):
    """In which order scales lie; on the CPU in theirs."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """AssertionError unless `arg` is an int or has two items."""
    assert isinstance(arg, int) or len(arg) == 2, message.format(arg_name)


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """A function that is one of two by the truth of an argument."""

    def function(*args: Any, **kwargs: Any) -> Any:
        flag = args[arg_index] if arg_index < len(args) else kwargs.get(arg_name, default)
        return (if_true if flag else if_false)(*args, **kwargs)

    function.__name__ = func_name
    function.__module__ = module_name
    function.__doc__ = if_true.__doc__ or if_false.__doc__
    return function


def _ends(offs: Any, total: int, caller: str) -> list[int]:
    if offs is None:
        raise ValueError(f"{caller}(): a matrix of two dims is cut into groups by offs")
    ends = [int(e) for e in offs]
    if any(b < a for a, b in zip([0, *ends], ends, strict=False)) or (ends and ends[-1] > total):
        raise ValueError(f"{caller}(): offs must not fall, nor pass {total}; got {ends}")
    return ends


def grouped_mm(
    mat_a: Any,
    mat_b: Any,
    *,
    offs: Any = None,
    bias: Any = None,
    out_dtype: Any = None,
) -> Any:
    """Products of groups of matrices, as of experts with tokens of their own number.

    Args:
        mat_a: (groups, m, k); or (m, k), whose rows, or where mat_b has two dims too whose columns,
            `offs` cuts into groups.
        mat_b: (groups, k, n); or (k, n), whose columns, or as above rows, `offs` cuts into groups.
        offs: int32 (groups,): where each group ends. Rows or columns after the last give zeros.
        bias: added to the results.
        out_dtype: of the result; that of mat_a by default.

    Returns:
        (groups, m, n) where both have two dims or both three; else (m, n).

    >>> import facula
    >>> a, b = facula.ones(3, 2), facula.stack([facula.eye(2), 2 * facula.eye(2)])
    >>> facula.nn.functional.grouped_mm(a, b, offs=facula.tensor([1, 3]))
    tensor([[1., 1.],
            [2., 2.],
            [2., 2.]])
    """
    two = (mat_a.dim() == 2, mat_b.dim() == 2)
    if mat_a.dim() not in (2, 3) or mat_b.dim() not in (2, 3):
        raise ValueError(
            f"grouped_mm(): mat_a is {tuple(mat_a.shape)}, mat_b {tuple(mat_b.shape)}; expected "
            f"two or three dims of each"
        )
    if mat_a.size(-1) != mat_b.size(-2):
        raise ValueError(
            f"grouped_mm(): {tuple(mat_a.shape)} and {tuple(mat_b.shape)} cannot be multiplied"
        )
    if two == (False, False):
        out = mat_a @ mat_b
    elif two == (True, True):
        ends = _ends(offs, mat_a.size(1), "grouped_mm")
        starts = [0, *ends[:-1]]
        out = facula.stack([mat_a[:, s:e] @ mat_b[s:e] for s, e in zip(starts, ends, strict=True)])
    elif two[0]:
        ends = _ends(offs, mat_a.size(0), "grouped_mm")
        starts = [0, *ends[:-1]]
        rows = [mat_a[s:e] @ mat_b[g] for g, (s, e) in enumerate(zip(starts, ends, strict=True))]
        rest = mat_a.new_zeros(mat_a.size(0) - ends[-1], mat_b.size(-1))
        out = facula.cat([*rows, rest])
    else:
        ends = _ends(offs, mat_b.size(1), "grouped_mm")
        starts = [0, *ends[:-1]]
        columns = [
            mat_a[g] @ mat_b[:, s:e] for g, (s, e) in enumerate(zip(starts, ends, strict=True))
        ]
        rest = mat_a.new_zeros(mat_a.size(1), mat_b.size(1) - ends[-1])
        out = facula.cat([*columns, rest], 1)
    if bias is not None:
        out = out + bias
    return out if out_dtype is None else out.to(out_dtype)


def _scaled(mat: Any, scale: Any, recipe: Any, name: str, rows: bool) -> Any:
    """A matrix in float32, with its scales multiplied in; `rows`: scales of parts are by row."""
    one = scale[0] if isinstance(scale, (list, tuple)) and len(scale) == 1 else scale
    kind = recipe[0] if isinstance(recipe, (list, tuple)) and len(recipe) == 1 else recipe
    wide = mat.to(facula.float32)
    if isinstance(one, (list, tuple)):
        raise NotImplementedError(f"{name}: several scales of one matrix are not there")
    factors = one.to(facula.float32)
    if kind == ScalingType.TensorWise:
        return wide * factors.reshape(())
    if kind == ScalingType.RowWise:
        return wide * (factors.reshape(-1, 1) if rows else factors.reshape(1, -1))
    high, wide_ = {
        ScalingType.BlockWise1x16: (1, 16),
        ScalingType.BlockWise1x32: (1, 32),
        ScalingType.BlockWise1x128: (1, 128),
        ScalingType.BlockWise128x128: (128, 128),
    }[kind]
    if not rows:
        high, wide_ = wide_, high
    sizes = (-(-mat.size(0) // high), -(-mat.size(1) // wide_))
    if tuple(factors.shape) != sizes:
        raise ValueError(f"{name}: scales are {tuple(factors.shape)}, expected {sizes}")
    spread = factors.repeat_interleave(high, 0).repeat_interleave(wide_, 1)
    return wide * spread[: mat.size(0), : mat.size(1)]


def _no_swizzle(*orders: Any) -> None:
    for order in orders:
        for one in order if isinstance(order, (list, tuple)) else [order]:
            if one not in (None, SwizzleType.NO_SWIZZLE):
                raise NotImplementedError(f"scaled_mm(): scales in the order {one} are not read")


def scaled_mm(
    mat_a: Any,
    mat_b: Any,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Any = None,
    output_dtype: Any = facula.bfloat16,
    contraction_dim: Any = (),
    use_fast_accum: bool = False,
) -> Any:
    """(mat_a * scale_a) @ (mat_b * scale_b), summed in float32: how it is meant, not how fast.

    Args:
        mat_a: (m, k), of float8 or wider.
        mat_b: (k, n).
        scale_a: one number, (m,), or (m, k / block) by `scale_recipe_a`.
        scale_recipe_a: a `ScalingType`.
        scale_b: one number, (n,), or (k / block, n) by `scale_recipe_b`.
        scale_recipe_b: a `ScalingType`.
        swizzle_a, swizzle_b: None or `SwizzleType.NO_SWIZZLE`.
        bias: (n,).
        output_dtype: of the result.
    """
    _no_swizzle(swizzle_a, swizzle_b)
    if contraction_dim not in ((), [], (1, 0), [1, 0], (-1, -2), [-1, -2]):
        raise NotImplementedError("scaled_mm(): the last dim of mat_a meets the first of mat_b")
    a = _scaled(mat_a, scale_a, scale_recipe_a, "scaled_mm(): mat_a", True)
    b = _scaled(mat_b, scale_b, scale_recipe_b, "scaled_mm(): mat_b", False)
    out = a @ b
    if bias is not None:
        out = out + bias.to(facula.float32)
    return out.to(output_dtype)


def scaled_grouped_mm(
    mat_a: Any,
    mat_b: Any,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Any = None,
    offs: Any = None,
    output_dtype: Any = facula.bfloat16,
    contraction_dim: Any = (),
    use_fast_accum: bool = False,
) -> Any:
    """`grouped_mm` of matrices with scales of rows: mat_a (m, k) and mat_b (groups, k, n)."""
    _no_swizzle(swizzle_a, swizzle_b)
    if mat_a.dim() != 2 or mat_b.dim() != 3:
        raise NotImplementedError(
            f"scaled_grouped_mm(): mat_a is {tuple(mat_a.shape)}, mat_b {tuple(mat_b.shape)}; "
            f"expected (m, k) and (groups, k, n)"
        )
    a = _scaled(mat_a, scale_a, scale_recipe_a, "scaled_grouped_mm(): mat_a", True)
    scales = scale_b[0] if isinstance(scale_b, (list, tuple)) else scale_b
    b = facula.stack(
        [
            _scaled(m, scales[g], scale_recipe_b, "scaled_grouped_mm(): mat_b", False)
            for g, m in enumerate(mat_b)
        ]
    )
    return grouped_mm(a, b, offs=offs, bias=bias, out_dtype=output_dtype)
