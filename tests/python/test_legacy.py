"""Lua torch's style: modules with backward by hand, optimizers as functions."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
from facula.legacy import nn, optim


@pytest.fixture(autouse=True)
def seeded():
    fa.manual_seed(0)


def array(t):
    return t.detach().numpy()


def differences(f, x, eps=1e-6):
    """The gradient of a function of an array to a number."""
    grad = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[i] = eps
        grad[i] = (f(x + step) - f(x - step)) / (2 * eps)
    return grad


LAYERS = [
    (lambda: nn.Linear(4, 3), (2, 4)),
    (lambda: nn.SpatialConvolution(2, 3, 3, 2, 1, 1, 1), (2, 2, 4, 5)),
    (lambda: nn.TemporalConvolution(3, 2, 2), (2, 5, 3)),
    (lambda: nn.SpatialMaxPooling(2, 2), (1, 2, 4, 4)),
    (lambda: nn.SpatialAveragePooling(2, 1, 1, 1), (1, 2, 3, 4)),
    (lambda: nn.BatchNormalization(3), (4, 3)),
    (lambda: nn.Reshape(2, 3), (4, 6)),
    (lambda: nn.View(-1), (4, 6)),
    *((lambda n=n: getattr(nn, n)(), (3, 4)) for n in (
        "ReLU Tanh Sigmoid LogSoftMax SoftMax ELU LeakyReLU HardTanh SoftPlus SoftSign "
        "Threshold Identity"
    ).split()),
    (lambda: nn.Sequential().add(nn.Linear(4, 5)).add(nn.Tanh()).add(nn.Linear(5, 2)), (3, 4)),
    (lambda: nn.Concat(1).add(nn.Linear(4, 2)).add(nn.Linear(4, 3)), (3, 4)),
    (
        lambda: nn.Sequential()
        .add(nn.ConcatTable().add(nn.Linear(4, 2)).add(nn.Linear(4, 2)))
        .add(nn.ParallelTable().add(nn.Tanh()).add(nn.Identity()))
        .add(nn.CMulTable()),
        (3, 4),
    ),
]  # fmt: skip


@pytest.mark.parametrize("make, shape", LAYERS)
def test_gradients_are_those_of_differences(make, shape):
    module = make().double()
    x = fa.randn(shape, dtype=fa.float64)
    output = module.forward(x)
    r = fa.randn(output.shape, dtype=fa.float64)
    module.zeroGradParameters()
    grad_input = module.backward(x, r)
    assert grad_input is module.gradInput and output is module.output

    def value():
        return float((module.forward(x) * r).sum())

    def of_input(a):
        return float((module.forward(fa.tensor(a)) * r).sum())

    np.testing.assert_allclose(array(grad_input), differences(of_input, array(x)), atol=1e-6)
    parameters, grads = module.parameters()
    for p, g in zip(parameters, grads, strict=True):

        def of_parameter(a, p=p):
            before = p.detach().clone()
            with fa.no_grad():
                p.copy_(fa.tensor(a))
                found = value()
                p.copy_(before)
            return found

        np.testing.assert_allclose(array(g), differences(of_parameter, array(p)), atol=1e-6)
    module.forward(x)
    module.backward(x, r, 2)  # adds up, scaled
    for g in grads:
        assert g.shape is not None
    if parameters:
        once = array(module.parameters()[1][0]) / 3
        module.zeroGradParameters()
        module.forward(x)
        module.backward(x, r)
        np.testing.assert_allclose(array(module.parameters()[1][0]), once, atol=1e-9)


def test_tables_go_in():
    m = nn.CAddTable()
    a, b = fa.ones(2), fa.full((2,), 3.0)
    np.testing.assert_array_equal(array(m.forward([a, b])), [4, 4])
    g = m.backward([a, b], fa.tensor([1.0, 2.0]))
    np.testing.assert_array_equal(array(g[1]), [1, 2])
    joined = nn.JoinTable(0)
    assert joined.forward([a, b]).shape == (4,)
    assert [t.shape for t in joined.backward([a, b], fa.ones(4))] == [(2,), (2,)]


CRITERIA = [
    ("MSECriterion", lambda x, y: ((x - y) ** 2).mean(), False),
    ("AbsCriterion", lambda x, y: np.abs(x - y).mean(), False),
    ("BCECriterion", lambda x, y: -(y * np.log(x) + (1 - y) * np.log(1 - x)).mean(), False),
    ("ClassNLLCriterion", lambda x, y: -x[np.arange(len(y)), y].mean(), True),
    (
        "CrossEntropyCriterion",
        lambda x, y: (np.log(np.exp(x).sum(1)) - x[np.arange(len(y)), y]).mean(),
        True,
    ),
]


@pytest.mark.parametrize("name, formula, classes", CRITERIA)
def test_criteria(name, formula, classes):
    criterion = getattr(nn, name)()
    x = fa.rand(4, 3, dtype=fa.float64) * 0.8 + 0.1
    y = fa.tensor([0, 2, 1, 1]) if classes else fa.rand(4, 3, dtype=fa.float64)
    assert criterion.forward(x, y) == pytest.approx(formula(array(x), array(y)))
    wanted = differences(lambda a: formula(a, array(y)), array(x))
    np.testing.assert_allclose(array(criterion.backward(x, y)), wanted, atol=1e-7)
    total = getattr(nn, name)(sizeAverage=False).forward(x, y)
    assert total == pytest.approx(criterion.output * (4 if classes else 12))


def test_modes_copies_and_vectors():
    net = nn.Sequential().add(nn.Linear(3, 2)).add(nn.Dropout(0.5))
    x = fa.ones(4, 3)
    net.evaluate()
    np.testing.assert_array_equal(array(net.forward(x)), array(net.forward(x)))
    net.training()
    assert (array(net.forward(fa.ones(100, 3))) == 0).any()
    twin = net.clone()
    flat, grad = net.getParameters()
    assert flat.shape == grad.shape == (8,)
    flat.fill_(0.5)
    assert (array(net.get(0).weight) == 0.5).all() and net.size() == 2
    assert not (array(twin.get(0).weight) == 0.5).all()
    net.evaluate()
    net.zeroGradParameters()
    net.forward(x)
    net.backward(x, fa.ones(4, 2))
    np.testing.assert_array_equal(array(grad), [4] * 8)
    net.updateParameters(0.25)
    np.testing.assert_array_equal(array(flat), [-0.5] * 8)
    assert "nn.Linear(in_features=3" in repr(net)
    with pytest.raises(RuntimeError, match="after forward"):
        nn.Linear(1, 1).backward(x, x)


# ---- optimizers ----


def quadratic(x):
    scales = fa.tensor([1.0, 10.0], dtype=x.dtype)
    return (scales * x * x).sum() / 2, scales * x


def formulas(name, steps, **c):
    """The steps of each method, by its formula."""
    x, state = np.array([1.0, -2.0]), {}
    lr, wd = c.get("learningRate"), c.get("weightDecay", 0.0)
    for t in range(1, steps + 1):
        rate = lr / (1 + (t - 1) * c.get("learningRateDecay", 0)) if lr else 1.0
        if name == "nag" and "v" in state:
            x = x + c["momentum"] * state["v"]
        g = np.array([1.0, 10.0]) * x + wd * x
        if name == "sgd":
            v = state.get("v")
            damp = c.get("dampening", c["momentum"])
            state["v"] = g if v is None else c["momentum"] * v + (1 - damp) * g
            d = g + c["momentum"] * state["v"] if c.get("nesterov") else state["v"]
            x = x - rate * d
        elif name == "nag":
            state["v"] = c["momentum"] * state.get("v", 0) - rate * g
            x = x - rate * g
        elif name == "adam":
            m = state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
            v = state["v"] = 0.999 * state.get("v", 0) + 0.001 * g * g
            x = x - rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8)
        elif name == "adamax":
            m = state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
            u = state["u"] = np.maximum(0.999 * state.get("u", 0), np.abs(g) + 1e-38)
            x = x - rate / (1 - 0.9**t) * m / u
        elif name == "adagrad":
            s = state["s"] = state.get("s", 0) + g * g
            x = x - rate * g / (np.sqrt(s) + 1e-10)
        elif name == "adadelta":
            v = state["v"] = 0.9 * state.get("v", 0) + 0.1 * g * g
            d = np.sqrt(state.get("d", 0) + 1e-6) / np.sqrt(v + 1e-6) * g
            state["d"] = 0.9 * state.get("d", 0) + 0.1 * d * d
            x = x - d
        elif name == "rmsprop":
            v = state["v"] = 0.99 * state.get("v", 0) + 0.01 * g * g
            x = x - rate * g / (np.sqrt(v) + 1e-8)
        elif name == "rprop":
            turned = np.sign(g * state.get("g", 0))
            eta = np.where(turned > 0, 1.2, np.where(turned < 0, 0.5, 1.0))
            s = state["s"] = np.clip(state.get("s", 0.1) * eta, 1e-6, 50)
            state["g"] = np.where(turned < 0, 0, g)
            x = x - np.sign(state["g"]) * s
    return x


@pytest.mark.parametrize(
    "name, config",
    [
        ("sgd", {"learningRate": 0.05, "momentum": 0.9, "weightDecay": 0.1}),
        ("sgd", {"learningRate": 0.05, "momentum": 0.5, "dampening": 0, "nesterov": True}),
        ("nag", {"learningRate": 0.02, "momentum": 0.8}),
        ("adam", {"learningRate": 0.1, "learningRateDecay": 0.01}),
        ("adamax", {"learningRate": 0.1}),
        ("adagrad", {"learningRate": 0.5}),
        ("adadelta", {}),
        ("rmsprop", {"learningRate": 0.05}),
        ("rprop", {}),
    ],
)
def test_steps_are_those_of_the_formulas(name, config):
    x, given = fa.tensor([1.0, -2.0], dtype=fa.float64), dict(config)
    for _ in range(7):
        same, losses = getattr(optim, name)(quadratic, x, given)
    assert same is x and isinstance(losses[0], float)
    np.testing.assert_allclose(array(x), formulas(name, 7, **config), rtol=1e-9)


def test_a_network_learns():
    net = nn.Sequential().add(nn.Linear(2, 8)).add(nn.Tanh()).add(nn.Linear(8, 2))
    net.add(nn.LogSoftMax())
    criterion = nn.ClassNLLCriterion()
    x = fa.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    y = fa.tensor([0, 1, 1, 0])
    parameters, grads = net.getParameters()

    def feval(p):
        net.zeroGradParameters()
        loss = criterion.forward(net.forward(x), y)
        net.backward(x, criterion.backward(net.output, y))
        return loss, grads

    config = {"learningRate": 0.05}
    for _ in range(200):
        _, (loss,) = optim.adam(feval, parameters, config)
    assert loss < 0.05
    np.testing.assert_array_equal(array(net.forward(x)).argmax(1), [0, 1, 1, 0])


def test_what_a_config_cannot_be():
    x = fa.ones(2)
    with pytest.raises(ValueError, match="learningrate"):
        optim.sgd(quadratic, x, {"learningrate": 1})
    with pytest.raises(ValueError, match="state table"):
        optim.sgd(quadratic, x)
    with pytest.raises(ValueError, match="Nesterov"):
        optim.sgd(quadratic, x, {"nesterov": True, "momentum": 0.5})
    state = {}
    optim.sgd(quadratic, x, {"learningRate": 0.1, "momentum": 0.5}, state)
    assert "_velocity" in state
