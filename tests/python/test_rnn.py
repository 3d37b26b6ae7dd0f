"""Recurrent modules: packed sequences, projections, gradients, names and errors."""

from __future__ import annotations

import itertools

import facula
import numpy as np
import pytest
from facula import nn
from facula.autograd import gradcheck, gradgradcheck
from facula.nn.utils import rnn as packing

LENGTHS = [3, 5, 1, 4]


def rand(*shape):
    return facula.randn(*shape, dtype=facula.float64)


def sequences():
    return [rand(n, 3) for n in LENGTHS]


def near(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)


def states_of(result):
    return result if isinstance(result, tuple) else (result,)


# ---- packing


def test_packing_stores_time_by_time():
    a, b = facula.tensor([1, 2, 3]), facula.tensor([4, 5])
    packed = packing.pack_sequence([a, b])
    assert packed.data.tolist() == [1, 4, 2, 5, 3] and packed.batch_sizes.tolist() == [2, 2, 1]
    assert packed.sorted_indices is None
    other = packing.pack_sequence([b, a], enforce_sorted=False)
    assert other.data.tolist() == [1, 4, 2, 5, 3]
    assert other.sorted_indices.tolist() == other.unsorted_indices.tolist() == [1, 0]
    padded, lengths = packing.pad_packed_sequence(other, batch_first=True, padding_value=9)
    assert padded.tolist() == [[4, 5, 9], [1, 2, 3]] and lengths.tolist() == [2, 3]
    longer = packing.pad_packed_sequence(packed, total_length=4)[0]
    assert longer.tolist() == [[1, 4], [2, 5], [3, 0], [0, 0]]


@pytest.mark.parametrize("batch_first", [False, True])
def test_packing_there_and_back(batch_first):
    given = sequences()
    padded = packing.pad_sequence(given, batch_first, padding_value=7.0)
    packed = packing.pack_padded_sequence(padded, LENGTHS, batch_first, enforce_sorted=False)
    again, lengths = packing.pad_packed_sequence(packed, batch_first, padding_value=7.0)
    assert again.tolist() == padded.tolist() and lengths.tolist() == LENGTHS
    unpadded = packing.unpad_sequence(padded, LENGTHS, batch_first)
    for kept in (packing.unpack_sequence(packed), unpadded):
        assert [s.tolist() for s in kept] == [s.tolist() for s in given]
    left = packing.pad_sequence(given, True, padding_side="left")
    assert left[2, :4].tolist() == [[0.0] * 3] * 4 and left[2, 4].tolist() == given[2][0].tolist()


@pytest.mark.parametrize("count", [10**9, -1, 1, 0])
def test_batch_sizes_that_do_not_fit_the_data(count):
    """They come to be sizes of states: nothing is allocated before they are checked."""
    packed = packing.pack_padded_sequence(facula.ones(5, 3, 2), facula.tensor([5, 3, 3]))
    sizes = facula.full((5,), count)
    wrong = packing.PackedSequence(packed.data, sizes, None, None)
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        with pytest.raises(RuntimeError, match="add up to the rows of data, 11"):
            kind(2, 3)(wrong)
    with pytest.raises(RuntimeError, match="batch_sizes"):
        packing.pad_packed_sequence(wrong)


def test_gradients_pass_through_packing():
    def there_and_back(*given):
        packed = packing.pack_sequence(list(given), enforce_sorted=False)
        return packing.pad_packed_sequence(packed, total_length=6)[0]

    assert gradcheck(there_and_back, [s.requires_grad_() for s in sequences()])


def test_a_packed_sequence_converts():
    packed = packing.pack_sequence([facula.tensor([1.5, 2.5])])
    assert packed.to(facula.float64).data.dtype == facula.float64
    assert packed.double().float().data.dtype == facula.float32
    assert packed.to(facula.float32) is packed and not packed.is_cuda
    data, batch_sizes, *_ = packed
    assert data is packed.data and batch_sizes.dtype == facula.int64


