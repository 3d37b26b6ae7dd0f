"""nn.utils: parametrizations, norms of weights, pruning, fusion, and small helpers."""

from __future__ import annotations

import copy

import facula as fa
import numpy as np
import pytest
from facula import nn
from facula.nn.utils import parametrizations, parametrize, prune
from facula.nn.utils.stateless import functional_call


@pytest.fixture(autouse=True)
def seeded():
    fa.manual_seed(3)


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, a):
        return a.triu()


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


def array(t):
    return t.detach().numpy()


# ---- parametrize ----


def test_a_parametrized_weight_is_computed_from_its_original():
    layer = nn.Linear(3, 3)
    before = array(layer.weight).copy()
    optimizer = fa.optim.SGD(layer.parameters(), 0.1)
    original = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert parametrize.is_parametrized(layer)
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    upper = np.triu(before)
    np.testing.assert_array_equal(array(layer.weight), upper + np.triu(before, 1).T)
    assert layer.parametrizations.weight.original is original  # optimizers follow
    layer(fa.ones(2, 3)).sum().backward()
    optimizer.step()
    grad = np.ones((3, 3)) * 2
    slope = np.triu(grad) + np.triu(grad.T, 1)
    np.testing.assert_allclose(array(original), upper - 0.1 * slope, rtol=1e-6, atol=1e-6)
    layer.weight = fa.ones(3, 3)
    np.testing.assert_array_equal(array(original), np.triu(np.ones((3, 3))))


def test_parametrizations_chain_and_go():
    layer = nn.Linear(2, 2)
    before = array(layer.weight).copy()
    parametrize.register_parametrization(layer, "weight", Doubled())
    parametrize.register_parametrization(layer, "weight", Doubled())
    np.testing.assert_allclose(array(layer.weight), 4 * before)
    with pytest.raises(RuntimeError, match="right_inverse"):
        layer.weight = fa.zeros(2, 2)
    other = copy.deepcopy(layer)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter)
    np.testing.assert_allclose(array(layer.weight), 4 * before)
    np.testing.assert_allclose(array(other.weight), 4 * before)  # the copy keeps its own
    parametrize.remove_parametrizations(other, "weight", leave_parametrized=False)
    np.testing.assert_allclose(array(other.weight), before)


def test_what_a_parametrization_may_not_do():
    class Wrong(nn.Module):
        def forward(self, x):
            return x.sum()

    layer = nn.Linear(2, 3)
    with pytest.raises(ValueError, match="shape"):
        parametrize.register_parametrization(layer, "weight", Wrong())
    assert type(layer) is nn.Linear and "weight" in layer._parameters
    parametrize.register_parametrization(layer, "weight", Wrong(), unsafe=True)
    assert layer.weight.shape == ()
    with pytest.raises(ValueError, match="does not have a parameter"):
        parametrize.register_parametrization(layer, "nothing", Doubled())
    with pytest.raises(ValueError, match="does not have a parametrization"):
        parametrize.remove_parametrizations(layer, "bias")
    with pytest.raises(RuntimeError, match="state_dict"):
        import pickle

        pickle.dumps(layer)


def test_cached_computes_once_a_context():
    calls = []

    class Counted(nn.Module):
        def forward(self, x):
            calls.append(1)
            return x + 1

    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Counted())
    calls.clear()
    with parametrize.cached():
        first = layer.weight
        assert layer.weight is first
    assert len(calls) == 1
    assert layer.weight is not first


def test_state_dicts_of_parametrized_modules():
    one, two = nn.Linear(3, 3), nn.Linear(3, 3)
    for layer in (one, two):
        parametrize.register_parametrization(layer, "weight", Symmetric())
    assert list(one.state_dict()) == ["bias", "parametrizations.weight.original"]
    two.load_state_dict(one.state_dict())
    np.testing.assert_array_equal(array(one.weight), array(two.weight))
    plain = nn.Linear(3, 3)
    parametrize.transfer_parametrizations_and_params(one, plain)
    np.testing.assert_array_equal(array(one.weight), array(plain.weight))
    np.testing.assert_array_equal(array(one.bias), array(plain.bias))


