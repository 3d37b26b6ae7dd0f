#include "aten/cpu/index_plan.h"

#include <atomic>
#include <cstring>

#include "aten/cpu/bits.h"
#include "aten/cpu/move_loops.h"
#include "aten/geometry.h"
#include "runtime/iterate/stream.h"

namespace facula::cpu {

namespace {

[[noreturn]] void raise_out_of_range(const Tensor& index, int64_t low, int64_t size, int64_t dim, const char* op) {
  const int64_t* v = index.data<int64_t>();
  for (int64_t i = 0; i < index.numel(); ++i) {
    if (v[i] < low || v[i] >= size) {
      raise(ErrorKind::Index, op, "(): index ", v[i], " is out of range for dim ", dim, " of size ", size);
    }
  }
  raise(ErrorKind::Index, op, "(): an index is out of range for dim ", dim, " of size ", size);
}

}  // namespace

// Smallest index; raises when one is out of range.
int64_t check_range(const Tensor& index, int64_t low, int64_t size, int64_t dim, const char* op) {
  const int64_t* v = index.data<int64_t>();
  std::atomic<int64_t> smallest{0};
  std::atomic<bool> bad{false};
  parallel_for(0, index.numel(), kGrain, [&](int64_t b, int64_t e) {
    int64_t least, most;
    FACULA_BY_ISA(move_loops).range(v + b, e - b, &least, &most);
    if (least < low || most >= size) bad.store(true, std::memory_order_relaxed);
    int64_t seen = smallest.load(std::memory_order_relaxed);
    while (least < seen && !smallest.compare_exchange_weak(seen, least, std::memory_order_relaxed)) {
    }
  });
  if (bad.load()) raise_out_of_range(index, low, size, dim, op);
  return smallest.load();
}

namespace {

// Index tensors meet like all others, but what does not fit is an index error.
DimVector joined_shape(IntList a, IntList b, const char* op) {
  for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const int64_t x = a[a.size() - i], y = b[b.size() - i];
    FACULA_CHECK(x == y || x == 1 || y == 1, Index, op, "(): the indices have shapes ", shape_string(a), " and ",
                 shape_string(b), ", which do not broadcast");
  }
  return broadcast_shapes(a, b, op);
}

}  // namespace

std::vector<Tensor> prepare_indices(const Tensor& table, TensorList indices, bool wrap, const char* op,
                                    bool* negative) {
  DimVector shape;
  std::vector<Tensor> plain(indices.size());
  *negative = false;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    shape = joined_shape(shape, indices[d].sizes(), op);
    plain[d] = dense(indices[d], ScalarType::Int64);
  }
  if (numel_of(shape) == 0) {
    for (Tensor& t : plain) {
      if (t.defined()) t = make_empty(shape, ScalarType::Int64);
    }
    return plain;
  }
  for (size_t d = 0; d < plain.size(); ++d) {
    if (!plain[d].defined()) continue;
    const int64_t size = table.sizes()[d];
    *negative |= check_range(plain[d], wrap ? -size : 0, size, static_cast<int64_t>(d), op) < 0;
    if (!(plain[d].sizes() == IntList(shape))) {
      const Tensor spread = make_empty(shape, ScalarType::Int64);
      copy_strided(spread, plain[d]);
      plain[d] = spread;
    }
  }
  return plain;
}

IndexLayout index_layout(IntList table, TensorList indices, const char* op) {
  FACULA_CHECK(indices.size() <= table.size(), Index, op, "(): ", indices.size(), " indices for a tensor of ",
               table.size(), " dims");
  IndexLayout layout;
  DimVector shape;
  size_t first = table.size(), last = 0, count = 0;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    shape = joined_shape(shape, indices[d].sizes(), op);
    if (count++ == 0) first = d;
    last = d;
  }
  const bool adjacent = count == 0 || last - first + 1 == count;
  layout.first = adjacent ? (count == 0 ? 0 : first) : 0;
  layout.index_ndim = shape.size();
  for (size_t d = 0; d < layout.first; ++d) layout.sizes.push_back(table[d]);
  for (const int64_t s : shape) layout.sizes.push_back(s);
  for (size_t d = layout.first; d < table.size(); ++d) {
    if (d >= indices.size() || !indices[d].defined()) layout.sizes.push_back(table[d]);
  }
  return layout;
}

