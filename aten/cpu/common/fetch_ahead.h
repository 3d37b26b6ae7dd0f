// Memory that a later piece of work will need, fetched a few lines at a time during this one: where the last cache is
// far, hardware alone hides little of the way. Between products by FetchAhead, within one by Ahead.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "runtime/core/rounding.h"
#include "runtime/iterate/stream.h"

namespace facula {

// What a product fetches: base + (p >> shift) * step at its depth p, in elements; nothing where the base is null. At
// once the lines would fill all the places for lines on their way, and the product's own would wait.
template <typename T>
struct Ahead {
  const T* base = nullptr;
  int64_t step = 0, shift = 0;
};

namespace cpu {

// `count` neighbouring elements, shared out among products of so many depths together.
template <typename T>
class FetchByDepth {
 public:
  FetchByDepth(const T* first, int64_t count, int64_t depths)
      : next_(first), left_(count), pace_(std::min<int64_t>(ceil_div(count, depths), 64 / sizeof(T))) {}
  // The share of a product of that depth.
  Ahead<T> take(int64_t depth) {
    if (left_ <= 0) return {};
    const Ahead<T> now{next_, pace_, 0};
    const int64_t n = std::min(left_, pace_ * depth);
    next_ += n;
    left_ -= n;
    return now;
  }

 private:
  const T* next_;
  int64_t left_, pace_;
};

class FetchAhead {
 public:
  // `rows` runs of `count` elements, `stride` elements apart; to be written rather than read.
  template <typename T>
  void add(const T* first, int64_t rows, int64_t count, int64_t stride, bool write = false) {
    add_blocks(first, 1, 0, rows, count, stride, write);
  }
  // So many blocks of them, `apart` elements apart.
  template <typename T>
  void add_blocks(const T* first, int64_t blocks, int64_t apart, int64_t rows, int64_t count, int64_t stride,
                  bool write = false) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    if (used_ == runs_.size() || blocks <= 0 || rows <= 0 || count <= 0) return;
    const auto* const bytes = reinterpret_cast<const char*>(first);
    runs_[used_++] = {bytes, blocks * rows, rows, apart * kSize, count * kSize, stride * kSize, write};
    most_ = std::max(most_, blocks * rows);
    longest_ = std::max(longest_, count * kSize);
  }
  // In how many steps all is to be fetched; a step takes no more than whole rows of `burst` bytes.
  void spread(int64_t steps, int64_t burst = int64_t{1} << 40) {
    share_ = steps > 0 ? std::min(ceil_div(most_, steps), ceil_div(burst, std::max<int64_t>(longest_, 1))) : most_;
  }

  void step() {
    if (done_ >= most_) return;
    for (size_t i = 0; i < used_; ++i) {
      const Run& run = runs_[i];
      for (int64_t row = done_; row < done_ + share_ && row < run.rows; ++row) {
        const char* const at = run.first + row / run.of_block * run.apart + row % run.of_block * run.stride;
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
    int64_t rows, of_block, apart, bytes, stride;
    bool write;
  };
  std::array<Run, 6> runs_{};
  size_t used_ = 0;
  int64_t most_ = 0, longest_ = 0, share_ = 1, done_ = 0;
};

}  // namespace cpu
}  // namespace facula
