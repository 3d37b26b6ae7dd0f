// A number without a tensor: what Python passes where the schema says Scalar.
#pragma once

#include "runtime/core/dtype.h"

namespace facula {

class Scalar {
 public:
  Scalar() : Scalar(int64_t{0}) {}
  Scalar(bool v) : kind_(Category::Bool) { i_ = v; }         // NOLINT
  Scalar(int v) : Scalar(static_cast<int64_t>(v)) {}         // NOLINT
  Scalar(int64_t v) : kind_(Category::Integral) { i_ = v; }  // NOLINT
  Scalar(double v) : kind_(Category::Floating) { d_ = v; }   // NOLINT
  Scalar(complex128 v) : kind_(Category::Complex) {
    d_ = v.real();
    im_ = v.imag();
  }  // NOLINT

  Category kind() const { return kind_; }
  // The type a bare number has: bool, int64, the default float, the matching complex.
  ScalarType dtype() const;

  // Converts with C++ rules; complex to real takes the real part.
  template <typename T>
  T to() const {
    if constexpr (is_complex_v<T>) {
      using R = typename T::value_type;
      return T(static_cast<R>(as_double()), static_cast<R>(kind_ == Category::Complex ? im_ : 0.0));
    } else if constexpr (std::is_same_v<T, bool>) {
      return kind_ <= Category::Integral ? i_ != 0 : (d_ != 0 || (kind_ == Category::Complex && im_ != 0));
    } else if constexpr (std::is_integral_v<T>) {
      return kind_ <= Category::Integral ? static_cast<T>(i_) : saturate<T>(d_);
    } else {
      return static_cast<T>(as_double());
    }
  }
  double as_double() const { return kind_ <= Category::Integral ? static_cast<double>(i_) : d_; }
  bool equals(double v) const { return kind_ != Category::Complex && as_double() == v; }
  Scalar operator-() const;
  Scalar conj() const { return kind_ == Category::Complex ? Scalar(complex128(d_, -im_)) : *this; }

 private:
  // A float outside T's range must not be undefined behaviour.
  template <typename T>
  static T saturate(double d) {
    return d >= -0x1p63 && d < 0x1p63 ? static_cast<T>(static_cast<int64_t>(d)) : T(0);
  }
  Category kind_;
  union {
    int64_t i_;
    double d_;
  };
  double im_ = 0;
};

// May the number be written where elements are of `dtype`? Floats are cut to whole numbers for integers, anything
// can be a bool, and floats may become infinite; what else does not fit raises.
FACULA_API void check_fits(const Scalar& value, ScalarType dtype, const char* op);

// The element at `p`, which need not be aligned.
FACULA_API Scalar load_element(const void* p, ScalarType t);

}  // namespace facula
