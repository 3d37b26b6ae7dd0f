"""Names of torch that programs use seldom: products of groups, patterns, hubs, helpers of files."""

from __future__ import annotations

import types

import facula as fa
import numpy as np
import pytest
from facula import hub, serialization
from facula.nn import functional as F
from facula.utils import checkpoint


def _random(*size):
    return np.random.default_rng(sum(size)).normal(size=size)


def test_products_of_groups():
    a, b = _random(7, 4), _random(3, 4, 5)
    offs = fa.tensor([2, 2, 6], dtype=fa.int32)
    want = np.concatenate([a[:2] @ b[0], a[2:6] @ b[2], np.zeros((1, 5))])
    got = F.grouped_mm(fa.from_numpy(a), fa.from_numpy(b), offs=offs)
    np.testing.assert_allclose(got.numpy(), want)
    c, d = _random(4, 7), _random(7, 5)
    got = F.grouped_mm(fa.from_numpy(c), fa.from_numpy(d), offs=offs)
    want = np.stack([c[:, :2] @ d[:2], np.zeros((4, 5)), c[:, 2:6] @ d[2:6]])
    np.testing.assert_allclose(got.numpy(), want)
    e, f = _random(3, 2, 4), _random(4, 7)
    got = F.grouped_mm(fa.from_numpy(e), fa.from_numpy(f), offs=offs)
    want = np.concatenate([e[0] @ f[:, :2], e[2] @ f[:, 2:6], np.zeros((2, 1))], 1)
    np.testing.assert_allclose(got.numpy(), want)
    got = F.grouped_mm(fa.from_numpy(e), fa.from_numpy(b), out_dtype=fa.float32)
    np.testing.assert_allclose(got.numpy(), e @ b, rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="must not fall"):
        F.grouped_mm(fa.from_numpy(a), fa.from_numpy(b), offs=fa.tensor([3, 2, 9]))
    with pytest.raises(ValueError, match="offs"):
        F.grouped_mm(fa.from_numpy(a), fa.from_numpy(b))


def test_products_with_scales():
    a, b = _random(4, 32).astype(np.float32), _random(32, 6).astype(np.float32)
    rows, columns = _random(4) + 3, _random(6) + 3
    row = F.ScalingType.RowWise
    got = F.scaled_mm(
        fa.from_numpy(a),
        fa.from_numpy(b),
        fa.from_numpy(rows),
        row,
        fa.from_numpy(columns),
        row,
        output_dtype=fa.float32,
    )
    np.testing.assert_allclose(
        got.numpy(), (a * rows[:, None]) @ (b * columns), rtol=1e-4, atol=1e-4
    )
    block = F.ScalingType.BlockWise1x16
    parts, own = _random(4, 2) + 3, _random(2, 6) + 3
    got = F.scaled_mm(
        fa.from_numpy(a),
        fa.from_numpy(b),
        fa.from_numpy(parts),
        block,
        fa.from_numpy(own),
        block,
        output_dtype=fa.float32,
    )
    want = (a * parts.repeat(16, 1)) @ (b * own.repeat(16, 0))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="expected"):
        F.scaled_mm(fa.from_numpy(a), fa.from_numpy(b), fa.ones(4, 3), block, fa.ones(2, 6), block)


def test_one_of_two_functions():
    pick = F.boolean_dispatch(
        "flag", 1, False, lambda x, flag: "yes", lambda x, flag=0: "no", "m", "f"
    )
    assert (pick(1), pick(1, True), pick(1, flag=True)) == ("no", "yes", "yes")


@pytest.mark.parametrize(
    ("pattern", "sizes", "want"),
    [
        ("a b c -> c a b", {}, lambda x: x.transpose(2, 0, 1)),
        ("a b c -> (b a) c", {}, lambda x: x.transpose(1, 0, 2).reshape(-1, 4)),
        (
            "a (b d) c -> a d (b c)",
            {"d": 3},
            lambda x: x.reshape(2, 2, 3, 4).transpose(0, 2, 1, 3).reshape(2, 3, 8),
        ),
        ("a ... -> ... a", {}, lambda x: x.transpose(1, 2, 0)),
        ("... c -> c (...)", {}, lambda x: x.transpose(2, 0, 1).reshape(4, 12)),
        ("a b c -> a 1 b () c", {}, lambda x: x[:, None, :, None]),
    ],
)
def test_patterns(pattern, sizes, want):
    x = np.arange(48.0).reshape(2, 6, 4)
    got = fa.func.rearrange(fa.from_numpy(x), pattern, **sizes)
    np.testing.assert_array_equal(got.numpy(), want(x))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("a b", "'->'"),
        ("a b -> a b c", "same names"),
        ("a (b c) -> a b c", "all but one"),
        ("a b c d -> d c b a", "the tensor 2"),
        ("a (b (c d)) -> a b c d", "brackets within"),
        ("a b) -> a b", "do not match"),
    ],
)
def test_patterns_that_do_not_fit(pattern, said):
    with pytest.raises(ValueError, match=said):
        fa.func.rearrange(fa.ones(2, 6), pattern)
    with pytest.raises(ValueError, match="with the lengths"):
        fa.func.rearrange(fa.ones(2, 6), "a (b c) -> a b c", b=4)