bool make_index_plan(const Tensor& table, const Tensor& side, const std::vector<Tensor>& indices,
                     const IndexLayout& layout, IndexPlan& plan) {
  const int64_t item = static_cast<int64_t>(table.itemsize());
  DimVector steps;
  broadcast_strides(side, layout.sizes.size(), steps);
  // The index dims of the dense side as one.
  const size_t first = layout.first, last = first + layout.index_ndim;
  plan.n = product(layout.sizes, first, last);
  plan.step = 0;
  if (plan.n == 0) return true;  // nothing to walk
  int64_t run = 1;
  bool any = false;
  for (size_t i = last; i-- > first;) {
    if (layout.sizes[i] == 1) continue;
    if (!any) {
      plan.step = steps[i];
      any = true;
    } else if (steps[i] != plan.step * run) {
      return false;
    }
    run *= layout.sizes[i];
  }

  plan.item = table.itemsize();
  plan.dims.clear();
  DimVector sizes[2], strides[2][2];  // outer and inner
  size_t at = 0;                      // dim of the dense side
  for (size_t d = 0; d < table.sizes().size(); ++d) {
    if (d == first) at = last;
    if (d < indices.size() && indices[d].defined()) {
      plan.dims.push_back({indices[d].data<int64_t>(), table.sizes()[d], table.strides()[d] * item});
      continue;
    }
    const size_t part = d < first ? 0 : 1;
    sizes[part].push_back(table.sizes()[d]);
    strides[part][0].push_back(table.strides()[d] * item);
    strides[part][1].push_back(steps[at++]);
  }
  char* const data[] = {static_cast<char*>(table.raw()), static_cast<char*>(side.raw())};
  plan.outer = make_plan(sizes[0], strides[0], data);
  plan.inner = make_plan(sizes[1], strides[1], data);
  plan.keep = indices;
  return true;
}

namespace {

template <typename T>
struct CopyOut {  // dense = table
  static void element(char* table, char* side) { *reinterpret_cast<T*>(side) = *reinterpret_cast<const T*>(table); }
  static void run(char* table, int64_t ts, char* side, int64_t ss, int64_t n) {
    if (ts == static_cast<int64_t>(sizeof(T)) && ss == ts) {
      std::memcpy(side, table, static_cast<size_t>(n) * sizeof(T));
      return;
    }
    for (int64_t i = 0; i < n; ++i) element(table + i * ts, side + i * ss);
  }
};

template <typename T>
struct CopyIn {  // table = dense
  static void element(char* table, char* side) { *reinterpret_cast<T*>(table) = *reinterpret_cast<const T*>(side); }
  static void run(char* table, int64_t ts, char* side, int64_t ss, int64_t n) {
    CopyOut<T>::run(side, ss, table, ts, n);
  }
};

template <typename T>
struct AddIn {  // table += dense
  static T sum(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) {
      return a || b;
    } else if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
  static void element(char* table, char* side) {
    T* t = reinterpret_cast<T*>(table);
    *t = sum(*t, *reinterpret_cast<const T*>(side));
  }
  static void run(char* table, int64_t ts, char* side, int64_t ss, int64_t n) {
    if (ts == static_cast<int64_t>(sizeof(T)) && ss == ts) {
      T* t = reinterpret_cast<T*>(table);
      const T* s = reinterpret_cast<const T*>(side);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) t[i] = sum(t[i], s[i]);
      return;
    }
    for (int64_t i = 0; i < n; ++i) element(table + i * ts, side + i * ss);
  }
};

// Byte offset in the table of position k.
struct Offsets {
  const IndexPlan& plan;
  int64_t operator()(int64_t k) const {
    int64_t offset = 0;
    for (const IndexedDim& d : plan.dims) {
      int64_t v = d.index[k];
      v += v < 0 ? d.size : 0;
      offset += v * d.stride;
    }
    return offset;
  }
};
struct TwoOffsets {
  IndexedDim a, b;
  explicit TwoOffsets(const IndexPlan& plan) : a(plan.dims[0]), b(plan.dims[1]) {}
  int64_t operator()(int64_t k) const {
    int64_t v = a.index[k], w = b.index[k];
    v += v < 0 ? a.size : 0;
    w += w < 0 ? b.size : 0;
    return v * a.stride + w * b.stride;
  }
};
struct OneOffset {
  IndexedDim d;
  explicit OneOffset(const IndexPlan& plan) : d(plan.dims[0]) {}
  int64_t operator()(int64_t k) const {
    int64_t v = d.index[k];
    v += v < 0 ? d.size : 0;
    return v * d.stride;
  }
};

