"""A state dict of 1 GB to a file and back, in torch's form; facula waits for the disk."""

from __future__ import annotations

import tempfile

from tools.bench.row import Family

rows = Family("files", threads=(2,))
COUNT = 16


def state_of(inputs):
    return {f"layer{i}.weight": inputs.floats(1 << 12, 1 << 12, low=0.0) for i in range(COUNT)}


def written(lib, inputs):
    """A folder that goes with the row, and the path of a file in it."""
    folder = tempfile.TemporaryDirectory()
    path = folder.name + "/state.pt"
    lib.save(state_of(inputs), path)
    return folder, path


@rows.add("save, 1 GB", 0.7)
def save(lib, inputs):
    folder, state = tempfile.TemporaryDirectory(), state_of(inputs)

    def run():
        lib.save(state, folder.name + "/state.pt")
        return state["layer0.weight"][0]

    return run


@rows.add("load, 1 GB", 0.7)
def load(lib, inputs):
    folder, path = written(lib, inputs)
    return lambda folder=folder: lib.load(path)["layer0.weight"][0]


@rows.add("load with mmap, 1 GB", 0.1)
def load_mapped(lib, inputs):
    folder, path = written(lib, inputs)
    return lambda folder=folder: lib.load(path, mmap=True)["layer0.weight"][0]
