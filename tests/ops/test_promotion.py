"""The dtype of a result, by the rule stated here on its own, and its values in that dtype.

Operands have three levels: tensors with dims, 0-d tensors, numbers. Within a level dtypes go to
the least one that holds both. A lower level has a say only if its category (bool < integer <
floating < complex) is higher, and then of complex it takes the precision that the higher level
has. Numbers are bool, int64, the default dtype, and complex of that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.testing._samples import OpRecord, operators
from harness import FORMATS, REFERENCES, off

CATEGORIES = {
    "bool": ("bool",),
    "int": ("uint8", "int8", "int16", "int32", "int64"),
    "float": ("float16", "bfloat16", "float32", "float64"),
    "complex": ("complex64", "complex128"),
}
ORDER = list(CATEGORIES)
DTYPES = [d for group in CATEGORIES.values() for d in group]
NUMBERS = {"bool": True, "int64": 2, "float32": 2.5, "complex64": 2 + 1j}


def category(dtype: str) -> int:
    return next(i for i, c in enumerate(ORDER) if dtype in CATEGORIES[c])


def joined(a: str, b: str) -> str:
    """The least dtype that holds both."""
    if a == b:
        return a
    low, high = sorted((a, b), key=lambda d: (category(d), DTYPES.index(d)))
    if category(high) == 3:
        return "complex128" if high == "complex128" or low == "float64" else "complex64"
    if category(low) != category(high):
        return high
    if category(high) == 2:
        return "float32" if (low, high) == ("float16", "bfloat16") else high
    if low == "uint8":  # next to a signed one: the least signed one that holds 255
        return "int16" if high == "int8" else high
    return high


def combined(levels: Sequence[Sequence[str]]) -> str:
    """Of operands with dims, 0-d ones and numbers."""
    result = ""
    for level in levels:
        found = ""
        for dtype in level:
            found = joined(found, dtype) if found else dtype
        if not result:
            result = found
        elif found and category(found) > category(result):
            if category(found) == 3 and category(result) == 2:
                result = "complex128" if result == "float64" else "complex64"
            else:
                result = found
    return result


def by_policy(policy: str, dtype: str) -> str:
    if policy == "bool":
        return "bool"
    if policy == "float" and category(dtype) < 2:
        return "float32"
    return dtype


def computes(op: OpRecord, dtype: str) -> bool:
    """Whether the operator takes operands of that dtype together."""
    classes = op.dtypes or ["float"]
    whole = op.promote == "float" and category(dtype) < 2
    return whole or ORDER[category(dtype)] in classes


@cache
def operand(dtype: str, dims: bool, odd: bool) -> tuple[Any, fa.Tensor]:
    """A small NumPy array and the same as a tensor; the second one has no zeros."""
    values: Any = ([3, 1, 2] if odd else [1, 2, 1]) if dims else 2
    if dtype == "bool":
        values = ([True, False, True] if odd else [True, True, True]) if dims else True
    array = np.asarray(values, {"bfloat16": "float32"}.get(dtype, dtype))
    return array, fa.tensor(values, dtype=getattr(fa, dtype))


BINARY = [
    op
    for op in operators()
    if op.kind == "pointwise"
    and not op.internal
    and not op.derived_from
    and op.reference
    and sum(a["type"] == "Tensor" for a in op.data["arguments"]) - len(op.masks or []) == 2
]
# Whole powers of whole numbers and shifts have their own tests.
WIDE = {"float16": "float32", "bfloat16": "float32"}


def agree(got: fa.Tensor, want: np.ndarray, dtype: str) -> bool:
    have = (got.to(fa.float32) if dtype in WIDE else got).numpy()
    if have.shape != want.shape:
        return False
    if dtype not in FORMATS:
        return bool((have == want).all())
    return bool((off(have, want, dtype) <= 8).all())


def levels_of(kinds: Sequence[tuple[str, int]]) -> list[list[str]]:
    return [[d for d, at in kinds if at == level] for level in range(3)]


def cases() -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    for a, b in itertools.product(DTYPES, DTYPES):
        yield (a, 0), (b, 0)
        yield (a, 0), (b, 1)
        yield (a, 1), (b, 0)
        yield (a, 1), (b, 1)
    for a, number in itertools.product(DTYPES, NUMBERS):
        yield (a, 0), (number, 2)
        yield (number, 2), (a, 0)
        yield (a, 1), (number, 2)


CASES = list(cases())


def value_of(kind: tuple[str, int], first: bool) -> tuple[Any, Any]:
    dtype, level = kind
    if level == 2:
        return np.asarray(NUMBERS[dtype]), NUMBERS[dtype]
    return operand(dtype, level == 0, first)


@cache
def compiled(text: str) -> Any:
    return compile(text.strip(), "reference", "eval")


def expected(op: OpRecord, arrays: Sequence[Any], dtype: str) -> Any:
    """NumPy's values, computed in the dtype that the rule gives (halves in float32)."""
    import scipy.special

    names = [a["name"] for a in op.data["arguments"] if a["type"] == "Tensor"]
    wanted = by_policy("float" if op.promote == "float" else "", dtype)
    cast = [np.asarray(a).astype(WIDE.get(wanted, wanted)) for a in arrays]
    given = dict(zip((n for n in names if n not in (op.masks or [])), cast, strict=True))
    given |= {n: np.asarray([True, False, True]) for n in op.masks or []}
    given |= {a["name"]: 1 for a in op.data["arguments"] if a["type"] == "Scalar"}
    with np.errstate(all="ignore"):
        return eval(compiled(op.reference), {"np": np, "scipy": scipy, "ref": REFERENCES, **given})


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in BINARY])
def test_two_operands(op: OpRecord) -> None:
    function = op.function()
    mask = [fa.tensor([True, False, True])] if op.masks else []
    for left, right in CASES:
        dtype = combined(levels_of([left, right]))
        (a, x), (b, y) = value_of(left, True), value_of(right, False)
        called = f"{op.name}({left}, {right})"
        if not computes(op, dtype):
            with pytest.raises((NotImplementedError, TypeError, RuntimeError)):
                function(*mask, x, y)
            continue
        got = function(*mask, x, y)
        want = by_policy(op.promote or "", dtype)
        assert got.dtype == getattr(fa, want), called
        values = np.asarray(expected(op, (a, b), dtype)).astype(WIDE.get(want, want))
        assert agree(got, values, want), f"{called}: {got.tolist()} and {values.tolist()}"


