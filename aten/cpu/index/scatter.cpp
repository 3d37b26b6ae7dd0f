// gather and the scatter family: an index for every element, along one dim.
#include <cmath>
#include <limits>

#include "aten/cpu/common/bits.h"
#include "aten/cpu/index/long_sums.h"
#include "aten/cpu/index/plan.h"
#include "aten/cpu/index/scatter_iterator.h"
#include "facula/kernels.h"

namespace facula::cpu {

namespace {

// int64, dense, apart from `out`.
Tensor plain_index(const Tensor& index, const Tensor& out) { return apart_from(dense(index, ScalarType::Int64), out); }
void check_index(const Tensor& index, const Tensor& table, int64_t dim, const char* op) {
  check_range(index, 0, table.dim() > 0 ? table.sizes()[static_cast<size_t>(dim)] : 1, dim, op);
}

// Fewer lines than these may be shared out by the values of the index (in_order).
constexpr int64_t kLines = 64;

// What the operators that write begin with. Where a pass over the index visits all of `out`, it starts the table as
// `self`; else that is done here. The pass checks the index on its way, but for a table that must stay as it is where
// an index is bad. A source that shares memory with `out` has to be copied before.
struct Begun {
  Tensor index, origin;
};
Begun begin(const Tensor& out, const Tensor& self, const Tensor& index, int64_t dim, const char* op) {
  bool covers = index.numel() > 0 && index.dim() > 0 && self.dim() > 0 && out.raw() != self.raw() &&
                self.dtype() == out.dtype() && !is_reduced_float(self.dtype()) &&
                self.numel() >= kLines * self.size(dim) && index.size(-1) >= ScatterIterator::kLongRow;
  for (int64_t d = 0; d < self.dim(); ++d) covers = covers && (d == dim || index.size(d) == self.size(d));
  const Tensor plain = plain_index(index, out);
  if (!covers) check_index(plain, self, dim, op);
  if (!covers && !out.is_same(self)) copy_strided(out, self);
  return {plain, covers ? self : out};
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
  template <typename From>
  static void element(char* table, char* side) {
    T* t = reinterpret_cast<T*>(table);
    *t = combine(*t, static_cast<T>(*reinterpret_cast<const From*>(side)));
  }
};

// Whether many elements meet in one of the table: in some of its lines, evenly spread, of which a long one more than
// pays for the look.
bool many_in_a_line(const Tensor& out, int64_t dim, const Tensor& index) {
  if (index.dim() == 0 || index.numel() == 0) return false;
  const int64_t n = index.size(dim), step = index.stride(dim), lines = index.numel() / n;
  const int64_t looks = std::min<int64_t>(lines, n < 4096 ? 3 : 64);
  for (int64_t part = 0; part < looks; ++part) {
    const int64_t line = looks == lines ? part : part * ((lines - 1) / (looks - 1));
    const int64_t* const first = index.data<int64_t>() + line / step * n * step + line % step;
    if (many_meet(n, out.dim() == 0 ? 1 : out.size(dim), [&](int64_t i) { return read_once(first + i * step); })) {
      return true;
    }
  }
  return false;
}

// The table may be of long_sum_type(dtype).
template <Combine kHow>
void combine_elements(const ScatterIterator& w, ScalarType dtype, bool in_double = false) {
  visit_dtype(dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, complex64>) {
      if (in_double) {
        using Wide = wide_t<T>;
        in_order(w, [](char* t, char* s) { Reducer<Wide, kHow>::template element<T>(t, s); });
        return;
      }
    }
    if constexpr (!is_reduced_float_v<T>) {
      in_order(w, [](char* t, char* s) { Reducer<T, kHow>::template element<T>(t, s); });
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
      using Wide = std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>;
      return Scalar(static_cast<Wide>(max ? L::lowest() : L::max()));
    } else {
      const double inf = std::numeric_limits<double>::infinity();
      return Scalar(max ? -inf : inf);
    }
  });
}

void write_value(const Tensor& out, const Tensor& origin, int64_t dim, const Tensor& index, const Scalar& value,
                 const char* op) {
  const Element element = element_of(value, out.dtype(), op);
  const ScatterIterator w(out, out, index, dim, origin);
  visit_bits(out.itemsize(), [&]<typename T>(std::type_identity<T>) {
    const T v = element.as<T>();
    in_order(w, [v](char* t, char*) { *reinterpret_cast<T*>(t) = v; });
  });
  w.finish(op);
}

