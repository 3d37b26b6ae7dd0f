"""Unsigned integers of 16 to 64 bits, floats of 8: values, conversion, promotion, exchange."""

from __future__ import annotations

import io
import math
import pickle

import facula as fa
import numpy as np
import pytest

UNSIGNED = ("uint16", "uint32", "uint64")
EIGHT = ("float8_e4m3fn", "float8_e5m2")


def _values(bits: int, exponent_bits: int, infinities: bool) -> float:
    """A float of 8 bits by its definition (OCP 8-bit Floating Point Specification)."""
    fraction_bits = 7 - exponent_bits
    sign = -1.0 if bits & 0x80 else 1.0
    exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if infinities and exponent == (1 << exponent_bits) - 1:
        return sign * math.inf if fraction == 0 else math.nan
    if not infinities and bits & 0x7F == 0x7F:
        return math.nan
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fraction_bits)
    return sign * (1 + fraction / (1 << fraction_bits)) * 2.0 ** (exponent - bias)


def _table(name: str) -> np.ndarray:
    kind = (4, False) if name == "float8_e4m3fn" else (5, True)
    return np.array([_values(b, *kind) for b in range(256)])


def _nearest(name: str, x: float) -> float:
    """The nearest of the table, ties to the even bits; beyond it by the format's rule."""
    table = _table(name)
    if math.isnan(x):
        return math.nan
    finite = [b for b in range(128) if math.isfinite(table[b])]
    largest = table[finite[-1]]
    step = largest - table[finite[-2]]
    # Halfway to what would be next, the even one, which is infinity; the NaN of e4m3fn is odd.
    beyond = abs(x) - largest - step / 2
    if beyond > 0 or (beyond == 0 and name == "float8_e5m2"):
        return math.nan if name == "float8_e4m3fn" else math.copysign(math.inf, x)
    best = min(finite, key=lambda b: (abs(table[b] - abs(x)), b & 1))
    return math.copysign(table[best], x)


@pytest.mark.parametrize("name", EIGHT)
def test_every_float_of_8_bits(name: str) -> None:
    dtype = getattr(fa, name)
    t = fa.arange(256).to(fa.uint8).view(dtype)
    np.testing.assert_array_equal(t.float().numpy(), _table(name))
    np.testing.assert_array_equal(t.double().to(dtype).float().numpy(), _table(name))
    assert np.signbit(t.float().numpy()[128])
    info = fa.finfo(dtype)
    assert (info.max, info.bits) == (
        np.nanmax(np.where(np.isinf(_table(name)), np.nan, _table(name))),
        8,
    )
    assert info.tiny == 2.0 ** (-6 if name == "float8_e4m3fn" else -14)
    assert dtype.is_floating_point and dtype.is_signed and dtype.itemsize == 1


@pytest.mark.parametrize("name", EIGHT)
def test_conversion_rounds_to_even(name: str) -> None:
    table = np.unique(np.abs(_table(name)[np.isfinite(_table(name))]))
    middle = (table[1:] + table[:-1]) / 2
    narrow = middle.astype(np.float32)
    beyond = [table[-1] * f for f in (1.01, 1.03, 1.06, 1.0625, 1.0714285, 1.2, 2, 1e30)]
    beside = [np.nextafter(narrow, np.float32(to)) for to in (0, 9e9)]
    some = np.concatenate([narrow, *beside, beyond, [1e-30, 0.0, math.inf, math.nan]])
    some = some.astype(np.float32)
    some = np.concatenate([some, -some])
    expected = np.array([_nearest(name, float(x)) for x in some])
    if name == "float8_e4m3fn":
        expected[np.isinf(some)] = math.nan
    got = fa.tensor(some).to(getattr(fa, name)).float().numpy()
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", EIGHT)
def test_arithmetic_of_floats_of_8_bits(name: str) -> None:
    dtype = getattr(fa, name)
    x = fa.tensor([0.5, -1.75, 3.0, 100.0]).to(dtype)
    got = (x * x + 1).float()
    assert (x * x + 1).dtype == dtype
    step = (x * x).float().numpy() + 1
    np.testing.assert_array_equal(got.numpy(), [_nearest(name, float(v)) for v in step])
    assert (x > 0).tolist() == [True, False, True, True]
    assert x.sum().dtype == dtype
    assert x.float().sum().item() == pytest.approx(101.75, rel=0.05)
    with pytest.raises(TypeError, match="no dtype holds both"):
        x + fa.ones(4)
    with pytest.raises(NotImplementedError, match="convert"):
        x.reshape(2, 2) @ x.reshape(2, 2)


