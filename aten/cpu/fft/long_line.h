// The transform of one long line, which threads share and Ctrl-C ends.
#pragma once

#include "aten/cpu/fft/plans.h"

namespace facula::cpu {

inline constexpr int64_t kLongLine = 1 << 16;   // lengths from which a line is taken alone
inline constexpr int64_t kSplitLine = 1 << 10;  // the same where there are too few lines to fill vectors

// A length n = n1 n2 is n2 transforms of length n1, then n1 of n2, whose elements are turned in between: Bailey, "FFTs
// in external or hierarchical memory" (1990). A length without such factors becomes a convolution of a length that
// has them: Bluestein, "A linear filtering approach to the computation of the discrete Fourier transform" (1970).
template <typename T>
class LongLine {
 public:
  using C = std::complex<T>;
  explicit LongLine(int64_t length);
  // Can a line of this length be split so that vectors are filled?
  static bool splits(int64_t length);
  static std::shared_ptr<LongLine> of(int64_t length);
  // `out` may be `in`.
  void run(const C* in, int64_t step_in, C* out, int64_t step_out, T scale, bool forward) const;

 private:
  void run_split(const C* in, int64_t step_in, C* out, int64_t step_out, T scale, bool forward) const;
  void run_chirp(const C* in, int64_t step_in, C* out, int64_t step_out, T scale, bool forward) const;
  int64_t n_, n1_ = 0;
  std::shared_ptr<void> roots_;
  std::shared_ptr<LongLine> inner_;  // of the convolution's length
  int64_t padded_ = 0;
  std::unique_ptr<TypedBuffer<C>> chirp_, filter_;
};

// The product by its formula: what C++ adds for infinite factors costs more than all else.
template <typename T>
std::complex<T> times(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// fn(begin, end) over elements that cost little.
template <typename F>
void share_elements(int64_t n, const F& fn) {
  parallel_for(0, n, 1 << 14, [&](int64_t begin, int64_t end) {
    constexpr int64_t kPiece = 1 << 18;
    for (int64_t i = begin; i < end; i += kPiece) {
      fn(i, std::min(end, i + kPiece));
      check_interrupt();
    }
  });
}

}  // namespace facula::cpu
