// Zero-copy exchange with objects that have the buffer protocol or __array_interface__.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "runtime/bindings/autograd/hooks.h"
#include "runtime/core/checked.h"

namespace facula::python {

namespace {

// The code of an element type in the module `struct`, where "@" means native, as a letter alone does; null for those
// that it lacks.
template <typename T>
constexpr const char* format_of() {
  if constexpr (std::is_same_v<T, Half>) return "e";
  if constexpr (is_reduced_float_v<T>) return nullptr;
  if constexpr (std::is_same_v<T, bool>) return "?";
  if constexpr (is_complex_v<T>) return sizeof(T) == 8 ? "Zf" : "Zd";
  if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? "f" : "d";
  constexpr const char* whole[] = {"b", "h", "i", "q", "B", "@H", "@I", "@Q"};
  return whole[std::countr_zero(sizeof(T)) + (std::is_signed_v<T> ? 0 : 4)];
}
// NumPy's: the byte order, the kind and the number of bytes; empty for those that it lacks.
template <typename T>
constexpr std::array<char, 5> typestr_of() {
  if (format_of<T>() == nullptr) return {};
  const char kind = std::is_same_v<T, bool>                                  ? 'b'
                    : is_complex_v<T>                                        ? 'c'
                    : std::is_floating_point_v<T> || std::is_same_v<T, Half> ? 'f'
                    : std::is_signed_v<T>                                    ? 'i'
                                                                             : 'u';
  const char order = sizeof(T) == 1 ? '|' : '<';
  if (sizeof(T) < 10) return {order, kind, static_cast<char>('0' + sizeof(T))};
  return {order, kind, '1', static_cast<char>('0' + sizeof(T) - 10)};
}
#define X(type, name, text) format_of<type>(),
constexpr const char* kFormats[kNumScalarTypes] = {FACULA_FORALL_TYPES(X)};
#undef X
#define X(type, name, text) typestr_of<type>(),
constexpr std::array<char, 5> kTypestr[kNumScalarTypes] = {FACULA_FORALL_TYPES(X)};
#undef X

void check_exportable(const Tensor& t, const char* who) {
  check_memory(t, who);
  FACULA_CHECK(!t.requires_grad(), Buffer, who, ": the tensor requires grad; use t.detach()");
  FACULA_CHECK(t.is_cpu(), Buffer, who, ": the tensor is on ", to_string(t.device()),
               ", not in CPU memory; use t.cpu()");
}

// ---- import ----
// A struct-style or NumPy-style type code; `size` tells apart what depends on the platform.
std::optional<ScalarType> dtype_of_code(char kind, size_t size) {
  switch (kind) {
    case 'b':
      return size == 1 ? std::optional(ScalarType::Bool) : std::nullopt;
    case 'u':
      switch (size) {
        case 1:
          return ScalarType::UInt8;
        case 2:
          return ScalarType::UInt16;
        case 4:
          return ScalarType::UInt32;
        case 8:
          return ScalarType::UInt64;
        default:
          return std::nullopt;
      }
    case 'i':
      switch (size) {
        case 1:
          return ScalarType::Int8;
        case 2:
          return ScalarType::Int16;
        case 4:
          return ScalarType::Int32;
        case 8:
          return ScalarType::Int64;
        default:
          return std::nullopt;
      }
    case 'f':
      switch (size) {
        case 2:
          return ScalarType::Float16;
        case 4:
          return ScalarType::Float32;
        case 8:
          return ScalarType::Float64;
        default:
          return std::nullopt;
      }
    case 'c':
      return size == 8    ? std::optional(ScalarType::Complex64)
             : size == 16 ? std::optional(ScalarType::Complex128)
                          : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<ScalarType> dtype_of_format(const char* format, size_t size) {
  if (format == nullptr) return ScalarType::UInt8;
  std::string_view f(format);
  if (!f.empty() && (f[0] == '@' || f[0] == '=' || f[0] == '<' || (f[0] == '>' && size == 1) || f[0] == '|')) {
    f.remove_prefix(1);
  }
  if (f == "?") return ScalarType::Bool;
  if (f == "B" || f == "c") return ScalarType::UInt8;
  if (f.size() == 1 && std::strchr("bhilqn", f[0]) != nullptr) return dtype_of_code('i', size);
  if (f.size() == 1 && std::strchr("HILQN", f[0]) != nullptr) return dtype_of_code('u', size);
  if (f.size() == 1 && std::strchr("efdg", f[0]) != nullptr) return dtype_of_code('f', size);
  if (f == "Zf" || f == "Zd" || f == "Zg") return dtype_of_code('c', size);
  return std::nullopt;
}

// Strides in bytes -> elements; raises where they are no whole or negative numbers.
DimVector element_strides(const char* who, std::span<const Py_ssize_t> bytes, IntList sizes, size_t itemsize) {
  DimVector strides;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (sizes[i] <= 1) {
      strides.push_back(1);  // never stepped along
      continue;
    }
    FACULA_CHECK(bytes[i] >= 0, Value, Operator{who}, "arrays with negative strides are not supported: dimension ", i,
                 " has stride ", bytes[i], " bytes; pass array.copy()");
    FACULA_CHECK(bytes[i] % static_cast<Py_ssize_t>(itemsize) == 0, Value, Operator{who}, "the stride of dimension ", i,
                 ", ", bytes[i], " bytes, is no multiple of the element size, ", itemsize, "; pass array.copy()");
    strides.push_back(bytes[i] / static_cast<Py_ssize_t>(itemsize));
  }
  return strides;
}

size_t extent_bytes(IntList sizes, IntList strides, size_t itemsize) {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    int64_t step = 0;
    FACULA_CHECK(!__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) && !__builtin_add_overflow(last, step, &last),
                 Value, "the strides ", shape_string(strides), " of shape ", shape_string(sizes), " overflow");
  }
  FACULA_CHECK(last < PTRDIFF_MAX / static_cast<int64_t>(itemsize), Value, "an array of shape ", shape_string(sizes),
               " and strides ", shape_string(strides), " would reach over more bytes than can be addressed");
  return static_cast<size_t>(last + 1) * itemsize;
}

void release_object(void* o) {
  if (!interpreter_alive()) return;
  AcquireGil gil;
  Py_DECREF(static_cast<PyObject*>(o));
}
void release_leading_object(void* o) {
  --python_links;
  release_object(o);
}

// May the collector find others through it? Not through a plain array.
bool leads(PyObject* o) {
  if (PyMemoryView_Check(o) != 0) o = PyMemoryView_GET_BUFFER(o)->obj;
  return o != nullptr && PyObject_IS_GC(o) != 0;
}

// A tensor over foreign memory that `owner` (a reference that is taken) keeps alive.
Tensor over_memory(Ref owner, void* data, IntList sizes, IntList strides, ScalarType dtype, bool read_only) {
  // NumPy may hand out unaligned views of packed records.
  FACULA_CHECK(reinterpret_cast<uintptr_t>(data) % type_info(dtype).alignment == 0, Value,
               "the array's memory is not aligned for its dtype; pass array.copy()");
  const size_t bytes = extent_bytes(sizes, strides, itemsize(dtype));
  return from_storage(storage_of(std::move(owner), data, bytes, read_only), sizes, strides, 0, dtype);
}

[[noreturn]] void unsupported(const char* who, std::string_view type) {
  raise(ErrorKind::Type, Operator{who}, "cannot take elements of type ", type,
        "; supported are bool, integers of 8 to 64 bits, float16, float32, float64, complex64 and complex128 "
        "in native byte order");
}

Tensor from_buffer_object(const char* who, PyObject* o) {
  Ref view(check(PyMemoryView_FromObject(o)));
  const Py_buffer* b = PyMemoryView_GET_BUFFER(view.get());
  const auto size = static_cast<size_t>(b->itemsize);
  const std::optional<ScalarType> dtype = dtype_of_format(b->format, size);
  if (!dtype) unsupported(who, concat("'", b->format, "' (", size, " bytes)"));
  const auto n = static_cast<size_t>(b->ndim);
  DimVector sizes(b->shape, b->shape + n);
  const DimVector strides = element_strides(who, {b->strides, n}, sizes, size);
  void* data = b->buf;
  const bool read_only = b->readonly != 0;
  return over_memory(std::move(view), data, sizes, strides, *dtype, read_only);
}

Py_ssize_t as_size(PyObject* o) {
  const Py_ssize_t v = PyNumber_AsSsize_t(o, PyExc_OverflowError);
  if (v == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  return v;
}

Tensor from_array_interface(const char* who, PyObject* o, PyObject* interface) {
  FACULA_CHECK(PyDict_Check(interface), Type, Operator{who}, "__array_interface__ must be a dict");
  // Owned: the elements' __index__ may change the dict.
  const auto get = [&](const char* key) {
    const Ref name(check(PyUnicode_InternFromString(key)));
    return dict_item(interface, name.get());
  };
  const Ref typestr = get("typestr");
  const Ref shape = get("shape");
  const Ref data = get("data");
  FACULA_CHECK(typestr && PyUnicode_Check(typestr.get()) && shape && PyTuple_Check(shape.get()) && data &&
                   PyTuple_Check(data.get()) && PyTuple_GET_SIZE(data.get()) == 2,
               Type, Operator{who}, "__array_interface__ must have typestr, shape and data");
  const char* text = PyUnicode_AsUTF8(typestr.get());
  if (text == nullptr) throw PythonError();
  const size_t size = std::strlen(text) > 2 ? static_cast<size_t>(std::atoi(text + 2)) : 0;
  const std::optional<ScalarType> dtype =
      size > 0 && (text[0] != '>' || size == 1) ? dtype_of_code(text[1], size) : std::nullopt;
  if (!dtype) unsupported(who, concat("'", text, "'"));
  DimVector sizes;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape.get()); ++i) {
    const Py_ssize_t size_here = as_size(PyTuple_GET_ITEM(shape.get(), i));
    FACULA_CHECK(size_here >= 0, Value, Operator{who}, "__array_interface__ has a negative size, ", size_here,
                 ", for dimension ", i);
    sizes.push_back(size_here);
  }
  const int64_t numel = numel_of(sizes);
  DimVector strides = contiguous_strides(sizes);
  if (const Ref given = get("strides"); given && given.get() != Py_None) {
    FACULA_CHECK(PyTuple_Check(given.get()) && PyTuple_GET_SIZE(given.get()) == PyTuple_GET_SIZE(shape.get()), Type,
                 Operator{who}, "__array_interface__ has strides that do not go with its shape");
    std::vector<Py_ssize_t> bytes;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); ++i) {
      bytes.push_back(as_size(PyTuple_GET_ITEM(given.get(), i)));
    }
    strides = element_strides(who, bytes, sizes, size);
  }
  void* address = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data.get(), 0));
  if (address == nullptr && PyErr_Occurred() != nullptr) throw PythonError();
  FACULA_CHECK(numel == 0 || address != nullptr, Value, Operator{who},
               "__array_interface__ has elements but no memory: its address is 0");
  const int read_only = PyObject_IsTrue(PyTuple_GET_ITEM(data.get(), 1));
  check(read_only);
  return over_memory(Ref::borrow(o), address, sizes, strides, *dtype, read_only != 0);
}

