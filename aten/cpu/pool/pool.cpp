// Max and average pooling, plain and adaptive, in one to three dims: by dim a list of windows, rows
// combined first (whole vectors), then windows along the last dim.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "aten/cpu/common/images.h"
#include "aten/cpu/common/tuning.h"
#include "aten/cpu/nn/loops.h"
#include "aten/cpu/pool/loops.h"
#include "aten/cpu/pool/nhwc.h"
#include "facula/kernels.h"
#include "runtime/core/interrupt.h"

namespace facula::cpu {
namespace {

using pool::Axis;
using pool::Pool;

template <typename F>
void for_planes(const Pool& p, const F& fn) {
  parallel_for(0, p.planes, grain_for(p.in(), tuning::kPoolPlaneWork),
               [&](int64_t begin, int64_t end) { fn(begin, end); });
}

// Calls fn(offset of the row) for the rows of a window.
template <typename F>
void window_rows(const Pool& p, int64_t z, int64_t y, const F& fn) {
  const auto iz = static_cast<size_t>(z), iy = static_cast<size_t>(y);
  for (int64_t d = p.z().start[iz]; d < p.z().end[iz]; d += p.z().step) {
    for (int64_t h = p.y().start[iy]; h < p.y().end[iy]; h += p.y().step) fn((d * p.y().in + h) * p.x().in);
  }
}

// fn(first, count) for pieces of the outputs of a row, in whole vectors.
constexpr int64_t kRowPiece = 4096;
template <typename F>
void outputs_of_row(int64_t n, const F& fn) {
  for (int64_t c = 0; c < n; c += kRowPiece) {
    count_step(16);
    fn(c, std::min(kRowPiece, n - c));
  }
}

// Whether images are NHWC.
bool is_nhwc(const Pool& p, const Tensor& t) { return is_channels_last(t) && p.z().in == 1 && p.z().out == 1; }

// ---- max ----

template <typename T>
void max_values(const Pool& p, const T* x, T* out) {
  const PoolLoops<T>& loops = pool_loops<T>();
  const Axis& a = p.x();
  const int64_t width = a.width();
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  for_planes(p, [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> scratch(width);
    T *row = scratch.get(), *inner = row + a.padding;
    for (int64_t i = begin; i < end; ++i) {
      const T* plane = x + i * p.in();
      T* to = out + i * p.out();
      for (int64_t z = 0; z < p.z().out; ++z) {
        for (int64_t y = 0; y < p.y().out; ++y, to += a.out) {
          std::fill(row, row + width, kLowest);
          window_rows(p, z, y, [&](int64_t at) { loops.max_row(a.in, plane + at, inner); });
          if (a.uniform) {
            outputs_of_row(a.out, [&](int64_t c, int64_t n) {
              loops.max_windows(n, a.kernel, a.stride, a.step, row + c * a.stride, to + c);
            });
            continue;
          }
          for (size_t c = 0; c < static_cast<size_t>(a.out); ++c) {
            T best = kLowest;
            for (int64_t w = a.start[c]; w < a.end[c]; w += a.step)
              best = row[w] > best || row[w] != row[w] ? row[w] : best;
            to[c] = best;
          }
        }
      }
    }
  });
}

// The place of a window's maximum: the last NaN, else the first largest value.
template <typename T>
int64_t place_of_max(const Pool& p, const T* plane, int64_t z, int64_t y, int64_t x, T* value) {
  const auto ix = static_cast<size_t>(x);
  int64_t best = -1;
  T m = -std::numeric_limits<T>::infinity();
  window_rows(p, z, y, [&](int64_t at) {
    for (int64_t w = p.x().start[ix]; w < p.x().end[ix]; w += p.x().step) {
      const T v = plane[at + w];
      if (best < 0 || v > m || v != v) {
        best = at + w;
        m = v;
      }
    }
  });
  *value = m;
  return best;
}

// The same for a row of outputs, tap by tap. `row` holds one input row with its margins.
template <typename T>
void places_of_row(const Pool& p, const T* plane, int64_t z, int64_t y, T* row, int64_t width, T* best,
                   PoolIndex<T>* place) {
  const PoolLoops<T>& loops = pool_loops<T>();
  const Axis& a = p.x();
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  std::fill(best, best + a.out, kLowest);
  std::fill(place, place + a.out, PoolIndex<T>{-1});  // a dilated window may miss the input
  bool first = true;
  window_rows(p, z, y, [&](int64_t at) {
    if (first) {  // where nothing is larger than -inf, the window's first place
      for (size_t c = 0; c < static_cast<size_t>(a.out); ++c) {
        if (a.start[c] < a.end[c]) place[c] = static_cast<PoolIndex<T>>(at + a.start[c]);
      }
      first = false;
    }
    const T* from = plane + at;
    if (a.padding > 0 || width > a.in) {
      std::copy(from, from + a.in, row + a.padding);
      from = row;
    }
    for (int64_t k = 0; k < a.kernel; ++k) {
      count_step(16);
      loops.max_places(a.out, a.stride, from + k * a.step, static_cast<PoolIndex<T>>(at + k * a.step - a.padding), best,
                       place);
    }
  });
}

// Calls fn(plane, output, place of the maximum or -1 in an empty window, maximum).
template <typename T, typename F>
void for_maxima(const Pool& p, const T* x, int64_t begin, int64_t end, const F& fn) {
  const bool by_row = p.x().uniform && p.in() < std::numeric_limits<int32_t>::max() / 2;
  const int64_t width = p.x().width();
  const TypedBuffer<T> buffer(width + p.x().out);
  const TypedBuffer<PoolIndex<T>> places(p.x().out);
  T *row = buffer.get(), *best = row + width;
  std::fill(row, row + width, -std::numeric_limits<T>::infinity());
  for (int64_t i = begin; i < end; ++i) {
    int64_t o = i * p.out();
    const T* plane = x + i * p.in();
    for (int64_t z = 0; z < p.z().out; ++z) {
      for (int64_t y = 0; y < p.y().out; ++y) {
        if (by_row) {
          places_of_row(p, plane, z, y, row, width, best, places.get());
          for (int64_t c = 0; c < p.x().out; ++c, ++o) fn(i, o, int64_t{places.get()[c]}, best[c]);
          continue;
        }
        for (int64_t c = 0; c < p.x().out; ++c, ++o) {
          T value;
          const int64_t place = place_of_max(p, plane, z, y, c, &value);
          fn(i, o, place, value);
        }
      }
    }
  }
}

void max_with_places(const Pool& p, const Tensor& input, const Tensor& out, const Tensor& indices) {
  const Tensor x = dense_compute(input);
  into_dense(out, x.dtype(), [&](const Tensor& values) {
    into_dense(indices, ScalarType::Int64, [&](const Tensor& places) {
      visit_compute(x.dtype(), [&](auto type) {
        using T = typename decltype(type)::type;
        for_planes(p, [&](int64_t begin, int64_t end) {
          for_maxima(p, x.data<T>(), begin, end, [&](int64_t, int64_t o, int64_t place, T value) {
            values.data<T>()[o] = value;
            places.data<int64_t>()[o] = place;
          });
        });
      });
    });
  });
}

// ---- average ----

template <typename T>
void divisors(const Pool& p, int64_t z, int64_t y, std::optional<int64_t> fixed, T* out) {
  const double rows = p.z().divisor[static_cast<size_t>(z)] * p.y().divisor[static_cast<size_t>(y)];
  for (size_t c = 0; c < static_cast<size_t>(p.x().out); ++c) {
    out[c] = static_cast<T>(1.0 / (fixed ? static_cast<double>(*fixed) : rows * p.x().divisor[c]));
  }
}

// So many rows or elements of a window are summed in T; of larger windows the sums of such runs are summed in double,
// or they would lose their digits.
constexpr int64_t kTerms = 128;

// Rows of the window (z, y), summed into `row`; `wide` is used where there are many.
template <typename T>
void sum_rows(const Pool& p, int64_t z, int64_t y, const T* plane, int64_t width, T* row, double* wide) {
  const PoolLoops<T>& loops = pool_loops<T>();
  std::fill(row, row + width, T(0));
  int64_t room = kTerms;
  bool emptied = false;
  window_rows(p, z, y, [&](int64_t at) {
    if (room-- == 0) {
      for (int64_t i = 0; i < width; ++i) {
        wide[i] = (emptied ? wide[i] : 0) + static_cast<double>(row[i]);
        row[i] = T(0);
      }
      emptied = true;
      room = kTerms - 1;
    }
    loops.add_row(p.x().in, plane + at, row + p.x().padding);
  });
  for (int64_t i = 0; i < width && emptied; ++i) row[i] = static_cast<T>(wide[i] + static_cast<double>(row[i]));
}

// Sums of windows of `row`, n of them.
template <typename T>
void sum_along(const Axis& a, int64_t n, const T* row, T* out, T* part, double* wide) {
  const PoolLoops<T>& loops = pool_loops<T>();
  if (a.kernel <= kTerms) {
    loops.sum_windows(n, a.kernel, a.stride, row, out);
    return;
  }
  for (int64_t k = 0; k < a.kernel; k += kTerms) {
    loops.sum_windows(n, std::min(kTerms, a.kernel - k), a.stride, row + k, part);
    for (int64_t i = 0; i < n; ++i) wide[i] = (k > 0 ? wide[i] : 0) + static_cast<double>(part[i]);
  }
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(wide[i]);
}

template <typename T>
void averages(const Pool& p, std::optional<int64_t> divisor, const T* x, T* out) {
  const Axis& a = p.x();
  const int64_t width = a.width(), most = std::max(width, kRowPiece);
  int64_t longest = 0;
  for (size_t c = 0; c < static_cast<size_t>(a.out); ++c) longest = std::max(longest, a.end[c] - a.start[c]);
  const bool apart = a.uniform && !(a.kernel > kTerms && a.out < 16);  // few long windows are summed one by one
  for_planes(p, [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> scratch(width + a.out + kRowPiece);
    const TypedBuffer<double> wide(most);
    T *row = scratch.get(), *factor = row + width, *part = factor + a.out;
    for (int64_t i = begin; i < end; ++i) {
      const T* plane = x + i * p.in();
      T* to = out + i * p.out();
      for (int64_t z = 0; z < p.z().out; ++z) {
        for (int64_t y = 0; y < p.y().out; ++y, to += a.out) {
          sum_rows(p, z, y, plane, width, row, wide.get());
          if (apart) {
            outputs_of_row(
                a.out, [&](int64_t c, int64_t n) { sum_along(a, n, row + c * a.stride, to + c, part, wide.get()); });
          } else {
            const T* const from = row + a.padding;
            for (size_t c = 0; c < static_cast<size_t>(a.out); ++c) {
              if (longest > kTerms) {
                to[c] = static_cast<T>(norm_loops<T>().sum(a.end[c] - a.start[c], from + a.start[c]));
                continue;
              }
              T sum = 0;
              for (int64_t w = a.start[c]; w < a.end[c]; ++w) sum += from[w];
              to[c] = sum;
            }
          }
          divisors(p, z, y, divisor, factor);
          for (int64_t c = 0; c < a.out; ++c) to[c] *= factor[c];
        }
      }
    }
  });
}

// Windows that an element is in: in as many sums of its gradient are made in S.
int64_t overlap(const Axis& a) {
  if (!a.uniform) return a.in > 0 ? ceil_div(a.out, a.in) + 1 : 1;
  return a.stride > 0 ? ceil_div(a.kernel, a.stride) : 1;
}

template <typename S, typename T>
void averages_backward(const Pool& p, std::optional<int64_t> divisor, const T* grad, T* out) {
  constexpr bool kApart = !std::is_same_v<S, T>;
  const PoolLoops<S>& loops = pool_loops<S>();
  const Axis& a = p.x();
  for_planes(p, [&](int64_t begin, int64_t end) {
    const TypedBuffer<S> scratch(a.in + a.out + (kApart ? p.in() : 0));
    S *row = scratch.get(), *factor = row + a.in;
    for (int64_t i = begin; i < end; ++i) {
      S* plane = factor + a.out;
      if constexpr (!kApart) plane = out + i * p.in();
      const T* from = grad + i * p.out();
      std::fill(plane, plane + p.in(), S(0));
      for (int64_t z = 0; z < p.z().out; ++z) {
        for (int64_t y = 0; y < p.y().out; ++y, from += a.out) {
          divisors(p, z, y, divisor, factor);
          std::fill(row, row + a.in, S(0));
          for (size_t c = 0; c < static_cast<size_t>(a.out); ++c) {
            count_step();
            const S g = static_cast<S>(from[c]) * factor[c];
            for (int64_t w = a.start[c]; w < a.end[c]; ++w) row[w] += g;
          }
          window_rows(p, z, y, [&](int64_t at) { loops.add_row(a.in, row, plane + at); });
        }
      }
      for (int64_t k = 0; k < p.in() && kApart; ++k) out[i * p.in() + k] = static_cast<T>(plane[k]);
    }
  });
}

template <typename T>
bool all_finite(const T* x, int64_t n) {
  int bad = 0;
#pragma omp simd reduction(| : bad)
  for (int64_t i = 0; i < n; ++i) bad |= std::abs(x[i]) <= std::numeric_limits<T>::max() ? 0 : 1;
  return bad == 0;
}

// `average(x, y)`; where a sum left the range though its average does not, again of scaled elements.
template <typename T, typename F>
void averages_to_the_ends(const Pool& p, const Tensor& x, const Tensor& y, const F& average) {
  T* out = y.data<T>();
  const int64_t n = y.numel();
  average(x.data<T>(), out);
  if (all_finite(out, n)) return;
  const T scale = static_cast<T>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(p.in(), 1))));
  const TypedBuffer<T> buffer(x.numel() + n);
  T *small = buffer.get(), *again = small + x.numel();
  for (int64_t i = 0; i < x.numel(); ++i) small[i] = x.data<T>()[i] / scale;
  average(small, again);
  for (int64_t i = 0; i < n; ++i) out[i] = std::isfinite(out[i]) ? out[i] : again[i] * scale;
}

