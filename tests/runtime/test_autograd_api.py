"""Autograd as Python sees it: switches, hooks, functions, checks."""

import threading
import weakref

import facula as fa
import pytest
from facula.autograd import Function, forward_ad, functional, gradcheck, gradgradcheck
from facula.autograd.function import once_differentiable


def leaf(*values):
    return fa.tensor(values, dtype=fa.float64, requires_grad=True)


# ---- switches ----
def test_no_grad_forms():
    x = leaf(1.0)
    with fa.no_grad():
        assert not (x * x).requires_grad
        with fa.enable_grad():
            assert (x * x).requires_grad
    assert (x * x).requires_grad

    @fa.no_grad()
    def f():
        return fa.is_grad_enabled()

    @fa.no_grad
    def g():
        return fa.is_grad_enabled()

    assert not f() and not g() and fa.is_grad_enabled()
    switch = fa.no_grad()
    with switch, switch:
        assert not fa.is_grad_enabled()
    assert fa.is_grad_enabled()
    with pytest.raises(KeyError), fa.no_grad():
        raise KeyError
    assert fa.is_grad_enabled()
    with pytest.raises(TypeError, match="class"):
        fa.no_grad(type("C", (), {}))


def test_generators_hold_the_switch_only_while_they_run():
    @fa.no_grad()
    def numbers():
        try:
            for _ in range(3):
                got = yield fa.is_grad_enabled()
                assert got is None or got == "sent"
        finally:
            assert not fa.is_grad_enabled()
        return "end"

    g = numbers()
    assert next(g) is False and fa.is_grad_enabled()
    assert g.send("sent") is False and fa.is_grad_enabled()
    g.close()
    g = numbers()
    next(g)
    with pytest.raises(KeyError):
        g.throw(KeyError())
    assert [*numbers()] == [False] * 3


def test_set_grad_enabled():
    fa.set_grad_enabled(False)
    try:
        assert not fa.is_grad_enabled()
    finally:
        fa.set_grad_enabled(True)
    with fa.set_grad_enabled(False):
        assert not fa.is_grad_enabled()
    assert fa.is_grad_enabled()

    @fa.set_grad_enabled(False)
    def f():
        return fa.is_grad_enabled()

    assert fa.is_grad_enabled() and not f()


def test_inference_mode():
    x = leaf(1.0)
    with fa.inference_mode():
        y = x * x
        assert fa.is_inference_mode_enabled() and not y.requires_grad and y.is_inference()
        with fa.inference_mode(False):
            assert not fa.is_inference_mode_enabled() and (x * x).requires_grad
    assert not fa.is_inference_mode_enabled()

    @fa.inference_mode()
    def f():
        return fa.is_inference_mode_enabled()

    assert f()
    with pytest.raises(RuntimeError, match="inference"):
        y.requires_grad_()


def test_switches_belong_to_threads():
    seen = []
    with fa.no_grad():
        t = threading.Thread(target=lambda: seen.append(fa.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]


# ---- tensors ----
def test_properties():
    x = leaf(1.0, 2.0)
    y = x * 2
    assert x.is_leaf and x.grad is None and x.grad_fn is None and not y.is_leaf
    assert y.grad_fn.name() and y.output_nr == 0 and not y.retains_grad
    y.retain_grad()
    assert y.retains_grad
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0] and x.grad.tolist() == [2.0, 2.0]
    x.grad = None
    assert x.grad is None
    x.grad = fa.tensor([1.0, 1.0], dtype=fa.float64)
    del x.grad
    assert x.grad is None
    for bad in (3, fa.tensor([1.0], dtype=fa.float64), fa.tensor([1.0, 2.0]), x):
        with pytest.raises((TypeError, RuntimeError, ValueError)):
            x.grad = bad
    with pytest.raises(RuntimeError):
        y.requires_grad = False
    with pytest.raises(RuntimeError, match="floating"):
        fa.tensor([1]).requires_grad = True
    d = y.detach()
    assert not d.requires_grad and d.data_ptr() == y.data_ptr()
    assert x.data.data_ptr() == x.data_ptr() and not x.data.requires_grad


