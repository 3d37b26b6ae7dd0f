"""Checkpoints of several processes: whole or not at all, for any number of readers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import facula as fa
import numpy as np
import pytest
from facula.distributed import checkpoint

WRITE = """
from facula.distributed import checkpoint
dist.init_process_group()
state = {
    "model": {f"layer {i}": fa.full((i + 1, 3), float(i), dtype=fa.bfloat16 if i % 2 else
    fa.float64)
              for i in range(7)},
    "optimizer": {"state": {rank: {"m": fa.full((4,), float(rank))}}, "groups": [{"lr": 0.5}]},
    "step": 12,
}
checkpoint.save(state, checkpoint_id="last")
"""


def test_any_number_of_processes_reads(job, tmp_path):
    job(3, WRITE)
    files = json.loads((tmp_path / "last" / "index.json").read_text())["files"]
    assert len(set(files.values())) == 3  # each wrote a share
    read = """
        from facula.distributed import checkpoint
        dist.init_process_group()
        state = {
            "model": {f"layer {i}": fa.zeros(i + 1, 3) for i in range(7)},
            "optimizer": {"state": {r: {"m": fa.zeros(4)} for r in range(3)}, "groups": [{"lr":
            0}]},
            "step": 0,
        }
        checkpoint.load(state, checkpoint_id="last")
        assert all((t == i).all() for i, t in enumerate(state["model"].values()))
        assert all((s["m"] == r).all() for r, s in state["optimizer"]["state"].items())
        assert state["step"] == 12 and state["optimizer"]["groups"] == [{"lr": 0.5}]
        print("good")
    """
    assert job(2, read) == [["good"]] * 2


def test_alone(tmp_path):
    place = tmp_path / "folder"
    x = fa.arange(6.0).reshape(2, 3)
    state = {"x": x.T, "none": None, "empty": {}, "text": "a", "list": [x[0], 5]}
    checkpoint.save(state, checkpoint_id=place)
    got = {"x": fa.zeros(3, 2), "none": 1, "empty": 1, "text": "", "list": [fa.zeros(3), 0]}
    checkpoint.load(got, checkpoint_id=place)
    np.testing.assert_array_equal(got["x"].numpy(), x.T.numpy())
    assert got["none"] is None and got["empty"] == {} and got["text"] == "a"
    assert got["list"][0].tolist() == [0, 1, 2] and got["list"][1] == 5
    checkpoint.save({"x": x.T + 1}, checkpoint_id=place)
    assert sorted(p.name[:5] for p in place.iterdir()) == ["index", "step-"]
    with pytest.raises(KeyError, match="has no none; it has 1 names"):
        checkpoint.load(got, checkpoint_id=place)
    with pytest.raises(ValueError, match=r"x is \(3, 2\).*\(2,\) here"):
        checkpoint.load({"x": fa.zeros(2)}, checkpoint_id=place)
    with pytest.raises(FileNotFoundError):
        checkpoint.load(got, checkpoint_id=tmp_path / "nothing")
    for text in ("", "[]", '{"format": 1, "files": {"a": "../../etc/passwd"}}', '{"format": 9}'):
        (place / "index.json").write_text(text)
        with pytest.raises(ValueError, match="no index of a checkpoint"):
            checkpoint.load(got, checkpoint_id=place)


def test_one_that_cannot_write(job, tmp_path):
    """All raise, the error names who failed, and the old checkpoint stays."""
    said = job(
        2,
        """
        from facula.distributed import checkpoint
        dist.init_process_group()
        checkpoint.save({"x": fa.ones(2)}, checkpoint_id="last")
        bad = {"x": fa.zeros(2), f"odd {rank}": (lambda: 0) if rank == 1 else 3}
        try:
            checkpoint.save(bad, checkpoint_id="last")
            raise SystemExit("not refused")
        except TypeError:
            assert rank == 1
        except RuntimeError as error:
            assert rank == 0 and "rank 1: TypeError" in str(error), error
        got = {"x": fa.zeros(2)}
        checkpoint.load(got, checkpoint_id="last")
        assert got["x"].tolist() == [1, 1]
        print("good")
        """,
    )
    assert said == [["good"]] * 2
    assert sorted(p.name[:5] for p in (tmp_path / "last").iterdir()) == ["index", "step-"]


def test_killed_at_any_moment(tmp_path):
    """A writer that is killed leaves the checkpoint before, or its own, whole."""
    code = """
        import sys, facula as fa
        from facula.distributed import checkpoint
        i = 0
        while True:
            i += 1
            state = {f"t{k}": fa.full((2000,), float(i)) for k in range(20)}
            checkpoint.save(state, checkpoint_id=sys.argv[1])
            print(i, flush=True)
    """
    rng = np.random.default_rng(0)
    place = tmp_path / "last"
    for _ in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(place)],
            stdout=subprocess.PIPE,
            text=True,
        )
        writer.stdout.readline()  # the first is there
        time.sleep(rng.uniform(0, 0.1))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        state = {f"t{k}": fa.zeros(2000) for k in range(20)}
        checkpoint.load(state, checkpoint_id=place)
        values = {float(t.min()) for t in state.values()} | {float(t.max()) for t in state.values()}
        assert len(values) == 1 and values != {0.0}
    checkpoint.save({"x": fa.ones(1)}, checkpoint_id=place)
    assert sorted(name[:5] for name in os.listdir(place)) == ["index", "step-"]
