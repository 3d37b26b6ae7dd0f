"""What goes wrong in one process reaches the others as one error that names it, in time."""

from __future__ import annotations

import concurrent.futures
import glob
import re
import signal
import subprocess
import sys
import time

import pytest

CODE = """
dist.init_process_group(timeout=6)
x = fa.ones(1000)
dist.all_reduce(x)
if rank == 1:
    {}
start = time.monotonic()
try:
    dist.all_reduce(x)
except dist.DistError as error:
    print(f"{{type(error).__name__}} after {{time.monotonic() - start:.1f}} s: {{error}}")
    sys.exit(4)
print("done")
"""
FAULTS = {
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "rank 1 is lost: its connection closed", 3),
    "left": ("dist.destroy_process_group(); sys.exit(0)", "rank 1 left", 6),
    "raised": (
        'raise ValueError("bad batch")',
        "rank 1 is lost: it raised ValueError: bad batch",
        3,
    ),
    "ended": ("os._exit(3)", "rank 1 is lost: its connection closed", 3),
    "stopped": ("os.kill(os.getpid(), signal.SIGSTOP)", "rank 1 is lost: silent for", 8),
    "absent": ("time.sleep(12)", "not complete after 6 s", 11),
}


SLOW = ("stopped", "absent")  # mostly waited for: begun beside the others


@pytest.fixture(scope="module")
def ends_of(jobs):
    """By fault, how each process of a job ended in which it happened."""

    def run(fault, job):
        what = FAULTS[fault][0]
        if fault == "stopped":
            what = (
                "import subprocess; subprocess.Popen(['sh', '-c', f'sleep 9; kill -CONT"
                " {os.getpid()}']); " + what
            )
        return job.by_hand(3, CODE.format(what))

    with concurrent.futures.ThreadPoolExecutor() as pool:
        begun = {fault: pool.submit(run, fault, jobs(fault)) for fault in SLOW}
        ends = {fault: run(fault, jobs(fault)) for fault in FAULTS if fault not in SLOW}
        return ends | {fault: job.result() for fault, job in begun.items()}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_others_hear(ends_of, fault):
    _, expected, limit = FAULTS[fault]
    ends = ends_of[fault]
    for rank in (0, 2):
        status, said = ends[rank]
        assert status == 4 and expected in said, said
        assert float(re.search(r"after ([\d.]+) s", said).group(1)) <= limit, said
    if fault == "absent":
        assert re.search(r"rank 1: all_reduce of float32 \(1000,\) SUM \(number 1", ends[0][1])
        assert re.search(r"rank 2: all_reduce of float32 \(1000,\) SUM \(number 2", ends[0][1])
    assert not glob.glob("/dev/shm/mpich_shm_*")


def test_who_does_not_come(job):
    ends = job.by_hand(
        2,
        """
        if rank == 1:
            sys.exit(0)
        try:
            dist.init_process_group(timeout=2)
        except dist.DistStoreError as error:
            print(error)
        """,
    )
    assert "1 of 2 processes connected" in ends[0][1]


def test_calls_that_differ(job):
    """In debug mode the error names rank, call and line."""
    said = job(
        2,
        """
        dist.init_process_group()
        def refused(words, call):
            try:
                call()
                raise SystemExit("not refused")
            except dist.DistBackendError as error:
                text = str(error)
                assert all(w in text for w in words), text
                assert "rank 0: " in text and "rank 1: " in text and "program 1.py:" in text, text
        refused(["(2,)", "(3,)"], lambda: dist.all_reduce(fa.ones(2 + rank)))
        refused(["float32", "float64"],
                lambda: dist.all_reduce(fa.ones(2, dtype=fa.float64 if rank else fa.float32)))
        refused(["SUM", "MAX"],
                lambda: dist.all_reduce(fa.ones(2), ReduceOp.MAX if rank else ReduceOp.SUM))
        refused(["barrier", "all_reduce"],
                lambda: dist.barrier() if rank else dist.all_reduce(fa.ones(2)))
        t = fa.ones(2)
        dist.all_reduce(t)
        assert t.tolist() == [2, 2]
        print("good")
        """,
        FACULA_DISTRIBUTED_DEBUG="1",
    )
    assert said == [["good"]] * 2


def test_monitored_barrier_names_who_is_late(job):
    said = job(
        2,
        """
        dist.init_process_group()
        dist.monitored_barrier(timeout=20)
        if rank == 0:
            try:
                dist.monitored_barrier(timeout=1)
            except dist.DistBackendError as error:
                print(error)
        else:
            time.sleep(3)
        dist.barrier()
        """,
    )
    assert said[0] == ["monitored_barrier: ranks [1] did not come within 1 s"]


def test_strangers_are_turned_away(job):
    """A process with another secret, or none, gets no word; nothing listens beyond this machine."""
    said = job(
        2,
        """
        import socket
        from facula.distributed._wire import connected
        dist.init_process_group()
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if rank == 1:
            try:
                connected(host, port, b"a guess", 5)
                raise SystemExit("admitted")
            except dist.DistNetworkError as error:
                assert "secrets differ" in str(error)
            with socket.create_connection((host, port)) as s:  # noise, and a rude end
                s.sendall(b"\\xff" * 1000)
        listening = []
        own = {os.readlink(f"/proc/self/fd/{f}") for f in os.listdir("/proc/self/fd") if
               os.path.exists(f"/proc/self/fd/{f}")}
        for name in ("tcp", "tcp6"):
            if not os.path.exists(f"/proc/net/{name}"):
                continue
            for line in open(f"/proc/net/{name}").readlines()[1:]:
                parts = line.split()
                if parts[3] == "0A" and f"socket:[{parts[9]}]" in own:
                    listening.append(parts[1].split(":")[0])
        assert all(a.endswith("7F") for a in listening), listening  # 127.x, least byte first
        t = fa.ones(1)
        dist.all_reduce(t)
        assert t.item() == 2
        print("good")
        """,
    )
    assert said == [["good"]] * 2
    ends = job.by_hand(1, "dist.init_process_group(timeout=2)", MASTER_ADDR="192.0.2.1")
    assert ends[0][0] == 1 and "FACULA_DISTRIBUTED_SECRET" in ends[0][1]