def test_data_setter():
    x = leaf(1.0, 2.0)
    x.data = fa.tensor([3.0], dtype=fa.float64)
    assert x.tolist() == [3.0] and x.requires_grad and x.shape == (1,)
    with pytest.raises(RuntimeError, match="dtype"):
        x.data = fa.tensor([1])
    with pytest.raises(TypeError):
        x.data = 3


def test_backward_arguments():
    x = leaf(1.0, 2.0)
    (x * x).backward(fa.tensor([1.0, 10.0], dtype=fa.float64))
    assert x.grad.tolist() == [2.0, 40.0]
    with pytest.raises(RuntimeError):
        (x * x).backward()
    with pytest.raises(TypeError, match="gradient"):
        (x * x).backward(3)
    with pytest.raises(ValueError, match="inputs"):
        (x * x).sum().backward(inputs=[])
    y = leaf(5.0)
    x.grad = None
    (x.sum() * y.sum()).backward(inputs=[y])
    assert x.grad is None and y.grad.tolist() == [3.0]
    z = (x * x).sum()
    z.backward(retain_graph=True)
    z.backward()
    assert x.grad.tolist() == [4.0, 8.0]
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()


def test_grad():
    x, y = leaf(1.0, 2.0), leaf(3.0)
    z = (x * x).sum()
    (g,) = fa.autograd.grad(z, x, create_graph=True)
    assert g.tolist() == [2.0, 4.0] and g.requires_grad and x.grad is None
    (h,) = fa.autograd.grad(g.sum(), x)
    assert h.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError):
        fa.autograd.grad((x * x).sum(), y)
    assert fa.autograd.grad((x * x).sum(), (x, y), allow_unused=True)[1] is None
    zeros = fa.autograd.grad((x * x).sum(), (x, y), materialize_grads=True)[1]
    assert zeros.tolist() == [0.0]
    with pytest.raises(TypeError, match="outputs"):
        fa.autograd.grad(3, x)
    with pytest.raises(TypeError, match="element 1"):
        fa.autograd.grad((x * x).sum(), [x, 3])
    with pytest.raises(ValueError):
        fa.autograd.grad((x * x).sum(), [])
    with pytest.raises(RuntimeError, match="2 tensors"):
        fa.autograd.backward([x * x, x * x], [None])


# ---- hooks ----
def test_tensor_hooks():
    x = leaf(1.0, 2.0)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.tolist()))
    x.register_hook(lambda g: g * 2)
    y = x * 3
    y.register_hook(lambda g: g + 1)
    y.sum().backward()
    assert seen == [[6.0, 6.0]] and x.grad.tolist() == [12.0, 12.0]
    handle.remove()
    handle.remove()
    (x * 1).sum().backward()
    assert len(seen) == 1
    with x.register_hook(lambda g: seen.append(1)):
        pass
    (x * 1).sum().backward()
    assert len(seen) == 1
    with pytest.raises(TypeError, match="callable"):
        x.register_hook(3)
    with pytest.raises(RuntimeError, match="grad"):
        x.detach().register_hook(print)


def test_post_accumulate_hook():
    x = leaf(1.0)
    seen = []

    def hook(t):
        seen.append((t is x, t.grad.item()))
        t.grad = None

    x.register_post_accumulate_grad_hook(hook)
    (x * 5).sum().backward()
    assert seen == [(True, 5.0)] and x.grad is None
    with pytest.raises(RuntimeError, match="leaves"):
        (x * 2).register_post_accumulate_grad_hook(hook)


def test_errors_in_hooks_come_through():
    class Mine(Exception):
        pass

    x = leaf(1.0)

    def hook(g):
        raise Mine("text")

    handle = x.register_hook(hook)
    with pytest.raises(Mine, match="text"):
        (x * x).sum().backward()
    handle.remove()
    bad = x.register_hook(lambda g: 3)
    with pytest.raises(TypeError, match="hook must return"):
        (x * x).sum().backward()
    bad.remove()
    (x * x).sum().backward()


def test_node_hooks():
    x = leaf(1.0, 2.0)
    y = x * 3
    seen = []
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.grad_fn.register_hook(lambda ins, outs: seen.append((ins[0].tolist(), outs[0].tolist())))
    y.sum().backward()
    assert seen == [([6.0, 6.0], [2.0, 2.0])] and x.grad.tolist() == [6.0, 6.0]


