#!/usr/bin/env python3
"""Keeps operators' and vendors' names out of the parts that must not know them.

An operator lives in ops.yaml, its kernel and its special test. In codegen/, its templates and
runtime/ a quoted operator name is a fact in the wrong place, in runtime/ so is a call `ops::NAME`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENDORS = ("cuda", "rocm", "xpu", "npu", "mps")
# Words that mean something else as well: types, functions of Python, C or the runtime's core, and
# words of the schema and of the command line.
ORDINARY = frozenset(
    "abs add all any bool complex conj copy div dot double empty eq equal exp fill float"
    " floor full half index int item le linear log long lt max mean min mul ne neg norm not or"
    " pow real round select short sign size slice sort sqrt sub sum t to trace view where zero"
    " ge gt and expand tanh ceil trunc sin cos tan sinh cosh erf lgamma log2 log10 log1p expm1"
    " scatter imag median mode split unique dist type_as masked_fill contiguous reshape"
    " positive logical_and logical_or logical_not T char bfloat16 cfloat cdouble matmul diff"
    " empty_strided as_strided".split()
)


def names_of(kind: str, text: str) -> set[str]:
    return {m.split(".")[0] for m in re.findall(rf"^- {kind}: ([A-Za-z_][\w.]*)\(", text, re.M)}


def main() -> int:
    text = (ROOT / "ops.yaml").read_text(encoding="utf-8")
    names, vocabulary = names_of("op", text), names_of("math", text)
    telling = sorted(names - vocabulary - ORDINARY, key=len, reverse=True)
    quoted = re.compile(r"[\"'](" + "|".join(map(re.escape, telling)) + r")[\"']")
    call = re.compile(r"\bops::(\w+)\(")
    vendor = re.compile(r"\b(" + "|".join(VENDORS) + r")\b", re.I)
    faults = []
    for folder, patterns in (("codegen", [quoted]), ("runtime", [quoted, call, vendor])):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".py", ".j2", ".h", ".cpp"):
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                for pattern in patterns:
                    if m := pattern.search(line):
                        place = f"{path.relative_to(ROOT)}:{number}"
                        faults.append(f"{place}: `{m.group(0)}` does not belong here")
    print("\n".join(faults) or f"names: {len(names)} operators, none named outside its place")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
