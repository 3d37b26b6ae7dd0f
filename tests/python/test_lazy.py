"""Lazy layers, hooks of all modules, what loading says, and softmax over many classes."""

from __future__ import annotations

import copy

import facula as fa
import numpy as np
import pytest
from facula import nn
from facula.nn.modules import module as module_file

CASES = [
    (nn.LazyLinear(4), (2, 5), nn.Linear, 5),
    (nn.LazyConv1d(4, 3), (2, 5, 7), nn.Conv1d, 5),
    (nn.LazyConv2d(4, 3, groups=2), (2, 6, 7, 7), nn.Conv2d, 6),
    (nn.LazyConv3d(4, 2), (1, 2, 3, 3, 3), nn.Conv3d, 2),
    (nn.LazyConvTranspose1d(4, 3), (5, 7), nn.ConvTranspose1d, 5),
    (nn.LazyConvTranspose2d(4, 3), (2, 5, 7, 7), nn.ConvTranspose2d, 5),
    (nn.LazyConvTranspose3d(4, 2), (1, 2, 3, 3, 3), nn.ConvTranspose3d, 2),
    (nn.LazyBatchNorm1d(), (3, 5), nn.BatchNorm1d, 5),
    (nn.LazyBatchNorm2d(), (3, 5, 2, 2), nn.BatchNorm2d, 5),
    (nn.LazyBatchNorm3d(bias=False), (3, 5, 2, 2, 2), nn.BatchNorm3d, 5),
    (nn.LazyInstanceNorm1d(), (3, 5, 4), nn.InstanceNorm1d, 5),
    (nn.LazyInstanceNorm2d(affine=False), (5, 4, 4), nn.InstanceNorm2d, 5),
    (nn.LazyInstanceNorm3d(), (3, 5, 2, 2, 2), nn.InstanceNorm3d, 5),
]


@pytest.mark.parametrize(
    "lazy, shape, cls, width", CASES, ids=lambda v: getattr(v, "__name__", None)
)
def test_a_lazy_layer_becomes_the_plain_one(lazy, shape, cls, width):
    layer = copy.deepcopy(lazy)
    assert layer.has_uninitialized_params() or not list(layer.parameters())
    optimizer = fa.optim.SGD([*layer.parameters(), nn.Parameter(fa.zeros(1))], 0.1)
    layer(fa.randn(shape, requires_grad=True)).sum().backward()
    optimizer.step()
    assert type(layer) is cls and not layer._forward_pre_hooks
    held = {id(p) for g in optimizer.param_groups for p in g["params"]}
    assert all(id(p) in held and type(p) is nn.Parameter for p in layer.parameters())
    names = ("in_features", "in_channels", "num_features")
    assert [getattr(layer, n) for n in names if hasattr(layer, n)] == [width]
    fresh = copy.deepcopy(lazy)
    fresh.load_state_dict(layer.state_dict())
    x = fa.randn(shape)
    fresh.eval(), layer.eval()
    np.testing.assert_array_equal(fresh(x).detach().numpy(), layer(x).detach().numpy())
    assert type(fresh) is cls


def test_a_parameter_without_a_shape():
    p = nn.UninitializedParameter(dtype=fa.float64)
    with pytest.raises(RuntimeError, match="uninitialized"):
        p.shape  # noqa: B018
    assert repr(p) == "<UninitializedParameter>"
    q = copy.deepcopy(p)
    p.materialize((2, 3))
    assert type(p) is nn.Parameter and p.shape == (2, 3) and p.dtype is fa.float64
    assert type(q) is nn.UninitializedParameter
    b = nn.UninitializedBuffer()
    b.materialize((4,))
    assert type(b) is nn.Buffer and b.shape == (4,)


def test_state_dicts_of_layers_that_were_never_called():
    one, two = nn.LazyLinear(3), nn.LazyLinear(3)
    two.load_state_dict(one.state_dict())
    assert two.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="never called"):
        nn.Linear(2, 3).load_state_dict(one.state_dict())


def test_lazy_convolutions_refuse_what_does_not_fit():
    with pytest.raises(RuntimeError, match="3D"):
        nn.LazyConv2d(2, 3)(fa.ones(4, 4))
    with pytest.raises(ValueError, match="groups"):
        nn.LazyConv2d(4, 3, groups=2)(fa.ones(1, 3, 4, 4))
    with pytest.raises(ValueError, match="groups"):
        nn.LazyConv2d(3, 3, groups=2)


# ---- hooks of all modules ----


