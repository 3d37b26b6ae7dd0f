// Negative log likelihood of class indices, alone and with the softmax before it.
#include <cmath>
#include <utility>

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

// Sums of losses and of their weights, in double: fn(k, by) gives loss k times `by`, a power of two, and its weight.
// What leaves the range of double is summed up again, scaled.
struct Sums {
  double loss, total;
};
template <typename F>
Sums sums_of(int64_t n, bool mean, const F& fn) {
  const auto over = [&](double by) {
    Sums s{0, 0};
    for (int64_t k = 0; k < n; ++k) {
      const auto [loss, weight] = fn(k, by);
      s.loss += loss;
      s.total += weight * by;
    }
    return s;
  };
  Sums s = over(1);
  double loss = mean ? s.loss / s.total : s.loss;
  if (!std::isfinite(s.loss) || !std::isfinite(s.total)) {
    constexpr double kBy = 0x1p-80;
    const Sums again = over(kBy);
    loss = mean ? again.loss / again.total : again.loss / kBy;
  }
  return {loss, s.total};
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
      const bool each = reduction == "none";
      const Sums sums = sums_of(c.outer * c.inner, reduction == "mean", [&](int64_t at, double by) {
        const int64_t k = targets[at];
        if (k == ignore_index) {
          if (each) y.data<T>()[at] = 0;
          return std::pair(0.0, 0.0);
        }
        const double scale = w.defined() ? w.data<T>()[k] : T(1);
        // A class of no weight does not count, whatever its score.
        const double score = x.data<T>()[(at / c.inner * c.classes + k) * c.inner + at % c.inner];
        const double loss = scale == 0 ? 0.0 : -(score * by) * scale;
        if (each) y.data<T>()[at] = static_cast<T>(loss / by);
        return std::pair(loss, scale);
      });
      if (!each) *y.data<T>() = static_cast<T>(sums.loss);
      into_dense(out_total, ScalarType::Float64, [&](const Tensor& t) { *t.data<double>() = sums.total; });
    });
  });
}

void nll_loss_backward(const Tensor& grad, IntList size, const Tensor& target, const Tensor& weight,
                       int64_t ignore_index, std::string_view reduction, const Tensor& total_weight,
                       const Tensor& out) {
  const Classes c = classes_of(size);
  const Tensor t = checked(target, c, ignore_index), g = dense_compute(grad);
  const Tensor w = weight.defined() ? dense_as(weight, g.dtype()) : weight;
  const double total = *dense_as(total_weight, ScalarType::Float64).data<double>();
  into_dense(out, g.dtype(), [&](const Tensor& gi) {
    visit_compute(g.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const bool each = reduction == "none";
      const double factor = each ? 0.0 : *g.data<T>() / (reduction == "mean" ? total : 1.0);
      T* to = gi.data<T>();
      const int64_t slice = c.classes * c.inner;
      parallel_for(0, c.outer, grain_for(slice), [&](int64_t begin, int64_t end) {
        std::fill(to + begin * slice, to + end * slice, T(0));
        for (int64_t n = begin; n < end; ++n) {
          for (int64_t i = 0; i < c.inner; ++i) {
            const int64_t at = n * c.inner + i, k = t.data<int64_t>()[at];
            if (k == ignore_index) continue;
            const double scale = w.defined() ? w.data<T>()[k] : T(1);
            to[(n * c.classes + k) * c.inner + i] = static_cast<T>(-scale * (each ? g.data<T>()[at] : factor));
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
      const bool each = reduction == "none";
      const Sums sums = sums_of(c.outer, reduction == "mean", [&](int64_t n, double by) {
        const int64_t k = targets[n];
        if (k == ignore_index) {
          if (each) y.data<T>()[n] = 0;
          return std::pair(0.0, 0.0);
        }
        const double scale = w.defined() ? w.data<T>()[k] : T(1);
        const double top = tops[2 * n], own = scores[n * c.classes + k];
        const double score = (top == own ? 0.0 : top - own) + tops[2 * n + 1];
        double loss = scale == 0 ? 0.0 : (score * by) * scale;
        // The difference may be beyond the range, what it counts need not.
        if (std::isinf(score) && scale != 0 && !std::isinf(own)) loss = top * by * scale - own * by * scale;
        if (each) y.data<T>()[n] = static_cast<T>(loss / by);
        return std::pair(loss, scale);
      });
      if (!each) *y.data<T>() = static_cast<T>(sums.loss);
      into_dense(out_total, ScalarType::Float64, [&](const Tensor& t) { *t.data<double>() = sums.total; });
    });
  });
}

void softmax_nll_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                          int64_t ignore_index, std::string_view reduction, const Tensor& total_weight,
                          const Tensor& tops, const Tensor& out) {
  const Classes c{self.size(0), self.size(1)};
  const Tensor t = checked(target, c, ignore_index, "cross_entropy"), x = dense_compute(self);
  const Tensor g = dense_as(grad, x.dtype()), of_rows = dense_as(tops, x.dtype());
  const Tensor w = weight.defined() ? dense_as(weight, x.dtype()) : weight;
  const double total = *dense_as(total_weight, ScalarType::Float64).data<double>();
  into_dense(out, x.dtype(), [&](const Tensor& gi) {
    visit_compute(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const bool each = reduction == "none";
      const double factor = each ? 0.0 : *g.data<T>() / (reduction == "mean" ? total : 1.0);
      parallel_for(0, c.outer, grain_for(c.classes), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const int64_t k = t.data<int64_t>()[n];
          T* row = gi.data<T>() + n * c.classes;
          if (k == ignore_index) {
            std::fill_n(row, c.classes, T(0));
            continue;
          }
          const T scale = static_cast<T>((w.defined() ? w.data<T>()[k] : T(1)) * (each ? g.data<T>()[n] : factor));
          softmax_loops<T>().scaled_exp(c.classes, x.data<T>() + n * c.classes, of_rows.data<T>() + 2 * n, scale, row);
          // p - 1 of a target that is nearly certain: the logarithm has the digits.
          const T* top = of_rows.data<T>() + 2 * n;
          const T own = x.data<T>()[n * c.classes + k], score = (own == top[0] ? T(0) : own - top[0]) - top[1];
          row[k] = score > T(-0.5) ? scale * std::expm1(score) : row[k] - scale;
        }
      });
    });
  });
}

}  // namespace facula::cpu
