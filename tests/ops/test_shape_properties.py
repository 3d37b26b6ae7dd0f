"""What no single reference says of the operators on shapes, views and indices."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest


def test_empty_has_the_shape() -> None:
    for t, shape, stride in (
        (fa.empty(2, 3), (2, 3), (3, 1)),
        (fa.empty((0, 4)), (0, 4), (4, 1)),
        (fa.empty(()), (), ()),
        (fa.empty_strided((2, 3), (1, 2)), (2, 3), (1, 2)),
        (fa.empty_like(fa.ones(2, 3).t()), (3, 2), (1, 3)),
        (fa.ones(2, dtype=fa.int8).new_empty(4), (4,), (1,)),
        (fa.empty(2, 3, 4, 5, memory_format=fa.channels_last), (2, 3, 4, 5), (60, 1, 15, 3)),
    ):
        assert tuple(t.shape) == shape
        assert tuple(t.stride()) == stride
    with pytest.raises(RuntimeError, match="negative"):
        fa.empty(2, -1)
    with pytest.raises((RuntimeError, MemoryError)):
        fa.empty(1 << 62, 8)


def test_to() -> None:
    x = fa.tensor([[1.5, -2.5], [0.0, 3.0]])
    assert x.to(fa.float32) is x
    assert x.to("cpu") is x
    assert x.to(fa.ones(1)) is x
    assert x.to(fa.float32, copy=True) is not x
    assert x.to(fa.int64).tolist() == [[1, -2], [0, 3]]
    assert x.to("cpu", fa.int64).dtype == fa.int64
    assert x.to(device="cpu", dtype=fa.bool).tolist() == [[True, True], [False, True]]
    assert x.to(fa.ones(1, dtype=fa.float64)).dtype == fa.float64
    assert x.t().to(fa.float64).stride() == (1, 2)
    assert x.to("meta").device.type == "meta"
    y = x.clone().requires_grad_()
    (y.to(fa.float64) * 2).sum().backward()
    assert y.grad.dtype == fa.float32
    assert y.grad.tolist() == [[2, 2], [2, 2]]


def test_meta_has_no_values() -> None:
    x = fa.ones(2, device="meta")
    for call in (
        lambda: x.to("cpu"),
        lambda: fa.zeros(2).copy_(x),
        lambda: x.tolist(),
        lambda: x.nonzero(),
    ):
        with pytest.raises((NotImplementedError, RuntimeError)):
            call()
    assert x.copy_(fa.ones(2)).device.type == "meta"
    assert x.clone().t().unsqueeze(0).shape == (1, 2)


def test_casts() -> None:
    x = fa.tensor([1.0, 2.5, -3.0])
    assert x.bfloat16().dtype == fa.bfloat16
    assert x.bfloat16().float().tolist() == x.tolist()
    assert x.half().double().tolist() == x.tolist()
    assert x.float() is x


def test_resize() -> None:
    x = fa.arange(6.0)
    assert x.resize_(2, 3) is x
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.resize_(2).tolist() == [0, 1]
    x.resize_(4, 5)
    assert tuple(x.shape) == (4, 5)
    assert x.flatten()[:2].tolist() == [0, 1]
    assert x.resize_(0, 3).shape == (0, 3)
    assert fa.arange(6)[1:3].resize_(5).tolist() == [1, 2, 3, 4, 5]  # to the end of what is there
    base = fa.arange(4.0)
    view = base[1:]
    with pytest.raises(RuntimeError, match="other tensors"):
        base.resize_(1000)
    with pytest.raises(RuntimeError):
        view.resize_(1000)
    with pytest.raises(RuntimeError):
        fa.ones(2, requires_grad=True).resize_(3)
    with pytest.raises(RuntimeError):
        x.resize_(-1)


def test_views_of_one_number() -> None:
    x = fa.tensor(5.0)
    for shape in ((), (1,), (1, 1), (1, 1, 1)):
        y = x.view(shape)
        assert y.shape == shape and y.view(()).item() == 5
        assert x.expand(shape).view(1, 1).shape == (1, 1)
    with pytest.raises(RuntimeError):
        x.view(2)


def test_view() -> None:
    x = fa.arange(12)
    y = x.view(3, -1)
    y[1, 0] = 100
    assert x[4].item() == 100
    assert y.data_ptr() == x.data_ptr()
    assert tuple(x.view(2, 2, 3).stride()) == (6, 3, 1)
    assert tuple(y.t().view(4, 3).shape) == (4, 3)
    with pytest.raises(RuntimeError, match="reshape"):
        y.t().view(12)
    with pytest.raises(RuntimeError):
        x.view(5, -1)
    with pytest.raises(RuntimeError):
        x.view(-1, -1)
    part = fa.zeros(4, 6)[:, :4]
    assert tuple(part.view(2, 2, 2, 2).stride()) == (12, 6, 2, 1)
    assert x.view_as(fa.zeros(4, 3)).shape == (4, 3)


def test_view_dtype() -> None:
    x = fa.tensor([[1.0, -2.0], [0.5, 3.0]])
    want = np.array([[1, -2], [0.5, 3]], np.float32)
    for name in ("int32", "int16", "uint8"):
        assert x.view(getattr(fa, name)).tolist() == want.view(name).tolist()
    assert x.view(fa.float64).shape == (2, 1)
    assert x.view(fa.int16).view(fa.float32).tolist() == x.tolist()
    with pytest.raises(RuntimeError):
        fa.ones(3).view(fa.float64)
    with pytest.raises(RuntimeError):
        x.t().view(fa.int16)


def test_as_strided() -> None:
    x = fa.arange(6.0)
    assert x.as_strided((4, 3), (1, 1)).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]
    assert x.view(2, 3).as_strided((3,), (2,), 1).tolist() == [1, 3, 5]
    with pytest.raises(RuntimeError):
        x.as_strided((4, 3), (2, 1))
    with pytest.raises((RuntimeError, ValueError)):
        x.as_strided((2,), (1,), -1)
    z = x.as_strided_scatter(fa.full((2, 2), 9.0), (2, 2), (2, 1), 1)
    assert z.tolist() == [0, 9, 9, 9, 9, 5]
    y = x.clone().requires_grad_()
    y.as_strided((4, 3), (1, 1)).sum().backward()
    assert y.grad.tolist() == [1, 2, 3, 3, 2, 1]


def test_view_as_complex() -> None:
    x = fa.tensor([[1.0, 2.0], [3.0, 4.0]])
    z = fa.view_as_complex(x)
    assert z.tolist() == [1 + 2j, 3 + 4j]
    z[0] = 5
    assert x.tolist() == [[5, 0], [3, 4]]
    with pytest.raises(RuntimeError):
        fa.view_as_complex(x.t())
    with pytest.raises(RuntimeError):
        fa.view_as_complex(fa.ones(3))
    y = x.clone().requires_grad_()
    fa.view_as_complex(y).abs().sum().backward()
    np.testing.assert_allclose(
        y.grad.numpy(), x.numpy() / np.linalg.norm(x.numpy(), axis=1, keepdims=True)
    )


def test_real_and_imag_are_views() -> None:
    z = fa.tensor([1 + 2j, 3 - 4j])
    z.real[0] = 7
    z.imag.mul_(2)
    assert z.tolist() == [7 + 4j, 3 - 8j]
    x = fa.ones(2)
    assert x.real is x
    with pytest.raises(RuntimeError):
        _ = x.imag


@pytest.mark.parametrize("accumulate", [False, True])
def test_bad_indices_write_nothing(accumulate: bool) -> None:
    x = fa.zeros(4, 3)
    with pytest.raises(IndexError, match="index 4 is out of range for dim 0 of size 4"):
        x.index_put_((fa.tensor([0, 1, 4]),), fa.ones(3, 3), accumulate=accumulate)
    with pytest.raises(IndexError):
        x.index_add_(0, fa.tensor([0, 9]), fa.ones(2, 3))
    with pytest.raises(IndexError):
        x.scatter_(0, fa.tensor([[0, -1]]), 1)
    with pytest.raises(IndexError):
        x.scatter_add_(0, fa.tensor([[0, 7]]), fa.ones(1, 2))
    with pytest.raises(IndexError):
        x.index_copy_(0, fa.tensor([0, 5]), fa.ones(2, 3))
    with pytest.raises(IndexError):
        x.index_fill_(0, fa.tensor([0, 5]), 1)
    with pytest.raises(IndexError):
        x[fa.tensor([0, 5])] = 1
    with pytest.raises(RuntimeError):
        x.masked_scatter_(fa.ones(4, 3, dtype=fa.bool), fa.ones(5))
    assert x.abs().sum().item() == 0


def test_sums_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(0)
    threads = fa.get_num_threads()
    values = fa.tensor(rng.standard_normal((40000, 3)).astype(np.float32))
    where = fa.tensor(rng.integers(0, 50, 40000))
    results = []
    try:
        for n in (1, 2, 3, 5):
            fa.set_num_threads(n)
            each = [
                fa.zeros(50, 3).index_put_((where,), values, accumulate=True),
                fa.zeros(50, 3).index_add_(0, where, values),
                fa.zeros(50).scatter_add_(0, where, values[:, 0]),
                fa.zeros(50, 3).scatter_add_(0, where.unsqueeze(1).expand(40000, 3), values),
                fa.zeros(50, 3).index_put_((where,), values),
                fa.zeros(50).scatter_(0, where, values[:, 1]),
                fa._C._ops.embedding_backward(values, where, 50, -1, False),
            ]
            results.append([t.numpy().copy() for t in each])
    finally:
        fa.set_num_threads(threads)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_indices_without_dims() -> None:
    x = fa.tensor([10.0, 20.0, 30.0])
    at = fa.tensor(2)
    assert x.gather(0, at).tolist() == 30
    assert x.scatter(0, at, 5).tolist() == [10, 20, 5]
    assert x.scatter_add(0, at, fa.tensor(1.0)).tolist() == [10, 20, 31]
    assert x.scatter_reduce(0, at, fa.tensor(50.0), "amax").tolist() == [10, 20, 50]
    assert x.index_select(0, at).tolist() == [30]
    assert x.index_add(0, at, fa.tensor([1.0])).tolist() == [10, 20, 31]
    assert x.index_fill(0, at, 0).tolist() == [10, 20, 0]
    assert fa.tensor(4.0).gather(0, fa.tensor([0, 0])).tolist() == [4, 4]
    assert fa.tensor(4.0).index_select(0, fa.tensor([0])).tolist() == 4
    assert x.take(at).tolist() == 30
    for bad in (
        lambda: x.gather(0, fa.tensor(3)),
        lambda: x[:0].gather(0, fa.tensor(0)),
        lambda: fa.tensor(1.0).gather(0, fa.tensor(1)),
        lambda: x[:0].scatter(0, fa.tensor(0), 1),
    ):
        with pytest.raises(IndexError):
            bad()


def test_embedding_gradient() -> None:
    weight = fa.zeros(4, 2, requires_grad=True)
    rows = fa.tensor([1, 1, 2, 0])
    fa.nn.functional.embedding(rows, weight, padding_idx=0).sum().backward()
    assert weight.grad.tolist() == [[0, 0], [2, 2], [1, 1], [0, 0]]
    weight.grad = None
    fa.nn.functional.embedding(rows, weight, scale_grad_by_freq=True).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [1, 1], [1, 1], [0, 0]]
    with pytest.raises(IndexError):
        fa.nn.functional.embedding(fa.tensor([4]), weight)
    with pytest.raises(IndexError):
        fa.nn.functional.embedding(fa.tensor([-1]), weight)


def test_half_sums_round_once() -> None:
    for dtype in (fa.float16, fa.bfloat16):
        ones = fa.ones(4096, dtype=dtype)
        at = fa.zeros(4096, dtype=fa.int64)
        assert fa.zeros(1, dtype=dtype).index_add_(0, at, ones).item() == 4096
        assert fa.zeros(1, dtype=dtype).scatter_add_(0, at, ones).item() == 4096
        assert fa.zeros(1, dtype=dtype).index_put_((at,), ones, accumulate=True).item() == 4096


def test_overlapping_copies() -> None:
    x = fa.arange(6)
    with pytest.raises(RuntimeError, match="clone"):
        x[1:].copy_(x[:-1])
    y = fa.arange(4).view(2, 2)
    y.copy_(y)
    assert y.tolist() == [[0, 1], [2, 3]]
    with pytest.raises(RuntimeError, match="clone"):
        fa.zeros(1).expand(3).copy_(fa.ones(3))
    z = fa.arange(5.0)
    z.index_put_((fa.tensor([0, 1]),), z[3:])
    assert z.tolist() == [3, 4, 2, 3, 4]


def test_numbers_that_do_not_fit() -> None:
    for call in (
        lambda: fa.full((2,), 300, dtype=fa.uint8),
        lambda: fa.zeros(2, dtype=fa.int8).fill_(-129),
        lambda: fa.zeros(2, dtype=fa.int8).masked_fill_(fa.tensor([True, False]), 1000),
        lambda: fa.zeros(2, dtype=fa.int16).index_fill_(0, fa.tensor([0]), 1 << 20),
        lambda: fa.zeros(2, dtype=fa.int16).scatter_(0, fa.tensor([0]), 1 << 20),
    ):
        with pytest.raises(OverflowError, match="does not fit"):
            call()


def test_masks_must_fit() -> None:
    x = fa.zeros(3, 4)
    with pytest.raises(IndexError, match="mask"):
        x[fa.ones(4, dtype=fa.bool)]
    with pytest.raises(IndexError, match="mask"):
        x[:, fa.ones(3, dtype=fa.bool)]
    with pytest.raises(IndexError):
        x[fa.ones(3, 4, 1, dtype=fa.bool)] = 1
    with pytest.raises(RuntimeError, match="bool"):
        x.masked_fill(fa.ones(4, dtype=fa.int32), 1)


def test_in_place_on_parts_of_a_list() -> None:
    x = fa.arange(6.0, requires_grad=True)
    y = x * 1
    a, _b = y.split(3)
    a.mul_(2)
    y.unbind()[5].add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2, 1, 1, 1]
    assert y.tolist() == [0, 2, 4, 3, 4, 6]


def test_cat_keeps_sizes_not_tensors() -> None:
    """The graph of cat needs the sizes of its inputs only."""
    a = fa.ones(2, 3, requires_grad=True)
    b = a * 2
    y = fa.cat([a, b])
    b.mul_(5)  # would raise in backward if b were saved
    y.sum().backward()
    assert a.grad.tolist() == [[3, 3, 3], [3, 3, 3]]


def test_forms_of_arguments() -> None:
    a, b = fa.tensor([1, 2]), fa.tensor([3, 4, 5])
    for x, y in zip(
        fa.meshgrid(a, b, indexing="xy"), fa.meshgrid([a, b], indexing="xy"), strict=True
    ):
        assert x.tolist() == y.tolist()
    assert fa.nonzero(a, as_tuple=True)[0].tolist() == [0, 1]
    assert a.nonzero(as_tuple=False).tolist() == [[0], [1]]
    assert (a > 1).nonzero(as_tuple=True)[0].tolist() == [1]
    assert fa.atleast_1d(fa.tensor(1), a)[0].shape == (1,)
    assert fa.broadcast_shapes((2, 1), (1, 3), 1) == (2, 3)
    with pytest.raises(RuntimeError):
        fa.broadcast_shapes((2,), (3,))
    assert fa.block_diag(a, fa.tensor(7)).tolist() == [[1, 2, 0], [0, 0, 7]]
    assert fa.cartesian_prod(a, b).shape == (6, 2)


def test_searchsorted_with_a_sorter() -> None:
    values, order = fa.tensor([3.0, 1.0, 5.0]), fa.tensor([1, 0, 2])
    wanted = fa.tensor([0.0, 3.0, 9.0])
    assert fa.searchsorted(values, wanted, sorter=order).tolist() == [0, 1, 3]
    assert fa.searchsorted(values, 3.0, side="right", sorter=order).item() == 2


def test_where_as_a_method_takes_the_condition_first() -> None:
    x, condition = fa.tensor([5.0, 2.0]), fa.tensor([True, False])
    assert x.where(condition, fa.tensor([7.0, 8.0])).tolist() == [5, 8]
    assert x.where(condition, -1).tolist() == [5, -1]


def test_absurd_windows() -> None:
    x = fa.ones(1, 1, 5)
    far = 1 << 62
    assert fa.nn.functional.conv1d(x, x, stride=far).tolist() == [[[5]]]
    for option in ("dilation", "padding"):
        with pytest.raises((RuntimeError, ValueError)):
            fa.nn.functional.conv1d(x, x, **{option: far})


def test_random_likes_keep_the_layout() -> None:
    x = fa.zeros(2, 3, 4, 5).contiguous(memory_format=fa.channels_last)
    for like in (fa.rand_like, fa.randn_like, lambda t, **kw: fa.randint_like(t, 9, **kw)):
        assert like(x).stride() == x.stride()
        made = like(x, memory_format=fa.contiguous_format)
        assert made.stride() == (60, 20, 5, 1)
