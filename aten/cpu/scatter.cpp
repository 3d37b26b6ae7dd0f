// gather and the scatter family: an index for every element, along one dim.
#include <atomic>
#include <limits>

#include "aten/cpu/bits.h"
#include "aten/cpu/index_plan.h"
#include "aten/cpu/move_loops.h"
#include "facula/kernels.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

namespace {

// Operand 0: table at index 0 of the dim, 1: dense side, 2: index. The plan walks all dims but the
// indexed one; `count` elements along that one follow from each of its elements.
struct Walk {
  StridedPlan plan;
  int64_t count = 1, size = 1;
  int64_t table_step = 0, side_step = 0, index_step = 0;  // bytes along the dim
};

Walk make_walk(const Tensor& table, const Tensor& side, const Tensor& index, int64_t dim) {
  Walk w;
  DimVector sizes(index.sizes()), strides[3];
  if (sizes.empty()) sizes.push_back(1);
  const Tensor* operands[] = {&table, &side, &index};
  char* data[3];
  for (int k = 0; k < 3; ++k) {
    const int64_t item = static_cast<int64_t>(operands[k]->itemsize());
    data[k] = static_cast<char*>(operands[k]->raw());
    // A 0-d tensor is one of one element; a 0-d side is the value for every place.
    strides[k].resize(sizes.size(), 0);
    for (size_t d = 0; d < sizes.size() && d < operands[k]->strides().size(); ++d) {
      strides[k][d] = operands[k]->strides()[d] * item;
    }
  }
  const size_t d = static_cast<size_t>(dim);
  w.count = sizes[d];
  w.table_step = table.dim() > 0 ? table.strides()[d] * static_cast<int64_t>(table.itemsize()) : 0;
  w.side_step = strides[1][d];
  w.index_step = strides[2][d];
  sizes[d] = 1;
  w.size = table.dim() > 0 ? table.sizes()[d] : 1;
  w.plan = make_plan(sizes, strides, data);
  return w;
}

// n elements with all four running in byte steps; `table_step` bytes to one index.
template <typename F>
void line(char* table, int64_t ts, int64_t table_step, char* side, int64_t ss, const char* index, int64_t is, int64_t n,
          const F& element) {
  if (ts == 0 && is == static_cast<int64_t>(sizeof(int64_t))) {
    const int64_t* v = reinterpret_cast<const int64_t*>(index);
    for (int64_t i = 0; i < n; ++i, side += ss) element(table + v[i] * table_step, side);
    return;
  }
  for (int64_t i = 0; i < n; ++i, table += ts, side += ss, index += is) {
    element(table + *reinterpret_cast<const int64_t*>(index) * table_step, side);
  }
}

// Where the walk runs across the indexed dim, it does so in strips: the part of the table that lies
// under one fits the second-level cache.
constexpr int64_t kStripBytes = int64_t{1} << 20;

template <typename F>
void walk_range(const Walk& w, int64_t begin, int64_t end, const F& element) {
  detail::walk_rows(w.plan, begin, end, [&](char** p, const int64_t* s, int64_t n) {
    // Along the row or along the dim first, whichever lies closer together in the index.
    if (n > 1 && (s[2] <= w.index_step || w.count == 1)) {
      const int64_t strip =
          std::max<int64_t>(16, kStripBytes / std::max<int64_t>(w.size * std::max<int64_t>(s[0], 1), 1));
      for (int64_t low = 0; low < n; low += strip) {
        const int64_t m = std::min(strip, n - low);
        char *table = p[0] + low * s[0], *side = p[1] + low * s[1], *index = p[2] + low * s[2];
        for (int64_t j = 0; j < w.count; ++j) {
          line(table, s[0], w.table_step, side + j * w.side_step, s[1], index + j * w.index_step, s[2], m, element);
        }
      }
    } else {
      for (int64_t i = 0; i < n; ++i) {
        line(p[0] + i * s[0], 0, w.table_step, p[1] + i * s[1], w.side_step, p[2] + i * s[2], w.index_step, w.count,
             element);
      }
    }
  });
}

int64_t grain_of(const Walk& w) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(w.count, 1)); }

// Elements that may meet stay in order on one thread: lines along the dim are shared out, or, when
// there are few, the table is.
template <typename F>
void walk_in_order(const Walk& w, const F& element) {
  if (w.plan.numel == 0 || w.count == 0) return;
  const int64_t threads = w.plan.numel * w.count < 2 * kGrain || in_parallel_region() ? 1 : get_num_threads();
  if (threads == 1 || w.plan.numel >= threads) {
    parallel_for(0, w.plan.numel, grain_of(w), [&](int64_t b, int64_t e) { walk_range(w, b, e, element); });
    return;
  }
  const int64_t parts = std::min(threads, w.size);
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    const int64_t low = w.size * first / parts, high = w.size * last / parts;
    detail::walk_rows(w.plan, 0, w.plan.numel, [&](char** p, const int64_t* s, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        char *table = p[0] + i * s[0], *side = p[1] + i * s[1], *index = p[2] + i * s[2];
        for (int64_t first_j = 0; first_j < w.count; first_j += kCompactRun) {
          const int64_t end_j = std::min(w.count, first_j + kCompactRun);
          int32_t own[kCompactRun + 8];  // positions that are this thread's
          const int64_t k =
              FACULA_BY_ISA(move_loops)
                  .within(own, index + first_j * w.index_step, w.index_step, end_j - first_j, w.size, low, high);
          for (int64_t o = 0; o < k; ++o) {
            const int64_t j = first_j + own[o];
            const int64_t v = *reinterpret_cast<const int64_t*>(index + j * w.index_step);
            element(table + v * w.table_step, side + j * w.side_step);
          }
        }
      }
    });
  });
}

