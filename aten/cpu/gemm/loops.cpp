// build: levels fused
#include "aten/cpu/gemm/loops.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <type_traits>
#include <utility>

#include "aten/cpu/common/transpose.h"
#include "runtime/iterate/stream.h"

namespace facula {
namespace {

// The first `count` lanes of a vector, 0 < count <= lanes: no byte beyond them is touched.
template <typename T>
inline __attribute__((always_inline)) void load_part(Lanes<T>& v, const T* p, int64_t count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    v = (Lanes<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
  } else {
    v = (Lanes<T>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), p);
  }
#else
  v = Lanes<T>{};
  for (int64_t i = 0; i < count; ++i) v[i] = p[i];
#endif
}
template <typename T>
inline __attribute__((always_inline)) void store_part(T* p, const Lanes<T>& v, int64_t count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), (__m512)v);
  } else {
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << count) - 1), (__m512d)v);
  }
#else
  for (int64_t i = 0; i < count; ++i) p[i] = v[i];
#endif
}

// Where the columns of depth p are: at b + p * b_row, fetched on the way or near already, or at b + taps[p], with what
// is `ahead` fetched or without.
enum class From { Stream, Near, Taps, TapsAhead };

// One tile of R rows and V vectors of columns; the accumulators stay in registers over the depth. Of the last vector
// only `last` columns exist when Part. C = D plus the product, or the product where D is null. With taps the rows of A
// lie side by side, else they are reached from every fifth, as machines scale an index by 1, 2, 4, 8.
template <typename T, int R, int V, From B, bool Part>
void kernel(int64_t depth, const T* __restrict a, int64_t a_row, int64_t a_col, const T* __restrict b, int64_t b_row,
            const int64_t* __restrict taps, const Ahead<T>* ahead, const T* d, int64_t d_row, T* c, int64_t ldc,
            int64_t last, bool stream) {
  using Vector = Lanes<T>;
  constexpr bool Fetch = B == From::TapsAhead, Taps = B == From::Taps || Fetch;
  constexpr int kStep = Taps ? R : 5, kBases = ceil_div(R, kStep);
  constexpr int64_t kAhead = R < 8 ? 40 : 8 + 256 / R;  // depths whose B is fetched ahead: few rows are soon done
  constexpr bool kLines = Taps && kColumns<T> * sizeof(T) >= 64;
  Vector acc[R][V] = {};
  const Ahead<T> later = Fetch ? *ahead : Ahead<T>{};
  const T* base[kBases];
  for (int i = 0; i < kBases; ++i) base[i] = a + i * kStep * a_row;
  if (depth > 96 && !stream) {  // time enough for C to come near
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      for (int j = 0; j < V; ++j) __builtin_prefetch(c + i * ldc + j * kLanes<T>, 1);
    }
  }
#pragma GCC unroll 2
  for (int64_t p = 0; p < depth; ++p) {
    Vector v[V];
    const T* from = Taps ? b + taps[p] : b;
    if (Fetch) {
      __builtin_prefetch(later.base + (p >> later.shift) * later.step, 0, 2);
    }
    if (B == From::Stream) {
      for (int j = 0; j < V; ++j) __builtin_prefetch(b + kAhead * b_row + j * kLanes<T>);
    }
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      if (Part && !Taps && j == V - 1) {
        load_part<T>(v[j], from + j * kLanes<T>, last);
      } else {
        __builtin_memcpy(&v[j], from + j * kLanes<T>, kBytes);
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const T x = base[i / kStep][Taps ? i : i % kStep * a_row];
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) acc[i][j] += x * v[j];
    }
#pragma GCC unroll 8
    for (int i = 0; i < kBases; ++i) base[i] += a_col;
    b += b_row;
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      T* at = c + i * ldc + j * kLanes<T>;
      Vector v = acc[i][j], old;
      const bool part = Part && j == V - 1;
      if (d != nullptr) {
        const T* onto = d + i * d_row + j * kLanes<T>;
        if (part) {
          load_part<T>(old, onto, last);
        } else {
          __builtin_memcpy(&old, onto, kBytes);
        }
        v += old;
      }
      if (kLines && stream) {
        stream_vector(at, v);
      } else if (part) {
        store_part<T>(at, v, last);
      } else {
        __builtin_memcpy(at, &v, kBytes);
      }
    }
  }
}