def test_several_tensors_are_stacked():
    got = fa.func.rearrange([fa.zeros(2), fa.ones(2)], "n a -> (a n)")
    assert got.tolist() == [0.0, 1.0, 0.0, 1.0]


def test_batch_norms_without_running_statistics():
    net = fa.nn.Sequential(fa.nn.Linear(3, 2), fa.nn.BatchNorm1d(2))
    assert fa.func.replace_all_batch_norm_modules_(net) is net
    assert net[1].running_mean is None and not net[1].track_running_stats
    net.eval()
    out = net(fa.from_numpy(_random(8, 3)).float())
    np.testing.assert_allclose(out.mean(0).detach().numpy(), 0, atol=1e-6)


def test_models_of_a_folder(tmp_path):
    (tmp_path / "hubconf.py").write_text(
        "import facula\nfrom parts import size\ndependencies = ['facula']\n"
        "def line(n=1):\n    '''A line.'''\n    return facula.nn.Linear(n, size)\n",
        encoding="utf-8",
    )
    (tmp_path / "parts.py").write_text("size = 3\n", encoding="utf-8")
    assert "line" in hub.list(tmp_path, source="local")
    assert hub.help(tmp_path, "line", source="local") == "A line."
    assert hub.load(tmp_path, "line", n=2, source="local").weight.shape == (3, 2)
    with pytest.raises(RuntimeError, match="Cannot find callable nothing"):
        hub.load(tmp_path, "nothing", source="local")
    with pytest.raises(FileNotFoundError, match=r"hubconf\.py"):
        hub.load(tmp_path / "other", "line", source="local")
    with pytest.raises(ValueError, match="'github' or 'local'"):
        hub.load(tmp_path, "line", source="disk")
    with pytest.raises(ValueError, match="owner/name"):
        hub.load("name", "line")
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package']\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match="no_such_package"):
        hub.list(tmp_path, source="local")


def test_code_of_others_needs_trust(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_folder", [str(tmp_path)])
    with pytest.raises(RuntimeError, match="not trusted"):
        hub.load("owner/name", "line", trust_repo=False)


def test_helpers_of_files():
    memory = fa.ones(3).storage()
    assert serialization.location_tag(memory) == "cpu"
    assert serialization.default_restore_location(memory, "cpu") is memory
    assert serialization.storage_to_tensor_type(memory) is fa.FloatTensor
    assert serialization.normalize_storage_type(fa.IntStorage) is fa.IntStorage
    with pytest.raises(RuntimeError, match="don't know how to restore"):
        serialization.default_restore_location(memory, "nowhere")
    if not fa.cuda.is_available():
        with pytest.raises(RuntimeError, match="map_location"):
            serialization.default_restore_location(memory, "cuda:0")
    module = types.SimpleNamespace(__name__="m", __version__="1.10.2")
    at_least = serialization.check_module_version_greater_or_equal
    assert at_least(module, (1, 9)) and not at_least(module, (1, 11))
    with pytest.raises(RuntimeError, match="does not compare"):
        at_least(types.SimpleNamespace(__name__="m", __version__="new"), (1, 9))
    with serialization.mkdtemp() as path:
        assert fa.save is not None and path
    with pytest.raises(NotImplementedError, match="mmap"):
        serialization.skip_data()


def test_what_checkpoints_cannot_choose():
    with checkpoint.set_checkpoint_debug_enabled(None):
        pass
    with fa.autograd.grad_mode.enforce_grad_layout_policy(False):
        pass
    with pytest.raises(NotImplementedError, match="strides"):
        fa.autograd.enforce_grad_layout_policy()
