// Joins and rearrangements made of other operators.
#include <algorithm>
#include <limits>

#include "aten/geometry.h"
#include "facula/kernels.h"
#include "facula/ops.h"
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

Tensor hstack(TensorList tensors) {
  FACULA_CHECK(!tensors.empty(), Shape, Operator{"hstack"}, "at least one tensor is needed");
  const std::vector<Tensor> parts = ops::atleast_1d_list(tensors);
  return ops::cat(parts, parts[0].dim() == 1 ? 0 : 1);
}

Tensor column_stack(TensorList tensors) {
  std::vector<Tensor> columns;
  for (const Tensor& t : tensors) {
    const int64_t column[] = {t.numel(), 1};
    columns.push_back(t.dim() <= 1 ? ops::reshape(t, IntList(column, 2)) : t);
  }
  return ops::cat(columns, 1);
}

Tensor block_diag(TensorList tensors) {
  FACULA_CHECK(!tensors.empty(), Shape, Operator{"block_diag"}, "at least one tensor is needed");
  std::vector<Tensor> rows;
  int64_t width = 0, left = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    FACULA_CHECK(tensors[i].dim() <= 2, Shape, Operator{"block_diag"}, "tensors[", i,
                 "] must have at most 2 dims, not ", tensors[i].dim());
    rows.push_back(ops::atleast_2d(tensors[i]));
    width = checked_add(width, rows.back().sizes()[1]);
  }
  for (Tensor& block : rows) {
    const int64_t height = block.sizes()[0], own = block.sizes()[1];
    const int64_t before[] = {height, left}, after[] = {height, width - left - own};
    const Tensor parts[] = {ops::new_zeros(block, IntList(before, 2)), block, ops::new_zeros(block, IntList(after, 2))};
    block = ops::cat(TensorList(parts, 3), 1);
    left += own;
  }
  return ops::cat(rows, 0);
}

Tensor repeat(const Tensor& self, IntList repeats) {
  FACULA_CHECK(static_cast<int64_t>(repeats.size()) >= self.dim(), Shape, Operator{"repeat"}, repeats.size(),
               " repeats for a tensor of ", self.dim(), " dims; give one for every dim at least");
  const size_t lead = repeats.size() - self.sizes().size();
  DimVector apart, spread, merged;
  for (size_t d = 0; d < repeats.size(); ++d) {
    const int64_t size = d < lead ? 1 : self.sizes()[d - lead];
    FACULA_CHECK(repeats[d] >= 0, Shape, Operator{"repeat"}, Argument{"repeats"},
                 " must not be negative: ", shape_string(repeats));
    for (const int64_t s : {int64_t{1}, size}) apart.push_back(s);
    for (const int64_t s : {repeats[d], size}) spread.push_back(s);
    merged.push_back(checked_mul(repeats[d], size));
  }
  const Tensor wide = ops::expand(ops::reshape(self, apart), spread);
  return ops::view(ops::clone(wide, MemoryFormat::Contiguous), merged);
}

Tensor repeat_interleave(const Tensor& self, int64_t repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size) {
  FACULA_CHECK(repeats >= 0, Runtime, Operator{"repeat_interleave"}, Argument{"repeats"}, " must not be negative, not ",
               repeats);
  if (!dim) {
    const int64_t flat[] = {self.numel()};
    return ops::repeat_interleave(ops::reshape(self, IntList(flat, 1)), repeats, 0, output_size);
  }
  const Tensor source = self.dim() == 0 ? ops::unsqueeze(self, 0) : self;
  const int64_t d = wrap_dim(*dim, source.dim(), "repeat_interleave");
  DimVector spread(source.sizes()), merged(source.sizes());
  spread.insert(spread.begin() + d + 1, repeats);
  merged[static_cast<size_t>(d)] = checked_mul(merged[static_cast<size_t>(d)], repeats);
  FACULA_CHECK(!output_size || *output_size == merged[static_cast<size_t>(d)], Runtime, Operator{"repeat_interleave"},
               Argument{"output_size"}, " is ", *output_size, ", the repeats add up to ",
               merged[static_cast<size_t>(d)]);
  const Tensor wide = ops::expand(ops::unsqueeze(source, d + 1), spread);
  return ops::view(ops::clone(wide, MemoryFormat::Contiguous), merged);
}

