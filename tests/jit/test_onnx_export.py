"""facula.export.onnx against onnxruntime, and export/save/load of programs.

The package onnx is an extra: without it and onnxruntime what needs them is skipped.
"""

from __future__ import annotations

import importlib.util
import io
import re

import facula as fa
import facula.nn.functional as F
import numpy as np
import pytest
from facula import export, jit, nn
from facula.jit import _library
from facula.testing import _samples

has_onnx = all(importlib.util.find_spec(n) for n in ("onnx", "onnxruntime"))
needs_onnx = pytest.mark.skipif(not has_onnx, reason="onnx and onnxruntime are not installed")


def flat(value):
    if isinstance(value, fa.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in flat(v)] if isinstance(value, (list, tuple)) else []


def run(model, inputs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [i.name for i in session.get_inputs()]
    return session.run(None, {n: np.asarray(t) for n, t in zip(names, inputs, strict=True)})


def agree(program, args, others=(), **options):
    model = export.onnx(program, args, **options)
    for inputs in (args, *others):
        with fa.no_grad():
            wanted = flat(program(*inputs))
        got = run(model, inputs)
        for g, w in zip(got, wanted, strict=True):
            np.testing.assert_allclose(g, np.asarray(w), rtol=1e-4, atol=1e-5)
            assert g.dtype == np.asarray(w).dtype
    return model


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8)
        self.pool, self.last = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)), inplace=True)
        x = self.pool(F.gelu(F.max_pool2d(x, 2)))
        return F.log_softmax(self.last(x.view(x.size(0), -1)), dim=1)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(10, 4), nn.LayerNorm(4)

    def forward(self, i):
        x = self.norm(self.table(i))
        y = F.scaled_dot_product_attention(x, x, x, is_causal=True)
        return y, x[:, -1], x[..., None, ::2], x.max(-1), (x > 0.5).float(), x.tril(), x[i[0] % 2]


def arithmetic(x, y):
    joined = fa.cat([x, y], 1)
    parts = joined.chunk(2, -1)
    kept = x.masked_fill(y > 0, -1e9).softmax(-1)
    values, places = x.topk(2)
    rows = fa.arange(x.size(0)).unsqueeze(1) + x
    return [
        joined, parts, kept, values, places, rows, fa.einsum("ij,kj->ik", x, y),
        fa.stack([x, y]).permute(2, 0, 1), x.std(dim=1), x.norm(dim=1), F.pad(x, (1, 2)),
        x.repeat(2, 1), fa.where(x > 0, x, y) ** 2, x.clamp(-1, 1) / 3, x.cumsum(0), x.flip(0),
        x.T, x % 2, x // 2, 1 / (x.abs() + 1), (x > 0) & (y > 0), x.to(fa.float64), F.mish(x),
        x.expand(2, *x.shape), x.mean((0, 1)), x.var(0), F.softplus(x), F.hardswish(x), F.elu(x),
    ]  # fmt: skip


@needs_onnx
@pytest.mark.parametrize("wrapped", [lambda m: m, jit.script], ids=["traced", "scripted"])
def test_pictures_of_any_number(wrapped):
    fa.manual_seed(0)
    module = wrapped(Pictures().eval())
    agree(module, (fa.randn(2, 3, 16, 16),), [(fa.randn(5, 3, 16, 16),)], dynamic_axes={"x": [0]})


@needs_onnx
def test_transformers_of_any_length():
    fa.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    module = nn.TransformerEncoder(layer, 2).eval()
    axes = {"src": {0: "batch", 1: "length"}}
    agree(module, (fa.randn(2, 5, 8),), [(fa.randn(3, 7, 8),)], dynamic_axes=axes)


@needs_onnx
@pytest.mark.parametrize(
    "module",
    [
        nn.LSTM(3, 4, 2, bidirectional=True),
        nn.GRU(3, 4, batch_first=True),
        nn.RNN(3, 4, nonlinearity="relu", bias=False),
        nn.Upsample(scale_factor=2),
        nn.Sequential(nn.Conv1d(5, 3, 2), nn.GroupNorm(3, 3), nn.SiLU(), nn.Dropout()),
        nn.Sequential(nn.ConvTranspose1d(5, 2, 2), nn.AvgPool1d(2), nn.Flatten()),
    ],
    ids=lambda m: type(m).__name__,
)
def test_layers(module):
    fa.manual_seed(0)
    agree(module.eval(), (fa.randn(2, 5, 3),))


@needs_onnx
def test_tokens_and_arithmetic():
    fa.manual_seed(0)
    agree(Tokens().eval(), (fa.tensor([[1, 2, 3], [4, 5, 6]]),))
    agree(arithmetic, (fa.randn(3, 4), fa.randn(3, 4)))


