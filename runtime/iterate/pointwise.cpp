#include "runtime/core/rounding.h"
#include "runtime/iterate/loop_faults.h"
#include "runtime/iterate/pointwise.h"

#include <atomic>
#include <cmath>
#include <limits>

#include "runtime/core/captured.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/pointwise_capture.h"
#include "runtime/iterate/pointwise_cpu.h"
#include "runtime/iterate/pointwise_rows.h"
#include "runtime/iterate/pointwise_types.h"
#include "runtime/iterate/stream.h"
#include "runtime/iterate/strided.h"
#include "runtime/iterate/tiles.h"

namespace facula {

void (*pointwise_missing)(const OperatorEntry& op, Device device) = nullptr;
constinit PointwiseCapture pointwise_capture;

namespace {

using detail::find_loop;

constexpr size_t kMax = kMaxPointwiseOperands;

std::atomic<PointwiseKernel> g_kernels[kMaxDeviceTypes];

// ---- the short way: contiguous CPU tensors of one shape and the type the loop computes in, and
// numbers; nothing is allocated but the result ----

struct Short {
  int64_t numel = 0;
  const TensorImpl* lead = nullptr;  // gives shape and dtype
  PointwiseLoop loop = nullptr;
  const void* ins[kMax];
  bool broadcast = false;  // the shapes differ
  int numbers = 0;
  uint8_t number_at[2];
  alignas(16) char values[2][16];
};

bool same_sizes(const DimVector& a, const DimVector& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

// The number as an element of `dtype`, unless that changes the type of the result or its value.
bool take_number(const TensorImpl& number, ScalarType dtype, char* value) {
  switch (dtype) {
    case ScalarType::Float32: {
      float f;
      if (number.dtype == ScalarType::Float64) {
        const double d = *reinterpret_cast<const double*>(number.data);
        f = static_cast<float>(d);
        if (std::isinf(f) && !std::isinf(d)) return false;
      } else if (number.dtype == ScalarType::Int64) {
        f = static_cast<float>(*reinterpret_cast<const int64_t*>(number.data));
      } else {
        return false;
      }
      *reinterpret_cast<float*>(value) = f;
      return true;
    }
    case ScalarType::Float64:
      if (number.dtype == ScalarType::Float64) {
        *reinterpret_cast<double*>(value) = *reinterpret_cast<const double*>(number.data);
      } else if (number.dtype == ScalarType::Int64) {
        *reinterpret_cast<double*>(value) = static_cast<double>(*reinterpret_cast<const int64_t*>(number.data));
      } else {
        return false;
      }
      return true;
    case ScalarType::Int64:
      if (number.dtype != ScalarType::Int64) return false;
      *reinterpret_cast<int64_t*>(value) = *reinterpret_cast<const int64_t*>(number.data);
      return true;
    default:
      return false;
  }
}

bool take_short(const PointwiseOp& op, std::span<const Tensor* const> inputs, const LoopArgs& args, Short& s) {
  if (args.promoting != 0 && op.promotion == Promotion::Bool) return false;
  const TensorImpl* lead = nullptr;
  uint32_t others = 0;  // masks and numbers
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorImpl* t = inputs[i]->impl();
    if (t == nullptr || t->device.type != kCPU || !t->contiguous) return false;
    s.ins[i] = t->data;
    if (t->wrapped_number || (op.masks >> i & 1u) != 0) {
      others |= 1u << i;
    } else if (lead == nullptr) {
      lead = t;
    } else if (t->dtype != lead->dtype) {
      return false;
    } else {
      s.broadcast |= !same_sizes(t->sizes, lead->sizes);
    }
  }
  if (lead == nullptr || is_reduced_float(lead->dtype)) return false;
  const ScalarType dtype = lead->dtype;
  if ((op.promotion == Promotion::Float || args.promoting != 0) && !is_differentiable(dtype)) return false;
  for (size_t i = 0; args.promoting >> i != 0 && i < args.values.size(); ++i) {
    if ((args.promoting >> i & 1u) != 0 && args.has(i) && args.values[i].kind() > category(dtype)) return false;
  }
  for (size_t i = 0; others >> i != 0; ++i) {
    if ((others >> i & 1u) == 0) continue;
    const TensorImpl* t = inputs[i]->impl();
    if ((op.masks >> i & 1u) != 0) {
      if (t->dtype != ScalarType::Bool) return false;
      s.broadcast |= !same_sizes(t->sizes, lead->sizes);
    } else {
      if (s.numbers == 2 || !take_number(*t, dtype, s.values[s.numbers])) return false;
      s.ins[i] = s.values[s.numbers];
      s.number_at[s.numbers++] = static_cast<uint8_t>(i);
    }
  }
  s.loop = find_loop(op, dtype);
  s.lead = lead;
  s.numel = lead->numel;
  return s.loop != nullptr;
}

// Whether results are written by streaming stores: large ones that begin lines and take the place of no input.
bool streams(const Short& s, size_t inputs, char* const* outs, size_t noutputs, int64_t out_item) {
  if (s.numel * out_item < kStreamBytes) return false;
  for (size_t k = 0; k < noutputs; ++k) {
    if (!whole_lines(outs[k])) return false;
    for (size_t i = 0; i < inputs; ++i) {
      if (s.ins[i] == outs[k]) return false;
    }
  }
  return true;
}

// More than a few elements: numbers are spread over a tile, long ranges over threads.
[[gnu::noinline]] void run_short_long(const Short& s, size_t inputs, char* const* outs, size_t noutputs,
                                      ScalarType produced, uint32_t masks, const LoopArgs& args) {
  alignas(64) char tiles[2][kTile * 8];
  const ConvertTable& table = FACULA_BY_ISA(convert_table);
  const int64_t item = static_cast<int64_t>(itemsize(s.lead->dtype)),
                out_item = static_cast<int64_t>(itemsize(produced));
  int64_t steps[kMax];
  const char* bases[kMax];
  for (size_t i = 0; i < inputs; ++i) {
    steps[i] = (masks >> i & 1u) != 0 ? 1 : item;
    bases[i] = static_cast<const char*>(s.ins[i]);
  }
  for (int k = 0; k < s.numbers; ++k) {
    table.move[size_log2(static_cast<size_t>(item))](tiles[k], item, s.values[k], 0, std::min(s.numel, kTile));
    bases[s.number_at[k]] = tiles[k];
    steps[s.number_at[k]] = 0;
  }
  const bool stream = streams(s, inputs, outs, noutputs, out_item);
  const int64_t piece = stream ? std::min(kTile, kStreamPiece / out_item) : s.numbers > 0 ? kTile : s.numel;
  const int64_t unit = stream ? piece : 1;  // threads share no piece
  parallel_for(0, ceil_div(s.numel, unit), kGrain / unit, [&](int64_t first, int64_t last) {
    alignas(64) char made[kMax][kStreamPiece];
    const int64_t end = std::min(last * unit, s.numel);
    for (int64_t b = first * unit; b < end; b += piece) {
      const int64_t n = std::min(piece, end - b);
      const void* in[kMax];
      void* out[kMax];
      for (size_t i = 0; i < inputs; ++i) in[i] = bases[i] + b * steps[i];
      for (size_t i = 0; i < noutputs; ++i) out[i] = stream ? made[i] : outs[i] + b * out_item;
      s.loop(n, out, in, args);
      check_loop_faults();
      for (size_t i = 0; i < noutputs && stream; ++i) table.stream(outs[i] + b * out_item, made[i], n * out_item);
    }
    if (stream) stream_done();
  });
}

inline void run_short(const PointwiseOp& op, const Short& s, size_t inputs, char* const* outs, size_t noutputs,
                      ScalarType produced, const LoopArgs& args) {
  if (s.numel <= 1 || (s.numbers == 0 && s.numel < 2 * kGrain)) {
    if (s.numel > 0) s.loop(s.numel, reinterpret_cast<void* const*>(outs), s.ins, args);
    check_loop_faults();
  } else {
    run_short_long(s, inputs, outs, noutputs, produced, op.masks, args);
  }
}

// Small tensors that broadcast. Results are contiguous, as their inputs are.
bool run_short_rows(const PointwiseOp& op, const Short& s, std::span<const Tensor* const> inputs,
                    const DimVector& shape, std::span<char* const> outs, ScalarType produced, const LoopArgs& args) {
  detail::RowOperand ins[kMax];
  const int64_t item = static_cast<int64_t>(itemsize(s.lead->dtype));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool number = inputs[i]->is_wrapped_number() && (op.masks >> i & 1u) == 0;
    ins[i] = {static_cast<const char*>(s.ins[i]), number ? nullptr : &inputs[i]->impl()->sizes,
              (op.masks >> i & 1u) != 0 ? 1 : item};
  }
  return detail::run_rows(s.loop, args, shape, std::span<const detail::RowOperand>(ins, inputs.size()), outs,
                          static_cast<int64_t>(itemsize(produced)));
}

// ---- the general way ----

void run(const PointwiseOp& op, const detail::PointwiseTypes& types, Device device,
         std::span<const Tensor* const> inputs, std::span<const Tensor* const> outs, const LoopArgs& args) {
  if (device.type == kMeta) return;
  if (types.beyond >= 0) [[unlikely]] {
    const Tensor infinity = wrapped_number(Scalar(std::numeric_limits<double>::infinity()));
    const Tensor* replaced[kMax];
    std::copy(inputs.begin(), inputs.end(), replaced);
    replaced[types.beyond] = &infinity;
    detail::PointwiseTypes plain = types;
    plain.beyond = -1;
    run(op, plain, device, std::span<const Tensor* const>(replaced, inputs.size()), outs, args);
    return;
  }
  if (device.type == kCPU) {
    detail::pointwise_cpu(op, types.loop, types.compute, inputs, outs, args);
    return;
  }
  const PointwiseKernel kernel = g_kernels[device.type].load(std::memory_order_acquire);
  if (kernel == nullptr) return pointwise_missing(*op.entry, device);
  kernel(op, inputs, outs, types.compute, args);
}

// Whether the first input with dims is contiguous and has the result's shape without dims of one element: its strides
// then tell of any two dims which is inside, and the result is contiguous too.
bool leads_in_order(std::span<const Tensor* const> inputs, const DimVector& sizes) {
  for (const Tensor* t : inputs) {
    if (t->dim() == 0) continue;
    return t->is_contiguous() && same_sizes(t->impl()->sizes, sizes) &&
           std::find(sizes.begin(), sizes.end(), 1) == sizes.end() && t->numel() > 0;
  }
  return false;
}

// May the call, on this thread or with these tensors, be one to take down, or one that something taken down comes
// before?
inline bool is_captured(std::span<const Tensor* const> inputs, std::span<const Tensor* const> outs) {
  if (active_captures.load(std::memory_order_relaxed) == 0) [[likely]]
    return false;
  LayerSet layers = tls_state.included;
  for (const Tensor* t : inputs) layers |= t->defined() ? layers_of_written(*t) : LayerSet{0};
  for (const Tensor* t : outs) layers |= t->defined() ? layers_of_written(*t) : LayerSet{0};
  return (layers & kCaptureLayer) != 0;
}

[[gnu::noinline]] void pointwise_general(const PointwiseOp& op, std::span<const Tensor* const> inputs,
                                         std::span<Tensor> results, const LoopArgs& args) {
  const Device device = detail::common_device(op, inputs);
  const auto [sizes, strides] = detail::pointwise_shape(op, inputs);
  const detail::PointwiseTypes types = detail::pointwise_types(op, inputs, args);
  const Tensor* outs[kMax];
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = strides.empty() ? make_empty(sizes, types.result, device)
                                 : make_empty_strided(sizes, strides, types.result, device);
    results[i].impl()->wrapped_number = types.number;
    outs[i] = &results[i];
  }
  run(op, types, device, inputs, std::span<const Tensor* const>(outs, results.size()), args);
}

}  // namespace

