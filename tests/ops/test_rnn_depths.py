"""Recurrent networks whose states are longer than a panel of the products."""

from __future__ import annotations

from typing import Any

import facula as fa
import numpy as np
import pytest
import rnn_reference

KINDS = {"lstm": fa.nn.LSTM, "gru": fa.nn.GRU, "rnn_tanh": fa.nn.RNN}


def _values(net: fa.nn.Module, x: fa.Tensor) -> Any:
    return net(x)[0]


@pytest.mark.parametrize("inputs", [3, 390])
@pytest.mark.parametrize("kind", KINDS)
def test_long_states(kind: str, inputs: int) -> None:
    fa.manual_seed(1)
    width, batch, times = 391, 3, 3
    net = KINDS[kind](inputs, width).double()
    x = fa.randn(times, batch, inputs, dtype=fa.float64, requires_grad=True)
    zero = [np.zeros((1, batch, width))] * (2 if kind == "lstm" else 1)
    params = [p.detach().numpy() for p in net.parameters()]
    rows = x.detach().numpy().reshape(-1, inputs)
    want = rnn_reference._network(kind, rows, [batch] * times, zero, params, True, 1, False)
    got = _values(net, x)
    np.testing.assert_allclose(got.detach().numpy().reshape(-1, width), want[0], atol=1e-12)
    # The slope along a direction, of the input and of each parameter, by central differences.
    by = fa.randn(got.shape, dtype=fa.float64)
    operands = [x, *net.parameters()]
    slopes = fa.autograd.grad((got * by).sum(), operands)
    step = 1e-6
    for operand, slope in zip(operands, slopes, strict=True):
        way = fa.randn(operand.shape, dtype=fa.float64)
        ends = []
        with fa.no_grad():
            for sign in (1, -2, 1):
                operand += sign * step * way
                ends.append((_values(net, x) * by).sum().item())
        change = (ends[0] - ends[1]) / (2 * step)
        assert change == pytest.approx((slope * way).sum().item(), rel=1e-6, abs=1e-6)
