"""Layers scripted, traced, saved, loaded, copied and frozen; operators traced and read."""

from __future__ import annotations

import copy
import io
import warnings

import facula as fa
import facula.nn.functional as F
import numpy as np
import pytest
from facula import jit, nn
from facula.jit._parsing import parse_graph
from facula.testing import _samples

LAYERS = [
    (nn.Linear(3, 4), [(2, 3)]),
    (nn.Bilinear(3, 3, 2), [(2, 3), (2, 3)]),
    (nn.Conv1d(2, 3, 3, padding=1, padding_mode="reflect"), [(2, 2, 7)]),
    (nn.Conv2d(2, 3, 3, padding="same"), [(2, 2, 7, 7)]),
    (nn.ConvTranspose2d(2, 3, 3, 2), [(2, 2, 7, 7)]),
    (nn.BatchNorm2d(2), [(2, 2, 7, 7)]),
    (nn.LayerNorm(7), [(2, 2, 7)]),
    (nn.InstanceNorm2d(2), [(2, 2, 5, 5)]),
    (nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True), [(2, 5, 3)]),
    (nn.GRUCell(3, 4), [(2, 3)]),
    (nn.MultiheadAttention(4, 2, batch_first=True), [(2, 3, 4)] * 3),
    (nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, 0.0), 2), [(3, 2, 4)] * 2),
    (nn.MaxPool2d(2, return_indices=True), [(1, 1, 4, 4)]),
    (nn.AdaptiveAvgPool2d((2, None)), [(1, 1, 4, 4)]),
    (nn.Upsample(scale_factor=2, mode="bilinear"), [(1, 1, 4, 4)]),
    (nn.PixelShuffle(2), [(1, 4, 4, 4)]),
    (nn.Sequential(nn.PReLU(), nn.GLU(), nn.Softmax(-1)), [(2, 6)]),
    (nn.Unflatten(1, (2, 2)), [(2, 4, 2)]),
    (nn.TripletMarginLoss(), [(2, 4)] * 3),
    (nn.BCEWithLogitsLoss(), [(2, 4)] * 2),
]


def same(a, b):
    if isinstance(a, fa.Tensor):
        return fa.allclose(a, b, rtol=1e-5, atol=1e-5, equal_nan=True)
    return a is b is None or all(map(same, a, b))


@pytest.mark.parametrize("case", LAYERS, ids=lambda c: type(c[0]).__name__)
def test_layers_are_the_same_in_every_form(case):
    fa.manual_seed(0)
    module, shapes = copy.deepcopy(case[0]), case[1]
    inputs = tuple(fa.rand(*shape) for shape in shapes)

    def value(called):
        before = [b.clone() for b in module.buffers()]
        try:
            return called(*inputs)
        finally:
            for buffer, old in zip(module.buffers(), before, strict=True):
                buffer.copy_(old)

    for mode in (True, False):
        module.train(mode)
        expected = value(module)
        for made in (jit.script(module), jit.trace(module, inputs)):
            assert same(value(made), expected)
            assert same(value(jit.load(io.BytesIO(made.save_to_buffer()))), expected)
            assert same(value(copy.deepcopy(made)), expected)
            if not mode:
                frozen = jit.freeze(made)
                assert same(value(frozen), expected)
                assert same(value(jit.load(io.BytesIO(frozen.save_to_buffer()))), expected)


