"""facula.autocast on the CPU. The table states what torch documents and does: the dtype of each
result under `torch.autocast("cpu", torch.bfloat16)` in torch 2.13."""

from __future__ import annotations

import threading
import warnings

import facula as fa
import numpy as np
import pytest
from facula.nn import functional as F

# x, y, v, s, img, vol: float32; h, ph: bfloat16; d: float64; t: integers
TABLE = """
bfloat16
    fa.mm(x, y)   fa.mm(h, y)   x @ y   fa.bmm(x3, y3)   fa.matmul(x3, y)   fa.matmul(x, v)
    fa.addmm(s, x, y)   fa.addbmm(s, x3, y3)   fa.baddbmm(s3, x3, y3)   fa.linalg.vecdot(x, x)
    F.linear(x, y.t(), v[:4])   F.linear(h, y.t(), v[:4])   fa.einsum("ij,jk->ik", x, y)
    fa.linalg.multi_dot([x, y, s])   fa.chain_matmul(x, y, s)   fa.tensordot(x, y, 1)
    fa.inner(x, x)   F.conv1d(fa.ones(1, 2, 5), fa.ones(3, 2, 3))
    F.conv2d(img, fa.ones(3, 2, 3, 3), fa.ones(3))   F.conv2d(img, w2, padding="same")
    F.conv3d(vol, fa.ones(3, 2, 2, 2, 2))   F.conv_transpose2d(img, fa.ones(2, 3, 3, 3))
    F.scaled_dot_product_attention(x3, x3, x3)   F.prelu(x, fa.ones(1))
    fa.nn.LSTM(6, 3)(x3)[0]   fa.nn.LSTM(6, 3)(x3)[1][1]   fa.nn.RNN(6, 3)(x3)[0]
    fa.nn.RNNCell(6, 3)(x)   fa.nn.MultiheadAttention(6, 2)(x3, x3, x3)[0]   fa.cov(h)
    fa.linalg.matrix_power(s, 3)
    h * h   fa.exp(h)   fa.log(ph)   h ** 2   fa.pow(ph, ph)   2.0 ** h   fa.rsqrt(ph)   fa.tan(h)
    F.softplus(h)   F.gelu(h)   F.relu(h)   fa.sigmoid(h)   F.softmax(h, -1)   F.log_softmax(h, -1)
    fa.logsumexp(h, -1)   fa.sum(h)   fa.mean(h)   fa.cumsum(h, 0)   fa.linalg.vector_norm(h)
    fa.norm(h)   fa.std(h)   fa.prod(ph, 0, dtype=fa.bfloat16)   F.dropout(h, 0.5)
    F.layer_norm(h, (6,), fa.ones(6), fa.zeros(6))   F.rms_norm(h, (6,))
    F.group_norm(himg, 2, fa.ones(2), fa.zeros(2))   F.instance_norm(himg)
    F.batch_norm(himg, fa.zeros(2), fa.ones(2), fa.ones(2), fa.zeros(2), training=True)
    F.gaussian_nll_loss(h, h, ph)   F.cosine_similarity(h, h)   F.pairwise_distance(h, h)
    fa.dist(h, h)   F.max_pool2d(himg, 2)   F.avg_pool2d(himg, 2)   F.adaptive_avg_pool2d(himg, 1)
    F.interpolate(himg, scale_factor=2)   F.interpolate(himg, scale_factor=2, mode="bilinear")
    F.pad(h, (1, 1))   fa.cat([h, h])
float32
    fa.mv(x, v)   fa.dot(v, v)   fa.addmv(v[:4], x, v)   fa.addr(s, v[:4], v[:4])   fa.outer(v, v)
    F.bilinear(x, x, fa.ones(2, 6, 6))   fa.kron(x, x)
    x + x   h + x   fa.einsum("ij->i", x)   F.softmax(h, -1, dtype=fa.float32)
    fa.prod(ph)   fa.prod(ph, 0)   F.cross_entropy(h, t)   F.nll_loss(h, t)   F.mse_loss(h, h)
    F.l1_loss(h, h)   F.smooth_l1_loss(h, h)   F.huber_loss(h, h)   F.binary_cross_entropy(ph, ph)
    F.binary_cross_entropy_with_logits(h, ph)   F.kl_div(h, ph)   F.poisson_nll_loss(h, ph)
    F.soft_margin_loss(h, h.sign())   F.hinge_embedding_loss(h, h.sign())
    F.margin_ranking_loss(h, h, h.sign())   F.cosine_embedding_loss(h, h, h[:, 0].sign())
    F.triplet_margin_loss(h, h, h)   F.multi_margin_loss(h, t)
    F.multilabel_margin_loss(h, fa.zeros(4, 6, dtype=fa.int64))
    F.max_pool3d(hvol, 2)   F.avg_pool3d(hvol, 2)   F.adaptive_avg_pool3d(hvol, 1)
    F.adaptive_max_pool3d(hvol, 1)   F.pad(himg, (1, 1, 1, 1), mode="reflect")
    F.pad(himg, (1, 1, 1, 1), mode="replicate")   fa.quantile(h, 0.5)   fa.nanquantile(h, 0.5)
    F.max_unpool2d(*F.max_pool2d(himg, 2, return_indices=True), 2)   fa.trace(h)
    fa.cat([h, x])   fa.stack([h, x])   x.index_copy(0, fa.tensor([0]), h[:1])   fa.atan2(h, x)
    fa.addcmul(h, x, x)   F.embedding(fa.tensor([1]), x)   fa.mm(x, y, out=fa.empty(4, 4))
    fa.nn.TransformerEncoderLayer(6, 2, 8)(x3)
float64
    fa.prod(d)   fa.mm(d, d.t())
complex64
    fa.polar(x, x)   fa.view_as_complex(fa.ones(3, 2))
int64
    fa.mm(i2, i2)
"""
# On the CPU torch leaves these in float32 (a state of float32 among the inputs), and on a GPU runs
# them in the lower dtype, as it does the other recurrent layers on both; here they are alike.
RECURRENT = ["fa.nn.GRU(6, 3)(x3)[0]", "fa.nn.GRUCell(6, 3)(x)", "fa.nn.LSTMCell(6, 3)(x)[0]"]


