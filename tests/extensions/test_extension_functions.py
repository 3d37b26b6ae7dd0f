"""C++ functions that become Python's, and how extensions are built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import facula as fa
import numpy as np
import pytest
from extension_sources import QUICK, path
from facula.utils import cpp_extension
from facula.utils.cpp_extension import _elf, _tools, _wrapper

pytest.importorskip("pybind11")
FUNCTIONS = r"""
#include "scale.h"
using facula::Tensor;

// A kernel of its own: not twice(Tensor) { but this.
Tensor scaled(const Tensor& x, double by = SCALE) {
  Tensor out = facula::make_empty(x.sizes(), x.dtype(), x.device());
  const Tensor* const both[] = {&out, &x};
  facula::visit_floating(x.dtype(), "scaled", [&]<typename T>(std::type_identity<T>) {
    const facula::StridedPlan plan = facula::make_plan(x.sizes(), both);
    facula::for_each_row(plan, [&](char** p, const int64_t* step, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const T value = *reinterpret_cast<T*>(p[1] + i * step[1]);
        *reinterpret_cast<T*>(p[0] + i * step[0]) = static_cast<T>(value * by);
      }
    });
  });
  return out;
}

Tensor cube(const Tensor& x) { return facula::ops::mul(facula::ops::mul(x, x), x); }

Tensor signs(const Tensor& a, const Tensor& b) { return -(a + b * 2 - 1.5 / a) % 3 + (a <= b); }

std::optional<Tensor> sum_of(facula::TensorList tensors,
                             std::optional<Tensor> start = std::nullopt) {
  std::optional<Tensor> sum = start;
  for (const Tensor& t : tensors) sum = sum ? facula::ops::add(*sum, t) : t;
  return sum;
}

std::tuple<facula::DimVector, facula::ScalarType, facula::Device, facula::Scalar> echo(
    facula::IntList sizes, facula::ScalarType dtype, facula::Device device,
    const facula::Scalar& number) {
  FACULA_CHECK(sizes.size() < 4, Value, "echo(): at most 3 sizes, not ", sizes.size());
  return {facula::DimVector(sizes), dtype, device, number};
}

std::vector<Tensor> halves(const Tensor& x, std::vector<int64_t> dims) {
  std::vector<Tensor> found;
  for (const int64_t d : dims) found.push_back(facula::ops::narrow(x, d, 0, x.size(d) / 2));
  return found;
}

