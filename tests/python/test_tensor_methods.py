"""Methods of tensors that are Python, and windows."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
import scipy.signal


@pytest.mark.parametrize(
    "name, args, shape",
    [
        ("squeeze_", (), (2, 3)),
        ("squeeze_", (0,), (2, 1, 3)),
        ("unsqueeze_", (-1,), (1, 2, 1, 3, 1)),
        ("transpose_", (1, 3), (1, 3, 1, 2)),
        ("swapaxes_", (1, 3), (1, 3, 1, 2)),
        ("swapdims_", (0, 1), (2, 1, 1, 3)),
        ("as_strided_", ((3, 2), (1, 3)), (3, 2)),
    ],
)
def test_dims_in_place(name, args, shape):
    x = fa.arange(6.0).reshape(1, 2, 1, 3)
    want = getattr(x, name[:-1])(*args)
    same = x
    assert getattr(x, name)(*args) is same
    assert tuple(x.shape) == shape
    assert x.stride() == want.stride()
    assert fa.equal(x, want)


def test_t_in_place():
    x = fa.arange(6.0).reshape(2, 3)
    x.t_()
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_dims_in_place_have_gradients():
    x = fa.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 2
    y.unsqueeze_(0).transpose_(1, 2)
    assert tuple(y.shape) == (1, 3, 2)
    weight = fa.arange(6.0).reshape(1, 3, 2)
    (y * weight).sum().backward()
    assert x.grad.tolist() == (2 * weight[0].t()).tolist()


def test_dims_in_place_of_a_view():
    x = fa.arange(6.0).reshape(2, 3)
    row = x[1]
    row.unsqueeze_(0)
    row.fill_(9)
    assert x[1].tolist() == [9, 9, 9]


def test_dims_in_place_are_refused():
    leaf = fa.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.unsqueeze_(0)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf[:1].unsqueeze_(0)
    view = (leaf * 1)[:1]
    assert view.unsqueeze_(0).shape == (1, 1) and view.requires_grad
    with pytest.raises(RuntimeError, match="no view"):
        fa.ones(2)._become_view(fa.ones(2))


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (7, 3), (8, 3), (4, 3), (3, 3, 3), (0, 2)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape, wrap):
    x = fa.zeros(*shape)
    want = np.zeros(shape, np.float32)
    if want.size:
        np.fill_diagonal(want, 5, wrap=wrap)
    assert x.fill_diagonal_(5, wrap) is x
    assert np.array_equal(x.numpy(), want)


def test_fill_diagonal_of_a_view():
    x = fa.zeros(4, 5)
    x[1:, ::2].fill_diagonal_(1)
    want = np.zeros((4, 5), np.float32)
    want[[1, 2, 3], [0, 2, 4]] = 1
    assert np.array_equal(x.numpy(), want)


@pytest.mark.parametrize("shape", [(3,), (2, 3, 3)])
def test_fill_diagonal_refuses(shape):
    with pytest.raises(RuntimeError, match="fill_diagonal_"):
        fa.zeros(*shape).fill_diagonal_(1)


def test_new_tensors():
    x = fa.ones(2, dtype=fa.float64)
    assert x.new_tensor([1, 2]).dtype == fa.float64
    made = x.new_tensor(x, dtype=fa.int32, requires_grad=False)
    assert made.dtype == fa.int32 and made.data_ptr() != x.data_ptr()
    assert x.new_tensor([1.0], requires_grad=True).requires_grad
    assert tuple(x.new(2, 3).shape) == (2, 3)
    assert tuple(x.new(fa.Size([4])).shape) == (4,)
    assert x.new([1, 2]).tolist() == [1.0, 2.0]
    assert x.new().numel() == 0
    with pytest.raises(TypeError, match="new"):
        x.new([1], [2])


def test_python_functions_of_elements():
    x = fa.arange(4).reshape(2, 2)
    assert x.apply_(lambda v: v * 3).tolist() == [[0, 3], [6, 9]]
    assert x.map_(fa.tensor([1, 2]), lambda a, b: a - b).tolist() == [[-1, 1], [5, 7]]


def test_questions():
    assert fa.is_nonzero(fa.tensor([2.0])) and not fa.tensor(0).is_nonzero()
    with pytest.raises(RuntimeError, match="2 values"):
        fa.ones(2).is_nonzero()
    z = fa.tensor([1 + 2j]).conj()
    assert z.resolve_conj() is z and not z.is_conj() and not fa.is_neg(z)


WINDOWS = [
    ("hann_window", {}, "hann"),
    ("hamming_window", {}, "hamming"),
    ("blackman_window", {}, "blackman"),
    ("bartlett_window", {}, "bartlett"),
    ("kaiser_window", {"beta": 6.0}, ("kaiser", 6.0)),
]


@pytest.mark.parametrize("name, options, known", WINDOWS, ids=[w[0] for w in WINDOWS])
@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 8])
def test_windows(name, options, known, periodic, n):
    found = getattr(fa, name)(n, periodic, dtype=fa.float64, **options)
    want = scipy.signal.get_window(known, n, fftbins=periodic) if n else np.zeros(0)
    np.testing.assert_allclose(found.numpy(), want, atol=1e-14)


def test_windows_have_options():
    window = fa.hann_window(5, requires_grad=True)
    assert window.dtype == fa.float32 and window.requires_grad
    with pytest.raises(RuntimeError, match="negative"):
        fa.hann_window(-1)
    with pytest.raises(RuntimeError, match="floating"):
        fa.hann_window(3, dtype=fa.int64)
