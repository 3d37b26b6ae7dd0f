// Sums that grow step by step in memory, each step adding to what was there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "aten/cpu/common/dense.h"

namespace facula::cpu {

// A matrix of sums in T. After some tens of additions they are emptied into doubles, of which there are none before: a
// long sum in T would lose the digits that its terms are smaller by.
template <typename T>
class StepSums {
 public:
  StepSums(T* sums, int64_t rows, int64_t cols, int64_t row) : sums_(sums), rows_(rows), cols_(cols), row_(row) {}

  // Before each step: whether it adds to the sums, or is the first and writes them. Those that were emptied are zero.
  // Of a step that adds several times, how often it does.
  bool step(int64_t additions = 1) {
    constexpr int64_t kMost = 64;
    if constexpr (sizeof(T) == sizeof(double)) return std::exchange(done_, 1) > 0;  // there is nothing wider
    if (done_ > 0 && done_ + additions > kMost) empty();
    done_ += additions;
    return done_ > additions;
  }
  // After the last one.
  void finish() {
    if (!wide_) return;
    for_each([](T& sum, double& wide) { sum = static_cast<T>(wide + static_cast<double>(sum)); });
    wide_.reset();
  }

 private:
  template <typename F>
  void for_each(const F& fn) const {
    for (int64_t i = 0; i < rows_; ++i) {
      T* const sums = sums_ + i * row_;
      double* const wide = wide_->get() + i * cols_;
      for (int64_t j = 0; j < cols_; ++j) fn(sums[j], wide[j]);
    }
  }
  void empty() {
    if (!wide_) {
      wide_.emplace(rows_ * cols_);
      std::fill_n(wide_->get(), rows_ * cols_, 0.0);
    }
    for_each([](T& sum, double& wide) {
      wide += static_cast<double>(sum);
      sum = T(0);
    });
    done_ = 0;
  }
  T* sums_;
  int64_t rows_, cols_, row_, done_ = 0;
  std::optional<TypedBuffer<double>> wide_;
};

}  // namespace facula::cpu