// One position: the inner elements.
template <typename Op>
struct Inner {
  StridedPlan plan;
  bool single, flat;
  explicit Inner(const StridedPlan& p) : plan(p), single(p.numel == 1), flat(p.sizes.size() == 1) {}
  void operator()(char* table, char* side) {
    if (single) {
      Op::element(table, side);
    } else if (flat) {
      Op::run(table, plan.strides[0][0], side, plan.strides[1][0], plan.numel);
    } else {
      plan.data[0] = table;
      plan.data[1] = side;
      detail::walk_rows(plan, 0, plan.numel,
                        [](char** p, const int64_t* s, int64_t n) { Op::run(p[0], s[0], p[1], s[1], n); });
    }
  }
};

// Table and dense pointers at the outer position o.
void at_outer(const StridedPlan& outer, int64_t o, char** table, char** side) {
  *table = outer.data[0];
  *side = outer.data[1];
  for (size_t d = 0; d < outer.sizes.size() && o > 0; ++d) {
    const int64_t i = o % outer.sizes[d];
    o /= outer.sizes[d];
    *table += i * outer.strides[0][d];
    *side += i * outer.strides[1][d];
  }
}

// Positions in any order: for reading.
template <typename Op, typename Offset>
void visit_all(const IndexPlan& plan, const Offset& offset) {
  const int64_t work = plan.inner.numel;
  parallel_for(0, plan.outer.numel * plan.n, std::max<int64_t>(1, kGrain / std::max<int64_t>(work, 1)),
               [&](int64_t begin, int64_t end) {
                 Inner<Op> inner(plan.inner);
                 while (begin < end) {
                   const int64_t o = begin / plan.n, low = begin % plan.n;
                   const int64_t high = std::min(plan.n, low + (end - begin));
                   char *table, *side;
                   at_outer(plan.outer, o, &table, &side);
                   if (inner.single) {
                     for (int64_t k = low; k < high; ++k) Op::element(table + offset(k), side + k * plan.step);
                   } else {
                     for (int64_t k = low; k < high; ++k) inner(table + offset(k), side + k * plan.step);
                   }
                   begin += high - low;
                 }
               });
}

// Positions in order wherever two of them may meet: the table is shared out among the threads, by
// outer dims or by the values of one index, and each thread goes through the positions that are its.
template <typename Op, typename Offset>
void visit_in_order(const IndexPlan& plan, const Offset& offset) {
  const int64_t total = plan.outer.numel * plan.n * plan.inner.numel;
  const int64_t threads = total < 2 * kGrain || in_parallel_region() ? 1 : get_num_threads();
  const auto all = [&](int64_t first, int64_t last) {
    Inner<Op> inner(plan.inner);
    for (int64_t o = first; o < last; ++o) {
      char *table, *side;
      at_outer(plan.outer, o, &table, &side);
      if (inner.single) {
        for (int64_t k = 0; k < plan.n; ++k) Op::element(table + offset(k), side + k * plan.step);
      } else {
        for (int64_t k = 0; k < plan.n; ++k) inner(table + offset(k), side + k * plan.step);
      }
    }
  };
  if (threads == 1 || plan.outer.numel >= threads || plan.dims.empty()) {
    parallel_for(0, plan.outer.numel, std::max<int64_t>(1, kGrain / (plan.n * plan.inner.numel + 1)), all);
    return;
  }
  size_t widest = 0;
  for (size_t i = 1; i < plan.dims.size(); ++i) {
    if (plan.dims[i].size > plan.dims[widest].size) widest = i;
  }
  const IndexedDim& by = plan.dims[widest];
  const int64_t parts = std::min(threads, by.size);
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    const int64_t low = by.size * first / parts, high = by.size * last / parts;
    Inner<Op> inner(plan.inner);
    for (int64_t o = 0; o < plan.outer.numel; ++o) {
      char *table, *side;
      at_outer(plan.outer, o, &table, &side);
      for (int64_t begin = 0; begin < plan.n; begin += kCompactRun) {
        const int64_t end = std::min(plan.n, begin + kCompactRun);
        int32_t own[kCompactRun + 8];  // positions that are this thread's
        const int64_t count = FACULA_BY_ISA(move_loops)
                                  .within(own, reinterpret_cast<const char*>(by.index + begin), sizeof(int64_t),
                                          end - begin, by.size, low, high);
        if (inner.single) {
          for (int64_t i = 0; i < count; ++i) {
            Op::element(table + offset(begin + own[i]), side + (begin + own[i]) * plan.step);
          }
        } else {
          for (int64_t i = 0; i < count; ++i)
            inner(table + offset(begin + own[i]), side + (begin + own[i]) * plan.step);
        }
      }
    }
  });
}

