"""Adding an operator is cheap: shown in a copy of the tree, which is built and tested.

A pointwise operator takes an entry in ops.yaml and nothing else, a structured one an entry and one
kernel function. From these come the function, the method, in-place and out forms, derivatives, the
stub, the page and the tests; and the tests notice an error in formula, derivative or kernel.

The copy takes the objects of an existing build directory (FACULA_BUILD_DIR, or the newest below
build/) where nothing has changed, so that just the new operators are compiled.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from codegen.emit.render import SHARDED
from tests.plain_imports import prefer

ROOT = Path(__file__).resolve().parent.parent
POINTWISE = """\
- op: {name}(Tensor self, *, Scalar beta=1) -> Tensor
  doc: Smooth sign, self / (beta + |self|).
  scalar: self / (beta + abs(self))
  derivative: auto
  python: [function, method, nn.functional.{name}]
  samples: ["f(3,4)", "f(0)", "f(), beta=2"]
  reference: self / (beta + np.abs(self))
"""
STRUCTURED = """\
- op: {name}(Tensor self, int dim, float weight=0.5) -> Tensor
  doc: Adds weight times its own mirror image along a dim.
  kind: structured
  shape: flipped(self, [dim])
  dispatch: {{CPU: {kernel}}}
  checks:
    real: {{require: self.is_floating_point(), error: "self is {{self.dtype}}, not of floats"}}
  derivative: {{self: "{name}(grad, dim, weight)"}}
  forward: linear
  variants: [inplace, out]
  samples: ["f(3,4), 1", "f(3,4), 0, 2.0", "f(0,4), 0", "f(5), -1"]
  reference: self + weight * np.flip(self, dim)
"""
KERNEL = """\
#include "aten/geometry.h"
#include "facula/kernels.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

void KERNEL(const Tensor& self, int64_t dim, double weight, const Tensor& out) {
  const bool wide = self.dtype() == ScalarType::Float64;
  FACULA_CHECK(wide || self.dtype() == ScalarType::Float32, Type, "expected float32 or float64");
  if (out.numel() == 0) return;
  DimVector strides[3];
  char* data[3];
  for (int k = 0; k < 3; ++k) {
    const Tensor& t = k == 0 ? out : self;
    data[k] = static_cast<char*>(t.raw());
    broadcast_strides(t, out.sizes().size(), strides[k]);
  }
  if (self.dim() > 0) {
    const size_t d = static_cast<size_t>(wrap_dim(dim, self.dim()));
    data[2] += (self.sizes()[d] - 1) * strides[2][d];
    strides[2][d] = -strides[2][d];
  }
  const StridedPlan plan = make_plan(out.sizes(), strides, data);
  const auto rows = [&]<typename T>(T) {
    for_each_row(plan, [weight](char** p, const int64_t* step, int64_t n) {
      const auto at = [&](int k, int64_t i) { return reinterpret_cast<T*>(p[k] + i * step[k]); };
      for (int64_t i = 0; i < n; ++i) *at(0, i) = *at(1, i) + T(weight) * *at(2, i);
    });
  };
  wide ? rows(double()) : rows(float());
}

}  // namespace facula::cpu
"""
# What a user sees of the new operators, in a process of its own.
SCRIPT = """
import math
import facula as fa
from facula.autograd import forward_ad

x = fa.tensor([-2.0, 0.0, 3.0], dtype=fa.float64)
want = [-2 / 3, 0.0, 3 / 4]
close = lambda t, w: all(math.isclose(a, b, rel_tol=1e-12) for a, b in zip(t.tolist(), w))
assert close(fa.POINTWISE(x), want) and close(x.POINTWISE(), want)
assert close(fa.nn.functional.POINTWISE(x), want)
assert close(fa.POINTWISE(x, beta=2), [-0.5, 0.0, 0.6])
y = x.clone()
assert y.POINTWISE_() is y and close(y, want)
out = fa.empty(0, dtype=fa.float64)
assert fa.POINTWISE(x, out=out) is out and close(out, want)
for dtype in (fa.float16, fa.bfloat16, fa.float32, fa.float64):
    assert fa.POINTWISE(x.to(dtype)).dtype == dtype
