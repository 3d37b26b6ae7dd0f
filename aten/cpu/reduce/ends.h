// The ends of the range: a reduction whose sum or squares left it is computed again, scaled, so that a result
// that fits its type is given. In the ordinary case that costs a comparison of each result.
#pragma once

#include <cmath>

#include "aten/cpu/reduce/strided_iterator.h"

namespace facula::cpu {

// Whether a result is beyond doubt at first sight, as is a sum or mean that is finite.
inline bool plainly_fits(Ends ends, ScalarType acc, const void* result) {
  if (ends == Ends::None) return true;
  if (ends != Ends::Sum && ends != Ends::Mean) return false;
  if (acc == ScalarType::Float32) return std::isfinite(*static_cast<const float*>(result));
  return acc == ScalarType::Float64 && std::isfinite(*static_cast<const double*>(result));
}

class RangeEnds {
 public:
  // `count` elements make one result; finished results are of type `acc`.
  RangeEnds(const ReduceSpec& spec, ScalarType acc, int64_t count);

  // Whether one of the w finished results in plane 0 tells of a number that left the range.
  bool doubtful(const void* acc, int64_t w) const;

  // Computes those again. The elements of result j start at `offset` plus j steps along the innermost kept axis;
  // planes are w apart.
  void repair(const Tensor& self, const ReduceLayout& layout, int64_t offset, int64_t w, void* acc) const;

 private:
  bool fits(double value) const { return value >= low_ && value <= high_; }
  const ReduceSpec& spec_;
  ScalarType acc_;
  int64_t count_;
  double low_, high_;  // sizes of results beyond doubt
};

}  // namespace facula::cpu
