"""NumPy, the buffer protocol and DLPack, both ways, without copies."""

import weakref

import facula as fa
import numpy as np
import pytest

NAMES = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()


def arrays(dtype):
    a = np.arange(24).astype(dtype).reshape(2, 3, 4)
    return [
        a,
        a.T,
        a[:, ::2],
        a[1],
        a[0, 0, 0:0],
        np.array(3, dtype=dtype),
        np.broadcast_to(a[0, 0], (5, 4)),
        np.zeros((0, 3), dtype=dtype),
    ]


@pytest.mark.parametrize("dtype", NAMES)
def test_round_trips(dtype):
    for a in arrays(dtype):
        for make in (fa.from_numpy, fa.from_dlpack, fa.as_tensor):
            t = make(a)
            assert t.dtype is getattr(fa, dtype) and t.shape == a.shape
            assert t.tolist() == a.tolist()
            if a.size:
                assert t.data_ptr() == a.ctypes.data
            back = t.numpy()
            assert back.dtype == a.dtype and np.array_equal(back, a)
            if a.size > 1:
                assert back.ctypes.data == a.ctypes.data
        if a.flags.writeable:
            assert np.array_equal(np.from_dlpack(fa.from_numpy(a)), a)
        assert np.array_equal(np.asarray(fa.from_numpy(a)), a)


def test_writes_are_seen_on_both_sides():
    a = np.zeros(3)
    t = fa.from_numpy(a)
    t[1] = 5
    assert a[1] == 5
    a[2] = 7
    assert t.tolist() == [0, 5, 7]
    t.numpy()[0] = 9
    assert a[0] == 9


@pytest.mark.parametrize("make", [fa.from_numpy, fa.from_dlpack, fa.as_tensor])
def test_read_only(make):
    a = np.arange(3.0)
    a.flags.writeable = False
    t = make(a)
    with pytest.raises(RuntimeError, match="read-only"):
        t[0] = 1
    assert not t.numpy().flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        t.__dlpack__()
    assert fa.from_dlpack(t).tolist() == [0, 1, 2]
    fa.tensor(a)[0] = 1  # a copy may be written to


@pytest.mark.parametrize(
    ("array", "error", "text"),
    [
        (np.arange(3)[::-1], ValueError, "negative strides"),
        (np.array(["a"]), TypeError, "elements of type"),
        (np.arange(3, dtype=">i4"), TypeError, "byte order"),
        (np.arange(3, dtype=np.longdouble), TypeError, "elements of type"),
        (np.array([None]), TypeError, "elements of type"),
        (np.zeros(3, dtype="i4,f4"), TypeError, "elements of type"),
    ],
)
def test_what_numpy_has_and_we_lack(array, error, text):
    with pytest.raises(error, match=text):
        fa.from_numpy(array)
    with pytest.raises((error, BufferError, ValueError)):
        fa.from_dlpack(array)


def test_unaligned_memory():
    raw = np.zeros(9, dtype=np.uint8)[1:].view(np.float64)
    with pytest.raises(ValueError, match="aligned"):
        fa.from_numpy(raw)


def test_strides_that_are_no_whole_elements():
    packed = np.zeros(4, dtype=[("a", "i1"), ("b", "<f4")])["b"]
    with pytest.raises(ValueError, match=r"stride|aligned"):
        fa.from_numpy(packed)


def test_lifetimes():
    class Array(np.ndarray):
        pass

    for make in (fa.from_numpy, fa.from_dlpack):
        a = np.arange(5.0).view(Array)
        ref = weakref.ref(a)
        t = make(a)
        del a
        assert ref() is not None
        del t
        assert ref() is None
    for export in (np.from_dlpack, lambda t: t.__dlpack__()):
        t = fa.tensor([1.0])
        ref = weakref.ref(t)
        out = export(t)
        del t
        assert ref() is not None
        del out
        assert ref() is None
    # A buffer holds the memory, not the tensor, which may have what looks at it as an attribute.
    for export in (memoryview, np.asarray, lambda t: t.numpy()):
        t = fa.tensor([1.0, 2.0])
        t.seen = out = export(t)
        ref = weakref.ref(t)
        del t
        assert ref() is None
        others = [fa.full((2,), 7.0) for _ in range(50)]
        assert np.asarray(out).tolist() == [1.0, 2.0] and len(others) == 50
        del out


