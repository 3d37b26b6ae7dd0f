// Iterating over several tensors at once: dims are broadcast, put in the order of the strides and merged
// where all operands allow, so that what is left is as few and as long rows as can be.
#pragma once

#include <algorithm>
#include <span>

#include "runtime/core/tensor.h"
#include "runtime/iterate/parallel.h"

namespace facula {

inline constexpr int64_t kGrain = 32768;  // elements a thread should get at least

struct StridedPlan {
  static constexpr int kMaxOperands = 8;
  int operands = 0;
  int64_t numel = 1;
  DimVector sizes;                  // innermost first, at least one dim
  DimVector strides[kMaxOperands];  // bytes
  char* data[kMaxOperands] = {};
};

// Strides in bytes over the dims of a result of `ndim` dims; 0 where `t` is broadcast.
FACULA_API void broadcast_strides(const Tensor& t, size_t ndim, DimVector& strides);

// Dims of the iteration, innermost first: by the strides of the first operand that tells two apart.
// `strides` in logical dim order.
FACULA_API DimVector iteration_order(IntList sizes, std::span<const DimVector> strides);

// Operands (at most eight, outputs first) broadcast to `sizes`. Dims in the bit set `skip` are left
// out: the iteration visits their first element only, and operands may differ in them.
FACULA_API StridedPlan make_plan(IntList sizes, std::span<const Tensor* const> operands, uint64_t skip = 0);
// The same from byte strides by logical dim; takes data pointers from `data`.
FACULA_API StridedPlan make_plan(IntList sizes, std::span<const DimVector> strides, std::span<char* const> data);

namespace detail {

// Calls fn(ptrs, strides, n) for the rows, or parts of them, that make up elements [begin, end).
template <typename F>
void for_each_row(const StridedPlan& plan, int64_t begin, int64_t end, const F& fn) {
  constexpr int kMax = StridedPlan::kMaxOperands;
  const size_t ndim = plan.sizes.size();
  int64_t inner[kMax];
  char* ptrs[kMax];
  for (int k = 0; k < plan.operands; ++k) {
    inner[k] = plan.strides[k][0];
    ptrs[k] = plan.data[k];
  }
  DimVector index(ndim, 0);
  for (size_t d = 0, rest = static_cast<size_t>(begin); d < ndim && rest > 0; ++d) {
    const size_t size = static_cast<size_t>(plan.sizes[d]);
    index[d] = static_cast<int64_t>(rest % size);
    rest /= size;
    for (int k = 0; k < plan.operands; ++k) ptrs[k] += index[d] * plan.strides[k][d];
  }
  while (true) {
    const int64_t n = std::min(plan.sizes[0] - index[0], end - begin);
    char* row[kMax];
    for (int k = 0; k < plan.operands; ++k) row[k] = ptrs[k];
    fn(row, static_cast<const int64_t*>(inner), n);
    begin += n;
    if (begin >= end) return;
    for (int k = 0; k < plan.operands; ++k) ptrs[k] -= index[0] * inner[k];
    index[0] = 0;
    for (size_t d = 1; d < ndim; ++d) {
      for (int k = 0; k < plan.operands; ++k) ptrs[k] += plan.strides[k][d];
      if (++index[d] < plan.sizes[d]) break;
      for (int k = 0; k < plan.operands; ++k) ptrs[k] -= index[d] * plan.strides[k][d];
      index[d] = 0;
    }
  }
}

}  // namespace detail

// fn(char** ptrs, const int64_t* byte_strides, int64_t n) over all rows, shared among threads; a row may
// be split. A grain of plan.numel or more keeps it on this thread.
template <typename F>
void for_each_row(const StridedPlan& plan, const F& fn, int64_t grain = kGrain) {
  if (plan.numel == 0) return;
  parallel_for(0, plan.numel, grain, [&](int64_t begin, int64_t end) { detail::for_each_row(plan, begin, end, fn); });
}

// dst = src for any strides and dtypes; src broadcasts to dst. Both on the CPU, not overlapping
// unless exactly. No checks of writability, no version bump.
FACULA_API void copy_strided(const Tensor& dst, const Tensor& src);

}  // namespace facula
