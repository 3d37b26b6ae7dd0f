// Distinct elements. How many there are depends on the values, so these run on the CPU's data; tensors
// of other devices go there and back.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "aten/cpu/common/dense.h"
#include "aten/cpu/sort/order.h"
#include "facula/kernels.h"
#include "facula/ops.h"
#include "runtime/core/interrupt.h"
#include "runtime/iterate/convert.h"

namespace facula::composite {

namespace {

using Three = std::tuple<Tensor, Tensor, Tensor>;

// The tensor's data where a loop can reach it.
Tensor reachable(const Tensor& self, const char* op) {
  FACULA_CHECK(!self.is_meta(), Values, Operator{op},
               "the result's shape depends on the values, which a meta tensor lacks");
  return cpu::dense(self.is_cpu() ? self : ops::to_copy(self, std::nullopt, Device{}, std::nullopt));
}
Three back(Three result, Device device) {
  if (device.type == kCPU) return result;
  const auto move = [&](const Tensor& t) { return ops::to_copy(t, std::nullopt, device, std::nullopt); };
  return {move(std::get<0>(result)), move(std::get<1>(result)), move(std::get<2>(result))};
}

// Collects the runs of equal elements while they come in order: begin(i) where element i starts a run.
class Runs {
 public:
  Runs(int64_t n, bool inverse, bool counts) : n_(n), wants_counts_(counts) {
    if (inverse) inverse_ = make_empty({n}, ScalarType::Int64);
  }
  // Element `i` in order is element `at` of the input.
  void add(int64_t i, int64_t at, bool starts) {
    count_step();
    if (starts) {
      starts_.push_back(i);
      firsts_.push_back(at);
    }
    if (inverse_.defined()) inverse_.data<int64_t>()[at] = static_cast<int64_t>(starts_.size()) - 1;
  }
  const std::vector<int64_t>& firsts() const { return firsts_; }
  Tensor inverse(IntList shape) const {
    return inverse_.defined() ? alias(inverse_, shape, contiguous_strides(shape), 0, false)
                              : make_empty({0}, ScalarType::Int64);
  }
  Tensor counts() const {
    if (!wants_counts_) return make_empty({0}, ScalarType::Int64);
    const int64_t k = static_cast<int64_t>(starts_.size());
    const Tensor t = make_empty({k}, ScalarType::Int64);
    for (int64_t i = 0; i < k; ++i) {
      const size_t j = static_cast<size_t>(i);
      t.data<int64_t>()[i] = (i + 1 < k ? starts_[j + 1] : n_) - starts_[j];
    }
    return t;
  }

