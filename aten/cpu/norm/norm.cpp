// Layer, RMS, group and batch normalisation and their gradients. Work is cut by rows and channels
// in pieces that do not depend on the number of threads, so neither do the results.
#include <cmath>
#include <cstring>

#include "aten/cpu/common/dense.h"
#include "aten/cpu/common/step_sums.h"
#include "aten/cpu/norm/rows.h"
#include "facula/kernels.h"
#include "runtime/core/rounding.h"
#include "runtime/iterate/stream.h"

namespace facula::cpu {
namespace {

int64_t product(IntList sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return n;
}

// Work on `rows` rows in pieces, fn(first row, end, a, b), each of which adds to `n` columns a and b of its own; they
// are added in order of the pieces.
constexpr int64_t kPieces = 32;

template <typename T, typename F>
void sum_pieces(int64_t rows, int64_t n, T* a, T* b, const F& fn) {
  const int64_t pieces = std::min(kPieces, std::max<int64_t>(1, rows * n / 16384));
  const int64_t height = ceil_div(rows, pieces);
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

// Whether a result is written by streaming stores.
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
        NormRows<T> statistics(n, rms, eps);
        for (int64_t i = begin; i < end; ++i) {
          const T* row = x.data<T>() + i * n;
          const RowStatistics<T> of = statistics.of(row, nullptr);
          if (!rms) means[i] = static_cast<T>(of.row_mean());
          rstds[i] = static_cast<T>(of.row_rstd());
          // Without a mean -0 stays -0.
          loops.normalize(n, of.x, of.center(), static_cast<T>(of.rstd), rms ? T(-0.0) : of.shift(), data_or_null<T>(w),
                          data_or_null<T>(b), y.data<T>() + i * n, row + n, stream);
        }
        if (stream) stream_done();
      });
    });
  });
}

