#include "aten/cpu/gemm/gemm.h"

#include <algorithm>
#include <atomic>

#include "aten/cpu/gemm/amx.h"
#include "aten/cpu/common/openblas.h"
#include "aten/cpu/gemm/blas.h"
#include "aten/cpu/gemm/blocked.h"
#include "aten/cpu/gemm/gemv_loops.h"
#include "aten/cpu/common/dense.h"
#include "aten/cpu/common/tuning.h"
#include "runtime/core/rounding.h"
#include "runtime/iterate/parallel.h"

namespace facula::cpu {
namespace {

using tuning::kGemmWork;

// Multiplications of a product, without overflow.
int64_t work_of(int64_t m, int64_t n, int64_t k) {
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return static_cast<int64_t>(std::min(work, 1e18));
}

// Small unsigned types are promoted to int, where their product could overflow.
template <typename T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T> && sizeof(T) < 4) {
    return static_cast<T>(static_cast<unsigned>(a) * static_cast<unsigned>(b));
  } else {
    return a * b;
  }
}

// Copies with conversion; the source is walked in its own order.
template <typename To, typename From>
void copy_matrix(int64_t rows, int64_t cols, Matrix<const From> from, Matrix<To> to) {
  if (from.col > from.row || (from.col == from.row && to.col > to.row)) {
    std::swap(rows, cols);
    from = from.t();
    to = to.t();
  }
  parallel_for(0, rows, std::max<int64_t>(1, 65536 / std::max<int64_t>(cols, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const From* f = from.data + i * from.row;
      To* t = to.data + i * to.row;
      if (from.col == 1 && to.col == 1) {
        for (int64_t j = 0; j < cols; ++j) t[j] = static_cast<To>(f[j]);
      } else {
        for (int64_t j = 0; j < cols; ++j) t[j * to.col] = static_cast<To>(f[j * from.col]);
      }
    }
  });
}

template <typename T>
void scale(int64_t m, int64_t n, opmath_t<T> beta, Matrix<T> c) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T& v = c.data[i * c.row + j * c.col];
      v = beta == opmath_t<T>(0) ? T() : static_cast<T>(multiply(beta, static_cast<opmath_t<T>>(v)));
    }
  }
}

// The strides BLAS takes: `trans` when the columns are the contiguous runs.
struct Layout {
  bool fits = false, trans = false;
  int64_t ld = 0;
};
template <typename T>
Layout layout_of(int64_t rows, int64_t cols, const Matrix<T>& x) {
  if ((x.col == 1 || cols == 1) && (x.row >= cols || rows == 1)) {
    return {true, false, rows == 1 ? std::max<int64_t>(cols, 1) : x.row};
  }
  if ((x.row == 1 || rows == 1) && (x.col >= rows || cols == 1)) {
    return {true, true, cols == 1 ? std::max<int64_t>(rows, 1) : x.col};
  }
  return {};
}

// ---- plain loops: integers, and complex numbers where OpenBLAS is absent ----

constexpr int64_t kTileRows = 4, kTileCols = 64, kTileDepth = 128;

// C rows [begin, end); B in packed tiles, `kTileRows` rows of accumulators in cache.
template <typename T>
void loop_rows(int64_t begin, int64_t end, int64_t n, int64_t k, T alpha, Matrix<const T> a, Matrix<const T> b,
               Matrix<T> c) {
  const TypedBuffer<T> packed(kTileDepth * kTileCols);
  T* bp = packed.get();
  for (int64_t j0 = 0; j0 < n; j0 += kTileCols) {
    const int64_t nj = std::min(kTileCols, n - j0);
    for (int64_t p0 = 0; p0 < k; p0 += kTileDepth) {
      const int64_t np = std::min(kTileDepth, k - p0);
      for (int64_t p = 0; p < np; ++p) {
        for (int64_t j = 0; j < kTileCols; ++j) {
          bp[p * kTileCols + j] = j < nj ? b.data[(p0 + p) * b.row + (j0 + j) * b.col] : T(0);
        }
      }
      for (int64_t i0 = begin; i0 < end; i0 += kTileRows) {
        const int64_t ni = std::min(kTileRows, end - i0);
        T acc[kTileRows][kTileCols] = {};
        for (int64_t p = 0; p < np; ++p) {
          for (int64_t i = 0; i < ni; ++i) {
            const T v = a.data[(i0 + i) * a.row + (p0 + p) * a.col];
            const T* row = bp + p * kTileCols;
            for (int64_t j = 0; j < kTileCols; ++j) acc[i][j] = static_cast<T>(acc[i][j] + multiply(v, row[j]));
          }
        }
        for (int64_t i = 0; i < ni; ++i) {
          for (int64_t j = 0; j < nj; ++j) {
            T& v = c.data[(i0 + i) * c.row + (j0 + j) * c.col];
            v = static_cast<T>(v + multiply(alpha, acc[i][j]));
          }
        }
      }
    }
  }
}

