// Shapes and argument checks of losses, padding, unfolding and attention.
#include <string>
#include <utility>

#include "facula/shapes.h"
#include "runtime/core/checked.h"

namespace facula::shape {
namespace {

Meta meta(IntList sizes, ScalarType dtype, const Tensor& like) { return {DimVector(sizes), dtype, like.device(), {}}; }

}  // namespace

Meta nll_loss(const Tensor& self, const Tensor& target, const Tensor& weight, std::string_view reduction) {
  FACULA_CHECK(reduction == "none" || reduction == "mean" || reduction == "sum", Value, Operator{"nll_loss"},
               Argument{"reduction"}, " must be ", "'none', 'mean' or 'sum', not '", reduction, "'");
  FACULA_CHECK(self.is_floating_point(), NotImplemented, Operator{"nll_loss"}, Argument{"input"}, " is ",
               dtype_name(self.dtype()), "; it must have a floating-point dtype");
  FACULA_CHECK(self.dim() >= 1, Shape, Operator{"nll_loss"}, Argument{"input"},
               " is 0-d, expected (C,), (N, C) or (N, C, ...)");
  FACULA_CHECK(is_integral(target.dtype()), Dtype, Operator{"nll_loss"}, Argument{"target"}, " is ",
               dtype_name(target.dtype()), "; class indices must be integers (int64)");
  DimVector expected;
  if (self.dim() >= 2) {
    expected.push_back(self.size(0));
    for (int64_t d = 2; d < self.dim(); ++d) expected.push_back(self.size(d));
  }
  FACULA_CHECK(target.sizes() == IntList(expected), Shape, Operator{"nll_loss"}, Argument{"input"}, " is ",
               shape_string(self.sizes()), " and target ", shape_string(target.sizes()), ", expected target ",
               shape_string(expected));
  const int64_t classes = self.size(self.dim() == 1 ? 0 : 1);
  FACULA_CHECK(!weight.defined() || (weight.dim() == 1 && weight.size(0) == classes), Shape, Operator{"nll_loss"},
               Argument{"weight"}, " must have one value for each of the ", classes, " classes, it is ",
               weight.defined() ? shape_string(weight.sizes()) : std::string());
  return meta(reduction == "none" ? IntList(expected) : IntList(), self.dtype(), self);
}

Meta nll_loss_total(const Tensor& self, ScalarType dtype) { return meta(IntList(), dtype, self); }

Meta nll_loss_backward(const Tensor& grad, IntList size, const Tensor& target, const Tensor& weight,
                       std::string_view reduction, const Tensor& total_weight) {
  const Tensor scores = make_empty(size, grad.dtype(), Device{kMeta, -1});
  const Meta m = nll_loss(scores, target, weight, reduction);
  FACULA_CHECK(grad.sizes() == IntList(m.sizes), Runtime, "nll_loss backward: grad is ", shape_string(grad.sizes()),
               ", expected ", shape_string(m.sizes));
  FACULA_CHECK(total_weight.numel() == 1, Shape, "nll_loss backward: total_weight is ",
               shape_string(total_weight.sizes()), ", expected one number");
  return meta(size, grad.dtype(), grad);
}

Meta softmax_nll(const Tensor& self, const Tensor& target, const Tensor& weight, std::string_view reduction) {
  FACULA_CHECK(self.dim() == 2, Shape, Operator{"cross_entropy"}, Argument{"input"}, " is ", shape_string(self.sizes()),
               ", expected (N, C)");
  return nll_loss(self, target, weight, reduction);
}

Meta softmax_nll_rows(const Tensor& self) { return meta({self.size(0), 2}, compute_type(self.dtype()), self); }

Meta softmax_nll_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                          std::string_view reduction, const Tensor& total_weight, const Tensor& tops) {
  softmax_nll(self, target, weight, reduction);
  FACULA_CHECK(tops.dim() == 2 && tops.size(0) == self.size(0) && tops.size(1) == 2, Shape,
               "cross_entropy backward: tops is ", shape_string(tops.sizes()), ", expected (", self.size(0), ", 2)");
  return nll_loss_backward(grad, self.sizes(), target, weight, reduction, total_weight);
}

