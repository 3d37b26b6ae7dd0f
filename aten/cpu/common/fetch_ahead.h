// Memory that a later piece of work will need, fetched a few lines at a time between the products of this one: where
// the last cache is far, hardware alone hides little of the way.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/core/rounding.h"
#include "runtime/iterate/stream.h"

namespace facula::cpu {

class FetchAhead {
 public:
  // `rows` runs of `count` elements, `stride` elements apart; to be written rather than read.
  template <typename T>
  void add(const T* first, int64_t rows, int64_t count, int64_t stride, bool write = false) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    if (used_ == runs_.size() || rows <= 0 || count <= 0) return;
    runs_[used_++] = {reinterpret_cast<const char*>(first), rows, count * kSize, stride * kSize, write};
    if (rows > most_) most_ = rows;
  }
  // In how many steps all is to be fetched.
  void spread(int64_t steps) { share_ = steps > 0 ? ceil_div(most_, steps) : most_; }

  void step() {
    if (done_ >= most_) return;
    for (size_t i = 0; i < used_; ++i) {
      const Run& run = runs_[i];
      for (int64_t row = done_; row < done_ + share_ && row < run.rows; ++row) {
        const char* const at = run.first + row * run.stride;
        if (run.write) {
          for (int64_t x = 0; x < run.bytes; x += kLine) __builtin_prefetch(at + x, 1);
        } else {
          fetch_later(at, at + run.bytes);
        }
      }
    }
    done_ += share_;
  }

 private:
  static constexpr int64_t kLine = 64;
  struct Run {
    const char* first;
    int64_t rows, bytes, stride;
    bool write;
  };
  std::array<Run, 6> runs_{};
  size_t used_ = 0;
  int64_t most_ = 0, share_ = 1, done_ = 0;
};

}  // namespace facula::cpu
