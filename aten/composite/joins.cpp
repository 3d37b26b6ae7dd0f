// Joins and rearrangements made of other operators.
#include <algorithm>
#include <limits>

#include "aten/geometry.h"
#include "facula/kernels.h"
#include "facula/ops.h"
#include "runtime/dispatch/levels.h"
#include "facula/shapes.h"

namespace facula::composite {

std::vector<Tensor> cat_backward(const Tensor& grad, IntList sizes, int64_t dim) {
  std::vector<Tensor> pieces;
  int64_t start = 0;
  for (const int64_t s : sizes) {
    pieces.push_back(s < 0 ? Tensor() : ops::slice(grad, dim, start, start + s, 1));
    start += std::max<int64_t>(s, 0);
  }
  return pieces;
}

Tensor cat_slices(TensorList tensors, int64_t dim) {
  const Meta meta = shape::cat(tensors, dim);
  const Tensor out = ops::empty(meta.sizes, meta.dtype, meta.device);
  int64_t start = 0;
  for (const Tensor& t : tensors) {
    if (t.numel() == 0) continue;
    const int64_t length = t.size(dim);
    ops::copy_(ops::slice(out, dim, start, start + length, 1), t);
    start += length;
  }
  return out;
}

Tensor repeat_interleave_index(const Tensor& repeats, std::optional<int64_t> output_size) {
  FACULA_CHECK(repeats.dim() == 1, Shape, Operator{"repeat_interleave"}, Argument{"repeats"}, " must be a vector, not ",
               shape_string(repeats.sizes()));
  FACULA_CHECK(repeats.dtype() == ScalarType::Int64 || repeats.dtype() == ScalarType::Int32, Dtype,
               Operator{"repeat_interleave"}, Argument{"repeats"}, " must be int64 or int32, not ",
               dtype_name(repeats.dtype()));
  const int64_t n = repeats.numel();
  const Tensor counts = ops::to_dtype(repeats, ScalarType::Int64);
  FACULA_CHECK(n == 0 || repeats.is_meta() || ops::local_scalar(ops::min(below_levels(counts))).to<int64_t>() >= 0,
               Runtime, Operator{"repeat_interleave"}, Argument{"repeats"}, " must not be negative");
  const Tensor ends = ops::cumsum(counts, 0);
  // A sum of numbers that are not negative is so where it has passed 64 bits.
  FACULA_CHECK(n == 0 || repeats.is_meta() || ops::local_scalar(ops::min(below_levels(ends))).to<int64_t>() >= 0, Value,
               Operator{"repeat_interleave"}, "the repeats add up to more than 64 bits hold");
  const bool known = n == 0 || !repeats.is_meta();
  FACULA_CHECK(known || output_size, Values, Operator{"repeat_interleave"},
               "the size depends on the values of repeats, which has none on meta; pass output_size");
  int64_t total = n == 0 ? 0 : output_size.value_or(0);
  if (n > 0 && known) {
    const Tensor sums = ops::select(output_size ? below_levels(ends) : ends, -1, -1);  // given, of all rows of a batch
    total = ops::local_scalar(ops::max(sums)).to<int64_t>();
    if (output_size && total == *output_size) total = ops::local_scalar(ops::min(sums)).to<int64_t>();
  }
  FACULA_CHECK(!output_size || *output_size == total, Runtime, Operator{"repeat_interleave"}, Argument{"output_size"},
               " is ", *output_size, " and the repeats add up to ", total);
  FACULA_CHECK(total >= 0 && total < std::numeric_limits<int64_t>::max(), Value, Operator{"repeat_interleave"},
               Argument{"output_size"}, " must not be negative, got ", total);
  // One step at the end of every run; their running sum is the position.
  const int64_t size[] = {total + 1};
  const Tensor steps = ops::new_zeros(ends, IntList(size, 1));
  const Tensor inner = ops::slice(ends, 0, 0, std::max<int64_t>(n - 1, 0), 1);
  ops::index_add_(steps, 0, inner, ops::ones_like(inner), 1);
  return ops::to_dtype(ops::cumsum(ops::slice(steps, 0, 0, total, 1), 0), repeats.dtype());
}

Tensor repeat_interleave_each(const Tensor& self, const Tensor& repeats, std::optional<int64_t> dim,
                              std::optional<int64_t> output_size) {
  if (!dim) {
    const int64_t flat[] = {self.numel()};
    return ops::repeat_interleave_each(ops::reshape(self, IntList(flat, 1)), repeats, 0, output_size);
  }
  const Tensor source = self.dim() == 0 ? ops::unsqueeze(self, 0) : self;
  const int64_t d = wrap_dim(*dim, source.dim(), "repeat_interleave"), size = source.size(d);
  FACULA_CHECK(repeats.dim() <= 1 && (repeats.numel() == 1 || repeats.numel() == size), Shape,
               Operator{"repeat_interleave"}, Argument{"repeats"}, " must have one element or one for each of the ",
               size, " entries of dim ", d, ", not ", shape_string(repeats.sizes()));
  const Tensor each = ops::expand(ops::atleast_1d(repeats), IntList(&size, 1));
  return ops::index_select(source, d, ops::repeat_interleave_index(each, output_size));
}

namespace {

// How many ways there are to choose k of n; a ValueError where 64 bits do not hold their number.
int64_t choices(int64_t n, int64_t k) {
  __extension__ typedef __int128 wide;
  wide count = 1;
  k = std::min(k, n - k);
  for (int64_t i = 1; i <= k; ++i) {  // at least doubles in each step
    count = count * (n - k + i) / i;
    FACULA_CHECK(count <= std::numeric_limits<int64_t>::max(), Value, Operator{"combinations"}, "there are more of ", n,
                 " things than can be counted");
  }
  return static_cast<int64_t>(count);
}

}  // namespace

Tensor combinations(const Tensor& self, int64_t r, bool with_replacement) {
  FACULA_CHECK(self.dim() == 1, Shape, Operator{"combinations"}, Argument{"self"}, " must be a vector, not ",
               shape_string(self.sizes()));
  const int64_t n = self.numel();
  if (r == 0) {
    const int64_t none = 0;
    return ops::new_zeros(self, IntList(&none, 1));
  }
  if (n == 0 || (r > n && !with_replacement)) {
    const int64_t none[] = {0, r};
    return ops::new_zeros(self, none);
  }
  const int64_t rows = choices(with_replacement ? checked_add(n, r - 1) : n, r);
  const int64_t sizes[] = {rows, r}, flat[] = {checked_mul(rows, r)};
  // The next row raises the last place that may rise, and those behind it begin anew.
  const Tensor places = make_empty(flat, ScalarType::Int64, self.is_meta() ? self.device() : Device{});
  if (!self.is_meta()) {
    const int64_t apart = with_replacement ? 0 : 1;
    auto* row = places.data<int64_t>();
    for (int64_t k = 0; k < r; ++k) row[k] = k * apart;
    for (int64_t i = 1; i < rows; ++i, row += r) {
      int64_t k = r - 1;
      while (row[k] == n - 1 - (r - 1 - k) * apart) --k;
      std::copy(row, row + k, row + r);
      for (int64_t j = k; j < r; ++j) row[r + j] = row[k] + 1 + (j - k) * apart;
    }
  }
  const Tensor at = self.is_meta() ? places : ops::to_device(places, self.device());
  return ops::view(ops::index_select(self, 0, at), sizes);
}

}  // namespace facula::composite
