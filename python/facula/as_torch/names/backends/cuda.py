"""`torch.backends.cuda`: switches that can be set."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

matmul = types.SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=False,
    allow_bf16_reduced_precision_reduction=False,
    fp32_precision="ieee",
)
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Does this build of facula have the device "cuda"?"""
    import os

    from facula.cuda import _vendor

    return os.path.exists(_vendor.LIBRARY)


def _switch(kind: str) -> tuple[Any, Any]:
    def enable(enabled: bool) -> None:
        _attention[kind] = bool(enabled)

    def is_enabled() -> bool:
        return _attention[kind]

    enable.__doc__ = f"Take note of it; facula's attention has one method. ({kind})"
    is_enabled.__doc__ = f"What the switch of {kind} was given."
    return enable, is_enabled


enable_flash_sdp, flash_sdp_enabled = _switch("flash")
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _switch("mem_efficient")
enable_math_sdp, math_sdp_enabled = _switch("math")
enable_cudnn_sdp, cudnn_sdp_enabled = _switch("cudnn")


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Within it the switches are these."""
    before = dict(_attention)
    _attention.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        _attention.update(before)
