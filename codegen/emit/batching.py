"""How one call of an operator serves a batch of calls: its rule, stated or derived.

`elements`: tensors broadcast. `leading`: every tensor gets the batch dim in front, and numbers that
count dims, or say sizes, follow. `rows`: call by call. Without any, the function of `batch_fn` is
called; without one, the decomposition is batched through its parts; without one, call by call.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..schema import axes
from ..schema.model import Operator, Schema

Roles = tuple[tuple[str, str], ...]
Rule = tuple[str, tuple[Roles, ...]]


def derived(op: Operator) -> Rule:
    """The rule that follows from the kind, from what a reduction calls `dim`, or from `axes`."""
    if op.scalar:
        return "elements", ()
    dim = next((a for a in op.signature.arguments if a.name == "dim"), None)
    if op.kind in ("reduction", "scan") and op.dispatch and dim is not None:
        whole = dim.type.optional or dim.default == "[]"
        return "leading", ((("dim", "reduced" if whole else "dim"),),)
    return axes.batch_roles(op)


def rule_of(op: Operator) -> Rule:
    if op.batch == "parts":
        return "", ()
    return (op.batch, op.batch_rules) if op.batch else derived(op)


def way(op: Operator) -> str:
    """What vmap makes of a call: for tables of what there is."""
    word, _ = rule_of(op)
    if not op.signature.tensor_arguments:
        return "none"
    if word in ("elements", "leading") or op.batch_fn:
        return "rule"
    decomposes = op.composite is not None or op.composite_fn is not None
    return "parts" if decomposes and word != "rows" else "rows"


def told(op: Operator) -> str:
    """The rule in words, for a table."""
    word, stated = rule_of(op)
    if way(op) != "rule":
        return {
            "none": "takes no tensors",
            "parts": "through its decomposition",
            "rows": "row by row",
        }[way(op)]
    more = [f"by {op.batch_fn}"] if op.batch_fn else []
    ways = [", ".join(f"{name}: {role}" for name, role in roles) for roles in stated]
    return "; or ".join(ways + more) or word


def table(schema: Schema) -> Iterator[str]:
    """A line an operator, internal ones if they have kernels, and how many go each way."""
    counts: dict[str, int] = {}
    for op in schema:
        if op.derived_from or (op.internal and not op.dispatch):
            continue
        counts[way(op)] = counts.get(way(op), 0) + 1
        yield f"{op.name:32} {told(op)}"
    yield ", ".join(f"{counts[key]} {key}" for key in sorted(counts))


def rules(op: Operator) -> tuple[tuple[str, str], ...]:
    """Lists of the roles in C++, of the arguments and of the results, of each alternative."""
    word, stated = rule_of(op)
    return tuple(_rule(op, dict(roles)) for roles in stated or ((),)) if word == "leading" else ()


def _rule(op: Operator, stated: dict[str, str]) -> tuple[str, str]:
    arguments = []
    for argument in op.signature.arguments:
        default = "front" if argument.type.base == "Tensor" else "none"
        arguments.append(_role(stated.get(argument.name, default)))
    # A tensor that is folded makes a result that is, unless these are named.
    folded = any(stated.get(a.name) == "fold" for a in op.signature.tensor_arguments)
    named = any(name in stated for name in result_names(op))
    default = "fold" if folded and not named else "front"
    results = [_role(stated.get(name, default)) for name in result_names(op)]
    return ", ".join(arguments), ", ".join(results)


def result_names(op: Operator) -> tuple[str, ...]:
    """What `batch` calls the results."""
    returns = op.signature.returns
    if len(returns) == 1:
        return (returns[0].name or "result",)
    return tuple(r.name or f"result{i}" for i, r in enumerate(returns))


def _role(word: str) -> str:
    return "BatchRole::" + "".join(part.capitalize() for part in word.split("_"))
