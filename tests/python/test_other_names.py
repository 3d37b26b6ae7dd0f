"""Names that programs of torch use beside operators: settings, types, streams, hashes, vendors'."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
from facula.testing import FileCheck


def test_settings_are_kept():
    before = fa.get_float32_matmul_precision()
    fa.set_float32_matmul_precision("high")
    assert fa.get_float32_matmul_precision() == "high"
    fa.set_float32_matmul_precision(before)
    with pytest.raises(ValueError, match="none of"):
        fa.set_float32_matmul_precision("low")
    fa.set_deterministic_debug_mode("warn")
    assert fa.are_deterministic_algorithms_enabled()
    assert fa.is_deterministic_algorithms_warn_only_enabled()
    fa.set_deterministic_debug_mode(0)
    assert fa.get_deterministic_debug_mode() == 0
    with pytest.raises(RuntimeError, match="no namespace"):
        fa.get_device_module("meta")


def test_autocast_by_device():
    before = fa.get_autocast_cpu_dtype()
    fa.set_autocast_cpu_dtype(fa.float16)
    fa.set_autocast_cpu_enabled(True)
    try:
        assert (fa.ones(2, 2) @ fa.ones(2, 2)).dtype == fa.float16
        assert fa.is_autocast_cpu_enabled()
    finally:
        fa.set_autocast_cpu_enabled(False)
        fa.set_autocast_cpu_dtype(before)
    assert not fa.is_autocast_xla_enabled()
    with pytest.raises(RuntimeError, match="'xla'"):
        fa.set_autocast_xla_enabled(True)


def test_types_of_tensors_and_of_memory():
    assert fa.FloatTensor(2, 3).shape == (2, 3) and isinstance(fa.ones(1), fa.FloatTensor)
    assert not isinstance(fa.ones(1), fa.DoubleTensor)
    memory = fa.IntStorage([1, 2, 3])
    assert isinstance(memory, fa.IntStorage) and memory.tolist() == [1, 2, 3]
    assert isinstance(fa.ones(2).storage(), fa.FloatStorage)
    assert fa.ones(2).storage_type() is fa.FloatStorage
    assert len(fa.DoubleStorage(4)) == 4 and len(fa.BoolStorage()) == 0
    half = fa.HalfStorage.from_buffer(np.array([1, 2], dtype=np.float16).tobytes())
    assert half.tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="a size or a sequence"):
        fa.IntStorage(1, 2)


def test_dtypes_that_can_be_named():
    assert fa.finfo(fa.float8_e5m2fnuz).max == 57344.0
    assert fa.chalf is fa.complex32 and fa.bit is fa.uint1
    with pytest.raises(TypeError, match="AbsentDtype"):
        fa.zeros(2, dtype=fa.qint8)
    with pytest.raises(TypeError, match="cfloat"):
        fa.ones(2).chalf()


def test_streams_of_the_cpu():
    stream = fa.Stream("cpu")
    start = fa.Event("cpu", enable_timing=True)
    with stream:
        start.record(stream)
        fa.ones(3).sum()
        end = stream.record_event(fa.Event("cpu", enable_timing=True))
    stream.wait_event(end)
    stream.wait_stream(fa.Stream("cpu"))
    stream.synchronize()
    assert stream.query() and end.query() and start.elapsed_time(end) >= 0
    assert isinstance(stream, fa.Stream) and not isinstance(end, fa.Stream)
    with pytest.raises(ValueError, match="enable_timing"):
        fa.Event("cpu").elapsed_time(end)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool", "int64"])
@pytest.mark.parametrize("dim", [(), (0,), (1,), (0, 1), (-1,)])
def test_hashes_of_tensors(dtype, dim):
    values = np.random.default_rng(1).integers(-90, 90, (5, 7)).astype(dtype)
    wide = values.astype(np.float64 if dtype.startswith("float") else np.int64).view(np.uint64)
    want = np.bitwise_xor.reduce(wide, axis=dim or (0, 1))
    got = fa.hash_tensor(fa.from_numpy(values), dim)
    assert got.dtype == fa.uint64
    np.testing.assert_array_equal(got.numpy(), want)
    kept = fa.from_numpy(values).hash_tensor(dim, keepdim=True)
    assert kept.dim() == 2


def test_hashes_of_nothing():
    with pytest.raises(RuntimeError, match="no elements"):
        fa.hash_tensor(fa.empty(0))
    assert fa.hash_tensor(fa.empty(0, 2), 0).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="mode 1"):
        fa.hash_tensor(fa.ones(1), mode=1)


def test_choices():
    def plus(x, y):
        return x + y

    def minus(x, y):
        return x - y

    x = fa.tensor(2.0, requires_grad=True)
    fa.cond(x > 1, plus, minus, (x, 3 * x)).backward()
    assert x.grad.item() == 4
    assert fa.cond(False, plus, minus, (1, 2)) == -1
    with pytest.raises(RuntimeError, match="one element"):
        fa.cond(fa.ones(2), plus, minus, (x, x))
    with pytest.raises(RuntimeError, match="tuple or a list"):
        fa.cond(True, plus, minus, x)


# ---- batch normalisation in parts: the whole batch's statistics in NumPy are the oracle


def _batch():
    return np.random.default_rng(3).normal(1.5, 2.0, (12, 3, 4)).astype(np.float64)


def test_statistics_of_parts_are_those_of_the_whole():
    x = _batch()
    parts = [fa.from_numpy(x[:5]), fa.from_numpy(x[5:])]
    eps, momentum = 1e-5, 0.1
    found = [fa.batch_norm_stats(p, eps) for p in parts]
    running_mean, running_var = fa.zeros(3, dtype=fa.float64), fa.ones(3, dtype=fa.float64)
    mean, invstd = fa.batch_norm_gather_stats_with_counts(
        parts[0],
        fa.stack([m for m, _ in found]),
        fa.stack([s for _, s in found]),
        running_mean,
        running_var,
        momentum,
        eps,
        fa.tensor([20, 28]),
    )
    want_mean, want_var = x.mean((0, 2)), x.var((0, 2))
    np.testing.assert_allclose(mean.numpy(), want_mean)
    np.testing.assert_allclose(invstd.numpy(), 1 / np.sqrt(want_var + eps))
    np.testing.assert_allclose(running_mean.numpy(), momentum * want_mean)
    np.testing.assert_allclose(running_var.numpy(), 0.9 + momentum * x.var((0, 2), ddof=1))
    out = fa.batch_norm_elemt(parts[1], fa.full((3,), 2.0), None, mean, invstd, eps)
    scaled = 2 * (x - want_mean[:, None]) / np.sqrt(want_var + eps)[:, None]
    np.testing.assert_allclose(out.numpy(), scaled[5:], atol=1e-12)
    moments = fa.batch_norm_update_stats(fa.from_numpy(x), None, None, momentum)
    np.testing.assert_allclose(moments[1].numpy(), want_var)


def test_gradients_of_parts_are_those_of_the_whole():
    x = _batch()
    grad = np.random.default_rng(4).normal(size=x.shape)
    weight = np.array([0.5, 1.0, 2.0])
    eps = 1e-5
    whole = fa.from_numpy(x).requires_grad_()
    w = fa.from_numpy(weight).requires_grad_()
    mean, var = whole.mean((0, 2)), whole.var((0, 2), unbiased=False)
    normal = (whole - mean.view(1, -1, 1)) / (var + eps).sqrt().view(1, -1, 1)
    (normal * w.view(1, -1, 1)).backward(fa.from_numpy(grad))
    mean, invstd = mean.detach(), (var + eps).rsqrt().detach()
    sums = [fa.zeros(3, dtype=fa.float64) for _ in range(4)]
    parts = [(fa.from_numpy(x[a:b]), fa.from_numpy(grad[a:b])) for a, b in ((0, 5), (5, 12))]
    for part, g in parts:
        for total, found in zip(
            sums,
            fa.batch_norm_backward_reduce(g, part, mean, invstd, w, True, True, True),
            strict=True,
        ):
            total += found.detach()
    got = [
        fa.batch_norm_backward_elemt(
            g, part, mean, invstd, w.detach(), sums[0], sums[1], fa.tensor([20, 28])
        )
        for part, g in parts
    ]
    np.testing.assert_allclose(fa.cat(got).numpy(), whole.grad.numpy(), atol=1e-12)
    np.testing.assert_allclose(sums[2].numpy(), w.grad.numpy())
    np.testing.assert_allclose(sums[3].numpy(), grad.sum((0, 2)))


def test_what_backward_of_bags_is_told():
    weight = fa.tensor([[1.0, 2.0], [3.0, 4.0]])
    index, offsets = fa.tensor([0, 1, 1]), fa.tensor([0, 2])
    out, bags, sizes, rows = fa.embedding_bag(weight, index, offsets, False, 2)
    assert out.tolist() == [[3.0, 4.0], [3.0, 4.0]]
    assert (bags.tolist(), sizes.tolist()) == ([0, 0, 1], [2, 1])
    assert rows.tolist() == [[1, 1], [1, 1]]
    out, bags, sizes, _ = fa.embedding_bag(
        weight, index, offsets, False, 1, False, None, False, padding_idx=1
    )
    assert out.tolist() == [[1.0, 2.0], [0.0, 0.0]] and sizes.tolist() == [1, 0]
    assert fa.embedding_bag(weight, index, offsets)[0].tolist() == [[4.0, 6.0], [3.0, 4.0]]


def test_older_products_of_sparse_matrices():
    a = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0]])
    b = np.arange(6.0).reshape(3, 2)
    sparse, dense = fa.from_numpy(a).to_sparse(), fa.from_numpy(b)
    rows = fa.hspmm(sparse, dense)
    assert (rows.sparse_dim(), rows.dense_dim(), rows._nnz()) == (1, 1, 2)
    np.testing.assert_allclose(rows.to_dense().numpy(), a @ b)
    np.testing.assert_allclose(fa.smm(sparse, dense).to_dense().numpy(), a @ b)
    more = fa.sspaddmm(fa.from_numpy(b).to_sparse(), sparse, dense, beta=2, alpha=3)
    np.testing.assert_allclose(more.to_dense().numpy(), 2 * b + 3 * (a @ b))
    assert fa.native_norm(sparse).item() == pytest.approx(np.linalg.norm(a))
    copy = fa.values_copy(sparse.coalesce())
    copy.zero_()
    assert sparse.coalesce().values().abs().sum() > 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: fa.cudnn_convolution(x, x, [0], [1], [1], 1, False, False, False), "cuDNN"),
        (lambda x: fa.miopen_rnn(x), "MIOpen"),
        (lambda x: fa.int_repr(x), "quantized"),
        (lambda x: x.symeig(), "linalg.eigh"),
        (lambda x: x.to_padded_tensor(0.0), "nested"),
        (lambda x: x.reinforce(1), "distributions"),
    ],
)
def test_what_is_not_there_says_so(call, said):
    with pytest.raises(RuntimeError, match=said):
        call(fa.ones(1, 1, 1))
    assert not fa.cudnn_is_acceptable(fa.ones(1))


def test_a_machine_without_a_gpu():
    if fa.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match="there is no device"):
        fa.cuda.Stream()
    assert fa.cuda.host_memory_stats() == {} and not isinstance(1, fa.cuda.Event)
    with pytest.raises(fa.cuda.CudaError, match="34"):
        fa.cuda.check_error(34)
    fa.cuda.manual_seed_all(1)


def test_parts_of_texts():
    text = "first add\nthen mul and mul\nlast sub"
    FileCheck().check("add").check_next("mul").check_same("mul").check_not("div").run(text)
    FileCheck().check_count("mul", 2, exactly=True).check("sub").run(text)
    FileCheck().check_dag("mul").check_dag("add").check("sub").run(text)
    FileCheck().check_regex(r"t\w+n m").run(text)
    for wrong in (
        FileCheck().check("sub").check("add"),
        FileCheck().check("add").check_not("mul").check("sub"),
        FileCheck().check("add").check_next("sub"),
        FileCheck().check("add").check_same("mul"),
        FileCheck().check_count("mul", 3),
        FileCheck(),
    ):
        with pytest.raises(RuntimeError, match="FileCheck"):
            wrong.run(text)