template <typename T>
using Kernel = void (*)(int64_t, const T*, int64_t, int64_t, const T*, int64_t, const int64_t*, const Ahead<T>*,
                        const T*, int64_t, T*, int64_t, int64_t, bool);

template <typename T, int V, From B, bool Part, int... R>
Kernel<T> pick(int64_t rows, std::integer_sequence<int, R...>) {
  static constexpr Kernel<T> kernels[] = {kernel<T, R + 1, V, B, Part>...};
  return kernels[rows - 1];
}

constexpr std::make_integer_sequence<int, kRows> kAllRows;

template <typename T>
void tile_onto(int64_t depth, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, const T* d,
               int64_t d_row, T* c, int64_t ldc, int64_t rows, int64_t cols) {
  constexpr int64_t kN = kLanes<T>;
  const Kernel<T> run = cols == kColumns<T> ? pick<T, kVectors, From::Stream, false>(rows, kAllRows)
                        : cols > kN         ? pick<T, kVectors, From::Stream, true>(rows, kAllRows)
                        : cols == kN        ? pick<T, 1, From::Stream, false>(rows, kAllRows)
                                            : pick<T, 1, From::Stream, true>(rows, kAllRows);
  run(depth, a, a_row, a_col, b, b_row, nullptr, nullptr, d, d_row, c, ldc, cols > kN ? cols - kN : cols, false);
}

template <typename T>
void strided_tile(int64_t depth, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, T* c, int64_t ldc,
                  int64_t rows, int64_t cols, bool accumulate) {
  tile_onto<T>(depth, a, a_row, a_col, b, b_row, accumulate ? c : nullptr, ldc, c, ldc, rows, cols);
}

template <typename T>
void near_tile(int64_t depth, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, T* c, int64_t ldc,
               int64_t rows, int64_t cols, bool accumulate) {
  if (cols < kColumns<T>) {
    strided_tile<T>(depth, a, a_row, a_col, b, b_row, c, ldc, rows, cols, accumulate);
    return;
  }
  const Kernel<T> run = pick<T, kVectors, From::Near, false>(rows, kAllRows);
  run(depth, a, a_row, a_col, b, b_row, nullptr, nullptr, accumulate ? c : nullptr, ldc, c, ldc, kLanes<T>, false);
}

template <typename T>
void tile(int64_t depth, const T* a, int64_t width, const T* b, T* c, int64_t ldc, int64_t rows, int64_t cols,
          bool accumulate) {
  strided_tile<T>(depth, a, 1, width, b, kColumns<T>, c, ldc, rows, cols, accumulate);
}

template <typename T, From B>
Kernel<T> pick_taps(int64_t rows, int64_t cols) {
  return cols == kColumns<T> ? pick<T, kVectors, B, false>(rows, kAllRows)
         : cols > kLanes<T>  ? pick<T, kVectors, B, true>(rows, kAllRows)
                             : pick<T, 1, B, true>(rows, kAllRows);
}

template <typename T>
void tile_taps(int64_t depth, const T* a, int64_t width, const T* b, const int64_t* taps, const Ahead<T>& ahead,
               const T* d, int64_t d_row, T* c, int64_t ldc, int64_t rows, int64_t cols, bool stream) {
  constexpr int64_t kN = kLanes<T>;
  const Kernel<T> run =
      ahead.base != nullptr ? pick_taps<T, From::TapsAhead>(rows, cols) : pick_taps<T, From::Taps>(rows, cols);
  run(depth, a, 1, width, b, 0, taps, &ahead, d, d_row, c, ldc, cols > kN ? cols - kN : cols, stream);
}

// ---- packing ----

