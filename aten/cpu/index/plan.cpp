#include "aten/cpu/index/plan.h"

#include <cstring>

#include "aten/cpu/common/bits.h"
#include "aten/cpu/index/long_sums.h"
#include "aten/cpu/index/move_loops.h"
#include "runtime/iterate/stream.h"

namespace facula::cpu {

void raise_out_of_range(const Tensor& index, int64_t low, int64_t size, int64_t dim, const char* op) {
  const int64_t* p = index.data<int64_t>();
  for (int64_t i = 0; i < index.numel(); ++i) {
    const int64_t v = read_once(p + i);
    if (v < low || v >= size) {
      raise(ErrorKind::Index, Operator{op}, Argument{"index"}, " ", v, " is out of range for dim ", dim, " of size ",
            size);
    }
  }
  raise(ErrorKind::Index, Operator{op}, "an index was out of range for dim ", dim, " of size ", size,
        " while another thread wrote to it");
}

void check_range(const Tensor& index, int64_t low, int64_t size, int64_t dim, const char* op) {
  const int64_t* v = index.data<int64_t>();
  std::atomic<bool> bad{false};
  parallel_for(0, index.numel(), kGrain, [&](int64_t b, int64_t e) {
    int64_t least, most;
    FACULA_BY_ISA(move_loops).range(v + b, e - b, &least, &most);
    if (least < low || most >= size) bad.store(true, std::memory_order_relaxed);
  });
  if (bad.load()) raise_out_of_range(index, low, size, dim, op);
}

std::vector<Tensor> prepare_indices(TensorList indices, const char* op) {
  DimVector shape;
  std::vector<Tensor> plain(indices.size());
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    shape = index_shape(shape, indices[d].sizes(), op);
    plain[d] = dense(indices[d], ScalarType::Int64);
  }
  const bool none = numel_of(shape) == 0;
  for (Tensor& t : plain) {
    if (!t.defined() || t.sizes() == IntList(shape)) continue;
    const Tensor spread = make_empty(shape, ScalarType::Int64);
    if (!none) copy_strided(spread, t);
    t = spread;
  }
  return plain;
}

void check_indices(const Tensor& table, const std::vector<Tensor>& indices, bool wrap, const char* op) {
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    const int64_t size = table.sizes()[d];
    check_range(indices[d], wrap ? -size : 0, size, static_cast<int64_t>(d), op);
  }
}

void raise_bad_index(const Tensor& table, const std::vector<Tensor>& indices, bool wrap, const char* op) {
  check_indices(table, indices, wrap, op);
  size_t d = 0;
  while (!indices[d].defined()) ++d;
  const int64_t size = table.sizes()[d];
  raise_out_of_range(indices[d], wrap ? -size : 0, size, static_cast<int64_t>(d), op);
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
  if (plan.n == 0) return true;  // nothing to visit
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

template <typename Sum, typename T>
struct AddIn {  // table += dense
  static Sum sum(Sum a, T b) {
    if constexpr (std::is_same_v<T, bool>) {
      return a || b;
    } else if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + static_cast<Sum>(b);
    }
  }
  static void element(char* table, char* side) {
    Sum* t = reinterpret_cast<Sum*>(table);
    *t = sum(*t, *reinterpret_cast<const T*>(side));
  }
  static void run(char* table, int64_t ts, char* side, int64_t ss, int64_t n) {
    if (ts == static_cast<int64_t>(sizeof(Sum)) && ss == static_cast<int64_t>(sizeof(T))) {
      Sum* t = reinterpret_cast<Sum*>(table);
      const T* s = reinterpret_cast<const T*>(side);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) t[i] = sum(t[i], s[i]);
      return;
    }
    for (int64_t i = 0; i < n; ++i) element(table + i * ts, side + i * ss);
  }
};

