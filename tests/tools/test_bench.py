"""tools/bench: its arithmetic, its verdicts, and how a round goes. No time is asserted."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import facula
import numpy as np
import pytest

from tools.bench import callgrind, checks, measure, processes, result, row, table, worker
from tools.bench.inputs import Inputs
from tools.bench.result import Result, Second

# ---- arithmetic ----


def test_a_ratio_is_of_rounds_and_not_of_medians() -> None:
    """A round that is slow for both does not count; the ratio of medians would be 3 / 4."""
    ours, theirs = [1.0, 3.0, 50.0], [2.0, 4.0, 100.0]
    assert result.paired_ratio(ours, theirs) == 0.5


def test_beyond_a_kernel_is_what_is_left_of_each_round() -> None:
    goal = row.Beyond("card", 2e-6, "launch", part=0.5)
    samples = {
        "facula": [5e-6, 6e-6, 5e-6],
        "torch": [9e-6, 9e-6, 8e-6],
        "card": [4e-6, 5e-6, 3e-6],
    }
    ours, part = measure.beyond(goal, samples)
    assert (ours.value, ours.torch, ours.met) == (pytest.approx(1.0), pytest.approx(5.0), True)
    assert part.value == pytest.approx(1 / 4) and part.limit == 0.5  # of 1/5, 1/4 and 2/5
    assert measure.beyond(goal, {"facula": [1.0]}) == []


def test_spread_is_half_the_distance_of_quartiles() -> None:
    assert result.spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx((4 - 2) / 2 / 3)
    assert result.spread([7.0, 7.0, 7.0]) == 0
    assert result.spread([7.0]) == 0


def test_geometric_mean() -> None:
    assert result.geometric_mean([0.25, 4.0]) == pytest.approx(1.0)
    assert math.isnan(result.geometric_mean([]))


@pytest.mark.parametrize(
    ("ratio", "goal", "also", "missed", "excess"),
    [
        (0.4, 0.5, [], False, 0.8),
        (0.6, 0.5, [], True, 1.2),
        (0.5, 0.5, [], False, 1.0),
        (0.4, 0.5, [Second("ulp", 8, 4)], True, 2.0),
        (0.4, 0.5, [Second("add", 0.45, 0.9, True)], True, 2.0),
        (0.4, 0.5, [Second("add", 1.0, 0.9, True)], False, 0.9),
        (0.4, 0.5, [Second("changed", 1.0, 0.0)], True, math.inf),
    ],
)
def test_verdicts(
    ratio: float, goal: float, also: list[Second], missed: bool, excess: float
) -> None:
    found = Result("x", "f", 1, goal, ratios={"torch": ratio}, also=also)
    assert found.missed is missed
    assert found.excess == pytest.approx(excess)


def test_what_did_not_run_or_is_wrong_is_missed_too() -> None:
    absent = Result("x", "f", 1, 0.5, state="absent")
    wrong = Result("y", "f", 1, 0.5, ratios={"torch": 0.1}, agree=False)
    slow = Result("z", "f", 1, 0.5, ratios={"torch": 2.0})
    fine = Result("w", "f", 1, 0.5, ratios={"torch": 0.2})
    assert [r.name for r in table.missed([absent, fine, wrong, slow])] == ["z", "y", "x"]


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ([np.array([1.0, 2.0])], [np.array([1.0, 4.0])], 0.5),
        ([np.array([1.0, np.nan])], [np.array([1.0, np.nan])], 0.0),
        ([np.array([1.0, np.inf])], [np.array([1.0, 2.0])], "other infinities or NaN"),
        ([np.array([1, 2])], [np.array([1.0, 2.0])], "results of type int64, not float64"),
        ([np.zeros(3)], [np.zeros(4)], "3 elements, not 4"),
        ([np.zeros(3)], [], "1 results, not 0"),
        ([np.zeros(0)], [np.zeros(0)], 0.0),
        ([np.array([True, False])], [np.array([True, True])], 1.0),
    ],
)
def test_disagreement(ours: list[Any], theirs: list[Any], found: float | str) -> None:
    assert measure.disagreement(ours, theirs) == found


def test_rounds_fit_the_budget() -> None:
    plan = measure.Plan(rounds=11, sample=0.1, budget=10)
    assert plan.rounds_for(0.01) == 11
    assert plan.rounds_for(1.2) == 8
    assert plan.rounds_for(60) == 7


# ---- rows ----


def test_rows_are_well_formed() -> None:
    keys = [r.key for r in row.all_rows()]
    assert len(keys) == len(set(keys)) > 200
    for found in row.all_rows():
        assert 0 < found.goal <= 1, found.key
        assert not re.search(r"[{}\n]", found.name), found.key
    assert row.row_of(keys[-1]).key == keys[-1]
    with pytest.raises(KeyError, match="no row"):
        row.row_of("small: nothing")


def test_a_setup_makes_a_row_for_each_case() -> None:
    rows = row.Family("f", tolerance=lambda op, **_: 0 if op == "a" else 1)
    rows.add(
        "{op} of {n}", 0.5, op=["a", "b"], n=[1, (2, 3)], where=lambda op, n: (op, n) != ("b", 1)
    )(lambda lib, inputs, op, n: None)
    assert [(r.name, r.tolerance) for r in rows.rows] == [
        ("a of 1", 0),
        ("a of 2x3", 0),
        ("b of 2x3", 1),
    ]


def test_every_library_has_the_same_inputs() -> None:
    ours, theirs = Inputs(facula), Inputs(np)
    for draw in (
        lambda i: i.floats(5, low=-2, high=3),
        lambda i: i.normal(2, 3),
        lambda i: i.normal(),
        lambda i: i.integers(4, high=9),
        lambda i: i.bools(6),
        lambda i: i.shuffled(7),
    ):
        a, b = draw(ours), draw(theirs)
        assert np.array_equal(a.numpy(), b)
        assert a.numpy().shape == np.shape(b)
    assert ours.floats(3, dtype="bfloat16").dtype == facula.bfloat16
    assert ours.floats(3, grad=True).requires_grad


# ---- what is timed ----


def test_a_statement_runs_as_often_as_told() -> None:
    seen: list[int] = []
    loop = worker.compile_loop("append(n)", {"append": seen.append, "n": 4})
    assert loop(3) >= 0
    assert seen == [4, 4, 4]


def test_errors_are_told_from_what_is_absent() -> None:
    assert worker.answer(lambda: 3) == ("ok", 3)
    assert worker.answer(lambda: np.no_such_name)[0] == "absent"
    assert worker.answer(lambda: 1 / 0) == ("error", "ZeroDivisionError: division by zero")


class Stub:
    """A worker whose samples are given."""

    def __init__(self, samples: list[float], value: float = 1.0, fails: str = "") -> None:
        self.samples, self.value, self.fails = list(samples), value, fails
        self.child = SimpleNamespace(poll=lambda: None)
        self.name, self.threads = "torch", 1

    def setup(self, key: str) -> None:
        if self.fails:
            raise processes.Failed(self.fails, "why")

    def arrays(self) -> list[Any]:
        return [np.array([self.value])]

    def calibrate(self, seconds: float) -> tuple[int, float]:
        return 10, 0.1

    def sample(self, times: int, warm: int) -> float:
        return self.samples.pop(0)

    def drop(self) -> None:
        pass


def runs(busy: Any = None, threads: int = 1, **stubs: Stub) -> list[Result]:
    crew = SimpleNamespace(get=lambda name, threads: stubs[name])
    plan = measure.Plan(rounds=3, budget=1)
    runner = measure.Runner(crew, plan, ("torch",), busy)  # type: ignore[arg-type]
    return list(runner.run(row.Row("x", "f", 0.5, lambda lib, inputs: None), threads))


def test_a_row_is_judged_by_its_rounds() -> None:
    (found,) = runs(facula=Stub([1.0, 2.0, 9.0]), torch=Stub([4.0, 5.0, 18.0]))
    assert found.medians == {"facula": 2.0, "torch": 5.0}
    assert found.ratio == 0.4
    assert not found.missed


def test_a_wrong_result_is_said() -> None:
    (found,) = runs(facula=Stub([1.0] * 3, value=1.1), torch=Stub([4.0] * 3))
    assert not found.agree and "differs from torch" in found.note
    assert "WRONG" in table.line(found, 5)


def test_what_facula_lacks_is_absent_and_what_torch_lacks_a_note() -> None:
    (found,) = runs(facula=Stub([], fails="absent"), torch=Stub([]))
    assert (found.state, found.note) == ("absent", "why")
    assert "absent" in table.line(found, 5)
    (found,) = runs(facula=Stub([1.0] * 3), torch=Stub([], fails="error"))
    assert (found.state, found.ratio, found.note) == ("ok", None, "torch: why")


class Switch:
    """Stands for the busy process, and knows when it ran."""

    on = False

    def __enter__(self) -> None:
        self.on = True

    def __exit__(self, *_: object) -> None:
        self.on = False


def test_beside_a_busy_process() -> None:
    switch = Switch()
    ours = Stub([1.0] * 3 + [4.0] * 3)
    quiet, busy = runs(switch, 2, facula=ours, torch=Stub([2.0] * 3 + [5.0] * 3))
    assert (quiet.name, busy.name, busy.goal) == ("x", "x, busy", 1.0)
    assert busy.ratio == pytest.approx(0.8)
    (second,) = busy.also
    assert (second.value, second.limit, second.torch) == (4.0, 3.0, 2.5)
    assert busy.missed and not switch.on


def test_a_worker_runs_a_row() -> None:
    crew = processes.Crew({})
    try:
        runner = measure.Runner(crew, measure.QUICK)
        (found,) = runner.run(row.row_of("small: a + b"), 1)
        assert (found.state, found.agree, found.note) == ("ok", True, "")
        assert set(found.medians) == {"facula", "numpy"}
        assert found.ratios["numpy"] > 0
    finally:
        crew.close()


# ---- checks ----


def test_ulp_counts_units_of_the_last_place() -> None:
    x = facula.linspace(1, 2, 100)
    off = facula.from_numpy(np.nextafter(x.numpy(), np.float32(9)))
    (check,) = [checks.ulp(4, lambda v: v, lambda trial: (x,))]
    assert check.measure(SimpleNamespace(call=lambda: x)) == 0
    assert check.measure(SimpleNamespace(call=lambda: off)) == 1


def test_sums_in_order_are_worse_than_pairwise() -> None:
    x = np.random.default_rng(0).random(1 << 16, dtype=np.float32)
    exact = float(x.astype(np.float64).sum())
    check = checks.pairwise(lambda trial: (exact, exact, x.size))
    in_order = facula.from_numpy(np.cumsum(x)[-1:].copy())
    by_pairs = facula.from_numpy(np.array([x.sum()]))
    assert check.measure(SimpleNamespace(call=lambda: in_order)) > 1
    assert check.measure(SimpleNamespace(call=lambda: by_pairs)) < 1


def test_numbers_that_threads_change_are_counted() -> None:
    check = checks.same_at_any_threads()
    kept = facula.get_num_threads()
    fixed = SimpleNamespace(lib=facula, call=lambda: facula.rand(100_000))
    loose = SimpleNamespace(lib=facula, call=lambda: facula.ones(1) * facula.get_num_threads())
    assert check.measure(fixed) == 0
    assert check.measure(loose) == 2
    assert facula.get_num_threads() == kept


# ---- callgrind ----

PROFILE = """
events: Ir