def test_nodes():
    x = leaf(1.0)
    y = x * x
    node = y.grad_fn
    assert node == y.grad_fn and hash(node) == hash(y.grad_fn) and node.name() in repr(node)
    (a, n), _ = node.next_functions
    assert a.name() == "AccumulateGrad" and a.variable is x and n == 0
    with pytest.raises(AttributeError):
        _ = node.nothing
    with pytest.raises(AttributeError):
        _ = node._saved_nothing
    node.metadata["k"] = 1
    assert isinstance(node, fa.autograd.graph.Node)


# ---- Function ----
class Square(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return grad * 2 * x * ctx.scale, None


def test_function():
    x = leaf(1.0, 2.0)
    y = Square.apply(x, 3.0)
    assert y.tolist() == [3.0, 12.0] and y.grad_fn.name() == "SquareBackward"
    assert y.grad_fn.scale == 3.0
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    assert gradcheck(lambda t: Square.apply(t, 2.0), (x,))
    assert gradgradcheck(lambda t: Square.apply(t, 2.0), (x,))
    with fa.no_grad():
        assert Square.apply(x, 1.0).grad_fn is None
    with pytest.raises(RuntimeError, match="apply"):
        Square()


def test_function_lets_go_of_everything():
    x = leaf(1.0)
    held = fa.tensor([1.0])
    ref = weakref.ref(held)

    class Keep(Function):
        @staticmethod
        def forward(ctx, t, h):
            ctx.held = h
            return t * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    y = Keep.apply(x, held)
    del held
    assert ref() is not None
    del y
    assert ref() is None


def test_setup_context_and_several_outputs():
    class Split(Function):
        @staticmethod
        def forward(x):
            return x * 2, x > 1, "text"

        @staticmethod
        def setup_context(ctx, inputs, output):
            (ctx.x,) = inputs
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, *rest):
            return g * 2

    x = leaf(1.0, 2.0)
    y, mask, text = Split.apply(x)
    assert text == "text" and mask.tolist() == [False, True] and not mask.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_function_marks_dirty():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0, 2.0)
    y = x * 1
    z = Double.apply(y)
    assert z is y
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_materialize_grads():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            seen.append((a, b))
            return (a if a is not None else 0) + (b * 2 if b is not None else 0), None

    x = leaf(1.0)
    Two.apply(x, True)[0].sum().backward()
    assert seen[0][1].tolist() == [0.0]
    Two.apply(x, False)[0].sum().backward()
    assert seen[1][1] is None


@pytest.mark.parametrize(
    ("result", "error", "text"),
    [
        (lambda g: (g, g), RuntimeError, "2 gradients"),
        (lambda g: (), RuntimeError, "0 gradients"),
        (lambda g: 3, TypeError, "Tensors or None"),
        (lambda g: 1 / 0, ZeroDivisionError, "zero"),
        (lambda g: g.new_zeros(7), RuntimeError, "shape"),
    ],
)
def test_bad_backward(result, error, text):
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return result(g)

    x = leaf(1.0, 2.0)
    with pytest.raises(error, match=text):
        Bad.apply(x).sum().backward()


