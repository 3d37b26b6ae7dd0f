"""Every CUDA kernel compiles for each architecture; NVRTC needs no GPU for that."""

from __future__ import annotations

import pytest


# The oldest and the newest to the end. Of one between them the PTX: four fifths of the time go into
# assembling it, and what it is made of is what the oldest has, of which nothing is taken away.
@pytest.mark.parametrize("arch", ["sm_80", "compute_90", "sm_100"])
def test_every_kernel_compiles(arch: str) -> None:
    from facula.cuda import _vendor, precompile

    if not _vendor.module().facula_cuda_has_compiler():
        pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc")
    report = precompile.precompile(arch, level=-1)
    assert not report.failed, report.errors
    assert report.compiled + report.found > 150


def test_newer_architectures_get_ptx() -> None:
    from facula.cuda import _vendor, precompile

    if not _vendor.module().facula_cuda_has_compiler():
        pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc")
    report = precompile.precompile("sm_9999", "copy.cu", level=0)
    assert not report.failed, report.errors
    assert report.compiled + report.found > 0
