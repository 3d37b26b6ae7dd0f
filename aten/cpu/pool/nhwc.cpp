#include "aten/cpu/pool/nhwc.h"

#include <limits>

#include "aten/cpu/common/tuning.h"
#include "aten/cpu/pool/loops.h"
#include "runtime/core/rounding.h"

namespace facula::cpu::pool {
namespace {

using tuning::kPoolChannels;  // windows may overlap within these

int64_t images(const Pool& p, int64_t channels) { return p.planes / channels; }

// Offsets of the window's pixels within an image.
void window(const Pool& p, int64_t y, int64_t x, int64_t channels, std::vector<int64_t>& at) {
  const auto iy = static_cast<size_t>(y), ix = static_cast<size_t>(x);
  at.clear();
  for (int64_t h = p.y().start[iy]; h < p.y().end[iy]; h += p.y().step) {
    for (int64_t w = p.x().start[ix]; w < p.x().end[ix]; w += p.x().step) at.push_back((h * p.x().in + w) * channels);
  }
}

// fn(image, window, output pixel, y, x) for all outputs, by rows.
template <typename F>
void for_windows(const Pool& p, int64_t channels, const F& fn) {
  const int64_t rows = images(p, channels) * p.y().out;
  parallel_for(0, rows, grain_for(p.x().out * channels, tuning::kPoolRowWork), [&](int64_t begin, int64_t end) {
    std::vector<int64_t> at;
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t x = 0; x < p.x().out; ++x) {
        window(p, r % p.y().out, x, channels, at);
        fn(r / p.y().out, at, r * p.x().out + x, r % p.y().out, x);
      }
    }
  });
}

// fn(image, first channel, channels, window, output pixel, y, x), the outputs of one image and one run
// of channels in one piece, in order.
template <typename F>
void for_runs(const Pool& p, int64_t channels, const F& fn) {
  const int64_t runs = ceil_div(channels, kPoolChannels);
  parallel_for(0, images(p, channels) * runs,
               grain_for(p.in() * std::min(channels, kPoolChannels), tuning::kPoolRunWork),
               [&](int64_t begin, int64_t end) {
                 std::vector<int64_t> at;
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t image = i / runs, first = i % runs * kPoolChannels;
                   for (int64_t y = 0; y < p.y().out; ++y) {
                     for (int64_t x = 0; x < p.x().out; ++x) {
                       window(p, y, x, channels, at);
                       fn(image, first, std::min(kPoolChannels, channels - first), at,
                          (image * p.y().out + y) * p.x().out + x, y, x);
                     }
                   }
                 }
               });
}

template <typename T>
T factor(const Pool& p, std::optional<int64_t> divisor, int64_t y, int64_t x) {
  const double n = p.y().divisor[static_cast<size_t>(y)] * p.x().divisor[static_cast<size_t>(x)];
  return static_cast<T>(1.0 / (divisor ? static_cast<double>(*divisor) : n));
}

}  // namespace

template <typename T>
void max_nhwc(const Pool& p, int64_t channels, const T* x, T* out) {
  for_windows(p, channels, [&](int64_t image, const std::vector<int64_t>& at, int64_t o, int64_t, int64_t) {
    if (at.empty()) {  // dilated windows may pass by the image
      std::fill_n(out + o * channels, channels, -std::numeric_limits<T>::infinity());
      return;
    }
    pool_loops<T>().max_nhwc(channels, static_cast<int64_t>(at.size()), at.data(), x + image * p.in() * channels,
                             out + o * channels);
  });
}

template <typename T>
void max_nhwc_backward(const Pool& p, int64_t channels, const T* grad, const T* x, T* out) {
  for_runs(p, channels,
           [&](int64_t image, int64_t first, int64_t n, const std::vector<int64_t>& at, int64_t o, int64_t, int64_t) {
             if (at.empty()) return;
             const int64_t base = image * p.in() * channels + first;
             pool_loops<T>().max_nhwc_grad(n, static_cast<int64_t>(at.size()), at.data(), x + base,
                                           grad + o * channels + first, out + base);
           });
}

template <typename T>
void average_nhwc(const Pool& p, int64_t channels, std::optional<int64_t> divisor, const T* x, T* out) {
  for_windows(p, channels, [&](int64_t image, const std::vector<int64_t>& at, int64_t o, int64_t y, int64_t w) {
    pool_loops<T>().mean_nhwc(channels, static_cast<int64_t>(at.size()), at.data(), x + image * p.in() * channels,
                              factor<T>(p, divisor, y, w), out + o * channels);
  });
}

template <typename T>
void average_nhwc_backward(const Pool& p, int64_t channels, std::optional<int64_t> divisor, const T* grad, T* out) {
  for_runs(
      p, channels,
      [&](int64_t image, int64_t first, int64_t n, const std::vector<int64_t>& at, int64_t o, int64_t y, int64_t w) {
        pool_loops<T>().mean_nhwc_grad(n, static_cast<int64_t>(at.size()), at.data(), grad + o * channels + first,
                                       factor<T>(p, divisor, y, w), out + image * p.in() * channels + first);
      });
}

#define FACULA_POOL_NHWC_FOR(T)                                                              \
  template void max_nhwc<T>(const Pool&, int64_t, const T*, T*);                             \
  template void max_nhwc_backward<T>(const Pool&, int64_t, const T*, const T*, T*);          \
  template void average_nhwc<T>(const Pool&, int64_t, std::optional<int64_t>, const T*, T*); \
  template void average_nhwc_backward<T>(const Pool&, int64_t, std::optional<int64_t>, const T*, T*);
FACULA_POOL_NHWC_FOR(float)
FACULA_POOL_NHWC_FOR(double)
#undef FACULA_POOL_NHWC_FOR

}  // namespace facula::cpu::pool
