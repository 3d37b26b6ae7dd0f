"""Functions of `facula.nn` by the names and arguments that they have below it.

Reductions are numbers there: 0 none, 1 the mean, 2 the sum. Modes of `grid_sampler` too: 0
bilinear, 1 nearest, 2 bicubic; of padding 0 zeros, 1 border, 2 reflection.
"""

from __future__ import annotations

from typing import Any

from facula import _C
from facula._errors import tell_all
from facula.nn._embedding import embedding_renorm_

__all__ = [
    "affine_grid_generator",
    "alpha_dropout",
    "alpha_dropout_",
    "batch_norm",
    "binary_cross_entropy_with_logits",
    "conv_tbc",
    "convolution",
    "cosine_embedding_loss",
    "ctc_loss",
    "dropout_",
    "embedding_bag",
    "embedding_renorm_",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "hinge_embedding_loss",
    "instance_norm",
    "kl_div",
    "margin_ranking_loss",
    "native_batch_norm",
    "native_channel_shuffle",
    "native_dropout",
    "native_dropout_backward",
    "native_group_norm",
    "native_layer_norm",
    "pairwise_distance",
    "pdist",
    "poisson_nll_loss",
    "rrelu",
    "rrelu_",
    "triplet_margin_loss",
]


def _functional() -> Any:
    from facula.nn import functional

    return functional


def _named(reduction: Any) -> str:
    if isinstance(reduction, str):
        return reduction
    if reduction not in (0, 1, 2):
        raise ValueError(f"reduction must be 0 (none), 1 (mean) or 2 (sum), not {reduction}")
    return ("none", "mean", "sum")[reduction]


# ---- losses


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: Any = 1
) -> Any:
    """`nn.functional.binary_cross_entropy_with_logits`."""
    return _functional().binary_cross_entropy_with_logits(
        input, target, weight, reduction=_named(reduction), pos_weight=pos_weight
    )


def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: Any = 1
) -> Any:
    """`nn.functional.cosine_embedding_loss`."""
    return _functional().cosine_embedding_loss(
        input1, input2, target, margin, reduction=_named(reduction)
    )


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: Any = 1,
    zero_infinity: bool = False,
) -> Any:
    """`nn.functional.ctc_loss`."""
    return _functional().ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _named(reduction), zero_infinity
    )


def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: Any = 1) -> Any:
    """`nn.functional.hinge_embedding_loss`."""
    return _functional().hinge_embedding_loss(input, target, margin, reduction=_named(reduction))


def kl_div(input: Any, target: Any, reduction: Any = 1, *, log_target: bool = False) -> Any:
    """`nn.functional.kl_div`."""
    return _functional().kl_div(input, target, reduction=_named(reduction), log_target=log_target)


def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: Any = 1
) -> Any:
    """`nn.functional.margin_ranking_loss`."""
    return _functional().margin_ranking_loss(
        input1, input2, target, margin, reduction=_named(reduction)
    )


def poisson_nll_loss(
    input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: Any
) -> Any:
    """`nn.functional.poisson_nll_loss`."""
    return _functional().poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_named(reduction)
    )


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Any = 1,
) -> Any:
    """`nn.functional.triplet_margin_loss`."""
    return _functional().triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_named(reduction)
    )


# ---- distances


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """`nn.functional.pairwise_distance`."""
    return _functional().pairwise_distance(x1, x2, p, eps, keepdim)


def pdist(input: Any, p: float = 2.0) -> Any:
    """`nn.functional.pdist`."""
    return _functional().pdist(input, p)


# ---- dropout


def alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """`nn.functional.alpha_dropout`."""
    return _functional().alpha_dropout(input, p, train)


def alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """`alpha_dropout` in place."""
    return _functional().alpha_dropout(input, p, train, inplace=True)


def dropout_(input: Any, p: float, train: bool) -> Any:
    """`nn.functional.dropout` in place."""
    return _functional().dropout(input, p, train, inplace=True)


