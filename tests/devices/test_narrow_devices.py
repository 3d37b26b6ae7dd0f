"""Devices with few dtypes: what is made of others asks for none that they have not."""

from __future__ import annotations

import facula as fa
import pytest
from facula import backends
from facula.testing import conformance
from facula.testing._samples import operators
from numpy_device import NumpyDevice


class Single(NumpyDevice):
    name = "single"
    dtypes = (fa.bool, fa.uint8, fa.int32, fa.int64, fa.float32)


class Halves(NumpyDevice):
    name = "halves"
    dtypes = (fa.bool, fa.int32, fa.int64, fa.float16, fa.float32)


@pytest.fixture(params=[Single, Halves], ids=lambda d: d.name)
def narrow(request: pytest.FixtureRequest) -> str:
    if request.param.name not in backends.names():
        backends.register(request.param())
    return request.param.name


def test_conformance(narrow: str) -> None:
    """Of all that is made of others, and what draws numbers."""
    ops = [op.name for op in operators() if op.kind != "pointwise" and op.samples()]
    report = conformance.run(narrow, ops, sizes=False)
    assert not report.failures, "\n".join(map(str, report.failures[:20]))
    assert report.checks > 3_000 and report.no_dtype["float64"] > 0


def test_the_widest_float_serves(narrow: str) -> None:
    with backends.allow_fallback(narrow):
        made = {
            "linspace": fa.linspace(0, 1, 5, device=narrow),
            "logspace": fa.logspace(0, 2, 3, device=narrow),
            "bernoulli": fa.bernoulli(fa.tensor([0.0, 1.0]).to(narrow)),
            "bernoulli_": fa.zeros(2, device=narrow).bernoulli_(fa.tensor([0.0, 1.0]).to(narrow)),
            "geometric_": fa.zeros(4, device=narrow).geometric_(1 - 1e-7),
            "isclose": fa.isclose(fa.tensor([1, 2]).to(narrow), fa.tensor([1, 3]).to(narrow)),
            "bincount": fa.tensor([1, 1]).to(narrow).bincount(fa.tensor([1, 2]).to(narrow)),
        }
    want = {
        "linspace": [0, 0.25, 0.5, 0.75, 1],
        "logspace": [1, 10, 100],
        "bernoulli": [0, 1],
        "bernoulli_": [0, 1],
        "geometric_": [1] * 4,
        "isclose": [True, False],
        "bincount": [0, 3],
    }
    for name, values in want.items():
        assert made[name].tolist() == pytest.approx(values), name
    assert made["bincount"].dtype == fa.float32
