// facula.Tensor: the Python type, and the one object that each tensor has through its life.
#include "runtime/autograd/meta.h"
#include "runtime/bindings/arguments/overrides.h"
#include "runtime/bindings/autograd/cycles.h"
#include "runtime/bindings/autograd/hooks.h"
#include "runtime/bindings/tensor/compound.h"
#include "runtime/bindings/types/types.h"
#include "runtime/dispatch/core_operators.h"
#include "runtime/iterate/result_type.h"
#include "runtime/iterate/strided.h"

#include <structmember.h>

#include <cstddef>
#include <cstring>

namespace facula::python {

PyTypeObject* tensor_type = nullptr;

namespace {

OperatorSlots operator_slots;

// Memory of dead objects of the exact type. Guarded by Python's lock; without one, Python's allocator has such lists of
// its own for each thread.
constexpr int kMaxFree = kHasGil ? 128 : 0;
[[maybe_unused]] void* free_list[kMaxFree + 1];
int free_count = 0;

TensorObject* allocate(PyTypeObject* type) {
  TensorObject* o;
  if (type == tensor_type) [[likely]] {
    if (kHasGil && free_count > 0) [[likely]] {
      o = reinterpret_cast<TensorObject*>(PyObject_Init(static_cast<PyObject*>(free_list[--free_count]), type));
    } else {
      o = PyObject_GC_New(TensorObject, type);
      if (o == nullptr) throw PythonError();
    }
    o->dict = nullptr;
    o->weakrefs = nullptr;
    o->tracked = false;
    o->vertex = 0;
  } else {
    o = reinterpret_cast<TensorObject*>(check(type->tp_alloc(type, 0)));
    o->tracked = true;
  }
  new (&o->tensor) Tensor();
  allow_try_reference(reinterpret_cast<PyObject*>(o));
  return o;
}

TensorObject* allocate_as(PyTypeObject* type) {
  if (type != tensor_type && !(subclasses_in_use && overrides_in_use)) note_subclass(type);
  return allocate(type);
}

// C++ still holds the tensor: hands the object to it and returns true. False when this was the last. `dead`: the object
// has no reference left, and gets one, the tensor's.
bool give_to_tensor(TensorObject* o, bool dead) {
  TensorImpl* impl = o->tensor.impl();
  if (impl == nullptr || impl->owns_pyobject || impl->use_count() == 1) return false;
  auto* const self = reinterpret_cast<PyObject*>(o);
  bool found = false;  // by a thread, through a weak reference
  {
    const ObjectLock lock(impl);
    if (dead) revive(self);  // first: C++ may let go as soon as it has the object
    impl->owns_pyobject = true;
    if (!impl->drop()) [[likely]] {
      if (!dead) Py_INCREF(self);
      return true;
    }
    // The other holder, on a thread without the GIL, let go in between.
    impl->owns_pyobject = false;
    if (impl->use_count() == 0) impl->retain();
    found = dead && !forsake(self);
  }
  if (found) Py_DECREF(self);
  return found;
}

// Python code took the last C++ reference's place: the object owns its tensor again.
void take_from_tensor(TensorImpl* impl) {
  impl->retain();
  impl->owns_pyobject = false;
  allow_try_reference(impl->pyobject);
}

void tensor_finalize(PyObject* self) {
  // Reached for subclasses, before their __slots__ are cleared, and from the garbage collector; once only,
  // later times are tensor_dealloc's. The caller holds a reference, and another
  // one keeps the object alive.
  // The collector, which has a reference beside the cycle's, knows all holders.
  if (Py_REFCNT(self) > 1 && in_search(as_tensor_object(self)->vertex)) return;
  give_to_tensor(as_tensor_object(self), false);
}

// Called for what the garbage collector knows: objects of subclasses, and others after track(). Within a search for
// cycles all references are known, C++ ones too; else, while C++ holds the tensor too, what hangs off it is in use,
// whatever Python's references say.
bool is_pythons_alone(const TensorObject* o) {
  return !o->tensor.defined() || (!o->tensor.impl()->owns_pyobject && o->tensor.impl()->use_count() == 1);
}
// The node that dies with the tensor, if any: nobody else can reach it, so that it may be read without a lock.
const Node* own_node(const AutogradMeta& meta) {
  const Node* node = meta.grad_fn.get();
  return node != nullptr && node->use_count() == 1 ? node : nullptr;
}
int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  const TensorObject* o = as_tensor_object(self);
  Py_VISIT(Py_TYPE(self));
  if (in_search(o->vertex)) {
    Py_VISIT(o->dict);
    return visit_vertex(o->vertex, visit, arg);
  }
  if (!is_pythons_alone(o)) return 0;
  Py_VISIT(o->dict);
  const AutogradMeta* meta = o->tensor.defined() ? autograd_meta_or_null(o->tensor) : nullptr;
  if (meta == nullptr) return 0;
  if (const int stop = visit_hooks(*meta, visit, arg); stop != 0) return stop;
  const Node* node = own_node(*meta);
  return node != nullptr ? visit_hooks(*node, visit, arg) : 0;
}
int tensor_clear(PyObject* self) {
  TensorObject* o = as_tensor_object(self);
  if (in_search(o->vertex)) {
    if (is_unchanged(o->vertex)) {
      clear_vertex(o->vertex);
      Py_CLEAR(o->dict);
    }
    return 0;
  }
  if (!is_pythons_alone(o)) return 0;
  if (const AutogradMeta* meta = o->tensor.defined() ? autograd_meta_or_null(o->tensor) : nullptr) {
    clear_hooks(*meta);
    if (const Node* node = own_node(*meta)) clear_hooks(*node);
  }
  Py_CLEAR(o->dict);
  return 0;
}

void tensor_dealloc(PyObject* self) {
  TensorObject* o = as_tensor_object(self);
  if (give_to_tensor(o, true)) return;  // alive again
  PyTypeObject* type = Py_TYPE(self);
  const bool tracked = o->tracked || type != tensor_type;  // the latter after `x.__class__ = ...`
  if (tracked) [[unlikely]]
    PyObject_GC_UnTrack(self);
  if (o->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  if (TensorImpl* impl = o->tensor.impl(); impl != nullptr) impl->pyobject = nullptr;
  o->tensor.~Tensor();
  Py_CLEAR(o->dict);
  // The collector keeps a mark in memory that it has seen.
  if (!tracked && free_count < kMaxFree) {
    free_list[free_count++] = self;
  } else {
    type->tp_free(self);
  }
  Py_DECREF(type);
}

// What core calls, possibly without the GIL, when the last C++ reference to a tensor that owns its
// object goes. The object takes the tensor over; it dies at once unless Python holds it (by a weak
// reference made strong).
void release_from_core(PyObject* self) {
  if (!interpreter_alive()) return;  // the process ends: leave it
  AcquireGil gil;
  TensorImpl* impl = as_tensor_object(self)->tensor.impl();
  {
    const ObjectLock lock(impl);
    if (impl->use_count() == 0) impl->retain();
    impl->owns_pyobject = false;
    allow_try_reference(self);
  }
  Py_DECREF(self);
}

// Tensor(), Tensor(2, 3), Tensor([1., 2.]), Tensor(other): torch's old constructor, default dtype.
PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  FACULA_PY_TRY
  FACULA_CHECK(kwargs == nullptr || PyDict_GET_SIZE(kwargs) == 0, Type, Operator{"Tensor"},
               "takes no keyword arguments; use facula.tensor(data, dtype=..., device=...)");
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  if (n == 1) {
    PyObject* data = PyTuple_GET_ITEM(args, 0);
    if (is_tensor(data)) {
      const Tensor& t = tensor_of(data);
      return wrap_as(type, t.is_wrapped() ? detach(t) : alias(t, t.sizes(), t.strides(), t.offset(), false));
    }
    if (PyObject_TypeCheck(data, size_type)) {
      args = data;
    } else if (!PyLong_Check(data)) {
      DataOptions options;
      options.dtype = get_default_dtype();
      return wrap_as(type, tensor_from_data("Tensor", data, options));
    }
  }
  DimVector sizes;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    const int64_t v = PyLong_AsLongLong(PyTuple_GET_ITEM(args, i));
    if (v == -1 && PyErr_Occurred() != nullptr) throw PythonError();
    FACULA_CHECK(v >= 0, Value, Operator{"Tensor"}, Argument{"sizes"}, " must be at least 0, but got ", v);
    sizes.push_back(v);
  }
  if (n == 0) sizes.push_back(0);
  return wrap_as(type, make_empty(sizes, get_default_dtype()));
  FACULA_PY_END(nullptr)
}

