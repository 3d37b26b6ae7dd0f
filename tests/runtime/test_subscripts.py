"""x[...] read and written, against NumPy."""

import facula as fa
import numpy as np
import pytest

A = np.arange(60.0).reshape(3, 4, 5)

BASIC = [
    0,
    -1,
    (0, 1),
    (0, 1, 2),
    slice(None),
    slice(1, 3),
    slice(-2, None),
    slice(5, 9),
    slice(2, 1),
    slice(None, None, 2),
    slice(-100, 100),
    slice(0, 2**80),
    (slice(None), 1),
    (slice(0, 2), slice(1, 3)),
    (Ellipsis, 0),
    (0, Ellipsis, 1),
    (Ellipsis,),
    Ellipsis,
    (),
    None,
    (None, 0),
    (0, None, 1),
    (Ellipsis, None),
    (slice(None), None, slice(1, 2)),
    np.int64(1),
    (np.int32(2), slice(None, None, 3)),
]
ADVANCED = [
    [0, 2],
    [],
    ([0, 1], [1, 2]),
    (slice(None), [0, 3]),
    ([0, 2], slice(None), [1, 2]),
    (0, [1, 2]),
    (Ellipsis, [0, 1]),
    [[0, 1], [2, 0]],
    np.array([2, 0]),
    A > 30,
    A[:, :, 0] > 20,
    (slice(None), A[0] > 7),
    (A[:, :, 0] > 20, slice(1, 3)),
    True,
    False,
    (None, [1]),
    [-1, -2],
    ([[0], [1]], [[1, 2]]),
]


@pytest.mark.parametrize("key", BASIC, ids=repr)
def test_basic_reads(key):
    t = fa.tensor(A)
    got = t[key]
    assert tuple(got.shape) == A[key].shape and np.array_equal(got.numpy(), A[key])
    if got.numel():
        assert got.untyped_storage() == t.untyped_storage()


@pytest.mark.parametrize("key", ADVANCED, ids=repr)
def test_advanced_reads(key):
    got = fa.tensor(A)[key]
    assert tuple(got.shape) == A[key].shape and np.array_equal(got.numpy(), A[key])


def as_tensor_key(key):
    parts = key if isinstance(key, tuple) else (key,)
    return tuple(fa.tensor(p) if isinstance(p, (list, np.ndarray)) and len(p) else p for p in parts)


@pytest.mark.parametrize("key", ADVANCED, ids=repr)
def test_tensors_as_indices(key):
    assert np.array_equal(fa.tensor(A)[as_tensor_key(key)].numpy(), A[key])


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=repr)
def test_writes(key):
    for value in (7.0, "shaped"):
        expected = A.copy()
        v = np.arange(expected[key].size, dtype=float).reshape(expected[key].shape)
        v = value if value == 7.0 else v
        expected[key] = v
        t = fa.tensor(A)
        t[key] = v if isinstance(v, float) else fa.tensor(v)
        assert np.array_equal(t.numpy(), expected)


def test_writes_convert_and_broadcast():
    t = fa.tensor([[0, 0, 0], [0, 0, 0]])
    t[0] = 2.9
    t[1] = fa.tensor([1.5, 2.5, 3.5])
    assert t.tolist() == [[2, 2, 2], [1, 2, 3]]
    t[:, 1] = [8, 9]
    t[0] = fa.tensor([[4, 5, 6]])
    assert t.tolist() == [[4, 5, 6], [1, 9, 3]]
    t[[0, 1], [0, 0]] = fa.tensor([1.5, 2.5])
    assert t[:, 0].tolist() == [1, 2]
    with pytest.raises((RuntimeError, ValueError)):
        t[0] = fa.tensor([1, 2])
    with pytest.raises(TypeError):
        del t[0]
    with pytest.raises(TypeError):
        t[0] = "a"


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (3, IndexError, "index 3 is out of range for dimension 0 of size 3"),
        (-4, IndexError, "index -4 is out of range for dimension 0 of size 3"),
        ((0, 4), IndexError, "index 4 .* of size 4"),
        ((0, 0, 0, 0), IndexError, "too many indices: the tensor has 3 dimensions, but 4"),
        ((Ellipsis, Ellipsis), IndexError, "one ellipsis"),
        (slice(None, None, 0), ValueError, "cannot be zero"),
        (slice("a", None), TypeError, "slice bounds"),
        (1.5, IndexError, "float cannot be an index"),
        ("a", IndexError, "str cannot be an index"),
        ({}, IndexError, "dict cannot be an index"),
        ([1.5], IndexError, "ints or bools"),
        ([[1], [1, 2]], IndexError, "ragged"),
        (2**70, IndexError, "64-bit"),
        ([3], IndexError, "out of (range|bounds)"),
        ([True, False], IndexError, "mask"),
        (np.ones((3, 3), bool), IndexError, "mask of shape"),
        ((None,) * 70, IndexError, "too many"),
    ],
)
def test_errors(key, error, text):
    with pytest.raises(error, match=text):
        fa.tensor(A)[key]


