"""Names of torch that packages use at their top: hubs, futures, operators in Python, trees, jit."""

from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys
import threading

import facula as fa
import pytest
from facula import hub, library
from facula.as_torch import _spaces
from facula.as_torch._refused import is_refused, refused_names
from facula.as_torch.names import _C, _checks, _symbolic, ops
from facula.as_torch.names.utils import _contextlib
from facula.futures import Future, collect_all, wait_all
from facula.utils import _pytree


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", "import facula.as_torch; facula.as_torch.install()\n" + code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_what_is_there_is_not_refused():
    root = pathlib.Path(fa.__file__).parent
    places = [root / p.replace(".", "/") for p in refused_names()]
    assert not [p for p in places if p.is_dir() or p.with_suffix(".py").exists()]


def test_refused_names_can_be_imported_and_not_used():
    for path, names in refused_names().items():
        assert _spaces.exists(path), path
        for name in names:
            getattr(_spaces.space(path), name)
    whole = _spaces.resolve("distributed.fsdp.FullyShardedDataParallel")
    assert is_refused(whole) and not isinstance(fa.ones(1), whole)
    with pytest.raises(RuntimeError, match=r"torch\.distributed\.fsdp\.FullyShardedDataParallel"):
        whole(0)
    kind = _spaces.resolve("distributed.fsdp.StateDictType").FULL_STATE_DICT
    assert kind == _spaces.resolve("distributed.fsdp.StateDictType").FULL_STATE_DICT
    assert repr(kind) == "torch.distributed.fsdp.StateDictType.FULL_STATE_DICT"


def test_imports_of_packages():
    said = run(
        "import torch, torch.onnx, torch.library, torch.fx, torch.overrides\n"
        "from torch.nn.modules.module import _IncompatibleKeys\n"
        "from torch.distributed.fsdp import FullyShardedDataParallel, StateDictType, fully_shard\n"
        "from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler\n"
        "from torch.distributed._composable.fsdp import MixedPrecisionPolicy\n"
        "from torch.distributed.tensor import DTensor, Shard, distribute_tensor\n"
        "from torch.distributed.tensor.parallel import loss_parallel, parallelize_module\n"
        "from torch.distributed.pipelining import Schedule1F1B, SplitPoint\n"
        "from torch.fx.proxy import TraceError\n"
        "from torch.onnx.symbolic_helper import parse_args\n"
        "from torch.utils._contextlib import _DecoratorContextManager\n"
        "from torch.utils.data.dataloader import _collate_fn_t\n"
        "from torch.jit.annotations import BroadcastingList2, List\n"
        "x: BroadcastingList2[int] = 1\n"
        "print(_IncompatibleKeys([], []), torch.is_autocast_cpu_enabled())\n"
        "print(torch.get_device_module('cpu').__name__, torch._shape_as_tensor(torch.ones(2, 3)))\n"
    )
    assert said.splitlines() == [
        "<All keys matched successfully> False",
        "torch.cpu tensor([2, 3])",
    ]


def test_devices_that_are_not_there_have_names():
    said = run(
        "import torch\n"
        "for name in ('mps', 'xpu:0', 'xla'):\n"
        "    device = torch.device(name)\n"
        "    try:\n"
        "        torch.ones(1, device=device)\n"
        "    except RuntimeError as error:\n"
        "        print(device, 'no device' in str(error))\n"
        "try:\n"
        "    torch.device('abacus')\n"
        "except RuntimeError as error:\n"
        "    print(str(error)[:25])\n"
        "print(torch.accelerator.is_available())\n"
    )
    lines = said.splitlines()
    assert lines[:3] == ["mps True", "xpu:0 True", "xla True"]
    assert lines[3] == "'abacus' is not a device;"


def test_futures():
    first, second = Future(), Future()
    both = collect_all([first, second])
    doubled = first.then(lambda f: f.value() * 2)
    threading.Thread(target=first.set_result, args=(3,)).start()
    assert first.wait() == 3 and doubled.wait() == 6 and not both.done()
    second.set_exception(KeyError("k"))
    assert both.wait() == [first, second]
    with pytest.raises(KeyError):
        wait_all([first, second])
    with pytest.raises(RuntimeError, match="once"):
        first.set_result(4)
    with pytest.raises(RuntimeError, match="no result yet"):
        Future().value()


def test_files_are_fetched_and_checked(tmp_path, capsys):
    fa.save({"w": fa.ones(2)}, tmp_path / "source.pt")
    data = (tmp_path / "source.pt").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    named = tmp_path / f"model-{digest[:8]}.pt"
    named.write_bytes(data)
    url = pathlib.Path(named).as_uri()
    folder = tmp_path / "kept"
    state = hub.load_state_dict_from_url(url, str(folder), progress=False, check_hash=True)
    assert state["w"].tolist() == [1, 1]
    assert [f.name for f in folder.iterdir()] == [named.name]
    with pytest.raises(RuntimeError, match="invalid hash"):
        hub.download_url_to_file(url, str(tmp_path / "bad"), hash_prefix="0000", progress=False)
    assert not (tmp_path / "bad").exists()
    assert not list(tmp_path.glob("*.partial"))


def test_operators_of_programs():
    @library.custom_op("test_names::twice", mutates_args=())
    def twice(x: fa.Tensor) -> fa.Tensor:
        return x * 2

    assert ops.__getattr__("test_names").twice.default(fa.ones(1)).item() == 2
    with pytest.raises(AttributeError, match="thrice"):
        _ = ops.__getattr__("test_names").thrice
    assert ops.aten.add.Tensor(fa.ones(1), 1).item() == 2
    with pytest.raises(OSError, match="built for torch"):
        ops.load_library("lib.so")
    with fa.profiler.profile() as found:
        mark = ops.profiler._record_function_enter("a part")
        fa.ones(2).sum()
        ops.profiler._record_function_exit(mark)
    assert "a part" in [event.key for event in found.key_averages()]


