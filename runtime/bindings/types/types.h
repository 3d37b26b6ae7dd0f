// The runtime's Python types, and helpers shared by the files of this folder.
#pragma once

#include <memory>

#include "runtime/autograd/node.h"
#include "runtime/bindings/arguments/arguments.h"
#include "runtime/bindings/types/free_threading.h"
#include "runtime/core/in_call.h"

namespace facula::python {

// ---- Tensor ----
// While Python holds the object it owns one reference to the TensorImpl. When Python lets go first,
// the TensorImpl owns the object instead (owns_pyobject) and `tensor` is a borrowed pointer, so that
// attributes, subclass and identity live as long as the tensor does.
struct TensorObject {
  PyObject_HEAD Tensor tensor;
  PyObject* dict;
  PyObject* weakrefs;
  bool tracked;     // by track(), or from the start as an object of a subclass
  uint32_t vertex;  // in the search for cycles that goes on, 0 if none; see cycles.h
};
inline TensorObject* as_tensor_object(PyObject* o) { return reinterpret_cast<TensorObject*>(o); }
inline const Tensor& tensor_of(PyObject* o) { return as_tensor_object(o)->tensor; }
// What `fn` makes of a tensor, which no other thread changes meanwhile.
template <typename F>
PyObject* read(PyObject* self, const F& fn) {
  FACULA_PY_TRY
  const Tensor& t = tensor_of(self);
  const InCall in_call(t);
  return fn(t);
  FACULA_PY_END(nullptr)
}
// Makes the object known to Python's garbage collector: once it holds Python objects (attributes, hooks), of
// which a cycle may come. Plain tensors stay unknown to it, which keeps them cheap.
void track(PyObject* tensor);
// A new object of `type` (a subtype of Tensor) for a tensor that has none yet.
PyObject* wrap_as(PyTypeObject* type, Tensor t);

// ---- subclasses ----
// Whether there was an object of a subclass whose operations give objects of the class: results are looked after
// from then on.
extern FACULA_API Flag subclasses_in_use;
void note_subclass(PyTypeObject* type);
// `result` (stolen, may be null) as the classes of what was given have it.
FACULA_API PyObject* in_class_of_slots(const FunctionSpec& spec, PyObject* const* slots, PyObject* result);
PyObject* in_class_of_object(PyObject* self, PyObject* result);
inline PyObject* in_class_of(const FunctionSpec& spec, PyObject* const* slots, PyObject* result) {
  return subclasses_in_use ? in_class_of_slots(spec, slots, result) : result;
}
inline PyObject* in_class_of(PyObject* self, PyObject* result) {
  return subclasses_in_use ? in_class_of_object(self, result) : result;
}
// The Python object of a node of the backward graph.
struct NodeObject {
  PyObject_HEAD intrusive_ptr<Node> node;
  uint32_t vertex;  // as of a TensorObject
};

// ---- small types ----
// The package in the texts of dtypes, sizes and types of tensors: "facula", or "torch" for programs written for that.
extern FACULA_API const char* spoken_name;
extern FACULA_API PyTypeObject* dtype_type;
extern FACULA_API PyTypeObject* device_type;
extern PyTypeObject* size_type;
extern FACULA_API PyTypeObject* generator_type;
extern FACULA_API PyTypeObject* memory_format_type;
extern PyTypeObject* layout_type;
extern PyTypeObject* node_type;
FACULA_API ScalarType dtype_value(PyObject* o);  // of a facula.dtype
PyObject* dtype_object(ScalarType t);            // borrowed
FACULA_API PyObject* wrap(Device d);
FACULA_API Device device_value(PyObject* o);
FACULA_API MemoryFormat memory_format_value(PyObject* o);
FACULA_API PyObject* wrap(const Generator& g);
FACULA_API const Generator& generator_value(PyObject* o);
PyObject* wrap(const intrusive_ptr<Node>& node);  // None for null
PyObject* strided_layout();                       // borrowed
PyObject* wrap_storage(const Storage& s);
// A copy of the memory, one for each in a memo of copy.deepcopy().
Storage deep_copy(const Storage& s, PyObject* memo);

const char* abi_stamp();  // of extensions that fit

// Each adds its types or functions to the module; false with the Python error set.
bool init_tensor_type(PyObject* module);
bool init_dtype_types(PyObject* module);
bool init_device_type(PyObject* module);
bool init_size_type(PyObject* module);
bool init_generator_type(PyObject* module);
bool init_storage_type(PyObject* module);
bool init_node_type(PyObject* module);
bool init_return_types(PyObject* module);
bool init_errors(PyObject* module);
bool init_module_base(PyObject* module);
void init_state();
void init_user_lines();
bool init_leave();
bool init_cycles(PyObject* module);

// Method and property tables of Tensor, ended by an empty entry.
extern const PyMethodDef tensor_methods[];
extern const PyMethodDef tensor_data_methods[];
extern const PyMethodDef tensor_copy_methods[];
extern const PyMethodDef tensor_autograd_methods[];
extern const PyMethodDef exchange_methods[];
extern const PyGetSetDef tensor_properties[];
extern const PyGetSetDef exchange_properties[];
// Module functions.
extern const PyMethodDef creation_functions[];
extern const PyMethodDef copy_functions[];
extern const PyMethodDef storage_functions[];
extern const PyMethodDef exchange_functions[];
extern const PyMethodDef autograd_functions[];
extern const PyMethodDef function_functions[];
extern const PyMethodDef state_functions[];
extern const PyMethodDef user_line_functions[];
extern const PyMethodDef autocast_functions[];
extern const PyMethodDef default_device_functions[];
extern const PyMethodDef level_functions[];
extern const PyMethodDef pickle_functions[];
extern const PyMethodDef archive_functions[];
extern const PyMethodDef view_functions[];

// ---- errors and references ----
// Thrown when a call to Python failed; carries the Python exception across C++ frames.
class PythonError final : public std::exception {
 public:
  PythonError();  // takes the current Python error
  void restore() const noexcept;
  const char* what() const noexcept override { return "Python exception"; }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// An owned reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* o) : o_(o) {}
  static Ref borrow(PyObject* o) {
    Py_XINCREF(o);
    return Ref(o);
  }
  Ref(Ref&& o) noexcept : o_(o.release()) {}
  Ref& operator=(Ref&& o) noexcept {
    std::swap(o_, o.o_);
    return *this;
  }
  ~Ref() { Py_XDECREF(o_); }
  PyObject* get() const { return o_; }
  PyObject* release() { return std::exchange(o_, nullptr); }
  explicit operator bool() const { return o_ != nullptr; }

