"""What a child process imports as torch: it installs facula.as_torch, which takes its place."""

import os as _os
import sys as _sys

try:
    from facula.as_torch import install as _install
except ModuleNotFoundError:  # the parent had facula on a path of its own
    _sys.path.append(_os.path.abspath(_os.path.join(_os.path.dirname(__file__), *[_os.pardir] * 4)))
    from facula.as_torch import install as _install

_install()
del _sys.modules["torch"]
import torch  # noqa: E402, F401
