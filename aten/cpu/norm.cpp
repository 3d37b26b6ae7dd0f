// Layer, RMS, group and batch normalisation and their gradients. Work is cut by rows and channels
// in pieces that do not depend on the number of threads, so neither do the results.
#include <cmath>
#include <cstring>

#include "aten/cpu/dense.h"
#include "aten/cpu/nn_loops.h"
#include "facula/kernels.h"

namespace facula::cpu {
namespace {

int64_t product(IntList sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return n;
}

double rstd_of(double variance, double eps) { return 1.0 / std::sqrt(std::max(variance, 0.0) + eps); }

// Partial sums of `n` columns over pieces of the rows, added in order of the pieces.
constexpr int64_t kPieces = 32;

template <typename T, typename F>
void sum_pieces(int64_t rows, int64_t n, T* a, T* b, const F& fn) {
  const int64_t pieces = std::min(kPieces, std::max<int64_t>(1, rows * n / 16384));
  const int64_t height = (rows + pieces - 1) / pieces;
  const TypedBuffer<T> partial(2 * pieces * n);
  parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      T* pa = partial.get() + 2 * p * n;
      std::fill(pa, pa + 2 * n, T(0));
      fn(p * height, std::min((p + 1) * height, rows), pa, pa + n);
    }
  });
  for (int64_t j = 0; j < n; ++j) {
    double sa = 0, sb = 0;
    for (int64_t p = 0; p < pieces; ++p) {
      sa += static_cast<double>(partial.get()[2 * p * n + j]);
      sb += static_cast<double>(partial.get()[(2 * p + 1) * n + j]);
    }
    if (a != nullptr) a[j] = static_cast<T>(sa);
    if (b != nullptr) b[j] = static_cast<T>(sb);
  }
}

ScalarType compute_of(const Tensor& input) { return compute_type(input.dtype()); }

}  // namespace

// ---- layer and RMS normalisation ----

void native_layer_norm(const Tensor& input, IntList normalized_shape, const Tensor& weight, const Tensor& bias,
                       double eps, bool rms, const Tensor& out, const Tensor& out_mean, const Tensor& out_rstd) {
  const int64_t n = product(normalized_shape), rows = out_rstd.numel();
  if (rows == 0) return;
  const ScalarType c = compute_of(input);
  const Tensor x = dense_as(input, c), w = dense_as(weight, c), b = dense_as(bias, c);
  into_dense(out, c, [&](const Tensor& y) {
    visit_compute(c, [&](auto type) {
      using T = typename decltype(type)::type;
      const NormLoops<T>& loops = norm_loops<T>();
      T* means = out_mean.data<T>();
      T* rstds = out_rstd.data<T>();
      parallel_for(0, rows, grain_for(n, 32768), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T* row = x.data<T>() + i * n;
          const double mean = rms ? 0.0 : loops.mean(n, row);
          const double rstd = rstd_of(loops.mean_square(n, row, mean), eps);
          if (!rms) means[i] = static_cast<T>(mean);
          rstds[i] = static_cast<T>(rstd);
          loops.normalize(n, row, static_cast<T>(mean), static_cast<T>(rstd), data_or_null<T>(w), data_or_null<T>(b),
                          y.data<T>() + i * n);
        }
      });
    });
  });
}

