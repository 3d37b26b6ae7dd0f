// Operators steered by a mask, and the places where a tensor is not zero.
#include <cstring>
#include <vector>

#include "aten/cpu/bits.h"
#include "facula/kernels.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

namespace {

int64_t count_true(const uint8_t* mask, int64_t n) {
  int64_t count = 0;
  while (n > 0) {
    const int64_t run = std::min<int64_t>(n, 1 << 20);
    uint32_t part = 0;
    for (int64_t i = 0; i < run; ++i) part += mask[i];
    count += part;
    mask += run;
    n -= run;
  }
  return count;
}

constexpr int64_t kBlock = 1 << 16;

// True elements before each block of a dense mask.
std::vector<int64_t> block_starts(const uint8_t* mask, int64_t n) {
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  std::vector<int64_t> starts(static_cast<size_t>(blocks) + 1, 0);
  parallel_for(0, blocks, 1, [&](int64_t b, int64_t e) {
    for (int64_t k = b; k < e; ++k) {
      starts[static_cast<size_t>(k) + 1] = count_true(mask + k * kBlock, std::min(kBlock, n - k * kBlock));
    }
  });
  for (size_t k = 1; k < starts.size(); ++k) starts[k] += starts[k - 1];
  return starts;
}

// fn(i, k): element i is the k-th true one. Blocks run in parallel.
template <typename F>
void for_each_true(const uint8_t* mask, int64_t n, const F& fn) {
  const std::vector<int64_t> starts = block_starts(mask, n);
  parallel_for(0, static_cast<int64_t>(starts.size()) - 1, 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      int64_t k = starts[static_cast<size_t>(block)];
      const int64_t end = std::min(n, (block + 1) * kBlock);
      int64_t i = block * kBlock;
      while (i < end) {
        uint64_t word = 0;
        if (i + 8 <= end) {
          std::memcpy(&word, mask + i, 8);
          if (word == 0) {
            i += 8;
            continue;
          }
        }
        const int64_t stop = std::min(end, i + 8);
        for (; i < stop; ++i) {
          if (mask[i] != 0) fn(i, k++);
        }
      }
    }
  });
}

// The mask over `sizes`, dense.
Tensor dense_mask(const Tensor& mask, IntList sizes) {
  if (mask.sizes() == sizes) return dense(mask, ScalarType::Bool);
  const Tensor spread = make_empty(sizes, ScalarType::Bool);
  copy_strided(spread, mask);
  return spread;
}

template <typename T>
__attribute__((optimize("O3"))) void select_run(T* out, const T* self, const uint8_t* mask, T value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = mask[i] != 0 ? value : self[i];
}

void fill_where(const Tensor& self, const Tensor& mask, const Scalar& value, const Tensor& out) {
  const Element element = element_of(value, out.dtype(), "masked_fill");
  const Tensor* operands[] = {&out, &self, &mask};
  const StridedPlan plan = make_plan(out.sizes(), operands);
  visit_bits(out.itemsize(), [&]<typename T>(std::type_identity<T>) {
    const T v = element.as<T>();
    constexpr int64_t kItem = sizeof(T);
    for_each_row(plan, [v](char** p, const int64_t* s, int64_t n) {
      if (s[0] == kItem && s[1] == kItem && s[2] == 1) {
        T* out_row = reinterpret_cast<T*>(p[0]);
        const T* self_row = reinterpret_cast<const T*>(p[1]);
        select_run(out_row, self_row, reinterpret_cast<const uint8_t*>(p[2]), v, n);
        return;
      }
      for (int64_t i = 0; i < n; ++i) {
        const bool hit = *reinterpret_cast<const bool*>(p[2] + i * s[2]);
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
  fill_where(self, apart_from(mask, out), scalar_of(value), out);
}

int64_t nonzero_count(const Tensor& self) {
  const Tensor mask = dense(self, ScalarType::Bool);
  const std::vector<int64_t> starts = block_starts(mask.data<uint8_t>(), mask.numel());
  return starts.back();
}

void nonzero_fill(const Tensor& self, int64_t count, const Tensor& out) {
  const size_t ndim = self.sizes().size();
  if (count == 0 || ndim == 0) return;
  const Tensor mask = dense(self, ScalarType::Bool);
  const Tensor target = out.is_contiguous() ? out : make_empty(out.sizes(), ScalarType::Int64);
  int64_t* const found = target.data<int64_t>();
  if (ndim == 1) {
    for_each_true(mask.data<uint8_t>(), mask.numel(), [&](int64_t i, int64_t k) {
      if (k < count) found[k] = i;
    });
  } else {
    const IntList sizes = self.sizes();
    for_each_true(mask.data<uint8_t>(), mask.numel(), [&](int64_t i, int64_t k) {
      if (k >= count) return;
      int64_t* row = found + k * static_cast<int64_t>(ndim);
      uint64_t rest = static_cast<uint64_t>(i);
      for (size_t d = ndim; d-- > 1;) {
        const uint64_t size = static_cast<uint64_t>(sizes[d]);
        row[d] = static_cast<int64_t>(rest % size);
        rest /= size;
      }
      row[0] = static_cast<int64_t>(rest);
    });
  }
  if (!target.is_same(out)) copy_strided(out, target);
}

void masked_gather(const Tensor& self, const Tensor& mask, int64_t count, const Tensor& out) {
  if (count == 0) return;
  const Tensor from = dense(self, self.dtype()), where = dense_mask(mask, self.sizes());
  const Tensor target = out.is_contiguous() ? out : make_empty(out.sizes(), out.dtype());
  visit_bits(from.itemsize(), [&]<typename T>(std::type_identity<T>) {
    const T* source = from.data<T>();
    T* found = target.data<T>();
    for_each_true(where.data<uint8_t>(), where.numel(), [&](int64_t i, int64_t k) {
      if (k < count) found[k] = source[i];
    });
  });
  if (!target.is_same(out)) copy_strided(out, target);
}

void masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source, const Tensor& out) {
  const Tensor where = apart_from(dense_mask(mask, out.sizes()), out);
  const std::vector<int64_t> starts = block_starts(where.data<uint8_t>(), where.numel());
  FACULA_CHECK(starts.back() <= source.numel(), Runtime, "masked_scatter(): mask has ", starts.back(),
               " true elements, source only ", source.numel(), " elements");
  const Tensor from = apart_from(dense(source, out.dtype()), out);
  if (!out.is_same(self)) copy_strided(out, self);
  const Tensor target = out.is_contiguous() ? out : dense(out, out.dtype());
  visit_bits(out.itemsize(), [&]<typename T>(std::type_identity<T>) {
    const T* values = from.data<T>();
    T* to = target.data<T>();
    for_each_true(where.data<uint8_t>(), where.numel(), [&](int64_t i, int64_t k) { to[i] = values[k]; });
  });
  if (!target.is_same(out)) copy_strided(out, target);
}

}  // namespace facula::cpu