void combine_into(const Tensor& out, const Tensor& origin, int64_t dim, const Tensor& index, const Tensor& src,
                  Combine how, const char* op) {
  const ScalarType type = compute_type(out.dtype()), wider = long_sum_type(type);
  const bool in_double =
      (how == Combine::Sum || how == Combine::Prod) && wider != type && many_in_a_line(out, dim, index);
  const ScalarType made = in_double ? wider : type;
  const bool wide = made != out.dtype();
  Tensor target = out;
  if (wide) {
    target = make_empty(out.sizes(), made);
    copy_strided(target, origin);
  }
  const Tensor side = as_dtype(src, type);
  const ScatterIterator w(target, side, index, dim, wide ? target : origin);
  switch (how) {
    case Combine::Sum:
      combine_elements<Combine::Sum>(w, type, in_double);
      break;
    case Combine::Prod:
      combine_elements<Combine::Prod>(w, type, in_double);
      break;
    case Combine::Max:
      combine_elements<Combine::Max>(w, type);
      break;
    case Combine::Min:
      combine_elements<Combine::Min>(w, type);
      break;
  }
  w.finish(op);
  if (wide) copy_strided(out, target);
}

// ---- means: sums over counts ----

// fn(value, its count, its sum of scaled numbers) for the elements of three tensors of one shape.
template <typename F>
void for_means(const Tensor& values, const Tensor& counts, const Tensor& sums, const F& fn) {
  const Tensor* operands[] = {&values, &counts, &sums};
  visit_dtype(values.dtype(), [&]<typename T>(std::type_identity<T>) {
    if constexpr (!is_reduced_float_v<T>) {
      for_each_row(make_plan(values.sizes(), operands), [&](char** p, const int64_t* s, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          fn(*reinterpret_cast<T*>(p[0] + i * s[0]),
             std::max<int64_t>(1, *reinterpret_cast<const int64_t*>(p[1] + i * s[1])), p[2] + i * s[2]);
        }
      });
    }
  });
}
void divide(const Tensor& sums, const Tensor& counts) {
  for_means(sums, counts, counts, []<typename T>(T& v, int64_t c, const char*) {
    if constexpr (std::is_same_v<T, bool>) {
      (void)c;
    } else if constexpr (std::is_integral_v<T>) {
      const int64_t x = static_cast<int64_t>(v);  // floor, as torch
      v = static_cast<T>(x / c - (x % c != 0 && x < 0 ? 1 : 0));
    } else {
      v = v / static_cast<decltype(std::abs(v))>(c);  // a real number
    }
  });
}

// Where a sum left the range its mean may lie in it: it is taken from the sum of numbers times a power of two.
constexpr double kMeanUnit = 0x1p-100;
Tensor scaled(const Tensor& t) {
  const Tensor result = make_empty(t.sizes(), ScalarType::Float64);
  copy_strided(result, t);
  double* const x = result.data<double>();
  for (int64_t i = 0, n = result.numel(); i < n; ++i) x[i] *= kMeanUnit;
  return result;
}
bool all_finite(const Tensor& t, const Tensor& counts) {
  bool all = true;
  for_means(t, counts, counts, [&]<typename T>(const T& v, int64_t, const char*) {
    if constexpr (std::is_floating_point_v<T>) all = all && std::isfinite(v);
  });
  return all;
}
void mend_means(const Tensor& means, const Tensor& counts, const Tensor& sums) {
  for_means(means, counts, sums, []<typename T>(T& v, int64_t c, const char* sum) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isfinite(v)) return;
      v = static_cast<T>(*reinterpret_cast<const double*>(sum) / static_cast<double>(c) / kMeanUnit);
    }
  });
}

// Part of a line of gather, its index dense; each piece is checked just before it is used.
template <typename T>
bool gather_line(const ScatterIterator& w, const char* table, char* side, const int64_t* index, int64_t n) {
  const MoveLoops& loops = FACULA_BY_ISA(move_loops);
  constexpr int64_t kItem = sizeof(T), kPart = kStreamPiece / kItem;
  int64_t at[kPart];
  const bool dense = w.table_step == kItem && w.side_step == kItem, streams = dense && w.streams && whole_lines(side);
  alignas(64) char part[kStreamPiece];
  for (int64_t first = 0; first < n; first += kPart) {
    const int64_t m = std::min(n - first, kPart);
    const int64_t* v = index + first;
    char* const to = side + first * w.side_step;
    if (dense) {
      if (!loops.gather[size_log2(sizeof(T))](streams ? part : to, table, w.size, v, m)) return false;
      if (streams) FACULA_BY_ISA(convert_table).stream(to, part, m * kItem);
      continue;
    }
    if (!loops.checked(at, reinterpret_cast<const char*>(v), sizeof(int64_t), m, 0, w.size)) return false;
    for (int64_t i = 0; i < m; ++i) {
      *reinterpret_cast<T*>(to + i * w.side_step) = *reinterpret_cast<const T*>(table + at[i] * w.table_step);
    }
  }
  return true;
}

}  // namespace

