"""Softmax over many classes, and losses that hold their output layer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import facula
from facula.nn import functional as F
from facula.nn.modules.container import ModuleList, Sequential
from facula.nn.modules.linear import Linear
from facula.nn.modules.loss import _WeightedLoss
from facula.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss"]


class _Result(NamedTuple):
    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax whose rare classes have smaller layers of their own (Grave et al. 2017).

    Classes are ordered by frequency, the most frequent first. Those below cutoffs[0] are the
    head's; cluster i has those in [cutoffs[i], cutoffs[i + 1]), by a projection to
    in_features / div_value^(i + 1) features and a layer from there.

    Args:
        in_features: last size of the input.
        n_classes: how many there are.
        cutoffs: increasing class numbers in (0, n_classes).
        div_value: by what each cluster is smaller than the one before.
        head_bias: whether the head has a bias.

    Calling it with input (N, in_features) or (in_features,) and target (N,) or () gives
    (output, loss): the log-probability of each target, and the mean of its negative.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = all(a < b for a, b in itertools.pairwise(cutoffs))
        whole = all(int(c) == c for c in cutoffs)
        if not (rising and whole and cutoffs[0] > 0 and cutoffs[-1] <= n_classes - 1):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                f"order, where each value is between 1 and n_classes-1; got {cutoffs}, n_classes "
                f"is {n_classes}"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **where),
                    Linear(hidden, size, bias=False, **where),
                )
            )

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> Any:
        input, target = input_, target_
        batched = target.dim() > 0
        if batched and input.shape[0] != target.shape[0]:
            raise RuntimeError(
                f"Input and target should have the same size in the batch dimension: "
                f"{tuple(input.shape)} and {tuple(target.shape)}."
            )
        if input.dim() != (2 if batched else 1) or target.dim() > 1:
            raise RuntimeError(
                "expected input (N, in_features) with target (N,), or (in_features,) with (); got "
                f"{tuple(input.shape)} and {tuple(target.shape)}"
            )
        x, t = (input, target) if batched else (input.unsqueeze(0), target.unsqueeze(0))
        if t.numel() and not bool(((t >= 0) & (t < self.n_classes)).all()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{t.min().item()}, {t.max().item()}] were found."
            )
        head = F.log_softmax(self.head(x), dim=1)
        in_head = t < self.shortlist_size
        cluster = t.clone()
        output = x.new_zeros(t.shape[0])
        for i, tail in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            rows = ((t >= low) & (t < high)).nonzero().reshape(-1)
            if rows.numel() == 0:
                continue
            cluster = cluster.index_fill(0, rows, self.shortlist_size + i)
            local = F.log_softmax(tail(x.index_select(0, rows)), dim=1)
            own = local.gather(1, (t.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
            output = output.index_add(0, rows, own.to(output.dtype))
        cluster = facula.where(in_head, t, cluster)
        output = output + head.gather(1, cluster.unsqueeze(1)).squeeze(1)
        loss = -output.mean()
        return _Result(output if batched else output.squeeze(0), loss)

    def _full(self, input: Any, head: Any) -> Any:
        log_head = F.log_softmax(head, dim=1)
        parts = [log_head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            place = self.shortlist_size + i
            parts.append(F.log_softmax(tail(input), dim=1) + log_head[:, place : place + 1])
        return facula.cat(parts, 1)

    def log_prob(self, input: Any) -> Any:
        """Log-probabilities (N, n_classes) for input (N, in_features)."""
        return self._full(input, self.head(input))

    def predict(self, input: Any) -> Any:
        """The likeliest class of each row: (N,), the argmax of `log_prob`."""
        head = self.head(input)
        best = head.argmax(dim=1)
        rare = best >= self.shortlist_size
        if not bool(rare.any()):
            return best
        # Head and tail are compared only where the head's best is a cluster.
        rows = rare.nonzero().reshape(-1)
        full = self._full(input.index_select(0, rows), head.index_select(0, rows))
        return best.index_copy(0, rows, full.argmax(dim=1))


class LinearCrossEntropyLoss(_WeightedLoss):
    """Cross entropy of the scores that a layer `linear` of its own gives for the input.

    Args:
        in_features: last size of the input, (N, in_features) or (in_features,).
        num_classes: C; scores are (N, C), or (N, C, *out_features).
        out_features: sizes of the target behind N, for that.
        bias: whether `linear` has a bias.
        reduction, weight, ignore_index, label_smoothing: as of `CrossEntropyLoss`.
        options: `LinearCrossEntropyOptions`: how to cut the batch into parts.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        super().__init__(weight, reduction=reduction)
        self.num_classes, self.options = num_classes, options
        self.out_features = tuple(out_features)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        size = num_classes * math.prod(self.out_features)
        self.linear = Linear(in_features, size, bias=bias, device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        self.linear.reset_parameters()

    def forward(self, input: Any, target: Any) -> Any:
        sizes = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*sizes, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(sizes),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
