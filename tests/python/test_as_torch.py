"""`python -m facula.as_torch`: torch's names give facula, in its process and its children."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import facula
import pytest
from facula.as_torch import TorchVersion, __version__, _spaces
from facula.as_torch._uses import uses_of
from facula.as_torch.scan import scan, status_of

PACKAGE = Path(facula.__file__).parent.parent


def python(*arguments, cwd=None, status=0, **variables):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        env=os.environ | {"PYTHONPATH": str(PACKAGE)} | variables,
    )
    assert done.returncode == status, done.stderr
    return done.stdout.strip() if status == 0 else done.stdout + done.stderr


def run(tmp_path, code, *arguments, status=0, **variables):
    """Output of a program run as the command does."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(code), encoding="utf-8")
    return python(
        "-m", "facula.as_torch", script, *arguments, cwd=tmp_path, status=status, **variables
    )


# ---- running


def test_a_program_trains(tmp_path):
    code = """
        import sys
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        from torch import optim
        from torch.utils.data import DataLoader, TensorDataset
        from helper import double  # stands beside the program

        x = torch.linspace(-1, 1, 64).unsqueeze(1)
        loader = DataLoader(TensorDataset(x, double(x)), batch_size=16, shuffle=True)
        net = nn.Linear(1, 1)
        optimizer = optim.SGD(net.parameters(), lr=0.3)
        for epoch in range(int(sys.argv[1])):
            for a, b in loader:
                optimizer.zero_grad()
                F.mse_loss(net(a), b).backward()
                optimizer.step()
        print(torch.nn is nn, torch.nn.functional is F, isinstance(net.weight, torch.Tensor))
        print(abs(net.weight.item() - 2) < 1e-3, sys.argv[1:], __name__)
    """
    (tmp_path / "helper.py").write_text("def double(x):\n    return 2 * x\n", encoding="utf-8")
    assert run(tmp_path, code, 20).splitlines() == ["True True True", "True ['20'] __main__"]


def test_a_module_runs_by_name(tmp_path):
    package = tmp_path / "tool"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "__main__.py").write_text(
        "import sys, torch\nprint(torch.ones(2).sum().item(), sys.argv[1:])\n", encoding="utf-8"
    )
    assert python("-m", "facula.as_torch", "-m", "tool", "a", "-b", cwd=tmp_path) == (
        "2.0 ['a', '-b']"
    )


def test_the_programs_status_and_errors_are_its_own(tmp_path):
    run(tmp_path, "import torch, sys; sys.exit(7)", status=7)
    assert "ZeroDivisionError" in run(tmp_path, "1 / 0", status=1)
    for arguments, text in [
        ((), "usage"),
        (("nothing.py",), "no file 'nothing.py'"),
        (("--what",), "unknown option --what"),
        (("-m",), "-m needs a module"),
    ]:
        assert text in python("-m", "facula.as_torch", *arguments, cwd=tmp_path, status=2)


CHILDREN = """
    import importlib.metadata, multiprocessing, subprocess, sys

    def work(queue):
        import torch
        from torch.nn import Linear
        queue.put((torch.__name__, Linear.__module__, importlib.metadata.version("torch")))

    if __name__ == "__main__":
        import torch
        code = "import torch.nn as n; print(n.Linear.__module__)"
        print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
        for method in ("fork", "spawn", "forkserver"):
            context = multiprocessing.get_context(method)
            queue = context.Queue()
            process = context.Process(target=work, args=(queue,))
            process.start()
            print(method, *queue.get(timeout=60))
            process.join()
"""


def test_children_have_it_too(tmp_path):
    got = run(tmp_path, CHILDREN).split("\n")
    assert got[0] == "facula.nn.modules.linear"
    for method, line in zip(("fork", "spawn", "forkserver"), got[2:], strict=True):
        assert line == f"{method} torch facula.nn.modules.linear {__version__}"


