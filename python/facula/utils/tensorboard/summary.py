"""Summaries by themselves, as `SummaryWriter` writes them: for programs that add them to a file.

Each function gives a protocol buffer `Summary` of the package tensorboard, for
`FileWriter.add_summary`.
"""

from __future__ import annotations

from typing import Any

from facula.utils.tensorboard import _protos
from facula.utils.tensorboard._protos import custom_scalars, histogram, text

__all__ = [
    "audio",
    "custom_scalars",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "pr_curve",
    "scalar",
    "text",
]


def scalar(
    name: str,
    tensor: Any,
    collections: Any = None,
    new_style: bool = False,
    double_precision: bool = False,
) -> Any:
    """A number, or a tensor of one element; in the new style a tensor of the scalars' plugin."""
    return _protos.scalar(name, tensor, new_style=new_style, double=double_precision)


def histogram_raw(
    name: str,
    min: float,
    max: float,
    num: int,
    sum: float,
    sum_squares: float,
    bucket_limits: list[float],
    bucket_counts: list[float],
) -> Any:
    """A histogram that is known already: upper bounds of buckets, and how many are in each."""
    return _protos.histogram_raw(
        name, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
    )


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """An image, or a batch as one grid: uint8 in [0, 255], or floats in [0, 1] times `rescale`."""
    array = _protos.array_of(tensor)
    return _protos.image(tag, array if rescale == 1 else array * rescale, dataformats)


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Any:
    """Sound in [-1, 1], (L,) or (1, L)."""
    return _protos.audio(tag, tensor, sample_rate)


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None
) -> Any:
    """Precision and recall at thresholds, from labels in {0, 1} and probabilities."""
    return _protos.pr_curve(tag, labels, predictions, num_thresholds, weights)


def hparams(
    hparam_dict: dict[str, Any],
    metric_dict: dict[str, Any],
    hparam_domain_discrete: dict[str, list[Any]] | None = None,
) -> Any:
    """The three summaries of a run: which hyperparameters and metrics there are, start, end."""
    return _protos.hparams(hparam_dict, metric_dict, hparam_domain_discrete or {})
