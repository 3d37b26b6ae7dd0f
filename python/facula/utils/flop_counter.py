"""Counts the floating-point operations of matrix products and convolutions, module by module.

What a call costs stands in the operator's entry of the schema (its key `flops`), as a formula of
the shapes. A multiplication and an addition are two operations; of element-wise work nothing is
counted.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from facula import _C
from facula.nn.modules import module as _modules
from facula.utils._flops import flops_of, operators_with_formula

__all__ = ["FlopCounterMode", "convert_num_with_suffix", "operators_with_formula"]

_SUFFIXES = ("", "K", "M", "B", "T")
# What ranges of modules begin with, in the place of names that a user could give to his own.
_MARK = "\x1dmodule "


def _suffix_of(number: int) -> str:
    index = max(0, min(len(_SUFFIXES) - 1, (len(str(number)) - 2) // 3))
    return _SUFFIXES[index]


def convert_num_with_suffix(number: int, suffix: str) -> str:
    """A number in units of a suffix: "", "K", "M", "B" or "T"."""
    return f"{number / 1000 ** _SUFFIXES.index(suffix):.3f}".removesuffix(".000") + suffix


class FlopCounterMode:
    """Counts operations of what runs within the context, backward included.

    Args:
        mods: not needed; all modules that are called are told apart.
        depth: how many levels of modules the table shows.
        display: print the table at the end.
        custom_mapping: operator's name -> function of its arguments (tensors as (sizes, dtype,
            device)) and keyword `out_val`, its results; in the place of the schema's formula.

    >>> import facula as fa
    >>> from facula.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = fa.ones(2, 3) @ fa.ones(3, 5)
    >>> counter.get_total_flops()
    60
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[str, Any] | None = None,
    ) -> None:
        self.depth, self.display = depth, display
        self.custom = dict(custom_mapping or {})
        self.flop_counts: dict[str, dict[str, int]] = {}
        self._observation: Any = None

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts = {}
        self._names: dict[int, str] = {}
        self._hooks = [
            _modules.register_module_forward_pre_hook(self._before),
            _modules.register_module_forward_hook(self._after, always_call=True),
        ]
        self._observation = _C._observe_start(True)
        return self

    def __exit__(self, *exc: object) -> None:
        observation, self._observation = self._observation, None
        _C._observe_stop(observation)
        for hook in self._hooks:
            hook.remove()
        self._count(_C._observe_events(observation))
        if self.display and exc[0] is None:
            print(self.get_table(self.depth))

    # ---- which module runs

    def _before(self, module: Any, args: Any) -> None:
        if id(module) not in self._names:
            root = type(module).__name__
            for name, inner in module.named_modules():
                self._names.setdefault(id(inner), f"{root}.{name}" if name else root)
        _C._enter_range(_MARK + self._names[id(module)])

    def _after(self, module: Any, args: Any, output: Any) -> None:
        _C._leave_range()

    def _count(self, records: list[Any]) -> None:
        counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        around: list[str | None] = []
        for name, _, depth, *_, arguments, results, operator in records:
            del around[depth:]
            around.append(name.removeprefix(_MARK) if name.startswith(_MARK) else None)
            if operator is None:
                continue
            if operator in self.custom:
                flops = int(self.custom[operator](*arguments, out_val=results))
            else:
                flops = flops_of(operator, arguments, results)
            if flops:
                for place in {"Global", *(a for a in around if a is not None)}:
                    counts[place][operator] += flops
        self.flop_counts = {place: dict(found) for place, found in counts.items()}

    # ---- results

    def get_total_flops(self) -> int:
        """All operations."""
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Place -> operator -> operations: "Global", and modules by "Class.path.to.it".

        Backward is in "Global" alone.
        """
        return {place: dict(found) for place, found in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text, modules down to `depth` levels."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        suffix = _suffix_of(total)
        rows: list[tuple[str, str, str]] = []
        places = [p for p in self.flop_counts if p != "Global"]
        for place in ["Global", *sorted(places)]:
            level = 0 if place == "Global" else place.count(".") + 1
            if level > depth:
                continue
            found = self.flop_counts.get(place, {})
            rows.append(self._row("  " * level + place, sum(found.values()), total, suffix))
            for operator, flops in found.items():
                rows.append(self._row("  " * level + f" - {operator}", flops, total, suffix))
        head = ("Module", "FLOP", "% Total")
        widths = [max(len(r[i]) for r in [head, *rows]) for i in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        top = f"{head[0]:<{widths[0]}}  {head[1]:>{widths[1]}}  {head[2]:>{widths[2]}}"
        return "\n".join([top, "  ".join("-" * w for w in widths), *lines])

    @staticmethod
    def _row(name: str, flops: int, total: int, suffix: str) -> tuple[str, str, str]:
        share = f"{100 * flops / total:.2f}%" if total else "0%"
        return name, convert_num_with_suffix(flops, suffix), share