def test_zero_dimensions():
    s = fa.tensor(3.0)
    assert s[()].item() == 3.0 and s[...].item() == 3.0 and s[None].shape == (1,)
    assert s[True].tolist() == [3.0]
    for key in (0, slice(None)):
        with pytest.raises(IndexError, match="0-d"):
            s[key]


def test_integer_tensor_of_no_dimensions_acts_as_an_int():
    t = fa.tensor(A)
    i = fa.tensor(1)
    assert t[i].untyped_storage() == t.untyped_storage() and t[i].shape == (4, 5)
    assert [10, 20, 30][i] == 20


def test_sequence_protocol():
    t = fa.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert len(t) == 2 and [r.tolist() for r in t] == [[1.0, 2.0], [3.0, 4.0]]
    assert 3.0 in t and 9 not in t and fa.tensor([1.0, 2.0]) in t
    _, b = t
    assert b.tolist() == [3.0, 4.0]
    for f in (len, list):
        with pytest.raises(TypeError, match="0-d"):
            f(fa.tensor(1.0))
    with pytest.raises(TypeError):
        assert "a" in t


def test_gradients_through_subscripts():
    x = fa.tensor(A, requires_grad=True)
    y = x * 1
    (y[1] * 2).sum().backward()
    expected = np.zeros_like(A)
    expected[1] = 2
    assert np.array_equal(x.grad.numpy(), expected)
    x.grad = None
    y = x * 1
    y[0, :, 1] = 0
    y.sum().backward()
    expected = np.ones_like(A)
    expected[0, :, 1] = 0
    assert np.array_equal(x.grad.numpy(), expected)
    x.grad = None
    v = fa.tensor([1.0, 2.0], dtype=fa.float64, requires_grad=True)
    y = x * 1
    y[[0, 1], [0, 0], [0, 0]] = v
    (y * y).sum().backward()
    assert v.grad.tolist() == [2.0, 4.0] and x.grad[0, 0, 0].item() == 0


@pytest.mark.parametrize("size", [(0, 0), (3, 0), (0, 4, 5), (0,)])
def test_masks_without_places(size):
    mask = np.zeros(size, bool)
    assert tuple(fa.tensor(A)[fa.tensor(mask)].shape) == A[mask].shape
    t = fa.tensor(A)
    t[fa.tensor(mask)] = 5.0
    np.testing.assert_array_equal(t.numpy(), A)


REVERSED = [
    slice(None, None, -1),
    slice(-1, None, -2),
    slice(1, -9, -1),
    slice(0, 2, -1),
    (slice(None), slice(9, 0, -3), None, slice(None, None, -1)),
    (1, slice(3, None, -2)),
    (slice(None, None, -1), [0, 2, 2]),
    (slice(None, None, -1), slice(None, None, -1), [3, 0]),
    (Ellipsis, slice(None, None, -1)),
    slice(None, None, -(2**63)),
]


@pytest.mark.parametrize("key", REVERSED, ids=str)
def test_negative_steps(key):
    t = fa.tensor(A)
    np.testing.assert_array_equal(t[key].numpy(), A[key])
    new = np.arange(A[key].size, dtype=A.dtype).reshape(A[key].shape) + 100
    changed = A.copy()
    changed[key] = new
    t[key] = fa.tensor(new)
    np.testing.assert_array_equal(t.numpy(), changed)
    changed[key] = 7
    t[key] = 7
    np.testing.assert_array_equal(t.numpy(), changed)


def test_gradient_of_a_negative_step():
    x = fa.tensor(np.arange(6.0), requires_grad=True)
    (x[4::-2] * fa.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [3, 0, 2, 0, 1, 0]
