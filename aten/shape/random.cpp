// Shape rules and argument checks of random sampling.
#include <algorithm>
#include <limits>

#include "facula/draw_types.h"
#include "facula/shapes.h"

namespace facula::shape {

namespace {

using OptionalType = std::optional<ScalarType>;
using Name = std::string_view;

void check_sizes(IntList size, Name op) {
  for (const int64_t s : size) {
    FACULA_CHECK(s >= 0, Shape, Operator{op}, "sizes must not be negative, got ", shape_string(size));
  }
}

ScalarType drawn_type(OptionalType dtype, Name op) {
  const ScalarType t = dtype.value_or(get_default_dtype());
  FACULA_CHECK(is_differentiable(t), Dtype, Operator{op}, Argument{"dtype"}, " must be floating-point or complex, not ",
               dtype_name(t));
  return t;
}

// Are first ... last numbers of the type?
void check_integers(Name op, ScalarType type, int64_t first, int64_t last) {
  FACULA_CHECK(!is_complex(type), UnfitDtype, Operator{op}, "not implemented for ", dtype_name(type),
               "; a real dtype is needed");
  int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  if (is_integral(type, true)) {
    most = draws::exact_integers(static_cast<int>(type));
    least = type == ScalarType::Bool || is_unsigned(type) ? 0 : -most - 1;
  } else if (type == ScalarType::Float16) {
    most = 65504;
    least = -most;
  }
  FACULA_CHECK(first >= least && last <= most, Dtype, Operator{op}, "integers from ", first, " to ", last,
               " do not fit ", dtype_name(type), ", which holds ", least, " to ", most, "; take a wider dtype");
  const draws::Limits<int64_t> within = draws::integers_within(static_cast<int>(type), first, last);
  FACULA_CHECK(within.least <= within.most, Dtype, Operator{op}, dtype_name(type), " has none of the integers from ",
               first, " to ", last, "; take a wider dtype");
}

}  // namespace

Meta drawn(IntList size, OptionalType dtype, std::optional<Device> device, Name op) {
  check_sizes(size, op);
  return {DimVector(size), drawn_type(dtype, op), device.value_or(Device{}), {}};
}

Meta drawn_integers(int64_t low, int64_t high, IntList size, OptionalType dtype, std::optional<Device> device) {
  check_sizes(size, "randint");
  FACULA_CHECK(low < high, Runtime, Operator{"randint"}, Argument{"low"}, " must be less than high, got low=", low,
               " and high=", high);
  const ScalarType type = dtype.value_or(ScalarType::Int64);
  check_integers("randint", type, low, high - 1);
  return {DimVector(size), type, device.value_or(Device{}), {}};
}

Meta permutation(int64_t n, OptionalType dtype, std::optional<Device> device) {
  const ScalarType type = dtype.value_or(ScalarType::Int64);
  FACULA_CHECK(!is_complex(type) && type != ScalarType::Bool, Dtype, Operator{"randperm"}, "not implemented for ",
               dtype_name(type));
  const int64_t exact = draws::exact_integers(static_cast<int>(type));
  const int64_t most = exact + (exact < std::numeric_limits<int64_t>::max());
  FACULA_CHECK(n <= most, Dtype, Operator{"randperm"}, Argument{"n"}, " is ", n, ", ", dtype_name(type),
               " holds the numbers below ", most, " only");
  return {DimVector{n}, type, device.value_or(Device{}), {}};
}

Meta drawn_like(const Tensor& self, Name op) {
  FACULA_CHECK(self.is_floating_point(), Dtype, Operator{op}, Argument{"self"}, " must be floating-point, not ",
               dtype_name(self.dtype()));
  return {DimVector(self.sizes()), self.dtype(), self.device(), {}};
}

Meta drawn_of_both(const Tensor& self, const Tensor& other, Name op) {
  for (const Tensor& t : {self, other}) {
    FACULA_CHECK(t.is_floating_point(), Dtype, Operator{op}, "parameters must be floating-point, not ",
                 dtype_name(t.dtype()));
  }
  FACULA_CHECK(self.dtype() == other.dtype(), Dtype, Operator{op}, "parameters must have one dtype, not ",
               dtype_name(self.dtype()), " and ", dtype_name(other.dtype()));
  return {broadcast_shapes(self.sizes(), other.sizes(), std::string(op).c_str()), self.dtype(), self.device(), {}};
}

Meta sampled(const Tensor& self, int64_t num_samples, bool replacement) {
  constexpr Name op = "multinomial";
  FACULA_CHECK(self.is_floating_point(), Dtype, Operator{op}, Argument{"self"}, " must be floating-point, not ",
               dtype_name(self.dtype()));
  FACULA_CHECK(self.dim() == 1 || self.dim() == 2, Shape, Operator{op}, Argument{"self"},
               " must have one or two dims, but is ", shape_string(self.sizes()));
  const int64_t categories = self.size(-1);
  FACULA_CHECK(categories > 0 || (self.dim() == 2 && self.size(0) == 0), Shape, Operator{op}, Argument{"self"},
               " has no categories, its shape is ", shape_string(self.sizes()));
  FACULA_CHECK(replacement || num_samples <= categories, Runtime, Operator{op}, "cannot draw ", num_samples, " of ",
               categories, " categories without replacement");
  Meta meta{DimVector(self.sizes()), ScalarType::Int64, self.device(), {}};
  meta.sizes[meta.sizes.size() - 1] = num_samples;
  return meta;
}

// Refuses an interval in which the dtype has no number.
void uniform_range(const Called& called, ScalarType dtype, double from, double to) {
  const ScalarType real = to_real(dtype);
  const draws::Limits<double> within = draws::numbers_within(static_cast<int>(real), from, to);
  FACULA_CHECK(from == to || within.most < to, Runtime, Operator{called.op}, dtype_name(real), " has no number from ",
               from, " to below ", to, "; take a wider interval or a wider dtype");
}

// What random integers are drawn from: from ... to - 1, or all from `from` that the type has exactly.
void drawn_range(const Called& called, ScalarType dtype, int64_t from, std::optional<int64_t> to) {
  FACULA_CHECK(!to || from < *to, Runtime, Operator{called.op}, "from must be less than to, got from=", from,
               " and to=", to.value_or(0));
  const int64_t most = draws::exact_integers(static_cast<int>(dtype));
  check_integers(called.op, dtype, from, to ? *to - 1 : std::max(from, most));
  FACULA_CHECK(to || from <= most, Dtype, Operator{called.op}, "from is ", from, ", the greatest ", dtype_name(dtype),
               " to draw is ", most, "; give to as well");
}

}  // namespace facula::shape
