// Sorting the arguments of a call into the slots of a signature.
#include "runtime/bindings/arguments/arguments.h"

#include <string>

#include "runtime/bindings/arguments/checks.h"
#include "runtime/bindings/types/types.h"

namespace facula::python {

namespace {

std::atomic_ref<PyObject*> keyword_of(const FunctionSpec& f, Py_ssize_t i) {
  return std::atomic_ref<PyObject*>(f.keywords[i]);
}

bool intern_keywords(const FunctionSpec& f) {
  const auto n = static_cast<Py_ssize_t>(f.params.size());
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* const name = PyUnicode_InternFromString(f.params[static_cast<size_t>(i)].name);
    if (name == nullptr) return false;
    keyword_of(f, i).store(name, std::memory_order_release);
  }
  return true;
}

struct Synonym {
  const char* given;
  const char* declared;
};
// Array API and NumPy spellings that torch takes as well.
constexpr Synonym kSynonyms[] = {
    {"input", "self"}, {"self", "input"},       {"x", "self"},           {"x", "input"},   {"x1", "self"},
    {"x1", "input"},   {"x2", "other"},         {"axis", "dim"},         {"axis", "dims"}, {"axes", "dims"},
    {"dim", "axis"},   {"keepdims", "keepdim"}, {"keepdim", "keepdims"},
};

// The parameter that a keyword names, or -1.
Py_ssize_t find_keyword(const FunctionSpec& f, PyObject* keyword) {
  const auto n = static_cast<Py_ssize_t>(f.params.size());
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (keyword_of(f, i).load(std::memory_order_relaxed) == keyword) return i;
  }
  const char* text = PyUnicode_AsUTF8(keyword);
  if (text == nullptr) {
    PyErr_Clear();
    return -1;
  }
  const std::string_view name(text);
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (name == f.params[i].name) return i;
  }
  for (const Synonym& s : kSynonyms) {
    if (name != s.given) continue;
    for (Py_ssize_t i = 0; i < n; ++i) {
      if (std::string_view(s.declared) == f.params[i].name) return i;
    }
  }
  return -1;
}

Py_ssize_t count_positional(const FunctionSpec& f) {
  Py_ssize_t n = 0;
  for (const ParamSpec& p : f.params) n += !p.keyword_only;
  return n;
}

[[noreturn]] __attribute__((cold, noinline)) void error_too_many(const FunctionSpec& f, Py_ssize_t given,
                                                                 bool bound_self) {
  const Py_ssize_t most = count_positional(f) - bound_self;
  raise(ErrorKind::Type, Operator{f.name}, "takes at most ", most, " positional argument", most == 1 ? "" : "s",
        ", but ", given, given == 1 ? " was" : " were", " given\n  signature: ", f.signature);
}

[[noreturn]] __attribute__((cold, noinline)) void error_missing(const FunctionSpec& f, size_t i) {
  raise(ErrorKind::Type, Operator{f.name}, "missing required argument '", Argument{f.params[i].name},
        "'\n  signature: ", f.signature);
}

[[noreturn]] __attribute__((cold, noinline)) void error_keyword(const FunctionSpec& f, PyObject* keyword,
                                                                const char* problem) {
  const char* name = PyUnicode_AsUTF8(keyword);
  if (name == nullptr) throw PythonError();
  raise(ErrorKind::Type, Operator{f.name}, "got ", problem, " '", Argument{name}, "'\n  signature: ", f.signature);
}

// Does f(2, 3) start here, rather than f((2, 3))?
bool starts_varargs(PyObject* o) {
  return PyLong_Check(o) || (!PyTuple_Check(o) && !PyList_Check(o) && PyIndex_Check(o) != 0);
}

