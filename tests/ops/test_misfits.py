"""Operands that must fit each other: whichever has another size, rank or kind is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import facula as fa
import numpy as np
import pytest

F = fa.nn.functional
OPS = fa._C._ops
REFUSED = (RuntimeError, ValueError, TypeError, IndexError)
RANK, KIND = "rank", "kind"


class Call(NamedTuple):
    run: Callable[..., Any]
    shapes: list[tuple[int, ...]]  # of float64 operands
    # Dims of an operand that may be larger, or that its rank or kind may be another.
    free: Mapping[int, Any] = MappingProxyType({})


THREE = [True] * 3
CALLS: dict[str, Call] = {
    "softmax_backward": Call(lambda g, y: OPS.softmax_backward(g, y, 1), [(2, 3), (2, 3)]),
    "log_softmax_backward": Call(lambda g, y: OPS.log_softmax_backward(g, y, 0), [(2, 3), (2, 3)]),
    "layer_norm": Call(
        lambda x, w, b: F.layer_norm(x, [4], w, b), [(2, 3, 4), (4,), (4,)], {0: {0, 1, RANK}}
    ),
    "rms_norm": Call(lambda x, w: F.rms_norm(x, [3, 4], w), [(2, 3, 4), (3, 4)], {0: {0, RANK}}),
    "layer_norm_backward": Call(
        lambda g, x, m, r, w, b: OPS.layer_norm_backward(g, x, [4], m, r, w, b, 1e-5, False, THREE),
        [(2, 3, 4), (2, 3, 4), (2, 3, 1), (2, 3, 1), (4,), (4,)],
        {2: {KIND}, 3: {KIND}},
    ),
    "group_norm": Call(
        lambda x, w, b: F.group_norm(x, 2, w, b), [(2, 4, 3), (4,), (4,)], {0: {0, 2}}
    ),
    "group_norm_backward": Call(
        lambda g, x, m, r, w, b: OPS.group_norm_backward(g, x, 2, m, r, w, b, 1e-5, THREE),
        [(3, 4, 5), (3, 4, 5), (3, 2), (3, 2), (4,), (4,)],
        {2: {KIND}, 3: {KIND}},
    ),
    "batch_norm": Call(
        lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), [(3, 4, 5), *[(4,)] * 4], {0: {0, 2}}
    ),
    "batch_norm_backward": Call(
        lambda g, x, w, b, m, v: OPS.batch_norm_backward(g, x, w, b, m, v, True, 1e-5, THREE),
        [(3, 4, 5), (3, 4, 5), *[(4,)] * 4],
        {4: {KIND}, 5: {KIND}},
    ),
    "nll_loss": Call(
        lambda x, t, w: F.nll_loss(x, t % 4, w), [(3, 4, 2), (3, 2), (4,)], {1: {KIND}, 2: {KIND}}
    ),
    "nll_loss of one row": Call(
        lambda x, w: F.nll_loss(x, fa.tensor(2), w), [(4,), (4,)], {0: {KIND}, 1: {KIND}}
    ),
    "nll_loss_backward": Call(
        lambda g, w, total: OPS.nll_loss_backward(
            g, [3, 4, 2], fa.ones(3, 2, dtype=fa.int64), w, -100, "none", total
        ),
        [(3, 2), (4,), (1,)],
        {0: {KIND}, 1: {KIND}, 2: {KIND, RANK}},
    ),
    "softmax_nll_backward": Call(
        lambda g, x, w, total, tops: OPS.softmax_nll_backward(
            g, x, fa.tensor([0, 3, 1]), w, -100, "none", total, tops
        ),
        [(3,), (3, 4), (4,), (1,), (3, 2)],
        {0: {KIND}, 2: {KIND}, 3: {KIND, RANK}, 4: {KIND}},
    ),
    "mm": Call(fa.mm, [(2, 3), (3, 4)], {0: {0}, 1: {1}}),
    "bmm": Call(fa.bmm, [(5, 2, 3), (5, 3, 4)], {0: {1}, 1: {2}}),
    "addmv": Call(fa.addmv, [(2,), (2, 3), (3,)]),
    "addr": Call(fa.addr, [(2, 3), (2,), (3,)]),
    "cat": Call(
        lambda a, b: fa.cat([a, b], 1), [(2, 3, 4), (2, 5, 4)], {0: {1, KIND}, 1: {1, KIND}}
    ),
    "stack": Call(lambda a, b: fa.stack([a, b]), [(2, 3), (2, 3)], {0: {KIND}, 1: {KIND}}),
    "mv": Call(fa.mv, [(2, 3), (3,)], {0: {0}}),
    "dot": Call(fa.dot, [(3,), (3,)]),
    "outer": Call(fa.outer, [(3,), (4,)], {0: {0, KIND}, 1: {0, KIND}}),
    "addmm": Call(fa.addmm, [(2, 4), (2, 3), (3, 4)]),
    "addmm of a row": Call(fa.addmm, [(4,), (2, 3), (3, 4)], {0: {RANK}, 1: {0}}),
    "baddbmm": Call(fa.baddbmm, [(5, 2, 4), (5, 2, 3), (5, 3, 4)]),
    "linear": Call(F.linear, [(6, 2, 3), (4, 3), (4,)], {0: {0, 1, RANK}, 2: {RANK}}),
    "linear of one row": Call(lambda x, w: F.linear(x, w), [(3,), (3,)], {0: {RANK}, 1: {RANK}}),
    "attention": Call(
        lambda q, k, v, m: OPS.attention(q, k, v, m, False, 1.0),
        [(2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 7), (2, 4, 3, 6)],
        {2: {3}},
    ),
    "attention_backward": Call(
        lambda g, q, k, v, m, o, s: OPS.attention_backward(g, q, k, v, m, o, s, False, 1.0),
        [
            (2, 4, 3, 7),
            (2, 4, 3, 5),
            (2, 2, 6, 5),
            (2, 2, 6, 7),
            (4, 3, 6),
            (2, 4, 3, 7),
            (2, 4, 3),
        ],
        {4: {RANK}, 6: {KIND}},
    ),
    "fold": Call(
        lambda x: OPS.col2im(x, [3, 4], [2, 2], [1, 1], [0, 0], [1, 1]), [(2, 12, 6)], {0: {0}}
    ),
    "unfold": Call(
        lambda x: OPS.im2col(x, [2, 2], [1, 1], [0, 0], [1, 1]), [(2, 3, 4, 5)], {0: {0, 1, 2, 3}}
    ),
    "complex": Call(fa.complex, [(2, 3), (2, 3)], {0: {RANK}, 1: {RANK}}),
    "copy_": Call(lambda x, y: x.copy_(y), [(2, 3), (2, 3)], {0: {RANK, KIND}, 1: {KIND}}),
}


def operands(call: Call) -> list[fa.Tensor]:
    fa.manual_seed(3)
    return [fa.rand(shape, dtype=fa.float64) for shape in call.shapes]


@pytest.mark.parametrize("name", CALLS)
def test_misfits(name: str) -> None:
    call = CALLS[name]
    right = operands(call)
    if name == "nll_loss":
        right[1] = right[1].long()
    call.run(*right)
    for i, t in enumerate(right):
        free = call.free.get(i, set())
        wrong = {RANK: t[None], KIND: t.long() if t.is_floating_point() else t.double()}
        for d in range(t.dim()):
            wrong[d] = fa.cat([t, t.narrow(d, 0, 1)], d)
        for what, other in wrong.items():
            args = [*right[:i], other, *right[i + 1 :]]
            if what in free:
                if what != KIND:
                    call.run(*args)
                continue
            with pytest.raises(REFUSED):
                call.run(*args)
                pytest.fail(f"operand {i} with another {what} was taken")


def refused(run: Callable[..., Any], *cases: tuple[Any, ...]) -> None:
    for case in cases:
        with pytest.raises(REFUSED):
            run(*case)
            pytest.fail(f"{case} was taken")


def test_operands_of_one_number() -> None:
    def update(*operands: fa.Tensor) -> None:
        OPS.update_scale(*operands, 2.0, 0.5, 2)

    right = [fa.tensor(4.0), fa.tensor([1]), fa.tensor([[0.0]])]
    update(*[t.clone() for t in right])
    for i, t in enumerate(right):
        for wrong in (fa.cat([t.reshape(1)] * 2), fa.empty(0), t.to(fa.complex64)):
            refused(update, tuple(wrong if k == i else o.clone() for k, o in enumerate(right)))


def test_factors_of_gradients_are_one_number() -> None:
    def unscale(found: fa.Tensor, scale: fa.Tensor) -> None:
        OPS.unscale_grads([fa.ones(3)], found, scale)

    unscale(fa.tensor(0.0), fa.tensor([2.0]))
    for wrong in (fa.zeros(2), fa.zeros(0), fa.tensor(0), fa.tensor(0j)):
        refused(unscale, (wrong, fa.tensor(2.0)), (fa.tensor(0.0), wrong))


def test_reductions_of_nothing() -> None:
    """Of no elements there is no extreme; where there are no results, none is asked for."""
    for name in ("amax", "amin", "argmax", "argmin"):
        for shape, dim in (((1, 0), 0), ((3, 0), 0), ((0, 1), 1), ((2, 0, 3), 2)):
            want = getattr(np, name)(np.ones(shape), dim).shape
            assert getattr(fa.ones(shape), name)(dim).shape == want
        for shape, dim in (((1, 0), 1), ((0, 2), 0), ((0,), 0)):
            refused(getattr(fa.ones(shape), name), (dim,))
    for ord in (float("inf"), -float("inf"), -1.0):
        refused(fa.linalg.vector_norm, (fa.ones(0), ord), (fa.ones(2, 0), ord, 1))
    for ord in (0.0, 0.5, 1.0, 2.0, 3.0):
        assert fa.linalg.vector_norm(fa.ones(2, 0), ord, 1).tolist() == [0, 0]


def test_choices_of_a_number() -> None:
    x = fa.tensor(3.0)
    assert [t.tolist() for t in x.topk(1)] == [3, 0] and x.kthvalue(1)[0].item() == 3
    refused(x.topk, (2,), (-1,))
    refused(x.kthvalue, (2,), (0,))


def test_heads_and_masks_of_attention() -> None:
    def run(heads: int, of: int, mask: Any = None, dtype: Any = fa.float64) -> Any:
        q = fa.ones(2, heads, 3, 5, dtype=fa.float64)
        k, v = fa.ones(2, of, 6, 5, dtype=dtype), fa.ones(2, of, 6, 7, dtype=fa.float64)
        return OPS.attention(q, k, v, mask, False, 1.0)[0]

    for heads, of in ((4, 4), (4, 2), (4, 1), (1, 1), (3, 3), (0, 0)):
        assert run(heads, of).shape == (2, heads, 3, 7)
    refused(run, (4, 3), (2, 4), (4, 0), (4, 2, None, fa.float32))
    for shape in ((), (6,), (1,), (3, 6), (3, 1), (1, 6), (4, 3, 6), (2, 1, 1, 6), (1, 4, 3, 1)):
        for dtype in (fa.bool, fa.float64):
            assert run(4, 2, fa.ones(shape, dtype=dtype)).shape == (2, 4, 3, 7)
    for shape in ((3,), (6, 3), (2, 3, 6), (4, 4, 3, 6), (1, 2, 4, 3, 6), (1, 1, 1, 1, 1)):
        refused(run, (4, 2, fa.ones(shape, dtype=fa.bool)))
    refused(run, (4, 2, fa.ones(3, 6)), (4, 2, fa.ones(3, 6, dtype=fa.int64)))


def test_biases_of_linear() -> None:
    x, w = fa.ones(2, 3), fa.ones(4, 3)
    for bias in (fa.ones(4), fa.ones(1), fa.tensor(1.0)):
        assert F.linear(x, w, bias).tolist() == [[4] * 4] * 2
    for size in ((2, 4), (2, 1), (1, 4), (1, 1)):  # what broadcasts to the result
        bias = np.arange(1.0, 1 + np.prod(size), dtype=np.float32).reshape(size)
        np.testing.assert_array_equal(F.linear(x, w, fa.tensor(bias)), 3 + bias + np.zeros((2, 4)))
    for bias in (fa.ones(1), fa.tensor(1.0), fa.ones(2)):
        assert F.linear(x, w[0], bias).tolist() == [4] * 2
    refused(F.linear, *((x, w, fa.ones(s)) for s in ((0,), (2,), (3,), (3, 4), (1, 2, 4))))
    refused(F.linear, *((x, w[0], fa.ones(s)) for s in ((3,), (4,), (1, 1))))
    refused(F.linear, (fa.tensor(1.0), w), (x, fa.tensor(1.0)), (x, w[None]), (x, w[:, :2]))
    refused(F.linear, (x, w.double()), (x, w, fa.ones(4).double()), (x.bool(), w.bool()))


def test_factors_fit_the_tensors() -> None:
    whole, real, z = (fa.ones(2, 2, dtype=t) for t in (fa.int64, fa.float32, fa.complex64))
    for name in ("alpha", "beta"):
        for m, good, bad in ((whole, [2, True], [0.5, 1j]), (real, [2, 0.5], [1j]), (z, [1j], [])):
            for factor in good:
                want = factor + 2 if name == "beta" else 1 + 2 * factor
                assert fa.addmm(m, m, m, **{name: factor}).tolist() == [[want] * 2] * 2
            for factor in bad:
                refused(lambda m=m, name=name, f=factor: fa.addmm(m, m, m, **{name: f}), ())


def test_windows_of_unfold_and_fold() -> None:
    x, right = fa.ones(2, 3, 4, 5), [[2, 3], [1, 1], [0, 1], [2, 1]]
    columns = OPS.im2col(x, *right)
    assert columns.shape == (2, 18, 2 * 5)
    assert OPS.col2im(columns, [4, 5], *right).shape == x.shape
    for i, low in enumerate((1, 1, 0, 1)):
        for wrong in ([low - 1, low], [low, low - 1], [low], [low] * 3):
            args = [*right[:i], wrong, *right[i + 1 :]]
            refused(OPS.im2col, (x, *args))
            refused(OPS.col2im, (columns, [4, 5], *args))
    refused(OPS.col2im, *((columns, size, *right) for size in ([0, 5], [4, 0], [4], [4, 5, 1])))
    # a window as large as the image, and one larger
    assert OPS.im2col(x, [4, 5], [1, 1], [0, 0], [1, 1]).shape == (2, 60, 1)
    assert OPS.im2col(x, [2, 2], [3, 4], [0, 0], [3, 3]).shape == (2, 12, 1)
    assert OPS.im2col(x, [6, 5], [1, 1], [1, 0], [1, 1]).shape == (2, 90, 1)
    one = [[1, 1], [0, 0], [1, 1]]
    refused(OPS.im2col, (x, [5, 5], *one), (x, [4, 6], *one), (x, [2, 2], [4, 1], *one[1:]))
    for shape in ((2, 0, 4, 5), (2, 3, 0, 5), (2, 3, 4, 0), (3, 4, 5), (1, 2, 3, 4, 5)):
        refused(OPS.im2col, (fa.ones(shape), [1, 1], [1, 1], [1, 1], [1, 1]))
    assert OPS.im2col(fa.ones(0, 3, 4, 5), *right).shape == (0, 18, 10)


def test_margins_of_pad() -> None:
    x = fa.ones(2, 3)
    assert F.pad(x, [1, 0, 0, 2]).shape == (4, 4) and F.pad(x, []).shape == (2, 3)
    assert F.pad(x, [-1, -2]).shape == (2, 0) and F.pad(x, [0, 0, -3, 1]).shape == (0, 3)
    refused(F.pad, (x, [1]), (x, [1, 1, 1]), (x, [0] * 6), (x, [-2, -2]), (x, [0, 0, -4, 1]))


@pytest.mark.parametrize("dim", [0, 1])
def test_margins_that_cut(dim: int) -> None:
    """Element i of the result is element i - before, where there is one."""
    n = 3
    x = fa.arange(1.0, 7.0).reshape(3, 2) if dim == 0 else fa.arange(1.0, 7.0).reshape(2, 3)
    for before in range(-5, 5):
        for after in range(-5, 5):
            pad = [0, 0, before, after] if dim == 0 else [before, after]
            if n + before + after < 0:
                refused(F.pad, (x, pad))
                continue
            lines = x.unbind(dim)
            want = [
                lines[i - before].tolist() if 0 <= i - before < n else [-1.0, -1.0]
                for i in range(n + before + after)
            ]
            got = F.pad(x, pad, value=-1.0)
            assert [line.tolist() for line in got.unbind(dim)] == want, (before, after)


def test_norms_name_what_is_normalised() -> None:
    x = fa.ones(2, 3, 4)
    refused(F.layer_norm, (x, []), (x, [3]), (x, [2, 4]), (x, [1, 2, 3, 4]), (x.long(), [4]))
    assert F.layer_norm(x, [2, 3, 4]).shape == x.shape
    refused(F.group_norm, (fa.ones(4), 2), (x, 2), (x, 0), (x, -3), (x.long(), 3))
    assert F.group_norm(fa.ones(2, 4), 4).shape == (2, 4)
    assert F.batch_norm(fa.ones(2, 3), fa.zeros(3), fa.ones(3)).shape == (2, 3)
    refused(F.batch_norm, (fa.ones(3), fa.zeros(3), fa.ones(3)), (x, fa.zeros(3), None), (x, None))
    refused(F.batch_norm, (x, None, fa.ones(3)), (x.long(), fa.zeros(3), fa.ones(3)))
    for name, y in (("softmax", x.long()), ("log_softmax", x.bool())):
        refused(getattr(F, name), (y, 0), (x, 3), (x, -4))
        assert getattr(F, name)(y, -3, dtype=fa.float32).shape == x.shape
