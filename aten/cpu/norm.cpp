// Layer, RMS, group and batch normalisation and their gradients. Work is cut by rows and channels
// in pieces that do not depend on the number of threads, so neither do the results.
#include <cmath>
#include <cstring>

#include "aten/cpu/dense.h"
#include "aten/cpu/nn_loops.h"
#include "facula/kernels.h"
#include "runtime/iterate/stream.h"

namespace facula::cpu {
namespace {

int64_t product(IntList sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return n;
}

double rstd_of(double variance, double eps) { return 1.0 / std::sqrt(std::max(variance, 0.0) + eps); }

// Work on `rows` rows in pieces, fn(first row, end, a, b), each of which adds to `n` columns a and b of its own; they
// are added in order of the pieces.
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
      fn(std::min(p * height, rows), std::min((p + 1) * height, rows), pa, pa + n);
    }
  });
  const TypedBuffer<double> total(2 * n);
  std::fill(total.get(), total.get() + 2 * n, 0.0);
  for (int64_t p = 0; p < pieces; ++p) {
    for (int64_t j = 0; j < 2 * n; ++j) total.get()[j] += static_cast<double>(partial.get()[2 * p * n + j]);
  }
  for (int64_t j = 0; j < n; ++j) {
    if (a != nullptr) a[j] = static_cast<T>(total.get()[j]);
    if (b != nullptr) b[j] = static_cast<T>(total.get()[n + j]);
  }
}

// Whether a result is written past the cache.
bool streams(const Tensor& out, const Tensor& in) {
  return static_cast<int64_t>(out.nbytes()) >= kStreamBytes && out.raw() != in.raw();
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
      const bool stream = streams(y, x);
      T* means = out_mean.data<T>();
      T* rstds = out_rstd.data<T>();
      parallel_for(0, rows, grain_for(n, 32768), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T* row = x.data<T>() + i * n;
          const Moments of = rms ? Moments{0, loops.sum_squares(n, row)} : loops.moments(n, row, nullptr);
          const double mean = of.mean, rstd = rstd_of(of.squares / static_cast<double>(n), eps);
          if (!rms) means[i] = static_cast<T>(mean);
          rstds[i] = static_cast<T>(rstd);
          loops.normalize(n, row, static_cast<T>(mean), static_cast<T>(rstd), data_or_null<T>(w), data_or_null<T>(b),
                          y.data<T>() + i * n, row + n, stream);
        }
        if (stream) stream_done();
      });
    });
  });
}

