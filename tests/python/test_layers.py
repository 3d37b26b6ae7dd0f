"""Layers and functions against NumPy and closed forms."""

from __future__ import annotations

import math

import facula
import numpy as np
import pytest
from facula import nn
from facula.nn import functional as F
from facula.testing import assert_close


def rand(*shape):
    return facula.randn(shape, dtype=facula.float64)


def close(actual, expected, tol=1e-10):
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=tol, atol=tol)


def test_linear():
    layer, x = nn.Linear(3, 2).double(), rand(4, 5, 3)
    w, b = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    close(layer(x), x.numpy() @ w.T + b)
    bound = 1 / math.sqrt(3)
    assert max(float(p.detach().abs().max()) for p in layer.parameters()) <= bound


def test_bilinear():
    layer, x, y = nn.Bilinear(3, 4, 2).double(), rand(5, 3), rand(5, 4)
    w, b = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    close(layer(x, y), np.einsum("ni,kij,nj->nk", x.numpy(), w, y.numpy()) + b)


def conv2d_oracle(x, w, b, stride, dilation):
    n, _, height, width = x.shape
    o, _, kh, kw = w.shape
    oh = (height - dilation * (kh - 1) - 1) // stride + 1
    ow = (width - dilation * (kw - 1) - 1) // stride + 1
    out = np.zeros((n, o, oh, ow))
    for i in range(oh):
        for j in range(ow):
            rows = slice(i * stride, i * stride + dilation * (kh - 1) + 1, dilation)
            cols = slice(j * stride, j * stride + dilation * (kw - 1) + 1, dilation)
            out[:, :, i, j] = np.einsum("nchw,ochw->no", x[:, :, rows, cols], w) + b
    return out


@pytest.mark.parametrize(
    ("mode", "numpy_mode"),
    [("zeros", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")],
)
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
def test_conv2d_padding_modes(mode, numpy_mode, stride, dilation):
    layer = nn.Conv2d(2, 3, 3, stride, (1, 2), dilation, padding_mode=mode).double()
    x = rand(2, 2, 6, 7)
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (2, 2)), numpy_mode)
    w, b = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    close(layer(x), conv2d_oracle(padded, w, b, stride, dilation))


def test_conv_same_keeps_the_size():
    for layer, shape in ((nn.Conv1d(2, 3, 4, padding="same"), (1, 2, 9)),):
        assert tuple(layer(facula.zeros(shape)).shape) == (1, 3, 9)
    with pytest.raises(ValueError, match="strided"):
        nn.Conv1d(2, 3, 4, stride=2, padding="same")
    with pytest.raises(ValueError, match="divisible by groups"):
        nn.Conv1d(3, 4, 1, groups=2)


def test_conv_transpose_is_the_adjoint():
    conv = nn.Conv2d(2, 3, 3, stride=2, padding=1, bias=False).double()
    back = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, bias=False).double()
    back.weight = conv.weight
    x = rand(1, 2, 7, 7)
    y = rand(*conv(x).shape)
    left = (conv(x) * y).sum().item()
    assert_close(left, (x * back(y, output_size=(7, 7))).sum().item(), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="can only be from"):
        back(y, output_size=(20, 20))


def test_pooling():
    x = facula.arange(16, dtype=facula.float32).reshape(1, 1, 4, 4)
    close(nn.MaxPool2d(2)(x)[0, 0], [[5, 7], [13, 15]])
    close(nn.AvgPool2d(2)(x)[0, 0], [[2.5, 4.5], [10.5, 12.5]])
    close(nn.AdaptiveAvgPool2d((1, None))(x)[0, 0], [[6, 7, 8, 9]])
    close(nn.AvgPool1d(2)(x[0, 0]), x[0, 0].numpy().reshape(4, 2, 2).mean(-1))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unpooling_undoes_pooling(dims):
    name = f"Pool{dims}d"
    x = rand(2, 3, *(7, 4, 5)[:dims]) + 10
    values, places = getattr(nn, "Max" + name)(2, return_indices=True)(x)
    unpool = getattr(nn, f"MaxUnpool{dims}d")(2)
    back = unpool(values, places, output_size=x.shape)
    assert back.shape == x.shape
    kept = back.numpy()
    assert np.all((kept == 0) | (kept == x.numpy())) and (kept != 0).sum() == values.numel()
    y = values.clone().requires_grad_()
    unpool(y, places, output_size=x.shape).square().sum().backward()
    close(y.grad, 2 * values.numpy())
    with pytest.raises(ValueError, match=rf"max_unpool{dims}d\(\): output_size"):
        unpool(values, places, output_size=(20,) * dims)
    with pytest.raises(ValueError, match=rf"max_unpool{dims}d\(\): input is"):
        unpool(values, places[:1])


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pooling_by_norm(dims):
    x = rand(2, 3, *(4,) * dims)
    y = getattr(nn, f"LPPool{dims}d")(4, 2)(x)
    halves = x.numpy().reshape(2, 3, *(2, 2) * dims)
    close(y, (halves**4).sum(axis=tuple(range(3, 3 + 2 * dims, 2))) ** 0.25)


