// Shapes and argument checks of softmax and the normalisations.
#include <algorithm>

#include "aten/layout.h"
#include "aten/shape/checks.h"
#include "facula/shapes.h"

namespace facula::shape {
namespace {

Meta meta(IntList sizes, ScalarType dtype, const Tensor& like) { return {DimVector(sizes), dtype, like.device(), {}}; }
Meta meta(const Tensor& like) { return meta(like.sizes(), like.dtype(), like); }
// In the memory format of `like`.
Meta image(const Tensor& like) {
  Meta m = meta(like);
  if (is_channels_last(like)) m.strides = channels_last_strides(like.sizes());
  return m;
}

// A parameter of shape `sizes`, or an absent one.
void check_parameter(const Tensor& t, IntList sizes, const char* op, const char* name) {
  if (!t.defined()) return;
  FACULA_CHECK(t.sizes() == sizes, Shape, Operator{op}, Argument{name}, " is ", shape_string(t.sizes()), ", expected ",
               shape_string(sizes));
  check_floating(t, op, name);
}

// A backward kernel has the arguments of the forward one, and values of fixed shapes.
void check_sizes(const Tensor& t, IntList sizes, const char* op, const char* name) {
  FACULA_CHECK(t.defined() && t.sizes() == sizes, Shape, Operator{op}, Argument{name}, " is ",
               t.defined() ? shape_string(t.sizes()) : "not given", ", expected ", shape_string(sizes));
}
void check_grad(const Tensor& grad, const Tensor& input, const char* op) {
  check_floating(grad, op, "grad");
  check_sizes(grad, input.sizes(), op, "grad");
}

}  // namespace

Meta softmax(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype, std::string_view op) {
  const std::string name(op);
  wrap_dim(dim, self.dim(), name.c_str());
  const ScalarType t = dtype.value_or(self.dtype());
  FACULA_CHECK(is_floating(t), NotImplemented, Operator{op}, "not implemented for ", dtype_name(t),
               "; pass dtype=float32, or a floating-point tensor");
  return meta(self.sizes(), t, self);
}

Meta same_pair(const Tensor& grad, const Tensor& output, std::string_view op) {
  FACULA_CHECK(grad.sizes() == output.sizes(), Runtime, Operator{op}, Argument{"grad"}, " is ",
               shape_string(grad.sizes()), " and output ", shape_string(output.sizes()), "; they must agree");
  FACULA_CHECK(is_floating(output.dtype()) && grad.dtype() == output.dtype(), UnfitDtype, Operator{op},
               Argument{"grad"}, " is ", dtype_name(grad.dtype()), " and output ", dtype_name(output.dtype()),
               "; both must be of one floating-point dtype");
  return meta(grad.sizes(), output.dtype(), output);
}

// What a backward kernel returns for an input: nothing when it is absent or not asked for.
Meta gradient_of(const Tensor& input, bool needed, const Tensor& grad) {
  if (!needed || !input.defined()) return meta(IntList{0}, grad.dtype(), grad);
  return image(input);
}

Meta layer_norm(const Tensor& input, IntList normalized_shape, const Tensor& weight, const Tensor& bias, bool rms) {
  const char* op = rms ? "rms_norm" : "layer_norm";
  check_floating(input, op, "input");
  FACULA_CHECK(!normalized_shape.empty(), Shape, Operator{op}, Argument{"normalized_shape"},
               " must name at least one dim");
  const auto n = normalized_shape.size();
  const IntList sizes = input.sizes();
  FACULA_CHECK(sizes.size() >= n && IntList(sizes.subspan(sizes.size() - n)) == normalized_shape, Shape, Operator{op},
               "the last dims of input, ", shape_string(sizes), ", must be normalized_shape, ",
               shape_string(normalized_shape));
  check_parameter(weight, normalized_shape, op, "weight");
  check_parameter(bias, normalized_shape, op, "bias");
  return meta(input);
}

Meta layer_norm_stat(const Tensor& input, IntList normalized_shape, bool absent) {
  const ScalarType t = compute_type(input.dtype());
  if (absent) return meta(IntList{0}, t, input);
  DimVector sizes(input.sizes());
  for (size_t i = sizes.size() - normalized_shape.size(); i < sizes.size(); ++i) sizes[i] = 1;
  return meta(sizes, t, input);
}

Meta layer_norm_backward(const Tensor& grad, const Tensor& input, IntList normalized_shape, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Tensor& bias, bool rms, bool needed) {
  const char* op = rms ? "rms_norm_backward" : "layer_norm_backward";
  layer_norm(input, normalized_shape, weight, bias, rms);
  check_grad(grad, input, op);
  const Meta stat = layer_norm_stat(input, normalized_shape, false);
  if (!rms) check_sizes(mean, stat.sizes, op, "mean");
  check_sizes(rstd, stat.sizes, op, "rstd");
  return gradient_of(input, needed, grad);
}

Meta group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight, const Tensor& bias) {
  check_floating(input, "group_norm", "input");
  FACULA_CHECK(input.dim() >= 2, Shape, Operator{"group_norm"}, Argument{"input"}, " is ", shape_string(input.sizes()),
               ", expected (N, C, ...)");
  FACULA_CHECK(num_groups >= 1 && input.size(1) % num_groups == 0, Shape, Operator{"group_norm"},
               "the number of channels, ", input.size(1), ", must be divisible by num_groups, ", num_groups);
  check_parameter(weight, {input.size(1)}, "group_norm", "weight");
  check_parameter(bias, {input.size(1)}, "group_norm", "bias");
  return meta(input);
}

Meta group_norm_stat(const Tensor& input, int64_t num_groups) {
  // Without channels the groups are none.
  return meta({input.size(0), std::min(num_groups, input.size(1))}, compute_type(input.dtype()), input);
}

Meta group_norm_backward(const Tensor& grad, const Tensor& input, int64_t num_groups, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, const Tensor& bias, bool needed) {
  group_norm(input, num_groups, weight, bias);
  check_grad(grad, input, "group_norm_backward");
  const DimVector stat = group_norm_stat(input, num_groups).sizes;
  check_sizes(mean, stat, "group_norm_backward", "mean");
  check_sizes(rstd, stat, "group_norm_backward", "rstd");
  return gradient_of(input, needed, grad);
}

Meta batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& mean, const Tensor& var,
                bool training) {
  check_floating(input, "batch_norm", "input");
  FACULA_CHECK(input.dim() >= 2, Shape, Operator{"batch_norm"}, Argument{"input"}, " is ", shape_string(input.sizes()),
               ", expected (N, C, ...)");
  const DimVector sizes{input.size(1)};
  check_parameter(weight, sizes, "batch_norm", "weight");
  check_parameter(bias, sizes, "batch_norm", "bias");
  check_parameter(mean, sizes, "batch_norm", "running_mean");
  check_parameter(var, sizes, "batch_norm", "running_var");
  FACULA_CHECK(training || (mean.defined() && var.defined()), Runtime, Operator{"batch_norm"},
               "running_mean and running_var are needed when training is False");
  return image(input);
}

Meta batch_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& bias,
                         const Tensor& mean, const Tensor& var, bool needed) {
  batch_norm(input, weight, bias, mean, var, true);
  check_grad(grad, input, "batch_norm_backward");
  check_sizes(mean, IntList{input.size(1)}, "batch_norm_backward", "mean");
  check_sizes(var, IntList{input.size(1)}, "batch_norm_backward", "var");
  return gradient_of(input, needed, grad);
}

Meta batch_norm_stat(const Tensor& input) { return meta({input.size(1)}, compute_type(input.dtype()), input); }

}  // namespace facula::shape