template <typename T>
void loop_gemm(int64_t m, int64_t n, int64_t k, T alpha, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c) {
  if (n == 1 && m > 1) {  // long rows make good inner loops
    std::swap(m, n);
    std::swap(a, b);
    a = a.t(), b = b.t(), c = c.t();
  }
  if (beta != T(1)) scale(m, n, beta, c);
  const int64_t work = std::max<int64_t>(1, work_of(1, n, k));
  parallel_for(0, m, std::max<int64_t>(kTileRows, kGemmWork / 4 / work),
               [&](int64_t begin, int64_t end) { loop_rows(begin, end, n, k, alpha, a, b, c); });
}

// ---- long sums ----

// C = alpha A B + beta C in pieces of the depth, which `product(a, b, depth, c)` computes with 1 and 0. Their sums are
// of T and add up in double: of one sum in T each term would lose what the sum is larger by.
template <typename T, typename F>
void in_pieces(int64_t m, int64_t n, int64_t k, int64_t piece, T alpha, Matrix<const T> a, Matrix<const T> b, T beta,
               Matrix<T> c, const F& product) {
  using Wide = wide_t<T>;
  constexpr int64_t kTallest = 1024, kWidest = 4096;  // of what is held at a time
  const int64_t rows = std::min(m, kTallest), cols = std::min(n, kWidest);
  const TypedBuffer<T> part(rows * cols);
  const TypedBuffer<Wide> totals(rows * cols);
  const auto for_rows = [](int64_t ni, int64_t nj, const auto& fn) {
    parallel_for(0, ni, grain_for(nj), [&](int64_t begin, int64_t end) { fn(begin, end); });
  };
  for (int64_t i0 = 0; i0 < m; i0 += rows) {
    for (int64_t j0 = 0; j0 < n; j0 += cols) {
      const int64_t ni = std::min(rows, m - i0), nj = std::min(cols, n - j0);
      std::fill_n(totals.get(), ni * nj, Wide(0));
      for (int64_t p = 0; p < k; p += piece) {
        product(Matrix<const T>{a.data + i0 * a.row + p * a.col, a.row, a.col},
                Matrix<const T>{b.data + p * b.row + j0 * b.col, b.row, b.col}, ni, nj, std::min(piece, k - p),
                Matrix<T>{part.get(), nj, 1});
        for_rows(ni, nj, [&](int64_t begin, int64_t end) {
          for (int64_t x = begin * nj; x < end * nj; ++x) totals.get()[x] += static_cast<Wide>(part.get()[x]);
        });
      }
      for_rows(ni, nj, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t j = 0; j < nj; ++j) {
            T& to = c.data[(i0 + i) * c.row + (j0 + j) * c.col];
            const Wide sum = static_cast<Wide>(alpha) * totals.get()[i * nj + j];
            to = static_cast<T>(beta == T(0) ? sum : sum + static_cast<Wide>(beta) * static_cast<Wide>(to));
          }
        }
      });
    }
  }
}

// ---- OpenBLAS: complex numbers ----

