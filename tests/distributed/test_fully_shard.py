"""Parameters in parts: training is that of one process with the whole batch and all parameters."""

from __future__ import annotations

NET = """
import copy
from facula import nn
from facula.nn import functional as F
from facula.distributed import fsdp
from facula.distributed.fsdp import fully_shard
from facula.distributed.tensor import DTensor, Shard
dist.init_process_group()

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
    def forward(self, x):
        return x + self.norm(self.one(x).tanh())

class Net(nn.Module):
    def __init__(self, width=150, blocks=3):  # weights of a block in place, the rest in one message
        super().__init__()
        self.first = nn.Linear(6, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.last = nn.Linear(width, 3)  # rows do not divide among the processes
    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)

def sharded(net, **options):
    for block in net.blocks:
        fully_shard(block, **options)
    return fully_shard(net, **options)

def pair(seed=0, make=Net, **options):
    fa.manual_seed(seed)
    alone = make().double()
    return alone, sharded(copy.deepcopy(alone), **options)

def batches(count, seed=7):
    g = fa.Generator().manual_seed(seed)
    for _ in range(count):
        x = fa.randn(8, 6, generator=g, dtype=fa.float64)
        yield x, fa.randn(8, 3, generator=g, dtype=fa.float64)

def same(alone, net, tolerance=1e-9, grads=False):
    for (name, a), (other, b) in zip(alone.named_parameters(), net.named_parameters(), strict=True):
        assert name == other
        if grads:
            a, b = a.grad, b.grad
            assert (a is None) == (b is None), name
            if a is None:
                continue
        fa.testing.assert_close(a.detach(), b.full_tensor(), rtol=0, atol=tolerance, msg=name)

MINE = slice(8 // size * rank, 8 // size * (rank + 1))

def backward(net, x, y):
    F.mse_loss(net(x), y).backward()

def train(alone, net, steps=3, norm=None):
    one, many = (fa.optim.AdamW(m.parameters(), lr=1e-2) for m in (alone, net))
    for x, y in batches(steps):
        for m, o, part in ((alone, one, slice(0, 8)), (net, many, MINE)):
            o.zero_grad()
            backward(m, x[part], y[part])
        if norm is not None:
            a, b = (nn.utils.clip_grad_norm_(m.parameters(), 0.1, norm) for m in (alone, net))
            fa.testing.assert_close(a, b, rtol=1e-9, atol=0)
            totals = [nn.utils.get_total_norm([p.grad for p in m.parameters()], norm)
                      for m in (alone, net)]
            fa.testing.assert_close(*totals, rtol=1e-9, atol=0)
        one.step(), many.step()
    same(alone, net)
    return many

def open_groups():
    from facula.distributed.fsdp import _sharding
    return {group for group, _ in _sharding._open.values()}

def whole(group):
    return sum(w.numel() * w.element_size() for w in group.whole or ())
"""


def test_training_is_that_of_one_process(job):
    said = job(
        4,
        NET
        + """
alone, net = pair()
optimizer = train(alone, net, norm=2.0)
assert net.last.weight.shape == (int(rank < 3), 150) and net.last.weight.full_shape == (3, 150)
assert all(s["exp_avg"].shape == p.shape for p, s in optimizer.state.items())
share = sum(p.numel() for p in net.parameters()) / sum(p.numel() for p in alone.parameters())
assert 0.2 < share < 0.27, share
assert not open_groups()
for norm in (1.0, float("inf"), 3.0):
    train(*pair(1), steps=1, norm=norm)
train(*pair(2, reshard_after_forward=False))

# replicas of two processes that shard
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
alone, net = pair(3, mesh=mesh)
assert tuple(net.last.weight.shape) == (2 - rank % 2, 150)
train(alone, net, norm=2.0)

for m in (alone, net):
    m.zero_grad()
for last, (x, y) in enumerate(batches(2)):  # averaged over replicas once
    backward(alone, x, y)
    net.set_requires_all_reduce(bool(last))
    backward(net, x[MINE], y[MINE])
    assert (net.last.weight.grad is None) == (not last)
same(alone, net, grads=True)

# a part of the processes
some = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
fa.manual_seed(4)
alone = Net(12, 1).double()
net = fully_shard(copy.deepcopy(alone), mesh=some)
half = slice(4 * (rank % 2), 4 * (rank % 2) + 4)
for x, y in batches(1):
    backward(alone, x, y), backward(net, x[half], y[half])
same(alone, net, grads=True)
print("good")
""",
    )
    assert said == [["good"]] * 4