void average_into(const Pool& p, std::optional<int64_t> divisor, const Tensor& input, const Tensor& out) {
  const bool last = is_nhwc(p, input);
  const Tensor x = in_format(input, compute_type(input.dtype()), last);
  into_format(out, x.dtype(), last, [&](const Tensor& y) {
    visit_compute(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      averages_to_the_ends<T>(p, x, y, [&](const T* from, T* to) {
        last ? pool::average_nhwc<T>(p, x.size(1), divisor, from, to) : averages<T>(p, divisor, from, to);
      });
    });
  });
}

void average_backward_into(const Pool& p, std::optional<int64_t> divisor, const Tensor& grad, const Tensor& out) {
  const bool last = is_nhwc(p, out);
  const Tensor g = in_format(grad, compute_type(grad.dtype()), last);
  into_format(out, g.dtype(), last, [&](const Tensor& gi) {
    visit_compute(g.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      if (last) {
        std::fill(gi.data<T>(), gi.data<T>() + gi.numel(), T(0));
        pool::average_nhwc_backward<T>(p, out.size(1), divisor, g.data<T>(), gi.data<T>());
        return;
      }
      const bool many = overlap(p.x()) > kTerms || overlap(p.y()) * overlap(p.z()) > kTerms;
      many ? averages_backward<double>(p, divisor, g.data<T>(), gi.data<T>())
           : averages_backward<T>(p, divisor, g.data<T>(), gi.data<T>());
    });
  });
}

}  // namespace

