"""Batches of matrices in compressed layouts, beside the strided tensors that they stand for."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import facula as fa
import numpy as np
import pytest

LAYOUTS = {
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((2, 3)),
    "bsc": lambda x: x.to_sparse_bsc((2, 3)),
}
TURNED = {"csr": "csc", "csc": "csr", "bsr": "bsc", "bsc": "bsr"}


def batch(*sizes: int, kept: int = 5, high: int = 4, wide: int = 6) -> np.ndarray:
    """Matrices that keep as many elements each, and as many blocks of 2 x 3."""
    rng = np.random.default_rng(3)
    made = np.zeros((*sizes, high * wide))
    for matrix in made.reshape(-1, high * wide):
        corner = [0, 1, wide, wide + 1, 2, wide + 2]
        matrix[rng.permutation(corner)[:kept]] = rng.standard_normal(kept)
        matrix[rng.choice([3 * wide - 1, 4 * wide - 2])] = rng.standard_normal()
    return made.reshape(*sizes, high, wide)


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (0,)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_there_and_back(layout: str, sizes: tuple[int, ...]) -> None:
    dense = batch(*sizes)
    x = LAYOUTS[layout](fa.tensor(dense))
    assert x.shape == dense.shape and str(x.layout) == f"facula.sparse_{layout}"
    assert x.sparse_dim() == 2 and x.dense_dim() == 0
    assert x.to_dense().tolist() == dense.tolist()
    assert x.to_sparse().to_dense().tolist() == dense.tolist()
    assert (2 * x - x / 4).to_dense().tolist() == (dense * 2 - dense / 4).tolist()
    np.testing.assert_allclose(x.sin().to_dense().numpy(), np.sin(dense))
    turned = x.transpose(-2, -1)
    assert str(turned.layout) == f"facula.sparse_{TURNED[layout]}"
    assert turned.to_dense().tolist() == np.swapaxes(dense, -1, -2).tolist()
    assert x.sum().item() == pytest.approx(dense.sum())
    np.testing.assert_allclose(x.sum(-1).to_dense().numpy(), dense.sum(-1))
    for same in (x.clone(), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.to(fa.float64)):
        assert same.layout is x.layout and same.to_dense().tolist() == dense.tolist()
    assert fa.zeros_like(x).to_dense().tolist() == np.zeros_like(dense).tolist()
    assert f"nnz={x._nnz()}" in repr(x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_matrices_of_a_batch(layout: str) -> None:
    dense = batch(2, 3)
    x = LAYOUTS[layout](fa.tensor(dense))
    assert x[1].shape == (3, 4, 6) and x[1].layout is x.layout
    assert x[1][2].to_dense().tolist() == dense[1, 2].tolist()
    assert x.select(1, -1).to_dense().tolist() == dense[:, -1].tolist()
    assert x[0, 1].to_dense().tolist() == dense[0, 1].tolist()
    right = np.random.default_rng(0).standard_normal((3, 6, 2))
    np.testing.assert_allclose(
        (x[1] @ fa.tensor(right)).numpy(), dense[1] @ right, rtol=1e-12, atol=1e-14
    )


def test_made_of_components() -> None:
    crow, col = [[0, 1, 2], [0, 0, 2]], [[0, 1], [0, 1]]
    x = fa.sparse_csr_tensor(crow, col, [[1.0, 2.0], [3.0, 4.0]])
    assert x.shape == (2, 2, 2) and x._nnz() == 2
    assert x.to_dense().tolist() == [[[1, 0], [0, 2]], [[0, 0], [3, 4]]]
    assert x.crow_indices().tolist() == crow and x.col_indices().tolist() == col
    y = fa.sparse_csr_tensor(crow, col, fa.ones(2, 2, 3), (2, 2, 5, 3))
    assert y.dense_dim() == 1 and y.to_dense().sum().item() == 12
    z = fa.sparse_csr_tensor(crow, col, fa.ones(2, 2), (2, 2, 2), check_invariants=True)
    assert (z + z).to_dense().sum().item() == 8


@pytest.mark.parametrize("crow, col, values, size, error, said", [
    ([[0, 1, 2]], [[0, 1], [0, 1]], fa.ones(2, 2), None, ValueError, "same dims of a batch"),
    ([[0, 1, 2], [0, 0, 1]], [[0, 1], [0, 1]], fa.ones(2, 2), None, ValueError, "end with"),
    ([[0, 1, 2], [0, 0, 2]], [[0, 1], [0, 7]], fa.ones(2, 2), (2, 2, 2), IndexError, "within 0"),
    ([[0, 1, 2], [0, 0, 2]], [[0, 1], [0, 1]], fa.ones(2, 3), None, ValueError, "for each"),
    ([[0, 1, 2], [0, 0, 2]], [[0, 1], [0, 1]], fa.ones(2, 2), (3, 2, 2), ValueError, "fit values"),
])  # fmt: skip
def test_components_that_do_not_fit(
    crow: Any, col: Any, values: Any, size: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        fa.sparse_csr_tensor(crow, col, values, size)


def test_order_within_each_matrix_is_an_invariant() -> None:
    crow = [[0, 2], [0, 2]]
    fa.sparse_csr_tensor(crow, [[0, 1], [0, 2]], fa.ones(2, 2), check_invariants=True)
    with pytest.raises(ValueError, match="must rise"):
        fa.sparse_csr_tensor(crow, [[0, 1], [2, 0]], fa.ones(2, 2), check_invariants=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_are_those_of_the_places(layout: str) -> None:
    dense = fa.tensor(batch(3), requires_grad=True)
    weights = fa.randn(3, 4, 6, dtype=fa.float64)
    x = LAYOUTS[layout](dense)
    (x.to_dense() * weights).sum().backward()
    if layout in ("csr", "csc"):  # layouts of blocks keep zeros beside
        assert dense.grad.tolist() == fa.where(dense.detach() != 0, weights, 0).tolist()
    values = x.values().detach().clone().requires_grad_()
    of = (x.crow_indices(), x.col_indices()) if layout[-1] == "r" else (
        x.ccol_indices(), x.row_indices()
    )  # fmt: skip
    made = fa.sparse_compressed_tensor(*of, values, x.shape, layout=x.layout)
    (made.to_dense() * weights).sum().backward()
    want = weights.sparse_mask(x.detach()).values()
    assert values.grad.tolist() == want.tolist()


def test_what_a_batch_cannot_do_says_so() -> None:
    x = fa.tensor(batch(2)).to_sparse_csr()
    with pytest.raises(NotImplementedError, match="take its matrices one by one"):
        x.to_sparse(layout=fa.sparse_csc)
    with pytest.raises(RuntimeError, match="change places"):
        x.permute(1, 0, 2)
    with pytest.raises(RuntimeError, match="as many values each"):
        fa.tensor([[[1.0, 0.0]], [[1.0, 2.0]]]).to_sparse_csr()
