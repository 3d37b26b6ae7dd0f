// Kernels of the reductions: each says what is accumulated in which type, reduce.cpp does the rest.
#include <cmath>
#include <limits>

#include "aten/cpu/reduce/reduce.h"
#include "facula/kernels.h"
#include "runtime/iterate/fusible.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

namespace {

using OptionalDims = std::optional<IntList>;

void fill(const Tensor& out, const Scalar& value) { copy_strided(out, wrapped_number(value)); }
void fill_nan(const Tensor& out) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  fill(out, out.is_complex() ? Scalar(complex128(kNan, kNan)) : Scalar(kNan));
}

// The type sums are kept in, given the type of the result.
ScalarType sum_type(ScalarType out) {
  switch (out) {
    case ScalarType::Float64:
    case ScalarType::Complex64:
    case ScalarType::Complex128:
      return out;
    default:
      return is_floating(out) ? ScalarType::Float32 : ScalarType::Int64;
  }
}
ScalarType real_type(ScalarType out) {
  return to_real(out) == ScalarType::Float64 ? ScalarType::Float64 : ScalarType::Float32;
}

// Loads from a complex tensor to a real type keep its precision, so the tensor must have it already.
Tensor in_precision_of(const Tensor& self, ScalarType real) {
  if (!self.is_complex() || to_real(self.dtype()) == real) return self;
  Tensor copy = make_empty(self.sizes(), to_complex(real));
  copy_strided(copy, self);
  return copy;
}

template <typename C>
void finish_mean_of(void* acc, int64_t w, int64_t n) {
  using R = decltype(std::abs(C{}));
  C* a = static_cast<C*>(acc);
  for (int64_t j = 0; j < w; ++j) a[j] /= static_cast<R>(n);
}
Finish finish_mean(ScalarType compute) {
  switch (compute) {
    case ScalarType::Float32:
      return [](void* acc, int64_t w, int64_t, int64_t n, const ReduceParams&) { finish_mean_of<float>(acc, w, n); };
    case ScalarType::Float64:
      return [](void* acc, int64_t w, int64_t, int64_t n, const ReduceParams&) { finish_mean_of<double>(acc, w, n); };
    case ScalarType::Complex64:
      return
          [](void* acc, int64_t w, int64_t, int64_t n, const ReduceParams&) { finish_mean_of<complex64>(acc, w, n); };
    default:
      return
          [](void* acc, int64_t w, int64_t, int64_t n, const ReduceParams&) { finish_mean_of<complex128>(acc, w, n); };
  }
}

// acc[j] = fn(acc[j]) in the floating type of the accumulators.
template <auto fn>
Finish finish_each(ScalarType compute) {
  if (compute == ScalarType::Float32) {
    return [](void* acc, int64_t w, int64_t, int64_t, const ReduceParams& params) {
      float* a = static_cast<float*>(acc);
      for (int64_t j = 0; j < w; ++j) a[j] = static_cast<float>(fn(a[j], params));
    };
  }
  return [](void* acc, int64_t w, int64_t, int64_t, const ReduceParams& params) {
    double* a = static_cast<double*>(acc);
    for (int64_t j = 0; j < w; ++j) a[j] = fn(a[j], params);
  };
}
double root(double x, const ReduceParams& params) { return std::sqrt(x) * params.scale; }
double power_root(double x, const ReduceParams& params) { return std::pow(x, 1 / params.p) * params.scale; }
double times_scale(double x, const ReduceParams& params) { return x * params.scale; }

// Planes mean, squared deviations -> variance (or deviation), mean.
template <bool Std>
void finish_moments(void* acc, int64_t w, int64_t stride, int64_t n, const ReduceParams& params) {
  double* mean = static_cast<double*>(acc);
  double* m2 = mean + stride;
  const double freedom = std::max(0.0, static_cast<double>(n) - params.correction);
  for (int64_t j = 0; j < w; ++j) {
    const double var = m2[j] / freedom;
    m2[j] = mean[j];
    mean[j] = Std ? std::sqrt(var) : var;
  }
}

