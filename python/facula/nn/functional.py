"""Functions of networks: activations, convolutions, losses, ...

Every operator that `ops.yaml` declares for `nn.functional` is here under its name. Two kinds of
function need Python: those that take more than their operator does (`inplace`, `return_indices`)
and stand before it, and arrangements of several operators, which give way to an operator of the
same name.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from facula import _C
from facula.nn import (
    _activations,
    _attention,
    _ctc,
    _embedding,
    _fractional,
    _grid,
    _linear_loss,
    _losses,
    _noise,
    _norms,
    _pooling,
    _resize,
)
from facula.overrides import add_space, overridable

if TYPE_CHECKING:  # what `_found` puts here, for readers that do not run the code
    from facula._nn_functional_ops import *  # noqa: F403
    from facula.nn._activations import *  # noqa: F403
    from facula.nn._attention import *  # noqa: F403
    from facula.nn._ctc import *  # noqa: F403
    from facula.nn._embedding import *  # noqa: F403
    from facula.nn._fractional import *  # noqa: F403
    from facula.nn._grid import *  # noqa: F403
    from facula.nn._linear_loss import *  # noqa: F403
    from facula.nn._losses import *  # noqa: F403
    from facula.nn._noise import *  # noqa: F403
    from facula.nn._norms import *  # noqa: F403
    from facula.nn._pooling import *  # noqa: F403
    from facula.nn._resize import *  # noqa: F403


def _functions(*modules: Any) -> dict[str, Any]:
    found = {n: overridable(getattr(module, n)) for module in modules for n in module.__all__}
    for function in found.values():
        function.__module__ = __name__
    return found


_found: dict[str, Any] = {
    **_functions(_attention, _ctc, _embedding, _fractional, _grid, _linear_loss),
    **_functions(_losses, _noise, _norms, _resize),
    **{n: f for n, f in vars(_C._nn_functional).items() if not n.startswith("__")},
    **_functions(_activations, _pooling),
}
globals().update(_found)
add_space("torch.nn.functional", sys.modules[__name__])

__all__ = sorted(name for name in _found if not name.startswith("_"))


# Modes of `grid_sample` by the numbers that `grid_sampler` has for them.
GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}
# What torch shows here of other modules.
_ELSEWHERE = {
    "facula": "Tensor",
    "facula.nn._low_level": "conv_tbc native_channel_shuffle",
    "facula.nn._scaled": "BroadcastingList1 BroadcastingList2 BroadcastingList3 DType ScalingType"
    " SwizzleType assert_int_or_pair boolean_dispatch grouped_mm scaled_grouped_mm scaled_mm",
    "facula.overrides": "handle_torch_function has_torch_function has_torch_function_unary"
    " has_torch_function_variadic",
}


def __getattr__(name: str) -> Any:
    import difflib
    import importlib

    for place, names in _ELSEWHERE.items():
        if name in names.split():
            return getattr(importlib.import_module(place), name)

    near = difflib.get_close_matches(name, __all__, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"module {__name__!r} has no function {name!r}{hint}")
