"""Timers, tables of measurements, and counted operations."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
from facula import nn
from facula.utils.benchmark import (
    Compare,
    Measurement,
    TaskSpec,
    Timer,
    select_unit,
    trim_sigfig,
)
from facula.utils.flop_counter import FlopCounterMode, operators_with_formula


class Clock:
    """Seconds that pass as the statement says."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def timer(clock, stmt="clock.sleep(0.25)", **options):
    return Timer(stmt, timer=clock, globals={"clock": clock}, **options)


def test_a_statement_is_timed_by_the_clock():
    m = timer(Clock()).timeit(8)
    assert m.number_per_run == 8 and m.raw_times == [2.0] and m.median == m.mean == 0.25
    m = timer(Clock()).blocked_autorange(min_run_time=3)
    assert sum(m.raw_times) >= 3 and m.median == pytest.approx(0.25)
    m = timer(Clock(), "clock.sleep(1e-6)").blocked_autorange(min_run_time=0.01)
    assert m.number_per_run >= 10 and m.median == pytest.approx(1e-6)


def test_it_goes_on_until_the_spread_is_small():
    clock = Clock()
    lengths = iter([0.3, 0.1, 0.5, 0.2] * 3 + [0.25] * 1000)
    clock.next = lambda: clock.sleep(next(lengths))
    m = Timer("clock.next()", timer=clock, globals={"clock": clock}).adaptive_autorange(
        max_run_time=100
    )
    assert m.meets_confidence(0.1) and len(m.times) > 12
    clock = Clock()
    noisy = np.random.default_rng(0).uniform(0.1, 1, 1000).tolist()
    clock.next = lambda: clock.sleep(noisy.pop())
    m = Timer("clock.next()", timer=clock, globals={"clock": clock}).adaptive_autorange(
        max_run_time=5
    )
    assert not m.meets_confidence(0.1) and 5 <= sum(m.raw_times) < 7


def test_setup_runs_before_and_names_are_seen():
    log = []
    t = Timer(
        """
        for i in range(2):
            log.append(i)
        """,
        setup="log.clear()",
        globals={"log": log},
    )
    t.timeit(3)
    assert log == [0, 1] * 3
    assert Timer("fa.ones(2) + 1").timeit(2).median > 0


def test_threads_are_set_for_the_time():
    seen, before = [], fa.get_num_threads()
    Timer(
        "seen.append(fa.get_num_threads())", globals={"seen": seen}, num_threads=before + 1
    ).timeit(1)
    assert set(seen) == {before + 1} and fa.get_num_threads() == before


def measurement(times, number=1, **spec):
    return Measurement(number, times, TaskSpec("f()", "pass", **spec))


def test_what_is_said_of_times():
    times = [1.0, 2.0, 3.0, 4.0, 10.0]
    m = measurement(times, number=2)
    assert m.times == [t / 2 for t in times]
    assert m.median == np.median(m.times) and m.mean == pytest.approx(np.mean(m.times))
    low, high = np.quantile(m.times, [0.25, 0.75])
    assert m.iqr == pytest.approx(high - low) and m.has_warnings
    assert not m.meets_confidence()
    assert measurement([1.0, 1.01, 1.0, 0.99]).meets_confidence()
    assert measurement([1.0] * 4).significant_figures == 5
    assert measurement([1.0, 1.4, 0.6, 1.2]).significant_figures == 1
    assert select_unit(2e-5) == ("us", 1e-6) and select_unit(1e-12) == ("ns", 1e-9)
    assert trim_sigfig(123.456, 2) == 120 and trim_sigfig(0.012345, 3) == 0.0123
    text = repr(measurement([2e-6] * 5, label="sum", description="mine"))
    assert "sum" in text and "mine" in text and "Median: 2" in text and "us" in text


def test_measurements_of_one_task_are_merged():
    a, b = measurement([2.0, 4.0], number=2), measurement([1.0], number=1)
    (m,) = Measurement.merge([a, b])
    assert m.times == [1.0, 2.0, 1.0]
    other = measurement([1.0], label="other")
    assert len(Measurement.merge([a, other])) == 2


def test_tables_have_rows_columns_and_threads():
    results = [
        measurement([t], label="matmul", sub_label=size, description=name, num_threads=n)
        for t, size, name, n in (
            (2e-6, "small", "mine", 1),
            (4e-6, "small", "theirs", 1),
            (8e-3, "large", "mine", 1),
            (3e-3, "large", "mine", 2),
        )
    ]
    text = str(Compare(results))
    lines = text.splitlines()
    assert " matmul " in lines[0] and lines[1].split() == ["|", "mine", "|", "theirs"]
    assert lines[2].startswith("1 thread: ") and lines[5].startswith("2 threads: ")
    assert lines[3].split() == ["small", "|", "2.0", "|", "4.0"]
    assert lines[4].split() == ["large", "|", "8000", "|"]
    assert lines[6].split() == ["large", "|", "3000", "|"]
    assert "microseconds (us)" in text
    compare = Compare(results)
    compare.colorize(rowwise=True)
    assert "\033[92m" in str(compare)
    with pytest.raises(ValueError, match="Measurement"):
        Compare([3])


