"""Autocast, GradScaler and the default device on devices of packages, and decompositions of calls
that a vendor's kernel declines."""

from __future__ import annotations

import ctypes
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula import backends
from facula.nn import functional as F
from numpy_device import NumpyDevice, bmm

# torch's lists of autocast for other devices than the CPU (ATen/autocast_mode.h, torch 2.13), run
# here in float16, the first lower dtype that the device has.
TABLE = """
float16
    fa.mm(x, y)   x @ y   fa.bmm(x3, y3)   fa.mv(x, v)   fa.addmm(s, x, y)   fa.addmv(v[:4], x, v)
    fa.addr(s, v[:4], v[:4])   fa.addbmm(s, x3, y3)   fa.baddbmm(s3, x3, y3)
    F.linear(x, y.t(), v[:4])   fa.linalg.vecdot(x, x)   fa.linalg.multi_dot([x, y, s])
    fa.chain_matmul(x, y, s)   fa.einsum("ij,jk->ik", x, y)   fa.einsum("i,j->ij", v, v)
    F.conv2d(img, fa.ones(3, 2, 3, 3, device=D))   F.prelu(x, v[:1])
    F.scaled_dot_product_attention(x3, x3, x3)   fa.gru_cell(x, s, w, u)
    h * h   F.gelu(h)   F.relu(h)   fa.tanh(h)   fa.mean(h)   fa.sqrt(h)
float32
    fa.acos(h)   fa.asin(h)   fa.cosh(h)   fa.erfinv(h)   fa.exp(h)   fa.expm1(h)   fa.log(h)
    fa.log10(h)   fa.log2(h)   fa.log1p(h)   fa.reciprocal(h)   fa.rsqrt(h)   fa.sinh(h)   fa.tan(h)
    h ** 2   fa.pow(h, h)   2.0 ** h   F.softplus(h)   F.layer_norm(h, (6,))   F.rms_norm(h, (6,))
    F.group_norm(himg, 2)   F.cosine_similarity(h, h)   fa.dist(h, h)   fa.renorm(h, 2, 0, 1.0)
    fa.logsumexp(h, -1)   fa.prod(h)   F.softmax(h, -1)   F.log_softmax(h, -1)   fa.cumsum(h, 0)
    fa.cumprod(h, 0)   fa.sum(h)   h.sum(0)   fa.linalg.vector_norm(h)   fa.linalg.matrix_norm(h)
    fa.norm(h)   F.mse_loss(h, h)   F.l1_loss(h, h)   F.smooth_l1_loss(h, h)   F.huber_loss(h, h)
    F.binary_cross_entropy_with_logits(h, h)   F.kl_div(h, h)   F.nll_loss(h, t)
    F.cross_entropy(h, t)   F.soft_margin_loss(h, h)   F.margin_ranking_loss(h, h, h)
    F.interpolate(himg, scale_factor=2)   F.interpolate(himg, scale_factor=2, mode="bilinear")
    fa.addcmul(h, x, x)   fa.addcdiv(h, x, x)   fa.atan2(h, x)   fa.dot(h[0], v)   fa.vdot(h[0], v)
    fa.linalg.cross(h[:, :3], x[:, :3])   F.bilinear(h, x, fa.ones(2, 6, 6, device=D))
    x.index_put((fa.tensor([0], device=D),), h[:1])   fa.tensordot(h, y, 1)
    x.scatter_add(0, fa.zeros(1, 6, dtype=fa.int64, device=D), h[:1])
    fa.mm(x, y, out=fa.empty(4, 4, device=D))
"""


def cases() -> list[tuple[str, str]]:
    found, dtype = [], ""
    for line in TABLE.splitlines():
        if line.startswith(" "):
            found += [(dtype, code.strip()) for code in line.split("   ") if code.strip()]
        else:
            dtype = line
    return found


@pytest.mark.parametrize(("dtype", "code"), cases())
def test_dtypes(numpyfied: str, dtype: str, code: str) -> None:
    fa.manual_seed(0)
    x, img = fa.rand(4, 6) / 4 + 0.5, fa.rand(1, 2, 6, 6)
    plain = {
        "x": x, "y": fa.rand(6, 4), "v": fa.rand(6), "s": fa.rand(4, 4), "x3": fa.rand(2, 4, 6),
        "y3": fa.rand(2, 6, 4), "s3": fa.rand(2, 4, 4), "img": img, "w": fa.rand(12, 6),
        "u": fa.rand(12, 4), "h": x.half(), "himg": img.half(), "t": fa.tensor([0, 1, 2, 0]),
    }  # fmt: skip
    there = {k: v.to(numpyfied) for k, v in plain.items()}
    with fa.autocast(numpyfied):
        got = eval(code, {"fa": fa, "F": F, "D": numpyfied, **there})
        assert (x @ plain["y"]).dtype == fa.float32  # one device type is not another
    assert str(got.dtype) == f"facula.{dtype}"

    def cast(dtype: Any) -> dict[str, Any]:
        return {k: v.to(dtype) if v.is_floating_point() else v for k, v in plain.items()}

    here = {"fa": fa, "F": F, "D": "cpu"}
    try:
        want = eval(code, {**here, **cast(fa.float64)})
    except RuntimeError:  # a constant of float32 in the code
        want = eval(code, {**here, **cast(fa.float32)})
    np.testing.assert_allclose(
        np.array(got.tolist()), np.array(want.tolist()), rtol=2e-2, atol=2e-2
    )


