"""Functions of networks: activations, convolutions, losses, ...

Every operator that `ops.yaml` declares for `nn.functional` is here under its name. A few functions
are arrangements of operators that need Python; where the extension declares an operator of the
same name, that one is used.
"""

from __future__ import annotations

from typing import Any

from facula import _C
from facula.nn import _attention, _losses, _noise, _resize, _vectors

_python: dict[str, Any] = {
    name: getattr(module, name)
    for module in (_attention, _losses, _noise, _resize, _vectors)
    for name in module.__all__
}
_operators: dict[str, Any] = {
    name: getattr(_C._nn_functional, name)
    for name in dir(_C._nn_functional)
    if not name.startswith("__")
}
globals().update(_python)
globals().update(_operators)

__all__ = sorted(n for n in {*_python, *_operators} if not n.startswith("_"))


def __getattr__(name: str) -> Any:
    import difflib

    near = difflib.get_close_matches(name, __all__, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"module {__name__!r} has no function {name!r}{hint}")
