#include "facula/kernels.h"
#include "facula/ops.h"

namespace facula::composite {
namespace {

// The word for what the older arguments size_average and reduce say.
std::string_view word_of(std::string_view reduction, std::optional<bool> size_average, std::optional<bool> reduce) {
  if (!size_average && !reduce) return reduction;
  if (!reduce.value_or(true)) return "none";
  return size_average.value_or(true) ? "mean" : "sum";
}

}  // namespace

Tensor nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight, std::optional<bool> size_average,
                int64_t ignore_index, std::optional<bool> reduce, std::string_view reduction) {
  return std::get<0>(
      ops::nll_loss_forward(input, target, weight, ignore_index, word_of(reduction, size_average, reduce)));
}

Tensor cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight, std::optional<bool> size_average,
                     int64_t ignore_index, std::optional<bool> reduce, std::string_view reduction,
                     double label_smoothing) {
  const std::string_view word = word_of(reduction, size_average, reduce);
  FACULA_CHECK(word == "none" || word == "mean" || word == "sum", Value, Operator{"cross_entropy"},
               Argument{"reduction"}, " must be 'none', ", "'mean' or 'sum', not '", word, "'");
  FACULA_CHECK(input.dim() >= 1, Shape, Operator{"cross_entropy"}, Argument{"input"},
               " is 0-d, expected (C,), (N, C) or (N, C, ...)");
  const int64_t dim = input.dim() == 1 ? 0 : 1, classes = input.size(dim);
  FACULA_CHECK(!weight.defined() || (weight.dim() == 1 && weight.size(0) == classes), Shape, Operator{"cross_entropy"},
               Argument{"weight"}, " must have one value for each of the ", classes, " classes, it is ",
               weight.defined() ? shape_string(weight.sizes()) : std::string());
  if (label_smoothing == 0 && input.dim() == 2 && target.dim() == 1 && input.is_floating_point() &&
      is_integral(target.dtype())) {
    return std::get<0>(ops::softmax_nll_forward(input, target, weight, ignore_index, word));
  }
  const Tensor logp = ops::log_softmax(input, dim);
  // The weights along the classes, to multiply log-probabilities with. Where a weight or a probability is zero the
  // class does not count, though its log-probability be -inf.
  const auto weighted = [&](const Tensor& t) {
    if (!weight.defined()) return t;
    DimVector shape(static_cast<size_t>(input.dim()), 1);
    shape[static_cast<size_t>(dim)] = classes;
    return ops::mul0(ops::reshape(weight, shape), t);
  };
  const auto number = [](double v) { return wrapped_number(v); };
  if (input.sizes() == target.sizes()) {  // probabilities
    FACULA_CHECK(target.is_floating_point(), Dtype, Operator{"cross_entropy"},
                 "target of input's shape holds probabilities ", "and must have a floating-point dtype, it is ",
                 dtype_name(target.dtype()));
    FACULA_CHECK(ignore_index < 0, Runtime, Operator{"cross_entropy"},
                 "ignore_index does not go with target probabilities");
    Tensor t = target;
    if (label_smoothing > 0) {
      t = ops::add(ops::mul(t, number(1 - label_smoothing)), number(label_smoothing / static_cast<double>(classes)));
    }
    const Tensor loss = ops::neg(ops::sum(weighted(ops::mul0(t, logp)), IntList{dim}, false));
    if (word == "none") return loss;
    const Tensor sum = ops::sum(loss);
    if (word == "sum") return sum;
    return ops::div(sum, number(static_cast<double>(loss.numel())));
  }
  const auto [loss, total] = ops::nll_loss_forward(logp, target, weight, ignore_index, word);
  if (label_smoothing == 0) return loss;
  const Tensor all = ops::neg(ops::sum(weighted(logp), IntList{dim}, false));
  const Tensor counted = ops::ne(target, number(static_cast<double>(ignore_index)));
  Tensor smooth = ops::where(counted, all, ops::full(IntList{}, 0.0, all.dtype(), all.device()));
  if (word != "none") smooth = ops::sum(smooth);
  if (word == "mean") smooth = ops::to_dtype(ops::div(smooth, total), smooth.dtype());
  return ops::add(ops::mul(loss, number(1 - label_smoothing)),
                  ops::mul(smooth, number(label_smoothing / static_cast<double>(classes))));
}

}  // namespace facula::composite