// C is row major here and A, B have a BLAS layout.
template <typename T>
bool split_gemm(int64_t m, int64_t n, int64_t k, T alpha, Matrix<const T> a, Layout la, Matrix<const T> b, Layout lb,
                T beta, Matrix<T> c) {
  const int64_t work = work_of(m, n, k);
  constexpr int64_t kLong = int64_t{1} << 29;  // some tenths of a second, in which no signal is seen
  if (work < 2 * kGemmWork || ((in_parallel_region() || get_num_threads() == 1) && work < kLong)) {
    return blas::gemm(la.trans, lb.trans, m, n, k, alpha, a.data, la.ld, b.data, lb.ld, beta, c.data, c.row);
  }
  std::atomic<bool> done{true};
  // Cut the longer side, in whole register tiles.
  constexpr int64_t kUnit = 16;
  const int64_t side = std::max(m, n), units = ceil_div(side, kUnit);
  // Each piece packs the whole of the other factor, so there are few.
  const int64_t pieces = get_num_threads() * (work > 32 * kGemmWork ? 2 : 1);
  const int64_t grain = std::clamp<int64_t>(ceil_div(units, pieces), kGemmWork / std::max<int64_t>(1, work / units),
                                            std::max<int64_t>(1, kLong / std::max<int64_t>(1, work / units)));
  parallel_for(0, units, grain, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * kUnit, size = std::min(end * kUnit, side) - from;
    const bool ok = m >= n ? blas::gemm(la.trans, lb.trans, size, n, k, alpha, a.data + from * a.row, la.ld, b.data,
                                        lb.ld, beta, c.data + from * c.row, c.row)
                           : blas::gemm(la.trans, lb.trans, m, size, k, alpha, a.data, la.ld, b.data + from * b.col,
                                        lb.ld, beta, c.data + from * c.col, c.row);
    if (!ok) done = false;
  });
  return done;
}

// y (m) = alpha A x + beta y
template <typename T>
bool blas_gemv(int64_t m, int64_t k, T alpha, Matrix<const T> a, Layout la, const T* x, int64_t incx, T beta, T* y,
               int64_t incy) {
  if (openblas::file().empty()) return false;
  if (beta == T(0)) {
    for (int64_t i = 0; i < m; ++i) y[i * incy] = T(0);
  }
  std::atomic<bool> done{true};
  parallel_for(0, m, std::max<int64_t>(16, kGemmWork / 8 / std::max<int64_t>(1, k)), [&](int64_t begin, int64_t end) {
    const int64_t rows = end - begin;
    const T* part = a.data + begin * (la.trans ? 1 : la.ld);
    if (!blas::gemv(la.trans, la.trans ? k : rows, la.trans ? rows : k, alpha, part, la.ld, x, incx, beta,
                    y + begin * incy, incy)) {
      done = false;
    }
  });
  return done;
}

template <typename T>
void complex_gemm(int64_t m, int64_t n, int64_t k, T alpha, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c) {
  const bool vector = m == 1 || n == 1;
  const int64_t piece = vector ? tuning::kGemvDepth : tuning::kGemmDepth;
  if (k > (vector ? 8 * piece : tuning::kGemmLong)) {
    in_pieces<T>(m, n, k, piece, alpha, a, b, beta, c,
                 [](Matrix<const T> a, Matrix<const T> b, int64_t m, int64_t n, int64_t k, Matrix<T> to) {
                   complex_gemm<T>(m, n, k, T(1), a, b, T(0), to);
                 });
    return;
  }
  const Layout lc = layout_of(m, n, c);
  if (!lc.fits) {  // C has gaps in both directions
    const TypedBuffer<T> dense(m * n);
    const Matrix<T> d{dense.get(), n, 1};
    if (beta != T(0)) copy_matrix<T, T>(m, n, c, d);
    complex_gemm(m, n, k, alpha, a, b, beta, d);
    copy_matrix<T, T>(m, n, d, c);
    return;
  }
  if (lc.trans || (m == 1 && n > 1)) {
    complex_gemm(n, m, k, alpha, b.t(), a.t(), beta, c.t());
    return;
  }
  const Layout la = layout_of(m, k, a);
  if (!la.fits) {
    const TypedBuffer<T> dense(m * k);
    const Matrix<T> d{dense.get(), k, 1};
    copy_matrix<T, T>(m, k, a, d);
    complex_gemm<T>(m, n, k, alpha, d, b, beta, c);
    return;
  }
  if (n == 1) {
    if (b.row >= 1 || k == 1) {
      const int64_t incx = k == 1 ? 1 : b.row, incy = m == 1 ? 1 : c.row;
      if (incy >= 1 && blas_gemv(m, k, alpha, a, la, b.data, incx, beta, c.data, incy)) return;
    }
    loop_gemm(m, n, k, alpha, a, b, beta, c);
    return;
  }
  const Layout lb = layout_of(k, n, b);
  if (!lb.fits) {
    const TypedBuffer<T> dense(k * n);
    const Matrix<T> d{dense.get(), n, 1};
    copy_matrix<T, T>(k, n, b, d);
    complex_gemm<T>(m, n, k, alpha, a, d, beta, c);
    return;
  }
  c = {c.data, lc.ld, 1};
  if (!split_gemm(m, n, k, alpha, a, la, b, lb, beta, c)) loop_gemm(m, n, k, alpha, a, b, beta, c);
}

