"""facula.jit.save and load: files of text and safetensors, damaged ones, other processes."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import textwrap
import zipfile

import facula as fa
import pytest
from facula import jit, nn
from facula.jit._parsing import parse_graph
from facula.serialization._zip import Writer
from facula.utils._safetensors import FormatError


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.rest = nn.Linear(3, 4), nn.ModuleList([nn.Linear(4, 4), nn.Tanh()])
        self.rest.append(self.rest[0])  # one module in two places
        self.tied = self.first.weight
        self.register_buffer("kept", fa.tensor([1 + 2j, 0]))
        self.register_buffer("passing", fa.ones(2, dtype=fa.bfloat16), persistent=False)
        self.register_parameter("none", None)
        self.frozen = nn.Parameter(fa.arange(3), requires_grad=False)
        self.options = {"names": ["a", "b"], "size": (1, 2.5, None)}

    def forward(self, x: fa.Tensor, times: int = 1) -> fa.Tensor:
        x = x @ self.tied.t() + len(self.options["names"])
        for _ in range(times):
            for layer in self.rest:
                x = layer(x)
        if x.isnan().any():
            raise ValueError(f"{x}: not numbers")
        return helper(x) + self.passing.sum() + self.frozen.sum()


def helper(x: fa.Tensor) -> fa.Tensor:
    return x * fa.tensor([0.5]).item() if x.dim() > 1 else x.sum(dim=-1, dtype=fa.float64)


@pytest.fixture(scope="module")
def tower():
    fa.manual_seed(0)
    return jit.script(Tower())


def test_a_saved_module_is_the_same(tower):
    loaded = jit.load(io.BytesIO(tower.save_to_buffer()))
    x = fa.randn(2, 3)
    assert fa.equal(loaded(x, 2), tower(x, 2)) and fa.equal(loaded(x[0]), tower(x[0]))
    assert loaded.state_dict().keys() == tower.state_dict().keys()
    assert all(fa.equal(v, tower.state_dict()[k]) for k, v in loaded.state_dict().items())
    assert loaded.tied is loaded.first.weight and loaded.rest[0] is loaded.rest[2]
    assert isinstance(loaded.first, nn.Linear) and loaded.original_name == "Tower"
    assert not loaded.frozen.requires_grad and loaded.none is None
    assert loaded.passing.dtype == fa.bfloat16 and loaded.kept.dtype == tower.kept.dtype
    assert loaded.options == tower.options and str(loaded.graph) == str(tower.graph)
    assert loaded.save_to_buffer() == tower.save_to_buffer()
    assert not loaded.eval().first.training
    loaded(x).sum().backward()
    assert loaded.tied.grad is not None


def test_traced_modules_functions_and_extra_files(tmp_path):
    traced = jit.trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), fa.ones(1, 2))
    path = tmp_path / "traced.pt"
    jit.save(traced, path, _extra_files={"notes/a.txt": "five: \u0665"})
    extra = {"notes/a.txt": "", "missing": "untouched"}
    loaded = jit.load(path, _extra_files=extra)
    assert extra == {"notes/a.txt": "five: \u0665".encode(), "missing": "untouched"}
    x = fa.randn(4, 2)
    assert fa.equal(loaded(x), traced(x)) and isinstance(loaded, jit.TopLevelTracedModule)
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist()[:2] == ["program.txt", "weights.safetensors"]
        assert "linear(input, self.0.weight, self.0.bias)" in archive.read("program.txt").decode()
    constant = fa.tensor([2.0])
    function = jit.trace(lambda x: x * constant, fa.ones(1))
    assert jit.load(io.BytesIO(function.save_to_buffer()))(fa.ones(2)).tolist() == [2, 2]
    unit = jit.CompilationUnit("def f(n: int) -> int:\n    return n if n < 2 else f(n - 1) + n\n")
    assert jit.load(io.BytesIO(unit.f.save_to_buffer()))(10) == 55


def test_another_process_needs_no_source(tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "nets.py").write_text(
        textwrap.dedent(
            """
            import facula as fa
            from facula import jit, nn
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(2, 1)
                def forward(self, x):
                    while x.sum() < 10:
                        x = x * 2
                    return self.layer(x)
            net = jit.script(Net())
            nn.init.ones_(net.layer.weight)
            nn.init.zeros_(net.layer.bias)
            jit.save(net, "net.pt")
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = {"cwd": tmp_path, "env": environment, "check": True, "capture_output": True}
    subprocess.run([sys.executable, "made/nets.py"], **run)
    code = "import facula as fa; print(fa.jit.load('net.pt')(fa.ones(1, 2)).item())"
    said = subprocess.run([sys.executable, "-c", code], **run).stdout
    assert float(said) == 16.0


def test_what_cannot_be_saved():
    @jit.ignore
    def plain(x):
        return x

    with pytest.raises(RuntimeError, match=r"plain\(\) is marked by jit.ignore"):
        jit.script(lambda_free(plain)).save_to_buffer()
    hooked = jit.script(Tower())
    hooked.first.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="first has forward_hooks"):
        hooked.save_to_buffer()
    with pytest.raises(TypeError, match="Linear is neither scripted nor traced"):
        jit.save(nn.Linear(1, 1), io.BytesIO())