void max_pool(const Tensor& input, IntList kernel_size, IntList stride, IntList padding, IntList dilation, bool,
              const Tensor& out) {
  if (out.numel() == 0) return;
  const Pool p = pool::plain_pool(input.sizes(), out.sizes(), kernel_size, stride, padding, dilation, false);
  const bool last = is_nhwc(p, input);
  const Tensor x = in_format(input, compute_type(input.dtype()), last);
  into_format(out, x.dtype(), last, [&](const Tensor& y) {
    visit_compute(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      if (last) {
        pool::max_nhwc<T>(p, x.size(1), x.data<T>(), y.data<T>());
      } else {
        max_values<T>(p, x.data<T>(), y.data<T>());
      }
    });
  });
}

void max_pool_with_indices(const Tensor& input, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                           bool, const Tensor& out, const Tensor& indices) {
  if (out.numel() == 0) return;
  max_with_places(pool::plain_pool(input.sizes(), out.sizes(), kernel_size, stride, padding, dilation, false), input,
                  out, indices);
}

void max_pool_backward(const Tensor& grad, const Tensor& input, IntList kernel_size, IntList stride, IntList padding,
                       IntList dilation, bool, const Tensor& out) {
  if (out.numel() == 0) return;
  const Pool p = pool::plain_pool(input.sizes(), grad.sizes(), kernel_size, stride, padding, dilation, false);
  const bool last = is_nhwc(p, input);
  const Tensor x = in_format(input, compute_type(input.dtype()), last), g = in_format(grad, x.dtype(), last);
  into_format(out, x.dtype(), last, [&](const Tensor& gi) {
    visit_compute(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const T* from = g.data<T>();
      T* to = gi.data<T>();
      if (last) {
        std::fill(to, to + gi.numel(), T(0));
        pool::max_nhwc_backward<T>(p, x.size(1), from, x.data<T>(), to);
        return;
      }
      for_planes(p, [&](int64_t begin, int64_t end) {
        std::fill(to + begin * p.in(), to + end * p.in(), T(0));
        for_maxima(p, x.data<T>(), begin, end, [&](int64_t i, int64_t o, int64_t place, T) {
          if (place >= 0) to[i * p.in() + place] += from[o];
        });
      });
    });
  });
}

