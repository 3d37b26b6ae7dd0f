// Softmax, its logarithm and their gradients.
#include "aten/cpu/common/dense.h"
#include "aten/cpu/nn/loops.h"
#include "facula/kernels.h"
#include "runtime/iterate/stream.h"

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

// Splits (outer, size, inner) over threads, fn(offset, slices, first column, columns): by outer where there is
// enough of it, else by columns too, in tiles of whole cache lines.
template <typename F>
void for_slices(const Shape3& s, const F& fn) {
  const int64_t slice = s.size * s.inner;
  constexpr int64_t kColumns = kSoftmaxColumns;
  const int64_t tiles = s.inner >= 2 * kColumns && s.outer < 4 * get_num_threads() ? s.inner / kColumns : 1;
  if (tiles == 1) {
    parallel_for(0, s.outer, grain_for(slice, 49152),
                 [&](int64_t begin, int64_t end) { fn(begin * slice, end - begin, 0, s.inner); });
    return;
  }
  parallel_for(0, s.outer * tiles, grain_for(s.size * kColumns, 49152), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % tiles * kColumns;
      fn(i / tiles * slice, 1, first, i % tiles == tiles - 1 ? s.inner - first : kColumns);
    }
  });
}

// Whether a result is written by streaming stores.
bool streams(const Tensor& out, const Tensor& in) {
  return static_cast<int64_t>(out.nbytes()) >= kStreamBytes && out.raw() != in.raw();
}

void forward(const Tensor& self, int64_t dim, const Tensor& out, bool log) {
  if (out.numel() == 0) return;
  const Tensor x = dense_compute(self.dtype() == out.dtype() ? self : dense_as(self, out.dtype()));
  const Shape3 s = around(out, dim);
  into_dense(out, x.dtype(), [&](const Tensor& y) {
    const bool stream = streams(y, x);
    visit_compute(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      for_slices(s, [&](int64_t at, int64_t n, int64_t first, int64_t columns) {
        const TypedBuffer<T> buffer(s.inner > 1 ? softmax_width<T>(s.size) * s.size : stream ? 2 * s.size : 0);
        softmax_loops<T>().forward(n, s.size, s.inner, first, columns, x.data<T>() + at, y.data<T>() + at, buffer.get(),
                                   log, stream);
        if (stream) stream_done();
      });
    });
  });
}

void backward(const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& out, bool log) {
  if (out.numel() == 0) return;
  const Tensor g = dense_compute(grad), y = dense_compute(output);
  const Shape3 s = around(out, dim);
  into_dense(out, g.dtype(), [&](const Tensor& gi) {
    const bool stream = streams(gi, g) && streams(gi, y);
    visit_compute(g.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      for_slices(s, [&](int64_t at, int64_t n, int64_t first, int64_t columns) {
        const TypedBuffer<T> buffer(s.inner > 1 ? softmax_width<T>(2 * s.size) * 2 * s.size : 0);
        softmax_loops<T>().backward(n, s.size, s.inner, first, columns, g.data<T>() + at, y.data<T>() + at,
                                    gi.data<T>() + at, buffer.get(), log, stream);
        if (stream) stream_done();
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