assert fa.POINTWISE(fa.tensor([1, 2])).dtype == fa.float32
meta = fa.POINTWISE(x.to("meta"))
assert meta.device.type == "meta" and meta.shape == (3,)
g = x.clone().requires_grad_()
(first,) = fa.autograd.grad(fa.POINTWISE(g).sum(), g, create_graph=True)
assert close(first, [1 / 9, 1.0, 1 / 16])
(second,) = fa.autograd.grad(first.sum(), g)
assert close(second, [2 / 27, 0.0, -2 / 64])
with forward_ad.dual_level():
    dual = fa.POINTWISE(forward_ad.make_dual(x, fa.ones_like(x)))
    assert close(forward_ad.unpack_dual(dual).tangent, [1 / 9, 1.0, 1 / 16])

want = [-0.5, 0.0, 2.0]
assert close(fa.STRUCTURED(x, 0), want) and close(x.STRUCTURED(0, weight=0.5), want)
y = x.clone()
assert y.STRUCTURED_(0) is y and close(y, want)
out = fa.empty(3, dtype=fa.float64)
assert fa.STRUCTURED(x, 0, out=out) is out and close(out, want)
assert fa.STRUCTURED(x.to(fa.float32), 0).dtype == fa.float32
meta = fa.STRUCTURED(x.to("meta"), 0)
assert meta.device.type == "meta" and meta.shape == (3,)
g = x.clone().requires_grad_()
(first,) = fa.autograd.grad((fa.STRUCTURED(g, 0) ** 3).sum(), g, create_graph=True)
(second,) = fa.autograd.grad(first.sum(), g)
assert close(second, [4.5, 0.0, 15.75])  # 9 (y + flip(y) / 2)
try:
    fa.STRUCTURED(x, 5)
except IndexError as error:
    assert "dim" in str(error).lower()
else:
    raise AssertionError("a dim out of range must raise")
