"""The example of every operator's doc runs and prints what it says."""

from __future__ import annotations

import doctest

import facula
import pytest
from facula.testing._samples import OpRecord, operators

WITH_EXAMPLE = [pytest.param(op, id=op.name) for op in operators() if op.example]


@pytest.mark.parametrize("op", WITH_EXAMPLE)
def test_example(op: OpRecord) -> None:
    parser = doctest.DocTestParser()
    facula.manual_seed(0)
    space = {"facula": facula, "fa": facula, "F": facula.nn.functional}
    test = parser.get_doctest(op.example, space, op.name, "ops.yaml", op.line)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report: list[str] = []
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)