ob=(1) /usr/lib/libpython3.so
fl=(1) ceval.c
fn=(1) _PyEval_EvalFrameDefault
10 100
+2 20
cob=(2) /site/facula/_C.so
cfn=(2) facula::python::call_thing(_object**)
calls=5 0
12 5000

ob=(2)
fl=(2) ???
fn=(2)
0 300
cfn=(3) facula::make_empty(facula::IntList)
calls=5 0
0 1500
0 30

fn=(3)
0 150
"""


def test_instructions_are_counted_where_they_are_spent() -> None:
    costs = callgrind.parse(PROFILE.splitlines())
    assert sorted(costs.values()) == [120, 150, 330]
    doubled = {key: 2 * cost for key, cost in costs.items()}
    each = callgrind.difference(costs, doubled, 10)
    assert sum(each.values()) == 60
    report = callgrind.breakdown(each)
    assert "60 instructions" in report
    for part, cost in (("interpreter", 12), ("parse", 33), ("allocate", 15), ("other", 0)):
        assert re.search(rf"^  {part} +{cost} ", report, re.M), part


def test_without_valgrind_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert "apt-get install valgrind" in callgrind.report()


def test_parts_cover_each_name_once() -> None:
    module = "/x/facula/_C.so"
    assert callgrind.part_of(module, "facula::python::wrap(facula::Tensor)") == "wrap"
    assert callgrind.part_of(module, "facula::(anonymous namespace)::pool_take(int)") == "allocate"
    assert callgrind.part_of(module, "free") == "other"
    assert callgrind.part_of("/lib/libc.so.6", "malloc") == "interpreter"
    names = [name for name, _ in callgrind.PARTS]
    assert all(a != b for a, b in pairwise(names)) and set(names) < set(callgrind.ORDER)
