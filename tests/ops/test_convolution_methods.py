"""Every method of convolution on every shape that it serves, against the definition in float64.

The names come from the tables of aten/cpu/conv/conv.cpp. A process of its own takes each method by
its variable, and says what the method did and what came out.
"""

from __future__ import annotations

import functools
import itertools
import os
import pickle
import subprocess
import sys
from typing import Any, NamedTuple

import facula as fa
import numpy as np
import pytest

Array = np.ndarray
RESULTS = ["forward", "backward_input", "backward_weight"]
DTYPES = {"float64": 1e-13, "float32": 1e-5, "bfloat16": 2.0**-8, "float16": 2.0**-11}
FORMATS = ["contiguous_format", "channels_last"]


def counts(result: str) -> dict[str, int]:
    """Methods in the order in which they are asked, and the calls that each has done."""
    pairs = (word.split("=") for word in fa._C._build_info()[f"conv_{result}"].split())
    return {name: int(number) for name, number in pairs}


METHODS = [(result, name) for result in RESULTS for name in counts(result)]


class Shape(NamedTuple):
    batch: int
    channels: int
    outputs: int
    kernel: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...] | int = 1
    padding: tuple[int, ...] | int = 0
    dilation: tuple[int, ...] | int = 1
    groups: int = 1

    def each(self, value: tuple[int, ...] | int) -> tuple[int, ...]:
        return value if isinstance(value, tuple) else (value,) * len(self.size)

    def args(self) -> tuple[Any, ...]:
        return (*map(self.each, (self.stride, self.padding, self.dilation)), self.groups)


SHAPES = [
    # one dim
    Shape(2, 4, 6, (3,), (9,), 2, 1),
    Shape(2, 20, 17, (5,), (30,), 1, 2, 2),
    Shape(3, 6, 6, (3,), (11,), 1, 1, 1, 6),
    Shape(1, 3, 1, (4,), (20,)),
    # two dims: kernels of 3 x 3 with every margin
    Shape(2, 3, 5, (3, 3), (7, 6)),
    Shape(1, 16, 16, (3, 3), (12, 13), 1, 1),
    Shape(2, 17, 33, (3, 3), (9, 10), 1, (2, 1)),
    Shape(1, 2, 3, (3, 3), (3, 4)),
    Shape(1, 18, 19, (3, 3), (3, 9)),
    Shape(2, 5, 16, (3, 3), (8, 9), 1, 3),
    # 1 x 1
    Shape(2, 2, 3, (1, 1), (5, 7)),
    Shape(1, 65, 20, (1, 1), (16, 20)),
    Shape(3, 130, 17, (1, 1), (5, 5)),
    Shape(1, 1, 7, (1, 1), (4, 9)),
    Shape(2, 33, 16, (1, 1), (9, 8), 2),
    Shape(2, 9, 32, (1, 1), (6, 6), 1, 1),
    # strides, dilations, kernels with two sides
    Shape(2, 3, 16, (7, 7), (17, 20), 2, 3),
    Shape(2, 17, 20, (2, 5), (9, 21), (2, 3), (1, 2)),
    Shape(1, 16, 48, (3, 3), (11, 12), 1, 2, 2),
    Shape(2, 66, 24, (3, 4), (10, 9), 2, 1, (2, 1)),
    Shape(1, 4, 8, (2, 2), (9, 9), 5),
    Shape(1, 20, 16, (4, 3), (4, 3)),
    Shape(2, 20, 16, (5, 1), (6, 1), 1, (2, 0)),
    # groups, and each channel by itself
    Shape(2, 12, 8, (3, 3), (7, 9), 1, 1, 1, 2),
    Shape(2, 40, 32, (3, 2), (8, 8), 2, 1, 1, 2),
    Shape(2, 4, 12, (3, 3), (6, 6), 1, 1, 1, 4),
    Shape(2, 7, 7, (3, 3), (10, 11), 1, 1, 1, 7),
    Shape(1, 35, 35, (5, 3), (9, 20), (2, 1), (2, 1), (1, 2), 35),
    Shape(2, 6, 6, (2, 2), (5, 6), 1, 2, 1, 6),
    # an output channel alone; margins, and strides, far beyond the image
    Shape(2, 9, 1, (3, 3), (8, 7), 1, 1),
    Shape(1, 3, 4, (3, 3), (3, 4), 1, 60, 55),
    Shape(1, 17, 18, (2, 3), (4, 5), 70, 40),
    # rows that fill vectors, in several tiles and slices of the depth
    Shape(1, 8, 9, (3, 3), (40, 64), 1, 1),
    Shape(1, 50, 12, (3, 3), (10, 32), (1, 2), 1),
    # kernels about as large as the image: by rows of taps, by what meets the image, by columns
    Shape(1, 1, 1, (90,), (90,)),
    Shape(2, 1, 1, (70,), (80,), 1, (3,)),
    Shape(2, 3, 2, (9, 70), (9, 71)),
    Shape(1, 2, 3, (8, 66), (9, 70), 1, (1, 2)),
    Shape(2, 4, 4, (5, 70), (6, 72), 1, 0, 1, 4),
    Shape(1, 2, 2, (20, 1), (21, 1)),
    Shape(1, 1, 2, (40,), (100,), 1, 0, 2),
    Shape(1, 1, 1, (600,), (700,), 1, 300),
    Shape(1, 2, 1, (30, 20), (34, 50), 1, (20, 0)),
    Shape(1, 1, 2, (520,), (900,), 3, 200),
    Shape(2, 9, 20, (7, 7), (7, 7)),
    Shape(2, 3, 12, (6, 7), (7, 9), 1, (0, 1)),
    Shape(1, 4, 18, (9, 8), (13, 8), (2, 1), 0, 1, 2),
    # three dims, and three of which one is flat
    Shape(1, 2, 2, (3, 5, 20), (3, 5, 21)),
    Shape(1, 4, 16, (4, 5, 6), (5, 5, 6), 1, 0, 1, 2),
    Shape(1, 3, 5, (2, 3, 2), (5, 6, 4)),
    Shape(2, 4, 6, (3, 3, 3), (6, 5, 7), (2, 1, 2), 1, 1, 2),
    Shape(1, 3, 3, (2, 2, 2), (4, 5, 6), 1, (0, 1, 2), (1, 2, 1), 3),
    Shape(2, 6, 9, (1, 3, 3), (1, 9, 32), 1, (0, 1, 1)),
]