void layer_norm_backward(const Tensor& grad, const Tensor& input, IntList normalized_shape, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Tensor& bias, double eps, bool rms,
                         const std::vector<bool>& mask, const Tensor& grad_input, const Tensor& grad_weight,
                         const Tensor& grad_bias) {
  const bool wants_weight = mask[1] && weight.defined(), wants_bias = mask[2] && bias.defined();
  const int64_t n = product(normalized_shape), rows = rstd.numel();
  const ScalarType c = compute_of(input);
  const Tensor x = dense_as(input, c), dy = dense_as(grad, c), w = dense_as(weight, c);
  const Tensor kept_mean = rms ? mean : dense_as(mean, c), kept_rstd = dense_as(rstd, c);
  visit_compute(c, [&](auto type) {
    using T = typename decltype(type)::type;
    const NormLoops<T>& loops = norm_loops<T>();
    const T* rstds = kept_rstd.data<T>();
    const T* means = rms ? nullptr : kept_mean.data<T>();
    const bool wants_input = mask[0] && rows > 0 && n > 0;
    const bool stream = wants_input && streams(grad_input, x);
    const auto known = [&](NormRows<T>& statistics, int64_t i) {
      return statistics.known(x.data<T>() + i * n, rms ? T(0) : means[i], rstds[i]);
    };
    const auto input_row = [&](int64_t i, const RowStatistics<T>& of, T* gi) {
      const T *g = dy.data<T>() + i * n, c = of.center();
      const GradSums s = loops.grad_sums(n, g, of.x, c, data_or_null<T>(w));
      // rstd (g - mean(g) - xhat mean(g xhat)) as g a + (x - c) b + shift
      const double r = of.row_rstd(), count = static_cast<double>(n);
      const double factor = -r * (of.rstd * of.rstd * (s.scaled + of.missed() * s.grad) / count);
      const double shift = (rms ? 0.0 : -r * s.grad / count) + factor * of.missed();
      loops.backward(n, g, of.x, data_or_null<T>(w), static_cast<T>(r), c, static_cast<T>(factor),
                     static_cast<T>(shift), gi + i * n, of.exponent == 0 ? n : 0, stream);
    };
    const auto run = [&](T* gi) {
      if (!wants_weight && !wants_bias) {
        parallel_for(0, rows, grain_for(n, 32768), [&](int64_t begin, int64_t end) {
          NormRows<T> statistics(n, rms, eps);
          for (int64_t i = begin; i < end; ++i) input_row(i, known(statistics, i), gi);
          if (stream) stream_done();
        });
        return;
      }
      // A few rows at a time serve both sums while they are in the cache.
      constexpr int64_t kStrip = 256;
      const int64_t strip = std::clamp<int64_t>(8192 / std::max<int64_t>(n, 1) * 4, 4, kStrip);
      into_dense({grad_weight, grad_bias}, c, [&](const Tensor& gw, const Tensor& gb) {
        sum_pieces<T>(rows, n, wants_weight ? gw.data<T>() : nullptr, wants_bias ? gb.data<T>() : nullptr,
                      [&](int64_t begin, int64_t end, T* pw, T* pb) {
                        NormRows<T> statistics(n, rms, eps);
                        T numbers[3 * kStrip];
                        StepSums<T> sums(pw, 2, n, pb - pw);
                        T *centers = numbers, *scales = centers + kStrip, *shifts = scales + kStrip;
                        for (int64_t first = begin; first < end;) {
                          int64_t rows_now = 0, last = std::min(first + strip, end);
                          const T* row = x.data<T>() + first * n;
                          for (int64_t i = first; i < last; ++i, ++rows_now) {
                            const RowStatistics<T> of = known(statistics, i);
                            // The copy of a scaled row is used at once.
                            if (of.exponent != 0 && rows_now > 0) break;
                            if (gi != nullptr) input_row(i, of, gi);
                            centers[rows_now] = of.center();
                            scales[rows_now] = static_cast<T>(of.rstd);
                            shifts[rows_now] = rms ? T(0) : of.shift();
                            if (of.exponent != 0) row = of.x, last = i + 1;
                          }
                          sums.step(ceil_div(rows_now, int64_t{4}));
                          loops.weight_grads(rows_now, n, dy.data<T>() + first * n, row, centers, scales, shifts, pw,
                                             pb);
                          first += rows_now;
                        }
                        sums.finish();
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
        NormRows<T> statistics(n, false, eps);
        for (int64_t i = begin; i < end; ++i) {
          const T* row = x.data<T>() + i * n;
          const RowStatistics<T> of = statistics.of(row, row + n);
          out_mean.data<T>()[i] = static_cast<T>(of.row_mean());
          out_rstd.data<T>()[i] = static_cast<T>(of.row_rstd());
          const int64_t first = (i % num_groups) * channels;
          for (int64_t k = 0; k < channels; ++k) {
            const double factor = w.defined() ? static_cast<double>(w.data<T>()[first + k]) : 1.0;
            const double scale = of.rstd * factor;
            const double bias = b.defined() ? static_cast<double>(b.data<T>()[first + k]) : 0.0;
            if (!is_factor<T>(scale)) {  // one factor after the other
              for (int64_t j = k * inner; j < (k + 1) * inner; ++j) {
                const double centered = static_cast<double>(of.x[j] - of.center()) + of.missed();
                y.data<T>()[i * n + j] = static_cast<T>(centered * of.rstd * factor + bias);
              }
              continue;
            }
            loops.affine(inner, of.x + k * inner, of.center(), static_cast<T>(scale),
                         static_cast<T>(bias + of.missed() * scale), y.data<T>() + i * n + k * inner, stream);
          }
        }
        if (stream) stream_done();
      });
    });
  });
}

void group_norm_backward(const Tensor& grad, const Tensor& input, int64_t num_groups, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Tensor& bias, double eps,
                         const std::vector<bool>& mask, const Tensor& grad_input, const Tensor& grad_weight,
                         const Tensor& grad_bias) {
  const bool wants_weight = mask[1] && weight.defined(), wants_bias = mask[2] && bias.defined();
  const int64_t rows = rstd.numel(), total = input.size(1);
  if (input.numel() == 0) {
    const ScalarType c = compute_of(input);
    const auto clear = [&](const Tensor& t) {
      into_dense(t, c, [&](const Tensor& d) {
        if (d.nbytes() > 0) std::memset(d.raw(), 0, d.nbytes());
      });
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
    // Per (sample, channel): sums of dy, and of dy times the normalised x.
    const TypedBuffer<GradSums> sums(rows * channels);
    const auto run = [&](const Tensor& gi) {
      const bool stream = mask[0] && streams(gi, x);
      parallel_for(0, rows, grain_for(n, 32768), [&](int64_t begin, int64_t end) {
        NormRows<T> statistics(n, false, eps);
        for (int64_t i = begin; i < end; ++i) {
          const T* g = dy.data<T>() + i * n;
          const RowStatistics<T> of = statistics.known(x.data<T>() + i * n, centers.data<T>()[i], scales.data<T>()[i]);
          const double r = of.row_rstd();
          const int64_t first = (i % num_groups) * channels;
          const auto weight_of = [&](int64_t k) {
            return w.defined() ? static_cast<double>(w.data<T>()[first + k]) : 1.0;
          };
          GradSums all{0, 0};
          for (int64_t k = 0; k < channels; ++k) {
            GradSums& s = sums.get()[i * channels + k];
            s = loops.grad_sums(inner, g + k * inner, of.x + k * inner, of.center(), nullptr);
            s.scaled = (s.scaled + of.missed() * s.grad) * of.rstd;
            all.grad += s.grad * weight_of(k);
            all.scaled += s.scaled * weight_of(k);
          }
          if (!mask[0]) continue;
          const double factor = -r * (of.rstd * all.scaled / static_cast<double>(n));
          const double shift = -r * all.grad / static_cast<double>(n) + factor * of.missed();
          for (int64_t k = 0; k < channels; ++k) {
            loops.backward(inner, g + k * inner, of.x + k * inner, nullptr, static_cast<T>(r * weight_of(k)),
                           of.center(), static_cast<T>(factor), static_cast<T>(shift), gi.data<T>() + i * n + k * inner,
                           of.exponent == 0 ? n : 0, stream);
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
          sw += part.scaled;
          sb += part.grad;
        }
        if (wants_weight) gw.data<T>()[k] = static_cast<T>(sw);
        if (wants_bias) gb.data<T>()[k] = static_cast<T>(sb);
      }
    });
  });
}

}  // namespace facula::cpu
