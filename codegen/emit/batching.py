"""How one call of an operator serves a batch of calls: its rule, stated or derived.

`elements`: tensors broadcast. `leading`: every tensor gets the batch dim in front, and numbers that
count dims, or say sizes, follow. `rows`: call by call. Without any, the decomposition is batched
through its parts; without one, call by call.
"""

from __future__ import annotations

from ..schema.model import Operator
from ..schema.words import BATCH_ROLES

Rule = tuple[str, tuple[tuple[str, str], ...]]


def derived(op: Operator) -> Rule:
    """The rule that follows from the kind, and from what a reduction or a scan calls `dim`."""
    if op.scalar:
        return "elements", ()
    dim = next((a for a in op.signature.arguments if a.name == "dim"), None)
    if op.kind in ("reduction", "scan") and op.dispatch and dim is not None:
        whole = dim.type.optional or dim.default == "[]"
        return "leading", (("dim", "reduced" if whole else "dim"),)
    return "", ()


def rule_of(op: Operator) -> Rule:
    return (op.batch, op.batch_roles) if op.batch else derived(op)


def way(op: Operator) -> str:
    """What vmap makes of a call: for tables of what there is."""
    word, _ = rule_of(op)
    if word in ("elements", "leading"):
        return "rule"
    decomposes = op.composite is not None or op.composite_fn is not None
    return "parts" if decomposes and word != "rows" else "rows"


def roles(op: Operator) -> tuple[str, ...]:
    """The C++ role of each argument."""
    stated = dict(rule_of(op)[1])
    found = []
    for argument in op.signature.arguments:
        default = "front" if argument.type.base == "Tensor" else "none"
        word = stated.get(argument.name, default)
        assert word in (*BATCH_ROLES, "front", "none"), word
        found.append("BatchRole::" + "".join(part.capitalize() for part in word.split("_")))
    return tuple(found)
