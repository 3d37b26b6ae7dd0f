// Operators steered by a mask, and the places where a tensor is not zero.
#include <atomic>
#include <cstring>
#include <vector>

#include "aten/cpu/common/bits.h"
#include "aten/cpu/index/move_loops.h"
#include "facula/kernels.h"
#include "runtime/core/rounding.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

namespace {

constexpr int64_t kBlock = 1 << 16;

// True elements before each block of a dense mask.
std::vector<int64_t> block_starts(const uint8_t* mask, int64_t n) {
  const int64_t blocks = ceil_div(n, kBlock);
  std::vector<int64_t> starts(static_cast<size_t>(blocks) + 1, 0);
  parallel_for(0, blocks, 1, [&](int64_t b, int64_t e) {
    for (int64_t k = b; k < e; ++k) {
      starts[static_cast<size_t>(k) + 1] =
          FACULA_BY_ISA(move_loops).count(mask + k * kBlock, std::min(kBlock, n - k * kBlock));
    }
  });
  for (size_t k = 1; k < starts.size(); ++k) starts[k] += starts[k - 1];
  return starts;
}

// The same for a mask that should have `count` true elements.
std::vector<int64_t> block_starts(const uint8_t* mask, int64_t n, int64_t count) {
  std::vector<int64_t> starts = block_starts(mask, n);
  FACULA_CHECK(starts.back() == count, Shape, "the mask has ", starts.back(), " true elements, not ", count);
  return starts;
}

// fn(i, n, k, room): elements [i, i + n) of the mask, before which k are true. Pieces of at most kCompactRun
// elements, run in parallel; fn returns the number of true ones in its piece, of which `room` have a place: others
// become true when another thread writes to the mask after they were counted.
template <typename F>
void for_each_run(int64_t n, const std::vector<int64_t>& starts, const F& fn) {
  std::atomic<bool> changed{false};
  parallel_for(0, static_cast<int64_t>(starts.size()) - 1, 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      int64_t k = starts[static_cast<size_t>(block)];
      const int64_t full = starts[static_cast<size_t>(block) + 1];
      if (k == full) continue;
      const int64_t end = std::min(n, (block + 1) * kBlock);
      for (int64_t i = block * kBlock; i < end && k <= full; i += kCompactRun) {
        k += fn(i, std::min(kCompactRun, end - i), k, full - k);
      }
      if (k != full) changed.store(true, std::memory_order_relaxed);
    }
  });
  FACULA_CHECK(!changed.load(), Shape, "another thread wrote to the mask while its true elements were collected");
}

// The mask over `sizes`, dense.
Tensor dense_mask(const Tensor& mask, IntList sizes) {
  if (mask.sizes() == sizes) return dense(mask, ScalarType::Bool);
  const Tensor spread = make_empty(sizes, ScalarType::Bool);
  copy_strided(spread, mask);
  return spread;
}

void fill_where(const Tensor& self, const Tensor& mask, const Scalar& value, const Tensor& out) {
  const Element element = element_of(value, out.dtype(), "masked_fill");
  const Tensor* operands[] = {&out, &self, &mask};
  const StridedPlan plan = make_plan(out.sizes(), operands);
  const auto run = FACULA_BY_ISA(move_loops).select[size_log2(out.itemsize())];
  visit_bits(out.itemsize(), [&]<typename T>(std::type_identity<T>) {
    const T v = element.as<T>();
    constexpr int64_t kItem = sizeof(T);
    for_each_row(plan, [&](char** p, const int64_t* s, int64_t n) {
      if (s[0] == kItem && s[1] == kItem && s[2] == 1) {
        run(p[0], p[1], reinterpret_cast<const uint8_t*>(p[2]), element.bytes, n);
        return;
      }
      for (int64_t i = 0; i < n; ++i) {
        const bool hit = p[2][i * s[2]] != 0;
        *reinterpret_cast<T*>(p[0] + i * s[0]) = hit ? v : *reinterpret_cast<const T*>(p[1] + i * s[1]);
      }
    });
  });
}

}  // namespace

void masked_fill(const Tensor& self, const Tensor& mask, const Scalar& value, const Tensor& out) {
  fill_where(self, apart_from(mask, out), value, out);
}

void masked_fill_tensor(const Tensor& self, const Tensor& mask, const Tensor& value, const Tensor& out) {
  fill_where(self, apart_from(mask, out), load_element(value.raw(), value.dtype()), out);
}

int64_t nonzero_count(const Tensor& self) {
  const Tensor mask = dense(self, ScalarType::Bool);
  const std::vector<int64_t> starts = block_starts(mask.data<uint8_t>(), mask.numel());
  return starts.back();
}

