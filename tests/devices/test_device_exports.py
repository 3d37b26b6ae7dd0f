"""What modules of devices show to others: their entry points, nothing of the C++ library."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from device_packages import HERE, environment, exported, shown

OWN = {
    "facula_register_backends",
    *exported((HERE / "strict_device.cpp").read_text(encoding="utf-8")),
}


def test_a_module_shows_its_entry_points_alone(strict_library: Path) -> None:
    assert {name for name, _ in shown(strict_library)} == OWN


def test_also_with_the_library_inside(strict_library: Path, tmp_path: Path) -> None:
    """As with -static-libstdc++, where there is a symbol of each kind to leak."""
    commands = subprocess.run(
        ["ninja", "-C", str(strict_library.parent), "-t", "commands"],
        capture_output=True, text=True, check=True, env=environment(),
    ).stdout.splitlines()  # fmt: skip
    link = next(c for c in commands if "version-script" in c)
    module = tmp_path / "static.so"
    link = link.replace(f"-o {strict_library.name}", f"-o {shlex.quote(str(module))}")
    link = link.removeprefix(": && ").removesuffix(" && :") + " -static-libstdc++"
    for flags, leaks in (("", False), ("unlimited", True)):
        command = link
        if leaks:  # as it was before there was a map
            command = " ".join(
                w
                for w in shlex.split(link)
                if "version-script" not in w and "exclude-libs" not in w
            )
        done = subprocess.run(
            command,
            shell=True,
            capture_output=True,
            text=True,
            check=False,
            cwd=strict_library.parent,
        )
        if "cannot find -lstdc++" in done.stderr:
            pytest.skip("has no static C++ library")
        assert done.returncode == 0, flags + done.stderr
        found = shown(module)
        if leaks:
            assert any(kind == "u" for _, kind in found) and any("_ZSt" in n for n, _ in found)
        else:
            assert {name for name, _ in found} == OWN and not any(kind == "u" for _, kind in found)
