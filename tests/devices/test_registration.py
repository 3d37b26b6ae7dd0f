"""Registration: versions, incomplete structures, entry points, what the scaffold writes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from device_packages import build, environment, install, run
from facula import backends
from facula.backends import translate

from tests.plain_imports import prefer

HEADER = """
#include "facula/backend.h"
static int32_t count(void*, int32_t* n) { *n = 1; return 0; }
static int32_t allocate(void*, int32_t, size_t, void*, void**) { return FACULA_OUT_OF_MEMORY; }
static int32_t release(void*, int32_t, void*, size_t, void*) { return 0; }
static int32_t copy(void*, const FaculaCopy*) { return 0; }
extern "C" FACULA_EXPORT int32_t facula_register_backends(const FaculaHost* host) {
  FaculaBackend b{};
  b.abi = FACULA_BACKEND_ABI; b.size = sizeof(b); b.name = "%s";
  b.dtypes = FACULA_ALL_DTYPES;
  b.device_count = count; b.allocate = allocate; b.deallocate = release; b.copy = copy;
  %s
  return host->register_backend(&b);
}
"""


def load(tmp_path: Path, name: str, change: str) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    source, library = tmp_path / "b.cpp", tmp_path / "b.so"
    source.write_text(HEADER % (name, change))
    command = [
        "g++",
        "-shared",
        "-fPIC",
        "-Wall",
        f"-I{backends.get_include()}",
        str(source),
        "-o",
        str(library),
    ]
    subprocess.run(command, check=True)
    backends.load_library(library)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("b.abi = 2;", "built for version 2 .* has version 1; install a newer facula"),
        ("b.abi = 0;", "built for version 0 .* build it again"),
        ("b.size = 40;", "a structure of 40 bytes"),
        ("b.copy = nullptr;", "gives no copy"),
        ("b.create_event = reinterpret_cast<decltype(b.create_event)>(&count);", "all or none"),
        ("b.map = [](void*, int32_t, void*, size_t) { return 0; };", "reserve, map and unmap, all"),
        ("b.close_memory = [](void*, int32_t, void*) { return 0; };",
         "share_memory, open_memory and close_memory, all"),
        ("b.open_event = [](void*, int32_t, const FaculaShared*, void**) { return 0; };",
         "create_shared_event and open_event, both"),
        ('static const FaculaKernelEntry k[] = {{"cumsun", 0}}; b.kernels = k; b.nkernels = 1;',
         "a kernel for 'cumsun', which is no operator"),
        ('b.name = "cpu";', "registered already"),
        ('b.name = "Not A Name";', "not a device name"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, change: str, words: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match=words):
        load(tmp_path, "refused", change)
    assert "refused" not in backends.names()


def test_a_longer_structure_is_welcome(tmp_path: Path) -> None:
    """A package built against a header with more fields at the end."""
    load(tmp_path, "longer", "b.size = sizeof(b) + 64; static char more[sizeof(b) + 64]; "
         "__builtin_memcpy(more, &b, sizeof(b)); "
         "return host->register_backend((const FaculaBackend*)more);")  # fmt: skip
    assert "longer" in backends.names()


def test_unknown_names() -> None:
    import facula as fa

    with pytest.raises(
        RuntimeError, match="'nowhere:1' is not a device; known device types: cpu, meta"
    ):
        fa.device("nowhere:1")
    with pytest.raises(AttributeError):
        fa.nowhere  # noqa: B018


def test_entry_points(tmp_path: Path) -> None:
    """A package loads when its device is named first, and only then."""
    text = (
        "import numpy_device\n"
        "def start():\n    numpy_device.NumpyDevice.name = 'lazy'\n    numpy_device.start()\n"
        "def fail():\n    raise ImportError('no driver')\n"
    )
    install(tmp_path, "lazy_vendor", text, lazy="start", broken="fail")
    script = """