void nonzero_fill(const Tensor& self, int64_t count, const Tensor& out) {
  const size_t ndim = self.sizes().size();
  if (ndim == 0) {
    FACULA_CHECK(count == nonzero_count(self), Runtime, Operator{"nonzero_fill"}, "wrong count ", count);
    return;
  }
  if (count == 0) return;
  const Tensor mask = dense(self, ScalarType::Bool);
  const Tensor target = out.is_contiguous() ? out : make_empty(out.sizes(), ScalarType::Int64);
  int64_t* const found = target.data<int64_t>();
  const uint8_t* const where = mask.data<uint8_t>();
  const std::vector<int64_t> starts = block_starts(where, mask.numel(), count);
  const auto positions = FACULA_BY_ISA(move_loops).positions;
  if (ndim == 1) {
    for_each_run(mask.numel(), starts, [&](int64_t i, int64_t n, int64_t k, int64_t room) {
      return positions(found + k, i, where + i, n, room);
    });
  } else {
    const IntList sizes = self.sizes();
    const int64_t last = sizes[ndim - 1], width = static_cast<int64_t>(ndim);
    for_each_run(mask.numel(), starts, [&](int64_t i, int64_t n, int64_t k, int64_t room) {
      int64_t flat[kCompactRun];
      const int64_t all = positions(flat, i, where + i, n, kCompactRun), hits = std::min(all, room);
      int64_t begin = 0, end = 0;  // the row of the last dim that `outer` belongs to
      DimVector outer(ndim - 1, 0);
      int64_t* row = found + k * width;
      for (int64_t h = 0; h < hits; ++h, row += width) {
        if (flat[h] >= end) {
          int64_t rest = flat[h] / last;
          begin = rest * last;
          end = begin + last;
          for (size_t d = ndim - 1; d-- > 1;) {
            outer[d] = rest % sizes[d];
            rest /= sizes[d];
          }
          outer[0] = rest;
        }
        for (size_t d = 0; d + 1 < ndim; ++d) row[d] = outer[d];
        row[ndim - 1] = flat[h] - begin;
      }
      return all;
    });
  }
  if (!target.is_same(out)) copy_strided(out, target);
}

void masked_gather(const Tensor& self, const Tensor& mask, int64_t count, const Tensor& out) {
  if (count == 0) return;
  const Tensor from = dense(self, self.dtype()), where = dense_mask(mask, self.sizes());
  const Tensor target = out.is_contiguous() ? out : make_empty(out.sizes(), out.dtype());
  const int64_t item = static_cast<int64_t>(from.itemsize());
  const auto compact = FACULA_BY_ISA(move_loops).compact[size_log2(from.itemsize())];
  const uint8_t* const mask_data = where.data<uint8_t>();
  const char* const source = static_cast<const char*>(from.raw());
  char* const found = static_cast<char*>(target.raw());
  for_each_run(where.numel(), block_starts(mask_data, where.numel(), count),
               [&](int64_t i, int64_t n, int64_t k, int64_t room) {
                 return compact(found + k * item, source + i * item, mask_data + i, n, room);
               });
  if (!target.is_same(out)) copy_strided(out, target);
}

void masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source, const Tensor& out) {
  const Tensor where = apart_from(dense_mask(mask, out.sizes()), out);
  const std::vector<int64_t> starts = block_starts(where.data<uint8_t>(), where.numel());
  FACULA_CHECK(starts.back() <= source.numel(), Runtime, Operator{"masked_scatter"}, Argument{"mask"}, " has ",
               starts.back(), " true elements, source only ", source.numel(), " elements");
  const Tensor from = apart_from(dense(source, out.dtype()), out);
  if (!out.is_same(self)) copy_strided(out, self);
  const Tensor target = out.is_contiguous() ? out : dense(out, out.dtype());
  visit_bits(out.itemsize(), [&]<typename T>(std::type_identity<T>) {
    const T* values = from.data<T>();
    T* to = target.data<T>();
    const uint8_t* const mask_data = where.data<uint8_t>();
    for_each_run(where.numel(), starts, [&](int64_t i, int64_t n, int64_t k, int64_t room) {
      int64_t hits = 0;
      for (int64_t j = i; j < i + n; ++j) {
        if (mask_data[j] == 0) continue;
        if (hits < room) to[j] = values[k + hits];
        ++hits;
      }
      return hits;
    });
  });
  if (!target.is_same(out)) copy_strided(out, target);
}

}  // namespace facula::cpu
