"""Operators of users: an entry of their file becomes one of facula's kind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import facula as fa
import numpy as np
import pytest
from extension_sources import KERNEL, OPERATORS, load_operators, path, run, write_conftest
from facula.utils import cpp_extension
from facula.utils.cpp_extension import _tools


@pytest.fixture(scope="module")
def operators(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("operators")
    (folder / "mine.yaml").write_text(OPERATORS)
    (folder / "mirror.cpp").write_text(KERNEL)
    load_operators(folder)
    return folder


def test_operators_are_there(operators: Path) -> None:
    mine = fa.ops.mine
    x = fa.tensor([-2.0, 0.0, 3.0], dtype=fa.float64)
    want = np.array([-2 / 3, 0.0, 3 / 4])
    np.testing.assert_allclose(mine.soft_sign(x).numpy(), want, rtol=1e-14)
    np.testing.assert_allclose(x.soft_sign(beta=2).numpy(), [-0.5, 0.0, 0.6], rtol=1e-14)
    y = x.clone()
    assert y.soft_sign_() is y
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-14)
    out = fa.empty(0, dtype=fa.float64)
    assert mine.soft_sign(x, out=out) is out and out.shape == (3,)
    assert mine.soft_sign(fa.tensor([1, 2])).dtype == fa.float32
    assert mine.soft_sign(x.to("meta")).shape == (3,)
    g = x.clone().requires_grad_()
    (first,) = fa.autograd.grad(mine.soft_sign(g).sum(), g, create_graph=True)
    np.testing.assert_allclose(first.detach().numpy(), [1 / 9, 1.0, 1 / 16], rtol=1e-14)
    (second,) = fa.autograd.grad(first.sum(), g)
    np.testing.assert_allclose(second.numpy(), [2 / 27, 0.0, -2 / 64], rtol=1e-14)
    assert x.mirror_fold(0).tolist() == [-0.5, 0.0, 2.0]
    with pytest.raises(IndexError, match="mirror_fold"):
        x.mirror_fold(5)
    with pytest.raises(TypeError, match=r"soft_sign\(\)"):
        mine.soft_sign("x")
    assert not hasattr(fa.Tensor, "squared_distance")
    assert mine.squared_distance(x, x + 1).item() == 3
    assert (
        "Smooth sign" in mine.soft_sign.__doc__ and mine.soft_sign.__module__ == "facula.ops.mine"
    )
    with fa.no_grad(), pytest.raises(AttributeError, match="imported are: mine"):
        _ = fa.ops.yours


def test_large_tensors_take_the_machines_loops(operators: Path) -> None:
    x = np.random.default_rng(1).standard_normal(200_001).astype(np.float32)
    got = fa.ops.mine.soft_sign(fa.tensor(x)).numpy()
    np.testing.assert_array_equal(got, x / (np.float32(1) + np.abs(x)))
    with pytest.raises(ZeroDivisionError):  # through a flag that loops share with the driver
        fa.floor_divide(fa.tensor([1]), fa.tensor([0]))


def test_their_tests_are_made_of_their_entries(operators: Path, cache: Path) -> None:
    """All pass of what is right, and the planted mistakes are found."""
    folder = next(cache.glob("extensions/mine-*/generated"))
    shutil.copy(folder / "test_mine.py", operators)
    write_conftest(operators)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"],
        cwd=operators, env={**os.environ, "PYTHONPATH": path()}, text=True, capture_output=True,
        check=False,
    )  # fmt: skip
    failed = set(re.findall(r"^FAILED test_mine\.py::(\w+)\[mine::(\w+)", done.stdout, re.M))
    wanted = {("test_value", "wrong_value"), ("test_gradient", "wrong_slope")}
    assert failed == wanted | ({("test_forward", "wrong_slope")} & failed), done.stdout[-3000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= 60  # type: ignore[index]


LATE = """
import facula as fa, numpy_device
numpy_device.start()
fa.ones(2, device="numpyfied")  # the device is at work before the operators come
import conftest
x = fa.tensor([-2.0, 3.0], device="numpyfied", requires_grad=True)
y = fa.ops.mine.soft_sign(x) + x.mirror_fold(0)
y.sum().backward()
assert y.device.type == "numpyfied", y
print([round(v, 4) for v in y.tolist() + x.grad.tolist()])
print(fa.ops.mine.squared_distance(x, x + 1).item())
print(sorted(n for n in fa.backends.fallbacks("numpyfied") if n.startswith("mine::")))
fa.backends.allow_fallback("numpyfied", False)
try:
    fa.ops.mine.soft_sign(x)
