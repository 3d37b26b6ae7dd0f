"""Derivatives of what looks through windows, over sweeps of its arguments.

Gradients, gradients of gradients, forward mode and forward mode over gradients of convolution,
pooling, padding, resizing and rearranging are compared with finite differences. A convolution is
linear in each input, so a second order that is wrong shows in any direction.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import facula as fa
import pytest
from facula.autograd import gradcheck, gradgradcheck

F = fa.nn.functional
Tensors = list[fa.Tensor]


def leaf(*shape: int) -> fa.Tensor:
    return fa.randn(shape, dtype=fa.float64).requires_grad_()


def apart(*shape: int) -> fa.Tensor:
    """Distinct numbers, far enough from each other that a step does not change which is the
    largest."""
    count = 1
    for n in shape:
        count *= n
    return (fa.randperm(count).to(fa.float64).reshape(shape) * 0.37 - 1).requires_grad_()


def check(function: Callable[..., Any], inputs: Tensors) -> None:
    assert gradcheck(function, inputs, fast_mode=True, check_forward_ad=True)
    assert gradgradcheck(function, inputs, fast_mode=True, check_fwd_over_rev=True)


# ---- convolution ----


def legal(case: dict[str, Any]) -> bool:
    reach = case["dilation"] * (case["kernel"] - 1) + 1
    if not case["transposed"]:
        return case["output_padding"] == 0 and case["size"] + 2 * case["padding"] >= reach
    if case["output_padding"] >= max(case["stride"], case["dilation"]):
        return False
    made = (case["size"] - 1) * case["stride"] + reach + case["output_padding"]
    return made - 2 * case["padding"] >= 1


def sweep() -> Iterator[dict[str, Any]]:
    values = {
        "transposed": (False, True),
        "size": (1, 4),
        "kernel": (1, 3),
        "stride": (1, 2, 5),
        "padding": (0, 1, 2),
        "dilation": (1, 2, 3),
        "output_padding": (0, 1, 2),
        "groups": (1, 2),
    }
    for chosen in itertools.product(*values.values()):
        case = dict(zip(values, chosen, strict=True))
        if legal(case):
            yield case


SWEEP = list(sweep())


def convolve(case: dict[str, Any], dims: int, batch: bool, bias: bool, mixed: bool) -> None:
    """One case in `dims` dims; `mixed` has the arguments in the last dim alone."""
    groups = case["groups"]

    def each(name: str, plain: int) -> list[int]:
        return [plain] * (dims - 1) + [case[name]] if mixed else [case[name]] * dims

    size, kernel = each("size", 2), each("kernel", 1)
    channels, features = 2 * groups, groups
    weight = [channels, 1] if case["transposed"] else [features, 2]
    inputs = [leaf(*([2] if batch else []), channels, *size), leaf(*weight, *kernel)]
    if bias:
        inputs.append(leaf(features))
    rest = {n: each(n, p) for n, p in (("stride", 1), ("padding", 0), ("dilation", 1))}
    if case["transposed"]:
        rest["output_padding"] = each("output_padding", 0)
    name = f"conv{'_transpose' if case['transposed'] else ''}{dims}d"
    check(lambda *given: getattr(F, name)(*given, groups=groups, **rest), inputs)


@pytest.mark.parametrize("part", range(16))
def test_convolution_in_one_dim(part: int) -> None:
    fa.manual_seed(part)
    for i, case in enumerate(SWEEP[part::16]):
        convolve(case, 1, batch=i % 3 != 0, bias=i % 2 == 0, mixed=False)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("part", range(4))
def test_convolution_in_more_dims(dims: int, part: int) -> None:
    fa.manual_seed(part)
    few = [c for c in SWEEP if c["output_padding"] >= c["stride"]] + SWEEP[:: 23 + dims]
    for i, case in enumerate(few[part::4]):
        convolve(case, dims, batch=i % 3 != 0, bias=i % 2 == 0, mixed=dims == 3 or i % 2 == 1)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_output_padding_of_a_stride_and_more(dims: int) -> None:
    """Of x = 3, w = (2, 5) in the last dim: d(y . y)/dx = 2 x (w . w), of which the square is
    differentiated."""
    x = fa.full([1] * (dims + 2), 3.0, dtype=fa.float64, requires_grad=True)
    w = fa.tensor([2.0, 5.0], dtype=fa.float64).reshape([1] * (dims + 1) + [2])
    rest = {"output_padding": [0] * (dims - 1) + [1], "dilation": [1] * (dims - 1) + [2]}
    y = getattr(F, f"conv_transpose{dims}d")(x, w, **rest)
    (slope,) = fa.autograd.grad((y * y).sum(), x, create_graph=True)
    assert slope.item() == 2 * 3 * 29
    (curve,) = fa.autograd.grad(slope.sum(), x)
    assert curve.item() == 2 * 29


# ---- pooling ----

POOLS = [
    (kernel, stride, padding, dilation, ceil)
    for kernel, stride, padding, dilation, ceil in itertools.product(
        (1, 2, 3), (1, 2, 5), (0, 1), (1, 2), (False, True)
    )
    if padding <= kernel // 2 and dilation * (kernel - 1) + 1 <= 5 + 2 * padding
]


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_max_pool(dims: int) -> None:
    fa.manual_seed(dims)
    pool = getattr(F, f"max_pool{dims}d")
    for i, (kernel, stride, padding, dilation, ceil) in enumerate(POOLS[:: 2 * dims - 1]):
        shape = [2, *([2] if i % 2 else []), *[3] * (dims - 1), 5]
        each = [[1] * (dims - 1) + [kernel], [2] * (dims - 1) + [stride]]
        pads, gaps = [0] * (dims - 1) + [padding], [3] * (dims - 1) + [dilation]
        check(lambda x, e=each, p=pads, g=gaps, c=ceil: pool(x, *e, p, g, c), [apart(*shape)])


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_avg_pool(dims: int) -> None:
    fa.manual_seed(dims)
    pool = getattr(F, f"avg_pool{dims}d")
    plain = [c for c in POOLS if c[3] == 1]
    for i, (kernel, stride, padding, _, ceil) in enumerate(plain):
        shape = [2, *([2] if i % 2 else []), *[3] * (dims - 1), 5]
        rest: dict[str, Any] = {"ceil_mode": ceil, "count_include_pad": i % 3 == 0}
        if dims > 1 and i % 5 == 0:
            rest["divisor_override"] = 3
        args = [
            [2] * (dims - 1) + [kernel],
            [1] * (dims - 1) + [stride],
            [1] * (dims - 1) + [padding],
        ]
        check(lambda x, a=args, r=rest: pool(x, *a, **r), [leaf(*shape)])


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_adaptive_pool(dims: int, size: int) -> None:
    fa.manual_seed(size)
    shape = [2, 2, *[3] * (dims - 1), 5]
    target = [2] * (dims - 1) + [size]
    check(lambda x: getattr(F, f"adaptive_avg_pool{dims}d")(x, target), [leaf(*shape)])
    check(lambda x: getattr(F, f"adaptive_max_pool{dims}d")(x, target), [apart(*shape)])


@pytest.mark.parametrize("norm", [1, 2, 3.5])
def test_lp_pool(norm: float) -> None:
    fa.manual_seed(1)
    check(
        lambda x: F.lp_pool2d(x, norm, 2, 1),
        [fa.rand(2, 2, 3, 4, dtype=fa.float64).add(0.1).requires_grad_()],
    )
    check(
        lambda x: F.lp_pool1d(x, norm, 3, 2, True),
        [fa.rand(2, 6, dtype=fa.float64).add(0.1).requires_grad_()],
    )


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_max_unpool(dims: int) -> None:
    fa.manual_seed(dims)
    pool, unpool = getattr(F, f"max_pool{dims}d"), getattr(F, f"max_unpool{dims}d")
    shape = [1, 2, *[2] * (dims - 1), 6]
    kernel = [1] * (dims - 1) + [2]
    made, indices = pool(apart(*shape), kernel, return_indices=True)
    check(lambda x: unpool(x, indices, kernel), [made.detach().requires_grad_()])


# ---- columns, padding, resizing, rearranging ----

COLUMNS = [
    (kernel, dilation, padding, stride)
    for kernel, dilation, padding, stride in itertools.product((1, 2, 3), (1, 2), (0, 2), (1, 2, 5))
    if dilation * (kernel - 1) + 1 <= 4 + 2 * padding
]


def test_unfold_and_fold() -> None:
    fa.manual_seed(0)
    for i, (kernel, dilation, padding, stride) in enumerate(COLUMNS):
        args = ([2, kernel], [1, dilation], [1, padding], [2, stride])
        lead = [2, 2] if i % 2 else [2]
        check(lambda x, a=args: F.unfold(x, *a), [leaf(*lead, 3, 4)])
        columns = F.unfold(leaf(*lead, 3, 4), *args)
        check(lambda x, a=args: F.fold(x, (3, 4), *a), [columns.detach().requires_grad_()])


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("step", [1, 2, 7])
def test_tensor_unfold(size: int, step: int) -> None:
    fa.manual_seed(0)
    check(lambda x: x.unfold(1, size, step), [leaf(2, 5)])


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_pad(mode: str, dims: int) -> None:
    fa.manual_seed(dims)
    pads = [(1, 2), (0, 1), (2, 0), (3, 3), (0, 0)] + [(-1, 1), (1, -2), (-1, -1)] * (
        mode == "constant"
    )
    for i, pad in enumerate(pads):
        whole = [*pad, *([1, 1] * (dims - 1))]
        lead = [2, 2] if i % 2 else [2]
        check(lambda x, p=whole: F.pad(x, p, mode=mode), [leaf(*lead, *[2] * (dims - 1), 4)])


RESIZED = [
    (mode, dims, corners)
    for mode, dims in (
        ("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 1), ("nearest-exact", 2),
        ("area", 1),
        ("area", 2), ("area", 3), ("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3),
    )
    for corners in ((None, True) if mode.endswith(("linear", "cubic")) else (None,))
]  # fmt: skip


@pytest.mark.parametrize(("mode", "dims", "corners"), RESIZED)
def test_interpolate(mode: str, dims: int, corners: bool | None) -> None:
    fa.manual_seed(dims)
    shape = [1, 2, *[2] * (dims - 1), 4]
    for size in (1, 3, 4, 9):
        check(
            lambda x, n=size: F.interpolate(
                x, [3] * (dims - 1) + [n], mode=mode, align_corners=corners
            ),
            [leaf(*shape)],
        )
    for factor in (0.5, 1.7):
        check(
            lambda x, s=factor: F.interpolate(x, scale_factor=s, mode=mode, align_corners=corners),
            [leaf(*shape)],
        )


def test_rearranging() -> None:
    fa.manual_seed(0)
    check(lambda x: F.pixel_shuffle(x, 2), [leaf(2, 8, 1, 3)])
    check(lambda x: F.pixel_unshuffle(x, 3), [leaf(2, 3, 6)])
    check(lambda x: F.channel_shuffle(x, 3), [leaf(2, 6, 2)])
