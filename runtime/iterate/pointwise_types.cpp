#include "runtime/core/in_call.h"
#include "runtime/iterate/pointwise_types.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/iterate/pointwise_cpu.h"
#include "runtime/iterate/result_type.h"
#include "runtime/iterate/strided.h"

namespace facula::detail {

namespace {

bool is_mask(const PointwiseOp& op, size_t i) { return (op.masks >> i & 1u) != 0; }

// Whether the number cannot be said in `common`, the type of the tensors beside it.
bool out_of_range(const Scalar& number, ScalarType common) {
  return number.kind() == Category::Integral && is_integral(common) && !number.fits(common);
}

// A finite number that would become infinite in float32.
bool overflows_float(const Scalar& number) {
  return number.kind() == Category::Floating && std::isfinite(number.as_double()) &&
         std::isinf(static_cast<float>(number.as_double()));
}

Scalar number_of(const Tensor& t) { return load_element(t.raw(), t.dtype()); }

// The numbers of a call: Python numbers among the tensors, and promoting arguments.
template <typename F>
void for_each_number(const PointwiseOp& op, std::span<const Tensor* const> inputs, const LoopArgs& args, const F& fn) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_mask(op, i) && inputs[i]->is_wrapped_number()) fn(number_of(*inputs[i]));
  }
  for (size_t i = 0; i < args.values.size(); ++i) {
    if ((args.promoting >> i & 1u) != 0 && args.has(i)) fn(args.values[i]);
  }
}

constexpr double kWhole = 9007199254740992.0;      // 2**53: doubles from here on are whole numbers
constexpr double kBeyond = 9223372036854775808.0;  // 2**63: more than any element of an integer tensor

bool is_large(const Scalar& s) {
  return s.kind() == Category::Floating && std::fabs(s.as_double()) >= kWhole && s.as_double() >= -kBeyond &&
         s.as_double() < kBeyond;
}

// Comparisons answer with bool, so they may compute in a wider type than their inputs': uint8 and
// 300 compare as the numbers that they are, and so do int64 and 2.0**53.
// `beyond`: a number is above all of int64.
ScalarType compared_type(ScalarType common, bool tensors_integral, bool out_of, bool overflow, bool large,
                         bool unsigned64, bool beyond) {
  if (unsigned64 && (out_of || tensors_integral)) {
    return tensors_integral && large ? ScalarType::UInt64 : ScalarType::Float64;
  }
  if (beyond) return ScalarType::Float64;
  if (out_of || (tensors_integral && large)) return ScalarType::Int64;
  if (is_floating(common) && (tensors_integral || overflow)) return ScalarType::Float64;
  return compute_type(common);
}

[[noreturn]] void raise_no_loop(const PointwiseOp& op, ScalarType common) {
  std::string have;
  for (int t = 0; t < kNumScalarTypes; ++t) {
    if (find_loop(op, compute_type(static_cast<ScalarType>(t))) == nullptr) continue;
    if (!have.empty()) have += ", ";
    have += dtype_name(static_cast<ScalarType>(t));
  }
  raise(ErrorKind::NotImplemented, Operator{op.name}, "not implemented for ", dtype_name(common), "; it takes ", have);
}

std::string described(const PointwiseOp& op, std::span<const Tensor* const> inputs, bool devices, bool dtypes) {
  std::string text;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i > 0) text += i + 1 == inputs.size() ? " and " : ", ";
    text += op.inputs[i];
    text += " is ";
    if (dtypes) {
      text += dtype_name(inputs[i]->dtype());
    } else {
      text += shape_string(inputs[i]->sizes());
    }
    if (devices) text += " on " + to_string(inputs[i]->device());
  }
  return text;
}

}  // namespace