def cases() -> list[tuple[str, str]]:
    found, dtype = [], ""
    for line in TABLE.splitlines():
        if line.startswith(" "):
            found += [(dtype, code.strip()) for code in line.split("   ") if code.strip()]
        else:
            dtype = line
    return found + [("bfloat16", code) for code in RECURRENT]


def values() -> dict[str, object]:
    fa.manual_seed(0)
    x, img, vol = fa.rand(4, 6) + 0.5, fa.rand(1, 2, 6, 6), fa.rand(1, 2, 4, 4, 4)
    return {
        "fa": fa, "F": F, "x": x, "y": fa.rand(6, 4), "v": fa.rand(6), "s": fa.rand(4, 4),
        "x3": fa.rand(2, 4, 6), "y3": fa.rand(2, 6, 4), "s3": fa.rand(2, 4, 4),
        "h": x.bfloat16(), "ph": (x / 2).bfloat16(), "d": x.double(), "t": fa.tensor([0, 1, 2, 0]),
        "img": img, "vol": vol, "himg": img.bfloat16(), "hvol": vol.bfloat16(),
        "w2": fa.rand(3, 2, 3, 3), "i2": fa.ones(2, 2, dtype=fa.int64),
    }  # fmt: skip


@pytest.mark.parametrize(("dtype", "code"), cases())
def test_dtypes(dtype: str, code: str) -> None:
    names = values()
    with fa.autocast("cpu", dtype=fa.bfloat16):
        result = eval(code, names)
    assert str(result.dtype) == f"facula.{dtype}"
    if "nn." in code or "dropout" in code or "float64" in (dtype,):
        return
    # the values: those of float64, to the precision of bfloat16
    wide = {k: v.double() if isinstance(v, fa.Tensor) and v.is_floating_point() else v
            for k, v in values().items()}  # fmt: skip
    wide = {**wide, "fa": _Wide()}
    try:
        want = eval(code, wide)
    except (RuntimeError, TypeError):  # a constant of float32 in the code
        want = eval(code, names)
    got = np.array(result.detach().to(want.dtype).tolist())
    np.testing.assert_allclose(got, np.array(want.tolist()), rtol=0.05, atol=0.05)