Meta constant_pad(const Tensor& input, IntList pad) {
  FACULA_CHECK(pad.size() % 2 == 0 && pad.size() / 2 <= static_cast<size_t>(input.dim()), Shape, Operator{"pad"},
               Argument{"pad"}, " has ", pad.size(), " values; it takes two for each of at most ", input.dim(),
               " last dims of input ", shape_string(input.sizes()));
  DimVector sizes(input.sizes());
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    int64_t& size = sizes[sizes.size() - 1 - i];
    int64_t padded = 0;
    const bool overflow =
        __builtin_add_overflow(size, pad[2 * i], &padded) || __builtin_add_overflow(padded, pad[2 * i + 1], &padded);
    FACULA_CHECK(!overflow && padded >= 0, Shape, Operator{"pad"}, "pad ", pad[2 * i], ", ", pad[2 * i + 1],
                 " makes a dim of ", size, overflow ? " larger than any tensor" : " negative", " in input ",
                 shape_string(input.sizes()));
    size = padded;
  }
  return meta(sizes, input.dtype(), input);
}

namespace {

void check_pair(IntList list, int64_t low, const char* op, const char* name) {
  FACULA_CHECK(list.size() == 2 && list[0] >= low && list[1] >= low, Value, Operator{op}, Argument{name},
               " must be two numbers of at least ", low, ", got ", shape_string(list));
}

void check_blocks(IntList kernel, IntList dilation, IntList padding, IntList stride, const char* op) {
  check_pair(kernel, 1, op, "kernel_size");
  check_pair(dilation, 1, op, "dilation");
  check_pair(padding, 0, op, "padding");
  check_pair(stride, 1, op, "stride");
}

int64_t block_count(int64_t size, size_t d, IntList kernel, IntList dilation, IntList padding, IntList stride,
                    const char* op) {
  const int64_t reach = checked_mul(dilation[d], kernel[d] - 1);
  const int64_t room = checked_add(checked_mul(2, padding[d]), size);
  FACULA_CHECK(room - reach >= 1, Shape, Operator{op}, "kernel_size ", shape_string(kernel), " with dilation ",
               shape_string(dilation), " is larger than the padded size ", room);
  return (room - reach - 1) / stride[d] + 1;  // at most `room`
}

}  // namespace

Meta im2col(const Tensor& input, IntList kernel_size, IntList dilation, IntList padding, IntList stride) {
  FACULA_CHECK(input.dim() == 4 && input.size(1) > 0 && input.size(2) > 0 && input.size(3) > 0, Shape,
               Operator{"unfold"}, Argument{"input"}, " is ", shape_string(input.sizes()),
               ", expected (N, C, H, W) or (C, H, W), not empty");
  FACULA_CHECK(input.is_floating_point(), NotImplemented, Operator{"unfold"}, Argument{"input"}, " is ",
               dtype_name(input.dtype()), "; it must have a floating-point dtype");
  check_blocks(kernel_size, dilation, padding, stride, "unfold");
  const int64_t h = block_count(input.size(2), 0, kernel_size, dilation, padding, stride, "unfold");
  const int64_t w = block_count(input.size(3), 1, kernel_size, dilation, padding, stride, "unfold");
  const int64_t rows = checked_mul(input.size(1), checked_mul(kernel_size[0], kernel_size[1]));
  return meta({input.size(0), rows, checked_mul(h, w)}, input.dtype(), input);
}