@pytest.mark.parametrize(
    "op",
    [pytest.param(op, id=op.name) for op in BINARY if "inplace" in op.variants and not op.masks],
)
def test_in_place(op: OpRecord) -> None:
    """What is written to keeps its dtype, and takes no result of a higher category."""
    method = getattr(fa.Tensor, op.base_name + "_", None)
    if method is None:
        pytest.skip("a function alone")
    for left, right in CASES:
        dtype = combined(levels_of([left, right]))
        if left[1] == 2 or (left[1] == 1 and right[1] == 0) or not computes(op, dtype):
            continue
        (_, x), (_, y) = value_of(left, True), value_of(right, False)
        held = x.clone()
        if category(by_policy(op.promote or "", dtype)) > category(left[0]):
            with pytest.raises(RuntimeError, match="cannot hold it"):
                method(held, y)
            assert held.equal(x)
            continue
        method(held, y)
        assert held.dtype == x.dtype, (op.name, left, right)
        assert held.equal(op.function()(x, y).to(x.dtype)), (op.name, left, right)


WITH_NUMBER = [
    (op, i)
    for op in operators()
    if op.kind == "pointwise" and not op.internal and not op.derived_from
    for i, a in enumerate(op.data["arguments"])
    if a["type"] in ("Scalar", "Scalar?")
]


