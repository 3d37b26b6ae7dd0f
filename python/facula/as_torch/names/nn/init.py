"""`torch.nn.init`: names without the underscore, which torch keeps with a warning."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from facula.nn import init

_OLD = (
    "constant dirac eye kaiming_normal kaiming_uniform normal orthogonal uniform xavier_normal"
    " xavier_uniform"
).split()


def _old_name(name: str) -> Any:
    new = getattr(init, name + "_")

    @functools.wraps(new)
    def function(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"nn.init.{name} is now deprecated in favor of nn.init.{name}_",
            FutureWarning,
            stacklevel=2,
        )
        return new(*args, **kwargs)

    function.__name__ = name
    return function


_calculate_fan_in_and_fan_out = init._calculate_fan_in_and_fan_out
_calculate_correct_fan = init._fan


def _no_grad_trunc_normal_(
    tensor: Any, mean: float, std: float, a: float, b: float, generator: Any = None
) -> Any:
    return init.trunc_normal_(tensor, mean, std, a, b, generator=generator)


globals().update({name: _old_name(name) for name in _OLD})
