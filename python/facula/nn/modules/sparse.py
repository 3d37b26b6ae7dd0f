"""Lookup tables: of rows, and of bags of rows."""

from __future__ import annotations

from typing import Any

import facula
from facula.nn import functional as F
from facula.nn import init
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """The table and what both modules say of it."""

    def __init__(
        self,
        rows: int,
        columns: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        weight: Any,
        freeze: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if padding_idx is not None:
            if not -rows <= padding_idx < rows:
                raise ValueError(
                    f"{name}: padding_idx {padding_idx} must be within num_embeddings {rows}"
                )
            padding_idx %= rows
        if weight is not None and tuple(weight.shape) != (rows, columns):
            raise ValueError(f"{name}: weight is {tuple(weight.shape)}, expected {rows, columns}")
        self.num_embeddings, self.embedding_dim = rows, columns
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        given = weight is not None
        if not given:
            weight = facula.empty(rows, columns, device=device, dtype=dtype)
        self.weight = Parameter(weight, requires_grad=not freeze)
        if not given:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table from N(0, 1)."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with facula.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def _described(self, **first: Any) -> str:
        given = {
            **first,
            "max_norm": self.max_norm,
            "norm_type": None if self.norm_type == 2 else self.norm_type,
            "scale_grad_by_freq": self.scale_grad_by_freq or None,
        }
        texts = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *texts])


def _sizes(embeddings: Any) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise ValueError(
            f"from_pretrained(): embeddings is {tuple(embeddings.shape)}, expected 2 dims"
        )
    return tuple(embeddings.shape)


class Embedding(_Table):
    """Rows of weight (num_embeddings, embedding_dim) at integer indices: (*) to (*, dim).

    Args:
        padding_idx: row that starts at zero and gets no gradient.
        max_norm: rows that are looked up are first scaled, in place, to at most this norm.
        norm_type: p of that norm.
        scale_grad_by_freq: divide a row's gradient by how often it occurs in the batch.
        sparse: the gradient of weight has layout sparse_coo: SGD, Adagrad and SparseAdam take it.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            _freeze,
            device,
            dtype,
        )

    def extra_repr(self) -> str:
        text = self._described(padding_idx=self.padding_idx)
        return f"{text}, sparse=True" if self.sparse else text

    def forward(self, input: Any) -> Any:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Make an Embedding from a 2-d tensor."""
        rows, columns = _sizes(embeddings)
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(_Table):
    """The sum, mean or largest elements of the rows in each bag of indices: (bags, dim).

    Input is (bags, n); or (total,) with `offsets`, where each bag starts.

    Args:
        mode: "sum", "mean" or "max".
        include_last_offset: `offsets` has one more entry, the end of the last bag.
        padding_idx: row that starts at zero, does not count and gets no gradient.
        max_norm, norm_type, scale_grad_by_freq, sparse: as for Embedding.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            False,
            device,
            dtype,
        )
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """(bags, dim); per_sample_weights, of input's shape, go with the mode "sum"."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Make an EmbeddingBag from a 2-d tensor."""
        rows, columns = _sizes(embeddings)
        bag = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        bag.weight.requires_grad_(not freeze)
        return bag

    def extra_repr(self) -> str:
        text = f"{self._described()}, mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx!r}"
