"""Records as TensorBoard reads them: the protocol buffers of its package, filled."""

from __future__ import annotations

import io
import json
import struct
import wave
import zlib
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

__all__ = [
    "array_of",
    "audio",
    "custom_scalars",
    "encode_png",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "layout_of",
    "pr_curve",
    "projector_text",
    "scalar",
    "text",
]

_CHANNELS = {1: 0, 2: 4, 3: 2, 4: 6}  # PNG's colour types


def array_of(value: Any) -> Any:
    """A NumPy array of a tensor, a number, a list or an array; bfloat16 becomes float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype).endswith("bfloat16"):
            value = value.float()
        value = value.numpy()
    return np.asarray(value)


def _number(value: Any) -> float:
    array = array_of(value)
    if array.size != 1:
        raise ValueError(f"a scalar has one element, this is of shape {array.shape}")
    return float(array.reshape(()))


def _value(**fields: Any) -> Any:
    return Summary(value=[Summary.Value(**fields)])


def _strings(tag: str, strings: list[str], plugin: str, content: bytes = b"") -> Any:
    metadata = SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    )
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=len(strings))])
    tensor = TensorProto(
        dtype="DT_STRING", string_val=[s.encode("utf-8") for s in strings], tensor_shape=shape
    )
    return _value(tag=tag, metadata=metadata, tensor=tensor)


def scalar(tag: str, value: Any, *, new_style: bool = False, double: bool = False) -> Any:
    """A number; in the new style it is a tensor of the scalars' plugin."""
    number = _number(value)
    if not new_style and not double:
        return _value(tag=tag, simple_value=number)
    plugin = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
    tensor = (
        TensorProto(double_val=[number], dtype="DT_DOUBLE")
        if double
        else TensorProto(float_val=[number], dtype="DT_FLOAT")
    )
    return _value(tag=tag, tensor=tensor, metadata=plugin)


def text(tag: str, string: str) -> Any:
    """Markdown."""
    return _strings(tag + "/text_summary", [string], "text")


# ---- histograms ----


def _limits() -> Any:
    """Bounds that grow by a tenth, from 1e-12 to 1e20, on both sides of 0."""
    rising = 1e-12 * 1.1 ** np.arange(int(np.ceil(np.log(1e32) / np.log(1.1))))
    return np.concatenate([-rising[::-1], [0.0], rising])


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """How many values are in each bin.

    Args:
        bins: "tensorflow" for bounds that grow by a tenth, or what `np.histogram` takes.
        max_bins: neighbours are joined until there are no more.
    """
    array = array_of(values).reshape(-1).astype(np.float64)
    if array.size == 0:
        raise ValueError("The input has no element.")
    if not np.isfinite(array).all():
        raise ValueError("the histogram's values are not all finite")
    bounds = _limits() if isinstance(bins, str) and bins == "tensorflow" else bins
    counts, edges = np.histogram(array, bins=bounds)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        extra = -len(counts) % step
        counts = np.pad(counts, (0, extra)).reshape(-1, step).sum(-1)
        edges = np.append(edges[:-1:step], edges[-1])
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        raise ValueError("The histogram is empty: no value is within the bins")
    first, last = max(filled[0] - 1, 0), filled[-1] + 1
    kept = counts[first:last].tolist()
    limits = edges[first + 1 : last + 1].tolist()
    if filled[0] == 0:  # the lower bound of the first bin, as a bin without values
        kept, limits = [0, *kept], [edges[0], *limits]
    return histogram_raw(
        tag,
        float(array.min()),
        float(array.max()),
        array.size,
        float(array.sum()),
        float(array.dot(array)),
        limits,
        kept,
    )


def histogram_raw(
    tag: str,
    low: float,
    high: float,
    num: int,
    total: float,
    squares: float,
    limits: list[float],
    counts: list[float],
) -> Any:
    """A histogram that is known already."""
    proto = HistogramProto(
        min=low,
        max=high,
        num=num,
        sum=total,
        sum_squares=squares,
        bucket_limit=limits,
        bucket=counts,
    )
    return _value(tag=tag, histo=proto)


# ---- images and sound ----


