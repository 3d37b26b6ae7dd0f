// Two operators for the checks of the driver, as the generator would write them.
#pragma once

#include "runtime/dispatch/registry.h"
#include "runtime/iterate/pointwise.h"

namespace facula::test {

template <typename T>
void add_loop(int64_t n, void* const* outs, const void* const* ins, const LoopArgs&) {
  const T* a = static_cast<const T*>(ins[0]);
  const T* b = static_cast<const T*>(ins[1]);
  T* o = static_cast<T*>(outs[0]);
  for (int64_t i = 0; i < n; ++i) o[i] = static_cast<T>(a[i] + b[i]);
}
template <typename T>
void less_loop(int64_t n, void* const* outs, const void* const* ins, const LoopArgs&) {
  const T* a = static_cast<const T*>(ins[0]);
  const T* b = static_cast<const T*>(ins[1]);
  bool* o = static_cast<bool*>(outs[0]);
  for (int64_t i = 0; i < n; ++i) o[i] = a[i] < b[i];
}

#define FACULA_SLOT(name, type) loops.by_type[static_cast<size_t>(dtype_of_v<type>)] = name##_loop<type>
inline const PointwiseLoops add_loops = [] {
  PointwiseLoops loops;
  FACULA_SLOT(add, uint8_t);
  FACULA_SLOT(add, int8_t);
  FACULA_SLOT(add, int16_t);
  FACULA_SLOT(add, int32_t);
  FACULA_SLOT(add, int64_t);
  FACULA_SLOT(add, float);
  FACULA_SLOT(add, double);
  FACULA_SLOT(add, complex64);
  FACULA_SLOT(add, complex128);
  return loops;
}();
inline const PointwiseLoops less_loops = [] {
  PointwiseLoops loops;
  FACULA_SLOT(less, uint8_t);
  FACULA_SLOT(less, int8_t);
  FACULA_SLOT(less, int16_t);
  FACULA_SLOT(less, int32_t);
  FACULA_SLOT(less, int64_t);
  FACULA_SLOT(less, float);
  FACULA_SLOT(less, double);
  return loops;
}();
#undef FACULA_SLOT

inline constexpr const char* kNames[] = {"self", "other"};
inline OperatorEntry add_entry{"add", "add(Tensor self, Tensor other) -> Tensor", nullptr};
inline const PointwiseOp add_op{&add_entry, "add", kNames, 1, Promotion::Same, 0, "", {&add_loops, nullptr, nullptr}};
inline const PointwiseOp less_op{&add_entry,      "less", kNames, 1,
                                 Promotion::Bool, 0,      "",     {&less_loops, nullptr, nullptr}};

inline Tensor add(const Tensor& a, const Tensor& b) {
  const Tensor* ins[] = {&a, &b};
  return pointwise(add_op, ins, {});
}
inline Tensor less(const Tensor& a, const Tensor& b) {
  const Tensor* ins[] = {&a, &b};
  return pointwise(less_op, ins, {});
}
inline void add_out(const Tensor& a, const Tensor& b, const Tensor& out, bool resize = false) {
  const Tensor* ins[] = {&a, &b};
  const Tensor* outs[] = {&out};
  pointwise_out(add_op, ins, outs, {}, resize);
}

}  // namespace facula::test
