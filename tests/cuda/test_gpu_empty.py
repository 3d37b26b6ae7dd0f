"""Empty inputs through every operator, forward and backward, on a GPU: `pytest -m cuda`.

A grid of no blocks and a division by no rows are faults of the host's code, which only runs there.
What is right is what the CPU says, which has the tests of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import facula as fa
import pytest
from facula.testing._samples import OpRecord, operators

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ops"))

from emptied import emptied, outcome

pytestmark = pytest.mark.cuda


CALLED = [pytest.param(op, id=op.name) for op in operators() if op.samples() and op.function()]


@pytest.mark.parametrize("op", CALLED)
def test_empty_operands(op: OpRecord) -> None:
    has_one_value = op.reference and op.kind != "random"  # not what is drawn, or left as memory was
    for sample in emptied(op):
        for dtype in ("float32", "bfloat16"):
            for wants in (False, True):
                right = outcome(op, sample, dtype, "cpu", wants)
                got = outcome(op, sample, dtype, "cuda", wants)
                if isinstance(right, str) or isinstance(got, str):
                    assert got == right, sample
                    continue
                for g, r in zip(got, right, strict=True):
                    assert (g is None) == (r is None)
                    if g is not None:
                        assert g[:2] == r[:2], sample
                        if has_one_value:
                            loose = {"rtol": 0.05, "atol": 0.05} if dtype == "bfloat16" else {}
                            fa.testing.assert_close(g[2], r[2], equal_nan=True, **loose)


def test_rows_that_are_not_there() -> None:
    for function in (fa.nn.functional.layer_norm, fa.nn.functional.rms_norm):
        for shape in ((0, 1), (0, 5), (3, 0, 7)):
            x = fa.ones(shape, device="cuda", requires_grad=True)
            w = fa.ones(shape[-1:], device="cuda", requires_grad=True)
            function(x, list(shape[-1:]), w).sum().backward()
            assert x.grad.shape == shape and w.grad.tolist() == [0] * shape[-1]


@pytest.mark.parametrize(
    "code",
    [
        "F.conv2d(ones(2, 3, 8, 8), ones(4, 3, 3, 3)).sum().item() == 7776",
        "F.max_pool2d(ones(2, 3, 8, 8), 2).sum().item() == 96",
        "(ones(64, 64) @ ones(64, 64)).sum().item() == 64 ** 3",
        "F.layer_norm(ones(4, 8).cumsum(1), [8]).abs().max().item() < 2",
        "F.scaled_dot_product_attention(*[ones(1, 2, 16, 64).half()] * 3).sum().item() == 2048",
        "ones(1000).cumsum(0).flip(0).sort()[0][-1].item() == 1000",
    ],
)
def test_in_a_process_of_its_own(code: str) -> None:
    """Neither numpy nor torch, which bring a C++ runtime of their own, is imported before."""
    code = (
        "import sys, facula as fa; F = fa.nn.functional; "
        "ones = lambda *s: fa.ones(*s, device='cuda'); "
        f"assert {code}; assert not {{'numpy', 'torch'}} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
