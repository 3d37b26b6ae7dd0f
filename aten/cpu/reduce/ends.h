// The ends of the range: a reduction whose sum or squares left it is computed again, scaled, so that a result
// that fits its type is given. In the ordinary case that costs a comparison of each result.
#pragma once

#include "aten/cpu/reduce/strided_iterator.h"

namespace facula::cpu {

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
