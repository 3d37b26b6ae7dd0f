"""What errors say: the operator that was called, and the same text on every device."""

from __future__ import annotations

import re
from typing import Any

import facula
import pytest
from facula.testing._samples import OpRecord, operators
from harness import arguments

NAMED = re.compile(r"[\w.]+\(\): ")  # whose operator stands before its text once more
pytestmark = pytest.mark.filterwarnings("ignore:.*they are broadcast")

CALLED = [op for op in operators() if op.samples() and not op.derived_from and op.kind != "factory"]
# Kinds of errors that may come of a look at elements, which a meta tensor does not have.
OF_ELEMENTS = {"linalg", "values", "memory", "zero_division", "runtime"}


def others(value: Any) -> list[Any]:
    """Values of the same kind that mostly do not fit."""
    if isinstance(value, facula.Tensor):
        shape = list(value.shape)
        shapes = [[*shape, 2], shape[:-1] if shape else [3], [n + 1 for n in shape] or [2]]
        for d in {0, len(shape) - 1} if shape else ():
            shapes.append([n + (i == d) for i, n in enumerate(shape)])
        tensors = [facula.zeros(s, dtype=value.dtype) for s in shapes]
        kinds = [facula.bool, facula.complex128]
        return tensors + [value.to(kind) for kind in kinds]
    if isinstance(value, bool):
        return []
    if isinstance(value, int):
        return [value + 50, -1000, 1 << 62]  # padding of 50 in three dims fits any machine
    if isinstance(value, str):
        return ["nope"]
    if isinstance(value, list):
        found = [value + value, value[:-1]]
        if value and all(isinstance(v, int) for v in value):
            found += [[v - 1000 for v in value], [v + 50 for v in value]]
        elif value:
            found += [[other, *value[1:]] for other in others(value[0])]
        return found
    return []


def misfits(op: OpRecord) -> Any:
    """Calls with one argument that was changed."""
    for i in range(len(op.data["samples"])):
        _, args, kwargs = arguments(op.sample(i), "float64")
        for k, value in enumerate(args):
            for other in others(value):
                if op.kind == "random" and isinstance(other, list | int):
                    continue  # an honest request for too much memory
                yield [*args[:k], other, *args[k + 1 :]], kwargs
        for name, value in kwargs.items():
            for other in others(value):
                yield args, {**kwargs, name: other}


def error_of(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Exception | None:
    try:
        function(*[a.clone() if isinstance(a, facula.Tensor) else a for a in args], **kwargs)
    except Exception as error:
        return error
    return None


def meta(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(meta(v) for v in value)
    return value.to("meta") if isinstance(value, facula.Tensor) else value


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in CALLED])
def test_errors(op: OpRecord) -> None:
    """An error names what was called, once, and checks of shapes and dtypes need no data."""
    function = op.function()
    parameters = {None, "out", *(a["name"] for a in op.data["arguments"])}
    names = {op.base_name, *(path.rpartition(".")[2] for path in op.python)}
    for args, kwargs in misfits(op):
        error = error_of(function, args, kwargs)
        tensors = [v for v in [*args, *kwargs.values()] if isinstance(v, facula.Tensor | list)]
        there = None
        if tensors:
            there = error_of(
                function, [meta(a) for a in args], {k: meta(v) for k, v in kwargs.items()}
            )

        def call(args: Any = args, kwargs: Any = kwargs) -> str:
            return f"{op.name}({args}, {kwargs})"

        for e in (error, there):
            if e is None:
                continue
            assert "internal error" not in str(e), f"{call()}: {e}"
            if op.internal:
                continue
            assert e.operator.rpartition(".")[2] in names, f"{call()}: {e.operator}: {e}"
            assert str(e) == f"{e.operator}(): {e.text}", f"{call()}: {e}"
            assert not NAMED.match(e.text), f"{call()}: {e}"
            assert e.argument in parameters, f"{call()}: {e.argument}: {e}"
        kinds = {e.kind for e in (error, there) if e is not None}
        numbers = any(isinstance(t, facula.Tensor) and t.dim() == 0 for t in tensors)
        if there is None:  # positions, and numbers that are tensors
            kinds -= {"index", "dtype"} if numbers else {"index"}
        if tensors and kinds and not kinds & OF_ELEMENTS:
            assert (type(there), str(there or "")) == (type(error), str(error or "")), (
                f"{call()} on meta: {there!r}, on cpu: {error!r}"
            )


