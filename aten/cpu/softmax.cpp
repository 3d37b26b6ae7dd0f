// Softmax, its logarithm and their gradients.
#include "aten/cpu/dense.h"
#include "aten/cpu/nn_loops.h"
#include "facula/kernels.h"

namespace facula::cpu {
namespace {

struct Shape3 {
  int64_t outer = 1, size = 1, inner = 1;
};

Shape3 around(const Tensor& t, int64_t dim) {
  Shape3 s;
  const int64_t at = wrap_dim(dim, t.dim());
  for (int64_t d = 0; d < t.dim(); ++d) {
    (d < at ? s.outer : d == at ? s.size : s.inner) *= t.size(d);
  }
  return s;
}

// Splits (outer, size, inner) over threads: by outer where there is enough of it. The columns of
// one outer slice are not split, as rows of them would share cache lines.
template <typename F>
void for_slices(const Shape3& s, const F& fn) {
  const int64_t slice = s.size * s.inner;
  parallel_for(0, s.outer, grain_for(slice, 49152),
               [&](int64_t begin, int64_t end) { fn(begin * slice, end - begin); });
}

void forward(const Tensor& self, int64_t dim, const Tensor& out, bool log) {
  if (out.numel() == 0) return;
  const Tensor x = dense_compute(self.dtype() == out.dtype() ? self : dense_as(self, out.dtype()));
  const Shape3 s = around(out, dim);
  into_dense(out, x.dtype(), [&](const Tensor& y) {
    visit_compute(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      for_slices(s, [&](int64_t at, int64_t n) {
        softmax_loops<T>().forward(n, s.size, s.inner, x.data<T>() + at, y.data<T>() + at, log);
      });
    });
  });
}

void backward(const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& out, bool log) {
  if (out.numel() == 0) return;
  const Tensor g = dense_compute(grad), y = dense_compute(output);
  const Shape3 s = around(out, dim);
  into_dense(out, g.dtype(), [&](const Tensor& gi) {
    visit_compute(g.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      for_slices(s, [&](int64_t at, int64_t n) {
        softmax_loops<T>().backward(n, s.size, s.inner, g.data<T>() + at, y.data<T>() + at, gi.data<T>() + at, log);
      });
    });
  });
}

}  // namespace

void softmax(const Tensor& self, int64_t dim, std::optional<ScalarType>, const Tensor& out) {
  forward(self, dim, out, false);
}
void log_softmax(const Tensor& self, int64_t dim, std::optional<ScalarType>, const Tensor& out) {
  forward(self, dim, out, true);
}
void softmax_backward(const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& out) {
  backward(grad, output, dim, out, false);
}
void log_softmax_backward(const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& out) {
  backward(grad, output, dim, out, true);
}

}  // namespace facula::cpu
