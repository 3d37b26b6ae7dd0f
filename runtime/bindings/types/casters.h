// Between pybind11 and facula: tensors, numbers, dtypes, devices and lists of them as arguments and results, and
// errors.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <span>
#include <vector>

#include "runtime/bindings/types/types.h"

namespace pybind11::detail {

// What is of one type in Python.
template <typename T, typename Value>
struct facula_caster {
  template <typename U>
  using cast_op_type = pybind11::detail::movable_cast_op_type<U>;
  explicit operator Value*() { return &value; }
  explicit operator Value&() { return value; }
  explicit operator Value&&() && { return std::move(value); }

 protected:
  Value value{};
};

template <>
struct type_caster<facula::Tensor> : facula_caster<type_caster<facula::Tensor>, facula::Tensor> {
  static constexpr auto name = const_name("facula.Tensor");
  bool load(handle source, bool) {
    if (!facula::python::is_tensor(source.ptr())) return false;
    value = facula::python::tensor_of(source.ptr());
    return true;
  }
  // A tensor that is undefined is None.
  static handle cast(facula::Tensor t, return_value_policy, handle) { return facula::python::wrap(std::move(t)); }
};

template <>
struct type_caster<facula::Scalar> : facula_caster<type_caster<facula::Scalar>, facula::Scalar> {
  static constexpr auto name = const_name("float");
  bool load(handle source, bool) {
    const facula::python::NumberKind kind = facula::python::number_kind(source.ptr());
    if (kind == facula::python::NumberKind::None) return false;
    value = facula::python::number_value(source.ptr(), kind);
    return true;
  }
  static handle cast(const facula::Scalar& s, return_value_policy, handle) { return facula::python::wrap(s); }
};

template <>
struct type_caster<facula::ScalarType> : facula_caster<type_caster<facula::ScalarType>, facula::ScalarType> {
  static constexpr auto name = const_name("facula.dtype");
  bool load(handle source, bool) {
    if (Py_TYPE(source.ptr()) != facula::python::dtype_type) return false;
    value = facula::python::dtype_value(source.ptr());
    return true;
  }
  static handle cast(facula::ScalarType t, return_value_policy, handle) { return facula::python::wrap(t); }
};

template <>
struct type_caster<facula::Device> : facula_caster<type_caster<facula::Device>, facula::Device> {
  static constexpr auto name = const_name("facula.device");
  // Also the text of one; what names no device raises.
  bool load(handle source, bool) {
    if (Py_TYPE(source.ptr()) != facula::python::device_type && PyUnicode_Check(source.ptr()) == 0) return false;
    value = facula::python::device_value(source.ptr());
    return true;
  }
  static handle cast(facula::Device d, return_value_policy, handle) { return facula::python::wrap(d); }
};

template <>
struct type_caster<facula::MemoryFormat> : facula_caster<type_caster<facula::MemoryFormat>, facula::MemoryFormat> {
  static constexpr auto name = const_name("facula.memory_format");
  bool load(handle source, bool) {
    if (Py_TYPE(source.ptr()) != facula::python::memory_format_type) return false;
    value = facula::python::memory_format_value(source.ptr());
    return true;
  }
};

template <>
struct type_caster<facula::Generator> : facula_caster<type_caster<facula::Generator>, facula::Generator> {
  static constexpr auto name = const_name("facula.Generator");
  bool load(handle source, bool) {
    if (Py_TYPE(source.ptr()) != facula::python::generator_type) return false;
    value = facula::python::generator_value(source.ptr());
    return true;
  }
  static handle cast(const facula::Generator& g, return_value_policy, handle) { return facula::python::wrap(g); }
};

// Sizes, strides, dims: a sequence of ints in, a facula.Size out.
template <>
struct type_caster<facula::DimVector> : facula_caster<type_caster<facula::DimVector>, facula::DimVector> {
  static constexpr auto name = const_name("Sequence[int]");
  bool load(handle source, bool convert) {
    list_caster<std::vector<int64_t>, int64_t> items;
    if (!items.load(source, convert)) return false;
    const std::vector<int64_t>& given = items;
    value = facula::DimVector(std::span<const int64_t>(given));
    return true;
  }
  static handle cast(facula::IntList sizes, return_value_policy, handle) { return facula::python::wrap(sizes); }
};

// Views of lists, which the caster holds for the time of the call.
template <>
struct type_caster<facula::IntList> : facula_caster<type_caster<facula::IntList>, facula::IntList> {
  static constexpr auto name = const_name("Sequence[int]");
  bool load(handle source, bool convert) {
    if (!held_.load(source, convert)) return false;
    value = facula::IntList(static_cast<facula::DimVector&>(held_));
    return true;
  }
  static handle cast(facula::IntList sizes, return_value_policy, handle) { return facula::python::wrap(sizes); }

 private:
  type_caster<facula::DimVector> held_;
};

template <>
struct type_caster<facula::TensorList> : facula_caster<type_caster<facula::TensorList>, facula::TensorList> {
  static constexpr auto name = const_name("Sequence[facula.Tensor]");
  bool load(handle source, bool convert) {
    if (!held_.load(source, convert)) return false;
    const std::vector<facula::Tensor>& given = held_;
    value = given;
    return true;
  }

 private:
  list_caster<std::vector<facula::Tensor>, facula::Tensor> held_;
};

}  // namespace pybind11::detail

namespace facula::extension {

// In functions of this module: facula's errors become Python's.
inline void translate_errors() {
  pybind11::register_local_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const Error&) {
      python::set_python_error();
    } catch (const python::PythonError&) {
      python::set_python_error();
    }
  });
}

}  // namespace facula::extension
