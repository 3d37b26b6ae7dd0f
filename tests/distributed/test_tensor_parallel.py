"""Layers that several processes share: outputs and gradients are those of one process."""

from __future__ import annotations

CODE = """
import copy, warnings
from facula import nn
from facula.nn import functional as F
from facula.distributed.fsdp import fully_shard
from facula.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from facula.distributed.tensor import distribute_module
from facula.distributed.tensor.parallel import *
dist.init_process_group()

class Attention(nn.Module):
    def __init__(self, width=8, heads=4):
        super().__init__()
        self.size = width // heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
    def forward(self, x):
        parts = (f(x).unflatten(-1, (-1, self.size)) for f in (self.q, self.k, self.v))
        parts = [t.transpose(1, 2) for t in parts]
        y = F.scaled_dot_product_attention(*parts, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(8), Attention()
        self.second, self.up, self.down = nn.RMSNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.down(F.gelu(self.up(self.second(x))))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(12, 8, padding_idx=5)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 12)
    def forward(self, i):
        x = self.table(i)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

PLAIN = {
    "table": ColwiseParallel(output_layouts=Replicate()),
    "layers.*.attention.[qkv]": ColwiseParallel(),
    "layers.*.attention.o": RowwiseParallel(),
    "layers.*.up": ColwiseParallel(),
    "layers.*.down": RowwiseParallel(),
    "head": ColwiseParallel(output_layouts=Replicate()),
}
ALONG = {
    "table": RowwiseParallel(output_layouts=Shard(1)),
    "layers.*.norm": SequenceParallel(),
    "layers.*.second": SequenceParallel(),
    "layers.*.attention": PrepareModuleInput(
        input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    "layers.*.attention.[qkv]": ColwiseParallel(),
    "layers.*.attention.o": RowwiseParallel(output_layouts=Shard(1)),
    "layers.*.up": ColwiseParallel(input_layouts=Shard(1)),
    "layers.*.down": RowwiseParallel(output_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}
g = fa.Generator().manual_seed(3)
index = fa.randint(0, 12, (4, 8), generator=g)
index[0, 0] = 5
target = fa.randint(0, 12, (4, 8), generator=g)

def loss(net, rows=slice(None)):
    scores = net(index[rows])
    assert scores.shape[1:] == (8, 12)
    return F.cross_entropy(scores.flatten(0, 1), target[rows].flatten())

def whole(t):
    return t.full_tensor() if isinstance(t, DTensor) else t.detach()

def compare(alone, net, rows=slice(None), tolerance=1e-12):
    one, many = (fa.optim.AdamW(m.parameters(), lr=1e-2) for m in (alone, net))
    for _ in range(3):
        for m, o, part in ((alone, one, slice(None)), (net, many, rows)):
            o.zero_grad()
            loss(m, part).backward()
        for (name, a), b in zip(alone.named_parameters(), net.parameters(), strict=True):
            fa.testing.assert_close(a.grad, whole(b.grad), rtol=0, atol=tolerance, msg=name)
        norms = [nn.utils.clip_grad_norm_(m.parameters(), 0.1) for m in (alone, net)]
        fa.testing.assert_close(*norms)
        one.step(), many.step()
    for a, b in zip(alone.parameters(), net.parameters(), strict=True):
        fa.testing.assert_close(a.detach(), whole(b), rtol=0, atol=1e-9)

for seed, plan in enumerate((PLAIN, ALONG)):
    fa.manual_seed(seed)
    alone = Net().double()
    fa.manual_seed(seed + rank)  # parameters are those of rank 0
    net = copy.deepcopy(alone) if rank == 0 else Net().double()
    parallelize_module(net, parallelize_plan=plan)
    assert net.layers[0].up.weight.shape == (4, 8) and net.layers[0].down.weight.shape == (8, 4)
    compare(alone, net)

# ---- with parameters in parts over the other dimension of the mesh ----
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
fa.manual_seed(9)
alone = Net().double()
net = copy.deepcopy(alone)
parallelize_module(net, mesh["tp"], ALONG)
for layer in net.layers:
    fully_shard(layer, mesh=mesh["dp"])
fully_shard(net, mesh=mesh["dp"])
assert net.layers[0].up.weight.shape == (4, 8) and net.layers[0].up.weight.full_shape == (16, 8)
compare(alone, net, slice(rank // 2 * 2, rank // 2 * 2 + 2))
net.load_state_dict(alone.state_dict())
for a, b in zip(alone.parameters(), net.parameters(), strict=True):
    fa.testing.assert_close(a.detach(), whole(b), rtol=0, atol=0)

# ---- all pairs of placements, and gradients of gradients ----
from facula.distributed.tensor._convert import convert
world = dist.group.WORLD
x = fa.randn(4, 8, dtype=fa.float64, generator=g)
for have in (Replicate(), Shard(0), Shard(1), Partial(), Partial("avg")):
    for want in (Replicate(), Shard(0), Shard(1)):
        def of(t):
            if have.is_shard():
                return t.chunk(4, have.dim)[rank]
            return t / 4 if have == Partial() else t
        def f(t):
            y = convert(t, have, want, world)
            expected = x.chunk(4, want.dim)[rank] if want.is_shard() else x
            fa.testing.assert_close(y.detach(), expected)
            return y
        t = of(x).clone().requires_grad_()
        w = fa.arange(32.0, dtype=fa.float64).view(4, 8)
        v = w.chunk(4, want.dim)[rank] if want.is_shard() else w
        grad, = fa.autograd.grad((f(t) ** 2 * v).sum(), t, create_graph=True)
        # the loss is the sum over parts of x^2 w; a summand's gradient is that of the sum
        share = 0.25 if have == Partial("avg") else 1
        expected = 2 * x * w * share
        expected = expected.chunk(4, have.dim)[rank] if have.is_shard() else expected
        fa.testing.assert_close(grad.detach(), expected)
        grad.sum().backward()
        assert t.grad is not None

# ---- DTensor ----
mesh = dist.init_device_mesh("cpu", (2, 2))
x = fa.arange(35.0).view(5, 7) + rank  # values of the first process count
d = distribute_tensor(x, mesh, [Shard(1), Shard(0)])
assert d.to_local().shape == d.shape == (3 - rank % 2, 4 - rank // 2)
fa.testing.assert_close(d.full_tensor(), x - rank)
assert d.placements == (Shard(1), Shard(0)) and d.full_shape == (5, 7)
assert d._layout.ranges[0] == ((0, 3), (3, 5))[rank % 2]
assert d._layout.ranges[1] == ((0, 4), (4, 7))[rank // 2]
e = d.redistribute(placements=[Shard(0), Replicate()])
assert e.shape == (3 - rank // 2, 7)
fa.testing.assert_close(e.full_tensor(), x - rank)
twice = distribute_tensor(x, mesh, [Shard(0), Shard(0)])
assert twice._layout.ranges[0] == ((0, 2), (2, 3), (3, 4), (4, 5))[rank]
fa.testing.assert_close(twice.full_tensor(), x - rank)
p = DTensor.from_local(fa.full((2,), float(rank)), mesh, [Partial(), Replicate()])
assert p.full_tensor().tolist() == [2 * (rank % 2) + 2] * 2
assert type(d + 1) is fa.Tensor

def by_hand(name, module, mesh):
    if isinstance(module, nn.Linear):
        module.register_parameter("weight", distribute_tensor(module.weight, mesh, [Shard(0)]))
line = dist.DeviceMesh("cpu", [0, 1, 2, 3])
net = distribute_module(nn.Sequential(nn.Linear(4, 8, bias=False), nn.LayerNorm(2)), line, by_hand,
                        output_fn=lambda m, y, mesh: y * 0)
assert isinstance(net[1].weight, DTensor) and net(fa.ones(1, 4)).tolist() == [[0, 0]]

style, from_local = ColwiseParallel(), DTensor.from_local
for wrong, kind, text in (
    (lambda: parallelize_module(nn.Linear(3, 6), line, style), ValueError, "6 entries"),
    (lambda: parallelize_module(nn.Linear(4, 4), mesh, style), ValueError, "mesh['tp']"),
    (lambda: parallelize_module(nn.Tanh(), line, RowwiseParallel()), NotImplementedError, "Tanh"),
    (lambda: ColwiseParallel(use_local_output=False), NotImplementedError, "give True"),
    (lambda: parallelize_module(nn.Linear(4, 4), line, {"": 5}), TypeError, "ParallelStyle"),
    (lambda: convert(fa.ones(3), Replicate(), Shard(0), world), ValueError, "among 4 processes"),
    (lambda: PrepareModuleInput(input_layouts=(Shard(0),)), ValueError, "differ in number"),
    (lambda: from_local(fa.ones(2), mesh, [Shard(0)] * 2, shape=(40,)), ValueError, "(40,)"),
    (lambda: distribute_tensor(x, mesh, [Shard(2), Shard(0)]), ValueError, "no such dimension"),
):
    try:
        wrong()
        raise SystemExit(f"no error: {text}")
    except kind as error:
        assert text in str(error), error
print("good")
"""


def test_shared_layers_are_those_of_one_process(job):
    assert job(4, CODE) == [["good"]] * 4
