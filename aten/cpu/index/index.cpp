// Indexing with tensors of positions: reading, writing and accumulating.
#include <cstring>

#include "aten/cpu/common/bits.h"
#include "aten/cpu/index/long_sums.h"
#include "aten/cpu/index/plan.h"
#include "facula/kernels.h"

namespace facula::cpu {

namespace {

// Undefined for every dim before `dim`, then the index.
std::vector<Tensor> at_dim(int64_t dim, const Tensor& index) {
  std::vector<Tensor> list(static_cast<size_t>(dim) + 1);
  list.back() = index;
  return list;
}

// A 0-d tensor as one of shape (1,).
Tensor at_least_1d(const Tensor& t) {
  const int64_t one = 1;
  return t.dim() > 0 ? t : alias(t, IntList(&one, 1), IntList(&one, 1), t.offset(), false);
}

void read(const Tensor& table, TensorList given, bool wrap, const char* op, const Tensor& out) {
  IndexPlan plan;
  const IndexLayout layout = index_layout(table.sizes(), given, op);
  const std::vector<Tensor> indices = prepare_indices(given, op);
  plan.wrap = wrap;
  if (out.numel() == 0) {  // nothing is read, but indices there may be
    check_indices(table, indices, wrap, op);
    return;
  }
  Tensor to = out;
  if (!make_index_plan(table, to, indices, layout, plan)) {
    to = make_empty(out.sizes(), out.dtype());
    make_index_plan(table, to, indices, layout, plan);
  }
  index_read(plan);
  if (!plan.good.load()) raise_bad_index(table, indices, wrap, op);
  if (!to.is_same(out)) copy_strided(out, to);
}

// table = origin; then table[given] = values or += values. Sums start from zeros where the origin is undefined.
// `values` broadcasts to the layout's sizes. Bad indices raise before anything is written.
void write(const Tensor& table, const Tensor& origin, TensorList given, const Tensor& values, bool accumulate,
           bool wrap, const char* op) {
  IndexPlan plan;
  const IndexLayout layout = index_layout(table.sizes(), given, op);
  std::vector<Tensor> indices = prepare_indices(given, op);
  check_indices(table, indices, wrap, op);
  plan.wrap = wrap;
  for (Tensor& t : indices) {  // what was checked must not be overwritten
    if (t.defined()) t = apart_from(t, table);
  }
  // 16-bit floats are summed in float, and rounded once.
  const bool wide = accumulate && is_reduced_float(table.dtype());
  const ScalarType type = wide ? ScalarType::Float32 : table.dtype();
  Tensor target = wide ? make_empty(table.sizes(), type) : table;
  Tensor side = values;
  if (side.dtype() != type) {
    const Tensor converted = make_empty(side.sizes(), type);
    copy_strided(converted, side);
    side = converted;
  }
  side = apart_from(side, table);
  if (side.dim() > static_cast<int64_t>(layout.sizes.size())) {  // one element, of any number of dims
    const Tensor one = make_empty(IntList{}, type);
    std::memcpy(one.raw(), side.raw(), itemsize(type));
    side = one;
  }
  if (!make_index_plan(target, side, indices, layout, plan)) {
    const Tensor spread = make_empty(layout.sizes, type);
    copy_strided(spread, side);
    side = spread;
    make_index_plan(target, side, indices, layout, plan);
  }
  const bool zeros = !origin.defined();
  bool by_rows = goes_by_rows(plan);
  const bool many = accumulate && !by_rows && long_sum_type(type) != type && many_meet(plan);
  if (many) by_rows = may_go_by_rows(plan);
  const bool in_double = many && !by_rows;
  if (in_double) {
    target = make_empty(table.sizes(), long_sum_type(type));
    make_index_plan(target, side, indices, layout, plan);
  }
  const std::optional<ScalarType> sum = accumulate ? std::optional(type) : std::nullopt;
  if (by_rows && (zeros || (origin.dtype() == type && origin.is_contiguous() && target.is_contiguous()))) {
    index_by_rows(plan, sum, zeros ? nullptr : origin.raw());
  } else {
    if (zeros) {
      fill(target, 0, target);
    } else if (!target.is_same(origin)) {
      copy_strided(target, origin);
    }
    if (by_rows) {
      index_by_rows(plan, sum, target.raw());
    } else if (accumulate) {
      index_accumulate(plan, type, in_double);
    } else {
      index_write(plan);
    }
  }
  if (!plan.good.load()) raise_bad_index(table, indices, wrap, op);
  if (!target.is_same(table)) copy_strided(table, target);
}

}  // namespace

void index_long(const Tensor& self, TensorList indices, const Tensor& out) { read(self, indices, true, "index", out); }

void index_put_long(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate, const Tensor& out) {
  write(out, self, indices, values, accumulate, true, "index_put");
}

void index_select(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  read(at_least_1d(self), at_dim(dim, at_least_1d(index)), false, "index_select", at_least_1d(out));
}

void index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha,
               const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  Tensor values = at_least_1d(source);
  if (!alpha.equals(1)) {
    const ScalarType type = compute_type(self.dtype());
    const Tensor scaled = make_empty(values.sizes(), type);
    copy_strided(scaled, values);
    visit_dtype(type, [&]<typename T>(std::type_identity<T>) {
      if constexpr (!is_reduced_float_v<T>) {
        T* v = scaled.data<T>();
        const T a = alpha.to<T>();
        parallel_for(0, scaled.numel(), kGrain, [&](int64_t b, int64_t e) {
          for (int64_t i = b; i < e; ++i) v[i] = static_cast<T>(v[i] * a);
        });
      }
    });
    values = scaled;
  }
  write(at_least_1d(out), at_least_1d(self), at_dim(dim, at_least_1d(index)), values, true, false, "index_add");
}

