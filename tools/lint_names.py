#!/usr/bin/env python3
"""Keeps operators' and vendors' names out of the parts that must not know them.

An operator lives in ops.yaml, its kernel and its special test. In codegen/, its templates and
runtime/ a quoted operator name is a fact in the wrong place, in runtime/ so is a call `ops::NAME`.
A vendor's name has no place in runtime/ and, but for the vendor's own folder, in aten/. Words of
the scalar vocabulary are the formulas' own, whatever operators are called like them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from codegen.schema.reader import read_schema  # noqa: E402

VENDORS = ("cuda", "rocm", "xpu", "npu", "mps")
# Words that mean something else as well: types, methods of Python, words of the schema and of the
# command line. One that stands nowhere is a fault too, so that the list does not grow by itself.
ORDINARY = frozenset(
    "T add any bfloat16 bool cdouble cfloat complex diff div double eq float ge gt half"
    " index int le linear long lt matmul max min mul ne neg positive short slice sub t to view"
    " where logical_and logical_or logical_not".split()
)


def main() -> int:
    schema = read_schema(ROOT / "ops.yaml")
    names = {op.base_name for op in schema.callables} - {f.name for f in schema.math}
    telling = sorted(names, key=len, reverse=True)
    quoted = re.compile(r"[\"'](" + "|".join(map(re.escape, telling)) + r")[\"']")
    call = re.compile(r"\bops::(\w+)\(")
    vendor = re.compile(r"\b(" + "|".join(VENDORS) + r")\b", re.I)
    faults, seen = [], set()
    for folder, patterns in (
        ("codegen", [quoted]),
        ("runtime", [quoted, call, vendor]),
        ("aten", [vendor]),
    ):
        for path in sorted((ROOT / folder).rglob("*")):
            own = path.relative_to(ROOT).parts[1] in VENDORS
            if own or path.suffix not in (".py", ".j2", ".h", ".cpp", ".cu"):
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                for pattern in patterns:
                    for m in pattern.finditer(line):
                        if m[1] in ORDINARY and pattern is quoted:
                            seen.add(m[1])
                            continue
                        place = f"{path.relative_to(ROOT)}:{number}"
                        faults.append(f"{place}: `{m.group(0)}` does not belong here")
    for word in sorted(ORDINARY - seen):
        faults.append(f"tools/lint_names.py: nothing needs the ordinary word '{word}'")
    print("\n".join(faults) or f"names: {len(names)} operators, none named outside its place")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
