#include "runtime/core/scalar.h"

#include <cstring>

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