def test_adaptive_pooling_keeps_dims():
    x = rand(2, 3, 4, 5, 6)
    close(nn.AdaptiveAvgPool3d((1, None, 1))(x)[:, :, 0, :, 0], x.numpy().mean((2, 4)))
    y, places = nn.AdaptiveMaxPool3d(1, return_indices=True)(x)
    close(y.flatten(), x.numpy().reshape(6, -1).max(1))
    close(places.flatten(), x.numpy().reshape(6, -1).argmax(1))
    with pytest.raises(ValueError, match=r"adaptive_avg_pool2d\(\): output_size .* expected 2"):
        F.adaptive_avg_pool2d(x, (1, 2, 3))


def test_batch_norm_statistics():
    layer, x = nn.BatchNorm1d(3, momentum=0.25).double(), rand(8, 3, 4) * 3 + 1
    a = x.numpy()
    mean, var = a.mean((0, 2)), a.var((0, 2))
    close(layer(x), (a - mean[None, :, None]) / np.sqrt(var[None, :, None] + 1e-5))
    close(layer.running_mean, 0.25 * mean)
    close(layer.running_var, 0.75 + 0.25 * var * 32 / 31)
    assert int(layer.num_batches_tracked) == 1
    layer.eval()
    m, v = layer.running_mean.numpy(), layer.running_var.numpy()
    close(layer(x), (a - m[None, :, None]) / np.sqrt(v[None, :, None] + 1e-5))
    with pytest.raises(ValueError, match="expected 2D or 3D"):
        layer(rand(2, 3, 4, 5))
    cumulative = nn.BatchNorm1d(3, momentum=None).double()
    cumulative(x)
    cumulative(x + 2)
    close(cumulative.running_mean, mean + 1)


def test_other_norms():
    x = rand(2, 4, 3)
    a = x.numpy()
    mean, var = a.mean(-1, keepdims=True), a.var(-1, keepdims=True)
    close(nn.LayerNorm(3, dtype=facula.float64)(x), (a - mean) / np.sqrt(var + 1e-5))
    close(nn.InstanceNorm1d(4)(x), (a - mean) / np.sqrt(var + 1e-5))
    groups = a.reshape(2, 2, 6)
    mean, var = groups.mean(-1, keepdims=True), groups.var(-1, keepdims=True)
    expected = ((groups - mean) / np.sqrt(var + 1e-5)).reshape(a.shape)
    close(nn.GroupNorm(2, 4, dtype=facula.float64)(x), expected)
    rms = np.sqrt((a**2).mean(-1, keepdims=True) + 1e-6)
    close(nn.RMSNorm(3, eps=1e-6, dtype=facula.float64)(x), a / rms)


def test_dropout():
    x = facula.ones(1000, 4, 5)
    y = nn.Dropout(0.25)(x)
    assert set(np.unique(y.numpy().round(5))) == {0.0, np.float32(1 / 0.75).round(5)}
    assert abs(float(y.mean()) - 1) < 0.05
    z = nn.Dropout1d(0.5)(x).numpy()
    assert np.all(z == z[:, :, :1]) and abs(z.mean() - 1) < 0.1
    for layer in (nn.Dropout(0.9), nn.Dropout1d(0.9), nn.AlphaDropout(0.9)):
        assert layer.eval()(x) is x or bool((layer(x) == x).all())
    gauss = facula.randn(20000)
    kept = nn.AlphaDropout(0.3)(gauss)
    assert abs(float(kept.mean())) < 0.05 and abs(float(kept.var()) - 1) < 0.1
    with pytest.raises(ValueError, match=r"p must be in \[0, 1\], not 1\.5"):
        nn.Dropout(1.5)