# ---- norms of weights ----


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_keeps_the_weight_and_has_its_gradients(dim):
    layer, old = nn.Linear(4, 3).double(), nn.Linear(4, 3).double()
    old.load_state_dict(layer.state_dict())
    w = array(layer.weight).copy()
    parametrizations.weight_norm(layer, dim=dim)
    nn.utils.weight_norm(old, dim=dim)
    norms = {0: np.linalg.norm(w, axis=1, keepdims=True)}
    norms[1], norms[None] = np.linalg.norm(w, axis=0, keepdims=True), np.linalg.norm(w)
    g = array(layer.parametrizations.weight.original0)
    np.testing.assert_allclose(g, norms[dim])
    np.testing.assert_allclose(array(layer.weight), w)
    x = fa.randn(5, 4, dtype=fa.float64)
    for m, gain in ((layer, layer.parametrizations.weight.original0), (old, old.weight_g)):
        (m(x) ** 2).sum().backward()
        # dL/dg = sum over the slice of dL/dw v / |v|
        y = x.numpy() @ w.T + array(m.bias)
        dw = 2 * y.T @ x.numpy()
        axes = {0: 1, 1: 0, None: None}[dim]
        wanted = (dw * w / norms[dim]).sum(axis=axes, keepdims=dim is not None)
        np.testing.assert_allclose(gain.grad.numpy(), wanted, rtol=1e-9)
    fresh = nn.Linear(4, 3).double()
    parametrizations.weight_norm(fresh, dim=dim)
    fresh.load_state_dict(old.state_dict())  # names of the older form
    np.testing.assert_allclose(array(fresh.weight), array(old.weight))
    nn.utils.remove_weight_norm(old)
    assert isinstance(old.weight, nn.Parameter) and list(old._parameters) == ["bias", "weight"]
    np.testing.assert_allclose(array(old.weight), w)
    with pytest.raises(ValueError, match="not found"):
        nn.utils.remove_weight_norm(old)


@pytest.mark.parametrize(
    "layer", [nn.Linear(7, 5), nn.Conv2d(3, 6, 3), nn.ConvTranspose2d(3, 6, 3)], ids=str
)
def test_spectral_norm_divides_by_the_largest_singular_value(layer):
    fa.manual_seed(0)  # from some starts the iteration takes long
    nn.init.normal_(layer.weight)
    new, old = copy.deepcopy(layer), copy.deepcopy(layer)
    w = array(layer.weight)
    transposed = isinstance(layer, nn.ConvTranspose2d)
    matrix = np.moveaxis(w, 1, 0).reshape(w.shape[1], -1) if transposed else w.reshape(len(w), -1)
    sigma = np.linalg.svd(matrix, compute_uv=False)[0]
    parametrizations.spectral_norm(new, n_power_iterations=50)
    nn.utils.spectral_norm(old, n_power_iterations=300)
    np.testing.assert_allclose(array(new.weight), w / sigma, rtol=1e-3, atol=1e-6)
    x = fa.randn(2, 7) if isinstance(layer, nn.Linear) else fa.randn(2, 3, 5, 5)
    old(x)
    np.testing.assert_allclose(array(old.weight), w / sigma, rtol=1e-3, atol=1e-6)
    old.eval()
    u = array(old.weight_u).copy()
    old(x)
    np.testing.assert_array_equal(array(old.weight_u), u)  # no steps in evaluation
    assert set(old.state_dict()) == {"bias", "weight_orig", "weight_u", "weight_v"}
    nn.utils.remove_spectral_norm(old)
    np.testing.assert_allclose(array(old.weight), w / sigma, rtol=1e-3, atol=1e-6)
    assert isinstance(old.weight, nn.Parameter)