// int64, dense, in range, apart from `out`.
Tensor checked_index(const Tensor& index, const Tensor& table, int64_t dim, const char* op, const Tensor& out,
                     bool check = true) {
  const Tensor plain = apart_from(dense(index, ScalarType::Int64), out);
  if (check) check_range(plain, 0, table.dim() > 0 ? table.sizes()[static_cast<size_t>(dim)] : 1, dim, op);
  return plain;
}

Tensor as_dtype(const Tensor& t, ScalarType dtype) {
  if (t.dtype() == dtype) return t;
  const Tensor converted = make_empty(t.sizes(), dtype);
  copy_strided(converted, t);
  return converted;
}

enum class Combine { Sum, Prod, Max, Min };

template <typename T, Combine kHow>
struct Reducer {
  static T combine(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) {
      return kHow == Combine::Sum || kHow == Combine::Max ? (a || b) : (a && b);
    } else if constexpr (kHow == Combine::Sum || kHow == Combine::Prod) {
      if constexpr (std::is_integral_v<T>) {
        const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
        return static_cast<T>(kHow == Combine::Sum ? x + y : x * y);
      } else {
        return kHow == Combine::Sum ? a + b : a * b;
      }
    } else if constexpr (is_complex_v<T>) {
      return a;  // refused before
    } else if constexpr (std::is_floating_point_v<T>) {
      if (a != a) return a;
      return b != b || (kHow == Combine::Max ? b > a : b < a) ? b : a;
    } else {
      return kHow == Combine::Max ? std::max(a, b) : std::min(a, b);
    }
  }
  static void element(char* table, char* side) {
    T* t = reinterpret_cast<T*>(table);
    *t = combine(*t, *reinterpret_cast<const T*>(side));
  }
};

template <Combine kHow>
void combine_walk(const Walk& w, ScalarType dtype) {
  visit_dtype(dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (!is_reduced_float_v<T>) {
      walk_in_order(w, [](char* t, char* s) { Reducer<T, kHow>::element(t, s); });
    }
  });
}

// The value that changes nothing.
Scalar neutral(Combine how, ScalarType dtype) {
  if (how == Combine::Sum) return 0;
  if (how == Combine::Prod) return 1;
  const bool max = how == Combine::Max;
  return visit_dtype(dtype, [&]<typename T>(std::type_identity<T>) -> Scalar {
    if constexpr (std::is_same_v<T, bool>) {
      return Scalar(!max);
    } else if constexpr (std::is_integral_v<T>) {
      using L = std::numeric_limits<T>;
      return Scalar(static_cast<int64_t>(max ? L::lowest() : L::max()));
    } else {
      const double inf = std::numeric_limits<double>::infinity();
      return Scalar(max ? -inf : inf);
    }
  });
}

void write_value(const Tensor& out, int64_t dim, const Tensor& index, const Scalar& value, const char* op) {
  const Element element = element_of(value, out.dtype(), op);
  const Walk w = make_walk(out, out, index, dim);
  visit_bits(out.itemsize(), [&]<typename T>(std::type_identity<T>) {
    const T v = element.as<T>();
    walk_in_order(w, [v](char* t, char*) { *reinterpret_cast<T*>(t) = v; });
  });
}

void combine_into(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, Combine how) {
  const bool wide = is_reduced_float(out.dtype());
  const ScalarType type = compute_type(out.dtype());
  const Tensor target = wide ? as_dtype(out, type) : out;
  const Tensor side = as_dtype(src, type);
  const Walk w = make_walk(target, side, index, dim);
  switch (how) {
    case Combine::Sum:
      combine_walk<Combine::Sum>(w, type);
      break;
    case Combine::Prod:
      combine_walk<Combine::Prod>(w, type);
      break;
    case Combine::Max:
      combine_walk<Combine::Max>(w, type);
      break;
    case Combine::Min:
      combine_walk<Combine::Min>(w, type);
      break;
  }
  if (wide) copy_strided(out, target);
}

}  // namespace

namespace {

// One line of gather, its index dense; each piece is checked just before it is used.
template <typename T>
bool gather_line(const char* table, int64_t table_step, int64_t size, char* side, int64_t ss, const int64_t* index,
                 int64_t n) {
  const auto range = FACULA_BY_ISA(move_loops).range;
  for (int64_t first = 0; first < n; first += kCompactRun) {
    const int64_t end = std::min(n, first + kCompactRun);
    int64_t least, most;
    range(index + first, end - first, &least, &most);
    if (least < 0 || most >= size) return false;
    if (table_step == static_cast<int64_t>(sizeof(T)) && ss == table_step) {
      const T* from = reinterpret_cast<const T*>(table);
      T* to = reinterpret_cast<T*>(side);
      for (int64_t i = first; i < end; ++i) to[i] = from[index[i]];
    } else {
      for (int64_t i = first; i < end; ++i) {
        *reinterpret_cast<T*>(side + i * ss) = *reinterpret_cast<const T*>(table + index[i] * table_step);
      }
    }
  }
  return true;
}

}  // namespace

