// Python arguments -> C++ values, for functions generated from a signature.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <atomic>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/dispatch/value.h"

namespace facula::python {

enum class ArgType : uint8_t {
  Tensor,
  TensorList,
  OptionalTensorList,
  Int,
  IntList,
  Float,
  Bool,
  BoolList,
  Str,
  Scalar,
  ScalarType,
  Device,
  Generator,
  MemoryFormat,
  Layout,
};

// One argument of a signature, as the generator states it.
struct ParamSpec {
  const char* name;
  ArgType type;
  bool optional = false;  // None allowed
  bool required = true;   // no default
  bool keyword_only = false;
  bool varargs = false;         // int[*]: f(2, 3) as well as f((2, 3))
  bool numbers = false;         // a Tensor argument that takes a Python number too
  uint8_t list_size = 0;        // int[2]: length to check, a single int is repeated
  const char* range = nullptr;  // text of the allowed range, for messages
  double low = 0, high = 0;     // used when range is set
  bool low_open = false, high_open = false;
};

inline constexpr size_t kMaxParams = 24;
inline constexpr size_t kVarargs = 2;  // slots beyond those of the parameters, for f(2, 3)
inline constexpr size_t kMaxSlots = kMaxParams + kVarargs;

struct FunctionSpec {
  const char* name;       // public name, e.g. "add"
  const char* signature;  // for messages and __text_signature__
  std::span<const ParamSpec> params;
  bool internal = false;  // called from Python code of a public name
  // Interned keyword names, filled on first use; by any thread, each with the same.
  mutable PyObject* keywords[kMaxParams] = {};
};

// Sorts positional and keyword arguments into `slots` (null = not given; a given None for an
// optional argument is null too). `self` (may be null) takes the first slot. `input` and `self`,
// `axis` and `dim`, `keepdims` ... are accepted as torch accepts them. Throws an Error of kind Type
// with function, argument and signature; returns false with a Python error set. A slot's value is
// for the converters only: that of f(2, 3) for int[*] is no object but a place in `slots`, which has kVarargs more
// than parameters where one of them takes that.
FACULA_API bool bind(const FunctionSpec& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                     PyObject** slots);

// Overload resolution: binds and checks every given argument's type without converting; returns
// false with no error set when the call does not fit. `exactly`: no tensor stands for a number.
FACULA_API bool matches(const FunctionSpec& f, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames, PyObject** slots, bool exactly);
// Throws what lists what was given and every signature.
[[noreturn]] FACULA_API void raise_no_overload(std::span<const FunctionSpec* const> candidates, PyObject* self,
                                               PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);

// ---- converters; each throws facula::Error naming function and argument ----
// A borrowed reference into the Python object, or into `hold` for numbers.
FACULA_API const Tensor& to_tensor(const FunctionSpec& f, size_t i, PyObject* o, Tensor& hold);
FACULA_API const Tensor& to_optional_tensor(const FunctionSpec& f, size_t i, PyObject* o, Tensor& hold);
FACULA_API std::vector<Tensor> to_tensor_list(const FunctionSpec& f, size_t i, PyObject* o);  // None -> undefined
FACULA_API int64_t to_int(const FunctionSpec& f, size_t i, PyObject* o);
FACULA_API double to_float(const FunctionSpec& f, size_t i, PyObject* o);
FACULA_API bool to_bool(const FunctionSpec& f, size_t i, PyObject* o);
FACULA_API DimVector to_int_list(const FunctionSpec& f, size_t i, PyObject* o);
FACULA_API std::vector<bool> to_bool_list(const FunctionSpec& f, size_t i, PyObject* o);
FACULA_API std::string_view to_str(const FunctionSpec& f, size_t i, PyObject* o);
FACULA_API Scalar to_scalar(const FunctionSpec& f, size_t i, PyObject* o);
FACULA_API ScalarType to_dtype(const FunctionSpec& f, size_t i,
                               PyObject* o);                                // facula.dtype, float, int, bool, complex
FACULA_API Device to_device(const FunctionSpec& f, size_t i, PyObject* o);  // str, facula.device, int
FACULA_API Generator to_generator(const FunctionSpec& f, size_t i, PyObject* o);
FACULA_API MemoryFormat to_memory_format(const FunctionSpec& f, size_t i, PyObject* o);
FACULA_API void to_strided(const FunctionSpec& f, size_t i, PyObject* o);  // a check: there is no other layout

// ---- results: new references ----
FACULA_API PyObject* wrap(Tensor t);                         // the one PyObject of this tensor
FACULA_API PyObject* wrap(const std::vector<Tensor>& list);  // a tuple
FACULA_API PyObject* wrap(bool v);
FACULA_API PyObject* wrap(int64_t v);
FACULA_API PyObject* wrap(double v);
FACULA_API PyObject* wrap(const Scalar& v);
FACULA_API PyObject* wrap(ScalarType t);
FACULA_API PyObject* wrap(IntList sizes);  // facula.Size
// A named tuple type, e.g. facula.return_types.max with fields values and indices.
FACULA_API PyObject* wrap_named(PyTypeObject* type, std::span<Tensor> fields);
FACULA_API PyTypeObject* make_return_type(const char* name, std::span<const char* const> fields);

extern FACULA_API PyTypeObject* tensor_type;
// Objects of subclasses are as large as the class's at least, and what is no tensor seldom is.
inline bool is_tensor(PyObject* o) {
  PyTypeObject* const type = Py_TYPE(o);
  return type == tensor_type ||
         (type->tp_basicsize >= tensor_type->tp_basicsize && PyType_IsSubtype(type, tensor_type) != 0);
}

// Translates the exception in flight to a Python error, whose attributes are its facts. One from
// within the operator `caller` is that operator's, also where one that it is made of raised it.
FACULA_API void set_python_error(const char* caller = nullptr) noexcept;
#define FACULA_PY_TRY try {
#define FACULA_PY_END(failure)            \
  }                                       \
  catch (...) {                           \
    ::facula::python::set_python_error(); \
    return failure;                       \
  }