ReduceSpec sum_spec(ScalarType compute, Preload preload = Preload::None) {
  return {ReduceOp::Sum, compute, preload, nullptr, {}, compute == ScalarType::Int64 ? Ends::None : Ends::Sum};
}

template <bool Std>
void moments(const Tensor& self, const OptionalDims& dim, const std::optional<Scalar>& correction, const Tensor& out,
             const Tensor& mean) {
  if (out.numel() == 0) return;
  if (self.numel() == 0) {
    fill_nan(out);
    if (mean.defined()) fill_nan(mean);
    return;
  }
  const DimSet dims = reduced_dims(dim, self.dim());
  ReduceSpec spec{ReduceOp::Moments, real_type(self.dtype()), Preload::None, finish_moments<Std>};
  spec.params.correction = correction ? correction->as_double() : 1.0;
  spec.ends = Std ? Ends::Deviation : Ends::Variance;
  if (!self.is_complex()) {
    reduce(spec, self, dims, out, mean);
    return;
  }
  // The variance of complex numbers is that of the real parts plus that of the imaginary ones. Deviations are
  // joined as sides of a triangle, as their squares may leave the range.
  const auto part = [](const Tensor& t, int64_t which) {
    DimVector strides(t.strides().begin(), t.strides().end());
    for (int64_t& s : strides) s *= 2;
    return from_storage(t.storage(), t.sizes(), strides, 2 * t.offset() + which, to_real(t.dtype()));
  };
  Tensor vars[2], means[2];
  for (int k = 0; k < 2; ++k) {
    vars[k] = make_empty(out.sizes(), ScalarType::Float64);
    if (mean.defined()) means[k] = part(mean, k);
    reduce(spec, part(self, k), dims, vars[k],
           mean.defined() ? means[k] : make_empty(out.sizes(), ScalarType::Float64));
  }
  double* a = vars[0].data<double>();
  const double* b = vars[1].data<double>();
  for (int64_t i = 0; i < out.numel(); ++i) a[i] = Std ? std::hypot(a[i], b[i]) : a[i] + b[i];
  copy_strided(out, vars[0]);
}

void extreme(ReduceOp op, const Tensor& self, IntList dim, const Tensor& out) {
  if (out.numel() == 0) return;
  reduce({op, order_type(self.dtype())}, self, reduced_dims(dim, self.dim()), out);
}

void truth(ReduceOp op, const Tensor& self, const OptionalDims& dim, const Tensor& out) {
  if (out.numel() == 0) return;
  if (self.numel() == 0) {
    fill(out, op == ReduceOp::Min);
    return;
  }
  // An empty list of dims is taken at its word here, as torch does.
  const DimSet dims = dim && dim->empty() ? DimSet() : reduced_dims(dim, self.dim());
  reduce({op, ScalarType::Int32, Preload::NonZero}, self, dims, out);
}

}  // namespace

void sum(const Tensor& self, OptionalDims dim, bool, std::optional<ScalarType>, const Tensor& out) {
  if (out.numel() == 0) return;
  if (self.numel() == 0) return fill(out, 0);
  reduce(sum_spec(sum_type(out.dtype())), self, reduced_dims(dim, self.dim()), out);
}

// The elements in double, with zeros for NaN.
Tensor without_nan(const Tensor& self) {
  Tensor t = make_empty(self.sizes(), ScalarType::Float64);
  copy_strided(t, self);
  double* x = t.data<double>();
  for (int64_t i = 0; i < t.numel(); ++i) x[i] = std::isnan(x[i]) ? 0 : x[i];
  return t;
}

void nansum(const Tensor& self, OptionalDims dim, bool, std::optional<ScalarType>, const Tensor& out) {
  if (out.numel() == 0) return;
  if (self.numel() == 0) return fill(out, 0);
  const ScalarType compute = sum_type(out.dtype());
  const DimSet dims = reduced_dims(dim, self.dim());
  if (!is_floating(self.dtype())) return reduce(sum_spec(compute), self, dims, out);
  if (is_floating(compute)) return reduce(sum_spec(compute, Preload::NanToZero), self, dims, out);
  reduce({ReduceOp::Sum, compute}, without_nan(self), dims, out);  // no integer is NaN
}

