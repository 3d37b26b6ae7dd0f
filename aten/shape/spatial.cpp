// Shapes and argument checks of convolution and pooling.
#include <string>

#include "aten/layout.h"
#include "aten/shape/checks.h"
#include "facula/shapes.h"

namespace facula::shape {
namespace {

std::string numbered(const char* name, size_t dims) { return concat(name, dims, "d"); }

void check_list(IntList list, size_t dims, int64_t low, const std::string& op, const char* name) {
  FACULA_CHECK(list.size() == dims, Value, Operator{op}, Argument{name}, " must have ", dims, " values, got ",
               shape_string(list));
  for (const int64_t v : list) {
    FACULA_CHECK(v >= low, Value, Operator{op}, Argument{name}, " must be at least ", low, ", got ",
                 shape_string(list));
  }
}

Meta meta(const DimVector& sizes, ScalarType dtype, const Tensor& like) { return {sizes, dtype, like.device(), {}}; }

// In channels_last when one of these is.
Meta image(const DimVector& sizes, ScalarType dtype, const Tensor& like, const Tensor& other = {}) {
  Meta m = meta(sizes, dtype, like);
  if (sizes.size() == 4 && (is_channels_last(like) || is_channels_last(other)))
    m.strides = channels_last_strides(sizes);
  return m;
}

// a * b + c where these may be absurdly large.
int64_t affine(int64_t a, int64_t b, int64_t c, const std::string& op) {
  int64_t r = 0;
  FACULA_CHECK(!__builtin_mul_overflow(a, b, &r) && !__builtin_add_overflow(r, c, &r), Value, Operator{op},
               "sizes overflow: ", a, " * ", b, " + ", c, " is beyond 64 bits; give smaller numbers");
  return r;
}

// Dims of `input` before the spatial ones: (C,) or (N, C). There may be no images, and for some no channels.
size_t lead_of(const Tensor& input, size_t dims, const std::string& op, bool channels = true) {
  FACULA_CHECK(dims >= 1 && dims <= 3, Value, Operator{op}, "windows have 1 to 3 dims, not ", dims);
  const auto n = static_cast<size_t>(input.dim());
  FACULA_CHECK(n == dims + 1 || n == dims + 2, Shape, Operator{op}, Argument{"input"}, " is ",
               shape_string(input.sizes()), ", expected (N, C, ...) or (C, ...) with ", dims, " spatial dim",
               dims == 1 ? "" : "s");
  for (size_t d = n - dims - (channels ? 1 : 0); d < n; ++d) {
    FACULA_CHECK(input.sizes()[d] > 0, Shape, Operator{op}, Argument{"input"}, " is ", shape_string(input.sizes()),
                 channels ? "; only its batch may be empty" : "; its spatial dims may not be empty");
  }
  return n - dims;
}

int64_t pooled(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode,
               const std::string& op) {
  const int64_t room = affine(padding, 2, in, op) - affine(dilation, kernel - 1, 1, op);
  if (room < 0) return ceil_mode && room + stride > 0 ? 1 : 0;
  int64_t out = room / stride + 1;
  // One more, which begins inside the input or its left margin.
  if (ceil_mode && room % stride != 0 && room - room % stride < in + padding - stride) ++out;
  return out;
}

void check_grad(const Tensor& grad, IntList expected, ScalarType dtype, const std::string& op) {
  FACULA_CHECK(grad.sizes() == expected && grad.dtype() == dtype, Runtime, op, " backward: grad is ",
               shape_string(grad.sizes()), " of ", dtype_name(grad.dtype()), ", expected ", shape_string(expected),
               " of ", dtype_name(dtype));
}

// A tensor of that shape without memory, for rules that ask for one.
Tensor shaped(IntList sizes, const Tensor& like) { return make_empty(sizes, like.dtype(), Device{kMeta, -1}); }

}  // namespace

Meta convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                 IntList dilation, bool transposed, IntList output_padding, int64_t groups) {
  FACULA_CHECK(input.dim() >= 3 && input.dim() <= 5, Shape, Operator{"convolution"}, Argument{"input"}, " is ",
               shape_string(input.sizes()), ", expected (N, C, ...) with 1 to 3 spatial dims");
  const auto dims = static_cast<size_t>(input.dim()) - 2;
  const std::string op = numbered(transposed ? "conv_transpose" : "conv", dims);
  check_floating(input, op, "input");
  FACULA_CHECK(weight.dtype() == input.dtype(), Dtype, Operator{op}, Argument{"input"}, " is ",
               dtype_name(input.dtype()), " and weight ", dtype_name(weight.dtype()),
               "; they must have the same dtype");
  FACULA_CHECK(weight.dim() == input.dim(), Shape, Operator{op}, Argument{"weight"}, " is ",
               shape_string(weight.sizes()), ", expected ", input.dim(), " dims for input ",
               shape_string(input.sizes()));
  check_list(stride, dims, 1, op, "stride");
  check_list(padding, dims, 0, op, "padding");
  check_list(dilation, dims, 1, op, "dilation");
  FACULA_CHECK(groups >= 1, Value, Operator{op}, Argument{"groups"}, " must be at least 1, not ", groups);
  const int64_t first = weight.size(0), second = weight.size(1), channels = input.size(1);
  FACULA_CHECK(first % groups == 0, Shape, Operator{op}, Argument{"weight"}, " is ", shape_string(weight.sizes()),
               "; its size 0 must be divisible by groups, ", groups);
  if (transposed) {
    check_list(output_padding, dims, 0, op, "output_padding");
    FACULA_CHECK(first == channels, Shape, Operator{op}, "input ", shape_string(input.sizes()), " has ", channels,
                 " channels, weight ", shape_string(weight.sizes()), " takes ", first);
  } else {
    FACULA_CHECK(channels % groups == 0 && second == channels / groups, Shape, Operator{op}, "input ",
                 shape_string(input.sizes()), " has ", channels, " channels, weight ", shape_string(weight.sizes()),
                 " with groups=", groups, " takes ", saturated_mul(second, groups));
  }
  DimVector out{input.size(0), transposed ? affine(second, groups, 0, op) : first};
  for (size_t d = 0; d < dims; ++d) {
    const int64_t in = input.sizes()[d + 2], kernel = weight.sizes()[d + 2];
    FACULA_CHECK(kernel >= 1, Shape, Operator{op}, Argument{"weight"}, " is ", shape_string(weight.sizes()),
                 "; the kernel must not be empty");
    const int64_t reach = affine(dilation[d], kernel - 1, 1, op);
    if (transposed) {
      FACULA_CHECK(output_padding[d] < std::max(stride[d], dilation[d]), Shape, Operator{op},
                   Argument{"output_padding"}, " must be smaller than stride or dilation, got ",
                   shape_string(output_padding));
      FACULA_CHECK(in >= 1, Shape, Operator{op}, Argument{"input"}, " is ", shape_string(input.sizes()),
                   "; its spatial dims must not be empty");
      const int64_t size =
          affine(in - 1, stride[d], affine(1, reach, output_padding[d], op), op) - affine(2, padding[d], 0, op);
      FACULA_CHECK(size >= 1, Shape, Operator{op}, "input ", shape_string(input.sizes()), " and kernel ",
                   shape_string(weight.sizes().subspan(2)), " give an output of size ", size, "; it must be positive");
      out.push_back(size);
    } else {
      const int64_t room = affine(2, padding[d], in, op) - reach;
      FACULA_CHECK(room >= 0, Shape, Operator{op}, "the kernel ", shape_string(weight.sizes().subspan(2)),
                   " with dilation ", shape_string(dilation), " is larger than the padded input, ",
                   shape_string(input.sizes().subspan(2)), " with padding ", shape_string(padding));
      out.push_back(room / stride[d] + 1);
    }
  }
  if (bias.defined()) {
    FACULA_CHECK(bias.dim() == 1 && bias.size(0) == out[1], Shape, Operator{op}, Argument{"bias"}, " is ",
                 shape_string(bias.sizes()), ", expected (", out[1], ",)");
    FACULA_CHECK(bias.dtype() == input.dtype(), Dtype, Operator{op}, Argument{"input"}, " is ",
                 dtype_name(input.dtype()), " and bias ", dtype_name(bias.dtype()), "; they must have the same dtype");
  }
  return image(out, input.dtype(), input, weight);
}