def test_a_child_that_has_no_path_to_facula_finds_it(tmp_path):
    code = f"""
        import os, subprocess, sys
        import torch
        os.environ["PYTHONPATH"] = {_spaces.SITE!r}
        code = "import torch; print(torch.ones(3).sum().item())"
        print(subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True))
    """
    assert "stdout='3.0\\n'" in run(tmp_path, code)


def test_the_version_is_that_of_the_metadata(tmp_path):
    code = """
        import importlib.metadata, importlib.util, torch
        print(importlib.metadata.version("torch"), torch.__version__, torch.version.__version__)
        print(importlib.util.find_spec("torch").name, importlib.util.find_spec("torch.nothing"))
        print(torch.__version__ >= (2, 1), torch.__version__ > "2.9", torch.version.cuda)
    """
    first, second, third = run(tmp_path, code).splitlines()
    assert first == " ".join([str(__version__)] * 3)
    assert second == "torch None" and third == "True True None"
    (file,) = Path(_spaces.SITE).glob("*.egg-info")
    assert file.name == f"torch-{__version__}.egg-info"


def test_torch_itself_is_not_replaced(tmp_path):
    (tmp_path / "torch.py").write_text("__version__ = '1.2.3'\n", encoding="utf-8")
    code = "import torch, facula.as_torch as a; print(a.is_installed()); a.install()"
    said = python("-c", code, cwd=tmp_path, status=1)
    assert "False" in said and "torch 1.2.3 is imported already, from" in said
    assert "call install() before anything imports torch" in said
    # One that is not imported yet stands back, and a second call changes nothing.
    code = "import facula.as_torch as a; a.install(); a.install(); import torch, sys, os\n"
    code += "entries = os.environ['PYTHONPATH'].split(os.pathsep)\n"
    code += "print(torch.__version__, a.is_installed(), sum('as_torch' in e for e in entries))"
    assert python("-c", code, cwd=tmp_path, PYTHONPATH=str(PACKAGE)).endswith(
        f"{__version__} True 1"
    )


# ---- names


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("torch.nothing", "AttributeError"),
        ("torch.nn.functional.nothing", "AttributeError"),
        ("from torch import nothing", "ImportError"),
        ("from torch.nn import nothing", "ImportError"),
        ("import torch.nothing", "ModuleNotFoundError"),
        ("import torch.nn.nothing.more", "ModuleNotFoundError"),
        ("torch.examples", "AttributeError"),
        ("torch.nn.functional._C", "AttributeError"),
    ],
)
def test_a_missing_name_is_named(tmp_path, statement, kind):
    code = f"""
        import torch
        try:
            {statement}
        except Exception as error:
            print(type(error).__name__, error)
    """
    name = {
        "torch.nothing": "torch.nothing",
        "from torch import nothing": "torch.nothing",
        "import torch.nothing": "torch.nothing",
        "from torch.nn import nothing": "torch.nn.nothing",
        "import torch.nn.nothing.more": "torch.nn.nothing",
    }.get(statement, statement)
    assert run(tmp_path, code).startswith(f"{kind} facula has no {name} yet; `python -m facula.as")


NAMESPACES = """
    _dynamo _inductor.config amp autograd backends backends.cuda backends.cudnn backends.mkldnn
    backends.mps compiler cuda cuda.amp cuda.nvtx distributed distributions fft func fx hub jit
    library linalg mps multiprocessing nn nn.attention nn.functional nn.init nn.modules.batchnorm
    nn.modules.utils nn.parallel nn.utils.parametrize nn.utils.rnn onnx optim optim.lr_scheduler
    optim.swa_utils overrides profiler return_types serialization sparse special testing
    torch_version types utils utils.checkpoint utils.cpp_extension utils.data
    utils.data._utils.collate utils.data.distributed utils.dlpack utils.hooks utils.tensorboard
    version xpu
""".split()


def test_namespaces_can_be_imported(tmp_path):
    lines = [
        f"import torch.{name}; assert torch.{name}.__name__ == 'torch.{name}'"
        for name in NAMESPACES
    ]
    lines += ["import torch", *[f"torch.{n}" for n in NAMESPACES], "print('all')"]
    assert run(tmp_path, "\n".join(lines)) == "all"


