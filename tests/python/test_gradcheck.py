"""What a gradient check finds, and what it says."""

from __future__ import annotations

from typing import Any

import facula as fa
import pytest
from facula.autograd import Function, gradcheck, gradgradcheck
from facula.autograd.gradcheck import GradcheckError


def wrong(backward: Any, jvp: Any = None, forward: Any = lambda x: x * x) -> Any:
    """A function of x, x * x unless said, with these derivatives."""

    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: fa.Tensor) -> fa.Tensor:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, grad: fa.Tensor) -> Any:
            return backward(ctx.saved_tensors[0], grad)

        @staticmethod
        def jvp(ctx: Any, tangent: fa.Tensor) -> Any:
            return jvp(ctx.saved_tensors[0], tangent)

    return Wrong.apply


def leaf(*values: float, dtype: Any = None) -> fa.Tensor:
    return fa.tensor(values, dtype=dtype or fa.float64, requires_grad=True)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    ("backward", "said"),
    [
        (lambda x, g: -2 * x * g, "sign of the gradient is wrong"),
        (lambda x, g: 4 * x * g, "2 times what it should be"),
        (lambda x, g: 0 * g, "zero everywhere"),
        (lambda x, g: None, "not connected"),
        (lambda x, g: g / 0, "not finite"),
        (lambda x, g: 2 * x * g + 1, "2 of 4 elements|4 of 4 elements"),
    ],
)
def test_report_says_what_is_wrong(backward: Any, said: str, fast: bool) -> None:
    with pytest.raises(GradcheckError, match=said) as error:
        gradcheck(wrong(backward), leaf(2.0, 3.0), fast_mode=fast)
    text = str(error.value)
    assert "output 0 with respect to input 0" in text
    assert "numerical" in text and "analytical" in text


def test_report_names_elements() -> None:
    def backward(x: fa.Tensor, g: fa.Tensor) -> fa.Tensor:
        correct = 2 * x * g
        return correct + fa.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).double() * g

    x = fa.arange(6.0).reshape(2, 3).double().requires_grad_()
    with pytest.raises(GradcheckError, match="1 of 36 elements") as error:
        gradcheck(wrong(backward), x)
    assert "d output[1, 1] / d input[1, 1]: analytical 9, numerical 8" in str(error.value)


def test_report_numbers_inputs_as_given() -> None:
    apply = wrong(lambda x, g: g)
    with pytest.raises(GradcheckError, match="with respect to input 2"):
        gradcheck(lambda n, c, x: c * apply(x) * n, (2, fa.ones(2).double(), leaf(2.0, 3.0)))


def test_report_knows_conjugates() -> None:
    apply = wrong(lambda x, g: 2 * x * g)  # the slope's conjugate is left out
    with pytest.raises(GradcheckError, match="complex conjugate") as error:
        gradcheck(apply, leaf(1 + 2j, 2 - 1j, dtype=fa.complex128))
    assert "].imag" in str(error.value) or "].real" in str(error.value)


def test_forward_mode_is_reported() -> None:
    apply = wrong(lambda x, g: 2 * x * g, lambda x, t: 3 * x * t)
    assert gradcheck(apply, leaf(2.0, 3.0))
    with pytest.raises(GradcheckError, match=r"forward-mode derivative.*(.|\n)*1.5 times"):
        gradcheck(apply, leaf(2.0, 3.0), check_forward_ad=True)


def test_without_an_exception() -> None:
    assert gradcheck(wrong(lambda x, g: g), leaf(2.0, 3.0), raise_exception=False) is False


def test_backward_that_is_not_deterministic() -> None:
    calls = [0]

    def backward(x: fa.Tensor, g: fa.Tensor) -> fa.Tensor:
        calls[0] += 1
        return 2 * x * g * (1 + 1e-9 * calls[0])

    with pytest.raises(GradcheckError, match="not deterministic"):
        gradcheck(wrong(backward), leaf(2.0))
    assert gradcheck(wrong(backward), leaf(2.0), nondet_tol=1e-3)


def test_gradients_of_single_outputs() -> None:
    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: fa.Tensor) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            if a is None or b is None:  # as if the other were one
                return (2 if a is None else 2 * a) + (3 if b is None else 3 * b)
            return 2 * a + 3 * b

    with pytest.raises(GradcheckError):
        gradcheck(Two.apply, leaf(1.0))


def test_batches() -> None:
    assert gradcheck(fa.sin, leaf(1.0, 2.0), check_batched_grad=True)
    assert gradcheck(fa.sin, leaf(1.0, 2.0), check_batched_forward_grad=True)
    assert gradgradcheck(fa.sin, leaf(1.0, 2.0), check_batched_grad=True, check_fwd_over_rev=True)


def test_gradients_that_are_not_contiguous() -> None:
    seen = []

    def backward(x: fa.Tensor, g: fa.Tensor) -> fa.Tensor:
        seen.append(g.is_contiguous())
        return 2 * x * g

    assert gradgradcheck(wrong(backward), leaf(1.0, 2.0), gen_non_contig_grad_outputs=True)
    assert not all(seen)


def test_inputs_that_cannot_be_judged() -> None:
    with pytest.warns(UserWarning, match="input 0 is facula.float32"):
        gradcheck(lambda x: x * 2, leaf(1.0, dtype=fa.float32), atol=1.0)
    with pytest.raises(RuntimeError, match="expanded"):
        gradcheck(fa.sin, fa.ones(1, dtype=fa.float64).expand(3).requires_grad_())
    with pytest.raises(ValueError, match="no input requires grad"):
        gradcheck(fa.sin, fa.ones(1, dtype=fa.float64))
