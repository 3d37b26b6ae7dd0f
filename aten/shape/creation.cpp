// Shape rules of operators that make tensors.
#include <cmath>

#include "aten/geometry.h"
#include "facula/shapes.h"

namespace facula::shape {

namespace {

void check_sizes(IntList size, const char* op) {
  for (const int64_t s : size) {
    FACULA_CHECK(s >= 0, Shape, Operator{op}, "sizes must not be negative: ", shape_string(size));
  }
}

Meta triangle(const Tensor& self, const char* op) {
  FACULA_CHECK(self.dim() >= 2, Shape, Operator{op}, Argument{"self"}, " must have at least 2 dims, not ", self.dim());
  return {DimVector(self.sizes()), self.dtype(), self.device(), {}};
}

}  // namespace

Meta creation(IntList size, std::optional<ScalarType> dtype, std::optional<Device> device,
              std::optional<MemoryFormat> memory_format) {
  check_sizes(size, "empty");
  return {DimVector(size), dtype.value_or(get_default_dtype()), device.value_or(Device{}),
          memory_format ? format_strides(size, *memory_format, "empty") : DimVector()};
}

Meta creation_strided(IntList size, IntList stride, std::optional<ScalarType> dtype, std::optional<Device> device) {
  check_sizes(size, "empty_strided");
  FACULA_CHECK(size.size() == stride.size(), Shape, Operator{"empty_strided"}, size.size(), " sizes and ",
               stride.size(), " strides are given");
  return {DimVector(size), dtype.value_or(get_default_dtype()), device.value_or(Device{}), DimVector(stride)};
}

Meta filled(IntList size, const Scalar& fill_value, std::optional<ScalarType> dtype, std::optional<Device> device) {
  check_sizes(size, "full");
  if (dtype) check_fits(fill_value, *dtype, "full");
  return {DimVector(size), dtype.value_or(fill_value.dtype()), device.value_or(Device{}), {}};
}

Meta created_like(const Tensor& self, std::optional<ScalarType> dtype, std::optional<Device> device,
                  std::optional<MemoryFormat> memory_format) {
  return {DimVector(self.sizes()), dtype.value_or(self.dtype()), device.value_or(self.device()),
          format_strides_like(self, memory_format, true, "empty_like")};
}

Meta created_new(const Tensor& self, IntList size, std::optional<ScalarType> dtype, std::optional<Device> device) {
  check_sizes(size, "new_empty");
  return {DimVector(size), dtype.value_or(self.dtype()), device.value_or(self.device()), {}};
}

Meta filled_like(const Tensor& self, const Scalar& fill_value, std::optional<ScalarType> dtype,
                 std::optional<Device> device, std::optional<MemoryFormat> memory_format) {
  check_fits(fill_value, dtype.value_or(self.dtype()), "full_like");
  return created_like(self, dtype, device, memory_format);
}

Meta filled_new(const Tensor& self, IntList size, const Scalar& fill_value, std::optional<ScalarType> dtype,
                std::optional<Device> device) {
  check_fits(fill_value, dtype.value_or(self.dtype()), "new_full");
  return created_new(self, size, dtype, device);
}

Meta cloned(const Tensor& self, std::optional<ScalarType> dtype, std::optional<Device> device,
            std::optional<MemoryFormat> memory_format) {
  return {DimVector(self.sizes()), dtype.value_or(self.dtype()), device.value_or(self.device()),
          format_strides_like(self, memory_format, true, "clone")};
}

Meta range(const Scalar& start, const Scalar& end, const Scalar& step, std::optional<ScalarType> dtype,
           std::optional<Device> device) {
  const auto integral = [](const Scalar& s) { return s.kind() <= Category::Integral; };
  for (const Scalar* s : {&start, &end, &step}) {
    FACULA_CHECK(s->kind() != Category::Complex, Type, Operator{"arange"}, "start, end and step must be real");
    FACULA_CHECK(std::isfinite(s->as_double()), Value, Operator{"arange"}, "start, end and step must be finite, not ",
                 s->as_double());
  }
  FACULA_CHECK(!step.equals(0), Runtime, Operator{"arange"}, Argument{"step"}, " must not be 0");
  const bool all_integral = integral(start) && integral(end) && integral(step);
  const double low = start.as_double(), high = end.as_double();
  __extension__ typedef __int128 wide;
  const auto whole = [](const Scalar& s) {
    return s.is_beyond_int64() ? wide(s.to<uint64_t>()) : wide(s.to<int64_t>());
  };
  const wide from = all_integral ? whole(start) : 0, extent = all_integral ? whole(end) - from : 0;
  const bool ascending = step.as_double() > 0;
  const bool reached = all_integral ? (ascending ? extent >= 0 : extent <= 0) : (ascending ? high >= low : high <= low);
  FACULA_CHECK(reached, Runtime, Operator{"arange"}, "from ", low, " to ", high, " with step ", step.as_double(),
               " goes the wrong way");
  int64_t count;
  Scalar last = start;
  if (all_integral) {
    const wide by = whole(step), n = (extent + by - (by > 0 ? 1 : -1)) / by;
    FACULA_CHECK(n <= std::numeric_limits<int64_t>::max(), Shape, Operator{"arange"}, "too many elements");
    count = static_cast<int64_t>(n);
    const wide end_at = from + std::max<wide>(n - 1, 0) * by;
    last = end_at > std::numeric_limits<int64_t>::max() ? Scalar(static_cast<uint64_t>(end_at))
                                                        : Scalar(static_cast<int64_t>(end_at));
  } else {
    const double n = std::ceil((high - low) / step.as_double());
    FACULA_CHECK(n >= 0 && n < 9.2e18, Shape, Operator{"arange"}, n, " elements are too many");
    count = static_cast<int64_t>(n);
    last = Scalar(low + static_cast<double>(std::max<int64_t>(count - 1, 0)) * step.as_double());
  }
  const bool unsigned_only = start.is_beyond_int64() || last.is_beyond_int64();
  const ScalarType whole_type = unsigned_only ? ScalarType::UInt64 : ScalarType::Int64;
  const ScalarType natural = all_integral ? whole_type : get_default_dtype();
  if (is_integral(dtype.value_or(natural)) && count > 0) {
    check_fits(start, dtype.value_or(natural), "arange");
    check_fits(last, dtype.value_or(natural), "arange");
  }
  return {{count}, dtype.value_or(natural), device.value_or(Device{}), {}};
}

Meta spaced(const Scalar& start, const Scalar& end, int64_t steps, std::optional<ScalarType> dtype,
            std::optional<Device> device) {
  FACULA_CHECK(steps >= 0, Runtime, Operator{"linspace"}, Argument{"steps"}, " must not be negative, not ", steps);
  const bool complex = start.kind() == Category::Complex || end.kind() == Category::Complex;
  const ScalarType natural = complex ? to_complex(get_default_dtype()) : get_default_dtype();
  const ScalarType chosen = dtype.value_or(natural);
  FACULA_CHECK(!complex || is_complex(chosen), Dtype, Operator{"linspace"}, "complex ends need a complex dtype, not ",
               dtype_name(chosen));
  if (steps > 0) check_fits(start, chosen, "linspace");
  if (steps > 1) check_fits(end, chosen, "linspace");
  return {{steps}, chosen, device.value_or(Device{}), {}};
}

// As `spaced` for the exponents of `base`.
Meta powers(const Scalar& start, const Scalar& end, int64_t steps, double base, std::optional<ScalarType> dtype,
            std::optional<Device> device) {
  FACULA_CHECK(steps >= 0, Runtime, Operator{"logspace"}, Argument{"steps"}, " must not be negative, not ", steps);
  const Meta plain = spaced(start, end, 0, dtype, device);
  if (is_integral(plain.dtype)) {
    if (steps > 0) check_fits(Scalar(std::pow(base, start.as_double())), plain.dtype, "logspace");
    if (steps > 1) check_fits(Scalar(std::pow(base, end.as_double())), plain.dtype, "logspace");
  }
  return {{steps}, plain.dtype, plain.device, {}};
}

Meta identity(int64_t n, std::optional<int64_t> m, std::optional<ScalarType> dtype, std::optional<Device> device) {
  FACULA_CHECK(n >= 0 && m.value_or(0) >= 0, Runtime, Operator{"eye"}, "n and m must not be negative, not ", n, " and ",
               m.value_or(n));
  return {{n, m.value_or(n)}, dtype.value_or(get_default_dtype()), device.value_or(Device{}), {}};
}

Meta lower_triangle(const Tensor& self) { return triangle(self, "tril"); }
Meta upper_triangle(const Tensor& self) { return triangle(self, "triu"); }

Meta complex_parts(const Tensor& real, const Tensor& imag) {
  FACULA_CHECK(
      real.dtype() == imag.dtype() && (real.dtype() == ScalarType::Float32 || real.dtype() == ScalarType::Float64),
      Dtype, Operator{"complex"}, "real and imag must both be float32 or both float64, not ", dtype_name(real.dtype()),
      " and ", dtype_name(imag.dtype()));
  return {broadcast_shapes(real.sizes(), imag.sizes(), "complex"), to_complex(real.dtype()), real.device(), {}};
}

void broadcasts_to(const Called& called, const Tensor& self, const Tensor& other) {
  if (other.sizes() == self.sizes()) return;
  bool fits = other.dim() <= self.dim();
  for (int64_t i = 1; fits && i <= other.dim(); ++i) fits = other.size(-i) == 1 || other.size(-i) == self.size(-i);
  FACULA_CHECK(fits, Shape, Operator{called.op}, called[1], " is ", shape_string(other.sizes()),
               ", which does not broadcast to ", called[0], ", ", shape_string(self.sizes()));
}

void number_fits(const Called& called, const Tensor& self, const Scalar& value) {
  check_fits(value, self.dtype(), called.op);
}

// May `src` be read while `self` is written?
void copied(const Called& called, const Tensor& self, const Tensor& src) {
  broadcasts_to(called, self, src);
  FACULA_CHECK(!src.is_meta() || self.is_meta(), Values, Operator{called.op}, called[1],
               " is on the meta device and has no values");
  FACULA_CHECK(overlap_of(self, src) != Overlap::Partial, Aliasing, Operator{called.op}, called[0], " and ", called[1],
               " share memory in different places; clone() ", called[1], " first");
}

}  // namespace facula::shape
