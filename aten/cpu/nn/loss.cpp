// Negative log likelihood of class indices, alone and with the softmax before it.
#include "aten/cpu/common/bits.h"
#include "aten/cpu/common/dense.h"
#include "aten/cpu/nn/loops.h"
#include "facula/kernels.h"

namespace facula::cpu {
namespace {

// (N, C, inner), (C) or (N, C): scores of C classes for each of N * inner targets.
struct Classes {
  int64_t outer = 1, classes, inner = 1;
};
Classes classes_of(IntList sizes) {
  if (sizes.size() == 1) return {1, sizes[0], 1};
  Classes c{sizes[0], sizes[1], 1};
  for (const int64_t s : sizes.subspan(2)) c.inner *= s;
  return c;
}

// Targets as int64, checked before anything is written; a copy, for other threads may write to the targets.
Tensor checked(const Tensor& target, const Classes& c, int64_t ignore_index, const char* op = "nll_loss") {
  const Tensor given = dense_as(target, ScalarType::Int64);
  const Tensor t = make_empty(given.sizes(), ScalarType::Int64);
  const int64_t* p = given.data<int64_t>();
  int64_t* to = t.data<int64_t>();
  for (int64_t i = 0, n = t.numel(); i < n; ++i) {
    const int64_t k = read_once(p + i);
    FACULA_CHECK((k >= 0 && k < c.classes) || k == ignore_index, Index, Operator{op}, "target ", k,
                 " is out of range for ", c.classes, " classes");
    to[i] = k;
  }
  return t;
}

}  // namespace

void nll_loss_forward(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t ignore_index,
                      std::string_view reduction, const Tensor& out, const Tensor& out_total) {
  const Classes c = classes_of(self.sizes());
  const Tensor t = checked(target, c, ignore_index), x = dense_compute(self);
  const Tensor w = weight.defined() ? dense_as(weight, x.dtype()) : weight;
  into_dense(out, x.dtype(), [&](const Tensor& y) {
    visit_compute(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const int64_t* targets = t.data<int64_t>();
      double sum = 0, total = 0;
      const bool each = reduction == "none";
      for (int64_t n = 0; n < c.outer; ++n) {
        for (int64_t i = 0; i < c.inner; ++i) {
          const int64_t at = n * c.inner + i, k = targets[at];
          T loss = 0;
          if (k != ignore_index) {
            const T scale = w.defined() ? w.data<T>()[k] : T(1);
            // A class of no weight does not count, whatever its score.
            loss = scale == 0 ? T(0) : -x.data<T>()[(n * c.classes + k) * c.inner + i] * scale;
            sum += static_cast<double>(loss);
            total += static_cast<double>(scale);
          }
          if (each) y.data<T>()[at] = loss;
        }
      }
      if (!each) *y.data<T>() = static_cast<T>(reduction == "mean" ? sum / total : sum);
      *out_total.data<T>() = static_cast<T>(total);
    });
  });
}

void nll_loss_backward(const Tensor& grad, IntList size, const Tensor& target, const Tensor& weight,
                       int64_t ignore_index, std::string_view reduction, const Tensor& total_weight,
                       const Tensor& out) {
  const Classes c = classes_of(size);
  const Tensor t = checked(target, c, ignore_index), g = dense_compute(grad);
  const Tensor w = weight.defined() ? dense_as(weight, g.dtype()) : weight;
  const Tensor total = dense_as(total_weight, g.dtype());
  into_dense(out, g.dtype(), [&](const Tensor& gi) {
    visit_compute(g.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const bool each = reduction == "none";
      const T factor = reduction == "mean" ? *g.data<T>() / *total.data<T>() : each ? T(0) : *g.data<T>();
      T* to = gi.data<T>();
      const int64_t slice = c.classes * c.inner;
      parallel_for(0, c.outer, grain_for(slice), [&](int64_t begin, int64_t end) {
        std::fill(to + begin * slice, to + end * slice, T(0));
        for (int64_t n = begin; n < end; ++n) {
          for (int64_t i = 0; i < c.inner; ++i) {
            const int64_t at = n * c.inner + i, k = t.data<int64_t>()[at];
            if (k == ignore_index) continue;
            const T scale = w.defined() ? w.data<T>()[k] : T(1);
            to[(n * c.classes + k) * c.inner + i] = -scale * (each ? g.data<T>()[at] : factor);
          }
        }
      });
    });
  });
}

void softmax_nll_forward(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t ignore_index,
                         std::string_view reduction, const Tensor& out, const Tensor& out_total,
                         const Tensor& out_tops) {
  const Classes c{self.size(0), self.size(1)};
  const Tensor t = checked(target, c, ignore_index, "cross_entropy"), x = dense_compute(self);
  const Tensor w = weight.defined() ? dense_as(weight, x.dtype()) : weight;
  into_dense({out_tops, out}, x.dtype(), [&](const Tensor& of_rows, const Tensor& y) {
    visit_compute(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const int64_t* targets = t.data<int64_t>();
      const T* scores = x.data<T>();
      T* tops = of_rows.data<T>();
      parallel_for(0, c.outer, grain_for(c.classes), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          softmax_loops<T>().log_sum_exp(c.classes, scores + n * c.classes, tops + 2 * n);
        }
      });
      double sum = 0, total = 0;
      const bool each = reduction == "none";
      for (int64_t n = 0; n < c.outer; ++n) {
        const int64_t k = targets[n];
        T loss = 0;
        if (k != ignore_index) {
          const T scale = w.defined() ? w.data<T>()[k] : T(1);
          loss = scale == 0 ? T(0) : ((tops[2 * n] - scores[n * c.classes + k]) + tops[2 * n + 1]) * scale;
          sum += static_cast<double>(loss);
          total += static_cast<double>(scale);
        }
        if (each) y.data<T>()[n] = loss;
      }
      if (!each) *y.data<T>() = static_cast<T>(reduction == "mean" ? sum / total : sum);
      *out_total.data<T>() = static_cast<T>(total);
    });
  });
}

void softmax_nll_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                          int64_t ignore_index, std::string_view reduction, const Tensor& total_weight,
                          const Tensor& tops, const Tensor& out) {
  const Classes c{self.size(0), self.size(1)};
  const Tensor t = checked(target, c, ignore_index, "cross_entropy"), x = dense_compute(self);
  const Tensor g = dense_as(grad, x.dtype()), of_rows = dense_as(tops, x.dtype());
  const Tensor w = weight.defined() ? dense_as(weight, x.dtype()) : weight, total = dense_as(total_weight, x.dtype());
  into_dense(out, x.dtype(), [&](const Tensor& gi) {
    visit_compute(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const bool each = reduction == "none";
      const T factor = reduction == "mean" ? *g.data<T>() / *total.data<T>() : each ? T(0) : *g.data<T>();
      parallel_for(0, c.outer, grain_for(c.classes), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const int64_t k = t.data<int64_t>()[n];
          T* row = gi.data<T>() + n * c.classes;
          if (k == ignore_index) {
            std::fill_n(row, c.classes, T(0));
            continue;
          }
          const T scale = (w.defined() ? w.data<T>()[k] : T(1)) * (each ? g.data<T>()[n] : factor);
          softmax_loops<T>().scaled_exp(c.classes, x.data<T>() + n * c.classes, of_rows.data<T>() + 2 * n, scale, row);
          row[k] -= scale;
        }
      });
    });
  });
}

}  // namespace facula::cpu
