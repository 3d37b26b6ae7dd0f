// Helpers that translated formulas call: Python's arithmetic and list rules on C++ values.
#pragma once

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "runtime/core/checked.h"
#include "runtime/core/thread_state.h"
#include "runtime/dispatch/levels.h"
#include "runtime/dispatch/registry.h"
#include "runtime/iterate/result_type.h"

namespace facula {

inline int64_t floor_div(int64_t a, int64_t b) {
  FACULA_CHECK(b != 0, ZeroDivision, "integer division by zero");
  if (b == -1) return checked_neg(a);  // the one quotient that may be too large
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
inline double floor_div(double a, double b) { return std::floor(a / b); }
inline int64_t floor_mod(int64_t a, int64_t b) { return b == -1 ? 0 : a - floor_div(a, b) * b; }
inline double floor_mod(double a, double b) { return a - std::floor(a / b) * b; }
inline int64_t to_int(double a) {
  FACULA_CHECK(a >= -0x1p63 && a < 0x1p63, Value, a, " is no integer of 64 bits");  // nor is NaN
  return static_cast<int64_t>(a);
}
inline int64_t to_int(const Scalar& a) {
  return a.kind() <= Category::Integral && !a.is_beyond_int64() ? a.to<int64_t>() : to_int(a.as_double());
}

// Scalars keep the higher category of the two; an integer that 64 bits do not hold becomes a float.
namespace detail {
template <typename F, typename G>
Scalar scalar_binary(const Scalar& a, const Scalar& b, F op, G overflows) {
  const Category c = std::max(a.kind(), b.kind());
  if (c == Category::Complex) return op(a.to<complex128>(), b.to<complex128>());
  if (c == Category::Floating || a.is_beyond_int64() || b.is_beyond_int64()) return op(a.as_double(), b.as_double());
  int64_t whole = 0;
  return overflows(a.to<int64_t>(), b.to<int64_t>(), &whole) ? op(a.as_double(), b.as_double()) : Scalar(whole);
}
}  // namespace detail
inline Scalar scalar_add(const Scalar& a, const Scalar& b) {
  return detail::scalar_binary(
      a, b, [](auto x, auto y) { return Scalar(x + y); },
      [](int64_t x, int64_t y, int64_t* r) { return __builtin_add_overflow(x, y, r); });
}
inline Scalar scalar_sub(const Scalar& a, const Scalar& b) {
  return detail::scalar_binary(
      a, b, [](auto x, auto y) { return Scalar(x - y); },
      [](int64_t x, int64_t y, int64_t* r) { return __builtin_sub_overflow(x, y, r); });
}
inline Scalar scalar_mul(const Scalar& a, const Scalar& b) {
  return detail::scalar_binary(
      a, b, [](auto x, auto y) { return Scalar(x * y); },
      [](int64_t x, int64_t y, int64_t* r) { return __builtin_mul_overflow(x, y, r); });
}
inline Scalar scalar_div(const Scalar& a, const Scalar& b) {
  if (std::max(a.kind(), b.kind()) == Category::Complex) {
    return Scalar(a.to<complex128>() / b.to<complex128>());
  }
  return Scalar(a.as_double() / b.as_double());
}

// ---- lists ----
inline DimVector to_owned(IntList l) { return DimVector(l.begin(), l.end()); }
inline DimVector to_owned(DimVector l) { return l; }
inline std::vector<Tensor> to_owned(std::vector<Tensor> l) { return l; }
inline std::optional<DimVector> to_owned(const std::optional<IntList>& l) {
  return l ? std::optional<DimVector>(to_owned(*l)) : std::nullopt;
}
inline std::optional<DimVector> to_owned(const std::optional<DimVector>& l) { return l; }
inline std::vector<Tensor> to_owned(TensorList l) { return {l.begin(), l.end()}; }
inline std::optional<IntList> to_list(const std::optional<DimVector>& l) {
  return l ? std::optional<IntList>(IntList(*l)) : std::nullopt;
}
inline std::optional<IntList> to_list(const std::optional<IntList>& l) { return l; }

template <typename List>
auto list_item(const List& list, int64_t i) {
  const int64_t n = static_cast<int64_t>(list.size());
  FACULA_CHECK(i >= -n && i < n, Index, "index ", i, " is out of range for a list of ", n);
  return list[static_cast<size_t>(i < 0 ? i + n : i)];
}
template <typename Owned, typename List>
Owned slice_list(const List& list, int64_t low, int64_t high) {
  const int64_t n = static_cast<int64_t>(list.size());
  auto clip = [n](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
  low = clip(low);
  high = std::max(low, clip(high));
  return Owned(list.begin() + low, list.begin() + high);
}
template <typename Owned, typename A, typename B>
Owned join(const A& a, const B& b) {
  Owned out(a.begin(), a.end());
  for (const auto& v : b) out.push_back(v);
  return out;
}
template <typename Owned, typename List>
Owned repeat_list(const List& list, int64_t times) {
  Owned out;
  FACULA_CHECK(times <= 1 << 20, Value, "a list of ", times, " entries is too long");
  for (int64_t i = 0; i < times; ++i) {
    for (const auto& v : list) out.push_back(v);
  }
  return out;
}
// Sizes along a dim of the tensors of a list; -1 for those of shape (0,) beside others, which cat() ignores.
inline DimVector sizes_along(TensorList list, int64_t dim) {
  int64_t ndim = 1;
  for (const Tensor& t : list) ndim = t.numel() > 0 || t.dim() != 1 ? t.dim() : ndim;
  DimVector sizes;
  for (const Tensor& t : list) {
    sizes.push_back(t.dim() == ndim ? t.sizes()[static_cast<size_t>(wrap_dim(dim, ndim))] : -1);
  }
  return sizes;
}
inline DimVector inverse_permutation(IntList dims) {
  DimVector inverse(dims.size());
  const int64_t n = static_cast<int64_t>(dims.size());
  for (int64_t i = 0; i < n; ++i) inverse[static_cast<size_t>(wrap_dim(dims[i], n))] = i;
  return inverse;
}

// ---- types ----
template <typename F>
double finfo(ScalarType t, F&& pick) {
  switch (to_real(t)) {
    case ScalarType::Float16:
      return pick(0.0009765625, 65504.0, 6.103515625e-05);
    case ScalarType::BFloat16:
      return pick(0.0078125, 3.3895313892515355e+38, 1.1754943508222875e-38);
    case ScalarType::Float64:
      return pick(std::numeric_limits<double>::epsilon(), std::numeric_limits<double>::max(),
                  std::numeric_limits<double>::min());
    case ScalarType::Float32:
      return pick(std::numeric_limits<float>::epsilon(), std::numeric_limits<float>::max(),
                  std::numeric_limits<float>::min());
    default:
      raise(ErrorKind::UnfitDtype, "finfo wants a floating type, not ", dtype_name(t));
  }
}
inline double finfo_eps(ScalarType t) {
  return finfo(t, [](double eps, double, double) { return eps; });
}
inline double finfo_max(ScalarType t) {
  return finfo(t, [](double, double max, double) { return max; });
}
inline double finfo_min(ScalarType t) { return -finfo_max(t); }
inline double finfo_tiny(ScalarType t) {
  return finfo(t, [](double, double, double tiny) { return tiny; });
}
inline ScalarType result_dtype(const Tensor& a, const Tensor& b) {
  const Tensor* both[] = {&a, &b};
  return result_type(both);
}
inline ScalarType number_result_dtype(const Tensor& t, const Scalar& number) {
  ResultType type;
  type.add(t);
  type.add(number);
  return type.get();
}
inline double ten_to(int64_t n) { return std::pow(10.0, static_cast<double>(n)); }
// May what is computed now be differentiated, here or by a level further out?
inline bool grad_enabled() { return GradMode::enabled() || tls_state.forward_mode || levels_record(); }
// float64 where the device has it, else the widest of what it has: for what wants more than the result's digits.
inline ScalarType widest_float(std::optional<Device> device) { return device_operators.widest_float(device); }

}  // namespace facula
