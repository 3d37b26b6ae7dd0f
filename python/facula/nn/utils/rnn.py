"""Sequences of different lengths: padded to one tensor, or packed time by time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import facula
from facula._errors import tell_all

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Packed(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(_Packed):
    """Sequences stored time by time, the longest first; made by the functions of this module.

    Attributes:
        data: the elements of all sequences, (sum of lengths, *).
        batch_sizes: int64 on the CPU: how many sequences reach each time.
        sorted_indices: the sequences' order by length, None where they came so.
        unsorted_indices: its inverse.
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Any = None,
        sorted_indices: Any = None,
        unsorted_indices: Any = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            raise ValueError("PackedSequence needs data and batch_sizes")
        if not isinstance(batch_sizes, facula.Tensor):
            raise TypeError(f"batch_sizes should be a Tensor, got {type(batch_sizes).__name__}")
        if not batch_sizes.is_cpu:
            raise ValueError(f"batch_sizes should always be on CPU; it is on {batch_sizes.device}")
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Convert the data as `Tensor.to` does, and move the indices along; batch_sizes stay."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = (
            None if i is None else i.to(data.device)
            for i in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(data, self.batch_sizes, *indices)

    def cpu(self) -> PackedSequence:
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> PackedSequence:
        """Move to a CUDA device, the current one by default."""
        return self.to("cuda" if device is None else facula.device("cuda", device))

    def double(self) -> PackedSequence:
        """Convert to float64."""
        return self.to(dtype=facula.float64)

    def float(self) -> PackedSequence:
        """Convert to float32."""
        return self.to(dtype=facula.float32)

    def half(self) -> PackedSequence:
        """Convert to float16."""
        return self.to(dtype=facula.float16)

    def long(self) -> PackedSequence:
        """Convert to int64."""
        return self.to(dtype=facula.int64)

    def int(self) -> PackedSequence:
        """Convert to int32."""
        return self.to(dtype=facula.int32)

    def short(self) -> PackedSequence:
        """Convert to int16."""
        return self.to(dtype=facula.int16)

    def char(self) -> PackedSequence:
        """Convert to int8."""
        return self.to(dtype=facula.int8)

    def byte(self) -> PackedSequence:
        """Convert to uint8."""
        return self.to(dtype=facula.uint8)

    def pin_memory(self) -> PackedSequence:
        """A copy in memory from which copies to a device are faster."""
        indices = (
            None if i is None else i.pin_memory()
            for i in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    def is_pinned(self) -> bool:
        """Whether the data are in such memory."""
        return bool(self.data.is_pinned())

    @property
    def is_cuda(self) -> bool:
        """Whether the data are on a CUDA device."""
        return bool(self.data.device.type == "cuda")


def invert_permutation(permutation: Any) -> Any:
    """The inverse of a vector of indices; None for None."""
    if permutation is None:
        return None
    places = facula.arange(permutation.numel(), device=permutation.device)
    return facula.empty_like(permutation).scatter_(0, permutation, places)


def _runs(counts: list[Any]) -> Iterator[tuple[Any, Any, Any]]:
    """(start, stop, count) of the stretches of equal counts."""
    start = 0
    for at in range(1, len(counts) + 1):
        if at == len(counts) or counts[at] != counts[start]:
            yield start, at, counts[start]
            start = at


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack padded sequences of the given lengths.

    Args:
        input: (T, B, *), or (B, T, *) with batch_first; T at least the greatest length.
        lengths: list or CPU tensor of B lengths, each at least 1.
        enforce_sorted: the lengths must fall; otherwise the sequences are sorted.
    """
    if isinstance(lengths, facula.Tensor):
        if lengths.dim() != 1 or not lengths.is_cpu:
            raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor")
        lengths = lengths.tolist()
    lengths = [int(n) for n in lengths]
    order = None
    if not isinstance(input, facula.Tensor) or input.dim() < 2:
        got = f"{input.dim()}-D" if isinstance(input, facula.Tensor) else type(input).__name__
        raise RuntimeError(f"Expected input to be a Tensor of at least 2 dims, but got {got}")
    x = input.transpose(0, 1) if batch_first else input
    if x.shape[1] != len(lengths):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} "
            f"(batch_size={x.shape[1]})"
        )
    if not lengths or min(lengths) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    falls = all(a >= b for a, b in itertools.pairwise(lengths))
    if enforce_sorted and not falls:
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if not enforce_sorted:
        places = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        order = facula.tensor(places, device=input.device)
        lengths = [lengths[i] for i in places]
        x = x.index_select(1, order)
    if lengths[0] > x.shape[0]:
        raise RuntimeError(
            f"Expected lengths of at most {x.shape[0]}, the input's, but got {lengths[0]}"
        )
    counts = [sum(1 for n in lengths if n > t) for t in range(lengths[0])]
    pieces = [
        x[start:stop, :count].reshape((stop - start) * count, *x.shape[2:])
        for start, stop, count in _runs(counts)
    ]
    data = pieces[0] if len(pieces) == 1 else facula.cat(pieces)
    return PackedSequence(data, facula.tensor(counts, device="cpu"), order, None)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Any, Any]:
    """Undo `pack_padded_sequence`: (padded, lengths), in the order that the sequences came in.

    Args:
        total_length: T of the result, by default the greatest length.
    """
    from facula.nn import functional as F

    if not isinstance(sequence, PackedSequence):
        raise TypeError(f"sequence should be a PackedSequence, got {type(sequence).__name__}")
    data, batch_sizes, _, back = sequence
    counts = batch_sizes.tolist()
    falls = batch_sizes.dim() == 1 and all(a >= b for a, b in itertools.pairwise(counts))
    if batch_sizes.dtype != facula.int64 or not counts or not falls or counts[-1] < 0:
        raise RuntimeError(
            "batch_sizes should be a 1D int64 tensor of at least one number, which must not grow "
            f"nor be negative; got {batch_sizes}"
        )
    if sum(counts) != data.shape[0]:
        raise RuntimeError(
            f"batch_sizes ask for {sum(counts)} rows of data, there are {data.shape[0]}"
        )
    longest, batch = len(counts), counts[0]
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={total_length} and max sequence length being {longest}"
        )
    shape = data.shape[1:]
    pieces, at = [], 0
    for start, stop, count in _runs(counts):
        rows = (stop - start) * count
        piece = data[at : at + rows].reshape(stop - start, count, *shape)
        if count < batch:
            fill = [0, 0] * len(shape) + [0, batch - count]
            piece = F.pad(piece, fill, value=padding_value)
        pieces.append(piece)
        at += rows
    if total_length is not None and total_length > longest:
        rest = (total_length - longest, batch, *shape)
        pieces.append(facula.full(rest, padding_value, dtype=data.dtype, device=data.device))
    padded = pieces[0] if len(pieces) == 1 else facula.cat(pieces)
    lengths = facula.tensor([sum(1 for n in counts if n > i) for i in range(batch)], device="cpu")
    if back is not None:
        padded, lengths = padded.index_select(1, back), lengths[back.cpu()]
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:
    """Stack sequences (L_i, *) to (T, B, *), or (B, T, *) with batch_first; the rest is padding."""
    from facula.nn import functional as F

    if isinstance(sequences, facula.Tensor):
        sequences = sequences.unbind(0)
    elif not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side must be 'left' or 'right', got {padding_side!r}")
    for i, s in enumerate(sequences):
        if not isinstance(s, facula.Tensor) or s.dim() == 0:
            got = "0-D" if isinstance(s, facula.Tensor) else type(s).__name__
            raise RuntimeError(f"sequences[{i}] should be a Tensor of at least 1 dim, got {got}")
    longest = max(s.shape[0] for s in sequences)
    padded = []
    for s in sequences:
        missing = longest - s.shape[0]
        if missing:
            sides = [0, missing] if padding_side == "right" else [missing, 0]
            s = F.pad(s, [0, 0] * (s.dim() - 1) + sides, value=padding_value)
        padded.append(s)
    return facula.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences of the given lengths in (T, B, *), or (B, T, *) with batch_first."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = lengths.tolist() if isinstance(lengths, facula.Tensor) else list(lengths)
    if rows.shape[0] != len(counts):
        raise ValueError(f"Expected {rows.shape[0]} lengths, one a sequence, but got {len(counts)}")
    return [row[:n] for row, n in zip(rows.unbind(0), counts, strict=True)]


def pack_sequence(sequences: list[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences (L_i, *)."""
    padded = pad_sequence(sequences)
    lengths = [len(s) for s in sequences]
    return pack_padded_sequence(padded, lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The list of sequences that `pack_sequence` got."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


tell_all(globals(), __all__)
