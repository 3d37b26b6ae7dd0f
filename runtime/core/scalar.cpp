#include "runtime/core/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace facula {

ScalarType Scalar::dtype() const {
  switch (kind_) {
    case Category::Bool:
      return ScalarType::Bool;
    case Category::Integral:
      return beyond_ ? ScalarType::UInt64 : ScalarType::Int64;
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
      if (beyond_) return Scalar(-as_double());
      return Scalar(static_cast<int64_t>(-static_cast<uint64_t>(i_)));
    case Category::Floating:
      return Scalar(-d_);
    case Category::Complex:
      return Scalar(complex128(-d_, -im_));
  }
  __builtin_unreachable();
}

bool Scalar::fits(ScalarType integral) const {
  return visit_dtype(integral, [&]<typename T>(std::type_identity<T>) -> bool {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (kind_ > Category::Integral) {
        const double d = std::trunc(d_), end = 2.0 * static_cast<double>(std::numeric_limits<T>::max() / 2 + 1);
        return d >= static_cast<double>(std::numeric_limits<T>::min()) && d < end;
      }
      return beyond_ ? std::is_same_v<T, uint64_t> : std::in_range<T>(i_);
    }
    return true;
  });
}

std::string integer_text(const Scalar& s) {
  return s.is_beyond_int64() ? std::to_string(s.to<uint64_t>()) : std::to_string(s.to<int64_t>());
}
std::string range_text(ScalarType integral) {
  return visit_dtype(integral, []<typename T>(std::type_identity<T>) -> std::string {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return concat(std::to_string(std::numeric_limits<T>::min()), " to ",
                    std::to_string(std::numeric_limits<T>::max()));
    }
    return "";
  });
}

void check_fits(const Scalar& value, ScalarType dtype, const char* op) {
  FACULA_CHECK(value.kind() != Category::Complex || is_complex(dtype), UnfitDtype, Operator{op},
               "the number is complex and ", dtype_name(dtype), " is not; take its real part, or use a complex dtype");
  if (!is_integral(dtype)) return;
  const bool whole = value.kind() <= Category::Integral;
  FACULA_CHECK(value.fits(dtype), Overflow, Operator{op}, "the number ",
               whole ? integer_text(value) : concat(value.as_double()), " does not fit into ", dtype_name(dtype), " (",
               range_text(dtype), ")");
}

Scalar load_element(const void* p, ScalarType t) {
  return visit_dtype(t, [&]<typename T>(std::type_identity<T>) -> Scalar {
    stored_t<T> v;
    std::memcpy(&v, p, sizeof(v));
    if constexpr (std::is_same_v<T, bool>) {
      return Scalar(v != 0);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      return Scalar(v);
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
