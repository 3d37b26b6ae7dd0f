"""What is refused, each part of a condition by itself, and what is just allowed.

Conditions of two parts look right as long as no argument fails one of them alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.testing._samples import operators
from harness import arguments

F = fa.nn.functional
L = fa.linalg
OPS = fa._C._ops
x3, m34, c234 = fa.ones(3), fa.ones(3, 4), fa.ones(2, 3, 4)
whole, z34 = fa.ones(3, 4, dtype=fa.int64), fa.ones(3, 4, dtype=fa.complex64)
zero = fa.tensor(0)
at = fa.tensor([0])

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "glu of an odd size": (lambda: F.glu(x3), "must be even"),
    "glu of a number": (lambda: F.glu(fa.tensor(1.0)), "must be even|0-d|dim"),
    "H of three dims": (lambda: c234.H, "matrix|2|dims"),
    "H of one dim": (lambda: x3.H, "matrix|2|dims"),
    "mT of one dim": (lambda: x3.mT, "dims|matri"),
    "mH of one dim": (lambda: x3.mH, "dims|matri"),
    "fliplr of one dim": (lambda: fa.fliplr(x3), "dim"),
    "flipud of a number": (lambda: fa.flipud(fa.tensor(1.0)), "dim"),
    "trace of one dim": (lambda: fa.trace(x3), "matrix|dims"),
    "trace of three dims": (lambda: fa.trace(c234), "matrix|dims"),
    "imag of real numbers": (lambda: fa.imag(x3), "complex"),
    "unbind of a number": (lambda: fa.tensor(1.0).unbind(), "0-d"),
    "unfold of a number, too far": (lambda: fa.tensor(1.0).unfold(0, 2, 1), "size"),
    "unfold by no steps": (lambda: x3.unfold(0, 1, 0), "step"),
    "index_reduce of another word": (
        lambda: x3.index_reduce(0, at, fa.ones(1), "sum"),
        "'?sum'?|reduce",
    ),
    "index_reduce by a matrix": (
        lambda: x3.index_reduce(0, at[None], fa.ones(1), "prod"),
        "index",
    ),
    "index_reduce of another rank": (
        lambda: x3.index_reduce(0, at, fa.ones(1, 1), "prod"),
        "source",
    ),
    "index_reduce of another size": (lambda: x3.index_reduce(0, at, x3, "prod"), "source"),
    "index_add to a number, of two": (
        lambda: fa.tensor(1.0).index_add(0, at, fa.ones(2)),
        "0-d",
    ),
    "index_add to a number, by two": (
        lambda: fa.tensor(1.0).index_add(0, fa.tensor([0, 0]), fa.ones(1)),
        "0-d",
    ),
    "index_copy to a number, by two": (
        lambda: fa.tensor(1.0).index_copy(0, fa.tensor([0, 0]), fa.ones(1)),
        "0-d",
    ),
    "index_add by a float of integers": (
        lambda: whole.index_add(0, at, whole[:1], alpha=0.5),
        "alpha",
    ),
    "index_add by a complex number": (
        lambda: m34.index_add(0, at, m34[:1], alpha=1j),
        "alpha",
    ),
    "cov of three dims": (lambda: fa.cov(c234), "dims"),
    "corrcoef of three dims": (lambda: fa.corrcoef(c234), "dims"),
    "take_along_dim of an index far below 0": (
        lambda: fa.take_along_dim(x3, fa.tensor([-5]), 0),
        "index -5 is out of range",
    ),
    "take_along_dim of the least index": (
        lambda: fa.take_along_dim(x3, fa.tensor([-(2**63)])),
        "index -9223372036854775808 is",
    ),
    "fractional_max_pool2d of a window below 1": (
        lambda: F.fractional_max_pool2d(fa.ones(1, 1, 4, 4), -1, output_size=2),
        r"kernel_size must be at least 1, got \(-1, -1\)",
    ),
    "fractional_max_pool3d of no windows": (
        lambda: F.fractional_max_pool3d(fa.ones(1, 1, 4, 4, 4), 2, output_size=(2, 0, 2)),
        r"output size must be at least 1, got \(2, 0, 2\)",
    ),
    "unfold of a padding beyond 64 bits": (
        lambda: F.unfold(fa.ones(1, 1, 4, 4), 2, padding=2**62),
        r"sizes overflow: 2 \* 4611686018427387904",
    ),
    "fold of a padding beyond 64 bits": (
        lambda: F.fold(fa.ones(1, 4, 9), 4, 2, padding=2**63 - 1),
        r"sizes overflow: 2 \* 9223372036854775807",
    ),
    "unfold of a window beyond 64 bits": (
        lambda: F.unfold(fa.ones(1, 1, 4, 4), 2**40, dilation=2**40),
        "sizes overflow: 1099511627776",
    ),
    "unfold of a window larger than its image": (
        lambda: F.unfold(fa.ones(1, 1, 4, 4), 9, padding=(2, 1)),
        r"larger than the padded size 8",
    ),
    "nanmean of complex numbers": (lambda: z34.nanmean(), "complex"),
    "isclose of two dtypes": (lambda: fa.isclose(x3, x3.double()), "dtype"),
    "renorm of one dim": (lambda: x3.renorm(2, 0, 1.0), "dim"),
    "diff of a number": (lambda: fa.diff(fa.tensor(1.0)), "dim"),
    "bucketize by a matrix": (lambda: fa.bucketize(x3, m34), "boundaries"),
    "quantile of nothing": (lambda: fa.quantile(fa.ones(0), 0.5), "element"),
    "quantile of integers": (lambda: fa.quantile(whole, 0.5), "float"),
    "quantile of two dtypes": (lambda: fa.quantile(x3, fa.tensor(0.5).double()), "dtype"),
    "quantile at a matrix": (lambda: fa.quantile(x3, fa.full((1, 1), 0.5)), "q"),
    "quantile by no word": (lambda: fa.quantile(x3, 0.5, interpolation="mean"), "mean"),
    "histogram of a matrix of edges": (lambda: fa.histogram(x3, m34), "edges"),
    "histogram of one edge": (lambda: fa.histogram(x3, fa.ones(1)), "edges"),
    "histogram of two dtypes": (lambda: fa.histogram(x3, fa.ones(3).double()), "edges"),
    "histogram of other weights": (lambda: fa.histogram(x3, 2, weight=m34), "weight"),
    "addmv of a vector": (lambda: fa.addmv(x3, x3, x3), "mat|vec"),
    "addmv by a matrix": (lambda: fa.addmv(x3, fa.ones(3, 3), fa.ones(3, 1)), "mat|vec"),
    "addr by a matrix first": (lambda: fa.addr(m34, m34, fa.ones(4)), "vec"),
    "addr by a matrix second": (lambda: fa.addr(m34, x3, m34), "vec"),
    "outer by a matrix first": (lambda: fa.outer(m34, x3), "vec|1-D|one dim|1-d|dim"),
    "outer by a matrix second": (lambda: fa.outer(x3, m34), "vec|1-D|one dim|1-d|dim"),
    "addbmm of a matrix first": (lambda: fa.addbmm(m34, m34, c234.mT), "batch"),
    "addbmm of a matrix second": (lambda: fa.addbmm(m34, c234, m34), "batch"),
    "addbmm of two batches": (
        lambda: fa.addbmm(fa.ones(3, 3), c234, fa.ones(3, 4, 3)),
        "batch",
    ),
    "cross of two numbers": (lambda: L.cross(fa.ones(2), fa.ones(2)), "3"),
    "cross of another size": (lambda: L.cross(x3, fa.ones(1)), "3|broadcast|size"),
    "cross of another rank": (lambda: L.cross(x3, fa.ones(2, 3)), "dims|rank|same"),
    "matrix_power of one dim": (lambda: L.matrix_power(x3, 2), "matri"),
    "matrix_power of no square": (lambda: L.matrix_power(m34, 2), "square|matri"),
    "inv_ex of one dim": (lambda: L.inv_ex(x3), "matri"),
    "inv_ex of no square": (lambda: L.inv_ex(m34), "square|matri"),
    "lu_unpack of one dim": (lambda: fa.lu_unpack(x3, at.int()), "matri|dim"),
    "lstsq by no driver": (lambda: L.lstsq(m34, fa.ones(3, 1), driver="qr"), "qr"),
    "lstsq of one dim": (lambda: L.lstsq(x3, x3), "matri|dim"),
    "qr in no mode": (lambda: L.qr(m34, "full"), "full"),
    "matrix_norm in one dim": (lambda: L.matrix_norm(m34, dim=(0,)), "dim"),
    "matrix_norm in three dims": (lambda: L.matrix_norm(c234, 2, dim=(0, 1, 2)), "dim"),
    "reflections, too many": (lambda: L.householder_product(fa.ones(4, 3), fa.ones(4)), "tau"),
    "reflections of a batch": (
        lambda: L.householder_product(fa.ones(4, 3), fa.ones(2, 3)),
        "tau",
    ),
    "reflections of another batch": (
        lambda: L.householder_product(fa.ones(2, 4, 3), fa.ones(3, 3)),
        "tau",
    ),
    "reflections of wide matrices": (lambda: L.householder_product(m34, x3), "rows"),
    "ormqr, too many": (lambda: fa.ormqr(fa.ones(4, 3), fa.ones(4), fa.ones(4, 2)), "tau"),
    "ormqr of another batch": (
        lambda: fa.ormqr(fa.ones(2, 4, 3), fa.ones(3, 3), fa.ones(2, 4, 2)),
        "tau",
    ),
    "fft of nothing": (lambda: fa.fft.fft(fa.ones(0)), "must be|at least|no "),
    "fft along nothing first": (lambda: OPS._fft_c2c(z34[:0], [0], 1.0, True), "no elements"),
    "fft along nothing second": (lambda: OPS._fft_c2c(z34[:0], [1, 0], 1.0, True), "no elements"),
    "real fft along nothing": (
        lambda: OPS._fft_r2c(m34[:, :0], [1], 1.0, True, True),
        "no elements",
    ),
    "fft along a dim twice": (lambda: OPS._fft_c2c(z34, [1, -1], 1.0, True), "repeat"),
    "fft along no dim": (lambda: OPS._fft_c2c(z34, [], 1.0, True), "dim"),
    "fft beyond the dims": (lambda: OPS._fft_c2c(z34, [2, 0], 1.0, True), "dim"),
    "fft of a number": (lambda: OPS._fft_c2c(z34[0, 0], [0], 1.0, True), "no dims"),
    "fftn of more sizes than dims": (lambda: fa.fft.fftn(x3, s=(3, 3)), "s"),
    "fftn of sizes and dims": (lambda: fa.fft.fftn(m34, s=(3,), dim=(0, 1)), "s"),
    "fftn along a dim twice": (lambda: fa.fft.fftn(m34, dim=(0, 0)), "dim"),
    "fft of no length": (lambda: fa.fft.fft(x3, n=0), "0"),
    "irfft of one number": (lambda: fa.fft.irfft(fa.ones(1)), "."),
    "rfft of complex numbers": (lambda: fa.fft.rfft(z34), "real|complex"),
    "fftfreq of integers": (lambda: fa.fft.fftfreq(3, dtype=fa.int64), "float|complex|dtype"),
    "rfftfreq of integers": (lambda: fa.fft.rfftfreq(3, dtype=fa.int64), "float|complex|dtype"),
    "prelu by a matrix": (lambda: F.prelu(m34, fa.ones(2, 2)), "weight"),
    "prelu of one dim": (lambda: F.prelu(x3, fa.ones(2)), "weight|channel"),
    "prelu of other channels": (lambda: F.prelu(m34, fa.ones(3)), "weight|channel"),
    "pixel_shuffle of two dims": (lambda: F.pixel_shuffle(fa.ones(4, 4), 2), "expected"),
    "pixel_shuffle of other channels": (lambda: F.pixel_shuffle(fa.ones(6, 2, 2), 2), "divi|4|2"),
    "pixel_shuffle of odd channels": (lambda: F.pixel_shuffle(fa.ones(3, 2, 2), 2), "divi|4|2"),
    "pixel_unshuffle of two dims": (lambda: F.pixel_unshuffle(fa.ones(4, 4), 2), "expected"),
    "pixel_unshuffle of odd rows": (lambda: F.pixel_unshuffle(fa.ones(1, 3, 4), 2), "divi|2"),
    "pixel_unshuffle of odd columns": (lambda: F.pixel_unshuffle(fa.ones(1, 4, 3), 2), "divi|2"),
    "channel_shuffle of two dims": (lambda: F.channel_shuffle(m34, 2), "expected"),
    "channel_shuffle of other groups": (
        lambda: F.channel_shuffle(fa.ones(1, 3, 2, 2), 2),
        "group",
    ),
    "smooth_l1_loss, negative": (lambda: F.smooth_l1_loss(x3, x3, beta=-1.0), "beta"),
    "a loss by no word": (lambda: F.mse_loss(x3, x3, reduction="max"), "max"),
    "binary_cross_entropy of two shapes": (
        lambda: F.binary_cross_entropy(m34, fa.ones(4)),
        "shape|size",
    ),
    "cross_entropy of a number": (lambda: F.cross_entropy(fa.tensor(1.0), zero), "0-d"),
    "cross_entropy by two weights": (
        lambda: F.cross_entropy(m34, fa.zeros(3).long(), fa.ones(3)),
        "weight",
    ),
    "cross_entropy by a matrix": (
        lambda: F.cross_entropy(m34, fa.zeros(3).long(), fa.ones(4, 1)),
        "weight",
    ),
    "batch_norm of one value": (
        lambda: F.batch_norm(fa.ones(1, 3), None, None, training=True),
        "more than 1 value",
    ),
    "bilinear of other features": (
        lambda: F.bilinear(fa.ones(2, 3), fa.ones(2, 4), fa.ones(5, 3, 3)),
        ".",
    ),
    "bilinear of other features first": (
        lambda: F.bilinear(fa.ones(2, 3), fa.ones(2, 4), fa.ones(5, 4, 4)),
        ".",
    ),
    "bilinear of another rank": (
        lambda: F.bilinear(x3, fa.ones(2, 4), fa.ones(5, 3, 4)),
        ".",
    ),
    "bilinear by a matrix": (lambda: F.bilinear(fa.ones(2, 3), fa.ones(2, 4), m34), "."),
    "clamp by nothing": (lambda: x3.clamp(), "min|max"),
    "celu by nothing": (lambda: F.celu(x3, 0.0), "alpha"),
    "uniform of integers": (lambda: whole.clone().uniform_(), "float"),
    "normal of integers": (lambda: whole.clone().normal_(), "float"),
    "exponential of integers": (lambda: whole.clone().exponential_(), "float"),
    "uniform backwards": (lambda: fa.empty(2).uniform_(1, 0), "from|to"),
    "random of complex numbers": (lambda: z34.clone().random_(0, 3), "complex"),
    "geometric of truth values": (lambda: fa.ones(2).bool().geometric_(0.5), "bool"),
    "geometric of complex numbers": (lambda: z34.clone().geometric_(0.5), "complex"),
    "multinomial, too many": (lambda: fa.multinomial(x3, 4), "without replacement"),
    "multinomial of nothing": (lambda: fa.multinomial(fa.ones(0), 1, True), "categories"),
    "attention of integers": (
        lambda: OPS.attention(*[fa.ones(1, 2, 3, 4).long()] * 3, None, False, 1.0),
        "floating-point",
    ),
    "attention of three dims": (
        lambda: OPS.attention(*[c234] * 3, None, False, 1.0),
        "batch, heads",
    ),
    "scatter into rows with a start": (
        lambda: fa.ones(4, 3)[1:].as_strided_scatter(fa.ones(2), (2,), (1,)),
        "dense",
    ),
    "scatter into rows with gaps": (
        lambda: fa.ones(4, 3)[:, :2].as_strided_scatter(fa.ones(2), (2,), (1,)),
        "dense",
    ),
    "a signal of no length": (
        lambda: fa.istft(fa.ones(5, 4, dtype=fa.complex64), 8, 4, window=fa.ones(8), length=0),
        "at least 1",
    ),
    "a window that leaves a hole": (
        lambda: fa.istft(
            fa.ones(3, 1, dtype=fa.complex64),
            4,
            2,
            window=fa.tensor([0.0, 1.0, 1.0, 1.0]),
            center=False,
            length=1,
        ),
        "cannot be divided",
    ),
    "logcumsumexp of integers": (lambda: whole.logcumsumexp(0), "floating-point"),
    "logcumsumexp of truth values": (lambda: (whole > 0).logcumsumexp(0), "floating-point|bool"),
    "cumsum as truth values": (lambda: x3.cumsum(0, dtype=fa.bool), "bool"),
    "the phase of one vector": (lambda: phase_of_one(), "phase"),
    "a second slope by one concentration": (lambda: second_slope(1), "second derivative"),
}


def phase_of_one() -> None:
    a = fa.tensor([[2.0 + 1j]], requires_grad=True)
    L.eig(a)[1].imag.sum().backward()


def second_slope(n: int) -> None:
    a = fa.full((n,), 1.5, dtype=fa.float64, requires_grad=True)
    fa.manual_seed(1)
    y = OPS._standard_gamma(a)
    (g,) = fa.autograd.grad(y.sum(), a, create_graph=True)
    fa.autograd.grad(g.sum(), a)


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str) -> None:
    run, text = REFUSED[what]
    with pytest.raises((RuntimeError, ValueError, TypeError, IndexError), match=text) as e:
        run()
    assert "signature:" not in str(e.value)  # of a call that was none


def test_what_is_just_allowed() -> None:
    assert fa.tensor(2.0).H.shape == () and x3.flip(0).shape == (3,)
    assert fa.tensor(5.0).unfold(0, 1, 1).tolist() == [5.0]
    assert fa.tensor(5.0).unfold(0, 0, 1).shape == (0,) and x3.unfold(0, 3, 2).shape == (1, 3)
    assert fa.tensor(1.0).index_add(0, at, fa.ones(1)).tolist() == 2.0
    assert fa.tensor(1.0).index_copy(0, at, fa.full((1,), 7.0)).tolist() == 7.0
    assert fa.zeros(2).index_add(0, at, fa.ones(1), alpha=0.5).tolist() == [0.5, 0]
    assert whole.index_add(0, at, whole[:1], alpha=True)[0, 0].item() == 2
    assert (whole > 0).index_add(0, at, whole[:1] > 0, alpha=1)[0, 0].item() is True
    assert z34.index_add(0, at, z34[:1], alpha=1j)[0, 0].item() == 1 + 1j
    assert L.householder_product(fa.ones(4, 3), fa.ones(0)).shape == (4, 3)
    assert L.matrix_power(fa.ones(0, 0), 2).shape == (0, 0)
    assert F.smooth_l1_loss(x3, x3, beta=0.0).item() == 0.0
    assert F.smooth_l1_loss(x3, x3 + 2, beta=2.0).item() == 1.0
    assert F.batch_norm(fa.tensor([[1.0], [3.0]]), None, None, training=True, eps=0.0).tolist() == [
        [-1],
        [1],
    ]
    assert fa.histogram(x3, fa.tensor([0.0, 2.0]))[0].tolist() == [3.0]
    assert fa.multinomial(x3, 3).sort().values.tolist() == [0, 1, 2]
    assert fa.fft.irfft(fa.ones(2)).shape == (2,)
    assert fa.istft(fa.ones(5, 4, dtype=fa.complex64), 8, 4, window=fa.ones(8), length=1).shape == (
        1,
    )
    assert second_slope(0) is None
    assert fa.eye(3).as_strided_scatter(fa.zeros(2), (2,), (1,)).sum().item() == 2


def test_transforms_on_meta() -> None:
    """What asks for values is left out there, whatever the shape."""
    for frames in (1, 4):
        z = fa.ones(5, frames, dtype=fa.complex64, device="meta")
        window = fa.ones(8, device="meta")
        assert fa.istft(z, 8, 4, window=window, center=False).shape == (8 + 4 * (frames - 1),)


# The greatest integer that each dtype draws up to.
GREATEST = {
    "uint8": 255, "int8": 127, "int16": 2**15 - 1, "int32": 2**31 - 1, "int64": 2**63 - 1,
    "float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53,
}  # fmt: skip


@pytest.mark.parametrize("dtype", GREATEST)
def test_a_range_of_one_number(dtype: str) -> None:
    x = fa.zeros(3, dtype=getattr(fa, dtype))
    assert x.random_(GREATEST[dtype], None).tolist() == [GREATEST[dtype]] * 3
    if dtype.startswith(("float", "bfloat")):
        with pytest.raises(RuntimeError, match=r"greatest|to draw|from"):
            x.random_(GREATEST[dtype] + 1, None)


# ---- optimizer steps ----


def step_operators() -> list[str]:
    return [n for n in dir(OPS) if n.endswith("_step")]


@pytest.mark.parametrize("name", step_operators())
def test_steps_refuse_shared_memory(name: str) -> None:
    """A gradient or a state in the place of a parameter, whole or in part."""
    op = next(o for o in operators() if o.name == name)
    tried = 0
    for sample in op.samples():
        _, args, _ = arguments(sample, "float64")
        lists = [i for i, a in enumerate(args) if isinstance(a, list) and a]
        for i, k in itertools.combinations(lists, 2):
            if args[i][0].shape != args[k][0].shape or args[k][0].numel() < 2:
                continue
            if i == 1 or args[i][0].dtype != args[k][0].dtype:
                continue
            for how in ("full", "partial"):
                _, given, named = arguments(sample, "float64")
                n = given[i][0].numel()
                room = fa.ones(n + 1, dtype=fa.float64)
                shape = given[i][0].shape
                given[i][0] = room[:n].reshape(shape)
                given[k][0] = (room[:n] if how == "full" else room[1:]).reshape(shape)
                with pytest.raises(RuntimeError, match="share memory"):
                    getattr(OPS, name)(*given, **named)
                tried += 1
    assert tried


@pytest.mark.parametrize("name", step_operators())
def test_steps_count_in_one_number(name: str) -> None:
    op = next(o for o in operators() if o.name == name)
    for sample in op.samples():
        _, args, _ = arguments(sample, "float64")
        for i, a in enumerate(args):
            if not isinstance(a, list) or not a or a[0].numel() != 1:
                continue
            for wrong in (fa.ones(2, dtype=fa.float64), fa.ones(0), fa.ones(1).long()):
                _, given, named = arguments(sample, "float64")
                given[i][0] = wrong
                with pytest.raises((RuntimeError, ValueError)):
                    getattr(OPS, name)(*given, **named)


def test_dims_of_one_number_have_the_usual_stride() -> None:
    assert fa.tensor(5.0).unfold(0, 1, 1).stride() == (1,)
    assert np.array_equal(fa.tensor([1.0, 2.0]).unfold(0, 1, 1).numpy(), [[1.0], [2.0]])