Meta col2im(const Tensor& input, IntList output_size, IntList kernel_size, IntList dilation, IntList padding,
            IntList stride) {
  FACULA_CHECK(input.dim() == 3, Shape, Operator{"fold"}, Argument{"input"}, " is ", shape_string(input.sizes()),
               ", expected (N, C * kernel, L) or (C * kernel, L)");
  FACULA_CHECK(input.is_floating_point(), NotImplemented, Operator{"fold"}, Argument{"input"}, " is ",
               dtype_name(input.dtype()), "; it must have a floating-point dtype");
  check_pair(output_size, 1, "fold", "output_size");
  check_blocks(kernel_size, dilation, padding, stride, "fold");
  const int64_t h = block_count(output_size[0], 0, kernel_size, dilation, padding, stride, "fold");
  const int64_t w = block_count(output_size[1], 1, kernel_size, dilation, padding, stride, "fold");
  const int64_t taps = checked_mul(kernel_size[0], kernel_size[1]), blocks = checked_mul(h, w);
  FACULA_CHECK(input.size(1) % taps == 0, Shape, Operator{"fold"}, "size 1 of input, ", input.size(1),
               ", must be divisible by the kernel's size, ", taps);
  FACULA_CHECK(input.size(2) == blocks, Shape, Operator{"fold"}, "input ", shape_string(input.sizes()), " has ",
               input.size(2), " blocks, output_size ", shape_string(output_size), " makes ", blocks);
  return meta({input.size(0), input.size(1) / taps, output_size[0], output_size[1]}, input.dtype(), input);
}

Meta dropout(const Tensor& input) {
  FACULA_CHECK(input.is_floating_point(), NotImplemented, Operator{"dropout"}, Argument{"input"}, " is ",
               dtype_name(input.dtype()), "; it must have a floating-point dtype");
  return meta(input.sizes(), input.dtype(), input);
}

Meta dropout_mask(const Tensor& input) { return meta(input.sizes(), ScalarType::Bool, input); }

namespace {

// Heads of one token side by side, where the other has them so: what gathers the heads then need not copy.
Meta laid_as(Meta m, const Tensor& other) {
  if (other.size(1) > 1 && other.size(2) > 1 && other.stride(1) > 0 && other.stride(1) < other.stride(2)) {
    const int64_t heads = m.sizes[1], length = m.sizes[2], width = m.sizes[3];
    m.strides = {heads * length * width, width, heads * width, 1};
  }
  return m;
}

}  // namespace

Meta attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask) {
  bool fits = query.is_floating_point() && query.dim() == 4;
  for (const Tensor* t : {&key, &value}) {
    fits = fits && t->dtype() == query.dtype() && t->dim() == 4 && t->size(0) == query.size(0);
  }
  fits = fits && key.size(1) == value.size(1) && key.size(2) == value.size(2) && key.size(3) == query.size(3) &&
         (key.size(1) == query.size(1) || (key.size(1) > 0 && query.size(1) % key.size(1) == 0));
  FACULA_CHECK(fits, Shape, Operator{"attention"},
               "query, key and value must be (batch, heads, length, features) of one ",
               "floating-point dtype, with heads that divide the query's; they are ", shape_string(query.sizes()), ", ",
               shape_string(key.sizes()), " and ", shape_string(value.sizes()));
  if (mask.defined()) {
    const int64_t sizes[] = {query.size(0), query.size(1), query.size(2), key.size(2)};
    const IntList given = mask.sizes();
    bool broadcasts = given.size() <= 4;
    for (size_t i = 1; broadcasts && i <= given.size(); ++i) {
      broadcasts = given[given.size() - i] == 1 || given[given.size() - i] == sizes[4 - i];
    }
    FACULA_CHECK(broadcasts && (mask.dtype() == ScalarType::Bool || mask.dtype() == query.dtype()), Shape,
                 Operator{"attention"}, Argument{"mask"}, " must be bool or ", dtype_name(query.dtype()),
                 " and broadcast to ", shape_string(IntList(sizes)), "; it is ", dtype_name(mask.dtype()), " of shape ",
                 shape_string(given));
  }
  return laid_as(meta({query.size(0), query.size(1), query.size(2), value.size(3)}, query.dtype(), query), query);
}

Meta attention_lse(const Tensor& query) {
  return meta({query.size(0), query.size(1), query.size(2)}, compute_type(query.dtype()), query);
}

