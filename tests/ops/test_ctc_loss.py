"""ctc_loss against the sum over all alignments, one by one."""

from __future__ import annotations

import itertools

import facula as fa
import numpy as np
import pytest
from facula import _C
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


def by_steps(x: np.ndarray, labels: list[int], blank: int = 0) -> float:
    """Equations 5 to 8 of Graves et al. 2006, in probabilities, scaled at each step."""
    path = [blank]
    for k in labels:
        path += [k, blank]
    alpha, log = np.zeros(len(path)), 0.0
    for t, row in enumerate(np.exp(x.astype(np.float64))):
        if t == 0:
            new = np.zeros(len(path))
            new[:2] = 1
        else:
            new = alpha + np.r_[0, alpha[:-1]]
            jump = np.array([s > 1 and k not in (blank, path[s - 2]) for s, k in enumerate(path)])
            new = new + np.where(jump, np.r_[0, 0, alpha][: len(path)], 0)
        alpha = new * row[path]
        log += np.log(alpha.sum())
        alpha = alpha / alpha.sum()
    return -(log + np.log(alpha[-2:].sum()))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_sequences(dtype: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(150, 4, 30))
    x = (x - np.log(np.exp(x).sum(-1, keepdims=True))).astype(dtype)
    labels = [rng.integers(1, 30, n).tolist() for n in (40, 7, 33, 1)]
    lengths = [150, 60, 150, 100]
    targets = fa.tensor([k for row in labels for k in row])
    sizes = [len(row) for row in labels]
    scores = fa.tensor(x, requires_grad=True)
    got = functional.ctc_loss(scores, targets, lengths, sizes, reduction="none")
    want = [by_steps(x[:n, i], labels[i]) for i, n in enumerate(lengths)]
    np.testing.assert_allclose(
        got.detach().numpy(), want, rtol=1e-5 if dtype == "float32" else 1e-12
    )
    got.sum().backward()
    # Each step within a sequence uses one label: the gradient is minus its probabilities.
    used = -scores.grad.sum(-1).numpy()
    inside = np.arange(150)[:, None] < np.array(lengths)
    np.testing.assert_allclose(used, inside, atol=1e-3 if dtype == "float32" else 1e-11)


def test_decompositions() -> None:
    """What devices without the kernels run: values and gradients to second order."""
    padded = fa.tensor([[1, 1, 2], [3, 0, 0], [2, 1, 0]])
    lengths, sizes = fa.tensor([5, 0, 4]), fa.tensor([3, 0, 2])

    def results() -> list[fa.Tensor]:
        x = fa.tensor(logs(), requires_grad=True)
        losses, alpha = _C._ops._ctc_loss(x, padded, lengths, sizes, 0)
        weights = fa.tensor([1.0, 2.0, 3.0], dtype=fa.float64)
        (first,) = fa.autograd.grad((losses * losses * weights).sum(), x, create_graph=True)
        (second,) = fa.autograd.grad((first**2).sum(), x)
        return [t.detach() for t in (losses, alpha, first, second)]

    want = results()
    names = ("_ctc_loss", "_ctc_loss_backward")
    kernels = [_C._swap_cpu_kernel(name, 0) for name in names]
    try:
        got = results()
    finally:
        for name, kernel in zip(names, kernels, strict=True):
            _C._swap_cpu_kernel(name, kernel)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-10, atol=1e-13)


def test_forward_mode_and_batches_of_calls() -> None:
    x = fa.tensor(logs(), requires_grad=True)
    padded = fa.tensor([[1, 1, 2], [3, 0, 0], [2, 1, 0]])

    def loss(scores: fa.Tensor) -> fa.Tensor:
        return functional.ctc_loss(scores, padded, LENGTHS, [3, 1, 2], reduction="none")

    assert fa.autograd.gradcheck(loss, (x,), check_forward_ad=True)
    many = fa.tensor(np.stack([logs(k) for k in range(3)]))
    got = fa.vmap(loss)(many)
    np.testing.assert_allclose(got.numpy(), fa.stack([loss(m) for m in many]).numpy(), rtol=1e-12)


def test_labels_beyond_the_classes() -> None:
    with pytest.raises(IndexError, match="targets holds 7, which is no class of 0 to 3"):
        functional.ctc_loss(fa.tensor(logs()), fa.tensor([[7], [1], [2]]), LENGTHS, [1, 1, 1])
