// Operators of integer tensors and a number, where the number may lie beyond or between them.
#include <cmath>
#include <limits>

#include "facula/kernels.h"
#include "facula/ops.h"

namespace facula::composite {

namespace {

// The ends of an integer type or bool.
struct Range {
  Scalar low, high;
};

Range range_of(ScalarType t) {
  return visit_dtype(t, []<typename T>(std::type_identity<T>) -> Range {
    if constexpr (std::is_integral_v<T>) {
      using Wide = std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>;
      return {Scalar(Wide{std::numeric_limits<T>::min()}), Scalar(Wide{std::numeric_limits<T>::max()})};
    } else {
      return {Scalar(0), Scalar(0)};
    }
  });
}

}  // namespace

// Among integers a number stands where the next whole one does; beyond them all at an end.
Tensor searchsorted_number(const Tensor& sorted_sequence, const Scalar& self, bool out_int32, bool right,
                           std::optional<std::string_view> side, const Tensor& sorter) {
  const ScalarType dtype = sorted_sequence.dtype();
  Scalar number = self;
  if (is_integral(dtype, true) && self.kind() != Category::Complex) {
    const bool after = side ? *side == "right" : right;
    const auto [low, high] = range_of(dtype);
    const double d = self.as_double();
    const bool whole = self.kind() <= Category::Integral;
    const Scalar next = whole ? self : Scalar(after ? std::floor(d) : std::ceil(d));
    const bool fits = dtype == ScalarType::Bool ? next.as_double() >= 0 && next.as_double() <= 1 : next.fits(dtype);
    const bool below = !fits && next.as_double() < 0, above = !fits && !below;  // NaN is above all
    number = above ? high : below ? low : next;
    if ((above || below) && (!side || *side == "left" || *side == "right")) {
      right = above;
      side.reset();
    }
  }
  const Tensor value = ops::full({}, number, dtype, sorted_sequence.device());
  return ops::searchsorted(sorted_sequence, value, out_int32, right, side, sorter);
}

Tensor round_whole(const Tensor& self, int64_t decimals) {
  if (decimals >= 0) return ops::clone(self, std::nullopt);
  const int64_t most = range_of(self.dtype()).high.to<int64_t>();
  int64_t unit = 1;
  int64_t places = -std::max<int64_t>(decimals, -20);
  for (; places > 0 && unit <= most / 10; --places) unit *= 10;
  if (places == 0) return ops::round_units(self, Scalar(unit));
  // The unit is more than any element; where half of it is not, elements wrap as integers do.
  const bool reached = places == 1 && unit <= most / 5;
  if (!reached) return ops::zeros_like(self, std::nullopt, std::nullopt, std::nullopt);
  const Scalar half(5 * unit), wrapped(static_cast<int64_t>(10 * static_cast<uint64_t>(unit)));
  const Tensor above = ops::to_dtype(ops::gt(self, wrapped_number(half)), self.dtype());
  const Tensor below = ops::to_dtype(ops::lt(self, wrapped_number(-half)), self.dtype());
  return ops::mul(ops::sub(above, below, 1), wrapped_number(wrapped));
}

}  // namespace facula::composite