template <typename Op, bool kOrdered>
void visit(const IndexPlan& plan) {
  if (plan.outer.numel * plan.n * plan.inner.numel == 0) return;
  const auto go = [&](const auto& offset) {
    if constexpr (kOrdered) {
      visit_in_order<Op>(plan, offset);
    } else {
      visit_all<Op>(plan, offset);
    }
  };
  if (plan.dims.size() == 1) {
    go(OneOffset(plan));
  } else if (plan.dims.size() == 2) {
    go(TwoOffsets(plan));
  } else {
    go(Offsets{plan});
  }
}

}  // namespace

void index_read(const IndexPlan& plan) {
  visit_bits(plan.item, [&]<typename T>(std::type_identity<T>) { visit<CopyOut<T>, false>(plan); });
}

void index_write(const IndexPlan& plan) {
  visit_bits(plan.item, [&]<typename T>(std::type_identity<T>) { visit<CopyIn<T>, true>(plan); });
}

void index_accumulate(const IndexPlan& plan, ScalarType dtype) {
  visit_dtype(dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (is_reduced_float_v<T>) {
      FACULA_ASSERT(false);
    } else {
      visit<AddIn<T>, true>(plan);
    }
  });
}

bool goes_by_rows(const IndexPlan& plan) {
  const int64_t item = static_cast<int64_t>(plan.item), n = plan.inner.numel;
  return plan.dims.size() == 1 && plan.outer.numel == 1 && plan.inner.sizes.size() == 1 && n * item >= 128 &&
         plan.inner.strides[0][0] == item && plan.inner.strides[1][0] == item && plan.dims[0].stride == n * item &&
         plan.n >= 4096 && plan.n < INT32_MAX && plan.dims[0].size <= 2 * plan.n;
}

void index_by_rows(const IndexPlan& plan, std::optional<ScalarType> sum, const void* origin) {
  const int64_t* const index = plan.dims[0].index;
  const int64_t size = plan.dims[0].size, n = plan.inner.numel;
  const auto row_of = [&](int64_t k) { return static_cast<size_t>(index[k] + (index[k] < 0 ? size : 0)); };
  // A stable sort by counting. At the end ends[r] is the end of row r and the begin of the next.
  std::vector<int32_t> ends(static_cast<size_t>(size) + 1), order(static_cast<size_t>(plan.n));
  for (int64_t k = 0; k < plan.n; ++k) ++ends[row_of(k) + 1];
  for (size_t r = 1; r < ends.size(); ++r) ends[r] += ends[r - 1];
  for (int64_t k = 0; k < plan.n; ++k) order[static_cast<size_t>(ends[row_of(k)]++)] = static_cast<int32_t>(k);
  char *table, *side;
  at_outer(plan.outer, 0, &table, &side);
  const int64_t row = n * static_cast<int64_t>(plan.item);
  const bool stream = table != origin && size * row >= kStreamBytes && whole_lines(table) && row % 64 == 0;
  const MoveLoops& loops = FACULA_BY_ISA(move_loops);
  const auto run = sum ? loops.sum_rows[static_cast<size_t>(*sum)] : loops.last_rows;
  const RowTerms terms{table, origin, side, plan.step, sum ? n : row, ends.data(), order.data(), plan.n, stream};
  parallel_for(0, size, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) { run(terms, begin, end); });
}

}  // namespace facula::cpu