def feature_alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """`nn.functional.feature_alpha_dropout`."""
    return _functional().feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """`feature_alpha_dropout` in place."""
    return _functional().feature_alpha_dropout(input, p, train, inplace=True)


def feature_dropout(input: Any, p: float, train: bool) -> Any:
    """Dropout of whole channels of (N, C, ...)."""
    if input.dim() < 2:
        raise RuntimeError(
            f"feature_dropout(): input must have at least 2 dims, not {tuple(input.shape)}"
        )
    if not train or p == 0:
        return input * 1
    kept = input.new_ones(tuple(input.shape[:2]) + (1,) * (input.dim() - 2))
    return input * _functional().dropout(kept, p, True)


def feature_dropout_(input: Any, p: float, train: bool) -> Any:
    """`feature_dropout` in place."""
    return input.copy_(feature_dropout(input, p, train))


def native_dropout(input: Any, p: float, train: bool | None) -> Any:
    """Dropout, and the mask of what was kept."""
    if train is False or p == 0:
        return input.clone(), _C.ones_like(input, dtype=_C.bool)
    if p == 1:
        return _C.zeros_like(input), _C.zeros_like(input, dtype=_C.bool)
    mask = _C.rand_like(input, dtype=input.dtype) >= p
    return _C.where(mask, input * (1 / (1 - p)), _C.zeros_like(input)), mask


