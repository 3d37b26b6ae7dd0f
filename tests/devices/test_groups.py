"""`facula.compile` on devices of packages: groups through the device interface, and without it.

The oracle is the device itself, call by call, which the conformance kit holds against the CPU.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import facula as fa
import pytest
from facula import _C

sys.path.append(str(Path(__file__).parents[1] / "cuda"))
import group_programs
import row_programs


def captured(function: Callable[[], Any], check: bool = False, wait: bool = True) -> Any:
    with _C._Capture(False, check, False, wait):
        return function()


def shown(t: fa.Tensor) -> Any:
    host = t.detach().cpu()
    numbers = [repr(v) for v in host.reshape(-1).double().tolist()]
    return tuple(t.shape), t.stride(), str(t.dtype), numbers


def chain(x: fa.Tensor, y: fa.Tensor) -> list[fa.Tensor]:
    t = (x * y + 0.3).tanh()
    return [t * x, fa.where(t > 0, t, y) - 1]


@pytest.mark.parametrize("dtype", [fa.float32, fa.bfloat16, fa.float16, fa.float64])
def test_a_chain_is_one_launch(strict: ctypes.CDLL, dtype: fa.dtype) -> None:
    x = fa.linspace(-2, 2, 700).reshape(7, 100).to(dtype).to("strict")
    for y in (x + 1, x[0], x[:, :1], (x + 1).t().contiguous().t(), fa.tensor(0.5).to("strict")):
        expected = list(map(shown, chain(x, y)))
        fa.strict.synchronize()
        before = strict.count_launches()
        found = captured(lambda y=y: chain(x, y))
        assert strict.count_launches() - before == 1
        assert list(map(shown, found)) == expected


def norm(x: fa.Tensor, weight: fa.Tensor) -> list[fa.Tensor]:
    """RMSNorm with its casts, and values that are cast to and fro within a group."""
    wide = x.float()
    scale = (wide * wide).mean(-1, keepdim=True)
    made = (wide * (scale + 1e-6).rsqrt()).to(x.dtype)
    return [made * weight, made.double() - 1, (wide + 0.1).half().bfloat16().float(), x.double()]


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("dtype", [fa.float32, fa.bfloat16, fa.float16, fa.float64])
def test_casts_join_and_reductions_end_groups(dtype: fa.dtype, check: bool) -> None:
    x = fa.linspace(-2, 2, 700).reshape(7, 100).to(dtype).to("strict")
    weight = fa.linspace(0.5, 1, 100).to(dtype).to("strict")
    expected = list(map(shown, norm(x, weight)))
    assert list(map(shown, captured(lambda: norm(x, weight), check))) == expected


def test_a_chain_with_casts_is_one_launch(strict: ctypes.CDLL) -> None:
    x = fa.linspace(-2, 2, 700).to("strict").bfloat16()

    def run() -> list[fa.Tensor]:
        y = ((x.float() * 0.3 + 1).half() * x.half()).float()
        return [y.bfloat16(), y]

    expected = list(map(shown, run()))
    fa.strict.synchronize()
    before = strict.count_launches()
    found = captured(run)
    assert strict.count_launches() - before == 1
    assert list(map(shown, found)) == expected


@pytest.mark.parametrize("program", row_programs.PROGRAMS)
@pytest.mark.parametrize("dtype", [fa.float32, fa.bfloat16])
def test_rows(
    strict: ctypes.CDLL, program: Callable[..., list[fa.Tensor]], dtype: fa.dtype
) -> None:
    """Reductions over last dims, what they take and what follows: the device's own bits."""
    x = (fa.arange(42 * 60) % 37 / 9 - 2).reshape(42, 60).to(dtype).to("strict")
    weight = fa.linspace(-1, 1, 60).to(dtype).to("strict")
    for check in (False, True):
        for given in (x, x.reshape(6, 7, 60)):
            expected = list(map(shown, program(given, weight)))
            found = captured(lambda g=given, c=program: c(g, weight), check)
            assert list(map(shown, found)) == expected
    alone, together = (
        launches(strict, lambda: program(x, weight)),
        launches(strict, lambda: captured(lambda: program(x, weight))),
    )
    assert together < alone


def launches(strict: ctypes.CDLL, call: Callable[[], Any]) -> int:
    fa.strict.synchronize()
    before = strict.count_launches()
    call()
    fa.strict.synchronize()
    return int(strict.count_launches() - before)


def test_a_softmax_written_out_is_one_launch(strict: ctypes.CDLL) -> None:
    x = fa.linspace(-2, 2, 700).reshape(7, 100).to("strict")
    weight = fa.linspace(-2, 2, 100).to("strict")
    for program in (row_programs.softmax, row_programs.residual, row_programs.gradient):
        assert launches(strict, lambda p=program: captured(lambda: p(x, weight))) == 1


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("check", [False, True])
def test_what_is_no_row_keeps_its_order(check: bool) -> None:
    """Other dims, in-place writes between, views of what is made, square shapes."""

    def run() -> list[fa.Tensor]:
        x = fa.linspace(-3, 3, 1600).to("strict").reshape(40, 40)
        y = x * 2
        first = y.sum(0)
        top = y.amax(-1)
        y.sub_(top.unsqueeze(-1))
        late = y.sum(-1)
        z = (y + 1).t()
        other = z - z.sum(-1, keepdim=True)
        wrong_way = y * late + top.unsqueeze(-1)
        part = (y * 3)[:, :20]
        some = part - part.amax(1, keepdim=True)
        both = (y.reshape(4, 10, 40) * 2).sum((1, 2))
        single = (x[:1] * 2) - (x[:1] * 2).sum(-1, keepdim=True)
        empty = (x[:0] * 2).sum(-1)
        return [first, top, y, late, other, wrong_way, some, both, single, empty, y.sum() * 2]

    expected = list(map(shown, run()))
    assert list(map(shown, captured(run, check))) == expected


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("check", [False, True])
def test_what_is_copied_runs_in_its_order(check: bool) -> None:
    """Copies that do not join, to integers and elsewhere, between calls that do, here and there."""
    host = fa.linspace(-3, 3, 20_000)
    x = host.to("strict").reshape(100, 200)

    def run() -> list[fa.Tensor]:
        y = x * 2
        wide, kept = y.double(), y.clone()
        y.add_(1)
        late = y.t().contiguous()
        back = y.half().cpu()
        mixed = (host * 3).half() + 1
        there = mixed.to("strict").float() * 2
        return [wide, kept, y, late, back, mixed, there, y.int().float(), mixed.sum(), y.amax(0)]

    expected = list(map(shown, run()))
    assert list(map(shown, captured(run, check))) == expected


