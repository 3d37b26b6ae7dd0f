"""Errors of functions made of operators: they name the function called, and its argument."""

from __future__ import annotations

import functools
import re
from typing import Any

import facula as fa
import pytest
from facula._errors import telling

F = fa.nn.functional
X, TARGET = fa.zeros(1, 3), fa.tensor([0])
IMAGE, PLACES = fa.zeros(1, 1, 2, 2), fa.zeros(1, 1, 2, 2, dtype=fa.int64)


def holding(value: int, like: fa.Tensor) -> fa.Tensor:
    held = like.clone()
    held.reshape(-1)[-1] = value
    return held


# The call, the exception, the argument that it is about (None: several), words of the text.
CASES: dict[str, tuple[Any, type, str | None, str]] = {
    "max_unpool1d": (
        lambda: F.max_unpool1d(IMAGE[0], holding(99, PLACES[0]), 2),
        IndexError, "indices", "indices: index 99 is out of range",
    ),
    "max_unpool2d": (
        lambda: F.max_unpool2d(IMAGE, holding(-1, PLACES), 2),
        IndexError, "indices", "indices: index -1 is out of range",
    ),
    "max_unpool3d": (
        lambda: F.max_unpool3d(IMAGE[None], holding(10**12, PLACES[None]), 2),
        IndexError, "indices", "indices: index 1000000000000 is out of range",
    ),
    "max_unpool2d of floats": (
        lambda: F.max_unpool2d(IMAGE, IMAGE, 2), IndexError, None, "must be int64 or int32",
    ),
    "multilabel_margin_loss": (
        lambda: F.multilabel_margin_loss(X, fa.tensor([[7, -1, -1]])),
        IndexError, "target", "target: index 7 is out of range",
    ),
    "multi_margin_loss": (
        lambda: F.multi_margin_loss(X, TARGET + 7),
        IndexError, "target", "target: index 7 is out of range",
    ),
    "embedding": (
        lambda: F.embedding(TARGET + 9, X), IndexError, "input", "input: index 9 is out of range",
    ),
    "embedding_bag": (
        lambda: F.embedding_bag(TARGET[None] + 9, X), IndexError, "input", "index 9 is out",
    ),
    "take_along_dim": (
        lambda: fa.take_along_dim(X, fa.tensor([[5]]), 1),
        IndexError, "indices", "indices: index 5 is out of range",
    ),
    "gather": (lambda: X.gather(1, fa.tensor([[5]])), IndexError, "index", "index 5 is out"),
    "det": (lambda: fa.det(fa.zeros(2, 3)), RuntimeError, "self", "self must be"),
    "svd": (lambda: fa.svd(fa.zeros(3)), RuntimeError, "self", "self must be a matrix"),
    "flatten": (lambda: fa.flatten(X, 0, 9), IndexError, "end_dim", "end_dim 9 is out of range"),
    "cosine_embedding_loss": (
        lambda: F.cosine_embedding_loss(fa.zeros(4, 4), fa.zeros(3, 4), fa.ones(3)),
        RuntimeError, None, r"called with input1 \(4, 4\), input2 \(3, 4\), target \(3,\)",
    ),
    "margin_ranking_loss": (
        lambda: F.margin_ranking_loss(fa.zeros(2), fa.zeros(3), fa.ones(3)),
        RuntimeError, None, r"called with input1 \(2,\), input2 \(3,\)",
    ),
    "polar": (lambda: fa.polar(fa.zeros(2), fa.zeros(3)), RuntimeError, None, r"called with abs"),
    "chain_matmul": (
        lambda: fa.chain_matmul(fa.zeros(2, 3), fa.zeros(4, 2)),
        RuntimeError, None, "cannot be multiplied",
    ),
    "upsample": (lambda: F.upsample(X, [3, 3]), NotImplementedError, "input", "expected 3"),
    "histogram": (
        lambda: fa.histogram(fa.zeros(3).to(fa.complex64), 3), RuntimeError, None, "no order",
    ),
    "conv_tbc": (
        lambda: fa.conv_tbc(fa.zeros(3, 4, 5), fa.zeros(2, 3, 4), fa.zeros(4)),
        RuntimeError, None, "channels",
    ),
    "native_layer_norm": (
        lambda: fa.native_layer_norm(X, [2], None, None, 1e-5), RuntimeError, None, "normalized",
    ),
    "frobenius_norm": (lambda: fa.frobenius_norm(X, [5]), IndexError, "dim", "dim 5 is out"),
    "kaiser_window": (lambda: fa.kaiser_window(1 << 62), RuntimeError, None, "bytes"),
    "affine_grid": (
        lambda: F.affine_grid(fa.zeros(2, 3, 3), [2, 3, 4, 4]), ValueError, None, "affine matrices",
    ),
    "alpha_dropout": (
        lambda: F.alpha_dropout("a"), TypeError, "input", "'input' must be a Tensor, not str",
    ),
    "max_pool2d": (
        lambda: F.max_pool2d("a", 2), TypeError, "input", "'input' must be a Tensor, not str",
    ),
    "pdist": (lambda: F.pdist(None), TypeError, "input", "must be a Tensor, not None"),
    "pad_sequence": (
        lambda: fa.nn.utils.rnn.pad_sequence([X, fa.zeros(2, 4)]), RuntimeError, None, "sizes must",
    ),
    "jvp": (
        lambda: fa.func.jvp(lambda x: x, (X,), (fa.zeros(2),)), ValueError, "primals", "shape",
    ),
    "lp_pool1d": (
        lambda: F.lp_pool1d(fa.zeros(1, 1, 4), 2.0, 0), ValueError, "kernel_size", "at least 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_errors_name_the_call(name: str) -> None:
    call, kind, argument, text = CASES[name]
    with pytest.raises(kind, match=text) as raised:
        call()
    error: Any = raised.value
    assert error.operator == name.split()[0] and error.argument == argument, (error, error.argument)
    assert str(error) == f"{error.operator}(): {error.text}"
    assert "scatter" not in str(error) and str(error).count("()") == 1


def test_errors_of_a_users_function_stay() -> None:
    def distance(a: Any, b: Any) -> Any:
        return fa.zeros(2) + fa.zeros(3)

    with pytest.raises(RuntimeError, match=r"^add\(\): self is"):
        F.triplet_margin_with_distance_loss(X, X, X, distance_function=distance)

    def wrong(a: Any, b: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        F.triplet_margin_with_distance_loss(X, X, X, distance_function=wrong)

    def syntax(a: Any, b: Any) -> Any:
        compile("1 +", "mine", "eval")

    with pytest.raises(SyntaxError, match="invalid syntax"):
        F.triplet_margin_with_distance_loss(X, X, X, distance_function=syntax)


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: fa.func.vjp(f, x),
        lambda f, x: fa.func.jvp(f, (x,), (x,)),
        lambda f, x: fa.func.jacrev(f)(x),
        lambda f, x: fa.func.jacfwd(f)(x),
        lambda f, x: fa.func.hessian(f)(x),
        lambda f, x: F.triplet_margin_with_distance_loss(
            x, x, x, distance_function=lambda a, b: f(a)
        ),
    ],
    ids=["vjp", "jvp", "jacrev", "jacfwd", "hessian", "distance"],
)
def test_errors_within_a_users_function_name_what_it_calls(call: Any) -> None:
    """Code of facula that it calls, and code of facula that is the function itself."""
    twice = functools.partial(F.interpolate, size=3, scale_factor=2)
    for function in (lambda x: F.interpolate(x, size=3, scale_factor=2), twice):
        with pytest.raises(ValueError, match="exactly one of size and scale_factor") as raised:
            call(function, IMAGE)
        found: Any = raised.value
        assert getattr(found, "operator", "interpolate") == "interpolate", found
        assert not re.match(r"(vjp|jvp|jac|hessian|triplet)", str(found)), found
    failing = fa.zeros(5, 3)
    for layer in (fa.nn.RNN(4, 2), fa.nn.Linear(4, 2), fa.nn.Sequential(fa.nn.Linear(4, 2))):
        with pytest.raises(RuntimeError) as alone:
            layer(failing)
        for module in (layer, functools.partial(layer)):
            with pytest.raises(RuntimeError) as raised:
                call(module, failing)
            # the function, not the words: with a tangent it may take another way
            assert str(raised.value).split(": ")[0] == str(alone.value).split(": ")[0]
    for operator, text in (
        (fa.det, r"^det\(\): "),
        (fa.linalg.cholesky, r"^linalg.cholesky\(\): "),
    ):
        with pytest.raises(RuntimeError, match=text):
            call(operator, X)


def test_only_what_should_be_a_tensor_is_called_none() -> None:
    normal = fa.nn.BatchNorm1d(3).eval()
    with pytest.raises(AttributeError, match="'ReLU' object has no attribute 'out_features'"):
        fa.nn.utils.fuse_linear_bn_eval(fa.nn.ReLU().eval(), normal)
    with pytest.raises(AttributeError, match="'str' object has no attribute 'training'"):
        fa.nn.utils.fuse_linear_bn_eval("a", normal)
    # as if it were a module of facula's
    space: dict[str, Any] = {"__name__": "facula.example"}
    text = """def by_hand(input, other=None): raise AttributeError("it has no attribute 'shape'")
def of_layers(layer: "Module"): return layer.shape
def of_tensors(input, other=None): return other.shape"""
    exec(text, space)
    with pytest.raises(AttributeError, match=r"^it has no attribute"):
        telling(space["by_hand"])(X)
    with pytest.raises(AttributeError, match=r"^'list' object has no attribute 'shape'"):
        telling(space["of_layers"])([])
    with pytest.raises(
        TypeError, match=r"^of_tensors\(\): argument 'other' must be a Tensor, not N"
    ):
        telling(space["of_tensors"])(X, None)
    with pytest.raises(TypeError, match=r"argument 'other' must be a Tensor, not list"):
        telling(space["of_tensors"])(X, [])