def test_hooks_of_all_modules_run_and_go():
    net, seen = nn.Sequential(nn.Linear(2, 3), nn.ReLU()), []
    plain = type(net).__call__

    def after(module, args, output):
        seen.append(type(module).__name__)
        return output + 1 if isinstance(module, nn.ReLU) else None

    def before(module, args):
        seen.append("before " + type(module).__name__)

    net.register_forward_hook(lambda m, a, o: seen.append("own"))
    with (
        module_file.register_module_forward_hook(after),
        module_file.register_module_forward_pre_hook(before),
    ):
        x = fa.randn(4, 2)
        found = net(x)
    wanted = ["before Sequential", "before Linear", "Linear", "before ReLU", "ReLU"]
    assert seen == [*wanted, "Sequential", "own"]
    np.testing.assert_allclose(found.detach().numpy(), (net(x) + 1).detach().numpy())
    assert type(net).__call__ is plain and "__call__" not in vars(nn.Module)


def test_backward_hooks_of_all_modules():
    net, seen = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), []
    with (
        module_file.register_module_full_backward_hook(lambda m, i, o: seen.append((m, o))),
        module_file.register_module_full_backward_pre_hook(lambda m, o: (2 * o[0],)),
    ):
        net(fa.ones(1, 2, requires_grad=True)).sum().backward()
    assert [m for m, _ in seen] == [net[1], net[0], net]
    assert seen[0][1][0].item() == 4  # doubled at the network and at its last layer


def test_hooks_of_registrations():
    log = []

    def note(module, name, value):
        log.append((type(module).__name__, name))

    with (
        module_file.register_module_parameter_registration_hook(note),
        module_file.register_module_buffer_registration_hook(note),
        module_file.register_module_module_registration_hook(note),
    ):
        nn.Sequential(nn.BatchNorm1d(2))
    assert log[:2] == [("BatchNorm1d", "weight"), ("BatchNorm1d", "bias")]
    assert ("BatchNorm1d", "running_mean") in log and log[-1] == ("Sequential", "0")


def test_always_called_hooks_of_all_modules_see_errors():
    class Broken(nn.Module):
        def forward(self):
            raise ValueError("broken")

    seen = []
    with (
        module_file.register_module_forward_hook(
            lambda m, a, k, o: seen.append((k, o)), with_kwargs=True, always_call=True
        ),
        pytest.raises(ValueError, match="broken"),
    ):
        Broken()()
    assert seen == [({}, None)]


def test_a_copied_handle_removes_the_copy_s_hook():
    layer = nn.Linear(1, 1)
    layer.handle = layer.register_forward_hook(lambda m, a, o: None)
    twin = copy.deepcopy(layer)
    twin.handle.remove()
    assert len(layer._forward_hooks) == 1 and len(twin._forward_hooks) == 0


# ---- what loading says ----


def test_near_names_are_proposed():
    net = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(
        RuntimeError, match=r'"0\.weight" may be what the state dict calls "0\.wieght"'
    ):
        net.load_state_dict({"0.wieght": fa.ones(2, 2), "0.bias": fa.ones(2)})
    state = {"module." + k: v for k, v in net.state_dict().items()}
    with pytest.raises(RuntimeError, match=r'begin with "module\."') as caught:
        net.load_state_dict(state)
    expression = str(caught.value).split("load ")[1].split(" instead")[0]
    net.load_state_dict(eval(expression, {"state_dict": state}))
    with pytest.raises(RuntimeError, match="Names in the module begin"):
        nn.Sequential(net).load_state_dict(net.state_dict())


# ---- softmax over many classes ----


def test_adaptive_softmax_is_a_distribution_and_its_loss_is_of_it():
    fa.manual_seed(0)
    m = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10, 15], div_value=2.0, head_bias=True).double()
    x, t = fa.randn(30, 8, dtype=fa.float64), fa.arange(30) % 20
    log_p = m.log_prob(x).detach().numpy()
    np.testing.assert_allclose(np.exp(log_p).sum(1), 1)
    head = x.numpy() @ m.head.weight.detach().numpy().T + m.head.bias.detach().numpy()
    head = head - np.log(np.exp(head).sum(1, keepdims=True))
    np.testing.assert_allclose(log_p[:, :4], head[:, :4])
    a, b = (layer.weight.detach().numpy() for layer in m.tail[1])
    tail = x.numpy() @ a.T @ b.T
    tail = tail - np.log(np.exp(tail).sum(1, keepdims=True)) + head[:, 5:6]
    np.testing.assert_allclose(log_p[:, 10:15], tail)
    out, loss = m(x, t)
    np.testing.assert_allclose(out.detach().numpy(), log_p[np.arange(30), t.numpy()])
    np.testing.assert_allclose(loss.item(), -out.detach().numpy().mean())
    np.testing.assert_array_equal(m.predict(x).numpy(), log_p.argmax(1))
    loss.backward()
    assert all(p.grad is not None for p in m.parameters())
    single, _ = m(x[3], t[3])
    np.testing.assert_allclose(single.item(), out[3].item())
    assert [tuple(p.shape) for p in m.tail.parameters()] == [
        (4, 8), (6, 4), (2, 8), (5, 2), (1, 8), (5, 1)
    ]  # fmt: skip