detail::PointwiseShape detail::pointwise_shape(const PointwiseOp& op, std::span<const Tensor* const> inputs) {
  PointwiseShape shape{common_shape(op, inputs), {}};
  const auto& [sizes, none] = shape;
  if (sizes.size() <= 1 || leads_in_order(inputs, sizes)) return shape;
  DimVector in_strides[kMax];  // dense, dims in the order that the inputs' strides tell
  for (size_t i = 0; i < inputs.size(); ++i) broadcast_strides(*inputs[i], sizes.size(), in_strides[i]);
  const DimVector order = iteration_order(sizes, std::span<const DimVector>(in_strides, inputs.size()));
  DimVector strides(sizes.size());
  int64_t stride = 1;
  for (const int64_t d : order) {
    strides[static_cast<size_t>(d)] = stride;
    stride *= std::max<int64_t>(sizes[static_cast<size_t>(d)], 1);
  }
  if (!is_contiguous(sizes, strides)) shape.strides = strides;
  return shape;
}

void set_pointwise_kernel(DeviceType type, PointwiseKernel kernel) {
  FACULA_CHECK(type < kMaxDeviceTypes && type != kCPU && type != kMeta, Value, Operator{"set_pointwise_kernel"},
               "this device type has its own way of running pointwise operators");
  g_kernels[type].store(kernel, std::memory_order_release);
}