namespace deep {
bool same(const Tensor& a, const std::optional<Tensor>& b) { return b && a.is_same(*b); }
}  // namespace deep
"""
NAMES = {
    "scaled": "x times a number.",
    "cube": "",
    "signs": "",
    "sum_of": "",
    "echo": "",
    "halves": "",
    "deep::same": "",
}


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("headers")
    (folder / "scale.h").write_text("#define SCALE 2.0\n")
    return folder


def build(headers: Path) -> ModuleType:
    return cpp_extension.load_inline(
        "functions", FUNCTIONS, functions=NAMES, extra_cflags=QUICK, extra_include_paths=[headers]
    )


@pytest.fixture(scope="module")
def functions(cache: Path, headers: Path) -> ModuleType:
    return build(headers)


# ---- functions ----


def test_a_kernel_of_ones_own(functions: ModuleType) -> None:
    a = np.random.default_rng(0).standard_normal((5, 7))
    x = fa.tensor(a)
    np.testing.assert_array_equal(functions.scaled(x).numpy(), a * 2)
    np.testing.assert_array_equal(functions.scaled(x.t(), by=3).numpy(), a.T * 3)
    half = functions.scaled(x=x.to(fa.float32), by=0.5)
    assert half.dtype == fa.float32
    np.testing.assert_array_equal(half.numpy(), a.astype(np.float32) / 2)
    big = fa.arange(300_000, dtype=fa.float64)
    np.testing.assert_array_equal(functions.scaled(big).numpy(), np.arange(300_000) * 2.0)
    assert "x times a number." in functions.scaled.__doc__
    with pytest.raises(NotImplementedError, match="scaled\\(\\): not implemented for int64"):
        functions.scaled(fa.arange(3))


def test_gradients_go_through_operators(functions: ModuleType) -> None:
    x = fa.tensor([1.0, -2.0, 3.0], requires_grad=True)
    functions.cube(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0, 27.0]


def test_signs_mean_what_they_do_in_python(functions: ModuleType) -> None:
    for dtype in (fa.float64, fa.float32, fa.float16):
        a, b = fa.tensor([1.0, 2.0, -3.0], dtype=dtype), fa.tensor([0.5, 4.0, 2.0], dtype=dtype)
        want = -(a + b * 2 - 1.5 / a) % 3 + (a <= b)
        got = functions.signs(a, b)
        assert got.dtype == dtype and got.tolist() == want.tolist()


def test_lists_and_absent_tensors(functions: ModuleType) -> None:
    parts = [fa.tensor([1.0]), fa.tensor([2.0])]
    assert functions.sum_of(parts).tolist() == [3.0]
    assert functions.sum_of(tuple(parts), start=fa.tensor([10.0])).tolist() == [13.0]
    assert functions.sum_of([]) is None
    assert functions.same(parts[0], parts[0]) and not functions.same(parts[0], None)
    assert [t.shape for t in functions.halves(fa.ones(4, 6), [0, 1])] == [(2, 6), (4, 3)]


def test_small_types(functions: ModuleType) -> None:
    given = (fa.Size([2, 3]), fa.int16, fa.device("cpu"), 3)
    sizes, dtype, device, number = functions.echo(*given)
    assert (sizes, dtype, number) == given[:2] + given[3:] and device.type == "cpu"
    assert isinstance(sizes, fa.Size) and type(number) is int
    assert functions.echo([], fa.bool, "meta", 2j)[2:] == (fa.device("meta"), 2j)
    assert functions.echo([], fa.bool, "cpu", True)[3] is True


def test_errors_are_pythons(functions: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"echo\(\): at most 3 sizes, not 4"):
        functions.echo([1, 2, 3, 4], fa.bool, "cpu", 1)
    with pytest.raises(RuntimeError, match="no_such_device"):
        functions.echo([], fa.bool, "no_such_device", 1)
    with pytest.raises(TypeError, match=r"x: facula\.Tensor"):
        functions.cube([1.0])
    with pytest.raises(TypeError):
        functions.same(None, None)
    with pytest.raises(IndexError):
        functions.halves(fa.ones(2), [3])


def test_the_same_tensor_comes_back(functions: ModuleType) -> None:
    x = fa.ones(2)
    assert functions.sum_of([x]) is x


# ---- building ----


def test_nothing_is_built_twice(
    functions: ModuleType, headers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_tools, "run", lambda *_: pytest.fail("the compiler was called"))
    assert build(headers) is functions
    monkeypatch.setattr(cpp_extension, "_loaded", {})  # as in another process
    monkeypatch.delitem(sys.modules, "functions")
    assert build(headers).cube(fa.tensor(2.0)).item() == 8


def test_a_change_of_a_header_is_seen(functions: ModuleType, headers: Path, cache: Path) -> None:
    (headers / "scale.h").write_text("#define SCALE 5.0\n")
    try:
        fresh = build(headers)
        assert fresh.scaled(fa.tensor(1.0)).item() == 5
        assert functions.scaled(fa.tensor(1.0)).item() == 2
        assert len(list(cache.glob("extensions/functions-*/*.so"))) == 1
    finally:
        (headers / "scale.h").write_text("#define SCALE 2.0\n")


def test_all_that_the_compiler_says(cache: Path) -> None:
    text = "int first() { return no_such_name; }\nint second() { return 1 +; }"
    with pytest.raises(cpp_extension.BuildError) as caught:
        cpp_extension.load_inline("broken", text, functions="second", extra_cflags=QUICK)
    said = str(caught.value)
    assert "broken:1:" in said and "no_such_name" in said and "broken:2:" in said


def test_a_runtime_of_its_own_is_refused(cache: Path) -> None:
    """Exceptions could not pass to facula, and the process would end."""
    flags = ["-static-libstdc++"]
    with pytest.raises(cpp_extension.BuildError, match=r"would not share a C\+\+ runtime"):
        cpp_extension.load_inline(
            "alone",
            "int one() { return 1; }",
            functions="one",
            extra_cflags=QUICK,
            extra_ldflags=flags,
        )


def test_what_is_missing_is_named(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "int one() { return 1; }"
    with pytest.raises(NotImplementedError, match="cuda_sources"):
        cpp_extension.load_inline("absent", source, cuda_sources="x", functions="one")
    with pytest.raises(ValueError, match="'two' is defined in none of"):
        cpp_extension.load_inline("absent", source, functions="two")
    with pytest.raises(ValueError, match="FACULA_EXTENSION"):
        cpp_extension.load_inline("absent", source)
    with pytest.raises(ValueError, match="no name of a module"):
        cpp_extension.load_inline("a-b", source, functions="one")
    with pytest.raises(ValueError, match="'json' is imported already"):
        cpp_extension.load_inline("json", source, functions="one")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.cpp"):
        cpp_extension.load("absent", tmp_path / "nowhere.cpp")
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(RuntimeError, match=r"needs a C\+\+ compiler.*/no/such/compiler"):
        cpp_extension.load_inline("absent", source, functions="one")
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="install one"):
        cpp_extension.load_inline("absent", source, functions="one")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"facula\[extension\]"):
        cpp_extension.load_inline("absent", source, functions="one")


def test_processes_share_one_build(tmp_path: Path) -> None:
    """Both wait for the one that compiles; verbose shows which commands ran."""
    code = (
        "from facula.utils import cpp_extension as c; import facula; "
        "m = c.load('shared', 'shared.cpp', verbose=True, extra_cflags=['-O0']); "
        "print('value', m.value())"
    )
    # no pybind11, which takes the longest
    (tmp_path / "shared.cpp").write_text(
        '#include "facula/module.h"\n'
        "static PyObject* value(PyObject*, PyObject*) { return PyLong_FromLong(7); }\n"
        'static PyMethodDef defs[] = {{"value", value, METH_NOARGS, nullptr}, {}};\n'
        'static PyModuleDef def = {PyModuleDef_HEAD_INIT, "shared", nullptr, -1, defs};\n'
        'PyMODINIT_FUNC PyInit_shared() { return facula::extension::fits("shared") ? '
        "PyModule_Create(&def) : nullptr; }\n"
    )
    env = {**os.environ, "FACULA_CACHE": str(tmp_path / "cache"), "PYTHONPATH": path()}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=tmp_path, env=env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]  # fmt: skip
    said = [(*r.communicate(), r.returncode) for r in runs]
    assert [s[2] for s in said] == [0, 0, 0], said
    assert all(s[0].endswith("value 7\n") for s in said)
    assert sum(s[0].count(" -c ") for s in said) == 1


def test_another_facula_is_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a function has gone since, of which the loader would speak first."""
    (tmp_path / "facula").mkdir()
    (tmp_path / "facula" / "abi.h").write_text('#define FACULA_ABI "0.0.9-0123456789ab"\n')
    source = (
        '#include "facula/module.h"\n#include "runtime/core/error.h"\n'
        "namespace facula { FACULA_API int gone_since_then(); }\n"
        "int use() { return facula::gone_since_then(); }\n"
        'static PyModuleDef def = {PyModuleDef_HEAD_INIT, "older"};\n'
        'PyMODINIT_FUNC PyInit_older() { return facula::extension::fits("older") && use() ? '
        "PyModule_Create(&def) : nullptr; }\n"
    )
    (tmp_path / "older.cpp").write_text(source)

    def load() -> ModuleType:
        return cpp_extension.load(
            "older", tmp_path / "older.cpp", extra_include_paths=[tmp_path], extra_cflags=QUICK
        )

    with pytest.raises(cpp_extension.BuildError, match="facula::gone_since_then"):
        load()
    monkeypatch.setattr(_elf, "missing", lambda *_: [])
    wanted = rf"older was built for facula 0\.0\.9-0123456789ab, and this is facula {_tools.abi()}"
    with pytest.raises(ImportError, match=wanted + "; build it again"):
        load()