def test_a_port_in_use(job):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        ends = job.by_hand(
            1, "dist.init_process_group(timeout=2)", MASTER_PORT=str(taken.getsockname()[1])
        )
    assert ends[0][0] == 1 and "cannot listen on 127.0.0.1" in ends[0][1]


def test_launcher_starts_again(job, tmp_path):
    """A rank that dies ends all; the next try goes on from the checkpoint as if it had not."""
    program = job.program(
        """
        from facula import nn
        dist.init_process_group()
        fa.manual_seed(0)
        net = nn.parallel.DistributedDataParallel(nn.Linear(3, 1).double())
        optimizer = fa.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        begin, losses = 0, []
        if os.path.exists("last.pt"):
            state = fa.load("last.pt")
            net.load_state_dict(state["net"])
            optimizer.load_state_dict(state["optimizer"])
            begin, losses = state["step"], state["losses"]
        for step in range(begin, 6):
            if step == 3 and rank == 1 and sys.argv[1:] == ["fail"] and not os.path.exists("died"):
                open("died", "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            g = fa.Generator().manual_seed(step * 2 + rank)
            x = fa.randn(4, 3, generator=g, dtype=fa.float64)
            loss = net(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total = loss.detach().clone()
            dist.all_reduce(total)
            losses.append(total.item())
            if rank == 0:
                fa.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(),
                         "step": step + 1, "losses": losses}, "last.pt")
            dist.barrier()
        if rank == 0:
            print(losses)
        """
    )
    curves = []
    for words in ([], ["fail"]):
        command = [sys.executable, "-m", "facula.distributed.run", "--nproc-per-node", "2"]
        done = subprocess.run(
            [*command, "--max-restarts", "1", str(program), *words],
            capture_output=True,
            text=True,
            timeout=150,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        curves.append(re.search(r"^\[0\] (\[.*\])$", done.stdout, re.M).group(1))
        (tmp_path / "last.pt").unlink()
        assert ("was ended by SIGKILL" in done.stderr) == bool(words), done.stderr
    assert curves[0] == curves[1]


def test_launcher_shows_what_failed(job, tmp_path):
    program = job.program(
        """
        print("before")
        if rank == 1:
            raise RuntimeError("no such luck")
        time.sleep(60)
        """
    )
    start = time.monotonic()
    done = job.launch(2, program, "--log-dir", str(tmp_path / "logs"))
    assert done.returncode == 1 and time.monotonic() - start < 30
    assert "rank 1 exited with status 1" in done.stderr and "no such luck" in done.stderr
    log = (tmp_path / "logs" / "try 0" / "rank 1.log").read_text()
    assert "before" in log and "no such luck" in log


def test_killed_launcher_leaves_nothing(job):
    program = job.program("print(os.getpid(), flush=True)\ntime.sleep(60)\n")
    launcher = subprocess.Popen(
        [sys.executable, "-m", "facula.distributed.run", "--nproc-per-node", "2", str(program)],
        stdout=subprocess.PIPE,
        text=True,
    )
    pids = [int(launcher.stdout.readline().split()[1]) for _ in range(2)]
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    launcher.stdout.close()
    end = time.monotonic() + 10
    while any(_alive(p) for p in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(_alive(p) for p in pids)


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def test_many_processes(job):
    """Sixteen processes begin, meet and end; nothing stays."""
    before = set(glob.glob("/dev/shm/mpich*"))
    said = job(
        16,
        """
        dist.init_process_group()
        for _ in range(3):
            dist.barrier()
        t = fa.ones(1)
        dist.all_reduce(t)
        print(t.item())
        """,
        FACULA_DISTRIBUTED_PATIENCE="30",
    )
    assert said == [["16.0"]] * 16
    assert set(glob.glob("/dev/shm/mpich*")) <= before


def test_a_job_after_a_job_on_one_port(job):
    """Ranks that come while the store of the first is still there go to that of the second."""
    ends = job.by_hand(
        3,
        """
        for i in range(3):
            dist.init_process_group(timeout=30)
            t = fa.ones(1) * (rank + i)
            dist.all_reduce(t)
            print(t.item(), flush=True)
            dist.barrier()
            time.sleep(0.3 * (rank == 0))
            dist.destroy_process_group()
        """,
    )
    assert ends == [(0, "3.0\n6.0\n9.0\n")] * 3


def test_a_process_too_many(job):
    ends = job.by_hand(
        3,
        """
        os.environ["WORLD_SIZE"] = "2"
        if rank == 2:
            os.environ["RANK"] = "1"
            time.sleep(1)
        try:
            dist.init_process_group(timeout=2 if rank == 2 else 30)
        except dist.DistStoreError as error:
            print("is of another job, which has its 2 processes" in str(error), flush=True)
        else:
            time.sleep(4)
            dist.barrier()
            dist.destroy_process_group()
        """,
    )
    assert ends == [(0, ""), (0, ""), (0, "True\n")]