def test_lengths_that_cannot_be():
    x = facula.zeros(4, 2, 3)
    for lengths, message in (
        ([4], "batch_size"),
        ([4, 0], "greater than 0"),
        ([2, 4], "sorted"),
        ([5, 1], "at most 4"),
    ):
        with pytest.raises(RuntimeError, match=message):
            packing.pack_padded_sequence(x, lengths)
    packed = packing.pack_padded_sequence(x, [4, 2])
    with pytest.raises(ValueError, match="total_length"):
        packing.pad_packed_sequence(packed, total_length=3)
    with pytest.raises(RuntimeError, match="empty list"):
        packing.pad_sequence([])


# ---- layers


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_packed_sequences_run_as_each_alone(kind, bidirectional):
    layer = kind(3, 4, num_layers=2, bidirectional=bidirectional).double()
    given = sequences()
    packed = packing.pack_sequence(given, enforce_sorted=False)
    start = [rand(4 if bidirectional else 2, len(LENGTHS), 4) for _ in range(2)]
    lstm = kind is nn.LSTM
    outputs, states = layer(packed, tuple(start) if lstm else start[0])
    for i, x in enumerate(given):
        alone = [s[:, i] for s in start]
        y, final = layer(x, tuple(alone) if lstm else alone[0])
        near(packing.unpack_sequence(outputs)[i], y)
        for s, f in zip(states_of(states), states_of(final), strict=True):
            near(s[:, i], f)


def test_projection_by_steps():
    layer, x = nn.LSTM(3, 4, proj_size=2).double(), rand(5, 3)
    cell = nn.LSTMCell(3, 4).double()
    w, u, b, c, p = layer.all_weights[0]
    assert [tuple(t.shape) for t in (w, u, p)] == [(16, 3), (16, 2), (2, 4)]
    h, s = facula.zeros(2, dtype=facula.float64), facula.zeros(1, 4, dtype=facula.float64)
    outputs = []
    for t in range(5):
        cell.weight_hh.data = facula.cat([u, facula.zeros(16, 2, dtype=facula.float64)], 1).data
        for name, value in (("weight_ih", w), ("bias_ih", b), ("bias_hh", c)):
            getattr(cell, name).data = value.data
        wide = facula.cat([h, facula.zeros(2, dtype=facula.float64)]).unsqueeze(0)
        raw, s = cell(x[t : t + 1], (wide, s))
        h = p @ raw[0]
        outputs.append(h)
    y, (last, cells) = layer(x)
    near(y, facula.stack(outputs))
    near(last[0], h)
    near(cells, s)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"num_layers": 2, "bias": False}])
def test_gradients_of_layers(kind, options):
    layer = kind(2, 3, **options).double()
    names = [n for n, _ in layer.named_parameters()]
    x = rand(3, 2, 2).requires_grad_()

    def run(x, *weights):
        for n, w in zip(names, weights, strict=True):
            layer._parameters[n] = w
        y, states = layer(x)
        return y, *states_of(states)

    inputs = [x, *(p.detach().clone().requires_grad_() for p in layer.parameters())]
    assert gradcheck(run, inputs)
    if not options:
        assert gradgradcheck(run, inputs)


def test_gradients_of_packed_sequences_and_projections():
    layer = nn.LSTM(2, 3, bidirectional=True, proj_size=2).double()

    def run(*given):
        y, states = layer(packing.pack_sequence(list(given)))
        return y.data, *states

    assert gradcheck(run, [rand(n, 2).requires_grad_() for n in (4, 4, 1)])