def test_headers_name_nothing_that_is_not_there() -> None:
    """What headers of extensions declare for all to call, the module has."""
    given = {s.name for s in _elf.symbols(_tools.CORE) if s.defined}
    assert len(given) > 250
    text = "\n".join(f"{s}" for s in given)
    for name in ("add_edge", "make_plan", "to_tensor_list", "operator_form", "pointwise_out"):
        assert re.search(rf"_ZN6facula\w*{len(name)}{name}", text), name


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("int f() { return 0; }", []),
        ("int f(int);\nint f(int a) { return a; }", [("int", "a", "")]),
        ("// f(x) {\nauto f(const T& x, A<int, 2> y = {1, 2}) -> int {", [
            ("const T&", "x", ""), ("A<int, 2>", "y", "{1, 2}"),
        ]),
        ('void f(std::string_view s = ", (", double* p=nullptr) noexcept {', [
            ("std::string_view", "s", '", ("'), ("double*", "p", "nullptr"),
        ]),
        ("int g() { return f(1); }", None),
        ("int g() { if (f(1)) { } }", None),
        ("int f(int) { return 0; }", [("int", "", "")]),
    ],
)  # fmt: skip
def test_parameters_are_read(text: str, wanted: list[tuple[str, str, str]] | None) -> None:
    found = _wrapper.parameters(text, "f")
    assert found == (wanted and [_wrapper.Parameter(*w) for w in wanted])