def test_adaptive_softmax_refuses():
    with pytest.raises(ValueError, match="cutoffs"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 20, [10, 4])
    with pytest.raises(ValueError, match="cutoffs"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 20])
    m = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4])
    with pytest.raises(RuntimeError, match=r"\[0, 19\]"):
        m(fa.randn(1, 8), fa.tensor([20]))
    with pytest.raises(RuntimeError, match="batch"):
        m(fa.randn(2, 8), fa.tensor([1]))


def test_older_names_of_initialisations_warn():
    with pytest.warns(FutureWarning, match="uniform_"):
        t = nn.init.uniform(fa.empty(3), 2, 3)
    assert bool(((t >= 2) & (t <= 3)).all())


# ---- further layers ----


def test_windows_at_random_distances():
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((2, 3, 7, 9)), rng.random((2, 3, 2))
    values, places = nn.functional.fractional_max_pool2d(
        fa.tensor(x), (2, 3), output_size=(3, 4), return_indices=True, _random_samples=fa.tensor(u)
    )

    def starts(r, size, out, kernel):
        step = (size - kernel) / (out - 1)
        inner = [int((i + r) * step) - int(r * step) for i in range(out - 1)]
        return [*inner, size - kernel]

    for n, c in np.ndindex(2, 3):
        columns, rows = starts(u[n, c, 0], 9, 4, 3), starts(u[n, c, 1], 7, 3, 2)
        for i, r in enumerate(rows):
            for j, s in enumerate(columns):
                window = x[n, c, r : r + 2, s : s + 3]
                assert values[n, c, i, j].item() == window.max()
                assert x[n, c].reshape(-1)[places[n, c, i, j].item()] == window.max()
    layer = nn.FractionalMaxPool3d(2, output_ratio=0.5)
    y = fa.randn(2, 6, 6, 6, requires_grad=True)
    out = layer(y)
    assert out.shape == (2, 3, 3, 3)
    out.sum().backward()
    assert y.grad.sum().item() == out.numel()
    with pytest.raises(ValueError, match="only one"):
        nn.FractionalMaxPool2d(2)
    with pytest.raises(RuntimeError, match="do not fit"):
        nn.FractionalMaxPool2d(5, output_size=3)(fa.ones(1, 1, 6, 6))


@pytest.mark.parametrize("sizes", [(), (2,)])
def test_cross_entropy_with_its_own_layer(sizes):
    weight = fa.tensor([1.0, 2.0, 0.5], dtype=fa.float64)
    loss = nn.LinearCrossEntropyLoss(
        4, 3, out_features=sizes, bias=True, dtype=fa.float64, weight=weight
    )
    x, t = fa.randn(5, 4, dtype=fa.float64), fa.randint(0, 3, (5, *sizes))
    w, b = loss.linear.weight.detach().numpy(), loss.linear.bias.detach().numpy()
    scores = (x.numpy() @ w.T + b).reshape(5, 3, -1)
    log_p = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    index = t.numpy().reshape(5, 1, -1)
    chosen = -np.take_along_axis(log_p, index, 1)
    factors = weight.numpy()[index]
    assert loss(x, t).item() == pytest.approx((chosen * factors).sum() / factors.sum())
    with pytest.raises(ValueError, match="1 or 2"):
        nn.functional.linear_cross_entropy(fa.ones(1, 2, 4), fa.ones(3, 4), t)


def test_older_names_and_keywords():
    with pytest.warns(FutureWarning, match="NLLLoss"):
        assert isinstance(nn.NLLLoss2d(), nn.NLLLoss)
    assert nn.factory_kwargs({"device": "cpu"}) == {"device": "cpu"}
    with pytest.raises(TypeError, match="unexpected"):
        nn.factory_kwargs({"other": 1})
    with pytest.raises(TypeError, match="twice"):
        nn.factory_kwargs({"dtype": 1, "factory_kwargs": {"dtype": 2}})
    packed = nn.utils.rnn.pack_sequence([fa.ones(2)])
    assert packed.short().data.dtype is fa.int16 and packed.byte().data.dtype is fa.uint8


def test_dictionaries_of_parameters():
    d = nn.ParameterDict({"a": fa.ones(1)})
    assert d.setdefault("a", fa.zeros(1)) is d["a"]
    b = d.setdefault("b", fa.zeros(2))
    assert isinstance(b, nn.Parameter) and list(reversed(d)) == ["b", "a"]
    other = d.copy()
    assert other["a"] is d["a"] and other.popitem() == ("b", b) and len(d) == 2
    both = other | nn.ParameterDict({"c": fa.ones(3)})
    assert list(both) == ["a", "c"] and list(other) == ["a"]
    other |= both
    assert list(other) == ["a", "c"]
    filled = d.fromkeys(["x", "y"], fa.ones(1))
    assert sorted(n for n, _ in filled.named_parameters(remove_duplicate=False)) == ["x", "y"]
    d.clear()
    with pytest.raises(KeyError, match="empty"):
        d.popitem()
