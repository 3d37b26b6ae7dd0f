"""Batch normalisation without running statistics, which function transforms cannot write to."""

from __future__ import annotations

from facula.nn import Module
from facula.nn.modules.batchnorm import _BatchNorm

__all__ = ["replace_all_batch_norm_modules_"]


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let every batch normalisation of a module use its batch's statistics alone, in place."""
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