void gather(const Tensor& self, int64_t dim, const Tensor& index, bool, const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  const bool along = dim == index.dim() - 1 || index.dim() == 0;  // lines of the index are dense
  const Tensor plain = checked_index(index, self, dim, "gather", out, !along);
  const Walk w = make_walk(self, out, plain, dim);
  if (w.plan.numel == 0 || w.count == 0) return;
  visit_bits(out.itemsize(), [&]<typename T>(std::type_identity<T>) {
    if (!along) {
      parallel_for(0, w.plan.numel, grain_of(w), [&](int64_t b, int64_t e) {
        walk_range(w, b, e, [](char* t, char* s) { *reinterpret_cast<T*>(s) = *reinterpret_cast<const T*>(t); });
      });
      return;
    }
    std::atomic<bool> good{true};
    // Pieces of all lines, so that one long line is shared out too.
    parallel_for(0, w.plan.numel * w.count, kGrain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t line = begin / w.count, low = begin % w.count;
        const int64_t n = std::min(w.count - low, end - begin);
        detail::walk_rows(w.plan, line, line + 1, [&](char** p, const int64_t*, int64_t) {
          const int64_t* index_line = reinterpret_cast<const int64_t*>(p[2]) + low;
          if (!gather_line<T>(p[0], w.table_step, w.size, p[1] + low * w.side_step, w.side_step, index_line, n))
            good = false;
        });
        begin += n;
      }
    });
    if (!good) check_range(plain, 0, w.size, dim, "gather");
  });
}

void scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  const Tensor plain = checked_index(index, self, dim, "scatter", out);
  const Tensor side = apart_from(as_dtype(src, out.dtype()), out);
  if (!out.is_same(self)) copy_strided(out, self);
  const Walk w = make_walk(out, side, plain, dim);
  visit_bits(out.itemsize(), [&]<typename T>(std::type_identity<T>) {
    walk_in_order(w, [](char* t, char* s) { *reinterpret_cast<T*>(t) = *reinterpret_cast<const T*>(s); });
  });
}

void scatter_value(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  const Tensor plain = checked_index(index, self, dim, "scatter", out);
  element_of(value, out.dtype(), "scatter");
  if (!out.is_same(self)) copy_strided(out, self);
  write_value(out, dim, plain, value, "scatter");
}

void scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  const Tensor plain = checked_index(index, self, dim, "scatter_add", out);
  const Tensor side = apart_from(src, out);
  if (!out.is_same(self)) copy_strided(out, self);
  combine_into(out, dim, plain, side, Combine::Sum);
}

void scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce,
                    bool include_self, const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  const Tensor plain = checked_index(index, self, dim, "scatter_reduce", out);
  const Combine how = reduce == "prod"   ? Combine::Prod
                      : reduce == "amax" ? Combine::Max
                      : reduce == "amin" ? Combine::Min
                                         : Combine::Sum;
  const bool mean = reduce == "mean";
  const Tensor side = apart_from(src, out);
  if (!out.is_same(self)) copy_strided(out, self);
  if (!include_self) write_value(out, dim, plain, neutral(how, out.dtype()), "scatter_reduce");
  combine_into(out, dim, plain, side, how);
  if (!mean) return;
  const Tensor count = make_empty(out.sizes(), ScalarType::Int64);
  cpu::fill(count, include_self ? 1 : 0, count);
  const Tensor one = make_empty({}, ScalarType::Int64);
  *one.data<int64_t>() = 1;
  combine_into(count, dim, plain, one, Combine::Sum);
  const bool wide = is_reduced_float(out.dtype());
  const Tensor target = wide ? as_dtype(out, ScalarType::Float32) : out;
  const Tensor* operands[] = {&target, &count};
  visit_dtype(target.dtype(), [&]<typename T>(std::type_identity<T>) {
    if constexpr (!is_reduced_float_v<T>) {
      for_each_row(make_plan(out.sizes(), operands), [](char** p, const int64_t* s, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          T& v = *reinterpret_cast<T*>(p[0] + i * s[0]);
          const int64_t c = std::max<int64_t>(1, *reinterpret_cast<int64_t*>(p[1] + i * s[1]));
          if constexpr (std::is_same_v<T, bool>) {
            (void)c;
          } else if constexpr (std::is_integral_v<T>) {
            const int64_t x = static_cast<int64_t>(v);  // floor, as torch
            v = static_cast<T>(x / c - (x % c != 0 && x < 0 ? 1 : 0));
          } else {
            v = v / static_cast<T>(c);
          }
        }
      });
    }
  });
  if (wide) copy_strided(out, target);
}

}  // namespace facula::cpu