// ---- real numbers ----

// Where one sum in T over all of the depth would lose digits.
bool is_long(int64_t k) { return k > tuning::kGemmLong; }

template <typename T>
const auto& gemv_loops() {
  if constexpr (std::is_same_v<T, float>) return FACULA_BY_ISA(gemv_float);
  if constexpr (std::is_same_v<T, double>) return FACULA_BY_ISA(gemv_double);
  if constexpr (std::is_same_v<T, BFloat16>) return FACULA_BY_ISA(gemv_bfloat16);
}

// y (m) = alpha A x + beta y for A whose rows or columns are contiguous, else false.
template <typename T>
bool gemv(int64_t m, int64_t k, opmath_t<T> alpha, Matrix<const T> a, const T* x, int64_t incx, opmath_t<T> beta, T* y,
          int64_t incy) {
  using S = opmath_t<T>;
  using Stored = std::conditional_t<std::is_same_v<T, BFloat16>, uint16_t, T>;
  const bool by_row = a.col == 1 || k == 1, by_column = a.row == 1 || m == 1;
  if (!by_row && !by_column) return false;
  const TypedBuffer<S> buffer(m + k);
  S *sums = buffer.get(), *copy = sums + m;
  const S* factors = copy;
  if constexpr (std::is_same_v<T, S>) {
    if (incx == 1) factors = x;
  }
  if (factors == copy) {
    for (int64_t p = 0; p < k; ++p) copy[p] = static_cast<S>(x[p * incx]);
  }
  const auto* data = reinterpret_cast<const Stored*>(a.data);
  const auto& loops = gemv_loops<T>();
  // Pieces end at whole groups of rows, so that each sum is rounded alike on any number of threads.
  constexpr int64_t kGroup = 64, kRun = tuning::kGemvRunBytes / (kGroup * sizeof(T));
  const int64_t groups = ceil_div(m, kGroup), threads = get_num_threads();
  // Columns are shared out in runs of whole pages.
  const int64_t least = by_row ? 1 : std::clamp<int64_t>(groups / threads, 1, kRun);
  parallel_for(0, groups, std::max(least, grain_for(kGroup * k, kGemmWork / 8)), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kGroup, count = std::min(m, end * kGroup) - first;
    if (by_row) {
      loops.dots(count, k, data + first * a.row, a.row, factors, sums + first);
    } else {
      loops.sums(k, count, data + first, a.col, factors, sums + first);
    }
    for (int64_t i = first; i < first + count; ++i) {
      T& to = y[i * incy];
      to = static_cast<T>(beta == S(0) ? alpha * sums[i] : alpha * sums[i] + beta * static_cast<S>(to));
    }
  });
  return true;
}