PyObject* get_array_interface(PyObject* self, void*) {
  FACULA_PY_TRY
  const Tensor& t = tensor_of(self);
  const char* typestr = kTypestr[static_cast<size_t>(t.dtype())].data();
  if (t.is_wrapped() || t.requires_grad() || !t.is_cpu() || *typestr == '\0' ||
      std::endian::native != std::endian::little) {
    PyErr_SetString(PyExc_AttributeError,
                    "__array_interface__ is there for CPU tensors of NumPy's dtypes that do "
                    "not require grad");
    return nullptr;
  }
  Ref sizes(check(wrap(t.sizes())));
  Ref shape(check(PySequence_Tuple(sizes.get())));
  Ref strides = Ref::borrow(Py_None);  // contiguous; some consumers accept nothing else
  if (!t.is_contiguous()) {
    strides = Ref(check(PyTuple_New(t.dim())));
    for (int64_t i = 0; i < t.dim(); ++i) {
      PyTuple_SET_ITEM(
          strides.get(), i,
          PyLong_FromLongLong(wrapped_mul(t.strides()[static_cast<size_t>(i)], static_cast<int64_t>(t.itemsize()))));
    }
  }
  t.storage()->lend();  // who reads the address keeps the tensor at most
  return Py_BuildValue("{s:s,s:O,s:O,s:(NO),s:i}", "typestr", typestr, "shape", shape.get(), "strides", strides.get(),
                       "data", PyLong_FromVoidPtr(t.raw()), t.storage()->read_only() ? Py_True : Py_False, "version",
                       3);
  FACULA_PY_END(nullptr)
}

