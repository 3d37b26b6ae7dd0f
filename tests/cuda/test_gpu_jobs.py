"""Two processes with a GPU each: collectives over NCCL, and what trains by them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import facula as fa
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from rank_programs import PLAIN, run_ranks

pytestmark = pytest.mark.cuda
START = """
dist.init_process_group("nccl", timeout=60, device_id=place)
"""
MODEL = """
import facula.nn as nn
from facula.nn.parallel import DistributedDataParallel as DDP
def made(sync=False):
    fa.manual_seed(0)
    norm = nn.BatchNorm1d(32) if sync else nn.LayerNorm(32)
    return nn.Sequential(nn.Linear(16, 32), norm, nn.GELU(), nn.Linear(32, 32), nn.GELU(),
                         nn.Linear(32, 4)).double().to(place)
fa.manual_seed(1)
inputs, targets = fa.randn(6, 8, 16).double().to(place), fa.randn(6, 8, 4).double().to(place)
def losses(net, optimizer, mine):
    found = []
    for x, y in zip(inputs, targets):
        part = slice(rank * 4, rank * 4 + 4) if mine else slice(0, 8)
        loss = nn.functional.mse_loss(net(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        if mine:
            dist.all_reduce(loss, ReduceOp.AVG)
        found.append(loss.item())
    return found
def close(a, b):
    for x, y in zip(a, b):
        assert abs(x - y) <= 1e-9 * abs(y), (a, b)
"""


@pytest.fixture(autouse=True)
def pair() -> None:
    if fa.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")


def good(code: str, **variables: str) -> None:
    for status, said in run_ranks(code + '\nprint("good")\n', **variables):
        assert status == 0 and said.endswith("good\n"), said


def test_plain_collectives() -> None:
    for status, said in run_ranks(PLAIN):
        assert status == 0 and said.endswith("good\n"), said


def test_reductions_that_are_encoded() -> None:
    good(
        START
        + """
for kind in (fa.float32, fa.float64, fa.float16, fa.bfloat16):
    rows = [[1.0, fa.nan, -0.0, -5.0, fa.inf, -fa.inf], [2.0, 7.0, 0.0, fa.nan, 1.0, 1.0]]
    t = on(rows[rank], kind)
    dist.all_reduce(t, ReduceOp.MAX)
    assert str(t.tolist()) == "[2.0, nan, 0.0, nan, inf, 1.0]", t
    t = on(rows[rank], kind)
    dist.all_reduce(t, ReduceOp.MIN)
    assert str(t.tolist()) == "[1.0, nan, -0.0, nan, 1.0, -inf]", t
for kind in (fa.int16, fa.int8):
    t = on([1, 2, 3]).to(kind)
    dist.all_reduce(t)
    assert t.dtype == kind and t.float().tolist() == [2, 4, 6], kind
flags = on([True, False, rank == 0])
for op, values in {ReduceOp.SUM: [1, 0, 1], ReduceOp.PRODUCT: [1, 0, 0], ReduceOp.BXOR: [0, 0, 1],
                   ReduceOp.BAND: [1, 0, 0], ReduceOp.MAX: [1, 0, 1]}.items():
    for asynchronous in (False, True):
        t = flags.clone()
        work = dist.all_reduce(t, op, async_op=asynchronous)
        if work is not None:
            work.wait()
        assert t.int().tolist() == values, op
t = on([0])
dist.scatter(t, [on([5]), on([6])] if rank == 0 else None)
assert t.item() == 5 + rank
outs = [on([0, 0]), on([0, 0])]
dist.all_to_all(outs, [on([rank, 0]), on([rank, 1])])
assert [o.tolist() for o in outs] == [[0, rank], [1, rank]]
box = [None]
dist.scatter_object_list(box, ["p", "q"] if rank == 0 else None)
assert box == ["pq"[rank]]
got = [None, None]
dist.all_gather_object(got, {"rank": rank, "text": "x" * rank * 1000})
assert [g["rank"] for g in got] == [0, 1] and len(got[1]["text"]) == 1000
items = ["a", 5] if rank == 1 else [None, None]
dist.broadcast_object_list(items, src=1)
assert items == ["a", 5]
t = fa.arange(6.0, device=place).reshape(2, 3).t()
dist.all_reduce(t)
assert t.tolist() == [[0, 6], [2, 8], [4, 10]]
t = fa.zeros(4, 10, device=place)[:, ::2]
work = dist.broadcast(t.fill_(rank), 1, async_op=True)
work.wait()
assert (t == 1).all().item()
"""
    )


def test_streams_and_memory() -> None:
    """What runs beside a collective sees it whole, whatever memory is freed and taken meanwhile."""
    good(
        START
        + """
n = 1 << 22
for round in range(5):
    works, held = [], []
    for i in range(10):
        t = fa.full((n,), float(rank + i), device=place)
        t = t * 1                       # written just before
        works.append(dist.all_reduce(t, async_op=True))
        held.append(t)
        junk = [fa.full((n,), -1.0, device=place) for _ in range(3)]
        del junk
    for i, (work, t) in enumerate(zip(works, held)):
        work.wait()
        assert (t == 2 * i + 1).all().item(), (round, i)
    # nobody holds the tensor while it is on its way
    for _ in range(20):
        dist.all_reduce(fa.ones(n, device=place), async_op=True)
        x = fa.zeros(n, device=place)
        assert (x == 0).all().item()
side = fa.cuda.Stream()
t = fa.ones(n, device=place)
side.wait_stream(fa.cuda.current_stream())
with fa.cuda.stream(side):
    t.mul_(3)
    dist.all_reduce(t)
    t.add_(1)
fa.cuda.current_stream().wait_stream(side)
assert (t == 7).all().item()
# a graph records collectives
g = fa.cuda.Graph()
x = fa.ones(1000, device=place)
dist.all_reduce(x)
fa.cuda.synchronize()
x.fill_(1)
with g.capture():
    y = x * 2
    dist.all_reduce(y)
    y = y + 1
for value in (1.0, 5.0):
    x.fill_(value)
    g.replay()
    fa.cuda.synchronize()
    assert (y == 4 * value + 1).all().item(), y
g.reset()
"""
    )


@pytest.mark.parametrize(
    "way",
    [
        "DDP(net, device_ids=[rank])",
        "DDP(net, bucket_cap_mb=1e-3, gradient_as_bucket_view=True)",
        "DDP(net, find_unused_parameters=True)",
        "sharded(net)",
    ],
)
def test_training_is_that_of_one_process(way: str) -> None:
    good(
        START
        + MODEL
        + f"""
from facula.distributed.fsdp import fully_shard
def sharded(net):
    for layer in (net[0], net[3], net[5]):
        fully_shard(layer)
    return fully_shard(net)
net = made()
alone = losses(net, fa.optim.AdamW(net.parameters(), 0.01), False)
net = made()
net = {way}
together = losses(net, fa.optim.AdamW(net.parameters(), 0.01), True)
close(together, alone)
"""
    )


def test_other_ways_to_train() -> None:
    """Batch norm over processes, a shared optimizer, layers in parts."""
    good(
        START
        + MODEL
        + """
net = made(sync=True)
alone = losses(net, fa.optim.Adam(net.parameters(), 0.01), False)
net = nn.SyncBatchNorm.convert_sync_batchnorm(made(sync=True))
net = DDP(net)
from facula.distributed.optim import ZeroRedundancyOptimizer
zero = ZeroRedundancyOptimizer(net.parameters(), fa.optim.Adam, lr=0.01)
close(losses(net, zero, True), alone)
from facula.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
net = made()
alone = losses(net, fa.optim.SGD(net.parameters(), 0.05), False)
mesh = dist.init_device_mesh("cuda", (2,))
net = parallelize_module(made(), mesh, {"3": ColwiseParallel(), "5": RowwiseParallel()})
close(losses(net, fa.optim.SGD(net.parameters(), 0.05), False), alone)
import facula.distributed.nn as dn
x = on([1.0 + rank, 2.0]).requires_grad_()
y = fa.stack(dn.all_gather(x))
(y * on([[1.0, 2], [3, 4]])).sum().backward()
assert x.grad.tolist() == ([2, 4] if rank == 0 else [6, 8])
"""
    )


def test_autocast_and_scaling() -> None:
    good(
        START
        + MODEL
        + """
net = nn.parallel.DistributedDataParallel(made().float())
optimizer, scaler = fa.optim.SGD(net.parameters(), 0.01), fa.amp.GradScaler("cuda")
found = []
for _ in range(20):
    with fa.autocast("cuda"):
        loss = nn.functional.mse_loss(net(inputs[0].float()), targets[0].float())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    found.append(loss.item())
assert found[-1] < found[0], found
every = [None, None]
dist.all_gather_object(every, [p.double().sum().item() for p in net.parameters()])
assert every[0] == every[1]
"""
    )


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("rank and os.kill(os.getpid(), signal.SIGKILL)", "rank 1 is lost"),
        ("rank and time.sleep(20)", "all_reduce: not complete after 5 s"),
    ],
)
def test_what_goes_wrong_is_heard(fault: str, expected: str) -> None:
    code = (
        START.replace("60", "5")
        + f"""
t = fa.ones(1 << 20, device=place)
dist.all_reduce(t)
fa.cuda.synchronize()
begun = time.monotonic()
{fault}
try:
    dist.all_reduce(t)
    t.sum().item()
except RuntimeError as error:
    print(f"after {{time.monotonic() - begun:.1f}} s: {{error}}")
    sys.exit(4)
"""
    )
    status, said = run_ranks(code)[0]
    assert status == 4 and expected in said, said
    waited = re.search(r"after ([\d.]+) s", said)
    assert waited is not None and float(waited.group(1)) < 14
