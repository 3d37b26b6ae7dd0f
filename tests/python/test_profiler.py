"""Profiles: which calls they see, how these nest, and what is written of them."""

from __future__ import annotations

import gzip
import json
import time

import facula as fa
import numpy as np
import pytest
from facula import nn
from facula.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)


def names(prof):
    return [e.name for e in prof.events()]


def test_calls_are_seen_in_order_and_nested():
    x = fa.randn(3, 4, requires_grad=True)
    with profile() as prof, record_function("outer"):
        y = fa.nn.functional.conv1d(x.unsqueeze(0), fa.ones(2, 3, 2))
        z = y.detach().add_(1)
        fa.add(z, z, out=fa.empty(1, 2, 3))
    events = prof.events()
    assert names(prof)[0] == "outer"
    assert {"unsqueeze", "conv1d", "convolution", "add_", "add.out"} <= set(names(prof))
    conv = next(e for e in events if e.name == "convolution")
    chain = []
    while conv is not None:
        chain.append(conv.name)
        conv = conv.cpu_parent
    assert chain[0] == "convolution" and chain[-2:] == ["conv1d", "outer"]
    for e in events:
        assert e.time_range.end >= e.time_range.start
        inside = sum(c.cpu_time_total for c in e.cpu_children)
        assert e.self_cpu_time_total == pytest.approx(e.cpu_time_total - inside)
        for c in e.cpu_children:
            assert e.time_range.start <= c.time_range.start
            assert c.time_range.end <= e.time_range.end


def test_backward_is_seen_by_node_and_operator():
    w = fa.randn(4, 4, requires_grad=True)
    with profile() as prof:
        (w @ w).exp().sum().backward()
    found = {e.name: e for e in prof.events() if e.kind == "backward"}
    assert {"SumBackward0", "ExpBackward0", "MmBackward0"} <= set(found)
    assert any(c.operator is not None for c in found["MmBackward0"].cpu_children)


def test_nothing_is_seen_outside():
    a = fa.ones(2)
    with profile() as prof:
        a + 1
    a * 2
    with record_function("unseen"):
        a - 3
    assert names(prof) == ["add"]


def test_profiles_within_profiles_see_their_part():
    a = fa.ones(2)
    with profile() as outer:
        a + 1
        with profile() as inner:
            a * 2
        a - 1
    assert names(outer) == ["add", "mul", "sub"] and names(inner) == ["mul"]


def test_an_error_ends_the_events_it_goes_through():
    a = fa.ones(2, 3)
    with profile() as prof:
        with pytest.raises(RuntimeError), record_function("fails"):
            a @ a
        a + 1
    (after,) = [e for e in prof.events() if e.name == "add"]
    assert after.cpu_parent is None


def test_times_are_those_of_the_clock():
    with profile() as prof, record_function("sleep"):
        time.sleep(0.03)
    (event,) = prof.events()
    assert 30_000 <= event.cpu_time_total < 300_000
    assert event.cpu_time_total_str.endswith("ms")


def test_arguments_shapes_and_lines():
    a, b = fa.ones(2, 3), fa.ones(3, 5, dtype=fa.float32)
    with profile(record_shapes=True, with_stack=True) as prof:
        fa.mm(a, b)
        fa.cat([a, a], 0)
    mm, cat = (next(e for e in prof.events() if e.name == n) for n in ("mm", "cat"))
    assert mm.input_shapes == [[2, 3], [3, 5]]
    assert mm.input_dtypes == [fa.float32, fa.float32]
    assert cat.input_shapes == [[[2, 3], [2, 3]], []] and cat.concrete_inputs == [None, 0]
    assert mm.stack[0].rpartition(":")[0].endswith("test_profiler.py")
    with profile() as prof:
        fa.mm(a, b)
    assert prof.events()[0].input_shapes == [] and prof.events()[0].stack == []


def test_memory_is_what_results_hold():
    n = 1000
    with profile(profile_memory=True) as prof:
        with record_function("keeps"):
            kept = fa.ones(n) + 1
        with record_function("drops"):
            fa.ones(n) + 1
    by = {e.name: e for e in prof.events() if e.kind == "range"}
    assert by["keeps"].cpu_memory_usage == 4 * n == kept.nbytes
    assert by["drops"].cpu_memory_usage == 0
    assert [e.cpu_memory_usage for e in prof.events() if e.name == "add"] == [4 * n] * 2


