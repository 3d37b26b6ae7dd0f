"""Programs of several processes, and what two do with tensors on devices: copies and sums alone,
which NCCL does and one that pretends."""

from __future__ import annotations

import os
import subprocess
import sys

RANKS = """
import os, signal, sys, time
import facula as fa
import facula.distributed as dist
from facula.distributed import ReduceOp
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = fa.device("cuda", rank)
fa.cuda.set_device(rank)
def on(value, dtype=None):  # by a copy, of two elements: the pretended driver runs no kernels
    t = fa.tensor(value, dtype=dtype)
    return fa.stack([t, t]).to(place)[0]
"""


def run_ranks(code: str, size: int = 2, **variables: str) -> list[tuple[int, str]]:
    """A program in `size` processes of one job: the status of each, and what it printed."""
    import socket
    import textwrap

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    env = {
        **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size),
        "FACULA_DISTRIBUTED_PATIENCE": "4", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        **variables,
    }  # fmt: skip
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RANKS + textwrap.dedent(code)],
            env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(size)
    ]  # fmt: skip
    try:
        said = [p.communicate(timeout=40)[0] for p in running]
    finally:
        for p in running:
            p.kill()
    return [(p.returncode, text) for p, text in zip(running, said, strict=True)]


PLAIN = """
dist.init_process_group("nccl", timeout=60)
assert dist.get_backend() == "nccl" and dist.is_nccl_available()
other = 1 - rank

for kind in (fa.float16, fa.bfloat16, fa.float32, fa.float64, fa.complex64, fa.complex128, fa.uint8,
             fa.int8, fa.int32, fa.int64):
    t = on([1 + rank, 2, 3], kind)
    dist.all_reduce(t)
    assert t.dtype == kind and t.cpu().to(fa.complex128).real.tolist() == [3, 4, 6], (kind, t.cpu())
for op, expected in ((ReduceOp.PRODUCT, [2, 12]), (ReduceOp.MAX, [2, 4]), (ReduceOp.MIN, [1, 3])):
    t = on([1 + rank, 3 + rank])
    dist.all_reduce(t, op)
    assert t.tolist() == expected, op
t = on([1.0 + rank, 4.0])
dist.all_reduce(t, ReduceOp.AVG)
assert t.tolist() == [1.5, 4.0]
t = on([1.0 + rank, 4.0])
dist.reduce(t, 1)
assert rank == 0 or t.tolist() == [3, 8]
t = on([rank, 7, 8], fa.int16)  # no type of the library: bytes
dist.broadcast(t, 1)
assert t.tolist() == [1, 7, 8]
flags = on([rank == 1, True])
dist.broadcast(flags, 1)
assert flags.tolist() == [True, True]

out = on([[0, 0], [0, 0]])
dist.all_gather_into_tensor(out, on([rank, 5]))
assert out.tolist() == [[0, 5], [1, 5]]
parts = [on([0.0, 0.0]) for _ in range(2)]
dist.all_gather(parts, on([rank + 0.5, 1]))
assert [p.tolist() for p in parts] == [[0.5, 1], [1.5, 1]]
out = on([0.0, 0.0])
dist.reduce_scatter_tensor(out, on([1.0, 2, 3, 4]))
assert out.tolist() == ([2, 4] if rank == 0 else [6, 8])
dist.reduce_scatter_tensor(out, on([[1.0 + rank, 2], [3, 4]]), ReduceOp.AVG)
assert out.tolist() == ([1.5, 2] if rank == 0 else [3, 4])
parts = [on([0]) for _ in range(2)]
dist.gather(on([rank + 3]), parts if rank == 1 else None, dst=1)
assert rank == 0 or [p.item() for p in parts] == [3, 4]
out = on([0, 0])
dist.all_to_all_single(out, on([10 * rank, 10 * rank + 1]))
assert out.tolist() == [rank, 10 + rank]
gives = [[1, 2], [0, 3]]
takes = [row[rank] for row in gives]
out = on([0] * sum(takes))
dist.all_to_all_single(out, on([100 * rank + i for i in range(3)]), takes, gives[rank])
assert out.tolist() == ([0] if rank == 0 else [1, 2, 100, 101, 102])

# several at a time
ts = [on([float(rank + i)] * 1000) for i in range(8)]
works = [dist.all_reduce(t, async_op=True) for t in ts]
for work in reversed(works):
    assert work.wait() and isinstance(work, dist.Work)
assert [t[:1].item() for t in ts] == [1.0 + 2 * i for i in range(8)]
assert all(w.is_completed() and w.is_success() and w.exception() is None for w in works)
assert works[0].get_future().wait()[0].tolist() == [1.0] * 1000
ts = [on([1.0]), on([2, 3])]
dist.all_reduce_coalesced(ts)
assert [t.tolist() for t in ts] == [[2], [4, 6]]
outs = [[on([0]), on([0, 0])] for _ in range(2)]
work = dist.all_gather_coalesced(outs, [on([rank]), on([rank, 9])], async_op=True)
work.wait()
assert [[t.tolist() for t in o] for o in outs] == [[[0], [0, 9]], [[1], [1, 9]]]

# messages
if rank == 0:
    dist.send(on([1.5, 2]), 1)
else:
    t = on([0.0, 0.0])
    assert dist.recv(t, 0) == 0 and t.tolist() == [1.5, 2]
t = on([0, 0])
works = dist.batch_isend_irecv([dist.P2POp(dist.isend, on([rank, 7]), other),
                                dist.P2POp(dist.irecv, t, other)])
for work in works:
    work.wait()
assert t.tolist() == [other, 7]
work = dist.isend(on([rank, 8]), other)
coming = dist.irecv(t, other)
assert coming.source_rank() == other and t.tolist() == [other, 8] and work.wait()

# groups and barriers
alone = dist.new_group([rank]) if rank == 0 else dist.new_group([0])
both = dist.new_group([0, 1])
if rank == 0:
    t = on([3.0])
    dist.all_reduce(t, group=alone)
    assert t.item() == 3
t = on([3.0])
dist.all_reduce(t, group=both)
assert t.item() == 6
dist.barrier()
dist.barrier(timeout=30)
t = on([])
dist.all_reduce(t)

# what is refused
def refused(kind, words, call, *args, **more):
    try:
        call(*args, **more)
    except kind as error:
        assert words in str(error), error
    else:
        raise SystemExit(f"not refused: {words}")
refused(ValueError, "cpu", dist.all_reduce, fa.ones(2))
refused(ValueError, "cuda:nccl", dist.all_reduce, fa.ones(2))
refused(NotImplementedError, "BAND", dist.all_reduce, on([1]), ReduceOp.BAND)
refused(NotImplementedError, "PRODUCT", dist.all_reduce, on([1j]), ReduceOp.PRODUCT)
refused(TypeError, "AVG", dist.all_reduce, on([1]), ReduceOp.AVG)
refused(ValueError, "tag", dist.isend, on([1]), other, tag=3)
dist.all_reduce(fa.empty(3, device="meta"))
dist.destroy_process_group()

# a job after a job, with a device that is told
dist.init_process_group("cuda:nccl", timeout=60, device_id=place)
t = on([1.0])
dist.all_reduce(t)
assert t.item() == 2
dist.destroy_process_group()
print("good")
"""
