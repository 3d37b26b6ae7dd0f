"""Recurrent layers, step by step in Python: Elman RNN, LSTM (Hochreiter & Schmidhuber 1997), GRU.

Parameters have torch's names and layout, so weights can be exchanged.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import facula
from facula.nn import functional as F
from facula.nn import init
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]


def _rnn_step(gates: Any, x: Any, state: tuple[Any, ...], w: Any, b: Any) -> tuple[Any, ...]:
    return (gates(x + F.linear(state[0], w, b)),)


def _lstm_step(gates: Any, x: Any, state: tuple[Any, ...], w: Any, b: Any) -> tuple[Any, ...]:
    h, c = state
    i, f, g, o = (x + F.linear(h, w, b)).chunk(4, -1)
    c = facula.sigmoid(f) * c + facula.sigmoid(i) * facula.tanh(g)
    return facula.sigmoid(o) * facula.tanh(c), c


def _gru_step(gates: Any, x: Any, state: tuple[Any, ...], w: Any, b: Any) -> tuple[Any, ...]:
    (h,) = state
    xr, xz, xn = x.chunk(3, -1)
    hr, hz, hn = F.linear(h, w, b).chunk(3, -1)
    r, z = facula.sigmoid(xr + hr), facula.sigmoid(xz + hz)
    n = facula.tanh(xn + r * hn)
    return (n + z * (h - n),)


_STEPS: dict[str, tuple[Any, int, int]] = {  # step, gates, states
    "RNN": (_rnn_step, 1, 1),
    "LSTM": (_lstm_step, 4, 2),
    "GRU": (_gru_step, 3, 1),
}


def _nonlinearity(name: str) -> Any:
    if name == "tanh":
        return facula.tanh
    if name == "relu":
        return F.relu
    raise ValueError(f"Unknown nonlinearity '{name}'. Select from 'tanh' or 'relu'.")


class _Cell(Module):
    _mode: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = _STEPS[self._mode][1] * hidden_size

        def make(*shape: int) -> Parameter:
            return Parameter(facula.empty(shape, device=device, dtype=dtype))

        self.weight_ih = make(rows, input_size)
        self.weight_hh = make(rows, hidden_size)
        self.register_parameter("bias_ih", make(rows) if bias else None)
        self.register_parameter("bias_hh", make(rows) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters from U(-k, k), k = 1 / sqrt(hidden_size)."""
        _reset(self, self.hidden_size)

    def _gates(self) -> Any:
        return None

    def _advance(self, input: Any, state: Any) -> tuple[Any, ...]:
        if input.dim() not in (1, 2):
            raise ValueError(
                f"{type(self).__name__}: expected input to be 1D or 2D, got {input.dim()}D"
            )
        single = input.dim() == 1
        x = input.unsqueeze(0) if single else input
        step, _, count = _STEPS[self._mode]
        if state is None:
            zeros = facula.zeros(
                (x.shape[0], self.hidden_size), dtype=input.dtype, device=input.device
            )
            state = (zeros,) * count
        elif single:
            state = tuple(s.unsqueeze(0) for s in state)
        projected = F.linear(x, self.weight_ih, self.bias_ih)
        new = step(self._gates(), projected, state, self.weight_hh, self.bias_hh)
        return tuple(s.squeeze(0) for s in new) if single else new

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


def _reset(module: Module, hidden_size: int) -> None:
    bound = 1.0 / math.sqrt(hidden_size) if hidden_size > 0 else 0
    for parameter in module.parameters():
        init.uniform_(parameter, -bound, bound)


class RNNCell(_Cell):
    """h' = act(W_ih x + b_ih + W_hh h + b_hh); input (N, input_size) or (input_size,)."""

    _mode = "RNN"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        _nonlinearity(nonlinearity)
        self.nonlinearity = nonlinearity

    def _gates(self) -> Any:
        return _nonlinearity(self.nonlinearity)

    def forward(self, input: Any, hx: Any = None) -> Any:
        return self._advance(input, None if hx is None else (hx,))[0]

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text + (f", nonlinearity={self.nonlinearity}" if self.nonlinearity != "tanh" else "")


class LSTMCell(_Cell):
    """One LSTM step; takes and returns (h, c)."""

    _mode = "LSTM"

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, ...]:
        return self._advance(input, hx)


class GRUCell(_Cell):
    """One GRU step (Cho et al. 2014, with the reset gate after the product)."""

    _mode = "GRU"

    def forward(self, input: Any, hx: Any = None) -> Any:
        return self._advance(input, None if hx is None else (hx,))[0]


