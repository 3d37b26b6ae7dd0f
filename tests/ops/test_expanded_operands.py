"""Tensors expanded to more elements than there is memory: a result or a clear error."""

from __future__ import annotations

import facula as fa
import pytest

F = fa.nn.functional
LINE = (2**62,)
SQUARE = (2**31, 2**31)

CALLS = {
    "median": lambda x: x.median(),
    "nanmedian": lambda x: x.nanmedian(),
    "median.dim": lambda x: x.median(-1),
    "kthvalue": lambda x: x.kthvalue(2),
    "topk": lambda x: x.topk(2),
    "mode": lambda x: x.mode(),
    "sort": lambda x: x.sort(),
    "argsort": lambda x: x.argsort(),
    "unique": lambda x: x.unique(),
    "quantile": lambda x: x.quantile(0.5),
    "histc": lambda x: x.histc(4),
    "cumsum": lambda x: x.cumsum(-1),
    "softmax": lambda x: x.softmax(-1),
    "msort": lambda x: fa.msort(x),
}
PRODUCTS = {
    "dot": lambda a, m: a.dot(a),
    "vdot": lambda a, m: fa.vdot(a, a),
    "inner": lambda a, m: fa.inner(a, a),
    "matmul of lines": lambda a, m: a @ a,
    "linear": lambda a, m: F.linear(a, a),
    "einsum": lambda a, m: fa.einsum("i,i->", a, a),
    "matmul": lambda a, m: m @ m.t(),
    "mv": lambda a, m: fa.mv(m, m[0]),
    "bmm": lambda a, m: fa.bmm(m[None], m.t()[None]),
    "addmm": lambda a, m: fa.addmm(fa.ones(1, 1), m, m.t()),
    "tensordot": lambda a, m: fa.tensordot(
        fa.ones(1, 1).expand(SQUARE), fa.ones(1, 1).expand(SQUARE)
    ),
}
# What a clear error is here: too much memory, or sizes that no kernel takes.
ERRORS = (fa.OutOfMemoryError, RuntimeError, ValueError)


@pytest.mark.parametrize("dtype", ["float64", "int8", "bfloat16"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("shape", [LINE, SQUARE], ids=["line", "square"])
def test_orders(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    if len(shape) > 1 and name not in ("median", "nanmedian", "unique", "quantile", "histc"):
        pytest.skip("would be done row by row, for years")
    with pytest.raises((*ERRORS, TypeError)):
        CALLS[name](fa.ones((1,) * len(shape), dtype=getattr(fa, dtype)).expand(shape))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, dtype: str) -> None:
    one = fa.ones(1, dtype=getattr(fa, dtype))
    if name == "addmm" and dtype != "float32":
        pytest.skip("its first operand is float32")
    if name == "tensordot" and dtype != "float32":
        pytest.skip("of float32")
    with pytest.raises(ERRORS):
        PRODUCTS[name](one.expand(LINE), one[None].expand(1, 2**62))


@pytest.mark.parametrize(
    ("stride", "padding"), [(2**33, 2**31), (2**30, 2**28), (2**31, 2**31), (2**40, 2**20)]
)
def test_margins_of_convolutions_take_no_memory(stride: int, padding: int) -> None:
    x, w = fa.ones(1, 1, 3), fa.ones(1, 1, 2, requires_grad=True)
    y = F.conv1d(x, w, stride=stride, padding=padding)
    n = (3 + 2 * padding - 2) // stride + 1
    expected = [float(sum(0 <= o * stride - padding + k < 3 for k in range(2))) for o in range(n)]
    assert y.flatten().tolist() == expected
    y.sum().backward()
    assert w.grad.flatten().tolist() == [
        float(sum(0 <= o * stride - padding + k < 3 for o in range(n))) for k in range(2)
    ]