template <typename T>
void real_gemm(int64_t m, int64_t n, int64_t k, T alpha, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c) {
  if (n == 1 && gemv(m, k, alpha, a, b.data, b.row, beta, c.data, c.row)) return;
  if (m == 1 && gemv(n, k, alpha, b.t(), a.data, a.col, beta, c.data, c.col)) return;
  if (is_long(k)) {
    in_pieces<T>(m, n, k, tuning::kGemmDepth, alpha, a, b, beta, c,
                 [](Matrix<const T> a, Matrix<const T> b, int64_t m, int64_t n, int64_t k, Matrix<T> to) {
                   shallow_gemm<T>(m, n, k, tuning::kGemmTerms, a, b, to);
                 });
    return;
  }
  const Layout lc = layout_of(m, n, c);
  if (!lc.fits) {  // C has gaps in both directions
    const TypedBuffer<T> dense(m * n);
    const Matrix<T> d{dense.get(), n, 1};
    if (beta != T(0)) copy_matrix<T, T>(m, n, c, d);
    blocked_gemm<T>(m, n, k, alpha, a, b, beta, d);
    copy_matrix<T, T>(m, n, d, c);
  } else if (lc.trans) {
    blocked_gemm<T>(n, m, k, alpha, b.t(), a.t(), beta, {c.data, lc.ld, 1});
  } else {
    blocked_gemm<T>(m, n, k, alpha, a, b, beta, {c.data, lc.ld, 1});
  }
}

// 16-bit floats: products in float, rounded once at the end.
template <typename T>
void half_gemm(int64_t m, int64_t n, int64_t k, float alpha, Matrix<const T> a, Matrix<const T> b, float beta,
               Matrix<T> c) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (n == 1 && gemv(m, k, alpha, a, b.data, b.row, beta, c.data, c.row)) return;
    if (m == 1 && gemv(n, k, alpha, b.t(), a.data, a.col, beta, c.data, c.col)) return;
    if (amx::available()) {
      amx::gemm(m, n, k, alpha, a, b, beta, c);
      return;
    }
  }
  const TypedBuffer<float> buffer(m * k + k * n + m * n);
  const Matrix<float> fa{buffer.get(), k, 1}, fb{fa.data + m * k, n, 1}, fc{fb.data + k * n, n, 1};
  copy_matrix<float, T>(m, k, a, fa);
  copy_matrix<float, T>(k, n, b, fb);
  if (beta != 0) copy_matrix<float, T>(m, n, c, fc);
  real_gemm<float>(m, n, k, alpha, fa, fb, beta, fc);
  copy_matrix<T, float>(m, n, fc, c);
}

}  // namespace

template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, opmath_t<T> alpha, Matrix<const T> a, Matrix<const T> b, opmath_t<T> beta,
          Matrix<T> c) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    scale(m, n, beta, c);
  } else if constexpr (is_reduced_float_v<T>) {
    half_gemm(m, n, k, alpha, a, b, beta, c);
  } else if constexpr (std::is_integral_v<T>) {
    loop_gemm(m, n, k, alpha, a, b, beta, c);
  } else if constexpr (std::is_floating_point_v<T>) {
    real_gemm(m, n, k, alpha, a, b, beta, c);
  } else if (alpha == T(0)) {  // BLAS would not look at the factors, and lose their NaN
    loop_gemm(m, n, k, alpha, a, b, beta, c);
  } else {
    complex_gemm(m, n, k, alpha, a, b, beta, c);
  }
}

template <typename T>
void gemm_bias(int64_t m, int64_t n, int64_t k, Matrix<const T> a, Matrix<const T> b, const T* bias, Matrix<T> c) {
  if (m > 1 && n > 1 && k > 0 && c.col == 1 && c.row >= n) {
    if constexpr (std::is_floating_point_v<T>) {
      if (!is_long(k)) {
        blocked_gemm<T>(m, n, k, T(1), a, b, T(0), c, bias);
        return;
      }
    }
    if constexpr (std::is_same_v<T, BFloat16>) {
      if (amx::available()) {
        amx::gemm(m, n, k, 1, a, b, 0, c, bias);
        return;
      }
    }
  }
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) c.data[i * c.row + j * c.col] = bias[j];
  }
  gemm<T>(m, n, k, opmath_t<T>(1), a, b, opmath_t<T>(1), c);
}

