"""Models in stages: losses and gradients are those of one process with the whole model."""

from __future__ import annotations

CODE = """
import copy
from facula import nn
from facula.nn import functional as F
from facula.distributed.fsdp import fully_shard
from facula.distributed.pipelining import *
dist.init_process_group()

class Part(nn.Module):
    def __init__(self, i, stages):
        super().__init__()
        self.line = nn.Linear(6, 6)
        self.ends = i == stages - 1
    def forward(self, x, skip=None, shift=0.0):
        y = self.line(x).tanh() + (0 if skip is None else skip) + shift
        return y if self.ends else (y, x)  # of several tensors one may want no gradient

def whole(stages, seed=0):
    fa.manual_seed(seed)
    return nn.ModuleList(Part(i, stages) for i in range(stages)).double()

def through(parts, x):
    values = (x,)
    for part in parts:
        out = part(*values)
        values = out if isinstance(out, tuple) else (out,)
    return values[0]

g = fa.Generator().manual_seed(1)
x = fa.randn(12, 6, generator=g, dtype=fa.float64)
y = fa.randn(12, 6, generator=g, dtype=fa.float64)

def check(make, stages, micro, group=None, wrap=lambda m: m, rows=slice(None), **options):
    alone = whole(stages)
    group = group or dist.group.WORLD
    n, r = group.size(), group.rank()
    parts = [copy.deepcopy(alone[i]) for i in range(r, stages, n)]
    own = [PipelineStage(wrap(m), r + n * k, stages, "cpu", group=group)
           for k, m in enumerate(parts)]
    given = own if make is ScheduleInterleaved1F1B else own[0]
    schedule = make(given, micro, loss_fn=F.mse_loss, **options)
    first, last = r == 0, (stages - 1) % n == r
    for step in range(2):  # gradients add up
        losses = []
        out = schedule.step(*([x[rows]] if first else []), target=y[rows] if last else None,
                            losses=losses)
        expected = through(alone, x)
        loss = F.mse_loss(expected, y)
        if options.get("scale_grads", True):
            loss.backward()
        else:
            (loss * micro).backward()
        assert (out is None) == (not last) and len(losses) == (micro if last else 0)
        if last:
            fa.testing.assert_close(out, expected[rows].detach())
            if rows == slice(None):
                fa.testing.assert_close(sum(losses) / micro, loss.detach())
    for k, part in enumerate(parts):
        for a, b in zip(alone[r + n * k].parameters(), part.parameters(), strict=True):
            grad = b.grad.full_tensor() if hasattr(b.grad, "full_tensor") else b.grad
            fa.testing.assert_close(grad, a.grad, rtol=0, atol=1e-12)
    with fa.no_grad():
        out = schedule.eval(*([x[rows]] if first else []))
        if last:
            fa.testing.assert_close(out, expected[rows].detach())
    return schedule

for micro in (1, 4, 6):
    check(ScheduleGPipe, 4, micro)
    check(Schedule1F1B, 4, micro)
check(Schedule1F1B, 4, 3, scale_grads=False)
for micro in (4, 12):
    check(ScheduleInterleaved1F1B, 8, micro)
check(ScheduleInterleaved1F1B, 4, 6)

# how many microbatches a stage keeps
schedule = check(Schedule1F1B, 4, 6)
most = kept = 0
for is_forward, _, _ in schedule.actions():
    kept += 1 if is_forward else -1
    most = max(most, kept)
assert most == 4 - rank

# two pipelines of two stages, with each stage's parameters in parts or the same in both
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
mine = slice(6 * mesh.get_local_rank("dp"), 6 * mesh.get_local_rank("dp") + 6)
for wrap in (
    lambda m: fully_shard(m, mesh=mesh["dp"]),
    lambda m: nn.parallel.DistributedDataParallel(m, process_group=mesh.get_group("dp")),
):
    check(Schedule1F1B, 2, 3, mesh.get_group("pp"), wrap, mine)

# all stages in one process, and parts of several sizes
one = [dist.new_group([i]) for i in range(4)][rank]
check(ScheduleInterleaved1F1B, 3, 4, one)
parts = whole(1)
schedule = ScheduleGPipe(PipelineStage(parts[0], 0, 1, "cpu", group=one), 5)
out = schedule.step(x[:7], shift=fa.ones(7, 1))
fa.testing.assert_close(out, parts[0](x[:7], shift=1.0).detach())

module = nn.Linear(6, 6).double()
stage = PipelineStage(module, 0, 1, "cpu", group=one)
for wrong, kind, text in (
    (lambda: PipelineStage(module, 4, 4, "cpu"), ValueError, "give 0 to 3"),
    (lambda: PipelineStage(module, 0, 6, "cpu"), ValueError, "multiple of the 4"),
    (lambda: PipelineStage(module, (rank + 1) % 4, 4, "cpu"), ValueError, "belongs to rank"),
    (lambda: ScheduleGPipe(stage, 0), ValueError, "n_microbatches is 0"),
    (lambda: ScheduleGPipe(stage, 2, args_chunk_spec=1), NotImplementedError, "chunk specs"),
    (lambda: Schedule1F1B(PipelineStage(module, 0, 2, "cpu", group=one), 2), ValueError, "Inter"),
    (lambda: ScheduleInterleaved1F1B([stage, stage], 2), ValueError, "stages are [0, 0]"),
    (lambda: ScheduleGPipe(stage, 2, F.mse_loss).step(), ValueError, "no batch"),
    (lambda: ScheduleGPipe(stage, 2, F.mse_loss).step(x), ValueError, "no target"),
    (lambda: ScheduleGPipe(stage, 20).step(x), ValueError, "20 microbatches"),
):
    try:
        wrong()
        raise SystemExit(f"no error: {text}")
    except kind as error:
        assert text in str(error), error
print("good")
"""


def test_stages_are_one_model(job):
    assert job(4, CODE) == [["good"]] * 4
