// build: levels fused
#include <algorithm>
#include <cmath>
#include <limits>

#include "aten/cpu/nn/loops.h"
#include "aten/cpu/common/vector_exp.h"
#include "runtime/iterate/stream.h"

namespace facula {
namespace {

#define FACULA_INLINE inline __attribute__((always_inline))

// Of columns, rows so many ahead are fetched: strides of a page or more defy the memory's own foresight.
constexpr int64_t kAhead = 16;

// fn(i, k) for i < n with k = i % kWays: so many results are kept that they fill several vectors, as one
// waits for the last.
template <typename T>
constexpr int64_t kWays = 256 / sizeof(T);
// `ahead` fetches the row that follows: passes over a row in the cache leave the memory idle, and its own foresight
// ends at pages.
template <typename T, typename Ahead, typename F>
FACULA_INLINE void by_ways(int64_t n, const Ahead& ahead, const F& fn) {
  int64_t i = 0;
  for (; i + kWays<T> <= n; i += kWays<T>) {
    ahead(i);
#pragma omp simd
    for (int64_t k = 0; k < kWays<T>; ++k) fn(i + k, k);
  }
  for (int64_t k = 0; i < n; ++i, ++k) fn(i, k);
}

template <typename T>
T total(const T (&parts)[kWays<T>]) {
  T sum = 0;
  for (int64_t k = 0; k < kWays<T>; ++k) sum += parts[k];
  return sum;
}

// The sum of fn(i) for i < n. Of long rows pieces are added in double: a running sum would lose what its terms are
// smaller by.
template <typename T, typename Ahead, typename F>
FACULA_INLINE T sum_by_ways(int64_t n, const Ahead& ahead, const F& fn) {
  constexpr int64_t kPiece = 64 * kWays<T>;
  double whole = 0;
  for (int64_t at = 0;; at += kPiece) {
    const int64_t rest = n - at < kPiece ? n - at : kPiece;
    T parts[kWays<T>] = {};
    by_ways<T>(rest, [&](int64_t i) { ahead(at + i); }, [&](int64_t i, int64_t k) { parts[k] += fn(at + i); });
    const T sum = total(parts);
    if (at + rest == n) return at == 0 ? sum : static_cast<T>(whole + static_cast<double>(sum));
    whole += static_cast<double>(sum);
  }
}

// The same of columns: sums of some rows, emptied into doubles.
template <typename T>
class ColumnSums {
 public:
  explicit ColumnSums(int64_t width) : width_(width) {}
  T* row(int64_t i) {  // what row i is added to
    if (i > 0 && i % 64 == 0) empty();
    return sums_;
  }
  T* finish() {
    for (int64_t j = 0; j < width_ && emptied_; ++j) sums_[j] = static_cast<T>(far_[j] + static_cast<double>(sums_[j]));
    return sums_;
  }

 private:
  void empty() {
    for (int64_t j = 0; j < width_; ++j) {
      far_[j] = (emptied_ ? far_[j] : 0) + static_cast<double>(sums_[j]);
      sums_[j] = 0;
    }
    emptied_ = true;
  }
  T sums_[kSoftmaxColumns] = {};
  double far_[kSoftmaxColumns];
  int64_t width_;
  bool emptied_ = false;
};

template <typename T>
T row_max(int64_t n, const T* x) {
  T m[kWays<T>];
  for (T& v : m) v = -HUGE_VAL;
  by_ways<T>(n, [](int64_t) {}, [&](int64_t i, int64_t k) { m[k] = x[i] > m[k] ? x[i] : m[k]; });
  for (int64_t left = kWays<T> / 2; left > 0; left /= 2) {
#pragma omp simd
    for (int64_t k = 0; k < left; ++k) m[k] = m[k + left] > m[k] ? m[k + left] : m[k];
  }
  return m[0];
}

// What beside one infinite element is left of a row has no share. Of several, whose ratio may be any, none has a limit.
template <typename T>
bool has_limit(int64_t n, int64_t stride, const T* x) {
  int64_t infinite = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i * stride])) return false;
    infinite += x[i * stride] == T(HUGE_VAL);
  }
  return infinite == 1;
}
template <typename T>
T limit_or_nan(int64_t n, const T* x, T limit) {
  return has_limit(n, 1, x) ? limit : std::numeric_limits<T>::quiet_NaN();
}

// A row of exponentials that are still to be multiplied and written.
template <typename T>
struct Pending {
  const T* e = nullptr;
  T* out = nullptr;
  T factor = 0;
  FACULA_INLINE void write(int64_t i, int64_t end) const {
    write_row(end - i, out + i, true, [&](int64_t j) { return e[i + j] * factor; });
  }
};