def test_a_capsule_is_used_once():
    for version in (None, (1, 0)):
        capsule = fa.tensor([1.0, 2.0]).__dlpack__(max_version=version)
        assert fa.from_dlpack(capsule).tolist() == [1.0, 2.0]
        with pytest.raises(ValueError, match="once"):
            fa.from_dlpack(capsule)


def test_dlpack_protocol():
    t = fa.tensor([1.0, 2.0])
    assert t.__dlpack_device__() == (1, 0)
    assert fa.from_dlpack(t).data_ptr() == t.data_ptr()
    assert fa.from_dlpack(t, copy=True).data_ptr() != t.data_ptr()
    assert np.from_dlpack(t, copy=True)[0] == 1
    b = fa.tensor([True, False])
    assert fa.from_dlpack(b).dtype is fa.bool and np.from_dlpack(b).tolist() == [True, False]
    h = fa.tensor([1.5], dtype=fa.bfloat16)
    assert fa.from_dlpack(h).dtype is fa.bfloat16
    for kwargs in ({"stream": 1}, {"dl_device": (2, 0)}, {"dl_device": 3}, {"max_version": 1}):
        with pytest.raises((ValueError, BufferError, TypeError)):
            t.__dlpack__(**kwargs)
    with pytest.raises(BufferError, match="requires grad"):
        fa.tensor([1.0], requires_grad=True).__dlpack__()
    with pytest.raises(TypeError, match="__dlpack__"):
        fa.from_dlpack(3)


def test_producer_of_an_older_time():
    class Old:
        def __dlpack__(self):
            return fa.tensor([1.0]).__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    assert fa.from_dlpack(Old()).tolist() == [1.0]

    class Broken:
        def __dlpack__(self, **kwargs):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fa.from_dlpack(Broken())


def test_buffer_protocol():
    t = fa.tensor([[1, 2, 3], [4, 5, 6]], dtype=fa.int32)
    m = memoryview(t)
    assert m.shape == (2, 3) and m.format == "i" and not m.readonly and m.tolist() == t.tolist()
    assert bytes(t) == t.numpy().tobytes() if hasattr(t, "__bytes__") else m.tobytes()
    assert memoryview(fa.tensor(3.0)).shape == ()
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(fa.tensor([1.0], dtype=fa.bfloat16))
    with pytest.raises(BufferError, match="grad"):
        memoryview(fa.tensor([1.0], requires_grad=True))


def test_numpy_errors():
    x = fa.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        x.numpy()
    with pytest.raises(RuntimeError, match="detach"):
        np.asarray(x)
    assert x.numpy(force=True).tolist() == [1.0]
    with pytest.raises(TypeError, match="bfloat16"):
        fa.tensor([1.0], dtype=fa.bfloat16).numpy()


def test_array_method():
    t = fa.tensor([1.0, 2.0])
    assert np.asarray(t, dtype="float64").dtype == np.float64
    assert np.array(t).ctypes.data != t.data_ptr()
    assert t.__array__().ctypes.data == t.data_ptr()
    assert t.__array__(copy=True).ctypes.data != t.data_ptr()
    with pytest.raises(ValueError, match="copy=False"):
        t.__array__(dtype="int32", copy=False)
    assert t.__array_interface__["strides"] is None