void index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  write(at_least_1d(out), at_least_1d(self), at_dim(dim, at_least_1d(index)), at_least_1d(source), false, false,
        "index_copy");
}

void index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, const Tensor& out) {
  dim = wrap_dim(dim, self.dim());
  const Element element = element_of(value, self.dtype(), "index_fill");
  const Tensor values = make_empty({}, self.dtype());
  std::memcpy(values.raw(), element.bytes, values.itemsize());
  write(at_least_1d(out), at_least_1d(self), at_dim(dim, at_least_1d(index)), values, false, true, "index_fill");
}

void index_fill_tensor(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value, const Tensor& out) {
  index_fill(self, dim, index, load_element(value.raw(), value.dtype()), out);
}

void embedding(const Tensor& weight, const Tensor& indices, int64_t, bool, bool, const Tensor& out) {
  read(weight, TensorList(&indices, 1), false, "embedding", out);
}

void embedding_backward(const Tensor& grad, const Tensor& indices, int64_t num_weights, int64_t padding_idx,
                        bool scale_grad_by_freq, const Tensor& out) {
  const ScalarType type = compute_type(out.dtype());
  const bool direct = out.dtype() == type && out.is_contiguous();
  const Tensor sum = direct ? out : make_empty(out.sizes(), type);
  const int64_t columns = out.sizes()[1];
  const size_t row = static_cast<size_t>(columns) * sum.itemsize();
  char* const data = static_cast<char*>(sum.raw());
  write(sum, Tensor(), TensorList(&indices, 1), grad, true, false, "embedding_backward");
  if (padding_idx >= 0 && padding_idx < num_weights) std::memset(data + static_cast<size_t>(padding_idx) * row, 0, row);
  if (scale_grad_by_freq && columns > 0) {
    std::vector<int64_t> counts(static_cast<size_t>(num_weights), 0);
    const Tensor flat = dense(indices, ScalarType::Int64);
    for (int64_t i = 0; i < flat.numel(); ++i) {
      const int64_t row = read_once(flat.data<int64_t>() + i);
      if (row < 0 || row >= num_weights) raise_out_of_range(flat, 0, num_weights, 0, "embedding_backward");
      ++counts[static_cast<size_t>(row)];
    }
    visit_floating(type, "embedding_backward", [&]<typename T>(std::type_identity<T>) {
      for (int64_t r = 0; r < num_weights; ++r) {
        const int64_t c = counts[static_cast<size_t>(r)];
        if (c < 2) continue;
        T* v = sum.data<T>() + r * columns;
        for (int64_t i = 0; i < columns; ++i) v[i] = static_cast<T>(v[i] / static_cast<float>(c));
      }
    });
  }
  if (!direct) copy_strided(out, sum);
}

}  // namespace facula::cpu