def test_function_without_backward():
    class Forward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    with pytest.raises(NotImplementedError, match="backward"):
        Forward.apply(leaf(1.0)).sum().backward()
    with pytest.raises(NotImplementedError, match="forward"):
        Function.apply(leaf(1.0))


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    x = leaf(1.0, 2.0)
    Once.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    (g,) = fa.autograd.grad(Once.apply(x), x, leaf(1.0, 1.0), create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


# ---- checks ----
def test_gradcheck_finds_errors():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 3 * ctx.saved_tensors[0]

    x = leaf(1.0, 2.0)
    for fast in (False, True):
        with pytest.raises(RuntimeError, match="output 0 with respect to input 0"):
            gradcheck(Wrong.apply, (x,), fast_mode=fast)
        assert not gradcheck(Wrong.apply, (x,), fast_mode=fast, raise_exception=False)
        assert gradcheck(lambda t: t * t, (x,), fast_mode=fast, check_forward_ad=True)
        assert gradgradcheck(lambda t: t * t * t, (x,), fast_mode=fast)
    with pytest.raises(ValueError, match="requires grad"):
        gradcheck(lambda t: t, (x.detach(),))


def test_gradcheck_complex():
    z = fa.tensor([1 + 2j, -0.5j], dtype=fa.complex128, requires_grad=True)
    for fast in (False, True):
        assert gradcheck(lambda t: t * t, (z,), fast_mode=fast)
        assert gradcheck(lambda t: t.real * 2, (z,), fast_mode=fast)


def test_forward_mode():
    x, t = fa.tensor([1.0, 2.0]), fa.tensor([1.0, 10.0])
    with forward_ad.dual_level():
        d = forward_ad.make_dual(x, t)
        out = forward_ad.unpack_dual(d * d)
        assert out.primal.tolist() == [1.0, 4.0] and out.tangent.tolist() == [2.0, 40.0]
        assert forward_ad.unpack_dual(x).tangent is None
        assert "tangent=" in repr(d)
        with pytest.raises(ValueError, match="shape"):
            forward_ad.make_dual(x, fa.tensor([1.0]))
        with pytest.raises(RuntimeError):
            forward_ad.enter_dual_level()
    assert forward_ad.unpack_dual(d).tangent is None


def test_functional():
    x = fa.tensor([1.0, 2.0], dtype=fa.float64)
    v = fa.tensor([1.0, 10.0], dtype=fa.float64)
    assert functional.jacobian(lambda t: t * t, x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert functional.hessian(lambda t: (t * t * t).sum(), x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert functional.vjp(lambda t: t * t, x, v)[1].tolist() == [2.0, 40.0]
    assert functional.jvp(lambda t: t * t, x, v)[1].tolist() == [2.0, 40.0]
    assert functional.vhp(lambda t: (t * t * t).sum(), x, v)[1].tolist() == [6.0, 120.0]


def test_anomaly_mode():
    assert not fa.is_anomaly_enabled()
    with fa.autograd.detect_anomaly():
        assert fa.is_anomaly_enabled()
        with fa.autograd.set_detect_anomaly(False):
            assert not fa.is_anomaly_enabled()
    assert not fa.is_anomaly_enabled()


def test_data_of_another_shape_is_blamed_on_the_node_that_saved_it():
    y = fa.ones(3, requires_grad=True) * 2
    s = (y * y).sum()
    y.data = fa.ones(5)
    with pytest.raises(
        RuntimeError, match=r"MulBackward.*\.data = .*`(self|other)`.*another shape"
    ):
        s.backward()


def test_a_view_takes_other_data_and_leaves_its_base():
    x = fa.zeros(4)
    view = x[:2]
    view.data = fa.ones(3)
    view.add_(1)
    assert view.tolist() == [2, 2, 2] and x.tolist() == [0, 0, 0, 0]
    # What was computed keeps its history, and what is done to it from then on is its own.
    w = fa.ones(4, requires_grad=True)
    y = w * 2
    view = y[:2]
    view.data = fa.full((2,), 5.0)
    view.mul_(3)
    assert y.tolist() == [2, 2, 2, 2]
    (view * view).sum().backward()
    assert w.grad.tolist() == [180, 180, 0, 0]  # 2 * 15 * 3 * 2
    # A leaf stays one.
    base = fa.zeros(4)
    leaf = base[:2].requires_grad_()
    leaf.data = fa.ones(2)
    (leaf * 3).sum().backward()
    assert leaf.is_leaf and leaf.grad.tolist() == [3, 3]
    # A view taken without gradients has none.
    with fa.no_grad():
        plain = w[:2]
    plain.data = fa.ones(2)
    plain.add_(1)
    assert not plain.requires_grad and w.tolist() == [1, 1, 1, 1]
    # One that came to require them by its base keeps that.
    base, weight = fa.zeros(4), fa.ones(4, requires_grad=True)
    view = base[:2]
    base.add_(weight)
    view.data = fa.full((2,), 7.0)
    view.sum().backward()
    assert weight.grad.tolist() == [1, 1, 0, 0]