@pytest.mark.parametrize("name", ["matrix_exp", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (6, 4), (4, 6)])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal_weights_stay_orthogonal(name, shape, trivial):
    layer = nn.Linear(shape[1], shape[0]).double()
    parametrizations.orthogonal(layer, orthogonal_map=name, use_trivialization=trivial)
    optimizer = fa.optim.SGD(layer.parameters(), 0.3)
    for _ in range(3):
        optimizer.zero_grad()
        (layer(fa.randn(8, shape[1], dtype=fa.float64)) ** 2)[:, 0].sum().backward()
        optimizer.step()
        w = array(layer.weight)
        gram = w.T @ w if shape[0] >= shape[1] else w @ w.T
        np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-12)
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((max(shape), max(shape))))[0]
    q = q[: shape[0], : shape[1]]
    if name == "matrix_exp" and not trivial:
        with pytest.raises(NotImplementedError, match="use_trivialization"):
            layer.weight = fa.tensor(q)
    else:
        layer.weight = fa.tensor(q)
        np.testing.assert_allclose(array(layer.weight), q, atol=1e-12)


def test_the_exponential_and_qr_that_orthogonal_uses():
    scipy_linalg = pytest.importorskip("scipy.linalg")
    from facula.nn.utils._orthogonal import geqrf, householder_product, matrix_exp

    rng = np.random.default_rng(1)
    for scale in (0.01, 1.0, 30.0):
        a = rng.standard_normal((3, 5, 5)) * scale
        a = a - a.transpose(0, 2, 1)
        wanted = np.stack([scipy_linalg.expm(m) for m in a])
        np.testing.assert_allclose(array(matrix_exp(fa.tensor(a))), wanted, atol=1e-11)
    for shape in ((6, 4), (4, 4), (4, 6), (5, 1)):
        a = rng.standard_normal(shape)
        (packed, tau), _ = scipy_linalg.qr(a, mode="raw")
        mine, my_tau = geqrf(fa.tensor(a))
        np.testing.assert_allclose(array(mine), packed, atol=1e-12)
        np.testing.assert_allclose(array(my_tau), tau, atol=1e-12)
        if shape[0] >= shape[1]:
            q = scipy_linalg.qr(a, mode="economic")[0]
            np.testing.assert_allclose(array(householder_product(mine, my_tau)), q, atol=1e-12)


def test_orthogonal_refuses_what_it_cannot():
    with pytest.raises(ValueError, match="matrix"):
        parametrizations.orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="orthogonal_map"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="other")
    if not hasattr(fa.linalg, "solve"):
        layer = nn.Linear(2, 2)
        with pytest.raises(NotImplementedError, match="solve"):
            parametrizations.orthogonal(layer, orthogonal_map="cayley")
        assert type(layer) is nn.Linear


# ---- pruning ----


def test_the_least_weights_are_pruned_and_stay_so():
    layer = nn.Linear(4, 5)
    w = array(layer.weight).copy()
    prune.l1_unstructured(layer, "weight", 6)
    order = np.argsort(np.abs(w), axis=None)
    mask = np.ones(w.size)
    mask[order[:6]] = 0
    mask = mask.reshape(w.shape)
    np.testing.assert_array_equal(array(layer.weight_mask), mask)
    np.testing.assert_array_equal(array(layer.weight), w * mask)
    assert prune.is_pruned(layer) and prune.is_pruned(nn.Sequential(layer))
    assert set(layer.state_dict()) == {"bias", "weight_orig", "weight_mask"}
    layer(fa.ones(1, 4)).sum().backward()
    np.testing.assert_array_equal(layer.weight_orig.grad.numpy(), mask)
    # a second time, of those that are left
    prune.l1_unstructured(layer, "weight", 0.5)
    mask.reshape(-1)[order[: 6 + 7]] = 0
    np.testing.assert_array_equal(array(layer.weight_mask), mask)
    original = layer.weight_orig
    prune.remove(layer, "weight")
    assert layer.weight is original and not prune.is_pruned(layer)
    np.testing.assert_array_equal(array(layer.weight), w * mask)


