"""Random numbers are those of Philox 4x32-10 (Salmon et al. 2011), computed here once more."""

from __future__ import annotations

from typing import Any

import facula as fa
import numpy as np
import pytest

Array = np.ndarray[Any, Any]
MASK = np.uint64(0xFFFFFFFF)
SEED = 0x123456789ABCDEF


def philox(counter: list[Array], key: tuple[int, int]) -> list[Array]:
    """The four words of each counter."""
    c = [np.asarray(w, dtype=np.uint64) for w in counter]
    a, b = key
    for _ in range(10):
        p, q = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (q >> np.uint64(32)) ^ c[1] ^ np.uint64(a),
            q & MASK,
            (p >> np.uint64(32)) ^ c[3] ^ np.uint64(b),
            p & MASK,
        ]
        a, b = (a + 0x9E3779B9) & 0xFFFFFFFF, (b + 0xBB67AE85) & 0xFFFFFFFF
    return c


def test_the_reference_gives_published_words() -> None:
    """The known answers of Random123."""
    top = 0xFFFFFFFF
    for counter, key, want in (
        ([0] * 4, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([top] * 4, (top, top), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    ):
        assert [int(w) for w in philox([np.array(c) for c in counter], key)] == want


def words(groups: int, draw: int) -> Array:
    """Groups of 64 words: the first word of 16 counters, then the second, and so on."""
    block = np.arange(16 * groups, dtype=np.uint64)
    counter = [block & MASK, block >> np.uint64(32), np.uint64(draw), np.uint64(0)]
    key = (SEED & 0xFFFFFFFF, SEED >> 32)
    four = np.stack([np.broadcast_to(w, block.shape) for w in philox(counter, key)])
    return four.reshape(4, groups, 16).transpose(1, 0, 2).reshape(groups, 64)


def longs(groups: int, draw: int) -> Array:
    """Of each two words that are 16 apart one number of 64 bits: 32 a group."""
    w = words(groups, draw).reshape(groups, 2, 2, 16)
    return (w[:, :, 0] | w[:, :, 1] << np.uint64(32)).reshape(groups * 32)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000, 70_000])
def test_uniform_numbers(n: int) -> None:
    fa.manual_seed(SEED)
    single, double = fa.rand(n), fa.rand(n, dtype=fa.float64)
    w = words(-(-n // 64), 0).ravel()[:n]
    assert single.tolist() == ((w >> np.uint64(8)) * 2.0**-24).tolist()
    w = longs(-(-n // 32), 1)[:n]
    assert double.tolist() == ((w >> np.uint64(11)) * 2.0**-53).tolist()


@pytest.mark.parametrize("n", [1, 64, 65, 5000])
def test_normal_numbers(n: int) -> None:
    """By Box and Muller from words that are half a group apart."""
    fa.manual_seed(SEED)
    single, double = fa.randn(n), fa.randn(n, dtype=fa.float64)
    groups = -(-n // 64)
    for got, w, unit, near in (
        (single, words(groups, 0), 2.0**-32, 2e-6),
        (double, longs(2 * groups, 1).reshape(groups, 64), 2.0**-64, 1e-14),
    ):
        first, turn = w[:, :32].astype(float) * unit, w[:, 32:].astype(float) * unit
        radius = np.sqrt(-2 * np.log(first + unit / 2))
        angle = 2 * np.pi * turn
        want = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()[:n]
        np.testing.assert_allclose(got.numpy(), want, rtol=near, atol=near * 4)
