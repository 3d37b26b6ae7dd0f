"""Calls beside a thread that changes their tensors: no operator may crash, whatever it then gives.

The cases run in processes of their own, since a fault may crash or hang them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import facula as fa
import pytest

PROGRAM = Path(__file__).with_name("other_threads.py")
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_calls_live(part: int) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(part), str(PARTS), "0.001"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-1000:])


def test_a_bad_index_leaves_the_table_as_it_was() -> None:
    """Checked as they are used, indices are checked before anything is written all the same."""
    table = fa.zeros(5000, 3)
    at = fa.arange(5000)
    for bad in (5000, -1):
        at[4999] = bad
        for call in (
            lambda: table.index_add_(0, at, fa.ones(5000, 3)),
            lambda: table.index_copy_(0, at, fa.ones(5000, 3)),
            lambda: table.scatter_(0, at.unsqueeze(1), 1.0),
            lambda: table.scatter_add_(0, at.unsqueeze(1), fa.ones(5000, 1)),
        ):
            with pytest.raises(
                IndexError, match=f"index {bad} is out of range for dim 0 of size 5000"
            ):
                call()
        assert table.sum().item() == 0


@pytest.mark.parametrize("rows", [3, 2000, 9000])
@pytest.mark.parametrize("bad", [7, -8])
def test_bad_indices_are_named(rows: int, bad: int) -> None:
    table, at = fa.randn(7, 5), fa.zeros(rows, dtype=fa.int64)
    at[rows - 1] = bad
    for call in (
        lambda: table[at],
        lambda: table[:, at % 5][at],
        lambda: table[at, at % 5],
        lambda: table.index_select(0, at),
        lambda: table.gather(0, at.unsqueeze(1)),
        lambda: fa.nn.functional.embedding(at, table),
    ):
        with pytest.raises(IndexError, match=f"index {bad} is out of range for dim 0 of size 7"):
            call()
    with pytest.raises(IndexError, match="out of range"):
        table.reshape(35)[:7].take(at)
    empty = fa.zeros(7, 0)
    with pytest.raises(IndexError, match=f"index {bad}"):
        empty[at]


def test_negative_indices_count_from_the_end() -> None:
    table = fa.arange(12.0).reshape(3, 4)
    rows, columns = fa.tensor([-1, 0, -3]), fa.tensor([1, -1, 0])
    assert table[rows, columns].tolist() == [9.0, 3.0, 0.0]
    assert table[:, columns].tolist() == [[1.0, 3.0, 0.0], [5.0, 7.0, 4.0], [9.0, 11.0, 8.0]]
    assert table.clone().index_put_((rows, columns), fa.tensor([-1.0, -2.0, -3.0])).tolist() == [
        [-3.0, 1.0, 2.0, -2.0],
        [4.0, 5.0, 6.0, 7.0],
        [8.0, -1.0, 10.0, 11.0],
    ]
    many = fa.arange(-3, 3).repeat(30000)
    total = fa.zeros(3).index_put_((many,), fa.ones(180000), accumulate=True)
    assert total.tolist() == [60000.0] * 3