@pytest.mark.parametrize(
    ("op", "index"), [pytest.param(op, i, id=f"{op.name}-{i}") for op, i in WITH_NUMBER]
)
def test_a_number_for_an_argument(op: OpRecord, index: int) -> None:
    """A number promotes as it does beside a sign, but that a whole factor leaves bools alone."""
    name = op.data["arguments"][index]["name"]
    needed = [
        a["name"] for a in op.data["arguments"] if a["type"] == "Scalar" and "default" not in a
    ]
    tensors = sum(a["type"] == "Tensor" for a in op.data["arguments"])
    for (dtype, level), (kind, number) in itertools.product(
        itertools.product(DTYPES, (0, 1)), NUMBERS.items()
    ):
        _, x = operand(dtype, level == 0, True)
        want = combined(levels_of([(dtype, level), (kind, 2)]))
        if dtype == "bool" and kind == "int64":
            want = "bool"
        given = dict.fromkeys(needed, 1 if dtype != "bool" else True) | {name: number}
        if not computes(op, want) or category(want) < 2 <= category(kind):
            continue
        if ORDER[category(want)] not in (op.dtypes or ["float"]) and op.promote != "float":
            continue
        try:
            got = op.function()(*[x] * tensors, **given)
        except OverflowError:  # a default of -1
            assert dtype == "uint8"
            continue
        assert got.dtype == getattr(fa, by_policy(op.promote or "", want)), (op.name, dtype, number)


MADE_OF_OTHERS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "cat": ("", lambda a, b: fa.cat([fa.atleast_1d(a), fa.atleast_1d(b)])),
    "stack": ("", lambda a, b: fa.stack([a, b])),
    "outer": ("", lambda a, b: fa.outer(a, b)),
    "clamp": ("", lambda a, b: fa.clamp(a, min=b)),
    "result_type": ("", lambda a, b: fa.empty(0, dtype=fa.result_type(a, b))),
    "+ of views": ("", lambda a, b: a.flip(0) + b),
}


@pytest.mark.parametrize("name", MADE_OF_OTHERS)
def test_what_is_made_of_others(name: str) -> None:
    policy, function = MADE_OF_OTHERS[name]
    for a, b in itertools.product(DTYPES, DTYPES):
        _, x = operand(a, True, True)
        _, y = operand(b, True, False)
        dtype = combined([[a, b], [], []])
        if name == "clamp" and category(dtype) == 3:
            continue
        assert function(x, y).dtype == getattr(fa, by_policy(policy, dtype)), (name, a, b)


REDUCED = {
    "sum": "int64", "prod": "int64", "cumsum": "int64", "cumprod": "int64", "nansum": "int64",
    "mean": None, "var": None, "std": None, "amax": "", "amin": "", "sqrt": "float32", "exp":
    "float32",
    "sin": "float32", "reciprocal": "float32", "floor": "", "ceil": "", "trunc": "", "round": "",
    "sign": "",
    "abs": "", "square": "", "neg": "", "angle": "float32", "logical_not": "bool", "isnan": "bool",
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCED)
def test_one_integer_tensor(name: str) -> None:
    """Sums of integers are int64, means raise, elementary functions give the default dtype,
    roundings stay."""
    rule = REDUCED[name]
    for dtype in CATEGORIES["int"]:
        _, x = operand(dtype, True, True)
        call = getattr(fa, name)
        args = (0,) if name.startswith("cum") else ()
        if rule is None:
            with pytest.raises(RuntimeError):
                call(x)
        else:
            assert call(x, *args).dtype == getattr(fa, rule or dtype), (name, dtype)


def test_the_rule_itself() -> None:
    """Rows of torch's documentation and of the Array API standard."""
    assert joined("uint8", "int8") == "int16"
    assert joined("float16", "bfloat16") == "float32"
    assert joined("int64", "float16") == "float16"
    assert joined("complex64", "float64") == "complex128"
    assert combined([["int8"], ["int64"], []]) == "int8"
    assert combined([["int8"], [], ["float32"]]) == "float32"
    assert combined([["float16"], ["float64"], []]) == "float16"
    assert combined([["float16"], [], ["complex64"]]) == "complex64"
    assert combined([["float64"], [], ["complex64"]]) == "complex128"
    assert combined([["uint8"], ["float64"], ["complex64"]]) == "complex128"