#define FACULA_PY_END_OF(spec, failure)                                          \
  }                                                                              \
  catch (...) {                                                                  \
    ::facula::python::set_python_error((spec).internal ? nullptr : (spec).name); \
    return failure;                                                              \
  }

// PyEval_RestoreThread for a thread that may have outlived the interpreter: then it waits for the process to end.
FACULA_API void restore_thread(PyThreadState* state) noexcept;

// Releases the GIL for work on tensors large enough to be worth it.
class ReleaseGil {
 public:
  explicit ReleaseGil(bool release = true) {
    if (!release) return;
    ++number_;
    threads_.fetch_add(1, std::memory_order_relaxed);
    state_ = PyEval_SaveThread();
  }
  ~ReleaseGil() {
    if (state_ == nullptr) return;
    restore_thread(state_);
    ++number_;
    threads_.fetch_sub(1, std::memory_order_relaxed);
  }
  // Is a thread within tensors' code, with or without the GIL, that may change graphs meanwhile? To ask with the GIL.
  static bool is_released() { return threads_.load(std::memory_order_relaxed) > 0; }
  // Changes whenever this thread releases it or has it again.
  static uint64_t number() { return number_; }
  static void forget_others() { threads_.store(0, std::memory_order_relaxed); }  // in a forked child
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  FACULA_API static std::atomic<int> threads_;
  FACULA_API static constinit thread_local uint64_t number_ __attribute__((tls_model("initial-exec")));
  PyThreadState* state_ = nullptr;
};
inline constexpr int64_t kReleaseGilNumel = 4096;
extern FACULA_API int64_t release_gil_numel;  // this, unless a test wants it of small tensors too

// ---- what generated code hands to the module ----
enum BinarySlot : uint8_t {
  kAdd,
  kSub,
  kMul,
  kTrueDiv,
  kFloorDiv,
  kMod,
  kPow,
  kMatMul,
  kAnd,
  kOr,
  kXor,
  kLShift,
  kRShift,
  kNumBinarySlots,
};
struct OperatorSlots {
  binaryfunc binary[kNumBinarySlots] = {};
  binaryfunc inplace[kNumBinarySlots] = {};
  PyObject* (*compare[6])(PyObject*, PyObject*) = {};  // Py_LT, LE, EQ, NE, GT, GE
  unaryfunc negative = nullptr, positive = nullptr, invert = nullptr, absolute = nullptr;
};
struct NamespacedMethod {
  const char* path;  // "" for facula itself, "nn.functional", "special", "_ops", ...
  PyMethodDef def;
};
struct GeneratedBindings {
  std::span<const NamespacedMethod> functions;
  std::span<const PyMethodDef> methods;     // of Tensor
  std::span<const PyGetSetDef> properties;  // of Tensor
  OperatorSlots slots;
};
// Defined by generated code.
const GeneratedBindings& generated_bindings();

}  // namespace facula::python