 private:
  PyObject* o_ = nullptr;
};

// What a dict has for a key; null where it has nothing, and with the Python error set where asking failed.
inline Ref dict_item(PyObject* dict, PyObject* key) {
#ifdef Py_GIL_DISABLED
  PyObject* found = nullptr;
  PyDict_GetItemRef(dict, key, &found);
  return Ref(found);
#else
  return Ref::borrow(PyDict_GetItemWithError(dict, key));
#endif
}

// For results of the C API: null means a Python error.
inline PyObject* check(PyObject* o) {
  if (o == nullptr) [[unlikely]]
    throw PythonError();
  return o;
}
inline void check(int status) {
  if (status < 0) [[unlikely]]
    throw PythonError();
}

// The items of a list or tuple, borrowed. Without Python's lock another thread may change a list: then those that it
// had when this was made.
class ItemsOf {
 public:
#ifdef Py_GIL_DISABLED
  explicit ItemsOf(PyObject* o) : held_(PyList_Check(o) ? check(PyList_AsTuple(o)) : Py_NewRef(o)), o_(held_.get()) {}
#else
  explicit ItemsOf(PyObject* o) : o_(o) {}
#endif
  Py_ssize_t size() const { return PySequence_Fast_GET_SIZE(o_); }
  PyObject* operator[](Py_ssize_t i) const { return PySequence_Fast_GET_ITEM(o_, i); }