def _named(text):
    return set(re.findall(r"\b([A-Z][A-Za-z]+)\(", text)) - {"NotImplementedError"}


def _texts():
    schema = _library.schema()
    yield from ((w, v["formula"]) for w, v in schema["vocabulary"]["onnx"].items())
    yield from ((r["name"], r["onnx"]) for r in schema["operators"] if r.get("onnx"))


@needs_onnx
def test_formulas_name_operators_of_onnx():
    import onnx

    unknown = {n: k for n, t in _texts() for k in _named(t) if not onnx.defs.has(k)}
    assert not unknown


def named(value):
    """What a name in a sample means, a dtype say."""
    return getattr(fa, value) if isinstance(value, _samples.Named) else value


@needs_onnx
def test_samples_of_operators_with_a_form_of_their_own():
    """The first samples of each entry with the key `onnx`, against onnxruntime."""
    done = refused = 0
    for op in _samples.operators():
        function = op.function()
        if not op.data.get("onnx") or function is None or op.data.get("internal"):
            continue
        for i in range(min(2, len(op.data["samples"]))):
            sample = op.sample(i)
            tensors = [fa.tensor(a) for a in sample.args if isinstance(a, np.ndarray)]
            tensors = [t.float() if t.dtype == fa.float64 else t for t in tensors]
            if not tensors or any(isinstance(a, list) and a and isinstance(a[0], np.ndarray)
                                  for a in sample.args):  # fmt: skip
                continue

            def call(*given, function=function, sample=sample):
                rest = iter(given)
                args = [next(rest) if isinstance(a, np.ndarray) else named(a) for a in sample.args]
                return function(*args, **{k: named(v) for k, v in sample.kwargs.items()})

            if any(t.is_complex() for t in flat(call(*tensors)) + tensors):
                continue
            try:
                agree(call, tuple(tensors))
                done += 1
            except export.UnsupportedError:
                refused += 1
    assert done > 80 and refused < 8


@needs_onnx
def test_files_names_and_versions(tmp_path):
    import onnx

    path = tmp_path / "model.onnx"
    names = {"input_names": ["picture"], "output_names": ["scores"]}
    export.onnx(nn.Linear(2, 3), fa.ones(1, 2), path, **names)
    model = onnx.load(path)
    assert model.graph.input[0].name == "picture" and model.graph.output[0].name == "scores"
    assert [n.op_type for n in model.graph.node] == ["MatMul", "Add", "Identity"]
    assert re.fullmatch(r"test_onnx_export.py:\d+", model.graph.node[0].doc_string)
    with pytest.warns(UserWarning, match="opset_version 11 is before 18"):
        made = export.onnx(nn.ReLU(), fa.ones(1), opset_version=11)
    assert made.opset_import[0].version == 18
    with pytest.raises(ValueError, match=r"dynamic_axes names \['y'\]; the inputs are \['input'\]"):
        export.onnx(nn.ReLU(), fa.ones(1), dynamic_axes={"y": [0]})


def det(x):
    return fa.linalg.det(x)


def decided(x):
    return x + 1 if bool(x.sum() > 0) else x


@needs_onnx
def test_what_onnx_has_not_is_named_with_its_line():
    line = det.__code__.co_firstlineno + 1
    with pytest.raises(export.UnsupportedError) as caught:
        export.onnx(det, fa.eye(2))
    assert f"linalg.det (test_onnx_export.py:{line})" in str(caught.value)
    with pytest.raises(export.UnsupportedError, match="a value of a tensor is read"):
        export.onnx(jit.script(decided), fa.ones(1))
    with pytest.raises(export.UnsupportedError, match="export in eval mode"):
        export.onnx(nn.BatchNorm1d(2), fa.ones(3, 2))
    with pytest.raises(export.UnsupportedError, match="no complex numbers"):
        export.onnx(lambda x: x * x, fa.ones(1, dtype=fa.complex64))


@pytest.mark.skipif(has_onnx, reason="onnx is installed")
def test_without_the_package():
    with pytest.raises(ImportError, match="pip install onnx"):
        export.onnx(nn.ReLU(), fa.ones(1))


def test_exported_programs():
    fa.manual_seed(0)
    module = Pictures().eval()
    x = fa.randn(2, 3, 8, 8)
    program = export.export(module, (x,))
    assert fa.equal(program.module()(x), module(x))
    assert program.state_dict.keys() == module.state_dict().keys()
    assert "conv2d" in str(program) and "def forward" in program.code
    file = io.BytesIO()
    export.save(program, file)
    file.seek(0)
    y = fa.randn(3, 3, 8, 8)
    assert fa.equal(export.load(file).module()(y), module(y))
    with pytest.raises(RuntimeError, match="is not called"):
        program(x)
    with pytest.raises(TypeError, match="takes a module"):
        export.export(det, (x,))