def test_flops_of_products():
    a, b = fa.ones(2, 3), fa.ones(3, 5)
    with profile(with_flops=True) as prof:
        a @ b
        nn.functional.linear(a, b.t().contiguous())
        a + 1
    by = prof.key_averages()
    counts = {e.key: e.flops for e in by}
    assert counts["mm"] == counts["linear"] == 2 * 2 * 3 * 5
    assert counts["add"] == 0


def test_averages_and_their_table():
    a = fa.ones(2)
    with profile(record_shapes=True, profile_memory=True) as prof:
        for _ in range(5):
            a + 1
        fa.ones(3) + 1
    add = next(e for e in prof.key_averages() if e.key == "add")
    own = [e for e in prof.events() if e.name == "add"]
    assert add.count == 6
    assert add.cpu_time_total == pytest.approx(sum(e.cpu_time_total for e in own))
    assert add.cpu_time == pytest.approx(add.cpu_time_total / 6)
    grouped = prof.key_averages(group_by_input_shape=True)
    assert sorted(e.count for e in grouped if e.key == "add") == [1, 5]
    total = prof.key_averages().total_average()
    assert total.count == len(prof.events())
    averages = prof.key_averages()
    text = averages.table(sort_by="count", row_limit=1)
    rows = text.splitlines()
    assert rows[3].split()[0] == "add" and len(rows) == 6
    assert "Self CPU time total" in text and "CPU Mem" in text
    shares = [float(r.split()[1].rstrip("%")) for r in averages.table().splitlines()[3:-2]]
    assert sum(shares) == pytest.approx(100, abs=0.1)
    with pytest.raises(ValueError, match="sort_by"):
        averages.table(sort_by="nothing")


def test_schedules_say_what_each_step_does():
    action = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    letters = {"NONE": "n", "WARMUP": "w", "RECORD": "r", "RECORD_AND_SAVE": "s"}
    assert "".join(letters[action(i).name] for i in range(11)) == "nnwrsnwrsnn"
    early = schedule(wait=2, warmup=1, active=1, skip_first_wait=1)
    assert "".join(letters[early(i).name] for i in range(6)) == "wsnnws"
    with pytest.raises(ValueError, match="active"):
        schedule(wait=1, warmup=1, active=0)
    with pytest.warns(UserWarning, match="warmup"):
        assert schedule(wait=0, warmup=0, active=1)(5) is ProfilerAction.RECORD_AND_SAVE


def test_a_profile_by_schedule_calls_back_for_each_cycle():
    a, seen = fa.ones(2), []

    def ready(prof):
        seen.append((prof.step_num, [e.name for e in prof.events()]))

    steps = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=steps, on_trace_ready=ready) as prof:
        for _ in range(10):
            a + 1
            prof.step()
    one = ["ProfilerStep#2", "add", "ProfilerStep#3", "add"]
    two = ["ProfilerStep#6", "add", "ProfilerStep#7", "add"]
    assert seen == [(4, one), (8, two)]
    with profile(schedule=steps, acc_events=True) as prof:
        for _ in range(10):
            a + 1
            prof.step()
    assert names(prof) == one + two


def test_a_profile_cut_short_calls_back_too():
    seen = []
    with profile(
        schedule=schedule(wait=0, warmup=1, active=5),
        on_trace_ready=lambda p: seen.append(len(p.events())),
    ) as prof:
        for _ in range(3):
            fa.ones(1)
            prof.step()
    assert len(seen) == 1 and seen[0] >= 4
    with pytest.raises(RuntimeError, match="finish"):
        profile().events()