except fa.backends.MissingKernelError as error:
    print(error.op, "on", error.device)
"""


def test_on_a_device_that_was_there_before(operators: Path) -> None:
    write_conftest(operators)
    devices = str(Path(__file__).resolve().parents[1] / "devices")
    said = run(sys.executable, "-c", LATE, cwd=operators, before=devices)
    assert said.splitlines() == [
        "[-1.1667, 2.75, 1.6111, 1.5625]",
        "2.0",
        "['mine::mirror_fold', 'mine::soft_sign', 'mine::soft_sign_backward']",
        "mine::soft_sign on numpyfied",
    ]


def test_a_missing_kernel_is_explained(
    operators: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the source that changed is compiled, and the linker's words are explained."""
    source = operators / "mirror.cpp"
    source.write_text(KERNEL.replace("mirror_fold(", "miror_fold("))
    compiled = []
    run = _tools.run

    def noted(command: list[str], *rest: object) -> str:
        compiled.extend(Path(c).name for c in command if c.endswith(".cpp"))
        return run(command, *rest)

    monkeypatch.setattr(_tools, "run", noted)
    with pytest.raises(cpp_extension.BuildError) as caught:
        load_operators(operators)
    source.write_text(KERNEL)
    assert compiled == ["mirror.cpp"]
    said = str(caught.value)
    assert re.search(
        r"mine\.yaml:8:\d+: mirror_fold: no function `void facula::cpu::mirror_fold\("
        r"const Tensor& self, int64_t dim, double weight, const Tensor& out\)` in the sources; "
        r"did you mean 'miror_fold'\?",
        said,
    ), said


def test_mistakes_of_the_file_are_told(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "- op: relu(Tensor self) -> Tensor\n  doc: There is one.\n  scalar: self\n"
        "  derivative: auto\n  reference: self\n\n"
        "- op: signed(Tensor self, Tensor other) -> Tensor\n  doc: A sign.\n"
        "  composite: mul(self, others)\n  python: ['+', function]\n"
        "  samples: ['f(3), f(3)']\n  reference: self * other\n"
    )
    with pytest.raises(ValueError, match="has mistakes") as caught:
        cpp_extension.load("bad", ops=file)
    said = str(caught.value)
    assert "bad.yaml:1:" in said and "declared twice" in said
    assert "bad.yaml:9:" in said and "others" in said
    assert "bad.yaml:10:" in said and "'+' is facula's own" in said


def test_a_method_that_there_is_already(operators: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ImportError, match=r"a method 'relu' already, of facula.*python: \[function"
    ):
        fa.ops._publish("other", {}, {"relu": None}, "[]")
    with pytest.raises(ImportError, match="'soft_sign' already, of mine"):
        fa.ops._publish("other", {}, {"soft_sign": None}, "[]")


def test_a_changed_operator_takes_the_place_of_the_old(operators: Path) -> None:
    a = fa.tensor([1.0, 2.0], requires_grad=True)
    old, known = fa.ops.mine.squared_distance, len(fa._C._operators())
    text = OPERATORS.replace("sum(square", "mean(square").replace("np.sum", "np.mean")
    (operators / "mine.yaml").write_text(text)
    load_operators(operators)
    new = fa.ops.mine.squared_distance
    assert (old(a, a + 2).item(), new(a, a + 2).item()) == (8, 4)
    new(a.soft_sign(), a.detach()).backward()
    assert a.grad is not None and len(fa._C._operators()) == known
