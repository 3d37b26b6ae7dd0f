"""Helpers that packages take from within torch: of optimizers, storages, dtypes, modules."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import facula as fa
import numpy as np
import pytest
from facula import finfo, nn
from facula._absent_dtypes import ABSENT_DTYPES
from facula._file_tensors import bytes_of_file
from facula.as_torch import _spaces, _storages
from facula.as_torch.names.distributions import utils
from facula.as_torch.names.nn.utils import _named_member_accessor as members
from facula.as_torch.names.nn.utils import stateless
from facula.as_torch.names.optim import optimizer as helpers

torch = _spaces.space("")


def run(code):
    return subprocess.run(
        [sys.executable, "-c", "import facula.as_torch; facula.as_torch.install()\n" + code],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


# ---- dtypes without tensors


@pytest.mark.parametrize("name", ["float8_e4m3fnuz", "qint8", "bits8", "uint1"])
def test_dtypes_can_be_named(name):
    dtype = getattr(torch, name)
    assert repr(dtype) == f"facula.{name}" and dtype.itemsize == 1
    assert dtype is ABSENT_DTYPES[name] and {dtype: 1}[dtype] == 1
    assert dtype not in (fa.float32, fa.uint8)
    with pytest.raises(TypeError, match="dtype"):
        fa.zeros(2, dtype=dtype)


@pytest.mark.parametrize(
    "name, digits, exponents, largest",
    [
        ("float8_e4m3fn", 3, 4, 448.0),
        ("float8_e5m2", 2, 5, 57344.0),
    ],
)
def test_limits_of_floats_of_8_bits(name, digits, exponents, largest):
    info = finfo(getattr(torch, name))
    bias = 2 ** (exponents - 1) - 1
    assert info.eps == 2.0**-digits and info.tiny == 2.0 ** (1 - bias)
    # All bits set is NaN in the one, infinity and NaN have the largest exponent in the other.
    top = (2 - 2 * 2.0**-digits) * 2.0 ** (bias + 1) if "fn" in name else (2 - 0.25) * 2.0**bias
    assert info.max == largest == top and info.min == -largest and info.bits == 8


def test_limits_of_dtypes_that_are_there():
    assert finfo(fa.float32) == fa.finfo(fa.float32)
    assert torch.finfo is finfo
    info = torch.iinfo(torch.uint32)
    assert (info.min, info.max, info.bits) == (0, 2**32 - 1, 32)
    for bad in ("qint8", "float8_e5m2", "uint4"):
        with pytest.raises(TypeError, match="iinfo"):
            torch.iinfo(getattr(torch, bad))


def test_what_vmap_hands_on():
    functorch = torch._C._functorch
    seen = []

    def row(x):
        seen.append((functorch.is_batchedtensor(x), functorch.get_unwrapped(x).tolist()))
        return x

    fa.vmap(row)(fa.arange(3))
    assert seen == [(True, [0, 1, 2])]
    x = fa.ones(2)
    assert not functorch.is_batchedtensor(x) and functorch.get_unwrapped(x) is x


# ---- storages


def test_storages_of_files(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(32)))
    said = run(
        "import torch, numpy\n"
        f"s = torch.UntypedStorage.from_file({str(path)!r}, shared=False, nbytes=24)\n"
        "print(len(s), s[3], s[4:8].tolist(), s.is_cuda, s.is_shared())\n"
        "t = torch.asarray(s[4:12], dtype=torch.uint8)\n"
        "print(t.data_ptr() - s.data_ptr(), t.view(dtype=torch.int16).tolist())\n"
        "s[5] = 77\n"
        "print(t[1].item(), s.clone().fill_(1).tolist() == [1] * 24, s[5])\n"
    )
    first = np.arange(4, 12, dtype=np.uint8).view(np.int16).tolist()
    assert said == f"24 3 [4, 5, 6, 7] False False\n4 {first}\n77 True 77\n"
    assert path.read_bytes() == bytes(range(32))  # nothing was written there


def test_shared_storages_write_to_their_file(tmp_path):
    path = tmp_path / "grows"
    storage = bytes_of_file(path, shared=True, nbytes=16)
    _storages._bytes(storage)[3] = 9
    del storage
    assert path.read_bytes() == bytes([0, 0, 0, 9] + [0] * 12)
    with pytest.raises(RuntimeError, match="has 16 bytes, not 17"):
        bytes_of_file(path, nbytes=17)
    with pytest.raises(FileNotFoundError):
        bytes_of_file(tmp_path / "none")
    (tmp_path / "empty").touch()
    assert bytes_of_file(tmp_path / "empty").nbytes() == 0


def test_parts_of_storages():
    part = _storages._Part(fa.arange(8, dtype=fa.uint8))
    assert list(part[2:4]) == [2, 3] and part[5] == 5 and part.nbytes() == 8
    part[2:4][0] = 50
    assert part.untyped()[2] == 50
    assert pickle.loads(pickle.dumps(part)).nbytes() == 8


# ---- optimizers and modules


def test_helpers_of_optimizers():
    class Scaled(fa.optim.Optimizer):
        def __init__(self, params, differentiable=False):
            super().__init__(params, {"differentiable": differentiable})

        @helpers._use_grad_for_differentiable
        def step(self, closure=None):
            return fa.is_grad_enabled()

    weight = nn.Parameter(fa.ones(2))
    assert Scaled([weight]).step() is False
    assert Scaled([weight], differentiable=True).step() is True
    assert helpers._default_to_fused_or_foreach([weight], False) == (False, False)
    assert helpers._get_value(fa.tensor(3.0)) == 3.0 and helpers._get_value(2) == 2
    assert helpers._to_scalar(fa.tensor([3.0])).dim() == 0
    assert helpers._get_scalar_dtype() == fa.float32
    params, states = [fa.ones(2, dtype=fa.complex64)], [fa.zeros(2, dtype=fa.complex64)]
    helpers._view_as_real(params, states)
    assert params[0].shape == (2, 2) and states[0].dtype == fa.float32


def test_an_optimizer_that_wraps_another():
    inner = fa.optim.SGD([nn.Parameter(fa.ones(1))], lr=0.1)

    class Wrapped(fa.optim.Optimizer):
        def __init__(self, optimizer):
            self.optimizer = optimizer

        def step(self, closure=None):
            return "stepped"

    assert Wrapped(inner).step() == "stepped"


def test_tensors_of_modules_by_name():
    layer = nn.BatchNorm1d(2)
    mean = layer.running_mean
    assert members.swap_tensor(layer, "running_mean", fa.ones(2)) is mean
    assert layer.running_mean.tolist() == [1.0, 1.0]
    assert members.swap_tensor(layer, "extra", mean, allow_missing=True) is members._MISSING
    assert layer.extra is mean
    members.swap_tensor(layer, "extra", members._MISSING)
    assert not hasattr(layer, "extra")
    with pytest.raises(AttributeError, match="none"):
        members.swap_tensor(layer, "none", mean)
    with pytest.raises(KeyError, match="contain"):
        members.set_tensor(layer, "a.b", mean)
    with pytest.raises(TypeError, match="Module"):
        members.set_tensor(3, "a", mean)


def test_a_module_with_other_tensors_for_a_while():
    layer = nn.Linear(2, 1)
    own = layer.weight
    with stateless._reparametrize_module(layer, {"weight": fa.zeros(1, 2)}):
        assert layer(fa.ones(1, 2)).item() == layer.bias.item()
    assert layer.weight is own


def test_helpers_of_distributions():
    x = fa.arange(6.0).reshape(1, 2, 3)
    assert utils._sum_rightmost(x, 2).tolist() == [15.0]
    assert utils._standard_normal((2, 3), fa.float64, "cpu").dtype == fa.float64
    assert isinstance(utils._lazy_property_and_property(lambda self: 1), property)


# ---- gradients of several at once


def test_gradients_for_rows():
    x = fa.arange(4.0, dtype=fa.float64).requires_grad_()
    w = fa.ones(2, dtype=fa.float64).requires_grad_()
    y = x**2 * w.sum()
    rows = fa.eye(4, dtype=fa.float64)
    by_x, by_w = fa.autograd.grad(y, (t for t in (x, w)), rows, is_grads_batched=True)
    np.testing.assert_array_equal(by_x.numpy(), np.diag(4 * np.arange(4.0)))
    np.testing.assert_array_equal(by_w.numpy(), np.repeat(np.arange(4.0)[:, None] ** 2, 2, 1))
    y = x.sum()
    with pytest.raises(RuntimeError, match="is_grads_batched"):
        fa.autograd.grad(y, x, is_grads_batched=True)


def test_names_of_torchs_files():
    said = run(
        "import torch, torch.nn.modules.padding, torch.nn.common_types, torch.nn.grad\n"
        "from torch.nn.modules.pooling import _MaxPoolNd, _AvgPoolNd\n"
        "from torch.nn.modules.padding import _ReflectionPadNd\n"
        "from torch.nn.modules.transformer import _get_activation_fn, _get_clones\n"
        "from torch.nn.parameter import UninitializedTensorMixin, is_lazy\n"
        "from torch.nn.common_types import _size_2_t\n"
        "from torch.utils.data._utils.worker import get_worker_info\n"
        "from torch.optim.optimizer import ParamsT, _params_t\n"
        "from torch.nn.attention.flex_attention import BlockMask, flex_attention\n"
        "from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex\n"
        "with TransformGetItemToIndex():\n"
        "    print(torch.arange(3)[torch.tensor(2)].item())\n"
        "print(torch.torch is torch, torch.nn.functional.torch is torch)\n"
        "print(isinstance(torch.nn.MaxPool2d(2), _MaxPoolNd), _size_2_t)\n"
        "with torch.cuda.stream(None):\n"
        "    pass\n"
        "torch.cuda.set_sync_debug_mode('warn')\n"
        "print(torch.cuda.get_sync_debug_mode(), torch._standard_gamma(torch.ones(2)).shape)\n"
    )
    assert said == (
        "2\nTrue True\nTrue int | tuple[int, int]\n1 torch.Size([2])\n"
        if "int | tuple" in said
        else "2\nTrue True\nTrue typing.Union[int, tuple[int, int]]\n1 torch.Size([2])\n"
    )


def test_tensors_of_files(tmp_path):
    path = tmp_path / "numbers"
    np.arange(6, dtype=np.float64).tofile(path)
    x = torch.from_file(str(path), size=4, dtype=fa.float64)
    assert x.tolist() == [0, 1, 2, 3]
    x[0] = 9  # a copy of the page
    shared = torch.from_file(str(path), shared=True, size=8, dtype=fa.float64)
    shared[7] = 5
    assert np.fromfile(path).tolist() == [0, 1, 2, 3, 4, 5, 0, 5]
    with pytest.raises(RuntimeError, match="bytes"):
        torch.from_file(str(path), size=100)


def test_functions_of_lists_that_are_no_methods():
    a, b = [fa.tensor([1.0, 5.0])], [fa.tensor([3.0, 2.0])]
    torch._foreach_maximum_(a, b)
    assert a[0].tolist() == [3.0, 5.0]
    with pytest.raises(AttributeError):
        _ = torch._foreach_nothing_


def test_functions_of_lists_with_a_number_each():
    def pair():
        return [fa.tensor([1.0, 2.0]), fa.tensor([3.0])]

    for given in ([0.5, 2.0], fa.tensor([0.5, 2.0], dtype=fa.float64)):
        a = pair()
        torch._foreach_addcdiv_(a, pair(), [x * x for x in pair()], given)
        np.testing.assert_allclose(a[0].numpy(), [1.5, 2.25])
        np.testing.assert_allclose(a[1].numpy(), [3 + 2 / 3], rtol=1e-6)
    found = torch._foreach_addcmul(pair(), pair(), pair(), value=2)
    assert [t.tolist() for t in found] == [[3.0, 10.0], [21.0]]
    found = torch._foreach_addcmul(pair(), pair(), pair(), scalars=[1, 0])
    assert [t.tolist() for t in found] == [[2.0, 6.0], [3.0]]
    assert [n.item() for n in torch._foreach_norm(pair(), ord=1)] == [3.0, 3.0]
    assert [n.item() for n in torch._foreach_norm(pair(), float("inf"))] == [2.0, 3.0]
    with pytest.raises(RuntimeError, match="3 beside one of 2"):
        torch._foreach_add_(pair(), [1, 2, 3])


def test_names_that_programs_go_through():
    spaces = _spaces.space("distributions").__dict__
    assert spaces["Normal"] is fa.distributions.Normal
    assert "relu" in vars(_spaces.space("nn.functional"))


def test_sizes_of_storages_and_names_of_torchs_insides():
    said = run(
        "import sys, torch\n"
        "small, large = (sys.getsizeof(torch.zeros(n).untyped_storage()) for n in (0, 100))\n"
        "print(large - small, torch.__config__.show()[:6])\n"
        "from torch.serialization import MAP_LOCATION\n"
        "print('at::get_num_threads' in torch.__config__.parallel_info())\n"
        "from torch._jit_internal import _copy_to_script_wrapper, boolean_dispatch\n"
        "pick = boolean_dispatch('a', 1, False, lambda x, a=0: 1, lambda x, a=0: 2, 'm', 'f')\n"
        "print(pick(0), pick(0, True), pick(0, a=True), _copy_to_script_wrapper(pick) is pick)\n"
        "x, y = torch.ones(2), torch.ones(2)\n"
        "print(x._cdata == x._cdata, x._cdata == y._cdata, x.view(2)._cdata == x._cdata)\n"
    )
    assert said == "400 facula\nTrue\n2 1 1 True\nTrue False False\n"


# ---- modules and hooks as packages derive and call them


def test_containers_take_the_names_of_arguments():
    row = nn.Sequential(nn.ReLU(), nn.Tanh())
    row.__setitem__(idx=0, module=nn.Identity())
    assert isinstance(row.__getitem__(idx=0), nn.Identity)
    row.__delitem__(idx=1)
    assert isinstance(row.pop(key=0), nn.Identity) and len(row) == 0
    entries = nn.ModuleDict()
    entries.update(modules={"a": nn.ReLU()})
    numbers = nn.ParameterDict()
    numbers.update(parameters={"w": fa.ones(1)})
    assert list(entries) == ["a"] and list(numbers) == ["w"]
    assert nn.Hardtanh(min_value=-2, max_value=2).max_val == 2


def test_modules_with_another_base():
    class Named:
        def __init__(self, name):
            self.name = name

    class Layer(nn.Module, Named):
        call_super_init = True

        def __init__(self):
            super().__init__(name="layer")

    assert Layer().name == "layer"
    with pytest.raises(TypeError, match="unexpected"):
        nn.Module(name="x")


def test_hooks_of_optimizers_that_go_first():
    optimizer = fa.optim.SGD([nn.Parameter(fa.ones(1))], lr=0.1)
    seen = []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("last"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    optimizer.state_dict()
    assert seen == ["first", "last"]


def test_classes_are_asked_by_the_public_function():
    class Answer:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func

    for name in ("atleast_1d", "atleast_3d", "block_diag", "meshgrid", "unique"):
        assert getattr(fa, name)(Answer()) is getattr(fa, name)
    assert fa.einsum("i,i->", Answer(), fa.ones(2)) is fa.einsum


def test_graphs_hold_public_functions_and_their_arguments():
    graph = fa.fx.Graph()
    x = fa.fx.Proxy(graph.placeholder("x"))
    torch._assert(x.shape[0] == 2, "two rows")
    graph.output(fa.einsum("ij,ij->i", (x, x)).node)
    calls = {node.target: node for node in graph.nodes if node.op == "call_function"}
    assert calls[fa.einsum].args == ("ij,ij->i", x.node, x.node)
    run = fa.fx.GraphModule({}, graph)
    assert run(fa.ones(2, 3)).tolist() == [3.0, 3.0]
    with pytest.raises(AssertionError, match="two rows"):
        run(fa.ones(3, 3))


def test_the_test_case_of_torchs_tests():
    from facula.as_torch.names.testing._internal.common_utils import TestCase

    case = TestCase()
    state = {"a": [fa.ones(2), 1.0, "x", None], "b": fa.arange(3)}
    case.assertEqual(state, {"a": [fa.ones(2), 1, "x", None], "b": fa.arange(3)})
    case.assertEqual([fa.ones(2)], [fa.ones(2) + 0.5], atol=1.0, rtol=0)
    case.assertEqual(fa.ones(2), fa.ones(2, dtype=fa.float64), exact_dtype=False)
    for a, b in [
        (fa.ones(2), fa.zeros(2)),
        (fa.ones(2), fa.ones(2, dtype=fa.float64)),
        ({"a": 1}, {"b": 1}),
        ([1], [1, 2]),
        ("x", "y"),
        (1.0, 1.1),
    ]:
        with pytest.raises(AssertionError):
            case.assertEqual(a, b)


def test_tracers_of_packages_make_their_own_proxies():
    class Tracer(fa.fx.Tracer):
        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None):
            return super().create_proxy(kind, target, args, kwargs, name, type_expr)

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(fa.ones(2))

        def forward(self, x):
            return x * self.scale

    graph = Tracer(param_shapes_constant=True).trace(Scaled())
    assert [node.op for node in graph.nodes] == [
        "placeholder",
        "get_attr",
        "call_function",
        "output",
    ]


def test_entries_of_trees_have_torchs_names():
    from facula.as_torch.names.utils._pytree import SUPPORTED_NODES

    children, context = SUPPORTED_NODES[dict].flatten_fn({"a": 1})
    assert children == [1] and SUPPORTED_NODES[dict].unflatten_fn([2], context) == {"a": 2}
    assert _spaces.resolve("_dynamo.eval_frame.is_dynamo_supported")() is False
