"""Leaves that change dtype or shape while graphs of before are alive: gradients fit the leaf."""

import facula as fa
import numpy as np
import pytest
from facula import nn


def double_data(p):
    p.data = p.data.double()


def test_gradients_have_the_new_dtype():
    p = nn.Parameter(fa.tensor([0.1, 0.2, 0.3]))
    seen = []
    p.register_hook(lambda g: seen.append(g.dtype))
    p.register_post_accumulate_grad_hook(lambda q: seen.append(q.grad.dtype))
    old = (p * p).sum()  # keeps what accumulates for p
    double_data(p)
    factor = np.array([1 / 3, 1e-9, 1 + 2.0**-40])
    (p * fa.from_numpy(factor)).sum().backward()
    assert p.grad.dtype == fa.float64 and p.grad.numpy().tolist() == factor.tolist()
    assert seen == [fa.float64, fa.float64]
    del old


def test_a_module_converted_after_a_forward_pass():
    layer = nn.Linear(2, 1)
    kept = layer(fa.ones(1, 2))
    layer.double()
    x = np.array([[1 / 3, 2 / 3]])
    (fa.from_numpy(x) @ layer.weight.t()).sum().backward()
    assert (
        layer.weight.grad.dtype == fa.float64 and layer.weight.grad.numpy().tolist() == x.tolist()
    )
    normed = nn.utils.weight_norm(
        nn.Linear(4, 3), dim=None
    ).double()  # computes its weight when it is made
    normed(fa.ones(2, 4, dtype=fa.float64)).sum().backward()
    assert {p.grad.dtype for p in normed.parameters()} == {fa.float64}
    del kept


def test_gradients_have_the_new_shape():
    p = nn.Parameter(fa.ones(3))
    old = (p * 2).sum()
    p.data = fa.ones(2, 2)
    (p * 3).sum().backward()
    assert p.grad.tolist() == [[3, 3], [3, 3]]
    with pytest.raises(RuntimeError, match=r"its leaf is now \(2, 2\)"):
        old.backward()


def test_a_graph_of_before_adds_in_the_dtype_of_the_leaf():
    p = nn.Parameter(fa.ones(2))
    old = (p * 0.5).sum()
    double_data(p)
    old.backward()
    assert p.grad.dtype == fa.float64 and p.grad.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("name", ["apply_", "map_", "map2_"])
def test_functions_of_elements_refuse_what_needs_gradients(name):
    functions = {
        "apply_": lambda a: a * a,
        "map_": lambda a, b: a * b,
        "map2_": lambda a, b, c: a * b * c,
    }
    others = [fa.full((3,), 2.0)] * {"apply_": 0, "map_": 1, "map2_": 2}[name]
    x = fa.full((3,), 3.0, requires_grad=True)
    for t in (x, x * 1, x[:], (x * 1)[:]):
        with pytest.raises(RuntimeError, match=rf"{name}.*requires grad.*detach\(\)"):
            getattr(t, name)(*others, functions[name])
        assert t.tolist() == [3, 3, 3]
    plain = x.detach().clone()
    getattr(plain, name)(*others, functions[name])
    assert plain.tolist() == [{"apply_": 9, "map_": 6, "map2_": 12}[name]] * 3
