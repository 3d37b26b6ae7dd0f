"""What a row of the table is: one piece of work, its goal, and what else must hold.

A family is a file of `rows/`. Its rows are functions that make a statement to be timed:

    rows = Family("elementwise", tolerance=1e-5)

    @rows.add("{op}, 16M floats", goal=0.5, op=["exp", "log"])
    def unary(lib, inputs, op):
        x = inputs.floats(1 << 24)
        function = getattr(lib, op)
        return lambda: function(x)

The same function runs with `lib` facula, torch and, where `numpy=True`, NumPy. Work so short that
a Python call would show is given as a statement: `statement="a + b"`, and the function returns the
names it uses.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

Setup = Callable[..., Any]
# Competitors that are no library, and the modules of their kernels.
KERNELS = {"machine": "tools.bench.machine", "card": "tools.bench.card"}


@dataclass(frozen=True)
class Versus:
    """A second competitor in the same rounds: "numpy", "machine", a kernel of machine.c, or "card",
    a kernel of card.py.

    Against NumPy the value is the ratio of times, at most `limit`. Against machine and card it is
    the ratio of rates, at least `limit`: `work` a call, in what the kernel counts (bytes,
    operations).
    """

    rival: str
    limit: float
    kernel: str = ""
    work: float = 0.0

    @property
    def label(self) -> str:
        return self.kernel or self.rival

    @property
    def at_least(self) -> bool:
        return self.rival in KERNELS


@dataclass(frozen=True)
class Beyond(Versus):
    """What a call takes beyond the kernel that it cannot do without: at most `limit` seconds, and
    at most `part` of what torch's call takes beyond it."""

    part: float = 1.0

    @property
    def at_least(self) -> bool:
        return False


@dataclass(frozen=True)
class Check:
    """A property of facula's result, at most `limit`: `measure(trial)` says how much."""

    label: str
    limit: float
    measure: Callable[[Any], float]
    at_least: bool = False
    fresh: bool = False  # in a process that has done nothing else


@dataclass(frozen=True)
class Row:
    name: str
    family: str
    goal: float
    setup: Setup
    case: dict[str, Any] = field(default_factory=dict)
    statement: str = ""
    numpy: Setup | None = None
    numpy_statement: str = ""  # where NumPy says it in other words
    also: tuple[Versus | Check, ...] = ()
    tolerance: float | None = 1e-5  # of the largest result; None: results need not agree
    result: str = ""  # of a statement, where it is not the statement's own value
    calls: int = 1  # that precede the comparison of results
    moments: bool = False  # compare mean and deviation only
    measure: str = "time"  # or "memory", or the name of a probe
    threads: tuple[int, ...] = ()  # only these; empty: whatever is asked for
    ranks: int = 1  # processes that run it together, a device each
    device: str = "cpu"  # where the inputs are; rows of another are run with --device

    @property
    def key(self) -> str:
        return f"{self.family}: {self.name}"

    def rivals(self) -> list[str]:
        names = ["numpy"] if self.numpy else []
        return names + [a.rival for a in self.also if isinstance(a, Versus) and a.rival != "numpy"]


class Family:
    """The rows of one file, in order."""

    def __init__(self, name: str, **defaults: Any) -> None:
        self.name, self.defaults, self.rows = name, defaults, []

    def add(
        self,
        name: str,
        goal: float | Callable[..., float],
        *,
        numpy: bool | Setup = False,
        also: Any = (),
        where: Callable[..., bool] = lambda **case: True,
        **options: Any,
    ) -> Callable[[Setup], Setup]:
        """Rows of one setup: a row for each combination of the lists among the options, which are
        the setup's arguments and fill the name's braces. `also` may be a function of them."""
        fields = {k: options.pop(k) for k in list(options) if k in Row.__dataclass_fields__}
        fields = {**self.defaults, **fields}
        also = fields.pop("also", also)
        lists = {k: v if isinstance(v, list) else [v] for k, v in options.items()}

        def register(setup: Setup) -> Setup:
            for values in itertools.product(*lists.values()):
                case = dict(zip(lists, values, strict=True))
                if not where(**case):
                    continue
                found = {k: v(**case) if callable(v) else v for k, v in fields.items()}
                second = also(**case) if callable(also) else also
                self.rows.append(
                    Row(
                        name=name.format(**{k: title(v) for k, v in case.items()}),
                        family=self.name,
                        goal=goal(**case) if callable(goal) else goal,
                        setup=setup,
                        case=case,
                        numpy=setup if numpy is True else numpy or None,
                        also=second if isinstance(second, tuple) else (second,),
                        **found,
                    )
                )
            return setup

        return register


def title(value: Any) -> str:
    """How a value of a case stands in a row's name."""
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return str(value).replace("lib.", "")


@cache
def families() -> dict[str, Family]:
    """All families, in the order of the table."""
    from tools.bench import rows

    found = {}
    for module in pkgutil.iter_modules(rows.__path__):
        family = importlib.import_module(f"{rows.__name__}.{module.name}").rows
        found[family.name] = family
    return dict(sorted(found.items(), key=lambda item: rows.ORDER.index(item[0])))


def all_rows() -> Iterator[Row]:
    for family in families().values():
        yield from family.rows


def row_of(key: str) -> Row:
    for row in all_rows():
        if row.key == key:
            return row
    raise KeyError(f"no row {key!r}")