def test_numpy_scalars_as_numbers():
    t = fa.tensor([1.0, 2.0], dtype=fa.float64)
    for scalar in (np.float32(2), np.float64(2), np.int64(2), np.uint8(2)):
        assert (t * scalar).tolist() == [2.0, 4.0] and (scalar * t).tolist() == [2.0, 4.0]
        assert isinstance(scalar * t, fa.Tensor)


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "**", "//", "%", "==", "!=", "<", ">="])
def test_a_tensor_beside_an_array(sign: str) -> None:
    """Whichever stands first, the result is a tensor with NumPy's values, and gradients flow."""
    x, y = np.array([1.5, -2.0, 3.0], np.float32), np.array([2.0, 3.0, 3.0])
    t, u = fa.tensor(x.tolist()).requires_grad_(), fa.tensor(y.tolist(), dtype=fa.float64)
    wanted = eval(f"x {sign} y", {"x": x, "y": y})
    for got in (eval(f"t {sign} y", {"t": t, "y": y}), eval(f"x {sign} u", {"x": x, "u": u})):
        assert isinstance(got, fa.Tensor) and str(got.dtype) == f"facula.{wanted.dtype}"
        np.testing.assert_array_equal(got.tolist(), wanted.tolist())
    if sign == "*":
        (x * t).sum().backward()
        assert t.grad.tolist() == x.tolist()


def test_arrays_that_no_tensor_is() -> None:
    for other in (np.array(["a"]), np.array([object()])):
        with pytest.raises(TypeError, match="type"):
            fa.ones(1) + other
    with pytest.raises(RuntimeError, match="differ at dim"):
        np.ones(2) + fa.ones(3)
    a = np.ones((2, 2))
    assert (a @ fa.eye(2, dtype=fa.float64)).tolist() == a.tolist()


LENDERS = {
    "numpy": lambda t: t.numpy(),
    "asarray": np.asarray,
    "memoryview": lambda t: memoryview(t),
    "numpy from_dlpack": np.from_dlpack,
    "from_dlpack": fa.from_dlpack,
    "capsule": lambda t: t.__dlpack__(),
}


@pytest.mark.parametrize("lender", LENDERS)
def test_lent_memory_neither_moves_nor_goes(lender: str) -> None:
    t = fa.ones(100_000)
    lent = LENDERS[lender](t)
    with pytest.raises(RuntimeError, match="other tensors"):
        t.resize_(10_000_000)
    t.data = fa.zeros(3)  # the tensor leaves, the memory stays
    other = [fa.full((100_000,), 7.0) for _ in range(4)]
    if lender != "capsule":
        assert lent[0] == lent[99_999] == 1
    assert len(other) == 4 and t.tolist() == [0, 0, 0]
    t = fa.ones(100_000)
    lent = LENDERS[lender](t)
    del lent
    t.resize_(10_000_000)  # free again


def test_out_leaves_the_memory_of_views() -> None:
    for write in (
        lambda out: fa.add(fa.ones(1_000_000), 1, out=out),
        lambda out: fa.cumsum(fa.ones(1_000_000), 0, out=out),
    ):
        t = fa.ones(100_000)
        part = t[:5]
        t.resize_(0)
        with pytest.raises(RuntimeError, match="other tensors"):
            write(t)
        other = [fa.full((100_000,), 7.0) for _ in range(8)]
        assert part.tolist() == [1] * 5 and len(other) == 8


def test_addresses_that_were_read_stay() -> None:
    t = fa.ones(1000)
    assert t.__array_interface__["data"][0] == t.data_ptr()
    with pytest.raises(RuntimeError, match="resize"):
        t.resize_(1_000_000)
    with pytest.raises(RuntimeError, match="__array_interface__"):
        t.data = fa.zeros(3)


def test_dlpack_byte_offset_beyond_memory():
    import ctypes

    capsule = fa.tensor([1.0, 2.0]).__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # data, device (2 x int32), ndim (int32), dtype (4 bytes), shape, strides, byte_offset
    offset = ctypes.c_uint64.from_address(get(capsule, b"dltensor") + 40)
    offset.value = 2**63
    with pytest.raises(BufferError, match="byte_offset"):
        fa.from_dlpack(capsule)
    offset.value = 0
    assert fa.from_dlpack(capsule).tolist() == [1.0, 2.0]
