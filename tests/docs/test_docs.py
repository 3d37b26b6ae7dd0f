"""README.md and docs/ say what is so: examples run, signatures, names, files and commands exist."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import facula
import pytest

from codegen import check
from codegen.__main__ import load
from codegen.schema import cpp_types, expr, samples, signature, words
from codegen.schema.model import Schema

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
IDS = [str(p.relative_to(ROOT)) for p in PAGES]
every_page = pytest.mark.parametrize("page", PAGES, ids=IDS)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """(line, text) of the fenced blocks in a language."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
    return [(text.count("\n", 0, m.start(1)), m[1]) for m in found]


@cache
def schema() -> Schema:
    return load(ROOT / "ops.yaml")


@every_page
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of a page run in order, in one namespace and an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FACULA_CACHE", str(tmp_path / "cache"))
    facula.manual_seed(0)
    space: dict[str, object] = {"fa": facula}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report: list[str] = []
    for line, text in blocks(page, "python"):
        assert ">>> " in text, f"{page.name}:{line}: an example that nothing runs"
        test = doctest.DocTestParser().get_doctest(text, space, page.name, str(page), line)
        runner.run(test, out=report.append, clear_globs=False)
        space = test.globs
    assert runner.failures == 0, "".join(report)


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    whole = page.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", whole, flags=re.M | re.S)  # a lambda looks like a link
    links = [m.split("#")[0] for m in re.findall(r"\]\(([^)]+)\)", text) if "://" not in m]
    missing = [link for link in links if link and not (page.parent / link).exists()]
    assert not missing


@every_page
def test_entries_are_right(page: Path, tmp_path: Path) -> None:
    """A block of records is valid beside the schema's own vocabulary and rules; an operator that
    exists has the signature shown."""
    shown = [
        (n, text) for n, text in blocks(page, "yaml") if text.startswith(("- op:", "- define:"))
    ]
    if not shown:
        return
    known = {op.name: str(op.signature) for op in schema().callables}
    names: list[str] = []
    for line, text in shown:
        for signature_ in re.findall(r"^- (?:op|define): (.*)$", text, re.M):
            name = re.match(r"[\w.]+", signature_)[0]
            names.append(name)
            assert known.get(name, signature_) == signature_, (
                f"{page.name}:{line}: {name} has another signature"
            )
    assert len(set(names)) == len(names), f"{page.name} shows an entry twice"
    source = (ROOT / "ops.yaml").read_text(encoding="utf-8")
    records = re.split(r"(?m)^(?=- (?:op|define|math|rule): )", source)
    kept = [r for r in records if not any(re.match(rf"- \w+: {n}\(", r) for n in names)]
    file = tmp_path / "ops.yaml"
    file.write_text("".join(kept) + "\n" + "\n".join(t for _, t in shown), encoding="utf-8")
    errors = [str(e) for e in check.check(file).errors]
    assert not errors, f"{page.name}, lines {[n for n, _ in shown]}: {errors}"


FOLDERS = ("runtime", "aten", "python/facula/include")


@cache
def cpp_source() -> str:
    files = [p for folder in FOLDERS for p in (ROOT / folder).rglob("*.h")]
    return "\n".join(p.read_text(encoding="utf-8") for p in files)


@every_page
def test_cpp_names_exist(page: Path) -> None:
    """Each C++ function that a page calls is declared; each kernel that it shows has the
    parameters that the generator expects."""
    for line, text in blocks(page, "cpp"):
        own = set(re.findall(r"\b(?:void|Meta) (\w+)\(", text))
        for kernel in re.findall(r"^void (\w+)\((.*)\);$", text, re.M):
            wanted = [
                cpp_types.kernel_parameters(op)
                for op in schema()
                if ("CPU", kernel[0]) in op.dispatch
            ]
            assert kernel[1] in wanted, f"{page.name}:{line}: {kernel[0]} takes {wanted}"
        for name in set(re.findall(r"(?<![.\w>])(\w+)\(", re.sub(r'//.*|".*?"', "", text))) - own:
            if name in ("reinterpret_cast", "for", "if", "return", "sizeof"):
                continue
            assert re.search(rf"\b{name}\b", cpp_source()), (
                f"{page.name}:{line}: no {name} in the headers"
            )


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@cache
def has_help(*command: str) -> bool:
    return run(*command, "--help").returncode == 0


