// Nested sequences of numbers and arrays -> tensors. One pass finds shape and dtype, one fills.
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/meta.h"
#include "runtime/bindings/types/types.h"
#include "runtime/core/interrupt.h"
#include "runtime/iterate/strided.h"

namespace facula::python {

namespace {

constexpr size_t kMaxDepth = 64;

Tensor converted(const Tensor& t, const DataOptions& options) {
  const ScalarType dtype = options.dtype.value_or(t.dtype());
  const Device device = options.device.value_or(t.device());
  const bool moves = device.type != t.device().type || (device.index >= 0 && device != t.device());
  const bool changes = dtype != t.dtype() || moves;
  FACULA_CHECK(!changes || options.copy.value_or(true), Value, Operator{"asarray"},
               "copy=False, but the dtype or the device asked for needs a copy");
  if (!changes && !options.copy.value_or(false)) return t;
  if (device.type == kMeta) return make_empty(t.sizes(), dtype, device);
  if (!moves && t.is_cpu()) {
    Tensor copy = make_empty(t.sizes(), dtype);
    copy_strided(copy, t);
    return copy;
  }
  GradMode off(false);
  return changes ? core_operators().cast(t, dtype, device) : core_operators().clone(t);
}

class NestedData {
 public:
  NestedData(const char* who, std::optional<ScalarType> wanted) : who_(who), wanted_(wanted) {}

  Tensor make(PyObject* data) {
    scan(data, 0);
    const ScalarType dtype = wanted_.value_or(found_.value_or(get_default_dtype()));
    Tensor t = make_empty(sizes_, dtype);
    next_ = 0;
    visit_dtype(dtype, [&]<typename T>(std::type_identity<T>) {
      char* to = static_cast<char*>(t.raw());
      fill<T>(data, 0, to);
    });
    return t;
  }

 private:
  // An element that is no Python number, list or tuple, converted once for both passes.
  struct Converted {
    Tensor tensor;
    Ref list;
  };

  std::string path(size_t depth) const {
    std::string text = "data";
    for (size_t i = 0; i < depth; ++i) text += concat("[", path_[i], "]");
    return text;
  }
  std::string first_path(size_t depth) const {
    std::string text = "data";
    for (size_t i = 0; i < depth; ++i) text += "[0]";
    return text;
  }

  void merge(ScalarType t) { found_ = found_ ? promote_types(*found_, t) : t; }

  // Sizes below `depth` must be these; the first element visited sets them.
  void agree(size_t depth, IntList sizes, bool leaf, PyObject* o) {
    if (!shaped_ && sizes_.size() == depth) {
      for (const int64_t s : sizes) sizes_.push_back(s);
      shaped_ = leaf;
      return;
    }
    const IntList known = IntList(sizes_).subspan(std::min(depth, sizes_.size()));
    if (leaf) {
      if (depth <= sizes_.size() && known == sizes) return;
    } else if (!known.empty() && known[0] == sizes[0]) {
      return;
    }
    const std::string expected =
        depth < sizes_.size() ? concat("a sequence of length ", sizes_[depth]) : std::string("a number");
    const std::string given =
        !leaf || !sizes.empty() ? concat("a sequence of length ", sizes[0]) : concat("a ", Py_TYPE(o)->tp_name);
    raise(ErrorKind::Value, Operator{who_}, "ragged data: ", path(depth), " is ", given, ", but ", first_path(depth),
          " is ", expected);
  }

  void scan_items(PyObject* o, size_t depth) {
    const ItemsOf items(o);
    const Py_ssize_t n = items.size();
    const int64_t size[] = {n};
    agree(depth, size, false, o);
    FACULA_CHECK(depth < kMaxDepth, Value, Operator{who_}, Argument{"data"}, " is nested more than ", kMaxDepth,
                 " levels deep");
    for (Py_ssize_t i = 0; i < n; ++i) {
      count_step();
      FACULA_CHECK(i < items.size(), Runtime, Operator{who_}, "data changed while it was read");
      path_[depth] = i;
      PyObject* item = items[i];
      // The common case, without a call.
      if (PyFloat_CheckExact(item) && shaped_ && sizes_.size() == depth + 1) {
        if (found_ != float_type_) merge(float_type_);
        continue;
      }
      Ref hold = Ref::borrow(item);
      scan(item, depth + 1);
    }
  }