// Byte offsets in the table of up to kCompactRun positions. Each index is read once, so what is checked is what is
// used.
class Offsets {
 public:
  // The values of dim `last` stay in reach.
  explicit Offsets(const IndexPlan& plan, size_t last = 0)
      : plan_(plan), last_(last), scale_(plan.dims.size() == 1 ? plan.dims[0].stride : 1) {}
  // Of positions [begin, begin + n); false when an index is out of range.
  bool load(int64_t begin, int64_t n) {
    const size_t count = plan_.dims.size();
    if (count == 1) return read(plan_.dims[0], begin, n, offset_);
    if (count == 0) std::fill_n(offset_, n, 0);
    bool good = true;
    for (size_t d = 0, done = 0; done < count; ++done) {
      d = done + 1 == count ? last_ : done < last_ ? done : done + 1;
      const IndexedDim& dim = plan_.dims[d];
      good &= read(dim, begin, n, value_);
      for (int64_t i = 0; i < n; ++i) offset_[i] = (done == 0 ? 0 : offset_[i]) + value_[i] * dim.stride;
    }
    return good;
  }
  // Offsets are these times the scale.
  const int64_t* parts() const { return offset_; }
  int64_t scale() const { return scale_; }
  const int64_t* values() const { return plan_.dims.size() == 1 ? offset_ : value_; }

