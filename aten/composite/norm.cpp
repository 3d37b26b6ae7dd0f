#include "facula/kernels.h"
#include "facula/ops.h"

namespace facula::composite {
namespace {

// running = (1 - momentum) running + momentum value
void update(const Tensor& running, const Tensor& value, double momentum) {
  if (!running.defined()) return;
  ops::mul_(running, wrapped_number(1 - momentum));
  ops::add_(running, value, momentum);
}

}  // namespace

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                  const Tensor& bias, bool training, double momentum, double eps) {
  if (!training) {
    return std::get<0>(ops::native_batch_norm(input, weight, bias, running_mean, running_var, false, eps));
  }
  FACULA_CHECK(input.dim() >= 2, Shape, Operator{"batch_norm"}, Argument{"input"}, " is ", shape_string(input.sizes()),
               ", expected (N, C, ...)");
  const int64_t channels = input.size(1), count = channels == 0 ? 0 : input.numel() / channels;
  FACULA_CHECK(count != 1, Value, Operator{"batch_norm"},
               "expected more than 1 value per channel when training, got input ", shape_string(input.sizes()));
  auto [out, mean, var] = ops::native_batch_norm(input, weight, bias, running_mean, running_var, true, eps);
  if (count > 0 && (running_mean.defined() || running_var.defined())) {
    GradMode off(false);
    update(running_mean, mean, momentum);
    if (running_var.defined()) {
      const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
      update(running_var, ops::mul(var, wrapped_number(unbiased)), momentum);
    }
  }
  return out;
}

}  // namespace facula::composite
