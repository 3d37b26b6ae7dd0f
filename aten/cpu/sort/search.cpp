// searchsorted, histc and multinomial.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "aten/cpu/common/bits.h"
#include "aten/cpu/common/dense.h"
#include "aten/cpu/sort/order.h"
#include "aten/cpu/random/random.h"
#include "aten/cpu/reduce/reduce.h"
#include "aten/cpu/common/bytes.h"
#include "facula/kernels.h"
#include "runtime/core/rounding.h"
#include "runtime/core/interrupt.h"
#include "runtime/iterate/result_type.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

namespace {

// Every sixteenth element of a long line, every sixteenth of those, and so on: a search goes down these
// levels and touches one cache line of each.
template <typename C>
class Levels {
 public:
  Levels(const C* line, int64_t n) : memory_(bytes_for<C>(n / 15 + 16)) {
    levels_.push_back({line, n});
    C* to = memory_.as<C>();
    for (int64_t size = n / 16; size > 0; size /= 16) {
      const C* below = levels_.back().first;
      for (int64_t i = 0; i < size; ++i) to[i] = below[16 * i + 15];
      levels_.push_back({to, size});
      to += size;
    }
  }
  void search(const OrderLoops<C>& loops, const C* values, int64_t count, bool right, int64_t* out) const {
    for (int64_t j = 0; j < count; ++j) out[j] = 0;
    for (size_t k = levels_.size(); k-- > 0;) {
      loops.descend(levels_[k].first, levels_[k].second, values, count, right, out);
    }
    for (int64_t j = 0; j < count; ++j) {
      if (values[j] != values[j]) loops.search(levels_[0].first, levels_[0].second, values + j, 1, right, out + j);
    }
  }

 private:
  Bytes memory_;
  std::vector<std::pair<const C*, int64_t>> levels_;
};

template <typename C>
void search(const Tensor& sequence, const Tensor& values, bool right, int64_t* out) {
  constexpr int64_t kBlock = 32;
  const OrderLoops<C>& loops = loops_of<C>(FACULA_BY_ISA(order_table));
  const int64_t n = sequence.size(-1);
  const bool one = sequence.dim() == 1;
  const int64_t row = one ? values.numel() : values.size(-1);
  if (one && n >= 4096 && values.numel() >= n / 64) {
    const Levels<C> levels(sequence.data<C>(), n);
    parallel_for(0, values.numel(), 1024, [&](int64_t begin, int64_t end) {
      for (; begin < end; begin += kBlock) {
        levels.search(loops, values.data<C>() + begin, std::min(kBlock, end - begin), right, out + begin);
      }
    });
    return;
  }
  parallel_for(0, values.numel(), 1024, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t r = one ? 0 : begin / row;
      const int64_t count = std::min({kBlock, end - begin, (r + 1) * row - begin});
      loops.search(sequence.data<C>() + r * n, n, values.data<C>() + begin, count, right, out + begin);
      begin += count;
    }
  });
}

// The sequence in the order of `sorter`.
template <typename C>
Tensor rearranged(const Tensor& sequence, const Tensor& sorter) {
  const Tensor order = dense(sorter), result = make_empty(sequence.sizes(), sequence.dtype());
  const int64_t n = sequence.size(-1);
  for (int64_t i = 0; i < order.numel(); ++i) {
    const int64_t at = read_once(order.data<int64_t>() + i);
    FACULA_CHECK(at >= 0 && at < n, Index, Operator{"searchsorted"}, Argument{"sorter"}, " holds ", at,
                 ", the sorted sequence has ", n, " elements");
    result.data<C>()[i] = sequence.data<C>()[i / n * n + at];
  }
  return result;
}

}  // namespace

void searchsorted(const Tensor& sorted_sequence, const Tensor& self, bool, bool right,
                  std::optional<std::string_view> side, const Tensor& sorter, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor* both[] = {&sorted_sequence, &self};
  const ScalarType type = order_type(result_type(both));
  const Tensor given = dense_as(sorted_sequence, type), values = dense_as(self, type);
  const bool after = right || (side && *side == "right");
  into_dense(out, ScalarType::Int64, [&](const Tensor& to) {
    visit_ordered(type, "searchsorted", [&]<typename C>(std::type_identity<C>) {
      const Tensor sequence = sorter.defined() ? rearranged<C>(given, sorter) : given;
      search<C>(sequence, values, after, to.data<int64_t>());
    });
  });
}

