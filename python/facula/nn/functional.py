"""Functions of networks: activations, convolutions, losses, ...

Every operator that `ops.yaml` declares for `nn.functional` is here under its name. Two kinds of
function need Python: those that take more than their operator does (`inplace`, `return_indices`)
and stand before it, and arrangements of several operators, which give way to an operator of the
same name.
"""

from __future__ import annotations

from typing import Any

from facula import _C
from facula.nn import (
    _activations,
    _attention,
    _losses,
    _noise,
    _pooling,
    _resize,
    _vectors,
)


def _functions(*modules: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for module in modules for name in module.__all__}


_found: dict[str, Any] = {
    **_functions(_attention, _losses, _noise, _resize, _vectors),
    **{n: f for n, f in vars(_C._nn_functional).items() if not n.startswith("__")},
    **_functions(_activations, _pooling),
}
globals().update(_found)

__all__ = sorted(name for name in _found if not name.startswith("_"))


def __getattr__(name: str) -> Any:
    import difflib

    near = difflib.get_close_matches(name, __all__, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"module {__name__!r} has no function {name!r}{hint}")