 private:
#ifdef Py_GIL_DISABLED
  Ref held_;
#endif
  PyObject* o_;
};

// PyGILState_Ensure for a thread that may have outlived the interpreter: then it waits for the process to end.
PyGILState_STATE ensure_gil() noexcept;

class AcquireGil {
 public:
  AcquireGil() : state_(ensure_gil()) {}
  ~AcquireGil() { PyGILState_Release(state_); }
  AcquireGil(const AcquireGil&) = delete;
  AcquireGil& operator=(const AcquireGil&) = delete;

 private:
  PyGILState_STATE state_;
};
// False when the interpreter is going down: then C++ must leave Python objects alone.
bool interpreter_alive();

// The current Python exception as an object, cleared; and back.
Ref take_exception();
void raise_again(PyObject* exception);

// Attribute of a module, imported on first use.
Ref import_attribute(const char* module, const char* name);

// Creates a heap type and adds it to the module under the last part of its name.
PyTypeObject* add_type(PyObject* module, PyType_Spec* spec, PyObject* bases = nullptr);

// ---- numbers ----
enum class NumberKind : uint8_t { None, Bool, Int, Float, Complex };
// Python numbers and whatever acts like one (NumPy scalars, say); not tensors, not sequences.
FACULA_API NumberKind number_kind(PyObject* o);
FACULA_API Scalar number_value(PyObject* o, NumberKind kind);  // throws PythonError
// The one element of `t`, which may be on any device; `who` names the caller in errors.
Scalar item_of(const Tensor& t, const char* who);
PyObject* element_object(const void* p, ScalarType t);
// Detached and in CPU memory.
Tensor to_cpu(const Tensor& t);

// ---- Python data -> tensors ----
struct DataOptions {
  std::optional<ScalarType> dtype;
  std::optional<Device> device;
  std::optional<bool> copy;  // unset: only if needed
};
// Numbers, nested sequences, arrays, tensors. Never requires grad.
Tensor tensor_from_data(const char* who, PyObject* data, const DataOptions& options);
// What stands beside a tensor in `a + b`: a tensor or a number, NumPy's scalars among them.
inline bool is_operand(PyObject* o) {
  return is_tensor(o) || PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o) ||
         (PyNumber_Check(o) && !PyObject_HasAttrString(o, "__len__"));
}
// An operand, NumPy's arrays as tensors; null for what Python is to ask the other side about.
Ref array_operand(const char* who, PyObject* o);
// Zero-copy from an object with the buffer protocol, __array_interface__ or DLPack; nullopt when it
// has none of them.
std::optional<Tensor> tensor_from_exchange(const char* who, PyObject* o);
Tensor from_dlpack(PyObject* o, std::optional<bool> copy);
// The dtype of a NumPy scalar, say; nullopt without a buffer or for a type that we lack.
std::optional<ScalarType> buffer_dtype(PyObject* o);

int tensor_getbuffer(PyObject* self, Py_buffer* view, int flags);
void tensor_releasebuffer(PyObject* self, Py_buffer* view);

void init_saved_hooks();

// Memory of an object of Python's, a reference to which is taken.
Storage storage_of(Ref owner, void* data, size_t bytes, bool read_only);
// The object whose memory it is, if that may hold others; null if not.
PyObject* leading_owner(const StorageImpl& s);

// ---- mapping slots ----
PyObject* tensor_subscript(PyObject* self, PyObject* key);
int tensor_ass_subscript(PyObject* self, PyObject* key, PyObject* value);
PyObject* tensor_sq_item(PyObject* self, Py_ssize_t i);
Py_ssize_t tensor_length(PyObject* self);

// ---- methods that other files call ----
PyObject* tensor_item(PyObject* self, PyObject*);
PyObject* tensor_iter(PyObject* self);
PyObject* tensor_repr(PyObject* self);

}  // namespace facula::python
