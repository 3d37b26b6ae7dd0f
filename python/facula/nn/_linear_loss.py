"""Cross entropy of scores that an affine map gives, of the whole batch or part by part."""

from __future__ import annotations

import dataclasses
from typing import Any

import facula
from facula import _C

__all__ = ["linear_cross_entropy"]

_POLICIES = ("auto", "accurate", "balanced", "compact")
_DTYPES = ("float16", "bfloat16", "float32", "float64")


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` cuts the batch, so that not all scores are there at once.

    Scores of a part are computed once more in backward. Results are those of the whole batch, to
    rounding.

    Args:
        allow_retain_graph: taken; backward may run again in any case.
        batch_chunk_size: rows of a part; None leaves it to chunking_method.
        chunking_method: "aspect_ratio" makes the scores of a part as many as the elements of the
            input, "aspect_ratio:N" an N-th of them; "auto" is "aspect_ratio:2"; None is one part.
        acc_policy, acc_dtype: taken; sums are as exact as those of `cross_entropy` in any case.

    Raises:
        ValueError: one of them is none of these.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(
                f"invalid acc_policy: {self.acc_policy!r}; it must be one of {_POLICIES}"
            )
        if self.chunking_method not in (None, "auto"):
            name, _, factor = str(self.chunking_method).partition(":")
            factor = factor if ":" in str(self.chunking_method) else "1"
            if name != "aspect_ratio" or not factor.isdigit() or int(factor) < 1:
                raise ValueError(
                    f"invalid chunking_method: {self.chunking_method!r}; it must be 'auto', "
                    "'aspect_ratio', 'aspect_ratio:N' or None"
                )
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype is not None and self.acc_dtype not in [
            getattr(facula, name) for name in _DTYPES
        ]:
            raise ValueError(f"acc_dtype must be None or one of {_DTYPES}, got {self.acc_dtype!r}")

    def rows(self, batch: int, features: int, classes: int) -> int:
        """Rows of a part."""
        if self.batch_chunk_size is not None:
            return self.batch_chunk_size
        if self.chunking_method is None:
            return max(batch, 1)
        method = "aspect_ratio:2" if self.chunking_method == "auto" else self.chunking_method
        wide = -(-classes // max(features, 1))
        part = -(-batch // max(wide, 1))
        return max(1, (1 << max(part - 1, 0).bit_length()) // int(method.partition(":")[2] or 1))


def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target, ...)`.

    Args:
        input: (N, in_features) or (in_features,).
        linear_weight: (C, in_features), or (C, d_1, ..., d_K, in_features) for scores
            (N, C, d_1, ..., d_K).
        target: class indices, or probabilities.
        linear_bias: of linear_weight's shape without its last dim.
        ignore_index: a class that does not count; with indices alone. None is -100 for them.
        options: `nn.LinearCrossEntropyOptions`: the batch is cut into parts, which takes less
            memory. None computes all scores at once.
    """
    if input.dim() not in (1, 2):
        raise ValueError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if target.is_floating_point() and ignore_index is not None:
        raise ValueError("ignore_index cannot be specified when target contains probabilities")
    sizes = tuple(linear_weight.shape[:-1])
    flat = linear_weight.reshape(-1, linear_weight.shape[-1])
    bias = None if linear_bias is None else linear_bias.reshape(-1)

    def loss(part: Any, wanted: Any, reduction: str, flat: Any, bias: Any) -> Any:
        scores = _C._nn_functional.linear(part, flat, bias).reshape(*part.shape[:-1], *sizes)
        return _C._nn_functional.cross_entropy(
            scores,
            wanted,
            weight=weight,
            ignore_index=-100 if ignore_index is None else ignore_index,
            reduction=reduction,
            label_smoothing=label_smoothing,
        )

    if options is not None and input.dim() == 2 and len(input) == len(target):
        rows = options.rows(*input.shape, len(flat))
        if rows < len(input):
            return _in_parts(loss, input, target, reduction, rows, (flat, bias), weight,
                             -100 if ignore_index is None else ignore_index)  # fmt: skip
    return loss(input, target, reduction, flat, bias)


class _Again(facula.autograd.Function):
    """A function of tensors that is computed once more in backward, of whose work nothing stays."""

    @staticmethod
    def forward(ctx: Any, function: Any, *tensors: Any) -> Any:
        ctx.function = function
        ctx.given = [t is not None for t in tensors]
        ctx.save_for_backward(*(t for t in tensors if t is not None))
        return function(*tensors)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        saved, records = iter(ctx.saved_tensors), facula.is_grad_enabled()
        tensors = [next(saved) if given else None for given in ctx.given]
        followed = [i for i, needed in enumerate(ctx.needs_input_grad[1:]) if needed]
        with facula.enable_grad():
            for i in followed:
                t = tensors[i]
                tensors[i] = t.view_as(t) if records else t.detach().requires_grad_()
            found = facula.autograd.grad(
                ctx.function(*tensors), [tensors[i] for i in followed], grad, create_graph=records
            )
        grads = dict(zip(followed, found, strict=True))
        return None, *(grads.get(i) for i in range(len(tensors)))


def _in_parts(
    loss: Any,
    input: Any,
    target: Any,
    reduction: str,
    rows: int,
    affine: tuple[Any, Any],
    weight: Any,
    ignored: int,
) -> Any:
    how = "none" if reduction == "none" else "sum"
    parts = [
        _Again.apply(
            lambda *tensors: loss(tensors[0], tensors[1], how, *tensors[2:]), part, wanted, *affine
        )
        for part, wanted in zip(input.split(rows), target.split(rows), strict=True)
    ]
    if reduction == "none":
        return facula.cat(parts)
    total = facula.stack(parts).sum()
    if reduction == "sum":
        return total
    if target.is_floating_point():
        return total / (target.numel() // target.shape[1])
    counted = target != ignored
    if weight is None:
        return total / counted.sum()
    return total / weight[target.where(counted, 0)].where(counted, 0).sum()
