"""Values at the ends of the range: what fits the dtype is given, whatever comes on the way to it.

Each operator of the schema that folds elements and has a NumPy reference is called with the arrays
of its own samples brought to such places. The reference is evaluated in `longdouble`, whose range
is wider than that of any dtype, and then rounded.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import facula
import numpy as np
import pytest
from facula.testing._samples import OpRecord, Sample, Varying, operators
from harness import REFERENCES, call, to_numpy

WIDE = np.longdouble
pytestmark = pytest.mark.skipif(
    np.finfo(WIDE).maxexp <= np.finfo(np.float64).maxexp, reason="longdouble is no wider here"
)
# largest, smallest normal and epsilon
FACTS = {
    "float64": (1.7976931348623157e308, 2.2250738585072014e-308, 2.0**-52),
    "float32": (3.4028234663852886e38, 1.1754943508222875e-38, 2.0**-23),
    "bfloat16": (3.3895313892515355e38, 1.1754943508222875e-38, 2.0**-7),
    "float16": (65504.0, 6.103515625e-05, 2.0**-10),
}
PLAIN = ("pointwise", "view", "factory", "random", "mutation", "matmul")
# What a reference does that folds elements; others move or compare them.
FOLDS = re.compile(
    r"sum|mean|average|var|std|norm|prod|exp|log|quantile|cov|corr|softmax|pool|huber|trap"
)

# Operators that multiply their arguments with one another: only the first is brought to the ends.
PRODUCTS = {
    "softmax_backward",
    "log_softmax_backward",
    "softmax_nll_forward",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "_affine_scan",
    "group_norm",
    "batch_norm",
    "layer_norm",
    "quantile",
    "nanquantile",
}
# Places where a value is not promised.
EXCEPT = {
    "cov": ("top", "large", "mixed"),  # products, and their sum before it is divided
    "corrcoef": ("least", "below"),  # distances that have few digits
    "cumsum": ("top",),  # a sum on the way is a result too
    "_cumsum_reversed": ("top",),
    "cumulative_trapezoid.x": ("top",),
    "cumulative_trapezoid.dx": ("top",),
    "histc": ("top", "least", "below"),  # edges of bins
    "layer_norm": ("below",),  # distances from the mean that are a few subnormals
    "group_norm": ("below", "offset"),
    "batch_norm": ("below",),
    "logcumsumexp": ("offset",),  # its slopes are made of the result, which has few digits there
    "_affine_scan": ("large",),  # products of states on the way
    "cummax": ("offset",),  # ties, in which differences see another slope
    "cummin": ("offset",),
}
# Gradients that are those of no formula: the clamped one, and results kept for it alone.
NO_SLOPES = {"binary_cross_entropy", "softmax_nll_forward"}


def covered(op: OpRecord) -> bool:
    floats = not op.dtypes or "float" in op.dtypes
    return bool(
        op.reference
        and floats
        and op.kind not in PLAIN
        # a sum of products, truth, numbers within [0, 1], and a norm whose scale rounds once more
        and op.name not in ("bilinear", "all", "any", "binary_cross_entropy", "_scaled_norm")
        # products of matrices on the way; a norm that is a factor, and no half types
        and not re.search(r"matrix|householder|expm|fft|stft", op.name + op.reference)
        and not op.property
        and not op.derived_from
        and op.function() is not None
        and "lower" not in str(op.autocast)  # products, whose terms are the result's own scale
        and (op.kind in ("reduction", "scan") or FOLDS.search(op.reference))
        and all(r["type"].startswith("Tensor") for r in op.returns)
    )


OPERATORS = [op for op in operators() if covered(op)]


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    """The values of an array that the dtype has, in longdouble."""
    if dtype == "bfloat16":
        bits = np.atleast_1d(x.astype(np.float32)).view(np.uint32)
        bits = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16
        return bits.astype(np.uint32).view(np.float32).reshape(x.shape).astype(WIDE)
    return x.astype(dtype).astype(WIDE)


def scaled(by: float):  # type: ignore[no-untyped-def]
    return lambda x, i: x * WIDE(by)


def shifted(by: float):  # type: ignore[no-untyped-def]
    by = min(by, 2.0**20)  # the reference has but 11 more bits than float64
    return lambda x, i: np.rint(x * 4) + WIDE(by) if i == 0 else x


def mixed(low: float, high: float):  # type: ignore[no-untyped-def]
    def apply(x: np.ndarray, i: int) -> np.ndarray:
        places = np.arange(x.size).reshape(x.shape) % 2
        return x * np.where(places == 0, WIDE(high), WIDE(low))

    return apply


def cases(dtype: str) -> dict[str, Any]:
    """fn(array, its number among the arrays of the call) for each place in the range."""
    most, least, epsilon = FACTS[dtype]
    root = float(np.sqrt(WIDE(most)))
    found = {
        "top": lambda x, i: x / max(float(np.max(np.abs(x), initial=0)), 1e-300) * WIDE(most) / 8,
        "large": scaled(root * 64),
        "small": scaled(1 / root / 64),
        "least": scaled(least * 4),
        "below": scaled(least * epsilon * 16),
        "offset": shifted(0.125 / epsilon),
        "mixed": mixed(1 / root, root * 4),
        "zeros": scaled(0),
    }
    return (
        found
        if dtype in ("float32", "float64")
        else {k: found[k] for k in ("top", "large", "zeros")}
    )


def arrays(values: Any) -> Iterator[np.ndarray]:
    for v in values:
        if isinstance(v, Varying):
            yield v
        elif isinstance(v, list | tuple):
            yield from arrays(v)


def brought(op: OpRecord, sample: Sample, place: Any, dtype: str) -> Sample:
    """The sample with its floats at that place."""
    number = iter(range(100))
    first = op.name.split(".")[0] in PRODUCTS

    def one(v: Any) -> Any:
        if isinstance(v, Varying) and v.dtype.kind == "f":
            at, x = next(number), np.asarray(v, WIDE)
            x = rounded(x if first and at > 0 else np.asarray(place(x, at)), dtype)
            return x.view(Varying)
        return type(v)(one(w) for w in v) if isinstance(v, list | tuple) else v

    return Sample([one(a) for a in sample.args], {k: one(v) for k, v in sample.kwargs.items()})


def wide_reference(op: OpRecord, sample: Sample) -> Any:
    import scipy
    import scipy.signal
    import scipy.special

    def plain(v: Any) -> Any:
        if isinstance(v, np.ndarray):
            return np.asarray(v)
        return type(v)(plain(w) for w in v) if isinstance(v, list | tuple) else v

    values = {k: plain(v) for k, v in op.bound(sample).items()}
    space = {"np": np, "scipy": scipy, "ref": REFERENCES, **values}
    with np.errstate(all="ignore"):
        return eval(op.reference, space, values)


def facula_arguments(sample: Sample, dtype: str) -> tuple[list[Any], dict[str, Any]]:
    kind = getattr(facula, dtype)

    def one(v: Any) -> Any:
        if isinstance(v, Varying) and v.dtype.kind == "f":
            narrow = np.asarray(v, np.float64)
            return facula.tensor(narrow.tolist(), dtype=facula.float64).reshape(v.shape).to(kind)
        if isinstance(v, np.ndarray):
            return facula.tensor(v.tolist(), dtype=getattr(facula, str(v.dtype))).reshape(v.shape)
        if isinstance(v, list | tuple):
            return type(v)(one(w) for w in v)
        return getattr(facula, v) if type(v).__name__ == "Named" else v

    return [one(a) for a in sample.args], {k: one(v) for k, v in sample.kwargs.items()}


def flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, list | tuple):
        return [x for v in value for x in flat(v)]
    return [np.asarray(value)]


def test_many_operators_are_covered() -> None:
    assert len(OPERATORS) > 80


@pytest.mark.parametrize("dtype", FACTS)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_values(op: OpRecord, dtype: str) -> None:
    most, least, epsilon = FACTS[dtype]
    for index in range(min(2, len(op.data["samples"]))):
        sample = op.sample(index)
        total = sum(a.size for a in arrays([*sample.args, *sample.kwargs.values()]))
        if not 0 < total <= 64:
            continue
        for name, place in cases(dtype).items():
            if name in EXCEPT.get(op.name, ()):
                continue
            given = brought(op, sample, place, dtype)
            try:
                want = flat(wide_reference(op, copy.deepcopy(given)))
            except (TypeError, ValueError, NotImplementedError):
                return  # a reference that knows no longdouble
            args, kwargs = facula_arguments(given, dtype)
            if dtype in ("float16", "bfloat16") and op.name == "polar":
                return  # float32 and float64 alone
            got = flat(to_numpy(call(op, args, kwargs)))
            moved = moving(op, given, epsilon, want)
            for g, w, m in zip(got, want, moved, strict=True):
                if g.dtype.kind != "f" or w.dtype.kind != "f":
                    continue
                w = np.asarray(w, WIDE)
                fits = np.isfinite(w) & (np.abs(w) < most * (1 - epsilon))
                away = np.abs(np.where(fits, g.astype(WIDE) - w, 0))
                room = 8 * m + 16 * epsilon * np.abs(w) + 4 * least * epsilon
                if name == "offset":  # not by what the rounding of its large inputs would do
                    room = 64 * epsilon * np.max(np.abs(np.where(fits, w, 0)), initial=0) + m * 0
                bad = ~(away <= room) & fits
                assert not bad.any(), (
                    f"{op.name} sample {index} at {name} of {dtype}: got {g[bad][:3]}, "
                    f"right is {w[bad][:3]}"
                )


def moving(op: OpRecord, given: Sample, epsilon: float, want: list[np.ndarray]) -> list[np.ndarray]:
    """How far results move when inputs move by a unit in their last place."""
    most = [np.zeros(np.shape(w), WIDE) for w in want]
    rng = np.random.default_rng(1)
    for _ in range(2):
        near = brought(
            op, given, lambda x, i: x * (1 + epsilon * rng.choice([-1, 1], x.shape)), "longdouble"
        )
        for m, n, w in zip(most, flat(wide_reference(op, near)), want, strict=True):
            if np.shape(n) == np.shape(w) and np.asarray(n).dtype.kind == "f":
                away = np.abs(np.asarray(n, WIDE) - np.asarray(w, WIDE))
                np.maximum(m, np.where(np.isfinite(away), away, 0), out=m)
    return most


def cotangents(results: list[Any]) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.choice([-1.0, 0.5, 2.0], np.shape(r)) for r in results]


DIFFERENTIABLE = [
    op
    for op in OPERATORS
    if (op.differentiable or (op.composite and not op.dispatch)) and op.name not in NO_SLOPES
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_gradients(op: OpRecord, dtype: str) -> None:
    """Against central differences of the reference, where these hold still."""
    most, least, _ = FACTS[dtype]
    sample = op.sample(0)
    if not sample.args or not isinstance(sample.args[0], Varying):
        return
    if not 0 < sample.args[0].size <= 32:
        return
    if op.differentiable and op.argument_names[0] not in op.differentiable:
        return
    for name in ("large", "small", "least", "offset"):
        if name in EXCEPT.get(op.name, ()):
            continue
        given = brought(op, sample, cases(dtype)[name], dtype)
        x = np.asarray(given.args[0], WIDE)
        if not np.any(x):
            return

        def results(x: np.ndarray, given: Sample = given) -> list[np.ndarray]:
            return flat(
                wide_reference(op, Sample([x.view(Varying), *given.args[1:]], given.kwargs))
            )

        try:
            want = results(x)
        except (TypeError, ValueError, NotImplementedError):
            return
        weights = cotangents(want)
        kept = [i for i, w in enumerate(want) if w.dtype.kind == "f"]
        if not kept or not all(np.all(np.isfinite(want[i])) for i in kept):
            continue

        def total(x: np.ndarray, weights: Any = weights, kept: Any = kept) -> Any:
            found = results(x)
            return sum(np.sum(found[i] * weights[i]) for i in kept)

        size = WIDE(1) if name == "offset" else np.max(np.abs(x))
        slopes = []
        for step in (size * WIDE(1e-5), size * WIDE(5e-6)):
            slope = np.zeros(x.shape, WIDE)
            for at in np.ndindex(x.shape):
                there, back = x.copy(), x.copy()
                there[at] += step
                back[at] -= step
                slope[at] = (total(there) - total(back)) / (2 * step)
            slopes.append(slope)
        top = np.max(np.abs(slopes[1]), initial=0)
        still = np.isfinite(slopes[1]) & (np.abs(slopes[0] - slopes[1]) <= 1e-4 * top)
        args, kwargs = facula_arguments(given, dtype)
        args[0] = args[0].detach().requires_grad_()
        got = op.function()(*args, **kwargs)  # type: ignore[misc]
        outs = list(got) if isinstance(got, tuple | list) else [got]
        outs = [(o, w) for o, w in zip(outs, weights, strict=True) if o.requires_grad]
        if not outs:
            return
        facula.autograd.backward(
            [o for o, _ in outs], [facula.tensor(w.tolist(), dtype=o.dtype) for o, w in outs]
        )
        grad = to_numpy(args[0].grad).astype(WIDE) if args[0].grad is not None else x * 0
        fits = still & (np.abs(slopes[1]) < most / 2) & (top > least)
        bad = fits & ~(np.abs(grad - slopes[1]) <= 2e-3 * top)
        assert not bad.any(), (
            f"{op.name} at {name} of {dtype}: the gradient is {grad[bad][:3]}, right is "
            f"{slopes[1][bad][:3]}; input {x.tolist()}"
        )