def test_embedding():
    layer = nn.Embedding(5, 2, padding_idx=-1)
    index = facula.tensor([[0, 4], [2, 2]])
    close(layer(index), layer.weight.detach().numpy()[index.numpy()])
    assert layer.padding_idx == 4 and float(layer.weight[4].abs().sum()) == 0
    layer(index).sum().backward()
    close(layer.weight.grad.sum(1), [2, 0, 4, 0, 0])
    capped = nn.Embedding(5, 2, max_norm=0.5)
    capped(index)
    norms = np.linalg.norm(capped.weight.detach().numpy()[[0, 2, 4]], axis=1)
    assert np.all(norms <= 0.5 + 1e-6)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    rows = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    layer = nn.EmbeddingBag(6, 2, mode=mode).double()
    table = layer.weight.detach().numpy()
    square = facula.tensor([[0, 5], [2, 2]])
    close(layer(square), [rows(table[i], axis=0) for i in square.numpy()])
    flat, starts = facula.tensor([1, 2, 3, 3, 0]), facula.tensor([0, 2, 2])
    bags = [table[[1, 2]], np.zeros((1, 2)), table[[3, 3, 0]]]
    close(layer(flat, starts), [rows(b, axis=0) for b in bags])
    ends = facula.tensor([0, 2, 2, 5])
    last = nn.EmbeddingBag(6, 2, mode=mode, include_last_offset=True, _weight=layer.weight)
    close(last(flat, ends), [rows(b, axis=0) for b in bags])
    padded = nn.EmbeddingBag(6, 2, mode=mode, padding_idx=3, _weight=layer.weight)
    bags[2] = table[[0]]
    close(padded(flat, starts), [rows(b, axis=0) for b in bags])
    padded.weight.grad = None
    padded(flat, starts).sum().backward()
    assert padded.weight.grad[3].tolist() == [0, 0] and padded.weight.grad[0].tolist() == [1, 1]


def test_embedding_bag_weights_and_refusals():
    layer = nn.EmbeddingBag(4, 3, mode="sum").double()
    index, factors = facula.tensor([[0, 3], [1, 1]]), rand(2, 2).requires_grad_()
    expected = np.einsum(
        "bn,bnd->bd", factors.detach().numpy(), layer.weight.detach().numpy()[index]
    )
    out = layer(index, per_sample_weights=factors)
    close(out, expected)
    out.sum().backward()
    close(factors.grad, layer.weight.detach().numpy()[index].sum(-1))
    table = layer.weight
    for call, error, text in (
        (lambda: F.embedding_bag(index, table, mode="median"), ValueError, "mode is 'median'"),
        (lambda: F.embedding_bag(index[0], table), ValueError, "with 1-d offsets"),
        (lambda: F.embedding_bag(index, table, index[0]), ValueError, "goes with a 1-d input"),
        (
            lambda: F.embedding_bag(index[0], table, facula.tensor([1])),
            ValueError,
            r"begin with 0.* got \[1\]",
        ),
        (
            lambda: F.embedding_bag(index, table, per_sample_weights=factors),
            NotImplementedError,
            "mode 'sum', not 'mean'",
        ),
        (lambda: F.embedding_bag(index, table, padding_idx=4), ValueError, "4 is not a row of 4"),
    ):
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize(
    ("mode", "numpy_mode"),
    [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap"), ("constant", "constant")],
)
def test_pad(mode, numpy_mode):
    x = rand(2, 3, 4, 5)
    expected = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 2), (3, 0)), numpy_mode)
    close(F.pad(x, (3, 0, 1, 2), mode), expected)


