"""Makes the two environments and gets the packages' sources."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from .table import ALONE, FACULA, PACKAGES, TOOLS, Package

__all__ = ["link", "prepare"]


def prepare(work: Path, template: str, torch: str) -> None:
    """Two environments, `torch` and `facula`, that differ in torch alone, and `src`.

    template: where a repository is cloned from, with {owner} and {name}.
    torch: what pip is asked for, "torch==2.13.0" say.
    """
    needs = sorted({need for package in PACKAGES for need in package.needs.split()} | {*TOOLS})
    for side in ("torch", "facula"):
        if not (work / side / "bin" / "python").exists():
            venv.create(work / side, with_pip=True)
        _pip(work, side, *needs, *([torch] if side == "torch" else FACULA))
        _pip(work, side, "--no-deps", *ALONE)
    for package in PACKAGES:
        place = work / "src" / package.name
        if not package.repository:
            if not place.exists():
                place.symlink_to(Path(__file__).parent / "programs")
        elif not place.exists():
            owner, name = package.repository.split("/")
            _call("git", "clone", "--quiet", template.format(owner=owner, name=name), str(place))
    link(work, PACKAGES)


def link(work: Path, packages: tuple[Package, ...]) -> None:
    """One folder with a link to each package; both environments look there."""
    site = work / "site"
    site.mkdir(exist_ok=True)
    for package in packages:
        for copy in package.copies:
            source, target = (work / "src" / package.name / name for name in copy.split(":"))
            shutil.copyfile(source, target)
        for module in package.modules:
            place = site / Path(module).name
            if not place.is_symlink():
                place.symlink_to(work / "src" / package.name / module)
    for side in ("torch", "facula"):
        for libraries in (work / side / "lib").glob("python3*/site-packages"):
            (libraries / "packages.pth").write_text(f"{site}\n", encoding="utf-8")


def _pip(work: Path, side: str, *what: str) -> None:
    _call(str(work / side / "bin" / "python"), "-m", "pip", "install", "--quiet", *what)


def _call(*command: str) -> None:
    print("+", " ".join(command), file=sys.stderr)
    subprocess.run(command, check=True)
