// The order in which a recurrent layer goes through its rows.
#pragma once

#include <vector>

#include "runtime/core/tensor.h"

namespace facula {

// Sequences of a batch, longest first, stored time by time: `sizes[t]` rows for time t, one for each
// sequence that is still running.
class RecurrentSteps {
 public:
  RecurrentSteps(IntList sizes, bool reverse) : sizes_(sizes), starts_(sizes.size() + 1, 0), reverse_(reverse) {
    for (size_t t = 0; t < sizes.size(); ++t) starts_[t + 1] = starts_[t] + sizes[t];
  }

  int64_t count() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t batch() const { return sizes_[0]; }
  int64_t rows() const { return starts_.back(); }
  // The time of the k-th step.
  int64_t time(int64_t k) const { return reverse_ ? count() - 1 - k : k; }
  int64_t size(int64_t t) const { return sizes_[static_cast<size_t>(t)]; }
  int64_t start(int64_t t) const { return starts_[static_cast<size_t>(t)]; }
  // Where the state of sequence r before time t was stored; -1 for the initial state.
  int64_t previous(int64_t t, int64_t r) const {
    const int64_t before = reverse_ ? t + 1 : t - 1;
    return before < 0 || before >= count() || r >= size(before) ? -1 : start(before) + r;
  }

 private:
  IntList sizes_;
  std::vector<int64_t> starts_;
  bool reverse_;
};

}  // namespace facula