void layer_norm_backward(const Tensor& grad, const Tensor& input, IntList normalized_shape, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Tensor&, double, bool rms,
                         const std::vector<bool>& mask, const Tensor& grad_input, const Tensor& grad_weight,
                         const Tensor& grad_bias) {
  const int64_t n = product(normalized_shape), rows = rstd.numel();
  const ScalarType c = compute_of(input);
  const Tensor x = dense_as(input, c), dy = dense_as(grad, c), w = dense_as(weight, c);
  visit_compute(c, [&](auto type) {
    using T = typename decltype(type)::type;
    const NormLoops<T>& loops = norm_loops<T>();
    const T* rstds = rstd.data<T>();
    const T* means = rms ? nullptr : mean.data<T>();
    if (mask[0] && rows > 0 && n > 0) {
      into_dense(grad_input, c, [&](const Tensor& gi) {
        parallel_for(0, rows, grain_for(n, 32768), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T* row = x.data<T>() + i * n;
            const T* g = dy.data<T>() + i * n;
            const double m = rms ? 0.0 : static_cast<double>(means[i]), r = static_cast<double>(rstds[i]);
            const GradSums s = loops.grad_sums(n, g, row, m, data_or_null<T>(w));
            // rstd (g - mean(g) - xhat mean(g xhat)) as g a + x b + c
            const double factor = -r * r * r * s.scaled / static_cast<double>(n);
            const double shift = (rms ? 0.0 : -r * s.grad / static_cast<double>(n)) - factor * m;
            loops.backward(n, g, row, data_or_null<T>(w), static_cast<T>(r), static_cast<T>(factor),
                           static_cast<T>(shift), gi.data<T>() + i * n);
          }
        });
      });
    }
    if (!mask[1] && !mask[2]) return;
    const auto sums = [&](const Tensor& gw, const Tensor& gb) {
      sum_pieces<T>(rows, n, mask[1] ? gw.data<T>() : nullptr, mask[2] ? gb.data<T>() : nullptr,
                    [&](int64_t begin, int64_t end, T* pw, T* pb) {
                      for (int64_t i = begin; i < end; ++i) {
                        loops.weight_grads(n, dy.data<T>() + i * n, x.data<T>() + i * n, rms ? T(0) : means[i],
                                           rstds[i], mask[1] ? pw : nullptr, mask[2] ? pb : nullptr);
                      }
                    });
    };
    into_dense(grad_weight, c,
               [&](const Tensor& gw) { into_dense(grad_bias, c, [&](const Tensor& gb) { sums(gw, gb); }); });
  });
}

// ---- group normalisation: rows are groups, each of `channels` runs of `inner` ----

void native_group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps,
                       const Tensor& out, const Tensor& out_mean, const Tensor& out_rstd) {
  const int64_t rows = out_rstd.numel();
  if (out.numel() == 0) return;
  const int64_t channels = input.size(1) / num_groups, n = out.numel() / rows, inner = n / channels;
  const ScalarType c = compute_of(input);
  const Tensor x = dense_as(input, c), w = dense_as(weight, c), b = dense_as(bias, c);
  into_dense(out, c, [&](const Tensor& y) {
    visit_compute(c, [&](auto type) {
      using T = typename decltype(type)::type;
      const NormLoops<T>& loops = norm_loops<T>();
      parallel_for(0, rows, grain_for(n, 32768), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T* row = x.data<T>() + i * n;
          const double mean = loops.mean(n, row);
          const double rstd = rstd_of(loops.mean_square(n, row, mean), eps);
          out_mean.data<T>()[i] = static_cast<T>(mean);
          out_rstd.data<T>()[i] = static_cast<T>(rstd);
          const int64_t first = (i % num_groups) * channels;
          for (int64_t k = 0; k < channels; ++k) {
            const double scale = rstd * (w.defined() ? static_cast<double>(w.data<T>()[first + k]) : 1.0);
            const double shift = (b.defined() ? static_cast<double>(b.data<T>()[first + k]) : 0.0) - mean * scale;
            loops.affine(inner, row + k * inner, static_cast<T>(scale), static_cast<T>(shift),
                         y.data<T>() + i * n + k * inner);
          }
        }
      });
    });
  });
}