def test_channels_are_pruned_by_norm():
    layer = nn.Conv2d(3, 6, 2)
    w = array(layer.weight).copy()
    prune.ln_structured(layer, "weight", 0.5, n=2, dim=0)
    norms = np.sqrt((w**2).sum((1, 2, 3)))
    dropped = set(np.argsort(norms)[:3])
    for i in range(6):
        assert (array(layer.weight_mask)[i] == (i not in dropped)).all()
    prune.ln_structured(layer, "weight", 1, n=1, dim=0)  # one more of the three
    assert sorted(array(layer.weight_mask).mean((1, 2, 3))) == [0, 0, 0, 0, 1, 1]


def test_random_pruning_takes_the_amount():
    layer = nn.Linear(10, 10)
    prune.random_unstructured(layer, "weight", 0.3)
    assert array(layer.weight_mask).sum() == 70
    prune.random_structured(layer, "bias_like", 1, 0) if hasattr(layer, "bias_like") else None
    other = nn.Linear(10, 10)
    prune.random_structured(other, "weight", 2, dim=1)
    assert sorted(array(other.weight_mask).mean(0)) == [0] * 2 + [1] * 8


def test_global_pruning_looks_at_all_tensors():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    values = np.concatenate([array(m.weight).reshape(-1) for m in net])
    prune.global_unstructured(
        [(m, "weight") for m in net], pruning_method=prune.L1Unstructured, amount=7
    )
    mask = np.ones(values.size)
    mask[np.argsort(np.abs(values))[:7]] = 0
    found = np.concatenate([array(m.weight_mask).reshape(-1) for m in net])
    np.testing.assert_array_equal(found, mask)


def test_custom_masks_and_scores():
    layer = nn.Linear(2, 2)
    prune.custom_from_mask(layer, "bias", fa.tensor([0, 1]))
    assert array(layer.bias)[0] == 0
    scores = fa.tensor([[1.0, 4.0], [3.0, 2.0]])
    prune.l1_unstructured(layer, "weight", 2, importance_scores=scores)
    np.testing.assert_array_equal(array(layer.weight_mask), [[0, 1], [1, 0]])
    ident = prune.identity(nn.Linear(2, 2), "weight")
    np.testing.assert_array_equal(array(ident.weight_mask), np.ones((2, 2)))


@pytest.mark.parametrize(
    "amount, error", [(-1, ValueError), (1.5, ValueError), ("a", TypeError), (99, ValueError)]
)
def test_amounts_that_cannot_be(amount, error):
    layer = nn.Linear(2, 2)
    with pytest.raises(error):
        prune.l1_unstructured(layer, "weight", amount)
    assert list(layer._parameters) == ["bias", "weight"] or set(layer._parameters) == {
        "weight",
        "bias",
    }
    assert not prune.is_pruned(layer) and layer(fa.ones(1, 2)).shape == (1, 2)


def test_removing_what_is_not_pruned():
    with pytest.raises(ValueError, match="has to be pruned"):
        prune.remove(nn.Linear(2, 2), "weight")


# ---- fusion ----


