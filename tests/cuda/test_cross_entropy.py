"""The kernel of cross entropy on the host, by threads: rows with infinities and NaN, gradients."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from emulation import link_headers

SOURCE = """#include "emulated.h"
#include "facula/cuda/types.h"
namespace facula {{
enum {{ kIndexOutOfRange = 2 }};
inline void report(int, int64_t, int64_t) {{}}
}}
using I = {t}; using W = {t}; using X = int64_t; using O = {t}; using T = {t};
#define FACULA_KIND {kind}
#define FACULA_LANES 32
#define FACULA_VEC {vec}
#define FACULA_ITEMS 0
#include "facula/cuda/cross_entropy.cu"
extern "C" void emulate(unsigned grid, const void* params) {{
  run_kernel(facula_loss, grid, 128, params);
}}
"""


def built(folder: Path, **settings: object) -> ctypes.CDLL:
    include = folder / "include"
    if not include.exists():
        link_headers(include)
    path = folder / f"loss{settings['kind']}"
    if path.with_suffix(".so").exists():
        return ctypes.CDLL(f"{path}.so")
    path.with_suffix(".cpp").write_text(SOURCE.format(**settings))
    command = ["g++", "-std=c++20", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-pthread"]
    command += [f"-I{include}", f"{path}.cpp", "-o", f"{path}.so"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    return ctypes.CDLL(f"{path}.so")


def right(x: np.ndarray, target: int) -> tuple[float, np.ndarray]:
    """-log of the limit of the softmax, and its slopes; beside one +inf others have no share."""
    top = x.max()
    if np.isnan(x).any() or top == -np.inf or (x == np.inf).sum() > 1:
        return np.nan, np.full(x.size, np.nan)
    if top == np.inf:
        p = (x == top) * 1.0
        loss = 0.0 if p[target] == 1 else np.inf
    else:
        p = np.exp(x - top)
        loss = top - x[target] + np.log(p.sum())
        p /= p.sum()
    slopes = p.copy()
    slopes[target] -= 1
    return loss, slopes


@pytest.mark.parametrize(
    ("name", "dtype", "vec"), [("float", np.float32, 2), ("double", np.float64, 1)]
)
def test_rows_with_infinities(tmp_path: Path, name: str, dtype: type, vec: int) -> None:
    inf, nan = np.inf, np.nan
    x = (np.random.default_rng(0).standard_normal((12, 70)) * 3).astype(dtype)
    changed: list[dict[int, float]] = [
        {},
        {3: inf},
        {69: inf},
        {5: inf, 44: inf},
        {0: -inf},
        {0: 1e30},
        {3: nan, 60: inf},
        {60: nan, 3: inf},
        {1: -1e30, 2: inf, 3: -inf},
        {7: nan},
    ]
    for row, change in enumerate(changed):
        for place, value in change.items():
            x[row, place] = value
    x[10:] = -inf
    x[11, 9] = 1
    rows, length = x.shape
    kept = [np.zeros(2 * rows, dtype), np.zeros(rows), np.zeros(rows), np.zeros(1)]
    grad_out = np.ones(rows, dtype)

    def run(kind: int, target: np.ndarray, out: np.ndarray) -> np.ndarray:
        numbers = [x.ctypes.data, target.ctypes.data, 0, out.ctypes.data]
        numbers += [*(k.ctypes.data for k in kept), grad_out.ctypes.data]
        numbers += [rows, length, -100, 0, x.itemsize]
        params = (ctypes.c_int64 * len(numbers))(*numbers)
        built(tmp_path, kind=kind, t=name, vec=vec).emulate(rows // 4, params)
        return out

    for targets in ([3] * 12, [0, 3, 69, 5, 0, 0, 60, 3, 2, 7, 1, 9]):
        target = np.array(targets, dtype=np.int64)
        losses = run(0, target, np.zeros(rows, dtype))
        grad = run(1, target, np.zeros_like(x))
        for row in range(rows):
            loss, slopes = right(x[row].astype(float), targets[row])
            np.testing.assert_allclose(losses[row], loss, 1e-5, 1e-6)
            np.testing.assert_allclose(grad[row], slopes, 1e-5, 1e-6)