@pytest.mark.parametrize("kind", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_cells_take_a_batch_or_none(kind):
    cell, x = kind(3, 4).double(), rand(2, 3)
    states = [rand(2, 4) for _ in range(2)] if kind is nn.LSTMCell else [rand(2, 4)]

    def hx(index):
        chosen = [s if index is None else s[index] for s in states]
        return tuple(chosen) if kind is nn.LSTMCell else chosen[0]

    together = states_of(cell(x, hx(None)))
    for i in range(2):
        for a, b in zip(states_of(cell(x[i], hx(i))), together, strict=True):
            near(a, b[i])
    zeros = [facula.zeros_like(s) for s in states]
    start = tuple(zeros) if kind is nn.LSTMCell else zeros[0]
    for a, b in zip(states_of(cell(x)), states_of(cell(x, start)), strict=True):
        near(a, b)


def test_names_and_text():
    layer = nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2)
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    suffixes = ("l0", "l0_reverse", "l1", "l1_reverse")
    expected = [f"{k}_{s}" for s, k in itertools.product(suffixes, kinds)]
    assert [n for n, _ in layer.named_parameters()] == expected
    assert repr(layer) == "LSTM(3, 4, proj_size=2, num_layers=2, bidirectional=True)"
    assert repr(nn.RNNCell(1, 2, nonlinearity="relu")) == "RNNCell(1, 2, nonlinearity=relu)"
    assert nn.RNN(1, 1, nonlinearity="relu").mode == "RNN_RELU"
    assert len(layer.all_weights) == 4 and layer.all_weights[1][4] is layer.weight_hr_l0_reverse


def test_dropout_acts_between_layers_in_training_only():
    layer, x = nn.GRU(3, 8, num_layers=2, dropout=0.5), facula.randn(4, 2, 3)
    assert layer(x)[0].tolist() != layer(x)[0].tolist()
    layer.eval()
    assert layer(x)[0].tolist() == layer(x)[0].tolist()
    with pytest.warns(UserWarning, match="no effect"):
        nn.GRU(3, 8, dropout=0.5)


@pytest.mark.parametrize("dtype", [facula.bfloat16, facula.float16])
def test_lower_precision_follows_float64(dtype):
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        layer, x = kind(3, 20).double(), rand(4, 2, 3)
        exact = layer(x)[0]
        rounded = layer.to(dtype)(x.to(dtype))[0]
        assert rounded.dtype == dtype
        assert (rounded.double() - exact).abs().max().item() < 0.02


def test_threads_change_nothing():
    layer, x = nn.LSTM(16, 64), facula.randn(20, 33, 16)
    before, results = facula.get_num_threads(), []
    try:
        for threads in (1, 3):
            facula.set_num_threads(threads)
            layer.zero_grad()
            y = layer(x)[0]
            y.square().sum().backward()
            results.append((y.tolist(), layer.weight_hh_l0.grad.tolist()))
    finally:
        facula.set_num_threads(before)
    assert results[0][0] == results[1][0]
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-5, atol=1e-5)


def test_bad_arguments():
    for options in (
        {"hidden_size": 0},
        {"hidden_size": 2, "num_layers": 0},
        {"hidden_size": 2, "dropout": 2.0},
        {"hidden_size": 2, "dropout": True},
        {"hidden_size": 2, "proj_size": 2},
        {"hidden_size": 2, "proj_size": -1},
    ):
        with pytest.raises(ValueError):
            nn.LSTM(3, **options)
    with pytest.raises(TypeError):
        nn.LSTM(3, 2.0)
    with pytest.raises(ValueError, match="nonlinearity"):
        nn.RNN(3, 2, nonlinearity="sine")
    layer = nn.LSTM(3, 2)
    x, h = facula.zeros(4, 5, 3), facula.zeros(1, 5, 2)
    for call, error, message in (
        (lambda: layer(facula.zeros(3)), ValueError, "2D or 3D"),
        (lambda: layer(facula.zeros(4, 5, 2)), RuntimeError, "3 features"),
        (lambda: layer(x.double()), ValueError, "float64"),
        (lambda: layer(x, (h, h[:, :4])), RuntimeError, "hidden\\[1\\]"),
        (lambda: layer(x, (h[0], h[0])), RuntimeError, "3-D"),
        (lambda: layer(facula.zeros(0, 5, 3)), RuntimeError, "sequence length"),
        (lambda: nn.GRUCell(3, 2)(facula.zeros(1, 1, 3)), ValueError, "1D or 2D"),
        (lambda: nn.GRUCell(3, 2)(facula.zeros(2)), RuntimeError, "3 features"),
    ):
        with pytest.raises(error, match=message):
            call()
    assert tuple(layer(facula.zeros(4, 0, 3))[0].shape) == (4, 0, 2)


