// Lines of the user's program, for messages: where an operation was called, and what wrote to a saved tensor.
#include "runtime/bindings/arguments/arguments.h"
#include "runtime/bindings/types/types.h"

#include <frameobject.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "runtime/dispatch/core_operators.h"
#include "runtime/dispatch/stub.h"

namespace facula::python {

namespace {

// The folder of the package, with a separator behind; empty as long as it is being imported.
const std::string& package_folder() {
  static std::atomic<const std::string*> known{nullptr};
  static const std::string unknown;
  if (const std::string* found = known.load(std::memory_order_acquire)) return *found;
  const Ref name(PyUnicode_FromString("facula"));
  const Ref module(name ? PyImport_GetModule(name.get()) : nullptr);
  const Ref file(module ? PyObject_GetAttrString(module.get(), "__file__") : nullptr);
  const char* text = file ? PyUnicode_AsUTF8(file.get()) : nullptr;
  PyErr_Clear();
  if (text == nullptr) return unknown;
  // No lock is held while Python runs: of two threads one wins, and both have the same text.
  const auto* made = new std::string(text, std::string_view(text).rfind("__init__"));
  const std::string* before = nullptr;
  if (known.compare_exchange_strong(before, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *before;
}

// Of programs, rather than of this package and what it makes; its examples are programs.
bool is_of_user(std::string_view file) {
  const std::string& here = package_folder();
  if (file.starts_with("<facula.")) return false;
  return here.empty() || !file.starts_with(here) || file.substr(here.size()).starts_with("examples");
}

// Of code, which keeps the text; null if it has none.
const char* file_of(PyObject* code) {
  const Ref file(PyObject_GetAttrString(code, "co_filename"));
  const char* text = file ? PyUnicode_AsUTF8(file.get()) : nullptr;
  PyErr_Clear();
  return text;
}

// fn(frame, file) for the innermost frame of Python that is the user's; whether there is one.
template <typename F>
bool at_user_frame(const F& fn) {
  Ref frame(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  Py_XINCREF(frame.get());
  while (frame) {
    auto* f = reinterpret_cast<PyFrameObject*>(frame.get());
    const Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(f)));
    const char* text = file_of(code.get());
    if (text != nullptr && is_of_user(text)) {
      fn(f, text);
      return true;
    }
    frame = Ref(reinterpret_cast<PyObject*>(PyFrame_GetBack(f)));
  }
  return false;
}

// "file.py:12", for messages.
std::string caller_location() {
  if (!interpreter_alive()) return {};
  AcquireGil gil;
  std::string found;
  at_user_frame(
      [&](PyFrameObject* frame, const char* file) { found = concat(file, ":", PyFrame_GetLineNumber(frame)); });
  return found;
}

// ---- who writes ----

int last_instruction(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  return frame->f_lasti;
#endif
}

// A place in a program, and what writes there. The code is held as long as its entry stands.
struct Place {
  PyObject* code;
  int instruction;
  const char *op, *form;
  bool operator==(const Place&) const = default;
};
struct PlaceHash {
  size_t operator()(const Place& p) const {
    const auto mix = [](size_t h, size_t v) { return (h ^ v) * 0x9E3779B97F4A7C15u; };
    return mix(mix(mix(reinterpret_cast<uintptr_t>(p.code), static_cast<size_t>(p.instruction)),
                   reinterpret_cast<uintptr_t>(p.op)),
               reinterpret_cast<uintptr_t>(p.form));
  }
};

// What is known of programs' code. Texts are never freed: storages keep their addresses.
class Places {
 public:
  enum class Kind : uint8_t { Unknown, Known, OfPackage };
  struct Found {
    Kind kind = Kind::Unknown;
    const char* text = nullptr;
  };
  Found find(const Place& place) {
    std::lock_guard lock(mutex_);
    if (const auto found = texts_.find(place); found != texts_.end()) return {Kind::Known, found->second};
    return {texts_.contains(whole(place.code)) ? Kind::OfPackage : Kind::Unknown, nullptr};
  }
  const char* add(const Place& place, const std::string& where) {
    const char* text = intern(concat(place.op, place.form, " at ", where));
    keep(place, text);
    return text;
  }
  void add_of_package(PyObject* code) { keep(whole(code), nullptr); }
  const char* intern(std::string text) {
    std::lock_guard lock(mutex_);
    if (interned_.size() >= kMostTexts) text.resize(std::min(text.find(' '), text.size()));
    return interned_.insert(std::move(text)).first->c_str();
  }

 private:
  static constexpr size_t kMost = 1 << 12, kMostTexts = 1 << 16;
  static Place whole(PyObject* code) { return {code, -1, nullptr, nullptr}; }
  void keep(const Place& place, const char* text) {
    std::unordered_map<Place, const char*, PlaceHash> old;  // dropping code may run Python
    {
      std::lock_guard lock(mutex_);
      if (texts_.size() >= kMost) old.swap(texts_);
      if (texts_.emplace(place, text).second) Py_INCREF(place.code);
    }
    for (const auto& [known, unused] : old) Py_DECREF(known.code);
  }
  std::mutex mutex_;
  std::unordered_map<Place, const char*, PlaceHash> texts_;
  std::unordered_set<std::string> interned_;
};
Places& places() {
  static auto* const made = new Places;  // outlives every thread
  return *made;
}

// Of the innermost frame that is the user's; null where there is none.
const char* text_of_frame(WriterName writer) {
  Ref frame = Ref::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* const f = reinterpret_cast<PyFrameObject*>(frame.get());
    const Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(f)));
    const Place place{code.get(), last_instruction(f), writer.op, writer.form};
    const Places::Found found = places().find(place);
    if (found.kind == Places::Kind::Known) return found.text;
    if (found.kind == Places::Kind::Unknown) {
      const char* file = file_of(code.get());
      if (file != nullptr && is_of_user(file)) return places().add(place, concat(file, ":", PyFrame_GetLineNumber(f)));
      places().add_of_package(code.get());
    }
    frame = Ref(reinterpret_cast<PyObject*>(PyFrame_GetBack(f)));
  }
  return nullptr;
}

