#!/usr/bin/env python3
"""How long many processes on one machine take to begin, meet and end a job, and what they leave.

    python tools/many_ranks.py --ranks 64

Each process writes when it came to which point. Printed are the times of the slowest, and what is
there after the job that was not before: processes, shared memory, temporary files, listening
ports. The status is 1 if anything is left.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = """
import json, os, sys, time
marks = [time.time()]
import facula as fa
import facula.distributed as dist
marks.append(time.time())
dist.init_process_group()
marks.append(time.time())
dist.barrier()
marks.append(time.time())
t = fa.full((1000,), float(dist.get_rank()))
dist.all_reduce(t)
n = dist.get_world_size()
assert (t == n * (n - 1) / 2).all()
marks.append(time.time())
peak = [l for l in open("/proc/self/status") if l.startswith("VmHWM")][0].split()[1]
dist.destroy_process_group()
marks.append(time.time())
with open(os.path.join(sys.argv[1], os.environ["RANK"]), "w") as file:
    json.dump([marks, int(peak)], file)
"""
STEPS = ("import", "init", "barrier", "all_reduce", "destroy")


def _listening() -> set[str]:
    found = set()
    for name in ("tcp", "tcp6"):
        lines = Path("/proc/net", name).read_text().splitlines()[1:]
        found |= {line.split()[1] for line in lines if line.split()[3] == "0A"}
    return found


def _processes(mark: str) -> set[str]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.add(entry.name)
            except OSError:
                continue
    return found


def _names(folder: str) -> set[str]:
    return set(os.listdir(folder))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=64)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        temporary, out = Path(home, "tmp"), Path(home, "out")
        temporary.mkdir(), out.mkdir()
        program = Path(home, "program.py")
        program.write_text(PROGRAM)
        mark = f"MANY_RANKS={os.getpid()}"
        before = _names("/dev/shm"), _listening()
        command = ["-m", "facula.distributed.run", "--nproc-per-node", str(args.ranks)]
        start = time.time()
        done = subprocess.run(
            [sys.executable, *command, str(program), str(out)],
            env={**os.environ, **dict([mark.split("=")]), "TMPDIR": str(temporary)},
            capture_output=True,
            text=True,
        )
        whole = time.time() - start
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        told = [json.loads((out / str(r)).read_text()) for r in range(args.ranks)]
        left = {
            "processes": sorted(_processes(mark)),
            "shared memory": sorted(_names("/dev/shm") - before[0]),
            "ports": sorted(_listening() - before[1]),
            "temporary files": sorted(_names(str(temporary))),
        }
    marks = [t[0] for t in told]
    ready = max(m[1] for m in marks)  # all have imported
    print(f"{args.ranks} processes on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for i, step in enumerate(STEPS):
        first, last = min(m[i] for m in marks), max(m[i + 1] for m in marks)
        print(f"{step:>10}: {last - first:6.2f} s from the first to begin to the last to end")
    print(f"   the job: {max(m[-1] for m in marks) - ready:6.2f} s from the last import to the end")
    print(f"     whole: {whole:6.2f} s with the launcher")
    print(f"    memory: {max(t[1] for t in told) / 1024:6.0f} MiB at most in a process")
    for what, names in left.items():
        print(f"left, {what}: {names or 'nothing'}")
    return int(any(left.values()))


if __name__ == "__main__":
    sys.exit(main())
