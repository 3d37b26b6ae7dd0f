// A stream of uniform numbers for each element of a draw, for samplers that need no fixed count of them.
#pragma once

#include <array>

#include "runtime/core/generator.h"

namespace facula::cpu {

inline Philox next_stream(const Generator& generator, const char* op) {
  return generator_for(generator, Device{}, op).next();
}

// Block k of element i is Philox block i + k 2^48.
class ElementStream {
 public:
  ElementStream(const Philox& philox, int64_t element) : philox_(philox), next_(static_cast<uint64_t>(element)) {}
  double operator()() {
    if (left_ == 0) {
      words_ = philox_(next_);
      next_ += uint64_t{1} << 48;
      left_ = 2;
    }
    --left_;
    const uint64_t v = words_[static_cast<size_t>(2 * left_)] |
                       static_cast<uint64_t>(words_[static_cast<size_t>(2 * left_ + 1)]) << 32;
    return (static_cast<double>(v >> 11) + 0.5) * 0x1p-53;
  }

 private:
  const Philox& philox_;
  uint64_t next_;
  std::array<uint32_t, 4> words_{};
  int left_ = 0;
};

}  // namespace facula::cpu