Meta convolution_backward(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& bias,
                          IntList stride, IntList padding, IntList dilation, bool transposed, IntList output_padding,
                          int64_t groups, bool needed) {
  const Meta out = convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  check_floating(grad, "convolution_backward", "grad");
  FACULA_CHECK(grad.sizes() == IntList(out.sizes), Runtime, Operator{"convolution_backward"}, Argument{"grad"}, " is ",
               shape_string(grad.sizes()), ", expected ", shape_string(out.sizes));
  return gradient_of(input, needed, grad);
}

Meta max_pool(const Tensor& input, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
              bool ceil_mode) {
  const size_t dims = kernel_size.size();
  const std::string op = numbered("max_pool", dims);
  check_floating(input, op, "input");
  const size_t lead = lead_of(input, dims, op);
  check_list(kernel_size, dims, 1, op, "kernel_size");
  check_list(stride, dims, 1, op, "stride");
  check_list(padding, dims, 0, op, "padding");
  check_list(dilation, dims, 1, op, "dilation");
  DimVector out(input.sizes());
  for (size_t d = 0; d < dims; ++d) {
    FACULA_CHECK(padding[d] <= (affine(kernel_size[d] - 1, dilation[d], 1, op)) / 2, Shape, Operator{op},
                 Argument{"padding"}, " must be at most half of the (dilated) kernel, got padding ",
                 shape_string(padding), " and kernel_size ", shape_string(kernel_size));
    out[lead + d] = pooled(input.sizes()[lead + d], kernel_size[d], stride[d], padding[d], dilation[d], ceil_mode, op);
    FACULA_CHECK(out[lead + d] >= 1, Shape, Operator{op}, "input ", shape_string(input.sizes()),
                 " is too small for kernel_size ", shape_string(kernel_size), ": the output would be empty");
  }
  return image(out, input.dtype(), input);
}