 private:
  int64_t n_;
  bool wants_counts_;
  Tensor inverse_;
  std::vector<int64_t> starts_, firsts_;
};

// The elements of a flat tensor at those positions.
Tensor taken(const Tensor& flat, const std::vector<int64_t>& at) {
  const Tensor t = make_empty({static_cast<int64_t>(at.size())}, flat.dtype());
  const int64_t item = static_cast<int64_t>(flat.itemsize());
  const char* from = static_cast<const char*>(flat.raw());
  char* to = static_cast<char*>(t.raw());
  for (size_t i = 0; i < at.size(); ++i) {
    std::memcpy(to + static_cast<int64_t>(i) * item, from + at[i] * item, static_cast<size_t>(item));
  }
  return t;
}

// NaNs are all different, as they compare.
template <typename T>
bool differ(T a, T b) {
  return !(a == b);
}

template <typename C>
Three unique_of(const Tensor& self, bool inverse, bool counts) {
  const int64_t n = self.numel();
  const Tensor line = cpu::dense_as(self, dtype_of_v<C>);
  cpu::SortedLine<C> sorted(n, false, true);
  sorted.sort(line.data<C>());
  const Tensor values = make_empty({n}, dtype_of_v<C>), starts = make_empty({counts ? n + 1 : 0}, ScalarType::Int64);
  const Tensor places = make_empty(inverse ? self.sizes() : IntList({0}), ScalarType::Int64);
  C* value = values.data<C>();
  int64_t* start = starts.data<int64_t>();
  int64_t* place = places.data<int64_t>();
  int64_t k = 0;
  cpu::in_blocks(n, [&](int64_t i, int64_t last) {
    int64_t at = k;  // in a register
    for (; i < last; ++i) {
      // What does not start a run is overwritten: no branch to guess.
      value[at] = sorted.value(i);
      if (counts) start[at] = i;
      at += i == 0 || sorted.differs(i) ? 1 : 0;
      if (inverse) place[sorted.position(i)] = at - 1;
    }
    k = at;
  });
  const Tensor output = make_empty({k}, self.dtype()), numbers = make_empty({counts ? k : 0}, ScalarType::Int64);
  convert_elements(self.dtype(), output.raw(), dtype_of_v<C>, value, k);
  if (counts) {
    start[k] = n;
    for (int64_t i = 0; i < k; ++i) numbers.data<int64_t>()[i] = start[i + 1] - start[i];
  }
  return {output, places, numbers};
}

// Slices of self along `dim` as rows; `order` of them.
Three unique_rows(const Tensor& self, int64_t dim, bool sorted, bool inverse, bool counts, const char* op) {
  FACULA_CHECK(self.dim() > 0, Index, Operator{op}, Argument{"dim"}, " is ", dim, ", self is 0-d and has no dims");
  const int64_t d = wrap_dim(dim, self.dim(), op), n = self.size(d);
  FACULA_CHECK(self.numel() > 0 || n == 0, Shape, Operator{op}, "the slices along dim ", dim,
               " have no elements, self is ", shape_string(self.sizes()));
  const Tensor rows = cpu::dense(ops::movedim(self, {d}, {0}));
  const int64_t width = n == 0 ? 0 : rows.numel() / n;
  Runs runs(n, inverse, counts);
  cpu::visit_ordered(self.dtype(), op, [&]<typename T>(std::type_identity<T>) {
    // A copy of our own: a sort of what another thread writes to meanwhile would leave its bounds.
    const Tensor lines = make_empty(rows.sizes(), dtype_of_v<T>);
    copy_strided(lines, rows);
    const T* x = lines.data<T>();
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    if (sorted) {
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        count_step();
        for (int64_t j = 0; j < width; ++j) {
          const auto ka = cpu::to_key(x[a * width + j]), kb = cpu::to_key(x[b * width + j]);
          if (ka != kb) return ka < kb;
        }
        return false;
      });
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = order[static_cast<size_t>(i)];
      bool starts = i == 0;
      for (int64_t j = 0; j < width && !starts; ++j) {
        starts = differ(x[at * width + j], x[order[static_cast<size_t>(i - 1)] * width + j]);
      }
      runs.add(i, at, starts);
    }
  });
  const std::vector<int64_t>& firsts = runs.firsts();
  const Tensor at = make_empty({static_cast<int64_t>(firsts.size())}, ScalarType::Int64);
  std::copy(firsts.begin(), firsts.end(), at.data<int64_t>());
  return {ops::index_select(self, d, at), runs.inverse({n}), runs.counts()};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& self, bool, bool return_inverse, bool return_counts) {
  const Tensor x = reachable(with_data(self, "unique"), "unique");
  return back(cpu::visit_ordered(
                  x.dtype(), "unique",
                  [&]<typename C>(std::type_identity<C>) { return unique_of<C>(x, return_inverse, return_counts); }),
              self.device());
}

std::tuple<Tensor, Tensor, Tensor> unique_dim(const Tensor& self, int64_t dim, bool, bool return_inverse,
                                              bool return_counts) {
  const Tensor x = reachable(with_data(self, "unique"), "unique");
  return back(unique_rows(x, dim, true, return_inverse, return_counts, "unique"), self.device());
}

std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts,
                                                      std::optional<int64_t> dim) {
  const Tensor x = reachable(with_data(self, "unique_consecutive"), "unique_consecutive");
  if (dim) return back(unique_rows(x, *dim, false, return_inverse, return_counts, "unique_consecutive"), self.device());
  Three result;
  visit_dtype(x.dtype(), [&]<typename T>(std::type_identity<T>) {
    const T* data = x.data<T>();
    Runs runs(x.numel(), return_inverse, return_counts);
    for (int64_t i = 0; i < x.numel(); ++i) runs.add(i, i, i == 0 || differ(data[i], data[i - 1]));
    result = {taken(x, runs.firsts()), runs.inverse(self.sizes()), runs.counts()};
  });
  return back(std::move(result), self.device());
}

}  // namespace facula::composite