class _Wide:
    """facula, its constants in float64."""

    def __getattr__(self, name: str) -> object:
        made = getattr(fa, name)
        if name in ("ones", "zeros", "empty"):
            return lambda *size, dtype=fa.float64: made(*size, dtype=dtype)
        return made


def test_float16_and_nesting() -> None:
    x = fa.ones(2, 2)
    assert not fa.is_autocast_enabled() and fa.get_autocast_dtype("cpu") == fa.bfloat16
    with fa.autocast("cpu", dtype=fa.float16):
        assert fa.is_autocast_enabled("cpu") and fa.get_autocast_dtype("cpu") == fa.float16
        assert (x @ x).dtype == fa.float16
        with fa.autocast("cpu", enabled=False):
            assert not fa.is_autocast_enabled("cpu") and (x @ x).dtype == fa.float32
            with fa.autocast("cpu"):  # the dtype in force stays
                assert (x @ x).dtype == fa.float16
            with fa.autocast("cpu", dtype=fa.bfloat16):
                assert (x @ x).dtype == fa.bfloat16
        assert (x @ x).dtype == fa.float16
    assert (x @ x).dtype == fa.float32 and fa.get_autocast_dtype("cpu") == fa.bfloat16


def test_an_exception_ends_it() -> None:
    with pytest.raises(ZeroDivisionError), fa.autocast("cpu"):
        _ = 1 / 0
    assert not fa.is_autocast_enabled()


def test_decorator() -> None:
    @fa.autocast("cpu")
    def product(n: int) -> list[object]:
        dtype = (fa.ones(2, 2) @ fa.ones(2, 2)).dtype
        return [dtype, *(product(n - 1) if n else [])]

    assert product(2) == [fa.bfloat16] * 3 and not fa.is_autocast_enabled()

    @fa.autocast("cpu")
    def several() -> object:
        yield fa.is_autocast_enabled()

    made = several()
    assert next(made) and not fa.is_autocast_enabled()


def test_one_object_may_be_entered_again() -> None:
    cast = fa.autocast("cpu")
    with cast, cast:
        assert fa.is_autocast_enabled()
    assert not fa.is_autocast_enabled()


def test_other_threads_are_left_alone() -> None:
    seen = []
    with fa.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((fa.ones(2, 2) @ fa.ones(2, 2)).dtype))
        thread.start()
        thread.join()
    assert seen == [fa.float32]


def test_in_place_and_out_run_in_their_own_dtype() -> None:
    x = fa.full((2, 2), 1 + 2**-10)
    want = (x @ x).tolist()
    with fa.autocast("cpu"):
        out = fa.empty(2, 2)
        assert fa.matmul(x, x, out=out) is out and out.tolist() == want
        y = fa.zeros(2, 2).addmm_(x, x)
    assert y.tolist() == want


def test_gradients_have_the_dtype_of_the_parameter() -> None:
    fa.manual_seed(0)
    x, w = fa.rand(5, 3), fa.rand(2, 3, requires_grad=True)
    with fa.autocast("cpu"):
        y = F.linear(x, w)
        loss = F.mse_loss(y, fa.zeros(5, 2))
    assert y.dtype == fa.bfloat16 and loss.dtype == fa.float32
    loss.backward()
    assert w.grad.dtype == fa.float32
    want = 2 * (x @ w.detach().t()).t() @ x / 10
    np.testing.assert_allclose(w.grad.tolist(), want.tolist(), rtol=0.02)


