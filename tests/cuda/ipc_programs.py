"""Programs of two processes that share a device's memory; `python ipc_programs.py NAME` runs one.

They launch no kernel but those of `ordered` and `reused`, so that a pretended driver will do.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import facula as fa
from facula import multiprocessing as mp

spawned = mp.get_context("spawn")
VALUES = [[float(10 * i + j) for j in range(8)] for i in range(6)]


def on_device(values: Any = VALUES) -> Any:
    return fa.tensor(values).to("cuda")


def until(condition: Any, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happens"
        time.sleep(0.01)


def message_of(tensor: Any) -> str:
    """Of the error when it is sent."""
    try:
        mp.reduction.ForkingPickler.dumps(tensor)
    except RuntimeError as error:
        return str(error)
    raise AssertionError("no error")


def ended(process: Any) -> None:
    process.join(60)
    assert process.exitcode == 0, process.exitcode


# ---- a queue: views, what either writes, what is let go


def _receive(queue: Any, answers: Any) -> None:
    whole, part, columns, empty, leaf = queue.get()
    assert whole.device == fa.device("cuda:0") and whole.cpu().tolist() == VALUES
    assert part.cpu().tolist() == VALUES[2:]
    assert columns.stride() == (8, 2) and columns.storage_offset() == 17
    assert empty.shape == (0, 3) and empty.device == whole.device
    assert isinstance(leaf, fa.nn.Parameter) and leaf.requires_grad
    assert leaf.detach().cpu().tolist() == [5.0, 6.0]
    answers.put(message_of(whole))
    part.copy_(fa.zeros(4, 8))
    fa.cuda.synchronize()
    answers.put("written")
    assert queue.get() == "let go"
    del whole, part, columns, empty, leaf
    answers.put("let go")
    assert queue.get() == "end"


def queue() -> None:
    x, leaf = on_device(), fa.nn.Parameter(on_device([5.0, 6.0]))
    held = fa.cuda.memory_allocated()
    given, answers = spawned.Queue(), spawned.Queue()
    process = spawned.Process(target=_receive, args=(given, answers))
    process.start()
    given.put((x, x[2:], x[2:, 1::2], fa.empty(0, 3, device="cuda"), leaf))
    said = answers.get(timeout=20)
    assert "not this process's own" in said and "clone()" in said, said
    assert answers.get(timeout=30) == "written"
    assert x.cpu().tolist() == VALUES[:2] + [[0.0] * 8] * 4
    del x, leaf
    time.sleep(0.2)
    assert fa.cuda.memory_allocated() >= held  # the other process has it
    given.put("let go")
    assert answers.get(timeout=30) == "let go"
    until(lambda: fa.cuda.memory_allocated() == 0)
    given.put("end")
    ended(process)


# ---- arguments of a process


def _argument(x: Any, answers: Any) -> None:
    assert x.cpu().tolist() == VALUES
    x[0].copy_(fa.full((8,), -1.0))
    fa.cuda.synchronize()
    answers.put("done")


def arguments() -> None:
    x, answers = on_device(), spawned.Queue()
    process = spawned.Process(target=_argument, args=(x, answers))
    process.start()
    assert answers.get(timeout=30) == "done"
    ended(process)
    assert x.cpu().tolist()[0] == [-1.0] * 8
    del x
    until(lambda: fa.cuda.memory_allocated() == 0)  # while the Process is still here


# ---- the receiver is killed, the sender ends


def _hold(queue: Any, answers: Any) -> None:
    x = queue.get()
    answers.put(x.shape)
    time.sleep(600)


def killed() -> None:
    given, answers = spawned.Queue(), spawned.Queue()
    process = spawned.Process(target=_hold, args=(given, answers))
    process.start()
    given.put(on_device())
    assert answers.get(timeout=30) == (6, 8)
    assert fa.cuda.memory_allocated() > 0
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    until(lambda: fa.cuda.memory_allocated() == 0)


def _send_and_end(queue: Any) -> None:
    queue.put(on_device())
    queue.close()
    queue.join_thread()


def sender_gone() -> None:
    given = spawned.Queue()
    process = spawned.Process(target=_send_and_end, args=(given,))
    process.start()
    process.join(60)
    try:
        given.get(timeout=20)
    except RuntimeError as error:
        assert f"(pid {process.pid}) has ended" in str(error), error
    else:
        raise AssertionError("no error")


# ---- one process, and what cannot be sent


def same_process() -> None:
    given = spawned.Queue()
    x = on_device()
    given.put(x)
    y = given.get(timeout=20)
    assert y.data_ptr() == x.data_ptr() and y.cpu().tolist() == VALUES
    del x, y
    until(lambda: fa.cuda.memory_allocated() == 0)


def expandable() -> None:
    said = message_of(on_device())
    assert "expandable segment" in said and "FACULA_DEVICE_EXPANDABLE" in said, said


# ---- kernels: what was launched before is seen, what is read late is not overwritten


def _sum(queue: Any, answers: Any) -> None:
    for _ in range(20):
        x, columns = queue.get()
        answers.put((x.sum().item(), columns.max().item()))
        del x, columns


def ordered() -> None:
    given, answers = spawned.Queue(), spawned.Queue()
    process = spawned.Process(target=_sum, args=(given, answers))
    process.start()
    for i in range(20):
        x = fa.full((2048, 2048), float(i), device="cuda")
        for _ in range(200):
            x = x + 1
        given.put((x, x[:, 1::3]))
        assert answers.get(timeout=30) == (2048 * 2048 * (i + 200), i + 200)
    ended(process)


def _copy_late(queue: Any, answers: Any) -> None:
    work = fa.ones(4096, 4096, device="cuda")
    for _ in range(10):
        x = queue.get()
        for _ in range(10):
            work = (work @ work).clamp(max=1)
        kept = x * work[0, 0]
        del x
        answers.put((kept.min().item(), kept.max().item()))


def reused() -> None:
    """The sender takes the memory again as soon as the receiver has let go of it."""
    given, answers = spawned.Queue(), spawned.Queue()
    process = spawned.Process(target=_copy_late, args=(given, answers))
    process.start()
    for i in range(10):
        given.put(fa.full((1024, 1024), float(i), device="cuda"))
        until(lambda: fa.cuda.memory_allocated() == 0)
        fa.full((1024, 1024), -1.0, device="cuda")
        assert answers.get(timeout=30) == (i, i)
    ended(process)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("good")
