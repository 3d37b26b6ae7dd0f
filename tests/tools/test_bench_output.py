"""tools/bench: files, tables, comparisons and pictures of made-up runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.bench import chart, compare, pages, table
from tools.bench.result import Result, Run, Second

ROOT = Path(__file__).resolve().parents[2]
ABOUT = {
    "date": "2026-01-02 03:04",
    "machine": "a machine",
    "python": "3.11",
    "load": 0.5,
    "revision": "abc",
    "versions": {"facula": "1", "torch": "2"},
    "command": "python tools/bench",
}


def made(
    name: str, ratio: float | None, family: str = "f", threads: int = 1, **more: object
) -> Result:
    ratios = {} if ratio is None else {"torch": ratio}
    medians = {"facula": 1e-3 * (ratio or 1), "torch": 1e-3}
    return Result(name, family, threads, 0.5, medians=medians, ratios=ratios, **more)  # type: ignore[arg-type]


def run_of(*results: Result) -> Run:
    return Run(dict(ABOUT), list(results))


# ---- JSON ----


def test_json_round_trip(tmp_path: Path) -> None:
    run = run_of(
        made("a", 0.25, also=[Second("ulp", 2.5, 4, torch=3.0), Second("add", 1.1, 0.9, True)]),
        made("b", None, state="absent", note="no b", agree=False),
    )
    run.save(tmp_path / "run.json")
    assert Run.load(tmp_path / "run.json") == run


def test_other_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"format": 0, "rows": []}')
    with pytest.raises(ValueError, match="format 1"):
        Run.load(file)


# ---- table ----


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.234, "s", "1.23 s"),
        (0.0123, "s", "12.3 ms"),
        (9.999e-6, "s", "10.00 us"),
        (8e-8, "s", "80.0 ns"),
        (123e-6, "s", "123 us"),
        (741e6, "B", "741 MB"),
        (None, "s", "-"),
    ],
)
def test_amounts(value: float | None, unit: str, text: str) -> None:
    assert table.amount(value, unit) == text


def test_a_line_marks_each_missed_goal() -> None:
    found = made("a", 0.6, also=[Second("ulp", 5, 4, torch=6), Second("add", 0.95, 0.9, True)])
    line = table.line(found, 3)
    assert re.search(r"0\.600 0\.5 ✗ +ulp 5\.00 ≤ 4 ✗ \(torch 6\.00\), add 0\.950 ≥ 0\.9$", line)
    assert "✗" not in table.line(made("a", 0.4), 3)


def test_text_and_markdown_have_every_row() -> None:
    run = run_of(made("a", 0.1), made("x | y", 0.2, threads=2), made("c", 0.7, family="g"))
    text = table.text(run)
    assert text.count("\n\n") == 1 and all(n in text for n in ("  a", "  x | y", "  c"))
    lines = table.markdown(run.results).splitlines()
    assert len(lines) == 5
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {9}
    assert re.search(r"^  f +0\.141 of torch, 0 of 2 missed$", table.summary(run), re.M)


# ---- compare ----


def test_compare_with_a_file() -> None:
    """Ratios to torch are compared: a machine twice as slow is no change."""
    then = run_of(made("a", 0.2), made("b", 0.4), made("c", 0.4), made("gone", 0.1))
    now = run_of(made("a", 0.2), made("b", 0.2), made("c", 0.8), made("new", 0.1))
    for found in now.results:
        found.medians = {k: 2 * v for k, v in found.medians.items()}
    changes = compare.changes(compare.Base("then.json", run=then), now)
    assert [(c.name, c.verdict) for c in changes] == [
        ("f: c", "slower"),
        ("f: a", "same"),
        ("f: b", "faster"),
    ]
    report = compare.report(compare.Base("then.json", run=then), now)
    assert "3 rows, 1 the same" in report and "slower 2.00x  f: c" in report


def test_compare_without_torch_is_of_times() -> None:
    then, now = run_of(made("a", None)), run_of(made("a", None))
    now.results[0].medians["facula"] *= 3
    (change,) = compare.changes(compare.Base("x", run=then), now)
    assert change.factor == pytest.approx(3) and change.unit == "s"


def test_noise_is_no_change() -> None:
    then, now = run_of(made("a", 0.2)), run_of(made("a", 0.24))
    assert compare.changes(compare.Base("x", run=then), now)[0].verdict == "slower"
    now.results[0].spreads = {"facula": 0.15, "torch": 0.1}
    assert compare.changes(compare.Base("x", run=then), now)[0].verdict == "same"


def test_compare_with_another_build() -> None:
    base = compare.Base("old", site="/site")
    now = run_of(made("a", 0.2), made("b", 0.2))
    now.results[0].ratios[base.opponent] = 0.5
    (change,) = compare.changes(base, now)
    assert (change.name, change.factor, change.verdict) == ("f: a", 0.5, "faster")


def test_what_is_compared_with(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    run_of(made("a", 0.1)).save(file)
    assert compare.resolve(str(file)).run == Run.load(file)
    (tmp_path / "facula").mkdir()
    (tmp_path / "facula/__init__.py").touch()
    assert compare.resolve(str(tmp_path)).site == str(tmp_path)
    with pytest.raises(SystemExit, match=r"no (file|git)"):
        compare.resolve("no-such-thing")


# ---- picture ----

SVG = "{http://www.w3.org/2000/svg}"


def test_a_picture_has_a_dot_for_each_ratio() -> None:
    run = run_of(made("a <b>", 0.1), made("a <b>", 0.2, threads=2), made("c", 0.9), made("d", None))
    tree = ElementTree.fromstring(chart.chart(run))
    dots = tree.findall(f"{SVG}circle")
    assert [d.get("class") for d in dots] == ["met", "met", "missed"]
    assert "a <b>" in [t.text for t in tree.findall(f"{SVG}text")]
    assert len([x for x in tree.findall(f"{SVG}line") if x.get("class") == "goal"]) == 2


def test_the_scale_is_logarithmic() -> None:
    scale = chart.Scale([0.01, 9.0])
    steps = [scale.x(v) for v in (0.01, 0.1, 1.0, 10.0)]
    assert steps == pytest.approx([chart.LEFT + chart.PLOT * i / 3 for i in range(4)])
    assert scale.x(0.001) == chart.LEFT  # beyond the scale stays on its edge


def test_many_rows_make_a_line_a_family() -> None:
    run = run_of(*(made(f"row {i}", 0.3, family="fg"[i % 2]) for i in range(chart.MOST + 1)))
    tree = ElementTree.fromstring(chart.chart(run))
    assert len(tree.findall(f"{SVG}circle")) == chart.MOST + 1
    means = [x for x in tree.findall(f"{SVG}line") if x.get("class") == "mean"]
    assert len(means) == 2
    assert len(ElementTree.fromstring(chart.chart(run, ["f"])).findall(f"{SVG}circle")) == 25


# ---- the page ----


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_run_is_put_into_the_page(tmp_path: Path, device: str) -> None:
    run = run_of()
    run.about["device"] = device
    page = tmp_path / pages.page_of(run).name
    source = pages.page_of(run).read_text(encoding="utf-8")
    page.write_text(source, encoding="utf-8")
    for ratio in ("0.111", "0.222"):  # the second time replaces the first
        pages.publish(run_of(made("a", float(ratio)), made("late", 0.7)), page)
    text = page.read_text(encoding="utf-8")
    assert "0.222" in text and "0.111" not in text
    assert "revision abc" in text and "    python tools/bench\n" in text
    assert "1 of 2 rows." in text
    assert text.count("<!-- bench:") == source.count("<!-- bench:") == 6
    for target in re.findall(r"\]\((images/[^)]+)\)", text):
        ElementTree.fromstring((tmp_path / target).read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match="no marker"):
        pages.put("text", "run", "")


# ---- command line ----


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "tools/dev.py", "bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def test_an_earlier_run_is_shown_and_drawn(tmp_path: Path) -> None:
    file, picture = tmp_path / "run.json", tmp_path / "run.svg"
    run_of(made("a", 0.2), made("b", 0.3, family="g")).save(file)
    done = bench("--from", str(file), "--svg", str(picture), "--compare", str(file))
    assert done.returncode == 0, done.stderr
    assert "2 rows, 2 the same within noise" in done.stdout
    assert len(ElementTree.parse(picture).findall(f"{SVG}circle")) == 2


def test_wrong_names_are_said() -> None:
    assert "no family 'nope'; there are small" in bench("--family", "nope").stderr
    assert "no row has 'zzz'" in bench("--filter", "zzz").stderr


def test_rows_are_listed() -> None:
    assert "small: a + b: at most 0.15 of torch\n" in bench("--list").stdout
