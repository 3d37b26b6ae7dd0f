// sort, topk, kthvalue, median and mode: one line along the dim after the other.
#include <algorithm>
#include <cmath>

#include "aten/cpu/common/bytes.h"
#include "aten/cpu/sort/order.h"
#include "aten/cpu/reduce/reduce.h"
#include "facula/kernels.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

namespace {

// The lines of several tensors along one dim, which may have different sizes in that dim.
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

// A result without `dim`, as if it had one element there.
Tensor with_dim(const Tensor& t, const Tensor& self, int64_t dim) {
  if (self.dim() == 0 || t.dim() == self.dim()) return t;
  const int64_t d = wrap_dim(dim, self.dim());
  DimVector sizes(t.sizes().begin(), t.sizes().end()), strides(t.strides().begin(), t.strides().end());
  sizes.insert(sizes.begin() + d, 1);
  strides.insert(strides.begin() + d, 0);
  return alias(t, sizes, strides, t.offset(), false);
}

// Writes n values and positions, `make(i, value, position)` giving number i.
template <typename C, typename F>
void write_line(int64_t n, const Tensor& values, char* to_values, int64_t value_stride, char* to_indices,
                int64_t index_stride, const F& make) {
  constexpr int64_t kPart = 256;
  C part[kPart];
  int64_t* indices = reinterpret_cast<int64_t*>(to_indices);
  const int64_t item = static_cast<int64_t>(values.itemsize());
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t m = std::min(kPart, n - i);
    for (int64_t j = 0; j < m; ++j) make(i + j, part[j], indices[(i + j) * index_stride]);
    store_elements(values.dtype(), to_values + i * value_stride * item, value_stride, dtype_of_v<C>, part, m);
  }
}

// The k first elements of a line in order, for k small against n: of those before the k-th first seen so
// far. `data` has room for candidate_room(k) elements.
int64_t candidate_room(int64_t k) { return 4 * k + 128; }
template <typename C>
void filter_first(const C* x, int64_t n, bool largest, int64_t k, PackedOf<C>* data) {
  using K = KeyOf<C>;
  using P = PackedOf<C>;
  const OrderTable& table = FACULA_BY_ISA(order_table);
  const OrderLoops<C>& loops = loops_of<C>(table);
  const K flip = largest ? ~K(0) : K(0);
  const int64_t room = candidate_room(k);
  int64_t held = 0;
  const K bound = k <= 64 ? loops.bound(x, std::min<int64_t>(n, 4096), flip, k) : ~K(0);
  bool limited = bound != ~K(0), full = false;
  K limit = bound + 1;  // if limited, keys from here on do not count; with k elements those at the bound neither
  for (int64_t i = 0; i < n;) {
    if (limited) i += loops.skip(x + i, n - i, flip, limit);
    K keys[16];
    const int64_t m = std::min<int64_t>(16, n - i);
    loops.keys(x + i, m, flip, keys);
    for (int64_t j = 0; j < m; ++j) {
      data[held] = static_cast<P>(keys[j]) << kHalfBits<P> | static_cast<P>(static_cast<uint64_t>(i + j));
      held += !limited || keys[j] < limit ? 1 : 0;
    }
    i += m;
    if (held < k) continue;
    if (!full) {
      limit = bound;
      limited = full = true;
    }
    if (held + 16 > room) {
      select_packed(data, held, k);
      limit = static_cast<K>(data[k - 1] >> kHalfBits<P>);
      held = k;
    }
  }
  // The bound does not hold where another thread has written to the line since: any k elements do.
  for (; held < k; ++held) data[held] = ~P(0) << kHalfBits<P> | static_cast<P>(static_cast<uint64_t>(held));
  if constexpr (sizeof(P) == 8) {
    if (held <= 64) return table.rank_sort(data, held);
  }
  select_packed(data, held, k);
  sort_in_place(data, k);
}

template <typename C>
void pack_line(const C* x, int64_t n, bool descending, PackedOf<C>* data) {
  using P = PackedOf<C>;
  const KeyOf<C> flip = descending ? ~KeyOf<C>(0) : KeyOf<C>(0);
  in_blocks(n, [&](int64_t i, int64_t last) {
    for (; i < last; ++i) {
      data[i] = static_cast<P>(to_key(x[i]) ^ flip) << kHalfBits<P> | static_cast<P>(static_cast<uint64_t>(i));
    }
  });
}