// What an exported buffer keeps: its tensor may get other memory meanwhile (`.data = ...`).
struct Lending {
  Storage storage;
  std::vector<Py_ssize_t> extents;  // sizes, then strides in bytes
};

}  // namespace

int tensor_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  FACULA_PY_TRY
  view->obj = nullptr;
  const Tensor& t = tensor_of(self);
  check_exportable(t, "buffer");
  const char* format = kFormats[static_cast<size_t>(t.dtype())];
  FACULA_CHECK(format != nullptr, Buffer, "buffer: the buffer protocol has no ", dtype_name(t.dtype()),
               "; convert first: t.float()");
  const bool read_only = t.storage()->read_only();
  FACULA_CHECK(!(read_only && (flags & PyBUF_WRITABLE) != 0), Buffer, "buffer: the tensor's memory is read-only");
  const bool wants_strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  FACULA_CHECK(wants_strides || t.is_contiguous(), Buffer, "buffer: the tensor is not contiguous; use t.contiguous()");
  const bool c_order = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
  FACULA_CHECK(!c_order || t.is_contiguous(), Buffer, "buffer: the tensor is not contiguous; use t.contiguous()");
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) {
    DimVector sizes(t.sizes()), strides(t.strides());
    std::reverse(sizes.begin(), sizes.end());
    std::reverse(strides.begin(), strides.end());
    FACULA_CHECK(is_contiguous(sizes, strides), Buffer, "buffer: the tensor is not in Fortran order");
  }
  const auto n = static_cast<size_t>(t.dim());
  auto lending = std::make_unique<Lending>(Lending{t.storage(), std::vector<Py_ssize_t>(2 * n)});
  Py_ssize_t* extents = lending->extents.data();
  for (size_t i = 0; i < n; ++i) {
    extents[i] = t.sizes()[i];
    extents[n + i] = wrapped_mul(t.strides()[i], static_cast<Py_ssize_t>(t.itemsize()));
  }
  static char nothing[16];
  view->buf = t.raw() != nullptr ? t.raw() : nothing;
  view->len = static_cast<Py_ssize_t>(t.nbytes());
  view->itemsize = static_cast<Py_ssize_t>(t.itemsize());
  view->readonly = read_only ? 1 : 0;
  view->ndim = static_cast<int>(n);
  view->format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
  view->shape = (flags & PyBUF_ND) == PyBUF_ND ? extents : nullptr;
  view->strides = wants_strides ? extents + n : nullptr;
  view->suboffsets = nullptr;
  // Not the tensor itself: the collector does not see what an array keeps, and the tensor may have it as an attribute.
  Ref owner(check(wrap(alias(t, t.sizes(), t.strides(), t.offset(), false))));
  view->internal = lending.release();
  view->obj = owner.release();
  return 0;
  FACULA_PY_END(-1)
}

