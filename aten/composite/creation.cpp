// New tensors made by other operators.
#include <algorithm>

#include "facula/kernels.h"
#include "facula/ops.h"
#include "facula/shapes.h"
#include "runtime/dispatch/formula.h"

namespace facula::composite {

// 0, 1, 2, ...: what there is and the same moved on, side by side, until it is long enough.
Tensor arange_by_doubling(const Scalar& start, const Scalar& end, const Scalar& step, std::optional<ScalarType> dtype,
                          std::optional<Device> device) {
  const Meta meta = shape::range(start, end, step, dtype, device);
  const int64_t n = meta.sizes[0];
  const bool exact = is_integral(meta.dtype, true);  // steps of whole numbers, as in NumPy
  const Tensor places = ops::empty(meta.sizes, ScalarType::Int64, meta.device);
  if (n > 0) ops::fill_(ops::slice(places, 0, 0, 1, 1), 0);
  for (int64_t made = 1; made < n; made *= 2) {
    const int64_t more = std::min(made, n - made);
    ops::copy_(ops::slice(places, 0, made, made + more, 1),
               ops::add(ops::slice(places, 0, 0, more, 1), wrapped_number(Scalar(made))));
  }
  const Tensor i = exact ? places : ops::to_dtype(places, widest_float(meta.device));
  const auto number = [&](const Scalar& s) {
    return wrapped_number(exact ? Scalar(s.to<int64_t>()) : Scalar(s.as_double()));
  };
  return ops::to_dtype(ops::add(ops::mul(i, number(step)), number(start)), meta.dtype);
}

}  // namespace facula::composite