def statistics(bn):
    with fa.no_grad():
        bn.running_mean.normal_()
        bn.running_var.uniform_(0.5, 2)
        if bn.affine:
            bn.weight.normal_()
            bn.bias.normal_()
    return bn.double().eval()


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_fused_layers_give_the_same(affine, bias):
    x = fa.randn(2, 4, 7, 7, dtype=fa.float64)
    conv = nn.Conv2d(4, 6, 3, groups=2, bias=bias).double().eval()
    up = nn.ConvTranspose2d(4, 6, 3, bias=bias).double().eval()
    bn = statistics(nn.BatchNorm2d(6, affine=affine))
    fused = nn.utils.fuse_conv_bn_eval(conv, bn)
    np.testing.assert_allclose(array(fused(x)), array(bn(conv(x))), atol=1e-12)
    fused = nn.utils.fuse_conv_bn_eval(up, bn, transpose=True)
    np.testing.assert_allclose(array(fused(x)), array(bn(up(x))), atol=1e-12)
    line, bn1 = nn.Linear(4, 6, bias=bias).double().eval(), statistics(nn.BatchNorm1d(6))
    x = fa.randn(3, 4, dtype=fa.float64)
    fused = nn.utils.fuse_linear_bn_eval(line, bn1)
    np.testing.assert_allclose(array(fused(x)), array(bn1(line(x))), atol=1e-12)
    assert isinstance(fused.weight, nn.Parameter) and fused is not line


def test_fusion_refuses_training_and_missing_statistics():
    conv, bn = nn.Conv1d(2, 2, 1), nn.BatchNorm1d(2)
    with pytest.raises(RuntimeError, match="eval"):
        nn.utils.fuse_conv_bn_eval(conv, bn)
    bn = nn.BatchNorm1d(2, track_running_stats=False)
    with pytest.raises(RuntimeError, match="running statistics"):
        nn.utils.fuse_conv_bn_eval(conv.eval(), bn.eval())


# ---- small helpers ----


def test_functional_call_puts_tensors_back():
    layer = nn.Linear(2, 2)
    w = layer.weight
    out = functional_call(layer, {"weight": fa.eye(2), "bias": fa.zeros(2)}, fa.ones(1, 2))
    np.testing.assert_array_equal(array(out), [[1, 1]])
    assert layer.weight is w
    with pytest.raises(RuntimeError, match="unexpected names"):
        functional_call(layer, {"wieght": fa.eye(2)}, fa.ones(1, 2))


def test_skip_init_and_memory_formats():
    layer = nn.utils.skip_init(nn.Linear, 3, 4, bias=False)
    assert layer.weight.shape == (4, 3) and layer.weight.device.type == "cpu"
    with pytest.raises(RuntimeError, match="Module"):
        nn.utils.skip_init(int, 3)
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Linear(2, 2))
    before = array(net[0].weight).copy()
    parameter = net[0].weight
    nn.utils.convert_conv2d_weight_memory_format(net, fa.channels_last)
    assert net[0].weight is parameter
    assert parameter.is_contiguous(memory_format=fa.channels_last)
    np.testing.assert_array_equal(array(parameter), before)


def test_summary_lists_layers_outputs_and_counts():
    shared = nn.Linear(4, 4)
    net = nn.Sequential(nn.Linear(3, 4), shared, nn.Sequential(shared, nn.BatchNorm1d(4)))
    net[0].weight.requires_grad_(False)
    running = array(net[2][1].running_mean).copy()
    found = nn.utils.summary(net, fa.randn(2, 3))
    assert net.training
    np.testing.assert_array_equal(array(net[2][1].running_mean), running)
    assert found.parameters == 16 + 20 + 8 and found.trainable == found.parameters - 12
    assert found.buffer_bytes == 4 * 4 * 2 + 8
    assert [r.output for r in found.rows] == [(2, 4)] * 6
    assert [r.shared for r in found.rows] == [False] * 4 + [True, False]
    text = str(found)
    assert "0: Linear" in text and "44 parameters, 32 of them trained" in text
    assert len(nn.utils.summary(net, depth=1).rows) == 4
    assert nn.utils.summary(net).rows[0].output is None


def test_the_older_name_of_clip_grad_norm_warns():
    p = nn.Parameter(fa.ones(4))
    p.grad = fa.full((4,), 3.0)
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        total = nn.utils.clip_grad_norm([p], 1.0)
    assert float(total) == 6.0
    np.testing.assert_allclose(p.grad.numpy(), 0.5, rtol=1e-5)