def test_pads_of_three_dims():
    x = rand(1, 2, 3, 4, 5)
    sides = ((0, 0), (0, 0), (2, 1), (0, 2), (1, 1))
    for layer, mode in (
        (nn.ReflectionPad3d, "reflect"),
        (nn.ReplicationPad3d, "edge"),
        (nn.CircularPad3d, "wrap"),
        (nn.ZeroPad3d, "constant"),
    ):
        close(layer((1, 1, 0, 2, 2, 1))(x), np.pad(x.numpy(), sides, mode))
    filled = nn.ConstantPad3d(1, 7.0)(x)
    close(filled, np.pad(x.numpy(), ((0, 0),) * 2 + ((1, 1),) * 3, constant_values=7.0))


def test_pad_crops_fills_and_refuses():
    x = rand(2, 5)
    close(F.pad(x, (-1, 2), value=7.0)[:, -2:], np.full((2, 2), 7.0))
    close(F.pad(x, (-1, -2)), x.numpy()[:, 1:-2])
    y = x.clone().requires_grad_()
    F.pad(y, (1, -2), value=3.0).sum().backward()
    close(y.grad, [[1, 1, 1, 0, 0]] * 2)
    with pytest.raises((RuntimeError, ValueError)):
        F.pad(x, (5, 0), "reflect")
    with pytest.raises((RuntimeError, ValueError)):
        F.pad(x, (1, 0, 2))


def test_interpolate():
    x = facula.arange(4, dtype=facula.float64).reshape(1, 1, 4)
    close(F.interpolate(x, scale_factor=2)[0, 0], [0, 0, 1, 1, 2, 2, 3, 3])
    close(F.interpolate(x, size=7, mode="linear", align_corners=True)[0, 0], np.arange(7) / 2)
    expected = [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3]
    close(F.interpolate(x, scale_factor=2, mode="linear")[0, 0], expected)
    # The impulse response of the cubic mode is Keys' kernel with a = -0.75, worked by hand.
    impulse = facula.zeros(1, 1, 12, 12, dtype=facula.float64)
    impulse[:, :, :, 5] = 1
    out = F.interpolate(impulse, scale_factor=2, mode="bicubic")[0, 0, 8, 7:12]
    close(out, [-0.03515625, -0.10546875, 0.26171875, 0.87890625, 0.87890625])
    with pytest.raises(ValueError, match="exactly one"):
        F.interpolate(x)


def test_shuffles():
    x = rand(1, 8, 2, 3)
    y = F.pixel_shuffle(x, 2)
    assert tuple(y.shape) == (1, 2, 4, 6)
    close(y[0, 0, 1::2, 0::2], x[0, 2].numpy())
    close(F.pixel_unshuffle(y, 2), x.numpy())
    close(F.channel_shuffle(x, 2)[0, 1], x[0, 4].numpy())


def test_vectors():
    x, y = rand(4, 3), rand(4, 3)
    a, b = x.numpy(), y.numpy()
    close(F.normalize(x), a / np.linalg.norm(a, axis=1, keepdims=True))
    close(F.pairwise_distance(x, y), np.linalg.norm(a - b + 1e-6, axis=1))
    cos = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    close(nn.CosineSimilarity()(x, y), cos)
    close(F.one_hot(facula.tensor([2, 0])), [[0, 0, 1], [1, 0, 0]])
    with pytest.raises(RuntimeError):
        F.one_hot(facula.tensor([3]), 3)
    hard = F.gumbel_softmax(x, hard=True)
    close(hard.sum(1), np.ones(4))
    apart = np.linalg.norm(a[:, None] - a, axis=-1)
    close(F.pdist(x), apart[np.triu_indices(4, 1)])


@pytest.mark.parametrize(
    "layer",
    [nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.ELU, nn.CELU, nn.LeakyReLU],
)
def test_in_place_activations(layer):
    start = rand(5)
    x, y = (start.clone().requires_grad_() for _ in range(2))
    middle = x * 1
    out = layer(inplace=True)(middle)
    expected = layer()(y)
    close(out, expected.detach().numpy())
    close(middle, expected.detach().numpy())
    out.square().sum().backward()
    expected.square().sum().backward()
    close(x.grad, y.grad.numpy())
    plain = start.clone()
    assert layer(inplace=True)(plain) is plain