import sys, facula as fa
from facula import backends
assert "lazy_vendor" not in sys.modules and backends.names() == []
assert set(backends.entry_points()) >= {"lazy", "broken"}
x = fa.ones(3, device="lazy:1")
assert (x + x).tolist() == [2, 2, 2] and x.device == fa.device("lazy:1")
assert fa.lazy.device_count() == 2
import facula.lazy
try:
    fa.device("broken")
except RuntimeError as error:
    assert "no driver" in str(error) and "broken" in str(error)
else:
    raise AssertionError
print("good")
"""
    done = run(script, tmp_path, Path(__file__).parent)
    assert done.stdout == "good\n", done.stderr
    module_first = "import facula as fa\nprint(fa.lazy.device_count())"
    assert run(module_first, tmp_path, Path(__file__).parent).stdout == "2\n"


@pytest.mark.parametrize("name", ["Acme", "class", "cpu", "a" * 65, "acme-2"])
def test_names_that_the_scaffold_refuses(tmp_path: Path, name: str) -> None:
    import new_backend

    with pytest.raises(SystemExit, match=f"'{name}' (is no device name|means something else)"):
        new_backend.write(name, tmp_path / "package")
    assert not (tmp_path / "package").exists()


@pytest.mark.usefixtures("strict_library")
def test_scaffold(tmp_path: Path) -> None:
    """What tools/new_backend.py writes builds and passes the tests that it comes with.

    At the samples' sizes; at others the strict device passes, of the same templates and kernels.
    """
    folder = tmp_path / "facula-acme"
    library = build("acme", folder)
    shutil.copy(library, folder / "facula_acme" / library.name)
    (folder / "conftest.py").write_text(
        "import functools, facula_acme\nfrom facula.testing import conformance\n"
        "facula_acme.register()\n"
        "conformance.run = functools.partial(conformance.run, sizes=False)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=folder, capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def test_primitives() -> None:
    """Few kernels bring up a device, beside its two templates."""
    assert len(translate.primitives()) + 2 <= 50


@pytest.mark.parametrize("language", [translate.CPP, translate.C])
def test_every_formula_translates(language: translate.Language) -> None:
    for formula in (*translate.formulas(), *translate.reductions()):
        for class_ in formula.classes:
            assert translate.body(formula, class_, language).outputs


def test_a_build_without_the_cuda_module(tmp_path: Path) -> None:
    """Asking for devices answers no; naming the device says why."""
    import facula

    package = tmp_path / "facula"
    package.mkdir()
    for folder in dict.fromkeys([*facula.__path__, os.path.dirname(facula._C.__file__)]):
        for entry in os.scandir(folder):
            if entry.name != "_cuda.so" and not (package / entry.name).exists():
                (package / entry.name).symlink_to(entry.path)
    prefer(tmp_path)
    script = """
import facula as fa
print(fa.__file__)
print(fa.cuda.is_available(), fa.cuda.device_count())
import facula.cuda
print(facula.cuda.is_available(), facula.cuda.device_count(), fa.backends.names())
print(fa.amp.is_autocast_available("cuda"))
import warnings
with warnings.catch_warnings(record=True) as told:
    with fa.autocast("cuda"):
        print((fa.ones(2, 2) @ fa.ones(2, 2)).dtype)
    with fa.autocast("cuda", fa.bfloat16, enabled=False):
        pass
    print([str(w.message) for w in told], fa.amp.GradScaler("cuda", enabled=False).is_enabled())
uses = [lambda: fa.zeros(2, device="cuda"), lambda: fa.device("cuda")]
uses += [lambda: fa.ones(2).to("cuda")]
for use in uses:
    try:
        use()
    except RuntimeError as error:
        print(error)
"""
    done = run(script, tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0].startswith(str(tmp_path))
    assert lines[1:4] == ["False 0", "False 0 []", "False"]
    assert lines[4:6] == [
        "facula.float32",
        "['autocast(): cuda is not available; autocast is disabled'] False",
    ]
    assert len(lines) == 9 and all("facula was built without CUDA" in line for line in lines[6:])
