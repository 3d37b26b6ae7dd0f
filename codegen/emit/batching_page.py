"""The page of docs that says which operators have which way through vmap."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator

from ..schema.model import Operator, Schema
from .batching import rule_of, told, way

HEAD = """\
# What vmap makes of each operator

Written by `python -m codegen batching --page docs/batching.md` from the schema. What a call of an
operator within `vmap` becomes where some of its tensors are mapped over:

* **a rule**: one call for all rows, by the roles of its arguments (key `batch` of
  [schema.md](schema.md)) or by a function;
* **its parts**: an operator made of others goes through theirs;
* **row by row**: a loop, which warns at an operator's first one and is counted, see
  `func.vmap_fallback` and `func.vmap_fallback_counts`.

What reads a number raises, and so does what has a shape that depends on values, also where an
operator of others comes to it. In-place and `out=` forms go the way of their operator.
"""
RANDOM = """\
## Random numbers

| `randomness=` | |
|---|---|
| `"error"` | raises, the default |
| `"different"` | as below, other numbers for each row, also where no argument is mapped over |
| `"same"` | one draw to fill a tensor, or of kernels of elements; its parts; else row by row |
"""


def _shown(op: Operator) -> bool:
    return not (op.derived_from or op.internal)


def _list(names: list[str]) -> str:
    text = ", ".join(f"`{name}`" for name in sorted(names))
    return "\n".join(
        textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False) or ["none"]
    )


def _is_random(op: Operator) -> bool:
    return op.kind == "random" or any(a.type.base == "Generator" for a in op.signature.arguments)


def _draws(op: Operator) -> str:
    if rule_of(op)[0] in ("elements", "leading"):
        return "a rule"
    return (
        "row by row" if op.composite is None else "its parts; row by row where they fill new memory"
    )


def page(schema: Schema) -> str:
    """The whole page."""
    return "\n".join(_parts([op for op in schema if _shown(op)])).rstrip() + "\n"


def _parts(ops: list[Operator]) -> Iterator[str]:
    yield HEAD
    ways: defaultdict[str, list[str]] = defaultdict(list)
    rules: defaultdict[str, list[str]] = defaultdict(list)
    for op in ops:
        if way(op) == "rule":
            rules[told(op)].append(op.name)
        ways[way(op)].append(op.name)
    yield "| way | operators |\n|---|---|"
    for word, key in (
        ("a rule", "rule"),
        ("its parts", "parts"),
        ("row by row", "rows"),
        ("takes no tensors", "none"),
    ):
        yield f"| {word} | {len(ways[key])} |"
    yield "\n## Row by row\n\n" + _list(ways["rows"]) + "\n"
    yield RANDOM
    yield '| operator | `"different"` |\n|---|---|'
    for op in sorted(ops, key=lambda op: op.name):
        if _is_random(op):
            yield f"| `{op.name}` | {_draws(op)} |"
    yield "\n## Rules\n\n`elements` broadcasts; others say what an argument's numbers are.\n"
    for text in sorted(rules, key=lambda t: (-len(rules[t]), t)):
        yield f"* {text}: {_list(rules[text])}"
    yield "\n## Parts\n\n" + _list(ways["parts"])