def test_rrelu():
    x = facula.full((2000,), -1.0)
    slopes = -nn.RReLU(0.1, 0.3)(x).numpy()
    assert slopes.min() >= 0.1 and slopes.max() <= 0.3 and abs(slopes.mean() - 0.2) < 0.01
    close(nn.RReLU(0.1, 0.3).eval()(x)[:1], [-0.2], 1e-6)
    assert F.rrelu(-x, training=True).tolist() == [1.0] * 2000
    y = x.clone()
    assert F.rrelu_(y, 0.1, 0.3) is y
    close(y[:1], [-0.2], 1e-6)


def test_padding_by_name():
    x, w = rand(1, 1, 6), rand(1, 1, 4)
    close(F.conv1d(x, w, padding="valid")[0, 0], np.correlate(x[0, 0], w[0, 0], "valid"))
    padded = np.pad(x[0, 0].numpy(), (1, 2))
    close(F.conv1d(x, w, padding="same")[0, 0], np.correlate(padded, w[0, 0], "valid"))
    with pytest.raises((RuntimeError, ValueError), match="padding"):
        F.conv1d(x, w, padding="sane")


def test_implicit_softmax_dim_warns():
    x = rand(2, 3)
    with pytest.warns(UserWarning, match="Implicit dimension"):
        close(nn.Softmax()(x).sum(1), [1, 1])


# ---- attention and recurrence


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_with_masks(need_weights):
    layer = nn.MultiheadAttention(4, 2, batch_first=True).double()
    x = rand(3, 5, 4)
    causal = np.triu(np.ones((5, 5), bool), 1)
    padding = np.zeros((3, 5), bool)
    padding[1, 4] = True
    out, weights = layer(
        x,
        x,
        x,
        key_padding_mask=facula.tensor(padding.tolist()),
        attn_mask=facula.tensor(causal.tolist()),
        need_weights=need_weights,
    )
    qkv = x.numpy() @ layer.in_proj_weight.detach().numpy().T
    q, k, v = (p.reshape(3, 5, 2, 2).transpose(0, 2, 1, 3) for p in np.split(qkv, 3, -1))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(2)
    scores[np.broadcast_to(causal | padding[:, None, None, :], scores.shape)] = -np.inf
    probabilities = softmax(scores)
    mixed = (probabilities @ v).transpose(0, 2, 1, 3).reshape(3, 5, 4)
    close(out, mixed @ layer.out_proj.weight.detach().numpy().T)
    if need_weights:
        close(weights, probabilities.mean(1))
    else:
        assert weights is None


def test_attention_refuses_wrong_masks():
    layer, x = nn.MultiheadAttention(4, 2), facula.zeros(5, 3, 4)
    with pytest.raises(RuntimeError, match="attn_mask is"):
        layer(x, x, x, attn_mask=facula.zeros(4, 5))
    with pytest.raises(RuntimeError, match="key_padding_mask is"):
        layer(x, x, x, key_padding_mask=facula.zeros(5, 3))


@pytest.mark.parametrize("norm_first", [True, False])
def test_transformer_encoder_is_causal(norm_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 2).double()
    mask = nn.Transformer.generate_square_subsequent_mask(6).double()
    x = rand(2, 6, 8)
    y = x.clone()
    y[:, 4:] += 1
    a, b = (encoder(t, mask=mask, is_causal=True).detach().numpy() for t in (x, y))
    np.testing.assert_allclose(a[:, :4], b[:, :4], atol=1e-12)
    assert np.abs(a[:, 4:] - b[:, 4:]).max() > 1e-3


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def test_lstm_cell_and_layer():
    layer, x = nn.LSTM(3, 2).double(), rand(4, 2, 3)
    w, u, b, c = (getattr(layer, n).detach().numpy() for n in layer._parameters)
    h = s = np.zeros((2, 2))
    outputs = []
    for t in range(4):
        i, f, g, o = np.split(x[t].numpy() @ w.T + b + h @ u.T + c, 4, -1)
        s = sigmoid(f) * s + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(s)
        outputs.append(h)
    out, (hn, cn) = layer(x)
    close(out, np.stack(outputs))
    close(hn[0], h)
    close(cn[0], s)


