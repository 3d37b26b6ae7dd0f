// Batch normalisation and its gradients. Sums are taken by channel, or in pieces of the rows that do
// not depend on the number of threads; neither do the results.
#include <atomic>
#include <cmath>

#include "aten/cpu/common/images.h"
#include "aten/cpu/norm/rows.h"
#include "facula/kernels.h"
#include "runtime/iterate/stream.h"

namespace facula::cpu {
namespace {

// (outer, channels, inner)
struct Planes {
  int64_t outer, channels, inner;
  // Channels are runs of `inner`, or neighbouring columns of one row each.
  bool columns() const { return inner < 8; }
  int64_t width() const { return channels * inner; }
  int64_t count() const { return outer * inner; }
};

Planes planes_of(const Tensor& x, bool last) {
  Planes p{x.size(0), x.size(1), 1};
  for (int64_t d = 2; d < x.dim(); ++d) (last ? p.outer : p.inner) *= x.size(d);
  return p;
}

// Whether a channel is finished while its values are still in the cache; only where there are
// enough channels for all threads.
bool at_once(const Planes& p) { return !p.columns() && p.channels >= 2 * get_num_threads(); }

// Rows in pieces: fn(piece, first row, rows).
int64_t pieces_of(const Planes& p) { return std::clamp<int64_t>(p.outer * p.width() / 16384, 1, 32); }
template <typename F>
void for_pieces(const Planes& p, const F& fn) {
  const int64_t pieces = pieces_of(p);
  parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * p.outer / pieces;
      fn(i, first, (i + 1) * p.outer / pieces - first);
    }
  });
}

// Values per channel out to columns.
template <typename T>
void spread(const Planes& p, const double* channels, T* columns) {
  for (int64_t c = 0; c < p.channels; ++c) {
    for (int64_t i = 0; i < p.inner; ++i) columns[c * p.inner + i] = static_cast<T>(channels[c]);
  }
}

// Mean and squares about it of values that were taken in parts (Chan, Golub & LeVeque 1983). Means are kept less the
// first one, beside which their differences may be small.
struct AllMoments {
  double count = 0, first = 0, off = 0, squares = 0;
  double mean() const { return first + off; }
  void add(double n, double m, double s) {
    if (n == 0) return;
    if (count == 0) first = m;
    const double total = count + n, d = m - first - off;
    off += d * (n / total);
    squares += s + d * d * (count * (n / total));
    count = total;
  }
};

template <typename T>
void channel_moments(const Planes& p, const T* x, int64_t c, double* mean, double* variance) {
  const NormLoops<T>& loops = norm_loops<T>();
  const double n = static_cast<double>(p.inner);
  AllMoments all;
  for (int64_t i = 0; i < p.outer; ++i) {
    const T* plane = x + (i * p.channels + c) * p.inner;
    const Moments of = loops.moments(p.inner, plane, plane + p.channels * p.inner);
    all.add(n, of.mean, of.squares);
  }
  mean[c] = all.mean();
  variance[c] = all.squares / all.count;
}

template <typename T>
void column_moments(const Planes& p, const T* x, double* mean, double* variance) {
  const int64_t n = p.width(), pieces = pieces_of(p);
  const TypedBuffer<double> parts(2 * pieces * n);
  for_pieces(p, [&](int64_t i, int64_t first, int64_t rows) {
    norm_loops<T>().column_moments(rows, n, x + first * n, parts.get() + 2 * i * n, parts.get() + (2 * i + 1) * n);
  });
  for (int64_t c = 0; c < p.channels; ++c) {
    AllMoments all;
    for (int64_t k = c * p.inner; k < (c + 1) * p.inner; ++k) {
      for (int64_t i = 0; i < pieces; ++i) {
        const double rows = static_cast<double>((i + 1) * p.outer / pieces - i * p.outer / pieces);
        all.add(rows, parts.get()[2 * i * n + k], parts.get()[(2 * i + 1) * n + k]);
      }
    }
    mean[c] = all.mean();
    variance[c] = all.squares / all.count;
  }
}

