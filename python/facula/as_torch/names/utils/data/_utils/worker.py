"""`torch.utils.data._utils.worker`: the seeds of NumPy in worker processes."""

from __future__ import annotations

__all__: list[str] = []


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four numbers of 32 bits that seed NumPy in a worker; as its `SeedSequence` makes them."""
    import numpy

    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(word) for word in numpy.random.SeedSequence(entropy).generate_state(4)]
