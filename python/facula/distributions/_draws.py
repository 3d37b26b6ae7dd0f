"""Draws whose gradients are those of the quantile function (Figurnov et al. 2018)."""

from __future__ import annotations

import facula
from facula import _C

standard_gamma = _C._ops._standard_gamma
standard_log_gamma = _C._ops._standard_log_gamma
sample_dirichlet = _C._ops._sample_dirichlet
binomial = facula.binomial
