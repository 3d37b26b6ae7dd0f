// cdist: the distances between the rows of two matrices.
#include <cmath>
#include <limits>

#include "aten/cpu/common/tuning.h"
#include "aten/cpu/linalg/distance_loops.h"
#include "aten/cpu/linalg/matrices.h"
#include "aten/cpu/nn/loops.h"
#include "facula/kernels.h"

namespace facula::cpu {
namespace {

template <typename T>
const DistanceLoops<T>& distance_loops() {
  if constexpr (std::is_same_v<T, float>) {
    return FACULA_BY_ISA(distance_loops_float);
  } else {
    return FACULA_BY_ISA(distance_loops_double);
  }
}

Distance kind_of(double p) {
  if (p == 0) return Distance::Count;
  if (p == 1) return Distance::Sum;
  if (p == 2) return Distance::Square;
  return std::isinf(p) ? Distance::Largest : Distance::Power;
}

// A distance whose powers leave the range of T, or may: of differences in units of the largest one.
template <typename T>
double scaled_distance(double p, int64_t dims, const T* x, const T* y, int64_t stride) {
  double top = 0;
  for (int64_t d = 0; d < dims; ++d) {
    const double size = std::abs(double(x[d]) - double(y[d * stride]));
    if (std::isnan(size)) return size;
    top = std::max(top, size);
  }
  if (top == 0 || std::isinf(top)) return top;
  double sum = 0;
  for (int64_t d = 0; d < dims; ++d) sum += std::pow(std::abs(double(x[d]) - double(y[d * stride])) / top, p);
  return std::pow(sum, 1 / p) * top;
}

// Sums of squares and powers from there on are made of terms that keep their digits.
template <typename T>
constexpr double kMinAccurate = double(std::numeric_limits<T>::min()) / double(std::numeric_limits<T>::epsilon());

template <typename T>
double distance(Distance kind, double p, double total, int64_t dims, const T* x, const T* y) {
  if (kind != Distance::Square && kind != Distance::Power) return total;
  if (!(total >= kMinAccurate<T> && total <= double(std::numeric_limits<T>::max()))) {
    return scaled_distance(p, dims, x, y, kDistances);
  }
  return kind == Distance::Square ? std::sqrt(total) : std::pow(total, 1 / p);
}

// The rows of a (m, dims) against those of b (n, dims), all contiguous.
template <typename T>
void by_differences(double p, int64_t m, int64_t n, int64_t dims, const T* a, const T* b, T* out) {
  const Distance kind = kind_of(p);
  const auto loops = distance_loops<T>();
  const Work<T> columns(dims, kDistances);
  T* y = columns;
  double totals[kDistances];
  for (int64_t j = 0; j < n; j += kDistances) {
    const int64_t count = std::min(kDistances, n - j);
    if (count < kDistances) std::fill_n(y, dims * kDistances, T(0));
    copy_matrix<T>(count, dims, row_major(b + j * dims, dims), {y, 1, kDistances});
    for (int64_t i = 0; i < m; ++i) {
      loops.totals(kind, p, dims, a + i * dims, y, totals);
      for (int64_t k = 0; k < count; ++k) {
        out[i * n + j + k] = static_cast<T>(distance(kind, p, totals[k], dims, a + i * dims, y + k));
      }
      count_step(1 + static_cast<int32_t>(std::min<int64_t>(dims / 16, 64)));
    }
  }
}

// Of rows that lie close together for their length, or out of range.
template <typename T>
T near_distance(int64_t dims, const T* x, const T* y) {
  double sum = 0;
  for (int64_t d = 0; d < dims; ++d) {
    const double difference = double(x[d]) - double(y[d]);
    sum += difference * difference;
  }
  return static_cast<T>(sum >= kMinAccurate<double> && std::isfinite(sum) ? std::sqrt(sum)
                                                                          : scaled_distance(2, dims, x, y, 1));
}

template <typename T>
constexpr T kCancels = T(1) / 32;

// The rows of a and b with the origin in the middle of those of b, and their squares.
template <typename T>
void move_rows(int64_t m, int64_t n, int64_t dims, const T* a, const T* b, T* moved, T* squares) {
  const Work<double> middle(dims);
  std::fill_n(middle.get(), dims, 0.0);
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t d = 0; d < dims; ++d) middle[d] += double(b[j * dims + d]) / static_cast<double>(n);
  }
  for (int64_t i = 0; i < m + n; ++i) {
    const T* row = i < m ? a + i * dims : b + (i - m) * dims;
    T* to = moved + i * dims;
    for (int64_t d = 0; d < dims; ++d) to[d] = row[d] - static_cast<T>(middle[d]);
    squares[i] = dot_loops<T>().dot(dims, to, to);
    count_step();
  }
}

