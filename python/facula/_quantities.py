"""Functions of quantized tensors, which facula does not have: they raise when they are called."""

from __future__ import annotations

from typing import Any

__all__ = ["choose_qparams_optimized", "fused_moving_avg_obs_fake_quant", "int_repr"]


def _refused(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"{name}(): facula has no quantized tensors; models run in float16, bfloat16, float32 "
            f"or float64"
        )

    function.__name__ = function.__qualname__ = name
    function._is_refused = True  # type: ignore[attr-defined]
    function.__doc__ = "Raises RuntimeError: facula has no quantized tensors."
    return function


choose_qparams_optimized = _refused("choose_qparams_optimized")
fused_moving_avg_obs_fake_quant = _refused("fused_moving_avg_obs_fake_quant")
int_repr = _refused("int_repr")
