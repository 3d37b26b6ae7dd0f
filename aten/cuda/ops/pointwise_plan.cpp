#include "ops/pointwise_plan.h"

#include <algorithm>

namespace facula::cuda {

namespace {

constexpr int kThreads = kPointwiseThreads;
// Bytes that a thread asks for before it waits, where all elements have at most 2 bytes and otherwise;
// measured: long formulas want few values a thread, short ones do not care.
constexpr int kInFlightShort = 64, kInFlight = 32;

// 16 bytes of the widest elements: neighbouring threads then write whole lines.
int widest_vector(const PointwiseOperands& o, uint32_t splats) {
  int widest = 2;
  for (int i = 0; i < o.count(); ++i) {
    const bool moves = !o.is_scalar(i) && !(i >= o.nouts && (splats >> (i - o.nouts) & 1u) != 0);
    if (moves) widest = std::max(widest, o.sizes[i]);
  }
  return 16 / widest;
}
bool is_aligned(const PointwiseOperands& o, int i, int vec) {
  return reinterpret_cast<uintptr_t>(o.data[i]) % static_cast<uintptr_t>(std::min(16, vec * o.sizes[i])) == 0;
}
int unroll_of(const PointwiseOperands& o, int vec) {
  int bytes = 0, widest = 1;
  for (int i = 0; i < o.count(); ++i) {
    if (o.is_scalar(i)) continue;
    widest = std::max(widest, o.sizes[i]);
    if (i >= o.nouts) bytes += vec * o.sizes[i];
  }
  return std::clamp((widest > 2 ? kInFlight : kInFlightShort) / std::max(bytes, 1), 1, 4);
}

void plan_linear(PointwisePlan& p, const PointwiseOperands& o, int64_t numel, uint32_t splats) {
  p.form.kind = PointwiseForm::kLinear;
  p.form.splats = splats;
  int vec = widest_vector(o, splats);
  for (int i = 0; i < o.count(); ++i) {
    const bool moves = !o.is_scalar(i) && !(i >= o.nouts && (splats >> (i - o.nouts) & 1u) != 0);
    if (moves && !is_aligned(o, i, vec)) vec = 1;
  }
  p.form.vec = vec;
  p.form.unroll = unroll_of(o, vec);
  p.count = numel;
  const int64_t per_block = int64_t{kThreads} * vec * p.form.unroll;
  p.blocks = ceil_div(numel, per_block);
}

// Inputs whose elements lie side by side along another dim than the outputs': the dim, or 0.
int turned_dim(const Layout& l, const PointwiseOperands& o, uint32_t& turned) {
  if (l.ndim < 2 || l.sizes[0] < 16) return 0;
  for (int i = 0; i < o.nouts; ++i) {
    if (l.strides[0][i] != 1) return 0;
  }
  int dim = 0;
  for (int i = o.nouts; i < o.count(); ++i) {
    const int64_t s = l.strides[0][i];
    if (s == 0 || s == 1) continue;
    for (int d = 1; d < l.ndim; ++d) {
      if (l.strides[d][i] != 1 || l.sizes[d] < 16 || (dim != 0 && dim != d)) continue;
      dim = d;
      turned |= 1u << (i - o.nouts);
    }
  }
  return dim;
}

void plan_tiled(PointwisePlan& p, const PointwiseOperands& o, int dim, uint32_t turned) {
  Layout& l = p.layout;
  std::swap(l.sizes[1], l.sizes[dim]);
  for (int i = 0; i < l.operands; ++i) std::swap(l.strides[1][i], l.strides[dim][i]);
  int largest = 1;
  for (int i = 0; i < o.nins; ++i) {
    if ((turned >> i & 1u) != 0) largest += o.sizes[o.nouts + i];
  }
  p.form.kind = PointwiseForm::kTiled;
  p.form.turned = turned;
  p.form.tile = largest <= 8 ? 64 : 32;
  // elements of two bytes go in pairs
  bool pairs = p.form.tile == 64 && l.sizes[0] % 2 == 0 && l.sizes[1] % 2 == 0;
  for (int i = 0; i < o.count(); ++i) {
    const bool turns = i >= o.nouts && (turned >> (i - o.nouts) & 1u) != 0;
    if (i >= o.nouts && !turns) continue;
    pairs &= o.sizes[i] == 2 && is_aligned(o, i, 2);
    for (int d = 0; d < l.ndim; ++d) pairs &= d == (turns ? 1 : 0) || l.strides[d][i] % 2 == 0;
  }
  p.form.vec = pairs ? 2 : 1;
  // whole lines of 256 bytes both ways, where the tile fits in shared memory
  if (pairs && largest == 3 && l.sizes[0] >= 128 && l.sizes[1] >= 128) p.form.tile = 128;
  p.form.dims = std::max(2, l.ndim);
  p.count = ceil_div(l.sizes[0], p.form.tile) * ceil_div(l.sizes[1], p.form.tile);
  for (int d = 2; d < l.ndim; ++d) p.count *= l.sizes[d];
  p.blocks = p.count;
}

void plan_strided(PointwisePlan& p, const PointwiseOperands& o) {
  Layout& l = p.layout;
  p.form.kind = PointwiseForm::kStrided;
  uint32_t splats = 0;
  bool vectors = true;
  for (int i = 0; i < o.count(); ++i) {
    const int64_t s = l.strides[0][i];
    if (i >= o.nouts && s == 0 && !o.is_scalar(i)) splats |= 1u << (i - o.nouts);
    vectors &= s == 1 || (i >= o.nouts && s == 0);
  }
  int vec = vectors ? widest_vector(o, splats) : 1;
  const auto fits = [&](int v) {
    if (l.sizes[0] % v != 0) return false;
    for (int i = 0; i < o.count(); ++i) {
      if (l.strides[0][i] == 0) continue;
      if (!is_aligned(o, i, v)) return false;
      const int64_t unit = std::max(1, std::min(16, v * o.sizes[i]) / o.sizes[i]);
      for (int d = 1; d < l.ndim; ++d) {
        if (l.strides[d][i] % unit != 0) return false;
      }
    }
    return true;
  };
  while (vec > 1 && !fits(vec)) vec /= 2;
  p.form.vec = vec;
  p.form.splats = vec > 1 ? splats : 0;
  p.form.unroll = vec > 1 ? unroll_of(o, vec) : 4;
  p.form.dims = l.ndim;
  l.sizes[0] /= vec;
  for (int i = 0; i < l.operands; ++i) l.strides[0][i] *= vec;
  p.count = l.numel();
  const int64_t per_block = int64_t{kThreads} * p.form.unroll;
  p.blocks = ceil_div(p.count, per_block);
  p.form.wide = p.count >= (int64_t{1} << 31) - per_block;
  for (int i = 0; i < o.count(); ++i) p.form.wide |= reach(l, i, o.sizes[i]) >= int64_t{1} << 31;
}

}  // namespace

int32_t plan_pointwise(const PointwiseOperands& o, const FaculaTensor& lead, const int64_t* const* strides,
                       bool contiguous, bool tiles, PointwisePlan& plan) {
  if (contiguous) {
    plan_linear(plan, o, lead.numel, 0);
  } else {
    collapse(lead.ndim, lead.sizes, strides, o.count(), plan.layout);
    const Layout& l = plan.layout;
    if (l.ndim > kMaxKernelDims) return FACULA_NOT_SUPPORTED;
    uint32_t splats = 0, turned = 0;
    bool line = l.ndim <= 1;
    for (int i = 0; line && i < o.count(); ++i) {
      const int64_t s = l.ndim == 0 ? 1 : l.strides[0][i];
      if (i >= o.nouts && s == 0 && !o.is_scalar(i)) splats |= 1u << (i - o.nouts);
      line = s == 1 || (i >= o.nouts && s == 0);
    }
    if (line) {
      plan_linear(plan, o, lead.numel, splats);
    } else if (const int dim = tiles ? turned_dim(l, o, turned) : 0; dim != 0) {
      plan_tiled(plan, o, dim, turned);
    } else {
      plan_strided(plan, o);
    }
  }
  return plan.blocks >= int64_t{1} << 31 ? FACULA_NOT_SUPPORTED : FACULA_OK;
}

// Numbers of the call in the order that the formula uses them.
void put_numbers(Params& params, const FormulaSource& f, const FaculaValue* values, int32_t nvalues, int32_t compute) {
  uint32_t present = 0;
  for (int i = 0; i < f.nnumbers; ++i) {
    const NumberText& number = f.numbers[i];
    FaculaValue v{};
    if (number.place < nvalues) v = values[number.place];
    present |= static_cast<uint32_t>(v.kind != FACULA_NONE) << i;
    params.put_number(v, number.truth ? FACULA_BOOL : compute);
  }
  if (f.optional) {
    params.put(present);
    params.align(16);
  }
}

// Strides and sizes as the form has them in kernels/pointwise.cu; dims that the layout lacks have one element.
void put_dims(Params& params, const PointwisePlan& plan, const PointwiseOperands& o) {
  const PointwiseForm& form = plan.form;
  const Layout& l = plan.layout;
  const bool narrow = form.kind == PointwiseForm::kStrided && !form.wide;
  const auto size_of = [&](int d) { return d < l.ndim ? l.sizes[d] : 1; };
  for (int d = 0; d < form.dims; ++d) {
    for (int i = 0; i < o.count(); ++i) {
      const int64_t stride = d < l.ndim ? l.strides[d][i] * o.sizes[i] : 0;
      narrow ? params.put(static_cast<int32_t>(stride)) : params.put(stride);
    }
  }
  for (int d = 0; !narrow && d < form.dims; ++d) params.put(size_of(d));
  for (int d = 0; narrow && d < std::max(form.dims - 1, 1); ++d) {
    params.put(divisor_of(static_cast<uint32_t>(size_of(d))));
  }
}

}  // namespace facula::cuda
