// sort, topk, kthvalue, median, mode, searchsorted.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "aten/cpu/bytes.h"
#include "aten/cpu/order.h"
#include "aten/cpu/reduce.h"
#include "facula/kernels.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

namespace {

constexpr int64_t kShared = 1 << 16;  // lines from here on are sorted by all threads

// One pass of a radix sort: `bits` bits from `shift` on. Each thread counts and moves its own part.
template <typename P>
void radix_pass(const P* from, P* to, int64_t n, int shift, int bits, int64_t parts, uint32_t* counts) {
  const int64_t buckets = int64_t{1} << bits;
  const P mask = static_cast<P>(buckets - 1);
  const int64_t length = (n + parts - 1) / parts;
  parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      uint32_t* count = counts + p * buckets;
      std::memset(count, 0, static_cast<size_t>(buckets) * sizeof(uint32_t));
      const int64_t last = std::min(n, (p + 1) * length);
      for (int64_t i = p * length; i < last; ++i) ++count[static_cast<size_t>((from[i] >> shift) & mask)];
    }
  });
  uint32_t sum = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    for (int64_t p = 0; p < parts; ++p) {
      const uint32_t c = counts[p * buckets + b];
      counts[p * buckets + b] = sum;
      sum += c;
    }
  }
  parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      uint32_t* count = counts + p * buckets;
      const int64_t last = std::min(n, (p + 1) * length);
      for (int64_t i = p * length; i < last; ++i) {
        const P v = from[i];
        to[count[static_cast<size_t>((v >> shift) & mask)]++] = v;
      }
    }
  });
}

template <typename P>
void insertion_sort(P* data, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const P v = data[i];
    int64_t j = i;
    for (; j > 0 && v < data[j - 1]; --j) data[j] = data[j - 1];
    data[j] = v;
  }
}

template <typename P>
void sort_any(P* data, P* scratch, int64_t n, bool shared) {
  if (n <= 24) return insertion_sort(data, n);
  // Positions come in order already, so only key bits that differ need a pass.
  P differ = 0;
  bool sorted = true;
  for (int64_t i = 1; i < n; ++i) {
    differ |= data[i] ^ data[0];
    sorted &= data[i - 1] < data[i];
  }
  if (sorted) return;
  differ >>= kHalfBits<P>;
  const uint64_t mask = static_cast<uint64_t>(differ);
  const int low = std::countr_zero(mask), high = 64 - std::countl_zero(mask);
  const int most = n >= (1 << 15) ? 11 : 8;
  const int passes = (high - low + most - 1) / most;
  if (n < 200 || n > std::numeric_limits<uint32_t>::max() || (passes > 3 && n < 100 * passes)) {
    std::sort(data, data + n);
    return;
  }
  const int bits = (high - low + passes - 1) / passes;
  const int64_t parts = shared && n >= kShared && !in_parallel_region() ? get_num_threads() : 1;
  Bytes counts(static_cast<size_t>(parts << bits) * sizeof(uint32_t));
  P *from = data, *to = scratch;
  for (int k = 0; k < passes; ++k) {
    const int shift = low + k * bits;
    radix_pass(from, to, n, kHalfBits<P> + shift, std::min(bits, high - shift), parts, counts.as<uint32_t>());
    std::swap(from, to);
  }
  if (from != data) std::memcpy(data, from, static_cast<size_t>(n) * sizeof(P));
}

// The lines of several tensors along one dim.
struct DimLines {
  StridedPlan plan;
  int64_t along[3] = {};  // elements
};
DimLines dim_lines(std::initializer_list<const Tensor*> operands, int64_t dim) {
  DimLines lines;
  const Tensor& first = **operands.begin();
  const bool scalar = first.dim() == 0;
  const int64_t d = scalar ? 0 : wrap_dim(dim, first.dim());
  int k = 0;
  for (const Tensor* t : operands) lines.along[k++] = scalar ? 1 : t->stride(d);
  lines.plan = make_plan(first.sizes(), std::span<const Tensor* const>(operands.begin(), operands.size()),
                         scalar ? 0 : uint64_t{1} << d);
  return lines;
}
int64_t line_size(const Tensor& t, int64_t dim) { return t.dim() == 0 ? 1 : t.size(dim); }

template <typename T>
T* at(char* p, int64_t bytes) { return reinterpret_cast<T*>(p + bytes); }

// The k first elements in order of n packed ones, sorted.
template <typename P>
void partial_sort(P* data, P* scratch, int64_t n, int64_t k, bool shared) {
  if (k >= n / 8) {
    sort_any(data, scratch, n, shared);
  } else {
    std::nth_element(data, data + k - 1, data + n);
    sort_any(data, scratch, k, false);
  }
}

