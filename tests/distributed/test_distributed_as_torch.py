"""A program written for torch.distributed gives here what it gives there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

# What torch 2.13 prints: torchrun --nproc-per-node 4 torch_program.py FOLDER
SAID = """
parameters 0.1627086516 -0.0842504208 -0.0537772585 -0.0013606346 -0.2242802773 0.1496388214 \
-0.2210869520 1.3056556865 -0.2013549171 0.0529778125 -0.3032721251 -0.4001944110 0.0690154635 \
0.4637507406 0.0587197927 -0.0247011567
state 16 (32, 16)
loaded 0.5151511954
ScheduleGPipe 2.4403438709 3.6941973454 5.0466560919 5.6931280234 2.8203865182 24.4338084706
Schedule1F1B 2.4403438709 3.6941973454 5.0466560919 5.6931280234 2.8203865182 24.4338084706
join -0.0018988017
"""
NUMBER = r"-?\d+\.?\d*"


def test_a_program_of_torchs(tmp_path):
    program = Path(__file__).with_name("torch_program.py")
    launch = ["-m", "facula.distributed.run", "--nproc-per-node", "4", "-m", "facula.as_torch"]
    done = subprocess.run(
        [sys.executable, *launch, str(program), str(tmp_path / "checkpoint")],
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = sorted(re.sub(r"^\[\d\] ", "", line) for line in done.stdout.splitlines())
    expected = sorted(SAID.strip().splitlines())
    assert [line.split()[0] for line in said] == [line.split()[0] for line in expected]
    for line, wanted in zip(said, expected, strict=True):
        numbers = [float(n) for n in re.findall(NUMBER, line)]
        theirs = [float(n) for n in re.findall(NUMBER, wanted)]
        assert numbers == pytest.approx(theirs, abs=1e-9, rel=0)
