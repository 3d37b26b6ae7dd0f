"""Tensors from numbers, nested sequences and arrays."""

import collections
import decimal
import fractions
import operator

import facula as fa
import numpy as np
import pytest


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (3, "int64", ()),
        (2.5, "float32", ()),
        (True, "bool", ()),
        (1j, "complex64", ()),
        ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)),
        ([[[]]], "float32", (1, 1, 0)),
        ([1, 2], "int64", (2,)),
        ((1, 2.5), "float32", (2,)),
        ([True, False], "bool", (2,)),
        ([True, 2], "int64", (2,)),
        ([1, 2.5, 1j], "complex64", (3,)),
        ([[1, 2], (3, 4)], "int64", (2, 2)),
        (range(3), "int64", (3,)),
        ([range(2), range(2)], "int64", (2, 2)),
        (collections.deque([1, 2]), "int64", (2,)),
        (np.float64(1.0), "float64", ()),
        (np.float32(1.0), "float32", ()),
        ([np.float16(1)], "float16", (1,)),
        (np.int32(3), "int32", ()),
        ([np.bool_(True)], "bool", (1,)),
        ([np.complex64(1)], "complex64", (1,)),
        ([np.float16(1), 2.5], "float32", (2,)),
        ([np.array([1.0, 2.0]), np.array([3.0, 4.0])], "float64", (2, 2)),
        ([np.array([1, 2]), [3, 4]], "int64", (2, 2)),
        ([[1, 2], np.array([3, 4])], "int64", (2, 2)),
        (np.array([], dtype="float32"), "float32", (0,)),
        (np.zeros((2, 0, 3)), "float64", (2, 0, 3)),
        (memoryview(b"ab"), "uint8", (2,)),
        (decimal.Decimal("1.5"), "float32", ()),
        ([fractions.Fraction(1, 2)], "float32", (1,)),
    ],
)
def test_inference(data, dtype, shape):
    t = fa.tensor(data)
    assert t.dtype is getattr(fa, dtype) and tuple(t.shape) == shape
    if not isinstance(data, (decimal.Decimal, memoryview)):
        plain = [list(r) if isinstance(r, range) else r for r in data] if shape else data
        expected = np.array(plain).astype(dtype)
        assert np.array_equal(
            np.array(t.tolist(), dtype=dtype).reshape(shape), expected.reshape(shape)
        )


def test_tensors_inside():
    x = fa.tensor([1.0, 2.0], requires_grad=True)
    t = fa.tensor([x, x])
    assert t.tolist() == [[1.0, 2.0], [1.0, 2.0]] and not t.requires_grad
    assert fa.tensor([fa.tensor(1.0), fa.tensor(2, dtype=fa.float64)]).dtype is fa.float64
    y = fa.tensor(x)
    assert y.data_ptr() != x.data_ptr() and not y.requires_grad


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (
            [[1], [2, 3]],
            ValueError,
            r"data\[1\] is a sequence of length 2, but data\[0\].*length 1",
        ),
        ([1, [2]], ValueError, r"data\[1\] is a sequence of length 1, but data\[0\] is a number"),
        ([[1], 2], ValueError, r"data\[1\] is a int, but data\[0\] is a sequence"),
        ([[[1, 2]], [[1, 2, 3]]], ValueError, r"data\[1\]\[0\]"),
        ([np.zeros(2), np.zeros(3)], ValueError, r"data\[1\]"),
        ([None], TypeError, r"data\[0\] is a NoneType"),
        ("abc", TypeError, "data is a str"),
        (b"abc", TypeError, "data is a bytes"),
        (["a"], TypeError, r"data\[0\] is a str"),
        ({}, TypeError, "data is a dict"),
        (object(), TypeError, "data is a object"),
        ([2**63], OverflowError, r"data\[0\]"),
        (np.array(["a"]), TypeError, "elements of type"),
    ],
)
def test_bad_data(data, error, text):
    with pytest.raises(error, match=text):
        fa.tensor(data)


def test_nesting_is_limited():
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="levels deep"):
        fa.tensor(endless)