// Collects what may be among the k first of a line: whatever is before the k-th first seen so far.
template <typename T, typename P>
int64_t candidates(const T* x, int64_t stride, int64_t n, bool largest, int64_t k, P* data) {
  using K = KeyOf<T>;
  const int64_t room = std::max<int64_t>(4 * k, k + 512);
  const auto key_at = [&](int64_t i) {
    const K key = to_key(x[i * stride]);
    return largest ? static_cast<K>(~key) : key;
  };
  int64_t held = 0, i = 0;
  bool full = false;
  K limit = static_cast<K>(~K(0));
  constexpr int64_t kBlock = 64;
  while (i < n) {
    const int64_t end = std::min(n, i + kBlock);
    if (full) {
      unsigned any = 0;
      for (int64_t j = i; j < end; ++j) any |= key_at(j) < limit;
      if (any == 0) {
        i = end;
        continue;
      }
    }
    for (; i < end; ++i) {
      const K key = key_at(i);
      if (full && key >= limit) continue;
      data[held++] = static_cast<P>(key) << kHalfBits<P> | static_cast<P>(static_cast<uint64_t>(i));
    }
    if (held + kBlock > room) {
      std::nth_element(data, data + k - 1, data + held);
      limit = static_cast<K>(data[k - 1] >> kHalfBits<P>);
      full = true;
      held = k;
    }
  }
  return held;
}

enum class Pick { Kth, Median, NanMedian, Mode };

// For each line one element and its position.
template <typename T>
void pick_lines(Pick what, const Tensor& self, int64_t k, int64_t dim, const Tensor& values, const Tensor& indices) {
  const int64_t n = line_size(self, dim);
  // The results have one element where self has n: expand them for the walk.
  const auto expand = [&](const Tensor& t) {
    if (self.dim() == 0) return alias(t, {}, {}, t.offset(), false);
    const int64_t d = wrap_dim(dim, self.dim());
    DimVector sizes(self.sizes().begin(), self.sizes().end()), strides(t.strides().begin(), t.strides().end());
    sizes[static_cast<size_t>(d)] = 1;
    if (t.dim() == self.dim()) {
      strides[static_cast<size_t>(d)] = 0;
    } else {
      strides.insert(strides.begin() + d, 0);
    }
    return alias(t, sizes, strides, t.offset(), false);
  };
  const Tensor v = expand(values), at_ = expand(indices);
  const int64_t d = self.dim() == 0 ? 0 : wrap_dim(dim, self.dim());
  const int64_t along = self.dim() == 0 ? 1 : self.stride(d);
  const Tensor* operands[] = {&v, &at_, &self};
  const StridedPlan plan = make_plan(v.sizes(), operands, self.dim() == 0 ? 0 : uint64_t{1} << d);
  with_packed<T>(n, [&]<typename P>(std::type_identity<P>) {
    for_each_row(
        plan,
        [&](char** ptrs, const int64_t* strides, int64_t lines) {
          Bytes memory(static_cast<size_t>(n) * sizeof(P) * (what == Pick::Mode ? 2 : 1));
          P* data = memory.as<P>();
          for (int64_t l = 0; l < lines; ++l) {
            const T* x = at<T>(ptrs[2], l * strides[2]);
            pack_line(x, along, n, false, data);
            int64_t position = 0;
            if (what == Pick::Mode) {
              sort_any(data, data + n, n, false);
              int64_t best = 0;
              for (int64_t i = 0; i < n;) {
                int64_t j = i + 1;
                // A NaN equals no other.
                const auto same = [&](int64_t a, int64_t b) { return x[a * along] == x[b * along]; };
                while (j < n && same(position_of(data[j]), position_of(data[i]))) ++j;
                if (j - i > best) {
                  best = j - i;
                  position = position_of(data[j - 1]);
                }
                i = j;
              }
            } else {
              int64_t rank = k - 1;
              if (what != Pick::Kth) {
                // NaNs have the last key; a median with one among its elements is NaN.
                int64_t numbers = n, first_nan = -1;
                if constexpr (!std::is_integral_v<T>) {
                  for (int64_t i = 0; i < n; ++i) {
                    const auto f = static_cast<opmath_t<T>>(x[i * along]);
                    if (f != f) {
                      if (first_nan < 0) first_nan = i;
                      --numbers;
                    }
                  }
                }
                if (first_nan >= 0 && (what == Pick::Median || numbers == 0)) {
                  rank = -1;
                  position = first_nan;
                } else {
                  rank = (numbers - 1) / 2;
                }
              }
              if (rank >= 0) {
                std::nth_element(data, data + rank, data + n);
                position = position_of(data[rank]);
              }
            }
            *at<T>(ptrs[0], l * strides[0]) = x[position * along];
            *at<int64_t>(ptrs[1], l * strides[1]) = position;
          }
        },
        std::max<int64_t>(1, kGrain / 8 / n));
  });
}