@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.parametrize(
    "call",
    [
        lambda n, a, b: a + b,
        lambda n, a, b: a - b,
        lambda n, a, b: a * b,
        lambda n, a, b: a // b,
        lambda n, a, b: a % b,
        lambda n, a, b: a & b,
        lambda n, a, b: a ^ b,
        lambda n, a, b: ~a,
        lambda n, a, b: a << 3,
        lambda n, a, b: a >> 5,
        lambda n, a, b: a < b,
        lambda n, a, b: a >= b,
        lambda n, a, b: a == b,
        lambda n, a, b: n.maximum(a, b),
        lambda n, a, b: n.minimum(a, b),
        lambda n, a, b: a.sum() if n is fa else a.sum(dtype=np.uint64),
        lambda n, a, b: a.prod() if n is fa else a.prod(dtype=np.uint64),
        lambda n, a, b: n.cumsum(a, 0),
        lambda n, a, b: a.max(),
        lambda n, a, b: a.min(),
        lambda n, a, b: a.argmax(),
        lambda n, a, b: a.argmin(),
        lambda n, a, b: n.argsort(a),
        lambda n, a, b: n.where(a < b, a, b),
        lambda n, a, b: a[[2, 0, 5]],
        lambda n, a, b: n.sort(a)[0] if n is fa else n.sort(a),
        lambda n, a, b: n.unique(a),
        lambda n, a, b: n.searchsorted(n.sort(a)[0] if n is fa else n.sort(a), b),
        lambda n, a, b: a.reshape(-1, 2).T @ b.reshape(-1, 2),
    ],
)
def test_as_numpy_has_it(name: str, call) -> None:
    rng = np.random.default_rng(7)
    top = np.iinfo(name).max
    a = np.concatenate(
        [
            rng.integers(0, top, 66, dtype=name, endpoint=True),
            np.array([0, 1, top, top // 2 + 1], name),
        ]
    )
    b = np.concatenate(
        [rng.integers(1, top, 66, dtype=name, endpoint=True), np.array([top, 3, top, 7], name)]
    )
    got, expected = call(fa, fa.tensor(a), fa.tensor(b)), call(np, a, b)
    assert got.is_contiguous()
    if got.dtype in (fa.int64, fa.uint64) and got.dtype != getattr(fa, name):
        np.testing.assert_array_equal(
            got.numpy().astype(np.uint64), np.asarray(expected).astype(np.uint64)
        )
    else:
        assert str(got.dtype).rpartition(".")[2] == str(np.asarray(expected).dtype)
        np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("name", UNSIGNED)
def test_numbers(name: str) -> None:
    dtype, top = getattr(fa, name), np.iinfo(name).max
    info = fa.iinfo(dtype)
    assert (info.min, info.max, info.bits) == (0, int(top), np.iinfo(name).bits)
    t = fa.tensor([0, int(top)], dtype=dtype)
    assert t.tolist() == [0, int(top)] and t[1].item() == int(top) and int(t[1]) == int(top)
    assert str(int(top)) in repr(t)
    assert fa.full((2,), int(top), dtype=dtype).tolist() == [int(top)] * 2
    assert (t == int(top)).tolist() == [False, True]
    assert (t > -1).tolist() == [True, True]
    t[0] = int(top) - 1
    assert t.tolist() == [int(top) - 1, int(top)]
    assert not dtype.is_signed and not t.is_signed()
    for bad in (int(top) + 1, -1):
        with pytest.raises((OverflowError, RuntimeError)):
            fa.tensor([bad], dtype=dtype)
        with pytest.raises(OverflowError):
            t.fill_(bad)
        with pytest.raises(OverflowError):
            t + bad


@pytest.mark.parametrize("name", UNSIGNED)
def test_conversions(name: str) -> None:
    dtype, top = getattr(fa, name), int(np.iinfo(name).max)
    whole = fa.tensor([0, 1, top], dtype=dtype)
    assert whole.double().tolist() == [0.0, 1.0, float(top)]
    assert whole.to(fa.bool).tolist() == [False, True, True]
    half = float(2 ** (np.iinfo(name).bits - 1))
    assert fa.tensor([3.9, half, half * 1.5], dtype=fa.float64).to(dtype).tolist() == [
        3,
        int(half),
        int(half * 1.5),
    ]
    assert whole.to(fa.int64).tolist()[:2] == [0, 1]
    assert fa.tensor([-1]).to(dtype).tolist() == [top]


def test_promotion() -> None:
    """The table of the Array API standard, and errors where it has none."""
    order = {8: 0, 16: 1, 32: 2, 64: 3}
    for a in (8, 16, 32, 64):
        for b in (8, 16, 32, 64):
            ua, ub, ib = (getattr(fa, n) for n in (f"uint{a}", f"uint{b}", f"int{b}"))
            assert fa.promote_types(ua, ub) == (ua if order[a] > order[b] else ub)
            if a == 64:
                with pytest.raises(TypeError, match="no dtype holds both"):
                    fa.promote_types(ua, ib)
            else:
                assert fa.promote_types(ua, ib) == getattr(fa, f"int{max(b, 2 * a)}")
        assert fa.promote_types(getattr(fa, f"uint{a}"), fa.float32) == fa.float32
    with pytest.raises(TypeError, match="convert one of them"):
        fa.tensor([1], dtype=fa.uint64) + fa.tensor([1])
    with pytest.raises(TypeError):
        fa.promote_types(fa.float8_e5m2, fa.float32)
    assert fa.promote_types(fa.float8_e5m2, fa.int64) == fa.float8_e5m2


@pytest.mark.parametrize("name", UNSIGNED + EIGHT)
def test_exchange(name: str, tmp_path) -> None:
    dtype = getattr(fa, name)
    t = fa.tensor([1, 2, 3]).to(dtype)
    if name in UNSIGNED:
        assert str(t.numpy().dtype) == name and fa.from_numpy(t.numpy()).dtype == dtype
        assert (
            fa.tensor(np.array([7], name)).dtype == dtype
            and fa.tensor(np.array([7], name)[0]).dtype == dtype
        )
    else:
        with pytest.raises(TypeError, match="NumPy has no"):
            t.numpy()
    back = fa.from_dlpack(t)
    assert back.dtype == dtype and back.data_ptr() == t.data_ptr()
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    for end in ("a.pt", "a.safetensors"):
        fa.save({"t": t, "part": t[1:]}, tmp_path / end)
        read = fa.load(tmp_path / end)
        assert read["t"].dtype == dtype and read["part"].float().tolist() == [2.0, 3.0]
    file = io.BytesIO()
    fa.save(t, file)
    file.seek(0)
    assert fa.load(file).float().tolist() == [1.0, 2.0, 3.0]


def test_random_numbers_of_unsigned_types() -> None:
    for name in UNSIGNED:
        t = fa.empty(1000, dtype=getattr(fa, name)).random_(0, 60000)
        assert min(t.tolist()) >= 0 and 55000 < max(t.tolist()) < 60000
    assert fa.randint(0, 9, (100,), dtype=fa.uint32).max().item() == 8


def test_numbers_above_int64_beside_other_dtypes() -> None:
    for dtype in (fa.int8, fa.int64, fa.uint8):
        t = fa.tensor([5, 100], dtype=dtype)
        for number in (2**63, 2**64 - 1):
            assert (t < number).tolist() == [True, True] and (t == number).tolist() == [
                False,
                False,
            ]
            assert (t >= number).tolist() == [False, False]
            with pytest.raises((OverflowError, TypeError)):
                t + number
    top = fa.tensor([2**63 - 1])
    assert (top < 2**63).item() and not (top == 2**63).item()
    assert (fa.ones(2) * 2**63).tolist() == [2.0**63] * 2
    assert fa.linspace(0, 2**64 - 1, 2, dtype=fa.uint64).tolist() == [0, 2**64 - 1]
    steps = fa.arange(0, 2**64 - 1, 2**62, dtype=fa.uint64)
    assert steps.tolist() == [0, 2**62, 2**63, 3 * 2**62]
    with pytest.raises(OverflowError, match="arange"):
        fa.arange(0, 2**65, 2**62, dtype=fa.uint64)
