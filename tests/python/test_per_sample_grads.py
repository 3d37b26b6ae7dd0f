"""Gradients a sample, and gradients of convolutions that are differentiated again."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
from facula import nn
from facula.func import call_for_per_sample_grads
from facula.nn import grad as conv_grad


def array(t):
    return t.detach().numpy()


@pytest.mark.parametrize("loss_reduction", ["sum", "mean"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_linear_layers_gradients_are_outer_products(loss_reduction, batch_first):
    fa.manual_seed(0)
    layer = nn.Linear(3, 2)
    x = fa.randn(5, 5, 3)
    run = call_for_per_sample_grads(layer, loss_reduction=loss_reduction, batch_first=batch_first)
    y = run(x)
    np.testing.assert_allclose(array(y), array(layer(x)), rtol=1e-5, atol=1e-6)
    weights = fa.randn_like(y)
    (y * weights).sum().backward()
    scale = 5 if loss_reduction == "mean" else 1
    how = "bto,bti->boi" if batch_first else "tbo,tbi->boi"
    expected = scale * np.einsum(how, array(weights), array(x))
    np.testing.assert_allclose(array(layer.weight.grad_sample), expected, rtol=1e-4, atol=1e-5)
    sums = scale * array(weights).sum(1 if batch_first else 0)
    np.testing.assert_allclose(array(layer.bias.grad_sample), sums, rtol=1e-4, atol=1e-5)
    assert layer.weight.grad is None and layer.bias.grad is None


def test_networks_frozen_parameters_and_inputs():
    fa.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.GroupNorm(1, 3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 2)
    ).double()
    net[1].weight.requires_grad_(False)
    x = fa.randn(4, 2, 5, 5, dtype=fa.float64, requires_grad=True)
    call_for_per_sample_grads(net, batch_size=4)(x).square().sum().backward()
    assert not hasattr(net[1].weight, "grad_sample")
    # The sum over samples is the gradient of the sum, here by finite differences.
    step = 1e-6
    place = net[0].weight[1, 0, 2, 1]
    found = []
    for sign in (1, -1):
        with fa.no_grad():
            place.add_(sign * step)
            found.append(net(x).square().sum(1))
            place.sub_(sign * step)
    slopes = array((found[0] - found[1]) / (2 * step))
    np.testing.assert_allclose(array(net[0].weight.grad_sample)[:, 1, 0, 2, 1], slopes, rtol=1e-5)
    assert x.grad.shape == x.shape


def test_what_is_refused():
    layer = nn.Linear(3, 2)
    for given, text in (
        ({"loss_reduction": "max"}, "sum.*mean"),
        ({"batch_size": 0}, "positive"),
        ({"batch_size": 2.0}, "integer"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call_for_per_sample_grads(layer, **given)
    with pytest.raises(RuntimeError, match="Module"):
        call_for_per_sample_grads(lambda x: x)
    run = call_for_per_sample_grads(layer, batch_size=4)
    with pytest.raises(RuntimeError, match="batch sizes"):
        run(fa.ones(3, 3))
    with pytest.raises(RuntimeError, match="no tensor"):
        call_for_per_sample_grads(layer)(1)
    run(fa.ones(4, 3)).sum().backward()
    with pytest.raises(RuntimeError, match="grad_sample still"):
        call_for_per_sample_grads(layer)


@pytest.mark.parametrize("groups", [1, 2])
def test_gradients_of_convolutions_have_gradients(groups):
    fa.manual_seed(2)

    def double(*shape):
        return fa.randn(*shape, dtype=fa.float64, requires_grad=True)

    x, w, g = double(2, 4, 5, 5), double(4, 4 // groups, 3, 2), double(2, 4, 2, 3)
    how = {"stride": 2, "padding": (0, 1), "groups": groups}
    assert fa.autograd.gradcheck(lambda x, g: conv_grad.conv2d_weight(x, w.shape, g, **how), (x, g))
    assert fa.autograd.gradcheck(lambda w, g: conv_grad.conv2d_input(x.shape, w, g, **how), (w, g))
    with fa.no_grad():
        assert not conv_grad.conv2d_weight(x, w.shape, g, **how).requires_grad
    plain = conv_grad.conv2d_input(x.shape, w.detach(), g.detach(), **how)
    assert not plain.requires_grad and plain.is_leaf
