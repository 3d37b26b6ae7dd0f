// Functions of matrices that are made of other operators and have derivatives of their own.
#include <cmath>

#include "facula/kernels.h"
#include "facula/ops.h"

namespace facula::any {
namespace {

// Coefficients of the numerator's polynomial of Pade's approximation of exp, and how large the 1-norm may be: Higham,
// "The scaling and squaring method for the matrix exponential revisited" (2005), tables 2.3 and 2.4 of its text.
constexpr double kSeven[] = {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1};
constexpr double kThirteen[] = {64764752532480000,
                                32382376266240000,
                                7771770303897600,
                                1187353796428800,
                                129060195264000,
                                10559470521600,
                                670442572800,
                                33522128640,
                                1323241920,
                                40840800,
                                960960,
                                16380,
                                182,
                                1};
constexpr double kMaxNormSeven = 3.925724783138660, kMaxNormThirteen = 5.371920351148152;

Tensor scaled(const Tensor& t, double factor) { return ops::mul(t, wrapped_number(Scalar(factor))); }

}  // namespace

void pinv(const Tensor& A, const Tensor& atol, const Tensor& rtol, bool hermitian, const Tensor& out) {
  ops::copy_(out, ops::_pinv_values(A, atol, rtol, hermitian));
}

void matrix_exp(const Tensor& A, const Tensor& out) {
  if (out.numel() == 0) return;
  const bool wide = to_real(A.dtype()) == ScalarType::Float64;
  const std::span<const double> b = wide ? std::span<const double>(kThirteen) : std::span<const double>(kSeven);
  const Tensor norm = ops::amax(ops::sum(ops::abs(A), DimVector{-2}), DimVector{-1});
  const Tensor over = ops::ceil(ops::log2(scaled(norm, 1 / (wide ? kMaxNormThirteen : kMaxNormSeven))));
  const Tensor halvings = ops::nan_to_num(ops::clamp(over, Scalar(0), Scalar(2048)), 0.0);
  const Tensor each = ops::unsqueeze(ops::unsqueeze(halvings, -1), -1);
  // In two steps, as 2^-2048 is no number.
  const Tensor half = ops::exp2(scaled(each, -0.5));
  const Tensor x = ops::mul(ops::mul(A, half), half);
  const Tensor square = ops::matmul(x, x);
  const Tensor one = ops::eye(A.size(-1), std::nullopt, A.dtype(), A.device());
  // Even and odd powers apart: p(x) = v + u, p(-x) = v - u.
  Tensor v = scaled(one, b[0]), u = scaled(one, b[1]), power = square;
  for (size_t k = 2; k < b.size(); k += 2) {
    v = ops::add(v, scaled(power, b[k]));
    u = ops::add(u, scaled(power, b[k + 1]));
    if (k + 2 < b.size()) power = ops::matmul(power, square);
  }
  u = ops::matmul(x, u);
  Tensor result = std::get<0>(ops::_solve(ops::sub(v, u), ops::add(v, u), true));
  const auto most = ops::local_scalar(ops::amax(halvings, {})).to<int64_t>();
  for (int64_t i = 0; i < most; ++i) {
    const Tensor more = ops::gt(each, wrapped_number(Scalar(i)));
    result = ops::where(more, ops::matmul(result, result), result);
    check_interrupt();
  }
  ops::copy_(out, result);
}

}  // namespace facula::any
