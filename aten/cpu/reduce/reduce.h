// Running a reduction: which elements meet in which order is decided here, once for all of them, and
// depends on shapes and strides alone, never on the number of threads.
#pragma once

#include <bitset>
#include <optional>

#include "aten/cpu/reduce/loops.h"
#include "runtime/core/tensor.h"

namespace facula::cpu {

inline constexpr size_t kMaxDims = 64;
using DimSet = std::bitset<kMaxDims>;

// The dims that `dim` names, all of them when it is absent or empty. Checks were done by the shape rule.
DimSet reduced_dims(std::optional<IntList> dim, int64_t ndim);

// What is done to elements on their way in. Power: |x|^p with the p of the parameters.
enum class Preload : uint8_t { None, Abs, NanToZero, NonZero, Power };

// Finishes `w` accumulators of n elements each in place; the results are in plane 0, or in plane k for
// output k. A plain function with the caller's parameters.
struct ReduceParams {
  double correction = 1;
  double p = 2;
  double scale = 1;  // of the result of a norm
};
using Finish = void (*)(void* acc, int64_t w, int64_t stride, int64_t n, const ReduceParams& params);

// Results that may lie in the range of their type though numbers on the way to them do not; see reduce_ends.h.
// Norm: (sum of |x|^p)^(1/p) scale. Prod: p factors at most that are safe.
enum class Ends : uint8_t { None, Sum, Mean, MeanSquare, Prod, Norm, Variance, Deviation };

struct ReduceSpec {
  ReduceOp op;
  ScalarType compute;
  Preload preload = Preload::None;
  Finish finish = nullptr;
  ReduceParams params = {};
  Ends ends = Ends::None;
};

// Reduces `dims` of self into out (and out1, for operations with two planes). The outputs have self's
// kept dims in order, with or without dims of size one in place of the reduced ones, any strides, any
// dtype. At least one element must be reduced per output.
void reduce(const ReduceSpec& spec, const Tensor& self, DimSet dims, const Tensor& out, const Tensor& out1 = {});

// First extreme along `dim` (of the flattened tensor when ndim is 0 or dim absent): index and, when
// `values` is defined, value. Outputs as in reduce(), `index` int64.
void reduce_arg(bool largest, const Tensor& self, std::optional<int64_t> dim, const Tensor& values,
                const Tensor& index);

// The type to compute minima and maxima of `t` in.
ScalarType order_type(ScalarType t);

// dst[0, n) = src[i * stride] converted; strides in elements.
void load_elements(ScalarType to, void* dst, ScalarType from, const void* src, int64_t stride, int64_t n);
// dst[i * stride] = src[0, n) converted.
void store_elements(ScalarType to, void* dst, int64_t stride, ScalarType from, const void* src, int64_t n);

}  // namespace facula::cpu
