// What transforms of a length need is made once and kept for the thread's next calls.
#pragma once

#include <functional>
#include <memory>

#include "aten/cpu/common/dense.h"
#include "aten/cpu/fft/lines.h"
#include "runtime/core/checked.h"
#include "runtime/core/rounding.h"

namespace facula::cpu {

template <typename T>
const FftLoops<T>& fft_loops() {
  if constexpr (std::is_same_v<T, float>) {
    return FACULA_BY_ISA(fft_loops_float);
  } else {
    return FACULA_BY_ISA(fft_loops_double);
  }
}

enum class FftKind : uint8_t { Complex, Real, Roots, Line };

// The one of that kind and length; `make` makes it, of about so many bytes.
std::shared_ptr<void> kept_plan(FftKind kind, bool wide, int64_t length, int64_t bytes,
                                const std::function<std::shared_ptr<void>()>& make);
[[noreturn]] void raise_no_memory(int64_t length);

template <typename T>
std::shared_ptr<void> fft_plan(FftKind kind, int64_t length) {
  const FftLoops<T>& loops = fft_loops<T>();
  const int64_t bytes = saturated_mul(length, 2 * static_cast<int64_t>(sizeof(T)));
  return kept_plan(kind, sizeof(T) == 8, length, bytes, [&] {
    const bool complex = kind == FftKind::Complex, real = kind == FftKind::Real;
    void* made = (complex ? loops.make_complex : real ? loops.make_real : loops.make_roots)(length);
    if (made == nullptr) raise_no_memory(length);
    return std::shared_ptr<void>(made, complex ? loops.drop_complex : real ? loops.drop_real : loops.drop_roots);
  });
}

// Shares `count` lines out among threads: call(begin, end, work, position) transforms some.
template <typename T, typename F>
void share_lines(int64_t count, int64_t length, int64_t dims, const F& call) {
  constexpr int64_t kPiece = 1 << 16;  // elements between two looks for signals
  const int64_t lanes = fft_loops<T>().lanes, per_group = saturated_mul(lanes, length);
  const int64_t groups = ceil_div(count, lanes), step = grain_for(per_group, kPiece);
  parallel_for(0, groups, grain_for(saturated_mul(per_group, 4)), [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> work(checked_mul(per_group, 2));
    DimVector position(static_cast<size_t>(dims));
    for (int64_t g = begin; g < end; g += step) {
      const int64_t stop = std::min(count, std::min(end, g + step) * lanes);
      if (!call(g * lanes, stop, work.get(), position.data())) raise_no_memory(length);
      check_interrupt();
    }
  });
}

template <typename T>
void transform_lines(const FftLines& lines, int64_t count, int64_t length, const std::complex<T>* in,
                     std::complex<T>* out, T scale, bool forward, const void* roots = nullptr) {
  const auto plan = fft_plan<T>(FftKind::Complex, length);
  share_lines<T>(count, length, lines.dims, [&](int64_t begin, int64_t end, T* work, int64_t* position) {
    return fft_loops<T>().c2c(plan.get(), roots, lines, begin, end, in, out, work, position, scale, forward);
  });
}

}  // namespace facula::cpu
