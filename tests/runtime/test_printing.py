"""Text of tensors: the layout that PyTorch gives (checked against version 2.13 when written)."""

import facula as fa
import pytest


@pytest.mark.parametrize(
    ("data", "dtype", "text"),
    [
        (1.0, None, "tensor(1.)"),
        (3, None, "tensor(3)"),
        (True, None, "tensor(True)"),
        ([], None, "tensor([])"),
        ([], "int64", "tensor([], dtype=facula.int64)"),
        ([1, 20, 300], None, "tensor([  1,  20, 300])"),
        ([1.0, 2.0], None, "tensor([1., 2.])"),
        ([1.5, -2.25], None, "tensor([ 1.5000, -2.2500])"),
        ([1e-5, 1.0], None, "tensor([1.0000e-05, 1.0000e+00])"),
        ([1e9, 1.0], None, "tensor([1.0000e+09, 1.0000e+00])"),
        ([0.0, 1000.5, 2.0], None, "tensor([   0.0000, 1000.5000,    2.0000])"),
        ([float("nan"), 1.0], None, "tensor([nan, 1.])"),
        ([float("inf"), -float("inf"), 1.5], None, "tensor([   inf,   -inf, 1.5000])"),
        ([True, False], None, "tensor([ True, False])"),
        ([1 + 2j, -1.5j], None, "tensor([1.+2.0000j, -0.-1.5000j])"),
        ([[1, 2], [3, 4]], None, "tensor([[1, 2],\n        [3, 4]])"),
        ([[[1], [2]]], None, "tensor([[[1],\n         [2]]])"),
        ([1, 2], "int32", "tensor([1, 2], dtype=facula.int32)"),
        ([1.0], "float64", "tensor([1.], dtype=facula.float64)"),
        ([[], []], None, "tensor([], size=(2, 0))"),
    ],
)
def test_text(data, dtype, text):
    t = fa.tensor(data, dtype=dtype and getattr(fa, dtype))
    assert repr(t) == text and str(t) == text


def test_summary():
    assert (
        repr(fa.tensor(list(range(1001)))) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    )
    t = fa.tensor([[float(i + j) for i in range(50)] for j in range(50)])
    assert repr(t).splitlines() == [
        "tensor([[ 0.,  1.,  2.,  ..., 47., 48., 49.],",
        "        [ 1.,  2.,  3.,  ..., 48., 49., 50.],",
        "        [ 2.,  3.,  4.,  ..., 49., 50., 51.],",
        "        ...,",
        "        [47., 48., 49.,  ..., 94., 95., 96.],",
        "        [48., 49., 50.,  ..., 95., 96., 97.],",
        "        [49., 50., 51.,  ..., 96., 97., 98.]])",
    ]


def test_lines_wrap():
    lines = repr(fa.tensor([float(i) for i in range(30)])).splitlines()
    assert len(lines) == 3 and all(len(line) <= 80 for line in lines)
    assert lines[1].startswith("        ")


def test_suffixes():
    x = fa.tensor([1.0], requires_grad=True)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(x * 2).startswith("tensor([2.], grad_fn=<")
    assert repr(fa.tensor([[1.0]], device="meta")) == "tensor(..., device='meta', size=(1, 1))"

    class Mine(fa.Tensor):
        pass

    assert repr(Mine([1.0])) == "Mine([1.])"


def test_options():
    t = fa.tensor([1.23456789, 2.0])
    with fa.printoptions(precision=2):
        assert repr(t) == "tensor([1.23, 2.00])"
    with fa.printoptions(sci_mode=True):
        assert repr(t) == "tensor([1.2346e+00, 2.0000e+00])"
    with fa.printoptions(threshold=2, edgeitems=1):
        assert repr(fa.tensor([1, 2, 3])) == "tensor([1,  ..., 3])"
    with fa.printoptions(profile="full"):
        assert "..." not in repr(fa.tensor(list(range(2000))))
    assert repr(t) == "tensor([1.2346, 2.0000])"
    with pytest.raises(ValueError):
        fa.set_printoptions(profile="nope")
    with pytest.raises(ValueError):
        fa.set_printoptions(precision=-1)


def test_format():
    assert f"{fa.tensor(2.5):.3f}" == "2.500" and f"{fa.tensor(7):>4d}" == "   7"
    assert f"{fa.tensor([1.0])}" == "tensor([1.])"
    with pytest.raises(TypeError, match="0-d"):
        format(fa.tensor([1.0]), ".3f")
