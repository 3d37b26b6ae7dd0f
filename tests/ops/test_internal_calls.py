"""Operators that others are made of refuse arguments that do not fit: no call may crash."""

from __future__ import annotations

from typing import Any

import facula as fa
import pytest

OPS: Any = fa._C._ops


def ones(*shape: int) -> fa.Tensor:
    return fa.ones(shape)


ALL = [True, True, True]
PLAIN = (None, None, 0.0)  # weight, bias, eps
X = ones(1, 2, 3, 4)
REFUSED = {
    "layer: grad": (
        "layer_norm_backward",
        [ones(4, 2), ones(4, 3), [3], ones(4, 1), ones(4, 1), *PLAIN, False, ALL],
        r"grad is \(4, 2\), expected \(4, 3\)",
    ),
    "layer: rstd": (
        "layer_norm_backward",
        [ones(4, 3), ones(4, 3), [3], ones(4, 1), ones(4), *PLAIN, False, ALL],
        r"rstd is \(4,\), expected \(4, 1\)",
    ),
    "layer: mean": (
        "layer_norm_backward",
        [ones(4, 3), ones(4, 3), [3], ones(0), ones(4, 1), *PLAIN, False, ALL],
        r"mean is \(0,\), expected \(4, 1\)",
    ),
    "layer: shape": (
        "layer_norm_backward",
        [ones(4, 3), ones(4, 3), [2], ones(4, 1), ones(4, 1), *PLAIN, False, ALL],
        "must be normalized_shape",
    ),
    "group: groups": (
        "group_norm_backward",
        [ones(2, 4), ones(2, 4), 3, ones(2, 3), ones(2, 3), *PLAIN, ALL],
        "divisible by num_groups",
    ),
    "group: rstd": (
        "group_norm_backward",
        [ones(2, 4), ones(2, 4), 2, ones(2, 2), ones(2), *PLAIN, ALL],
        r"rstd is \(2,\), expected \(2, 2\)",
    ),
    "group: weight": (
        "group_norm_backward",
        [ones(2, 4), ones(2, 4), 2, ones(2, 2), ones(2, 2), ones(3), None, 0.0, ALL],
        r"weight is \(3,\), expected \(4,\)",
    ),
    "batch: grad": (
        "batch_norm_backward",
        [ones(1, 3), ones(2, 3), None, None, ones(3), ones(3), True, 0.0, ALL],
        r"grad is \(1, 3\), expected \(2, 3\)",
    ),
    "batch: var": (
        "batch_norm_backward",
        [ones(2, 3), ones(2, 3), None, None, ones(3), ones(2), True, 0.0, ALL],
        r"running_var is \(2,\), expected \(3,\)",
    ),
    "convolution: grad": (
        "convolution_backward",
        [ones(1, 1, 9), ones(1, 1, 4), ones(1, 1, 2), None, [1], [0], [1], False, [0], 1, ALL],
        r"grad is \(1, 1, 9\), expected \(1, 1, 3\)",
    ),
    "convolution: stride": (
        "convolution_backward",
        [ones(1, 1, 3), ones(1, 1, 4), ones(1, 1, 2), None, [0, 3], [0], [1], False, [0], 1, ALL],
        "stride",
    ),
    "attention: heads": (
        "attention",
        [X, ones(1, 0, 3, 4), ones(1, 0, 3, 4), None, False, 1.0],
        "heads that divide",
    ),
    "attention: keys": (
        "attention",
        [X, X, ones(1, 2, 5, 4), None, False, 1.0],
        "query, key and value must be",
    ),
    "attention: dtype": (
        "attention",
        [X, X.double(), X, None, False, 1.0],
        "of one floating-point dtype",
    ),
    "attention: mask": (
        "attention",
        [X, X, X, ones(7), False, 1.0],
        r"broadcast to \(1, 2, 3, 3\)",
    ),
    "attention: grad": (
        "attention_backward",
        [ones(4), *[X] * 3, None, X, ones(1, 2, 3), False, 1.0],
        "grad and output must be",
    ),
    "attention: lse": (
        "attention_backward",
        [*[X] * 4, None, X, ones(1), False, 1.0],
        r"logsumexp is \(1,\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    op, arguments, words = REFUSED[case]
    with pytest.raises((RuntimeError, ValueError), match=words):
        getattr(OPS, op)(*arguments)


def test_one_value_of_more_dims_than_the_place() -> None:
    assert ones().index_put([], fa.tensor([7.0])).tolist() == 7
    x = fa.zeros(3).index_put([fa.tensor([0, 2])], fa.tensor([[[5.0]]]))
    assert x.tolist() == [5, 0, 5]
    x = fa.zeros(2, 2).index_put([fa.tensor([1])], fa.ones(1, 1, 1, 1), accumulate=True)
    assert x.tolist() == [[0, 0], [1, 1]]


def test_gradients_of_what_is_not_there_are_left_out() -> None:
    x, s = ones(2, 4, 3), ones(4)
    for op, arguments in (
        ("batch_norm_backward", [x, x, None, None, s, s, False, 0.0, ALL]),
        ("group_norm_backward", [x, x, 2, ones(2, 2), ones(2, 2), *PLAIN, ALL]),
        ("layer_norm_backward", [x, x, [3], ones(2, 4, 1), ones(2, 4, 1), *PLAIN, False, ALL]),
        ("convolution_backward", [x, x, ones(4, 4, 1), None, [1], [0], [1], False, [0], 1, ALL]),
    ):
        grad_input, grad_weight, grad_bias = getattr(OPS, op)(*arguments)
        assert grad_input.shape == x.shape and grad_bias.numel() == 0
        assert grad_weight.numel() == (16 if op[0] == "c" else 0)