def test_ways_of_sharding(job):
    said = job(
        2,
        NET
        + """
from facula.utils.checkpoint import checkpoint

# ---- when whole parameters are there ----
alone, net = pair()
seen = []
for i, block in enumerate(net.blocks):
    block.one.register_forward_hook(lambda m, *_: seen.append(
        (tuple(m.weight.shape), m.weight.is_leaf, len(open_groups()))))
(x, y), = batches(1)
loss = F.mse_loss(net(x[MINE]), y[MINE])
assert seen == [((150, 150), False, 2)] * 3, seen  # the root, and the block that runs
assert len(open_groups()) == 1 and isinstance(net.first.weight, DTensor)
most = []
for block in net.blocks:
    block.one.register_full_backward_hook(lambda *_: most.append(len(open_groups())))
loss = F.mse_loss(net(x[MINE]), y[MINE])
loss.backward()
assert max(most) <= 2 and not open_groups(), most
with fa.no_grad():
    fa.testing.assert_close(net(x), alone(x))
assert not open_groups()
net.unshard()
assert not isinstance(net.first.weight, DTensor) and net.first.weight.shape == (150, 6)
net.reshard()
net.blocks[0].unshard(async_op=True).wait()
assert net.blocks[0].one.weight.shape == (150, 150)
net.blocks[0].reshard()
assert isinstance(net.blocks[0].one.weight, DTensor) and not open_groups()

# ---- gradients add up, with and without sync ----
alone, net = pair()
for sync in (True, False):
    for m in (alone, net):
        m.zero_grad()
    (x, y), (v, w) = batches(2)
    backward(alone, x, y), backward(alone, v, w)
    net.set_requires_gradient_sync(sync)
    backward(net, x[MINE], y[MINE])
    assert (net.last.weight.grad is None) == (not sync)
    net.set_requires_gradient_sync(True)
    backward(net, v[MINE], w[MINE])
    same(alone, net, grads=True)
net.zero_grad(), alone.zero_grad()
loss = F.mse_loss(net(x[MINE]), y[MINE])
for _ in range(2):  # the graph is kept: parameters are gathered again
    loss.backward(retain_graph=True)
    backward(alone, x, y)
same(alone, net, grads=True)
found = fa.autograd.grad(loss, list(net.parameters()))
fa.testing.assert_close(found[0] * 2, net.first.weight.grad.detach())

# ---- a parameter that the loss does not reach, one module used twice ----
class Twice(Net):
    def __init__(self):
        super().__init__(10, 2)
        self.unused = nn.Parameter(fa.ones(4))
    def forward(self, x):
        x = self.blocks[0](self.blocks[0](self.first(x)))
        return self.last(x)
alone, net = pair(make=Twice)
for _ in range(2):
    backward(alone, x, y), backward(net, x[MINE], y[MINE])
same(alone, net, grads=True)
assert net.unused.grad is None

# ---- frozen weights under trained ones ----
class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(fa.randn(30, 30), requires_grad=False)
        self.a, self.b = nn.Parameter(fa.randn(2, 30)), nn.Parameter(fa.randn(30, 2))
        self.tail = nn.Linear(30, 30).requires_grad_(False)
    def forward(self, x):
        h = x @ self.w.detach() + x @ self.a.T @ self.b.T
        return (h + x @ self.w).tanh() @ self.tail.weight
class Lora(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 30).requires_grad_(False)
        self.blocks = nn.ModuleList([Adapted(), nn.Linear(30, 30).requires_grad_(False), Adapted()])
        self.last = nn.Linear(30, 3)
    forward = Net.forward
alone, net = pair(make=Lora)
backward(alone, x, y), backward(net, x[MINE], y[MINE])
same(alone, net, grads=True)
assert not open_groups()

# ---- with activations that are computed again ----
class Outside(Net):
    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.last(x)
class Inside(Block):
    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=False)
alone, net = pair(make=Outside)
runs = []
net.blocks[0].one.register_forward_hook(lambda *_: runs.append(1))
kept = []
with fa.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
    loss = F.mse_loss(net(x[MINE]), y[MINE])
assert kept.count((4, 150)) < 9, kept  # what the blocks compute is not kept
loss.backward()
backward(alone, x, y)
same(alone, net, grads=True)
assert len(runs) == 2 and not open_groups()
alone, net = pair()
net.blocks = nn.ModuleList()
alone = Net(20, 0).double()
alone.blocks = nn.ModuleList(Inside(20) for _ in range(2)).double()
net = sharded(copy.deepcopy(alone))
backward(alone, x, y), backward(net, x[MINE], y[MINE])
same(alone, net, grads=True)

from facula.distributed.algorithms.checkpoint_wrapper import apply_activation_checkpointing
fa.manual_seed(0)
alone = Net(20, 2).double()
net = copy.deepcopy(alone)
apply_activation_checkpointing(net, check_fn=lambda m: isinstance(m, Block))
sharded(net)
backward(alone, x, y), backward(net, x[MINE], y[MINE])
same(alone, net, grads=True)

# ---- tied parameters, lists, methods, errors in forward ----
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 6)
        self.out = nn.Linear(6, 7, bias=False)
        self.out.weight = self.table.weight
    def forward(self, i):
        return self.out(self.table(i))
    def loss(self, i):
        if i is None:
            raise KeyError("no batch")
        return F.cross_entropy(self(i), i)
fa.manual_seed(1)
alone = Tied().double()
net = fully_shard(copy.deepcopy(alone))
fsdp.register_fsdp_forward_method(net, "loss")
i = fa.arange(8) % 7
alone.loss(i).backward(), net.loss(i[MINE]).backward()
same(alone, net, grads=True)
assert net.out.weight is net.table.weight
try:
    net.loss(None)
    raise SystemExit("no error")
except KeyError:
    assert not open_groups() and isinstance(net.out.weight, DTensor)
broken = Tied()
fully_shard(broken.table)
for wrong, kind, text in (
    (lambda: fully_shard(broken), ValueError, "out.weight is also weight of a module that is"),
    (lambda: fully_shard(net), ValueError, "the FSDPTied is sharded already"),
    (lambda: fully_shard(nn.Linear(2, 2), reshard_after_forward=2), NotImplementedError, "True"),
    (lambda: fully_shard(nn.Linear(2, 2), mesh=3), ValueError, "mesh is 3"),
    (lambda: fully_shard(nn.Linear(2, 2), shard_placement_fn=lambda p: Shard(1)),
     NotImplementedError, "Shard(0)"),
    (lambda: fully_shard([nn.PReLU(), 7]), ValueError, "int is no module"),
    (lambda: copy.deepcopy(net), TypeError, "before fully_shard"),
):
    try:
        wrong()
        raise SystemExit(f"no error: {text}")
    except kind as error:
        assert text in str(error), error
layers = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 3)).double()
alone = copy.deepcopy(layers)
fully_shard([layers[0], layers[1]])
assert layers[0]._fsdp.group is layers[1]._fsdp.group
backward(alone, x, y), backward(layers, x[MINE], y[MINE])
same(alone, layers, grads=True)

# ---- dtypes ----
policies = [fsdp.MixedPrecisionPolicy(fa.bfloat16, fa.float32, d) for d in (None, fa.float32)]
fa.manual_seed(0)
alone = Net(20, 2)
net = copy.deepcopy(alone)
for block in net.blocks:
    fully_shard(block, mp_policy=policies[0])
fully_shard(net, mp_policy=policies[1], offload_policy=fsdp.CPUOffloadPolicy())
seen = []
net.blocks[1].one.register_forward_hook(lambda m, i, o: seen.append((m.weight.dtype, o.dtype)))
out = net(x[MINE].float())
assert seen == [(fa.bfloat16, fa.bfloat16)] and out.dtype == fa.float32
F.mse_loss(out, y[MINE].float()).backward()
backward(alone, x.float(), y.float())
assert net.first.weight.grad.dtype == net.first.weight.dtype == fa.float32
same(alone, net, 2e-2, grads=True)

# ---- views of parameters under another dtype, conjugated ones, empty ones ----
class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.z = nn.Parameter(fa.randn(3, 6, dtype=fa.complex128))
        self.none = nn.Parameter(fa.ones(0, 4, dtype=fa.float64))
        self.short = nn.Parameter(fa.randn(5).bfloat16())
        self.last = nn.Linear(3, 3)
    def forward(self, x):
        y = (x + 0j) @ self.z.conj().T
        y = fa.view_as_real(y).square().sum(-1) * fa.view_as_real(self.z).square().sum()
        return self.last(y.tanh()) + self.none.sum() + self.short.double().square().sum()
fa.manual_seed(0)
alone = Odd()
alone.last.double()
net = fully_shard(copy.deepcopy(alone))
backward(alone, x, y), backward(net, x[MINE], y[MINE])
a, b = alone.short.grad, net.short.grad.full_tensor()
fa.testing.assert_close(a, b, rtol=2e-2, atol=1e-3)
alone.short.grad = net.short.grad = None
same(alone, net, grads=True)

# ---- a gradient that is infinite in one process's part: all skip the step ----
net = sharded(Net(20, 1))
scaler = fa.amp.GradScaler("cpu", init_scale=8.0)
optimizer = fa.optim.SGD(net.parameters(), lr=1.0)
for bad in (True, False):
    before = [p.detach().clone() for p in net.parameters()]
    optimizer.zero_grad()
    scaler.scale(F.mse_loss(net(x[MINE].float()), y[MINE].float())).backward()
    if bad and rank == 1:
        net.first.weight.grad[0, 0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
    moved = any((a != p.detach()).any() for a, p in zip(before, net.parameters()))
    assert moved == (not bad) and scaler.get_scale() == 4.0

# ---- the meta device: values are those of one process with the same seed ----
fa.manual_seed(11)
alone = Net(9, 1)
nn.init.xavier_normal_(alone.last.weight)
nn.init.orthogonal_(alone.first.weight)
with fa.device("meta"):
    net = Net(9, 1)
sharded(net)
try:
    net(x.float())
    raise SystemExit("ran without values")
except RuntimeError as error:
    assert "to_empty" in str(error)
net.to_empty(device="cpu")
fa.manual_seed(11)
for m in net.modules():
    if hasattr(m, "reset_parameters"):
        m.reset_parameters()
nn.init.xavier_normal_(net.last.weight)
nn.init.orthogonal_(net.first.weight)
same(alone, net, 0)

# ---- states ----
state = net.state_dict()
assert all(isinstance(t, DTensor) for t in state.values())
fa.testing.assert_close(state["last.weight"].full_tensor(), alone.last.weight.detach())
other = sharded(Net(9, 1))
other.load_state_dict(state)
same(alone, other, 0)
alone = Net(9, 1)
other.load_state_dict(alone.state_dict())  # whole values: each process takes its rows
same(alone, other, 0)
other(x.float())
other.load_state_dict({k: t + 1 for k, t in alone.state_dict().items()}, assign=True)
with fa.no_grad():
    for p in alone.parameters():
        p += 1
    fa.testing.assert_close(other(x.float()), alone(x.float()))
net.double()
assert net.last.weight.dtype == fa.float64 and net(x).dtype == fa.float64
print("good")
""",
    )
    assert said == [["good"]] * 2
