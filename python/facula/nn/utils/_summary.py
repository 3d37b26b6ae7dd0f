"""A table of a network's layers: what they give, and how many parameters they have."""

from __future__ import annotations

from typing import Any, NamedTuple

import facula
from facula.nn._lazy import is_lazy
from facula.nn.modules.module import Module

__all__ = ["Row", "Summary", "summary"]


class Row(NamedTuple):
    """One module: its place, kind, the shapes of what it gave, its own parameters and buffers."""

    name: str
    kind: str
    depth: int
    output: Any
    parameters: int
    trainable: int
    shared: bool  # listed before under another name, and not counted again


class Summary:
    """What `summary` found; `str` of it is the table.

    Attributes:
        rows: a Row for each module, in the order of `named_modules`.
        parameters, trainable: elements of all parameters, and of those that require a gradient.
        parameter_bytes, buffer_bytes: what they take; a tensor under several names counts once.
    """

    def __init__(self, rows: list[Row], model: Module) -> None:
        self.rows = rows
        known = [p for p in model.parameters() if not is_lazy(p)]
        buffers = [b for b in model.buffers() if not is_lazy(b)]
        self.parameters = sum(p.numel() for p in known)
        self.trainable = sum(p.numel() for p in known if p.requires_grad)
        self.parameter_bytes = sum(p.numel() * p.element_size() for p in known)
        self.buffer_bytes = sum(b.numel() * b.element_size() for b in buffers)

    def __str__(self) -> str:
        head = ("layer", "output", "parameters")
        lines = [
            (
                "  " * row.depth + (f"{row.name}: {row.kind}" if row.name else row.kind),
                _shown(row.output),
                "(shared)" if row.shared else f"{row.parameters:,}" if row.parameters else "-",
            )
            for row in self.rows
        ]
        first, second, third = (max(len(line[i]) for line in [head, *lines]) for i in range(3))
        text = [f"{a:<{first}}  {b:<{second}}  {c:>{third}}" for a, b, c in [head, *lines]]
        text.insert(1, "-" * len(text[0]))
        text.append(text[1])
        text.append(
            f"{self.parameters:,} parameters, {self.trainable:,} of them trained; "
            f"{_size(self.parameter_bytes)} of parameters, {_size(self.buffer_bytes)} of buffers"
        )
        return "\n".join(line.rstrip() for line in text)

    __repr__ = __str__


def _size(n: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.1f} {unit}" if unit != "B" else f"{n} B"
        n = n / 1024  # type: ignore[assignment]
    return f"{n:.1f} GiB"


def _shapes(value: Any) -> Any:
    """The shapes in what a module returned; None for what has none."""
    if isinstance(value, facula.Tensor):
        return tuple(value.shape)
    if isinstance(value, dict):
        return {k: s for k, v in value.items() if (s := _shapes(v)) is not None} or None
    if isinstance(value, (list, tuple)):
        found = [s for v in value if (s := _shapes(v)) is not None]
        return found or None
    return None


def _shown(shapes: Any) -> str:
    return "-" if shapes is None else str(shapes)


def summary(model: Module, *args: Any, depth: int | None = None, **kwargs: Any) -> Summary:
    """Which layers a network has, what each gave when it was called, and what it has to learn.

    Args:
        model: the network.
        args, kwargs: what to call it with, once, without gradients and in evaluation mode; with
            none it is not called, and there are no outputs.
        depth: list modules down to this depth alone; the totals are of all.

    Returns:
        Summary: printed it is a table. A module called several times shows its last output.
    """
    outputs: dict[int, Any] = {}
    if args or kwargs:
        modes = {m: m.training for m in model.modules()}

        def note(module: Module, inputs: Any, output: Any) -> None:
            outputs[id(module)] = _shapes(output)

        handles = [m.register_forward_hook(note) for m in modes]
        model.eval()
        try:
            with facula.no_grad():
                model(*args, **kwargs)
        finally:
            for handle in handles:
                handle.remove()
            for module, mode in modes.items():
                module.training = mode
    rows, seen = [], set()
    for name, module in model.named_modules(remove_duplicate=False):
        own = [p for p in module._parameters.values() if p is not None and not is_lazy(p)]
        level = name.count(".") + 1 if name else 0
        if depth is None or level <= depth:
            row = Row(
                name.rpartition(".")[2],
                module._get_name(),
                level,
                outputs.get(id(module)),
                sum(p.numel() for p in own),
                sum(p.numel() for p in own if p.requires_grad),
                id(module) in seen,
            )
            rows.append(row)
        seen.add(id(module))
    return Summary(rows, model)
