"""A program written for torch, which runs by `python -m facula.as_torch` as well."""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F

dist.init_process_group("gloo")
rank = dist.get_rank()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first, self.last = nn.Linear(6, width), nn.Linear(width, 3)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def waves(shape, step):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64).reshape(shape) * step).sin()


def filled(net):  # with values that any library makes
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(waves(p.shape, 0.7 + i) * 0.3)
    return net


def data(k):
    return waves((8, 4, 6), 0.3 + k), waves((8, 4, 3), 0.9 + k)


def show(name, *values):
    print(name, *(f"{float(v.detach() if torch.is_tensor(v) else v):.10f}" for v in values))


# parameters in parts over one dimension of the mesh, layers shared over the other
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
net = filled(Net().double())
for block in net.blocks:
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    parallelize_module(block, mesh["tp"], plan)
    fully_shard(block, mesh=mesh["dp"], reshard_after_forward=True)
fully_shard(net, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, foreach=False)
mine = slice(4 * mesh.get_local_rank("dp"), 4 * mesh.get_local_rank("dp") + 4)
for k in range(3):
    x, y = (t[mine] for t in data(k))
    optimizer.zero_grad()
    net.set_requires_gradient_sync(False)
    (F.mse_loss(net(x[:2]), y[:2]) / 2).backward()
    net.set_requires_gradient_sync(True)
    (F.mse_loss(net(x[2:]), y[2:]) / 2).backward()
    optimizer.step()
wholes = [p.full_tensor() for p in net.parameters()]
if rank == 0:
    show("parameters", *((t * waves(t.shape, 1.3)).sum() for t in wholes))
options = StateDictOptions(full_state_dict=True, cpu_offload=True)
state = get_model_state_dict(net, options=options)
if rank == 0:
    print("state", len(state), tuple(state["blocks.0.up.weight"].shape))
model, optim = get_state_dict(net, optimizer)
dcp.save({"model": model, "optim": optim}, checkpoint_id=sys.argv[1])
with torch.no_grad():
    for p in net.parameters():
        p.zero_()
model, optim = get_state_dict(net, optimizer)
state = {"model": model, "optim": optim}
dcp.load(state, checkpoint_id=sys.argv[1])
set_state_dict(net, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
x, y = data(5)
with torch.no_grad():
    loss = F.mse_loss(net(x), y)
if rank == 0:
    show("loaded", loss)

# stages
net = filled(Net().double())
part = [net.first, *net.blocks, net.last][rank]
stage = PipelineStage(part, rank, 4, torch.device("cpu"))
for kind in (ScheduleGPipe, Schedule1F1B):
    part.zero_grad()
    schedule, losses = kind(stage, n_microbatches=4, loss_fn=F.mse_loss), []
    x, y = data(1)
    if rank == 0:
        schedule.step(x)
    elif rank == 3:
        out = schedule.step(target=y, losses=losses)
    else:
        schedule.step()
    size = torch.stack([p.grad.abs().sum() for p in part.parameters()]).sum().reshape(1)
    sizes = [torch.zeros(1, dtype=torch.float64) for _ in range(4)]
    dist.all_gather(sizes, size)
    if rank == 3:
        show(kind.__name__, sum(losses), *sizes, out.abs().sum())

# uneven inputs
net = nn.parallel.DistributedDataParallel(filled(nn.Linear(6, 3).double()))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with Join([net]):
    for k in range(rank + 1):
        x, y = data(k)
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()
if rank == 0:
    show("join", net.module.weight.sum())
dist.destroy_process_group()
