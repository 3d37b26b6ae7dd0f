"""Pointwise formulas and two derivatives where arguments are infinite, or the largest and smallest.

What the textbook gives as the limit must be the value there; a product of zero and infinity, or a
quotient of infinities on the way to it, makes NaN of it. A new formula of one argument comes with
its line in `LIMITS`, or a reason in `WITHOUT`.
"""

from __future__ import annotations

import itertools
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.testing._samples import OpRecord, operators
from harness import FLOATS, call, to_numpy

INF = float("inf")
PI = float(np.pi)
# Value, first and second derivative at -inf; the same at inf. A dash: no limit, or no argument.
LIMITS = {
    "neg": "inf -1 0; -inf -1 0",
    "abs": "inf -1 0; inf 1 0",
    "sign": "-1 0 0; 1 0 0",
    "sgn": "-1 0 0; 1 0 0",
    "square": "inf -inf 2; inf inf 2",
    "reciprocal": "0 0 0; 0 0 0",
    "clamp": "- 0 0; - 0 0",
    "clamp_min": "- 0 0; inf 1 0",
    "clamp_max": "-inf 1 0; - 0 0",
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "round_scaled"), "-inf 0 0; inf 0 0"),
    **dict.fromkeys(("exp", "exp2"), "0 0 0; inf inf inf"),
    "expm1": "-1 0 0; inf inf inf",
    **dict.fromkeys(("log", "log2", "log10", "log1p"), "- - -; inf 0 0"),
    "sqrt": "- - -; inf 0 0",
    "rsqrt": "- - -; 0 0 0",
    "atan": f"{-PI / 2} 0 0; {PI / 2} 0 0",
    "sinh": "-inf inf -inf; inf inf inf",
    "cosh": "inf -inf inf; inf inf inf",
    "tanh": "-1 0 0; 1 0 0",
    "asinh": "-inf 0 0; inf 0 0",
    "acosh": "- - -; inf 0 0",
    "deg2rad": f"-inf {PI / 180} 0; inf {PI / 180} 0",
    "rad2deg": f"-inf {180 / PI} 0; inf {180 / PI} 0",
    "sinc": "0 0 0; 0 0 0",
    "erf": "-1 0 0; 1 0 0",
    "erfc": "2 0 0; 0 0 0",
    "lgamma": "- - -; inf inf 0",
    "digamma": "- - -; inf 0 0",
    "polygamma": "- - -; 0 0 0",
    **dict.fromkeys(("i0", "modified_bessel_i0", "bessel_i"), "inf -inf inf; inf inf inf"),
    **dict.fromkeys(("i1", "modified_bessel_i1"), "-inf inf -inf; inf inf inf"),
    **dict.fromkeys(("i0e", "i1e", "bessel_ie"), "0 0 0; 0 0 0"),
    "ndtr": "0 0 0; 1 0 0",
    "entr": "- - -; -inf -inf 0",
    **dict.fromkeys(("bessel_j0", "bessel_j1", "spherical_bessel_j0", "airy_ai"), "0; 0"),
    **dict.fromkeys(("bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1"), "-; 0"),
    **dict.fromkeys(("scaled_modified_bessel_k0", "scaled_modified_bessel_k1"), "-; 0"),
    **dict.fromkeys(("erfcx", "erfcx_integral"), "inf -inf inf; 0 0 0"),
    "log_ndtr": "-inf inf -1; 0 0 0",
    "acosh_slope": "- - -; 0 0 -",
    **dict.fromkeys(("atan_slope", "asinh_slope", "gauss"), "0 0 -; 0 0 -"),
    **dict.fromkeys(("sech", "sigmoid_slope", "sinc_slope"), "0 0 0; 0 0 0"),
    "one_minus_square": "-inf inf -2; -inf -inf -2",
    "conj_physical": "-inf 1 0; inf 1 0",
    "angle": f"{PI} 0 0; 0 0 0",
    "sigmoid": "0 0 0; 1 0 0",
    "relu": "0 0 0; inf 1 0",
    "relu6": "0 0 0; 6 0 0",
    "hardtanh": "-1 0 0; 1 0 0",
    **dict.fromkeys(("gelu", "silu", "mish", "hardswish"), "0 0 0; inf 1 0"),
    **dict.fromkeys(("log1pexp", "softplus"), "0 0 0; inf 1 0"),
    "logsigmoid": "-inf 1 0; 0 0 0",
    "softsign": "-1 0 0; 1 0 0",
    "tanhshrink": "-inf 1 0; inf 1 0",
    **dict.fromkeys(("elu", "celu"), "-1 0 0; inf 1 0"),
    "selu": f"{-1.7580993408473766} 0 0; inf {1.0507009873554805} 0",
    "leaky_relu": "-inf 0.01 0; inf 1 0",
    "hardsigmoid": "0 0 0; 1 0 0",
    "threshold": "- 0 0; inf 1 0",
    **dict.fromkeys(("hardshrink", "softshrink"), "-inf 1 0; inf 1 0"),
}
WITHOUT = {
    **dict.fromkeys(("sin", "cos", "tan", "sec", "frac"), "turns for ever"),
    **dict.fromkeys(("asin", "acos", "atanh", "sqrt_one_minus_square"), "within [-1, 1]"),
    **dict.fromkeys(("erfinv", "erfinv_slope"), "within [-1, 1]"),
    **dict.fromkeys(("logit", "ndtri", "ndtri_slope", "_chances"), "within [0, 1]"),
    **dict.fromkeys(("_cubic_near", "_cubic_far"), "for distances below 2"),
    "_binary_exponent": "infinities have none",
    "finite_or": "replaces infinities",
}


