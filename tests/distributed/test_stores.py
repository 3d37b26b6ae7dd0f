"""The four stores do the same."""

from __future__ import annotations

import threading
import time

import facula.distributed as dist
import pytest

KINDS = ("tcp", "file", "hash", "prefix")


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    if request.param == "tcp":
        made = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=5)
        yield made
        made.close()
    elif request.param == "file":
        made = dist.FileStore(tmp_path / "store", 1, timeout=5)
        yield made
        made.close()
        assert not (tmp_path / "store").exists()
    else:
        made = dist.HashStore(timeout=5)
        yield made if request.param == "hash" else dist.PrefixStore("part", made)


def test_values(store):
    store.set("a", "1")
    store.set("b", b"\x00\xff")
    assert store.get("a") == b"1" and store.get("b") == b"\x00\xff"
    assert store.check(["a", "b"]) and not store.check(["a", "c"])
    assert store.add("n", 5) == 5 and store.add("n", -7) == -2 and store.get("n") == b"-2"
    assert store.compare_set("a", "2", "3") == b"1"
    assert store.compare_set("a", "1", "3") == b"3" and store.get("a") == b"3"
    assert store.compare_set("new", "", "x") == b"x"
    store.append("a", "45")
    store.append("fresh", "z")
    assert store.get("a") == b"345" and store.get("fresh") == b"z"
    store.multi_set(["k", "l"], ["1", "2"])
    assert store.multi_get(["l", "k"]) == [b"2", b"1"]
    assert store.num_keys() == 7
    assert store.delete_key("a") and not store.delete_key("a") and store.num_keys() == 6


def test_waiting(store):
    start = time.monotonic()
    with pytest.raises(
        dist.DistStoreError, match=r"no value of '(part/)?none', '(part/)?other' came in 0\.2 s"
    ):
        store.wait(["none", "other"], 0.2)
    assert 0.15 < time.monotonic() - start < 3
    other = store.clone()
    timer = threading.Timer(0.1, lambda: other.set("late", "now"))
    timer.start()
    assert store.get("late") == b"now"
    timer.join()


def test_one_count_for_all(store):
    clients = [store.clone() for _ in range(4)]

    def count(client):
        for _ in range(25):
            client.add("sum", 1)

    threads = [threading.Thread(target=count, args=(c,)) for c in clients]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert store.add("sum", 0) == 100


def test_nobody_there():
    with pytest.raises(dist.DistNetworkError, match=r"no store on 127\.0\.0\.1:1 after"):
        dist.TCPStore("127.0.0.1", 1, timeout=0.3)


def test_other_ways_to_meet(job, tmp_path):
    """By a file, by a URL, by a store: each rank says where."""
    path = tmp_path / "meet"
    ends = job.by_hand(
        2,
        f"""
        dist.init_process_group("mpi", "file://{path}", world_size=size, rank=rank)
        t = fa.ones(1); dist.all_reduce(t); assert t.item() == 2
        dist.destroy_process_group()
        url = f"tcp://127.0.0.1:{{os.environ['MASTER_PORT']}}?rank={{rank}}&world_size={{size}}"
        dist.init_process_group(init_method=url)
        t = fa.ones(1); dist.all_reduce(t); assert t.item() == 2
        dist.destroy_process_group()
        store = dist.FileStore("{tmp_path / "store"}", size)
        dist.init_process_group(store=store, rank=rank, world_size=size)
        t = fa.ones(1); dist.all_reduce(t); assert t.item() == 2
        dist.destroy_process_group()
        for wrong in (dict(backend="ncll"), dict(init_method="http://x"), dict(timeout=-1),
                      dict(init_method="tcp://127.0.0.1:5", rank=2, world_size=2)):
            try:
                dist.init_process_group(**wrong)
                raise SystemExit("not refused")
            except ValueError:
                pass
        print("good")
        """,
    )
    assert ends == [(0, "good\n")] * 2
    assert not path.exists()


def test_by_a_launcher_of_mpi(job):
    """mpiexec starts the ranks: no address is given, and MPI's own launcher is asked."""
    import shutil
    import subprocess
    import sys
    from pathlib import Path

    mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    if mpiexec is None:
        pytest.skip("no mpiexec beside this Python")
    code = """
    import os, facula as fa, facula.distributed as dist
    dist.init_process_group()
    t = fa.ones(1)
    dist.all_reduce(t)
    os.write(1, f"{dist.get_rank()} {t.item()}\\n".encode())  # in one piece
    dist.destroy_process_group()
    """
    program = job.folder / "by mpi.py"
    program.write_text("\n".join(line.strip() for line in code.splitlines()))
    done = subprocess.run(
        [mpiexec, "-n", "2", sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.split("\n")) == ["", "0 2.0", "1 2.0"]
