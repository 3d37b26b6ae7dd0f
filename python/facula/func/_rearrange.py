"""`rearrange`: dims of a tensor in another order, joined and split, by a pattern of names."""

from __future__ import annotations

import math
from typing import Any

import facula

__all__ = ["rearrange"]


_REST = " "  # "..." that is no part of a dim


def _parsed(side: str, pattern: str) -> list[list[str]]:
    """The groups of one side: a list of names for each dim of the tensor there."""
    groups: list[list[str]] = []
    inside: list[str] | None = None
    for word in side.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            if inside is not None:
                raise ValueError(f"rearrange(): brackets within brackets in {pattern!r}")
            inside = []
            groups.append(inside)
        elif word == ")":
            if inside is None:
                raise ValueError(f"rearrange(): brackets do not match in {pattern!r}")
            inside = None
        else:
            if not (word.isidentifier() or word in ("...", "1")):
                raise ValueError(f"rearrange(): {word!r} in {pattern!r} is no name of a dim")
            names = [] if word == "1" else [word]
            if inside is None:
                groups.append([_REST] if word == "..." else names)
            else:
                inside += names
    if inside is not None:
        raise ValueError(f"rearrange(): brackets do not match in {pattern!r}")
    return groups


def _spelt(groups: list[list[str]], rest: list[str]) -> list[list[str]]:
    """The groups with names for the dims that "..." stands for."""
    out: list[list[str]] = []
    for group in groups:
        if group == [_REST]:
            out += [[name] for name in rest]
        else:
            out.append([n for name in group for n in (rest if name == "..." else [name])])
    return out


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """The tensor with its dims as a pattern says, as in the package einops.

    Args:
        tensor: a tensor, or several of one shape, which are stacked: the first name is theirs.
        pattern: "b c (h s) -> b (c s) h": names of dims before and after; brackets hold dims that
            are one dim of the tensor, "1" or "()" a dim of size 1, "..." any dims.
        axes_lengths: sizes of names that are within brackets before; one of each may be left out.

    Raises:
        ValueError: the pattern is none, or does not fit the tensor.

    >>> import facula
    >>> facula.func.rearrange(facula.arange(6).view(2, 3), "a b -> (b a)")
    tensor([0, 3, 1, 4, 2, 5])
    """
    if not isinstance(tensor, facula.Tensor):
        tensor = facula.stack(list(tensor))
    before, arrow, after = pattern.partition("->")
    if not arrow or "->" in after:
        raise ValueError(f"rearrange(): {pattern!r} has no one '->'")
    left, right = _parsed(before, pattern), _parsed(after, pattern)
    more = tensor.dim() - (len(left) - ([_REST] in left))
    if more < 0 or (more and [_REST] not in left):
        raise ValueError(
            f"rearrange(): {pattern!r} has {len(left)} dims, the tensor {tensor.dim()}"
        )
    rest = [f"...{n}" for n in range(more)] if [_REST] in left else []
    left, right = _spelt(left, rest), _spelt(right, rest)
    names = [n for group in left for n in group]
    wanted = [n for group in right for n in group]
    if sorted(names) != sorted(wanted) or len(set(names)) != len(names):
        raise ValueError(
            f"rearrange(): both sides of {pattern!r} must have the same names, each once"
        )
    unknown = sorted(set(axes_lengths) - set(names))
    if unknown:
        raise ValueError(f"rearrange(): lengths of {unknown} are given, which {pattern!r} has not")
    sizes = dict(axes_lengths)
    for group, size in zip(left, tensor.shape, strict=True):
        open_ = [n for n in group if n not in sizes]
        known = math.prod(sizes[n] for n in group if n in sizes)
        if len(open_) > 1:
            raise ValueError(f"rearrange(): give the lengths of all but one of {group}")
        if open_ and known and size % known == 0:
            sizes[open_[0]] = size // known
        elif open_ or known != size:
            raise ValueError(
                f"rearrange(): a dim of size {size} is no "
                f"{' times '.join(group) or 'dim of size 1'} with the lengths "
                f"{ ({n: sizes[n] for n in group if n in sizes}) }"
            )
    split = tensor.reshape([sizes[n] for n in names])
    moved = split.permute([names.index(n) for n in wanted])
    return moved.reshape([math.prod(sizes[n] for n in group) for group in right])