def test_paths_of_trees():
    tree = {"a": [1, (2, 3)], "b": 4}
    pairs, spec = _pytree.tree_flatten_with_path(tree)
    assert [_pytree.keystr(path) for path, _ in pairs] == [
        "['a'][0]", "['a'][1][0]", "['a'][1][1]", "['b']"
    ]  # fmt: skip
    assert all(_pytree.key_get(tree, path) == leaf for path, leaf in pairs)
    doubled = _pytree.tree_map_with_path(lambda path, x: x * len(path), tree)
    assert doubled == {"a": [2, (6, 9)], "b": 4}
    read = _pytree.treespec_loads(_pytree.treespec_dumps(spec))
    assert _pytree.tree_unflatten([leaf for _, leaf in pairs], read) == tree


def test_managers_decorate():
    entered = []

    class Manager(_contextlib._DecoratorContextManager):
        def __enter__(self):
            entered.append(self)

        def __exit__(self, *error):
            entered.append(None)

    @Manager()
    def function(x):
        assert entered[-1] is not None
        return x

    assert function(1) == 1 and function(2) == 2
    assert len(entered) == 4 and entered[0] is not entered[2]


def test_checks_and_sizes():
    for name, error in [
        ("_check", RuntimeError),
        ("_check_index", IndexError),
        ("_check_value", ValueError),
        ("_check_type", TypeError),
        ("_check_not_implemented", NotImplementedError),
    ]:
        check = getattr(_checks, name)
        check(True, lambda: "unused")
        with pytest.raises(error, match="why"):
            check(False, lambda: "why")
    with pytest.raises(TypeError, match="bool"):
        _checks._check(1)
    _checks._check_tensor_all(fa.tensor([True]))
    with pytest.raises(RuntimeError):
        _checks._check_tensor_all(fa.tensor([True, False]))
    assert _symbolic.sym_max(2, 3) == 3 and _symbolic.sym_int(-1.5) == -1
    assert _symbolic.sym_not(False) and _symbolic.sym_ite(True, 1, 2) == 1
    assert not isinstance(3, _symbolic.SymInt)


@pytest.mark.parametrize(
    "args, want",
    [
        (("cpu",), ("cpu", None)),
        ((fa.float64,), (None, fa.float64)),
        (("cpu", fa.float16), ("cpu", fa.float16)),
        ((fa.ones(1, dtype=fa.float64),), ("cpu", fa.float64)),
    ],
)
def test_arguments_of_to(args, want):
    device, dtype, non_blocking, memory_format = _C._nn._parse_to(*args)
    assert (None if device is None else device.type, dtype) == want
    assert non_blocking is False and memory_format is None


def test_integers_are_no_dtype_of_modules():
    assert _C._nn._parse_to(fa.int64)[1] == fa.int64  # packages ask for objects of their own
    with pytest.raises(TypeError, match="floating"):
        fa.nn.Linear(1, 1).to(fa.int64)


def test_texts_are_torchs():
    said = run(
        "import torch\n"
        "x = torch.arange(3.)\n"
        "print(x.dtype, torch.strided, torch.channels_last, x.shape, x.type())\n"
        "print(x.type('torch.LongTensor'), x.type(torch.HalfTensor))\n"
        "try:\n"
        "    x.type('torch.NoTensor')\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    assert said.splitlines() == [
        "torch.float32 torch.strided torch.channels_last torch.Size([3]) torch.FloatTensor",
        "tensor([0, 1, 2]) tensor([0., 1., 2.], dtype=torch.float16)",
        "type(): 'torch.NoTensor' is not the name of a type such as torch.FloatTensor",
    ]


def test_types_by_name():
    x = fa.ones(2)
    assert x.type("facula.DoubleTensor").dtype == fa.float64
    assert x.type() == "facula.FloatTensor" and str(x.dtype) == "facula.float32"
    assert x.type("FloatTensor") is x


def test_checkpoint_wrapper():
    said = run(
        "import torch\n"
        "from torch import nn\n"
        "from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as w\n"
        "net = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh()))\n"
        "x = torch.ones(2, 3)\n"
        "before = net(x)\n"
        "names = list(net.state_dict())\n"
        "w.apply_activation_checkpointing(net, check_fn=lambda m: isinstance(m, nn.Sequential))\n"
        "assert isinstance(net[1], w.CheckpointWrapper) and list(net.state_dict()) == names\n"
        "runs = []\n"
        "net[1][0].register_forward_hook(lambda *_: runs.append(1))\n"
        "y = net(x)\n"
        "assert torch.equal(y, before)\n"
        "y.sum().backward()\n"
        "print(len(runs), net[1][0].weight.grad is not None)"
    )
    assert said.split() == ["2", "True"]


def test_files_of_torch_cuda_and_cpu():
    """Without a GPU too, as programs import them at their top."""
    assert (
        run(
            "import torch.cuda.memory, torch.cuda.comm, torch.cuda.sparse\n"
            "from torch.cuda.graphs import CUDAGraph\n"
            "from torch.cuda.random import get_rng_state_all\n"
            "from torch.cuda.streams import Event, Stream\n"
            "print(get_rng_state_all(), torch.cuda.memory.memory_allocated())\n"
            "before = torch.cpu.current_stream()\n"
            "with torch.cpu.stream(torch.cpu.Stream()) as _:\n"
            "    print(torch.cpu.current_stream() is before)\n"
            "print(torch.cpu.current_stream() is before, torch.cpu.device_count())\n",
            CUDA_VISIBLE_DEVICES="",
        )
        == "[] 0\nFalse\nTrue 1\n"
    )
