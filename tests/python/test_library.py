"""Operators that programs define: signatures, kernels, gradients, batches, what is checked."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import facula as fa
import numpy as np
import pytest
from facula import library
from facula.library import infer_schema, parse_schema

# ---- signatures


def plain(x: fa.Tensor, n: int = 3, *, s: str = "a", f: float = 1.5, b: bool = True) -> fa.Tensor:
    return x


def lists(
    xs: list[fa.Tensor],
    y: fa.Tensor | None,
    n: Sequence[int],
    k: int | float | bool,
    d: fa.dtype = fa.int64,
) -> tuple[fa.Tensor, list[fa.Tensor]]:
    return xs[0], xs


def test_signatures_of_annotations():
    # as torch 2.13 writes them
    assert infer_schema(plain, mutates_args=()) == (
        '(Tensor x, SymInt n=3, *, str s="a", float f=1.5, bool b=True) -> Tensor'
    )
    assert infer_schema(lists, mutates_args=("xs",), op_name="f") == (
        "f(Tensor(a0!)[] xs, Tensor? y, SymInt[] n, Scalar k, ScalarType d=int64)"
        " -> (Tensor, Tensor[])"
    )


def _without(x) -> fa.Tensor: ...
def _no_result(x: fa.Tensor): ...
def _dict(x: dict) -> fa.Tensor: ...
def _many(x: fa.Tensor, *rest: int) -> fa.Tensor: ...
def _text(x: fa.Tensor) -> str: ...
def _default(x: fa.Tensor, n: list[int] = (1,)) -> fa.Tensor: ...  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_without, "x must have a type annotation"),
        (_no_result, "No return type"),
        (_dict, "x has unsupported type"),
        (_many, "'rest' is an argument without a name"),
        (_text, "Return has unsupported type"),
        (_default, "default of 'n' is a tuple"),
    ],
)
def test_functions_that_are_no_operators(function, said):
    with pytest.raises(ValueError, match=said):
        infer_schema(function, mutates_args=())


def test_names_of_written_arguments_are_looked_at():
    with pytest.raises(ValueError, match="'q'"):
        infer_schema(plain, mutates_args=("q",))
    with pytest.raises(ValueError, match="only tensors"):
        infer_schema(plain, mutates_args=("n",))


@pytest.mark.parametrize(
    "text",
    [
        "a::b.c(Tensor(a!) x, int[2] y=[1, 2], *, str? s=None) -> (Tensor(a!), Tensor[] out)",
        "f(Tensor x) -> ()",
        'f(Tensor? x=None, *, Device d="cpu", ScalarType t=int64) -> Tensor[]',
        "f() -> (int, float)",
        "f(Tensor(a -> *) x) -> Tensor(a)",
    ],
)
def test_texts_of_signatures(text):
    schema = parse_schema(text)
    assert str(schema) == text
    assert str(parse_schema(str(schema))) == text


def test_parts_of_a_signature():
    schema = parse_schema(
        "a::b.c(Tensor(q!) x, int[2] y=3, *, float f=2, Tensor(z!) out) -> Tensor"
    )
    assert (schema.name, schema.overload_name, schema.is_mutable) == ("a::b", "c", True)
    x, y, f, out = schema.arguments
    assert (x.is_write, x.is_out, out.is_out, f.kwarg_only) == (True, False, True, True)
    assert (y.N, y.default_value, y.type, f.default_value) == (2, 3, "int[]", 2.0)
    assert [a.has_default_value() for a in schema.arguments] == [False, True, True, False]
    longer = parse_schema("f(Tensor x, int n=1) -> Tensor")
    shorter = parse_schema("f(Tensor x) -> Tensor")
    assert longer.is_backward_compatible_with(shorter)
    assert not shorter.is_backward_compatible_with(longer)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("foo", "expected '\\('"),
        ("f(Tensor x", "expected ','"),
        ("f(Foo x) -> Tensor", "unknown type 'Foo'"),
        ("f(Tensor x)", "expected '->'"),
        ("f(Tensor x) -> Tensor!", "expected the end"),
        ("f(Tensor x, Tensor x) -> Tensor", "several arguments"),
        ("f(Tensor x, *) -> Tensor", "an argument after"),
        ("", "the name of an operator"),
    ],
)
def test_texts_that_are_no_signatures(text, said):
    with pytest.raises(RuntimeError, match=said):
        parse_schema(text)


# ---- operators of functions


@library.custom_op("test_library::scaled_sin", mutates_args=())
def scaled_sin(x: fa.Tensor, by: float = 2.0, *, shift: float = 0.0) -> fa.Tensor:
    return fa.from_numpy(np.sin(x.detach().numpy()) * by + shift)


@scaled_sin.register_fake
def _(x, by=2.0, *, shift=0.0):
    return fa.empty_like(x)


def _keep(ctx, inputs, keyword_only_inputs, output):
    assert keyword_only_inputs.keys() == {"shift"}
    assert ctx.needs_input_grad == (True, False)
    ctx.save_for_backward(inputs[0])
    ctx.by = inputs[1]


def _back(ctx, grad):
    return grad * fa.cos(ctx.saved_tensors[0]) * ctx.by, None


library.register_autograd("test_library::scaled_sin", _back, setup_context=_keep)


def test_values_and_gradients():
    x = fa.randn(5, dtype=fa.float64, generator=fa.Generator().manual_seed(1)).requires_grad_()
    want = np.sin(x.detach().numpy()) * 3 + 1
    np.testing.assert_allclose(scaled_sin(x, by=3, shift=1.0).detach().numpy(), want)
    np.testing.assert_allclose(
        fa.ops.test_library.scaled_sin.default(x, 3.0, shift=1.0).detach().numpy(), want
    )
    assert fa.autograd.gradcheck(lambda x: scaled_sin(x, 3.0), x)
    assert fa.autograd.gradgradcheck(lambda x: scaled_sin(x, 3.0), x)
    assert not scaled_sin(x.detach()).requires_grad


def test_shapes_without_elements():
    assert scaled_sin(fa.empty(4, 2, device="meta")).shape == (4, 2)

    @library.custom_op("test_library::no_fake", mutates_args=())
    def no_fake(x: fa.Tensor) -> fa.Tensor:
        return x * 2

    with pytest.raises(NotImplementedError, match="no fake impl"):
        no_fake(fa.empty(4, device="meta"))


def test_batches_one_by_one_and_by_a_rule():
    x = fa.randn(4, 3, generator=fa.Generator().manual_seed(2))
    want = np.sin(x.numpy()) * 2
    with pytest.warns(UserWarning, match="once for each of 4 rows"):
        np.testing.assert_allclose(fa.vmap(scaled_sin)(x).numpy(), want)
    with pytest.warns(UserWarning):
        grads = fa.vmap(fa.func.grad(lambda r: scaled_sin(r).sum()))(x)
    np.testing.assert_allclose(grads.numpy(), 2 * np.cos(x.numpy()), rtol=1e-5)
    calls = []

    @library.custom_op("test_library::twice", mutates_args=())
    def twice(x: fa.Tensor, y: fa.Tensor) -> fa.Tensor:
        return x * 2 + y

    @twice.register_vmap
    def _(info, in_dims, x, y):
        calls.append((info.batch_size, in_dims))
        return twice(x.movedim(in_dims[0], 0), y), 0

    got = fa.vmap(twice, in_dims=(1, None))(x, fa.ones(4))
    np.testing.assert_allclose(got.numpy(), 2 * x.numpy().T + 1)
    assert calls == [(3, (1, None))]


def test_lists_of_tensors_have_lists_of_gradients():
    @library.custom_op("test_library::total", mutates_args=())
    def total(xs: Sequence[fa.Tensor], by: float) -> fa.Tensor:
        return sum(x.detach() for x in xs) * by

    def keep(ctx, inputs, output):
        assert ctx.needs_input_grad == ([True, False], False)
        ctx.by, ctx.count = inputs[1], len(inputs[0])

    total.register_autograd(
        lambda ctx, grad: ([grad * ctx.by] * ctx.count, None), setup_context=keep
    )
    x = fa.ones(2, requires_grad=True)
    total([x, fa.ones(2)], 3.0).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]

    total.register_autograd(lambda ctx, grad: (grad, None))
    with pytest.raises(RuntimeError, match="list of 2"):
        total([x, fa.ones(2)], 3.0).sum().backward()


def test_several_results():
    @library.custom_op("test_library::split", mutates_args=())
    def split(x: fa.Tensor) -> tuple[fa.Tensor, int, list[fa.Tensor]]:
        return x * 2, 7, [x + 1, x + 2]

    @split.register_autograd
    def _(ctx, grad, number, others):
        assert number is None
        return 2 * grad + others[0] + others[1]

    x = fa.ones(2, requires_grad=True)
    double, seven, (one, two) = split(x)
    assert seven == 7 and two.tolist() == [3.0, 3.0]
    (double + 10 * one).sum().backward()
    assert x.grad.tolist() == [12.0, 12.0]


def test_without_a_formula_gradients_stop_with_an_error():
    @library.custom_op("test_library::opaque", mutates_args=())
    def opaque(x: fa.Tensor) -> fa.Tensor:
        return x * 2

    y = opaque(fa.ones(2, requires_grad=True))
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()


def test_memory_is_looked_at():
    @library.custom_op("test_library::same", mutates_args=())
    def same(x: fa.Tensor) -> fa.Tensor:
        return x.view(-1)

    with pytest.raises(RuntimeError, match="may not alias"):
        same(fa.ones(2))

    @library.custom_op("test_library::double_", mutates_args=("x",))
    def double_(x: fa.Tensor) -> None:
        x.numpy()[:] *= 2

    x = fa.ones(2)
    version = x._version
    assert double_(x) is None
    assert x.tolist() == [2.0, 2.0] and x._version > version
    with pytest.raises(RuntimeError, match="non-functional"):
        double_.register_autograd(lambda ctx: None)


def test_autocast_casts_inputs():
    seen = []

    @library.custom_op("test_library::seen", mutates_args=())
    def look(x: fa.Tensor, y: fa.Tensor) -> fa.Tensor:
        seen.append((x.dtype, y.dtype, fa.is_autocast_enabled("cpu")))
        return x.clone()

    look.register_autocast("cpu", fa.bfloat16)
    with fa.autocast("cpu", dtype=fa.bfloat16):
        look(fa.ones(2), fa.ones(2, dtype=fa.int64))
    look(fa.ones(2), fa.ones(2))
    assert seen == [(fa.bfloat16, fa.int64, False), (fa.float32, fa.float32, False)]
    with pytest.raises(TypeError, match="floating"):
        look.register_autocast("cpu", fa.int64)


def test_classes_answer():
    class Named(fa.Tensor):
        pass

    @library.custom_op("test_library::asks", mutates_args=())
    def asks(x: fa.Tensor) -> fa.Tensor:
        return x + 1

    @asks.register_torch_dispatch(Named)
    def _(cls, func, types, args, kwargs):
        return ("answer", cls, func is asks._opoverload)

    assert asks(fa.ones(1).as_subclass(Named)) == ("answer", Named, True)
    assert asks(fa.ones(1)).item() == 2
    with pytest.raises(TypeError, match="subclass of Tensor"):
        asks.register_torch_dispatch(dict, lambda: None)


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "missing value for argument 'x'"),
        ((1,), {}, "type 'Tensor' for argument 'x' but instead found type 'int'"),
        ((fa.ones(1), "s"), {}, "type 'float' for argument 'by'"),
        ((fa.ones(1), 1.0, 2.0), {}, "at most 2"),
        ((fa.ones(1),), {"q": 1}, "unknown keyword argument 'q'"),
        ((fa.ones(1), 1.0), {"by": 1.0}, "given twice"),
    ],
)
def test_arguments_are_checked(args, kwargs, said):
    with pytest.raises(RuntimeError, match=said):
        scaled_sin(*args, **kwargs)


# ---- operators of signatures


def test_a_library_of_operators():
    lib = library.Library("test_library2", "DEF")
    assert lib.define("twice(Tensor x, int n=2) -> Tensor") == "twice"
    ops = fa.ops.test_library2
    with pytest.raises(NotImplementedError, match="no kernel"):
        ops.twice(fa.ones(1))
    lib.impl("twice", lambda x, n: x * n, "CPU")
    x = fa.ones(2, requires_grad=True)
    ops.twice(x, 3).sum().backward()  # through what the kernel calls
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="allow_override"):
        lib.impl("twice", lambda x, n: x, "CPU")
    with pytest.raises(RuntimeError, match="same name"):
        lib.define("twice(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="Only a single"):
        library.Library("test_library2", "DEF")
    more = library.Library("test_library2", "FRAGMENT")
    more.define("twice.text(str s) -> str")
    more.impl("twice.text", lambda s: s * 2)
    assert ops.twice("a") == "aa" and ops.twice.overloads() == ["default", "text"]
    kernel = library.get_kernel("test_library2::twice", "CPU")
    assert kernel.call_boxed(None, fa.ones(1), 5).item() == 5
    del lib, more
    gc.collect()
    assert not hasattr(ops, "twice")


def test_kernels_may_come_before_their_operator():
    @library.register_fake("test_library3::later")
    def _(x):
        return x.new_empty(7)

    assert not hasattr(library._operator.space("test_library3"), "later")
    library.define("test_library3::later", "(Tensor x) -> Tensor")
    library.impl("test_library3::later", ["cpu"], lambda x: x + 1)
    later = fa.ops.test_library3.later
    assert later(fa.ones(1, device="meta")).shape == (7,)
    assert later(fa.ones(1)).item() == 2


def test_what_libraries_refuse():
    with pytest.raises(ValueError, match="none of"):
        library.Library("test_library4", "NEW")
    with pytest.raises(ValueError, match="facula's own"):
        library.Library("aten", "DEF")
    with pytest.raises(RuntimeError, match="cannot be given other kernels"):
        library.Library("aten", "IMPL").impl("add.Tensor", lambda a, b: a, "CPU")
    space = library.Library("test_library4", "FRAGMENT")
    space.define("f(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="no such layer"):
        space.impl("f", lambda x: x, "AutogradCPU")
    with pytest.raises(ValueError, match="space::name"):
        library.custom_op("bad", plain, mutates_args=())
    for refused in (lambda: library.get_ctx(), lambda: library.triton_op("a::b", mutates_args=())):
        with pytest.raises(RuntimeError, match=r"get_ctx|Triton"):
            refused()
    with pytest.raises(NotImplementedError):
        library.fallthrough_kernel()


# ---- opcheck


def test_operators_that_keep_what_they_say():
    x = fa.rand(3, requires_grad=True)
    assert library.opcheck(scaled_sin, (x,)) == {
        "test_schema": "SUCCESS",
        "test_autograd_registration": "SUCCESS",
        "test_faketensor": "SUCCESS",
    }


def test_operators_that_do_not():
    space = library.Library("test_library5", "FRAGMENT")
    space.define("writes(Tensor x) -> Tensor")
    space.impl("writes", lambda x: x.add_(1).clone(), "CPU")
    space.impl("writes", lambda x: x.new_empty(9), "Meta")
    with pytest.raises(RuntimeError, match="wrote to 'x'"):
        library.opcheck(fa.ops.test_library5.writes, (fa.ones(2),), test_utils="test_schema")
    found = library.opcheck(fa.ops.test_library5.writes, (fa.ones(2),), raise_exception=False)
    assert "shape" in found["test_faketensor"]
    space.define("view(Tensor x) -> Tensor")
    space.impl("view", lambda x: x.view(-1), "CPU")
    with pytest.raises(RuntimeError, match="shares memory"):
        library.opcheck(fa.ops.test_library5.view, (fa.ones(2),), test_utils="test_schema")
    with pytest.raises(ValueError, match="test_utils"):
        library.opcheck(scaled_sin, (fa.ones(2),), test_utils="test_all")


@pytest.mark.parametrize(
    ("declared", "returned"),
    [
        ("Tensor", 5),
        ("Tensor", [fa.ones(1)]),
        ("(Tensor, Tensor)", (fa.ones(1),)),
        ("(Tensor, Tensor)", fa.ones(1)),
        ("int", 2.5),
    ],
)
def test_results_are_what_the_signature_says(declared, returned):
    operator = fa.library.custom_op(
        "checks::returned", lambda x: returned, mutates_args=(), schema=f"(Tensor x) -> {declared}"
    )
    with pytest.raises(RuntimeError, match="its kernel returned a value of type"):
        operator(fa.ones(2))