 private:
  bool read(const IndexedDim& dim, int64_t begin, int64_t n, int64_t* to) const {
    return FACULA_BY_ISA(move_loops)
        .checked(to, reinterpret_cast<const char*>(dim.index + begin), sizeof(int64_t), n, plan_.wrap ? dim.size : 0,
                 dim.size);
  }
  const IndexPlan& plan_;
  size_t last_;
  int64_t scale_;  // of what offset_ holds: of one dim the index itself
  int64_t offset_[kCompactRun], value_[kCompactRun];
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
      detail::for_each_row(plan, 0, plan.numel,
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

// One element a position. Not inlined, so that all it needs is in registers.
template <typename Op>
[[gnu::noinline]] void visit_elements(char* table, const int64_t* __restrict at, int64_t scale, char* side,
                                      int64_t step, int64_t n) {
  for (int64_t k = 0; k < n; ++k) Op::element(table + at[k] * scale, side + k * step);
}
// The same of one index that has been checked; false when one is out of range all the same.
template <typename Op>
[[gnu::noinline]] bool visit_known(char* table, const IndexedDim& dim, int64_t wrap, char* side, int64_t step,
                                   int64_t n) {
  const uint64_t size = static_cast<uint64_t>(dim.size);
  const int64_t* const index = dim.index;
  const int64_t scale = dim.stride;
  for (int64_t k = 0; k < n; ++k) {
    int64_t v = read_once(index + k);
    v += (v >> 63) & wrap;
    if (static_cast<uint64_t>(v) >= size) [[unlikely]]
      return false;
    Op::element(table + v * scale, side + k * step);
  }
  return true;
}
// The same of the positions `own`.
template <typename Op>
[[gnu::noinline]] void visit_own(char* table, const int64_t* __restrict at, int64_t scale, char* side, int64_t step,
                                 const int32_t* __restrict own, int64_t n) {
  for (int64_t i = 0; i < n; ++i) Op::element(table + at[i] * scale, side + own[i] * step);
}

// Positions [low, high) at each of `rows` outer positions from o on, block by block.
template <typename Op>
void visit_block(const IndexPlan& plan, Inner<Op>& inner, Offsets& offsets, int64_t o, int64_t rows, int64_t low,
                 int64_t high) {
  for (int64_t first = low; first < high; first += kCompactRun) {
    const int64_t n = std::min(high - first, kCompactRun);
    if (!offsets.load(first, n)) {
      plan.good.store(false, std::memory_order_relaxed);
      continue;
    }
    const int64_t* const at = offsets.parts();
    const int64_t scale = offsets.scale(), step = plan.step;
    for (int64_t r = 0; r < rows; ++r) {
      char *table, *side;
      at_outer(plan.outer, o + r, &table, &side);
      side += first * step;
      if (inner.single) {
        visit_elements<Op>(table, at, scale, side, step, n);
      } else {
        for (int64_t k = 0; k < n; ++k) inner(table + at[k] * scale, side + k * step);
      }
    }
  }
}

// Positions in any order: for reading.
template <typename Op>
void visit_all(const IndexPlan& plan) {
  const int64_t work = plan.inner.numel;
  parallel_for(0, plan.outer.numel * plan.n, std::max<int64_t>(1, kGrain / std::max<int64_t>(work, 1)),
               [&](int64_t begin, int64_t end) {
                 Inner<Op> inner(plan.inner);
                 Offsets offsets(plan);
                 while (begin < end) {
                   const int64_t o = begin / plan.n, low = begin % plan.n;
                   const int64_t rows = low > 0 ? 1 : std::max<int64_t>(1, (end - begin) / plan.n);
                   const int64_t high = std::min(plan.n, low + (end - begin));
                   visit_block(plan, inner, offsets, o, rows, low, high);
                   begin += rows * (high - low);
                 }
               });
}

// Positions in order wherever two of them may meet: the table is shared out among the threads, by
// outer dims or by the values of one index, and each thread goes through the positions that are its.
template <typename Op>
void visit_in_order(const IndexPlan& plan) {
  const int64_t total = plan.outer.numel * plan.n * plan.inner.numel;
  const int64_t threads = total < 2 * kGrain || in_parallel_region() ? 1 : get_num_threads();
  if (threads == 1 || plan.outer.numel >= threads || plan.dims.empty()) {
    parallel_for(0, plan.outer.numel, std::max<int64_t>(1, kGrain / (plan.n * plan.inner.numel + 1)),
                 [&](int64_t first, int64_t last) {
                   Inner<Op> inner(plan.inner);
                   Offsets offsets(plan);
                   if (plan.dims.size() != 1 || !inner.single) {
                     visit_block(plan, inner, offsets, first, last - first, 0, plan.n);
                     return;
                   }
                   const IndexedDim& dim = plan.dims[0];
                   for (int64_t o = first; o < last; ++o) {
                     char *table, *side;
                     at_outer(plan.outer, o, &table, &side);
                     if (!visit_known<Op>(table, dim, plan.wrap ? dim.size : 0, side, plan.step, plan.n)) {
                       plan.good.store(false, std::memory_order_relaxed);
                     }
                   }
                 });
    return;
  }
  size_t widest = 0;
  for (size_t i = 1; i < plan.dims.size(); ++i) {
    if (plan.dims[i].size > plan.dims[widest].size) widest = i;
  }
  const IndexedDim& by = plan.dims[widest];
  const bool one = plan.dims.size() == 1;
  const int64_t parts = std::min(threads, by.size), wrap = one && plan.wrap ? by.size : 0;
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    const int64_t low = by.size * first / parts, high = by.size * last / parts;
    const auto within = FACULA_BY_ISA(move_loops).within;
    Inner<Op> inner(plan.inner);
    Offsets offsets(plan, widest);
    int32_t own[kCompactRun + 8];  // positions that are this thread's
    int64_t value[kCompactRun + 8];
    for (int64_t begin = 0; begin < plan.n; begin += kCompactRun) {
      const int64_t n = std::min(plan.n - begin, kCompactRun);
      if (!one && !offsets.load(begin, n)) {
        plan.good.store(false, std::memory_order_relaxed);
        continue;
      }
      const int64_t* index = one ? by.index + begin : offsets.values();
      const int64_t count =
          within(own, value, reinterpret_cast<const char*>(index), sizeof(int64_t), n, wrap, low, high);
      for (int64_t i = 0; i < count && !one; ++i) value[i] = offsets.parts()[own[i]];
      const int64_t scale = one ? by.stride : 1;
      for (int64_t o = 0; o < plan.outer.numel; ++o) {
        char *table, *side;
        at_outer(plan.outer, o, &table, &side);
        side += begin * plan.step;
        if (inner.single) {
          visit_own<Op>(table, value, scale, side, plan.step, own, count);
        } else {
          for (int64_t i = 0; i < count; ++i) inner(table + value[i] * scale, side + own[i] * plan.step);
        }
      }
    }
  });
}