def rounded(values: Array, dtype: str) -> Array:
    return fa.tensor(values).to(getattr(fa, dtype)).to(fa.float64).numpy()


@functools.cache
def definition(shape: Shape, dtype: str) -> dict[str, Array]:
    """Operands as that dtype has them, and each result: a sum over the kernel's taps."""
    stride, padding, dilation, groups = shape.args()
    rng = np.random.default_rng(sum(shape.size) + shape.channels)
    x = rounded(rng.normal(size=(shape.batch, shape.channels, *shape.size)), dtype)
    w = rounded(rng.normal(size=(shape.outputs, shape.channels // groups, *shape.kernel)), dtype)
    bias = rounded(rng.normal(size=shape.outputs), dtype)
    back_bias = rounded(rng.normal(size=shape.channels), dtype)
    pad = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    out_size = tuple(
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(pad.shape[2:], shape.kernel, stride, dilation, strict=True)
    )
    grad = rounded(rng.normal(size=(shape.batch, shape.outputs, *out_size)), dtype)
    split = (shape.batch, groups, -1, *out_size)
    g = grad.reshape(split)
    out = np.zeros((shape.batch, groups, shape.outputs // groups, *out_size))
    grad_pad, grad_w = np.zeros_like(pad), np.zeros_like(w)
    for tap in itertools.product(*map(range, shape.kernel)):
        window = tuple(
            slice(t * d, t * d + s * (o - 1) + 1, s)
            for t, d, s, o in zip(tap, dilation, stride, out_size, strict=True)
        )
        at = (slice(None), slice(None), *window)
        seen = pad[at].reshape(split)
        place = w[(slice(None), slice(None), *tap)].reshape(groups, -1, w.shape[1])
        out += np.einsum("ngc...,gfc->ngf...", seen, place)
        grad_pad[at] += np.einsum("ngf...,gfc->ngc...", g, place).reshape(pad[at].shape)
        flat = (shape.batch, groups, -1, int(np.prod(out_size)))
        grad_w[(slice(None), slice(None), *tap)] = np.einsum(
            "ngcp,ngfp->gfc", seen.reshape(flat), g.reshape(flat)
        ).reshape(w.shape[:2])
    ones = (-1,) + (1,) * len(out_size)
    inner = tuple(slice(p, p + n) for p, n in zip(padding, shape.size, strict=True))
    return {
        "x": x,
        "w": w,
        "bias": bias,
        "back_bias": back_bias,
        "grad": grad,
        "forward": out.reshape(grad.shape) + bias.reshape(ones),
        "backward_input": grad_pad[(slice(None), slice(None), *inner)] + back_bias.reshape(ones),
        "backward_weight": grad_w,
    }


def compute(shape: Shape, dtype: str, memory_format: str, result: str) -> Array:
    """The result by facula; the gradient of the input as a transposed convolution with a bias."""
    d = definition(shape, dtype)

    def tensor(name: str) -> fa.Tensor:
        t = fa.tensor(d[name]).to(getattr(fa, dtype))
        image = name in ("x", "grad") and t.dim() == 4
        return t.contiguous(memory_format=getattr(fa, memory_format)) if image else t

    dims = len(shape.size)
    stride, padding, dilation, groups = shape.args()
    f = fa.nn.functional
    if result == "backward_input":
        grad, w = tensor("grad"), tensor("w")
        more = tuple(
            n - ((o - 1) * s - 2 * p + v * (k - 1) + 1)
            for n, o, s, p, v, k in zip(
                shape.size, grad.shape[2:], stride, padding, dilation, shape.kernel, strict=True
            )
        )
        run = getattr(f, f"conv_transpose{dims}d")
        out = run(grad, w, tensor("back_bias"), stride, padding, more, groups, dilation)
    else:
        x, w = tensor("x"), tensor("w")
        run = getattr(f, f"conv{dims}d")
        if result == "forward":
            out = run(x, w, tensor("bias"), stride, padding, dilation, groups)
        else:
            w.requires_grad_()
            run(x, w, None, stride, padding, dilation, groups).backward(tensor("grad"))
            out = w.grad
    return out.to(fa.float64).numpy()


def cases() -> list[tuple[Shape, str, str]]:
    return [
        (shape, dtype, form)
        for shape in SHAPES
        for dtype in DTYPES
        for form in (FORMATS if len(shape.size) == 2 else FORMATS[:1])
    ]


def child(result: str, method: str) -> None:
    """Whether the method did each case, and what came out."""
    found = []
    for case in cases():
        before = counts(result)[method]
        out = compute(*case, result)
        found.append((counts(result)[method] > before, out))
    sys.stdout.buffer.write(pickle.dumps(found))


def run_child(code: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    path = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, **variables}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)


@pytest.mark.parametrize(("result", "method"), METHODS, ids=[f"{r}-{m}" for r, m in METHODS])
def test_a_method_gives_the_definition(result: str, method: str) -> None:
    code = f"import test_convolution_methods as t; t.child({result!r}, {method!r})"
    done = run_child(code, **{f"FACULA_CONV_{result.upper()}": method})
    assert done.returncode == 0, done.stderr.decode()
    served = set()
    for (shape, dtype, form), (did, got) in zip(cases(), pickle.loads(done.stdout), strict=True):
        want = definition(shape, dtype)[result]
        error = np.abs(got - want).max() / max(np.abs(want).max(), 1)
        assert error < DTYPES[dtype], (shape, dtype, form, did, error)
        if did:
            served.add(dtype)
    assert served == set(DTYPES)


# The usual choice: one shape for each method of a result, in one of the layouts.
USUAL = {
    ("forward", "unpadded"): (Shape(1, 3, 4, (3, 3), (3, 4), 1, 60, 55), 0),
    ("forward", "long_sums"): (Shape(1, 16400, 8, (1,), (20,)), 0),
    ("forward", "winograd"): (Shape(1, 16, 16, (3, 3), (12, 13), 1, 1), 0),
    ("forward", "pointwise"): (Shape(2, 2, 3, (1, 1), (5, 7)), 0),
    ("forward", "nhwc_gemm"): (Shape(2, 16, 16, (3, 3), (12, 13), 2, 1), 0),
    ("forward", "small_channels"): (Shape(2, 3, 16, (7, 7), (17, 20), 2, 3), 1),
    ("forward", "depthwise_nhwc"): (Shape(2, 7, 7, (3, 3), (10, 11), 1, 1, 1, 7), 1),
    ("forward", "depthwise"): (Shape(2, 7, 7, (3, 3), (10, 11), 1, 1, 1, 7), 0),
    ("forward", "row_tiles"): (Shape(1, 8, 9, (3, 3), (40, 64), 1, 1), 0),
    ("forward", "direct"): (Shape(2, 9, 1, (3, 3), (8, 7), 1, 1), 0),
    ("forward", "implicit_gemm"): (Shape(1, 3, 5, (2, 3, 2), (5, 6, 4)), 0),
    ("backward_input", "unpadded"): (Shape(1, 17, 18, (2, 3), (4, 5), 70, 40), 0),
    ("backward_input", "columns"): (Shape(2, 9, 20, (7, 7), (7, 7)), 0),
    ("backward_input", "long_sums"): (Shape(1, 8, 16400, (1,), (20,)), 0),
    ("backward_input", "winograd"): (Shape(1, 16, 16, (3, 3), (12, 13), 1, 1), 1),
    ("backward_input", "pointwise"): (Shape(2, 2, 3, (1, 1), (5, 7)), 1),
    ("backward_input", "nhwc_gemm"): (Shape(2, 16, 16, (3, 3), (12, 13), 2, 1), 1),
    ("backward_input", "depthwise_nhwc"): (Shape(2, 7, 7, (3, 3), (10, 11), 2, 1, 1, 7), 1),
    ("backward_input", "depthwise"): (Shape(2, 7, 7, (3, 3), (10, 11), 1, 1, 1, 7), 0),
    ("backward_input", "direct"): (Shape(2, 7, 7, (3, 3), (10, 11), 2, 1, 1, 7), 0),
    ("backward_input", "implicit_gemm"): (Shape(2, 3, 5, (3, 3), (8, 7), 1, 1), 0),
    ("backward_weight", "unpadded"): (Shape(1, 3, 4, (3, 3), (3, 4), 1, 60, 55), 0),
    ("backward_weight", "winograd"): (Shape(1, 16, 16, (3, 3), (12, 13), 1, 1), 0),
    ("backward_weight", "nhwc_gemm"): (Shape(2, 16, 16, (1, 1), (12, 13)), 0),
    ("backward_weight", "depthwise_nhwc"): (Shape(2, 7, 7, (3, 3), (10, 11), 1, 1, 1, 7), 1),
    ("backward_weight", "depthwise"): (Shape(2, 7, 7, (3, 3), (10, 11), 1, 1, 1, 7), 0),
    ("backward_weight", "direct"): (Shape(2, 9, 1, (3, 3), (8, 7), 1, 1), 0),
    ("backward_weight", "implicit_gemm"): (Shape(2, 3, 5, (3, 3), (8, 7), 1, 1), 0),
}


@pytest.mark.skipif(
    any(f"FACULA_CONV_{result.upper()}" in os.environ for result in RESULTS),
    reason="the environment names a method",
)
@pytest.mark.parametrize(("result", "method"), METHODS, ids=[f"{r}-{m}" for r, m in METHODS])
def test_the_usual_choice(result: str, method: str) -> None:
    shape, form = USUAL[result, method]
    before = counts(result)
    compute(shape, "float32", FORMATS[form], result)
    took = [name for name, number in counts(result).items() if number > before[name]]
    assert took == [method]


@pytest.mark.parametrize("result", RESULTS)
def test_an_unknown_name_is_refused(result: str) -> None:
    variable = f"FACULA_CONV_{result.upper()}"
    code = (
        "import test_convolution_methods as t\n"
        "for _ in range(2):\n"
        f"    try: t.compute(t.SHAPES[4], 'float32', t.FORMATS[0], {result!r})\n"
        "    except ValueError as e: print(e)\n"
    )
    done = run_child(code, **{variable: "fastest"})
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 2, done.stderr.decode()
    for line in lines:
        assert f"{variable}='fastest'" in line
        assert all(name in line for name in counts(result))


@pytest.mark.parametrize("value", ["depthwise", ""])
def test_a_name_that_does_not_serve_leaves_the_usual_choice(value: str) -> None:
    code = (
        "import test_convolution_methods as t\n"
        "t.compute(t.SHAPES[5], 'float32', t.FORMATS[0], 'forward')\n"
        "print({k: v for k, v in t.counts('forward').items() if v})\n"
    )
    done = run_child(code, FACULA_CONV_FORWARD=value)
    assert done.stdout.decode().strip() == "{'winograd': 1}", done.stderr.decode()