  void scan(PyObject* o, size_t depth) {
    if (PyList_Check(o) || PyTuple_Check(o)) return scan_items(o, depth);
    if (const NumberKind kind = number_kind(o); kind != NumberKind::None) {
      agree(depth, {}, true, o);
      return merge(number_dtype(o, kind));
    }
    if (is_tensor(o)) {
      converted_.push_back({to_cpu(detach(tensor_of(o))), Ref()});
    } else if (PyUnicode_Check(o) || PyBytes_Check(o) || o == Py_None) {
      unusable(o, depth);
    } else if (std::optional<Tensor> t; !PyByteArray_Check(o) && (t = tensor_from_exchange(who_, o))) {
      converted_.push_back({std::move(*t), Ref()});
    } else if (PySequence_Check(o)) {
      Ref list(check(PySequence_List(o)));
      PyObject* items = list.get();
      converted_.push_back({Tensor(), std::move(list)});
      return scan_items(items, depth);
    } else {
      unusable(o, depth);
    }
    const Tensor& t = converted_.back().tensor;
    agree(depth, t.sizes(), true, o);
    merge(t.dtype());
  }

  [[noreturn]] void unusable(PyObject* o, size_t depth) const {
    raise(ErrorKind::Type, Operator{who_}, path(depth), " is a ", Py_TYPE(o)->tp_name,
          "; expected a number, a nested sequence of numbers, or an array");
  }

  ScalarType number_dtype(PyObject* o, NumberKind kind) const {
    if (!PyFloat_CheckExact(o) && !PyLong_Check(o) && !PyComplex_CheckExact(o)) {
      if (const std::optional<ScalarType> t = buffer_dtype(o)) return *t;  // NumPy's scalars have their own
    }
    switch (kind) {
      case NumberKind::Bool:
        return ScalarType::Bool;
      case NumberKind::Int:
        return ScalarType::Int64;
      case NumberKind::Float:
        return float_type_;
      default:
        return to_complex(float_type_);
    }
  }

  // ---- second pass ----
  [[noreturn]] void does_not_fit(size_t depth, const std::string& value, ScalarType t) const {
    raise(ErrorKind::Overflow, Operator{who_}, path(depth), " is ", value, ", out of range for dtype ", dtype_name(t));
  }

  template <typename T>
  T from_double(double v, size_t depth) const {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const double low = static_cast<double>(std::numeric_limits<T>::min());
      // One above the largest value, which a double may not hold itself.
      const double high = std::ldexp(1.0, std::numeric_limits<T>::digits);
      const double whole = std::trunc(v);
      if (!(whole >= low && whole < high)) does_not_fit(depth, concat(v), dtype_of_v<T>);
      return static_cast<T>(whole);
    } else if constexpr (std::is_same_v<T, bool>) {
      return v != 0;
    } else if constexpr (is_reduced_float_v<T>) {
      return T(static_cast<float>(v));
    } else if constexpr (is_complex_v<T>) {
      return T(static_cast<typename T::value_type>(v));
    } else {
      return static_cast<T>(v);
    }
  }

  template <typename T>
  T from_int(PyObject* o, size_t depth) const {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (v == -1 && overflow == 0 && PyErr_Occurred() != nullptr) throw PythonError();
    if constexpr (std::is_same_v<T, bool>) {
      return overflow != 0 || v != 0;
    } else if constexpr (std::is_integral_v<T>) {
      if (std::is_same_v<T, uint64_t> && overflow > 0) {
        const unsigned long long large = PyLong_AsUnsignedLongLong(o);
        if (large != static_cast<unsigned long long>(-1) || PyErr_Occurred() == nullptr) return static_cast<T>(large);
        PyErr_Clear();
      }
      if (overflow != 0) does_not_fit(depth, "an int of more than 64 bits", dtype_of_v<T>);
      if (!std::in_range<T>(v)) does_not_fit(depth, std::to_string(v), dtype_of_v<T>);
      return static_cast<T>(v);
    } else {
      double d = static_cast<double>(v);
      if (overflow != 0) {
        d = PyLong_AsDouble(o);
        if (d == -1.0 && PyErr_Occurred() != nullptr) throw PythonError();
      }
      return from_double<T>(d, depth);
    }
  }

