"""Calls that take sizes on Python's side: of nn, indices, factories. What `extremes` distorts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import facula as fa

F, nn = fa.nn.functional, fa.nn

Call = tuple[str, Callable[..., Any], list[Any], dict[str, Any]]


def applied(layer: type, *shape: int) -> Callable[..., Any]:
    """Makes the layer and calls it with a tensor of that shape, on the device of the first one."""

    def run(x: fa.Tensor, *args: Any, **kwargs: Any) -> Any:
        return layer(*args, **kwargs)(x)

    return run


def made(layer: type) -> Callable[..., Any]:
    """Only makes the layer."""

    def run(*args: Any, **kwargs: Any) -> Any:
        return [p.detach() for p in layer(*args, **kwargs).parameters()]

    return run


def x(*shape: int) -> fa.Tensor:
    return fa.arange(1.0, 1 + fa.empty(shape, device="meta").numel()).reshape(shape)


def sliced(t: fa.Tensor, start: Any, stop: Any, step: Any) -> Any:
    return t[start:stop:step]


def assigned(t: fa.Tensor, start: Any, stop: Any, step: Any) -> Any:
    t = t.clone()
    t[start:stop:step] = 0.0
    return t


def at(t: fa.Tensor, *index: Any) -> Any:
    return t[index]


def windows(t: fa.Tensor, index: fa.Tensor, kernel: Any, stride: Any, padding: Any) -> Any:
    return F.max_unpool2d(t, index, kernel, stride, padding)


def resized(t: fa.Tensor, *sizes: int) -> Any:
    return t.detach().clone().resize_(sizes)


def buffer(count: int, offset: int) -> Any:
    return fa.frombuffer(bytearray(64), dtype=fa.float32, count=count, offset=offset)


def calls() -> Iterator[Call]:
    line, image, solid = x(1, 2, 5), x(1, 2, 4, 4), x(1, 2, 3, 4, 4)
    yield from [
        ("pad.constant", F.pad, [image, [1, 1, 1, 1]], {}),
        ("pad.reflect", F.pad, [image, [1, 1, 1, 1], "reflect"], {}),
        ("pad.replicate", F.pad, [image, [1, 1, 1, 1], "replicate"], {}),
        ("pad.circular", F.pad, [image, [1, 1, 1, 1], "circular"], {}),
        ("pad.replicate.empty", F.pad, [x(0, 2, 4), [1, 1], "replicate"], {}),
        ("max_pool1d", F.max_pool1d, [line, 3, 2, 1, 1], {"return_indices": True}),
        ("max_pool2d", F.max_pool2d, [image, [3, 3], [2, 2], [1, 1], [1, 1]], {"ceil_mode": True}),
        ("max_pool2d.last", F.max_pool2d, [x(1, 4, 4, 2).permute(0, 3, 1, 2), 3, 2, 1, 1], {}),
        ("avg_pool2d.last", F.avg_pool2d, [x(1, 4, 4, 2).permute(0, 3, 1, 2), 3, 2, 1], {}),
        ("lp_pool2d", F.lp_pool2d, [image, 2.0, [2, 2], [1, 1]], {}),
        ("lp_pool1d", F.lp_pool1d, [line, 2.0, 2, 1], {"ceil_mode": True}),
        ("max_unpool2d", windows, [image, fa.zeros(1, 2, 4, 4).long(), [2, 2], [2, 2], [0, 0]], {}),
        ("adaptive_avg_pool2d", F.adaptive_avg_pool2d, [image, [2, 3]], {}),
        ("adaptive_max_pool2d", F.adaptive_max_pool2d, [image, [2, 3]], {"return_indices": True}),
        ("embedding", F.embedding, [fa.tensor([0, 2]), x(3, 2)], {"padding_idx": 1}),
        ("unfold.nn", F.unfold, [image, [2, 2], [1, 1], [1, 1], [1, 1]], {}),
        ("local_response_norm", F.local_response_norm, [image, 3], {}),
        ("tensordot", fa.tensordot, [x(2, 3), x(3, 2), 1], {}),
        ("slice", sliced, [x(7), 1, 6, 2], {}),
        ("slice.assign", assigned, [x(7), 1, 6, 2], {}),
        ("index", at, [x(3, 4), 1, 2], {}),
        ("new_zeros", fa.Tensor.new_zeros, [x(2), [2, 3]], {}),
        ("new_full", fa.Tensor.new_full, [x(2), [2, 3], 1.0], {}),
        ("resize_", resized, [x(2, 3), 3, 2], {}),
        ("frombuffer", buffer, [4, 8], {}),
        ("Conv1d", applied(nn.Conv1d), [line, 2, 2, 3], {"stride": 1, "padding": 1, "dilation": 1}),
        ("Conv2d", applied(nn.Conv2d), [image, 2, 2, 3, 1, 1, 1, 1], {}),
        ("Conv2d.reflect", applied(nn.Conv2d), [image, 2, 2, 3, 1, 1], {"padding_mode": "reflect"}),
        ("Conv2d.same", applied(nn.Conv2d), [image, 2, 2, 3], {"padding": "same", "dilation": 1}),
        ("ConvTranspose2d", applied(nn.ConvTranspose2d), [image, 2, 2, 3, 2, 1, 1], {}),
        ("AvgPool2d", applied(nn.AvgPool2d), [image, 2, 2, 1], {"divisor_override": 3}),
        ("AvgPool3d", applied(nn.AvgPool3d), [solid, 2, 2, 1], {}),
        ("MaxPool3d", applied(nn.MaxPool3d), [solid, 2, 2, 1, 1], {}),
        ("LPPool2d", applied(nn.LPPool2d), [image, 2, 2, 1], {}),
        ("AdaptiveAvgPool2d", applied(nn.AdaptiveAvgPool2d), [image, [2, 3]], {}),
        ("Fold", applied(nn.Fold), [x(1, 8, 9), [4, 4], 2], {"padding": 0, "stride": 1}),
        ("Unfold", applied(nn.Unfold), [image, 2], {"padding": 0, "stride": 1, "dilation": 1}),
        ("PixelShuffle", applied(nn.PixelShuffle), [x(1, 4, 2, 2), 2], {}),
        ("PixelUnshuffle", applied(nn.PixelUnshuffle), [image, 2], {}),
        ("ZeroPad2d", applied(nn.ZeroPad2d), [image, 1], {}),
        ("ReflectionPad2d", applied(nn.ReflectionPad2d), [image, 1], {}),
        ("ReplicationPad3d", applied(nn.ReplicationPad3d), [solid, [1, 1, 1, 1, 1, 1]], {}),
        ("CircularPad2d", applied(nn.CircularPad2d), [image, 1], {}),
        ("Upsample", applied(nn.Upsample), [image, 3], {}),
        ("Flatten", applied(nn.Flatten), [image, 1, -1], {}),
        ("Unflatten", applied(nn.Unflatten), [x(2, 6), 1, [2, 3]], {}),
        ("GroupNorm", applied(nn.GroupNorm), [image, 2, 2], {}),
        ("LayerNorm", applied(nn.LayerNorm), [image, [4, 4]], {}),
        ("BatchNorm2d", applied(nn.BatchNorm2d), [image, 2], {}),
        ("Linear", applied(nn.Linear), [x(2, 3), 3, 4], {}),
        ("Bilinear", made(nn.Bilinear), [2, 3, 4], {}),
        ("Embedding", made(nn.Embedding), [3, 2], {"padding_idx": 1}),
        ("EmbeddingBag", made(nn.EmbeddingBag), [3, 2], {}),
        ("LSTM", made(nn.LSTM), [2, 3, 2], {"proj_size": 1}),
        ("GRU", made(nn.GRU), [2, 3, 2], {}),
        ("RNN", made(nn.RNN), [2, 3, 2], {}),
        ("LSTMCell", made(nn.LSTMCell), [2, 3], {}),
        ("MultiheadAttention", made(nn.MultiheadAttention), [4, 2], {"kdim": 3, "vdim": 3}),
        ("TransformerEncoderLayer", made(nn.TransformerEncoderLayer), [4, 2, 8], {}),
        ("Transformer", made(nn.Transformer), [4, 2, 1, 1, 8], {}),
    ]
    for mode, t in [
        ("nearest", image),
        ("nearest-exact", line),
        ("linear", line),
        ("bilinear", image),
        ("bicubic", image),
        ("trilinear", solid),
        ("area", image),
        ("bilinear", x(0, 2, 4, 4)),
    ]:
        dims = t.dim() - 2
        yield f"interpolate.{mode}", F.interpolate, [t], {"size": [3] * dims, "mode": mode}
        yield (
            f"interpolate.{mode}",
            F.interpolate,
            [t],
            {"scale_factor": [2.0] * dims, "mode": mode},
        )
