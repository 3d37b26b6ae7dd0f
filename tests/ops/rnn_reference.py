"""Recurrent networks as recurrences in NumPy, one sequence after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.special

Array = np.ndarray[Any, Any]
_sigmoid = scipy.special.expit


def _lstm(x: Array, state: list[Array], weight: Array, bias: Any) -> list[Array]:
    """x: the input's share of the gates; one step of one sequence."""
    h, c = state
    i, f, g, o = np.split(x + weight @ h, 4)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return [_sigmoid(o) * np.tanh(c), c, np.concatenate([_sigmoid(v) for v in (i, f)]), g, o]


def _gru(x: Array, state: list[Array], weight: Array, bias: Any) -> list[Array]:
    (h,) = state
    xr, xz, xn = np.split(x, 3)
    sr, sz, sn = np.split(weight @ h + (0 if bias is None else bias), 3)
    r, z = _sigmoid(xr + sr), _sigmoid(xz + sz)
    n = np.tanh(xn + r * sn)
    return [(1 - z) * n + z * h, r, z, n, sn]


def _tanh(x: Array, state: list[Array], weight: Array, bias: Any) -> list[Array]:
    return [np.tanh(x + weight @ state[0])]


def _relu(x: Array, state: list[Array], weight: Array, bias: Any) -> list[Array]:
    return [np.maximum(x + weight @ state[0], 0)]


def _layer(
    step: Callable[..., list[Array]],
    gates: Array,
    initial: Sequence[Array],
    weight: Array,
    bias: Any,
    sizes: Sequence[int],
    reverse: bool,
    projection: Any = None,
) -> tuple[list[Array], list[Array], Array]:
    """Outputs of each kind by row, final states, and what else the steps gave."""
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    count = len(initial)
    finals = [np.array(s, dtype=float) for s in initial]
    rows: list[list[Any]] = [[None] * int(starts[-1]) for _ in range(count)]
    extra: list[Any] = [None] * int(starts[-1])
    for sequence in range(sizes[0]):
        length = sum(1 for s in sizes if s > sequence)
        times = range(length - 1, -1, -1) if reverse else range(length)
        for t in times:
            at = starts[t] + sequence
            state = [f[sequence] for f in finals]
            new = step(gates[at], state, weight, bias)
            if projection is not None:
                new[0] = projection @ new[0]
            for k in range(count):
                rows[k][at] = finals[k][sequence] = new[k]
            extra[at] = np.concatenate(new[count:]) if len(new) > count else None
    widths = [f.shape[1] for f in finals]
    outputs = [np.array(r).reshape(-1, w) for r, w in zip(rows, widths, strict=True)]
    return outputs, finals, extra


def lstm_layer(
    gates: Array, hx: Array, cx: Array, weight: Array, sizes: list[int], reverse: bool
) -> list[Array]:
    n = hx.shape[1]
    (out, cells), (h, c), kept = _layer(_lstm, gates, [hx, cx], weight, None, sizes, reverse)
    act = np.array(kept).reshape(-1, 4 * n)
    act = np.concatenate(
        [act[:, : 2 * n], np.tanh(act[:, 2 * n : 3 * n]), _sigmoid(act[:, 3 * n :])], 1
    )
    return [out, h, c, act, cells]


def gru_layer(
    gates: Array, hx: Array, weight: Array, bias: Any, sizes: list[int], reverse: bool
) -> list[Array]:
    (out,), (h,), kept = _layer(_gru, gates, [hx], weight, bias, sizes, reverse)
    return [out, h, np.array(kept).reshape(-1, 4 * hx.shape[1])]


def rnn_layer(
    gates: Array, hx: Array, weight: Array, sizes: list[int], reverse: bool, relu: bool
) -> list[Array]:
    (out,), (h,), _ = _layer(_relu if relu else _tanh, gates, [hx], weight, None, sizes, reverse)
    return [out, h]


_STEPS = {"lstm": _lstm, "gru": _gru, "rnn_tanh": _tanh, "rnn_relu": _relu}


def _network(
    kind: str,
    rows: Array,
    sizes: list[int],
    initial: Sequence[Array],
    params: list[Array],
    has_biases: bool,
    layers: int,
    bidirectional: bool,
) -> list[Array]:
    directions = 2 if bidirectional else 1
    each = len(params) // (layers * directions)
    finals: list[list[Array]] = [[] for _ in initial]
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            w, u, *rest = params[at * each : (at + 1) * each]
            own, other = rest[:2] if has_biases else (0.0, None)
            gates = rows @ w.T + own
            if kind != "gru" and other is not None:
                gates = gates + other
            projection = rest[-1] if len(rest) % 2 else None
            states = [s[at] for s in initial]
            got, last, _ = _layer(
                _STEPS[kind], gates, states, u, other, sizes, direction == 1, projection
            )
            outputs.append(got[0])
            for k, s in enumerate(last):
                finals[k].append(s)
        rows = np.concatenate(outputs, 1)
    return [rows, *(np.stack(f) for f in finals)]


def _batch(kind: str, x: Array, *args: Any, batch_first: bool) -> list[Array]:
    x = np.swapaxes(x, 0, 1) if batch_first else x
    times, batch, features = x.shape
    out, *states = _network(kind, x.reshape(-1, features), [batch] * times, *args)
    out = out.reshape(times, batch, -1)
    return [np.swapaxes(out, 0, 1) if batch_first else out, *states]


def lstm(
    x: Array,
    hx: list[Array],
    params: list[Array],
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> list[Array]:
    return _batch("lstm", x, hx, params, has_biases, layers, bidirectional, batch_first=batch_first)


def lstm_data(x: Array, sizes: Array, hx: list[Array], *args: Any) -> list[Array]:
    return _network("lstm", x, [int(s) for s in sizes], hx, *args)


def recurrent(
    kind: str,
    x: Array,
    hx: Array,
    params: list[Array],
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> list[Array]:
    return _batch(kind, x, [hx], params, has_biases, layers, bidirectional, batch_first=batch_first)


def recurrent_data(kind: str, x: Array, sizes: Array, hx: Array, *args: Any) -> list[Array]:
    return _network(kind, x, [int(s) for s in sizes], [hx], *args)


def _cell(
    kind: str, x: Array, states: list[Array], w: Array, u: Array, own: Any, other: Any
) -> Any:
    params = [w, u] if own is None else [w, u, own, other]
    initial = [s[None] for s in states]
    return [
        s[0] for s in _network(kind, x, [len(x)], initial, params, own is not None, 1, False)[1:]
    ]


def lstm_cell(x: Array, hx: list[Array], *args: Any) -> Any:
    return _cell("lstm", x, hx, *args)


def gru_cell(x: Array, hx: Array, *args: Any) -> Any:
    return _cell("gru", x, [hx], *args)[0]


def rnn_tanh_cell(x: Array, hx: Array, *args: Any) -> Any:
    return _cell("rnn_tanh", x, [hx], *args)[0]


def rnn_relu_cell(x: Array, hx: Array, *args: Any) -> Any:
    return _cell("rnn_relu", x, [hx], *args)[0]