void adaptive_max_pool(const Tensor& input, IntList output_size, const Tensor& out, const Tensor& indices) {
  if (out.numel() == 0) return;
  max_with_places(pool::adaptive_pool(input.sizes(), out.sizes(), output_size.size()), input, out, indices);
}

void avg_pool(const Tensor& input, IntList kernel_size, IntList stride, IntList padding, bool, bool count_include_pad,
              std::optional<int64_t> divisor_override, const Tensor& out) {
  if (out.numel() == 0) return;
  average_into(pool::plain_pool(input.sizes(), out.sizes(), kernel_size, stride, padding, {}, count_include_pad),
               divisor_override, input, out);
}

void avg_pool_backward(const Tensor& grad, IntList input_size, IntList kernel_size, IntList stride, IntList padding,
                       bool, bool count_include_pad, std::optional<int64_t> divisor_override, const Tensor& out) {
  if (out.numel() == 0) return;
  average_backward_into(pool::plain_pool(input_size, grad.sizes(), kernel_size, stride, padding, {}, count_include_pad),
                        divisor_override, grad, out);
}

void adaptive_avg_pool(const Tensor& input, IntList output_size, const Tensor& out) {
  if (out.numel() == 0) return;
  average_into(pool::adaptive_pool(input.sizes(), out.sizes(), output_size.size()), std::nullopt, input, out);
}

void adaptive_avg_pool_backward(const Tensor& grad, IntList input_size, int64_t dims, const Tensor& out) {
  if (out.numel() == 0) return;
  if (grad.numel() == 0) {  // there are no windows, whatever their number along one dim
    fill(out, 0, out);
    return;
  }
  average_backward_into(pool::adaptive_pool(input_size, grad.sizes(), static_cast<size_t>(dims)), std::nullopt, grad,
                        out);
}

}  // namespace facula::cpu