template <bool kQuiet>
bool bind_slots(const FunctionSpec& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                PyObject** slots) {
  const ParamSpec* params = f.params.data();
  const auto n = static_cast<Py_ssize_t>(f.params.size());
  Py_ssize_t filled = 0;
  if (self != nullptr) slots[filled++] = self;

  for (Py_ssize_t a = 0; a < nargs; ++a, ++filled) {
    if (filled >= n || params[filled].keyword_only) [[unlikely]] {
      if constexpr (!kQuiet) error_too_many(f, nargs, self != nullptr);
      return false;
    }
    PyObject* o = args[a];
    const ParamSpec& p = params[filled];
    if (p.varargs && starts_varargs(o)) {
      slots[filled++] = mark_varargs(slots + n, args + a, nargs - a);
      break;
    }
    slots[filled] = o == Py_None && p.optional ? nullptr : o;
  }
  for (Py_ssize_t i = filled; i < n; ++i) slots[i] = nullptr;

  if (kwnames != nullptr) [[unlikely]] {
    if (n > 0 && keyword_of(f, n - 1).load(std::memory_order_acquire) == nullptr && !intern_keywords(f)) return false;
    const Py_ssize_t count = PyTuple_GET_SIZE(kwnames);
    for (Py_ssize_t k = 0; k < count; ++k) {
      PyObject* keyword = PyTuple_GET_ITEM(kwnames, k);
      const Py_ssize_t i = find_keyword(f, keyword);
      if (i < 0) {
        if constexpr (!kQuiet) error_keyword(f, keyword, "an unexpected keyword argument");
        return false;
      }
      if (i < filled || slots[i] != nullptr) {
        if constexpr (!kQuiet) error_keyword(f, keyword, "more than one value for argument");
        return false;
      }
      PyObject* o = args[nargs + k];
      slots[i] = o == Py_None && params[i].optional && !params[i].required ? nullptr : o;
    }
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (slots[i] == nullptr) {
      if (i >= filled && params[i].required) [[unlikely]] {
        if constexpr (!kQuiet) error_missing(f, static_cast<size_t>(i));
        return false;
      }
    } else if (slots[i] == Py_None && params[i].optional) {
      slots[i] = nullptr;  // given as None where a value is required but may be None
    }
  }
  return true;
}

bool is_number(ArgType type) {
  return type == ArgType::Scalar || type == ArgType::Float || type == ArgType::Int || type == ArgType::Bool;
}

}  // namespace

bool bind(const FunctionSpec& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
          PyObject** slots) {
  return bind_slots<false>(f, self, args, nargs, kwnames, slots);
}

bool matches(const FunctionSpec& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
             PyObject** slots, bool exactly) {
  if (!bind_slots<true>(f, self, args, nargs, kwnames, slots)) return false;
  for (size_t i = 0; i < f.params.size(); ++i) {
    if (slots[i] == nullptr) continue;
    if (!fits(f, i, slots[i])) return false;
    if (exactly && is_number(f.params[i].type) && !is_varargs(slots[i]) && is_tensor(slots[i])) return false;
  }
  return true;
}

void raise_no_overload(std::span<const FunctionSpec* const> candidates, PyObject* self, PyObject* const* args,
                       Py_ssize_t nargs, PyObject* kwnames) {
  PyErr_Clear();
  std::string given, signatures;
  const auto add = [&](const std::string& what) { given += concat(given.empty() ? "" : ", ", what); };
  if (self != nullptr) add(type_text(self));
  for (Py_ssize_t i = 0; i < nargs; ++i) add(type_text(args[i]));
  for (Py_ssize_t k = 0; kwnames != nullptr && k < PyTuple_GET_SIZE(kwnames); ++k) {
    const char* keyword = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, k));
    if (keyword == nullptr) PyErr_Clear();
    add(concat(keyword != nullptr ? keyword : "?", "=", type_text(args[nargs + k])));
  }
  for (const FunctionSpec* f : candidates) signatures += concat("\n  ", f->signature);
  raise(ErrorKind::Type, Operator{candidates.empty() ? "call" : candidates[0]->name}, "no signature takes (", given,
        "); there are:", signatures);
}

}  // namespace facula::python
