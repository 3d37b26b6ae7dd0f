"""vmap: which dims are mapped over, what is refused, random numbers, writing in place."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections import namedtuple
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.func import grad, jvp, vmap


def rng(*shape: int, seed: int = 0) -> fa.Tensor:
    return fa.tensor(np.random.default_rng(seed).standard_normal(shape))


def same(a: Any, b: Any) -> None:
    assert tuple(a.shape) == tuple(b.shape)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)


# ---- dims ----


def test_in_and_out_dims() -> None:
    x, y = rng(2, 5, 3), rng(3, 4)
    got = vmap(lambda a, b: a @ b, in_dims=(1, None), out_dims=-1)(x, y)
    want = fa.stack([x[:, i] @ y for i in range(5)], -1)
    same(got, want)


def test_trees_of_arguments() -> None:
    Pair = namedtuple("Pair", ["a", "b"])
    x, y, z = rng(4, 3), rng(3, 4), rng(3)

    def f(pair: Any, named: Any) -> Any:
        return {"sum": pair.a + pair.b, "more": [named["z"] * 2, pair.a.sum()]}

    got = vmap(f, in_dims=(Pair(0, 1), {"z": None}))(Pair(x, y), {"z": z})
    same(got["sum"], x + y.t())
    same(got["more"][0], (z * 2).expand(4, 3))
    same(got["more"][1], x.sum(1))


def test_out_dims_as_a_tree() -> None:
    x = rng(4, 3)
    a, b = vmap(lambda r: (r, r * 2), out_dims=(1, 0))(x)
    same(a, x.t())
    same(b, x * 2)
    alone = vmap(lambda r: (r, fa.ones(2)), out_dims=(0, None))(x)[1]
    assert alone.shape == (2,)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_chunks(size: int) -> None:
    x = rng(7, 3)
    got = vmap(lambda r: (r * 2, r.sum()), out_dims=(1, 0), chunk_size=size)(x)
    same(got[0], (x * 2).t())
    same(got[1], x.sum(1))


def test_an_empty_batch() -> None:
    got = vmap(lambda r: r.sum() + fa.sort(r)[0])(fa.zeros(0, 3))
    assert got.shape == (0, 3)


def test_keywords_are_shared() -> None:
    x, y = rng(4, 3), rng(7, 3, seed=1)
    same(vmap(lambda a, *, b: a * b)(x, b=y), x[:, None] * y)
    same(vmap(lambda a, *, b: a * b["w"], chunk_size=3)(x, b={"w": 2.0}), 2 * x)
    with pytest.raises(ValueError, match="keyword arguments are shared"):
        vmap(lambda *, b: b)(b=x)


def test_what_is_no_tensor_comes_out_where_out_dims_has_none() -> None:
    got = vmap(lambda a: (a * 2, "name"), out_dims=(0, None))(rng(4, 3))
    assert got[1] == "name"
    assert got[0].shape == (4, 3)


def test_nested_three_deep() -> None:
    x, y, z = rng(2, 3, 4), rng(3, 4), rng(4)
    f = vmap(vmap(vmap(lambda a, b, c: a * b + c), in_dims=(0, 0, 0)), in_dims=(0, None, None))
    g = vmap(vmap(lambda a, b: vmap(lambda p, q, r: p * q + r)(a, b, z)), in_dims=(0, None))
    want = x * y + z
    same(g(x, y), want)
    same(f(x, y.expand(3, 4), z.expand(3, 4)), want)


def test_a_closure_over_outer_rows() -> None:
    x, y = rng(3, 2), rng(4, 2)
    got = vmap(lambda a: vmap(lambda b: (a * b).sum())(y))(x)
    same(got, x @ y.t())


def test_python_numbers_and_0d_tensors_promote_as_in_the_loop() -> None:
    x = fa.arange(3, dtype=fa.float64)
    y = fa.ones(3, 2, dtype=fa.float32)
    assert vmap(lambda a, b: a * b)(x, y).dtype == fa.float32
    assert vmap(lambda a: a * fa.ones(2, dtype=fa.float32))(x).dtype == fa.float32
    assert vmap(lambda a: a + fa.tensor(1.0, dtype=fa.float64))(y[:, 0]).dtype == fa.float64
    assert vmap(lambda a: a * 2.5)(fa.arange(3)).dtype == fa.float32
    assert vmap(lambda a: fa.where(a > 0, a, fa.ones(2, dtype=fa.float32)))(x).dtype == fa.float32


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: vmap(fa.sin)(3.0), ValueError, "only tensors are mapped over"),
        (lambda: vmap(fa.sin, in_dims=None)(fa.ones(2)), ValueError, "in_dims"),
        (lambda: vmap(fa.sin, in_dims=(None,))(fa.ones(2)), ValueError, "no argument is mapped"),
        (lambda: vmap(fa.sin, in_dims=1)(fa.ones(2)), ValueError, "1 dims"),
        (lambda: vmap(fa.sin)(fa.tensor(1.0)), ValueError, "0 dims"),
        (lambda: vmap(fa.add)(fa.ones(2), fa.ones(3)), ValueError, "one size"),
        (lambda: vmap(fa.add, in_dims=(0, 0, 0))(fa.ones(2), fa.ones(2)), ValueError, "not fit"),
        (lambda: vmap(lambda x: 3)(fa.ones(2)), ValueError, "must return tensors"),
        (lambda: vmap(fa.sin, out_dims=(0, 1))(fa.ones(2)), ValueError, "not fit the results"),
        (lambda: vmap(fa.sin, out_dims=None)(fa.ones(2)), ValueError, "differs from call to call"),
        (lambda: vmap(fa.sin, out_dims=3)(fa.ones(2)), IndexError, "out_dims"),
        (lambda: vmap(fa.sin, randomness="no"), RuntimeError, "randomness"),
        (lambda: vmap(fa.sin, chunk_size=0), ValueError, "chunk_size"),
        (lambda: vmap(3), TypeError, "callable"),
        (lambda: vmap(lambda: 1)(), ValueError, "no positional arguments"),
        (lambda: vmap(fa.add, ((0, 1), 0))(fa.ones(2), fa.ones(2)), ValueError, "Tensor, Tensor"),
        (lambda: vmap(lambda x: {"a": x}, 0, {"b": 0})(fa.ones(2)), ValueError, "{'a': Tensor}"),
        (lambda: vmap(lambda x: None)(fa.ones(2)), ValueError, "NoneType; None in its place"),
    ],
)
def test_what_does_not_fit_is_said(call: Any, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call()


# ---- values are not to be read ----

READERS = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "int": lambda x: int(x.sum()),
    "bool": lambda x: bool(x.sum() > 0),
    "complex": lambda x: complex(x.sum()),
    "index": lambda x: [1, 2, 3][x.sum().long()],
    "branch": lambda x: 1 if (x > 0).all() else 2,
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "numpy_force": lambda x: x.numpy(force=True),
    "array": lambda x: np.asarray(x),
    "memoryview": lambda x: memoryview(x),
    "data_ptr": lambda x: x.data_ptr(),
    "dlpack": lambda x: x.__dlpack__(),
    "storage": lambda x: x.untyped_storage(),
    "pickle": lambda x: pickle.dumps(x),
    "in": lambda x: 1.0 in x,
    "data": lambda x: setattr(x, "data", fa.ones(2)),
    "tensor_of": lambda x: fa.tensor([x.sum(), 1.0]),
    "equal": lambda x: fa.equal(x, x),
    "allclose": lambda x: fa.allclose(x, x),
    "nonzero": lambda x: x.nonzero(),
    "format": lambda x: f"{x.sum():.3f}",
    "range": lambda x: range(x.sum().long()),
    "size_of": lambda x: fa.zeros(x.sum().long()),
    "slice": lambda x: x[: x.sum().long()],
    "save": lambda x: fa.save(x, "/dev/null"),
    "repeat": lambda x: x.repeat_interleave(x.long().abs()),
    "backward": lambda x: x.requires_grad_().sum().backward(),
}


@pytest.mark.parametrize("name", READERS)
def test_readers_of_values_raise(name: str) -> None:
    x = fa.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]])

    def f(row: Any) -> Any:
        READERS[name](row)
        return row

    with pytest.raises((RuntimeError, ValueError, TypeError, BufferError)) as caught:
        vmap(f)(x)
    assert "vmap" in str(caught.value) or "transform" in str(caught.value)


def test_what_all_rows_share_may_be_read() -> None:
    scale = fa.tensor(3.0)
    got = vmap(lambda x: x * scale.item() if scale > 1 else x)(fa.ones(2))
    assert got.tolist() == [3.0, 3.0]


def test_tensors_print_within_a_transform() -> None:
    seen = []
    vmap(lambda x: seen.append(repr(x)) or x)(fa.ones(2, 3))
    grad(lambda x: seen.append(str(x)) or x.sum())(fa.ones(2))
    assert "vmap" in seen[0]
    assert "1." in seen[1]


# ---- levels end ----


def test_escaped_tensors_raise() -> None:
    kept = []
    vmap(lambda x: kept.append(x) or x)(fa.ones(2, 3))
    for use in (
        lambda: kept[0] + 1,
        lambda: kept[0].sum(),
        lambda: fa.cat([kept[0]]),
        lambda: kept[0].add_(1),
        lambda: kept[0][0],
        lambda: kept[0].reshape(3, 1),
        lambda: fa.stack(kept),
        lambda: vmap(lambda x: x + kept[0])(fa.ones(2)),
    ):
        with pytest.raises(RuntimeError, match="ended"):
            use()
    assert kept[0].shape == (3,)


def test_errors_within_leave_no_level_open() -> None:
    def fail(x: Any) -> Any:
        raise KeyError("mine")

    for transform in (
        vmap(fail),
        grad(fail),
        vmap(grad(fail)),
        grad(vmap(fail)),
        lambda x: jvp(fail, (x,), (x,)),
        vmap(vmap(fail)),
    ):
        with pytest.raises(KeyError, match="mine"):
            transform(fa.ones(2, 2))
        assert fa._C._level_depth() == 0
    assert (fa.ones(2) + 1).tolist() == [2.0, 2.0]
    assert fa.is_grad_enabled()


def test_threads_have_levels_of_their_own() -> None:
    faults: list[Any] = []
    x = rng(8, 4)

    def work() -> None:
        try:
            for _ in range(20):
                same(vmap(lambda r: (r * r).sum())(x), (x * x).sum(1))
                same(vmap(grad(lambda r: (r * r).sum()))(x), 2 * x)
        except BaseException as e:
            faults.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not faults


def test_a_thread_within_does_not_know_the_level() -> None:
    caught: list[Any] = []

    def f(row: Any) -> Any:
        def use() -> None:
            try:
                row.sum()
            except RuntimeError as e:
                caught.append(e)

        t = threading.Thread(target=use)
        t.start()
        t.join()
        return row

    vmap(f)(fa.ones(2, 3))
    assert "thread" in str(caught[0])


# ---- in place, out= ----


def test_in_place_on_rows() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x.clone()
        z += y
        z[0] = 5
        z[1:].mul_(2)
        z.t_()
        z.clamp_(max=20.0)
        z.masked_fill_(z > 4, 0.5)
        return z

    x, y = rng(4, 3, 2), rng(4, 2, seed=1)
    same(vmap(f)(x, y), fa.stack([f(a, b) for a, b in zip(x, y, strict=True)]))
    same(vmap(vmap(f))(x[None], y[None])[0], vmap(f)(x, y))


def test_in_place_changes_the_batch_itself() -> None:
    x = fa.zeros(3, 2)
    vmap(lambda r, k: r.add_(k))(x, fa.arange(3.0))
    assert x.tolist() == [[0, 0], [1, 1], [2, 2]]


def test_what_rows_share_is_not_written_with_rows() -> None:
    shared = fa.zeros(2)
    for f in (
        lambda r: shared.add_(r),
        lambda r: shared.copy_(r),
        lambda r: shared[:1].copy_(r[:1]),
        lambda r: fa.add(r, 1, out=shared),
        lambda r: shared.__setitem__(0, r[0]),
    ):
        with pytest.raises(RuntimeError, match="share"):
            vmap(f)(fa.ones(3, 2))
    assert shared.tolist() == [0, 0]


def test_new_tensors_follow_the_rows() -> None:
    def f(x: Any) -> Any:
        made = [x.new_zeros(2), fa.zeros_like(x), x.new_full((2,), 3.0), fa.empty_like(x)]
        for m in made:
            m.copy_(x)
        return sum(made)

    x = rng(4, 2)
    same(vmap(f)(x), 4 * x)
    with pytest.raises(RuntimeError, match="share"):
        vmap(lambda x: fa.zeros(2).add_(x))(x)


def test_out_forms() -> None:
    def f(x: Any) -> Any:
        out = fa.empty_like(x)
        fa.mul(x, 2, out=out)
        total = x.new_empty(())
        fa.sum(x, (0,), out=total)
        return out + total

    x = rng(4, 3)
    same(vmap(f)(x), 2 * x + x.sum(1, keepdim=True))


# ---- random numbers ----


def test_random_numbers_are_an_error_by_default() -> None:
    for f in (
        lambda x: x + fa.randn(2),
        lambda x: fa.rand_like(x),
        lambda x: x.uniform_(),
        lambda x: fa.nn.functional.dropout(x, 0.5),
        lambda x: fa.bernoulli(x),
        lambda x: fa.randperm(3),
    ):
        with pytest.raises(RuntimeError, match="randomness"):
            vmap(f)(fa.ones(3, 2))


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: fa.randn(50),
        lambda x: fa.rand_like(x),
        lambda x: x.clone().normal_(),
        lambda x: fa.nn.functional.dropout(x, 0.5),
        lambda x: fa.bernoulli(x * 0 + 0.5),
        lambda x: fa.randperm(50).to(x.dtype),
        lambda x: fa.randint(0, 1000, (50,)).to(x.dtype),
        lambda x: fa.multinomial(x, 20),
    ],
)
def test_different_and_same(draw: Any) -> None:
    x = fa.ones(3, 50)
    different = vmap(draw, randomness="different")(x)
    assert not fa.equal(different[0], different[1])
    same_ones = vmap(draw, randomness="same")(x)
    assert fa.equal(same_ones[0], same_ones[1])
    assert fa.equal(same_ones[1], same_ones[2])
    fa.manual_seed(7)
    first = vmap(draw, randomness="same")(x)[0]
    fa.manual_seed(7)
    assert fa.equal(first, draw(x[0]))


def test_draws_in_place_on_what_rows_share() -> None:
    shared = fa.ones(3)
    with pytest.raises(RuntimeError, match="share"):
        vmap(lambda x: x + shared.normal_(), randomness="different")(fa.ones(2, 3))


# ---- the way without a rule ----


def bits(a: Any) -> Any:  # without a rule
    return a.view(fa.int64)


def test_fallbacks_are_counted_and_warned_of_once() -> None:
    x = rng(3, 4, 2)
    fa.func.vmap_fallback_counts(reset=True)
    with pytest.warns(UserWarning, match="runs row by row") as said:
        got = vmap(bits)(x)
    assert len(said) == len(fa.func.vmap_fallback_counts()) >= 1
    same(got, fa.stack([bits(a) for a in x]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vmap(bits)(x)
    assert set(fa.func.vmap_fallback_counts(reset=True).values()) == {2}
    assert not fa.func.vmap_fallback_counts()
    with fa.func.vmap_fallback("quiet"), warnings.catch_warnings():
        warnings.simplefilter("error")
        vmap(bits)(x)
    with fa.func.vmap_fallback("error"), pytest.raises(RuntimeError, match="row by row"):
        vmap(bits)(x)
    with pytest.raises(ValueError, match="'warn', 'quiet' or 'error'"):
        fa.func.vmap_fallback("loud")
