"""Starts a program as a job of several processes: `python -m facula.distributed.run`.

    python -m facula.distributed.run --nproc-per-node 4 train.py --epochs 3

Each process finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in
its
environment, as torchrun's do, and calls `init_process_group()`. If one fails, all are ended, and
with
`--max-restarts` started again; a program goes on from its last checkpoint.

On several machines, run it on each with the same `--nnodes`, `--master-addr`, `--master-port` and
FACULA_DISTRIBUTED_SECRET, and its own `--node-rank`.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from facula.distributed import _secret
from facula.distributed._errors import DistError
from facula.distributed._processes import Failure, Processes
from facula.distributed._store import TCPStore

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m facula.distributed.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    for name, default, text in (
        ("nproc-per-node", "1", "processes on this machine; a number, cpu or auto (one a core)"),
        ("nnodes", "1", "how many machines"),
        ("node-rank", "0", "which machine this is, from 0"),
        ("master-addr", None, "address of machine 0; this machine alone by default"),
        ("master-port", "0", "a port of machine 0; a free one by default (one machine)"),
        ("max-restarts", "0", "how often all are started again after a failure"),
        ("log-dir", None, "a folder for a log of each process, instead of showing all lines"),
        ("rdzv-id", None, "a name of the job"),
        ("rdzv-endpoint", None, "HOST:PORT, as --master-addr and --master-port"),
        ("rdzv-backend", "static", "accepted: there is one way to meet"),
    ):
        add(f"--{name}", f"--{name.replace('-', '_')}", default=default, help=text)
    add("--standalone", action="store_true", help="one machine, and a free port: the default")
    add("-m", "--module", action="store_true", help="PROGRAM is a module")
    add("--no-python", "--no_python", action="store_true", help="PROGRAM is no Python program")
    add("program", metavar="PROGRAM", help="a file, or with -m a module")
    add("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS", help="what it is given")
    return parser


def _count(text: str) -> int:
    if text in ("auto", "cpu"):
        return len(os.sched_getaffinity(0))
    if not text.isdigit() or int(text) < 1:
        sys.exit(f"run: --nproc-per-node is {text!r}; give a number from 1, cpu or auto")
    return int(text)


def _number(name: str, text: str, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        sys.exit(f"run: --{name} is {text!r}; give a number from {least} to {most}")
    return value


class Job:
    """What the command line says."""

    def __init__(self, args: Any) -> None:
        self.local = _count(args.nproc_per_node)
        self.nodes = _number("nnodes", args.nnodes, 1, 100_000)
        self.node = _number("node-rank", args.node_rank, 0, self.nodes - 1)
        self.restarts = _number("max-restarts", args.max_restarts, 0, 1_000_000)
        host, port = args.master_addr, args.master_port
        if args.rdzv_endpoint:
            host, _, end = args.rdzv_endpoint.rpartition(":")
            port = end or port
        if self.nodes > 1 and (not host or int(port or 0) == 0):
            sys.exit("run: several machines want --master-addr and --master-port")
        self.host = host or "127.0.0.1"
        self.port = _number("master-port", port, 0, 65535)
        self.name = args.rdzv_id or uuid.uuid4().hex[:8]
        self.logs = None if args.log_dir is None else Path(args.log_dir)
        if args.no_python:
            self.command = [args.program]
        else:
            self.command = [sys.executable, "-u", *(["-m"] if args.module else []), args.program]
        self.command += args.arguments
        self.secret = os.environ.get(_secret.VARIABLE)
        if self.secret is None:
            if self.nodes > 1 and not _secret.is_loopback(self.host):
                sys.exit(
                    f"run: set {_secret.VARIABLE} to the same random text on all machines, so that"
                    " they know each other"
                )
            self.secret = _secret.new() if self.nodes == 1 else None

    def environments(self, port: int, restart: int) -> dict[int, dict[str, str]]:
        """Of each process, by its rank."""
        size, first = self.local * self.nodes, self.local * self.node
        shared = {
            **os.environ,
            "MASTER_ADDR": self.host,
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(self.local),
            "GROUP_RANK": str(self.node),
            "GROUP_WORLD_SIZE": str(self.nodes),
            "ROLE_NAME": "default",
            "ROLE_WORLD_SIZE": str(size),
            "TORCHELASTIC_RUN_ID": self.name,
            "TORCHELASTIC_RESTART_COUNT": str(restart),
            "TORCHELASTIC_MAX_RESTARTS": str(self.restarts),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
        if self.local > 1:
            shared.setdefault("OMP_NUM_THREADS", "1")
        if self.secret is not None:
            shared[_secret.VARIABLE] = self.secret
        return {
            first + i: {
                **shared, "RANK": str(first + i), "LOCAL_RANK": str(i), "ROLE_RANK": str(first + i),
            }
            for i in range(self.local)
        }  # fmt: skip

    def run(self, restart: int) -> None:
        """One try.

        Raises:
            Failure: a process of this machine failed.
        """
        store = None
        # Each try has a store of its own: nothing of the one before is left in it.
        port = self.port + restart if self.port and self.nodes > 1 else self.port
        try:
            if self.node == 0:
                secret = self.secret.encode() if self.secret else None
                store = TCPStore(
                    self.host,
                    port,
                    is_master=True,
                    timeout=60,
                    wait_for_workers=False,
                    secret=secret,
                )
                port = store.port
            logs = self.logs
            if logs is not None:
                logs = logs / f"try {restart}"
                logs.mkdir(parents=True, exist_ok=True)
            Processes(self.command, self.environments(port, restart), logs).wait()
        finally:
            if store is not None:
                store.close()


def _end(number: int, frame: Any) -> None:
    sys.exit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the job; the status is 0 if all processes ended with 0."""
    job = Job(_parser().parse_args(arguments))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    for restart in range(job.restarts + 1):
        try:
            job.run(restart)
            return 0
        except Failure as failure:
            left = job.restarts - restart
            then = f"; starting again ({left} left)" if left else ""
            print(f"run: {socket.gethostname()}: {failure}{then}", file=sys.stderr, flush=True)
            status = failure.status if failure.status > 0 else 128 - failure.status
        except DistError as error:
            print(f"run: {error}", file=sys.stderr)
            return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
