#!/usr/bin/env python3
"""What a job of very many processes would spend where: a model, not a measurement.

    python tools/scale_model.py --ranks 10000

Collectives by the alpha-beta model (R. Thakur et al., "Optimization of Collective Communication
Operations in MPICH", 2005): a message of s bytes takes alpha + s / beta. Intervals between
checkpoints by J. Young (1974) and J. Daly (2006): sqrt(2 * time to write * time between failures).
Failures as in "The Llama 3 Herd of Models" (2024): 419 in 54 days on 16,384 GPUs. The store's
costs were measured on one core of the machine of docs/distributed.md.
"""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple


class Machine(NamedTuple):
    """What the model is told."""

    ranks: int = 10_000
    per_node: int = 8
    alpha_in: float = 3e-6  # s a message within a machine
    alpha_out: float = 10e-6  # s a message between machines
    beta_in: float = 400e9  # bytes/s of a GPU within a machine
    beta_out: float = 50e9  # bytes/s of a GPU between machines: a 400 Gb/s card each
    failures: float = 419 / (16_384 * 54 * 86_400)  # a second and GPU
    request: float = 31e-6  # s of CPU for a question to the store, both ends
    connection: float = 290e-6  # s of CPU for a connection with its proof, both ends
    address: int = 200  # bytes that a process tells the others
    link: float = 1.25e9  # bytes/s of the store's machine
    parameters: float = 70e9
    layers: int = 80
    state: int = 14  # bytes a parameter in a checkpoint: bfloat16, and three of float32
    tensors: int = 723 * 4
    disk: float = 2e9  # bytes/s that a machine writes
    storage: float = 500e9  # bytes/s that the storage takes
    detect: float = 10.0  # s until a lost process is noticed
    restart: float = 180.0  # s to start all again and load

    @property
    def nodes(self) -> int:
        return math.ceil(self.ranks / self.per_node)


def ring(n: int, alpha: float, beta: float, size: float) -> float:
    """Seconds of all_gather (or reduce_scatter) of `size` bytes in all, in a ring."""
    return (n - 1) * alpha + (n - 1) / n * size / beta


def tree(n: int, alpha: float, beta: float, size: float) -> float:
    """Seconds of an all_reduce of a small message, up and down a tree."""
    return 2 * math.ceil(math.log2(n)) * (alpha + size / beta)


def shown(seconds: float) -> str:
    for limit, unit in ((1e-3, 1e-6), (1.0, 1e-3), (120.0, 1.0), (7200.0, 60.0)):
        if seconds < limit:
            return f"{seconds / unit:.3g} {({1e-6: 'us', 1e-3: 'ms', 1.0: 's', 60.0: 'min'})[unit]}"
    return f"{seconds / 3600:.3g} h"


def rows(m: Machine) -> list[tuple[str, str, str]]:
    """(What, as it is, in a hierarchy) of everything that the page tells."""
    n, nodes, k = m.ranks, m.nodes, m.per_node
    found = []
    add = found.append
    add(
        (
            "store: connections and proofs at the start, CPU of one process",
            shown(2 * n * m.connection),
            shown(2 * nodes * m.connection),
        )
    )
    add(
        (
            "store: signs of life, one a second, of one core",
            f"{n * m.request:.0%}",
            f"{nodes * m.request:.1%}",
        )
    )
    add(
        (
            "store: addresses of all to all, over its network card",
            shown(n * n * m.address / m.link),
            shown(nodes * n * m.address / m.link),
        )
    )
    small = 8 * 64
    add(
        (
            "all_reduce of a norm (512 bytes)",
            shown(2 * ring(n, m.alpha_out, m.beta_out, small)) + " in a ring",
            shown(
                tree(nodes, m.alpha_out, m.beta_out, small) + tree(k, m.alpha_in, m.beta_in, small)
            )
            + " in trees, machine by machine",
        )
    )
    layer = m.parameters / m.layers * 2
    group = 64
    inner = ring(k, m.alpha_in, m.beta_in, layer)
    across = ring(group // k, m.alpha_out, m.beta_out, layer / k)
    add(
        (
            "fully_shard: all_gather of one layer in bfloat16",
            shown(ring(n, m.alpha_out, m.beta_out, layer)) + " over all",
            shown(inner + across) + f" over {group}, replicas of that",
        )
    )
    part = layer / group
    copies = n // group
    add(
        (
            "the same: average of a layer's gradients over replicas",
            "none",
            shown(2 * ring(copies, m.alpha_out, m.beta_out, part)) + f" over {copies}",
        )
    )
    memory = m.parameters * (m.state + 2)
    add(
        (
            "the same: parameters, gradients, optimizer of one process",
            f"{memory / n / 1e6:.3g} MB",
            f"{memory / group / 1e9:.3g} GB",
        )
    )
    between = 1 / (m.failures * n)
    add(("time between failures of a process", shown(between), shown(between)))
    size = m.parameters * m.state
    write = size / min(m.storage, m.disk * nodes)
    local = size / nodes / m.disk  # a machine's memory is ten times as fast
    ways = []
    for seconds in (write, local / 10):  # to the storage, or aside in memory
        interval = math.sqrt(2 * seconds * between)
        lost = seconds / interval + (interval / 2 + m.detect + m.restart) / between
        ways.append(f"{shown(seconds)} every {shown(interval)}: {lost:.2%} of the time lost")
    add(("checkpoints: training stops while they are written, or copied aside", ways[0], ways[1]))
    entry = 110
    add(
        (
            "index of a checkpoint, one entry a part",
            f"{m.tensors * n * entry / 1e9:.3g} GB by one process",
            f"{m.tensors * group * entry / 1e6:.3g} MB if one set of replicas writes",
        )
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=Machine().ranks)
    m = Machine(ranks=parser.parse_args().ranks)
    print(f"| {m.ranks} processes, {m.per_node} a machine | as it is | in a hierarchy |")
    print("|---|---|---|")
    for row in rows(m):
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