void tensor_releasebuffer(PyObject*, Py_buffer* view) { delete static_cast<Lending*>(view->internal); }

std::optional<Tensor> tensor_from_exchange(const char* who, PyObject* o) {
  if (PyObject_CheckBuffer(o)) return from_buffer_object(who, o);
  if (PyObject* interface = PyObject_GetAttrString(o, "__array_interface__"); interface != nullptr) {
    Ref guard(interface);
    return from_array_interface(who, o, interface);
  }
  PyErr_Clear();
  if (PyObject_HasAttrString(o, "__dlpack__")) return from_dlpack(o, std::nullopt);
  return std::nullopt;
}

std::optional<ScalarType> buffer_dtype(PyObject* o) {
  Py_buffer view;
  if (!PyObject_CheckBuffer(o)) return std::nullopt;
  if (PyObject_GetBuffer(o, &view, PyBUF_FORMAT | PyBUF_STRIDES) < 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const std::optional<ScalarType> dtype = dtype_of_format(view.format, static_cast<size_t>(view.itemsize));
  PyBuffer_Release(&view);
  return dtype;
}

const PyGetSetDef exchange_properties[] = {
    {"__array_interface__", get_array_interface, nullptr, "The memory as NumPy describes it.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

Storage storage_of(Ref owner, void* data, size_t bytes, bool read_only) {
  const bool leading = leads(owner.get());
  Storage s = StorageImpl::wrap(data, bytes, Device{kCPU}, leading ? release_leading_object : release_object,
                                owner.get(), read_only);
  owner.release();
  python_links += leading ? 1 : 0;
  return s;
}

PyObject* leading_owner(const StorageImpl& s) {
  return s.deleter() == release_leading_object ? static_cast<PyObject*>(s.context()) : nullptr;
}

}  // namespace facula::python
