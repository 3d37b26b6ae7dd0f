"""What docs/differences.md promises, beyond its examples; and promotion, which is torch's."""

import itertools
import math
import operator

import facula as fa
import numpy as np
import pytest

INTEGERS = "uint8 int8 int16 int32 int64".split()
FLOATS = "float32 float64".split()
COMPLEX = "complex64 complex128".split()
NUMPY = ["bool", *INTEGERS, "float16", *FLOATS, *COMPLEX]
CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def dtype(name):
    return getattr(fa, name)


def category(name):
    return CATEGORY[np.dtype(name).kind]


# ---- promotion


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations_with_replacement(NUMPY, 2)))
def test_promotion_of_dtypes(a, b):
    """Within a category NumPy's; else the higher category decides, as its own dtype."""
    if category(a) == category(b):
        want = np.result_type(a, b).name
    else:
        want = max(a, b, key=category)
        real = {"complex64": "float32", "complex128": "float64"}
        low = min(a, b, key=category)
        if want in real and category(low) == 2:  # a complex number with the wider parts
            want = "complex128" if "float64" in (real[want], low) else "complex64"
    assert fa.promote_types(dtype(a), dtype(b)) is dtype(want)
    x, y = fa.ones(2, dtype=dtype(a)), fa.ones(2, dtype=dtype(b))
    assert (x * y).dtype is (y * x).dtype is dtype(want)
    assert fa.result_type(x, y) is dtype(want)


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("number", [True, 3, 2.5, 1j])
def test_promotion_with_numbers(name, number):
    """A Python number, or a 0-d tensor, only matters by its category (NEP 50, and torch)."""
    kinds = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}
    other = kinds[type(number)]
    if category(other) <= category(name):
        want = name
    elif category(other) == 3 and category(name) == 2:
        want = "complex128" if name == "float64" else "complex64"
    else:
        want = other
    x = fa.ones(2, dtype=dtype(name))
    assert (x * number).dtype is (number * x).dtype is dtype(want)
    assert (x * fa.tensor(number)).dtype is dtype(want)
    narrow = {"int64": "int8", "float32": "float64"}.get(want) if want != name else None
    if narrow:  # a 0-d tensor brings its own dtype where its category decides
        assert (x * fa.tensor(number).to(dtype(narrow))).dtype is dtype(narrow)


# ---- numbers out of a dtype's range

COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("compare", COMPARISONS)
@pytest.mark.parametrize("name", ["bool", *INTEGERS])
def test_comparisons_go_by_value(compare, name):
    """Python's integers and floats are the oracle: they do not wrap."""
    low, high = (0, 1) if name == "bool" else (np.iinfo(name).min, np.iinfo(name).max)
    elements = sorted({int(low), 0, 1, int(high)})
    x = fa.tensor(elements, dtype=dtype(name))
    numbers = [-300, -1, 0, 1, 2, 127, 128, 255, 256, 257, 300, 2**15, 2**31, 2**62, -(2**63)]
    numbers += [2**63 - 1, 0.5, -0.5, 255.5, 1e30, -1e30, math.inf, -math.inf, math.nan]
    for number in numbers:
        if isinstance(number, float) and name in ("int32", "int64") and number not in (0.5, -0.5):
            continue  # compared in the default float, whose grid is coarser than these integers
        want = [compare(e, number) for e in elements]
        assert compare(x, number).tolist() == want, (name, number)
        mirrored = [compare(number, e) for e in elements]
        assert compare(number, x).tolist() == mirrored, (number, name)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32"])
@pytest.mark.parametrize("over", [1, -1])
def test_numbers_that_would_have_to_wrap(name, over):
    info = np.iinfo(name)
    number = int(info.max) + 1 if over > 0 else int(info.min) - 1
    x = fa.zeros(2, dtype=dtype(name))
    mask = fa.tensor([True, False])
    for store in (
        lambda: x + number,
        lambda: number - x,
        lambda: x.mul_(number),
        lambda: x.fill_(number),
        lambda: x.masked_fill_(mask, number),
        lambda: x.index_fill_(0, fa.tensor([0]), number),
        lambda: fa.full((2,), number, dtype=dtype(name)),
        lambda: fa.full_like(x, number),
        lambda: fa.tensor([number], dtype=dtype(name)),
        lambda: x.__setitem__(0, number),
        lambda: x.clamp_(min=number),
    ):
        with pytest.raises(OverflowError, match=str(number)):
            store()
    assert x.tolist() == [0, 0]


# ---- writes to overlapping memory


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.add_(1),
        lambda t: t.mul_(fa.ones(3)),
        lambda t: t.fill_(1),
        lambda t: t.zero_(),
        lambda t: t.copy_(fa.ones(3)),
        lambda t: t.clamp_(0, 1),
        lambda t: t.masked_fill_(fa.tensor([True, False, True]), 1),
        lambda t: t.index_fill_(0, fa.tensor([0]), 1),
        lambda t: t.index_add_(0, fa.tensor([0]), fa.ones(1)),
        lambda t: t.index_put_((fa.tensor([0]),), fa.ones(1)),
        lambda t: t.scatter_(0, fa.tensor([0]), 1),
        lambda t: t.cumsum_(0),
        lambda t: t.uniform_(),
        lambda t: t.random_(),
        lambda t: t.__setitem__(0, 1),
        lambda t: t.__setitem__(slice(None), fa.ones(3)),
        lambda t: fa.add(fa.ones(3), 1, out=t),
        lambda t: fa.cumsum(fa.ones(3), 0, out=t),
        lambda t: fa.sort(fa.ones(3), out=(t, fa.empty(3, dtype=fa.int64))),
    ],
)
def test_expanded_memory_is_not_written(write):
    memory = fa.full((1,), 5.0)
    try:
        write(memory.expand(3))
    except RuntimeError as error:
        assert error.kind == "aliasing"
        assert memory.tolist() == [5.0]
    else:  # one element alone has one place
        assert "__setitem__" in write.__code__.co_names