def layout_of(array: Any, formats: str) -> Any:
    """An image array (H, W, C), or a grid of a batch, from the layout that `formats` says.

    Args:
        formats: letters of the dims: N, C, H, W, such as "CHW", "HW", "NHWC".
    """
    formats = formats.upper()
    array = array_of(array)
    if len(set(formats)) != len(formats) or not set(formats) <= set("NCHW"):
        raise ValueError(f"dataformats is {formats!r}, expected different ones of N, C, H, W")
    if array.ndim != len(formats):
        raise ValueError(
            f"size of input tensor and input format are different: the shape is {array.shape}, "
            f"the format {formats!r}"
        )
    if "C" not in formats:
        array, formats = array[..., None], formats + "C"
    if "N" not in formats:
        array, formats = array[None], "N" + formats
    array = array.transpose([formats.index(c) for c in "NHWC"])
    n, h, w, c = array.shape
    columns = int(np.ceil(np.sqrt(n)))
    rows = -(-n // columns)
    canvas = np.zeros((rows * h, columns * w, c), array.dtype)
    for i, one in enumerate(array):
        y, x = divmod(i, columns)
        canvas[y * h : (y + 1) * h, x * w : (x + 1) * w] = one
    return np.repeat(canvas, 3, axis=2) if c == 1 else canvas


def encode_png(array: Any) -> bytes:
    """PNG (ISO/IEC 15948) of uint8 (H, W, C) with 1 to 4 channels."""
    h, w, c = array.shape
    rows = np.concatenate([np.zeros((h, 1), np.uint8), array.reshape(h, w * c)], 1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", w, h, 8, _CHANNELS[c], 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows.tobytes()))
        + chunk(b"IEND", b"")
    )


def image(tag: str, array: Any, formats: str) -> Any:
    """An image: uint8 in [0, 255], or floats in [0, 1]."""
    array = layout_of(array, formats)
    if array.dtype != np.uint8:
        array = (array.astype(np.float32) * 255.0).clip(0, 255).astype(np.uint8)
    h, w, c = array.shape
    if c not in _CHANNELS:
        raise ValueError(f"an image has 1 to 4 channels, this one {c}")
    encoded = Summary.Image(height=h, width=w, colorspace=c, encoded_image_string=encode_png(array))
    return _value(tag=tag, image=encoded)


def audio(tag: str, values: Any, sample_rate: int) -> Any:
    """Sound in [-1, 1], (L,) or (1, L), as 16-bit WAV."""
    array = array_of(values).squeeze()
    if array.ndim != 1:
        raise ValueError(f"sound is (L,) or (1, L), not {array_of(values).shape}")
    samples = (array.clip(-1, 1) * 32767.0).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sample_rate)
        out.writeframes(samples.tobytes())
    sound = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=len(samples),
        encoded_audio_string=buffer.getvalue(),
        content_type="audio/wav",
    )
    return _value(tag=tag, audio=sound)


# ---- curves and hyperparameters ----


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int, weights: Any = None
) -> Any:
    """Precision and recall at thresholds, from labels in {0, 1} and probabilities."""
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

    truth, scores = array_of(labels).reshape(-1) > 0, array_of(predictions).reshape(-1)
    if truth.shape != scores.shape:
        raise ValueError(f"there are {truth.size} labels and {scores.size} predictions")
    n = min(num_thresholds, 127)  # what TensorBoard shows at most
    weight = np.ones(scores.shape) if weights is None else array_of(weights).reshape(-1)
    place = np.floor(scores.astype(np.float64) * (n - 1)).astype(np.int64)
    if place.size and (place.min() < 0 or place.max() > n - 1):
        raise ValueError("predictions are probabilities in [0, 1]")
    bounds = (0, n - 1)
    hits = np.histogram(place, n, bounds, weights=truth * weight)[0]
    misses = np.histogram(place, n, bounds, weights=~truth * weight)[0]
    tp, fp = np.cumsum(hits[::-1])[::-1], np.cumsum(misses[::-1])[::-1]
    tn, fn = fp[0] - fp, tp[0] - tp
    tiny = 1e-7
    precision = tp / np.maximum(tiny, tp + fp)
    recall = tp / np.maximum(tiny, tp + fn)
    data = np.stack([tp, fp, tn, fn, precision, recall])
    content = PrCurvePluginData(version=0, num_thresholds=n).SerializeToString()
    metadata = SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name="pr_curves", content=content)
    )
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=s) for s in data.shape])
    tensor = TensorProto(dtype="DT_FLOAT", float_val=data.reshape(-1).tolist(), tensor_shape=shape)
    return _value(tag=tag, metadata=metadata, tensor=tensor)