def _tensors(op: OpRecord) -> list[str]:
    return [a["name"] for a in op.data["arguments"] if a["type"].startswith("Tensor")]


UNARY = [
    op
    for op in operators()
    if op.scalar
    and not op.derived_from
    and "float" in (op.dtypes or ["float"])
    and len(_tensors(op)) == 1
    and op.data.get("promote") != "bool"
    and not op.name.startswith(("is", "logical", "signbit"))
]


def _numbers(op: OpRecord) -> list[dict[str, Any]]:
    """What the samples give for the other arguments, each but once."""
    names = {a["name"] for a in op.data["arguments"]} - set(_tensors(op))
    found: list[dict[str, Any]] = []
    for sample in op.samples():
        given = {k: v for k, v in op.bound(sample).items() if k in names}
        if given not in found:
            found.append(given)
    return found


def jets(op: OpRecord, x: np.ndarray, dtype: str, numbers: dict[str, Any], count: int) -> Any:
    """The value and so many derivatives of it, as float64."""
    point = fa.tensor(x).to(getattr(fa, dtype)).requires_grad_()
    y = call(op, [], {_tensors(op)[0]: point, **numbers})
    rows = [to_numpy(y).astype(np.float64)]
    for _ in range(count - 1):
        grad = None
        if y.requires_grad:
            (grad,) = fa.autograd.grad(
                y, point, fa.ones_like(y), create_graph=True, allow_unused=True
            )
        y = fa.zeros_like(point) if grad is None else grad
        rows.append(to_numpy(y).astype(np.float64))
    return rows


def test_every_formula_has_its_limits() -> None:
    assert {op.name for op in UNARY} == set(LIMITS) | set(WITHOUT)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", [op for op in UNARY if op.name in LIMITS], ids=lambda o: o.name)
def test_limits(op: OpRecord, dtype: str) -> None:
    sides = [side.split() for side in LIMITS[op.name].split(";")]
    for numbers in _numbers(op)[:1] if op.name != "gelu" else _numbers(op):
        rows = jets(op, np.array([-INF, INF]), dtype, numbers, len(sides[0]))
        for order, at in itertools.product(range(len(sides[0])), (0, 1)):
            if sides[at][order] == "-":
                continue
            got, want = rows[order][at], float(sides[at][order])
            room = abs(want) * 2.0**-7 if dtype in ("float16", "bfloat16") else abs(want) * 1e-6
            same = got == want or abs(got - want) <= room
            assert same, f"{op.name}, order {order} at {'-+'[at]}inf in {dtype}: {got}, not {want}"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("op", [op for op in UNARY if op.name in LIMITS], ids=lambda o: o.name)