void gather(const Tensor& self, int64_t dim, const Tensor& index, bool, const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  const bool along = dim == index.dim() - 1 || index.dim() == 0;  // lines of the index are dense
  const Tensor plain = plain_index(index, out);
  ScatterIterator w(self, out, plain, dim, self);
  w.checks = true;
  w.reads = true;
  if (w.plan.numel == 0 || w.count == 0) return;
  visit_bits(out.itemsize(), [&]<typename T>(std::type_identity<T>) {
    if (!along) {
      parallel_for(0, w.plan.numel, grain_of(w), [&](int64_t b, int64_t e) {
        w.range(b, e, [](char* t, char* s) { *reinterpret_cast<T*>(s) = *reinterpret_cast<const T*>(t); });
      });
      return;
    }
    // Pieces of all lines, so that one long line is shared out too.
    parallel_for(0, w.plan.numel * w.count, kGrain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t line = begin / w.count, low = begin % w.count;
        const int64_t n = std::min(w.count - low, end - begin);
        detail::for_each_row(w.plan, line, line + 1, [&](char** p, const int64_t*, int64_t) {
          const int64_t* index_line = reinterpret_cast<const int64_t*>(p[2]) + low;
          if (!gather_line<T>(w, p[0], p[1] + low * w.side_step, index_line, n)) w.good = false;
        });
        begin += n;
      }
      if (w.streams) stream_done();
    });
  });
  w.finish("gather");
}

void scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  const Tensor side = apart_from(as_dtype(src, out.dtype()), out);
  const Begun from = begin(out, self, index, dim, "scatter");
  const ScatterIterator w(out, side, from.index, dim, from.origin);
  visit_bits(out.itemsize(), [&]<typename T>(std::type_identity<T>) {
    in_order(w, [](char* t, char* s) { *reinterpret_cast<T*>(t) = *reinterpret_cast<const T*>(s); });
  });
  w.finish("scatter");
}

void scatter_value(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  element_of(value, out.dtype(), "scatter");
  const Begun from = begin(out, self, index, dim, "scatter");
  write_value(out, from.origin, dim, from.index, value, "scatter");
}

void scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  const Tensor side = apart_from(src, out);
  const Begun from = begin(out, self, index, dim, "scatter_add");
  combine_into(out, from.origin, dim, from.index, side, Combine::Sum, "scatter_add");
}

void scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce,
                    bool include_self, const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  const Combine how = reduce == "prod"   ? Combine::Prod
                      : reduce == "amax" ? Combine::Max
                      : reduce == "amin" ? Combine::Min
                                         : Combine::Sum;
  const bool mean = reduce == "mean";
  const Tensor side = apart_from(src, out);
  Begun from = begin(out, self, index, dim, "scatter_reduce");
  const Tensor& plain = from.index;
  if (!include_self) {
    write_value(out, from.origin, dim, plain, neutral(how, out.dtype()), "scatter_reduce");
    from.origin = out;
  }
  if (!mean) return combine_into(out, from.origin, dim, plain, side, how, "scatter_reduce");
  const bool wide = is_reduced_float(out.dtype());
  const Tensor target = wide ? as_dtype(out, ScalarType::Float32) : out;
  const Tensor origin = wide ? target : from.origin;
  Tensor before;
  if (is_floating(out.dtype())) {
    before = make_empty(out.sizes(), target.dtype());
    copy_strided(before, origin);
  }
  combine_into(target, origin, dim, plain, side, how, "scatter_reduce");
  const Tensor count = make_empty(out.sizes(), ScalarType::Int64);
  cpu::fill(count, include_self ? 1 : 0, count);
  const Tensor one = make_empty({}, ScalarType::Int64);
  *one.data<int64_t>() = 1;
  combine_into(count, count, dim, plain, one, Combine::Sum, "scatter_reduce");
  divide(target, count);
  if (before.defined() && !all_finite(target, count)) {
    const Tensor sums = scaled(before);
    combine_into(sums, sums, dim, plain, scaled(side), Combine::Sum, "scatter_reduce");
    mend_means(target, count, sums);
  }
  if (wide) copy_strided(out, target);
}

}  // namespace facula::cpu