void layer_norm_backward(const Tensor& grad, const Tensor& input, IntList normalized_shape, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Tensor& bias, double, bool rms,
                         const std::vector<bool>& mask, const Tensor& grad_input, const Tensor& grad_weight,
                         const Tensor& grad_bias) {
  const bool wants_weight = mask[1] && weight.defined(), wants_bias = mask[2] && bias.defined();
  const int64_t n = product(normalized_shape), rows = rstd.numel();
  const ScalarType c = compute_of(input);
  const Tensor x = dense_as(input, c), dy = dense_as(grad, c), w = dense_as(weight, c);
  const Tensor centers = rms ? mean : dense_as(mean, c), scales = dense_as(rstd, c);
  visit_compute(c, [&](auto type) {
    using T = typename decltype(type)::type;
    const NormLoops<T>& loops = norm_loops<T>();
    const T* rstds = scales.data<T>();
    const T* means = rms ? nullptr : centers.data<T>();
    const bool wants_input = mask[0] && rows > 0 && n > 0;
    const bool stream = wants_input && streams(grad_input, x);
    const auto input_row = [&](int64_t i, T* gi) {
      const T *row = x.data<T>() + i * n, *g = dy.data<T>() + i * n;
      const double m = rms ? 0.0 : static_cast<double>(means[i]), r = static_cast<double>(rstds[i]);
      const GradSums s = loops.grad_sums(n, g, row, m, data_or_null<T>(w));
      // rstd (g - mean(g) - xhat mean(g xhat)) as g a + x b + c
      const double factor = -r * r * r * s.scaled / static_cast<double>(n);
      const double shift = (rms ? 0.0 : -r * s.grad / static_cast<double>(n)) - factor * m;
      loops.backward(n, g, row, data_or_null<T>(w), static_cast<T>(r), static_cast<T>(factor), static_cast<T>(shift),
                     gi + i * n, n, stream);
    };
    const auto run = [&](T* gi) {
      if (!wants_weight && !wants_bias) {
        parallel_for(0, rows, grain_for(n, 32768), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) input_row(i, gi);
          if (stream) stream_done();
        });
        return;
      }
      // A few rows at a time serve both sums while they are in the cache.
      const int64_t strip = std::clamp<int64_t>(8192 / std::max<int64_t>(n, 1) * 4, 4, 256);
      into_dense({grad_weight, grad_bias}, c, [&](const Tensor& gw, const Tensor& gb) {
        sum_pieces<T>(rows, n, wants_weight ? gw.data<T>() : nullptr, wants_bias ? gb.data<T>() : nullptr,
                      [&](int64_t begin, int64_t end, T* pw, T* pb) {
                        for (int64_t first = begin; first < end; first += strip) {
                          const int64_t last = std::min(first + strip, end);
                          for (int64_t i = first; i < last && gi != nullptr; ++i) input_row(i, gi);
                          loops.weight_grads(last - first, n, dy.data<T>() + first * n, x.data<T>() + first * n,
                                             rms ? nullptr : means + first, rstds + first, pw, pb);
                        }
                        if (stream) stream_done();
                      });
      });
    };
    if (wants_input) {
      into_dense(grad_input, c, [&](const Tensor& gi) { run(gi.data<T>()); });
    } else if (wants_weight || wants_bias) {
      run(nullptr);
    }
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
      const bool stream = streams(y, x);
      parallel_for(0, rows, grain_for(n, 32768), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T* row = x.data<T>() + i * n;
          const Moments of = loops.moments(n, row, row + n);
          const double mean = of.mean, rstd = rstd_of(of.squares / static_cast<double>(n), eps);
          out_mean.data<T>()[i] = static_cast<T>(mean);
          out_rstd.data<T>()[i] = static_cast<T>(rstd);
          const int64_t first = (i % num_groups) * channels;
          for (int64_t k = 0; k < channels; ++k) {
            const double scale = rstd * (w.defined() ? static_cast<double>(w.data<T>()[first + k]) : 1.0);
            const double shift = (b.defined() ? static_cast<double>(b.data<T>()[first + k]) : 0.0) - mean * scale;
            loops.affine(inner, row + k * inner, static_cast<T>(scale), static_cast<T>(shift),
                         y.data<T>() + i * n + k * inner, stream);
          }
        }
        if (stream) stream_done();
      });
    });
  });
}

void group_norm_backward(const Tensor& grad, const Tensor& input, int64_t num_groups, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Tensor& bias, double,
                         const std::vector<bool>& mask, const Tensor& grad_input, const Tensor& grad_weight,
                         const Tensor& grad_bias) {
  const bool wants_weight = mask[1] && weight.defined(), wants_bias = mask[2] && bias.defined();
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
  const Tensor centers = dense_as(mean, c), scales = dense_as(rstd, c);
  visit_compute(c, [&](auto type) {
    using T = typename decltype(type)::type;
    const NormLoops<T>& loops = norm_loops<T>();
    // Per (sample, channel): sums of dy and dy (x - mean).
    const TypedBuffer<GradSums> sums(rows * channels);
    const auto run = [&](const Tensor& gi) {
      const bool stream = mask[0] && streams(gi, x);
      parallel_for(0, rows, grain_for(n, 32768), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T* row = x.data<T>() + i * n;
          const T* g = dy.data<T>() + i * n;
          const double m = static_cast<double>(centers.data<T>()[i]), r = static_cast<double>(scales.data<T>()[i]);
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
                           static_cast<T>(factor), static_cast<T>(shift), gi.data<T>() + i * n + k * inner, n, stream);
          }
        }
        if (stream) stream_done();
      });
    };
    if (mask[0]) {
      into_dense(grad_input, c, run);
    } else {
      run(grad_input);
    }
    if (!wants_weight && !wants_bias) return;
    into_dense({grad_weight, grad_bias}, c, [&](const Tensor& gw, const Tensor& gb) {
      for (int64_t k = 0; k < total; ++k) {
        double sw = 0, sb = 0;
        for (int64_t s = 0; s < rows / num_groups; ++s) {
          const GradSums& part = sums.get()[s * total + k];
          sw += part.scaled * static_cast<double>(scales.data<T>()[s * num_groups + k / channels]);
          sb += part.grad;
        }
        if (wants_weight) gw.data<T>()[k] = static_cast<T>(sw);
        if (wants_bias) gb.data<T>()[k] = static_cast<T>(sb);
      }
    });
  });
}

}  // namespace facula::cpu
