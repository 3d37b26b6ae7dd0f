#include "runtime/device/kernels.h"

#include <forward_list>

#include "runtime/core/captured.h"
#include "runtime/device/memory.h"
#include "runtime/dispatch/decomposed.h"
#include "runtime/dispatch/thunk.h"
#include "runtime/iterate/pointwise_cpu.h"
#include "runtime/iterate/strided.h"

namespace facula {

FaculaValue plain_number(const Scalar& s) {
  FaculaValue v{};
  switch (s.kind()) {
    case Category::Bool:
      v.kind = FACULA_TRUTH;
      v.at.i = s.to<int64_t>();
      break;
    case Category::Integral:
      if (s.is_beyond_int64()) {  // what devices take of them are floats
        v.kind = FACULA_FLOAT;
        v.at.f = s.as_double();
        break;
      }
      v.kind = FACULA_INT;
      v.at.i = s.to<int64_t>();
      break;
    case Category::Floating:
      v.kind = FACULA_FLOAT;
      v.at.f = s.as_double();
      break;
    case Category::Complex: {
      const complex128 c = s.to<complex128>();
      v.kind = FACULA_COMPLEX;
      v.at.f = c.real();
      v.more.imag = c.imag();
    }
  }
  return v;
}

std::string note_refusal(DeviceInterface& interface, const char* op, const char* what) {
  const std::string reason = take_device_error();
  {
    std::lock_guard lock(interface.counting);
    DeviceInterface::Refusal& r = interface.refusals[op];
    ++r.calls;
    if (r.reason.empty()) r.reason = reason;
  }
  return concat("the ", what, " of device '", interface.name, "' did not take these arguments (",
                reason.empty() ? "without a reason" : reason, ")");
}

namespace {

using Kind = KernelArg::Kind;
template <typename T>
const T& at(const KernelArg& a) {
  return *static_cast<const T*>(a.at);
}

FaculaTensor absent_tensor() {
  FaculaTensor t{};
  t.ndim = -1;
  t.index = FACULA_HOST;
  return t;
}

FaculaTensor plain(const Tensor& t) {
  const bool host = t.is_cpu();
  return {t.raw(),
          t.sizes().data(),
          t.strides().data(),
          t.numel(),
          static_cast<int32_t>(t.dim()),
          static_cast<int32_t>(t.dtype()),
          host ? FACULA_HOST : t.device().index,
          (t.is_contiguous() ? uint32_t{FACULA_CONTIGUOUS} : 0u) |
              (host && t.numel() == 1 ? uint32_t{FACULA_HOST_SCALAR} : 0u),
          &t};
}

// The same elements with their dims in another order, or without some of one element.
FaculaTensor plain(const Tensor& t, const DimVector& sizes, const DimVector& strides) {
  FaculaTensor p = plain(t);
  p.sizes = sizes.data();
  p.strides = strides.data();
  p.ndim = static_cast<int32_t>(sizes.size());
  p.flags = is_contiguous(sizes, strides) ? uint32_t{FACULA_CONTIGUOUS} : 0u;
  return p;
}

GeneratorImpl& generator_of(const KernelArg& a, Device device, const char* op) {
  return generator_for(a.at != nullptr ? at<Generator>(a) : Generator(), device, op);
}

// The arguments of a call as the vendor sees them, with what they point to.
class Arguments {
 public:
  Arguments(const char* op, std::span<const KernelArg> args) : op_(op) {
    size_t n = 0;
    for (const KernelArg& a : args) n += a.kind == Kind::Tensor ? 1 : a.kind == Kind::Tensors ? a.count : 0;
    tensors_.reserve(n);  // they stay where they are
  }
  FaculaValue value(const KernelArg& a, Device device) {
    FaculaValue v{};
    v.count = static_cast<int32_t>(a.count);
    if (a.at == nullptr && a.kind != Kind::Generator) return v;
    switch (a.kind) {
      case Kind::Tensor:
        v.kind = FACULA_TENSOR;
        v.count = 1;
        v.at.tensors = tensors(&at<Tensor>(a), 1);
        break;
      case Kind::Tensors: {
        const TensorList& list = at<TensorList>(a);
        v.kind = FACULA_TENSORS;
        v.at.tensors = tensors(list.data(), list.size());
        break;
      }
      case Kind::Int:
        v.kind = FACULA_INT;
        v.at.i = at<int64_t>(a);
        break;
      case Kind::Float:
        v.kind = FACULA_FLOAT;
        v.at.f = at<double>(a);
        break;
      case Kind::Bool:
        v.kind = FACULA_TRUTH;
        v.at.i = at<bool>(a);
        break;
      case Kind::String:
        v.kind = FACULA_STRING;
        v.at.text = texts_.emplace_front(at<std::string_view>(a)).c_str();
        break;
      case Kind::Scalar:
        v = plain_number(at<Scalar>(a));
        break;
      case Kind::Type:
        v.kind = FACULA_DTYPE;
        v.at.i = static_cast<int64_t>(at<ScalarType>(a));
        break;
      case Kind::Device:
        v.kind = FACULA_DEVICE;
        v.at.i = device.index;
        break;
      case Kind::Format:
        v.kind = FACULA_FORMAT;
        v.at.i = static_cast<int64_t>(at<MemoryFormat>(a));
        break;
      case Kind::Generator: {
        const Philox key = generator_of(a, device, op_).next();
        v.kind = FACULA_RANDOM;
        v.at.seed = key.seed();
        v.more.offset = key.offset();
        break;
      }
      case Kind::Ints: {
        v.kind = FACULA_INTS;
        v.at.ints = at<IntList>(a).data();
        break;
      }
      case Kind::Bools: {
        std::vector<int64_t>& list = ints_.emplace_front();
        for (const bool b : at<std::vector<bool>>(a)) list.push_back(b);
        v.kind = FACULA_TRUTHS;
        v.count = static_cast<int32_t>(list.size());
        v.at.ints = list.data();
      }
    }
    return v;
  }

