// Convolutions of integers, tap by tap.
#include "facula/kernels.h"
#include "facula/ops.h"
#include "runtime/core/checked.h"

namespace facula::composite {

namespace {

struct Geometry {
  IntList stride, padding, dilation;
  size_t dims;
};

// What a tap of the weight sees: every stride-th entry, `count` of them, of each spatial dim.
Tensor seen(const Tensor& padded, const Geometry& g, const DimVector& tap, const DimVector& count) {
  Tensor view = padded;
  for (size_t d = 0; d < g.dims; ++d) {
    const int64_t start = checked_mul(tap[d], g.dilation[d]);
    const int64_t end = checked_add(start, checked_add(checked_mul(count[d] - 1, g.stride[d]), 1));
    view = ops::slice(view, static_cast<int64_t>(d) + 2, start, end, g.stride[d]);
  }
  return view;
}

bool next(DimVector& tap, const DimVector& sizes) {
  for (size_t d = sizes.size(); d-- > 0;) {
    if (++tap[d] < sizes[d]) return true;
    tap[d] = 0;
  }
  return false;
}

}  // namespace

Tensor whole_convolution(const Tensor& input, const Tensor& weight, IntList stride, IntList padding, IntList dilation,
                         bool transposed, IntList output_padding, int64_t groups) {
  // The shape rule, of floats, checks and computes the sizes.
  const Tensor like = ops::empty(input.sizes(), ScalarType::Float32, Device{kMeta}, std::nullopt);
  const Tensor taps = ops::empty(weight.sizes(), ScalarType::Float32, Device{kMeta}, std::nullopt);
  const Tensor shape = ops::convolution(like, taps, {}, stride, padding, dilation, transposed, output_padding, groups);
  const DimVector sizes(shape.sizes());
  const Geometry g{stride, padding, dilation, stride.size()};
  const int64_t n = input.size(0), in = input.size(1) / groups, out = sizes[1] / groups;
  DimVector kernel, count, pads;
  for (size_t d = 0; d < g.dims; ++d) kernel.push_back(weight.size(static_cast<int64_t>(d) + 2));
  int64_t places = 1;
  for (size_t d = 0; d < g.dims; ++d) {
    count.push_back(transposed ? input.size(static_cast<int64_t>(d) + 2) : sizes[d + 2]);
    places *= count[d];
  }
  DimVector tap(g.dims, 0);
  DimVector grouped{n, groups, transposed ? out : in};
  if (!transposed) {
    for (size_t d = g.dims; d-- > 0;) pads.resize(pads.size() + 2, padding[d]);
    const Tensor padded = ops::constant_pad_nd(input, pads, 0);
    Tensor sum = ops::zeros(DimVector{n, groups, out, places}, input.dtype(), input.device());
    if (weight.numel() > 0 && sum.numel() > 0) {
      do {
        Tensor w = weight;
        for (size_t d = g.dims; d-- > 0;) w = ops::select(w, static_cast<int64_t>(d) + 2, tap[d]);
        const Tensor x = ops::reshape(seen(padded, g, tap, count), DimVector{n, groups, in, places});
        sum = ops::add(sum, ops::matmul(ops::reshape(w, DimVector{1, groups, out, in}), x), 1);
      } while (next(tap, kernel));
    }
    return ops::reshape(sum, sizes);
  }
  DimVector whole{n, sizes[1]};
  for (size_t d = 0; d < g.dims; ++d) whole.push_back(checked_add(sizes[d + 2], checked_mul(2, padding[d])));
  for (size_t d = 0; d < g.dims; ++d) {  // what the last tap reaches
    const int64_t reach = checked_add(checked_mul(kernel[d] - 1, dilation[d]), checked_mul(count[d] - 1, stride[d]));
    whole[d + 2] = std::max(whole[d + 2], checked_add(reach, 1));
  }
  Tensor sum = ops::zeros(whole, input.dtype(), input.device());
  if (weight.numel() > 0 && input.numel() > 0) {
    // What is written to in place differs by row, within vmap(), where an operand does.
    const auto first = [](const Tensor& t) { return ops::select(ops::reshape(t, DimVector{-1}), 0, 0); };
    sum = ops::add(sum, ops::mul(ops::mul(first(input), first(weight)), ops::zeros({}, input.dtype(), input.device())),
                   1);
    const Tensor x = ops::reshape(input, DimVector{n, groups, in, places});
    do {
      Tensor w = weight;
      for (size_t d = g.dims; d-- > 0;) w = ops::select(w, static_cast<int64_t>(d) + 2, tap[d]);
      const Tensor part = ops::matmul(ops::transpose(ops::reshape(w, DimVector{1, groups, in, out}), 2, 3), x);
      DimVector target{n, sizes[1]};
      for (const int64_t k : count) target.push_back(k);
      ops::add_(seen(sum, g, tap, count), ops::reshape(part, target), 1);
    } while (next(tap, kernel));
  }
  Tensor result = sum;
  for (size_t d = 0; d < g.dims; ++d) {
    result = ops::slice(result, static_cast<int64_t>(d) + 2, padding[d], padding[d] + sizes[d + 2], 1);
  }
  return ops::clone(result, MemoryFormat::Contiguous);
}

}  // namespace facula::composite