PointwiseTypes pointwise_types(const PointwiseOp& op, std::span<const Tensor* const> inputs, const LoopArgs& args) {
  ResultType type;
  bool any = false, tensors_integral = true;
  const Tensor* first = nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (is_mask(op, i)) continue;
    const Tensor& t = *inputs[i];
    type.add(t);
    any = true;
    if (t.is_wrapped_number()) continue;
    tensors_integral &= is_integral(t.dtype(), true);
    if (first == nullptr) first = &t;
    FACULA_CHECK(op.promotion != Promotion::None || first->dtype() == t.dtype(), Type, Operator{op.name},
                 "the tensors must have one dtype: ", described(op, inputs, false, true));
  }
  for (size_t i = 0; i < args.values.size(); ++i) {
    if ((args.promoting >> i & 1u) == 0 || !args.has(i)) continue;
    // A whole factor does not make numbers of bools: the sum of two masks is a mask.
    if (any && args.values[i].kind() == Category::Integral && type.get() == ScalarType::Bool) continue;
    type.add(args.values[i]);
    any = true;
  }
  ScalarType common = any ? type.get() : ScalarType::Bool;
  const bool to_float =
      op.promotion == Promotion::Float || (op.promotion == Promotion::Real && find_loop(op, common) == nullptr);
  if (to_float && is_integral(common, true)) common = get_default_dtype();

  PointwiseTypes types;
  types.number = !inputs.empty() &&
                 std::all_of(inputs.begin(), inputs.end(), [](const Tensor* t) { return t->is_wrapped_number(); });
  // What is made of numbers alone loses nothing before it meets a tensor.
  if (types.number && is_differentiable(common)) {
    common = is_complex(common) ? ScalarType::Complex128 : ScalarType::Float64;
  }
  types.compute = compute_type(common);
  types.result = op.promotion == Promotion::Bool   ? ScalarType::Bool
                 : op.promotion == Promotion::Real ? to_real(common)
                                                   : common;
  if (op.promotion == Promotion::Bool) {
    const bool unsigned64 = first != nullptr && first->dtype() == ScalarType::UInt64;
    bool out_of = false, overflow = false, fraction = false, large = false, beyond = false;
    for_each_number(op, inputs, args, [&](const Scalar& s) {
      out_of |= out_of_range(s, common);
      overflow |= overflows_float(s);
      beyond |= s.kind() == Category::Integral && s.is_beyond_int64();
      fraction |= s.kind() == Category::Floating;
      large |= is_large(s) && (!unsigned64 || s.as_double() > 0);
    });
    const bool whole_tensors = tensors_integral && fraction && first != nullptr;
    ScalarType wide = compared_type(common, whole_tensors, out_of, overflow, large, unsigned64, beyond);
    for (size_t i = 0; is_integral(wide) && i < inputs.size(); ++i) {  // 0-d tensors may be wider than the others
      const Tensor& t = *inputs[i];
      if (!is_mask(op, i) && !t.is_wrapped_number()) wide = promote_types(wide, t.dtype());
    }
    if (wide != types.compute && find_loop(op, wide) != nullptr) types.compute = wide;
    const bool whole = whole_tensors || (beyond && tensors_integral && !unsigned64);
    for (size_t i = 0; whole && i < inputs.size(); ++i) {
      // The largest int64 would round up to it.
      if (!inputs[i]->is_wrapped_number()) continue;
      const Scalar number = number_of(*inputs[i]);
      if (number.equals(kBeyond) || number.is_beyond_int64()) types.beyond = static_cast<int>(i);
    }
  } else if (is_integral(common)) {
    for_each_number(op, inputs, args, [&](const Scalar& s) {
      FACULA_CHECK(!out_of_range(s, common), Overflow, Operator{op.name}, "the number ", integer_text(s),
                   " does not fit into ", dtype_name(common), " (", range_text(common),
                   "), the dtype of the tensor; convert the tensor to a wider dtype first");
    });
  }
  types.loop = find_loop(op, types.compute);
  if (types.loop == nullptr && op.promotion == Promotion::Bool && is_integral(common, true)) {
    for (const ScalarType t : {ScalarType::Int64, get_default_dtype()}) {
      types.compute = compute_type(t);
      types.loop = find_loop(op, types.compute);
      if (types.loop != nullptr) break;
    }
  }
  if (types.loop == nullptr) raise_no_loop(op, common);
  return types;
}

Device common_device(const PointwiseOp& op, std::span<const Tensor* const> inputs) {
  Device device;
  bool found = false, mixed = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    FACULA_CHECK(inputs[i]->defined(), Type, Operator{op.name}, Argument{op.inputs[i]}, " is not given");
    const Tensor& t = *inputs[i];
    if (t.is_cpu() && t.dim() == 0) continue;
    if (found && !(t.device() == device)) mixed = true;
    if (!found) device = t.device();
    found = true;
  }
  FACULA_CHECK(!mixed, Device, Operator{op.name}, described(op, inputs, true, false),
               ": tensors must be on one device; move them with .to(device)");
  return device;
}

