"""ctc_loss against the sum over all alignments, one by one."""

from __future__ import annotations

import itertools

import facula as fa
import numpy as np
import pytest
from facula.nn import functional

STEPS, BATCH, CLASSES = 5, 3, 4


def logs(seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(STEPS, BATCH, CLASSES))
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def read_off(path: tuple[int, ...], blank: int) -> list[int]:
    return [k for k, _ in itertools.groupby(path) if k != blank]


def exact(scores: np.ndarray, labels: list[int], blank: int) -> float:
    """Minus the logarithm of the sum over all paths that give the labels."""
    paths = itertools.product(range(scores.shape[1]), repeat=len(scores))
    total = sum(
        np.exp(sum(scores[t, k] for t, k in enumerate(path)))
        for path in paths
        if read_off(path, blank) == labels
    )
    return -np.log(total) if total else np.inf


TARGETS = [[1, 1, 2], [3], [2, 1]]
LENGTHS = [5, 3, 4]


@pytest.mark.parametrize("blank", [0, 3])
def test_every_alignment(blank: int) -> None:
    scores = logs()
    labels = [[k if k != blank else 0 for k in row] for row in TARGETS]
    want = [exact(scores[:n, i], labels[i], blank) for i, n in enumerate(LENGTHS)]
    padded = fa.tensor([row + [0] * (3 - len(row)) for row in labels])
    sizes = [len(row) for row in labels]
    x = fa.tensor(scores)
    got = functional.ctc_loss(x, padded, LENGTHS, sizes, blank, "none")
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    joined = fa.tensor([k for row in labels for k in row])
    same = functional.ctc_loss(x, joined, fa.tensor(LENGTHS), fa.tensor(sizes), blank, "none")
    np.testing.assert_array_equal(same.numpy(), got.numpy())
    mean = functional.ctc_loss(x, padded, LENGTHS, sizes, blank)
    np.testing.assert_allclose(mean.item(), np.mean(np.array(want) / sizes))
    total = functional.ctc_loss(x, padded, LENGTHS, sizes, blank, "sum")
    np.testing.assert_allclose(total.item(), np.sum(want))
    one = functional.ctc_loss(x[:, 0], fa.tensor(labels[0]), 5, 3, blank, "none")
    assert one.shape == () and one.item() == got[0].item()


def test_gradients() -> None:
    x = fa.tensor(logs(), requires_grad=True)
    padded = fa.tensor([[1, 1, 2], [3, 0, 0], [2, 1, 0]])

    def loss(scores: fa.Tensor) -> fa.Tensor:
        return functional.ctc_loss(scores, padded, LENGTHS, [3, 1, 2], reduction="sum")

    assert fa.autograd.gradcheck(loss, (x,))
    assert fa.autograd.gradgradcheck(loss, (x,))


def test_what_does_not_fit() -> None:
    x = fa.tensor(logs(), requires_grad=True)
    repeated = fa.tensor([[1, 1, 1], [1, 2, 0], [1, 0, 0]])  # needs blanks between: five steps
    lengths, sizes = [4, 5, 5], [3, 2, 1]
    losses = functional.ctc_loss(x, repeated, lengths, sizes, reduction="none")
    assert losses[0] == np.inf and losses[1:].isfinite().all()
    kept = functional.ctc_loss(x, repeated, lengths, sizes, reduction="sum", zero_infinity=True)
    kept.backward()
    assert not x.grad[:, 0].any() and x.grad.isfinite().all()


def test_empty_targets_are_all_blanks() -> None:
    scores = logs()
    got = functional.ctc_loss(
        fa.tensor(scores), fa.zeros(3, 0, dtype=fa.int64), [5, 2, 0], [0, 0, 0], reduction="none"
    )
    np.testing.assert_allclose(got.numpy(), [-scores[:5, 0, 0].sum(), -scores[:2, 1, 0].sum(), 0])


def test_errors() -> None:
    x, labels = fa.tensor(logs()), fa.tensor([[1], [2], [3]])
    with pytest.raises(RuntimeError, match="blank must be in label range"):
        functional.ctc_loss(x, labels, LENGTHS, [1, 1, 1], blank=9)
    with pytest.raises(RuntimeError, match="input_lengths must be at most 5"):
        functional.ctc_loss(x, labels, [6, 1, 1], [1, 1, 1])
    with pytest.raises(RuntimeError, match="target_lengths must be of size batch_size 3"):
        functional.ctc_loss(x, labels, LENGTHS, [1, 1])
    with pytest.raises(RuntimeError, match="targets are"):
        functional.ctc_loss(x, labels, LENGTHS, [1, 2, 1])
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        functional.ctc_loss(x, labels, LENGTHS, [1, 1, 1], reduction="all")
    assert fa.ctc_loss(x, labels, LENGTHS, [1, 1, 1], 0, 2).shape == ()


def test_what_lies_beyond_a_target_is_not_read() -> None:
    log_probs = fa.randn(6, 2, 4, dtype=fa.float64).log_softmax(-1)
    lengths = [6, 6], [2, 1]
    want = fa.nn.functional.ctc_loss(log_probs, fa.tensor([[1, 2], [1, 0]]), *lengths)
    for padding in (-1, 99):
        targets = fa.tensor([[1, 2], [1, padding]])
        got = fa.nn.functional.ctc_loss(log_probs, targets, *lengths)
        assert got.item() == want.item()