PyObject* tensor_compare(PyObject* a, PyObject* b, int op) {
  PyObject* (*const f)(PyObject*, PyObject*) = operator_slots.compare[op];
  if (f == nullptr) Py_RETURN_NOTIMPLEMENTED;
  return f(a, b);
}

PyObject* tensor_power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None || operator_slots.binary[kPow] == nullptr) Py_RETURN_NOTIMPLEMENTED;
  return operator_slots.binary[kPow](a, b);
}
PyObject* tensor_inplace_power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None || operator_slots.inplace[kPow] == nullptr) Py_RETURN_NOTIMPLEMENTED;
  return operator_slots.inplace[kPow](a, b);
}

// ---- conversion to Python numbers ----
int tensor_bool(PyObject* self) {
  FACULA_PY_TRY
  const Tensor& t = tensor_of(self);
  if (t.numel() != 1) {
    raise(ErrorKind::Shape, Operator{"bool"}, "the truth of a Tensor with ", t.numel(), " elements, shape ",
          shape_string(t.sizes()), ", is ambiguous; use .any() or .all()");
  }
  return item_of(t, "bool").to<bool>();
  FACULA_PY_END(-1)
}
// Python wants an int of these, not the bool that is one.
PyObject* plain_int(const Scalar& v) { return v.kind() == Category::Bool ? PyLong_FromLong(v.to<bool>()) : wrap(v); }
PyObject* tensor_int(PyObject* self) {
  FACULA_PY_TRY
  const Scalar v = item_of(tensor_of(self), "int");
  FACULA_CHECK(v.kind() != Category::Complex, Type, Operator{"int"}, "cannot convert a complex Tensor to int");
  // Through Python's float for the range beyond int64, and for the errors of NaN and infinity.
  return v.kind() == Category::Floating ? PyLong_FromDouble(v.as_double()) : plain_int(v);
  FACULA_PY_END(nullptr)
}
PyObject* tensor_float(PyObject* self) {
  FACULA_PY_TRY
  const Scalar v = item_of(tensor_of(self), "float");
  FACULA_CHECK(v.kind() != Category::Complex, Type, Operator{"float"}, "cannot convert a complex Tensor to float");
  return PyFloat_FromDouble(v.as_double());
  FACULA_PY_END(nullptr)
}
PyObject* tensor_index(PyObject* self) {
  FACULA_PY_TRY
  const Tensor& t = tensor_of(self);
  FACULA_CHECK(t.numel() == 1 && is_integral(t.dtype(), true), UnfitDtype,
               "only an integer Tensor with one element can be used as an index, not one of shape ",
               shape_string(t.sizes()), " and dtype ", dtype_name(t.dtype()));
  return plain_int(item_of(t, "__index__"));
  FACULA_PY_END(nullptr)
}

