#!/usr/bin/env python3
"""Takes objects from another build directory where nothing that they are made of has changed.

    reuse_objects.py index OTHER_BUILD INDEX SOURCE BUILD    notes what its objects are made of
    reuse_objects.py compile INDEX COMMAND...                copies the object, or compiles

An object is taken when the command is the same but for the folders' names, and the source and
every header of the project have the same bytes as when it was made. FACULA_REUSE_OBJECTS in cmake
sets both steps up. Unlike a compiler's cache it needs nothing installed and nothing done before.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

COMPILERS = re.compile(r"(^|/)(c\+\+|g\+\+|clang\+\+)[-\w.]*$")


def compiler_command(words: list[str]) -> list[str]:
    """The command from the compiler on, without launchers before it."""
    start = next((i for i, word in enumerate(words) if COMPILERS.search(word)), 0)
    return words[start:]


def key_of(words: list[str], directory: str, source: str, build: str) -> str:
    """What a command does, whatever the folders of source and build are called."""
    kept: list[str] = []
    skip = False
    for word in compiler_command(words):
        if skip or word in ("-MD", "-MMD", "-c"):
            skip = False
        elif word in ("-o", "-MF", "-MT", "-MQ"):
            skip = True
        else:
            if not word.startswith("-") and kept:
                word = os.path.normpath(os.path.join(directory, word))
            kept.append(word.replace(build, "@build").replace(source, "@source"))
    return hashlib.sha256("\0".join(kept).encode()).hexdigest()


def dependencies(build: Path) -> dict[str, list[str]]:
    """The files that each object was made of, from ninja's own records."""
    ninja = shutil.which("ninja") or "ninja"
    listed = subprocess.run(
        [ninja, "-C", str(build), "-t", "deps"], capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in listed.stdout.splitlines():
        if line.startswith("    "):
            current.append(line.strip())
        elif ": #deps" in line and "(VALID)" in line:
            current = found.setdefault(line.partition(": #deps")[0], [])
    return found


def index(build: Path, target: Path) -> None:
    """One small file an object, named by its command's key."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    match = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache, re.M)
    source = match.group(1) if match else str(build.parent)
    made_of = dependencies(build)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for entry in commands:
        words = shlex.split(entry["command"])
        output = entry.get("output") or words[words.index("-o") + 1]
        output = os.path.relpath(os.path.join(entry["directory"], output), build)
        parts = made_of.get(output)
        if parts is None or not (build / output).exists():
            continue
        record = {"object": str(build / output), "source": source, "build": str(build)}
        record["parts"] = [os.path.normpath(os.path.join(build, part)) for part in parts]
        key = key_of(words, entry["directory"], source, str(build))
        (target / key).write_text(json.dumps(record), encoding="utf-8")


def unchanged(record: dict[str, object], source: str, build: str) -> list[str] | None:
    """The object's parts in these folders, when all are what they were; else None."""
    made = os.stat(str(record["object"])).st_mtime_ns
    mine: list[str] = []
    parts = record["parts"]
    assert isinstance(parts, list)
    for part in parts:
        try:
            if os.stat(part).st_mtime_ns > made:
                return None  # newer than the object: its bytes then are not known
            here = part
            for old, new in ((str(record["build"]), build), (str(record["source"]), source)):
                if part.startswith(old + os.sep):
                    here = new + part[len(old) :]
                    break
            if here != part and not filecmp.cmp(part, here, shallow=False):
                return None
        except OSError:
            return None
        mine.append(here)
    return mine


def compile_or_copy(folder: Path, command: list[str]) -> int:
    place = json.loads((folder / "here.json").read_text(encoding="utf-8"))
    source, build = place["source"], place["build"]
    if "-c" in command and "-o" in command:
        path = folder / key_of(command, os.getcwd(), source, build)
        if path.exists():
            record = json.loads(path.read_text(encoding="utf-8"))
            parts = unchanged(record, source, build)
            if parts is not None:
                output = command[command.index("-o") + 1]
                shutil.copyfile(record["object"], output)
                if "-MF" in command:
                    listed = " \\\n ".join(p.replace(" ", "\\ ") for p in parts)
                    depfile = Path(command[command.index("-MF") + 1])
                    depfile.write_text(f"{output}: \\\n {listed}\n", encoding="utf-8")
                return 0
    with (folder / "compiled.txt").open("a", encoding="utf-8") as log:
        log.write(command[-1] + "\n")
    ccache = shutil.which("ccache")
    return subprocess.run([*([ccache] if ccache else []), *command], check=False).returncode


def main() -> int:
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "compile":
        return compile_or_copy(folder, sys.argv[3:])
    target, source, build = Path(sys.argv[3]), sys.argv[4], sys.argv[5]
    index(folder.resolve(), target)
    here = {"source": source, "build": build}
    (target / "here.json").write_text(json.dumps(here), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