void mean(const Tensor& self, OptionalDims dim, bool, std::optional<ScalarType>, const Tensor& out) {
  if (out.numel() == 0) return;
  if (self.numel() == 0) return fill_nan(out);
  const ScalarType compute = sum_type(out.dtype());
  reduce({ReduceOp::Sum, compute, Preload::None, finish_mean(compute), {}, Ends::Mean}, self,
         reduced_dims(dim, self.dim()), out);
}

void mean_square(const Tensor& self, OptionalDims dim, bool, const Tensor& out) {
  if (out.numel() == 0) return;
  if (self.numel() == 0) return fill_nan(out);
  const ScalarType compute = sum_type(out.dtype());
  reduce({ReduceOp::SumSquares, compute, Preload::None, finish_mean(compute), {}, Ends::MeanSquare}, self,
         reduced_dims(dim, self.dim()), out);
}

void prod(const Tensor& self, std::optional<int64_t> dim, bool, std::optional<ScalarType>, const Tensor& out) {
  if (out.numel() == 0) return;
  if (self.numel() == 0) return fill(out, 1);
  const OptionalDims dims = dim ? OptionalDims(IntList(&*dim, 1)) : std::nullopt;
  const ScalarType sums = sum_type(out.dtype());
  const bool number = sums != ScalarType::Int64;
  const ScalarType compute = !number ? sums : is_complex(sums) ? ScalarType::Complex128 : ScalarType::Float64;
  ReduceSpec spec{ReduceOp::Prod, compute, Preload::None, nullptr, {}, number ? Ends::Prod : Ends::None};
  // So many factors cannot bring a partial product in double out of the range.
  spec.params.p = to_real(self.dtype()) == ScalarType::Float64 ? 1 : 6;
  reduce(spec, self, reduced_dims(dims, self.dim()), out);
}

void count_nonzero(const Tensor& self, OptionalDims dim, const Tensor& out) {
  if (out.numel() == 0) return;
  if (self.numel() == 0) return fill(out, 0);
  reduce({ReduceOp::Sum, ScalarType::Int64, Preload::NonZero}, self, reduced_dims(dim, self.dim()), out);
}

void amax(const Tensor& self, IntList dim, bool, const Tensor& out) { extreme(ReduceOp::Max, self, dim, out); }
void amin(const Tensor& self, IntList dim, bool, const Tensor& out) { extreme(ReduceOp::Min, self, dim, out); }
void max(const Tensor& self, const Tensor& out) { extreme(ReduceOp::Max, self, {}, out); }
void min(const Tensor& self, const Tensor& out) { extreme(ReduceOp::Min, self, {}, out); }
void all(const Tensor& self, OptionalDims dim, bool, const Tensor& out) { truth(ReduceOp::Min, self, dim, out); }
void any(const Tensor& self, OptionalDims dim, bool, const Tensor& out) { truth(ReduceOp::Max, self, dim, out); }

void argmax(const Tensor& self, std::optional<int64_t> dim, bool, const Tensor& out) {
  if (out.numel() > 0) reduce_arg(true, self, dim, Tensor(), out);
}
void argmin(const Tensor& self, std::optional<int64_t> dim, bool, const Tensor& out) {
  if (out.numel() > 0) reduce_arg(false, self, dim, Tensor(), out);
}
void max_dim(const Tensor& self, int64_t dim, bool, const Tensor& out0, const Tensor& out1) {
  if (out0.numel() > 0) reduce_arg(true, self, dim, out0, out1);
}
void min_dim(const Tensor& self, int64_t dim, bool, const Tensor& out0, const Tensor& out1) {
  if (out0.numel() > 0) reduce_arg(false, self, dim, out0, out1);
}

void var_correction(const Tensor& self, OptionalDims dim, const std::optional<Scalar>& correction, bool,
                    const Tensor& out) {
  moments<false>(self, dim, correction, out, Tensor());
}
void std_correction(const Tensor& self, OptionalDims dim, const std::optional<Scalar>& correction, bool,
                    const Tensor& out) {
  moments<true>(self, dim, correction, out, Tensor());
}
void var_mean_correction(const Tensor& self, OptionalDims dim, const std::optional<Scalar>& correction, bool,
                         const Tensor& out0, const Tensor& out1) {
  moments<false>(self, dim, correction, out0, out1);
}
void std_mean_correction(const Tensor& self, OptionalDims dim, const std::optional<Scalar>& correction, bool,
                         const Tensor& out0, const Tensor& out1) {
  moments<true>(self, dim, correction, out0, out1);
}

