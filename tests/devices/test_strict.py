"""The strict device: separate memory, work that runs later, two devices, failures on demand."""

from __future__ import annotations

import argparse
import ctypes
import gc
import subprocess
import sys
import threading
from pathlib import Path

import facula as fa
import numpy as np
import pytest
from device_packages import environment
from facula import backends, nn, optim
from facula.testing import conformance
from facula.testing._arguments import Around
from facula.utils.data import DataLoader

pytestmark = pytest.mark.usefixtures("strict")
KERNELS = {"bmm", "index_long", "index_put_long"}  # what the pages promise: three train a model


@pytest.fixture
def emptied() -> None:
    """Device memory without tensors of earlier tests, which caught errors hold in cycles."""
    gc.collect()
    fa.strict.empty_cache()


def in_process(library: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process of its own, with other environment variables."""
    start = f"""
import ctypes
import facula as fa, numpy as np
from facula import backends
library = ctypes.CDLL({str(library)!r})
backends.load_library({str(library)!r})
"""
    return subprocess.run(
        [sys.executable, "-c", start + script],
        capture_output=True, text=True, env={**environment(), **variables}, check=False,
    )  # fmt: skip


def test_conformance() -> None:
    report = conformance.run("strict")
    assert not report.failures, "\n".join(map(str, report.failures[:20]))
    assert report.checks > 10_000
    assert sum(way == "by formula" for way in report.ways.values()) > 100


def test_the_kit_takes_little_memory_beside_large_results(emptied: None) -> None:
    """Neighbours of a result are looked for within a quarter of a gigabyte, whatever its size."""
    before = fa.strict.memory_allocated()
    small, large = (Around([fa.empty(n)], "strict") for n in (1 << 15, 1 << 25))
    assert small.watched and fa.strict.memory_allocated() - before <= (1 << 28) + (1 << 23)
    del small, large
    fa.strict.empty_cache()


def test_names() -> None:
    assert str(fa.device("strict:1")) == "strict:1" and fa.device("strict").index is None
    x = fa.ones(2, device="strict")
    assert str(x.device) == "strict:0" and x.is_strict and not x.is_cpu
    assert repr(x) == "tensor([1., 1.], device='strict:0')"
    assert fa.ones(2).strict(1).device == fa.device("strict:1")
    assert fa.strict.get_device_name(1) == "Strict 1"
    assert "strict" in backends.names()


def test_current_device() -> None:
    with fa.strict.device(1):
        assert fa.empty(1, device="strict").device.index == 1
        assert fa.empty(1, device="strict:0").device.index == 0
    assert fa.strict.current_device() == 0


@pytest.mark.parametrize("touch", ["read", "write"])
def test_memory_faults(strict_library: Path, touch: str) -> None:
    """Outside of kernels no byte can be reached."""
    act = "string_at(p, 1)" if touch == "read" else "memset(p, 0, 1)"
    script = (
        "x = fa.ones(4, device='strict')\np = x.data_ptr()\n"
        f"print(x.sum().item(), flush=True)\nctypes.{act}"
    )
    done = in_process(strict_library, script)
    assert done.stdout == "4.0\n" and done.returncode == -11


def test_work_runs_later() -> None:
    x = fa.ones(4, device="strict")
    fa.strict.synchronize()
    stream = fa.strict.current_stream()
    seen_busy = False
    for _ in range(50):
        y = x
        for _ in range(5):
            y = y + x
        seen_busy |= not stream.query()
        assert y.sum().item() == 24
    assert seen_busy


def test_streams_and_events() -> None:
    start, end = fa.strict.Event(enable_timing=True), fa.strict.Event(enable_timing=True)
    a, b = fa.strict.Stream(), fa.strict.Stream()
    start.record()
    x = fa.zeros(1000, device="strict")
    a.wait_stream(fa.strict.current_stream())
    with fa.strict.stream(a):
        assert fa.strict.current_stream() == a
        for _ in range(100):
            x += 1
    b.wait_stream(a)
    with b:
        y = x * 2
        y.record_stream(fa.strict.default_stream())
    fa.strict.current_stream().wait_stream(b)
    assert (y == 200).all().item()
    end.record()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) > 0
    with pytest.raises(RuntimeError, match="enable_timing"):
        fa.strict.default_stream().record_event().elapsed_time(end)


def test_a_stream_is_left_as_often_as_it_is_entered() -> None:
    first, side = fa.strict.current_stream(), fa.strict.Stream()
    with side, side, fa.strict.stream(side):
        assert fa.strict.current_stream() == side
    assert fa.strict.current_stream() == first


def test_memory_is_reused_in_the_order_of_streams(emptied: None) -> None:
    before = fa.strict.memory_stats()
    x = fa.ones(5000, device="strict")
    address = x.data_ptr()
    del x
    y = fa.ones(5000, device="strict")
    assert y.data_ptr() == address  # the same stream: in order
    with fa.strict.Stream():
        del y
        z = fa.ones(5000, device="strict")
        assert z.data_ptr() != address
    del z
    side = fa.strict.Stream()
    w = fa.ones(5000, device="strict")
    side.wait_stream(fa.strict.current_stream())
    with side:
        for _ in range(200):
            v = w * 1
    w.record_stream(side)
    address = w.data_ptr()
    del w
    others = [fa.full((5000,), 7.0, device="strict") for _ in range(3)]
    side.synchronize()
    assert (v == 1).all().item()
    after = fa.strict.memory_stats()
    assert after["reused"] > before["reused"]
    before = fa.strict.memory_reserved()
    del others, v
    fa.strict.empty_cache()
    assert fa.strict.memory_reserved() < before


def test_blocks_are_split_and_merged(emptied: None) -> None:
    at_first = fa.strict.memory_reserved()

    def block(mib: int) -> fa.Tensor:
        return fa.empty(mib << 20, dtype=fa.uint8, device="strict")

    whole = block(64)
    start, reserved = whole.data_ptr(), fa.strict.memory_reserved()
    del whole
    parts = [block(16) for _ in range(4)]
    assert [p.data_ptr() - start for p in parts] == [i << 24 for i in range(4)]
    del parts[1:3]  # neighbours
    middle = block(30)
    assert middle.data_ptr() - start == 1 << 24
    parts.append(block(2))
    assert parts[-1].data_ptr() - start == 46 << 20
    del parts, middle
    assert block(64).data_ptr() == start
    assert fa.strict.memory_reserved() == reserved
    small = [fa.ones(8, device="strict") for _ in range(100)]  # share a piece
    assert fa.strict.memory_reserved() <= reserved + (2 << 20)
    assert (fa.stack(small) == 1).all().item()
    del small
    fa.strict.empty_cache()
    assert fa.strict.memory_reserved() == at_first


def test_random_blocks_do_not_overlap() -> None:
    """Each keeps what was written to it, whatever is freed and split beside it."""
    rng = np.random.default_rng(11)
    held: dict[int, fa.Tensor] = {}
    for turn in range(600):
        if held and rng.random() < 0.48:
            key = int(rng.choice(list(held)))
            assert (held.pop(key) == key).all().item()
        else:
            size = int(2 ** rng.uniform(0, 21))
            held[turn] = fa.full((size,), float(turn), device="strict")
    for key, tensor in held.items():
        assert (tensor == key).all().item()


CACHELESS = """
x = fa.full((5000,), 3.0, device="strict")
y = x + 1
del y
assert fa.strict.memory_reserved() == fa.strict.memory_allocated()
graph = fa.strict.Graph()
with graph.capture():
    between = x + 1
    z = between * 2
    del between
graph.replay()
fa.strict.synchronize()
assert (z == 8).all().item()
del z
graph.reset()
assert fa.strict.memory_reserved() == fa.strict.memory_allocated()
"""


def test_without_a_cache(strict_library: Path) -> None:
    done = in_process(strict_library, CACHELESS, FACULA_DEVICE_CACHE="0")
    assert done.returncode == 0, done.stderr


EXPANDABLE = """
def block(mib):
    return fa.full((mib << 18,), float(mib), device="strict")

def holds(tensor, mib):
    return (tensor.cpu() == mib).all().item()

library.set_memory(0, ctypes.c_size_t(100 << 20))
first = block(60)
del first
kept = block(30)
try:
    y = block(60)  # what is free beside the kept one serves, and more behind it
    assert holds(y, 60) and holds(kept, 30)
    print("fits", fa.strict.memory_reserved() >> 20)
    del kept  # in front: its chunks can go, and others stand behind the last
    fa.strict.empty_cache()
    assert fa.strict.memory_reserved() == 80 << 20
    z = block(15)
    assert holds(y, 60) and holds(z, 15)
    try:
        block(60)
        raise SystemExit("no error")
    except fa.OutOfMemoryError as error:
        assert "is full" in str(error)
    assert holds(y, 60) and holds(z, 15)
    del y, z
    with fa.strict.Stream():  # what the other stream keeps is given back first
        assert holds(block(80), 80)
except fa.OutOfMemoryError:
    print("out of memory")
    del kept
fa.strict.empty_cache()
assert fa.strict.memory_reserved() == 0, fa.strict.memory_stats()
library.set_memory(0, ctypes.c_size_t(2 << 30))

for _ in range(40):  # addresses are not spent on what no range can hold
    try:
        fa.empty(1 << 34, device="strict")
        raise SystemExit("no error")
    except fa.OutOfMemoryError:
        pass
rng = np.random.default_rng(5)
held = {}
streams = [fa.strict.default_stream(), fa.strict.Stream()]
for turn in range(400):
    if held and rng.random() < 0.48:
        key = int(rng.choice(list(held)))
        stream, tensor = held.pop(key)
        with stream:
            assert (tensor == key).all().item()
    else:
        stream = streams[int(rng.integers(2))]
        with stream:
            size = int(2 ** rng.uniform(0, 23))
            held[turn] = stream, fa.full((size,), float(turn), device="strict")
    if turn % 50 == 49:
        fa.strict.empty_cache()
for key, (stream, tensor) in held.items():
    with stream:
        assert (tensor == key).all().item()
del held, tensor
graph = fa.strict.Graph()
x = fa.full((5000,), 3.0, device="strict")
fa.strict.synchronize()
with graph.capture():
    y = (x + 1) * 2
    fa.strict.empty_cache()
graph.replay()
fa.strict.synchronize()
assert (y == 8).all().item()
graph.reset()
del x, y
fa.strict.empty_cache()
assert fa.strict.memory_reserved() == 0, fa.strict.memory_stats()
"""


@pytest.mark.parametrize(("wanted", "found"), [("0", "out of memory"), ("1", "fits 100")])
def test_segments_expand(strict_library: Path, wanted: str, found: str) -> None:
    done = in_process(strict_library, EXPANDABLE, FACULA_DEVICE_EXPANDABLE=wanted)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == found


def test_memory_is_summed_up(emptied: None) -> None:
    x = fa.zeros(3 << 20, dtype=fa.uint8, device="strict:1")
    text = fa.strict.memory_summary(1)
    stats = fa.strict.memory_stats(x.device)
    assert text.startswith("memory of strict:1\n")
    assert fa.strict.max_memory_reserved(1) == stats["peak_reserved"] >= stats["reserved"]
    assert f"{stats['allocated'] / 2**20:,.2f} MiB" in text and stats["allocated"] >= 3 << 20
    assert f"{stats['allocations']:,}\n" in text


def test_out_of_memory(strict: ctypes.CDLL, emptied: None) -> None:
    strict.set_memory(0, ctypes.c_size_t(64 << 20))
    try:
        with pytest.raises(
            fa.OutOfMemoryError, match="strict:0 is out of memory: 268435456 bytes"
        ) as error:
            fa.empty(64 << 20, device="strict")
        assert isinstance(error.value, RuntimeError) and "is full" in str(error.value)
        # freed blocks that are kept are given back before that
        blocks = [fa.empty(1 << 20, device="strict") for _ in range(10)]
        del blocks
        assert fa.empty(8 << 20, device="strict").numel() == 8 << 20
        assert fa.strict.memory_stats()["retries"] > 0
    finally:
        strict.set_memory(0, ctypes.c_size_t(2 << 30))
    assert fa.ones(3, device="strict").sum().item() == 3


def test_failed_launch(strict: ctypes.CDLL) -> None:
    x = fa.ones(3, device="strict")
    fa.strict.synchronize()
    strict.fail_launch(1)
    with pytest.raises(RuntimeError, match="strict:0: add: injected launch failure"):
        x + x
    assert (x + x).sum().item() == 6


def test_late_errors_surface_at_synchronisation() -> None:
    x = fa.ones(3, 2, device="strict")
    y = x[fa.tensor([5]).strict()]
    with pytest.raises((IndexError, RuntimeError), match="out of range"):
        fa.strict.synchronize()
    del y
    fa.strict.synchronize()


def test_peer_copies() -> None:
    x = fa.arange(1000.0, device="strict:0")
    for _ in range(20):
        x = x + 1
    y = x.to("strict:1")
    x.zero_()
    assert y.device.index == 1 and y.cpu().tolist() == list(range(20, 1020))
    with pytest.raises(RuntimeError, match=r"strict:0.*strict:1"):
        x + y


def test_two_vendors(numpyfied: str) -> None:
    x = fa.arange(6.0, device="strict:1").reshape(2, 3).t()
    y = x.to(numpyfied)
    assert y.device.type == numpyfied and y.tolist() == [[0, 3], [1, 4], [2, 5]]
    with pytest.raises(RuntimeError, match="one device"):
        x + y


def test_pinned_memory() -> None:
    x = fa.arange(10000.0)
    p = x.pin_memory("strict")
    assert p.is_pinned() and not x.is_pinned() and p.pin_memory() is not x and p[5:].is_pinned()
    y = p.to("strict", non_blocking=True)
    del p  # the copy is still to run
    assert fa.equal(y.cpu(), x)
    leaf = fa.ones(3, requires_grad=True)
    leaf.to("strict", non_blocking=True).sum().backward()
    assert leaf.grad.tolist() == [1, 1, 1] and leaf.grad.is_cpu
    assert fa.ones(2, device="strict:1").to("strict").device.index == 0  # the current one
    target = fa.empty(10000).pin_memory("strict")
    target.copy_(y, non_blocking=True)
    fa.strict.synchronize()
    assert fa.equal(target, x)
    loader = DataLoader([(fa.ones(2), {"a": fa.ones(1)})] * 4, batch_size=2,
                                      pin_memory=True,
                                      pin_memory_device="strict")  # fmt: skip
    for batch, more in loader:
        assert batch.is_pinned() and more["a"].is_pinned()


def test_pinned_by_a_thread() -> None:
    data = [(fa.full((2,), float(i)), {"a": fa.ones(1)}) for i in range(8)]
    options: dict = {"batch_size": 2, "num_workers": 2, "pin_memory": True}
    for _ in range(2):
        for i, (batch, more) in enumerate(DataLoader(data, pin_memory_device="strict", **options)):
            assert batch.is_pinned() and more["a"].is_pinned() and batch[0, 0] == 2 * i
    assert not [t for t in threading.enumerate() if "pin_memory" in t.name]


def test_random_numbers() -> None:
    fa.strict.manual_seed(3)
    a, b = fa.rand(100, device="strict"), fa.rand(100, device="strict")
    state = fa.strict.get_rng_state()
    c = fa.rand(100, device="strict")
    fa.strict.set_rng_state(state)
    assert fa.equal(c, fa.rand(100, device="strict")) and not fa.equal(a, b)
    fa.manual_seed(3)
    assert fa.equal(a.cpu(), fa.rand(100))  # a seed means the same on every device
    fa.manual_seed(3)
    assert fa.equal(a, fa.rand(100, device="strict"))
    assert fa.nn.functional.dropout(
        fa.ones(1000, device="strict"), 0.5
    ).mean().item() == pytest.approx(1, abs=0.2)


def test_fallback_is_counted_or_an_error() -> None:
    x = fa.tensor([3.0, 1.0, 2.0]).strict()
    backends.reset_fallbacks("strict")
    assert x.sort().values.tolist() == [1, 2, 3]
    assert backends.fallbacks("strict")["sort"] == 1
    with backends.allow_fallback("strict", False), pytest.raises(NotImplementedError) as error:
        x.sort()
    for words in (
        "sort(): has no kernel for device 'strict'",
        "Write a kernel for sort",
        "Signature: sort(Tensor self",
    ):
        assert words in str(error.value)
    assert set(backends.info("strict")["kernels"]) == KERNELS


def test_unsupported_dtype() -> None:
    with pytest.raises(TypeError, match="device 'strict' has no tensors of complex64"):
        fa.zeros(2, dtype=fa.complex64, device="strict")


def test_profiler_and_autocast_lists(strict: ctypes.CDLL) -> None:
    before = strict.count_ranges()
    with backends.profile("strict"):
        fa.ones(2, device="strict") + 1
    assert strict.count_ranges() > before
    found = backends.info("strict")
    assert found["autocast_dtype"] == "bfloat16" and found["autocast_lower"] == ["bmm"]


def test_module_and_optimizer_round_trip(tmp_path: Path) -> None:
    def train(device: str) -> tuple[nn.Module, list[float]]:
        fa.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)).to(
            device
        )
        optimizer = optim.AdamW(model.parameters(), lr=0.05)
        x, y = fa.rand(16, 4).to(device), fa.arange(16).remainder(3).to(device)
        losses = []
        for _ in range(8):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        fa.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "state"
        )
        return model, losses

    _, want = train("cpu")
    model, losses = train("strict:1")
    np.testing.assert_allclose(losses, want, rtol=1e-4)
    state = fa.load(tmp_path / "state")
    assert all(t.device == fa.device("strict:1") for t in state["model"].values())
    assert b"strict-device:1" in (tmp_path / "state").read_bytes()
    on_cpu = fa.load(tmp_path / "state", map_location="cpu")["model"]
    for name, value in model.state_dict().items():
        assert fa.equal(on_cpu[name], value.cpu())
    moved = fa.load(tmp_path / "state", map_location={"strict-device:1": "strict:0"})["model"]
    assert all(t.device == fa.device("strict:0") for t in moved.values())


def test_threads() -> None:
    wrong: list[object] = []

    def work(index: int) -> None:
        with fa.strict.device(index % 2), fa.strict.Stream():
            for i in range(20):
                x = fa.full((100,), float(i), device="strict")
                if (x + x).sum().item() != 200 * i:
                    wrong.append((index, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_language_model_trains(tmp_path: Path) -> None:
    """Forward, backward and optimizer, by the scaffold's templates and three kernels alone."""
    from facula.examples import charlm

    pytest.importorskip("tqdm")
    options = {"text": None, "steps": 12, "batch": 4, "context": 16, "lr": 1e-3}
    options |= {"prompt": "def ", "length": 5}
    backends.reset_fallbacks("strict")
    with backends.allow_fallback("strict", False):
        losses = [
            charlm.run(
                argparse.Namespace(**options, temperature=0.8, seed=0, out=tmp_path, device=d)
            )
            for d in ("cpu", "strict:1")
        ]
    assert backends.fallbacks("strict") == {}
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def test_digits_train(tmp_path: Path) -> None:
    for package in ("sklearn", "tqdm", "PIL"):
        pytest.importorskip(package)
    from facula.examples import digits

    assert digits.run(2, "strict", 0, tmp_path) > 0.8
