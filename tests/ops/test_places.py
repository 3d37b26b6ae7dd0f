"""An element's value depends on nothing but the elements that it is made of: not on its place, on
how many others there are, on layout, form of the call or threads. Every pointwise formula of the
schema, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.testing._samples import OpRecord, Sample, operators
from harness import run_python

FLOATS = ("float32", "float64", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INTS = ("int64", "int32", "int16", "int8", "uint8")
COUNT = 199
LONG = (1 << 16) + COUNT  # more than is left to one thread
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40, 90.0, -90.0]
REQUIRED = {"float": 1.5, "bool": True}  # of other numbers their place

FORMULAS = [op for op in operators() if op.scalar]
Compute = Callable[..., list[fa.Tensor]]


def numbers(dtype: str, seed: int) -> fa.Tensor:
    """Numbers of all sizes and signs, those for which functions have branches among them."""
    rng = np.random.default_rng(seed)
    if dtype in (*INTS, "bool"):  # powers that are negative and divisors that are zero raise
        ends = [127, 1, 64, 2, 3]
        return fa.tensor(rng.permutation([*ends, *rng.integers(1, 128, COUNT - len(ends))])).to(
            getattr(fa, dtype)
        ) & fa.tensor(rng.integers(0, 2, COUNT) if dtype == "bool" else 127).to(getattr(fa, dtype))

    def real() -> np.ndarray:
        wide = rng.normal(size=COUNT) * np.exp(rng.normal(size=COUNT) * 3)
        return rng.permutation(np.concatenate([SPECIAL, rng.random(40), wide])[:COUNT])

    values = real()
    if dtype in COMPLEX:
        values = np.stack([values, real()], -1).view(complex)[:, 0]
    return fa.tensor(values).to(getattr(fa, dtype))


def bits(t: fa.Tensor) -> np.ndarray:
    """The bits of each element, one number for all NaN."""
    if t.is_complex():
        t = fa.view_as_real(t)
    a = t.to(fa.float32).numpy() if t.dtype in (fa.float16, fa.bfloat16) else t.numpy()
    if a.dtype.kind != "f":
        return a
    whole = np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}").reshape(a.shape)
    return np.where(np.isnan(a), 1, whole)


def calls(op: OpRecord, dtype: str) -> Iterator[tuple[list[fa.Tensor], Compute]]:
    """For each variant of a formula the tensors, and what computes it of others in their places."""
    arguments = op.data["arguments"]
    values = op.bound(Sample([]))
    tensors = {}
    for i, a in enumerate(arguments):
        if a["type"] == "Tensor":
            mask = a["name"] in (op.masks or [])
            some = numbers("float32" if mask else dtype, i + 1)
            if "within(" in str(op.scalar):  # others raise
                some = fa.where(some.isnan(), 0, some).abs().clamp(0, 1)
            tensors[a["name"]] = some > 0 if mask else some
        elif a["name"] not in values or a["type"] == "Scalar?":
            values[a["name"]] = REQUIRED.get(a["type"].rstrip("?"), i) if a["type"] != "str" else ""
    texts = [a["name"] for a in arguments if a["type"] == "str"]
    call = op.function()
    assert call is not None

    def compute(text: str) -> Compute:
        def run(*given: Any, form: Any = call, **more: Any) -> list[fa.Tensor]:
            named = values | dict.fromkeys(texts, text) | dict(zip(tensors, given, strict=True))
            result = form(**{k: v for k, v in named.items() if v is not None}, **more)
            return list(result) if isinstance(result, tuple | list) else [result]

        return run

    for key in op.scalar if texts else [""]:
        yield list(tensors.values()), compute(key)


def check(op: OpRecord, dtype: str, long: bool = True) -> None:
    for tensors, run in calls(op, dtype):
        results = run(*tensors)
        whole = [bits(r) for r in results]

        def same(
            what: str, index: Any, got: list[fa.Tensor], want: list[np.ndarray] = whole
        ) -> None:
            for w, g in zip(want, got, strict=True):
                assert np.array_equal(w[index], bits(g)), f"{op.name} of {dtype}: {what}"

        for n in (*range(34), 47, 67) if dtype in FLOATS[:2] else (0, 1, 2, 5, 21, 67):
            at = slice(n * 7 % 31, n * 7 % 31 + n)
            same(f"{n} elements", at, run(*(t[at] for t in tensors)))
        for i in range(0, COUNT, 13):
            same("without dims", i, run(*(t[i] for t in tensors)))
            many = run(*(t[i : i + 1].expand(3, 11) for t in tensors))
            same("expanded", np.full((3, 11), i), many)
        same("strided", slice(1, None, 3), run(*(t[1::3] for t in tensors)))
        table = np.arange(196).reshape(14, 14)
        tables = [t[:196].reshape(14, 14) for t in tensors]
        same("transposed", table.T, run(*(t.t() for t in tables)))
        same("rows of a table", table[:, 3:8], run(*(t[:, 3:8] for t in tables)))
        crossed = [t.t().contiguous().t() if k % 2 else t for k, t in enumerate(tables)]
        same("of mixed layouts", table, run(*crossed))
        pairs = list(enumerate(tensors))
        if len(tensors) > 1:  # along one dim each
            row = [t[:14].unsqueeze(k % 2) for k, t in enumerate(tensors)]
            wide = run(*(t.expand(14, 14).contiguous() for t in row))
            same("broadcast", ..., run(*row), [bits(r) for r in wide])
            for k in range(len(tensors)):  # one element beside 67, and one without dims
                many = [t[:67] if i == k else t[9].expand(67).contiguous() for i, t in pairs]
                want = [bits(r) for r in run(*many)]
                one = [t[:67] if i == k else t[9:10] for i, t in pairs]
                same("beside one element", ..., run(*one), want)
                same(
                    "beside no dims",
                    ...,
                    run(*(t[:67] if i == k else t[9] for i, t in pairs)),
                    want,
                )
        if "out" in (op.variants or []):
            room = fa.zeros(COUNT + 5, dtype=results[0].dtype)
            run(*tensors, out=room[5:])
            same("out=", ..., [room[5:]])
            run(*(t[:21] for t in tensors), out=room[: 2 * 21 : 2])
            same("out= with strides", slice(21), [room[: 2 * 21 : 2]])
        if "inplace" in (op.variants or []) and results[0].dtype == tensors[0].dtype:
            inplace(op, tensors, run, same)
        if long:
            times = LONG // COUNT + 1
            some = [t.repeat(times)[:LONG] for t in tensors]
            for threads in (1, 3):
                fa.set_num_threads(threads)
                same(f"{threads} threads", np.arange(LONG) % COUNT, run(*some))


def inplace(
    op: OpRecord, tensors: list[fa.Tensor], run: Compute, same: Callable[..., None]
) -> None:
    if not hasattr(fa.Tensor, op.base_name + "_") or op.data["arguments"][0]["name"] != "self":
        return

    def change(self: fa.Tensor, **others: Any) -> fa.Tensor:
        return getattr(self, op.base_name + "_")(**others)

    for n in (1, 5, COUNT):
        given = [t[:n].clone() for t in tensors]
        run(*given, form=change)
        same("in place", slice(n), [given[0]])


def check_all(level: str) -> None:
    """What `level` names: a process of another instruction set computes its own values."""
    assert fa.__config__.show().find(level) >= 0
    for op in FORMULAS:
        for dtype in ("float32", "float64"):
            if "float" in op.dtypes:
                check(op, dtype, long=False)
        if "complex" in op.dtypes:
            check(op, "complex64", long=False)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = fa.get_num_threads()
    yield
    fa.set_num_threads(before)


@pytest.mark.parametrize("op", FORMULAS, ids=lambda op: op.name)
def test_places(op: OpRecord) -> None:
    for dtype in (*FLOATS, *COMPLEX):
        if dtype in FLOATS[2:] and op.derived_from:
            continue  # the loop is that of float32
        if ("complex" if dtype in COMPLEX else "float") in op.dtypes:
            check(op, dtype, long=dtype in ("float32", "float64"))
    for dtype in ("bool", *INTS):
        negative = dtype == "uint8" and any(
            "-" in a.get("default", "") for a in op.data["arguments"]
        )
        if ("bool" if dtype == "bool" else "int") in op.dtypes and not negative:
            check(op, dtype, long=dtype == "int32")


@pytest.mark.parametrize("level", ["baseline", "v3"])
def test_places_of_lower_levels(level: str) -> None:
    run_python(f"import test_places as t\nt.check_all({level!r})", FACULA_ISA=level)