def test_no_nan_at_the_ends_of_the_range(op: OpRecord, dtype: str) -> None:
    """Where the limit exists there are numbers up to it, and those next to 0 of either side."""
    info = np.finfo(dtype)
    most, root = float(info.max), float(np.sqrt(info.max))
    line = np.array([1e4, root / 8, root * 8, most / 8, most])
    if dtype == "float32":
        line = line.astype(np.float32).astype(np.float64)
    sides = [side.split() for side in LIMITS[op.name].split(";")]
    small = np.array([float(info.smallest_subnormal), float(info.tiny)])
    for numbers in _numbers(op)[:1] if op.name != "gelu" else _numbers(op):
        for x, side in ((-line, sides[0]), (line, sides[1]), (small, sides[1])):
            if x is small and op.name.startswith("acosh"):
                continue
            for order, row in enumerate(jets(op, x, dtype, numbers, len(side))):
                if side[order] != "-":
                    assert not np.isnan(row).any(), f"{op.name}, order {order}: {x} {row}"


# Of two arguments: the value and the derivatives by each; two infinities have no common slope.
PAIRS = [
    ("hypot", (INF, 1.0), INF, (1.0, 0.0)),
    ("hypot", (-INF, 1.0), INF, (-1.0, 0.0)),
    ("hypot", (0.0, INF), INF, (0.0, 1.0)),
    ("atan2", (INF, 1.0), PI / 2, (0.0, 0.0)),
    ("atan2", (1.0, INF), 0.0, (0.0, 0.0)),
    ("atan2", (-1.0, -INF), -PI, (0.0, 0.0)),
    ("atan2", (INF, INF), PI / 4, (0.0, 0.0)),
    ("logaddexp", (INF, 1.0), INF, (1.0, 0.0)),
    ("logaddexp", (-INF, 1.0), 1.0, (0.0, 1.0)),
    ("logaddexp2", (-INF, 1.0), 1.0, (0.0, 1.0)),
    ("logaddexp2", (INF, -INF), INF, (1.0, 0.0)),
    ("pow", (INF, -1.0), 0.0, (0.0, 0.0)),
    ("pow", (0.0, 2.0), 0.0, (0.0, 0.0)),
    ("xlogy", (2.0, INF), INF, (INF, 0.0)),
    ("xlog1py", (2.0, INF), INF, (INF, 0.0)),
]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "at", "value", "slopes"), PAIRS)
def test_limits_of_pairs(
    name: str, at: tuple[float, float], value: float, slopes: tuple[float, float], dtype: str
) -> None:
    kind = getattr(fa, dtype)
    x, y = (fa.tensor(v, dtype=kind, requires_grad=True) for v in at)
    result = getattr(fa, name, getattr(fa.special, name, None))(x, y)
    grads = fa.autograd.grad(result, (x, y), create_graph=True)
    assert result.item() == pytest.approx(value)
    assert [g.item() for g in grads] == list(slopes)
    for grad, by in itertools.product(grads, (x, y)):
        if name in ("hypot", "atan2", "logaddexp", "logaddexp2") and grad.requires_grad:
            (again,) = fa.autograd.grad(grad, by, retain_graph=True, allow_unused=True)
            assert again is None or again.item() == 0, (name, at)


def test_slopes_of_angles_of_any_size() -> None:
    """x / (x^2 + y^2) and its derivatives, where the squares leave the range."""
    import mpmath as mp

    for dtype, sizes in (("float64", (1e-310, 1e-160, 1e150, 1e300)), ("float32", (1e-40, 1e35))):
        for size in sizes:
            y, x = (
                fa.tensor(3 * size, dtype=getattr(fa, dtype)),
                fa.tensor(4 * size, dtype=getattr(fa, dtype)),
            )
            y.requires_grad_()
            (got,) = fa.autograd.grad(fa.atan2(y, x), y)
            a, b = mp.mpf(y.item()), mp.mpf(x.item())
            want, info = b / (a * a + b * b), np.finfo(dtype)
            if want > float(info.max):
                assert got.item() == INF
                continue
            assert abs(got.item() - want) <= 4 * float(info.eps) * want + float(info.tiny) * 1e-3


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ends_of_quantiles(dtype: str) -> None:
    p = fa.tensor([0.0, 1.0], dtype=getattr(fa, dtype), requires_grad=True)
    z = fa.special.ndtri(p)
    (slope,) = fa.autograd.grad(z.sum(), p, create_graph=True)
    (bend,) = fa.autograd.grad(slope.sum(), p)
    assert (
        z.tolist() == [-INF, INF] and slope.tolist() == [INF, INF] and bend.tolist() == [-INF, INF]
    )