def test_list_that_changes_while_it_is_read():
    data = []

    class Evil:
        def __index__(self):
            data.clear()
            return 1

        def __float__(self):
            data.clear()
            return 1.0

    data.extend([1, Evil(), 3])
    with pytest.raises(RuntimeError, match="changed"):
        fa.tensor(data)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_integers_out_of_range(dtype):
    info, d = np.iinfo(dtype), getattr(fa, dtype)
    assert fa.tensor([info.min, info.max], dtype=d).tolist() == [info.min, info.max]
    for v in (info.min - 1, info.max + 1, float("nan"), float("inf"), 1e30):
        with pytest.raises(OverflowError, match=r"data\[0\].*out of range"):
            fa.tensor([v], dtype=d)
    assert fa.tensor([1.9, -0.5], dtype=d).tolist() == [1, 0]


def test_conversions():
    assert fa.tensor([2, 0], dtype=fa.bool).tolist() == [True, False]
    assert fa.tensor([2**70], dtype=fa.float64).tolist() == [2.0**70]
    assert fa.tensor([70000.0], dtype=fa.float16).tolist() == [float("inf")]
    assert fa.tensor([1, 2], dtype=fa.complex64).tolist() == [1 + 0j, 2 + 0j]
    assert fa.tensor([1.0], dtype=float).dtype is fa.float64
    assert fa.tensor([1], dtype=int).dtype is fa.int64
    with pytest.raises(TypeError, match="complex"):
        fa.tensor([1j], dtype=fa.float32)


def test_keywords():
    t = fa.tensor([1.0], requires_grad=True, device="cpu", pin_memory=False)
    assert t.requires_grad and t.is_leaf
    with pytest.raises(RuntimeError, match="floating"):
        fa.tensor([1], requires_grad=True)
    assert fa.tensor([1.0, 2.0], device="meta").is_meta


def test_as_tensor_and_asarray():
    a = np.arange(3.0)
    assert fa.as_tensor(a).data_ptr() == a.ctypes.data
    assert fa.asarray(a).data_ptr() == a.ctypes.data
    assert fa.asarray(a, copy=True).data_ptr() != a.ctypes.data
    t = fa.tensor([1.0])
    assert fa.as_tensor(t) is t and fa.asarray(t) is t
    assert fa.asarray(t, copy=True) is not t
    assert fa.as_tensor(t, dtype=fa.float64).dtype is fa.float64
    with pytest.raises(ValueError, match="copy=False"):
        fa.asarray([1], copy=False)
    with pytest.raises(ValueError, match="copy=False"):
        fa.asarray(a, dtype=fa.float32, copy=False)


def test_frombuffer():
    data = bytearray(range(16))
    t = fa.frombuffer(data, dtype=fa.int32, count=2, offset=4)
    assert t.tolist() == np.frombuffer(data, np.int32, 2, 4).tolist()
    t[0] = 0
    assert data[4:8] == b"\0\0\0\0"
    for kwargs, text in [
        ({"offset": 17}, "offset"),
        ({"offset": -1}, "offset"),
        ({"count": 5}, "more than"),
        ({"count": -2}, "count"),
        ({"offset": 2}, "multiple"),
        ({"offset": 2, "count": 1}, "aligned"),
    ]:
        with pytest.raises(ValueError, match=text):
            fa.frombuffer(data, dtype=fa.int32, **kwargs)
    with pytest.raises(TypeError, match="buffer"):
        fa.frombuffer(3, dtype=fa.int32)
    assert fa.frombuffer(b"", dtype=fa.float32).shape == (0,)
    with pytest.raises(RuntimeError, match="read-only"):
        fa.frombuffer(b"abcd", dtype=fa.uint8)[0] = 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [True, False])
def test_whole_numbers_of_bools_are_ints(value: bool) -> None:
    """`int` and `operator.index` refuse, or warn of, a bool in the place of an int."""
    for convert in (int, operator.index):
        found = convert(fa.tensor(value))
        assert type(found) is int and found == value


def test_sizes_are_as_other_tuples_where_they_are_keys() -> None:
    for shape in ((), (3,), (2, 3, 4)):
        size = fa.empty(shape).shape
        assert hash(size) == hash(shape) and {shape: 1}[size] == {size: 1}[shape] == 1
        assert hash(size[:1]) == hash(shape[:1]) and hash(size * 2) == hash(shape * 2)