void pointwise(const PointwiseOp& op, std::span<const Tensor* const> inputs, std::span<Tensor> results, LoopArgs args) {
  if (is_captured(inputs, {}) && pointwise_capture.functional(op, inputs, results, args)) [[unlikely]]
    return;
  Short s;
  if (!take_short(op, inputs, args, s)) {
    pointwise_general(op, inputs, results, args);
    return;
  }
  const ScalarType produced = detail::produced_type(op, s.lead->dtype);
  char* outs[kMax];
  if (s.broadcast) {
    const DimVector shape = detail::common_shape(op, inputs);
    if (detail::fits_rows(shape, numel_of(shape))) {
      for (size_t i = 0; i < results.size(); ++i) {
        results[i] = make_empty(shape, produced);
        outs[i] = results[i].impl()->data;
      }
      if (run_short_rows(op, s, inputs, shape, {outs, results.size()}, produced, args)) return;
    }
    pointwise_general(op, inputs, results, args);
    return;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = make_empty_as(*s.lead, produced);
    outs[i] = results[i].impl()->data;
  }
  run_short(op, s, inputs.size(), outs, results.size(), produced, args);
}

void pointwise_out(const PointwiseOp& op, std::span<const Tensor* const> inputs, std::span<const Tensor* const> outs,
                   LoopArgs args, bool resize) {
  if (is_captured(inputs, outs) && pointwise_capture.out(op, inputs, outs, args)) [[unlikely]]
    return;
  // What an interrupt leaves half written counts as written; see HalfWritten.
  struct Half {
    std::span<const Tensor* const> outs;
    uint32_t raised = detail::tls_watch.raised;
    ~Half() {
      if (detail::tls_watch.raised == raised) [[likely]]
        return;
      for (const Tensor* out : outs) out->bump_version();
    }
  };
  const Half half{outs};
  Short s;
  if (outs.size() == 1 && take_short(op, inputs, args, s)) {
    const TensorImpl& out = *outs[0]->impl();
    const ScalarType produced = detail::produced_type(op, s.lead->dtype);
    bool fits =
        out.device.type == kCPU && out.contiguous && out.dtype == produced && !out.inference && !out.storage->guarded();
    if (fits && s.broadcast) {
      const DimVector shape = detail::common_shape(op, inputs);
      fits = same_sizes(out.sizes, shape) && detail::fits_rows(shape, out.numel);
    } else if (fits) {
      fits = same_sizes(out.sizes, s.lead->sizes);
    }
    const char* const end = out.data + out.numel * static_cast<int64_t>(itemsize(produced));
    for (size_t i = 0; fits && i < inputs.size(); ++i) {  // apart, or the very same elements
      const TensorImpl& t = *inputs[i]->impl();
      const char* t_end = t.data + t.numel * static_cast<int64_t>(itemsize(t.dtype));
      fits = t.data == nullptr || t_end <= out.data || end <= t.data || (t.data == out.data && t_end == end);
    }
    char* data[] = {out.data};
    if (fits && s.broadcast) {
      fits = run_short_rows(op, s, inputs, out.sizes, data, produced, args);
    } else if (fits) {
      run_short(op, s, inputs.size(), data, 1, produced, args);
    }
    if (fits) {
      outs[0]->bump_version({op.name, resize ? "" : "_"});
      return;
    }
  }
  const Device device = detail::common_device(op, inputs);
  const DimVector sizes = detail::common_shape(op, inputs);
  const detail::PointwiseTypes types = detail::pointwise_types(op, inputs, args);
  for (const Tensor* out : outs) detail::check_out(op, *out, sizes, types.result, device, resize);
  for (size_t i = 1; i < outs.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      FACULA_CHECK(overlap_of(*outs[i], *outs[j]) == Overlap::No, Aliasing, Operator{op.name},
                   "two of the out tensors share memory; each needs its own");
    }
  }
  const Tensor* safe[kMax];
  Tensor copies[kMax];
  for (size_t i = 0; i < inputs.size(); ++i) {
    safe[i] = detail::separate_from(op, i, *inputs[i], outs, copies[i]);
  }
  run(op, types, device, std::span<const Tensor* const>(safe, inputs.size()), outs, args);
  for (const Tensor* out : outs) out->bump_version({op.name, resize ? "" : "_"});
}

}  // namespace facula
