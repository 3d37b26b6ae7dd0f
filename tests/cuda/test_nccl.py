"""NCCL without a GPU: argument orders, codes of types, groups of calls, and what goes wrong."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import facula
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from rank_programs import PLAIN

Run = Callable[..., str]
Ranks = Callable[..., list[tuple[int, str]]]
NOTES = """
(place_of,) = [p for p in fa.cuda._vendor.folders() if "fake" in p]
import ctypes
nccl = ctypes.CDLL(place_of + "/libnccl.so.2")
nccl.fake_nccl_notes.restype = ctypes.c_char_p
def called(call):
    nccl.fake_nccl_clear()
    call()
    return nccl.fake_nccl_notes().decode().splitlines()
"""


def test_two_processes(pretended_ranks: Ranks) -> None:
    assert pretended_ranks(PLAIN) == [(0, "good\n")] * 2


def test_what_the_library_is_told(run: Run, tmp_path: Path) -> None:
    """Counts, types, operations and roots, in the words of nccl.h, with one process."""
    run(
        f"""
import facula.distributed as dist
from facula.distributed import ReduceOp
{NOTES}
store = dist.TCPStore("127.0.0.1", 0, is_master=True)
dist.init_process_group("nccl", store=store, rank=0, world_size=1)
e = lambda *shape, dtype=fa.float32: fa.empty(*shape, dtype=dtype, device="cuda")
def reduced(kind, op=ReduceOp.SUM):
    (line,) = called(lambda: dist.all_reduce(e(5, dtype=kind), op))
    assert line.startswith("AllReduce "), line
    return line[10:]
assert called(lambda: dist.all_reduce(e(3))) == ["Init 1 0", "AllReduce 3 7 0 0"]
codes = {{fa.int8: 0, fa.uint8: 1, fa.int32: 2, fa.int64: 4, fa.float16: 6,
         fa.float32: 7, fa.float64: 8, fa.bfloat16: 9}}
for kind, code in codes.items():
    assert reduced(kind) == f"5 {{code}} 0 0"
assert reduced(fa.complex64) == "10 7 0 0"
assert reduced(fa.complex128, ReduceOp.AVG) == "10 8 4 0"
for op, code in ((ReduceOp.PRODUCT, 1), (ReduceOp.MAX, 2), (ReduceOp.MIN, 3)):
    assert reduced(fa.int32, op) == f"5 2 {{code}} 0"
# what keeps NaN is not the library's own maximum: integers in the order of the floats
assert reduced(fa.float32, ReduceOp.MAX) == "5 2 2 0"
assert reduced(fa.bfloat16, ReduceOp.MIN) == "5 2 3 0"
assert reduced(fa.bool) == "5 1 2 0"
assert reduced(fa.bool, ReduceOp.BXOR) == "5 1 0 0"
assert reduced(fa.int16) == "5 2 0 0"
assert called(lambda: dist.broadcast(e(5, dtype=fa.float64))) == ["Broadcast 40 0 0 0"]
assert called(lambda: dist.all_gather_into_tensor(e(1, 5), e(5))) == ["AllGather 20 0 0 0"]
assert called(lambda: dist.reduce_scatter_tensor(e(5), e(1, 5))) == ["ReduceScatter 5 7 0 0"]
assert called(lambda: dist.reduce(e(4), 0)) == ["Reduce 4 7 0 0"]
assert called(lambda: dist.all_to_all_single(e(4), e(4))) == [
    "GroupStart", "Send 16 0 0 0", "Recv 16 0 0 0", "GroupEnd"]
assert called(lambda: dist.all_reduce_coalesced([e(2), e(3)], ReduceOp.AVG)) == [
    "GroupStart", "AllReduce 2 7 4 0", "AllReduce 3 7 4 0", "GroupEnd"]
assert called(lambda: dist.all_reduce(e(4, 4).t())) == ["AllReduce 16 7 0 0"]
# the short way of plain collectives says what it does, and leaves what is not plain to the long one
def noted(call):
    call()
    return str(dist.group.WORLD.job.watch.call).replace(" of its group)", "").split(" (number ")
before = int(noted(lambda: dist.all_reduce(e(4).t()))[1])
for i, (call, text) in enumerate([
    (lambda: dist.all_reduce(e(2, 3), ReduceOp.MAX), "all_reduce of float32 (2, 3) MAX"),
    (lambda: dist.all_reduce(e(2, 3), ReduceOp.AVG), "all_reduce of float32 (2, 3) AVG"),
    (lambda: dist.broadcast(e(3, dtype=fa.int8)), "broadcast of int8 (3,) from 0"),
    (lambda: dist.all_gather_into_tensor(e(1, 5), e(5)), "all_gather_into_tensor of float32 (5,)"),
    (lambda: dist.reduce_scatter_tensor(e(5), e(1, 5)),
     "reduce_scatter_tensor of float32 (5,) SUM"),
], 1):
    assert noted(call) == [text, str(before + i)], (noted(call), text)
def refused(call, words):
    def attempt():
        try:
            call()
        except (TypeError, ValueError) as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
    assert called(attempt) == []