DimVector common_shape(const PointwiseOp& op, std::span<const Tensor* const> inputs) {
  size_t ndim = 0;
  for (const Tensor* t : inputs) ndim = std::max(ndim, t->sizes().size());
  DimVector shape(ndim, 1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const IntList sizes = inputs[i]->sizes();
    const size_t lead = ndim - sizes.size();
    for (size_t d = 0; d < sizes.size(); ++d) {
      int64_t& size = shape[lead + d];
      if (size == sizes[d] || sizes[d] == 1) continue;
      if (size == 1) {
        size = sizes[d];
        continue;
      }
      // Dims are counted from the front where that means the same for all.
      bool same_rank = true;
      for (const Tensor* t : inputs) same_rank &= t->sizes().size() == ndim;
      const int64_t dim = static_cast<int64_t>(lead + d) - (same_rank ? 0 : static_cast<int64_t>(ndim));
      raise(ErrorKind::Shape, Operator{op.name}, described(op, inputs, false, false), ": they differ at dim ", dim,
            " (", size, " and ", sizes[d], ") and neither is 1");
    }
  }
  return shape;
}

void check_out(const PointwiseOp& op, const Tensor& out, const DimVector& sizes, ScalarType result, Device device,
               bool resize) {
  const char* const name = resize ? "out" : op.inputs[0];
  const std::string call = std::string(op.name) + (resize ? "" : "_");
  FACULA_CHECK(out.defined(), Type, Operator{call}, Argument{name}, " is not given");
  FACULA_CHECK(can_cast(result, out.dtype()), Dtype, Operator{call}, "the result is ", dtype_name(result), " and ",
               name, " is ", dtype_name(out.dtype()), ", which cannot hold it; ",
               resize ? "pass out with that dtype" : "convert it first or use the form that returns a new tensor");
  FACULA_CHECK(out.device() == device || (device.type == kCPU && !resize), Device, Operator{call}, Argument{name},
               " is on ", to_string(out.device()), " and the inputs on ", to_string(device));
  if (!(DimVector(out.sizes()) == sizes)) {
    FACULA_CHECK(resize && out.numel() == 0 && !out.is_view() && out.storage()->resizable(), Shape, Operator{call},
                 Argument{name}, " is ", shape_string(out.sizes()), " and the result ", shape_string(sizes),
                 resize ? "; pass out of that shape, or an empty tensor to be resized"
                        : "; an in-place form cannot change the shape");
    TensorImpl& impl = *out.impl();
    const DimVector strides = contiguous_strides(sizes);
    int64_t bytes = 0;
    FACULA_CHECK(!__builtin_mul_overflow(numel_of(sizes), static_cast<int64_t>(out.itemsize()), &bytes), Shape,
                 Operator{call}, "the result ", shape_string(sizes), " is too large");
    const Changing changing(out);
    FACULA_CHECK(out.numel() == 0, Shape, Operator{call}, "another thread gave ", name, " another size meanwhile");
    impl.storage->resize(static_cast<size_t>(bytes));
    impl.sizes = sizes;
    impl.strides = strides;
    impl.offset = 0;
    impl.refresh();
  }
  check_writable(out, call.c_str());
}

const Tensor* separate_from(const PointwiseOp& op, size_t index, const Tensor& input,
                            std::span<const Tensor* const> outs, Tensor& copy) {
  for (const Tensor* out : outs) {
    const Overlap overlap = overlap_of(input, *out);
    if (overlap == Overlap::No || overlap == Overlap::Full) continue;
    FACULA_CHECK(overlap != Overlap::Partial, Aliasing, Operator{op.name}, Argument{op.inputs[index]},
                 " and the tensor to write to share part of their memory; clone() ", op.inputs[index], " first");
    if (!input.is_cpu()) continue;
    copy = make_empty_strided(input.sizes(), preserved_strides(input), input.dtype(), input.device());
    copy.impl()->wrapped_number = input.is_wrapped_number();
    copy_strided(copy, input);
    return &copy;
  }
  return &input;
}

}  // namespace facula::detail
