"""Programs that call torch.jit, run as they are: what they print is what torch 2.13 printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import facula

PROGRAM = Path(__file__).with_name("torch_program.py")
# `python tests/jit/torch_program.py` with torch 2.13, 2026-11-30.
SAID = """\
lstm (1.4369, (4, 1, 2))
gelu 0.8413
nms [0, 2]
attn (3.291, True)
namedtuple (3.0, 2.0)
namedtuple2 3.0
opt (1.0, 2.0)
strs a=1,Bc=32
m2 [8.0, 8.0]
dyn [33.0, 25.0, 19.0]
transformer 0.8
ser ([3.0], ['b', 'l.bias', 'l.weight'], True, True, 2.0)
kw 2.0
isinst (True, True, torch.Size([1, 1]))
state ['bias', 'weight']
seq (2, torch.Size([2, 2]))
graph True
fork 0.0
nograd False
"""


def test_a_program_of_torchs_idioms_prints_the_same():
    root = str(Path(facula.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", "facula.as_torch", str(PROGRAM)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout == SAID, done.stdout + done.stderr
