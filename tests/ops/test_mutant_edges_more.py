"""More values and refusals at places that samples do not reach: see test_mutant_edges.py."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest

F = fa.nn.functional


def test_repeats_that_add_up_to_more_than_64_bits() -> None:
    with pytest.raises(ValueError, match="more than 64 bits"):
        fa.repeat_interleave(fa.tensor([2**62] * 4))
    assert fa.repeat_interleave(fa.zeros(0, dtype=fa.int64)).tolist() == []


def test_sizes_of_packed_sequences_are_a_vector() -> None:
    lstm = fa.nn.LSTM(3, 4)
    data, state = fa.ones(2, 3), (fa.zeros(1, 2, 4), fa.zeros(1, 2, 4))
    weights = list(lstm.parameters())
    for sizes in (fa.tensor([[2]]), fa.tensor([2], dtype=fa.int32)):
        with pytest.raises(RuntimeError, match="must be a vector of int64"):
            fa.lstm(data, sizes, state, weights, True, 1, 0.0, False, False)


def test_states_of_other_batches() -> None:
    gru = fa.nn.GRU(3, 4)
    weights = list(gru.parameters())
    with pytest.raises(RuntimeError, match="the batch has 2 sequences"):
        fa.gru(fa.ones(5, 2, 3), fa.zeros(1, 3, 4), weights, True, 1, 0.0, False, False, False)


def test_an_infinite_element_in_a_far_channel() -> None:
    x = np.array([[1e30, 1.0], [2e30, 2.0], [np.inf, 3.0], [3e30, 4.0]], dtype=np.float32)
    out = F.batch_norm(fa.tensor(x), None, None, training=True)
    assert np.isnan(out[:, 0].numpy()).all()
    normal = (x[:, 1] - 2.5) / np.sqrt(1.25 + 1e-5)
    np.testing.assert_allclose(out[:, 1], normal, rtol=1e-6)


def test_masks_that_do_not_fit() -> None:
    x = fa.ones(2, 3)
    for shape in ((1, 3), (3, 3), (2, 1), (2, 2)):
        with pytest.raises(IndexError, match="mask"):
            x[fa.ones(shape, dtype=fa.bool)]
        with pytest.raises(IndexError, match="mask"):
            x[fa.ones(shape, dtype=fa.bool)] = 0.0


def test_lines_with_one_complex_end() -> None:
    for start, end in ((0, 1j), (1j, 2.0)):
        got = fa.linspace(start, end, 3)
        assert got.dtype == fa.complex64
        np.testing.assert_allclose(got, np.linspace(start, end, 3), rtol=1e-6)
        with pytest.raises(RuntimeError, match="complex"):
            fa.linspace(start, end, 3, dtype=fa.float32)


def test_gradient_of_a_source_larger_in_each_dim() -> None:
    index = fa.tensor([[0, 1, 0], [2, 0, 1]])
    src = fa.ones(4, 5, 2, dtype=fa.float64, requires_grad=True)
    weight = fa.arange(30.0, dtype=fa.float64).view(3, 5, 2)
    index = index[:, :, None]
    out = fa.zeros(3, 5, 2, dtype=fa.float64).scatter_add(0, index, src)
    (slope,) = fa.autograd.grad((out * weight).sum(), src)
    want = np.zeros((4, 5, 2))
    for i, j in np.ndindex(2, 3):
        want[i, j, 0] = weight[index[i, j, 0].item(), j, 0].item()
    np.testing.assert_array_equal(slope, want)


def test_bilinear_of_vectors_and_of_sizes_that_do_not_fit() -> None:
    rng = np.random.default_rng(0)
    a, b, w = rng.random(2), rng.random(3), rng.random((4, 2, 3))
    got = F.bilinear(fa.tensor(a), fa.tensor(b), fa.tensor(w))
    np.testing.assert_allclose(got, np.einsum("i,kij,j->k", a, w, b), rtol=1e-14)
    one, two, weight = fa.ones(5, 2), fa.ones(5, 3), fa.ones(4, 2, 3)
    for wrong in (
        (fa.ones(5, 3), two, weight),
        (one, fa.ones(5, 2), weight),
        (one, fa.ones(1, 5, 3), weight),
        (one, two, weight[0]),
        (fa.tensor(1.0), fa.tensor(1.0), weight),
    ):
        with pytest.raises(RuntimeError, match="expected input1"):
            F.bilinear(*wrong)