Meta max_pool_indices(const Tensor& input, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                      bool ceil_mode) {
  Meta m = max_pool(input, kernel_size, stride, padding, dilation, ceil_mode);
  m.dtype = ScalarType::Int64;
  return m;
}

Meta avg_pool(const Tensor& input, IntList kernel_size, IntList stride, IntList padding, bool ceil_mode,
              std::optional<int64_t> divisor_override) {
  const size_t dims = kernel_size.size();
  const std::string op = numbered("avg_pool", dims);
  check_floating(input, op, "input");
  const size_t lead = lead_of(input, dims, op);
  check_list(kernel_size, dims, 1, op, "kernel_size");
  check_list(stride, dims, 1, op, "stride");
  check_list(padding, dims, 0, op, "padding");
  FACULA_CHECK(!divisor_override || *divisor_override != 0, Value, Operator{op}, Argument{"divisor_override"},
               " must not be 0");
  DimVector out(input.sizes());
  for (size_t d = 0; d < dims; ++d) {
    FACULA_CHECK(padding[d] <= kernel_size[d] / 2, Shape, Operator{op}, Argument{"padding"},
                 " must be at most half of kernel_size, got ", shape_string(padding), " and ",
                 shape_string(kernel_size));
    out[lead + d] = pooled(input.sizes()[lead + d], kernel_size[d], stride[d], padding[d], 1, ceil_mode, op);
    FACULA_CHECK(out[lead + d] >= 1, Shape, Operator{op}, "input ", shape_string(input.sizes()),
                 " is too small for kernel_size ", shape_string(kernel_size), ": the output would be empty");
  }
  return image(out, input.dtype(), input);
}

Meta adaptive_pool(const Tensor& input, IntList output_size) {
  const size_t dims = output_size.size();
  const std::string op = numbered("adaptive_pool", dims);
  check_floating(input, op, "input");
  const size_t lead = lead_of(input, dims, op, false);
  check_list(output_size, dims, 0, op, "output_size");
  DimVector out(input.sizes());
  for (size_t d = 0; d < dims; ++d) out[lead + d] = output_size[d];
  return image(out, input.dtype(), input);
}

Meta adaptive_pool_indices(const Tensor& input, IntList output_size) {
  Meta m = adaptive_pool(input, output_size);
  m.dtype = ScalarType::Int64;
  return m;
}

Meta max_pool_backward(const Tensor& grad, const Tensor& input, IntList kernel_size, IntList stride, IntList padding,
                       IntList dilation, bool ceil_mode) {
  const Meta m = max_pool(input, kernel_size, stride, padding, dilation, ceil_mode);
  check_grad(grad, m.sizes, m.dtype, numbered("max_pool", kernel_size.size()));
  return image(DimVector(input.sizes()), input.dtype(), input);
}

Meta avg_pool_backward(const Tensor& grad, IntList input_size, IntList kernel_size, IntList stride, IntList padding,
                       bool ceil_mode, std::optional<int64_t> divisor_override) {
  const Meta m = avg_pool(shaped(input_size, grad), kernel_size, stride, padding, ceil_mode, divisor_override);
  check_grad(grad, m.sizes, m.dtype, numbered("avg_pool", kernel_size.size()));
  return image(DimVector(input_size), grad.dtype(), grad);
}

Meta adaptive_pool_backward(const Tensor& grad, IntList input_size, int64_t dims) {
  FACULA_CHECK(dims >= 1 && dims <= 3 && grad.dim() >= dims, Value, "adaptive_avg_pool backward: dims is ", dims,
               " and grad ", shape_string(grad.sizes()));
  const IntList out = grad.sizes().subspan(grad.sizes().size() - static_cast<size_t>(dims));
  const Meta m = adaptive_pool(shaped(input_size, grad), out);
  check_grad(grad, m.sizes, m.dtype, numbered("adaptive_avg_pool", static_cast<size_t>(dims)));
  return image(DimVector(input_size), grad.dtype(), grad);
}

// The gradient of an input of that shape.
Meta shaped_like(IntList sizes, const Tensor& grad) { return meta(DimVector(sizes), grad.dtype(), grad); }

}  // namespace facula::shape