def test_training(numpyfied: str) -> None:
    fa.manual_seed(0)
    with fa.device(numpyfied):
        assert str(fa.get_default_device()) == "numpyfied:0"
        model = fa.nn.Sequential(fa.nn.Linear(4, 8), fa.nn.GELU(), fa.nn.Linear(8, 3))
        x, y = fa.rand(16, 4), fa.arange(16).remainder(3)
    assert all(p.device.type == numpyfied for p in model.parameters())
    optimizer = fa.optim.AdamW(model.parameters(), lr=0.05)
    scaler = fa.amp.GradScaler(numpyfied, init_scale=2.0**20, growth_interval=4)
    losses, scales = [], []
    for _ in range(30):
        optimizer.zero_grad()
        with fa.autocast(numpyfied):
            out = model(x)
            loss = F.cross_entropy(out, y)
        assert out.dtype == fa.float16 and loss.dtype == fa.float32
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        scales.append(scaler.get_scale())
    assert min(scales) < 2.0**20  # that one was too large for float16
    assert losses[-1] < losses[0] / 2 and all(p.dtype == fa.float32 for p in model.parameters())


def test_a_packages_lists_go_before_faculas(strict: ctypes.CDLL) -> None:
    x = fa.ones(1, 2, 2, device="strict")
    with fa.autocast("strict"):
        assert fa.get_autocast_dtype("strict") == fa.bfloat16
        assert fa.bmm(x, x).dtype == fa.bfloat16 and x.bfloat16().sum().dtype == fa.float32
        assert x.exp().dtype == fa.float32
    assert fa.bmm(x, x).dtype == fa.float32


class Listed(NumpyDevice):
    autocast_dtype = "float16"


def register(name: str, **attributes: Any) -> str:
    backends.register(type("Listed", (Listed,), {"name": name, **attributes})())
    return name


def test_lists_of_a_package_in_python() -> None:
    name = register(
        "listed", autocast_lower=["exp", "mul", "max.dim"], autocast_float32=["mm", "gelu"]
    )
    x = fa.ones(2, 2, device=name)
    with fa.autocast(name):
        assert x.exp().dtype == (x * x).dtype == x.max(0).values.dtype == fa.float16
        assert fa.mm(x.half(), x.half()).dtype == F.gelu(x.half()).dtype == fa.float32
        assert (x.half() @ x.half()).dtype == fa.float16  # matmul itself is not in the list
    assert x.exp().dtype == fa.float32


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"autocast_dtype": "float99"}, "autocast dtype 'float99'; it must be bfloat16 or float16"),
        ({"autocast_dtype": "float32"}, "autocast dtype 'float32'; it must be bfloat16 or float16"),
        ({"autocast_dtype": "bfloat16"}, "autocast dtype bfloat16 and has no tensors of it"),
        ({"autocast_lower": ["nonesuch"]}, "autocast_lower has 'nonesuch', which is no operator"),
        ({"autocast_float32": ["add_"]}, "autocast_float32 has 'add_', which is no operator"),
        ({"autocast_float32": ["copy_"]}, "'copy_', which autocast cannot cast"),
        ({"autocast_lower": ["zeros"]}, "'zeros', which autocast cannot cast"),
        (
            {"autocast_lower": ["mm"], "autocast_float32": ["mm"]},
            "lists 'mm' in autocast_lower and",
        ),
    ],
)
def test_lists_that_are_refused(attributes: dict[str, Any], words: str) -> None:
    known = backends.names()
    with pytest.raises(ValueError, match=words):
        register("unlisted", **attributes)
    assert backends.names() == known


# ---- calls that a kernel declines


ASKED: list[str] = []