@pytest.mark.parametrize(
    ("write", "into", "values"),
    [
        (lambda x: x[1:].add_(x[:-1]), slice(1, 6), lambda a: a[1:] + a[:-1]),
        (lambda x: x[1:].copy_(x[:-1]), slice(1, 6), lambda a: a[:-1]),
        (lambda x: x[:-1].copy_(x[1:]), slice(0, 5), lambda a: a[1:]),
        (lambda x: fa.mul(x[:-1], 2, out=x[1:]), slice(1, 6), lambda a: a[:-1] * 2),
        (lambda x: fa.cumsum(x[:-1], 0, out=x[1:]), slice(1, 6), lambda a: np.cumsum(a[:-1])),
        (lambda x: fa.flip(x, [0]).add_(x[0]), slice(0, 0), lambda a: a[:0]),
        (lambda x: x.mul_(x[0] + 2), slice(0, 6), lambda a: a * (a[0] + 2)),
        (lambda x: x.add_(x[5]), slice(0, 6), lambda a: a + a[5]),
        (lambda x: x.index_put_((fa.tensor([1, 2]),), x[:2]), slice(1, 3), lambda a: a[:2]),
        (lambda x: x.masked_scatter_(x > 3, x[:2]), slice(4, 6), lambda a: a[:2]),
        (
            lambda x: x.view(2, 3).t().copy_(x.view(3, 2)),
            slice(0, 6),
            lambda a: a.reshape(3, 2).T.ravel(),
        ),
    ],
)
def test_partial_overlap_is_right_or_raises(write, into, values):
    """The result is that of separate memory, or nothing was written."""
    x = fa.arange(6.0)
    want = x.numpy().copy()
    want[into] = values(want.copy())
    try:
        write(x)
    except RuntimeError as error:
        assert error.kind == "aliasing"
        assert x.tolist() == list(range(6))
    else:
        assert x.tolist() == want.tolist()


# ---- gradients behind `where`

GUARDED = {
    "sqrt": (lambda x: x.sqrt(), lambda v: 0.5 / math.sqrt(v)),
    "log": (lambda x: x.log(), lambda v: 1 / v),
    "reciprocal": (lambda x: 1 / x, lambda v: -1 / v**2),
    "rsqrt": (lambda x: x.rsqrt(), lambda v: -0.5 * v**-1.5),
    "power": (lambda x: x**0.3, lambda v: 0.3 * v**-0.7),
    "x log x": (lambda x: x * x.log(), lambda v: math.log(v) + 1),
    "sin x / x": (lambda x: x.sin() / x, lambda v: math.cos(v) / v - math.sin(v) / v**2),
    "norm": (lambda x: (x * x).sqrt(), lambda v: 1.0),
    "acosh": (lambda x: (x + 1).acosh(), lambda v: 1 / math.sqrt((v + 1) ** 2 - 1)),
    "exp of 1 / x": (lambda x: (-1 / x).exp(), lambda v: math.exp(-1 / v) / v**2),
    "lgamma": (lambda x: x.lgamma(), lambda v: float(fa.digamma(fa.tensor(v, dtype=fa.float64)))),
}


@pytest.mark.parametrize("name", GUARDED)
def test_gradients_behind_where(name):
    """Where the value is not taken the gradient is 0, whatever the slope there."""
    function, slope = GUARDED[name]
    values = [-1.0, 0.0, 0.25, 3.0]
    x = fa.tensor(values, dtype=fa.float64, requires_grad=True)
    y = fa.where(x > 0, function(x), 0.0)
    (first,) = fa.autograd.grad(y.sum(), x, create_graph=True)
    want = [0.0, 0.0, slope(0.25), slope(3.0)]
    np.testing.assert_allclose(first.tolist(), want, rtol=1e-12)
    if name not in ("x log x", "exp of 1 / x"):  # slopes of factors that are infinite themselves
        (second,) = fa.autograd.grad(first.sum(), x)
        assert second[:2].tolist() == [0.0, 0.0] and second.isfinite().all()
    mask = fa.tensor([False, False, True, True])
    x.grad = None
    (function(x).masked_fill(~mask, 0.0)).sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), want, rtol=1e-12)


# ---- messages


def test_messages_give_shapes_and_devices():
    cases = [
        (lambda: fa.ones(3, 4) + fa.ones(3, 5), r"add\(\): self is \(3, 4\) and other is \(3, 5\)"),
        (lambda: fa.mm(fa.ones(2, 3), fa.ones(4, 5)), r"mm\(\): self \(2, 3\) and mat2 \(4, 5\)"),
        (
            lambda: fa.ones(3) * fa.ones(3, device="meta"),
            r"self is \(3,\) on cpu and other .* meta",
        ),
        (
            lambda: fa.nn.functional.linear(fa.ones(2, 3), fa.ones(4, 5)),
            r"linear\(\): input \(2, 3\) and weight \(4, 5\)",
        ),
        (
            lambda: fa.dist(fa.ones(2), fa.ones(3)),
            r"dist\(\): .*self is \(2,\) and other is \(3,\)",
        ),
        (lambda: fa.trace(fa.ones(3)), r"trace\(\): self must be a matrix, it is \(3,\)"),
        (lambda: fa.zeros(2, -1), r"zeros\(\): .*\(2, -1\)"),
        (lambda: fa.tensor([1]) + 2**70, r"add\(\): a Python int is too large"),
    ]
    for call, text in cases:
        with pytest.raises((RuntimeError, OverflowError), match=text):
            call()
