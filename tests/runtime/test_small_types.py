"""dtype, device, Size, Generator and the settings of the process."""

import copy
import pickle

import facula as fa
import numpy as np
import pytest

INTEGERS = "bool uint8 int8 int16 int32 int64".split()
DTYPES = INTEGERS + "float16 bfloat16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("name", DTYPES)
def test_dtype(name):
    d = getattr(fa, name)
    assert repr(d) == f"facula.{name}"
    assert pickle.loads(pickle.dumps(d)) is d and copy.deepcopy(d) is d
    assert d.is_floating_point == ("float" in name)
    assert d.is_complex == ("complex" in name)
    assert d.is_signed == (name not in ("bool", "uint8"))
    if name != "bfloat16":
        assert d.itemsize == np.dtype(name).itemsize
    assert {d: 1}[d] == 1


def test_dtype_aliases():
    for alias, name in {
        "float": "float32",
        "double": "float64",
        "half": "float16",
        "int": "int32",
        "long": "int64",
        "short": "int16",
        "cfloat": "complex64",
        "cdouble": "complex128",
    }.items():
        assert getattr(fa, alias) is getattr(fa, name)
    assert fa.float32.to_complex() is fa.complex64
    assert fa.complex128.to_real() is fa.float64
    assert fa.int32.to_real() is fa.int32
    with pytest.raises(TypeError):
        fa.dtype()


def test_device():
    d = fa.device("cpu")
    assert d.type == "cpu" and d.index is None and str(d) == "cpu"
    assert repr(d) == "device(type='cpu')"
    e = fa.device("cpu:0")
    assert (
        e.index == 0
        and e != d
        and e == fa.device("cpu", 0)
        and hash(e) == hash(fa.device("cpu", 0))
    )
    assert fa.device(d) == d
    assert repr(e) == "device(type='cpu', index=0)"
    assert pickle.loads(pickle.dumps(e)) == e
    assert d != "cpu"


@pytest.mark.parametrize(
    "bad", ["", "nope", "cpu:", "cpu:x", "cpu:-1", "cpu:999", ":0", "cpu\0", "cpu:0\0"]
)
def test_bad_device(bad):
    with pytest.raises((RuntimeError, ValueError)):
        fa.device(bad)


def test_bad_device_type():
    with pytest.raises(TypeError, match="device"):
        fa.device(1.5)
    with pytest.raises(ValueError, match="twice"):
        fa.device("cpu:0", 0)


def test_size():
    s = fa.Size([2, 3, 4])
    assert s.numel() == 24 and s == (2, 3, 4) and repr(s) == "facula.Size([2, 3, 4])"
    assert isinstance(s[1:], fa.Size) and isinstance(s + s, fa.Size) and s[0] == 2
    assert isinstance(s * 2, fa.Size) and s[-1] == 4
    assert fa.Size([]).numel() == 1
    assert pickle.loads(pickle.dumps(s)) == s
    assert fa.Size([np.int64(3)]) == (3,)
    with pytest.raises(TypeError, match="element 1"):
        fa.Size([1, "a"])


def test_finfo_and_iinfo():
    for name in ("float16", "float32", "float64"):
        ours, theirs = fa.finfo(getattr(fa, name)), np.finfo(name)
        for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal"):
            assert getattr(ours, field) == float(getattr(theirs, field))
        assert ours.resolution == pytest.approx(float(theirs.resolution), rel=1e-3)
    assert fa.finfo(fa.bfloat16).eps == 2**-7
    assert fa.finfo(fa.bfloat16).max == pytest.approx(3.3895314e38)
    assert fa.finfo().dtype == "float32"
    for name in ("uint8", "int8", "int16", "int32", "int64"):
        ours, theirs = fa.iinfo(getattr(fa, name)), np.iinfo(name)
        assert (ours.bits, ours.min, ours.max) == (theirs.bits, theirs.min, theirs.max)
    with pytest.raises(TypeError):
        fa.finfo(fa.int32)
    with pytest.raises(TypeError):
        fa.iinfo(fa.float32)
    with pytest.raises(TypeError):
        fa.iinfo(fa.bool)


def test_generator():
    g = fa.Generator()
    assert g.manual_seed(7) is g and g.initial_seed() == 7
    state = g.get_state()
    assert state.dtype is fa.uint8
    h = fa.Generator().set_state(state)
    assert h.initial_seed() == 7
    assert g.clone_state().get_state().tolist() == state.tolist()
    assert pickle.loads(pickle.dumps(g)).get_state().tolist() == state.tolist()
    assert g.device == fa.device("cpu")
    g.manual_seed(-1)
    assert g.initial_seed() == 2**64 - 1
    assert g.seed() == g.initial_seed()
    with pytest.raises(OverflowError):
        g.manual_seed(2**64)
    with pytest.raises(TypeError):
        g.manual_seed("a")
    with pytest.raises(ValueError, match="16"):
        g.set_state(fa.tensor([1, 2], dtype=fa.uint8))
    with pytest.raises(TypeError):
        g.set_state(3)


