"""The package: what importing costs and what it gives."""

import os
import subprocess
import sys

import facula as fa
import pytest


def run(*code, **variables):
    return subprocess.run(
        [sys.executable, *(("-c", *code) if len(code) == 1 else code)],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | variables,
    ).stdout.strip()


def test_import_is_light():
    code = (
        "import sys; before = set(sys.modules); import facula; new = sys.modules.keys() - before; "
        "print([m for m in ('numpy', 'typing', 'facula.nn', 'torch') if m in new])"
    )
    assert run(code) == "[]"


def test_import_is_fast():
    code = "import time; a = time.perf_counter(); import facula; print(time.perf_counter() - a)"
    assert min(float(run(code)) for _ in range(5)) < 0.06


def test_numpy_loads_only_when_asked_for():
    code = (
        "import sys, facula as fa; t = fa.tensor([[1., 2.]]); repr(t); t + 1; t[0]; "
        "a = 'numpy' in sys.modules; t.numpy(); print(a, 'numpy' in sys.modules)"
    )
    assert run(code) == "False True"


def test_lazy_parts():
    for name in ("nn", "optim", "autograd", "random", "utils"):
        assert getattr(fa, name).__name__ == f"facula.{name}"
        assert name in dir(fa)
    assert run("import facula; print(facula.utils.data.DataLoader.__name__)") == "DataLoader"
    for package in (fa, fa.utils):
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = package.nothing


def test_all_names_are_there():
    for name in fa.__all__:
        assert hasattr(fa, name)


def test_config():
    code = "import facula; print(facula.__config__.show())"
    said = run(code, FACULA_NUM_THREADS="3", FACULA_ISA="baseline", FACULA_BLAS="/nothing")
    first, *lines = said.splitlines()
    assert first == f"facula {fa.__version__}"
    found = dict(line[4:].partition(": ")[::2] for line in lines)
    assert found["threads"] == "3"
    assert found["instruction set"].startswith("baseline (built: baseline") and "AMX" not in said
    assert found["BLAS for complex products"].startswith("none")
    assert found["devices"].startswith("cpu, meta")
    assert run("-m", "facula.__config__").splitlines()[0] == first


def test_array_api_info():
    info = fa.__array_namespace_info__()
    assert info.default_device() == fa.device("cpu")
    assert info.default_dtypes()["real floating"] is fa.float32
    assert set(info.dtypes(kind="bool")) == {"bool"}
    assert "complex64" in info.dtypes()
    assert fa.__array_api_version__ == "2024.12"


def test_random_state():
    fa.manual_seed(3)
    assert fa.initial_seed() == 3
    state = fa.get_rng_state()
    a = fa.rand(3).tolist()
    fa.set_rng_state(state)
    assert fa.rand(3).tolist() == a
    with fa.random.fork_rng():
        fa.rand(5)
    b = fa.rand(3).tolist()
    fa.manual_seed(3)
    fa.rand(3)
    assert fa.rand(3).tolist() == b


def test_operator_table():
    table = dict(fa._C._operators())
    assert len(table) > 50 and all(
        schema.startswith(name.rpartition("::")[2].split(".")[0]) for name, schema in table.items()
    )


def test_submodules_load_when_used() -> None:
    for path in ("utils.data.DataLoader", "utils.hooks", "optim.lr_scheduler", "nn.init"):
        code = f"import facula as fa; fa.{path}"
        subprocess.run([sys.executable, "-c", code], check=True)