// |a|^2 + |b|^2 - 2 a b, by a product: what cancels in it is looked at again.
template <typename T>
void by_product(int64_t m, int64_t n, int64_t dims, const T* a, const T* b, T* out) {
  const Work<T> squares(m + n), moved(m + n, dims);
  move_rows<T>(m, n, dims, a, b, moved, squares);
  gemm<T>(m, n, dims, T(-2), row_major(moved.get(), dims), row_major(moved + m * dims, dims).t(), T(0),
          row_major(out, n));
  parallel_for(0, m, grain_for(n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const T both = squares[i] + squares[m + j], square = both + out[i * n + j];
        const bool holds =
            square > both * kCancels<T> && square >= static_cast<T>(kMinAccurate<T>) && std::isfinite(square);
        out[i * n + j] = holds ? std::sqrt(square) : near_distance(dims, a + i * dims, b + j * dims);
      }
    }
  });
}

// The sums of grad (a - b) / distance over the rows of b: a times the sum of the quotients, less their product with b.
// Pairs that are close together for their length, or out of range, are added by their difference. False if rows are out
// of range: then nothing was done.
template <typename T>
bool slopes_by_product(int64_t m, int64_t n, int64_t dims, const T* a, const T* b, const T* grad, const T* distance,
                       T* out) {
  const Work<T> squares(m + n), moved(m + n, dims), quotients(m, n), sums(m);
  move_rows<T>(m, n, dims, a, b, moved, squares);
  const T least = std::sqrt(static_cast<T>(kMinAccurate<T>)), most = std::sqrt(std::numeric_limits<T>::max()) / 16;
  const auto holds = [&](int64_t i, int64_t j) {
    const T r = distance[i * n + j];
    return r > least && r < most && r * r > (squares[i] + squares[m + j]) * kCancels<T> &&
           std::isfinite(grad[i * n + j]);
  };
  for (int64_t i = 0; i < m + n; ++i) {
    if (!(squares[i] < std::numeric_limits<T>::max() / 16)) return false;
  }
  parallel_for(0, m, grain_for(n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) {
        const T q = holds(i, j) ? grad[i * n + j] / distance[i * n + j] : T(0);
        quotients[i * n + j] = q;
        sum += double(q);
      }
      sums[i] = static_cast<T>(sum);
    }
  });
  gemm<T>(m, dims, n, T(-1), row_major(quotients.get(), n), row_major(moved + m * dims, dims), T(0),
          row_major(out, dims));
  parallel_for(0, m, grain_for(n), [&](int64_t begin, int64_t end) {
    const Work<T> part(2, dims);
    for (int64_t i = begin; i < end; ++i) {
      T* to = out + i * dims;
      for (int64_t d = 0; d < dims; ++d) to[d] += moved[i * dims + d] * sums[i];
      for (int64_t j = 0; j < n; ++j) {
        if (holds(i, j) || distance[i * n + j] == 0) continue;
        distance_loops<T>().slopes(1, dims, a + i * dims, b + j * dims, grad + i * n + j, distance + i * n + j, part,
                                   part + dims);
        for (int64_t d = 0; d < dims; ++d) to[d] += part[dims + d];
      }
    }
  });
  return true;
}

}  // namespace

