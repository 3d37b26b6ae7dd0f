"""Lookup tables."""

from __future__ import annotations

from typing import Any

import facula
from facula.nn import functional as F
from facula.nn import init
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = ["Embedding"]


class Embedding(Module):
    """Rows of weight (num_embeddings, embedding_dim) at integer indices: (*) to (*, dim).

    Args:
        padding_idx: row that starts at zero and gets no gradient.
        max_norm: rows that are looked up are first scaled, in place, to at most this norm.
        norm_type: p of that norm.
        scale_grad_by_freq: divide a row's gradient by how often it occurs in the batch.
        sparse: sparse gradients are not implemented.
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
        super().__init__()
        if sparse:
            raise NotImplementedError("Embedding: sparse=True is not implemented")
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(
                    f"padding_idx {padding_idx} must be within num_embeddings {num_embeddings}"
                )
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        shape = (num_embeddings, embedding_dim)
        if _weight is None:
            table = facula.empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(table, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != shape:
                raise ValueError(f"weight is {tuple(_weight.shape)}, expected {shape}")
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draw the table from N(0, 1)."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with facula.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Any) -> Any:
        if self.max_norm is not None:
            self._renormalise(input)
        return F.embedding(
            input,
            self.weight,
            padding_idx=self.padding_idx,
            scale_grad_by_freq=self.scale_grad_by_freq,
        )

    def _renormalise(self, input: Any) -> None:
        with facula.no_grad():
            rows = facula._C._ops._unique(input)[0]
            chosen = self.weight[rows]
            norm = facula.linalg.vector_norm(chosen, self.norm_type, 1, keepdim=True)
            scale = facula.where(
                norm > self.max_norm, self.max_norm / (norm + 1e-7), facula.ones_like(norm)
            )
            self.weight[rows] = chosen * scale

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
        if embeddings.dim() != 2:
            raise ValueError(f"embeddings is {tuple(embeddings.shape)}, expected 2 dims")
        rows, cols = embeddings.shape
        return cls(
            rows,
            cols,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return text