def rrelu(
    input: Any,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """`nn.functional.rrelu`."""
    if generator is not None:
        raise NotImplementedError("rrelu(): generator is not supported; seed the default one")
    return _functional().rrelu(input, lower, upper, training)


def rrelu_(
    input: Any,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """`rrelu` in place."""
    return input.copy_(rrelu(input, lower, upper, training, generator))


# ---- grids


def affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Any:
    """`nn.functional.affine_grid`."""
    return _functional().affine_grid(theta, list(size), align_corners)


def grid_sampler(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`nn.functional.grid_sample` with modes as numbers."""
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    if interpolation_mode not in (0, 1, 2) or padding_mode not in (0, 1, 2):
        raise ValueError(
            f"grid_sampler(): modes are 0, 1 and 2, not {interpolation_mode} and {padding_mode}"
        )
    return _functional().grid_sample(
        input, grid, modes[interpolation_mode], paddings[padding_mode], align_corners
    )


def _sampler(dims: int, input: Any, *rest: Any) -> Any:
    if input.dim() != dims + 2:
        raise RuntimeError(
            f"grid_sampler_{dims}d(): input must have {dims + 2} dims, not {tuple(input.shape)}"
        )
    return grid_sampler(input, *rest)


def grid_sampler_2d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`grid_sampler` of (N, C, H, W)."""
    return _sampler(2, input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`grid_sampler` of (N, C, D, H, W)."""
    return _sampler(3, input, grid, interpolation_mode, padding_mode, align_corners)


# ---- normalisation, with the statistics


def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """`nn.functional.batch_norm`."""
    return _functional().batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )


def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """`nn.functional.instance_norm`."""
    return _functional().instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def native_layer_norm(
    input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    """Layer normalisation, the means and the reciprocal deviations (with eps) that it used."""
    result, mean, scale = _C._ops.native_layer_norm(
        input, list(normalized_shape), weight, bias, eps, False
    )
    mixed = weight is not None and weight.dtype != input.dtype
    return (result, mean, scale) if mixed else (result, mean.to(input.dtype), scale.to(input.dtype))


def native_group_norm(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Any, Any, Any]:
    """Group normalisation, the means and the reciprocal deviations (with eps) that it used."""
    if N * C * HxW != input.numel():
        raise RuntimeError(
            f"native_group_norm(): N * C * HxW is {N * C * HxW}, but input is {tuple(input.shape)}"
        )
    shaped = input if input.dim() > 2 else input.reshape(N, C, HxW)
    result = _C.group_norm(shaped, group, weight, bias, eps)
    groups = input.reshape(N, group, C // group * HxW)
    variance, mean = _C.var_mean(groups, [2], correction=0)
    return result.reshape(input.shape), mean, (variance + eps).rsqrt()


def native_batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, Any, Any]:
    """Batch normalisation; means and reciprocal deviations of the batch, empty if not training."""
    result = batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    if not training:
        empty = input.new_empty(0)
        return result, empty, empty.clone()
    dims = [0, *range(2, input.dim())]
    variance, mean = _C.var_mean(input.detach(), dims, correction=0)
    return result, mean, (variance + eps).rsqrt()


def native_dropout_backward(grad_output: Any, mask: Any, scale: float) -> Any:
    """The gradient of `native_dropout`: grad_output * mask * scale."""
    return grad_output * mask * scale


# ---- convolutions and channels


def convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    """A convolution of as many dims as `stride` has numbers, or a transposed one."""
    functional, dims = _functional(), weight.dim() - 2
    if dims not in (1, 2, 3):
        raise RuntimeError(f"convolution(): weight has {weight.dim()} dims; it takes 3 to 5")
    if transposed:
        function = getattr(functional, f"conv_transpose{dims}d")
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    function = getattr(functional, f"conv{dims}d")
    return function(input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """A convolution over time of (time, batch, channels) with a weight (width, in, out).

    Returns:
        (time + 2 pad - width + 1, batch, out).
    """
    if input.dim() != 3 or weight.dim() != 3 or bias.dim() != 1:
        raise RuntimeError(
            f"conv_tbc(): input and weight must have 3 dims and bias 1, not {input.dim()}, "
            f"{weight.dim()} and {bias.dim()}"
        )
    result = _functional().conv1d(
        input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad
    )
    return result.permute(2, 0, 1).contiguous()


def native_channel_shuffle(input: Any, groups: int) -> Any:
    """`nn.functional.channel_shuffle`."""
    return _functional().channel_shuffle(input, groups)


# ---- embeddings


def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Any, Any, Any, Any]:
    """`nn.functional.embedding_bag`, and what its backward is told of the bags.

    Args:
        mode: 0 the sum, 1 the mean, 2 the largest elements.

    Returns:
        The result; for the mean and the largest the bag of each index and the sizes of bags (for
        the sum both have nothing to tell); of the largest elements the rows that have them.
    """
    if mode not in (0, 1, 2):
        raise ValueError(f"embedding_bag(): mode is {mode}, not 0 (sum), 1 (mean) or 2 (max)")
    negative = padding_idx is not None and padding_idx < 0
    out = _functional().embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode],
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=None if negative else padding_idx,
    )
    if mode == 0:
        none = offsets.new_zeros(offsets.shape)
        return out, offsets.new_empty(0), none, none.clone()
    starts = offsets[:-1] if include_last_offset else offsets
    ends = _C.cat([starts[1:], offsets.new_full((1,), len(indices))])
    bags = _C.arange(len(starts)).to(offsets.dtype).repeat_interleave(ends - starts)
    counted = indices == indices if padding_idx is None or negative else indices != padding_idx
    sizes = offsets.new_zeros(len(starts)).index_add(0, bags, counted.to(offsets.dtype))
    if mode == 1:
        return out, bags, sizes, sizes.clone()
    return out, bags, sizes, _largest(weight, indices, bags, counted, out)


def _largest(weight: Any, indices: Any, bags: Any, counted: Any, out: Any) -> Any:
    """Which row of `weight` each largest element of a bag is from: the first that has it."""
    rows = indices.new_zeros(out.shape)
    for place in reversed(range(len(indices))):
        if counted[place]:
            bag = int(bags[place])
            same = weight[indices[place]].detach() == out[bag].detach()
            rows[bag] = rows[bag].where(~same, indices[place])
    return rows


tell_all(globals(), __all__)