def test_gru_and_rnn_layers_match_their_cells():
    for layer_type, cell_type in ((nn.GRU, nn.GRUCell), (nn.RNN, nn.RNNCell)):
        layer, cell, x = layer_type(3, 2).double(), cell_type(3, 2).double(), rand(4, 2, 3)
        cell.load_state_dict({k[:-3]: v for k, v in layer.state_dict().items()})
        h, outputs = None, []
        for t in range(4):
            h = cell(x[t], h)
            outputs.append(h.detach().numpy())
        close(layer(x)[0], np.stack(outputs))


def test_bidirectional_shapes_and_reversal():
    layer = nn.GRU(3, 2, num_layers=2, bidirectional=True, batch_first=True).double()
    out, h = layer(rand(5, 4, 3))
    assert tuple(out.shape) == (5, 4, 4) and tuple(h.shape) == (4, 5, 2)
    one = nn.RNN(3, 2, bidirectional=True).double()
    x = rand(4, 1, 3)
    one.load_state_dict({k: one.state_dict()[k.replace("_reverse", "")] for k in one.state_dict()})
    out = one(x)[0].detach().numpy()
    flipped = one(x.flip(0))[0].detach().numpy()[::-1]
    np.testing.assert_allclose(out[..., :2], flipped[..., 2:], atol=1e-12)


# ---- losses


def reduce_all(expected, make):
    for how, value in (("none", expected), ("sum", expected.sum()), ("mean", expected.mean())):
        close(make(how), value)


def test_losses_against_formulas():
    x, t = rand(4, 3), rand(4, 3)
    a, b = x.numpy(), t.numpy()
    d = np.abs(a - b)
    reduce_all(d, lambda r: nn.L1Loss(reduction=r)(x, t))
    reduce_all(d**2, lambda r: nn.MSELoss(reduction=r)(x, t))
    smooth = np.where(d < 0.5, d**2, d - 0.25)
    reduce_all(smooth, lambda r: nn.SmoothL1Loss(reduction=r, beta=0.5)(x, t))
    huber = np.where(d <= 0.5, d**2 / 2, 0.5 * (d - 0.25))
    reduce_all(huber, lambda r: nn.HuberLoss(reduction=r, delta=0.5)(x, t))
    p = sigmoid(b)
    bce = -(p * np.log(sigmoid(a)) + (1 - p) * np.log(1 - sigmoid(a)))
    pt = facula.sigmoid(t)
    reduce_all(bce, lambda r: nn.BCEWithLogitsLoss(reduction=r)(x, pt))
    reduce_all(bce, lambda r: nn.BCELoss(reduction=r)(facula.sigmoid(x), pt))
    multi = bce.mean(-1)
    reduce_all(multi, lambda r: nn.MultiLabelSoftMarginLoss(reduction=r)(x, pt))
    reduce_all(np.exp(a) - p * a, lambda r: nn.PoissonNLLLoss(reduction=r)(x, pt))
    var = facula.exp(t)
    gauss = 0.5 * (b + (a - b) ** 2 / np.exp(b))
    reduce_all(gauss, lambda r: nn.GaussianNLLLoss(reduction=r)(x, t, var))
    sign = facula.tensor([[1.0, -1.0, 1.0]], dtype=facula.float64).expand(4, 3)
    s = sign.numpy()
    reduce_all(np.log1p(np.exp(-s * a)), lambda r: nn.SoftMarginLoss(reduction=r)(x, sign))
    hinge = np.where(s == 1, a, np.maximum(0, 1 - a))
    reduce_all(hinge, lambda r: nn.HingeEmbeddingLoss(reduction=r)(x, sign))


def test_older_words_for_the_reduction():
    x, y = rand(4, 3), rand(4, 3)
    sign = y.sign()
    for loss, args in (
        (F.mse_loss, (x, y)),
        (F.soft_margin_loss, (x, sign)),
        (F.hinge_embedding_loss, (x, sign)),
        (F.triplet_margin_loss, (x, y, y + 1)),
        (F.multilabel_soft_margin_loss, (x, y.sigmoid())),
        (F.poisson_nll_loss, (x, y)),
    ):
        each = loss(*args, reduction="none")
        close(loss(*args, reduce=False), each.numpy())
        close(loss(*args, size_average=False), each.sum().numpy())
        close(loss(*args, size_average=True, reduction="sum"), each.mean().numpy())
        with pytest.raises(ValueError, match=r"^\w+_loss\(\): reduction must be .* not 'men'"):
            loss(*args, reduction="men")
    close(nn.L1Loss(size_average=False)(x, y), np.abs((x - y).numpy()).sum())


