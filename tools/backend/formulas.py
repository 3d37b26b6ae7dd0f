"""Writes the kernels of every formula: ONE pointwise template and ONE reduction template.

Change the two functions to what your compiler takes; `facula.backends.translate` does the rest.
"""

from __future__ import annotations

import sys
from pathlib import Path

from facula.backends import translate
from facula.backends.translate import CPP, Body, Formula, Reduction

CLASSES = ("bool", "int", "float")
# Integers of every width are computed as int64 here, and wrap when they are stored.
TYPES = {
    "bool": (("bool", "FACULA_BOOL"),),
    "int": (("int64_t", "FACULA_INT64"),),
    "float": (("float", "FACULA_FLOAT32"), ("double", "FACULA_FLOAT64")),
}


def pointwise(f: Formula, class_: str, b: Body) -> str:
    """`n` elements that lie side by side, in the types that the formula computes in."""
    constants = [
        f"const {t} {v} = number<{t}>(values[{at}]);"
        + (f" const bool {flag} = values[{at}].kind != FACULA_NONE; (void){flag};" if flag else "")
        for v, t, at, flag in b.values
    ]
    loads = [
        f"const {t} {v} = static_cast<const {t}*>(ins[{i}])[i]; (void){v};"
        for i, (v, t) in enumerate(b.inputs)
    ]
    stores = [
        f"static_cast<{b.output_type}*>(outs[{i}])[i] = {text};" for i, text in enumerate(b.outputs)
    ]
    lines = [*constants, "for (int64_t i = 0; i < n; ++i) {", *loads, *b.statements, *stores, "}"]
    return (
        f"template <typename T> void {f.name}_{class_}(int64_t n, void* const* outs, "
        "const void* const* ins, [[maybe_unused]] const FaculaValue* values) {\n"
        "  using R [[maybe_unused]] = math::real_t<T>;\n  " + "\n  ".join(lines) + "\n}\n"
    )


def reduction(f: Reduction, class_: str, b: Body) -> str:
    """Goes on with `acc` over `n` elements side by side, of which the first is number `first`."""
    texts = list(b.outputs)
    start = texts.pop(0) if f.start is not None else None
    begin = (
        "if (first == 0) { "
        + (f"acc_ = T({start}); " if start else "acc_ = x[0]; place = 0; ")
        + "}"
    )
    from_ = "0" if start else "(first == 0 ? 1 : 0)"
    step = (
        f"if ({texts[0]}) {{ acc_ = self_; place = first + i; }}"
        if f.index
        else f"acc_ = {texts[0]};"
    )
    return (
        f"template <typename T> void fold_{f.name}_{class_}(void* acc, "
        "[[maybe_unused]] int64_t& place, const void* in,"
        " int64_t n, int64_t first) {\n  using R [[maybe_unused]] = math::real_t<T>;\n"
        "  T& acc_ = *static_cast<T*>(acc);\n  const T* x = static_cast<const T*>(in);\n"
        f"  {begin}\n"
        f"  for (int64_t i = {from_}; i < n; ++i) {{ const T self_ = x[i]; {step} }}\n}}\n"
    )


def main(path: str) -> None:
    kernels, table, reductions = [], [], []
    for f in translate.formulas():
        for c in (c for c in f.classes if c in CLASSES):
            kernels.append(pointwise(f, c, translate.body(f, c, CPP)))
            output = {"bool": "FACULA_BOOL"}.get(f.promote)
            for type_, code in TYPES[c]:
                table.append(
                    f'{{"{f.op}", "{f.variant}", {code}, {output or code}, '
                    f"&{f.name}_{c}<{type_}>}},"
                )
    for d in translate.reductions():
        for c in (c for c in d.classes if c in CLASSES):
            kernels.append(reduction(d, c, translate.body(d, c, CPP)))
            for type_, code in TYPES[c]:
                reductions.append(
                    f'{{"{d.op}", {code}, {"true" if d.index else "false"}, '
                    f"{'true' if d.start is None else 'false'}, &fold_{d.name}_{c}<{type_}>}},"
                )
    text = "\n".join(
        [
            *kernels,
            "const PointwiseEntry kPointwise[] = {",
            *table,
            "};",
            "const ReductionEntry kReductions[] = {",
            *reductions,
            "};\n",
        ]
    )
    Path(path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
