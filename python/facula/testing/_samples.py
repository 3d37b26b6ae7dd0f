"""The samples of ops.yaml as NumPy arguments.

A sample is the argument list of a call, such as `f(3, 4), dim=1`. Words for arrays: `f` normal
floats (uniform with `low`/`high`), `pos` uniform in [0.1, 3), `i` integers in [low, high),
`b` bools, `c` complex, `perm(n)` a permutation, `t([1.0, nan])` given values;
no derivative is taken of those, nor of `const(f(3))`. `spd(n)` is a symmetric positive definite
matrix, `tri(n)` a lower triangular one with a positive diagonal, `orth(n)` an orthogonal one,
sizes before the last their batch: derivatives are taken of the free numbers that they are made of.
Everything else is a Python literal, a dtype or format name.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from operator import attrgetter
from types import CodeType
from typing import Any

import numpy as np

import facula
from facula import _C

_NAMES = (
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
    " contiguous_format preserve_format channels_last"
).split()


class Named(str):
    """A name that means an object of facula: a dtype or a memory format."""


_CONSTANTS = {"inf": np.inf, "nan": np.nan, **{name: Named(name) for name in _NAMES}}


class Varying(np.ndarray):
    """An array whose dtype a test may change (written `f` or `pos`)."""


class Constant(Varying):
    """Varying in dtype, but no derivative is taken of it (written `t` or `const(...)`)."""


class Formed(Varying):
    """A matrix that `form` makes of `free` numbers (written `spd(n)`, `tri(n)` or `orth(n)`).

    A derivative by its elements would leave the set of such matrices, one by `free` does not.
    """

    free: np.ndarray
    form: Callable[[Any, Callable[[np.ndarray], Any]], Any]


# Of free numbers, NumPy's or a tensor, and what makes a constant of their kind of an array.


def _spd(x: Any, constant: Callable[[np.ndarray], Any]) -> Any:
    n = x.shape[-1]
    return x @ x.swapaxes(-1, -2) + constant(n * np.eye(n))


def _tri(x: Any, constant: Callable[[np.ndarray], Any]) -> Any:
    n = x.shape[-1]
    return x * constant(np.tri(n, k=-1)) + (x * x + 1) * constant(np.eye(n))


def _orth(x: Any, constant: Callable[[np.ndarray], Any]) -> Any:
    """Reflections at the columns, one after the other."""
    q = x * 0 + constant(np.eye(x.shape[-1]))
    for k in range(x.shape[-1]):
        v = x[..., k : k + 1]
        across = v.swapaxes(-1, -2)
        q = q - (q @ v) @ across * 2 / (across @ v)
    return q


@dataclass
class Sample:
    """One call: positional and keyword arguments, arrays as NumPy."""

    args: list[Any]
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OpRecord:
    """An operator as `facula/ops.json` states it."""

    data: dict[str, Any] = field(repr=False, hash=False, compare=False)
    name: str = ""

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        return self.data.get(key)

    @property
    def base_name(self) -> str:
        return self.name.split(".")[0]

    @property
    def argument_names(self) -> list[str]:
        return [a["name"] for a in self.data["arguments"]]

    def function(self) -> Callable[..., Any] | None:
        """What calls it, a function before a method or property; None without a public name."""
        for path in sorted(self.data["python"], key=lambda p: p.startswith("Tensor.")):
            space, _, name = path.rpartition(".")
            return getattr(self.place(space), name)
        return attrgetter(self.properties[0]) if self.properties else None

    @staticmethod
    def place(space: str) -> Any:
        """What the names of a Python path lie in: "", "Tensor", "nn.functional", "ops.mine"."""
        if space in ("", "Tensor"):
            return _C.Tensor if space else _C
        if space.startswith("ops."):
            return getattr(facula.ops, space.removeprefix("ops."))
        return getattr(_C, "_" + space.replace(".", "_").lstrip("_"), None)

    def samples(self) -> Sequence[Sample]:
        """All of them; each is made when it is asked for, none to count them."""
        return _Samples(self)

    def sample(self, index: int) -> Sample:
        text = self.data["samples"][index]
        rng = np.random.default_rng(zlib.crc32(f"{self.name}/{index}".encode()))
        return evaluate(text, rng)

    def bound(self, sample: Sample) -> dict[str, Any]:
        """The sample's values by argument name, defaults filled in."""
        values: dict[str, Any] = {}
        for i, argument in enumerate(self.data["arguments"]):
            name = argument["name"]
            if i < len(sample.args):
                values[name] = sample.args[i]
            elif name in sample.kwargs:
                values[name] = sample.kwargs[name]
            elif "default" in argument:
                values[name] = _default(argument["default"])
        extra = len(sample.args) - len(self.data["arguments"])
        if extra > 0:  # varargs: the last positional argument takes the tail
            last = self.data["arguments"][-1]["name"]
            values[last] = list(sample.args[len(self.data["arguments"]) - 1 :])
        return values