  template <typename T>
  T from_number(PyObject* o, size_t depth) const {
    if (PyFloat_CheckExact(o)) return from_double<T>(PyFloat_AS_DOUBLE(o), depth);
    if (PyLong_Check(o)) return from_int<T>(o, depth);
    const NumberKind kind = number_kind(o);
    if (kind == NumberKind::Int) {
      Ref index(check(PyNumber_Index(o)));
      return from_int<T>(index.get(), depth);
    }
    const Scalar v = number_value(o, kind);
    if constexpr (is_complex_v<T>) {
      return v.to<T>();
    } else {
      FACULA_CHECK(v.kind() != Category::Complex, UnfitDtype, Operator{who_}, path(depth),
                   " is complex, but the dtype is ", dtype_name(dtype_of_v<T>));
      return from_double<T>(v.as_double(), depth);
    }
  }

  // Writes the elements of `o` and moves `to` behind them.
  template <typename T>
  void fill(PyObject* o, size_t depth, char*& to) {
    if (PyList_Check(o) || PyTuple_Check(o)) return fill_items<T>(o, depth, to);
    if (number_kind(o) != NumberKind::None) {
      FACULA_CHECK(depth == sizes_.size(), Runtime, Operator{who_}, "data changed while it was read");
      const T v = from_number<T>(o, depth);
      std::memcpy(to, &v, sizeof(T));
      to += sizeof(T);
      return;
    }
    FACULA_CHECK(next_ < converted_.size(), Runtime, Operator{who_}, "data changed while it was read");
    Converted& c = converted_[next_++];
    if (c.list) return fill_items<T>(c.list.get(), depth, to);
    // Contiguous place of the element's shape in the result.
    const Tensor place = from_storage(StorageImpl::wrap(
                                          to, c.tensor.numel() * sizeof(T), Device{kCPU}, [](void*) {}, nullptr),
                                      c.tensor.sizes(), contiguous_strides(c.tensor.sizes()), 0, dtype_of_v<T>);
    copy_strided(place, c.tensor);
    to += static_cast<size_t>(c.tensor.numel()) * sizeof(T);
  }

  template <typename T>
  void fill_items(PyObject* o, size_t depth, char*& to) {
    FACULA_CHECK(depth < sizes_.size(), Runtime, Operator{who_}, "data changed while it was read");
    const ItemsOf items(o);
    const int64_t n = sizes_[depth];
    const bool last = depth + 1 == sizes_.size();
    for (int64_t i = 0; i < n; ++i) {
      count_step();
      // Conversions call Python code, which may change the list.
      FACULA_CHECK(n == items.size(), Runtime, Operator{who_}, "data changed while it was read");
      path_[depth] = i;
      PyObject* item = items[i];
      if (last && PyFloat_CheckExact(item)) {
        const T v = from_double<T>(PyFloat_AS_DOUBLE(item), depth + 1);
        std::memcpy(to, &v, sizeof(T));
        to += sizeof(T);
        continue;
      }
      Ref hold = Ref::borrow(item);
      fill<T>(item, depth + 1, to);
    }
  }

  const char* who_;
  std::optional<ScalarType> wanted_;
  std::optional<ScalarType> found_;
  ScalarType float_type_ = get_default_dtype();
  DimVector sizes_;
  bool shaped_ = false;  // a leaf was seen, so the number of dimensions is known
  int64_t path_[kMaxDepth + 1] = {};
  std::vector<Converted> converted_;
  size_t next_ = 0;
};

}  // namespace

Tensor tensor_from_data(const char* who, PyObject* data, const DataOptions& options) {
  if (is_tensor(data)) return converted(tensor_of(data), options);
  const bool plain = PyList_Check(data) || PyTuple_Check(data) || number_kind(data) != NumberKind::None;
  if (!plain && !PyUnicode_Check(data) && !PyBytes_Check(data) && !PyByteArray_Check(data) && data != Py_None) {
    if (std::optional<Tensor> t = tensor_from_exchange(who, data)) return converted(*t, options);
  }
  FACULA_CHECK(options.copy.value_or(true), Value, Operator{who}, "copy=False, but a ", Py_TYPE(data)->tp_name,
               " has to be copied");
  Tensor t = NestedData(who, options.dtype).make(data);
  DataOptions rest;
  rest.device = options.device;
  return options.device && options.device->type != kCPU ? converted(t, rest) : t;
}

Ref array_operand(const char* who, PyObject* o) {
  if (is_operand(o)) return Ref::borrow(o);
  if (!PyObject_HasAttrString(o, "__array_interface__")) return Ref();
  return Ref(wrap(tensor_from_data(who, o, {})));
}

}  // namespace facula::python