void histc(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max, const Tensor& out) {
  const int64_t n = self.numel();
  const Tensor x = dense(self);
  double low = min.as_double(), high = max.as_double();
  if (low == high && n > 0) {
    const Tensor ends = make_empty({2}, ScalarType::Float64);
    const ScalarType type = order_type(self.dtype());
    const auto end = [&](int64_t i) { return alias(ends, IntList(), IntList(), i, false); };
    reduce({ReduceOp::Min, type}, x, reduced_dims(std::nullopt, x.dim()), end(0));
    reduce({ReduceOp::Max, type}, x, reduced_dims(std::nullopt, x.dim()), end(1));
    low = ends.data<double>()[0];
    high = ends.data<double>()[1];
    FACULA_CHECK(std::isfinite(low) && std::isfinite(high), Runtime, Operator{"histc"}, Argument{"self"}, " holds ",
                 std::isfinite(low) ? high : low, "; give min and max");
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  // The ends as elements have them are within.
  double least = low, most = high;
  if (compute_type(x.dtype()) == ScalarType::Float32) {
    least = std::min(low, static_cast<double>(static_cast<float>(low)));
    most = std::max(high, static_cast<double>(static_cast<float>(high)));
  }
  // Where the width of the range, or of a bin, is beyond the numbers: everything times a power of two.
  const double width = high - low;
  const double unit = std::isinf(width) ? 0x1p-100 : width < 0x1p-900 ? 0x1p100 : 1;
  const double from = low * unit, span = high * unit - from, scale = static_cast<double>(bins) / span;
  const double step = span / static_cast<double>(bins), last = static_cast<double>(bins - 1);
  const char* data = static_cast<const char*>(x.raw());
  const int64_t item = static_cast<int64_t>(x.itemsize());
  // fn(bin) for the elements [begin, end) that have one.
  const auto for_bins = [&](int64_t begin, int64_t end, const auto& fn) {
    constexpr int64_t kBlock = 512;
    double v[kBlock];
    int32_t bin[kBlock];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t m = std::min(kBlock, end - i);
      load_elements(ScalarType::Float64, v, x.dtype(), data + i * item, 1, m);
      for (int64_t j = 0; j < m; ++j) {
        // Outside and NaN: -1. The edges decide, which the quotient may miss by a rounding.
        const bool inside = (v[j] >= least) & (v[j] <= most);
        const double value = v[j] * unit, quotient = (value - from) * scale;
        const double place = static_cast<double>(static_cast<int32_t>(inside ? std::clamp(quotient, 0.0, last) : 0.0));
        const double below = (value < from + place * step) & (place > 0) ? 1.0 : 0.0;
        const double above = (value >= from + (place + 1) * step) & (place < last) ? 1.0 : 0.0;
        bin[j] = static_cast<int32_t>(inside ? place - below + above : -1.0);
      }
      for (int64_t j = 0; j < m; ++j) {
        if (bin[j] >= 0) fn(int64_t{bin[j]});
      }
    }
  };
  if (bins / 16 > n) {  // a count for each bin would be most of the memory: the few that are met, in order
    std::vector<int64_t> met;
    met.reserve(static_cast<size_t>(n));
    for_bins(0, n, [&](int64_t bin) { met.push_back(bin); });
    std::sort(met.begin(), met.end());
    fill(out, 0, out);
    for (auto at = met.begin(); at != met.end();) {
      const auto next = std::upper_bound(at, met.end(), *at);
      const Element count = element_of(static_cast<int64_t>(next - at), out.dtype(), "histc");
      std::memcpy(static_cast<char*>(out.raw()) + *at * out.strides()[0] * static_cast<int64_t>(out.itemsize()),
                  count.bytes, out.itemsize());
      at = next;
    }
    return;
  }
  // Counts are exact, so the pieces may follow the number of threads.
  const int64_t pieces = std::clamp<int64_t>(n / std::max<int64_t>(kGrain, bins), 1, get_num_threads());
  const Tensor all = make_empty({bins}, ScalarType::Int64);
  const Bytes memory(bytes_for<int64_t>((pieces - 1) * bins));
  int64_t *const sum = all.data<int64_t>(), *const more = memory.as<int64_t>();
  parallel_for(0, pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      int64_t* const count = p == 0 ? sum : more + (p - 1) * bins;
      std::fill(count, count + bins, 0);
      for_bins(n * p / pieces, n * (p + 1) / pieces, [&](int64_t bin) { ++count[bin]; });
    }
  });
  for (int64_t p = 0; p + 1 < pieces; ++p) {
    for (int64_t b = 0; b < bins; ++b) sum[b] += more[p * bins + b];
  }
  copy_strided(out, all);
}

