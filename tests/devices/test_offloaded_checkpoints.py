"""Results that a checkpoint's policy keeps in the memory of the CPU."""

from __future__ import annotations

from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.utils import checkpoint as ck
from facula.utils.checkpoint import CheckpointPolicy as Policy


def block(x: Any, w: Any) -> Any:
    return (x @ w).exp().sin() @ w


@pytest.mark.parametrize("policy", [Policy.MUST_SAVE, Policy.MUST_CPU_OFFLOAD])
def test_kept_results_wait_there(numpyfied: str, policy: Policy) -> None:
    values = [fa.tensor(np.random.default_rng(i).standard_normal((4, 4))) for i in range(2)]
    plain = [v.clone().requires_grad_() for v in values]
    block(*plain).sum().backward()
    contexts = ck.create_selective_checkpoint_contexts(lambda *args, **kwargs: policy)
    inputs = [v.to(numpyfied).requires_grad_() for v in values]
    out = ck.checkpoint(block, *inputs, use_reentrant=False, context_fn=lambda: contexts)
    where = [
        call.result.tensor.device.type
        for calls in contexts[0].storage.values()
        for call in calls.values()
        if hasattr(call, "result")
    ]
    assert where == ["cpu" if policy is Policy.MUST_CPU_OFFLOAD else numpyfied] * 4
    out.sum().backward()
    for got, wanted in zip(inputs, plain, strict=True):
        assert got.grad.device.type == numpyfied
        np.testing.assert_allclose(got.grad.cpu().numpy(), wanted.grad.numpy(), rtol=1e-12)