template <typename T>
void batched_gemm(int64_t batch, int64_t m, int64_t n, int64_t k, opmath_t<T> alpha, Matrix<const T> a,
                  int64_t stride_a, Matrix<const T> b, int64_t stride_b, opmath_t<T> beta, Matrix<T> c,
                  int64_t stride_c) {
  // With one right operand for all, rows that lie as evenly as one matrix's are one product.
  if (stride_b == 0 && batch > 1 && n > 0 && (m == 1 || (stride_a == m * a.row && stride_c == m * c.row))) {
    return gemm<T>(batch * m, n, k, alpha, {a.data, m == 1 ? stride_a : a.row, a.col}, b, beta,
                   {c.data, m == 1 ? stride_c : c.row, c.col});
  }
  const auto run = [&](int64_t begin, int64_t end) {
    if constexpr (std::is_floating_point_v<T>) {
      if ((beta == T(0) || beta == T(1)) && fits_tiles<T>(m, n, k, alpha, a, b, c)) {
        for (int64_t i = begin; i < end; ++i) {
          tiles_gemm<T>(m, n, k, {a.data + i * stride_a, a.row, a.col}, {b.data + i * stride_b, b.row, b.col},
                        beta != T(0), {c.data + i * stride_c, c.row, c.col});
        }
        return;
      }
    }
    if constexpr (std::is_same_v<T, BFloat16>) {
      if (m > 1 && n > 1 && k > 0 && work_of(m, n, k) < kGemmWork && amx::available()) {
        amx::batch(end - begin, m, n, k, alpha, {a.data + begin * stride_a, a.row, a.col}, stride_a,
                   {b.data + begin * stride_b, b.row, b.col}, stride_b, beta, {c.data + begin * stride_c, c.row, c.col},
                   stride_c);
        return;
      }
    }
    for (int64_t i = begin; i < end; ++i) {
      gemm<T>(m, n, k, alpha, {a.data + i * stride_a, a.row, a.col}, {b.data + i * stride_b, b.row, b.col}, beta,
              {c.data + i * stride_c, c.row, c.col});
    }
  };
  constexpr int64_t kSmall = std::is_same_v<T, BFloat16> ? tuning::kSmallTiledProduct : tuning::kSmallProduct;
  const int64_t work = std::max(kSmall, work_of(m, n, k));
  // Few large products are split inside, many small ones side by side.
  if (batch < 2 * get_num_threads() && work >= tuning::kSplitWork) {
    run(0, batch);
  } else {
    parallel_for(0, batch, std::max<int64_t>(1, kGemmWork / work), run);
  }
}

#define FACULA_GEMM_FOR(T)                                                                                      \
  template void gemm<T>(int64_t, int64_t, int64_t, opmath_t<T>, Matrix<const T>, Matrix<const T>, opmath_t<T>,  \
                        Matrix<T>);                                                                             \
  template void gemm_bias<T>(int64_t, int64_t, int64_t, Matrix<const T>, Matrix<const T>, const T*, Matrix<T>); \
  template void batched_gemm<T>(int64_t, int64_t, int64_t, int64_t, opmath_t<T>, Matrix<const T>, int64_t,      \
                                Matrix<const T>, int64_t, opmath_t<T>, Matrix<T>, int64_t);
FACULA_GEMM_FOR(uint8_t)
FACULA_GEMM_FOR(uint16_t)
FACULA_GEMM_FOR(uint32_t)
FACULA_GEMM_FOR(uint64_t)
FACULA_GEMM_FOR(Half)
FACULA_GEMM_FOR(BFloat16)
FACULA_GEMM_FOR(float)
FACULA_GEMM_FOR(double)
FACULA_GEMM_FOR(complex64)
FACULA_GEMM_FOR(complex128)
#undef FACULA_GEMM_FOR

}  // namespace facula::cpu