def test_default_dtype():
    assert fa.get_default_dtype() is fa.float32
    try:
        fa.set_default_dtype(fa.float64)
        assert fa.tensor([1.0]).dtype is fa.float64 and fa.tensor(1j).dtype is fa.complex128
    finally:
        fa.set_default_dtype(fa.float32)
    with pytest.raises(TypeError):
        fa.set_default_dtype(fa.int64)
    with pytest.raises(TypeError):
        fa.set_default_dtype("float32")


def test_promotion():
    assert fa.promote_types(fa.int32, fa.float16) is fa.float16
    assert fa.promote_types(fa.uint8, fa.int8) is fa.int16
    assert fa.promote_types(fa.float16, fa.bfloat16) is fa.float32
    assert fa.can_cast(fa.int32, fa.float32) and not fa.can_cast(fa.float32, fa.int32)
    t = fa.tensor([1], dtype=fa.int8)
    assert fa.result_type(t, 5) is fa.int8
    assert fa.result_type(t, 5.0) is fa.float32
    assert fa.result_type(t, fa.tensor(1, dtype=fa.int64)) is fa.int8
    with pytest.raises(TypeError, match="argument 1"):
        fa.result_type(t, "x")


def test_threads():
    n = fa.get_num_threads()
    try:
        fa.set_num_threads(1)
        assert fa.get_num_threads() == 1
    finally:
        fa.set_num_threads(n)
    for bad in (0, -1, 10**6):
        with pytest.raises(ValueError):
            fa.set_num_threads(bad)


def test_storage():
    x = fa.tensor([[1.0, 2.0], [3.0, 4.0]])
    s = x.untyped_storage()
    assert s.nbytes() == len(s) == 16 and s.data_ptr() == x.data_ptr()
    assert s == x[1].untyped_storage() and hash(s) == hash(x[1].untyped_storage())
    assert s != fa.tensor([1.0]).untyped_storage()
    assert s.device == fa.device("cpu")


def test_copies_of_storages():
    """Shared within one deep copy, with tensors of the memory too; a pickle holds the bytes."""
    x = fa.arange(6.0)
    part, s = x[2:], x.untyped_storage()
    for given in ([x, part, s, s], [s, part, x, s]):
        copied = copy.deepcopy(given)
        tensors = [t for t in copied if isinstance(t, fa.Tensor)]
        storages = [t for t in copied if not isinstance(t, fa.Tensor)]
        assert storages[0] is storages[1] and storages[0] != s and storages[0].nbytes() == 24
        assert all(t.untyped_storage() == storages[0] for t in tensors)
        assert storages[0].data_ptr() == min(t.data_ptr() for t in tensors)
        min(tensors, key=lambda t: t.numel())[0] = 9
        assert max(tensors, key=lambda t: t.numel()).tolist() == [0, 1, 9, 3, 4, 5]
        assert x.tolist() == [0, 1, 2, 3, 4, 5]
    assert copy.copy(s) == s and x.data.untyped_storage() == s
    assert hash(x.data.untyped_storage()) == hash(s)
    back = pickle.loads(pickle.dumps(s))
    assert type(back) is type(s) and back.nbytes() == 24 and back != s
    again = pickle.loads(pickle.dumps(x.to("meta").untyped_storage()))
    assert again.nbytes() == 24 and again.device.type == "meta"
    for empty in (
        copy.deepcopy(fa.zeros(0).untyped_storage()),
        copy.copy(fa.zeros(0)).untyped_storage(),
    ):
        assert empty.nbytes() == 0


def test_memory_formats_and_layout():
    assert repr(fa.contiguous_format) == "facula.contiguous_format"
    assert pickle.loads(pickle.dumps(fa.channels_last)) is fa.channels_last
    assert fa.tensor([1.0]).layout is fa.strided
    x = fa.tensor([[[[1.0, 2.0]]]])
    assert x.is_contiguous() and x.is_contiguous(memory_format=fa.contiguous_format)
    with pytest.raises(ValueError):
        x.is_contiguous(memory_format=fa.preserve_format)


def test_out_of_memory_is_both():
    assert issubclass(fa.OutOfMemoryError, MemoryError)
    assert issubclass(fa.OutOfMemoryError, RuntimeError)


def test_null_character_in_a_device_is_told():
    with pytest.raises(RuntimeError, match="null character"):
        fa.device("cpu\0:1")