class Folded(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
        self.last, self.factor = nn.Linear(8, 3), 2.0

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        if self.training:
            x = F.dropout(x)
        return self.last(x.flatten(1)) * (self.last.weight.sum() + self.factor)


def test_freezing_folds_what_is_known():
    fa.manual_seed(0)
    module = Folded()
    module(fa.randn(7, 1, 4, 4))
    traced = jit.trace(module.eval(), fa.randn(2, 1, 4, 4))
    frozen = jit.optimize_for_inference(traced)
    x = fa.randn(3, 1, 4, 4)
    assert fa.allclose(frozen(x), module(x), atol=1e-5)
    kinds = [n.kind() for n in frozen.graph.nodes()]
    assert kinds == [
        *("facula::conv2d", "facula::relu", "facula::flatten", "facula::nn.functional.linear"),
        *("facula::mul", "prim::Return"),
    ]
    assert not list(frozen.parameters()) and jit.optimize_for_inference(frozen) is frozen
    unfolded = jit.freeze(traced, optimize_numerics=False)
    assert "batch_norm" in str(unfolded.graph)
    scripted = jit.freeze(jit.script(module))
    assert fa.allclose(scripted(x), module(x), atol=1e-5)
    assert "dropout(" not in str(scripted.graph) and "self.training" not in str(scripted.graph)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.count, self.version = Counted(), 0, 3

    def forward(self, x):
        self.count += 1
        return self.inner(x, 2) + self.inner(x) + self.version

    @jit.export
    def other(self, x):
        return x - self.version


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(fa.tensor([3.0]))

    def forward(self, x, n: int = 1):
        y = x
        for _ in range(n):
            y = y * self.scale
        return y


def test_freezing_keeps_what_changes_and_what_it_is_told_to():
    module = jit.script(Counts()).eval()
    x = fa.ones(1)
    frozen = jit.freeze(module, ["version", "other"])
    assert frozen(x).item() == module(x).item() == 15
    assert frozen.count == 1 and frozen.version == 3 and frozen.other(x).item() == -2
    frozen.version = 5
    assert frozen(x).item() == 17
    with pytest.raises(RuntimeError, match="eval mode"):
        jit.freeze(jit.script(Counts()))
    with pytest.raises(TypeError, match="scripted or traced"):
        jit.freeze(nn.Linear(1, 1))


def named(value):
    """What a name in a sample means, a dtype say."""
    return getattr(fa, value) if isinstance(value, _samples.Named) else value


def test_samples_of_operators_are_traced_printed_and_read():
    """The first sample of each operator: traced, checked, printed and parsed again."""
    done = 0
    for op in _samples.operators():
        function = op.function()
        if function is None or op.data.get("internal") or op.data.get("derived_from"):
            continue
        sample = op.sample(0)
        tensors = [fa.tensor(a) for a in sample.args if isinstance(a, np.ndarray)]
        others = [*sample.args, *sample.kwargs.values()]
        lists = [a for a in others if isinstance(a, (list, tuple)) and a]
        named_ones = [*sample.kwargs.values(), *(a[0] for a in lists)]
        if not tensors or "empty" in op.name or any(isinstance(a, np.ndarray) for a in named_ones):
            continue

        def call(*given, function=function, sample=sample):
            rest = iter(given)
            args = [next(rest) if isinstance(a, np.ndarray) else named(a) for a in sample.args]
            return function(*args, **{k: named(v) for k, v in sample.kwargs.items()})

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jit.TracerWarning)
            traced = jit.trace(call, tuple(t.clone() for t in tensors))
        again = parse_graph(str(traced.graph), traced.graph.constants())
        assert again == traced.graph, op.name
        done += 1
    assert done > 400


def test_graphs_tell_of_their_nodes():
    traced = jit.trace(lambda x: (x @ x.T).relu(), fa.ones(2, 2))
    assert [i.debugName() for i in traced.graph.inputs()] == ["x"]
    matmul = traced.graph.findAllNodes("facula::matmul")[0]
    assert [str(i) for i in matmul.inputs()] == ["x", "T"] and matmul.sourceRange().count(":") == 1
    assert next(matmul.outputs()).type() == "Tensor"
    assert [str(o) for o in traced.graph.outputs()] == ["relu"]
    assert "facula.matmul(x, T)" in traced.code


def test_tensors_of_made_modules_can_be_exchanged():
    fa.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()
    traced = jit.trace(net, fa.ones(3, 2))
    x = fa.randn(3, 2)
    others = {n: fa.ones_like(p) for n, p in net.named_parameters()}
    expected = fa.func.functional_call(net, others, (x,))
    assert fa.equal(fa.func.functional_call(traced, others, (x,)), expected)
    moved = copy.deepcopy(traced).double()
    assert moved(x.double()).dtype == fa.float64 and traced(x).dtype == fa.float32
    losses = []
    optimizer = fa.optim.SGD(traced.parameters(), lr=0.1)
    for _ in range(3):
        loss = traced(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > losses[1] > losses[2]