Meta attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
                        const Tensor& mask, const Tensor& output, const Tensor& logsumexp) {
  const Meta out = attention(query, key, value, mask), lse = attention_lse(query);
  for (const Tensor* t : {&grad, &output}) {
    FACULA_CHECK(t->sizes() == IntList(out.sizes) && t->dtype() == query.dtype(), Runtime,
                 Operator{"attention_backward"}, "grad and output must be ", dtype_name(query.dtype()), " of shape ",
                 shape_string(out.sizes), "; one is ", dtype_name(t->dtype()), " of shape ", shape_string(t->sizes()));
  }
  FACULA_CHECK(logsumexp.sizes() == IntList(lse.sizes), Shape, Operator{"attention_backward"}, Argument{"logsumexp"},
               " is ", shape_string(logsumexp.sizes()), ", expected ", shape_string(lse.sizes));
  return attention_grad(query, grad);
}

Meta attention_grad(const Tensor& of, const Tensor& grad) { return laid_as(meta(of.sizes(), grad.dtype(), grad), of); }

namespace {
void check_ctc(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
               const Tensor& target_lengths, int64_t blank) {
  constexpr const char* op = "ctc_loss";
  FACULA_CHECK(log_probs.dim() == 3, Shape, Operator{op}, Argument{"log_probs"}, " is ",
               shape_string(log_probs.sizes()), ", expected (T, N, C)");
  FACULA_CHECK(log_probs.dtype() == ScalarType::Float32 || log_probs.dtype() == ScalarType::Float64, Dtype,
               Operator{op}, Argument{"log_probs"}, " is ", dtype_name(log_probs.dtype()),
               "; it must be float32 or float64");
  const int64_t batch = log_probs.size(1), classes = log_probs.size(2);
  FACULA_CHECK(targets.dim() == 2 && targets.size(0) == batch, Shape, Operator{op}, Argument{"targets"}, " is ",
               shape_string(targets.sizes()), ", expected (", batch, ", S)");
  for (const auto& [t, name] : {std::pair(&input_lengths, "input_lengths"), {&target_lengths, "target_lengths"}}) {
    FACULA_CHECK(t->dim() == 1 && t->size(0) == batch, Shape, Operator{op}, Argument{name}, " is ",
                 shape_string(t->sizes()), ", expected (", batch, ",)");
  }
  for (const auto& [t, name] :
       {std::pair(&targets, "targets"), {&input_lengths, "input_lengths"}, {&target_lengths, "target_lengths"}}) {
    FACULA_CHECK(is_integral(t->dtype()), Dtype, Operator{op}, Argument{name}, " is ", dtype_name(t->dtype()),
                 "; it must hold integers (int64)");
  }
  FACULA_CHECK(blank >= 0 && blank < classes, Value, Operator{op}, Argument{"blank"}, " must be in label range 0 to ",
               classes - 1, ", not ", blank);
}
}  // namespace

Meta ctc_losses(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, int64_t blank) {
  check_ctc(log_probs, targets, input_lengths, target_lengths, blank);
  return meta({{log_probs.size(1)}}, log_probs.dtype(), log_probs);
}
Meta ctc_alpha(const Tensor& log_probs, const Tensor& targets) {
  const int64_t width = checked_add(checked_mul(targets.size(1), 2), 1);
  return meta({{log_probs.size(1), checked_add(log_probs.size(0), 1), width}}, log_probs.dtype(), log_probs);
}
Meta ctc_gradient(const Tensor& grad, const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                  const Tensor& target_lengths, const Tensor& losses, const Tensor& alpha, int64_t blank) {
  check_ctc(log_probs, targets, input_lengths, target_lengths, blank);
  const Meta wanted = ctc_alpha(log_probs, targets);
  for (const Tensor* t : {&grad, &losses}) {
    FACULA_CHECK(t->dim() == 1 && t->size(0) == log_probs.size(1), Shape, Operator{"ctc_loss"}, Argument{"losses"},
                 " is ", shape_string(t->sizes()), ", expected (", log_probs.size(1), ",)");
  }
  FACULA_CHECK(alpha.sizes() == IntList(wanted.sizes), Shape, Operator{"ctc_loss"}, Argument{"alpha"}, " is ",
               shape_string(alpha.sizes()), ", expected ", shape_string(wanted.sizes));
  return meta(log_probs.sizes(), log_probs.dtype(), log_probs);
}

}  // namespace facula::shape
