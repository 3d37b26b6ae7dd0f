"""Collectives of two processes on one machine, and what averaging gradients costs one."""

from __future__ import annotations

import atexit
import importlib
import socket
import subprocess
import sys
from typing import Any

from tools.bench.processes import ROOT
from tools.bench.row import Family

# The other process spins as well: two cores at least.
rows = Family("processes", threads=(1,))
SIZES = {"1 KB": 1 << 8, "1 MB": 1 << 18, "64 MB": 1 << 24}
LATENCY, RATE = 0.7, 1.0
_pairs: dict[str, Pair] = {}

PEER = """
import sys
from tools.bench.rows.processes import follow
follow(*sys.argv[1:])
"""


def begin(lib: Any, port: int, rank: int) -> None:
    lib.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )


class Pair:
    """This process and one that follows it: both run the same collective, again and again."""

    def __init__(self, lib: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        command = [sys.executable, "-c", PEER, lib.__name__, str(port)]
        self.peer = subprocess.Popen(command, cwd=ROOT)
        atexit.register(self.peer.kill)
        begin(lib, port, 0)
        self.lib, self.last = lib, None
        self.alone = lib.distributed.new_group([0])

    def run(self, name: str, size: int) -> Any:
        """A function that runs the collective on tensors of `size` elements."""
        self.end()
        self.lib.distributed.broadcast_object_list([name, size], src=0)
        self.last = (name, size)
        return collective(self.lib, name, size)[1]

    def end(self) -> None:
        """The other process goes back to waiting for what comes next."""
        if self.last is not None:
            tensor, run = collective(self.lib, *self.last)
            tensor.fill_(1)
            run()
            self.last = None


def collective(lib: Any, name: str, size: int) -> tuple[Any, Any]:
    """Its input, and a function that runs it; a result that begins with 0 goes on."""
    d = lib.distributed
    x = lib.zeros(size)
    if name == "all_reduce":

        def run() -> Any:
            d.all_reduce(x)
            return x
    elif name == "all_gather":
        whole = lib.zeros(2 * size)

        def run() -> Any:
            d.all_gather_into_tensor(whole, x)
            return whole
    else:
        out = lib.zeros(size // 2)

        def run() -> Any:
            d.reduce_scatter_tensor(out, x)
            return out

    return x, run


def follow(name: str, port: str) -> None:
    """What the other process does."""
    lib = importlib.import_module(name)
    importlib.import_module(name + ".distributed")
    lib.set_num_threads(1)
    begin(lib, int(port), 1)
    lib.distributed.new_group([0])
    while True:
        words = [None, None]
        lib.distributed.broadcast_object_list(words, src=0)
        _, run = collective(lib, *words)
        while run()[0].item() == 0:
            pass


def pair_of(lib: Any) -> Pair:
    importlib.import_module(lib.__name__ + ".distributed")
    if lib.__name__ not in _pairs:
        _pairs[lib.__name__] = Pair(lib)
    return _pairs[lib.__name__]


def goal(what: str, size: str) -> float:
    return LATENCY if size == "1 KB" else RATE


@rows.add(
    "{what}, {size}, 2 processes",
    goal,
    what=["all_reduce", "all_gather", "reduce_scatter"],
    size=[*SIZES],
)
def two(lib, inputs, what, size):
    return pair_of(lib).run(what, SIZES[size])


@rows.add(
    "training step by DistributedDataParallel, one process, MLP 784-256-10", 0.5, tolerance=1e-3
)
def step(lib, inputs):
    pair = pair_of(lib)
    pair.end()
    nn = lib.nn
    net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    importlib.import_module(lib.__name__ + ".nn.parallel")
    net = nn.parallel.DistributedDataParallel(net, process_group=pair.alone)
    with lib.no_grad():
        for p in net.parameters():
            p.copy_(inputs.floats(*p.shape))
    optimizer = lib.optim.SGD(net.parameters(), lr=0.0)
    x, y = inputs.floats(64, 784), inputs.floats(64, 10)

    def run():
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return run