@dataclass(frozen=True)
class _Samples(Sequence[Sample]):
    op: OpRecord

    def __len__(self) -> int:
        return len(self.op.data["samples"])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self.op.sample(i) for i in range(len(self))[index]]
        return self.op.sample(range(len(self))[index])


def _default(text: str) -> Any:
    try:
        return eval(text, {"__builtins__": {}}, {"inf": np.inf, "nan": np.nan})
    except NameError:
        return Named(text)


def evaluate(
    text: str | CodeType,
    rng: np.random.Generator,
    size: Callable[[int], int] | None = None,
) -> Sample:
    """The arguments that a sample's text stands for.

    Or the compiled call of `call` with it, in which `_size` gives the sizes.
    """

    def varying(array: Any) -> Varying:
        return np.asarray(array).view(Varying)

    def f(*shape: int, low: float | None = None, high: float | None = None) -> Varying:
        if low is None and high is None:
            return varying(rng.standard_normal(shape))
        return varying(
            rng.uniform(0.0 if low is None else low, 1.0 if high is None else high, shape)
        )

    def c(*shape: int) -> np.ndarray:
        return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape))

    def i(*shape: int, low: int = -9, high: int = 10) -> np.ndarray:
        return np.asarray(rng.integers(low, high, shape))

    def formed(form: Callable[..., Any]) -> Callable[..., Formed]:
        def make(*shape: int) -> Formed:
            free = rng.standard_normal((*shape, shape[-1]))
            matrix: Formed = np.asarray(form(free, np.asarray)).view(Formed)
            matrix.free, matrix.form = free, form
            return matrix

        return make

    names: dict[str, Any] = {
        "f": f,
        "spd": formed(_spd),
        "tri": formed(_tri),
        "orth": formed(_orth),
        "pos": lambda *shape: f(*shape, low=0.1, high=3.0),
        "i": i,
        "b": lambda *shape: np.asarray(rng.integers(0, 2, shape).astype(bool)),
        "c": c,
        "perm": lambda n: np.asarray(rng.permutation(n)),
        "t": lambda values: np.asarray(values).view(Constant),
        "const": lambda array: np.asarray(array).view(Constant),
        "call": lambda *args, **kwargs: Sample(list(args), kwargs),
        "_size": size,
        **_CONSTANTS,
    }
    code = f"call({text})" if isinstance(text, str) else text
    sample = eval(code, {"__builtins__": {"slice": slice}}, names)
    assert isinstance(sample, Sample)
    return sample


@lru_cache(maxsize=1)
def operators() -> tuple[OpRecord, ...]:
    """Every operator of the installed schema."""
    text = resources.files("facula").joinpath("ops.json").read_text(encoding="utf-8")
    return tuple(OpRecord(o, o["name"]) for o in json.loads(text)["operators"])