def lambda_free(plain):
    def calls(x: fa.Tensor) -> fa.Tensor:
        return plain(x)

    return calls


def test_files_of_others(tmp_path):
    path = tmp_path / "weights.pt"
    fa.save({"a": fa.ones(1)}, path)
    with pytest.raises(FormatError, match=r"lacks program.txt"):
        jit.load(path)
    path.write_bytes(b"no archive")
    with pytest.raises(FormatError, match="it is no zip archive"):
        jit.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/constants.pkl", b"")
    with pytest.raises(FormatError, match="TorchScript archive"):
        jit.load(path)
    later = packed("facula program 99\nmain object 0\n", b"")
    with pytest.raises(FormatError, match="version 99, this facula reads up to 1"):
        jit.load(io.BytesIO(later))


def packed(text, weights):
    if not weights:
        empty = io.BytesIO()
        fa.save({}, empty, format="safetensors")
        weights = empty.getvalue()
    buffer = io.BytesIO()
    writer = Writer(buffer.write)
    writer.add("program.txt", text.encode())
    writer.add("weights.safetensors", weights)
    writer.close()
    return buffer.getvalue()


HEAD = 'facula program 1\nmain object 0\nclass 0 "M" script {\n'
TAIL = "}\nobject 0 class 0 {\n  training True\n}\n"
HOSTILE = [
    ('py eval("1")', "no function of Python 'eval'"),
    ("save(x)", "no function 'save'"),
    ("method __class__(x)", "'__class__' is no attribute"),
    ("method tofile(x)", "no method 'tofile'"),
    ("get __dict__(x)", "'__dict__' is no attribute"),
    ("get grad_fn(x)", "no attribute 'grad_fn'"),
    ("y = self._modules", "reads self._modules"),
    ("y = py sorted([x], key=self.save)", "reads self.save"),
    ("module save(self, x)", "calls what is no method"),
    ("module forward(self.missing, x)", "reads self.missing"),
    ("set self._parameters = x", "sets an attribute that there is not"),
    ("call missing(x)", "no graph 'missing'"),
    ("y = __import__", "cannot be the name"),
    ("if True {\nbreak\n}", "'break' stands outside of a loop"),
    ("raise SystemExit(3)", "cannot raise 'SystemExit'"),
    ("with open(x) {\n}", "cannot enter 'open'"),
    ("y = " + "[" * 99 + "]" * 99, "nested more than 60 deep"),
    ("loop {\n" * 70 + "}\n" * 70, "nested more than 60 deep"),
    ("loop {\n" * 40 + "}\n" * 40, "too many statically nested blocks"),
    ("y = 1" + "0" * 500, "more than 400 digits"),
    ("y = (x", "expected"),
    ("y = $x", "no token"),
    ("y: List[ = x", "expected 'name'"),
    ("return constant(c)", "no constant 'c'"),
    ("import os", "expected"),
]


@pytest.mark.parametrize("case", HOSTILE, ids=lambda c: c[0][:30])
def test_programs_of_files_call_what_they_may(case):
    line, message = case
    text = f"{HEAD}graph forward(self, x) {{\n{line}\nreturn x\n}}\n{TAIL}"
    with pytest.raises(FormatError, match=message):
        jit.load(io.BytesIO(packed(text, b"")))


def test_formats_reach_no_attributes():
    text = 'method format("{0.__class__}", x)'
    text = f"{HEAD}graph forward(self, x) {{\ny = {text}\nreturn y\n}}\n{TAIL}"
    module = jit.load(io.BytesIO(packed(text, b"")))
    with pytest.raises(ValueError, match="reads attributes"):
        module(3)


def _mutated(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.choice((1, 4, 40))]
        elif kind == 2:
            data[at:at] = data[at : at + rng.choice((1, 8, 60))]
        else:
            other = rng.randrange(len(data))
            data[at : at + 8] = data[other : other + 8]
        if not data:
            break
    return bytes(data)


def mutate(count, seed):
    """Load mutated files, and mutated texts in whole files; gives how many were refused."""
    rng = random.Random(seed)
    fa.manual_seed(seed)
    file = jit.script(Tower()).save_to_buffer()
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        text = archive.read("program.txt")
        weights = archive.read("weights.safetensors")
    refused = 0
    for i in range(count):
        if i % 2:
            data = _mutated(file, rng)
        else:
            data = packed(_mutated(text, rng).decode(errors="replace"), weights)
        try:
            jit.load(io.BytesIO(data))
        except FormatError:
            refused += 1
    return refused


def test_mutated_files_load_or_raise_format_errors():
    assert mutate(200, 0) > 120


def test_graphs_are_printed_and_parsed_alike(tower):
    for graph in (
        tower.graph,
        jit.trace(tower, fa.ones(2, 3)).graph,
        jit.freeze(tower_eval()).graph,
    ):
        again = parse_graph(str(graph), graph.constants())
        assert str(again) == str(graph)
        assert again.parameters == graph.parameters and again.body == graph.body


def tower_eval():
    return jit.script(Tower()).eval()


if __name__ == "__main__":  # python test_jit_files.py 100000 [SEED]
    print(mutate(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0), "refused")