// A call that has released the GIL takes it again for its first write only: its place stays as it is.
constinit thread_local struct {
  uint64_t release = 0;
  WriterName writer;
  const char* text = nullptr;
} tls_known;

const char* text_with_gil(WriterName writer) {
  const char* text = text_of_frame(writer);
  return text != nullptr ? text : places().intern(concat(writer.op, writer.form));
}

const char* text_of_writer(WriterName writer) {
  if (!interpreter_alive()) return writer.op;
  const char** const shared = OneWrite::text();
  if (shared != nullptr && *shared != nullptr) return *shared;
  const char* text;
  if (PyGILState_Check() != 0) {
    text = text_with_gil(writer);
  } else if (tls_known.release == ReleaseGil::number() && tls_known.writer.op == writer.op &&
             tls_known.writer.form == writer.form) {
    text = tls_known.text;
  } else {
    AcquireGil gil;
    text = text_with_gil(writer);
    tls_known = {ReleaseGil::number(), writer, text};
  }
  if (shared != nullptr) *shared = text;
  return text;
}

PyObject* user_line(PyObject*, PyObject*) {
  FACULA_PY_TRY
  std::string file = "<facula>";
  int line = 0;
  at_user_frame([&](PyFrameObject* frame, const char* name) {
    file = name;
    line = PyFrame_GetLineNumber(frame);
  });
  return Py_BuildValue("(s#i)", file.data(), static_cast<Py_ssize_t>(file.size()), line);
  FACULA_PY_END(nullptr)
}

}  // namespace

void init_user_lines() {
  core_operators().location = caller_location;
  detail::name_writer = text_of_writer;
}

const PyMethodDef user_line_functions[] = {
    {"_user_line", user_line, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
