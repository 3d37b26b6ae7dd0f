"""Programs of public tutorials, `pytorch/examples`, on made-up data, unchanged.

Each runs to its end or not: the numbers that it prints are of random draws, which differ.
"""

from __future__ import annotations

import os
import struct
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["PROGRAMS", "Program", "make_data", "run"]

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 600


@dataclass(frozen=True)
class Program:
    """A program of the repository: its folder, and its command lines, one after the other."""

    folder: str
    commands: tuple[str, ...]


_FX = (
    "custom_tracer inline_function invert module_tracer primitive_library"
    " profiling_tracer proxy_based_graph_creation replace_op subgraph_rewriter_basic_use"
    " wrap_output_dynamically"
).split()

PROGRAMS = (
    Program("regression", ("main.py",)),
    Program("mnist", ("main.py --epochs 1 --dry-run --save-model",)),
    Program("mnist_rnn", ("main.py --epochs 1 --dry-run --save-model",)),
    Program("mnist_hogwild", ("main.py --epochs 1 --dry-run --num-processes 2",)),
    Program("mnist_forward_forward", ("main.py --epochs 2 --train_size 200 --test_size 100",)),
    Program("siamese_network", ("main.py --epochs 1 --dry-run --batch-size 8",)),
    Program("vae", ("main.py --epochs 1",)),
    Program("dcgan", ("main.py --dataset fake --dry-run --batchSize 8 --workers 1 --niter 1",)),
    Program(
        "super_resolution", ("main.py --upscale_factor 3 --nEpochs 1 --threads 1 --batchSize 2",)
    ),
    Program("time_sequence_prediction", ("generate_sine_wave.py", "train.py --steps 1")),
    Program(
        "word_language_model",
        (
            "main.py --data small --epochs 1 --dry-run --nhid 32 --emsize 32",
            "generate.py --data small --checkpoint model.pt --words 20",
            "main.py --data small --epochs 1 --dry-run --model Transformer --nhid 32 --emsize 32",
        ),
    ),
    Program("fx", tuple(f"{name}.py" for name in _FX)),
)


def _digits(folder: Path, count: int, seed: int, kind: str) -> None:
    """Pictures of 28 x 28 with a bright patch whose place is their class, in the files of MNIST."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count).astype(np.uint8)
    images = random.integers(0, 60, (count, 28, 28)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 5)
        image[8 * row + 2 : 8 * row + 8, 5 * column + 1 : 5 * column + 6] = 230
    (folder / f"{kind}-images-idx3-ubyte").write_bytes(
        struct.pack(">IIII", 2051, count, 28, 28) + images.tobytes()
    )
    (folder / f"{kind}-labels-idx1-ubyte").write_bytes(
        struct.pack(">II", 2049, count) + labels.tobytes()
    )


def make_data(source: Path) -> None:
    """What the programs would fetch: digits, pictures, a text; in `source` and its folders."""
    raw = source / "data" / "MNIST" / "raw"
    if not raw.exists():
        raw.mkdir(parents=True)
        _digits(raw, 400, 1, "train")
        _digits(raw, 200, 2, "t10k")
    for program in PROGRAMS:
        place = source / program.folder / "data"
        if not place.exists():
            place.symlink_to(source / "data")
    (source / "vae" / "results").mkdir(exist_ok=True)
    images = source / "super_resolution" / "dataset" / "BSDS300" / "images"
    if not images.exists():
        from PIL import Image

        random = np.random.default_rng(3)
        for part in ("train", "test"):
            (images / part).mkdir(parents=True)
            for number in range(4):
                pixels = random.integers(0, 255, (260, 260, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(images / part / f"{number}.jpg")
    text = source / "word_language_model" / "small"
    if not text.exists():
        text.mkdir()
        words = [f"word{n}" for n in range(50)]
        random = np.random.default_rng(4)
        for part in ("train", "valid", "test"):
            lines = [" ".join(random.choice(words, 12)) for _ in range(100)]
            (text / f"{part}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def run(work: Path, side: str, program: Program) -> tuple[list[str], float]:
    """The commands that did not end well, each with its last line, and the seconds in all."""
    python = str(work / side / "bin" / "python")
    place = ROOT / "python"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    if side == "facula" and any(place.glob("facula/_C*.so")):
        env["PYTHONPATH"] = str(place)
    before = ["-m", "facula.as_torch"] if side == "facula" else []
    failures = []
    start = time.monotonic()
    for command in program.commands:
        try:
            done = subprocess.run(
                [python, *before, *command.split()],
                cwd=work / "src" / "examples" / program.folder,
                env=env,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            failures.append(f"{command}: not done after {LIMIT} s")
            continue
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            failures.append(f"{command}: {said[-1] if said else done.returncode}")
    return failures, time.monotonic() - start