refused(lambda: dist.all_gather_into_tensor(e(2, 5), e(5)), "(1, 5)")
refused(lambda: dist.reduce_scatter_tensor(e(4), e(5)), "(1, 4)")
refused(lambda: dist.reduce_scatter_tensor(e(4), e(4, dtype=fa.int32)), "one dtype")
refused(lambda: dist.all_reduce(e(4), "sum"), "ReduceOp")
refused(lambda: dist.all_reduce(fa.ones(4)), "cpu")
refused(lambda: dist.all_reduce([1.0]), "Tensor")
assert called(dist.barrier) == ["AllReduce 1 1 2 0"]
assert called(dist.destroy_process_group) == ["Destroy"]
""",
        FAKE_NCCL_DIR=str(tmp_path),
    )


def test_default_engines(pretended_ranks: Ranks) -> None:
    """Without a name CPUs have MPI and devices their own; `gloo` has all go by the CPU."""
    if not facula.distributed.is_mpi_available():
        pytest.skip("MPI is not installed")
    said = pretended_ranks(
        f"""
        import warnings
        {NOTES.replace(chr(10), chr(10) + " " * 8)}
        dist.init_process_group(timeout=60)
        t, c = on([1.0]), fa.ones(1)
        assert called(lambda: dist.all_reduce(t))[-1] == "AllReduce 1 7 0 0"
        assert called(lambda: dist.all_reduce(c)) == []
        assert t.item() == c.item() == 2
        assert {{d.type for d in dist.group.WORLD.device_types}} == {{"cpu", "cuda"}}
        assert dist.get_default_backend_for_device("cuda") == "nccl"
        # what has a tag goes by the CPU
        t = on([rank, 0])
        work = dist.isend(on([rank + 3, 5]), 1 - rank, tag=4)
        assert dist.recv(t, 1 - rank, tag=4) == 1 - rank and t.tolist() == [4 - rank, 5]
        work.wait()
        dist.barrier()
        dist.destroy_process_group()
        dist.init_process_group("gloo", timeout=60)
        t = on([1.0, 2.0])
        assert called(lambda: dist.all_reduce(t)) == [] and t.tolist() == [2, 4]
        dist.destroy_process_group()
        for wrong, words in (("ncll", "'nccl'"), ("cpu:nccl", "not cpu")):
            try:
                dist.init_process_group(wrong)
            except ValueError as error:
                assert words in str(error), error
            else:
                raise SystemExit(wrong)
        print("good", flush=True)
        os._exit(0)  # MPI asks the driver for more than this one pretends
        """
    )
    assert said == [(0, "good\n")] * 2


FAULT = """
dist.init_process_group("nccl", timeout={timeout})
t = on([1.0])
dist.all_reduce(t)
begun = time.monotonic()
try:
    {fault}
    t.item()
except RuntimeError as error:
    print(f"{{type(error).__name__}} after {{time.monotonic() - begun:.1f}} s: {{error}}")
    try:
        dist.all_reduce(t)
    except dist.DistBackendError as again:
        print(f"again: {{again}}")
    sys.exit(4)
print("done")
"""


@pytest.mark.parametrize(
    ("fault", "variables", "expected", "limit"),
    [
        ("dist.all_reduce(t)", {"FAKE_NCCL_ERROR": "3"}, "remote process exited", 8),
        ("time.sleep(9 * rank); dist.all_reduce(t)", {}, "not complete after 3 s", 6),
        (
            "rank and os.kill(os.getpid(), signal.SIGKILL); dist.all_reduce(t)",
            {}, "rank 1 is lost", 6,
        ),
        ("rank and os._exit(3); dist.all_reduce(t, async_op=True).wait()", {}, "rank 1 is lost", 6),
    ],
    ids=["error", "absent", "killed", "ended"],
)  # fmt: skip
def test_what_goes_wrong(
    pretended_ranks: Ranks, fault: str, variables: dict[str, str], expected: str, limit: float
) -> None:
    code = FAULT.format(fault=fault, timeout=3 if "absent" in expected or "not" in expected else 30)
    if "FAKE_NCCL_ERROR" in variables:  # what was called completes never, and the library knows
        code = code.replace("begun =", 'os.environ["FAKE_NCCL_STUCK"] = "1"; begun =')
    status, said = pretended_ranks(code, **variables)[0]
    assert status == 4 and expected in said, said
    waited = re.search(r"after ([\d.]+) s", said)
    assert waited is not None and float(waited.group(1)) <= limit, said
    assert "again: all_reduce: the job is broken" in said, said


def test_a_kernel_that_hangs(pretended_ranks: Ranks) -> None:
    """Whoever waits for the device hears of the timeout, and what each process did last."""
    code = FAULT.format(fault='os.environ["FAKE_NCCL_STUCK"] = "1"; dist.all_reduce(t)', timeout=2)
    for status, said in pretended_ranks(code):
        assert status == 4 and "all_reduce: not complete after 2 s" in said, said
        assert "rank 0: all_reduce of float32 (1,) SUM (number 2" in said, said
        assert "rank 1: all_reduce of float32 (1,) SUM (number 2" in said, said


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"FAKE_NCCL_VERSION": "21104"}, "21104, and facula needs 21800 (2.18) or later"),
        ({"FAKE_NCCL_NO_INIT": "1"}, "ncclCommInitRank: unhandled system error: no socket"),
    ],
)
def test_a_library_that_does_not_serve(
    pretended_ranks: Ranks, variables: dict[str, str], expected: str
) -> None:
    said = pretended_ranks(
        """
        try:
            dist.init_process_group("nccl", timeout=20)
            dist.all_reduce(on([1.0]))
        except RuntimeError as error:
            print(f"{type(error).__name__}: {error}")
        """,
        **variables,
    )
    for _, text in said:
        assert expected in text, text


def test_without_the_library(run: Run, pretended: Path) -> None:
    said = run(
        """
import facula.distributed as dist
if dist.is_nccl_available():
    print("NCCL is installed here")
    raise SystemExit
try:
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
except dist.DistBackendError as error:
    assert "libnccl.so.2 was not found" in str(error) and "nvidia-nccl-cu13" in str(error), error
else:
    raise SystemExit("not refused")
""",
        PYTHONPATH=os.pathsep.join(p for p in sys.path if p),
    )
    if said:
        pytest.skip(said.strip())
