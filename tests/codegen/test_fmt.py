"""`fmt`: one form for any input, nothing lost, and the file itself has it."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from codegen.__main__ import ROOT, main
from codegen.check import check
from codegen.fmt import programs, texts
from codegen.fmt.form import formatted
from codegen.fmt.sections import CONTENTS
from codegen.schema.errors import SchemaErrors
from codegen.schema.words import KEYS

HEAD = "f(Tensor self) -> Tensor"


def form(folder: Path, text: str) -> str:
    path = folder / "ops.yaml"
    path.write_text(text, encoding="utf-8")
    return formatted(path)


def settled(folder: Path, text: str) -> str:
    """The form of a text, which is its own form."""
    once = form(folder, text)
    assert form(folder, once) == once
    return once


def test_the_file_has_its_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fmt", "--check"]) == 0
    assert capsys.readouterr().out == ""
    lines = (ROOT / "ops.yaml").read_text(encoding="utf-8").splitlines()
    assert max(map(len, lines)) <= texts.WIDTH


# What is written, and what it becomes.
FORMS = {
    "order of keys": (
        f"- op: {HEAD}\n  reference: self\n  scalar: self\n  doc: F.\n",
        f"- op: {HEAD}\n  doc: F.\n  scalar: self\n  reference: self\n",
    ),
    "indentation and empty lines": (
        f"- op: {HEAD}\n\n  derivative:\n        self: grad\n- op: {HEAD}\n",
        f"- op: {HEAD}\n  derivative: {{self: grad}}\n\n- op: {HEAD}\n",
    ),
    "example in a line of the doc": (
        f"- op: {HEAD}\n  doc: F. >>> fa.f(x) -> 3\n",
        f"- op: {HEAD}\n  doc: F.\n  example: |\n    >>> fa.f(x)\n    3\n",
    ),
    "example below the doc": (
        f"- op: {HEAD}\n  doc: |\n    F of\n    x.\n    >>> fa.f(x)\n    [1,\n     2]\n",
        f"- op: {HEAD}\n  doc: F of x.\n  example: |\n    >>> fa.f(x)\n    [1,\n     2]\n",
    ),
    "what follows from other keys": (
        f"- op: {HEAD}\n  kind: structured\n  shape: r(self)\n  dispatch: {{CPU: f}}\n"
        "  variants: []\n  internal: true\n",
        f"- op: {HEAD}\n  shape: r(self)\n  dispatch: {{CPU: f}}\n  internal: true\n",
    ),
    "what does not follow": (
        f"- op: {HEAD}\n  kind: scan\n  shape: r(self)\n  dispatch: {{CPU: f}}\n  variants: []\n",
        f"- op: {HEAD}\n  kind: scan\n  shape: r(self)\n  dispatch: {{CPU: f}}\n  variants: []\n",
    ),
    "what follows, with a comment": (
        f"- op: {HEAD}\n  variants: []  # why\n  internal: true\n",
        f"- op: {HEAD}\n  variants: []  # why\n  internal: true\n",
    ),
    "quotes where they are needed": (
        f"- op: {HEAD}\n  doc: 'a: b'\n  reference: \"x\"\n  samples: ['true', \"f(3)\", a]\n",
        f'- op: {HEAD}\n  doc: "a: b"\n  samples: ["true", "f(3)", a]\n  reference: x\n',
    ),
    "texts of a list are quoted alike, but words": (
        f"- op: {HEAD}\n  samples: ['f(3,4)', f(3), pos]\n  python: [a.b, '+']\n",
        f'- op: {HEAD}\n  python: [a.b, "+"]\n  samples: ["f(3,4)", "f(3)", pos]\n',
    ),
    "both quotes": (
        f"- op: {HEAD}\n  reference: '\"it''s\" \\'\n",
        f'- op: {HEAD}\n  reference: "\\"it\'s\\" \\\\"\n',
    ),
    "numbers stay numbers": (
        f"- op: {HEAD}\n  tolerance: {{float32: 1e-5, reason: '1'}}\n  internal: true\n",
        f'- op: {HEAD}\n  internal: true\n  tolerance: {{float32: 1e-5, reason: "1"}}\n',
    ),
    "unicode": (
        f'- op: {HEAD}\n  doc: "Größe \\u2264 ∑ 😀."\n',
        f"- op: {HEAD}\n  doc: Größe ≤ ∑ 😀.\n",
    ),
    "characters that are not seen": (
        f'- op: {HEAD}\n  doc: "a\\tb\\x07\\u2028c"\n',
        f'- op: {HEAD}\n  doc: "a\\tb\\x07\\u2028c"\n',
    ),
    "steps of programs": (
        f"- op: {HEAD}\n  composite: |\n    if a:\n      # why\n      b = 1\n    return b\n",
        f"- op: {HEAD}\n  composite: |\n    if a:\n        # why\n        b = 1\n    return b\n",
    ),
    "aliases are written out": (
        f"- op: {HEAD}\n  samples: &s [a, b]\n- op: {HEAD}\n  samples: *s\n",
        f"- op: {HEAD}\n  samples: [a, b]\n\n- op: {HEAD}\n  samples: [a, b]\n",
    ),
    "short records stand together": (
        "- math: f(x)\n  derivative: zero\n\n- math: g(x)\n  derivative: zero\n- rule: r() -> ()\n",
        "- math: f(x)\n  derivative: zero\n- math: g(x)\n  derivative: zero\n\n- rule: r() -> ()\n",
    ),
    "comments above and beside": (
        f"# why\n- op: {HEAD}  # head\n  # of doc\n  doc: F.   # beside\n  # end\n# last\n",
        f"# why\n- op: {HEAD}  # head\n  # of doc\n  doc: F.  # beside\n  # end\n\n# last\n",
    ),
    "comments within lists": (
        f"- op: {HEAD}\n  samples: [a, # of a\n    # of b\n    b] # of all\n",
        f"- op: {HEAD}\n  samples:  # of all\n    - a  # of a\n    # of b\n    - b\n",
    ),
    "comments move with their keys": (
        f"- op: {HEAD}\n  # of it\n  samples: [a]\n  derivative:  # of all\n    # x\n    self: a\n",
        f"- op: {HEAD}\n  derivative:  # of all\n    # x\n    self: a\n  # of it\n  samples: [a]\n",
    ),
    "what looks like a comment": (
        f"- op: {HEAD}\n  doc: 'a # b'\n  reference: x#y\n  composite: |\n    # c\n    return 1\n",
        f'- op: {HEAD}\n  doc: "a # b"\n  composite: |\n    # c\n    return 1\n  reference: x#y\n',
    ),
    "comment beside a block": (
        f"- op: {HEAD}\n  composite: |  # why\n    a = 1\n    return a\n",
        f"- op: {HEAD}\n  composite: |  # why\n    a = 1\n    return a\n",
    ),
    "sections": (
        f"# Head.\n# ---- a ----\n# note\n- op: {HEAD}\n\n\n"
        f"# ---- b ----\n- op: {HEAD}\n# of g\n- op: g\n",
        f"# Head.\n\n{CONTENTS}\n#   a\n#   b\n\n# ---- a ----\n# note\n\n- op: {HEAD}\n\n"
        f"# ---- b ----\n\n- op: {HEAD}\n\n# of g\n- op: g\n",
    ),
    "nothing": ("", "\n"),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, tmp_path: Path) -> None:
    written, wanted = FORMS[name]
    assert settled(tmp_path, written) == wanted


def test_long_ones(tmp_path: Path) -> None:
    """Lists fit or have an item a line; texts fold; a signature hangs from its name."""
    arguments = ", ".join(f"Tensor argument_{i}" for i in range(12))
    samples = [f"f({i},4,low=-0.5,high=0.5), f(4), {i}" for i in range(6)]
    text = (
        f"- op: f({arguments}) -> Tensor\n  doc: {'Some words. ' * 20}\n  samples: {samples}\n"
        f"  reference: np.where({', '.join(f'g(argument_{i}, 0)' for i in range(12))})\n"
    )
    found = settled(tmp_path, text)
    assert yaml.safe_load(found) == yaml.safe_load(text)
    assert re.search(r"^- op: f\(Tensor argument_0.*,\n {6}Tensor argument_", found)
    assert "  doc: >-\n    Some words. " in found and "  reference: >-\n    np.where(" in found
    assert "  samples:\n    - f(0,4,low=-0.5,high=0.5), f(4), 0\n    - f(1,4" in found
    assert max(map(len, found.splitlines())) <= texts.WIDTH


def test_programs_break_in_brackets_and_strings() -> None:
    error = f"raise ValueError(f'{'of words ' * 10}{{a + 1}} {'and of others ' * 8}')"
    text = f"if a:\n  x = g({', '.join(f'argument_{i}' for i in range(20))}) + 1\n  {error}"
    found = programs.formatted(text, 80)
    assert found != text and max(map(len, found.splitlines())) <= 80
    assert programs.formatted(found, 80) == found
    space: dict[str, Any] = {"a": 3, "g": lambda *given: len(given)}
    space.update({f"argument_{i}": i for i in range(20)})
    for code in (text, found):
        with pytest.raises(ValueError, match="4 and of others") as raised:
            exec(code, dict(space))
        assert str(raised.value) == f"{'of words ' * 10}4 {'and of others ' * 8}"
    unbreakable = "return " + " + ".join(["abcdefgh"] * 12)
    assert programs.formatted(unbreakable, 80) == unbreakable
    assert programs.formatted("no program at all (", 10) == "no program at all ("


LETTERS = [
    "a",
    "b c",
    "f(3,4)",
    "x: y",
    " # z",
    "'",
    '"',
    "\\",
    "ß≤😀",
    "\n",
    " ",
    "  ",
    "{",
    "]",
    "-",
]


def text_of(draw: random.Random) -> str:
    words = [
        "true",
        "1e-5",
        "null",
        "",
        "*a",
        "&b",
        "- c",
        "?",
        "=",
        "@d",
        "`e`",
        "!f",
        "%g",
        "0x1f",
    ]
    if draw.random() < 0.3:
        return draw.choice(words)
    return "".join(draw.choices(LETTERS, k=draw.choice([1, 3, 8, 80]))).rstrip("\n")


def value_of(draw: random.Random, depth: int = 0) -> Any:
    kind = draw.random()
    if kind < 0.6 or depth > 2:
        return draw.choice([text_of(draw), text_of(draw), draw.randrange(99), True, None, 0.5])
    if kind < 0.8:
        return [value_of(draw, depth + 1) for _ in range(draw.randrange(6))]
    return {text_of(draw)[:40]: value_of(draw, depth + 1) for _ in range(draw.randrange(5))}


def commented(draw: random.Random, text: str) -> tuple[str, list[str]]:
    """The text with comments above records and keys of records."""
    lines, comments = [], []
    for line in text.splitlines(keepends=True):
        match = re.match(r"(- |  )[a-z_]+:", line)
        if match and draw.random() < 0.3:
            comments.append(
                f"# comment {len(comments)}: 'it' \"is\" {draw.choice(LETTERS).strip()}."
            )
            lines.append(" " * 2 * (match[1] == "  ") + comments[-1] + "\n")
            lines += ["\n"] * (draw.random() < 0.2)
        lines.append(line)
    return "".join(lines), comments


@pytest.mark.parametrize("seed", range(40))
def test_odd_inputs(seed: int, tmp_path: Path) -> None:
    """Whatever YAML's own writer makes of random records says the same in the one form."""
    draw = random.Random(seed)
    keys = [k for k in KEYS["op"] if k not in ("op", "doc", "composite")]
    records = [
        {"op": HEAD, **{k: value_of(draw) for k in draw.sample(keys, draw.randrange(6))}}
        for _ in range(draw.randrange(1, 6))
    ]
    text = yaml.safe_dump(
        records,
        allow_unicode=draw.random() < 0.5,
        default_flow_style=draw.choice([None, False]),
        default_style=draw.choice([None, None, "'", '"', "|"]),
        width=draw.choice([40, 80, 1000]),
        sort_keys=False,
    )
    text, comments = commented(draw, text)
    plain = yaml.safe_load(text)  # with "|" as the style, all have become texts
    found = settled(tmp_path, text)
    assert chomped(yaml.safe_load(found)) == chomped(plain)
    lines = [line.strip() for line in found.splitlines()]
    assert [lines.count(comment) for comment in comments] == [1] * len(comments)