def hparams(values: dict[str, Any], metrics: dict[str, Any], discrete: dict[str, Any]) -> Any:
    """The three records of a run: which hyperparameters and metrics there are, start, end."""
    from google.protobuf.struct_pb2 import ListValue, Value
    from tensorboard.plugins.hparams import metadata as names
    from tensorboard.plugins.hparams.api_pb2 import (
        DataType,
        Experiment,
        HParamInfo,
        MetricInfo,
        MetricName,
        Status,
    )
    from tensorboard.plugins.hparams.plugin_data_pb2 import (
        HParamsPluginData,
        SessionEndInfo,
        SessionStartInfo,
    )

    if not isinstance(values, dict) or not isinstance(metrics, dict):
        raise TypeError("parameter: hparam_dict and metric_dict should be a dictionary")
    infos, start = [], SessionStartInfo()
    for name, value in values.items():
        domain: Any = None
        if value is None:
            continue
        if isinstance(value, bool):
            kind = DataType.Value("DATA_TYPE_BOOL")
            start.hparams[name].bool_value = value
        elif isinstance(value, str):
            kind = DataType.Value("DATA_TYPE_STRING")
            start.hparams[name].string_value = value
        elif isinstance(value, (int, float)) or hasattr(value, "__float__"):
            kind = DataType.Value("DATA_TYPE_FLOAT64")
            start.hparams[name].number_value = _number(value)
        else:
            raise ValueError(
                f"value of {name} should be one of int, float, str, bool, or a tensor of one "
                f"element, not {type(value).__name__}"
            )
        if name in discrete:
            key = {bool: "bool_value", str: "string_value"}.get(type(value), "number_value")
            domain = ListValue(values=[Value(**{key: v}) for v in discrete[name]])
        infos.append(HParamInfo(name=name, type=kind, domain_discrete=domain))

    def record(tag: str, content: Any) -> Any:
        data = SummaryMetadata.PluginData(
            plugin_name=names.PLUGIN_NAME, content=content.SerializeToString()
        )
        nothing = TensorProto(dtype="DT_FLOAT", float_val=[0.0])
        return _value(tag=tag, metadata=SummaryMetadata(plugin_data=data), tensor=nothing)

    version = names.PLUGIN_DATA_VERSION
    experiment = Experiment(
        hparam_infos=infos,
        metric_infos=[MetricInfo(name=MetricName(tag=m)) for m in metrics],
    )
    end = SessionEndInfo(status=Status.Value("STATUS_SUCCESS"))
    return (
        record(names.EXPERIMENT_TAG, HParamsPluginData(experiment=experiment, version=version)),
        record(
            names.SESSION_START_INFO_TAG,
            HParamsPluginData(session_start_info=start, version=version),
        ),
        record(
            names.SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=end, version=version)
        ),
    )


def custom_scalars(layout: dict[str, dict[str, Any]]) -> Any:
    """Charts of several scalars: {category: {chart: ["Multiline" or "Margin", [tags]]}}."""
    from tensorboard.plugins.custom_scalar import layout_pb2

    categories = []
    for title, charts in layout.items():
        made = []
        for name, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise ValueError(f"a Margin has the tags value, lower, upper; {name}: {tags}")
                value, lower, upper = tags
                series = layout_pb2.MarginChartContent.Series(value=value, lower=lower, upper=upper)
                content = layout_pb2.MarginChartContent(series=[series])
                made.append(layout_pb2.Chart(title=name, margin=content))
            else:
                lines = layout_pb2.MultilineChartContent(tag=list(tags))
                made.append(layout_pb2.Chart(title=name, multiline=lines))
        categories.append(layout_pb2.Category(title=title, chart=made))
    whole = layout_pb2.Layout(category=categories)
    plugin = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="custom_scalars"))
    tensor = TensorProto(dtype="DT_STRING", string_val=[whole.SerializeToString()])
    return _value(tag="custom_scalars__config__", tensor=tensor, metadata=plugin)


def projector_text(name: str, tensor: str, metadata: str | None, sprite: Any) -> str:
    """An entry of projector_config.pbtxt."""
    lines = ["embeddings {", f"tensor_name: {json.dumps(name)}"]
    lines.append(f"tensor_path: {json.dumps(tensor)}")
    if metadata is not None:
        lines.append(f"metadata_path: {json.dumps(metadata)}")
    if sprite is not None:
        path, width, height = sprite
        lines += ["sprite {", f"image_path: {json.dumps(path)}"]
        lines += [f"single_image_dim: {width}", f"single_image_dim: {height}", "}"]
    return "\n".join([*lines, "}", ""])