void group_norm_backward(const Tensor& grad, const Tensor& input, int64_t num_groups, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Tensor&, double, const std::vector<bool>& mask,
                         const Tensor& grad_input, const Tensor& grad_weight, const Tensor& grad_bias) {
  const int64_t rows = rstd.numel(), total = input.size(1);
  if (input.numel() == 0) {
    const ScalarType c = compute_of(input);
    const auto clear = [&](const Tensor& t) {
      into_dense(t, c, [&](const Tensor& d) { std::memset(d.raw(), 0, d.nbytes()); });
    };
    clear(grad_weight);
    clear(grad_bias);
    return;
  }
  const int64_t channels = total / num_groups, n = input.numel() / rows, inner = n / channels;
  const ScalarType c = compute_of(input);
  const Tensor x = dense_as(input, c), dy = dense_as(grad, c), w = dense_as(weight, c);
  visit_compute(c, [&](auto type) {
    using T = typename decltype(type)::type;
    const NormLoops<T>& loops = norm_loops<T>();
    // Per (sample, channel): sums of dy and dy (x - mean).
    const TypedBuffer<GradSums> sums(rows * channels);
    const auto run = [&](const Tensor& gi) {
      parallel_for(0, rows, grain_for(n, 32768), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T* row = x.data<T>() + i * n;
          const T* g = dy.data<T>() + i * n;
          const double m = static_cast<double>(mean.data<T>()[i]), r = static_cast<double>(rstd.data<T>()[i]);
          const int64_t first = (i % num_groups) * channels;
          const auto weight_of = [&](int64_t k) {
            return w.defined() ? static_cast<double>(w.data<T>()[first + k]) : 1.0;
          };
          GradSums all{0, 0};
          for (int64_t k = 0; k < channels; ++k) {
            GradSums& s = sums.get()[i * channels + k];
            s = loops.grad_sums(inner, g + k * inner, row + k * inner, m, nullptr);
            all.grad += s.grad * weight_of(k);
            all.scaled += s.scaled * weight_of(k);
          }
          if (!mask[0]) continue;
          const double factor = -r * r * r * all.scaled / static_cast<double>(n);
          const double shift = -r * all.grad / static_cast<double>(n) - factor * m;
          for (int64_t k = 0; k < channels; ++k) {
            loops.backward(inner, g + k * inner, row + k * inner, nullptr, static_cast<T>(r * weight_of(k)),
                           static_cast<T>(factor), static_cast<T>(shift), gi.data<T>() + i * n + k * inner);
          }
        }
      });
    };
    if (mask[0]) {
      into_dense(grad_input, c, run);
    } else {
      run(grad_input);
    }
    if (!mask[1] && !mask[2]) return;
    into_dense(grad_weight, c, [&](const Tensor& gw) {
      into_dense(grad_bias, c, [&](const Tensor& gb) {
        for (int64_t k = 0; k < total; ++k) {
          double sw = 0, sb = 0;
          for (int64_t s = 0; s < rows / num_groups; ++s) {
            const GradSums& part = sums.get()[s * total + k];
            sw += part.scaled * static_cast<double>(rstd.data<T>()[s * num_groups + k / channels]);
            sb += part.grad;
          }
          if (mask[1]) gw.data<T>()[k] = static_cast<T>(sw);
          if (mask[2]) gb.data<T>()[k] = static_cast<T>(sb);
        }
      });
    });
  });
}

// ---- batch normalisation: (outer, channels, inner) ----

namespace {

struct Planes {
  int64_t outer, channels, inner;
  // Channels are runs of `inner`, or neighbouring columns of one row each.
  bool columns() const { return inner < 8; }
  int64_t count() const { return outer * inner; }
};

Planes planes_of(const Tensor& x) {
  Planes p{x.size(0), x.size(1), 1};
  for (int64_t d = 2; d < x.dim(); ++d) p.inner *= x.size(d);
  return p;
}

// Folds sums per column of (outer, channels * inner) into sums per channel.
void fold(const Planes& p, const double* columns, double* channels) {
  for (int64_t c = 0; c < p.channels; ++c) {
    double s = 0;
    for (int64_t i = 0; i < p.inner; ++i) s += columns[c * p.inner + i];
    channels[c] = s;
  }
}
// And values per channel out to columns.
template <typename T>
void spread(const Planes& p, const double* channels, T* columns) {
  for (int64_t c = 0; c < p.channels; ++c) {
    for (int64_t i = 0; i < p.inner; ++i) columns[c * p.inner + i] = static_cast<T>(channels[c]);
  }
}

template <typename T>
void moments(const Planes& p, const T* x, double* mean, double* variance) {
  const NormLoops<T>& loops = norm_loops<T>();
  const double count = static_cast<double>(p.count());
  if (!p.columns()) {
    parallel_for(0, p.channels, grain_for(p.count(), 32768), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        double m = 0, v = 0;
        for (int64_t i = 0; i < p.outer; ++i) m += loops.mean(p.inner, x + (i * p.channels + c) * p.inner);
        m /= static_cast<double>(p.outer);
        for (int64_t i = 0; i < p.outer; ++i) v += loops.mean_square(p.inner, x + (i * p.channels + c) * p.inner, m);
        mean[c] = m;
        variance[c] = v / static_cast<double>(p.outer);
      }
    });
    return;
  }
  const int64_t n = p.channels * p.inner;
  const TypedBuffer<double> sums(2 * n);
  double* s = sums.get();
  double* center = s + n;
  const auto over_columns = [&](const auto& fn) {
    std::fill(s, s + n, 0.0);
    parallel_for(0, (n + 63) / 64, grain_for(64 * p.outer, 49152), [&](int64_t begin, int64_t end) {
      const int64_t from = begin * 64, to = std::min(end * 64, n);
      fn(from, to - from);
    });
  };
  over_columns([&](int64_t at, int64_t width) { loops.column_sums(p.outer, width, n, x + at, s + at); });
  fold(p, s, mean);
  for (int64_t c = 0; c < p.channels; ++c) mean[c] /= count;
  spread(p, mean, center);
  over_columns(
      [&](int64_t at, int64_t width) { loops.column_squares(p.outer, width, n, x + at, center + at, s + at); });
  fold(p, s, variance);
  for (int64_t c = 0; c < p.channels; ++c) variance[c] /= count;
}

