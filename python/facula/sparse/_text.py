"""How sparse tensors are printed."""

from __future__ import annotations

import textwrap
from typing import Any

import facula
from facula import _tensor_str
from facula.sparse._tensor import BSR, COALESCED, CSR, hook, parts

__all__ = ["text"]


@hook
def text(x: Any) -> str:
    """What repr(x) gives: components, then what they do not tell."""
    own = parts(x, False)
    if own.kind <= COALESCED:
        names: tuple[str, ...] = ("indices",)
    elif own.kind in (CSR, BSR):
        names = ("crow_indices", "col_indices")
    else:
        names = ("ccol_indices", "row_indices")
    lines = []
    for name, part in zip((*names, "values"), (*own.indices, own.values.detach()), strict=True):
        head = name + "="
        shown = textwrap.indent(_tensor_str.tensor_str(part), " " * (7 + len(head))).lstrip()
        lines.append(head + shown)
    facts = []
    if x.device.type != "cpu":
        facts.append(f"device='{x.device}'")
    facts += [f"size={own.size}", f"nnz={own.nnz}"]
    if x.dtype != facula.get_default_dtype():
        facts.append(f"dtype={x.dtype}")
    facts.append(f"layout={x.layout}")
    if x.grad_fn is not None:
        facts.append(f"grad_fn=<{x.grad_fn.name()}>")
    elif x.requires_grad:
        facts.append("requires_grad=True")
    return "tensor(" + (",\n" + " " * 7).join([*lines, ", ".join(facts)]) + ")"