def test_every_name_of_the_stand_in_is_there(tmp_path):
    """What `dir` and `__all__` of each namespace list can be had, and nothing private by chance."""
    code = f"""
        import importlib, types
        for name in {NAMESPACES!r}:
            space = importlib.import_module("torch." + name)
            for inner in [*dir(space), *space.__all__]:
                value = getattr(space, inner)
                if isinstance(value, types.ModuleType):
                    assert value.__name__.startswith("torch."), (name, inner, value)
        exec("from torch.nn.functional import *; relu")
        print("done")
    """
    assert run(tmp_path, code) == "done"


def test_without_a_gpu(tmp_path):
    code = """
        import torch
        print(torch.cuda.is_available(), torch.cuda.device_count(), torch.ones(1).is_xpu)
        torch.cuda.manual_seed_all(0); torch.cuda.empty_cache()
        print(torch.cuda.memory_allocated(), torch.cuda.is_initialized())
        torch.backends.cudnn.benchmark = True
        print(torch.backends.cudnn.benchmark, torch.backends.mps.is_available())
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            print(str(error).rpartition(": ")[0])
        with torch.cuda.amp.autocast(enabled=False):
            print(torch.cuda.amp.GradScaler(enabled=False).is_enabled())
    """
    if facula.cuda.is_available():
        pytest.skip("there is a GPU")
    assert run(tmp_path, code).splitlines() == [
        "False 0 False",
        "0 False",
        "True False",
        "cuda.synchronize(): there is no device of type 'cuda'",
        "False",
    ]


def test_compile_is_faculas(tmp_path):
    code = """
        import torch
        f = lambda x: x * 2 + 1
        x = torch.ones(100, 100)
        m = torch.nn.Linear(100, 100)
        c = torch.compile(m, mode="max-autotune", fullgraph=True)
        print(torch.equal(torch.compile(dynamic=True)(f)(x), f(x)), torch.equal(c(x), m(x)))
        print(c._orig_mod is m, torch.compile(f, disable=True) is f)
        print(torch.equal(torch.compile(torch._dynamo.disable(f), backend="inductor")(x), f(x)))
        torch._dynamo.reset()
    """
    assert run(tmp_path, code).split() == ["True"] * 5


def test_ignored_functions_are_themselves(tmp_path):
    code = """
        import torch
        f = lambda x: x + 1
        print(torch.jit.ignore(drop=True)(f) is f)
        print(torch.compiler.is_compiling(), torch.jit.is_scripting())
    """
    assert run(tmp_path, code).split() == ["True", "False", "False"]


def test_programs_are_scripted_traced_and_saved(tmp_path):
    code = """
        import torch
        from torch import Tensor
        from torch.jit.frontend import NotSupportedError

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(2, 2)

            def forward(self, x: Tensor, n: int = 1) -> Tensor:
                for _ in range(n):
                    x = torch.relu(self.linear(x)) + torch.zeros(x.size(0), 1)
                return x

        m = Net()
        s, t = torch.jit.script(m), torch.jit.trace(m, torch.ones(1, 2))
        x = torch.randn(3, 2)
        print(torch.equal(s(x, 2), m(x, 2)), torch.equal(t(x), m(x)))
        torch.jit.save(s, "m.pt")
        loaded = torch.jit.load("m.pt", map_location="cpu")
        print(isinstance(loaded, torch.jit.ScriptModule), torch.equal(loaded(x, 2), m(x, 2)))
        try:
            torch.jit.script(lambda x: x)
        except NotSupportedError as error:
            print("lambda" in str(error))
    """
    assert run(tmp_path, code).split() == ["True"] * 5