@every_page
def test_commands_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for command in set(re.findall(r"python -m codegen (\w+)", text)):
        assert has_help("-m", "codegen", command), command
    for command in set(re.findall(r"tools/dev\.py ([\w-]+)", text)):
        assert has_help("tools/dev.py", command), command
    for module in set(re.findall(r"python -m (facula[\w.]*\w)", text)):
        assert importlib.util.find_spec(module), module
    for path in set(re.findall(r"(?:python|bash) ((?:tools|\.ci)/[\w/.]+)", text)):
        assert (ROOT / path).exists(), path
    for path in set(re.findall(r"`((?:aten|runtime|codegen|tools|tests|python)/[\w/.]+)`", text)):
        assert "FAMILY" in path or (ROOT / path).exists(), path


def test_python_names_exist() -> None:
    """Each `fa.NAME` of the running text is there."""
    missing = []
    for page in PAGES:
        for path in re.findall(r"`fa((?:\.\w+)+)", page.read_text(encoding="utf-8")):
            value: object = facula
            for part in path.split(".")[1:]:
                value = getattr(value, part, None)
            if value is None:
                missing.append(f"{page.name}: fa{path}")
    assert not missing


def test_index_lists_every_page() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert [p.name for p in PAGES[2:] if p.name not in index and p.name != "index.md"] == []


WORDS = {
    "keys of an operator": words.KEYS["op"],
    "keys of vocabulary and rules": words.KEYS["math"] + words.KEYS["rule"],
    "keys of definitions": words.KEYS["define"],
    "ways of batching": words.BATCHES,
    "kinds": words.KINDS,
    "dtype classes": words.DTYPE_CLASSES,
    "promotions": words.PROMOTIONS,
    "casts": (*words.AUTOCASTS, *words.AUTOCAST_DEVICES),
    "variants": words.VARIANTS,
    "traits": words.TRAITS,
    "types": signature.BASE_TYPES,
    "sample words": tuple(samples.WORDS),
    "constants": tuple(expr.CONSTANTS),
}


@pytest.mark.parametrize("subject", WORDS)
def test_schema_page_is_complete(subject: str) -> None:
    """docs/schema.md names every word that the reader knows."""
    text = (ROOT / "docs/schema.md").read_text(encoding="utf-8")
    spans = " ".join(re.findall(r"`[^`\n]+`", text))
    assert [
        w for w in WORDS[subject] if not re.search(rf"(?<!\w){re.escape(w)}(?!\w)", spans)
    ] == []


def test_schema_page_lists_the_vocabulary() -> None:
    text = (ROOT / "docs/schema.md").read_text(encoding="utf-8")
    assert [m.name for m in schema().math if not re.search(rf"\b{m.name}\b", text)] == []


def test_two_commands() -> None:
    """The README's commands begin on a fresh machine and are one line each."""
    for name in ("main-job", "tests"):
        done = subprocess.run(
            [sys.executable, "tools/readme_command.py", name],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.stdout.count("\n") == 1
        assert done.stdout.startswith(
            "python3 -m venv .venv && . .venv/bin/activate && pip install "
        )


def test_version_is_stated_once() -> None:
    tree = ast.parse((ROOT / "python/facula/_version.py").read_text(encoding="utf-8"))
    stated = next(n.value for n in ast.walk(tree) if isinstance(n, ast.Assign))
    assert facula.__version__ == ast.literal_eval(stated)
