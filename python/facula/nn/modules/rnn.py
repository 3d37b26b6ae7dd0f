"""Recurrent layers: Elman RNN, LSTM (Hochreiter & Schmidhuber 1997), GRU (Cho et al. 2014).

Parameters have torch's names and layout, so weights can be exchanged.
"""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import facula
from facula.nn import init
from facula.nn._sizes import check_features
from facula.nn.modules.container import MOST_LAYERS
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter
from facula.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
_NETWORKS = {
    "RNN_TANH": facula.rnn_tanh,
    "RNN_RELU": facula.rnn_relu,
    "LSTM": facula.lstm,
    "GRU": facula.gru,
}


def _mode_of(nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
    return f"RNN_{nonlinearity.upper()}"


def _reset(module: Module, hidden_size: int) -> None:
    bound = 1.0 / math.sqrt(hidden_size) if hidden_size > 0 else 0
    for parameter in module.parameters():
        init.uniform_(parameter, -bound, bound)


def _states(given: Any, count: int, name: str) -> tuple[Any, ...]:
    """The given states, of which there must be `count`."""
    fits = isinstance(given, (tuple, list)) and len(given) == count
    if fits and all(isinstance(state, facula.Tensor) for state in given):
        return tuple(given)
    expected = "a Tensor" if count == 1 else "a tuple of two Tensors, (h, c)"
    got = given[0] if count == 1 else given
    kinds = ", ".join(type(s).__name__ for s in got) if isinstance(got, (tuple, list)) else ""
    shown = f"{type(got).__name__} of ({kinds})" if kinds else type(got).__name__
    raise TypeError(f"{name}: Expected hx to be {expected}, got {shown}")


# ---- whole sequences


class RNNBase(Module):
    """What RNN, LSTM and GRU share: the parameters, and the run over (packed) sequences."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        if (
            not isinstance(dropout, numbers.Number)
            or isinstance(dropout, bool)
            or not 0 <= dropout <= 1  # type: ignore[operator]
        ):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                f"element being zeroed, got {dropout!r}"
            )
        if not isinstance(hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
        if hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        check_features(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if num_layers > MOST_LAYERS:
            raise ValueError(f"num_layers must be at most {MOST_LAYERS}, got {num_layers}")
        if proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"dropout={dropout} acts between layers and num_layers is 1: it has no effect",
                stacklevel=3,
            )
        self.mode = mode
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        rows, state = _GATES[mode] * hidden_size, proj_size or hidden_size
        directions = 2 if bidirectional else 1
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []  # for torch, which reads whole modules
        for layer in range(num_layers):
            features = input_size if layer == 0 else state * directions
            for suffix in (f"l{layer}", f"l{layer}_reverse")[:directions]:
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (rows, features),
                    "weight_hh": (rows, state),
                }
                if bias:
                    shapes.update(bias_ih=(rows,), bias_hh=(rows,))
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    value = facula.empty(shape, device=device, dtype=dtype)
                    self.register_parameter(f"{name}_{suffix}", Parameter(value))
                self._all_weights.append([f"{name}_{suffix}" for name in shapes])
                self._flat_weights_names += self._all_weights[-1]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters from U(-k, k), k = 1 / sqrt(hidden_size)."""
        _reset(self, self.hidden_size)

    def __getstate__(self) -> dict[str, Any]:
        # torch keeps the parameters twice, and wants them so in whole modules.
        return {**self.__dict__, "_flat_weights": self._flat_weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        twice = ("_flat_weights", "_flat_weight_refs")
        super().__setstate__({k: v for k, v in state.items() if k not in twice})
        self.__dict__.setdefault("proj_size", 0)

    def flatten_parameters(self) -> None:
        """Nothing to do: kept so that programs which call it run."""

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each direction of each layer."""
        flat = self._flat_weights
        cells = self.num_layers * (2 if self.bidirectional else 1)
        each = len(flat) // cells
        return [flat[i : i + each] for i in range(0, len(flat), each)]

    def _state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size,)

    def _initial(self, given: Any, batch: int, like: Any) -> list[Any]:
        """The states (layers * directions, batch, size) to start from."""
        cells = self.num_layers * (2 if self.bidirectional else 1)
        sizes = self._state_sizes()
        if given is None:
            return [
                facula.zeros((cells, batch, n), dtype=like.dtype, device=like.device) for n in sizes
            ]
        for k, (state, n) in enumerate(zip(given, sizes, strict=True)):
            if tuple(state.shape) != (cells, batch, n):
                which = f"hidden[{k}]" if len(sizes) > 1 else "hidden"
                raise RuntimeError(
                    f"Expected {which} size {(cells, batch, n)}, got {list(state.shape)}"
                )
        return list(given)

    def _check_input(self, input: Any, dims: str) -> None:
        weight = getattr(self, self._flat_weights_names[0])
        if input.dtype != weight.dtype:
            raise ValueError(
                f"{type(self).__name__}: input is {input.dtype}, the weights are {weight.dtype}"
            )
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{type(self).__name__}: input is {tuple(input.shape)}, expected {dims} with "
                f"{self.input_size} features in the last dim"
            )

    def _run(self, input: Any, given: Any) -> tuple[Any, tuple[Any, ...]]:
        if given is not None:
            given = _states(given, len(self._state_sizes()), type(self).__name__)
        if isinstance(input, PackedSequence):
            return self._run_packed(input, given)
        name = type(self).__name__
        if not isinstance(input, facula.Tensor):
            raise TypeError(f"{name}: Expected input to be a Tensor, got {type(input).__name__}")
        if input.dim() not in (2, 3):
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        self._check_input(input, "(time, batch, features)")
        single = input.dim() == 2
        if given is not None:
            dims = 2 if single else 3
            if any(s.dim() != dims for s in given):
                kind = "unbatched 2-D" if single else "batched 3-D"
                got = ", ".join(f"{s.dim()}-D" for s in given)
                raise RuntimeError(f"For {kind} input, hx should also be {dims}-D but got ({got})")
            if single:
                given = [s.unsqueeze(1) for s in given]
        x = input.unsqueeze(1) if single else input
        batch_first = self.batch_first and not single
        states = self._initial(given, x.shape[0 if batch_first else 1], x)
        output, *final = self._network(x, None, states, batch_first)
        if single:
            return output.squeeze(1), tuple(s.squeeze(1) for s in final)
        return output, tuple(final)

    def _run_packed(self, input: PackedSequence, given: Any) -> tuple[Any, tuple[Any, ...]]:
        data, batch_sizes, order, back = input
        if data.dim() != 2:
            raise RuntimeError(f"input must have 2 dimensions, got {data.dim()}")
        self._check_input(data, "(rows, features)")
        counts = batch_sizes.tolist()
        if counts and (min(counts) < 0 or sum(counts) != data.shape[0]):
            raise RuntimeError(
                f"batch_sizes must be natural numbers that add up to the rows of data, "
                f"{data.shape[0]}; they add up to {sum(counts)}, the least is {min(counts)}"
            )
        batch = counts[0] if counts else 0
        if given is not None and order is not None:
            given = [s.index_select(1, order) for s in given]
        states = self._initial(given, batch, data)
        output, *final = self._network(data, batch_sizes, states, False)
        if back is not None:
            final = [s.index_select(1, back) for s in final]
        return PackedSequence(output, batch_sizes, order, back), tuple(final)

    def _network(self, x: Any, batch_sizes: Any, states: list[Any], batch_first: bool) -> Any:
        run = _NETWORKS[self.mode]
        initial = states if self.mode == "LSTM" else states[0]
        options = (
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
        )
        if batch_sizes is None:
            return run(x, initial, *options, batch_first)
        return run(x, batch_sizes, initial, *options)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        output, states = self._run(input, None if hx is None else (hx,))
        return output, states[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            text += f", proj_size={self.proj_size}"
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


class RNN(RNNBase):
    """Elman RNN; input (L, N, input_size), (N, L, input_size) with batch_first, or (L, input_size).

    A `PackedSequence` gives one back. Returns the last layer's outputs (L, N, D * hidden_size) and
    the final states (D * num_layers, N, hidden_size), D = 2 if bidirectional else 1.
    """

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
        super().__init__(
            _mode_of(nonlinearity),
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """LSTM; shapes as RNN, with states (h, c); h is projected to proj_size where that is given."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )

    def _state_sizes(self) -> tuple[int, ...]:
        return self.proj_size or self.hidden_size, self.hidden_size

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, tuple[Any, ...]]:
        return self._run(input, hx)


class GRU(RNNBase):
    """GRU, the reset gate after the product; shapes as RNN."""

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
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )


# ---- single steps


class RNNCellBase(Module):
    """What the cells share: parameters, and input with or without a batch."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_features(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size

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

    def _prepared(self, input: Any, states: Any, count: int) -> tuple[Any, list[Any], bool]:
        """Input and states with a batch, and whether they came without one."""
        name = type(self).__name__
        if not isinstance(input, facula.Tensor):
            raise TypeError(f"{name}: Expected input to be a Tensor, got {type(input).__name__}")
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{name}: input is {tuple(input.shape)}, expected {self.input_size} features in "
                "the last dim"
            )
        single = input.dim() == 1
        x = input.unsqueeze(0) if single else input
        if states is None:
            shape = (x.shape[0], self.hidden_size)
            zeros = facula.zeros(shape, dtype=input.dtype, device=input.device)
            return x, [zeros] * count, single
        for state in _states(states, count, name):
            if state.dim() not in (1, 2):
                raise ValueError(
                    f"{name}: Expected hidden to be 1D or 2D, got {state.dim()}D instead"
                )
        return x, [s.unsqueeze(0) if s.dim() == 1 else s for s in states], single

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(RNNCellBase):
    """h' = act(W_ih x + b_ih + W_hh h + b_hh); input (N, input_size) or (input_size,)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        _mode_of(nonlinearity)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        x, (h,), single = self._prepared(input, None if hx is None else (hx,), 1)
        relu = _mode_of(self.nonlinearity) == "RNN_RELU"
        step = facula.rnn_relu_cell if relu else facula.rnn_tanh_cell
        new = step(x, h, *self._weights())
        return new.squeeze(0) if single else new

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text + (f", nonlinearity={self.nonlinearity}" if self.nonlinearity != "tanh" else "")


class LSTMCell(RNNCellBase):
    """One LSTM step; takes and returns (h, c)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        x, states, single = self._prepared(input, hx, 2)
        h, c = facula.lstm_cell(x, states, *self._weights())
        return (h.squeeze(0), c.squeeze(0)) if single else (h, c)


class GRUCell(RNNCellBase):
    """One GRU step."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        x, (h,), single = self._prepared(input, None if hx is None else (hx,), 1)
        new = facula.gru_cell(x, h, *self._weights())
        return new.squeeze(0) if single else new
