// The loops of loops.h, for any type of elements. Included by sources of their own copies.
#pragma once

#include <type_traits>

#include "aten/cpu/sparse/loops.h"
#include "runtime/core/dtype.h"

namespace facula {
namespace {

inline int64_t once(const int64_t* p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }

template <typename T>
inline constexpr bool in_vectors = std::is_same_v<T, float> || std::is_same_v<T, double>;

template <typename T>
struct VectorOf {
  static constexpr int64_t kWidth = FACULA_VECTOR_BYTES / sizeof(T);
  typedef T Type __attribute__((vector_size(FACULA_VECTOR_BYTES)));  // NOLINT
  static Type load(const T* p) {
    Type v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
  }
};

inline bool is_row(const CsrMatrix& m, int64_t r, int64_t first, int64_t last, CsrFault& fault) {
  if (first >= 0 && first <= last && last <= m.entries) [[likely]]
    return true;
  fault = {CsrFault::Row, r, first < 0 || first > m.entries ? first : last};
  return false;
}
inline bool is_column(const CsrMatrix& m, int64_t e, int64_t c, CsrFault& fault) {
  if (static_cast<uint64_t>(c) < static_cast<uint64_t>(m.columns)) [[likely]]
    return true;
  fault = {CsrFault::Column, e, c};
  return false;
}

// Entries ahead of the one in work, whose rows are on their way from memory.
constexpr int64_t kAhead = 8;
// Rows of more bytes than these are fetched by the processor itself.
constexpr int64_t kFetched = 512;

template <typename T>
inline void fetch(const CsrMatrix& m, int64_t e, int64_t last, const T* dense, int64_t k) {
  if (e + kAhead >= last || k * static_cast<int64_t>(sizeof(T)) > kFetched) return;
  const uint64_t c = static_cast<uint64_t>(once(m.col + e + kAhead));
  if (c >= static_cast<uint64_t>(m.columns)) return;
  const char* const p = reinterpret_cast<const char*>(dense + static_cast<int64_t>(c) * k);
  for (int64_t i = 0; i < k * static_cast<int64_t>(sizeof(T)); i += 64) __builtin_prefetch(p + i);
}

// Terms are added in the order of the entries: in T as many as these, whose sums add up in a wider type. One long sum
// in T would lose the digits that its terms are smaller by.
constexpr int64_t kRun = 64;

// Columns [j, j + N vectors) of a row.
template <typename T, int N>
inline CsrFault vector_columns(const CsrMatrix& m, int64_t first, int64_t last, const T* values, const T* dense,
                               int64_t k, int64_t j, T* out) {
  using V = VectorOf<T>;
  const bool runs = last - first > kRun;
  T sums[N * V::kWidth];
  wide_t<T> totals[N * V::kWidth];
  for (int64_t i = 0; i < N * V::kWidth && runs; ++i) totals[i] = 0;
  CsrFault fault;
  for (int64_t e = first; e < last || e == first;) {
    typename V::Type sum[N] = {};
    for (const int64_t end = last - e < kRun ? last : e + kRun; e < end; ++e) {
      const int64_t c = once(m.col + e);
      if (!is_column(m, e, c, fault)) return fault;
      if (j == 0) fetch(m, e, last, dense, k);
      const T* const from = dense + c * k + j;
      const T v = values[e];
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) sum[i] += v * V::load(from + i * V::kWidth);
    }
    __builtin_memcpy(sums, sum, sizeof(sums));
    if (!runs) break;
#pragma omp simd
    for (int64_t i = 0; i < N * V::kWidth; ++i) totals[i] += static_cast<wide_t<T>>(sums[i]);
  }
  for (int64_t i = 0; i < N * V::kWidth && runs; ++i) sums[i] = static_cast<T>(totals[i]);
  __builtin_memcpy(out + j, sums, sizeof(sums));
  return fault;
}

// The sum of terms that add(e, sum) adds, entry by entry, while it returns true.
template <typename T, typename F>
inline void sum_entries(int64_t first, int64_t last, T& out, const F& add) {
  wide_t<T> total{};
  const bool runs = last - first > kRun;
  for (int64_t e = first; e < last || !runs;) {
    T sum{};
    for (const int64_t end = last - e < kRun ? last : e + kRun; e < end; ++e) {
      if (!add(e, sum)) return;
    }
    if (!runs) {
      out = sum;
      return;
    }
    total += static_cast<wide_t<T>>(sum);
  }
  out = static_cast<T>(total);
}

template <typename T>
inline CsrFault narrow_rows(const CsrMatrix& m, int64_t first, int64_t last, const T* values, const T* dense, int64_t k,
                            int64_t j, T* out) {
  CsrFault fault;
  if (k - j == 1) {
    sum_entries(first, last, out[j], [&](int64_t e, T& sum) {
      const int64_t c = once(m.col + e);
      if (!is_column(m, e, c, fault)) return false;
      sum += values[e] * dense[c * k + j];
      return true;
    });
    return fault;
  }
  constexpr int64_t kTogether = 16;
  for (; j < k; j += kTogether) {
    const int64_t n = k - j < kTogether ? k - j : kTogether;
    wide_t<T> totals[kTogether] = {};
    for (int64_t e = first; e < last || e == first;) {
      T sums[kTogether] = {};
      for (const int64_t end = last - e < kRun ? last : e + kRun; e < end; ++e) {
        const int64_t c = once(m.col + e);
        if (!is_column(m, e, c, fault)) return fault;
        for (int64_t i = 0; i < n; ++i) sums[i] += values[e] * dense[c * k + j + i];
      }
      for (int64_t i = 0; i < n; ++i) totals[i] += static_cast<wide_t<T>>(sums[i]);
      if (first == last) break;
    }
    for (int64_t i = 0; i < n; ++i) out[j + i] = static_cast<T>(totals[i]);
  }
  return fault;
}

// The product with a vector.
template <typename T>
CsrFault vector_product(const CsrMatrix& m, int64_t begin, int64_t end, const T* values, const T* dense, T* out) {
  CsrFault fault;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t first = once(m.crow + r), last = once(m.crow + r + 1);
    if (!is_row(m, r, first, last, fault)) return fault;
    sum_entries(first, last, out[r], [&](int64_t e, T& sum) {
      const int64_t c = once(m.col + e);
      if (!is_column(m, e, c, fault)) return false;
      sum += values[e] * dense[c];
      return true;
    });
    if (fault.kind != CsrFault::None) return fault;
  }
  return fault;
}

