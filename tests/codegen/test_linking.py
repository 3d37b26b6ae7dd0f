"""A missing or misspelt kernel fails when the module is linked, with its operator's name."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from schemas import BASE, structured

from codegen.__main__ import load
from codegen.linking import expanded, explained, link, missing_functions
from codegen.schema.model import Schema

WANTED = (
    "ops.yaml:1:3: new: no function `void facula::cpu::mirrored(const Tensor& self, int64_t dim, "
    "const Tensor& weight, const Tensor& out)` in aten/cpu/"
)
# What linkers say of a function that is declared, called and not defined.
COMPLAINTS = {
    "ld": "a.cpp:(.text+0xa): undefined reference to `facula::cpu::mirrored(long)'",
    "gold": "a.o:a.cpp:function f: error: undefined reference to 'facula::cpu::mirrored(long)'",
    "mold": "mold: error: undefined symbol: facula::cpu::mirrored(facula::Tensor const&, long)",
    "lld": "ld.lld: error: undefined hidden symbol: facula::cpu::mirrored(facula::Tensor const&)",
    "macOS": '  "facula::cpu::mirrored(facula::Tensor const&)", referenced from:',
}
TYPES = """\
#include <cstdint>
namespace facula { class Tensor; }
#define API __attribute__((visibility("default")))
"""
# Python's functions may stay undefined, as the interpreter has them.
CALL = """\
extern "C" void PyErr_Clear();
namespace facula::cpu {
void mirrored(const Tensor&, int64_t, const Tensor&, const Tensor&) HIDDEN;
}
extern "C" API void call(const facula::Tensor& t) {
  PyErr_Clear();
  facula::cpu::mirrored(t, 0, t, t);
}
"""
FUNCTION = """\
namespace facula::cpu {
void NAME(const Tensor&, int64_t, const Tensor&PARAMETERS) {}
}
"""


def write_schema(folder: Path) -> Path:
    path = folder / "ops.yaml"
    path.write_text(structured(dispatch="{CPU: mirrored}") + BASE, encoding="utf-8")
    return path


@pytest.mark.parametrize("linker", COMPLAINTS)
def test_complaints_are_understood(linker: str, tmp_path: Path) -> None:
    schema = load(write_schema(tmp_path))
    assert missing_functions(COMPLAINTS[linker]) == [("cpu", "mirrored")]
    assert explained(schema, COMPLAINTS[linker]) == WANTED


def test_what_is_defined_helps(tmp_path: Path) -> None:
    schema, text = load(write_schema(tmp_path)), COMPLAINTS["mold"]
    misspelt = ["facula::cpu::miror(long)", "facula::any::mirrored(long)", "facula::cpu::sum()"]
    assert explained(schema, text, misspelt) == f"{WANTED}; did you mean 'miror'?"
    other = "facula::cpu::mirrored(facula::Tensor const&)"
    ending = f"; the one there has other parameters: `{other}`"
    assert explained(schema, text, [other]) == WANTED + ending


def test_other_lines_say_nothing() -> None:
    text = "ld: a.o: in function `facula::cpu::mirrored(long)':\nundefined reference to `dgemm_'"
    assert missing_functions(text) == []


def test_every_function_has_its_operator(schema: Schema) -> None:
    """Each kernel, composite function and shape rule that is named can be told."""
    kernels = [kernel for op in schema for kernel in op.dispatch if kernel[0] != "CUDA"]
    wanted = [(device.lower(), name) for device, name in kernels]
    wanted += [("composite", op.composite_fn) for op in schema if op.composite_fn]
    wanted += [("shape", rule.signature.name) for rule in schema.rules]
    for space, name in wanted:
        text = explained(schema, f"undefined symbol: facula::{space}::{name}(long)")
        assert f"facula::{space}::{name}(" in text


def test_arguments_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "rsp").write_text('a.o "b c.o"\n', encoding="utf-8")
    assert expanded(["c++", f"@{tmp_path}/rsp", "-o", "m"]) == ["c++", "a.o", "b c.o", "-o", "m"]


@pytest.mark.parametrize("hidden", [True, False], ids=["hidden", "visible"])
@pytest.mark.parametrize("fault", ["", "missing", "misspelt", "other parameters"])
def test_linking(
    fault: str, hidden: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With a real linker; one that lets a visible function pass is overruled."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None or shutil.which("nm") is None:
        pytest.skip("needs a C++ compiler and nm")
    name = "miror" if fault == "misspelt" else "mirrored"
    parameters = "" if fault == "other parameters" else ", const Tensor&"
    kernel = FUNCTION.replace("NAME", name).replace("PARAMETERS", parameters)
    attribute = '__attribute__((visibility("hidden")))' if hidden else ""
    texts = {"call": CALL.replace("HIDDEN", attribute), "kernel": kernel}
    if fault == "missing":
        texts["kernel"] = ""
    for stem, text in texts.items():
        (tmp_path / f"{stem}.cpp").write_text(TYPES + text, encoding="utf-8")
        compile_ = [compiler, "-c", "-fPIC", "-fvisibility=hidden", f"{stem}.cpp"]
        subprocess.run(compile_, cwd=tmp_path, check=True)
    module = tmp_path / "m.so"
    objects = [str(tmp_path / f"{stem}.o") for stem in texts]
    command = [compiler, "-shared", "-s", *objects, "-o", str(module)]
    status = link(write_schema(tmp_path), command)
    told = capfd.readouterr().err.splitlines()
    if not fault:
        assert status == 0 and module.exists() and told == []
        return
    assert status != 0 and not module.exists()
    endings = {
        "missing": "",
        "misspelt": "; did you mean 'miror'?",
        "other parameters": "; the one there has other parameters: "
        "`facula::cpu::mirrored(facula::Tensor const&, long, facula::Tensor const&)`",
    }
    assert told[-1] == WANTED + endings[fault]
