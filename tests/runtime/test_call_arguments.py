"""How calls are read: synonyms, conversions, and what errors say."""

import operator
import warnings
from functools import partial

import facula as fa
import numpy as np
import pytest


def test_synonyms():
    x = fa.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert fa.sum(input=x, axis=0).tolist() == [4.0, 6.0]
    assert fa.sum(x, dim=0, keepdims=True).shape == (1, 2)
    assert x.sum(axis=1, keepdim=True).shape == (2, 1)
    assert fa.add(x1=x, x2=x).tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_variadic_ints():
    x = fa.tensor([float(i) for i in range(24)])
    for args in ((2, 3, 4), ((2, 3, 4),), ([2, 3, 4],), (fa.Size([2, 3, 4]),), (np.int64(2), 3, 4)):
        assert x.view(*args).shape == (2, 3, 4)
    assert x.view(fa.tensor(24)).shape == (24,)
    assert x.view(-1, 6).shape == (4, 6)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.add(), TypeError, r"add\(\): missing required argument 'other'"),
        (
            lambda x: x.add("s"),
            TypeError,
            r"add\(\): argument 'other' must be a Tensor or a number, not str",
        ),
        (lambda x: x.add(None), TypeError, "not None"),
        (lambda x: x.add(x, nope=1), TypeError, "unexpected keyword argument 'nope'"),
        (lambda x: x.add(x, other=x), TypeError, "more than one value for argument 'other'"),
        (lambda x: x.add(1, 2, 3, 4), TypeError, "at most"),
        (lambda x: x.view("a"), TypeError, "view"),
        (lambda x: x.view(1, "a"), TypeError, "view"),
        (lambda x: x.view(2**70), OverflowError, "64-bit"),
        (lambda x: x.sum(dim=0, dtype="float32"), TypeError, "'dtype' must be a dtype"),
        (lambda x: x.sum(dim=0, keepdim=1), TypeError, "'keepdim' must be a bool"),
        (lambda x: x.size(5), IndexError, "5"),
        (lambda x: x.numpy(1), TypeError, "positional"),
        (lambda x: fa.cat(x), TypeError, "list or tuple of Tensors"),
        (lambda x: fa.cat([x, 1]), TypeError, "element 1 is int"),
    ],
)
def test_messages(call, error, text):
    with pytest.raises(error, match=text):
        call(fa.tensor([1.0, 2.0]))


def test_a_number_that_would_lose_its_gradient():
    x = fa.tensor([1.0])
    v = fa.tensor(2.0, requires_grad=True)
    with pytest.raises(TypeError, match="gradient"):
        fa.full((2,), v)
    assert fa.full((2,), v.detach()).tolist() == [2.0, 2.0]
    assert x.add(x, alpha=np.float32(2)).tolist() == [3.0]


def test_conversion_errors_of_python_code_come_through():
    class Bad:
        def __index__(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fa.tensor([1.0]).view(Bad())


def test_numbers():
    assert bool(fa.tensor([1.0])) and int(fa.tensor([3.7])) == 3 and float(fa.tensor(2.5)) == 2.5
    assert complex(fa.tensor(1.0)) == 1 + 0j and complex(fa.tensor(1j)) == 1j
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Python's, of a bool where an int belongs
        for x in (fa.tensor(True), fa.tensor([False])):
            assert type(int(x)) is int and type(operator.index(x)) is int and int(x) == bool(x)
    assert int(fa.tensor(1e30, dtype=fa.float64)) == int(1e30)
    for f, error in ((int, OverflowError), (float, None)):
        if error:
            with pytest.raises(error):
                f(fa.tensor(float("inf")))
    with pytest.raises(ValueError):
        int(fa.tensor(float("nan")))
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(fa.tensor([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="2 elements"):
        fa.tensor([1.0, 2.0]).item()
    with pytest.raises(TypeError, match="index"):
        [1, 2][fa.tensor(1.0)]
    with pytest.raises(TypeError):
        float(fa.tensor(1j))


def test_operators_with_strangers():
    x = fa.tensor([1.0])

    class Other:
        def __radd__(self, other):
            return "other"

    assert x + Other() == "other"
    assert (x == "a") is False and (x != "a") is True
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "a"
    with pytest.raises(TypeError):
        pow(x, 2, 3)


def test_geometry_methods():
    x = fa.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert x.size() == x.shape == (2, 3) and x.size(-1) == 3 and x.stride() == (3, 1)
    assert x.stride(0) == 3 and x.dim() == x.ndim == x.ndimension() == 2
    assert x.numel() == x.nelement() == 6 and x.element_size() == x.itemsize == 4 and x.nbytes == 24
    assert x[1].storage_offset() == 3 and x[1].data_ptr() == x.data_ptr() + 12
    assert x.is_contiguous() and not x[:, 1].is_contiguous()
    assert x.type() == "facula.FloatTensor" and x.type(fa.int32).dtype is fa.int32
    assert x.is_cpu and not x.is_meta and not x.is_cuda and x.cpu() is x
    assert x.is_floating_point() and not x.is_complex() and x.is_signed()
    assert x[0]._base is x and x._base is None
    version = x._version
    x[0] = 0
    assert x._version == version + 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.add_(x, 2), r"^add_\(\): takes at most 1 .*\n  signature: add_\(Tensor self"),
        (lambda x: x.add_("a"), r"^add_\(\): argument 'other'"),
        (lambda x: x.mul_(fa.ones(3)), r"^mul_\(\): self is \(2,\) and other is \(3,\)"),
        (lambda x: x.add(fa.ones(3)), r"^add\(\): self is"),
    ],
)
def test_errors_name_the_in_place_form(call, message):
    with pytest.raises((TypeError, RuntimeError), match=message):
        call(fa.ones(2))


def test_a_missing_name_is_proposed():
    with pytest.raises(AttributeError, match="no attribute 'tensr'") as error:
        fa.tensr  # noqa: B018
    assert error.value.name == "tensr"
    assert error.value.obj is fa


def test_products_write_out() -> None:
    """An empty target is resized, one of another shape refused, as by every operator."""
    a, b = fa.arange(6.0).reshape(2, 3), fa.arange(12.0).reshape(3, 4)
    for product in (partial(fa.tensordot, a, b, 1), partial(fa.chain_matmul, a, b)):
        out = fa.empty(0)
        assert product(out=out) is out and out.tolist() == (a.numpy() @ b.numpy()).tolist()
        with pytest.raises(RuntimeError, match=r"out is \(5, 2, 4\) and the result \(2, 4\)"):
            product(out=fa.empty(5, 2, 4))