// Leaves exponentials in e, which has room for a row, and returns their factor. Meanwhile the row before is
// written by streaming stores: arithmetic and memory work at the same time.
template <typename T>
T softmax_row(int64_t n, const T* __restrict x, T* __restrict e, const Pending<T>& before) {
  const T m = row_max(n, x);
  if (m == T(HUGE_VAL)) [[unlikely]] {
    if (before.out != nullptr) before.write(0, n);
    const T factor = limit_or_nan(n, x, T(1));
    for (int64_t i = 0; i < n; ++i) e[i] = x[i] == m ? T(1) : T(0);
    return factor;
  }
  const T sum = sum_by_ways<T>(
      n,
      [&](int64_t i) {
        fetch(x + n + i, x + n + i + kWays<T>);
        if (before.out != nullptr) before.write(i, i + kWays<T>);
      },
      [&](int64_t i) { return e[i] = exp_below(x[i] - m); });
  if (before.out != nullptr) before.write(n - n % kWays<T>, n);
  return T(1) / sum;
}

// `buffer` has room for two rows where the result is written by streaming stores.
template <typename T>
void softmax_rows(int64_t rows, int64_t n, const T* x, T* out, T* buffer, bool stream) {
  Pending<T> before;
  for (int64_t i = 0; i < rows; ++i, x += n, out += n) {
    T* e = !stream ? out : i % 2 == 0 ? buffer : buffer + n;
    const T factor = softmax_row(n, x, e, before);
    if (stream) {
      before = {e, out, factor};
    } else {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) out[j] *= factor;
    }
  }
  if (before.out != nullptr) before.write(0, n);
}

template <typename T>
T sum_exp(int64_t n, const T* x, T m, const T* next) {
  return sum_by_ways<T>(
      n, [&](int64_t i) { fetch(next + i, next + i + kWays<T>); }, [&](int64_t i) { return exp_below(x[i] - m); });
}

// What little the others add to the 1 of the largest would round away: then it is log1p of their sum.
template <typename T>
T log_sum_exp(int64_t n, const T* x, T m) {
  if (!(m < HUGE_VAL)) return limit_or_nan(n, x, T(0));
  const T sum = sum_exp(n, x, m, x + n);
  if (!(sum < T(1.5))) return std::log(sum);
  const int64_t place = std::find(x, x + n, m) - x, rest = place + 1;
  return std::log1p(sum_exp(place, x, m, x + n) + sum_exp(n - rest, x + rest, m, x + n));
}

template <typename T>
void log_softmax_row(int64_t n, const T* __restrict x, T* __restrict out, bool stream) {
  const T m = row_max(n, x), l = log_sum_exp(n, x, m);
  if (m == T(HUGE_VAL)) [[unlikely]] {
    write_row(n, out, stream, [&](int64_t i) { return (x[i] == m ? T(0) : x[i] - m) - l; });
    return;
  }
  write_row(n, out, stream, [&](int64_t i) { return (x[i] - m) - l; });
}

// `width` neighbouring columns of stride `inner`. They are gathered in a buffer: rows whose pitch is a power of
// two would drive each other out of the cache.
template <typename T>
void softmax_columns(int64_t size, int64_t inner, int64_t width, const T* __restrict x, T* __restrict out,
                     T* __restrict buffer, bool log, bool stream) {
  T m[kSoftmaxColumns], tops[kSoftmaxColumns];
  for (int64_t j = 0; j < width; ++j) m[j] = x[j], tops[j] = 0;
  for (int64_t i = 0; i < size; ++i) {
    const T* row = x + i * inner;
    T* e = buffer + i * width;
    fetch(row + kAhead * inner, row + kAhead * inner + width);
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      m[j] = row[j] > m[j] ? row[j] : m[j];
      e[j] = row[j];
    }
  }
  for (int64_t j = 0; j < width; ++j) {
    if (m[j] != T(HUGE_VAL)) continue;
    m[j] = has_limit(size, width, buffer + j) ? T(0) : std::numeric_limits<T>::quiet_NaN();
    for (T* e = buffer + j; e < buffer + size * width; e += width) *e = *e == T(HUGE_VAL) ? T(0) : T(-HUGE_VAL);
  }
  ColumnSums<T> sums(width);
  for (int64_t i = 0; i < size; ++i) {
    T *const e = buffer + i * width, *const sum = sums.row(i);
    if (log) {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) {
        const T v = exp_below(e[j] - m[j]);
        sum[j] += e[j] == m[j] ? T(0) : v;
        tops[j] += e[j] == m[j] ? T(1) : T(0);
      }
    } else {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) {
        e[j] = exp_below(e[j] - m[j]);
        sum[j] += e[j];
      }
    }
  }
  T* const sum = sums.finish();
  for (int64_t j = 0; j < width; ++j) {
    sum[j] = !log ? T(1) / sum[j] : m[j] < HUGE_VAL ? std::log1p(sum[j] + (tops[j] - 1)) : m[j] - m[j];
  }
  for (int64_t i = 0; i < size; ++i) {
    const T* e = buffer + i * width;
    T* o = out + i * inner;
    if (!stream) fetch(o + kAhead * inner, o + kAhead * inner + width);
    if (log) {
      write_row(width, o, stream, [&](int64_t j) { return (e[j] - m[j]) - sum[j]; });
    } else {
      write_row(width, o, stream, [&](int64_t j) { return e[j] * sum[j]; });
    }
  }
}