assert "Smooth sign" in fa.POINTWISE.__doc__
"""


@dataclass(frozen=True)
class Copy:
    """The built copy with the names of its operators: right ones, and ones with an error each."""

    root: Path
    site: Path
    pointwise: str
    structured: str
    wrong: dict[str, str]
    compiled: list[str]
    seconds: float
    build: tuple[str, ...]  # the command that builds the module
    env: dict[str, str]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": str(self.site), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.root,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    def outcomes(self) -> dict[str, dict[str, list[str]]]:
        """By operator and outcome the tests of each; all are run at once, as to collect is dear."""
        names = [self.pointwise, self.structured, *self.wrong.values()]
        options = ["-q", "-p", "no:cacheprovider", "--tb=line", "-rpfE"]
        done = self.run(
            "-m", "pytest", *options, "tests/ops", *(word for n in names for word in ("--op", n))
        )
        assert done.returncode == 1, done.stdout + done.stderr  # those with an error fail
        found: dict[str, dict[str, list[str]]] = {
            n: {"PASSED": [], "FAILED": [], "ERROR": []} for n in names
        }
        for outcome, test, ids, _ in re.findall(
            r"^(PASSED|FAILED|ERROR) (tests/ops/\S*?)\[(.*?)\]( |$)", done.stdout, re.M
        ):
            name = max((n for n in names if ids.startswith(n)), key=len)
            found[name][outcome].append(test)
        return found


def build_directory() -> Path | None:
    """The newest finished build of this tree."""
    stated = os.environ.get("FACULA_BUILD_DIR")
    found = (
        [Path(stated)]
        if stated
        else [p.parent for p in ROOT.glob("build/*/build.ninja") if "sanitize" not in p.parent.name]
    )
    found = [p for p in found if (p / ".ninja_deps").exists() and list(p.glob("_C*.so"))]
    return max(found, key=lambda p: (p / ".ninja_deps").stat().st_mtime, default=None)


def cached(build: Path) -> list[str]:
    """The settings of a build that change what is compiled, as options of cmake."""
    text = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    wanted = r"CMAKE_BUILD_TYPE|CMAKE_CXX_COMPILER|CMAKE_CXX_FLAGS"
    wanted += r"|FACULA_WERROR|FACULA_SANITIZE|FACULA_QUICK"
    wanted += r"|Python_EXECUTABLE|Python_INCLUDE_DIR"
    lines = re.findall(rf"^({wanted}):[A-Z]+=(.*)$", text, re.M)
    given = {key: value for key, value in lines if value}
    python = given.get("Python_EXECUTABLE", "")
    if not Path(python).exists():
        given["Python_EXECUTABLE"] = sys.executable
    return [f"-D{key}={value}" for key, value in given.items()]


def siblings(stem: str, name: str) -> Iterator[str]:
    """Names whose generated code falls into the same files as that of `name`."""
    wanted = [zlib.crc32(name.encode()) % shards for shards in SHARDED.values()]
    for k in itertools.count(2):
        other = f"{stem}{k}"
        if [zlib.crc32(other.encode()) % shards for shards in SHARDED.values()] == wanted:
            yield other


def planted(pointwise: str) -> tuple[str, str, dict[str, str]]:
    """Entries and kernels of operators with one error each, and their names."""
    names = siblings(f"{pointwise}_", pointwise)
    formula, slope, kernel, gradient = (next(names) for _ in range(4))
    entries = POINTWISE.format(name=formula).replace("beta + abs", "beta + 1.001 * abs", 1)
    wrong_slope = 'derivative: {self: "scalar: grad * beta / (beta + abs(self))"}'
    entries += POINTWISE.format(name=slope).replace("derivative: auto", wrong_slope)
    entries += STRUCTURED.format(name=kernel, kernel="mirror_fold_wrong")
    wrong_gradient = 'derivative: {self: "grad"}'
    text = STRUCTURED.format(name=gradient, kernel="mirror_fold")
    entries += re.sub(r"derivative: .*", wrong_gradient, text)
    code = KERNEL.replace("KERNEL", "mirror_fold_wrong").replace("T(weight)", "T(weight * 1.001)")
    wrong = {"formula": formula, "derivative": slope, "kernel": kernel, "gradient": gradient}
    return entries, code, wrong


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    cmake, ninja = shutil.which("cmake", path=path), shutil.which("ninja", path=path)
    if cmake is None or ninja is None:
        pytest.skip("needs cmake and ninja")
    base = build_directory()
    if base is None:
        pytest.skip("needs a finished build below build/, or FACULA_BUILD_DIR")
    started = time.monotonic()
    root = tmp_path_factory.mktemp("adding") / "tree"
    ignored = shutil.ignore_patterns("build", "build-*", ".git", ".venv*", "__pycache__", "*.so")
    shutil.copytree(ROOT, root, ignore=ignored)
    pointwise = "softsign2"
    structured = next(siblings("mirror_fold", pointwise))
    entries, code, wrong = planted(pointwise)
    own = POINTWISE.format(name=pointwise), STRUCTURED.format(name=structured, kernel="mirror_fold")
    assert own[0].count("\n") <= 8 and own[1].count("\n") <= 15
    with (root / "ops.yaml").open("a", encoding="utf-8") as file:
        file.write("\n" + own[0] + own[1] + entries)
    kernels = root / "aten" / "cpu" / "mirror_fold.cpp"
    kernels.write_text(KERNEL.replace("KERNEL", "mirror_fold"), encoding="utf-8")
    (kernels.parent / "mirror_fold_wrong.cpp").write_text(code, encoding="utf-8")
    build = root / "build" / "adding"
    options = [*cached(base), f"-DFACULA_REUSE_OBJECTS={base}"]
    env = {**os.environ, "PATH": path}
    make = (ninja, "-C", str(build), "_C")
    for command in ((cmake, "-S", str(root), "-B", str(build), "-G", "Ninja", *options), make):
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    site = root / "build" / "site"
    shutil.copytree(root / "python" / "facula", site / "facula")
    shutil.copytree(build / "generated" / "facula", site / "facula", dirs_exist_ok=True)
    for module in build.glob("_C*.so"):
        shutil.copy(module, site / "facula")
    prefer(site)
    compiled = (build / "reuse" / "compiled.txt").read_text(encoding="utf-8").splitlines()
    seconds = time.monotonic() - started
    print(f"\ncompiled {len(compiled)} files; tree ready in {seconds:.0f} s")
    return Copy(root, site, pointwise, structured, wrong, compiled, seconds, make, env)


def test_compiles_its_own_files_only(copy: Copy) -> None:
    """Nothing hand-written is compiled but the new kernels; of the generated files one a kind."""
    hand = [p for p in copy.compiled if "/generated/" not in p]
    assert sorted(Path(p).name for p in hand) == ["mirror_fold.cpp", "mirror_fold_wrong.cpp"]
    made = [re.sub(r"_\d+\.cpp$", "", Path(p).name) for p in copy.compiled if p not in hand]
    assert set(made) == {"pointwise", "stubs", "autograd", "bindings", "module_table.cpp"}
    assert max(made.count(kind) for kind in set(made) - {"pointwise"}) == 1
    assert made.count("pointwise") <= 3  # one for each instruction set


def test_everything_is_there(copy: Copy) -> None:
    script = SCRIPT.replace("POINTWISE", copy.pointwise).replace("STRUCTURED", copy.structured)
    done = copy.run("-c", script)
    assert done.returncode == 0, done.stderr


def test_stub_and_page(copy: Copy, tmp_path: Path) -> None:
    stub = (copy.site / "facula" / "__init__.pyi").read_text(encoding="utf-8")
    assert f"def {copy.pointwise}(self: Tensor | Number, *, beta: Number = 1" in stub
    assert f"def {copy.structured}_(" in stub
    done = copy.run("-m", "codegen", "docs", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    page = (tmp_path / f"{copy.pointwise}.md").read_text(encoding="utf-8")
    assert f"`facula.nn.functional.{copy.pointwise}`" in page and "Smooth sign" in page
    assert copy.structured in (tmp_path / "index.md").read_text(encoding="utf-8")


def test_check_is_content(copy: Copy) -> None:
    done = copy.run("-m", "codegen", "check")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def outcomes(copy: Copy) -> dict[str, dict[str, list[str]]]:
    return copy.outcomes()


@pytest.mark.parametrize("kind", ["pointwise", "structured"])
def test_generated_tests_pass(copy: Copy, outcomes: Any, kind: str) -> None:
    found = outcomes[getattr(copy, kind)]
    assert not found["FAILED"] and len(found["PASSED"]) >= 10, found


@pytest.mark.parametrize("where", ["formula", "derivative", "kernel", "gradient"])
def test_planted_error_is_caught(copy: Copy, outcomes: Any, where: str) -> None:
    failed = outcomes[copy.wrong[where]]["FAILED"]
    wanted = "test_(value|edges)" if where in ("formula", "kernel") else "gradient"
    assert any(re.search(wanted, test) for test in failed), failed


def test_misspelt_kernel_does_not_link(copy: Copy) -> None:
    """The build fails, and says which operator wants which function."""
    path = copy.root / "aten" / "cpu" / "mirror_fold.cpp"
    good = path.read_text(encoding="utf-8")
    path.write_text(good.replace("mirror_fold(", "miror_fold("), encoding="utf-8")
    done = subprocess.run(copy.build, env=copy.env, capture_output=True, text=True, check=False)
    path.write_text(good, encoding="utf-8")
    assert done.returncode != 0
    wanted = (
        rf"ops\.yaml:\d+:\d+: {copy.structured}: no function `void facula::cpu::mirror_fold\("
        r"const Tensor& self, int64_t dim, double weight, const Tensor& out\)` in aten/cpu/; "
        r"did you mean 'miror_fold'\?"
    )
    assert re.search(wanted, done.stdout + done.stderr), done.stdout[-3000:]
