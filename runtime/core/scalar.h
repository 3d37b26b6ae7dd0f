// A number without a tensor: what Python passes where the schema says Scalar.
#pragma once

#include "runtime/core/dtype.h"

namespace facula {

class Scalar {
 public:
  Scalar() : Scalar(int64_t{0}) {}
  Scalar(bool v) : kind_(Category::Bool) { i_ = v; }                                               // NOLINT
  Scalar(int v) : Scalar(static_cast<int64_t>(v)) {}                                               // NOLINT
  Scalar(int64_t v) : kind_(Category::Integral) { i_ = v; }                                        // NOLINT
  Scalar(uint64_t v) : kind_(Category::Integral), beyond_(v > static_cast<uint64_t>(INT64_MAX)) {  // NOLINT
    i_ = static_cast<int64_t>(v);
  }
  Scalar(double v) : kind_(Category::Floating) { d_ = v; }  // NOLINT
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
  double as_double() const {
    if (kind_ > Category::Integral) return d_;
    return beyond_ ? static_cast<double>(static_cast<uint64_t>(i_)) : static_cast<double>(i_);
  }
  // An integer above the largest of int64, which to<uint64_t>() has.
  bool is_beyond_int64() const { return beyond_; }
  // May an element of an integer type be the integer? Of other numbers, the whole number that they are cut to.
  bool fits(ScalarType integral) const;
  bool equals(double v) const { return kind_ != Category::Complex && as_double() == v; }
  Scalar operator-() const;
  Scalar conj() const { return kind_ == Category::Complex ? Scalar(complex128(d_, -im_)) : *this; }

 private:
  // A float outside T's range must not be undefined behaviour.
  template <typename T>
  static T saturate(double d) {
    if (std::is_same_v<T, uint64_t> && d >= 0x1p63 && d < 0x1p64) return static_cast<T>(d);
    return d >= -0x1p63 && d < 0x1p63 ? static_cast<T>(static_cast<int64_t>(d)) : T(0);
  }
  Category kind_;
  bool beyond_ = false;
  union {
    int64_t i_;
    double d_;
  };
  double im_ = 0;
};

// "-128 to 127" of int8, and the number that is an integer.
FACULA_API std::string range_text(ScalarType integral);
FACULA_API std::string integer_text(const Scalar& s);
// May the number be written where elements are of `dtype`? Floats are cut to whole numbers for integers, anything
// can be a bool, and floats may become infinite; what else does not fit raises.
FACULA_API void check_fits(const Scalar& value, ScalarType dtype, const char* op);

// The element at `p`, which need not be aligned.
FACULA_API Scalar load_element(const void* p, ScalarType t);

}  // namespace facula
