"""Two GPUs: tensors, kernels, gradients and streams keep to their own."""

from __future__ import annotations

import threading

import facula as fa
import numpy as np
import pytest
from facula import nn, optim

pytestmark = pytest.mark.cuda
DEVICES = ("cuda:0", "cuda:1")


@pytest.fixture(autouse=True)
def pair() -> None:
    if fa.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")


@pytest.mark.parametrize("there", [0, 1])
@pytest.mark.parametrize("shape", [(1,), (1000,), (1 << 12, 1 << 11)])
def test_copies_wait_for_what_they_copy(there: int, shape: tuple[int, ...]) -> None:
    """What was written just before is copied; it may be overwritten at once."""
    here = 1 - there
    x = fa.zeros(shape, device=f"cuda:{here}")
    copies = []
    for i in range(20):
        x.fill_(i)
        for _ in range(4):
            x = x + 1
        copies.append(x.to(f"cuda:{there}"))
        x.fill_(-1)
        copies[-1].mul_(2)
    for i, y in enumerate(copies):
        assert y.device == fa.device("cuda", there)
        assert (y == 2 * (i + 4)).all().item()


def test_copies_of_any_layout_and_dtype() -> None:
    a = np.arange(24 * 50, dtype=np.float32).reshape(24, 50)
    x = fa.tensor(a.tolist(), device="cuda:0")
    for view, wanted in (
        (x.t(), a.T),
        (x[::2, 3:], a[::2, 3:]),
        (x[1:2].expand(5, 50), a[1:2].repeat(5, 0)),
    ):
        np.testing.assert_array_equal(np.array(view.to("cuda:1").cpu().tolist()), wanted)
        np.testing.assert_array_equal(np.array(view.to("cuda:1", fa.int32).cpu().tolist()), wanted)
        into = fa.zeros(view.shape[::-1], device="cuda:1").t()
        into.copy_(view)
        np.testing.assert_array_equal(np.array(into.cpu().tolist()), wanted)


def test_kernels_run_where_their_tensors_are() -> None:
    results = []
    for name in DEVICES:
        with fa.cuda.device(1 if name == "cuda:0" else 0):  # the other one is current
            fa.cuda.manual_seed_all(3)
            a = fa.randn(300, 200, device=name)
            b = nn.functional.softmax(a @ a.t(), 1).sort(1).values.cumsum(1)
            assert b.device == fa.device(name)
            results.append(b.cpu())
    assert (results[0] == results[1]).all().item()


def test_tensors_of_two_devices_do_not_mix() -> None:
    a, b = (fa.ones(3, device=name) for name in DEVICES)
    for call in (
        lambda: a + b,
        lambda: a @ b,
        lambda: fa.cat([a, b]),
        lambda: a.index_select(0, b.long()),
    ):
        with pytest.raises(RuntimeError, match=r"cuda:[01].*cuda:[01]"):
            call()


def test_gradients_go_back_to_their_devices() -> None:
    x = fa.arange(6.0, device="cuda:0").requires_grad_()
    y = (x * x).to("cuda:1")
    z = (y * 3).to("cuda:0")
    (z + x).sum().backward()
    assert x.grad is not None and x.grad.device == fa.device("cuda:0")
    assert (x.grad == 6 * x.detach() + 1).all().item()


def test_a_model_on_two_devices_trains() -> None:
    def losses(first: str, second: str) -> list[float]:
        fa.manual_seed(0)
        front, back = nn.Linear(20, 30).to(first), nn.Linear(30, 5).to(second)
        optimizer = optim.Adam([*front.parameters(), *back.parameters()], lr=0.01)
        x, target = fa.randn(64, 20).to(first), fa.randint(0, 5, (64,)).to(second)
        found = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(
                back(nn.functional.relu(front(x)).to(second)), target
            )
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    np.testing.assert_allclose(losses(*DEVICES), losses("cpu", "cpu"), 1e-4)


def test_threads_have_their_own_current_device() -> None:
    found: dict[int, list[fa.device]] = {0: [], 1: []}

    def work(index: int) -> None:
        with fa.cuda.device(index):
            for _ in range(50):
                a = fa.ones(1000, device="cuda")
                assert (a + a).sum().item() == 2000
                found[index].append(a.device)

    threads = [threading.Thread(target=work, args=(i,)) for i in found]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(set(found[i]) == {fa.device("cuda", i)} and len(found[i]) == 50 for i in found)


def test_memory_is_counted_by_device() -> None:
    before = [fa.cuda.memory_allocated(name) for name in DEVICES]
    kept = fa.empty(1 << 20, dtype=fa.uint8, device="cuda:1")
    after = [fa.cuda.memory_allocated(name) for name in DEVICES]
    assert after[0] == before[0] and after[1] - before[1] >= kept.nbytes