def test_processes_are_joined(tmp_path):
    pytest.importorskip("mpi4py")
    code = """
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.distributed_c10d import _get_default_group
        from torch.distributed.elastic.multiprocessing.errors import record
        from torch.nn.parallel import DistributedDataParallel, DataParallel
        import torch
        def f(group: dist.ProcessGroup | None = None): ...
        print(dist.is_available(), dist.is_initialized(), dist.is_nccl_available())
        m = DataParallel(torch.nn.Linear(2, 2))
        print(sorted(m.state_dict()), m(torch.ones(1, 2)).shape)
        try:
            dist.init_process_group("nccl")
        except dist.DistBackendError as error:
            print(error)
        store = dist.TCPStore("127.0.0.1", 0, is_master=True)
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        net = DistributedDataParallel(torch.nn.Linear(2, 2))
        net(torch.ones(1, 2)).sum().backward()
        print(net.module.weight.grad.tolist(), _get_default_group().size())
        dist.destroy_process_group()
    """
    lines = run(tmp_path, code).splitlines()
    assert lines[0] == "True False False"
    assert lines[1] == "['module.bias', 'module.weight'] torch.Size([1, 2])"
    assert lines[2].startswith("init_process_group: nccl: ")
    assert lines[3] == "[[1.0, 1.0], [1.0, 1.0]] 1"


def test_what_a_program_sets_stays_in_its_namespace(tmp_path):
    code = """
        import torch, facula, functools
        torch.load = functools.partial(torch.load, map_location="cpu")
        torch.anything = 3
        torch.nn.functional.relu = abs
        print(torch.anything, hasattr(facula, "anything"), torch.load is facula.load)
        print(facula.nn.functional.relu(facula.tensor([-1.0])).item())
        class Mine(torch.Tensor):
            pass
        mine = torch.ones(2).as_subclass(Mine)
        print(type(mine).__name__, isinstance(mine, facula.Tensor), facula.Tensor.__module__)
    """
    assert run(tmp_path, code).splitlines() == ["3 False False", "0.0", "Mine True facula"]


def test_legacy_types():
    cases = {"FloatTensor": facula.float32, "LongTensor": facula.int64, "BoolTensor": facula.bool}
    for name, dtype in cases.items():
        kind = _spaces.resolve(name)
        assert kind(2, 3).shape == (2, 3) and kind(2, 3).dtype == dtype
        assert kind([1, 0]).tolist() == [1, 0] and kind().shape == (0,)
        assert kind(facula.Size([4])).shape == (4,)
        assert isinstance(facula.zeros(1, dtype=dtype), kind)
        assert not isinstance(facula.zeros(1, dtype=facula.int16), kind)
        assert kind.__module__ == "facula"  # "torch" once it is installed
    assert not isinstance(facula.zeros(1), _spaces.resolve("cuda.FloatTensor"))
    with pytest.raises(TypeError, match="got 2 arguments"):
        _spaces.resolve("FloatTensor")([1], [2])
    _spaces.resolve("set_default_tensor_type")("torch.DoubleTensor")
    try:
        assert facula.zeros(1).dtype == facula.float64
    finally:
        _spaces.resolve("set_default_tensor_type")(_spaces.resolve("FloatTensor"))
    assert facula.get_default_dtype() == facula.float32


def test_functions_of_lists():
    add = _spaces.resolve("_foreach_add")
    assert [t.item() for t in add([facula.tensor(1), facula.tensor(2)], 3)] == [4, 5]
    assert [t.item() for t in add([facula.tensor(1), facula.tensor(2)], [3, 5])] == [4, 7]
    tensors = [facula.tensor(1.0), facula.tensor(2.0)]
    assert _spaces.resolve("_foreach_mul_")(tensors, 2) is None
    assert [t.item() for t in tensors] == [2, 4]
    assert status_of("_foreach_nothing") == "missing"


