// Pairs of real numbers are taken as complex ones: a line of even length is half as long then, and its even and odd
// elements come apart by symmetry; Press et al., "Numerical Recipes" (2007), 12.3.
#include "aten/cpu/fft/real_lines.h"

namespace facula::cpu {
namespace {

// exp(2 pi i k / n) piece by piece: fn(k, root).
template <typename T, typename F>
void with_roots(const void* table, int64_t begin, int64_t end, const F& fn) {
  constexpr int64_t kPiece = 256;
  std::complex<T> roots[kPiece];
  for (int64_t k = begin; k < end; k += kPiece) {
    const int64_t count = std::min(kPiece, end - k);
    fft_loops<T>().root(table, k, count, roots);
    for (int64_t i = 0; i < count; ++i) fn(k + i, roots[i]);
  }
}

}  // namespace

template <typename T>
void long_r2c(int64_t n, const T* in, int64_t step_in, std::complex<T>* out, int64_t step_out, T scale, bool forward) {
  using C = std::complex<T>;
  const bool even = n % 2 == 0;
  const int64_t half = n / 2, size = even ? half : n;
  const TypedBuffer<C> buffer(size);
  C* z = buffer.get();
  share_elements(size, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      z[k] = even ? C(in[2 * k * step_in], in[(2 * k + 1) * step_in]) : C(in[k * step_in]);
    }
  });
  LongLine<T>::of(size)->run(z, 1, z, 1, scale, true);
  const auto table = fft_plan<T>(FftKind::Roots, n);
  share_elements(half + 1, [&](int64_t begin, int64_t end) {
    if (!even) {
      for (int64_t k = begin; k < end; ++k) out[k * step_out] = forward ? z[k] : std::conj(z[k]);
      if (begin == 0) out[0] = C(z[0].real());
      return;
    }
    with_roots<T>(table.get(), begin, end, [&](int64_t k, C root) {
      const C a = z[k < half ? k : 0], b = std::conj(z[k > 0 ? half - k : 0]);
      const C odd = times(C(a.imag() - b.imag(), b.real() - a.real()), std::conj(root));
      C x = (a + b + odd) * T(0.5);
      if (k == 0 || k == half) x = C(x.real());
      out[k * step_out] = forward ? x : std::conj(x);
    });
  });
}

template <typename T>
void long_c2r(int64_t n, const std::complex<T>* in, int64_t step_in, T* out, int64_t step_out, T scale, bool forward) {
  using C = std::complex<T>;
  const bool even = n % 2 == 0;
  const int64_t half = n / 2, size = even ? half : n;
  const auto given = [&](int64_t k) {  // the first and the middle element count as real
    const C x = in[k * step_in];
    return k == 0 || 2 * k == n ? C(x.real()) : forward ? std::conj(x) : x;
  };
  const TypedBuffer<C> buffer(size);
  C* z = buffer.get();
  const auto table = fft_plan<T>(FftKind::Roots, n);
  share_elements(size, [&](int64_t begin, int64_t end) {
    if (!even) {
      for (int64_t k = begin; k < end; ++k) z[k] = k <= half ? given(k) : std::conj(given(n - k));
      return;
    }
    with_roots<T>(table.get(), begin, end, [&](int64_t k, C root) {
      const C a = given(k), b = std::conj(given(half - k)), odd = times(a - b, root);
      z[k] = C(a.real() + b.real() - odd.imag(), a.imag() + b.imag() + odd.real());
    });
  });
  LongLine<T>::of(size)->run(z, 1, z, 1, scale, false);
  share_elements(size, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      if (even) {
        out[2 * k * step_out] = z[k].real();
        out[(2 * k + 1) * step_out] = z[k].imag();
      } else {
        out[k * step_out] = z[k].real();
      }
    }
  });
}

template void long_r2c(int64_t, const float*, int64_t, complex64*, int64_t, float, bool);
template void long_r2c(int64_t, const double*, int64_t, complex128*, int64_t, double, bool);
template void long_c2r(int64_t, const complex64*, int64_t, float*, int64_t, float, bool);
template void long_c2r(int64_t, const complex128*, int64_t, double*, int64_t, double, bool);

}  // namespace facula::cpu