// The k first elements of a line in order; `data` has room for 2 n.
template <typename C>
void select_first(const C* x, int64_t n, bool largest, int64_t k, PackedOf<C>* data) {
  using P = PackedOf<C>;
  pack_line(x, n, largest, data);
  std::copy(data, data + n, data + n);
  const P last = kth_packed(data + n, n, k);
  int64_t held = 0;
  in_blocks(n, [&](int64_t i, int64_t end) {
    for (; i < end && held < k; ++i) {
      data[held] = data[i];
      held += data[i] <= last ? 1 : 0;
    }
  });
  if constexpr (sizeof(P) == 8) {
    sort_packed(data, data + n, k, false);
  } else {
    sort_in_place(data, k);
  }
}

enum class Pick { Kth, Median, NanMedian };

// The position of the element that is wanted of a line.
template <typename C>
int64_t picked_position(Pick what, const C* x, int64_t n, int64_t k, PackedOf<C>* data) {
  int64_t rank = k;
  if (what != Pick::Kth) {
    // NaNs have the last key; a median with one among its elements is NaN.
    int64_t numbers = n, first_nan = -1;
    if constexpr (!std::is_integral_v<C>) {
      numbers = 0;
      in_blocks(n, [&](int64_t i, int64_t end) {
        for (; i < end; ++i) numbers += x[i] == x[i];
      });
      if (numbers < n) {
        first_nan = 0;  // elements may change meanwhile
        while (first_nan < n - 1 && x[first_nan] == x[first_nan]) ++first_nan;
      }
    }
    if (first_nan >= 0 && (what == Pick::Median || numbers == 0)) return first_nan;
    rank = (numbers + 1) / 2;
  }
  pack_line(x, n, false, data);
  return position_of(kth_packed(data, n, rank));
}

// For each line one element and its position; position(const C* x, P* scratch).
template <typename C, typename F>
void pick_lines(const Tensor& self, int64_t dim, const Tensor& values, const Tensor& indices, size_t scratch,
                const F& position) {
  const int64_t n = line_size(self, dim);
  const Tensor v = with_dim(values, self, dim), at = with_dim(indices, self, dim);
  const DimLines lines = dim_lines({&v, &at, &self}, dim);
  for_each_row(
      lines.plan,
      [&](char** ptrs, const int64_t* strides, int64_t count) {
        Bytes memory(bytes_for<C>(n) + scratch);
        C* buffer = reinterpret_cast<C*>(memory.bytes() + scratch);
        for (int64_t l = 0; l < count; ++l) {
          const C* x = contiguous_line<C>(self.dtype(), ptrs[2] + l * strides[2], lines.along[2], n, buffer);
          const int64_t p = position(x, memory.bytes());
          convert_elements(values.dtype(), ptrs[0] + l * strides[0], dtype_of_v<C>, x + p, 1);
          *reinterpret_cast<int64_t*>(ptrs[1] + l * strides[1]) = p;
        }
      },
      std::max<int64_t>(1, kGrain / 8 / n));
}

void pick(Pick what, const char* name, const Tensor& self, int64_t k, int64_t dim, const Tensor& values,
          const Tensor& indices) {
  if (values.numel() == 0) return;
  const int64_t n = line_size(self, dim);
  visit_ordered(self.dtype(), name, [&]<typename C>(std::type_identity<C>) {
    pick_lines<C>(self, dim, values, indices, bytes_for<PackedOf<C>>(n), [&](const C* x, char* s) {
      return picked_position<C>(what, x, n, k, reinterpret_cast<PackedOf<C>*>(s));
    });
  });
}

}  // namespace

