"""Writes what the CUDA module holds as text: kernel sources, their headers, formulas and reductions.

    python aten/cuda/embed.py OPS_JSON OUT

NVRTC compiles these sources when they are first used: no CUDA toolkit is needed to build the module.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "python" / "facula" / "include"
HEADERS = (
    "facula/draw_samplers.h",
    *(f"facula/{path.name}" for path in sorted(INCLUDE.glob("facula/math*.h"))),
)
STANDARD = ("cmath", "complex", "cstdint", "limits", "numeric", "type_traits")


def translator(ops_json: str) -> ModuleType:
    """facula.backends.translate over the given schema, without facula."""
    path = ROOT / "python" / "facula" / "backends" / "translate.py"
    spec = importlib.util.spec_from_file_location("translate", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["translate"] = module
    spec.loader.exec_module(module)
    module.SCHEMA = ops_json
    return module


def asks_presence(body: Any) -> bool:
    return any(flag for _, _, _, flag in body.values)


@functools.cache
def shortened() -> frozenset[str]:
    """Functions that compute less for results of 16 bits (FACULA_SHORT in std.h), and who calls them."""
    text = "\n".join(t for name, t in sources().items() if name.endswith((".h", "complex", "cmath")))
    calls = {}
    for part in re.split(r"\n(?=template|FACULA_MATH|FD |inline|__device__)", text):
        name = re.search(r"\b(\w+)\([^()]*(?:\([^()]*\)[^()]*)*\)\s*(?:const)?\s*\{", part)
        if name:
            calls.setdefault(name[1], set()).update(re.findall(r"\b(\w+)(?:<[^<>]*>)?\(", part))
    found = {"exp", "expf", "erfc", "erfcf", "FACULA_NORMAL_CDF"}
    while more := {name for name, called in calls.items() if called & found} - found:
        found |= more
    return frozenset(found)


def has_short_form(body: Any) -> bool:
    return bool(set(re.findall(r"\b(\w+)\(", formula_text(body))) & shortened())


def formula_text(body: Any) -> str:
    """The function that the pointwise template calls, in the types T and R."""
    lines = [f"#define FACULA_NUMBERS {len(body.values)}"]
    arguments = [f"A{i} {name}" for i, (name, _) in enumerate(body.inputs)]
    if body.values:
        present = " uint32_t present;" if asks_presence(body) else ""
        lines.append(f"struct Numbers {{ Slot at[FACULA_NUMBERS];{present} }};")
        arguments.insert(0, "const Numbers& numbers")
    lines += [f"using A{i} = {type_};" for i, (_, type_) in enumerate(body.inputs)]
    lines += [f"using Y{i} = {body.output_type};" for i in range(len(body.outputs))]
    arguments += [f"Y{i}& y{i}" for i in range(len(body.outputs))]
    lines.append("FACULA_MATH void formula(" + ", ".join(arguments) + ") {")
    for i, (name, type_, _, flag) in enumerate(body.values):
        lines.append(f"  const {type_} {name} = numbers.at[{i}].get<{type_}>();")
        if flag:
            lines.append(f"  const bool {flag} = (numbers.present >> {i} & 1) != 0;")
    lines += [f"  {s}" for s in body.statements]
    lines += [f"  y{i} = {text};" for i, text in enumerate(body.outputs)]
    return "\n".join([*lines, "}"]) + "\n"


def reduction_text(reduction: Any, body: Any) -> str:
    """The reduction as reduce.cu takes it, in the types T and R."""
    texts = list(body.outputs)
    lines = [f"#define FACULA_REDUCTION_INDEX {int(reduction.index is not None)}",
             f"#define FACULA_REDUCTION_START {int(reduction.start is not None)}"]  # fmt: skip
    if reduction.start is not None:
        lines.append(f"FACULA_MATH T reduction_start() {{ return T({texts.pop(0)}); }}")
    name, type_ = ("reduction_takes", "bool") if reduction.index else ("reduction_step", "T")
    lines.append(f"FACULA_MATH {type_} {name}(T acc_, T self_) {{ return {texts[0]}; }}")
    return "\n".join(lines) + "\n"


def literal(text: str) -> str:
    """A C++ string; pieces, as compilers bound the length of one."""
    pieces = [text[i : i + 8000] for i in range(0, len(text), 8000)] or [""]
    return " ".join(f'R"~~~~({piece})~~~~"' for piece in pieces)


def sources() -> dict[str, str]:
    """Sources by the name that `#include` and the host use."""
    found = dict.fromkeys(STANDARD, '#include "facula/cuda/complex.h"\n')
    for name in HEADERS:
        found[name] = (INCLUDE / name).read_text(encoding="utf-8")
    for path in sorted((ROOT / "aten" / "cuda" / "kernels").iterdir()):
        if path.suffix in (".h", ".cu"):
            found[f"facula/cuda/{path.name}"] = path.read_text(encoding="utf-8")
    return found


def main(ops: str, out: str) -> None:
    translate = translator(ops)
    lines = ["const EmbeddedSource kSources[] = {"]
    lines += [f'{{"{name}", {literal(text)}}},' for name, text in sources().items()]
    lines += ["};", "const FormulaSource kFormulas[] = {"]
    for f in translate.formulas():
        for class_ in f.classes:
            body = translate.body(f, class_)
            places = ", ".join(
                f"{{{place}, {'true' if type_ == 'bool' else 'false'}}}"
                for _, type_, place, _ in body.values
            )
            lines.append(
                f'{{"{f.op}", "{f.variant}", "{class_}", {len(f.inputs)}, {len(f.texts)}, '
                f"{len(body.values)}, {str(asks_presence(body)).lower()}, "
                f"{str(has_short_form(body)).lower()}, {{{places}}}, "
                f"{literal(formula_text(body))}}},"
            )
    lines += ["};", "const ReductionSource kReductions[] = {"]
    for f in translate.reductions():
        for class_ in f.classes:
            body = translate.body(f, class_)
            lines.append(f'{{"{f.op}", "{class_}", {literal(reduction_text(f, body))}}},')
    lines.append("};")
    text = "\n".join(lines) + "\n"
    path = Path(out)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