// Rows of `in` (count <= lanes, `step` apart) become columns of `out`, in blocks of lanes x lanes. Vectors are
// written whole: what is too much is for a later call or vector to overwrite, and the last ends within `room`.
template <typename T>
void pack_rows(int64_t depth, int64_t count, int64_t width, const T* __restrict in, int64_t step, T* __restrict out,
               int64_t cover, int64_t room) {
  constexpr int kN = kLanes<T>;
  int64_t p = 0;
  for (; p + kN <= depth && (p + kN - 1) * width + kN <= room; p += kN) {
    Lanes<T> r[kN];
#pragma GCC unroll 16
    for (int i = 0; i < kN; ++i) {
      if (i < count) {
        __builtin_memcpy(&r[i], in + i * step + p, kBytes);
      } else {
        r[i] = Lanes<T>{};
      }
    }
    transpose_block<T>(r);
#pragma GCC unroll 16
    for (int i = 0; i < kN; ++i) __builtin_memcpy(out + (p + i) * width, &r[i], kBytes);
  }
  for (; p < depth; ++p) {
    for (int64_t i = 0; i < count; ++i) out[p * width + i] = in[i * step + p];
    for (int64_t i = count; i < cover; ++i) out[p * width + i] = T(0);
  }
}

// The runs lie along the panel's width already.
template <typename T>
void pack_runs(int64_t depth, int64_t count, int64_t width, const T* __restrict in, int64_t along, T* __restrict out) {
  constexpr int64_t kN = kLanes<T>;
  const int64_t whole = count / kN * kN, last = round_up(width, kN);
  int64_t p = 0;
  for (; p * width + last <= depth * width; ++p) {  // each row's rest is overwritten by the next
    const T* from = in + p * along;
    T* to = out + p * width;
    for (int64_t i = 0; i < last; i += kN) __builtin_prefetch(from + 16 * along + i);
    for (int64_t i = 0; i < whole; i += kN) __builtin_memcpy(to + i, from + i, kBytes);
    for (int64_t i = whole; i < last; i += kN) {
      Lanes<T> v{};
      if (i < count) load_part<T>(v, from + i, count - i);
      __builtin_memcpy(to + i, &v, kBytes);
    }
  }
  for (; p < depth; ++p) {
    for (int64_t i = 0; i < width; ++i) out[p * width + i] = i < count ? in[p * along + i] : T(0);
  }
}

template <typename T>
void pack(int64_t depth, int64_t count, int64_t width, const T* __restrict in, int64_t step, int64_t along,
          T* __restrict out) {
  constexpr int64_t kN = kLanes<T>;
  if (step == 1) {
    if (count == kColumns<T> && width == count) {
      for (int64_t p = 0; p < depth; ++p) {
        __builtin_memcpy(out + p * kColumns<T>, in + p * along, sizeof(T) * kColumns<T>);
      }
    } else {
      pack_runs(depth, count, width, in, along, out);
    }
  } else if (along == 1) {
    // From the last lanes to the first, whose vectors end where the others began.
    for (int64_t i = (width - 1) / kN * kN; i >= 0; i -= kN) {
      const int64_t rest = count - i;
      pack_rows(depth,
                rest < 0    ? 0
                : rest < kN ? rest
                            : kN,
                width, in + i * step, step, out + i, width - i < kN ? width - i : kN, depth * width - i);
    }
  } else {
    for (int64_t i = 0; i < width; ++i) {
      for (int64_t p = 0; p < depth; ++p) out[p * width + i] = i < count ? in[i * step + p * along] : T(0);
    }
  }
}

}  // namespace

FACULA_DEFINE_BY_ISA(GemmLoops<float>, gemm_loops_float,
                     {kRows, kColumns<float>, tile<float>, tile_taps<float>, strided_tile<float>, near_tile<float>,
                      tile_onto<float>, pack<float>})
FACULA_DEFINE_BY_ISA(GemmLoops<double>, gemm_loops_double,
                     {kRows, kColumns<double>, tile<double>, tile_taps<double>, strided_tile<double>, near_tile<double>,
                      tile_onto<double>, pack<double>})

}  // namespace facula
