// Bringing tensors into the layout and type a kernel works in.
#pragma once

#include <array>
#include <tuple>

#include "aten/cpu/common/bytes.h"
#include "runtime/core/tensor.h"
#include "runtime/iterate/parallel.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

// The tensor itself when contiguous and of that dtype, else such a copy. Undefined stays undefined.
inline Tensor dense_as(const Tensor& t, ScalarType dtype) {
  if (!t.defined() || (t.is_contiguous() && t.dtype() == dtype)) return t;
  const Tensor copy = make_empty(t.sizes(), dtype, t.device());
  copy_strided(copy, t);
  return copy;
}
inline Tensor dense(const Tensor& t) { return t.defined() ? dense_as(t, t.dtype()) : t; }
// In the type that arithmetic is done in: 16-bit floats as float.
inline Tensor dense_compute(const Tensor& t) { return t.defined() ? dense_as(t, compute_type(t.dtype())) : t; }

// Calls fn with a contiguous tensor of that dtype that stands for `out`.
template <typename F>
void into_dense(const Tensor& out, ScalarType dtype, const F& fn) {
  if (out.is_contiguous() && out.dtype() == dtype) {
    fn(out);
    return;
  }
  const Tensor copy = make_empty(out.sizes(), dtype, out.device());
  fn(copy);
  copy_strided(out, copy);
}

// Several at once, each itself where it has the dtype and serves(it), else dense: fn(tensor for outs[0], ...).
template <size_t N, typename Serves, typename F>
void into_serving(const Tensor (&outs)[N], ScalarType dtype, const Serves& serves, const F& fn) {
  std::array<Tensor, N> used;
  for (size_t i = 0; i < N; ++i) {
    const bool itself = outs[i].dtype() == dtype && serves(outs[i]);
    used[i] = itself ? outs[i] : make_empty(outs[i].sizes(), dtype, outs[i].device());
  }
  std::apply(fn, used);
  for (size_t i = 0; i < N; ++i) {
    if (used[i].impl() != outs[i].impl()) copy_strided(outs[i], used[i]);
  }
}
template <size_t N, typename F>
void into_dense(const Tensor (&outs)[N], ScalarType dtype, const F& fn) {
  into_serving(outs, dtype, [](const Tensor& t) { return t.is_contiguous(); }, fn);
}

// fn(type_identity<float or double>) for a compute type.
template <typename F>
void visit_compute(ScalarType t, const F& fn) {
  if (compute_type(t) == ScalarType::Float64) {
    fn(std::type_identity<double>{});
  } else {
    FACULA_ASSERT(compute_type(t) == ScalarType::Float32);
    fn(std::type_identity<float>{});
  }
}

template <typename T>
T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

// Scratch memory for one call.
template <typename T>
class TypedBuffer {
 public:
  explicit TypedBuffer(int64_t n) : size_(bytes_for<T>(n)) {
    if (size_ > 0) data_ = cpu_allocate(size_);
  }
  ~TypedBuffer() {
    if (size_ > 0) cpu_deallocate(data_, size_);
  }
  TypedBuffer(const TypedBuffer&) = delete;
  TypedBuffer& operator=(const TypedBuffer&) = delete;
  T* get() const { return static_cast<T*>(data_); }

 private:
  size_t size_;
  void* data_ = nullptr;
};

// Items per piece so that a piece does at least `work` element operations.
inline int64_t grain_for(int64_t per_item, int64_t work = 65536) {
  return std::max<int64_t>(1, work / std::max<int64_t>(1, per_item));
}

}  // namespace facula::cpu
