"""What tests of operators share beside facula.testing: the references of ops.yaml, processes."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import array_reference
import fft_reference
import gamma_reference
import linalg_reference
import nn_reference
import optim_reference
import rnn_reference
from facula.testing import _calls
from facula.testing._calls import (
    COMPLEX,
    FLOATS,
    FORMATS,
    INTS,
    arguments,
    call,
    compare,
    convert,
    dtypes_of,
    largest,
    off,
    to_facula,
    to_numpy,
)
from facula.testing._samples import OpRecord, Sample

__all__ = [
    "COMPLEX",
    "FLOATS",
    "FORMATS",
    "INTS",
    "REFERENCES",
    "arguments",
    "call",
    "compare",
    "convert",
    "dtypes_of",
    "largest",
    "off",
    "reference",
    "run_python",
    "to_facula",
    "to_numpy",
]

REFERENCES = SimpleNamespace()
_MODULES = (
    array_reference,
    fft_reference,
    gamma_reference,
    linalg_reference,
    nn_reference,
    optim_reference,
    rnn_reference,
)
for _module in _MODULES:
    vars(REFERENCES).update(vars(_module))


def reference(op: OpRecord, numpy: Sample) -> Any:
    """The value by NumPy or SciPy, or by the modules beside this one."""
    return _calls.reference(op, numpy, REFERENCES)


def run_python(code: str, **variables: str) -> None:
    """Run code that must succeed in a process of its own, which imports what this one does."""
    folders = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": folders, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