// `x in t`: is any element equal to x?
int tensor_contains(PyObject* self, PyObject* element) {
  FACULA_PY_TRY
  if (!is_tensor(element) && number_kind(element) == NumberKind::None) {
    raise(ErrorKind::Type, Operator{"__contains__"}, "'in' takes a Tensor or a number, not ",
          Py_TYPE(element)->tp_name);
  }
  Ref equal(check(PyObject_RichCompare(self, element, Py_EQ)));
  FACULA_CHECK(is_tensor(equal.get()), Type, Operator{"__contains__"}, "elements cannot be compared");
  const Tensor mask = to_cpu(with_data(tensor_of(equal.get()), "__contains__"));
  FACULA_CHECK(mask.is_contiguous() && mask.dtype() == ScalarType::Bool, Type, Operator{"__contains__"},
               "elements cannot be compared");
  return std::memchr(mask.raw(), 1, static_cast<size_t>(mask.numel())) != nullptr;
  FACULA_PY_END(-1)
}

// Attributes make a cycle possible.
int tensor_setattr(PyObject* self, PyObject* name, PyObject* value) {
  const int status = PyObject_GenericSetAttr(self, name, value);
  if (as_tensor_object(self)->dict != nullptr) track(self);
  return status;
}

PyObject* tensor_str(PyObject* self) { return tensor_repr(self); }

PyMemberDef tensor_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(TensorObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

const char* name_of(const PyMethodDef& d) { return d.ml_name; }
const char* name_of(const PyGetSetDef& d) { return d.name; }

// Tables of the runtime and of the generated code in one; the generated code has the last word.
template <typename Def>
std::vector<Def> merge(std::span<const Def> generated, std::initializer_list<const Def*> own) {
  std::vector<Def> all;
  const auto add = [&](const Def& def) {
    for (const Def& d : all) {
      if (std::strcmp(name_of(d), name_of(def)) == 0) return;
    }
    all.push_back(def);
  };
  for (const Def& d : generated) {
    if (name_of(d) != nullptr) add(d);
  }
  for (const Def* table : own) {
    for (; name_of(*table) != nullptr; ++table) add(*table);
  }
  all.push_back(Def{});
  return all;
}

// A number that leaves for Python becomes a tensor of its own, of the dtype that numbers have.
[[gnu::noinline]] Tensor number_as_tensor(const Tensor& number) {
  ResultType type;
  type.add(number);
  if (number.is_wrapped()) [[unlikely]]
    return core_operators().cast(detach(number), type.get(), Device{});
  Tensor t = make_empty({}, type.get());
  copy_strided(t, number);
  return t;
}

#ifdef Py_GIL_DISABLED
// Of a tensor that other threads may hold, and wrap, too.
PyObject* wrap_shared(Tensor t) {
  TensorImpl* const impl = t.impl();
  Ref fresh;
  for (;; give_way()) {
    {
      const ObjectLock lock(impl);
      PyObject* const o = impl->pyobject;
      if (o == nullptr && fresh) {
        impl->pyobject = fresh.get();
        as_tensor_object(fresh.get())->tensor = std::move(t);
        return fresh.release();
      }
      if (o != nullptr && impl->owns_pyobject) {
        take_from_tensor(impl);
        return o;
      }
      if (o != nullptr && try_reference(o)) return o;
      // Else the object dies on another thread, which will give it to the tensor.
    }
    if (!fresh) fresh = Ref(reinterpret_cast<PyObject*>(allocate_as(is_compound(t) ? compound_type : tensor_type)));
  }
}
#endif

template <typename F>
void* slot(F* f) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

void track(PyObject* tensor) {
  TensorObject* o = as_tensor_object(tensor);
  if (o->tracked) return;
  const ObjectLock lock(tensor);
  if (!kHasGil && o->tracked) return;
  o->tracked = true;
  if (PyObject_GC_IsTracked(tensor) == 0) PyObject_GC_Track(tensor);
}

PyObject* wrap_as(PyTypeObject* type, Tensor t) {
  FACULA_ASSERT(t.impl()->pyobject == nullptr);
  TensorObject* o = allocate_as(type);
  t.impl()->pyobject = reinterpret_cast<PyObject*>(o);
  o->tensor = std::move(t);
  return reinterpret_cast<PyObject*>(o);
}

PyObject* wrap(Tensor t) {
  TensorImpl* impl = t.impl();
  if (impl == nullptr) Py_RETURN_NONE;
  if (impl->wrapped_number) [[unlikely]] {
    t = number_as_tensor(t);
    impl = t.impl();
  }
#ifdef Py_GIL_DISABLED
  if (impl->use_count() > 1) return wrap_shared(std::move(t));
#endif
  if (PyObject* o = impl->pyobject; o != nullptr) {
    if (impl->owns_pyobject) {
      take_from_tensor(impl);  // the tensor's reference to the object becomes the caller's
    } else {
      Py_INCREF(o);
    }
    return o;
  }
  if (is_compound(t)) [[unlikely]]
    return wrap_as(compound_type, std::move(t));
  TensorObject* o = allocate(tensor_type);
  if (impl->pyobject != nullptr) [[unlikely]] {  // the allocation ran the garbage collector, and that Python
    Py_DECREF(reinterpret_cast<PyObject*>(o));
    return wrap(std::move(t));
  }
  impl->pyobject = reinterpret_cast<PyObject*>(o);
  o->tensor = std::move(t);
  return reinterpret_cast<PyObject*>(o);
}

PyObject* wrap(const std::vector<Tensor>& list) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(list.size()));
  for (size_t i = 0; tuple != nullptr && i < list.size(); ++i) {
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), wrap(list[i]));
  }
  return tuple;
}
PyObject* wrap(bool v) { return PyBool_FromLong(v); }
PyObject* wrap(int64_t v) { return PyLong_FromLongLong(v); }
PyObject* wrap(double v) { return PyFloat_FromDouble(v); }
PyObject* wrap(const Scalar& v) {
  switch (v.kind()) {
    case Category::Bool:
      return wrap(v.to<bool>());
    case Category::Integral:
      if (v.is_beyond_int64()) return PyLong_FromUnsignedLongLong(v.to<uint64_t>());
      return wrap(v.to<int64_t>());
    case Category::Floating:
      return wrap(v.as_double());
    case Category::Complex: {
      const auto c = v.to<complex128>();
      return PyComplex_FromDoubles(c.real(), c.imag());
    }
  }
  Py_RETURN_NONE;
}

bool init_tensor_type(PyObject* module) {
  const GeneratedBindings& generated = generated_bindings();
  operator_slots = generated.slots;
  // Types keep pointers into these tables.
  static std::vector<PyMethodDef> methods =
      merge(generated.methods,
            {tensor_methods, tensor_data_methods, tensor_copy_methods, tensor_autograd_methods, exchange_methods});
  static std::vector<PyGetSetDef> properties = merge(generated.properties, {tensor_properties, exchange_properties});

  const auto& b = operator_slots.binary;
  const auto& i = operator_slots.inplace;
  static const std::pair<int, void*> numbers[] = {
      {Py_nb_add, slot(b[kAdd])},
      {Py_nb_subtract, slot(b[kSub])},
      {Py_nb_multiply, slot(b[kMul])},
      {Py_nb_true_divide, slot(b[kTrueDiv])},
      {Py_nb_floor_divide, slot(b[kFloorDiv])},
      {Py_nb_remainder, slot(b[kMod])},
      {Py_nb_matrix_multiply, slot(b[kMatMul])},
      {Py_nb_and, slot(b[kAnd])},
      {Py_nb_or, slot(b[kOr])},
      {Py_nb_xor, slot(b[kXor])},
      {Py_nb_lshift, slot(b[kLShift])},
      {Py_nb_rshift, slot(b[kRShift])},
      {Py_nb_inplace_add, slot(i[kAdd])},
      {Py_nb_inplace_subtract, slot(i[kSub])},
      {Py_nb_inplace_multiply, slot(i[kMul])},
      {Py_nb_inplace_true_divide, slot(i[kTrueDiv])},
      {Py_nb_inplace_floor_divide, slot(i[kFloorDiv])},
      {Py_nb_inplace_remainder, slot(i[kMod])},
      {Py_nb_inplace_matrix_multiply, slot(i[kMatMul])},
      {Py_nb_inplace_and, slot(i[kAnd])},
      {Py_nb_inplace_or, slot(i[kOr])},
      {Py_nb_inplace_xor, slot(i[kXor])},
      {Py_nb_inplace_lshift, slot(i[kLShift])},
      {Py_nb_inplace_rshift, slot(i[kRShift])},
      {Py_nb_negative, slot(operator_slots.negative)},
      {Py_nb_positive, slot(operator_slots.positive)},
      {Py_nb_invert, slot(operator_slots.invert)},
      {Py_nb_absolute, slot(operator_slots.absolute)},
      {Py_nb_power, b[kPow] != nullptr ? slot(tensor_power) : nullptr},
      {Py_nb_inplace_power, i[kPow] != nullptr ? slot(tensor_inplace_power) : nullptr},
  };
  std::vector<PyType_Slot> slots = {
      {Py_tp_new, slot(tensor_new)},
      {Py_tp_dealloc, slot(tensor_dealloc)},
      {Py_tp_finalize, slot(tensor_finalize)},
      {Py_tp_traverse, slot(tensor_traverse)},
      {Py_tp_clear, slot(tensor_clear)},
      {Py_tp_free, slot(PyObject_GC_Del)},
      {Py_tp_setattro, slot(tensor_setattr)},
      {Py_tp_repr, slot(tensor_repr)},
      {Py_tp_str, slot(tensor_str)},
      {Py_tp_hash, slot(PyBaseObject_Type.tp_hash)},
      {Py_tp_richcompare, slot(tensor_compare)},
      {Py_tp_iter, slot(tensor_iter)},
      {Py_tp_methods, methods.data()},
      {Py_tp_getset, properties.data()},
      {Py_tp_members, tensor_members},
      {Py_tp_doc, const_cast<char*>("An array of numbers of one dtype on one device, which autograd can follow.")},
      {Py_nb_bool, slot(tensor_bool)},
      {Py_nb_int, slot(tensor_int)},
      {Py_nb_float, slot(tensor_float)},
      {Py_nb_index, slot(tensor_index)},
      {Py_mp_length, slot(tensor_length)},
      {Py_mp_subscript, slot(tensor_subscript)},
      {Py_mp_ass_subscript, slot(tensor_ass_subscript)},
      {Py_sq_length, slot(tensor_length)},
      {Py_sq_item, slot(tensor_sq_item)},
      {Py_sq_contains, slot(tensor_contains)},
      {Py_bf_getbuffer, slot(tensor_getbuffer)},
      {Py_bf_releasebuffer, slot(tensor_releasebuffer)},
  };
  for (const auto& [id, f] : numbers) {
    if (f != nullptr) slots.push_back({id, f});
  }
  slots.push_back({0, nullptr});
  PyType_Spec spec = {"facula.Tensor", sizeof(TensorObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots.data()};
  tensor_type = add_type(module, &spec);
  if (tensor_type == nullptr) return false;
  // NumPy's operators then leave mixed expressions to us.
  Ref priority(PyLong_FromLong(1000));
  if (!priority ||
      PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type), "__array_priority__", priority.get()) < 0) {
    return false;
  }
  pyobject_release = release_from_core;
  return true;
}

}  // namespace facula::python