// The runs of one channel, from either layout: fn(offset), each of `inner` values.
template <typename F>
void each_run(const Planes& p, int64_t c, const F& fn) {
  for (int64_t i = 0; i < p.outer; ++i) fn((i * p.channels + c) * p.inner);
}

// A channel beyond what T's squares can hold, in double and scaled by a power of two: x 2^-exponent has this mean and
// rstd. Slow, and seldom needed.
struct FarChannel {
  int exponent = 0;
  double mean = 0, rstd = 0, variance = 0;  // the variance is that of x
  bool found = false;

  template <typename T>
  double normal(T x) const {
    return (std::ldexp(static_cast<double>(x), -exponent) - mean) * rstd;
  }
};

template <typename T>
FarChannel far_channel(const Planes& p, const T* x, int64_t c, double eps) {
  FarChannel far;
  double top = 0;
  bool finite = true;
  each_run(p, c, [&](int64_t at) {
    for (int64_t i = at; i < at + p.inner; ++i) {
      const double size = std::fabs(static_cast<double>(x[i]));
      finite = finite && size <= std::numeric_limits<double>::max();
      top = size > top ? size : top;
    }
  });
  far.found = finite && top > 0;
  if (!far.found) return far;
  far.exponent = std::ilogb(top) + 1;
  const double n = static_cast<double>(p.count());
  double sum = 0, off = 0, squares = 0;
  const auto each = [&](const auto& fn) {
    each_run(p, c, [&](int64_t at) {
      for (int64_t i = at; i < at + p.inner; ++i) fn(std::ldexp(static_cast<double>(x[i]), -far.exponent));
    });
  };
  each([&](double v) { sum += v; });
  const double center = sum / n;
  each([&](double v) {
    off += v - center;
    squares += (v - center) * (v - center);
  });
  far.mean = center + off / n;
  const double variance = std::max(0.0, (squares - off * off / n) / n);
  far.variance = std::ldexp(variance, 2 * far.exponent);
  far.rstd = 1 / std::sqrt(variance + std::ldexp(eps, -2 * far.exponent));
  return far;
}

// Of a channel with given statistics.
FarChannel given_channel(double mean, double variance, double eps) {
  const double r = 1 / std::sqrt(variance + eps);
  FarChannel far{0, mean, r, variance, std::isfinite(r) && r > 0};
  if (far.found) {
    far.exponent = -std::ilogb(r);
    far.mean = std::ldexp(mean, -far.exponent);
    far.rstd = std::ldexp(r, far.exponent);
  }
  return far;
}

// Of a channel that is normalised in T about its mean.
template <typename T>
double lost_of_channel(const Planes& p, const T* x, int64_t c, double mean, double variance) {
  if constexpr (std::is_same_v<T, float>) return 0;
  return lost_of_mean(mean, 1 / std::sqrt(variance), p.count(), [&](const auto& fn) {
    each_run(p, c, [&](int64_t at) {
      for (int64_t i = at; i < at + p.inner; ++i) fn(static_cast<double>(x[i]));
    });
  });
}

// fn(c) by channel.
template <typename F>
void for_channels(const Planes& p, const F& fn) {
  parallel_for(0, p.channels, grain_for(p.count(), 32768), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) fn(c);
    stream_done();
  });
}

// fn(offset, length, channel) over all runs.
template <typename F>
void for_runs(const Planes& p, const F& fn) {
  parallel_for(0, p.outer * p.channels, grain_for(p.inner, 49152), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(i * p.inner, i % p.channels);
    stream_done();
  });
}

}  // namespace