// fn(offset, length, channel) over runs, or fn(offset, length, -1) over whole rows.
template <typename F>
void for_runs(const Planes& p, const F& fn) {
  const int64_t rows = p.columns() ? p.outer : p.outer * p.channels;
  const int64_t n = p.columns() ? p.channels * p.inner : p.inner;
  parallel_for(0, rows, grain_for(n, 49152), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(i * n, n, p.columns() ? -1 : i % p.channels);
  });
}

}  // namespace

void native_batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                       const Tensor& var, bool training, double eps, const Tensor& out, const Tensor& out_mean,
                       const Tensor& out_var) {
  const Planes p = planes_of(input);
  const ScalarType c = compute_of(input);
  const Tensor x = dense_as(input, c), w = dense_as(weight, c), b = dense_as(bias, c);
  const Tensor m = training ? Tensor() : dense_as(mean, c), v = training ? Tensor() : dense_as(var, c);
  const TypedBuffer<double> values(4 * p.channels);
  double *means = values.get(), *vars = means + p.channels, *scale = vars + p.channels, *shift = scale + p.channels;
  into_dense(out, c, [&](const Tensor& y) {
    visit_compute(c, [&](auto type) {
      using T = typename decltype(type)::type;
      const NormLoops<T>& loops = norm_loops<T>();
      if (m.defined()) {
        for (int64_t k = 0; k < p.channels; ++k) {
          means[k] = static_cast<double>(m.data<T>()[k]);
          vars[k] = static_cast<double>(v.data<T>()[k]);
        }
      } else {
        moments(p, x.data<T>(), means, vars);
      }
      for (int64_t k = 0; k < p.channels; ++k) {
        const double rstd = training ? rstd_of(vars[k], eps) : 1.0 / std::sqrt(vars[k] + eps);
        out_mean.data<T>()[k] = static_cast<T>(means[k]);
        out_var.data<T>()[k] = static_cast<T>(vars[k]);
        scale[k] = rstd * (w.defined() ? static_cast<double>(w.data<T>()[k]) : 1.0);
        shift[k] = (b.defined() ? static_cast<double>(b.data<T>()[k]) : 0.0) - means[k] * scale[k];
      }
      if (y.numel() == 0) return;
      const TypedBuffer<T> columns(p.columns() ? 2 * p.channels * p.inner : 0);
      T *scales = columns.get(), *shifts = scales + (p.columns() ? p.channels * p.inner : 0);
      if (p.columns()) {
        spread(p, scale, scales);
        spread(p, shift, shifts);
      }
      for_runs(p, [&](int64_t at, int64_t n, int64_t k) {
        if (k < 0) {
          loops.column_affine(n, x.data<T>() + at, scales, shifts, y.data<T>() + at);
        } else {
          loops.affine(n, x.data<T>() + at, static_cast<T>(scale[k]), static_cast<T>(shift[k]), y.data<T>() + at);
        }
      });
    });
  });
}

