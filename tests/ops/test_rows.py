"""A row's result does not depend on which row it is, on how many there are, on where it lies in
memory or on threads: what docs/users.md says of batches, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import facula as fa
import facula.nn.functional as F
import numpy as np
import pytest

DTYPES = ("float32", "float64", "bfloat16")
BATCH = 37
PIECES = ((0, 1), (5, 1), (BATCH - 1, 1), (3, 2), (4, 3), (1, 7), (2, 16), (0, BATCH - 1), (7, 21))


def function(name: str) -> Callable[..., Any]:
    return getattr(fa, name, None) or getattr(F, name)


def of(name: str, *args: Any, **kwargs: Any) -> Callable[[fa.Tensor], Any]:
    return lambda x: function(name)(x, *args, **kwargs)


def like(x: fa.Tensor, *shape: int) -> fa.Tensor:
    """The same numbers each time: a weight."""
    return fa.tensor(np.random.default_rng(1).normal(size=shape)).to(x.dtype)


def attention(x: fa.Tensor) -> fa.Tensor:
    q, k, v = x.unbind(1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def layer(kind: str) -> Callable[[fa.Tensor], Any]:
    def run(x: fa.Tensor) -> Any:
        fa.manual_seed(0)
        net = getattr(fa.nn, kind)(x.size(-1), 5, batch_first=True).to(x.dtype)
        with fa.no_grad():
            return net(x)[0]

    return run


SHORT, LONG, PLANE = (3,), (1000,), (33, 5)
REDUCTIONS = ("sum", "mean", "var", "std", "prod", "amax", "logsumexp", "norm", "nansum", "argmax")
CASES: dict[str, tuple[Callable[[fa.Tensor], Any], tuple[int, ...]]] = {
    **{
        f"{name} of {'x'.join(map(str, shape))}": (of(name, dim=1), shape)
        for name in (*REDUCTIONS, "softmax", "log_softmax", "cumsum", "cumprod", "logcumsumexp")
        for shape in (SHORT, (33,), LONG, PLANE)
    },
    **{
        f"{name} of all": (of(name, dim=(1, 2)), PLANE)
        for name in REDUCTIONS[:-1]
        if name != "prod"
    },
    "norm of order 3": (of("norm", 3, dim=1), LONG),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[1:], like(x, 257), like(x, 257)), (257,)),
    "rms_norm": (lambda x: F.rms_norm(x, x.shape[1:], like(x, 257)), (257,)),
    "group_norm": (lambda x: F.group_norm(x, 2, like(x, 6), like(x, 6)), (6, 7, 3)),
    "instance_norm": (F.instance_norm, (5, 7, 7)),
    "normalize": (F.normalize, (33,)),
    "cross_entropy": (lambda x: F.cross_entropy(x, x.argmax(1), reduction="none"), (33,)),
    "embedding": (lambda x: F.embedding((x.abs() * 3).to(fa.int64), like(x, 100, 7)), (5,)),
    "attention": (attention, (3, 2, 33, 16)),
    "conv1d": (lambda x: F.conv1d(x, like(x, 8, 4, 3), padding=1), (4, 20)),
    "conv2d": (lambda x: F.conv2d(x, like(x, 8, 4, 3, 3), padding=1), (4, 11, 11)),
    "conv2d with stride": (lambda x: F.conv2d(x, like(x, 8, 4, 3, 3), stride=2), (4, 11, 11)),
    "conv2d of 1 x 1": (lambda x: F.conv2d(x, like(x, 8, 4, 1, 1)), (4, 11, 11)),
    "conv2d by channel": (lambda x: F.conv2d(x, like(x, 4, 1, 3, 3), groups=4), (4, 11, 11)),
    "conv_transpose2d": (lambda x: F.conv_transpose2d(x, like(x, 4, 6, 3, 3)), (4, 7, 7)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (4, 8, 8)),
    "bilinear resizing": (
        lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
        (3, 8, 8),
    ),
    "matmul of matrices": (lambda x: x @ like(x, 33, 17), (5, 33)),
    "bmm": (lambda x: x @ x.transpose(1, 2), (5, 33)),
    "LSTM": (layer("LSTM"), (6, 9)),
    "GRU": (layer("GRU"), (6, 9)),
    "RNN": (layer("RNN"), (6, 9)),
}
# One row is a product of a matrix and a vector, which is summed in another order.
PRODUCTS: dict[str, tuple[Callable[[fa.Tensor], Any], tuple[int, ...]]] = {
    "matmul": (lambda x: x @ like(x, 784, 33), (784,)),
    "linear": (lambda x: F.linear(x, like(x, 10, 300), like(x, 10)), (300,)),
}


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = fa.get_num_threads()
    yield
    fa.set_num_threads(before)


def elsewhere(x: fa.Tensor) -> fa.Tensor:
    """The same elements, aligned as badly as they can be."""
    room = fa.zeros(x.numel() + 3, dtype=x.dtype)[3:]
    room.copy_(x.reshape(-1))
    return room.reshape(x.shape)


def check(run: Callable[[fa.Tensor], Any], shape: tuple[int, ...], dtype: str, least: int) -> None:
    x = fa.tensor(np.random.default_rng(0).normal(size=(BATCH, *shape))).to(getattr(fa, dtype))
    fa.set_num_threads(1)
    whole = run(x)
    for threads in (2, 3):
        fa.set_num_threads(threads)
        assert fa.equal(whole, run(x)), f"{threads} threads"
    for first, count in PIECES:
        if count < least:
            continue
        piece = x[first : first + count]
        for part in (piece, elsewhere(piece)):
            got = run(part)
            assert fa.equal(whole[first : first + count], got), f"{count} rows from {first} on"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_rows(name: str, dtype: str) -> None:
    check(*CASES[name], dtype, 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_rows_of_products(name: str, dtype: str) -> None:
    check(*PRODUCTS[name], dtype, 2)


@pytest.mark.parametrize(
    "run",
    [
        of("softmax", -1),
        of("log_softmax", -1),
        lambda x: F.layer_norm(x, (1000,)),
        of("sum", -1),
        fa.exp,
    ],
    ids=["softmax", "log_softmax", "layer_norm", "sum", "exp"],
)
def test_rows_of_large_results(run: Callable[[fa.Tensor], Any]) -> None:
    """Those written by streaming stores, by several threads, are what a few rows are."""
    some = fa.tensor(np.random.default_rng(0).normal(size=(37, 1000)).astype(np.float32))
    many = some.repeat(60, 1)
    fa.set_num_threads(2)
    whole = run(many)
    assert fa.equal(whole[:37], run(some)) and fa.equal(whole[-5:], run(some[-5:]))
    assert fa.equal(whole[37:74], whole[-37:])


def test_sums_do_not_depend_on_threads() -> None:
    x = fa.tensor(np.random.default_rng(0).normal(size=1_000_003).astype(np.float32))
    for name in ("sum", "mean", "var", "norm", "prod"):
        found = set()
        for threads in (1, 2, 3):
            fa.set_num_threads(threads)
            found |= {function(name)(x).item(), function(name)(elsewhere(x)).item()}
        assert len(found) == 1, name
