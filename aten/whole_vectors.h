// Loops that call a vector library. Its values differ in the last bit from those of the scalar functions, so
// that an element's value would depend on whether it lies in a whole vector or is left over at the end, and
// with that on the length, the layout and the threads. What is left over is computed in a whole vector too.
// Include "aten/math_simd.h" first.
#pragma once

#include <algorithm>

#include "runtime/iterate/pointwise.h"

namespace facula::FACULA_ISA {
namespace {

// A loop's operands, results first.
struct LoopShape {
  uint8_t outs, count;
  uint8_t lanes;  // elements of which the loop is called with a multiple
  uint8_t all;    // bytes of each operand, or 0 where they differ
  uint8_t bytes[kMaxPointwiseOperands];
};

#ifdef FACULA_LIBMVEC

// Vectors have as many elements as the smallest operand or a 32-bit number on the way needs.
template <typename... S>
inline constexpr int64_t kWholeLanes = FACULA_VECTOR_BYTES / std::min({sizeof(float), sizeof(S)...});

template <typename... S>
consteval LoopShape loop_shape(int outs) {
  constexpr size_t least = std::min({sizeof(S)...}), most = std::max({sizeof(S)...});
  return {static_cast<uint8_t>(outs), sizeof...(S), kWholeLanes<S...>, least == most ? least : 0, {sizeof(S)...}};
}

template <typename F>
[[gnu::always_inline]] inline void visit_bytes(size_t bytes, const F& fn) {
  switch (bytes) {
    case 1:
      return fn(uint8_t{});
    case 4:
      return fn(uint32_t{});
    case 8:
      return fn(uint64_t{});
    default:
      return fn(std::array<uint64_t, 2>{});
  }
}

// The `left` elements from `at` on in one vector; the first of them fills it, as it raises nothing that they do not.
// Operands of one size, as most are, have lanes that the compiler knows, and one result with kCount operands.
template <typename S, int kCount>
[[gnu::always_inline]] inline void fill_vector(PointwiseLoop body, const LoopShape& shape, int64_t at, int64_t left,
                                               void* const* outs, const void* const* ins, const LoopArgs& args) {
  constexpr int64_t kLanes = kWholeLanes<S>;
  constexpr int kMost = kCount > 0 ? kCount : kMaxPointwiseOperands;
  const int results = kCount > 0 ? 1 : shape.outs, count = kCount > 0 ? kCount : shape.count;
  alignas(FACULA_VECTOR_BYTES) S tiles[kMost][kLanes];
  void* places[kMost];
  const size_t size = static_cast<size_t>(left) * sizeof(S);
  for (int k = 0; k < results; ++k) places[k] = tiles[k];
  for (int k = results; k < count; ++k) {
    places[k] = tiles[k];
    const char* const from = static_cast<const char*>(ins[k - results]) + at * static_cast<int64_t>(sizeof(S));
    S first;
    __builtin_memcpy(&first, from, sizeof(S));
    for (int64_t i = 0; i < kLanes; ++i) tiles[k][i] = first;
    if (left > 1) __builtin_memcpy(tiles[k], from, size);
  }
  body(kLanes, places, const_cast<const void* const*>(places + results), args);
  for (int k = 0; k < results; ++k) {
    char* const to = static_cast<char*>(outs[k]) + at * static_cast<int64_t>(sizeof(S));
    __builtin_memcpy(to, tiles[k], sizeof(S));
    if (left > 1) __builtin_memcpy(to, tiles[k], size);
  }
}

// Not cloned nor inlined: a compiler that knew the number of elements might make another loop of `body`.
[[gnu::noipa, maybe_unused]] void in_whole_vectors(PointwiseLoop body, const LoopShape& shape, int64_t n,
                                                   void* const* outs, const void* const* ins, const LoopArgs& args) {
  const int64_t lanes = shape.lanes, whole = n & -lanes, left = n - whole;
  if (whole > 0) body(whole, outs, ins, args);
  if (left == 0) return;
  if (shape.all == 4) {
    if (shape.outs == 1 && shape.count == 2) return fill_vector<uint32_t, 2>(body, shape, whole, left, outs, ins, args);
    return fill_vector<uint32_t, 0>(body, shape, whole, left, outs, ins, args);
  }
  if (shape.all == 8) return fill_vector<uint64_t, 0>(body, shape, whole, left, outs, ins, args);
  alignas(FACULA_VECTOR_BYTES) char tiles[kMaxPointwiseOperands][FACULA_VECTOR_BYTES * sizeof(complex128)];
  void* at[kMaxPointwiseOperands];
  for (int k = 0; k < shape.count; ++k) {
    at[k] = tiles[k];
    if (k < shape.outs) continue;
    visit_bytes(shape.bytes[k], [&]<typename S>(S first) {
      const char* from = static_cast<const char*>(ins[k - shape.outs]) + whole * static_cast<int64_t>(sizeof(S));
      __builtin_memcpy(&first, from, sizeof(S));
      S* const to = reinterpret_cast<S*>(tiles[k]);
      for (int64_t i = 0; i < (lanes & -4); ++i) to[i] = first;
      if (left > 1) __builtin_memcpy(to, from, static_cast<size_t>(left) * sizeof(S));
    });
  }
  body(lanes, at, const_cast<const void* const*>(at + shape.outs), args);
  for (int k = 0; k < shape.outs; ++k) {
    visit_bytes(shape.bytes[k], [&]<typename S>(S first) {
      char* const to = static_cast<char*>(outs[k]) + whole * static_cast<int64_t>(sizeof(S));
      __builtin_memcpy(&first, tiles[k], sizeof(S));
      __builtin_memcpy(to, &first, sizeof(S));
      if (left > 1) __builtin_memcpy(to, tiles[k], static_cast<size_t>(left) * sizeof(S));
    });
  }
}

#else  // one function serves vectors and single elements

template <typename... S>
inline constexpr int64_t kWholeLanes = 1;
template <typename... S>
consteval LoopShape loop_shape(int) {
  return {};
}
inline void in_whole_vectors(PointwiseLoop body, const LoopShape&, int64_t n, void* const* outs, const void* const* ins,
                             const LoopArgs& args) {
  body(n, outs, ins, args);
}

#endif

}  // namespace
}  // namespace facula::FACULA_ISA