def test_backward_within_the_block_has_the_dtypes_of_the_forward() -> None:
    x, w = fa.ones(3, 3), fa.ones(3, 3, requires_grad=True)
    with fa.autocast("cpu"):
        z = w.exp() * 2  # float32: products of its backward must stay so
        (z @ x).sum().backward()
    assert w.grad.dtype == fa.float32


def casts(result: object) -> int:
    """Nodes above the leaves, each once: casts that are shared are one."""
    seen, stack, count = set(), [result.grad_fn], 0
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        count += "Copy" in node.name() or node.name().startswith("To")
        stack += [n for n, _ in node.next_functions]
    return count


def test_parameters_are_cast_once() -> None:
    w, x = fa.ones(3, 3, requires_grad=True), fa.ones(3, 3)
    with fa.autocast("cpu"):
        inner = x @ w
        with fa.autocast("cpu"):
            both = inner.sum() + (x @ w).sum()
        with fa.autocast("cpu", cache_enabled=False):
            more = both + (x @ w).sum()
    assert casts(both) == 1 and casts(more) == 2
    both.backward()
    assert w.grad.tolist() == [[6.0] * 3] * 3
    with fa.autocast("cpu"):
        assert casts((x @ w).sum()) == 1


def test_the_cache_knows_of_changes() -> None:
    w, x = fa.ones(2, 2, requires_grad=True), fa.ones(2, 2)
    with fa.autocast("cpu"):
        assert (x @ w).sum().item() == 8
        with fa.no_grad():
            w.mul_(2)
        assert (x @ w).sum().item() == 16
        w.data = fa.zeros(2, 2)
        assert (x @ w).sum().item() == 0
        with fa.no_grad():
            quiet = x @ w
        assert not quiet.requires_grad
        with fa.autocast("cpu", dtype=fa.float16):
            assert (x @ w).dtype == fa.float16
        assert (x @ w).requires_grad


def test_a_cast_made_without_gradients_is_not_kept_for_later() -> None:
    w, x = fa.ones(2, 2, requires_grad=True), fa.ones(2, 2)
    with fa.autocast("cpu"):
        with fa.no_grad():
            x @ w
        with fa.inference_mode():
            x @ w
        (x @ w).sum().backward()
    assert w.grad.tolist() == [[2.0, 2.0]] * 2


def test_several_backwards_in_one_block() -> None:
    w, x = fa.ones(2, 2, requires_grad=True), fa.ones(2, 2)
    with fa.autocast("cpu"):
        for k in range(1, 4):
            (x @ w).sum().backward()
            assert w.grad.tolist() == [[2.0 * k] * 2] * 2


def test_the_cache_ends_with_the_block() -> None:
    import weakref

    w = fa.ones(2, 2, requires_grad=True)
    gone = weakref.ref(w)
    with fa.autocast("cpu"):
        fa.ones(2, 2) @ w
        del w
        assert gone() is not None
        fa.clear_autocast_cache()
        assert gone() is None


def test_forward_mode() -> None:
    from facula.autograd import forward_ad

    w = fa.ones(2, 2, requires_grad=True)
    with fa.autocast("cpu"):
        fa.ones(2, 2) @ w
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(w, fa.full((2, 2), 3.0))
            made = forward_ad.unpack_dual(F.linear(fa.ones(2, 2), dual))
    assert made.tangent.tolist() == [[6.0, 6.0]] * 2
    assert made.primal.dtype == made.tangent.dtype == fa.bfloat16