def test_facts() -> None:
    """What an error is about are attributes of it, whoever found it."""
    x = facula.ones(3, 4)
    wanted: list[tuple[Any, type, tuple[str, str | None, str]]] = [
        (lambda: x + facula.ones(5), RuntimeError, ("add", None, "shape")),
        (lambda: x.sum(dim=2), IndexError, ("sum", "dim", "index")),
        (lambda: x[5], IndexError, ("index", "index", "index")),
        (lambda: x[facula.tensor([5])], IndexError, ("index", "index", "index")),
        (lambda: x[0, 0, 0], IndexError, ("index", None, "index")),
        (lambda: x.add_("a"), TypeError, ("add_", "other", "type")),
        (lambda: x.add_(), TypeError, ("add_", "other", "type")),
        (lambda: x.add(x, beta=1), TypeError, ("add", "beta", "type")),
        (lambda: x.add(x, x, x, x), TypeError, ("add", None, "type")),
        (lambda: x.exponential_(-1), ValueError, ("exponential_", "lambd", "value")),
        (lambda: x * facula.ones(3, 4, device="meta"), RuntimeError, ("mul", None, "device")),
        (lambda: facula.cat([x, x.to("meta")]), RuntimeError, ("cat", None, "device")),
        (lambda: x.to("meta").unique(), NotImplementedError, ("unique", None, "values")),
        (lambda: x.expand(2, 3, 4).add_(1), RuntimeError, ("add_", None, "aliasing")),
        (lambda: facula.zeros(2**50), facula.OutOfMemoryError, ("zeros", None, "memory")),
        (lambda: facula.tensor(1) // 0, ZeroDivisionError, ("floor_divide", None, "zero_division")),
        (lambda: facula.dist(x, facula.ones(5)), RuntimeError, ("dist", None, "shape")),
        (lambda: facula.hstack([x, facula.ones(5, 1)]), RuntimeError, ("hstack", None, "shape")),
        (lambda: facula.complex(x, x.double()), RuntimeError, ("complex", None, "dtype")),
        (lambda: x.to(facula.complex64).sort(), RuntimeError, ("sort", None, "dtype")),
    ]
    for call, kind, facts in wanted:
        with pytest.raises(kind) as raised:
            call()
        e: Any = raised.value
        assert (e.operator, e.argument, e.kind) == facts, (facts, e)
        assert str(e) == f"{e.operator}(): {e.text}"


def test_signatures_of_in_place_forms() -> None:
    with pytest.raises(TypeError, match=r"^add_\(\): missing.*\n  signature: add_\(Tensor self"):
        facula.ones(3).add_()
    with pytest.raises(RuntimeError, match=r"^add_\(\): "):
        x = facula.ones(3)
        x += facula.ones(2, 3)


def named(path: str) -> Any:
    found: Any = facula
    for part in path.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize(
    "op", [pytest.param(op, id=op.name) for op in CALLED if op.python and not op.internal]
)
def test_each_name_is_its_own(op: OpRecord) -> None:
    """An error says the name by which the operator was called, in its signature too."""
    _, args, kwargs = arguments(op.sample(0), "float64")
    leaves = {path.rpartition(".")[2] for path in op.python}
    for path in op.python:
        leaf = path.rpartition(".")[2]
        names = [path]
        if path.startswith("Tensor.") and "inplace" in op.data["variants"]:
            names.append(path + "_")
        for name in names:
            wanted = name.rpartition(".")[2]
            error: Any = error_of(named(name), args, {**kwargs, "nonsense": 1})
            assert error is not None
            if not hasattr(error, "operator"):
                continue  # Python's own: a function of it
            assert error.operator.rpartition(".")[2] == wanted, (name, error)
            assert str(error).startswith(f"{error.operator}(): "), error
            for line in re.findall(r"\n  (?:signature: )?(\w+)[.(]", str(error)):
                assert line == wanted or line not in leaves, error  # the schema's own name else
        for other_args, other_kwargs in list(misfits(op))[:8]:
            error = error_of(named(path), other_args, other_kwargs)
            if hasattr(error, "operator"):
                assert error.operator.rpartition(".")[2] == leaf, (path, error)


def test_aliases() -> None:
    x = facula.ones(3)
    for call, name in (
        (lambda: facula.trapz(x, dim=4), "trapz"),
        (lambda: facula.trapz(x, facula.ones(4)), "trapz"),
        (lambda: facula.trapz(3), "trapz"),
        (lambda: facula.concat([x, facula.ones(2, 2)]), "concat"),
        (lambda: x.multiply_(facula.ones(2)), "multiply_"),
        (lambda: x.arccos_(1), "arccos_"),
        (lambda: facula.special.psi("a"), "special.psi"),
        (lambda: facula.trapezoid(x, dim=4), "trapezoid"),
    ):
        with pytest.raises((TypeError, IndexError, RuntimeError)) as raised:
            call()
        assert raised.value.operator == name and str(raised.value).startswith(f"{name}(): ")