void batch_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor&,
                         const Tensor& mean, const Tensor& var, bool training, double eps,
                         const std::vector<bool>& mask, const Tensor& grad_input, const Tensor& grad_weight,
                         const Tensor& grad_bias) {
  const Planes p = planes_of(input);
  const ScalarType c = compute_of(input);
  const Tensor x = dense_as(input, c), dy = dense_as(grad, c), w = dense_as(weight, c);
  visit_compute(c, [&](auto type) {
    using T = typename decltype(type)::type;
    const NormLoops<T>& loops = norm_loops<T>();
    const TypedBuffer<double> values(6 * p.channels);
    double* means = values.get();
    double *s1 = means + p.channels, *s2 = s1 + p.channels, *fa = s2 + p.channels, *fb = fa + p.channels,
           *fc = fb + p.channels;
    for (int64_t k = 0; k < p.channels; ++k) means[k] = static_cast<double>(mean.data<T>()[k]);
    if (!p.columns()) {
      parallel_for(0, p.channels, grain_for(p.count(), 32768), [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          GradSums all{0, 0};
          for (int64_t i = 0; i < p.outer; ++i) {
            const int64_t at = (i * p.channels + k) * p.inner;
            const GradSums s = loops.grad_sums(p.inner, dy.data<T>() + at, x.data<T>() + at, means[k], nullptr);
            all.grad += s.grad;
            all.scaled += s.scaled;
          }
          s1[k] = all.grad;
          s2[k] = all.scaled;
        }
      });
    } else {
      const int64_t n = p.channels * p.inner;
      const TypedBuffer<double> columns(3 * n);
      double *center = columns.get(), *c1 = center + n, *c2 = c1 + n;
      spread(p, means, center);
      std::fill(c1, c1 + 2 * n, 0.0);
      parallel_for(0, (n + 63) / 64, grain_for(64 * p.outer, 49152), [&](int64_t begin, int64_t end) {
        const int64_t at = begin * 64, width = std::min(end * 64, n) - at;
        loops.column_grads(p.outer, width, n, dy.data<T>() + at, x.data<T>() + at, center + at, c1 + at, c2 + at);
      });
      fold(p, c1, s1);
      fold(p, c2, s2);
    }
    const double count = static_cast<double>(p.count());
    for (int64_t k = 0; k < p.channels; ++k) {
      const double r = 1.0 / std::sqrt(static_cast<double>(var.data<T>()[k]) + eps);
      const double scale = r * (w.defined() ? static_cast<double>(w.data<T>()[k]) : 1.0);
      fa[k] = scale;
      fb[k] = training ? -scale * r * r * s2[k] / count : 0.0;
      fc[k] = training ? -scale * s1[k] / count - fb[k] * means[k] : 0.0;
      s2[k] = count > 0 ? s2[k] * r : 0.0;
    }
    const auto store = [&](const Tensor& t, const double* from) {
      into_dense(t, c, [&](const Tensor& d) {
        for (int64_t k = 0; k < p.channels; ++k) d.data<T>()[k] = static_cast<T>(from[k]);
      });
    };
    if (mask[1]) store(grad_weight, s2);
    if (mask[2]) store(grad_bias, s1);
    if (!mask[0] || grad_input.numel() == 0) return;
    into_dense(grad_input, c, [&](const Tensor& gi) {
      const int64_t width = p.columns() ? p.channels * p.inner : 0;
      const TypedBuffer<T> columns(3 * width);
      T *ca = columns.get(), *cb = ca + width, *cc = cb + width;
      if (p.columns()) {
        spread(p, fa, ca);
        spread(p, fb, cb);
        spread(p, fc, cc);
      }
      for_runs(p, [&](int64_t at, int64_t n, int64_t k) {
        if (k < 0) {
          loops.column_backward(n, dy.data<T>() + at, x.data<T>() + at, ca, cb, cc, gi.data<T>() + at);
        } else {
          loops.backward(n, dy.data<T>() + at, x.data<T>() + at, nullptr, static_cast<T>(fa[k]), static_cast<T>(fb[k]),
                         static_cast<T>(fc[k]), gi.data<T>() + at);
        }
      });
    });
  });
}

}  // namespace facula::cpu