void native_batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                       const Tensor& var, bool training, double eps, const Tensor& out, const Tensor& out_mean,
                       const Tensor& out_var) {
  const ScalarType c = compute_type(input.dtype());
  const bool last = is_channels_last(input) && input.dtype() == c;
  const Planes p = planes_of(input, last);
  const Tensor x = in_format(input, c, last), w = dense_as(weight, c), b = dense_as(bias, c);
  const Tensor m = training ? Tensor() : dense_as(mean, c), v = training ? Tensor() : dense_as(var, c);
  const TypedBuffer<double> values(5 * p.channels);
  double *means = values.get(), *vars = means + p.channels, *scale = vars + p.channels, *shift = scale + p.channels,
         *center = shift + p.channels;
  into_format(out, c, last, [&](const Tensor& y) {
    visit_compute(c, [&](auto type) {
      using T = typename decltype(type)::type;
      const NormLoops<T>& loops = norm_loops<T>();
      const T* from = x.data<T>();
      T* to = y.data<T>();
      const bool stream = static_cast<int64_t>(y.nbytes()) >= kStreamBytes && to != from;
      std::atomic<bool> far{false};
      const auto weight_of = [&](int64_t k) { return w.defined() ? static_cast<double>(w.data<T>()[k]) : 1.0; };
      const auto bias_of = [&](int64_t k) { return b.defined() ? static_cast<double>(b.data<T>()[k]) : 0.0; };
      // Neither the variance nor what x is multiplied by leaves the range, nor does x less the mean.
      constexpr double near = double{std::numeric_limits<T>::max()} * double{std::numeric_limits<T>::epsilon()} / 4;
      const auto plain = [&](int64_t k) {
        return is_ordinary<T>(vars[k] + eps) && is_factor<T>(scale[k]) && std::fabs(means[k]) <= near;
      };
      const auto finish = [&](int64_t k) {
        const double rstd = 1.0 / std::sqrt((training ? std::max(vars[k], 0.0) : vars[k]) + eps);
        out_mean.data<T>()[k] = static_cast<T>(means[k]);
        out_var.data<T>()[k] = static_cast<T>(vars[k]);
        scale[k] = rstd * weight_of(k);
        // x less a center in T, which need not be the mean
        center[k] = static_cast<double>(static_cast<T>(means[k]));
        const double lost = training ? lost_of_channel(p, from, k, means[k], vars[k] + eps) : 0.0;
        shift[k] = bias_of(k) + (center[k] - means[k] + lost) * scale[k];
        if (!plain(k)) far.store(true, std::memory_order_relaxed);
      };
      const auto run = [&](int64_t at, int64_t k) {
        loops.affine(p.inner, from + at, static_cast<T>(center[k]), static_cast<T>(scale[k]), static_cast<T>(shift[k]),
                     to + at, stream);
      };
      const auto far_channels = [&] {
        for (int64_t k = 0; k < p.channels && far.load(std::memory_order_relaxed); ++k) {
          if (plain(k)) continue;
          const FarChannel of = training ? far_channel(p, from, k, eps) : given_channel(means[k], vars[k], eps);
          if (!of.found) continue;
          if (training) {
            out_mean.data<T>()[k] = static_cast<T>(std::ldexp(of.mean, of.exponent));
            out_var.data<T>()[k] = static_cast<T>(of.variance);
          }
          const double weight_now = weight_of(k), bias_now = bias_of(k);
          each_run(p, k, [&](int64_t at) {
            for (int64_t i = at; i < at + p.inner; ++i) {
              to[i] = static_cast<T>(of.normal(from[i]) * weight_now + bias_now);
            }
          });
        }
      };
      const bool together = training && at_once(p);
      if (!training) {
        for (int64_t k = 0; k < p.channels; ++k) {
          means[k] = static_cast<double>(m.data<T>()[k]);
          vars[k] = static_cast<double>(v.data<T>()[k]);
          finish(k);
        }
      } else if (p.columns()) {
        column_moments(p, from, means, vars);
        for (int64_t k = 0; k < p.channels; ++k) finish(k);
      } else {
        for_channels(p, [&](int64_t k) {
          channel_moments(p, from, k, means, vars);
          finish(k);
          for (int64_t i = 0; i < p.outer && together; ++i) run((i * p.channels + k) * p.inner, k);
        });
      }
      if (y.numel() == 0) return;
      if (!p.columns()) {
        if (!together) for_runs(p, run);
        far_channels();
        return;
      }
      const int64_t n = p.width();
      const TypedBuffer<T> columns(3 * n);
      spread(p, center, columns.get());
      spread(p, scale, columns.get() + n);
      spread(p, shift, columns.get() + 2 * n);
      for_pieces(p, [&](int64_t, int64_t first, int64_t rows) {
        loops.column_affine(rows, n, from + first * n, columns.get(), columns.get() + n, columns.get() + 2 * n,
                            to + first * n, stream);
        if (stream) stream_done();
      });
      far_channels();
    });
  });
}

