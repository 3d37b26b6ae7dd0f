#include "facula/kernels.h"
#include "facula/ops.h"
#include "runtime/dispatch/capture.h"
#include "runtime/dispatch/formula.h"

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
  const auto number = [](double v) { return wrapped_number(v); };
  const auto reduced = [&](const Tensor& rows, const Tensor& total) {
    if (word == "none") return ops::to_dtype(rows, input.dtype());
    const Tensor wide = ops::to_dtype(rows, widest_float(input.device()));
    Tensor result = word == "sum" ? ops::sum(wide) : ops::mean(wide);
    if (word == "mean" && total.defined()) {
      result = ops::mul(result, ops::div(number(static_cast<double>(rows.numel())), total));
    }
    return ops::to_dtype(result, input.dtype());
  };
  const Tensor scores = ops::to_dtype(input, compute_type(input.dtype()));
  // The weights along the classes, to multiply log-probabilities with. Where a weight or a probability is zero the
  // class does not count, though its log-probability be -inf.
  const auto weighted = [&](const Tensor& t) {
    if (!weight.defined()) return t;
    DimVector shape(static_cast<size_t>(input.dim()), 1);
    shape[static_cast<size_t>(dim)] = classes;
    return ops::mul0(ops::reshape(ops::to_dtype(weight, t.dtype()), shape), t);
  };
  const bool probabilities = input.sizes() == target.sizes();
  // Log-probabilities may leave the range, weighted ones too, though their mean does not. What is beyond the widest
  // range is computed again of a quarter of them.
  const auto wide = [&](const Tensor& t) {
    return weight.defined() && (probabilities || label_smoothing > 0) ? ops::to_dtype(t, widest_float(input.device()))
                                                                      : t;
  };
  const Tensor logp = ops::log_softmax(scores, dim);
  const auto in_range = [&](const auto& rows_of) {
    const Tensor rows = rows_of(wide(logp));
    // Not where a look at them waits for the device, or belongs to a program that is written down.
    if (!input.is_cpu() || is_capturing()) return rows;
    if (composite::largest(ops::to_dtype(ops::isinf(rows), ScalarType::Int64)) == 0) return rows;
    const Tensor quarter = ops::mul(scores, number(0.25)), top = ops::amax(quarter, IntList{dim}, true);
    const Tensor rest = ops::mul(ops::amax(logp, IntList{dim}, true), number(0.25));
    const Tensor again = ops::mul(rows_of(wide(ops::add(ops::sub(quarter, top), rest))), number(4));
    return ops::where(ops::isnan(again), rows, again);  // of infinite scores it says nothing
  };
  if (probabilities) {
    FACULA_CHECK(target.is_floating_point(), Dtype, Operator{"cross_entropy"},
                 "target of input's shape holds probabilities ", "and must have a floating-point dtype, it is ",
                 dtype_name(target.dtype()));
    FACULA_CHECK(ignore_index < 0, Runtime, Operator{"cross_entropy"},
                 "ignore_index does not go with target probabilities");
    Tensor t = ops::to_dtype(target, wide(logp).dtype());
    if (label_smoothing > 0) {
      t = ops::add(ops::mul(t, number(1 - label_smoothing)), number(label_smoothing / static_cast<double>(classes)));
    }
    const auto rows_of = [&](const Tensor& logs) {
      return ops::neg(ops::sum(weighted(ops::mul0(t, logs)), IntList{dim}, false));
    };
    return reduced(in_range(rows_of), Tensor());
  }
  if (label_smoothing == 0) {
    return ops::to_dtype(std::get<0>(ops::nll_loss_forward(logp, target, weight, ignore_index, word)), input.dtype());
  }
  Tensor total;
  const auto rows_of = [&](const Tensor& logs) {
    const auto [loss, weights] = ops::nll_loss_forward(logs, target, weight, ignore_index, "none");
    total = weights;
    const Tensor all = ops::neg(ops::mean(weighted(logs), IntList{dim}, false));
    const Tensor counted = ops::ne(target, number(static_cast<double>(ignore_index)));
    const Tensor smooth = ops::where(counted, all, ops::full(IntList{}, 0.0, all.dtype(), all.device()));
    return ops::add(ops::mul(loss, number(1 - label_smoothing)), ops::mul(smooth, number(label_smoothing)));
  };
  const Tensor rows = in_range(rows_of);
  return reduced(rows, total);
}

}  // namespace facula::composite
