"""Batches of a loader, made in this process and by workers."""

from __future__ import annotations

from tools.bench.row import Family

# A rate of 1.3 of torch's.
rows = Family("data", threads=(1,))
SIZES = {"1 KB": (1 << 10, 32, 100), "150 KB": (150 << 10, 32, 20), "4 MB": (4 << 20, 4, 20)}


class Samples:
    """Some tensors again and again, so that reading them costs next to nothing."""

    def __init__(self, tensors, size):
        self.tensors, self.size = tensors, size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.tensors[index % len(self.tensors)], index


def loader_of(lib, inputs, size, workers, **options):
    """A loader of samples of so many bytes; batches, and how many of them."""
    length, batch, batches = SIZES[size]
    samples = Samples(list(inputs.floats(8, length // 4)), batch * batches)
    return lib.utils.data.DataLoader(samples, batch, num_workers=workers, **options)


@rows.add("a pass, samples of {size}, {workers} workers", 0.77, size=[*SIZES], workers=[0, 1, 2])
def one_pass(lib, inputs, size, workers):
    loader = loader_of(lib, inputs, size, workers, persistent_workers=workers > 0)

    def run():
        for x, _ in loader:
            last = x
        return last

    return run


@rows.add("workers started to ended, one batch, samples of {size}", 0.5, size=["1 KB", "150 KB"])
def first_batch(lib, inputs, size):
    loader = loader_of(lib, inputs, size, 1)

    return lambda: next(iter(loader))[0]
