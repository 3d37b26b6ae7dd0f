"""Module: attributes, traversal, state dicts, hooks, conversions, printing, error notes."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
import warnings

import facula
import pytest
from facula import nn
from facula.testing import assert_close


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, 4)
        self.body = nn.Sequential(nn.ReLU(), nn.Linear(4, 2, bias=False))
        self.register_buffer("scale", facula.ones(()))
        self.register_buffer("cache", facula.zeros(2), persistent=False)

    def forward(self, x):
        return self.body(self.fc1(x)) * self.scale


def test_registration_and_names():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["fc1.weight", "fc1.bias", "body.1.weight"]
    assert [n for n, _ in net.named_buffers()] == ["scale", "cache"]
    assert [n for n, _ in net.named_modules()] == ["", "fc1", "body", "body.0", "body.1"]
    assert [n for n, _ in net.named_children()] == ["fc1", "body"]
    assert list(net.state_dict()) == ["scale", "fc1.weight", "fc1.bias", "body.1.weight"]
    assert net.get_submodule("body.1") is net.body[1]
    assert net.get_parameter("body.1.weight") is net.body[1].weight
    with pytest.raises(AttributeError, match="nope"):
        net.get_submodule("body.nope")


def test_shared_parameter_is_listed_once_and_saved_twice():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    assert [n for n, _ in net.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_assignment_rules():
    net = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="cannot assign Tensor as parameter 'weight'"):
        net.weight = facula.zeros(2, 2)
    with pytest.raises(TypeError, match="child module"):
        holder = Net()
        holder.fc1 = 3
    with pytest.raises(KeyError, match="already exists"):
        net.register_buffer("forward", facula.zeros(1))
    with pytest.raises(KeyError, match="must not contain"):
        net.register_parameter("a.b", None)
    net.weight = None
    assert "weight" not in net.state_dict()
    net.extra = nn.Buffer(facula.zeros(1), persistent=False)
    assert "extra" in dict(net.named_buffers()) and "extra" not in net.state_dict()
    del net.extra
    assert not hasattr(net, "extra")


def test_init_must_come_first():
    class Bad(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before Module.__init__"):
        Bad()


def test_train_eval_apply_requires_grad():
    net = Net()
    assert net.eval() is net and not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())
    seen = []
    net.apply(seen.append)
    assert seen[-1] is net and len(seen) == 5
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_zero_grad():
    net = nn.Linear(2, 1)
    net(facula.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert_close(net.weight.grad, facula.zeros(1, 2))
    net.zero_grad()
    assert net.weight.grad is None


def test_conversion_keeps_identity_and_integers():
    net = nn.BatchNorm1d(3)
    weight = net.weight
    net.double()
    assert net.weight is weight and weight.dtype == facula.float64
    assert net.num_batches_tracked.dtype == facula.int64
    net.to(facula.float16)
    assert net.running_mean.dtype == facula.float16
    net.to("cpu", facula.float32)
    assert net.weight.dtype == facula.float32
    with pytest.raises(TypeError, match="floating point or complex"):
        net.to(facula.int32)
    with pytest.raises(TypeError, match="unexpected keyword"):
        net.to(colour="red")


def test_deepcopy_is_independent():
    net = Net()
    twin = copy.deepcopy(net)
    with facula.no_grad():
        twin.fc1.weight.add_(1)
    assert_close(twin.fc1.weight - 1, net.fc1.weight)
    assert isinstance(twin.fc1.weight, nn.Parameter)


def test_repr():
    assert repr(Net()) == (
        "Net(\n"
        "  (fc1): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (body): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Linear(in_features=4, out_features=2, bias=False)\n"
        "  )\n"
        ")"
    )
    assert "(0-1): 2 x ReLU()" in repr(nn.ModuleList([nn.ReLU(), nn.ReLU()]))
    whole = {"max_norm": 1.0, "norm_type": 1.0, "scale_grad_by_freq": True, "sparse": True}
    told = "max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True"
    assert repr(nn.Embedding(5, 4, 1, **whole)) == (
        f"Embedding(5, 4, padding_idx=1, {told}, sparse=True)"
    )
    assert repr(nn.EmbeddingBag(5, 4, mode="sum", padding_idx=1, **whole)) == (
        f"EmbeddingBag(5, 4, {told}, mode='sum', padding_idx=1)"
    )
    assert "(distance_function): PairwiseDistance()" in repr(nn.TripletMarginWithDistanceLoss())
    assert repr(nn.ParameterList([facula.ones(1, 3), facula.ones(2)])).splitlines()[1] == (
        "    (0): Parameter containing: [facula.float32 of size 1x3]"
    )


# ---- state dicts


def test_load_round_trip():
    a, b = Net(), Net()
    report = b.load_state_dict(a.state_dict())
    assert report == ([], []) and "matched" in repr(report)
    for (_, p), (_, q) in zip(a.named_parameters(), b.named_parameters(), strict=True):
        assert_close(p, q)


def test_load_lists_every_fault_and_changes_nothing():
    net = Net()
    before = copy.deepcopy(net.state_dict())
    bad = net.state_dict()
    del bad["fc1.bias"]
    bad["odd"] = facula.zeros(1)
    bad["body.1.weight"] = facula.zeros(5, 4)
    bad["scale"] = facula.ones(1)  # one element is not zero dims
    bad["fc1.weight"] = facula.full((4, 3), 9.0)
    with pytest.raises(RuntimeError) as info:
        net.load_state_dict(bad)
    text = str(info.value)
    for part in ('"fc1.bias"', '"odd"', "(5, 4)", "(2, 4)", "scale", "nothing was loaded"):
        assert part in text
    for name, tensor in net.state_dict().items():
        assert_close(tensor, before[name])


def test_tensors_without_values_are_refused_before_any_is_loaded():
    net = Net()
    before = copy.deepcopy(net.state_dict())
    bad = {k: facula.full_like(v, 9.0) for k, v in before.items()}
    last = next(reversed(bad))
    bad[last] = facula.empty_like(before[last], device="meta")
    with pytest.raises(RuntimeError, match=rf"nothing was loaded(.|\n)*{last}.*meta.*assign=True"):
        net.load_state_dict(bad)
    for name, tensor in net.state_dict().items():
        assert_close(tensor, before[name])
    net.load_state_dict(bad, assign=True)
    assert net.state_dict()[last].is_meta


def test_load_not_strict_and_skip():
    net = Net()
    state = {"fc1.bias": facula.zeros(4), "body.1.weight": facula.zeros(1), "x": facula.zeros(1)}
    with pytest.raises(RuntimeError, match=r"size mismatch for body\.1\.weight"):
        net.load_state_dict(state, strict=False)
    report = net.load_state_dict(state, strict=False, on_mismatch="skip")
    missing, unexpected = report
    assert missing == ["scale", "fc1.weight"] and unexpected == ["x"]
    assert [m.key for m in report.shape_mismatches] == ["body.1.weight"]
    assert_close(net.fc1.bias, nn.Parameter(facula.zeros(4)))


def test_load_dtypes():
    net = nn.Linear(2, 2)
    state = {k: v.double() for k, v in net.state_dict().items()}
    report = net.load_state_dict(state)
    assert [m.key for m in report.dtype_mismatches] == ["weight", "bias"]
    assert net.weight.dtype == facula.float32
    with pytest.raises(RuntimeError, match="dtype mismatch for weight"):
        net.load_state_dict({k: v.to(facula.int64) for k, v in state.items()})
    net.load_state_dict(state, assign=True)
    assert net.weight.dtype == facula.float64 and isinstance(net.weight, nn.Parameter)


def test_extra_state():
    class Counting(nn.Module):
        n = 3

        def get_extra_state(self):
            return {"n": self.n}

        def set_extra_state(self, state):
            self.n = state["n"]

    a, b = Counting(), Counting()
    a.n = 7
    b.load_state_dict(a.state_dict())
    assert b.n == 7


def test_state_hooks():
    net = nn.Linear(1, 1)
    net.register_state_dict_post_hook(lambda m, sd, prefix, meta: sd.update(note=facula.ones(1)))
    handle = net.register_load_state_dict_pre_hook(lambda m, sd, *rest: sd.pop("note"))
    state = net.state_dict()
    net.load_state_dict(state)
    assert "note" in state, "the caller's dictionary stays as it was"
    handle.remove()
    with pytest.raises(RuntimeError, match="note"):
        net.load_state_dict(state)


# ---- hooks


def test_forward_hooks():
    net, log = nn.ReLU(), []
    net.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    net.register_forward_hook(lambda m, args, out: log.append(args[0].item()) or out * 10)
    assert net(facula.tensor(2.0)).item() == 30 and log == [3.0]
    net.register_forward_pre_hook(lambda m, a, k: ((facula.tensor(5.0),), k), with_kwargs=True)
    assert net(facula.tensor(2.0)).item() == 50
    with net.register_forward_pre_hook(lambda m, a: (facula.tensor(-9.0),), prepend=True):
        assert net(facula.tensor(2.0)).item() == 50
    assert len(net._forward_pre_hooks) == 2


def test_always_called_hook_runs_on_error():
    log = []
    net = nn.Linear(2, 2)
    net.register_forward_hook(lambda m, a, out: log.append(out), always_call=True)
    with pytest.raises(RuntimeError):
        net(facula.zeros(1, 5))
    assert log == [None]


def test_full_backward_hook():
    net, seen = nn.Linear(2, 1, bias=False), []

    def hook(module, grad_input, grad_output):
        seen.append((grad_input[0].clone(), grad_output[0].clone()))
        return (grad_input[0] * 2,)

    net.register_full_backward_hook(hook)
    net.register_full_backward_pre_hook(lambda m, grads: (grads[0] * 3,))
    x = facula.ones(1, 2).requires_grad_()
    net(x).sum().backward()
    assert_close(seen[0][1], facula.full((1, 1), 3.0))
    assert_close(seen[0][0], net.weight.detach() * 3)
    assert_close(x.grad, net.weight.detach() * 6)
    assert_close(net.weight.grad, facula.full((1, 2), 3.0))


def test_full_backward_hook_without_input_gradient():
    net, seen = nn.Linear(2, 1), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].item())))
    net(facula.ones(1, 2)).sum().backward()
    assert seen == [((None,), 1.0)]


# ---- errors, containers, imports


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have notes from 3.11 on")
def test_error_names_the_module_path():
    net = Net()
    net.body[1] = nn.Linear(7, 2)
    with pytest.raises(RuntimeError) as info:
        net(facula.zeros(1, 3))
    (note,) = info.value.__notes__
    assert "body.1 of Net" in note and "(2, 7)" in note and "cpu" in note


def test_containers():
    seq = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    assert len(seq[:2]) == 2 and seq[-1] is seq[2]
    del seq[1]
    assert list(seq._modules) == ["0", "1"]
    with pytest.raises(IndexError):
        seq[2]
    named = nn.Sequential({"a": nn.ReLU(), "b": nn.Tanh()})
    assert isinstance(named.b, nn.Tanh)
    many = nn.ModuleList([nn.ReLU()])
    many.append(nn.Tanh()).insert(0, nn.Identity())
    assert [type(m).__name__ for m in many] == ["Identity", "ReLU", "Tanh"]
    table = nn.ModuleDict({"x": nn.ReLU()})
    table["y"] = nn.Linear(1, 1)
    assert list(table) == ["x", "y"] and "y.weight" in table.state_dict()
    assert table.pop("x") and "x" not in table
    params = nn.ParameterList([facula.zeros(1), facula.ones(2)])
    assert len(list(params.parameters())) == 2 and params[-1].shape == (2,)
    by_name = nn.ParameterDict({"w": facula.zeros(3)})
    assert list(by_name.state_dict()) == ["w"] and isinstance(by_name["w"], nn.Parameter)
    del by_name["w"]
    assert len(by_name) == 0


def test_clip_and_vectors():
    a, b = (nn.Parameter(facula.zeros(n)) for n in (2, 1))
    a.grad, b.grad = facula.tensor([3.0, 0.0]), facula.tensor([4.0])
    total = nn.utils.clip_grad_norm_([a, b], 1.0)
    assert_close(total.item(), 5.0)
    assert_close(b.grad, facula.tensor([0.8]))
    nn.utils.clip_grad_value_([a, b], 0.7)
    assert_close(b.grad, facula.tensor([0.7]))
    a.grad = facula.tensor([float("nan"), 0.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_([a, b], 1.0, error_if_nonfinite=True)
    nn.utils.vector_to_parameters(facula.tensor([1.0, 2.0, 3.0]), [a, b])
    assert_close(nn.utils.parameters_to_vector([a, b]).detach(), facula.tensor([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="need"):
        nn.utils.vector_to_parameters(facula.zeros(4), [a, b])


def test_unknown_function_suggests_a_name():
    with pytest.raises(AttributeError, match="did you mean 'relu'"):
        nn.functional.rellu  # noqa: B018


def test_nn_does_not_import_numpy():
    code = (
        "import sys, facula; had = 'numpy' in sys.modules; "
        "import facula.nn, facula.optim, facula.utils.data, facula.serialization; "
        "assert had == ('numpy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def tied():
    net = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False), nn.Module())
    net[1].weight = net[0].weight
    net[2].register_buffer("kept", facula.ones(2))
    net.register_buffer("same", net[2].kept)
    return net


@pytest.mark.parametrize("from_file", [False, True])
def test_assigned_tensors_stay_tied(from_file, tmp_path):
    net, state = tied(), tied().state_dict()
    if from_file:
        facula.save(state, tmp_path / "x")
        state = facula.load(tmp_path / "x")
    net.load_state_dict(state, assign=True)
    assert net[0].weight is net[1].weight and net.same is net[2].kept
    assert isinstance(net[0].weight, nn.Parameter) and len(list(net.parameters())) == 1
    assert net[0].weight.data_ptr() == state["0.weight"].data_ptr()
    net.load_state_dict({"0.weight": facula.ones(3, 3)}, strict=False, assign=True)
    assert net[0].weight is net[1].weight and net[1].weight.sum() == 9
    state = {"0.weight": facula.zeros(3, 3), "1.weight": facula.full((3, 3), 2.0)}
    copied = tied()
    for module, assign in ((net, True), (copied, False)):
        with pytest.warns(UserWarning, match="0.weight and 1.weight are one tensor"):
            module.load_state_dict(state, strict=False, assign=assign)
        assert module[0].weight is module[1].weight and module[0].weight.sum() == 18


@pytest.mark.parametrize("assign", [False, True])
def test_ties_of_equal_values_are_not_warned_of(assign):
    same = facula.tensor([1.0, math.nan])
    net = nn.Module()
    net.a = net.b = nn.Parameter(facula.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.load_state_dict({"a": same, "b": same.clone()}, assign=assign)
        net.load_state_dict({"a": same, "b": same}, assign=assign)
    assert net.a is net.b


class Flat(nn.Module):
    """Parameters and buffers that are views of one memory; of another dtype, too."""

    def __init__(self, device="cpu"):
        super().__init__()
        memory = facula.arange(12.0, device=device)
        self.flat = nn.Parameter(memory)
        self.weight = nn.Parameter(memory[:6].view(2, 3), requires_grad=False)
        self.register_buffer("column", memory[:6].view(2, 3)[:, 1])
        self.cache = nn.Buffer(memory[4:9], persistent=False)
        bits = facula.zeros(4, dtype=facula.int32, device=device)
        self.register_buffer("bits", bits)
        self.register_buffer("low", bits.view(facula.uint8)[5:9])
        self.alone = nn.Parameter(facula.ones(2, device=device))

    def check(self, flat, bits):
        assert self.flat.tolist() == flat and self.weight.tolist() == [flat[:3], flat[3:6]]
        assert self.column.tolist() == [flat[1], flat[4]] and self.bits.tolist() == bits
        assert [type(t) for t in (self.flat, self.weight)] == [nn.Parameter] * 2
        assert self.flat.requires_grad and not self.weight.requires_grad
        flat = self.flat.detach().clone()
        self.flat.detach()[4] = -8
        assert self.weight[1, 1] == self.column[1] == self.cache[0] == -8
        self.cache[1] = 77
        assert self.flat[5] == 77 and type(self.cache) is nn.Buffer and not self.cache.persistent
        self.bits[1] = 0x0A0B0C0D
        assert self.low.tolist() == self.bits.view(facula.uint8)[5:9].tolist() and self.low[0] == 12
        self.flat.detach().copy_(flat)
        self.bits[1] = bits[1]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("apart", [False, True])
def test_assigned_views_keep_sharing(apart, device):
    source = Flat()
    source.flat.detach().mul_(10)
    source.bits.fill_(3)
    state = source.state_dict()
    if apart:  # as another program's file has them
        state = {name: tensor.clone() for name, tensor in state.items()}
    net = Flat(device)
    net.load_state_dict(state, assign=True)
    net.check([10.0 * i for i in range(12)], [3] * 4)
    assert net.alone.data_ptr() == state["alone"].data_ptr()
    del net.cache, source.cache  # with what no state dict holds away
    net.load_state_dict(source.state_dict() if not apart else state, assign=True)
    assert (net.flat.data_ptr() == source.flat.data_ptr()) == (not apart)
    net.flat.detach()[1] = -1
    assert net.weight[0, 1] == net.column[0] == -1
    net.flat.detach()[1] = 10
    doubled = Flat()
    doubled.load_state_dict(
        {k: t.double() if t.is_floating_point() else t for k, t in state.items()}, assign=True
    )
    assert doubled.flat.dtype is doubled.weight.dtype is doubled.cache.dtype is facula.float64
    doubled.check([10.0 * i for i in range(12)], [3] * 4)


def test_views_that_a_state_dict_has_in_part_or_at_odds():
    """The last holds, as in a copy."""
    odds = {"weight": facula.full((2, 3), 5.0), "column": facula.tensor([7.0, 8.0])}
    results = []
    for assign in (False, True):
        net = Flat()
        net.load_state_dict(odds, strict=False, assign=assign)
        results.append([t.tolist() for t in (net.flat, net.weight, net.column, net.cache)])
        net.check([5.0, 7.0, 5.0, 5.0, 8.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0], [0] * 4)
    assert results[0] == results[1]


def test_assigned_parameters_keep_whether_they_are_trained():
    net = nn.Linear(2, 2)
    net.weight.requires_grad_(False)
    net.load_state_dict(nn.Linear(2, 2).state_dict(keep_vars=True), assign=True)
    assert not net.weight.requires_grad and net.bias.requires_grad


def test_deepcopy_keeps_shared_memory():
    net = nn.Module()
    net.w = nn.Parameter(facula.arange(6.0))
    net.register_buffer("row", net.w.detach().view(2, 3)[1])
    net.buffer = nn.Buffer(net.w.detach()[:2])
    for twin in (copy.deepcopy(net), copy.deepcopy([net])[0]):
        twin.w.detach()[4] = -1
        assert twin.row.tolist() == [3, -1, 5] and net.w.tolist() == [0, 1, 2, 3, 4, 5]
        twin.buffer[0] = 9
        assert twin.w[0] == 9 and isinstance(twin.buffer, nn.Buffer)
        assert isinstance(twin.w, nn.Parameter) and twin.w.requires_grad
    tied_twin = copy.deepcopy(tied())
    assert tied_twin[0].weight is tied_twin[1].weight and tied_twin.same is tied_twin[2].kept


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize(
    ("name", "shape", "channels"),
    [
        ("dropout1d", (40, 5), 1),
        ("dropout1d", (8, 40, 5), 2),
        ("dropout2d", (40, 5), 2),
        ("dropout2d", (8, 40, 5), 2),
        ("dropout2d", (8, 40, 3, 4), 2),
        ("dropout2d", (8, 40, 3, 4, 2), 2),
        ("dropout3d", (40,), 1),
        ("dropout3d", (40, 5), 1),
        ("dropout3d", (40, 5, 3), 1),
        ("dropout3d", (40, 5, 3, 2), 1),
        ("dropout3d", (8, 40, 5, 3, 2), 2),
    ],
)
@pytest.mark.filterwarnings("ignore:.*but channels with")
def test_channel_dropout(name, shape, channels, inplace):
    """The leading dims choose together; what is dropped is 0, also where it was infinite."""
    facula.manual_seed(5)
    for function in (
        lambda x, p: getattr(nn.functional, name)(x, p, True, inplace),
        lambda x, p: getattr(nn, name.replace("d", "D", 1))(p, inplace)(x),
    ):
        x = facula.full(shape, math.inf)
        y = function(x, 0.25)
        flat = y.reshape(math.prod(shape[:channels]), -1)
        assert set(flat.reshape(-1).tolist()) == {0.0, math.inf}
        assert (flat == flat[:, :1]).all()
        assert 0 < (flat[:, 0] == 0).sum() < 0.6 * len(flat)
        assert (y is x) == inplace
        assert function(facula.full(shape, math.inf), 1.0).abs().sum() == 0
        kept = function(facula.ones(shape), 0.25)
        assert_close(kept.max(), facula.tensor(4 / 3))


def test_channel_dropout_of_other_dims():
    for name, bad in (
        ("dropout1d", (2,)),
        ("dropout1d", (2, 2, 2, 2)),
        ("dropout2d", (2,)),
        ("dropout3d", ()),
    ):
        with pytest.raises(RuntimeError, match=rf"{name}\(\): input is"):
            getattr(nn.functional, name)(facula.ones(bad))
    for name, odd in (("dropout2d", (2, 2)), ("dropout3d", (2, 2, 2))):
        with pytest.warns(UserWarning, match="channels with"):
            getattr(nn.functional, name)(facula.ones(odd))


def test_hooks_after_loading_may_make_up_for_keys():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    state = {k: v + 1 for k, v in net.state_dict().items() if k != "0.bias"}
    seen = []

    def forgive(module, report):
        seen.append(list(report.missing_keys))
        report.missing_keys.clear()

    handle = net.register_load_state_dict_post_hook(forgive)
    assert net.load_state_dict(state).missing_keys == [] and seen == [["0.bias"]]
    assert (net[1].weight == state["1.weight"]).all()
    state["1.weight"] = facula.zeros(3, 3)  # what they cannot make up for is refused before
    with pytest.raises(RuntimeError, match="nothing was loaded") as raised:
        net.load_state_dict(state)
    assert "0.bias" in str(raised.value) and "1.weight" in str(raised.value) and len(seen) == 1
    handle.remove()
    del state["1.weight"]
    net.register_load_state_dict_post_hook(lambda module, report: report.missing_keys.pop())
    with pytest.raises(RuntimeError, match=r'all else was loaded[^$]*"0\.bias"'):
        net.load_state_dict({**state, "1.bias": facula.full((1,), 7.0)})
    assert net[1].bias.item() == 7
