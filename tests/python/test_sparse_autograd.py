"""Gradients of, and through, sparse tensors; those of embeddings, and optimizers' steps."""

from __future__ import annotations

import facula
import numpy as np
import pytest
from facula import nn

# Some places twice, and not in order.
PLACES = [[2, 0, 1, 2, 2], [1, 3, 0, 1, 0]]
SIZE = (3, 4)
KINDS = ["coo", "coalesced", "csr", "csc"]


def matrix(values: facula.Tensor, kind: str) -> facula.Tensor:
    if kind == "coo":
        return facula.sparse_coo_tensor(PLACES, values, SIZE)
    x = facula.sparse_coo_tensor([[0, 1, 2, 2], [3, 0, 0, 1]], values[:4], SIZE, is_coalesced=True)
    return x if kind == "coalesced" else x.to_sparse(layout=getattr(facula, "sparse_" + kind))


def numbers(*size: int, seed: int = 0) -> facula.Tensor:
    values = np.random.default_rng(seed).standard_normal(size)
    return facula.tensor(values, requires_grad=True)


OPERATIONS = {
    "to_dense": lambda s, d: s.to_dense(),
    "mm": lambda s, d: s @ d,
    "dense first": lambda s, d: d.t() @ s.t(),
    "mv": lambda s, d: s @ d[:, 0],
    "addmm": lambda s, d: facula.addmm(facula.ones(3, 2).double(), s, d, beta=2, alpha=3),
    "twice": lambda s, d: (s.t() @ (s @ d)) @ d.t(),
    "sparse product": lambda s, d: (s @ s.t()).to_dense(),
    "coalesce": lambda s, d: s.to_sparse_coo().coalesce().values(),
    "sum": lambda s, d: s.sum(),
    "sum of rows": lambda s, d: facula.sparse.sum(s, 0).to_dense(),
    "scaled": lambda s, d: (s * 2.5 / 3).to_dense(),
    "added": lambda s, d: (s + s * 2).to_dense(),
    "times dense": lambda s, d: (s * (d @ d.t())[:3]).to_dense(),
    "plus dense": lambda s, d: (d @ d.t())[:3] + s,
    "sin": lambda s, d: facula.sin(s).to_dense(),
    "softmax": lambda s, d: facula.sparse.softmax(s, 1).to_dense(),
    "log_softmax": lambda s, d: facula.sparse.log_softmax(s, 0).to_dense(),
    "transposed": lambda s, d: s.t().to_dense(),
    "picked": lambda s, d: s.index_select(0, facula.tensor([2, 0, 2])).to_dense(),
    "narrow": lambda s, d: s.narrow(1, 0, 2).to_dense(),
    "cat": lambda s, d: facula.cat([s, s * 2], 0).to_dense(),
    "mask": lambda s, d: (d @ d.t())[:3].sparse_mask(s.detach()).to_dense() + s,
    "mean of products": lambda s, d: facula.sparse.mm(s, d, "mean"),
    "sampled": lambda s, d: facula.sparse.sampled_addmm(s, d[:3], d.t()).to_dense(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_gradients_to_second_order(name, kind):
    values, dense = numbers(5), numbers(4, 2, seed=1)

    def f(v, d):
        return OPERATIONS[name](matrix(v, kind), d)

    assert facula.autograd.gradcheck(f, (values, dense))
    assert facula.autograd.gradgradcheck(f, (values, dense))


def test_complex_gradients():
    values = facula.tensor(np.array([1 + 2j, 3 - 1j, 0.5j, -1, 2 + 2j]), requires_grad=True)
    dense = facula.tensor(np.arange(8).reshape(4, 2) * (1 - 0.5j), requires_grad=True)
    assert facula.autograd.gradcheck(lambda v, d: matrix(v, "coo") @ d, (values, dense))
    assert facula.autograd.gradcheck(lambda v, d: matrix(v, "csr") @ d, (values, dense))


@pytest.mark.parametrize("kind", KINDS)
def test_leaves_have_gradients_as_sparse_as_they_are(kind):
    x = matrix(numbers(5).detach(), kind).requires_grad_()
    d = numbers(4, 2)
    assert x.is_leaf and x.requires_grad
    (x @ d).sum().backward()
    assert x.grad.layout is x.layout and x.grad._nnz() == x._nnz()
    kept = (matrix(facula.ones(5).double(), kind).to_dense() != 0).numpy()
    expected = np.tile(d.detach().numpy().sum(1), (3, 1))
    if kind != "coo":
        np.testing.assert_allclose(x.grad.to_dense().numpy(), expected * kept)
    else:  # each of two values in a place has the gradient of the place
        at = tuple(np.array(PLACES))
        np.testing.assert_allclose(x.grad._values().numpy(), expected[at])
    first = x.grad.to_dense().numpy()
    (x @ d).sum().backward()
    np.testing.assert_allclose(x.grad.to_dense().numpy(), 2 * first)
    (g,) = facula.autograd.grad((x @ d).sum(), [x])
    np.testing.assert_allclose(g.to_dense().numpy(), first)
    seen = []
    x.register_hook(lambda g: seen.append(g) or g * 2)
    x.grad = None
    (x @ d).sum().backward()
    assert seen[0].layout is x.layout
    np.testing.assert_allclose(x.grad.to_dense().numpy(), 2 * first)


def test_results_keep_gradients_and_histories():
    v = numbers(5)
    x = matrix(v, "coo")
    assert x.requires_grad and not x.is_leaf and x.grad_fn is not None
    x.retain_grad()
    x.to_dense().sum().backward()
    assert x.grad.is_sparse and v.grad.tolist() == [1.0] * 5
    assert not x.detach().requires_grad
    assert not matrix(v.detach(), "coo").requires_grad
    with facula.no_grad():
        assert not matrix(v, "coo").requires_grad


def test_functions_of_users():
    class Double(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            assert grad.is_sparse or grad.layout is facula.strided
            return grad * 2

    x = matrix(numbers(5).detach(), "coalesced").requires_grad_()
    Double.apply(x).to_dense().sum().backward()
    assert x.grad.to_dense().sum().item() == 8.0


def test_constants_in_function_transforms():
    x = matrix(numbers(5).detach(), "csr")
    d = numbers(4, 2).detach()
    grad = facula.func.grad(lambda t: (x @ t).square().sum())(d)
    a = x.to_dense().numpy()
    np.testing.assert_allclose(grad.numpy(), 2 * a.T @ (a @ d.numpy()))
    many = facula.stack([d, 2 * d])
    found = facula.func.vmap(lambda t: x @ t)(many)
    np.testing.assert_allclose(found.numpy(), a @ many.numpy())


# ---- embeddings


def tables(sparse: bool, rows: int = 6, padding: int | None = None) -> nn.Embedding:
    facula.manual_seed(3)
    return nn.Embedding(rows, 3, padding_idx=padding, sparse=sparse)


def test_embeddings_have_sparse_gradients():
    index = facula.tensor([[1, 4, 1], [5, 2, 4]])
    weights = facula.tensor(
        np.random.default_rng(0).standard_normal((2, 3, 3)), dtype=facula.float32
    )
    for padding in (None, 4):
        a, b = tables(True, padding=padding), tables(False, padding=padding)
        for layer in (a, b):
            (layer(index) * weights).sum().backward()
        assert a.weight.grad.is_sparse and not b.weight.grad.is_sparse
        assert a.weight.grad._nnz() == (6 if padding is None else 4)
        assert type(a.weight) is nn.Parameter
        np.testing.assert_allclose(
            a.weight.grad.to_dense().numpy(), b.weight.grad.numpy(), rtol=1e-6
        )
        (a(index) * weights).sum().backward()
        assert a.weight.grad.is_sparse
        np.testing.assert_allclose(
            a.weight.grad.to_dense().numpy(), 2 * b.weight.grad.numpy(), rtol=1e-6
        )
        a.zero_grad()
        assert a.weight.grad is None


def test_sparse_and_dense_gradients_add_up():
    index = facula.tensor([1, 2])
    for order in (0, 1):
        layer, dense = tables(True), tables(False)
        for one in (layer, dense):
            losses = [one(index).sum(), (one.weight**2).sum()]
            losses[order].backward()
            losses[1 - order].backward()
        np.testing.assert_allclose(layer.weight.grad.numpy(), dense.weight.grad.numpy(), rtol=1e-6)
        layer.zero_grad()
        (losses_of(layer, index)).backward()
        np.testing.assert_allclose(layer.weight.grad.numpy(), dense.weight.grad.numpy(), rtol=1e-6)


def losses_of(layer, index):
    return layer(index).sum() + (layer.weight**2).sum()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_have_sparse_gradients(mode):
    index, offsets = facula.tensor([1, 2, 4, 5, 4, 3, 2, 1]), facula.tensor([0, 4])
    found = []
    for sparse in (True, False):
        facula.manual_seed(3)
        bag = nn.EmbeddingBag(6, 3, mode=mode, sparse=sparse)
        (bag(index, offsets) * facula.arange(6.0).reshape(2, 3)).sum().backward()
        assert bag.weight.grad.is_sparse == sparse
        found.append(bag.weight.grad.to_dense().numpy())
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_frequencies_do_not_go_with_sparse_gradients():
    layer = nn.Embedding(4, 2, sparse=True, scale_grad_by_freq=True)
    with pytest.raises(RuntimeError, match="scale_grad_by_freq"):
        layer(facula.tensor([1]))


# ---- optimizers

MAKERS = {
    "SGD": lambda p: facula.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: facula.optim.SGD(p, lr=0.1, momentum=0.9),
    "SGD with weight_decay": lambda p: facula.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "SGD of Nesterov": lambda p: facula.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adagrad": lambda p: facula.optim.Adagrad(p, lr=0.1, lr_decay=0.01),
    "SGD upwards": lambda p: facula.optim.SGD(p, lr=0.1, maximize=True),
}


@pytest.mark.parametrize("name", MAKERS)
def test_steps_are_those_of_the_strided_gradient(name):
    found = []
    for sparse in (True, False):
        layer = tables(sparse)
        optimizer = MAKERS[name](layer.parameters())
        for step in range(4):
            optimizer.zero_grad()
            index = facula.tensor([step, 1, (step * 2) % 6])
            (layer(index) ** 2).sum().backward()
            optimizer.step()
        found.append(layer.weight.detach().numpy())
    np.testing.assert_allclose(*found, rtol=2e-5, atol=1e-6)


def test_sparse_adam_by_its_formula():
    layer = tables(True)
    p = layer.weight.detach().numpy().astype(np.float64).copy()
    m, v = np.zeros_like(p), np.zeros_like(p)
    optimizer = facula.optim.SparseAdam(layer.parameters(), lr=0.05)
    for step in range(1, 6):
        optimizer.zero_grad()
        index = [step % 6, 1, 1]
        (layer(facula.tensor(index)) ** 3).sum().backward()
        optimizer.step()
        g = np.zeros_like(p)
        np.add.at(g, index, 3 * p[index] ** 2)
        at = np.unique(index)
        m[at] = 0.9 * m[at] + 0.1 * g[at]
        v[at] = 0.999 * v[at] + 0.001 * g[at] ** 2
        rate = 0.05 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        p[at] -= rate * m[at] / (np.sqrt(v[at]) + 1e-8)
    np.testing.assert_allclose(layer.weight.detach().numpy(), p, rtol=1e-4, atol=1e-5)
    assert not optimizer.state[layer.weight]["exp_avg"].is_sparse
    optimizer.load_state_dict(optimizer.state_dict())


def test_other_optimizers_refuse_sparse_gradients():
    layer = tables(True)
    layer(facula.tensor([1])).sum().backward()
    for kind in (facula.optim.Adam, facula.optim.RMSprop, facula.optim.AdamW):
        with pytest.raises(RuntimeError, match="sparse gradients"):
            kind(layer.parameters(), lr=0.1).step()
    with pytest.raises(RuntimeError, match="weight_decay"):
        facula.optim.Adagrad(layer.parameters(), weight_decay=0.1).step()


def test_norms_of_sparse_gradients():
    norms = []
    for sparse in (True, False):
        layer = tables(sparse)
        (layer(facula.tensor([1, 1, 3])) ** 2).sum().backward()
        norms.append(nn.utils.clip_grad_norm_(layer.parameters(), 0.5).item())
        norms.append(layer.weight.grad.to_dense().clone())
        nn.utils.clip_grad_value_(layer.parameters(), 0.1)
        norms.append(layer.weight.grad.to_dense())
    assert norms[0] == pytest.approx(norms[3], rel=1e-6)
    np.testing.assert_allclose(norms[1].numpy(), norms[4].numpy(), rtol=1e-5)
    np.testing.assert_allclose(norms[2].numpy(), norms[5].numpy(), rtol=1e-5)


def test_gradients_that_are_zeroed():
    layer = tables(True)
    layer(facula.tensor([1])).sum().backward()
    optimizer = facula.optim.SGD(layer.parameters(), lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    assert layer.weight.grad._nnz() == 0
    layer(facula.tensor([2])).sum().backward()
    assert layer.weight.grad.to_dense()[2].tolist() == [1.0] * 3