void batch_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& bias,
                         const Tensor& mean, const Tensor& var, bool training, double eps,
                         const std::vector<bool>& mask, const Tensor& grad_input, const Tensor& grad_weight,
                         const Tensor& grad_bias) {
  const ScalarType c = compute_type(input.dtype());
  const bool last = is_channels_last(input) && input.dtype() == c;
  const Planes p = planes_of(input, last);
  const Tensor x = in_format(input, c, last), dy = in_format(grad, c, last), w = dense_as(weight, c);
  const Tensor centers = dense_as(mean, c), spreads = dense_as(var, c);
  const TypedBuffer<double> values(7 * p.channels);
  double *means = values.get(), *exact = means + 6 * p.channels;  // the means in T, and as they are
  double *s1 = means + p.channels, *s2 = s1 + p.channels, *fa = s2 + p.channels, *fb = fa + p.channels,
         *fc = fb + p.channels;
  const bool wanted = mask[0] && grad_input.numel() > 0;
  const auto all = [&](const Tensor& gi) {
    visit_compute(c, [&](auto type) {
      using T = typename decltype(type)::type;
      const NormLoops<T>& loops = norm_loops<T>();
      const T *g = dy.data<T>(), *from = x.data<T>();
      T* to = wanted ? gi.data<T>() : nullptr;
      const bool stream = wanted && static_cast<int64_t>(gi.nbytes()) >= kStreamBytes && to != from && to != g;
      const double count = static_cast<double>(p.count());
      const auto finish = [&](int64_t k) {
        const double r = 1.0 / std::sqrt(static_cast<double>(spreads.data<T>()[k]) + eps);
        const double scale = r * (w.defined() ? static_cast<double>(w.data<T>()[k]) : 1.0);
        const double lost =
            training ? lost_of_channel(p, from, k, means[k], static_cast<double>(spreads.data<T>()[k]) + eps) : 0.0;
        const double missed = means[k] - exact[k] + lost;
        s2[k] = count > 0 ? (s2[k] + missed * s1[k]) * r : 0.0;  // of dy times the normalised x
        fa[k] = scale;
        fb[k] = training ? -scale * (r * s2[k] / count) : 0.0;
        fc[k] = training ? -scale * s1[k] / count + fb[k] * missed : 0.0;
      };
      const auto run = [&](int64_t at, int64_t k) {
        // By given statistics no input has a part in it, a NaN among them neither.
        if (!training) return loops.affine(p.inner, g + at, T(0), static_cast<T>(fa[k]), T(0), to + at, stream);
        loops.backward(p.inner, g + at, from + at, nullptr, static_cast<T>(fa[k]), static_cast<T>(means[k]),
                       static_cast<T>(fb[k]), static_cast<T>(fc[k]), to + at, p.channels * p.inner, stream);
      };
      // In T a mean far beyond the spread has lost too much, and a variance may not be there at all.
      bool far = false, lost = false;
      for (int64_t k = 0; k < p.channels; ++k) {
        means[k] = exact[k] = static_cast<double>(centers.data<T>()[k]);
        const double variance = static_cast<double>(spreads.data<T>()[k]) + eps;
        far = far || !is_ordinary<T>(variance);
        lost = lost || means[k] * means[k] > 16 * variance;
      }
      if (training && lost) {
        const TypedBuffer<double> unused(p.channels);
        if (p.columns()) {
          column_moments(p, from, exact, unused.get());
        } else {
          for_channels(p, [&](int64_t k) { channel_moments(p, from, k, exact, unused.get()); });
        }
        for (int64_t k = 0; k < p.channels; ++k) exact[k] = std::isfinite(exact[k]) ? exact[k] : means[k];
      }
      const auto far_channels = [&] {
        for (int64_t k = 0; k < p.channels && far && p.count() > 0; ++k) {
          const double variance = static_cast<double>(spreads.data<T>()[k]);
          if (is_ordinary<T>(variance + eps)) continue;
          const FarChannel of = training ? far_channel(p, from, k, eps) : given_channel(means[k], variance, eps);
          if (!of.found) continue;
          s1[k] = s2[k] = 0;
          each_run(p, k, [&](int64_t at) {
            for (int64_t i = at; i < at + p.inner; ++i) {
              s1[k] += static_cast<double>(g[i]);
              s2[k] += static_cast<double>(g[i]) * of.normal(from[i]);
            }
          });
          if (!wanted) continue;
          const double scale =
              std::ldexp(of.rstd, -of.exponent) * (w.defined() ? static_cast<double>(w.data<T>()[k]) : 1.0);
          const double a = s1[k] / count, b = s2[k] / count;
          each_run(p, k, [&](int64_t at) {
            for (int64_t i = at; i < at + p.inner; ++i) {
              const double less = training ? a + of.normal(from[i]) * b : 0.0;
              to[i] = static_cast<T>(scale * (static_cast<double>(g[i]) - less));
            }
          });
        }
      };
      const bool together = wanted && at_once(p);
      const int64_t n = p.width();
      if (!p.columns()) {
        for_channels(p, [&](int64_t k) {
          s1[k] = s2[k] = 0;
          for (int64_t i = 0; i < p.outer; ++i) {
            const int64_t at = (i * p.channels + k) * p.inner;
            const GradSums s = loops.grad_sums(p.inner, g + at, from + at, static_cast<T>(means[k]), nullptr);
            s1[k] += s.grad;
            s2[k] += s.scaled;
          }
          finish(k);
          for (int64_t i = 0; i < p.outer && together; ++i) run((i * p.channels + k) * p.inner, k);
        });
      } else {
        const int64_t pieces = pieces_of(p);
        const TypedBuffer<double> columns((1 + 2 * pieces) * n);
        double *center = columns.get(), *parts = center + n;
        spread(p, means, center);
        std::fill(parts, parts + 2 * pieces * n, 0.0);
        for_pieces(p, [&](int64_t i, int64_t first, int64_t rows) {
          loops.column_grads(rows, n, n, g + first * n, from + first * n, center, parts + 2 * i * n,
                             parts + (2 * i + 1) * n);
        });
        for (int64_t k = 0; k < p.channels; ++k) {
          s1[k] = s2[k] = 0;
          for (int64_t j = k * p.inner; j < (k + 1) * p.inner; ++j) {
            for (int64_t i = 0; i < pieces; ++i) {
              s1[k] += parts[2 * i * n + j];
              s2[k] += parts[(2 * i + 1) * n + j];
            }
          }
          finish(k);
        }
      }
      if (wanted && !together && !p.columns()) {
        for_runs(p, run);
      } else if (wanted && !together) {
        const TypedBuffer<T> factors(4 * n);
        spread(p, fa, factors.get());
        spread(p, means, factors.get() + n);
        spread(p, fb, factors.get() + 2 * n);
        spread(p, fc, factors.get() + 3 * n);
        if (!training) std::fill_n(factors.get() + n, n, T(0));
        for_pieces(p, [&](int64_t, int64_t first, int64_t rows) {
          if (training) {
            loops.column_backward(rows, n, g + first * n, from + first * n, factors.get(), factors.get() + n,
                                  factors.get() + 2 * n, factors.get() + 3 * n, to + first * n, stream);
          } else {
            loops.column_affine(rows, n, g + first * n, factors.get() + n, factors.get(), factors.get() + n,
                                to + first * n, stream);
          }
          if (stream) stream_done();
        });
      }
      far_channels();
    });
  };
  if (wanted) {
    into_format(grad_input, c, last, all);
  } else {
    all(Tensor());
  }
  const auto store = [&](const Tensor& t, const double* from) {
    into_dense(t, c, [&](const Tensor& d) {
      visit_compute(c, [&](auto type) {
        using T = typename decltype(type)::type;
        for (int64_t k = 0; k < p.channels; ++k) d.data<T>()[k] = static_cast<T>(from[k]);
      });
    });
  };
  if (mask[1] && weight.defined()) store(grad_weight, s2);
  if (mask[2] && bias.defined()) store(grad_bias, s1);
}

}  // namespace facula::cpu