void cdist(const Tensor& x1, const Tensor& x2, double p, std::string_view compute_mode, const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t m = out.size(-2), n = out.size(-1), dims = x1.size(-1);
  const IntList batch = batch_sizes(out);
  const bool product = p == 2 && compute_mode != "donot_use_mm_for_euclid_dist" && dims > 0 &&
                       (compute_mode == "use_mm_for_euclid_dist" || m > 25 || n > 25);
  const Tensor a = dense_compute(x1), b = dense_compute(x2);
  into_dense(out, a.dtype(), [&](const Tensor& result) {
    visit_compute(a.dtype(), [&]<typename T>(std::type_identity<T>) {
      const Matrices<T> left(a, batch), right(b, batch);
      const int64_t count = numel_of(batch);
      const auto at = [&](int64_t k, int64_t row) { return result.data<T>() + (k * m + row) * n; };
      if (product) {
        const auto part = [&](int64_t begin, int64_t end) {
          for (int64_t k = begin; k < end; ++k) by_product<T>(m, n, dims, left[k].data, right[k].data, at(k, 0));
        };
        if (count < get_num_threads()) return part(0, count);  // products share themselves out
        return share_matrices(count, saturated_mul(saturated_mul(m, n), dims), part);
      }
      const int64_t lines = checked_mul(count, m);
      share_matrices(lines, saturated_mul(n, dims + 1), [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end;) {
          const int64_t k = line / m, row = line % m, rows = std::min(end - line, m - row);
          by_differences<T>(p, rows, n, dims, left[k].data + row * dims, right[k].data, at(k, row));
          line += rows;
        }
      });
    });
  });
}

void cdist_slopes(const Tensor& grad, const Tensor& x1, const Tensor& x2, const Tensor& distance, const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t m = grad.size(-2), n = grad.size(-1), dims = x1.size(-1);
  const IntList batch = batch_sizes(out);
  const Tensor a = dense_compute(x1), b = dense_compute(x2), g = dense_compute(grad), r = dense_compute(distance);
  into_dense(out, a.dtype(), [&](const Tensor& sums) {
    visit_compute(a.dtype(), [&]<typename T>(std::type_identity<T>) {
      const Matrices<T> x(a, batch), y(b, batch), grads(g, batch), distances(r, batch);
      const int64_t count = numel_of(batch);
      const auto by_lines = [&](int64_t begin, int64_t end) {
        const Work<T> part(dims);
        for (int64_t line = begin; line < end; ++line) {
          const int64_t k = line / m, row = line % m;
          distance_loops<T>().slopes(n, dims, x[k].data + row * dims, y[k].data, grads[k].data + row * n,
                                     distances[k].data + row * n, part, sums.data<T>() + line * dims);
          count_step(1 + static_cast<int32_t>(std::min<int64_t>(saturated_mul(n, dims) / 1024, 64)));
        }
      };
      const int64_t work = saturated_mul(n, dims + 1);
      if (dims < tuning::kProductDims || std::min(m, n) < tuning::kProductRows) {
        return share_matrices(checked_mul(count, m), work, by_lines);
      }
      const auto some = [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          if (slopes_by_product<T>(m, n, dims, x[k].data, y[k].data, grads[k].data, distances[k].data,
                                   sums.data<T>() + k * m * dims)) {
            continue;
          }
          share_matrices(m, work, [&](int64_t first, int64_t last) { by_lines(k * m + first, k * m + last); });
        }
      };
      if (count < get_num_threads()) return some(0, count);  // products share themselves out
      share_matrices(count, saturated_mul(saturated_mul(m, n), dims), some);
    });
  });
}

}  // namespace facula::cpu