def declining(name: str, *, fallback: bool = False) -> tuple[str, list[str]]:
    """A device whose kernels decline every call, and what they were asked for."""
    asked = ASKED
    asked.clear()

    def decline(op: str) -> Any:
        def kernel(*args: Any) -> Any:
            asked.append(op)
            return NotImplemented

        return kernel

    ops = ["softmax", "tril", "max.dim", "flip", "adam_step", "unscale_grads", "native_layer_norm",
           "linear", "nonzero_count", "sort", "cat", "bernoulli_"]  # fmt: skip
    flags = NumpyDevice.flags if fallback else NumpyDevice.flags & ~NumpyDevice.CPU_FALLBACK
    kernels = {"bmm": bmm, **{op: decline(op) for op in ops}}
    if name not in backends.names():
        backends.register(
            type("Declining", (NumpyDevice,), {"name": name, "flags": flags, "kernels": kernels})()
        )
    return name, asked


def test_a_declined_call_is_decomposed() -> None:
    name, asked = declining("declining_to_cpu", fallback=True)
    backends.reset_fallbacks(name)
    x = fa.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    there = x.to(name).requires_grad_()
    here = x.clone().requires_grad_()
    for t in (here, there):
        s = fa.softmax(t, 1)
        m = fa.tril(t).sum() + t.max(1).values.sum() + t.flip(0)[0].sum()
        n = F.layer_norm(F.linear(t, t), (2,))
        (s[:, 0].sum() + m + (n * n[0]).sum() + fa.cat([t, t])[1].sum()).backward()
    np.testing.assert_allclose(there.grad.tolist(), here.grad.tolist(), rtol=1e-4, atol=1e-4)
    assert {"softmax", "tril", "max.dim", "flip", "native_layer_norm", "linear"} <= set(asked)
    assert not set(backends.fallbacks(name)) & set(asked)
    out = fa.empty(2, 3, device=name)
    assert fa.softmax(x.to(name), 1, out=out) is out
    np.testing.assert_allclose(out.tolist(), fa.softmax(x, 1).tolist(), rtol=1e-6)
    strided = fa.empty(3, 2, device=name).t()
    fa.softmax(x.to(name), 1, out=strided)
    np.testing.assert_allclose(strided.tolist(), fa.softmax(x, 1).tolist(), rtol=1e-6)
    values, places = x.to(name).max(1)
    assert values.tolist() == [3, 5] and places.tolist() == [0, 1]


def test_several_results_are_decomposed_into_out() -> None:
    def argmax(self: Any, dim: Any, keepdim: bool, out: Any) -> None:
        np.asarray(out)[...] = np.argmax(np.asarray(self), axis=dim, keepdims=keepdim)

    def gather(self: Any, dim: int, index: Any, sparse_grad: bool, out: Any) -> None:
        np.asarray(out)[...] = np.take_along_axis(np.asarray(self), np.asarray(index), dim)

    name, flags = "two_kernels", NumpyDevice.flags & ~NumpyDevice.CPU_FALLBACK
    if name not in backends.names():
        own = {"name": name, "flags": flags, "kernels": {"argmax": argmax, "gather": gather}}
        backends.register(type("TwoKernels", (NumpyDevice,), own)())
    x = fa.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]]).to(name)
    values, places = fa.empty(0, device=name), fa.empty(0, dtype=fa.int64, device=name)
    fa.max(x, 1, out=(values, places))
    assert values.tolist() == [3, 5] and places.tolist() == [0, 1]


def test_declined_kernels_that_write_are_decomposed() -> None:
    name, asked = declining("declining_to_cpu", fallback=True)
    backends.reset_fallbacks(name)
    p = fa.ones(3, device=name, requires_grad=True)
    optimizer = fa.optim.Adam([p], lr=0.5)
    scaler = fa.amp.GradScaler(name, init_scale=4.0)
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert p.grad.tolist() == [1, 1, 1]
    np.testing.assert_allclose(p.tolist(), [0.5] * 3, rtol=1e-6)
    p.grad.fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0
    np.testing.assert_allclose(p.tolist(), [0.5] * 3, rtol=1e-6)
    asked_for = fa.empty(100, device=name).bernoulli_(0.5).mean().item()
    assert 0.2 < asked_for < 0.8
    assert {"adam_step", "unscale_grads", "bernoulli_"} <= set(asked)
    assert not set(backends.fallbacks(name)) & set(asked)


def test_without_a_decomposition_a_declined_call_goes_on() -> None:
    name, _ = declining("declining")
    with pytest.raises(NotImplementedError, match="did not take these arguments"):
        fa.ones(3, device=name).sort()
    name, _ = declining("declining_to_cpu", fallback=True)
    backends.reset_fallbacks(name)
    assert fa.tensor([2.0, 1.0]).to(name).sort().values.tolist() == [1, 2]
    assert fa.softmax(fa.zeros(2, device=name), 0).tolist() == [0.5, 0.5]
    assert set(backends.fallbacks(name)) == {"sort"}
