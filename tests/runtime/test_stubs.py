"""Type stubs: they parse, they are where the package is, and name what it has."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import facula
import pytest
from facula._exports import VENDORS

HERE = Path(facula._C.__file__).parent  # beside the compiled module, also in editable installs
STUBS = sorted(path.name for path in HERE.rglob("*.pyi"))


def names_of(body):
    found = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found.update(target.id for target in node.targets)
        elif isinstance(node, ast.ImportFrom):
            found.update(alias.asname for alias in node.names if alias.asname)
    return {name for name in found if name[0] != "_"}


def tree_of(name):
    return ast.parse((HERE / name).read_text(encoding="utf-8"))


def public(module, stated=frozenset()):
    """Its names, but for those of devices and extensions that other tests of this process have
    brought and that are not `stated`."""
    others = set(facula.backends.names()) - set(VENDORS)
    devices = {form for name in others for form in (name, f"is_{name}")}
    spaces = [getattr(facula.ops, name) for name in dir(facula.ops) if name[0] != "_"]
    methods = {form for space in spaces for name in dir(space) for form in (name, f"{name}_")}
    return {name for name in dir(module) if name[0] != "_"} - devices - (methods - stated)


def test_stubs_are_in_the_package():
    assert STUBS == [
        "__init__.pyi",
        "_nn_functional_ops.pyi",
        "fft.pyi",
        "linalg.pyi",
        "special.pyi",
    ]
    assert any((Path(folder) / "py.typed").exists() for folder in facula.__path__)


def test_names_of_the_package():
    named = names_of(tree_of("__init__.pyi").body) - {"DeviceLike", "Number"}
    # modules that are there once something has imported them
    imported = {name.split(".")[1] for name in sys.modules if name.startswith("facula.")}
    others = set(facula.backends.names()) | (imported - named)
    assert named == public(facula, named) - others
    assert {name for name in facula.__all__ if name[0] != "_"} <= named


@pytest.mark.parametrize("name", ["fft", "linalg", "special"])
def test_names_of_namespaces(name):
    assert names_of(tree_of(f"{name}.pyi").body) == public(
        importlib.import_module(f"facula.{name}")
    )


def test_names_of_functional():
    stated = names_of(tree_of("_nn_functional_ops.pyi").body)
    assert stated == public(facula._C._nn_functional)


@pytest.mark.parametrize("name", ["Tensor", "Generator", "dtype", "device", "Size", "Node"])
def test_members_of_classes(name):
    (stated,) = (
        names_of(n.body)
        for n in tree_of("__init__.pyi").body
        if isinstance(n, ast.ClassDef) and n.name == name
    )
    inherited = public(tuple) if name == "Size" else set()
    assert stated | inherited == public(getattr(facula, name), stated)


def test_parameters_have_the_names_of_the_package():
    """What inspect says of a function that is no overload is what its stub says."""
    checked = 0
    for node in tree_of("__init__.pyi").body:
        function = getattr(facula, getattr(node, "name", ""), None)
        if not isinstance(node, ast.FunctionDef) or node.decorator_list:
            continue
        try:
            real = list(inspect.signature(function).parameters)
        except ValueError:
            continue
        a = node.args
        stated = [p.arg for p in [*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs] if p]
        assert stated == real, node.name
        checked += 1
    assert checked > 10


USE = """
import facula as fa
from facula.nn import functional as F

x = fa.tensor([[1.0, 2.0]], requires_grad=True)
reveal_type(fa.sum(x, 0, keepdim=True))
reveal_type((x + 1) / 2)
reveal_type(x.shape)
reveal_type(x.where(x > 0, 0.0).topk(1))
reveal_type(fa.linalg.norm(x, dim=(0, 1)))
reveal_type(F.relu(x))
reveal_type(F.conv2d(x, x))
with fa.no_grad():
    fa.manual_seed(0)
    fa.optim.lr_scheduler.StepLR(fa.optim.SGD(fa.nn.Linear(2, 3).parameters()), 2)
fa.einsum("ij,jk", x, x).unique()
fa.sum(x, "one")
x.sum(keepdim=3.5)
fa.no_such_function(x)
"""
SAID = """
 6: note: Revealed type is "facula.Tensor"
 7: note: Revealed type is "facula.Tensor"
 8: note: Revealed type is "facula.Size"
 9: note: Revealed type is "tuple[facula.Tensor, facula.Tensor]"
10: note: Revealed type is "facula.Tensor"
11: note: Revealed type is "facula.Tensor"
12: note: Revealed type is "facula.Tensor"
17: error: Argument 2 to "sum" has incompatible type "str"; expected "int | Sequence[int] | None"
18: error: Argument "keepdim" to "sum" of "Tensor" has incompatible type "float"; expected "bool"
19: error: Module has no attribute "no_such_function"
"""


def test_a_type_checker_reads_them(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(USE)
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nmypy_path = {HERE.parent}\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), "use.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("use.py")]
    found = [line.removeprefix("use.py:").partition("  [")[0] for line in lines]
    assert found == [line.strip() for line in SAID.strip().splitlines()], done.stdout
    assert not [line for line in done.stdout.splitlines() if ".pyi:" in line], done.stdout
