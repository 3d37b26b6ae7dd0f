"""What kind of layer a layer is, by the base classes that packages ask for; older layers."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
from facula import nn
from facula.nn import functional as F
from facula.nn import grad
from facula.optim import lr_scheduler

BASES = {
    "_AdaptiveAvgPoolNd": "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d",
    "_AdaptiveMaxPoolNd": "AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d",
    "_AvgPoolNd": "AvgPool1d AvgPool2d AvgPool3d",
    "_BatchNorm": "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm LazyBatchNorm1d",
    "_CircularPadNd": "CircularPad1d CircularPad2d CircularPad3d",
    "_ConstantPadNd": "ConstantPad1d ConstantPad2d ConstantPad3d ZeroPad1d ZeroPad2d ZeroPad3d",
    "_ConvNd": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d",
    "_ConvTransposeNd": "ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConvTranspose2d",
    "_DropoutNd": "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout",
    "_InstanceNorm": "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d",
    "_LPPoolNd": "LPPool1d LPPool2d LPPool3d",
    "_LazyConvXdMixin": "LazyConv1d LazyConvTranspose3d",
    "_LazyNormBase": "LazyBatchNorm1d LazyInstanceNorm3d",
    "_Loss": "L1Loss CTCLoss CosineEmbeddingLoss MarginRankingLoss LinearCrossEntropyLoss",
    "_MaxPoolNd": "MaxPool1d MaxPool2d MaxPool3d",
    "_MaxUnpoolNd": "MaxUnpool1d MaxUnpool2d MaxUnpool3d",
    "_ReflectionPadNd": "ReflectionPad1d ReflectionPad2d ReflectionPad3d",
    "_ReplicationPadNd": "ReplicationPad1d ReplicationPad2d ReplicationPad3d",
    "_WeightedLoss": "NLLLoss CrossEntropyLoss BCELoss LinearCrossEntropyLoss MultiMarginLoss",
}
APART = [
    ("AvgPool3d", "AvgPool2d"),
    ("ZeroPad2d", "ZeroPad1d"),
    ("MarginRankingLoss", "CosineEmbeddingLoss"),
]


@pytest.mark.parametrize("base", BASES)
def test_layers_have_the_bases_that_packages_ask_for(base):
    for name in BASES[base].split():
        assert base in [kind.__name__ for kind in getattr(nn, name).__mro__], name


@pytest.mark.parametrize("name, other", APART)
def test_layers_are_no_kind_of_another(name, other):
    assert not issubclass(getattr(nn, name), getattr(nn, other))
    assert not issubclass(lr_scheduler.ChainedScheduler, lr_scheduler.SequentialLR)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_zeros_are_padded(dims):
    layer = getattr(nn, f"ZeroPad{dims}d")(1)
    assert isinstance(layer, getattr(nn, f"ConstantPad{dims}d"))
    assert repr(layer) == f"ZeroPad{dims}d({(1,) * 2 * dims})"
    x = np.random.default_rng(0).normal(size=(2, 3, *[4] * dims)).astype(np.float32)
    wanted = np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * dims])
    np.testing.assert_array_equal(layer(fa.tensor(x)).numpy(), wanted)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("groups, stride, padding, dilation", [(1, 1, 0, 1), (2, 2, 1, 2)])
def test_gradients_of_convolutions(dims, groups, stride, padding, dilation):
    rng = np.random.default_rng(1)
    x = fa.tensor(rng.normal(size=(2, 4, *[7] * dims)), requires_grad=True)
    w = fa.tensor(rng.normal(size=(6, 4 // groups, *[3] * dims)), requires_grad=True)
    how = (stride, padding, dilation, groups)
    y = getattr(F, f"conv{dims}d")(x, w, None, *how)
    g = fa.tensor(rng.normal(size=tuple(y.shape)))
    of_input = getattr(grad, f"conv{dims}d_input")(x.shape, w, g, *how)
    of_weight = getattr(grad, f"conv{dims}d_weight")(x, w.shape, g, *how)
    assert of_input.requires_grad and of_weight.requires_grad
    # <conv(x, v), g> is linear in each of the two: its derivative along v is itself.
    v, u = fa.tensor(rng.normal(size=tuple(w.shape))), fa.tensor(rng.normal(size=tuple(x.shape)))
    with fa.no_grad():
        along_w = (getattr(F, f"conv{dims}d")(x, v, None, *how) * g).sum().item()
        along_x = (getattr(F, f"conv{dims}d")(u, w, None, *how) * g).sum().item()
    assert (of_weight * v).sum().item() == pytest.approx(along_w, rel=1e-10)
    assert (of_input * u).sum().item() == pytest.approx(along_x, rel=1e-10)
    with pytest.raises(RuntimeError, match="grad_output has the shape"):
        getattr(grad, f"conv{dims}d_input")(x.shape, w, g[:1], *how)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_response_across_channels(size):
    x = np.random.default_rng(2).normal(size=(2, 7, 3, 2))
    layer = nn.CrossMapLRN2d(size, alpha=0.3, beta=0.6, k=2)
    t = fa.tensor(x, requires_grad=True)
    wanted = np.empty_like(x)
    reach = (size - 1) // 2
    for c in range(7):
        sums = (x[:, max(c - reach, 0) : c + reach + 1] ** 2).sum(1)
        sums += x[:, 0] ** 2 if c > reach else 0  # the first channel stays
        wanted[:, c] = x[:, c] * (2 + 0.3 / size * sums) ** -0.6
    np.testing.assert_allclose(layer(t).detach().numpy(), wanted, rtol=1e-12)
    assert fa.autograd.gradcheck(layer, (t,))
    assert repr(layer) == f"CrossMapLRN2d({size}, alpha=0.3, beta=0.6, k=2)"
    with pytest.raises(ValueError, match="Expected input to be 4D"):
        layer(t[0])