bool has_work(const IndexPlan& plan) { return plan.outer.numel * plan.n * plan.inner.numel > 0; }

}  // namespace

void index_read(const IndexPlan& plan) {
  if (!has_work(plan)) return;
  visit_bits(plan.item, [&]<typename T>(std::type_identity<T>) { visit_all<CopyOut<T>>(plan); });
}

void index_write(const IndexPlan& plan) {
  if (!has_work(plan)) return;
  visit_bits(plan.item, [&]<typename T>(std::type_identity<T>) { visit_in_order<CopyIn<T>>(plan); });
}

void index_accumulate(const IndexPlan& plan, ScalarType dtype, bool in_double) {
  if (!has_work(plan)) return;
  visit_dtype(dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (is_reduced_float_v<T>) {
      FACULA_ASSERT(false);
    } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, complex64>) {
      using Wide = wide_t<T>;
      in_double ? visit_in_order<AddIn<Wide, T>>(plan) : visit_in_order<AddIn<T, T>>(plan);
    } else {
      visit_in_order<AddIn<T, T>>(plan);
    }
  });
}

bool many_meet(const IndexPlan& plan) {
  int64_t places = 1;
  for (const IndexedDim& d : plan.dims) places *= d.size;
  return many_meet(plan.n, places, [&](int64_t i) {
    uint64_t key = 0;  // of what nobody has checked yet
    for (const IndexedDim& d : plan.dims) {
      const auto v = static_cast<uint64_t>(read_once(d.index + i)), size = static_cast<uint64_t>(d.size);
      key = key * size + (static_cast<int64_t>(v) < 0 ? v + size : v);
    }
    return static_cast<int64_t>(key);
  });
}

namespace {

bool has_rows(const IndexPlan& plan) {
  const int64_t item = static_cast<int64_t>(plan.item), n = plan.inner.numel;
  return plan.dims.size() == 1 && plan.outer.numel == 1 && plan.inner.sizes.size() == 1 && n * item >= 128 &&
         plan.inner.strides[0][0] == item && plan.inner.strides[1][0] == item && plan.dims[0].stride == n * item &&
         plan.n < INT32_MAX;
}

}  // namespace

bool goes_by_rows(const IndexPlan& plan) { return has_rows(plan) && plan.n >= 4096 && plan.dims[0].size <= 2 * plan.n; }

bool may_go_by_rows(const IndexPlan& plan) { return has_rows(plan) && plan.dims[0].size <= 64 * plan.n; }

void index_by_rows(const IndexPlan& plan, std::optional<ScalarType> sum, const void* origin) {
  const int64_t size = plan.dims[0].size, n = plan.inner.numel;
  // A stable sort by counting. At the end ends[r] is the end of row r and the begin of the next.
  std::vector<int32_t> ends(static_cast<size_t>(size) + 1), order(static_cast<size_t>(plan.n));
  std::vector<uint32_t> rows(order.size());
  Offsets offsets(plan);
  for (int64_t first = 0; first < plan.n; first += kCompactRun) {
    const int64_t m = std::min(plan.n - first, kCompactRun);
    if (!offsets.load(first, m)) {
      plan.good.store(false, std::memory_order_relaxed);
      return;
    }
    for (int64_t i = 0; i < m; ++i) {
      const size_t row = static_cast<size_t>(offsets.values()[i]);
      rows[static_cast<size_t>(first + i)] = static_cast<uint32_t>(row);
      ++ends[row + 1];
    }
  }
  for (size_t r = 1; r < ends.size(); ++r) ends[r] += ends[r - 1];
  for (size_t k = 0; k < rows.size(); ++k) order[static_cast<size_t>(ends[rows[k]]++)] = static_cast<int32_t>(k);
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