def chomped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: chomped(v) for key, v in value.items()}
    if isinstance(value, list):
        return [chomped(v) for v in value]
    return value.rstrip("\n") if isinstance(value, str) else value


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ops.yaml"
    path.write_text(f"- op: {HEAD}\n  kind: view\n  doc: 'F.'\n", encoding="utf-8")
    command = ["--schema", str(path), "fmt"]
    assert main([*command, "--check"]) == 1
    told = capsys.readouterr()
    assert "-  doc: 'F.'" in told.out and "+  doc: F." in told.out and "+1 -1" in told.out
    assert "ops.yaml is not in its form; `python -m codegen fmt` brings it there" in told.err
    assert main(command) == 0
    assert path.read_text(encoding="utf-8") == f"- op: {HEAD}\n  doc: F.\n  kind: view\n"
    assert main([*command, "--check"]) == 0
    path.write_text(f"- op: {HEAD}\n  doc: {'x' * 200}\n", encoding="utf-8")
    assert main([*command, "--check"]) == 1
    assert "ops.yaml:2:111: 207 characters, and at most 110" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b\n", "the file is a list of records"),
        ("- [a\n", "not YAML"),
        ("- ? [a]\n  : b\n", "a key must be plain text"),
        ("- op: !!binary aGk=\n", "would change its meaning"),
    ],
)
def test_refuses(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaErrors, match=message):
        form(tmp_path, text)


def test_old_contents_are_replaced(tmp_path: Path) -> None:
    text = f"# Head.\n\n{CONTENTS}\n#   old\n\n# ---- a ----\n#   indented\n\n- op: {HEAD}\n"
    assert settled(tmp_path, text) == text.replace("#   old", "#   a")


def test_sections_are_one_each_and_in_the_contents(tmp_path: Path) -> None:
    rule = "- rule: r{}(Tensor self) -> Meta\n"
    text = form(tmp_path, f"# ---- a ----\n{rule.format(1)}# ---- b ----\n{rule.format(2)}")
    path = tmp_path / "ops.yaml"
    path.write_text(text, encoding="utf-8")
    assert check(path).errors == ()
    path.write_text(text + "# ---- a ----\n", encoding="utf-8")
    message = "the section 'a' is that of line 5; a section is one"
    assert [e.message for e in check(path).errors] == [message]
    path.write_text(text + "# ---- c ----\n", encoding="utf-8")
    assert [str(e) for e in check(path).errors] == [
        "ops.yaml:1:1: the table of contents names other sections; "
        "`python -m codegen fmt` writes it"
    ]
