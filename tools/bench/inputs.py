"""The same inputs for every library: drawn by NumPy, owned by the library that uses them."""

from __future__ import annotations

from typing import Any

import numpy as np


class Inputs:
    """Draws in order, so that two libraries that run one setup have the same numbers."""

    def __init__(
        self, lib: Any, seed: int = 0, device: str = "cpu", rank: int = 0, ranks: int = 1
    ) -> None:
        self.lib, self.rng, self.device = lib, np.random.default_rng(seed), device
        self.rank, self.ranks = rank, ranks  # which process of how many this is
        self.operands: tuple[Any, ...] = ()  # what a setup leaves for its checks

    def own(self, array: Any, dtype: str | None = None, grad: bool = False) -> Any:
        """The library's copy of an array, in memory that it has allocated."""
        if self.lib is np:
            return array.astype(dtype) if dtype else array
        tensor = self.lib.from_numpy(np.asarray(array, order="C")).clone()
        if self.device != "cpu":
            tensor = tensor.to(self.device)
        if dtype and str(array.dtype) != dtype:
            tensor = tensor.to(getattr(self.lib, dtype))
        return tensor.requires_grad_() if grad else tensor

    def floats(
        self, *shape: int, low: float = -1.0, high: float = 1.0, dtype: str = "", grad: bool = False
    ) -> Any:
        """Evenly distributed in [low, high)."""
        wide = np.float64 if dtype == "float64" else np.float32
        values = self.rng.random(shape, dtype=wide)
        if (low, high) != (0.0, 1.0):
            values *= wide(high - low)
            values += wide(low)
        return self.own(values, dtype or "float32", grad)

    def normal(self, *shape: int, scale: float = 1.0, dtype: str = "", grad: bool = False) -> Any:
        values = self.rng.standard_normal(shape, dtype=np.float32)
        values *= np.float32(scale)
        return self.own(values, dtype or "float32", grad)

    def tiled(self, size: int, dtype: str = "", grad: bool = False) -> Any:
        """Normal numbers of which so many are drawn by repeating a million of them."""
        piece = self.normal(1 << 20, dtype=dtype)
        tensor = piece.repeat(-(-size // len(piece)))[:size]
        return tensor.requires_grad_() if grad else tensor

    def integers(self, *shape: int, low: int = 0, high: int, dtype: str = "int64") -> Any:
        return self.own(self.rng.integers(low, high, shape).astype(dtype))

    def bools(self, *shape: int) -> Any:
        return self.own(self.rng.random(shape, dtype=np.float32) < 0.5)

    def shuffled(self, size: int) -> Any:
        """Floats without ties, so that every sort has one answer."""
        return self.own(self.rng.permutation(size).astype(np.float32))

    def part(self, n: int) -> slice:
        """Which of `n * ranks` rows that all processes draw are this one's."""
        return slice(self.rank * n, (self.rank + 1) * n)

    def fill(self, module: Any, scale: float = 0.1, tiled: bool = False) -> Any:
        """The same parameters in every library's copy of a network; returns it.

        Large ones are quickly made where a million draws are repeated: `tiled`.
        """
        with self.lib.no_grad():
            for name, parameter in module.named_parameters():
                shape = tuple(parameter.shape)
                if len(shape) > 1:
                    fan = int(np.prod(shape[1:]))
                    if tiled:
                        values = self.tiled(parameter.numel()).view(shape) * fan**-0.5
                    else:
                        values = self.normal(*shape, scale=fan**-0.5)
                    parameter.copy_(values)
                elif name.endswith("weight"):  # of a normalization
                    parameter.copy_(self.floats(*shape, low=0.9, high=1.1))
                else:
                    parameter.copy_(self.normal(*shape, scale=scale))
        return module