class _Recurrent(Module):
    _mode: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if hidden_size <= 0 or num_layers <= 0:
            raise ValueError("hidden_size and num_layers must be greater than zero")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout should be a number in range [0, 1], got {dropout}")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"dropout={dropout} acts between layers and num_layers is 1: it has no effect",
                stacklevel=3,
            )
        self.mode = self._mode
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional = bidirectional
        rows = _STEPS[self._mode][1] * hidden_size
        for layer in range(num_layers):
            features = input_size if layer == 0 else hidden_size * (2 if bidirectional else 1)
            for suffix in self._suffixes(layer):
                shapes = {"weight_ih": (rows, features), "weight_hh": (rows, hidden_size)}
                if bias:
                    shapes.update(bias_ih=(rows,), bias_hh=(rows,))  # type: ignore[dict-item]
                for name, shape in shapes.items():
                    value = facula.empty(shape, device=device, dtype=dtype)
                    self.register_parameter(f"{name}_{suffix}", Parameter(value))
        self.reset_parameters()

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}", f"l{layer}_reverse"] if self.bidirectional else [f"l{layer}"]

    def reset_parameters(self) -> None:
        """Draw all parameters from U(-k, k), k = 1 / sqrt(hidden_size)."""
        _reset(self, self.hidden_size)

    def flatten_parameters(self) -> None:
        """Nothing to do: kept so that programs which call it run."""

    def _gates(self) -> Any:
        return None

    def _run(self, input: Any, initial: Any) -> tuple[Any, tuple[Any, ...]]:
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: expected input to be 2D or 3D, got {input.dim()}D"
            )
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{type(self).__name__}: input is {tuple(input.shape)}, expected "
                f"{self.input_size} features in the last dim"
            )
        single = input.dim() == 2
        x = input.unsqueeze(1) if single else input
        if self.batch_first and not single:
            x = x.transpose(0, 1)
        count = _STEPS[self._mode][2]
        stack = self.num_layers * (2 if self.bidirectional else 1)
        shape = (stack, x.shape[1], self.hidden_size)
        if initial is None:
            initial = (facula.zeros(shape, dtype=x.dtype, device=x.device),) * count
        else:
            initial = tuple(s.unsqueeze(1) for s in initial) if single else tuple(initial)
            for state in initial:
                if tuple(state.shape) != shape:
                    raise RuntimeError(f"Expected hidden size {shape}, got {tuple(state.shape)}")
        final: list[tuple[Any, ...]] = []
        for layer in range(self.num_layers):
            outputs = []
            for suffix in self._suffixes(layer):
                state = tuple(s[len(final)] for s in initial)
                output, state = self._layer(x, state, suffix, suffix.endswith("reverse"))
                outputs.append(output)
                final.append(state)
            x = facula.cat(outputs, -1) if len(outputs) > 1 else outputs[0]
            if self.dropout and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        states = tuple(facula.stack([s[k] for s in final]) for k in range(count))
        if single:
            return x.squeeze(1), tuple(s.squeeze(1) for s in states)
        return (x.transpose(0, 1) if self.batch_first else x), states

    def _layer(self, x: Any, state: tuple[Any, ...], suffix: str, backwards: bool) -> Any:
        kept = self._parameters
        weight, bias = kept[f"weight_hh_{suffix}"], kept.get(f"bias_hh_{suffix}")
        # One product for all times: only the recurrent half must go step by step.
        projected = F.linear(x, kept[f"weight_ih_{suffix}"], kept.get(f"bias_ih_{suffix}"))
        step, gates = _STEPS[self._mode][0], self._gates()
        times = list(projected.unbind(0))
        outputs = []
        for xt in reversed(times) if backwards else times:
            state = step(gates, xt, state, weight, bias)
            outputs.append(state[0])
        if backwards:
            outputs.reverse()
        return facula.stack(outputs), state

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if not self.bias:
            text += ", bias=False"
        if self.batch_first:
            text += ", batch_first=True"
        if self.dropout:
            text += f", dropout={self.dropout}"
        if self.bidirectional:
            text += ", bidirectional=True"
        return text


class RNN(_Recurrent):
    """Elman RNN; input (L, N, input_size), (N, L, input_size) with batch_first, or (L, input_size).

    Returns the last layer's outputs (L, N, D * hidden_size) and the final states
    (D * num_layers, N, hidden_size), D = 2 if bidirectional else 1.
    """

    _mode = "RNN"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        _nonlinearity(nonlinearity)
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
        )
        self.nonlinearity = nonlinearity

    def _gates(self) -> Any:
        return _nonlinearity(self.nonlinearity)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        output, states = self._run(input, None if hx is None else (hx,))
        return output, states[0]


class LSTM(_Recurrent):
    """LSTM; shapes as RNN, with states (h, c)."""

    _mode = "LSTM"

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, tuple[Any, ...]]:
        return self._run(input, hx)


class GRU(_Recurrent):
    """GRU; shapes as RNN."""

    _mode = "GRU"

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        output, states = self._run(input, None if hx is None else (hx,))
        return output, states[0]