void sort(const Tensor& self, int64_t dim, bool descending, std::optional<bool>, const Tensor& out0,
          const Tensor& out1) {
  if (self.numel() == 0) return;
  const int64_t n = line_size(self, dim), item = static_cast<int64_t>(out0.itemsize());
  const DimLines lines = dim_lines({&out0, &out1, &self}, dim);
  const bool shared = n >= kShared && self.numel() / n < 2 * get_num_threads();
  visit_ordered(self.dtype(), "sort", [&]<typename C>(std::type_identity<C>) {
    for_each_row(
        lines.plan,
        [&](char** ptrs, const int64_t* strides, int64_t count) {
          Bytes memory(bytes_for<C>(n));
          SortedLine<C> sorted(n, descending, shared);
          for (int64_t l = 0; l < count; ++l) {
            const C* x = contiguous_line<C>(self.dtype(), ptrs[2] + l * strides[2], lines.along[2], n, memory.as<C>());
            sorted.sort(x);
            char *to_values = ptrs[0] + l * strides[0], *to_indices = ptrs[1] + l * strides[1];
            sorted.parts().each([&](int64_t, int64_t begin, int64_t end) {
              write_line<C>(end - begin, out0, to_values + begin * lines.along[0] * item, lines.along[0],
                            to_indices + begin * lines.along[1] * 8, lines.along[1],
                            [&](int64_t i, C& value, int64_t& at) {
                              value = sorted.value(begin + i);
                              at = sorted.position(begin + i);
                            });
            });
          }
        },
        shared ? lines.plan.numel : std::max<int64_t>(1, kGrain / 16 / n));
  });
}

void topk(const Tensor& self, int64_t k, int64_t dim, bool largest, bool, const Tensor& out0, const Tensor& out1) {
  if (out0.numel() == 0) return;
  if (self.dim() == 0) k = 1;  // a 0-d result has its one element whatever k says
  const int64_t n = line_size(self, dim);
  const DimLines lines = dim_lines({&out0, &out1, &self}, dim);
  const bool partial = k < n / 3 && n > 128;
  const bool rare = k < n / 32 || k <= 64;  // worth looking for the elements that may count
  const bool shared = !partial && n >= kShared && self.numel() / n < 2 * get_num_threads();
  visit_ordered(self.dtype(), "topk", [&]<typename C>(std::type_identity<C>) {
    using P = PackedOf<C>;
    for_each_row(
        lines.plan,
        [&](char** ptrs, const int64_t* strides, int64_t count) {
          const int64_t held_most = rare ? candidate_room(k) : 2 * n;
          const size_t room = partial ? bytes_for<P>(held_most) : 0;
          Bytes memory(bytes_for<C>(n) + room);
          P* data = memory.as<P>();
          C* buffer = reinterpret_cast<C*>(memory.bytes() + room);
          SortedLine<C> sorted(partial ? 0 : n, largest, shared);
          for (int64_t l = 0; l < count; ++l) {
            const C* x = contiguous_line<C>(self.dtype(), ptrs[2] + l * strides[2], lines.along[2], n, buffer);
            char *to_values = ptrs[0] + l * strides[0], *to_indices = ptrs[1] + l * strides[1];
            if (partial) {
              if (rare) {
                filter_first(x, n, largest, k, data);
              } else {
                select_first(x, n, largest, k, data);
              }
              write_line<C>(k, out0, to_values, lines.along[0], to_indices, lines.along[1],
                            [&](int64_t i, C& value, int64_t& at) {
                              at = position_of(data[i]);
                              value = x[at];
                            });
            } else {
              sorted.sort(x);
              write_line<C>(k, out0, to_values, lines.along[0], to_indices, lines.along[1],
                            [&](int64_t i, C& value, int64_t& at) {
                              value = sorted.value(i);
                              at = sorted.position(i);
                            });
            }
          }
        },
        shared ? lines.plan.numel : std::max<int64_t>(1, kGrain / 4 / n));
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
  if (out0.numel() == 0) return;
  const int64_t n = line_size(self, dim);
  visit_ordered(self.dtype(), "mode", [&]<typename C>(std::type_identity<C>) {
    pick_lines<C>(self, dim, out0, out1, 0, [&](const C* x, char*) {
      SortedLine<C> sorted(n, false, false);
      sorted.sort(x);
      const auto is_nan = [&](int64_t i) {
        const C v = sorted.value(i);
        return v != v;
      };
      int64_t best = 0, position = 0;
      for (int64_t i = 0; i < n;) {
        int64_t j = i + 1;
        for (; j < n && (!sorted.differs(j) || (is_nan(j) && is_nan(j - 1))); ++j) count_step();
        count_step();
        if (j - i > best) {
          best = j - i;
          position = sorted.position(j - 1);
        }
        i = j;
      }
      return position;
    });
  });
}

}  // namespace facula::cpu