// With replacement: uniform numbers looked up in the cumulative weights. Without: the categories with
// the largest weight / exponential (an exponential race).
void multinomial(const Tensor& self, int64_t num_samples, bool replacement, const Generator& generator,
                 const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor weights = dense_as(self, ScalarType::Float64);
  const int64_t n = weights.size(-1), rows = weights.numel() / n;
  const double* w = weights.data<double>();
  Bytes lines(bytes_for<double>(rows));
  double* const unit = lines.as<double>();  // so that no sum or quotient of a row leaves the range of numbers
  for (int64_t r = 0; r < rows; ++r) {
    double most = 0;
    int64_t possible = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double v = w[r * n + i];
      FACULA_CHECK(v >= 0 && std::isfinite(v), Runtime, Operator{"multinomial"},
                   "weights must be finite and not negative, self holds ", v);
      most = std::max(most, v);
      possible += v > 0;
    }
    unit[r] = most > 1e-200 && most < 1e200 ? 1 : std::ldexp(1.0, -std::ilogb(most) / 2);
    FACULA_CHECK(most > 0, Runtime, Operator{"multinomial"}, "the weights of row ", r, " are all zero");
    FACULA_CHECK(replacement || possible >= num_samples, Runtime, Operator{"multinomial"}, "cannot draw ", num_samples,
                 " categories without replacement, row ", r, " has ", possible, " of positive weight");
  }
  const Philox stream = generator_for(generator, Device{}, "multinomial").next();
  const PhiloxKey key{stream.seed(), stream.offset()};
  const RandomTable& table = FACULA_BY_ISA(random_table);
  const int64_t per_row = replacement ? num_samples : n;
  const int64_t groups = ceil_div(rows * per_row, 32);
  Bytes memory(bytes_for(groups * 32, 16));
  uint64_t* longs = memory.as<uint64_t>();
  double* u = reinterpret_cast<double*>(longs + groups * 32);
  table.longs(key, 0, groups, longs);
  if (replacement) {
    table.uniform_f64(longs, groups * 32, u);
  } else {
    table.exponential_f64(longs, groups * 32, u);
  }
  into_dense(out, ScalarType::Int64, [&](const Tensor& to) {
    Bytes line(bytes_for(n, 16));
    double* c = line.as<double>();
    int64_t* order = reinterpret_cast<int64_t*>(c + n);
    for (int64_t r = 0; r < rows; ++r) {
      int64_t* result = to.data<int64_t>() + r * num_samples;
      if (replacement) {
        double sum = 0;
        int64_t last = 0;
        for (int64_t i = 0; i < n; ++i) {
          sum += w[r * n + i] * unit[r];
          c[i] = sum;
          if (w[r * n + i] > 0) last = i;
        }
        for (int64_t j = 0; j < num_samples; ++j) {
          count_step();
          const int64_t at = std::upper_bound(c, c + n, u[r * num_samples + j] * sum) - c;
          result[j] = std::min(at, last);
        }
      } else {
        for (int64_t i = 0; i < n; ++i) {
          const double v = w[r * n + i];
          c[i] = v > 0 ? v * unit[r] / u[r * n + i] : -1;  // after all that may be drawn
          order[i] = i;
        }
        std::partial_sort(order, order + num_samples, order + n, [&](int64_t a, int64_t b) {
          count_step();
          return c[a] > c[b] || (c[a] == c[b] && a < b);
        });
        std::copy(order, order + num_samples, result);
      }
    }
  });
}

}  // namespace facula::cpu