void pick(Pick what, const char* name, const Tensor& self, int64_t k, int64_t dim, const Tensor& values,
          const Tensor& indices) {
  if (values.numel() == 0) return;
  visit_ordered(self.dtype(), name, [&]<typename T>(std::type_identity<T>) {
    pick_lines<T>(what, self, k, dim, values, indices);
  });
}

}  // namespace

void sort_packed(uint64_t* data, uint64_t* scratch, int64_t n, bool shared) { sort_any(data, scratch, n, shared); }
void sort_packed(uint128* data, uint128* scratch, int64_t n, bool shared) { sort_any(data, scratch, n, shared); }

void sort(const Tensor& self, int64_t dim, bool descending, std::optional<bool>, const Tensor& out0,
          const Tensor& out1) {
  if (self.numel() == 0) return;
  const int64_t n = line_size(self, dim);
  const DimLines lines = dim_lines({&out0, &out1, &self}, dim);
  const bool shared = n >= kShared && self.numel() / n < 2 * get_num_threads();
  visit_ordered(self.dtype(), "sort", [&]<typename T>(std::type_identity<T>) {
    with_packed<T>(n, [&]<typename P>(std::type_identity<P>) {
      for_each_row(
          lines.plan,
          [&](char** ptrs, const int64_t* strides, int64_t count) {
            Bytes memory(static_cast<size_t>(n) * sizeof(P) * 2);
            P* data = memory.as<P>();
            for (int64_t l = 0; l < count; ++l) {
              const T* x = at<T>(ptrs[2], l * strides[2]);
              const bool lossless = pack_line(x, lines.along[2], n, descending, data);
              sort_any(data, data + n, n, shared);
              unpack_line(data, n, x, lines.along[2], descending, lossless, at<T>(ptrs[0], l * strides[0]),
                          lines.along[0], at<int64_t>(ptrs[1], l * strides[1]), lines.along[1]);
            }
          },
          shared ? lines.plan.numel : std::max<int64_t>(1, kGrain / 16 / n));
    });
  });
}

void topk(const Tensor& self, int64_t k, int64_t dim, bool largest, bool, const Tensor& out0, const Tensor& out1) {
  if (out0.numel() == 0) return;
  if (self.dim() == 0) k = 1;  // a 0-d result has its one element whatever k says
  const int64_t n = line_size(self, dim);
  // The walk is over the results' other dims, which are self's too.
  const DimLines lines = dim_lines({&out0, &out1, &self}, dim);
  const bool shared = n >= kShared && k >= n / 8 && self.numel() / n < 2 * get_num_threads();
  visit_ordered(self.dtype(), "topk", [&]<typename T>(std::type_identity<T>) {
    with_packed<T>(n, [&]<typename P>(std::type_identity<P>) {
      for_each_row(
          lines.plan,
          [&](char** ptrs, const int64_t* strides, int64_t count) {
            const bool few = k < n / 8 && n > 1024;
            const int64_t room = few ? std::max<int64_t>(4 * k, k + 512) + k : 2 * n;
            Bytes memory(static_cast<size_t>(room) * sizeof(P));
            P* data = memory.as<P>();
            for (int64_t l = 0; l < count; ++l) {
              const T* x = at<T>(ptrs[2], l * strides[2]);
              if (few) {
                const int64_t held = candidates(x, lines.along[2], n, largest, k, data);
                std::nth_element(data, data + k - 1, data + held);
                sort_any(data, data + (room - k), k, false);
              } else {
                pack_line(x, lines.along[2], n, largest, data);
                partial_sort(data, data + n, n, k, shared);
              }
              unpack_line(data, k, x, lines.along[2], largest, false, at<T>(ptrs[0], l * strides[0]), lines.along[0],
                          at<int64_t>(ptrs[1], l * strides[1]), lines.along[1]);
            }
          },
          shared ? lines.plan.numel : std::max<int64_t>(1, kGrain / 4 / n));
    });
  });
}

void kthvalue(const Tensor& self, int64_t k, int64_t dim, bool, const Tensor& out0, const Tensor& out1) {
  pick(Pick::Kth, "kthvalue", self, k, dim, out0, out1);
}
void median_dim(const Tensor& self, int64_t dim, bool, const Tensor& out0, const Tensor& out1) {
  pick(Pick::Median, "median", self, 0, dim, out0, out1);
}
void nanmedian_dim(const Tensor& self, int64_t dim, bool, const Tensor& out0, const Tensor& out1) {
  pick(Pick::NanMedian, "nanmedian", self, 0, dim, out0, out1);
}
void mode(const Tensor& self, int64_t dim, bool, const Tensor& out0, const Tensor& out1) {
  pick(Pick::Mode, "mode", self, 0, dim, out0, out1);
}

}  // namespace facula::cpu