namespace {
void norm(const Tensor& x, const Scalar& ord, OptionalDims dim, double scale, const Tensor& out) {
  if (out.numel() == 0) return;
  if (x.numel() == 0) return fill(out, 0.0);
  const double p = ord.as_double();
  const bool power = p != 0 && p != 1 && p != 2 && !std::isinf(p);
  // A root of an order below 1 enlarges the errors of its sum.
  const ScalarType compute = power && std::abs(p) < 1 ? ScalarType::Float64 : real_type(out.dtype());
  const Tensor self = in_precision_of(x, compute);
  const DimSet dims = reduced_dims(dim, self.dim());
  ReduceSpec spec{ReduceOp::Sum, compute, Preload::Abs, finish_each<times_scale>(compute)};
  spec.params.p = p;
  spec.params.scale = scale;
  if (p == 0 || std::isinf(p)) {
    if (p == 0) spec.preload = Preload::NonZero;
    if (std::isinf(p)) spec.op = p > 0 ? ReduceOp::Max : ReduceOp::Min;
  } else {
    spec.ends = Ends::Norm;
    if (p == 2) {
      spec.op = ReduceOp::SumSquares;
      if (!self.is_complex()) spec.preload = Preload::None;
      spec.finish = finish_each<root>(compute);
    } else if (power) {
      spec.preload = Preload::Power;
      spec.finish = finish_each<power_root>(compute);
    }
  }
  if (scale == 1 && !power && p != 2) spec.finish = nullptr;
  reduce(spec, self, dims, out);
}

// Which elements are infinite, as numbers.
Tensor infinities(const Tensor& x) {
  Tensor t = make_empty(x.sizes(), ScalarType::Complex128);
  copy_strided(t, x);
  auto* z = t.data<std::complex<double>>();
  for (int64_t i = 0; i < t.numel(); ++i) z[i] = std::isinf(z[i].real()) || std::isinf(z[i].imag()) ? 1.0 : 0.0;
  return t;
}
}  // namespace

void scaled_norm(const Tensor& x, const Scalar& ord, OptionalDims dim, bool, std::optional<ScalarType>, double scale,
                 const Tensor& out) {
  norm(x, ord, dim, scale, out);
  if (out.numel() == 0 || x.numel() == 0 || !(ord.as_double() > 0)) return;
  Tensor found = make_empty(out.sizes(), ScalarType::Float64);
  copy_strided(found, out);
  double* n = found.data<double>();
  if (std::none_of(n, n + found.numel(), [](double v) { return std::isinf(v); })) return;
  Tensor count = make_empty(out.sizes(), ScalarType::Int64);
  reduce({ReduceOp::Sum, ScalarType::Int64, Preload::NonZero}, infinities(x), reduced_dims(dim, x.dim()), count);
  for (int64_t i = 0; i < found.numel(); ++i) n[i] = count.data<int64_t>()[i] > 1 ? std::nan("") : n[i];
  copy_strided(out, found);
}

void vector_norm(const Tensor& x, const Scalar& ord, OptionalDims dim, bool, std::optional<ScalarType>,
                 const Tensor& out) {
  norm(x, ord, dim, 1.0, out);
}

namespace {
template <typename... Fn>
bool take_pieces_in(Fn... kernels) {
  return add_fusible_kernels(Fusible::Reduce, {reinterpret_cast<KernelFn>(kernels)...});
}
// Those of real numbers that look at their argument in reduce() alone, once.
[[maybe_unused]] const bool fusible =
    take_pieces_in(&sum, &mean, &mean_square, &amax, &amin, &max, &min, &all, &any, &count_nonzero, &var_correction,
                   &std_correction, &scaled_norm, &vector_norm);
}  // namespace

}  // namespace facula::cpu