template <typename T>
CsrFault product(const CsrMatrix& m, int64_t begin, int64_t end, const T* values, const T* dense, int64_t k, T* out) {
  if (k == 1) return vector_product(m, begin, end, values, dense, out);
  CsrFault fault;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t first = once(m.crow + r), last = once(m.crow + r + 1);
    if (!is_row(m, r, first, last, fault)) return fault;
    T* const to = out + r * k;
    int64_t j = 0;
    if constexpr (in_vectors<T>) {
      constexpr int64_t w = VectorOf<T>::kWidth;
      const auto block = [&]<int N>(std::integral_constant<int, N>) {
        for (; fault.kind == CsrFault::None && j + N * w <= k; j += N * w) {
          fault = vector_columns<T, N>(m, first, last, values, dense, k, j, to);
        }
      };
      block(std::integral_constant<int, 8>{});
      block(std::integral_constant<int, 4>{});
      block(std::integral_constant<int, 2>{});
      block(std::integral_constant<int, 1>{});
    }
    if (fault.kind == CsrFault::None && j < k) fault = narrow_rows(m, first, last, values, dense, k, j, to);
    if (fault.kind != CsrFault::None) return fault;
  }
  return fault;
}

template <typename T>
inline T dot_of_run(const T* a, const T* b, int64_t n) {
  T sum{};
  int64_t i = 0;
  if constexpr (in_vectors<T>) {
    using V = VectorOf<T>;
    typename V::Type four[4] = {};
    for (; i + 4 * V::kWidth <= n; i += 4 * V::kWidth) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) four[j] += V::load(a + i + j * V::kWidth) * V::load(b + i + j * V::kWidth);
    }
    for (; i + V::kWidth <= n; i += V::kWidth) four[0] += V::load(a + i) * V::load(b + i);
    const typename V::Type all = (four[0] + four[1]) + (four[2] + four[3]);
    for (int64_t j = 0; j < V::kWidth; ++j) sum += all[j];
  }
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}
template <typename T>
inline T dot(const T* a, const T* b, int64_t n) {
  constexpr int64_t kLong = 1024;
  if (n <= kLong) return dot_of_run(a, b, n);
  wide_t<T> total{};
  for (int64_t i = 0; i < n; i += kLong) {
    total += static_cast<wide_t<T>>(dot_of_run(a + i, b + i, n - i < kLong ? n - i : kLong));
  }
  return static_cast<T>(total);
}

template <typename T>
CsrFault sampled(const CsrMatrix& m, int64_t begin, int64_t end, const T* left, const T* right, int64_t k, T* out) {
  CsrFault fault;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t first = once(m.crow + r), last = once(m.crow + r + 1);
    if (!is_row(m, r, first, last, fault)) return fault;
    for (int64_t e = first; e < last; ++e) {
      const int64_t c = once(m.col + e);
      if (!is_column(m, e, c, fault)) return fault;
      fetch(m, e, last, right, k);
      out[e] = dot(left + r * k, right + c * k, k);
    }
  }
  return fault;
}

}  // namespace
}  // namespace facula
