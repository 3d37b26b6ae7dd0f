"""What the tests of extensions build, and how they run processes that use it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from facula.utils import cpp_extension

QUICK = ["-O0"]  # what is looked at is the same
OPERATORS = """\
- op: soft_sign(Tensor self, *, Scalar beta=1) -> Tensor
  doc: Smooth sign, self / (beta + |self|).
  scalar: self / (beta + abs(self))
  derivative: auto
  samples: ["f(3,4)", "f(0)", "f(), beta=2"]
  reference: self / (beta + np.abs(self))

- op: mirror_fold(Tensor self, int dim, float weight=0.5) -> Tensor
  doc: Adds weight times its own mirror image along a dim.
  kind: structured
  shape: flipped(self, [dim])
  dispatch: {CPU: mirror_fold}
  derivative: {self: "mirror_fold(grad, dim, weight)"}
  forward: linear
  variants: [inplace, out]
  samples: ["f(3,4), 1", "f(3,4), 0, 2.0", "f(0,4), 0", "f(5), -1"]
  reference: self + weight * np.flip(self, dim)

- op: squared_distance(Tensor self, Tensor other) -> Tensor
  doc: The sum of the squares of differences.
  composite: sum(square(self - other))
  python: [function]
  samples: ["f(3,4), f(3,4)", "f(3,4), f(4)"]
  reference: np.sum((self - other) ** 2)

- op: wrong_value(Tensor self) -> Tensor
  doc: What its reference does not say.
  scalar: self * 2.001
  derivative: auto
  reference: self * 2

- op: wrong_slope(Tensor self) -> Tensor
  doc: Its derivative is another's.
  scalar: self * self
  derivative: {self: "scalar: grad * self"}
  reference: self * self
"""
KERNEL = r"""
#include "mine/kernels.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

void mirror_fold(const Tensor& self, int64_t dim, double weight, const Tensor& out) {
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
  visit_floating(self.dtype(), "mirror_fold", [&]<typename T>(std::type_identity<T>) {
    for_each_row(plan, [weight](char** p, const int64_t* step, int64_t n) {
      const auto at = [&](int k, int64_t i) { return reinterpret_cast<T*>(p[k] + i * step[k]); };
      for (int64_t i = 0; i < n; ++i) {
        *at(0, i) = static_cast<T>(double(*at(1, i)) + weight * double(*at(2, i)));
      }
    });
  });
}

}  // namespace facula::cpu
"""


def load_operators(folder: Path) -> ModuleType:
    return cpp_extension.load(
        "mine", folder / "mirror.cpp", extra_cflags=QUICK, ops=folder / "mine.yaml"
    )


def write_conftest(folder: Path) -> None:
    """One that loads the operators for the tests beside it."""
    (folder / "conftest.py").write_text(
        "from pathlib import Path\nfrom facula.utils import cpp_extension\n"
        "HERE = Path(__file__).parent\n"
        "cpp_extension.load('mine', HERE / 'mirror.cpp', ops=HERE / 'mine.yaml',\n"
        f"                   extra_cflags={QUICK})\n"
    )


def path() -> str:
    return os.pathsep.join(p for p in sys.path if p)


def run(*command: str, cwd: Path, before: str = "") -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([before, path()] if before else [path()])}
    done = subprocess.run(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout
