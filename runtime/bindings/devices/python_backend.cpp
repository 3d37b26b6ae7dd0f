// Backends written in Python: the functions of facula/backend.h over an object's methods.
#include "runtime/bindings/devices/interface.h"
#include "runtime/bindings/types/types.h"
#include "runtime/device/interface.h"

namespace facula::python {

namespace {

// The object with its methods; lives as long as the process, as the DeviceInterface does.
struct Backend {
  Ref object, buffer;  // the instance, and the class facula.backends.Buffer
  std::string name, package, tag, autocast_dtype;
  std::vector<std::string> texts;
  std::vector<const char*> lower, float32;
};
Backend& self_of(void* context) { return *static_cast<Backend*>(context); }

// What a Python function raised: statuses that facula acts on, or the exception itself, kept.
int32_t status_of_error() {
  const PythonError error;
  error.restore();
  if (PyErr_ExceptionMatches(PyExc_NotImplementedError) != 0) {
    const Ref raised = take_exception();
    const Ref words(PyObject_Str(raised.get()));
    const char* const reason = words ? PyUnicode_AsUTF8(words.get()) : nullptr;
    PyErr_Clear();
    return device_host().fail(FACULA_NOT_SUPPORTED, reason);
  }
  if (PyErr_ExceptionMatches(PyExc_MemoryError) != 0) {
    PyErr_Clear();
    return FACULA_OUT_OF_MEMORY;
  }
  PyErr_Clear();
  try {
    throw PythonError(error);
  } catch (...) {
    return keep_device_exception();
  }
}

// Puts aside an exception that is on its way: a tensor that dies of it gives its memory back.
class PutAside {
 public:
  PutAside() : error_(PyErr_Occurred() != nullptr ? take_exception() : Ref()) {}
  ~PutAside() {
    if (error_) raise_again(error_.get());
  }
  PutAside(const PutAside&) = delete;
  PutAside& operator=(const PutAside&) = delete;

 private:
  Ref error_;
};

// Runs `fn`, which returns a new reference or throws, under Python's lock.
template <typename F>
int32_t call(const F& fn) noexcept {
  if (!interpreter_alive()) return FACULA_DEVICE_ERROR;
  AcquireGil gil;
  const PutAside other;
  try {
    Ref result(fn());
    if (!result) return status_of_error();
    if (result.get() == Py_NotImplemented) return device_host().fail(FACULA_NOT_SUPPORTED, nullptr);
    return FACULA_OK;
  } catch (const PythonError& e) {
    e.restore();
    return status_of_error();
  } catch (...) {
    return keep_device_exception();
  }
}

// As call, for what may not fail: Python is told of the exception at once, as of one in __del__.
template <typename F>
int32_t call_quietly(const char* method, const F& fn) noexcept {
  return call([&] {
    PyObject* result = fn();
    if (result == nullptr && PyErr_ExceptionMatches(PyExc_NotImplementedError) == 0) {
      const Ref where(PyUnicode_FromFormat("facula.backends.Backend.%s()", method));
      PyErr_WriteUnraisable(where.get());
      result = Py_NewRef(Py_None);
    }
    return result;
  });
}

// What a function returned that computes `op`: results are written, not returned, unless it `gives` a number.
PyObject* computed(const Backend& b, const char* op, PyObject* result, bool gives = false) {
  if (result == nullptr && PyErr_ExceptionMatches(PyExc_MemoryError) != 0) {
    const Ref error = take_exception();
    const Ref words(PyObject_Str(error.get()));
    const char* const text = words ? PyUnicode_AsUTF8(words.get()) : nullptr;
    PyErr_Clear();
    const bool told = text != nullptr && *text != '\0';
    device_host().fail(FACULA_OUT_OF_MEMORY,
                       concat("it ran out of memory", told ? ": " : "", told ? text : "").c_str());
    raise_again(error.get());
  }
  if (result == nullptr || result == Py_None || result == Py_NotImplemented || gives) return result;
  const Ref unused(result);
  raise(ErrorKind::Type, Operator{op}, "the kernel of device '", b.name, "' returned ", Py_TYPE(result)->tp_name,
        "; it must write into its results, which are its last arguments, and return None");
}

unsigned long long address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

PyObject* tuple_of(const int64_t* values, int32_t n) {
  Ref t(check(PyTuple_New(n)));
  for (int32_t i = 0; i < n; ++i) PyTuple_SET_ITEM(t.get(), i, check(PyLong_FromLongLong(values[i])));
  return t.release();
}

PyObject* buffer_of(const Backend& b, const FaculaTensor& t) {
  if (t.ndim < 0) Py_RETURN_NONE;
  if ((t.flags & FACULA_HOST_SCALAR) != 0) return check(element_object(t.data, static_cast<ScalarType>(t.dtype)));
  Ref sizes(tuple_of(t.sizes, t.ndim)), strides(tuple_of(t.strides, t.ndim));
  return check(PyObject_CallFunction(b.buffer.get(), "KOOOi", address(t.data), sizes.get(), strides.get(),
                                     dtype_object(static_cast<ScalarType>(t.dtype)), t.index));
}

PyObject* buffers_of(const Backend& b, const FaculaTensor* list, int32_t n) {
  Ref t(check(PyTuple_New(n)));
  for (int32_t i = 0; i < n; ++i) PyTuple_SET_ITEM(t.get(), i, buffer_of(b, list[i]));
  return t.release();
}

PyObject* value_of(const Backend& b, const FaculaValue& v) {
  switch (v.kind) {
    case FACULA_TENSOR:
      return buffer_of(b, *v.at.tensors);
    case FACULA_TENSORS:
      return buffers_of(b, v.at.tensors, v.count);
    case FACULA_INT:
    case FACULA_FORMAT:
    case FACULA_DEVICE:
      return check(PyLong_FromLongLong(v.at.i));
    case FACULA_FLOAT:
      return check(PyFloat_FromDouble(v.at.f));
    case FACULA_TRUTH:
      return PyBool_FromLong(v.at.i != 0);
    case FACULA_COMPLEX:
      return check(PyComplex_FromDoubles(v.at.f, v.more.imag));
    case FACULA_STRING:
      return check(PyUnicode_FromStringAndSize(v.at.text, v.count));
    case FACULA_DTYPE:
      return Ref::borrow(dtype_object(static_cast<ScalarType>(v.at.i))).release();
    case FACULA_RANDOM:
      return check(Py_BuildValue("(KK)", static_cast<unsigned long long>(v.at.seed),
                                 static_cast<unsigned long long>(v.more.offset)));
    case FACULA_INTS:
    case FACULA_TRUTHS:
      return tuple_of(v.at.ints, v.count);
    default:
      Py_RETURN_NONE;
  }
}

void read_number(PyObject* o, FaculaValue& v) {
  if (PyBool_Check(o)) {
    v.kind = FACULA_TRUTH;
    v.at.i = o == Py_True;
  } else if (PyLong_Check(o)) {
    v.kind = FACULA_INT;
    v.at.i = PyLong_AsLongLong(o);
  } else if (PyComplex_Check(o)) {
    v.kind = FACULA_COMPLEX;
    v.at.f = PyComplex_RealAsDouble(o);
    v.more.imag = PyComplex_ImagAsDouble(o);
  } else {
    v.kind = FACULA_FLOAT;
    v.at.f = PyFloat_AsDouble(o);
  }
  if (PyErr_Occurred() != nullptr) throw PythonError();
}

// What `method` returned, a number from 0 to `most`.
uint64_t natural_from(PyObject* o, const char* method, uint64_t most) {
  FACULA_CHECK(PyLong_Check(o), Type, "Backend.", method, "() returned ", Py_TYPE(o)->tp_name, ", expected an int");
  const unsigned long long n = PyLong_AsUnsignedLongLong(o);
  const bool fits = PyErr_Occurred() == nullptr && n <= most;
  PyErr_Clear();
  FACULA_CHECK(fits, Value, "Backend.", method, "() returned a number that is not from 0 to ", most);
  return n;
}
// The call of a method that returns an address or handle.
PyObject* store_pointer(PyObject* result, const char* method, void** out) {
  Ref r(check(result));
  if (r.get() != Py_NotImplemented) *out = reinterpret_cast<void*>(natural_from(r.get(), method, UINT64_MAX));
  return r.release();
}

#define METHOD(name, format, ...) PyObject_CallMethod(self_of(c).object.get(), name, format __VA_OPT__(, ) __VA_ARGS__)

int32_t device_count(void* c, int32_t* count) {
  return call([&] {
    Ref r(check(METHOD("device_count", nullptr)));
    *count = static_cast<int32_t>(natural_from(r.get(), "device_count", 128));
    return r.release();
  });
}
int32_t properties(void* c, int32_t index, FaculaProperties* out) {
  return call([&] {
    Ref r(check(METHOD("device_name", "i", index)));
    FACULA_CHECK(PyUnicode_Check(r.get()), Type, "Backend.device_name() returned ", Py_TYPE(r.get())->tp_name,
                 ", expected a str");
    const char* const text = PyUnicode_AsUTF8(r.get());
    if (text == nullptr) throw PythonError();
    std::string_view(text).copy(out->name, sizeof(out->name) - 1);
    return r.release();
  });
}
int32_t allocate(void* c, int32_t index, size_t nbytes, void* stream, void** out) {
  return call([&] {
    return store_pointer(METHOD("allocate", "inK", index, static_cast<Py_ssize_t>(nbytes), address(stream)), "allocate",
                         out);
  });
}
int32_t deallocate(void* c, int32_t index, void* data, size_t nbytes, void* stream) {
  return call_quietly("deallocate", [&] {
    return METHOD("deallocate", "iKnK", index, address(data), static_cast<Py_ssize_t>(nbytes), address(stream));
  });
}
int32_t copy(void* c, const FaculaCopy* k) {
  return call([&] {
    return METHOD("copy", "KiKinK", address(k->dst), k->dst_index, address(k->src), k->src_index,
                  static_cast<Py_ssize_t>(k->nbytes), address(k->stream));
  });
}
int32_t pin(void* c, size_t nbytes, void** out) {
  return call([&] { return store_pointer(METHOD("pin", "n", static_cast<Py_ssize_t>(nbytes)), "pin", out); });
}
int32_t unpin(void* c, void* data, size_t nbytes) {
  return call_quietly("unpin", [&] { return METHOD("unpin", "Kn", address(data), static_cast<Py_ssize_t>(nbytes)); });
}

// Streams and events are numbers of the backend's choice.
int32_t create_stream(void* c, int32_t index, int32_t priority, void** out) {
  return call([&] { return store_pointer(METHOD("create_stream", "ii", index, priority), "create_stream", out); });
}
int32_t synchronize_stream(void* c, int32_t index, void* stream) {
  return call([&] { return METHOD("synchronize_stream", "iK", index, address(stream)); });
}
int32_t answer(PyObject* truth) {
  Ref r(check(truth));
  const int ready = PyObject_IsTrue(r.get());
  check(ready);
  return ready != 0 ? FACULA_OK : FACULA_NOT_READY;
}
int32_t query_stream(void* c, int32_t index, void* stream) {
  int32_t ready = FACULA_OK;
  const int32_t status = call([&] {
    ready = answer(METHOD("query_stream", "iK", index, address(stream)));
    return Ref::borrow(Py_None).release();
  });
  return status != FACULA_OK ? status : ready;
}
int32_t synchronize_device(void* c, int32_t index) {
  return call([&] { return METHOD("synchronize_device", "i", index); });
}
int32_t create_event(void* c, int32_t index, int32_t timing, void** out) {
  return call([&] { return store_pointer(METHOD("create_event", "ii", index, timing), "create_event", out); });
}
int32_t destroy_event(void* c, int32_t index, void* event) {
  return call_quietly("destroy_event", [&] { return METHOD("destroy_event", "iK", index, address(event)); });
}
int32_t record_event(void* c, int32_t index, void* event, void* stream) {
  return call([&] { return METHOD("record_event", "iKK", index, address(event), address(stream)); });
}
int32_t wait_event(void* c, int32_t index, void* event, void* stream) {
  return call([&] { return METHOD("wait_event", "iKK", index, address(event), address(stream)); });
}
int32_t query_event(void* c, int32_t index, void* event) {
  int32_t ready = FACULA_OK;
  const int32_t status = call([&] {
    ready = answer(METHOD("query_event", "iK", index, address(event)));
    return Ref::borrow(Py_None).release();
  });
  return status != FACULA_OK ? status : ready;
}
int32_t synchronize_event(void* c, int32_t index, void* event) {
  return call([&] { return METHOD("synchronize_event", "iK", index, address(event)); });
}
int32_t elapsed(void* c, int32_t index, void* start, void* end, double* ms) {
  return call([&] {
    Ref r(check(METHOD("elapsed", "iKK", index, address(start), address(end))));
    *ms = PyFloat_AsDouble(r.get());
    if (PyErr_Occurred() != nullptr) throw PythonError();
    return r.release();
  });
}

int32_t pointwise(void* c, const FaculaPointwise* k) {
  return call([&] {
    const Backend& b = self_of(c);
    Ref ins(buffers_of(b, k->ins, k->nins)), outs(buffers_of(b, k->outs, k->nouts));
    Ref values(check(PyTuple_New(k->nvalues)));
    for (int32_t i = 0; i < k->nvalues; ++i) PyTuple_SET_ITEM(values.get(), i, value_of(b, k->values[i]));
    return computed(b, k->op,
                    METHOD("pointwise", "ssOOOOIK", k->op, k->variant, ins.get(), outs.get(), values.get(),
                           dtype_object(static_cast<ScalarType>(k->compute)), k->masks, address(k->stream)));
  });
}
int32_t reduction(void* c, const FaculaReduction* k) {
  return call([&] {
    const Backend& b = self_of(c);
    Ref in(buffer_of(b, *k->in)), out(buffer_of(b, *k->out));
    return computed(b, k->op,
                    METHOD("reduction", "sOOiOK", k->op, in.get(), out.get(), k->nreduced,
                           dtype_object(static_cast<ScalarType>(k->compute)), address(k->stream)));
  });
}
int32_t kernel(void* c, const FaculaCall* k) {
  return call([&] {
    const Backend& b = self_of(c);
    Ref kernels(check(PyObject_GetAttrString(b.object.get(), "kernels")));
    Ref function(check(PyMapping_GetItemString(kernels.get(), k->op)));
    Ref args(check(PyTuple_New(k->nargs)));
    for (int32_t i = 0; i < k->nargs; ++i) PyTuple_SET_ITEM(args.get(), i, value_of(b, k->args[i]));
    Ref result(check(computed(b, k->op, PyObject_CallObject(function.get(), args.get()), k->nouts == 0)));
    if (result.get() != Py_None && result.get() != Py_NotImplemented && k->nouts == 0) {
      read_number(result.get(), *k->result);
    }
    return result.release();
  });
}
#undef METHOD

std::string text_from(PyObject* value, const char* name) {
  FACULA_CHECK(PyUnicode_Check(value), Type, Operator{"register"}, Argument{name}, " must be text, not ",
               Py_TYPE(value)->tp_name);
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value, &size);
  if (text == nullptr) throw PythonError();
  FACULA_CHECK(std::string_view(text).size() == static_cast<size_t>(size), Value, Operator{"register"}, Argument{name},
               " must not hold the character 0");
  return text;
}
std::string text_of(PyObject* object, const char* name) {
  const Ref value(check(PyObject_GetAttrString(object, name)));
  return value.get() == Py_None ? std::string() : text_from(value.get(), name);
}
uint64_t bits_of(PyObject* object, const char* name) {
  Ref value(check(PyObject_GetAttrString(object, name)));
  FACULA_CHECK(PyLong_Check(value.get()), Type, Operator{"register"}, Argument{name}, " must be an int, not ",
               Py_TYPE(value.get())->tp_name);
  const unsigned long long v = PyLong_AsUnsignedLongLong(value.get());
  const bool fits = PyErr_Occurred() == nullptr;
  PyErr_Clear();
  FACULA_CHECK(fits, Value, Operator{"register"}, Argument{name}, " must be from 0 to ", UINT64_MAX);
  return v;
}
std::vector<std::string> texts_of(PyObject* object, const char* name) {
  Ref value(check(PyObject_GetAttrString(object, name)));
  FACULA_CHECK(PyList_Check(value.get()) || PyTuple_Check(value.get()), Type, Operator{"register"}, Argument{name},
               " must be a list or tuple of names, not ", Py_TYPE(value.get())->tp_name);
  std::vector<std::string> found;
  const ItemsOf items(value.get());
  for (Py_ssize_t i = 0; i < items.size(); ++i) {
    const Ref item = Ref::borrow(items[i]);
    found.push_back(text_from(item.get(), name));
  }
  return found;
}
// Does the class itself, and not the base that all share, have the method?
bool overrides(PyObject* object, PyObject* base, const char* name) {
  const Ref own(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), name));
  if (!own) PyErr_Clear();
  const Ref inherited(PyObject_GetAttrString(base, name));
  if (!inherited) PyErr_Clear();
  return own && own.get() != inherited.get();
}
// ... and with it all that it needs?
bool overrides_all(PyObject* object, PyObject* base, std::initializer_list<const char*> names) {
  const char* const lead = *names.begin();
  const bool any = overrides(object, base, lead);
  for (const char* name : names) {
    FACULA_CHECK(overrides(object, base, name) == any, Value, Operator{"register"}, Py_TYPE(object)->tp_name,
                 " defines ", any ? lead : name, " and not ", any ? name : lead, "; they belong together");
  }
  return any;
}

}  // namespace

void register_python_backend(PyObject* object) {
  Ref base = import_attribute("facula.backends", "Backend");
  const int is_one = PyObject_IsInstance(object, base.get());
  check(is_one);
  FACULA_CHECK(is_one != 0, Type, Operator{"register"}, "a facula.backends.Backend is expected, not ",
               Py_TYPE(object)->tp_name);
  auto made = std::make_unique<Backend>();
  made->object = Ref::borrow(object);
  made->buffer = import_attribute("facula.backends", "Buffer");
  made->name = text_of(object, "name");
  made->package = text_of(object, "package");
  made->tag = text_of(object, "serialization_tag");
  made->autocast_dtype = text_of(object, "autocast_dtype");
  made->texts = texts_of(object, "autocast_lower");
  const size_t split = made->texts.size();
  for (std::string& text : texts_of(object, "autocast_float32")) made->texts.push_back(std::move(text));
  for (size_t i = 0; i < made->texts.size(); ++i) {
    (i < split ? made->lower : made->float32).push_back(made->texts[i].c_str());
  }
  made->lower.push_back(nullptr);
  made->float32.push_back(nullptr);

  FaculaBackend api{};
  api.abi = FACULA_BACKEND_ABI;
  api.size = sizeof(FaculaBackend);
  api.name = made->name.c_str();
  api.package = made->package.empty() ? nullptr : made->package.c_str();
  api.context = made.get();
  api.flags = bits_of(object, "flags");
  api.dtypes = bits_of(object, "_dtype_bits");
  api.device_count = device_count;
  api.properties = properties;
  api.allocate = allocate;
  api.deallocate = deallocate;
  api.copy = copy;
  if (overrides_all(object, base.get(), {"pin", "unpin"})) {
    api.pin = pin;
    api.unpin = unpin;
  }
  if (overrides_all(object, base.get(),
                    {"create_stream", "synchronize_stream", "query_stream", "synchronize_device", "create_event",
                     "destroy_event", "record_event", "wait_event", "query_event", "synchronize_event"})) {
    api.create_stream = create_stream;
    api.synchronize_stream = synchronize_stream;
    api.query_stream = query_stream;
    api.synchronize_device = synchronize_device;
    api.create_event = create_event;
    api.destroy_event = destroy_event;
    api.record_event = record_event;
    api.wait_event = wait_event;
    api.query_event = query_event;
    api.synchronize_event = synchronize_event;
    if (overrides(object, base.get(), "elapsed")) api.elapsed = elapsed;
  }
  if (overrides(object, base.get(), "pointwise")) api.pointwise = pointwise;
  if (overrides(object, base.get(), "reduction")) api.reduction = reduction;
  std::vector<FaculaKernelEntry> kernels;
  const std::vector<std::string> names = texts_of(object, "_kernel_names");
  for (const std::string& name : names) kernels.push_back({name.c_str(), kernel});
  api.kernels = kernels.data();
  api.nkernels = kernels.size();
  if (!made->autocast_dtype.empty()) api.autocast_dtype = made->autocast_dtype.c_str();
  api.autocast_lower = made->lower.data();
  api.autocast_float32 = made->float32.data();
  if (!made->tag.empty()) api.serialization_tag = made->tag.c_str();
  api.dlpack_type = static_cast<int32_t>(bits_of(object, "dlpack_type"));
  register_checked(api);
  made.release();  // its DeviceInterface lives for ever
}

}  // namespace facula::python
