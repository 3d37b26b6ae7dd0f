// The matrices of a batch, brought into the layout that LAPACK works in and back.
#pragma once

#include <algorithm>
#include <cstring>

#include "aten/cpu/common/dense.h"
#include "aten/cpu/gemm/gemm.h"
#include "aten/cpu/linalg/lapack.h"
#include "runtime/core/checked.h"

namespace facula::cpu {

inline IntList batch_sizes(const Tensor& t, size_t matrix_dims = 2) {
  return t.sizes().first(t.sizes().size() - matrix_dims);
}

// The last two dims of a tensor, or the last one as a column; those before them broadcast to `batch`.
template <typename T>
class Matrices {
 public:
  Matrices(const Tensor& t, IntList batch, bool column = false)
      : data_(t.data<T>()), sizes_(batch), strides_(batch.size(), 0) {
    const size_t own = t.sizes().size() - (column ? 1 : 2);
    row_ = t.strides()[own];
    col_ = column ? 1 : t.strides()[own + 1];
    for (size_t d = 0; d < own; ++d) {
      if (t.sizes()[d] != 1) strides_[batch.size() - own + d] = t.strides()[d];
    }
  }
  Matrix<T> operator[](int64_t i) const {
    T* at = data_;
    for (size_t d = sizes_.size(); i > 0 && d-- > 0;) {
      at += i % sizes_[d] * strides_[d];
      i /= sizes_[d];
    }
    return {at, row_, col_};
  }

 private:
  T* data_;
  DimVector sizes_, strides_;
  int64_t row_, col_;
};

template <typename T>
Matrix<T> column_major(T* data, int64_t rows) {
  return {data, 1, std::max<int64_t>(rows, 1)};
}
template <typename T>
Matrix<T> row_major(T* data, int64_t cols) {
  return {data, std::max<int64_t>(cols, 1), 1};
}

// to = from, m by n.
template <typename T>
void copy_matrix(int64_t m, int64_t n, Matrix<const T> from, Matrix<T> to) {
  if (to.col != 1 || (to.row == 1 && from.row == 1)) {  // along the contiguous lines of the target
    std::swap(m, n);
    from = from.t();
    to = to.t();
  }
  if (from.col == 1 && to.col == 1) {
    for (int64_t i = 0; i < m; ++i) std::copy_n(from.data + i * from.row, n, to.data + i * to.row);
    return;
  }
  constexpr int64_t kBlock = 16;
  for (int64_t i = 0; i < m; i += kBlock) {
    const int64_t end = std::min(m, i + kBlock);
    for (int64_t j = 0; j < n; j += kBlock) {
      const int64_t stop = std::min(n, j + kBlock);
      for (int64_t k = i; k < end; ++k) {
        const T* x = from.data + k * from.row;
        T* y = to.data + k * to.row;
        for (int64_t l = j; l < stop; ++l) y[l * to.col] = x[l * from.col];
      }
    }
  }
}

// Memory for the work of one thread; sizes may be any.
template <typename T>
class Work {
 public:
  explicit Work(int64_t rows, int64_t cols = 1) : buffer_(checked_elements(rows, cols)) {}
  T* get() const { return buffer_.get(); }
  operator T*() const { return buffer_.get(); }  // NOLINT

 private:
  static int64_t checked_elements(int64_t rows, int64_t cols) {
    const int64_t n = checked_mul(rows, cols);
    checked_mul(n, static_cast<int64_t>(sizeof(T)));
    return n;
  }
  TypedBuffer<T> buffer_;
};

// fn(type_identity<T>) for a type that LAPACK computes in; shape rules let no other through.
template <typename F>
void visit_lapack(ScalarType t, const F& fn) {
  switch (t) {
    case ScalarType::Float32:
      return fn(std::type_identity<float>{});
    case ScalarType::Float64:
      return fn(std::type_identity<double>{});
    case ScalarType::Complex64:
      return fn(std::type_identity<complex64>{});
    case ScalarType::Complex128:
      return fn(std::type_identity<complex128>{});
    default:
      raise(ErrorKind::Dtype, "linear algebra computes in float32, float64, complex64 and complex128, not in ",
            dtype_name(t));
  }
}

template <typename T>
using real_t = decltype(std::abs(T{}));

template <typename T>
T conjugate(T x) {
  if constexpr (is_complex_v<T>) {
    return std::conj(x);
  } else {
    return x;
  }
}

// Shares `count` matrices out among threads, `work` operations each: fn(begin, end).
template <typename F>
void share_matrices(int64_t count, int64_t work, const F& fn) {
  parallel_for(0, count, grain_for(work), fn);
}
// The operations of an algorithm for matrices of this size, roughly.
inline int64_t cubic(int64_t m, int64_t n) { return saturated_mul(saturated_mul(m, n), std::min(m, n) + 1) / 4 + 64; }

}  // namespace facula::cpu