 private:
  const FaculaTensor* tensors(const Tensor* list, size_t n) {
    const size_t first = tensors_.size();
    for (size_t i = 0; i < n; ++i) tensors_.push_back(list[i].defined() ? plain(list[i]) : absent_tensor());
    return tensors_.data() + first;
  }
  const char* op_;
  SmallVector<FaculaTensor, 8> tensors_;
  std::forward_list<std::vector<int64_t>> ints_;
  std::forward_list<std::string> texts_;
};

// The results come last and lie on the device; without them, the first tensor that is on one. Else the CPU.
Device device_of_call(std::span<const KernelArg> args) {
  for (size_t i = args.size(); i-- > 0;) {
    const KernelArg& a = args[i];
    if (a.at == nullptr) continue;
    if (a.kind == Kind::Tensor && at<Tensor>(a).device().type > kMeta) return at<Tensor>(a).device();
    if (a.kind == Kind::Tensors) {
      for (const Tensor& t : at<TensorList>(a)) {
        if (t.defined() && t.device().type > kMeta) return t.device();
      }
    }
    if (a.kind == Kind::Device && at<Device>(a).type > kMeta) return resolved(at<Device>(a));
  }
  return Device{kCPU};
}

bool is_written(const OperatorEntry& op, size_t i) { return (op.writes >> i & 1u) != 0; }

void put_result(const KernelArg& result, const FaculaValue& v) {
  const bool floating = v.kind == FACULA_FLOAT;
  switch (result.kind) {
    case Kind::Int:
      *static_cast<int64_t*>(const_cast<void*>(result.at)) = v.at.i;
      break;
    case Kind::Bool:
      *static_cast<bool*>(const_cast<void*>(result.at)) = v.at.i != 0;
      break;
    case Kind::Scalar:
      *static_cast<Scalar*>(const_cast<void*>(result.at)) = v.kind == FACULA_COMPLEX
                                                                ? Scalar(complex128(v.at.f, v.more.imag))
                                                            : floating               ? Scalar(v.at.f)
                                                            : v.kind == FACULA_TRUTH ? Scalar(v.at.i != 0)
                                                                                     : Scalar(v.at.i);
      break;
    default:
      raise(ErrorKind::Runtime,
            "internal error: a kernel's result of this type cannot come through the device interface");
  }
}

// `refusal` becomes what the device's own kernel or template said that did not take the call; so below.
bool call_kernel(DeviceInterface& interface, const OperatorEntry& op, std::span<const KernelArg> args,
                 const KernelArg& result, Device device, std::string& refusal) {
  const FaculaKernel kernel = interface.kernels[op.number].load(std::memory_order_acquire);
  if (kernel == nullptr) return false;
  Arguments store(op.name, args);
  SmallVector<FaculaValue, 16> values;
  values.reserve(args.size());
  for (const KernelArg& a : args) values.push_back(store.value(a, device));
  FaculaValue answer{};
  const FaculaCall call{op.name,
                        values.data(),
                        static_cast<int32_t>(values.size()),
                        op.outs,
                        &answer,
                        current_stream(device),
                        device.index,
                        0};
  ProfilerRange range(interface, op.name);
  const int32_t status = kernel(interface.api.context, &call);
  if (status == FACULA_NOT_SUPPORTED) {
    refusal = note_refusal(interface, op.name, "kernel");
    return false;
  }
  interface.check(status, device.index, op.name);
  if (result.at != nullptr) put_result(result, answer);
  return true;
}

// Reductions: `self` with the kept dims first.
bool call_reduction(DeviceInterface& interface, const OperatorEntry& op, std::span<const KernelArg> args, Device device,
                    std::string& refusal) {
  if (op.reduction_dim == kNoReduction || interface.api.reduction == nullptr || op.outs != 1) return false;
  const Tensor& self = at<Tensor>(args[0]);
  const Tensor& out = at<Tensor>(args.back());
  uint64_t reduced = 0;
  const KernelArg& dim = args[static_cast<size_t>(op.reduction_dim)];
  if (dim.at != nullptr && dim.kind == Kind::Int) {
    reduced = self.dim() == 0 ? 0 : uint64_t{1} << wrap_dim(at<int64_t>(dim), self.dim());
  } else if (dim.at != nullptr && dim.kind == Kind::Ints && !at<IntList>(dim).empty()) {
    for (const int64_t d : at<IntList>(dim)) reduced |= self.dim() == 0 ? 0 : uint64_t{1} << wrap_dim(d, self.dim());
  } else {
    reduced = ~uint64_t{0};
  }
  if (out.numel() == 0) return true;
  DimVector sizes, strides, out_sizes, out_strides;
  const bool keeps = out.dim() == self.dim();
  for (const bool taken : {false, true}) {
    for (size_t d = 0, o = 0; d < self.sizes().size(); ++d) {
      const bool reduces = (reduced >> d & 1u) != 0;
      if (reduces == taken) {
        sizes.push_back(self.sizes()[d]);
        strides.push_back(self.strides()[d]);
        if (!reduces) {
          out_sizes.push_back(out.sizes()[o]);
          out_strides.push_back(out.strides()[o]);
        }
      }
      o += !reduces || keeps;
    }
  }
  const FaculaTensor in_plain = plain(self, sizes, strides), out_plain = plain(out, out_sizes, out_strides);
  // an index says nothing of what is compared; sums and products are taken in the result's dtype
  const ScalarType compute = op.reduction_index ? self.dtype() : out.dtype();
  const FaculaReduction call{op.name,
                             &in_plain,
                             &out_plain,
                             static_cast<int32_t>(sizes.size() - out_sizes.size()),
                             static_cast<int32_t>(compute_type(compute)),
                             device.index,
                             0,
                             current_stream(device)};
  ProfilerRange range(interface, op.name);
  const int32_t status = interface.api.reduction(interface.api.context, &call);
  if (status == FACULA_NOT_SUPPORTED) {
    refusal = note_refusal(interface, op.name, "reduction template");
    return false;
  }
  interface.check(status, device.index, op.name);
  return true;
}

// ---- the CPU in the device's place ----

Value host_value(const KernelArg& a) {
  if (a.at == nullptr) return Value();
  const auto moved = [](const Tensor& t) { return t.defined() && t.device().type > kMeta ? host_mirror(t) : t; };
  switch (a.kind) {
    case Kind::Tensor:
      return moved(at<Tensor>(a));
    case Kind::Tensors: {
      std::vector<Tensor> list;
      for (const Tensor& t : at<TensorList>(a)) list.push_back(moved(t));
      return list;
    }
    case Kind::Int:
      return at<int64_t>(a);
    case Kind::Float:
      return at<double>(a);
    case Kind::Bool:
      return at<bool>(a);
    case Kind::String:
      return std::string(at<std::string_view>(a));
    case Kind::Scalar:
      return at<Scalar>(a);
    case Kind::Type:
      return at<ScalarType>(a);
    case Kind::Device:
      return Device{};
    case Kind::Format:
      return at<MemoryFormat>(a);
    case Kind::Generator:
      return Value();  // see call_cpu
    case Kind::Ints:
      return std::vector<int64_t>(at<IntList>(a).begin(), at<IntList>(a).end());
    case Kind::Bools:
      return at<std::vector<bool>>(a);
  }
  __builtin_unreachable();
}

void call_cpu(DeviceInterface& interface, const OperatorEntry& op, std::span<const KernelArg> args,
              const KernelArg& result, Device device, const std::string& refusal) {
  count_fallback(interface, op.name, device, refusal);
  const size_t inputs = args.size() - static_cast<size_t>(op.outs);
  Stack stack;
  std::vector<Tensor> mirrors(inputs);
  GeneratorImpl* source = nullptr;
  Generator drawing;  // the CPU goes on in the device's stream of numbers
  for (size_t i = 0; i < inputs; ++i) {
    stack.push_back(host_value(args[i]));
    if (args[i].kind == Kind::Generator) {
      source = &generator_of(args[i], device, op.name);
      drawing = make_intrusive<GeneratorImpl>(Device{});
      drawing->set_state(source->state());
      stack.back() = drawing;
    }
    if (const Tensor* t = std::get_if<Tensor>(&stack.back())) mirrors[i] = *t;
  }
  {
    ThreadState& s = thread_state();
    const ThreadState saved = s;
    s.excluded = static_cast<LayerSet>(~0u);
    s.included = 0;
    try {
      op.boxed(stack);
    } catch (...) {
      s = saved;
      throw;
    }
    s = saved;
  }
  if (source != nullptr) source->set_state(drawing->state());
  for (size_t i = 0; i < inputs; ++i) {
    if (is_written(op, i) && args[i].at != nullptr) write_mirror(at<Tensor>(args[i]), mirrors[i]);
  }
  for (size_t i = 0; i < static_cast<size_t>(op.outs); ++i) {
    device_copy(at<Tensor>(args[inputs + i]), std::get<Tensor>(stack[i]), false);
  }
  if (result.at != nullptr && !stack.empty()) {
    if (const Scalar* s = std::get_if<Scalar>(&stack[0])) put_result(result, plain_number(*s));
    if (const int64_t* v = std::get_if<int64_t>(&stack[0])) put_result(result, plain_number(Scalar(*v)));
    if (const bool* v = std::get_if<bool>(&stack[0])) put_result(result, plain_number(Scalar(*v)));
  }
}

// A package's own kernel in the place of a formula: what facula.compile took down before has to do with its arguments.
void settle_taken_down(std::span<const KernelArg> args) {
  const auto settle = [](const Tensor& t) {
    if (t.defined() && (layers_of_written(t) & kCaptureLayer) != 0) settle_captured(t);
  };
  for (const KernelArg& a : args) {
    if (a.at == nullptr) continue;
    if (a.kind == Kind::Tensor) settle(at<Tensor>(a));
    for (size_t i = 0; a.kind == Kind::Tensors && i < at<TensorList>(a).size(); ++i) settle(at<TensorList>(a)[i]);
  }
}

void call(const OperatorEntry& op, std::span<const KernelArg> args, KernelArg result) {
  settle_taken_down(args);
  const Device device = device_of_call(args);
  DeviceInterface* const interface = interface_or_null(device.type);
  std::string refusal;
  if (interface != nullptr) {
    interface->start();
    if (call_kernel(*interface, op, args, result, device, refusal) ||
        call_reduction(*interface, op, args, device, refusal))
      return;
  }
  if (op.decomposed != nullptr) {
    try {
      return op.decomposed(args, result);
    } catch (const MissingKernel& e) {
      if (refusal.empty()) throw;
      const std::string before = concat(refusal, "; made of others: ");
      throw MissingKernel(before + e.message(), op.name, e.kernel, e.device, e.refusal.empty() ? refusal : e.refusal);
    } catch (const Error& e) {
      pass_refusal(e);
      if (!refusal.empty()) refusal += ", and ";
      refusal += concat("its decomposition does not serve them (", e.message(), ")");
    }
  }
  if (interface == nullptr || !interface->fallback.load(std::memory_order_relaxed))
    raise_missing_kernel(op, device, refusal);
  call_cpu(*interface, op, args, result, device, refusal);
}

bool has_own_kernel(const OperatorEntry& op, DeviceType type) {
  const DeviceInterface* const interface = interface_or_null(type);
  if (op.kernels[type] == nullptr || interface == nullptr) return op.kernels[type] != nullptr;
  const bool reduces = op.reduction_dim != kNoReduction && interface->api.reduction != nullptr;
  const bool formula = op.kernels[type] != op.interface_kernel && interface->api.pointwise != nullptr;
  return interface->kernels[op.number].load(std::memory_order_acquire) != nullptr || reduces || formula;
}

AnyFn missing_kernel(const OperatorEntry& op, Device device) {
  DeviceInterface* const interface = interface_or_null(device.type);
  const bool served =
      op.decomposed != nullptr || (interface != nullptr && interface->fallback.load(std::memory_order_relaxed));
  if (op.interface_kernel == nullptr || !served) raise_missing_kernel(op, device);
  return op.interface_kernel;
}

ScalarType widest_float(std::optional<Device> device) {
  const DeviceInterface* const d = device ? interface_or_null(device->type) : nullptr;
  if (d == nullptr) return ScalarType::Float64;
  for (const ScalarType t : {ScalarType::Float64, ScalarType::Float32, ScalarType::BFloat16}) {
    if (d->supports(t)) return t;
  }
  return ScalarType::Float16;
}

[[maybe_unused]] const bool installed = (device_operators = {call, missing_kernel, has_own_kernel, widest_float}, true);

bool run_template(DeviceInterface& interface, const char* name, const char* variant, uint32_t masks,
                  std::span<const Tensor* const> inputs, std::span<const Tensor* const> outs, ScalarType compute,
                  const LoopArgs& args, std::string& refusal) {
  if (interface.api.pointwise == nullptr) return false;
  const Tensor& lead = *outs[0];
  const Device device = lead.device();
  FaculaTensor ins[kMaxPointwiseOperands], results[kMaxPointwiseOperands];
  DimVector strides;  // of inputs that broadcast, one after the other
  const size_t ndim = lead.sizes().size();
  strides.reserve(ndim * inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = *inputs[i];
    ins[i] = plain(t);
    if (t.sizes() == lead.sizes() && !t.is_cpu()) continue;
    const size_t missing = ndim - t.sizes().size();
    ins[i].sizes = lead.sizes().data();
    ins[i].strides = strides.end();
    ins[i].ndim = static_cast<int32_t>(ndim);
    ins[i].numel = lead.numel();
    if (!(t.sizes() == lead.sizes())) ins[i].flags &= ~uint32_t{FACULA_CONTIGUOUS};
    for (size_t d = 0; d < ndim; ++d) {
      const bool moves = d >= missing && !t.is_cpu() && (t.sizes()[d - missing] != 1 || lead.sizes()[d] == 1);
      strides.push_back(moves ? t.strides()[d - missing] : 0);
    }
  }
  for (size_t i = 0; i < outs.size(); ++i) results[i] = plain(*outs[i]);
  FaculaValue values[16];
  const size_t nvalues = std::min<size_t>(args.values.size(), 16);
  for (size_t i = 0; i < nvalues; ++i) values[i] = args.has(i) ? plain_number(args.values[i]) : FaculaValue{};
  const FaculaPointwise call{name,
                             variant,
                             ins,
                             results,
                             values,
                             static_cast<int32_t>(inputs.size()),
                             static_cast<int32_t>(outs.size()),
                             static_cast<int32_t>(nvalues),
                             static_cast<int32_t>(compute),
                             masks,
                             device.index,
                             current_stream(device)};
  ProfilerRange range(interface, name);
  const int32_t status = interface.api.pointwise(interface.api.context, &call);
  if (status == FACULA_NOT_SUPPORTED) {
    refusal = note_refusal(interface, name, "pointwise template");
    return false;
  }
  interface.check(status, device.index, name);
  return true;
}

}  // namespace

void count_fallback(DeviceInterface& interface, const char* op, Device device, const std::string& refusal) {
  if (interface.memory->is_captured(device.index, current_stream(device))) {
    const std::string why = refusal.empty() ? "() has no kernel there" : concat("(): ", refusal);
    raise_in_capture(device, concat(op, why, ", and the CPU's work is not recorded").c_str());
  }
  std::lock_guard lock(interface.counting);
  ++interface.fallbacks[op];
}

ScalarType copy_type(ScalarType from, ScalarType to) {
  return compute_type(category(from) >= category(to) ? from : to);
}

bool device_convert(DeviceInterface& interface, const Tensor& out, const Tensor& in, std::string& refusal) {
  const Tensor* const ins[] = {&in};
  const Tensor* const outs[] = {&out};
  return run_template(interface, "copy", "", 0, ins, outs, copy_type(in.dtype(), out.dtype()), LoopArgs{}, refusal);
}

void device_pointwise(const PointwiseOp& op, std::span<const Tensor* const> inputs, std::span<const Tensor* const> outs,
                      ScalarType compute, LoopArgs args) {
  if (outs[0]->numel() == 0) return;
  DeviceInterface& interface = started_interface(outs[0]->device().type);
  std::string refusal;
  if (run_template(interface, op.entry->name, op.variant, op.masks, inputs, outs, compute, args, refusal)) return;
  if (!interface.fallback.load(std::memory_order_relaxed))
    raise_missing_kernel(*op.entry, Device{interface.type, -1}, refusal);
  count_fallback(interface, op.entry->name, outs[0]->device(), refusal);
  Tensor ins[kMaxPointwiseOperands], results[kMaxPointwiseOperands];
  const Tensor* in_ptrs[kMaxPointwiseOperands];
  const Tensor* out_ptrs[kMaxPointwiseOperands];
  for (size_t i = 0; i < outs.size(); ++i) {
    results[i] = host_mirror(*outs[i]);
    out_ptrs[i] = &results[i];
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    ins[i] = *inputs[i];
    for (size_t k = 0; k < outs.size(); ++k) {
      if (inputs[i]->raw() == outs[k]->raw() && overlap_of(*inputs[i], *outs[k]) == Overlap::Full) ins[i] = results[k];
    }
    if (!ins[i].is_cpu()) ins[i] = host_mirror(*inputs[i]);
    in_ptrs[i] = &ins[i];
  }
  detail::pointwise_cpu(op, detail::find_loop(op, compute), compute, {in_ptrs, inputs.size()}, {out_ptrs, outs.size()},
                        args);
  for (size_t i = 0; i < outs.size(); ++i) write_mirror(*outs[i], results[i]);
}

}  // namespace facula