// Of each outer slice `columns` columns from `first` on.
template <typename T>
void softmax(int64_t outer, int64_t size, int64_t inner, int64_t first, int64_t columns, const T* x, T* out, T* buffer,
             bool log, bool stream) {
  if (inner == 1 && !log) {
    softmax_rows(outer, size, x, out, buffer, stream);
    return;
  }
  const int64_t width = softmax_width<T>(size), end = first + columns;
  for (int64_t o = 0; o < outer; ++o, x += size * inner, out += size * inner) {
    if (inner == 1) {
      log_softmax_row(size, x, out, stream);
      continue;
    }
    for (int64_t j = first; j < end; j += width) {
      softmax_columns(size, inner, end - j < width ? end - j : width, x + j, out + j, buffer, log, stream);
    }
  }
}

// One probability above a half at most leaves too little beside 1 to be rounded: its gradient is that of the others.
// Of `log`: the place whose element is replaced in the result; without it the place whose gradient all are shifted by.
template <typename T>
constexpr T half(bool log) {
  return log ? T(-0.6931471805599453) : T(0.5);
}
// What is no softmax may not be shifted, beyond rounding.
template <typename T>
bool sums_to_one(T sum) {
  return std::abs(sum - 1) <= 64 * std::numeric_limits<T>::epsilon();
}
template <typename T>
int64_t likely_place(int64_t n, int64_t stride, const T* y, bool log) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i + kWays<T> <= n; i += kWays<T>) {
      int32_t found = 0;
#pragma omp simd reduction(| : found)
      for (int64_t k = 0; k < kWays<T>; ++k) found |= y[i + k] > half<T>(log);
      if (found != 0) break;
    }
  }
  while (i < n && !(y[i * stride] > half<T>(log))) ++i;
  return i;
}
// (1 - p) g - p (sum of the other gradients), p = exp(y) at the place.
template <typename T>
T likely_gradient(T y, T g, T others) {
  return -std::expm1(y) * g - std::exp(y) * others;
}

template <typename T>
void backward_row(int64_t n, const T* __restrict g, const T* __restrict y, T* __restrict gi, bool log, bool stream) {
  const auto next = [&](int64_t i, int64_t end) {
    fetch(g + n + i, g + n + end);
    fetch(y + n + i, y + n + end);
  };
  const auto sum_of = [](int64_t count, const auto& fn) { return sum_by_ways<T>(count, [](int64_t) {}, fn); };
  // In a loop of its own: beside sums the compiler keeps neither in registers.
  const auto likely = [&] { return row_max(n, y) > half<T>(log); };
  if (log) {
    const T sum = sum_of(n, [&](int64_t i) { return g[i]; });
    const int64_t place = likely() && sum - sum == 0 ? likely_place(n, 1, y, log) : n;  // of a finite sum
    T replaced = 0;
    if (place < n) {  // the sum again, in the two parts beside the place
      const T* rest = g + place + 1;
      const T others =
          sum_of(place, [&](int64_t i) { return g[i]; }) + sum_of(n - place - 1, [&](int64_t i) { return rest[i]; });
      replaced = likely_gradient(y[place], g[place], others);
    }
    write_row(n, gi, stream, [&](int64_t i) { return g[i] - exp_below(y[i]) * sum; }, next);
    if (place < n) {
      if (stream) stream_done();
      gi[place] = replaced;
    }
  } else {
    T sum = sum_of(n, [&](int64_t i) { return g[i] * y[i]; });
    const int64_t place = likely() && sum - sum == 0 ? likely_place(n, 1, y, log) : n;  // of a finite sum
    if (place < n && sums_to_one(sum_of(n, [&](int64_t i) { return y[i]; }))) {
      const T shift = g[place];
      sum = sum_of(n, [&](int64_t i) { return (g[i] - shift) * y[i]; });
      write_row(n, gi, stream, [&](int64_t i) { return y[i] * ((g[i] - shift) - sum); }, next);
      return;
    }
    write_row(n, gi, stream, [&](int64_t i) { return y[i] * (g[i] - sum); }, next);
  }
}