def test_traces_are_json_of_complete_events(tmp_path):
    with profile(record_shapes=True, with_flops=True) as prof, record_function("work", "batch 7"):
        fa.ones(2, 3) @ fa.ones(3, 4)
    prof.add_metadata("run", "first")
    plain, packed = tmp_path / "trace.json", tmp_path / "trace.json.gz"
    prof.export_chrome_trace(str(plain))
    prof.export_chrome_trace(str(packed))
    data = json.loads(plain.read_text())
    assert json.loads(gzip.decompress(packed.read_bytes()))["traceEvents"] == data["traceEvents"]
    assert data["run"] == "first"
    events = {e["name"]: e for e in data["traceEvents"] if e["ph"] == "X"}
    work, mm = events["work"], events["mm"]
    assert work["cat"] == "user_annotation" and work["args"]["text"] == "batch 7"
    assert mm["cat"] == "cpu_op" and mm["args"]["Input Dims"] == [[2, 3], [3, 4]]
    assert mm["args"]["flops"] == 48
    assert work["ts"] <= mm["ts"] and mm["ts"] + mm["dur"] <= work["ts"] + work["dur"]


def test_the_handler_writes_a_file_a_trace(tmp_path):
    handler = tensorboard_trace_handler(str(tmp_path / "log"), worker_name="w")
    with profile(on_trace_ready=handler):
        fa.ones(1)
    (file,) = (tmp_path / "log").iterdir()
    assert file.name.startswith("w.") and file.name.endswith(".pt.trace.json")


def test_stacks_for_flame_graphs(tmp_path):
    with profile() as prof, record_function("a b"):
        time.sleep(0.002)
    prof.export_stacks(str(tmp_path / "stacks"))
    frames, value = (tmp_path / "stacks").read_text().split()
    assert frames == "a_b" and int(value) >= 2000


def test_ranges_of_modules():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with profile(with_modules=True) as prof:
        net(fa.ones(1, 2))
    by = {e.name: e for e in prof.events()}
    assert by["relu"].cpu_parent.name == "nn.Module: ReLU"
    assert by["nn.Module: ReLU"].cpu_parent.name == "nn.Module: Sequential"
    assert "__call__" not in vars(nn.Module)


def test_record_function_decorates():
    @record_function("named")
    def work():
        return fa.ones(1)

    with profile() as prof:
        work()
    assert names(prof)[0] == "named"


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
def test_a_range_from_before_the_profile_ends_none_of_its_ranges():
    outer = record_function("before")
    outer.__enter__()
    with profile(schedule=schedule(wait=0, warmup=0, active=1, repeat=1)) as prof:
        outer.__exit__()
        fa.ones(1)
        prof.step()
    ones = next(e for e in prof.events() if e.name == "ones")
    assert ones.cpu_parent.name == "ProfilerStep#0"

    @record_function("again")
    def twice(n):
        return twice(n - 1) if n else fa.ones(1)

    with profile() as prof:
        twice(2)
    chain, event = [], next(e for e in prof.events() if e.name == "ones")
    while event is not None:
        chain.append(event.name)
        event = event.cpu_parent
    assert chain == ["ones", "again", "again", "again"]


def test_values_and_gradients_do_not_change():
    fa.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    x = fa.randn(5, 4, dtype=fa.float64)

    def run():
        net.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        return [loss.item(), *(p.grad.numpy().copy() for p in net.parameters())]

    plain = run()
    with profile(record_shapes=True, profile_memory=True, with_stack=True):
        watched = run()
    for a, b in zip(plain, watched, strict=True):
        np.testing.assert_array_equal(a, b)


def test_activities():
    assert ProfilerActivity.CPU in supported_activities()
    with pytest.raises(ValueError, match="activities"):
        profile(activities=[])
    with pytest.raises(NotImplementedError, match="experimental_config"):
        profile(experimental_config=object())


def test_the_older_profile():
    from facula.autograd import profiler

    with profiler.profile(record_shapes=True) as prof:
        fa.ones(2) + 1
    assert "add" in prof.key_averages().table(sort_by="self_cpu_time_total")
    assert [e.name for e in prof.function_events] == ["ones", "add"]
    with profiler.profile(enabled=False) as prof:
        fa.ones(2)
    with pytest.raises(RuntimeError, match="finish"):
        _ = prof.function_events


def test_an_observation_is_the_thread_s():
    import threading

    from facula import _C

    observation = _C._observe_start()
    errors = []

    def elsewhere():
        fa.ones(1) + 1
        try:
            _C._observe_stop(observation)
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match="has stopped"):
        _C._observe_events(observation)
    _C._observe_stop(observation)
    assert _C._observe_events(observation) == [] and "thread that started it" in errors[0]
    with pytest.raises(RuntimeError):
        _C._observe_stop(observation)
