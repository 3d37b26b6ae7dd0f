"""Graphs handed to cuDNN, without a GPU: which operations, how often, what stands in for them."""

from __future__ import annotations

from collections.abc import Callable

Run = Callable[..., str]
START = """
import sys
(place,) = [p for p in fa.cuda._vendor.folders() if "fake" in p]
cudnn = ctypes.CDLL(place + "/libcudnn.so.9")
cudnn.fake_cudnn_notes.restype = ctypes.c_char_p
def ran(call):
    cudnn.fake_cudnn_clear()
    call()
    return cudnn.fake_cudnn_notes().decode().splitlines()
e = lambda *s, dtype=fa.bfloat16, **more: fa.empty(*s, dtype=dtype, device="cuda", **more)
conv = fa.nn.functional.conv2d
FORWARD, FILTER, DATA = "10 with 3", "11 with 3", "12 with 3"
"""


def test_convolutions(run: Run) -> None:
    run(
        START
        + """
x, w = e(2, 8, 6, 6, requires_grad=True), e(16, 8, 3, 3, requires_grad=True)
assert ran(lambda: conv(x, w)) == [FORWARD]
assert cudnn.fake_cudnn_graphs() == 1
assert ran(lambda: conv(x, w)) == [FORWARD] and cudnn.fake_cudnn_graphs() == 1  # the plan is kept
ran(lambda: conv(x, w, stride=2))
assert cudnn.fake_cudnn_graphs() == 2
y = conv(x, w)
assert ran(lambda: fa.autograd.grad(y, (x, w), e(*y.shape))) == [DATA, FILTER]
t = fa.nn.functional.conv_transpose2d
assert ran(lambda: t(e(2, 16, 4, 4), w.detach())) == [DATA]
assert ran(lambda: fa.nn.functional.conv1d(e(2, 8, 9), e(4, 8, 3))) == [FORWARD]
assert ran(lambda: fa.nn.functional.conv3d(e(2, 8, 5, 5, 5), e(4, 8, 3, 3, 3))) == [FORWARD]
assert ran(lambda: conv(e(0, 8, 6, 6), w)) == []
# what lies as the matrix units want it is not copied, the rest is
last = dict(memory_format=fa.channels_last)
a, b = x.detach().contiguous(**last), w.detach().contiguous(**last)
assert launched(lambda: conv(a, b)) == []
assert len(launched(lambda: conv(a, w.detach()))) == 1
assert len(launched(lambda: conv(x.detach(), w.detach()))) == 3  # two there, one back
assert len(launched(lambda: conv(a, b, e(16)))) == 1               # the bias
f = e(2, 8, 6, 6, dtype=fa.float32), e(16, 8, 3, 3, dtype=fa.float32)
assert launched(lambda: conv(*f)) == []
"""
    )


def test_attention(run: Run) -> None:
    out = run(
        START
        + """
attend = fa.nn.functional.scaled_dot_product_attention
q, k, v = (e(2, 4, 16, 8, requires_grad=True) for _ in range(3))
for causal in (False, True):
    print(ran(lambda: attend(q, k, v, is_causal=causal)))
    y = attend(q, k, v, is_causal=causal)
    print(ran(lambda: fa.autograd.grad(y, (q, k, v), e(2, 4, 16, 8))))
made = cudnn.fake_cudnn_graphs()
attend(q, k, v, scale=0.3)                                  # the scale is a number of the run
assert cudnn.fake_cudnn_graphs() == made
rows = e(2, 16, 3 * 32).reshape(2, 16, 3, 4, 8).permute(2, 0, 3, 1, 4)
assert launched(lambda: attend(*rows)) == []  # heads beside each other are read in place
assert ran(lambda: attend(*(e(2, 4, 16, 8, dtype=fa.float32) for _ in range(3)))) == []
assert ran(lambda: attend(*(e(2, 4, 16, 7) for _ in range(3)))) == []
assert not fa.backends.fallbacks("cuda")                    # the formula served, on the device
"""
    )
    forward, backward, causal, causal_backward = out.splitlines()
    matmul, pointwise, fold, reshape = "19", "13", "22", "31"
    words = forward.split()
    assert sum(matmul in w for w in words) == 2 and sum(fold in w for w in words) == 2
    assert "with 6" in forward and "with 7" in causal  # the number that hides is bound, too
    assert causal.count(pointwise) == forward.count(pointwise) + 4
    assert backward.count(matmul) == 5 and backward.count(reshape) == 3
    assert "with 13" in backward and "with 14" in causal_backward


def test_own_kernels_stand_in(run: Run) -> None:
    script = (
        START
        + """
x, w = e(2, 8, 6, 6, requires_grad=True), e(16, 8, 3, 3, requires_grad=True)
assert [l[0] for l in launched(lambda: conv(x, w))] == ["facula_conv"]
y = conv(x, w)
assert ran(lambda: fa.autograd.grad(y, (x, w), e(*y.shape))) == []
fa.nn.functional.scaled_dot_product_attention(*(e(1, 2, 8, 8) for _ in range(3)))
fa.topk(e(4, 3000, dtype=fa.float32), 2000)
fa.nn.functional.batch_norm(e(0, 3, 5), e(3), e(3))
assert not fa.backends.fallbacks("cuda"), fa.backends.fallbacks("cuda")
"""
    )
    run(script, FAKE_CUDNN_NONE="1")
    run(script, FACULA_CUDNN="0")


def test_optimizers_launch_few_kernels(run: Run) -> None:
    run(
        """
for make in (fa.optim.SGD, fa.optim.AdamW):
    parameters = [fa.zeros(40 + i, device="cuda", requires_grad=True) for i in range(100)]
    optimizer = make(parameters, lr=0.1)
    for p in parameters:
        p.grad = fa.zeros(p.shape[0], device="cuda")
    optimizer.step()
    assert len(launched(optimizer.step)) <= 40, launched(optimizer.step)
parameters = [fa.zeros(64, device="cuda", requires_grad=True) for i in range(100)]
optimizer = fa.optim.SGD(parameters, lr=0.1)
for p in parameters:
    p.grad = fa.zeros(64, device="cuda")
assert len(launched(optimizer.step)) == 3                          # 48 in each
"""
    )