Tensor repeat_interleave_index(const Tensor& repeats, std::optional<int64_t> output_size) {
  FACULA_CHECK(repeats.dim() == 1, Shape, Operator{"repeat_interleave"}, Argument{"repeats"}, " must be a vector, not ",
               shape_string(repeats.sizes()));
  FACULA_CHECK(repeats.dtype() == ScalarType::Int64 || repeats.dtype() == ScalarType::Int32, Dtype,
               Operator{"repeat_interleave"}, Argument{"repeats"}, " must be int64 or int32, not ",
               dtype_name(repeats.dtype()));
  const int64_t n = repeats.numel();
  const Tensor counts = ops::to_dtype(repeats, ScalarType::Int64);
  FACULA_CHECK(n == 0 || repeats.is_meta() || ops::local_scalar(ops::min(counts)).to<int64_t>() >= 0, Runtime,
               Operator{"repeat_interleave"}, Argument{"repeats"}, " must not be negative");
  const Tensor ends = ops::cumsum(counts, 0);
  // A sum of numbers that are not negative is so where it has passed 64 bits.
  FACULA_CHECK(n == 0 || repeats.is_meta() || ops::local_scalar(ops::min(ends)).to<int64_t>() >= 0, Value,
               Operator{"repeat_interleave"}, "the repeats add up to more than 64 bits hold");
  const bool known = n == 0 || !repeats.is_meta();
  FACULA_CHECK(known || output_size, Values, Operator{"repeat_interleave"},
               "the size depends on the values of repeats, which has none on meta; pass output_size");
  const int64_t total = n == 0 ? 0 : known ? ops::local_scalar(ops::select(ends, 0, -1)).to<int64_t>() : *output_size;
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

Tensor roll(const Tensor& self, IntList shifts, IntList dims) {
  FACULA_CHECK(!shifts.empty(), Runtime, Operator{"roll"}, Argument{"shifts"}, " must not be empty");
  if (dims.empty()) {
    FACULA_CHECK(shifts.size() == 1, Shape, Operator{"roll"}, shifts.size(), " shifts need as many dims");
    const int64_t flat[] = {self.numel()}, zero = 0;
    return ops::view(ops::contiguous(ops::roll(ops::reshape(self, IntList(flat, 1)), shifts, IntList(&zero, 1))),
                     self.sizes());
  }
  FACULA_CHECK(shifts.size() == dims.size(), Shape, Operator{"roll"}, "shifts and dims must have the same length, not ",
               shifts.size(), " and ", dims.size());
  Tensor result = self;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t d = wrap_dim(dims[i], self.dim(), "roll");
    const int64_t size = self.dim() > 0 ? self.size(d) : 1;
    if (size == 0 || self.dim() == 0) continue;
    const int64_t cut = (size - shifts[i] % size) % size;
    if (cut == 0) continue;
    const Tensor parts[] = {ops::slice(result, d, cut, std::nullopt, 1), ops::slice(result, d, 0, cut, 1)};
    result = ops::cat(TensorList(parts, 2), d);
  }
  return result.is_same(self) ? ops::clone(self, std::nullopt) : result;
}

Tensor rot90(const Tensor& self, int64_t k, IntList dims) {
  FACULA_CHECK(dims.size() == 2 && self.dim() >= 2, Shape, Operator{"rot90"}, "two dims of self are needed, not ",
               shape_string(dims));
  const DimVector plane = wrap_dims(dims, self.dim(), "rot90");
  const IntList first(plane.data(), 1), second(plane.data() + 1, 1);
  switch (((k % 4) + 4) % 4) {
    case 1:
      return ops::transpose(ops::flip(self, second), plane[0], plane[1]);
    case 2:
      return ops::flip(self, plane);
    case 3:
      return ops::transpose(ops::flip(self, first), plane[0], plane[1]);
    default:
      return ops::clone(self, MemoryFormat::Contiguous);
  }
}

Tensor cartesian_prod(TensorList tensors) {
  for (const Tensor& t : tensors) {
    FACULA_CHECK(t.dim() == 1, Shape, Operator{"cartesian_prod"}, Argument{"tensors"}, " must be vectors, not ",
                 shape_string(t.sizes()));
  }
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> grids = ops::meshgrid(tensors, "ij");
  int64_t total = 1;
  for (const Tensor& t : tensors) total = checked_mul(total, t.numel());
  for (Tensor& g : grids) g = ops::reshape(g, IntList(&total, 1));
  return ops::stack(grids, 1);
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
