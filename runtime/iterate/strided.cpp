#include "runtime/iterate/strided.h"

#include <cstdlib>
#include <numeric>

namespace facula {

void broadcast_strides(const Tensor& t, size_t ndim, DimVector& strides) {
  const IntList sizes = t.sizes(), own = t.strides();
  const int64_t item = static_cast<int64_t>(t.itemsize());
  strides.resize(ndim);
  const size_t lead = ndim - sizes.size();
  for (size_t d = 0; d < lead; ++d) strides[d] = 0;
  for (size_t d = 0; d < sizes.size(); ++d) strides[lead + d] = sizes[d] == 1 ? 0 : own[d] * item;
}

DimVector iteration_order(IntList sizes, std::span<const DimVector> strides) {
  const size_t ndim = sizes.size();
  DimVector order(ndim);
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  // -1: a is inside b, 1: outside, 0: no operand tells.
  const auto compare = [&](size_t a, size_t b) {
    for (const DimVector& s : strides) {
      const int64_t x = std::abs(s[a]), y = std::abs(s[b]);
      if (x == 0 || y == 0) continue;
      if (x != y) return x < y ? -1 : 1;
      if (sizes[a] > sizes[b]) return 1;
    }
    return 0;
  };
  for (size_t i = 1; i < ndim; ++i) {
    for (size_t j = i, k = i; k-- > 0;) {
      const int c = compare(static_cast<size_t>(order[k]), static_cast<size_t>(order[j]));
      if (c < 0) break;
      if (c == 0) continue;
      std::swap(order[k], order[j]);
      j = k;
    }
  }
  return order;
}

StridedPlan make_plan(IntList sizes, std::span<const DimVector> strides, std::span<char* const> data) {
  StridedPlan plan;
  plan.operands = static_cast<int>(strides.size());
  for (size_t k = 0; k < strides.size(); ++k) plan.data[k] = data[k];
  for (const int64_t d : iteration_order(sizes, strides)) {
    const size_t dim = static_cast<size_t>(d);
    const int64_t size = sizes[dim];
    plan.numel *= size;
    if (size == 1) continue;
    bool merges = !plan.sizes.empty();
    for (size_t k = 0; merges && k < strides.size(); ++k) {
      merges = strides[k][dim] == plan.sizes.back() * plan.strides[k].back();
    }
    if (merges) {
      plan.sizes.back() *= size;
    } else {
      plan.sizes.push_back(size);
      for (size_t k = 0; k < strides.size(); ++k) plan.strides[k].push_back(strides[k][dim]);
    }
  }
  if (plan.sizes.empty()) {
    plan.sizes.push_back(1);
    for (size_t k = 0; k < strides.size(); ++k) plan.strides[k].push_back(0);
  }
  return plan;
}

StridedPlan make_plan(IntList sizes, std::span<const Tensor* const> operands, uint64_t skip) {
  FACULA_ASSERT(operands.size() <= static_cast<size_t>(StridedPlan::kMaxOperands));
  DimVector strides[StridedPlan::kMaxOperands];
  char* data[StridedPlan::kMaxOperands];
  DimVector walked(sizes);
  for (size_t d = 0; d < sizes.size() && d < 64; ++d) {
    if (skip >> d & 1u) walked[d] = 1;
  }
  for (size_t k = 0; k < operands.size(); ++k) {
    broadcast_strides(*operands[k], sizes.size(), strides[k]);
    data[k] = static_cast<char*>(operands[k]->raw());
  }
  return make_plan(walked, std::span<const DimVector>(strides, operands.size()),
                   std::span<char* const>(data, operands.size()));
}

}  // namespace facula
