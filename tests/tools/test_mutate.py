"""tools/mutate: what it changes, and that the original stays where no mutant is on."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codegen.__main__ import load
from codegen.schema import expr
from codegen.schema.model import Location, Schema
from tools.mutate import __main__ as main
from tools.mutate import formulas, language, runner, sources
from tools.mutate.runner import spread
from tools.mutate.tree import candidates, choose, translates

ROOT = Path(__file__).resolve().parents[2]


def spot(text: str, of_elements: bool = True) -> formulas.Spot:
    made = expr.parse(text, Location("x", 1, 1), program=not of_elements)
    return formulas.Spot("scalar", ("scalar", 0), made, of_elements)


@pytest.fixture(scope="module")
def schema() -> Schema:
    return load(ROOT / "ops.yaml")


def values(text: str, on: int, **names: Any) -> Any:
    words: dict[str, Callable[..., Any]] = {
        "mutant": lambda n: n == on,
        "where": lambda c, a, b: a if c else b,
    }
    return eval(text, {**words, **names})


def test_changes_of_a_formula(schema: Schema) -> None:
    one = spot("where(x < 1, -x, x * 2)")
    found = list(formulas.changes(one, schema.operator("neg").replace(dtypes=("float",))))
    shown = {c.text for c in found}
    assert {"`x < 1` as `x <= 1`", "`-x` as `x`", "`x * 2` as `x + 2`", "`1` as `2`"} <= shown
    assert any(text.endswith("as `where(x < 1, x * 2, -x)`") for text in shown)
    text = formulas.with_mutants(one, dict(enumerate(found, 1))).text
    for x in (-2.0, 1.0, 3.0):
        assert values(text, 0, x=x) == (-x if x < 1 else x * 2)
    differ = [n for n in range(1, len(found) + 1) if values(text, n, x=1.0) != 2.0]
    assert len(differ) >= 3  # each that shows at 1


def test_changes_of_a_program(schema: Schema) -> None:
    one = spot("if dim < 0:\n    return self + 1\nreturn self", of_elements=False)
    found = list(formulas.changes(one, schema.operator("neg")))
    text = formulas.with_mutants(one, dict(enumerate(found, 1))).text
    assert text.count("mutant(") == len(found) and ast.parse(text)
    assert "dim <= 0 if mutant(" in text


SOURCE = """\
namespace facula {
int64_t f(int64_t a, int64_t b) {
  if (a < b && !ready(a)) return a + b * 2;
  for (int64_t i = 0; i < a; ++i) g(v[1], -b);
  constexpr int kTile = 4 + 4;
  FACULA_CHECK(a >= b, Shape, Operator{"f"}, "size ", a - 1, b == 1 ? " dim" : " dims");
  double sums[3], parts[5], *more[7] = {};
  const TypedBuffer<double> room(6 * a), less(a - 8);
  if (a > 9) {
    for (int64_t i = 0; i < b; ++i) __builtin_prefetch(v + i * 10);
  }
  take(a, v[11]);
  return static_cast<int64_t>(a) - b;
}
}  // namespace facula
"""


def test_changes_of_a_source() -> None:
    found = list(sources.sites(SOURCE))
    shown = {s.shown for s in found}
    wanted = {"`a < b` as `a <= b`", "`a + b * 2` as `a - b * 2`", "`-b` as `b`"}
    wanted |= {"`static_cast<int64_t>(a) - b` as `static_cast<int64_t>(a) + b`"}
    wanted |= {"`a < b && !ready(a)` as `a < b || !ready(a)`"}
    assert wanted <= shown
    assert not any("kTile" in text for text in shown)  # a constant of the build
    # what is said, made room for, or fetched ahead is no result
    assert {"`a >= b` as `a > b`", "`a - 8` as `a + 8`"} <= shown
    numbers = {s.shown.rpartition(": ")[2].split()[0] for s in found if " as `" not in s.shown}
    assert {"8", "11"} <= numbers and not numbers & {"3", "5", "7", "6", "9", "10"}
    assert not any("b == 1" in text or "a - 1" in text for text in shown)
    text = sources.with_mutants(SOURCE, dict(enumerate(found, 1)))
    assert text.count("::facula::mutant(") == len(found)
    assert text.count("(") == text.count(")")


def test_the_generator_takes_them(schema: Schema) -> None:
    language.extend()
    all_ = list(candidates(ROOT, schema))
    chosen = choose(schema, all_, 60, 7)
    assert chosen == choose(schema, all_, 60, 7) and len(chosen) == 60
    fewer = [m for m in all_ if m is not chosen[0]]  # the others stay whatever is edited
    assert len({m.shown for m in choose(schema, fewer, 60, 7)} & {m.shown for m in chosen}) > 50
    assert {m.kind for m in chosen} == {"scalar", "composite", "derivative", "shape", "kernel"}
    good = [m for m in chosen if m.spot and translates(schema, m)]
    assert len(good) > 30


def test_quick_tests_of_all_functions_come_first() -> None:
    tests = [{"test": f"a[{i}]", "seconds": 0.001 * i} for i in range(20)]
    tests += [{"test": "b[0]", "seconds": 0.5}, {"test": "slow", "seconds": 99.0}]
    order = [t["test"] for t in spread(tests)]
    assert order.index("b[0]") < order.index("a[15]") and order[-1] == "slow"


JUDGED = '''
import os, struct, time
import pytest

def on(number):
    """As the copy's C++ asks: is the mutant on? And it was reached."""
    with open(os.environ["FACULA_MUTANTS"], "r+b") as file:
        now = struct.unpack("i", file.read(4))[0]
        file.seek(4 + number)
        file.write(bytes([1]))
    return now == number

def test_quick():
    assert not on(1)

def test_crash():
    if on(2):
        os.abort()

def test_hang():
    while on(3):
        time.sleep(0.1)

@pytest.mark.parametrize("n", range(3))
def test_blind(n):
    on(4)

def test_late():
    time.sleep(0.2)
    assert not on(5)

def test_broken():
    on(6)
    assert False
'''


def test_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures, crashes and hangs notice a mutant; a test that always fails says nothing."""
    (tmp_path / "test_it.py").write_text(JUDGED)
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    (tmp_path / "codegen").symlink_to(ROOT / "codegen")
    one = {"kind": "scalar", "family": "a", "subject": "s", "place": "f:1", "what": "sign"}
    mutants = {n: {**one, "shown": f"m{n}"} for n in range(1, 8)}
    (tmp_path / "mutants.json").write_text(json.dumps(mutants))
    monkeypatch.setenv("FACULA_MUTATE_GRACE", "2")
    for what in ("reach", "judge", "judge"):  # a second time there is nothing to do
        main.workers(tmp_path, what, 2, ["test_it.py"], "")
    assert len(runner.reached(tmp_path)) == 8
    found = {r["mutant"]: (r["how"], r["by"].partition("::")[2]) for r in runner.results(tmp_path)}
    assert found == {
        1: ("failure", "test_quick"), 2: ("crash", "test_crash"), 3: ("hang", "test_hang"),
        4: ("survived", ""), 5: ("failure", "test_late"), 6: ("no test", ""), 7: ("no test", ""),
    }  # fmt: skip
    main.workers(tmp_path, "judge", 2, ["test_it.py"], "1,4")
    assert len(runner.results(tmp_path)) == 7