def test_trees():
    tree_map, flatten, unflatten = (
        _spaces.resolve("utils._pytree." + n)
        for n in ("tree_map", "tree_flatten", "tree_unflatten")
    )
    tree = {"b": [1, (2, None)], "a": {"c": 3}}
    assert tree_map(lambda x: x, tree) == tree
    leaves, spec = flatten(tree)
    assert leaves == [1, 2, None, 3] and spec.num_leaves == 4
    assert unflatten("wxyz", spec) == {"b": ["w", ("x", "y")], "a": {"c": "z"}}
    assert tree_map(lambda a, b: (a, b), [1, 2], [[3], 4]) == [(1, [3]), (2, 4)]
    ret = facula.ones(3, 2).max(0)
    assert type(tree_map(lambda t: t + 1, ret)) is type(ret)
    assert flatten([1, [2]], is_leaf=lambda x: x == [2])[0] == [1, [2]]
    with pytest.raises(ValueError, match="3 leaves for a tree of 4"):
        unflatten([1, 2, 3], spec)
    with pytest.raises(ValueError, match="expected a"):
        tree_map(max, [1, 2], (3, 4))
    only = _spaces.resolve("utils._pytree.tree_map_only")
    assert only(int, lambda x: -x, [1, "a", 2.0]) == [-1, "a", 2.0]


ORDER = (
    "1.0.dev1 1.0a1 1.0b2 1.0rc1 1.0 1.0+cpu 1.0.post1 1.0.1 1.2 1.10 2.0a0 2.0 2.13 1!0.1".split()
)


def test_versions_compare():
    packaging = pytest.importorskip("packaging.version")
    for i, a in enumerate(ORDER):
        for j, b in enumerate(ORDER):
            assert (TorchVersion(a) < b) == (i < j)
            assert (TorchVersion(a) >= TorchVersion(b)) == (i >= j)
            assert (TorchVersion(a) < packaging.Version(b)) == (
                packaging.Version(a) < packaging.Version(b)
            )
    assert TorchVersion("2.13.0") == "2.13" and TorchVersion("2.13.0") >= (2, 13)
    assert TorchVersion("2.13.0") != "nightly" and str(TorchVersion("2.13.0")) == "2.13.0"
    assert hash(TorchVersion("2.1")) == hash("2.1")


# ---- looking at a program


def names(code):
    return [(u.name, u.sure, u.guarded) for u in uses_of(textwrap.dedent(code))]


def test_uses_by_import_and_by_attribute():
    code = """
        import torch
        import torch.nn.functional as F, torch.utils.data
        from torch import nn, optim as o
        from torch.nn import Linear as L
        F.relu(torch.zeros(1)); nn.Conv2d; o.Adam; L(1, 2)
        D = torch.utils.data.DataLoader
        D()
        class Net(nn.Module):
            def f(self, nn):
                return nn.Unknown
        lambda torch: torch.other
        torch.anything = 1
    """
    got = {name for name, _, _ in names(code)}
    assert got == {
        *("nn.functional utils.data nn optim nn.Linear nn.functional.relu zeros").split(),
        *("nn.Conv2d optim.Adam utils.data.DataLoader nn.Module").split(),
    }


def test_uses_that_a_program_does_without():
    code = """
        import torch
        try:
            from torch.nothing import a
        except ImportError:
            a = None
        if hasattr(torch, "b"):
            torch.b()
        getattr(torch, "c", None)
        torch.d()
        getattr(torch, "e")
    """
    got = {name: guarded for name, _, guarded in names(code)}
    assert got == {"nothing.a": True, "b": True, "c": True, "d": False, "e": False}


def test_methods_of_tensors():
    code = """
        import torch
        def f(x: torch.Tensor, y):
            a = torch.ones(2) @ x
            a.sum(0).lstsq()
            x[0].T.symeig
            y.stft()
            (a + y).size(0).bit_length()
            values = x.topk(2)
            return values.indices
    """
    got = {name: sure for name, sure, _ in names(code) if name.startswith("Tensor.")}
    assert got["Tensor.lstsq"] and got["Tensor.symeig"] and got["Tensor.size"]
    assert not got["Tensor.stft"] and not got["Tensor.indices"]