def test_functions_of_ones_own() -> None:
    class Square(fa.autograd.Function):
        @staticmethod
        @fa.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @fa.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            seen.append((x @ x).dtype)
            return grad.float() @ x.t() + x.t() @ grad.float()

    class Wide(fa.autograd.Function):
        @staticmethod
        @fa.amp.custom_fwd(device_type="cpu", cast_inputs=fa.float32)
        def forward(ctx, x):
            assert not fa.is_autocast_enabled("cpu")
            return x @ x

    seen = []
    x = fa.ones(2, 2, requires_grad=True)
    with fa.autocast("cpu"):
        y = Square.apply(x)
        assert y.dtype == fa.bfloat16 and Wide.apply(x.bfloat16()).dtype == fa.float32
    y.sum().backward()
    y = Square.apply(x)
    y.sum().backward()
    assert seen == [fa.bfloat16, fa.float32] and not fa.is_autocast_enabled()


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="`device_type` of type `str`"):
        fa.autocast(fa.device("cpu"))
    with pytest.raises(RuntimeError, match="'nowhere' is not a device"):
        fa.autocast("nowhere")
    with pytest.raises(RuntimeError, match="'nowhere' is not a device"):
        fa.autocast("nowhere", dtype=fa.bfloat16, enabled=False)
    with pytest.raises(RuntimeError, match="'cpu', without an index"):
        fa.autocast("cpu:0")
    with pytest.raises(RuntimeError, match="'meta' has no autocast"):
        fa.autocast("meta")
    with pytest.raises(TypeError, match="dtype must be a facula dtype"):
        fa.autocast("cpu", dtype="bfloat16")
    assert fa.amp.is_autocast_available("cpu") and not fa.amp.is_autocast_available("nowhere")
    with pytest.warns(UserWarning, match="autocast is disabled"):
        cast = fa.autocast("cpu", dtype=fa.float32)
    with cast:
        assert not fa.is_autocast_enabled("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fa.autocast("cpu", dtype=fa.float32, enabled=False)


def test_the_functions_below() -> None:
    fa.set_autocast_dtype("cpu", fa.float16)
    fa.set_autocast_enabled("cpu", True)
    try:
        assert (fa.ones(2, 2) @ fa.ones(2, 2)).dtype == fa.float16
        assert fa.autocast_increment_nesting() == 1 and fa.autocast_decrement_nesting() == 0
        assert fa.is_autocast_cache_enabled()
    finally:
        fa.set_autocast_enabled("cpu", False)
        fa.set_autocast_dtype("cpu", fa.bfloat16)
    assert (fa.ones(2, 2) @ fa.ones(2, 2)).dtype == fa.float32


def test_a_thread_may_end_within_the_block() -> None:
    w = fa.ones(2, 2, requires_grad=True)

    def work() -> None:
        fa.autocast("cpu").__enter__()
        (fa.ones(2, 2) @ w).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert w.grad.tolist() == [[8.0, 8.0]] * 2 and not fa.is_autocast_enabled()


@pytest.mark.parametrize("layer", ["batch_norm", "layer_norm", "group_norm", "instance_norm"])
def test_norms_between_convolutions(layer: str) -> None:
    """Weights in float32 beside inputs in the lower dtype, with gradients."""
    fa.manual_seed(0)
    norm = {
        "batch_norm": fa.nn.BatchNorm2d(3), "layer_norm": fa.nn.LayerNorm([3, 4, 4]),
        "group_norm": fa.nn.GroupNorm(3, 3), "instance_norm": fa.nn.InstanceNorm2d(3, affine=True),
    }[layer]  # fmt: skip
    net = fa.nn.Sequential(fa.nn.Conv2d(2, 3, 3), norm, fa.nn.ReLU(), fa.nn.Conv2d(3, 1, 3))
    x = fa.rand(2, 2, 6, 6)

    def gradients(cast: bool) -> list[object]:
        net.zero_grad()
        with fa.autocast("cpu", enabled=cast):
            out = net(x)
        (out.float() ** 2).mean().backward()
        assert out.dtype == (fa.bfloat16 if cast else fa.float32)
        return [p.grad.clone() for p in net.parameters()]

    for got, want in zip(gradients(True), gradients(False), strict=True):
        assert got.dtype == fa.float32
        np.testing.assert_allclose(got.tolist(), want.tolist(), rtol=0.1, atol=0.02)


def test_exit_without_enter():
    with pytest.raises(RuntimeError, match="without an __enter__"):
        fa.autocast("cpu").__exit__(None, None, None)
