"""Values at places that samples do not reach: programs wrong there alone passed all other tests."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
import scipy.special
from test_decompositions import without_kernel

F = fa.nn.functional
NAN, INF = float("nan"), float("inf")


def test_gradient_of_a_scatter_of_one_element() -> None:
    x, src = fa.zeros(3), fa.tensor([[2.0, 3.0]], requires_grad=True)
    index = fa.tensor([[1]])
    for add in (fa.scatter_add, fa.scatter):
        got = add(x[None], 1, index, src) * fa.tensor([1.0, 5.0, 7.0])
        (slope,) = fa.autograd.grad(got.sum(), src)
        assert slope.tolist() == [[5, 0]]


def test_nonzero_of_a_number_as_a_tuple() -> None:
    assert [t.tolist() for t in fa.tensor(3.0).nonzero(as_tuple=True)] == [[0]]
    assert [t.tolist() for t in fa.tensor(0.0).nonzero(as_tuple=True)] == [[]]


def test_tensordot_of_sizes_that_differ() -> None:
    a, b = fa.ones(2, 3), fa.ones(4, 5)
    for first, second in ((a, b), (b, a)):
        with pytest.raises(RuntimeError, match="contracted dims"):
            fa.tensordot(first, second, ([1], [0]) if first is a else ([0], [1]))
    one = fa.tensordot(fa.ones(2, 1), fa.arange(4.0)[:, None], ([1], [0]))
    assert one.tolist() == [[6.0], [6.0]]  # a dim of one element is that of the other


def test_joins_of_dtypes() -> None:
    parts = [np.arange(3, dtype=d) for d in (np.float32, np.int64, np.float64)]
    np.testing.assert_array_equal(fa.cat([fa.tensor(p) for p in parts]), np.concatenate(parts))
    out = fa.empty(6, dtype=fa.float64)
    fa.cat([fa.tensor(p) for p in parts[:2]], out=out)
    np.testing.assert_array_equal(out, np.concatenate(parts[:2]))


def test_a_sequence_for_each_row_has_its_leading_dims() -> None:
    with pytest.raises(RuntimeError, match="but the last"):
        fa.searchsorted(fa.zeros(2, 3, 4), fa.zeros(2, 5, 4))
    with pytest.raises(RuntimeError, match="but the last"):
        fa.searchsorted(fa.zeros(3, 4), fa.zeros(5, 3, 4))


@pytest.mark.parametrize("value", [-1.0, 0.2, 0.5, 0.7, 0.71, 1.0, 1.5, 3.0])
def test_a_number_among_floats(value: float) -> None:
    edges = np.array([0.2, 0.7, 1.0, 1.4, 2.5])
    for right in (False, True):
        want = np.searchsorted(edges, value, "right" if right else "left")
        assert fa.searchsorted(fa.tensor(edges), value, right=right).item() == want


def test_pixels_of_other_numbers_of_channels() -> None:
    for channels in (2, 3, 6):
        with pytest.raises(RuntimeError, match=r"expected \(\*, C \* 2 \* 2, H, W\)"):
            F.pixel_shuffle(fa.zeros(1, channels, 2, 2), 2)


@pytest.mark.parametrize("kernel", [True, False])
def test_the_first_row_of_a_table_as_padding(kernel: bool) -> None:
    weight = fa.ones(3, 2, requires_grad=True)
    out = F.embedding(fa.tensor([0, 2, 0]), weight, padding_idx=0)
    if kernel:
        (slope,) = fa.autograd.grad(out.sum(), weight)
    else:
        with without_kernel("embedding_backward"):
            (slope,) = fa.autograd.grad(out.sum(), weight)
    assert slope.tolist() == [[0, 0], [0, 0], [1, 1]]


def test_the_slope_of_a_certain_mistake() -> None:
    x = fa.tensor([0.0, 1.0], dtype=fa.float64, requires_grad=True)
    F.binary_cross_entropy(x, fa.tensor([1.0, 0.0], dtype=fa.float64), reduction="sum").backward()
    np.testing.assert_allclose(x.grad, [-1e12, 1e12], rtol=1e-12)


def test_cosine_of_numbers() -> None:
    number, row = fa.tensor(-2.0), fa.tensor([1.0, 3.0])
    assert fa.cosine_similarity(number, number, 0).shape == ()
    assert fa.cosine_similarity(number, number, 0).item() == 1
    got = fa.cosine_similarity(number, row, 0)
    assert got.shape == () and abs(got.item() + 4 / np.sqrt(2 * 10)) < 1e-6


def test_products_sampled_at_other_rows() -> None:
    crow, col = fa.tensor([0, 1, 2]), fa.tensor([0, 1])
    with pytest.raises(RuntimeError, match="left"):
        fa._C._ops._csr_sampled(crow, col, fa.ones(3, 4), fa.ones(2, 4))
    with pytest.raises(RuntimeError, match="left"):
        fa._C._ops._csr_sampled(crow, col, fa.ones(2, 3), fa.ones(2, 4))


def test_a_tolerance_of_zero_is_none_given() -> None:
    rng = np.random.default_rng(0)
    low = rng.normal(size=(6, 3)) @ rng.normal(size=(3, 6))
    x = fa.tensor(low)
    assert fa.linalg.matrix_rank(x, atol=0.0).item() == np.linalg.matrix_rank(low) == 3
    assert fa.linalg.matrix_rank(x, atol=fa.tensor(0.0, dtype=fa.float64)).item() == 3


def test_frames_of_one_element() -> None:
    got = fa.stft(
        fa.tensor([2.0]), 4, 2, window=fa.ones(4), pad_mode="replicate", return_complex=True
    )
    np.testing.assert_allclose(got[:, 0].real, np.fft.rfft(np.full(4, 2.0)).real, atol=1e-6)


@pytest.mark.parametrize("kernel", [True, False])
def test_flips_of_few_dims(kernel: bool) -> None:
    def flips() -> list[object]:
        row = fa.arange(3).flip(0).tolist()
        return [row, fa.tensor(5).flip([]).tolist(), fa.arange(4).view(2, 2).flip(1).tolist()]

    want = [[2, 1, 0], 5, [[1, 0], [3, 2]]]
    if kernel:
        assert flips() == want
        return
    with without_kernel("flip"):
        assert flips() == want


def test_quantiles_beside_nan() -> None:
    x = fa.tensor([1.0, NAN, 3.0])
    assert fa.quantile(x, 0.5).isnan() and fa.quantile(x, fa.tensor([0.5])).isnan().all()
    assert fa.nanquantile(x, 0.5).item() == 2 == fa.nanquantile(x, fa.tensor([0.5])).item()


@pytest.mark.parametrize("step", [1, 2])
def test_transforms_of_strided_numbers_out_of_range(step: int) -> None:
    """What is brought into the range is looked for in each element, and in no others."""
    wide = np.ones((5, 8 * step))
    wide[:, ::step][2, 3] = 1e308
    wide[:, ::step][4, 7] = -1.5e308
    for view in (np.s_[:, ::step], np.s_[::2, ::step]):
        got = fa.fft.fft(fa.tensor(wide)[view]).numpy()
        want = np.fft.fft(wide[view] / 2.0**20) * 2.0**20
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e294)
    single = fa.ones(4, 6, dtype=fa.float32)[:, ::2].clone()
    single[3, 2] = 3e38
    found = fa.fft.fft(fa.stack([single, single], 2)[:, :, 1]).numpy()
    np.testing.assert_allclose(found, np.fft.fft(single.double().numpy()), rtol=1e-5, atol=1e32)


def test_the_gamma_density_at_its_ends() -> None:
    """The slope of P(a, x) by x is x^(a - 1) e^-x / gamma(a)."""
    for a, x in ((1.0, 0.0), (2.0, 0.0), (0.5, 0.0), (0.0, 1.0), (3.0, INF), (2.0, 1.5)):
        at = fa.tensor(x, dtype=fa.float64, requires_grad=True)
        for function, sign in ((fa.special.gammainc, 1), (fa.special.gammaincc, -1)):
            (got,) = fa.autograd.grad(function(fa.tensor(a, dtype=fa.float64), at), at)
            if x == INF or a == 0:
                want = 0.0
            elif x == 0:
                want = {1.0: 1.0, 2.0: 0.0, 0.5: INF}[a]
            else:
                want = np.exp(scipy.special.xlogy(a - 1, x) - x - scipy.special.gammaln(a))
            np.testing.assert_allclose(got.item(), sign * want, rtol=1e-13)
    for function in (fa.special.gammainc, fa.special.gammaincc):
        shape = fa.tensor([3.0], requires_grad=True)
        (got,) = fa.autograd.grad(function(shape, fa.tensor([INF])).sum(), shape)
        assert got.item() == 0


def test_transforms_of_strided_complex_numbers_out_of_range() -> None:
    wide = np.ones((3, 16), complex)
    wide[:, ::2][1, 5] = 1e308j
    got = fa.fft.fft(fa.tensor(wide)[:, ::2]).numpy()
    want = np.fft.fft(wide[:, ::2] / 2.0**20) * 2.0**20
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e294)


def test_second_slopes_of_the_gamma_distribution() -> None:
    for x, want in ((INF, 0.0), (1.5, (2 / 1.5 - 1) * np.exp(2 * np.log(1.5) - 1.5) / 2)):
        at = fa.tensor(x, dtype=fa.float64, requires_grad=True)
        p = fa.special.gammainc(fa.tensor(3.0, dtype=fa.float64), at)
        (slope,) = fa.autograd.grad(p, at, create_graph=True)
        (second,) = fa.autograd.grad(slope, at)
        np.testing.assert_allclose(second.item(), want, rtol=1e-12)


@pytest.mark.parametrize(("name", "least"), [("hsplit", 1), ("vsplit", 2), ("dsplit", 3)])
def test_pieces_along_a_given_dim(name: str, least: int) -> None:
    split = getattr(fa, name)
    x = fa.arange(64.0).reshape(4, 4, 4)
    (whole,) = split(x, 1)
    assert whole.tolist() == x.tolist()
    for wrong in (0, -2, 3):
        with pytest.raises(RuntimeError, match="equal pieces"):
            split(x, wrong)
    few = fa.ones([4] * (least - 1))
    for given in (2, [1, 2]):
        with pytest.raises(RuntimeError, match=f"at least {least} dim"):
            split(few, given)
        assert len(split(fa.ones([4] * least), given)) == (2 if given == 2 else 3)


def test_what_numbers_without_dims_refuse() -> None:
    number = fa.tensor(1.0)
    with pytest.raises(RuntimeError, match="0-d tensor cannot be narrowed"):
        number.narrow(0, 0, 1)
    with pytest.raises(RuntimeError, match="0-d tensor cannot be split"):
        number.tensor_split([1])
    with pytest.raises(RuntimeError, match="shifts must not be empty"):
        fa.ones(3).roll([])
    for x, dims in ((fa.ones(3), [0, 1]), (fa.ones(2, 2, 2), [0, 1, 2]), (fa.ones(2, 2), [0])):
        with pytest.raises(RuntimeError, match="two dims"):
            fa.rot90(x, 1, dims)
    with pytest.raises(RuntimeError, match="exceeds"):
        number.scatter(0, fa.tensor([0, 0]), fa.tensor(5.0))


def test_types_of_indices() -> None:
    x = fa.arange(6.0).reshape(2, 3)
    at = fa.tensor([[2, 0]], dtype=fa.int32)
    assert x.take_along_dim(at, 1).tolist() == [[2, 0], [5, 3]]
    with pytest.raises(IndexError, match="int64 or int32"):
        x.take_along_dim(at.to(fa.int8), 1)
    for kind in (fa.int8, fa.uint8, fa.int16):
        with pytest.raises(IndexError, match="int64 or int32"):
            x.index_select(0, fa.tensor([1], dtype=kind))
        assert x.index_select(0, fa.tensor([], dtype=kind)).shape == (0, 3)


def test_slope_of_leaky_relu_at_zero() -> None:
    x = fa.tensor([0.0, -0.0, 1.0, -1.0], requires_grad=True)
    F.leaky_relu(x, 0.25).sum().backward()
    assert x.grad.tolist() == [0.25, 0.25, 1, 0.25]


def test_a_range_with_a_far_beginning() -> None:
    fa.manual_seed(0)
    with without_kernel("random_.from_"):
        drawn = fa.empty(1000, dtype=fa.int64).random_(-(2**62), 5)
    assert drawn.min() >= -(2**62) and drawn.max() < 5 and len(set(drawn.tolist())) > 990


@pytest.mark.parametrize("keepdim", [False, True])
def test_tangents_of_what_a_reduction_found(keepdim: bool) -> None:
    x, t = fa.tensor([1.0, 4.0, 2.0]), fa.tensor([10.0, 20.0, 30.0])
    for name, args, place in (("max", (0,), 1), ("min", (0,), 0), ("kthvalue", (2, 0), 2)):

        def found(x: fa.Tensor, name: str = name, args: tuple[int, ...] = args) -> fa.Tensor:
            return getattr(x, name)(*args, keepdim=keepdim)[0]

        _, tangent = fa.func.jvp(found, (x,), (t,))
        assert tangent.tolist() == ([t[place].item()] if keepdim else t[place].item())


def test_a_layer_with_one_output_and_no_dim_for_it() -> None:
    x = fa.randn(2, 3, 4, dtype=fa.float64, requires_grad=True)
    weight = fa.randn(4, dtype=fa.float64)
    scale = fa.randn(2, 3, dtype=fa.float64)
    (F.linear(x, weight) * scale).sum().backward()
    np.testing.assert_allclose(x.grad, scale.numpy()[..., None] * weight.numpy())


def test_a_given_variance_and_numbers_far_apart() -> None:
    x = fa.tensor([[2e38], [-1e38]])
    got = F.batch_norm(x, fa.tensor([-2e38]), fa.tensor([1.0]), eps=3.0)
    np.testing.assert_allclose(got, [[2e38], [0.5e38]], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "int32"])
def test_sums_of_short_rows_of_a_wider_matrix(dtype: str) -> None:
    wide = np.arange(40 * 16).reshape(40, 16) % 7 - 3
    x = fa.tensor(wide).to(getattr(fa, dtype))
    for n in (1, 2, 3, 5, 7, 11, 15):
        assert x[:, :n].sum(1).tolist() == wide[:, :n].sum(1).tolist()
        assert x[:, 1 : n + 1].amax(1).tolist() == wide[:, 1 : n + 1].max(1).tolist()


def test_a_tensor_resized_to_its_own_size() -> None:
    x = fa.arange(6).view(2, 3).t()
    assert x.resize_(3, 2).tolist() == [[0, 3], [1, 4], [2, 5]]
    x = fa.arange(16.0).view(1, 2, 2, 4).to(memory_format=fa.channels_last)
    assert x.resize_(1, 2, 2, 4).stride() == (16, 1, 8, 2)
    same = x.resize_(1, 2, 2, 4, memory_format=fa.contiguous_format)
    assert same.stride() == (16, 8, 4, 1)


def test_a_label_of_one_element_in_one_operand() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.array([[2.0], [3.0]])
    for equation in ("ij,ij->i", "ij,ij->ij", "ij,ij->j", "ij,ij->"):
        for x, y in ((a, b), (b, a)):
            got = fa.einsum(equation, fa.tensor(x), fa.tensor(y))
            np.testing.assert_array_equal(got, np.einsum(equation, *np.broadcast_arrays(x, y)))


def test_an_index_that_is_one_too_large() -> None:
    x = fa.arange(3)
    for wrong in (3, -4):
        with pytest.raises(IndexError, match=f"index {wrong} is out of range for dimension 0"):
            x[wrong]
        with pytest.raises(IndexError, match=f"start {2 * wrong} is out of range"):
            x.narrow(0, 2 * wrong, 0)


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_slices_from_the_end(size: int) -> None:
    x = np.arange(size)
    for step in (-1, -2, -3, -8):
        for start in (None, 0, 1, 5, 6, 9, -1, -9):
            for stop in (None, 0, 1, 5, -2, -9):
                where = slice(start, stop, step)
                assert fa.tensor(x)[where].tolist() == x[where].tolist(), where


def test_a_window_beyond_the_input() -> None:
    x = fa.tensor([[[0.0, 3.0, 1.0]]])
    for pool in (F.max_pool1d, F.avg_pool1d):
        with pytest.raises(RuntimeError, match="too small"):
            pool(x, 4, 2)
        with pytest.raises(RuntimeError, match="too small"):
            pool(x, 4, 1, ceil_mode=True)
    # One window begins inside: ceil((3 - 4) / 2) + 1.
    assert F.max_pool1d(x, 4, 2, ceil_mode=True).tolist() == [[[3]]]
    assert F.max_pool1d(x, 5, 3, ceil_mode=True).tolist() == [[[3]]]


def test_slope_of_binary_cross_entropy_at_its_ends() -> None:
    x = fa.tensor([0.0, 1.0], dtype=fa.float64, requires_grad=True)
    F.binary_cross_entropy(x, fa.tensor([1.0, 0.0], dtype=fa.float64), reduction="sum").backward()
    assert x.grad.tolist() == [-1e12, 1e12]  # x (1 - x) is at least 1e-12 in a slope


# The subgradients that PyTorch's documentation and its kernels take at a kink.
KINKS = {
    "relu": (F.relu, 0.0, 0),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.25), 0.0, 0.25),
    "prelu": (lambda x: F.prelu(x, fa.full((1,), 0.25, dtype=x.dtype)), 0.0, 0.25),
    "rrelu": (lambda x: F.rrelu(x, 0.25, 0.25), 0.0, 0.25),
    "relu6": (F.relu6, 6.0, 0),
    "relu6 at 0": (F.relu6, 0.0, 0),
    "hardtanh": (F.hardtanh, 1.0, 0),
    "hardsigmoid": (F.hardsigmoid, 3.0, 0),
    "threshold": (lambda x: F.threshold(x, 1.0, 5.0), 1.0, 0),
    "softshrink": (F.softshrink, 0.5, 0),
    "hardshrink": (F.hardshrink, 0.5, 0),
    "abs": (fa.abs, 0.0, 0),
    "clamp": (lambda x: fa.clamp(x, -1, 1), 1.0, 1),
}


@pytest.mark.parametrize("name", KINKS)
def test_subgradients(name: str) -> None:
    function, at, slope = KINKS[name]
    x = fa.tensor([at], dtype=fa.float64, requires_grad=True)
    function(x).sum().backward()
    assert x.grad.item() == slope


@pytest.mark.parametrize("find", ["max", "min", "median", "nanmedian", "mode", "kthvalue"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_tangents_of_what_a_line_holds(find: str, keepdim: bool) -> None:
    def found(x: fa.Tensor) -> fa.Tensor:
        first = (max(x.ndim, 1),) if find == "kthvalue" else ()
        return getattr(fa, find)(x, *first, 0, keepdim).values

    for numbers in ([3.0, 1.0, 2.0], 3.0):
        x = fa.tensor(numbers, dtype=fa.float64)
        value, got = fa.func.jvp(found, (x,), (10 * x + 1,))
        assert got.shape == value.shape
        assert got.reshape(-1).tolist() == (10 * value.reshape(-1) + 1).tolist()


def test_gradients_of_shared_heads() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (fa.tensor(rng.normal(size=s)) for s in ((2, 6, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)))
    for t in (q, k, v):
        t.requires_grad_()
    weight = fa.tensor(rng.normal(size=(2, 6, 3, 4)))

    def repeated(q: fa.Tensor, k: fa.Tensor, v: fa.Tensor) -> fa.Tensor:
        k, v = k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)
        return (q @ k.mT / 2).softmax(-1) @ v

    def shared(q: fa.Tensor, k: fa.Tensor, v: fa.Tensor) -> fa.Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    want = fa.autograd.grad((repeated(q, k, v) * weight).sum(), (q, k, v))
    found = fa.autograd.grad((shared(q, k, v) * weight).sum(), (q, k, v))
    with without_kernel("scaled_dot_product_attention"):
        again = fa.autograd.grad((shared(q, k, v) * weight).sum(), (q, k, v))
    for w, f, a in zip(want, found, again, strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-12)
        np.testing.assert_allclose(a, w, rtol=1e-12)


@pytest.mark.parametrize("find", ["max", "min"])
def test_what_a_line_holds_without_its_kernel(find: str) -> None:
    x = np.array([3.0, 1.0, 2.0])
    with without_kernel(f"{find}.dim"):
        for keepdim in (False, True):
            values = getattr(fa, find)(fa.tensor(x), 0, keepdim).values
            want = getattr(np, find)(x, 0, keepdims=keepdim)
            assert values.tolist() == want.tolist()


def test_a_convolution_of_integers_by_one_number() -> None:
    assert F.conv1d(fa.tensor([[[1, -2, 4]]]), fa.tensor([[[3]]])).tolist() == [[[3, -6, 12]]]


@pytest.mark.parametrize("n", [1, 2, 5, 33, 70])
def test_factors_of_what_is_no_number(n: int) -> None:
    """NaN on a diagonal is found at its minor, and that of the next matrix in memory is not."""
    a = np.broadcast_to(np.eye(n), (2, n, n)).copy()
    a[1, n - 1, n - 1] = a[1, n // 2, 0] = np.nan
    info = fa.linalg.cholesky_ex(fa.tensor(a)).info.tolist()
    assert info[0] == 0 and 0 < info[1] <= n
    for k in range(n):
        a = np.eye(n)
        a[k, k] = np.nan
        assert fa.linalg.cholesky_ex(fa.tensor(a)).info.item() == k + 1


def test_factors_of_batches_of_two_dims() -> None:
    a = np.broadcast_to(np.diag([4.0, 9.0, 16.0]), (5, 2, 3, 3)).copy()
    L, info = fa.linalg.cholesky_ex(fa.tensor(a))
    np.testing.assert_array_equal(L, np.linalg.cholesky(a))
    assert info.shape == (5, 2)
    with pytest.raises(RuntimeError, match="square"):
        fa.linalg.cholesky_ex(fa.ones(2, 3, 2, 3))


@pytest.mark.parametrize("steps", [2, 3, 4, 7, 10])
def test_whole_steps_without_their_kernel(steps: int) -> None:
    with without_kernel("linspace"):
        for start, end in ((0, 10), (-7, 20), (5, -4)):
            got = fa.linspace(start, end, steps, dtype=fa.int64)
            want = [int(start + (end - start) * i / (steps - 1)) for i in range(steps)]
            assert got.tolist() == want


def test_slope_of_an_angle_on_the_axes() -> None:
    z = fa.tensor([0j, 1, 1j, -2], dtype=fa.complex128, requires_grad=True)
    (slope,) = fa.autograd.grad(z.angle().sum(), z)
    np.testing.assert_allclose(slope, [0, 1j, -1, -0.5j], atol=1e-15)


def test_slope_of_a_divergence_where_nothing_is_wanted() -> None:
    """Of 0 (log(0) - input) by the target: what the other terms leave, and 0 for a log of 0."""
    target = fa.tensor([0.0, 0.0, 1.0, 0.5], dtype=fa.float64, requires_grad=True)
    given = fa.tensor([-2.0, -INF, -3.0, -INF], dtype=fa.float64)
    (slope,) = fa.autograd.grad(F.kl_div(given, target, reduction="sum"), target)
    assert slope[:3].tolist() == [2, 0, 1 + 3] and slope[3].item() == INF


@pytest.mark.parametrize("wanted", [(0, 1), (0, 2), (1, 2), (1,), (2,)])
def test_some_gradients_of_a_group_norm_without_its_kernel(wanted: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    shapes = (2, 4, 3), (4,), (4,)
    x = [fa.tensor(rng.standard_normal(s), requires_grad=True) for s in shapes]
    slopes = []
    for kernels in ((), ("group_norm_backward",)):
        y = F.group_norm(x[0], 2, x[1], x[2]) ** 3
        if kernels:
            with without_kernel(*kernels):
                slopes.append(fa.autograd.grad(y.sum(), [x[i] for i in wanted]))
        else:
            slopes.append(fa.autograd.grad(y.sum(), [x[i] for i in wanted]))
    for a, b in zip(*slopes, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_median_of_nothing_and_of_one() -> None:
    assert np.isnan(fa.nanmedian(fa.tensor([])).item())
    assert fa.nanmedian(fa.tensor([3.0])).item() == 3
    assert fa.nanmedian(fa.zeros(0, dtype=fa.int64)).item() == 0


def test_statistics_of_no_channels() -> None:
    for shape in ((4, 0), (4, 0, 3)):
        mean, var = fa.zeros(0), fa.ones(0)
        assert F.batch_norm(fa.zeros(shape), mean, var, training=True).shape == shape
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        F.batch_norm(fa.zeros(1, 2), fa.zeros(2), fa.ones(2), training=True)


def test_parts_of_a_transform_that_overflows() -> None:
    rows = np.full((2, 8), 3e38, dtype=np.float32)
    rows[0] *= np.where(np.arange(8) % 2 == 0, 1, -1)
    rows[1] = 1e-44  # loses its digits where it is scaled as the first row is
    got = fa.fft.fft(fa.tensor(rows))
    assert np.isinf(got[0, 4].real.item())  # 8 * 3e38
    np.testing.assert_array_equal(got[1].numpy(), fa.fft.fft(fa.tensor(rows[1])).numpy())


def test_a_transform_that_overflows_of_elements_between_infinities() -> None:
    room = np.full(16, INF, dtype=np.float32)
    room[::2] = 2e38 * np.sin(np.arange(8))
    want = np.fft.fft(room[::2].astype(np.float64))
    fits = np.abs(want) < 3e38
    assert 0 < fits.sum() < 8
    np.testing.assert_allclose(fa.fft.fft(fa.tensor(room)[::2])[fits], want[fits], rtol=1e-6)


def test_mean_squares_of_complex_numbers() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 4)) + 1j * rng.standard_normal((3, 4))
    w = rng.standard_normal(4)
    want = x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.1)
    got = F.rms_norm(fa.tensor(x), [4], eps=0.1)
    np.testing.assert_allclose(got, want, rtol=1e-13)
    got = F.rms_norm(fa.tensor(x), [4], fa.tensor(w).to(fa.complex128), eps=0.1)
    np.testing.assert_allclose(got, want * w, rtol=1e-13)


def test_a_unit_of_two_dims_at_the_top() -> None:
    for n in (3, 100):
        x = fa.full((n, n), 3e38)
        got = F.normalize(x, dim=(0, 1))  # type: ignore[arg-type]
        np.testing.assert_allclose(got, np.full((n, n), 1 / n), rtol=1e-6)


def test_a_diagonal_of_a_number() -> None:
    with pytest.raises(RuntimeError, match="self must have at least 1 dim"):
        fa.diag_embed(fa.tensor(1.0))


def test_slopes_of_weights_alone() -> None:
    rng = np.random.default_rng(0)
    for shape in ((4, 3, 5, 5), (4, 3)):
        x = fa.tensor(rng.standard_normal(shape))
        weight, bias = fa.ones(3, dtype=fa.float64), fa.zeros(3, dtype=fa.float64)
        for leaf in (weight, bias):
            leaf.requires_grad_()
            for given in (x, x.clone(memory_format=fa.channels_last) if x.ndim == 4 else x):
                out = F.batch_norm(given, None, None, weight, bias, True)
                (slope,) = fa.autograd.grad((out * x).sum(), leaf)
                normal = (x - x.mean((0, *range(2, x.ndim)), True)).numpy()
                dims = (0, *range(2, x.ndim))
                normal = normal / np.sqrt((normal**2).mean(dims, keepdims=True) + 1e-5)
                want = (x.numpy() * (normal if leaf is weight else 1)).sum(dims)
                np.testing.assert_allclose(slope, want, rtol=1e-10)
            leaf.requires_grad_(False)
