"""What torch looks for in modules that it reads, and losses cut into parts."""

from __future__ import annotations

import io
import pickle
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula import nn
from facula.nn import functional as F

MODULES = {
    "lstm": lambda: nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2),
    "gru": lambda: nn.GRU(3, 4),
    "encoder": lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(4, 2, 8, activation="gelu"), 1
    ),
    "decoder": lambda: nn.TransformerDecoderLayer(4, 2, 8, activation="gelu"),
    "convolution": lambda: nn.Conv2d(1, 2, (3, 2), padding="same", padding_mode="circular"),
    "pool": lambda: nn.FractionalMaxPool2d(2, output_ratio=0.5),
    "loss": lambda: nn.LinearCrossEntropyLoss(3, 4, bias=True),
}


def test_attributes_of_torch() -> None:
    """As torch 2.13 has them."""
    lstm = pickle.loads(pickle.dumps(MODULES["lstm"]()))
    assert lstm._all_weights[1][-1] == "weight_hr_l0_reverse"
    assert "_flat_weights" not in lstm.__dict__ and len(lstm._flat_weights) == 20
    state = lstm.__reduce_ex__(2)[2]
    assert state["_flat_weights"][0] is lstm.weight_ih_l0
    layers = MODULES["encoder"]().layers
    assert layers[0].activation_relu_or_gelu == 2
    assert nn.TransformerEncoderLayer(4, 2, activation=nn.ReLU()).activation_relu_or_gelu == 1
    assert nn.TransformerEncoderLayer(4, 2, activation=F.silu).activation_relu_or_gelu == 0
    assert "NonDynamicallyQuantizableLinear(in_features=4" in repr(layers)
    assert MODULES["convolution"]()._reversed_padding_repeated_twice == (0, 1, 1, 1)
    assert nn.Conv2d(1, 1, 3, padding=(1, 2))._reversed_padding_repeated_twice == (2, 2, 1, 1)
    pool = MODULES["pool"]()
    assert pool.kernel_size == (2, 2) and pool.output_ratio == (0.5, 0.5)


@pytest.mark.parametrize("name", MODULES)
def test_torch_reads_whole_modules_and_the_reverse(name: str) -> None:
    torch = pytest.importorskip("torch")
    module = MODULES[name]()
    file = io.BytesIO()
    fa.save(module, file)
    file.seek(0)
    theirs = torch.load(file, weights_only=False)
    assert type(theirs).__module__.startswith("torch.")
    back = io.BytesIO()
    torch.save(theirs, back)
    back.seek(0)
    again = fa.load(back, weights_only=False)
    assert type(again) is type(module)
    for key, value in module.state_dict().items():
        assert again.state_dict()[key].equal(value)


def test_modules_of_a_torch_with_fewer_hooks() -> None:
    layer = nn.Linear(2, 2)
    state = {k: v for k, v in layer.__dict__.items() if "with_kwargs" not in k}
    del state["_forward_hooks_always_called"]
    old = nn.Linear.__new__(nn.Linear)
    old.__setstate__(state)
    assert old(fa.ones(2)).equal(layer(fa.ones(2)))


def losses(target: Any, **options: Any) -> list[Any]:
    draw = np.random.default_rng(1)
    x, w = (fa.tensor(draw.standard_normal(s)).requires_grad_() for s in ((7, 3), (5, 3)))
    bias = fa.tensor(draw.standard_normal(5))
    found = []
    for cut in (None, nn.LinearCrossEntropyOptions(batch_chunk_size=2)):
        loss = F.linear_cross_entropy(x, w, target, linear_bias=bias, options=cut, **options)
        grads = fa.autograd.grad((loss**2).sum(), (x, w), create_graph=True)
        found.append([loss, *grads, fa.autograd.grad((grads[0] ** 2).sum(), w)[0]])
    return found


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_loss_in_parts_is_the_loss(reduction: str) -> None:
    target = fa.tensor([0, 4, -100, 1, 2, 2, 3])
    weight = fa.tensor([0.5, 1.0, 2.0, 0.25, 3.0], dtype=fa.float64)
    shares = fa.tensor(np.random.default_rng(2).dirichlet(np.ones(5), 7))
    for wanted, options in (
        (target, {}),
        (target, {"weight": weight, "label_smoothing": 0.25}),
        (target.clamp(0), {"ignore_index": 2}),
        (shares, {"weight": weight}),
    ):
        whole, parts = losses(wanted, reduction=reduction, **options)
        for a, b in zip(whole, parts, strict=True):
            fa.testing.assert_close(b, a, rtol=1e-10, atol=1e-12)


def test_sizes_of_parts() -> None:
    options = nn.LinearCrossEntropyOptions
    assert options(chunking_method="aspect_ratio").rows(1024, 64, 640) == 128
    assert options().rows(1024, 64, 640) == 64
    assert options(chunking_method=None).rows(9, 1, 1) == 9
    assert options(chunking_method="aspect_ratio:100").rows(4, 1, 4) == 1
    for bad in (
        {"acc_policy": "most"},
        {"chunking_method": "aspect_ratio:0"},
        {"chunking_method": "halves"},
        {"batch_chunk_size": 0},
        {"acc_dtype": fa.int32},
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            options(**bad)


def test_variances_of_one_dim() -> None:
    draw = np.random.default_rng(3)
    x, y = draw.standard_normal((2, 4, 3))
    for shape in ((1, 3), (4, 1)):
        v = draw.random(shape) + 0.5
        wanted = 0.5 * (np.log(v) + (x - y) ** 2 / v)
        got = F.gaussian_nll_loss(*map(fa.tensor, (x, y, v)), reduction="none")
        np.testing.assert_allclose(got.numpy(), wanted)
    with pytest.raises(ValueError, match="1 in one of its dims"):
        F.gaussian_nll_loss(fa.ones(4, 3), fa.ones(4, 3), fa.ones(1, 1))


def test_samples_of_a_larger_batch() -> None:
    samples = fa.rand(2, 1, 3)
    x = fa.rand(1, 5, 5, 5)
    one = F.fractional_max_pool3d(x, 2, 3, _random_samples=samples)
    assert one.equal(F.fractional_max_pool3d(x, 2, 3, _random_samples=samples[:1]))
    with pytest.raises(RuntimeError, match="_random_samples"):
        F.fractional_max_pool3d(x[None].expand(3, 1, 5, 5, 5), 2, 3, _random_samples=samples)


def test_names_that_torch_has_from_elsewhere() -> None:
    assert F.Tensor is fa.Tensor and F.has_torch_function is fa.overrides.has_torch_function
    x, w = fa.arange(12.0).reshape(3, 2, 2), fa.ones(2, 2, 1)
    assert F.conv_tbc(x, w, fa.zeros(1)).equal((x[:2] + x[1:]).sum(2, keepdim=True))
    assert F.native_channel_shuffle(fa.arange(4).view(1, 4, 1), 2).tolist() == [
        [[0], [2], [1], [3]]
    ]
    assert F.GRID_SAMPLE_PADDING_MODES["reflection"] == 2
    with pytest.raises(AttributeError, match="no function 'relv'; did you mean 'relu'"):
        F.relv  # noqa: B018
    with pytest.warns(FutureWarning, match="Container"):
        held = nn.Container(a=nn.Linear(1, 1))
    assert [name for name, _ in held.named_parameters()] == ["a.weight", "a.bias"]
    fa.testing.assert_allclose(fa.ones(2), fa.ones(2, dtype=fa.float64))