def test_cross_entropy():
    x = rand(5, 3)
    target = facula.tensor([0, 2, 1, 1, -100])
    weight = facula.tensor([1.0, 2.0, 3.0], dtype=facula.float64)
    logp = np.log(softmax(x.numpy()))
    y, w = np.array([0, 2, 1, 1]), np.array([1.0, 2.0, 3.0])
    each = -logp[np.arange(4), y] * w[y]
    close(nn.CrossEntropyLoss(weight)(x, target), each.sum() / w[y].sum())
    close(nn.CrossEntropyLoss(weight, reduction="none")(x, target), [*each, 0.0])
    close(nn.NLLLoss(weight, reduction="sum")(F.log_softmax(x, 1), target), each.sum())
    with pytest.raises((ValueError, RuntimeError)):
        nn.MSELoss(reduction="meen")(x, x)


def test_ranking_losses():
    a, p, n = rand(4, 3), rand(4, 3), rand(4, 3)

    def distance(x, y):
        return np.linalg.norm(x.numpy() - y.numpy() + 1e-6, axis=1)

    expected = np.maximum(0, distance(a, p) - distance(a, n) + 1)
    reduce_all(expected, lambda r: nn.TripletMarginLoss(reduction=r)(a, p, n))
    target = facula.tensor([1.0, -1.0, 1.0], dtype=facula.float64)
    x, y = rand(3), rand(3)
    expected = np.maximum(0, -target.numpy() * (x.numpy() - y.numpy()) + 0.3)
    reduce_all(expected, lambda r: nn.MarginRankingLoss(0.3, reduction=r)(x, y, target))
    scores = facula.tensor([[0.1, 0.2, 0.4, 0.8]], dtype=facula.float64)
    # Value from the definition: (0.3 + 0.4 + 0.6) / 4 and (0.85 + ...) worked by hand.
    close(nn.MultiMarginLoss()(scores, facula.tensor([3])), (0.3 + 0.4 + 0.6) / 4)
    labels = facula.tensor([[3, 0, -1, 1]])
    close(nn.MultiLabelMarginLoss()(scores, labels), 0.85)


# ---- init


@pytest.mark.parametrize(
    ("name", "std"),
    [
        ("xavier_uniform_", math.sqrt(2 / 500)),
        ("xavier_normal_", math.sqrt(2 / 500)),
        ("kaiming_normal_", math.sqrt(2 / 200)),
        ("kaiming_uniform_", math.sqrt(2 / 200)),
    ],
)
def test_init_spread(name, std):
    w = getattr(nn.init, name)(facula.empty(300, 200))
    assert abs(float(w.std()) / std - 1) < 0.02 and abs(float(w.mean())) < 5 * std / 245


def test_init_exact():
    close(nn.init.eye_(facula.empty(2, 3)), np.eye(2, 3))
    for shape in ((4, 6), (6, 4)):
        q = nn.init.orthogonal_(facula.empty(shape, dtype=facula.float64), gain=2).numpy()
        small = q @ q.T if shape[0] < shape[1] else q.T @ q
        np.testing.assert_allclose(small, 4 * np.eye(4), atol=1e-12)
    t = nn.init.trunc_normal_(facula.empty(5000), 1.0, 2.0, 0.0, 2.0)
    assert float(t.min()) >= 0 and float(t.max()) <= 2
    s = nn.init.sparse_(facula.empty(10, 7), 0.3).numpy()
    assert np.all((s == 0).sum(0) == 3)
    conv = nn.Conv2d(3, 3, 3, padding=1, bias=False)
    nn.init.dirac_(conv.weight)
    x = facula.randn(1, 3, 5, 5)
    close(conv(x), x.numpy(), 1e-6)
    with pytest.raises(ValueError, match="at least 2 dims"):
        nn.init.xavier_uniform_(facula.empty(3))
    assert nn.init.calculate_gain("leaky_relu", 1.0) == 1.0