def test_the_table(tmp_path):
    (tmp_path / "a.py").write_text(
        "import torch\nfrom torch.distributed.fsdp import FullyShardedDataParallel\n"
        "torch.zeros(1)\ntorch.nothing.at.all(1)\ntorch.zeros(1).frobnicate()\n"
        "torch.zeros(1).lstsq(2)\ntorch.Tensor.nonsense\ntorch.float32.is_complex\n",
        encoding="utf-8",
    )
    (tmp_path / "b.py").write_text("def f(:\n", encoding="utf-8")
    report = scan([str(tmp_path)])
    status = {n.name: n.status for n in report.names}
    assert status == {
        "nothing": "missing",
        "Tensor.lstsq": "refused",
        "Tensor.nonsense": "missing",
        "distributed.fsdp.FullyShardedDataParallel": "refused",
        "zeros": "there",
        "float32": "there",
    }
    assert report.files == 2 and len(report.unread) == 1 and "b.py" in report.unread[0]
    said = python("-m", "facula.as_torch", "--scan", tmp_path, status=1)
    assert "missing  torch.nothing" in said and f"{tmp_path}/a.py:4" in said
    assert "2 files, 6 names: 2 missing, 2 refused, 2 there" in said
    data = json.loads(python("-m", "facula.as_torch", "--scan", tmp_path, "--json", status=1))
    assert data["torch"] == str(__version__) and data["files"] == 2
    assert {"name": "torch.zeros", "status": "there", "places": [f"{tmp_path}/a.py:3"]} in [
        {**n, "places": n["places"][:1]} for n in data["names"]
    ]


def test_the_status_of_a_program_without_gaps(tmp_path):
    good = tmp_path / "good.py"
    good.write_text("import torch\nprint(torch.ones(1))\nraise SystemExit(9)\n", encoding="utf-8")
    assert "1 files, 1 names: 1 there" in python("-m", "facula.as_torch", "--scan", good)
    assert "none of torch's" in python("-m", "facula.as_torch", "--scan", "json")
    assert "neither a file" in python("-m", "facula.as_torch", "--scan", "no/such", status=2)


def test_a_module_is_called_with_other_parameters():
    call = _spaces.resolve("func.functional_call")
    assert callable(_spaces.resolve("nn.utils.stateless.functional_call"))
    net = facula.nn.Sequential(facula.nn.Linear(2, 2), facula.nn.BatchNorm1d(2).eval())
    own = dict(net.state_dict(keep_vars=True).items())
    x, weight = facula.ones(1, 2), facula.full((2, 2), 3.0, requires_grad=True)
    zero = facula.zeros(2)
    out = call(net[0], [{"weight": weight}, {"bias": zero}], (x,))
    assert out.tolist() == [[6.0, 6.0]]
    out.sum().backward()
    assert weight.grad.tolist() == [[1.0, 1.0]] * 2 and net[0].weight.grad is None
    shifted = call(net, {"0.weight": weight, "0.bias": zero, "1.running_mean": zero + 6}, x)
    assert shifted.tolist() == [[0.0, 0.0]]
    assert all(net.state_dict(keep_vars=True)[name] is t for name, t in own.items())

    net[0].register_parameter("again", net[0].weight)
    assert call(net[0], {"again": weight, "bias": zero}, x).tolist() == [[6.0, 6.0]]
    untied = call(net[0], {"again": weight, "bias": zero}, x, tie_weights=False)
    assert untied.tolist() != [[6.0, 6.0]]
    with pytest.raises(ValueError, match="another name"):
        call(net[0], {"again": weight, "weight": weight * 2}, x)
    with pytest.raises(ValueError, match="given twice"):
        call(net[0], ({"bias": zero}, {"bias": zero}), x)
    with pytest.raises(RuntimeError, match=r"unexpected names \['w'\]"):
        call(net[0], {"w": zero}, x)
    with pytest.raises(RuntimeError, match=r"missing \['again', 'weight'\]"):
        call(net[0], {"bias": zero}, x, strict=True)
    assert net[0].weight is own["0.weight"]
    assert _spaces.resolve("func.vmap")(abs)(-facula.ones(2)).tolist() == [1, 1]