def test_what_cannot_be_measured():
    with pytest.raises(NotImplementedError, match="language"):
        Timer("x;", language="c++")
    with pytest.raises(NotImplementedError, match="valgrind"):
        Timer("1").collect_callgrind()
    with pytest.raises(ValueError, match="number"):
        Timer("1").timeit(0)


# ---- operations ----


def test_operations_of_a_network_and_its_backward():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10)
    )
    with FlopCounterMode(display=False) as counter:
        net(fa.randn(2, 3, 8, 8)).sum().backward()
    conv = 2 * 2 * 8 * 8 * 8 * 3 * 3 * 3
    line = 2 * 2 * 512 * 10
    counts = counter.get_flop_counts()
    assert counts["Sequential"] == {"convolution": conv, "linear": line}
    assert counts["Sequential.0"] == {"convolution": conv}
    # the images ask for no gradient
    wanted = {"convolution": conv, "linear": line, "mm": 2 * line, "convolution_backward": conv}
    assert counts["Global"] == wanted
    assert counter.get_total_flops() == 2 * conv + 3 * line
    table = counter.get_table(2)
    assert "Sequential.3" in table and "100.00%" in table
    assert "Sequential.3" not in counter.get_table(1)


@pytest.mark.parametrize(
    "call, flops",
    [
        (lambda: fa.ones(2, 3) @ fa.ones(3, 5), 60),
        (lambda: fa.ones(4, 2, 3) @ fa.ones(4, 3, 5), 240),
        (lambda: fa.addmm(fa.ones(5), fa.ones(2, 3), fa.ones(3, 5)), 60),
        (lambda: fa.baddbmm(fa.ones(4, 2, 5), fa.ones(4, 2, 3), fa.ones(4, 3, 5)), 240),
        (lambda: fa.mv(fa.ones(2, 3), fa.ones(3)), 12),
        (lambda: fa.mm(fa.ones(2, 3), fa.ones(3, 5), out=fa.empty(2, 5)), 60),
        (lambda: fa.einsum("ij,jk->ik", fa.ones(2, 3), fa.ones(3, 5)), 60),
        (lambda: nn.functional.conv1d(fa.ones(2, 4, 9), fa.ones(6, 2, 3), groups=2), 1008),
        (
            lambda: nn.functional.conv_transpose1d(fa.ones(2, 4, 9), fa.ones(4, 6, 3)),
            2 * 2 * 9 * 4 * 6 * 3,
        ),
        (lambda: fa.ones(3).exp() + 1, 0),
    ],
)
def test_operations_of_one_call(call, flops):
    with FlopCounterMode(display=False) as counter:
        call()
    assert counter.get_total_flops() == flops


def test_operations_of_attention_and_recurrent_layers():
    q, k, v = fa.ones(2, 3, 5, 8), fa.ones(2, 3, 7, 8), fa.ones(2, 3, 7, 4)
    with FlopCounterMode(display=False) as counter:
        nn.functional.scaled_dot_product_attention(q, k, v)
    assert counter.get_total_flops() == 2 * 2 * 3 * 5 * 7 * (8 + 4)
    with FlopCounterMode(display=False) as counter:
        nn.LSTM(6, 5)(fa.ones(4, 2, 6))
    assert counter.get_total_flops() == 2 * 8 * 20 * 6 + 2 * 8 * 20 * 5


@pytest.mark.parametrize("kind, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_operations_of_backward_through_time(kind, gates):
    layer, x = getattr(nn, kind)(6, 5), fa.randn(4, 2, 6)
    with FlopCounterMode(display=False) as forward:
        layer(x)
    with FlopCounterMode(display=False) as both:
        layer(x)[0].sum().backward()
    given, state = 2 * 8 * 5 * gates * 6, 2 * 8 * 5 * gates * 5
    assert forward.get_total_flops() == given + state
    # of the input's weight alone, since the input asks for none; of the state's both
    assert both.get_total_flops() == 2 * given + 3 * state


def test_operations_of_attention_s_backward():
    q, k, v = (fa.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3))
    with FlopCounterMode(display=False) as counter:
        nn.functional.scaled_dot_product_attention(q, k, v).sum().backward()
    one = 2 * 2 * 3 * 5 * 5 * 8  # a product of all queries with all keys
    assert counter.get_total_flops() == (2 + 5) * one


def test_operations_by_an_own_formula(capsys):
    with FlopCounterMode(custom_mapping={"exp": lambda x, out_val: 7 * x[0][0]}) as counter:
        fa.ones(3).exp()
    assert counter.get_total_flops() == 21
    assert "exp" in capsys.readouterr().out
    assert {"mm", "convolution", "attention"} <= set(operators_with_formula())
