"""States in parts: what some processes save, any other number loads, and training goes on."""

from __future__ import annotations

import json

import facula as fa
import pytest
from facula import nn
from facula.distributed import checkpoint
from facula.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)

COMMON = """
import sys
from facula import nn
from facula.nn.functional import mse_loss
from facula.distributed import checkpoint
from facula.distributed.checkpoint.state_dict import *
from facula.distributed.fsdp import fully_shard
from facula.distributed.tensor import DTensor, Partial, Shard
from facula.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3), nn.BatchNorm1d(3).eval())

def make():
    fa.manual_seed(0)
    return Net().double()

def train(net, optimizer, steps, rows=slice(None)):
    for step in steps:
        g = fa.Generator().manual_seed(step)
        x = fa.randn(12, 5, generator=g, dtype=fa.float64)[rows]
        y = fa.randn(12, 3, generator=g, dtype=fa.float64)[rows]
        optimizer.zero_grad()
        mse_loss(net(x), y).backward()
        optimizer.step()

def adam(net):
    some = list(net.parameters())
    return fa.optim.AdamW([{"params": some[:2]}, {"params": some[2:], "lr": 0.02}], lr=0.01)
"""
SCOPE: dict[str, object] = {"fa": fa}


def test_saved_by_four_loaded_by_others(job, tmp_path):
    exec(COMMON, SCOPE)  # one process, without parts: what all others are compared with
    alone = SCOPE["make"]()
    optimizer = SCOPE["adam"](alone)
    SCOPE["train"](alone, optimizer, range(2))
    job(
        4,
        COMMON
        + """
dist.init_process_group()
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
net = make()
parallelize_module(net, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
fully_shard(net, mesh=mesh["dp"])
optimizer = adam(net)
dp = mesh.get_local_rank("dp")
train(net, optimizer, range(2), slice(6 * dp, 6 * dp + 6))
model, optim = get_state_dict(net, optimizer)
assert isinstance(optim["state"]["0.weight"]["exp_avg"], DTensor)
checkpoint.save({"model": model, "optim": optim, "step": 2}, checkpoint_id="last")
try:
    part = DTensor.from_local(fa.ones(2), mesh, [Partial(), Shard(0)])
    checkpoint.save({"x": part}, checkpoint_id="wrong")
except TypeError as error:
    assert "Partial" in str(error)
# whole states, for one file
model, optim = get_state_dict(
    net, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
assert bool(model) == bool(optim) == (rank == 0)
if rank == 0:
    fa.save({"model": model, "optim": optim}, "whole.pt", format="torch")
""",
    )
    index = json.loads((tmp_path / "last" / "index.json").read_text())
    names = [n for n in index["files"] if n.startswith('["model", "0.weight"]')]
    ranges = sorted(json.loads(n.partition("] ")[2]) for n in names)
    assert ranges == [[[i, i + 2], [0, 5]] for i in (0, 2, 4, 6)]
    assert len({index["files"][n] for n in names}) == 4  # each process wrote its own
    # one process, without parts
    one = SCOPE["make"]()
    again = SCOPE["adam"](one)
    model, optim = get_state_dict(one, again)
    state = {"model": model, "optim": optim, "step": 0}
    checkpoint.load(state, checkpoint_id=tmp_path / "last")
    set_state_dict(one, again, model_state_dict=state["model"], optim_state_dict=state["optim"])
    assert state["step"] == 2
    SCOPE["train"](one, again, range(2, 4))
    SCOPE["train"](alone, optimizer, range(2, 4))
    for a, b in zip(alone.parameters(), one.parameters(), strict=True):
        fa.testing.assert_close(a, b, rtol=0, atol=1e-12)
    # three processes, one that has no rows of a weight; from the folder, and from one file
    fa.save({n: p.detach() for n, p in alone.named_parameters()}, tmp_path / "end.safetensors")
    said = job(
        3,
        COMMON
        + """
dist.init_process_group()
mine = slice(4 * rank, 4 * rank + 4)
end = fa.load("end.safetensors")
for way in ("folder", "file", "modules"):
    net = fully_shard(make())
    with fa.no_grad():
        for p in net.parameters():
            p.zero_()
    optimizer = adam(net)
    model, optim = get_state_dict(net, optimizer)
    if way == "folder":
        state = {"model": model, "optim": optim, "step": 0}
        checkpoint.load(state, checkpoint_id="last")
        set_state_dict(net, optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optim"])
    elif way == "file":
        whole = fa.load("whole.pt") if rank == 0 else {"model": {}, "optim": {}}
        set_state_dict(net, optimizer, model_state_dict=whole["model"],
                       optim_state_dict=whole["optim"],
                       options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    else:  # objects with a state
        class App:
            def state_dict(self):
                return dict(zip(("model", "optim"), get_state_dict(net, optimizer)))
            def load_state_dict(self, state):
                set_state_dict(net, optimizer, model_state_dict=state["model"],
                               optim_state_dict=state["optim"])
        checkpoint.load({"app": App()}, checkpoint_id="app")
    train(net, optimizer, range(2, 4), mine)
    for name, p in net.named_parameters():
        fa.testing.assert_close(p.full_tensor(), end[name], rtol=0, atol=1e-12, msg=name)
    if way == "file":
        net = fully_shard(make())
        optimizer = adam(net)
        train(net, optimizer, range(2), mine)
        class Kept:
            def state_dict(self):
                return dict(zip(("model", "optim"), get_state_dict(net, optimizer)))
            def load_state_dict(self, state):
                raise AssertionError
        checkpoint.save({"app": Kept()}, checkpoint_id="app")

# what does not fit changes nothing
state = {"model": {"0.weight": fully_shard(nn.Linear(4, 8).double()).weight}}
before = state["model"]["0.weight"].detach().clone()
for wrong, kind, text in (
    (lambda: checkpoint.load(state, checkpoint_id="last"), ValueError, "is (8, 5) in last"),
    (lambda: checkpoint.load({"model": {"x": 1}}, checkpoint_id="last"), KeyError, "no model.x"),
    (lambda: set_optimizer_state_dict(net, optimizer, {}), KeyError, "no group for 0.weight"),
    (lambda: get_optimizer_state_dict(make(), optimizer), ValueError, "not the model's"),
):
    try:
        wrong()
        raise SystemExit("no error: " + text)
    except kind as error:
        assert text in str(error), error
fa.testing.assert_close(state["model"]["0.weight"].detach(), before)
# whole values of what is in parts
whole = {"model": {"0.weight": fa.zeros(8, 5), "2.weight": 0}}
checkpoint.load(whole, checkpoint_id="last")
assert whole["model"]["2.weight"].shape == (3, 8) and whole["model"]["0.weight"].abs().sum() > 0
print("good")
""",
    )
    assert said == [["good"]] * 3
    # a part that is lost
    lost = next(n for n in index["files"] if n.startswith('["model", "0.weight"]'))
    del index["files"][lost]
    (tmp_path / "last" / "index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"of model\.0\.weight .* has 30 of 40 elements"):
        checkpoint.load({"model": {"0.weight": fa.zeros(8, 5)}}, checkpoint_id=tmp_path / "last")


def test_states_without_a_job():
    net = nn.Linear(3, 2)
    optimizer = fa.optim.Adam(net.parameters(), lr=0.25)
    weight = net.weight.detach().clone()
    model, optim = get_state_dict(net, optimizer, options=StateDictOptions(full_state_dict=True))
    fa.testing.assert_close(net.weight.detach(), weight)  # a state was made without a step
    assert optimizer.param_groups[0]["lr"] == 0.25 and net.weight.grad is None
    assert optim["param_groups"][0]["params"] == ["weight", "bias"]
    optim["state"]["weight"]["exp_avg"].fill_(3)
    optim["param_groups"][0]["lr"] = 0.5
    other = nn.Linear(3, 2)
    new = fa.optim.Adam(other.parameters())
    set_state_dict(other, new, model_state_dict=model, optim_state_dict=optim)
    assert new.param_groups[0]["lr"] == 0.5
    assert new.state[other.weight]["exp_avg"].tolist() == [[3.0] * 3] * 2
    fa.testing.assert_close(other.weight.detach(), weight)
    net.weight.requires_grad_(False)
    frozen = StateDictOptions(ignore_frozen_params=True)
    assert list(get_state_dict(net, fa.optim.Adam([net.bias]), options=frozen)[0]) == ["bias"]
    optim["state"]["weight"]["exp_avg"] = fa.ones(7)
    with pytest.raises(ValueError, match="exp_avg of weight has shape"):
        set_optimizer_state_dict(other, new, optim)