def test_sequences_and_states_that_cannot_be():
    def packed(rows, sizes, dtype=facula.int64):
        return packing.PackedSequence(facula.zeros(rows, 2), facula.tensor(sizes, dtype=dtype))

    for wrong in (packed(0, []), packed(3, [1, 2]), packed(3, [2, -1]), packed(3, [[2, 1]])):
        with pytest.raises(RuntimeError, match="batch_sizes should be a 1D int64 tensor"):
            packing.pad_packed_sequence(wrong)
    with pytest.raises(RuntimeError, match="batch_sizes should be a 1D int64 tensor"):
        packing.pad_packed_sequence(packed(3, [2, 1], facula.float32))
    with pytest.raises(RuntimeError, match="ask for 4 rows of data, there are 3"):
        packing.pad_packed_sequence(packed(3, [2, 2]))
    with pytest.raises(TypeError, match="sequence should be a PackedSequence, got int"):
        packing.pad_packed_sequence(5)
    with pytest.raises(TypeError, match="batch_sizes should be a Tensor, got list"):
        packing.PackedSequence(facula.zeros(3, 1), [2, 1])
    with pytest.raises(RuntimeError, match="at least 2 dims, but got 1-D"):
        packing.pack_padded_sequence(facula.zeros(3), [3])
    with pytest.raises(RuntimeError, match=r"sequences\[1\] should be a Tensor .* got 0-D"):
        packing.pad_sequence([facula.zeros(1), facula.zeros(())])
    with pytest.raises(ValueError, match="Expected 2 lengths, one a sequence, but got 1"):
        packing.unpad_sequence(facula.zeros(3, 2), [3])
    x, h = facula.zeros(2, 1, 2), facula.zeros(1, 1, 3)
    for wrong, shown in (((h,), r"tuple of \(Tensor\)"), ((h, h, h), "tuple of"), (h, "Tensor"),
                         ((h, None), r"tuple of \(Tensor, NoneType\)"), (5, "int")):  # fmt: skip
        with pytest.raises(TypeError, match=f"LSTM: Expected hx to be a tuple .* got {shown}"):
            nn.LSTM(2, 3)(x, wrong)
    with pytest.raises(TypeError, match=r"GRU: Expected hx to be a Tensor, got tuple of"):
        nn.GRU(2, 3)(x, (h,))
    with pytest.raises(TypeError, match="GRUCell: Expected hx to be a Tensor, got int"):
        nn.GRUCell(2, 3)(x[0], 5)
    with pytest.raises(TypeError, match="GRU: Expected input to be a Tensor, got list"):
        nn.GRU(2, 3)([1])
    with pytest.raises(ValueError, match="expected at least 4611686018427387904 parameters, got 2"):
        weights = [facula.zeros(9, 2), facula.zeros(9, 3)]
        facula.gru(x, h, weights, False, 2**62, 0.0, False, True, False)


@pytest.mark.parametrize(
    ("kind", "states"), [(nn.RNNCell, 1), (nn.GRUCell, 1), (nn.LSTMCell, 2)], ids=str
)
def test_cells_without_a_hidden_state(kind, states):
    """As in torch: results of no elements, gradients of zero."""
    cell = kind(3, 0)
    x = facula.ones(2, 3, requires_grad=True)
    made = cell(x)
    made = made if isinstance(made, tuple) else (made,)
    assert [m.shape for m in made] == [(2, 0)] * states
    made[0].sum().backward()
    assert x.grad.tolist() == [[0.0] * 3] * 2
    assert cell.weight_hh.grad.shape == (0, 0)
    assert kind(0, 3)(facula.ones(2, 0)) is not None
