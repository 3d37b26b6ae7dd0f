"""Modules that load their own way, and SyncBatchNorm."""

from __future__ import annotations

import inspect

import facula as fa
import pytest
from facula import nn


class Renamed(nn.Linear):
    """Its weight was once called `kernel`."""

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        if prefix + "kernel" in state_dict:
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "kernel")
        super()._load_from_state_dict(state_dict, prefix, *rest)


def net():
    return nn.Sequential(nn.Linear(2, 2), Renamed(2, 3))


def test_a_class_renames_its_keys():
    source, target = net(), net()
    state = source.state_dict()
    state["1.kernel"] = state.pop("1.weight")
    report = target.load_state_dict(state)
    assert list(report) == [[], []]
    assert fa.equal(target[1].weight, source[1].weight)
    assert fa.equal(target[0].weight, source[0].weight)


def test_assigned_tensors_are_taken():
    source, target = net(), net()
    state = source.state_dict()
    target.load_state_dict(state, assign=True)
    assert target[1].weight.data_ptr() == source[1].weight.data_ptr()
    assert target[0].weight.data_ptr() == source[0].weight.data_ptr()


@pytest.mark.parametrize(
    "change, text",
    [
        (lambda s: s.pop("1.bias"), r'Missing key\(s\).*"1\.bias"'),
        (lambda s: s.update({"1.more": fa.ones(1)}), r'Unexpected key\(s\).*"1\.more"'),
        (lambda s: s.update({"1.weight": fa.ones(1)}), "size mismatch for 1.weight"),
    ],
)
def test_faults_are_told(change, text):
    state = net().state_dict()
    change(state)
    with pytest.raises(RuntimeError, match=text):
        net().load_state_dict(state)


def test_without_strict_the_rest_is_loaded():
    source, target = net(), net()
    state = source.state_dict()
    state.pop("1.bias")
    assert target.load_state_dict(state, strict=False).missing_keys == ["1.bias"]
    assert fa.equal(target[1].weight, source[1].weight)


def test_sync_batch_norm_of_one_process():
    fa.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3))
    sync = nn.SyncBatchNorm.convert_sync_batchnorm(plain)
    assert isinstance(sync[1], nn.SyncBatchNorm) and sync[1].eps == 1e-5
    x = fa.randn(4, 2, 5, 5)
    result = sync(x)
    mean, var = plain[0](x).mean((0, 2, 3)), plain[0](x).var((0, 2, 3), correction=0)
    want = (plain[0](x) - mean[:, None, None]) / (var + 1e-5).sqrt()[:, None, None]
    assert fa.allclose(result, want, atol=1e-5)
    assert int(sync[1].num_batches_tracked) == 1
    with pytest.raises(ValueError, match="at least 2D"):
        nn.SyncBatchNorm(3)(fa.ones(3))


def test_signatures():
    assert str(inspect.signature(nn.Linear(1, 1))) == "(*args, **kwargs)"
    assert list(inspect.signature(nn.Linear).parameters)[:2] == ["in_features", "out_features"]