@pytest.mark.usefixtures("strict")
def test_random_programs() -> None:
    for seed in range(80):
        eager = list(map(shown, group_programs.program(seed, "strict")))
        for check in (False, True):
            found = captured(lambda s=seed: group_programs.program(s, "strict"), check)
            assert list(map(shown, found)) == eager, f"program {seed}"


def test_without_the_function_calls_run_at_once(numpyfied: str) -> None:
    x = fa.linspace(-1, 1, 10).to(numpyfied)
    expected = [shown(t) for t in chain(x, x + 1)]
    assert [shown(t) for t in captured(lambda: chain(x, x + 1))] == expected
    assert fa.compiler.explain(chain, x, x).groups == ()


@pytest.mark.usefixtures("strict")
def test_streams_and_events_come_after_what_was_called_before() -> None:
    side = fa.strict.Stream()
    x = fa.ones(4000, device="strict")

    @fa.compile
    def run() -> fa.Tensor:
        y = x * 2 + 1
        event = fa.strict.current_stream().record_event()
        with side:
            side.wait_event(event)
            z = y * 3 + x
            done = side.record_event()
        fa.strict.current_stream().wait_event(done)
        return z + y

    for _ in range(20):
        assert (run() == 13).all().item()


@pytest.mark.usefixtures("strict")
def test_graphs_hold_what_was_called_within() -> None:
    x = fa.ones(1000, device="strict")
    fa.strict.synchronize()
    graph = fa.strict.Graph()

    @fa.compile
    def run() -> fa.Tensor:
        before = x + 1
        with graph.capture():
            inside = x * 2 + 1
        graph.replay()
        return before + inside

    assert (run() == 5).all().item()
    x.fill_(2)
    graph.replay()


def test_a_launch_that_fails_is_an_error(strict: ctypes.CDLL) -> None:
    x = fa.ones(1000, device="strict")
    run = fa.compile(lambda: chain(x, x))
    expected = list(map(shown, run()))
    strict.fail_launch(1)
    with pytest.raises(RuntimeError, match="strict:0"):
        run()
        fa.strict.synchronize()
    strict.fail_launch(0)
    assert list(map(shown, run())) == expected


@pytest.mark.usefixtures("strict")
def test_two_devices_and_the_cpu_in_one_function() -> None:
    @fa.compile
    def run(a: fa.Tensor, b: fa.Tensor, c: fa.Tensor) -> list[fa.Tensor]:
        a, b, c = a * 2, b * 3, c * 4
        a, b, c = a + 1, b + 1, c + 1
        return [a - 0.5, b - 0.5, c - 0.5]

    given = fa.ones(20_000)
    a, b, c = run(given.to("strict:0"), given.to("strict:1"), given)
    assert [str(t.device) for t in (a, b, c)] == ["strict:0", "strict:1", "cpu"]
    for t, value in ((a, 2.5), (b, 3.5), (c, 4.5)):
        assert (t.cpu() == value).all().item()


@pytest.mark.usefixtures("strict")
def test_a_device_after_the_cpu() -> None:
    """The same record in all but its place has a plan of its own."""

    @fa.compile
    def run(x: fa.Tensor) -> fa.Tensor:
        return (x * 2 + 1).sqrt() * 0.25 + x

    given = fa.full((20_000,), 4.0)
    for place in ("cpu", "strict", "cpu", "strict:1"):
        found = run(given.to(place))
        assert found.device.type == place.split(":")[0]
        assert (found.cpu() == 4.75).all().item()


@pytest.mark.usefixtures("strict")
def test_many_tensors_are_several_groups() -> None:
    given = [fa.full((50,), float(i), device="strict") for i in range(40)]

    def run() -> fa.Tensor:
        total = given[0] * 1
        for t in given:
            total = total + t * 0.5
        return total

    assert captured(run).tolist() == run().tolist()
    found = fa.compiler.explain(run)
    assert len(found.groups) > 1


@pytest.mark.usefixtures("strict")
def test_explain_names_the_operators() -> None:
    x = fa.ones(100, device="strict")
    found = fa.compiler.explain(chain, x, x)
    assert [name for name, _ in found.groups[0].operators][:3] == ["mul", "add", "tanh"]


@pytest.mark.usefixtures("strict")
def test_explain_tells_of_rows() -> None:
    x = fa.ones(30, 100, device="strict")
    found = fa.compiler.explain(row_programs.softmax, x, x[0])
    names = [[name for name, _ in group.operators] for group in found.groups]
    assert names == [["mul", "add"], ["amax"], ["sub", "exp"], ["sum"], ["div"]]
    assert all("one call with the one before" in group.apart for group in found.groups[1:])