template <typename T>
void backward_columns(int64_t size, int64_t inner, int64_t width, const T* __restrict g, const T* __restrict y,
                      T* __restrict gi, T* __restrict buffer, bool log, bool stream) {
  ColumnSums<T> sums(width);
  T most[kSoftmaxColumns], shift[kSoftmaxColumns] = {};
  for (int64_t j = 0; j < width; ++j) most[j] = -HUGE_VAL;
  for (int64_t i = 0; i < size; ++i) {
    const T *gr = g + i * inner, *yr = y + i * inner;
    T *const gb = buffer + 2 * i * width, *const yb = gb + width, *const sum = sums.row(i);
    fetch(gr + kAhead * inner, gr + kAhead * inner + width);
    fetch(yr + kAhead * inner, yr + kAhead * inner + width);
    if (log) {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) {
        sum[j] += gr[j];
        gb[j] = gr[j];
        yb[j] = yr[j];
        most[j] = yr[j] > most[j] ? yr[j] : most[j];
      }
    } else {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) {
        sum[j] += gr[j] * yr[j];
        gb[j] = gr[j];
        yb[j] = yr[j];
        most[j] = yr[j] > most[j] ? yr[j] : most[j];
      }
    }
  }
  T* const sum = sums.finish();
  for (int64_t j = 0; j < width && !log; ++j) {
    if (!(most[j] > half<T>(log) && sum[j] - sum[j] == 0)) continue;
    const T by = buffer[2 * likely_place(size, 2 * width, buffer + width + j, log) * width + j];
    double shifted = 0, whole = 0;
    for (int64_t i = 0; i < size; ++i) {
      const T *gb = buffer + 2 * i * width, *yb = gb + width;
      shifted += static_cast<double>((gb[j] - by) * yb[j]);
      whole += static_cast<double>(yb[j]);
    }
    if (!sums_to_one(static_cast<T>(whole))) continue;
    shift[j] = by;
    sum[j] = static_cast<T>(shifted);
  }
  for (int64_t i = 0; i < size; ++i) {
    const T *gb = buffer + 2 * i * width, *yb = gb + width;
    T* o = gi + i * inner;
    if (!stream) fetch(o + kAhead * inner, o + kAhead * inner + width);
    if (log) {
      write_row(width, o, stream, [&](int64_t j) { return gb[j] - exp_below(yb[j]) * sum[j]; });
    } else {
      write_row(width, o, stream, [&](int64_t j) { return yb[j] * ((gb[j] - shift[j]) - sum[j]); });
    }
  }
  bool done = !stream;
  for (int64_t j = 0; j < width && log; ++j) {
    if (!(most[j] > half<T>(log) && sum[j] - sum[j] == 0)) continue;
    if (!done) stream_done();
    done = true;
    const int64_t place = likely_place(size, 2 * width, buffer + width + j, log);
    const T* gb = buffer + j;
    T others = 0;
    for (int64_t i = 0; i < size; ++i) others += i == place ? T(0) : gb[i * 2 * width];
    gi[place * inner + j] = likely_gradient(gb[(2 * place + 1) * width], gb[2 * place * width], others);
  }
}

template <typename T>
void backward(int64_t outer, int64_t size, int64_t inner, int64_t first, int64_t columns, const T* g, const T* y, T* gi,
              T* buffer, bool log, bool stream) {
  const int64_t width = softmax_width<T>(2 * size), end = first + columns;
  for (int64_t o = 0; o < outer; ++o, g += size * inner, y += size * inner, gi += size * inner) {
    if (inner == 1) {
      backward_row(size, g, y, gi, log, stream);
      continue;
    }
    for (int64_t j = first; j < end; j += width) {
      backward_columns(size, inner, end - j < width ? end - j : width, g + j, y + j, gi + j, buffer, log, stream);
    }
  }
}

template <typename T>
void row_log_sum_exp(int64_t n, const T* x, T* tops) {
  tops[0] = row_max(n, x);
  tops[1] = log_sum_exp(n, x, tops[0]);
}

template <typename T>
void scaled_exp(int64_t n, const T* __restrict x, const T* tops, T scale, T* __restrict out) {
  const T top = tops[0], log_sum = tops[1];
  if (top == T(HUGE_VAL)) [[unlikely]] {
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] == top ? scale * std::exp(-log_sum) : scale * log_sum;  // 0 or NaN
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = scale * exp_of((x[i] - top) - log_sum);
}

}  // namespace

FACULA_DEFINE_BY_ISA(SoftmaxLoops<float>, softmax_loops_float,
                     {softmax<float>, backward<float>, row_log_sum_exp<float>, scaled_exp<float>})
FACULA_DEFINE_BY_ISA(SoftmaxLoops<double>, softmax_loops_double,
                     {softmax<double>, backward<double>, row_log_sum_exp<double>, scaled_exp<double>})

}  // namespace facula
