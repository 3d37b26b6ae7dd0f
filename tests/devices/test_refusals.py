"""What a device has not, or has and refuses: attributes of exceptions, and the kit's report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula import backends
from facula.testing import conformance
from facula.testing._samples import operators
from facula.testing._suite import Suite
from numpy_device import NumpyDevice

WHY = "only float32 is written yet"


def bmm(self: Any, mat2: Any, out: Any) -> None:
    if out.dtype != fa.float32:
        raise NotImplementedError(WHY)
    np.asarray(out)[...] = np.matmul(np.asarray(self), np.asarray(mat2))


class Refusing(NumpyDevice):
    name = "refusing"
    flags = backends.Backend.HOST_MEMORY
    dtypes = (fa.bool, fa.int64, fa.int32, fa.float32, fa.float64)
    kernels = {"bmm": bmm, "gather": lambda *args: NotImplemented}  # noqa: RUF012

    def reduction(self, op: str, *args: Any) -> Any:
        if op == "prod":
            raise NotImplementedError("no products")
        return super().reduction(op, *args)

    def pointwise(self, op: str, *args: Any) -> Any:
        if op == "exp":
            raise NotImplementedError("no exponentials")
        return super().pointwise(op, *args)


@pytest.fixture(scope="module", autouse=True)
def device() -> str:
    if "refusing" not in backends.names():
        backends.register(Refusing())
    return "refusing"


@pytest.fixture
def counted(device: str) -> Iterator[None]:
    backends.reset_fallbacks(device)
    yield
    backends.reset_fallbacks(device)


def matrix(dtype: Any) -> Any:
    return fa.ones(1, 2, 2, dtype=dtype, device="refusing")


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize(
    ("op", "call", "what", "why"),
    [
        ("bmm", lambda: matrix(fa.float64).bmm(matrix(fa.float64)), "kernel", WHY),
        ("prod", lambda: matrix(fa.float32).prod(), "reduction template", "no products"),
        ("exp", lambda: matrix(fa.float32).exp(), "pointwise template", "no exponentials"),
    ],
)
def test_a_refusal_is_no_missing_kernel(
    op: str, call: Callable[[], Any], what: str, why: str
) -> None:
    with pytest.raises(backends.MissingKernelError) as raised:
        call()
    error, text = raised.value, str(raised.value)
    assert (error.op, error.device) == (op, "refusing")
    assert error.refusal == f"the {what} of device 'refusing' did not take these arguments ({why})"
    assert error.refusal in text and "has no kernel" not in text and "allow_fallback" in text
    assert backends.refusals("refusing") == {op: (1, why)}


@pytest.mark.usefixtures("counted")
def test_refused_and_made_of_others() -> None:
    """What the others lack is told together with what was refused."""
    x = matrix(fa.float32)
    with pytest.raises(backends.MissingKernelError, match="index_long") as raised:
        x.gather(1, fa.zeros(1, 2, 2, dtype=fa.int64, device="refusing"))
    assert (
        raised.value.op == "index_long"
        and "of device 'refusing' did not take" in raised.value.refusal
    )
    assert str(raised.value).startswith("gather(): the kernel of device 'refusing'")


def test_a_kernel_that_is_not_there() -> None:
    with pytest.raises(backends.MissingKernelError, match="has no kernel for device") as raised:
        matrix(fa.float32).sort()
    assert raised.value.refusal is None and raised.value.op == "sort"
    assert issubclass(backends.MissingKernelError, NotImplementedError)


def test_decompositions_for_some_arguments() -> None:
    """The kernel's place is the CPU's for the others, or an error that says so."""
    x, i = fa.ones(3, device="refusing"), fa.tensor([0, 0, 2]).to("refusing")
    with pytest.raises(backends.MissingKernelError) as raised:
        x.scatter_reduce(0, i, x, "amax")
    assert raised.value.op == "scatter_reduce" and "decomposition" in raised.value.refusal
    with backends.allow_fallback("refusing"):
        assert x.scatter_reduce(0, i, x * 3, "amax").tolist() == [3, 1, 3]
        assert x.scatter_reduce(0, i, x, "sum", include_self=False).tolist() == [2, 1, 1]
        assert fa.zeros(2, dtype=fa.int64, device="refusing").random_(3, None).min().item() >= 3


def test_the_kit_tells_of_them(device: str) -> None:
    report = conformance.run(device, ["bmm", "exp"], sizes=False)
    assert report.refusals == {"bmm": WHY, "exp": "no exponentials"}
    assert (
        f"kernels and templates that refused arguments: bmm ({WHY}), exp (no exp" in report.table()
    )


def test_dtypes_that_are_not_there(device: str) -> None:
    """Excused where a sample names them, and a failure elsewhere."""
    report = conformance.run(device, ["view_as_complex", "half.cast", "complex"], sizes=False)
    assert not report.failures and set(report.no_dtype) <= {"float16", "complex64", "complex128"}
    assert report.no_dtype["complex64"] > 0
    assert "samples name dtypes that the device has not: " in report.table()
    suite = Suite(device)
    op = operators()[0]
    for named, failures in (({"float16"}, 0), ({"float32"}, 1)):
        suite.named = named
        suite.checked(
            op, "value", "", "float32", lambda: fa.zeros(2, dtype=fa.float16, device=device)
        )
        assert len(suite.report.failures) == failures
    assert suite.report.no_dtype == {"float16": 1} and suite.report.checks == 1


PAIRS = [
    lambda x: fa.view_as_complex(x),
    lambda x: x.view(fa.complex64),
    lambda x: x.view(fa.float16),
    lambda x: x.to(fa.complex64),
    lambda x: x.type(fa.complex64),
    lambda x: fa.complex(x, x),
    lambda x: fa.polar(x, x),
    lambda x: fa.tensor([1j, 2]).to(x.device),
    lambda x: fa.zeros_like(x, dtype=fa.complex64),
    lambda x: x.new_empty(2, dtype=fa.complex64),
    lambda x: fa.empty_strided([2], [1], dtype=fa.complex64, device=x.device),
    lambda x: x.half(),
    lambda x: x + 1j,
    lambda x: x.unsqueeze(0).sum(0, dtype=fa.float16),
]


@pytest.mark.parametrize("make", PAIRS)
def test_no_tensor_of_another_dtype_comes_to_be(make: Callable[[Any], Any]) -> None:
    x = fa.ones(3, 2, device="refusing")
    with pytest.raises(
        backends.MissingDtypeError, match="device 'refusing' has no tensors of"
    ) as raised:
        make(x)
    assert raised.value.device == "refusing" and raised.value.dtype in (
        "complex64",
        "complex128",
        "float16",
    )
    assert isinstance(raised.value, TypeError)
