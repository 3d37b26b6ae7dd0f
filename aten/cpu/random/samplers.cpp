// Draws of parameters in tensors, each by rejection from a stream of its own (facula/draw_samplers.h).
#include <algorithm>
#include <cmath>

#include "aten/cpu/common/dense.h"
#include "aten/cpu/random/element_stream.h"
#include "facula/draw_samplers.h"
#include "facula/draw_types.h"
#include "facula/kernels.h"

namespace facula::cpu {

namespace {

// one(i, uniform) is element i; it is computed in double.
template <typename F>
void draw_each(const Tensor& out, const Generator& generator, const char* op, const F& one) {
  const Philox stream = next_stream(generator, op);
  const int64_t row = drawn_row();
  into_dense(out, ScalarType::Float64, [&](const Tensor& numbers) {
    double* to = numbers.data<double>();
    parallel_for(0, numbers.numel(), 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        ElementStream uniform(stream, row > 0 ? i % row : i);
        to[i] = one(i, uniform);
      }
    });
  });
}

// A copy as doubles, of which none changes while the draw goes on.
Tensor parameters(const Tensor& given, IntList sizes) {
  const Tensor copy = make_empty(sizes, ScalarType::Float64);
  copy_strided(copy, given);
  return copy;
}
Tensor not_negative(const Tensor& given, IntList sizes, const char* op, const char* what) {
  const Tensor copy = parameters(given, sizes);
  const double* x = copy.data<double>();
  for (int64_t i = 0; i < copy.numel(); ++i) {
    FACULA_CHECK(x[i] >= 0 && std::isfinite(x[i]), Runtime, Operator{op}, what,
                 " must not be negative and must be finite, got ", x[i]);
  }
  return copy;
}

}  // namespace

void poisson(const Tensor& self, const Generator& generator, const Tensor& out) {
  const Tensor rates = not_negative(self, self.sizes(), "poisson", "rates");
  const double* rate = rates.data<double>();
  draw_each(out, generator, "poisson",
            [=](int64_t i, ElementStream& uniform) { return draws::poisson_number(rate[i], uniform); });
}

void standard_gamma(const Tensor& self, const Generator& generator, const Tensor& out) {
  const Tensor copy = not_negative(self, self.sizes(), "_standard_gamma", "concentrations");
  const double* concentration = copy.data<double>();
  const double least = draws::least_positive(static_cast<int>(out.dtype()));  // never 0: its logarithm is needed
  draw_each(out, generator, "_standard_gamma", [=](int64_t i, ElementStream& uniform) {
    return std::max(draws::gamma_number(concentration[i], uniform), least);
  });
}
void standard_log_gamma(const Tensor& self, const Generator& generator, const Tensor& out) {
  const Tensor copy = not_negative(self, self.sizes(), "_standard_log_gamma", "concentrations");
  const double* concentration = copy.data<double>();
  draw_each(out, generator, "_standard_log_gamma",
            [=](int64_t i, ElementStream& uniform) { return draws::log_gamma_number(concentration[i], uniform); });
}

void binomial(const Tensor& count, const Tensor& prob, const Generator& generator, const Tensor& out) {
  const Tensor counts = not_negative(count, out.sizes(), "_binomial", "counts"),
               chances = parameters(prob, out.sizes());
  const double *n = counts.data<double>(), *p = chances.data<double>();
  for (int64_t i = 0; i < counts.numel(); ++i) {
    FACULA_CHECK(n[i] == std::floor(n[i]), Runtime, Operator{"_binomial"}, "counts must be whole numbers, got ", n[i]);
    FACULA_CHECK(p[i] >= 0 && p[i] <= 1, Runtime, Operator{"_binomial"}, Argument{"prob"}, " must be in [0, 1], not ",
                 p[i]);
  }
  draw_each(out, generator, "_binomial",
            [=](int64_t i, ElementStream& uniform) { return draws::binomial_number(n[i], p[i], uniform); });
}

}  // namespace facula::cpu
