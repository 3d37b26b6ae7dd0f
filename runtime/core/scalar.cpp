#include "runtime/core/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace facula {

ScalarType Scalar::dtype() const {
  switch (kind_) {
    case Category::Bool:
      return ScalarType::Bool;
    case Category::Integral:
      return ScalarType::Int64;
    case Category::Floating:
      return get_default_dtype();
    case Category::Complex:
      return to_complex(get_default_dtype());
  }
  __builtin_unreachable();
}

Scalar Scalar::operator-() const {
  switch (kind_) {
    case Category::Bool:
      return Scalar(-i_);
    case Category::Integral:  // wraps at the smallest number, as the element types do
      return Scalar(static_cast<int64_t>(-static_cast<uint64_t>(i_)));
    case Category::Floating:
      return Scalar(-d_);
    case Category::Complex:
      return Scalar(complex128(-d_, -im_));
  }
  __builtin_unreachable();
}

void check_fits(const Scalar& value, ScalarType dtype, const char* op) {
  FACULA_CHECK(value.kind() != Category::Complex || is_complex(dtype), UnfitDtype, Operator{op},
               "the number is complex and ", dtype_name(dtype), " is not; take its real part, or use a complex dtype");
  if (!is_integral(dtype)) return;
  visit_dtype(dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      constexpr int64_t low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
      const bool whole = value.kind() <= Category::Integral;
      const double d = std::trunc(value.as_double());
      const int64_t v = value.to<int64_t>();
      const bool fits = (whole || (d >= -0x1p63 && d < 0x1p63)) && v >= low && v <= high;
      FACULA_CHECK(fits, Overflow, Operator{op}, "the number ", whole ? std::to_string(v) : concat(value.as_double()),
                   " does not fit into ", dtype_name(dtype), " (", low, " to ", high, ")");
    }
  });
}

Scalar load_element(const void* p, ScalarType t) {
  return visit_dtype(t, [&]<typename T>(std::type_identity<T>) -> Scalar {
    stored_t<T> v;
    std::memcpy(&v, p, sizeof(v));
    if constexpr (std::is_same_v<T, bool>) {
      return Scalar(v != 0);
    } else if constexpr (std::is_integral_v<T>) {
      return Scalar(static_cast<int64_t>(v));
    } else if constexpr (is_complex_v<T>) {
      return Scalar(complex128(v));
    } else {
      return Scalar(static_cast<double>(v));
    }
  });
}

}  // namespace facula
