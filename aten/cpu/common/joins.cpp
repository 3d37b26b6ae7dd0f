// Joining and reversing.
#include <cstring>

#include "aten/geometry.h"
#include "facula/kernels.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

namespace {

// Small joins of dense parts: plain runs, no plan a part.
bool join_dense(TensorList parts, size_t d, const Tensor& out) {
  if (!out.is_contiguous() || out.numel() >= 2 * kGrain) return false;
  for (const Tensor& t : parts) {
    if (t.numel() > 0 && (!t.is_contiguous() || t.dtype() != out.dtype())) return false;
  }
  const int64_t outer = product(out.sizes(), 0, d);
  const int64_t inner = product(out.sizes(), d + 1, out.sizes().size()) * static_cast<int64_t>(out.itemsize());
  char* at = static_cast<char*>(out.raw());
  for (int64_t o = 0; o < outer; ++o) {
    for (const Tensor& t : parts) {
      if (t.numel() == 0) continue;
      const size_t run = static_cast<size_t>(t.sizes()[d] * inner);
      std::memcpy(at, static_cast<const char*>(t.raw()) + static_cast<size_t>(o) * run, run);
      at += run;
    }
  }
  return true;
}

}  // namespace

void cat(TensorList tensors, int64_t dim, const Tensor& out) {
  if (out.numel() == 0) return;
  const size_t d = static_cast<size_t>(wrap_dim(dim, out.dim()));
  if (join_dense(tensors, d, out)) return;
  DimVector sizes(out.sizes());
  int64_t start = 0;
  for (const Tensor& t : tensors) {
    if (t.numel() == 0) continue;
    sizes[d] = t.sizes()[d];
    copy_strided(alias(out, sizes, out.strides(), out.offset() + start * out.strides()[d], false), t);
    start += sizes[d];
  }
}

void stack(TensorList tensors, int64_t dim, const Tensor& out) {
  if (out.numel() == 0) return;
  const size_t d = static_cast<size_t>(wrap_dim(dim, out.dim()));
  const int64_t inner = product(out.sizes(), d + 1, out.sizes().size()) * static_cast<int64_t>(out.itemsize());
  bool dense_parts = out.is_contiguous() && out.numel() < 2 * kGrain;
  for (const Tensor& t : tensors) dense_parts = dense_parts && t.is_contiguous() && t.dtype() == out.dtype();
  if (dense_parts) {
    const int64_t outer = product(out.sizes(), 0, d);
    char* at = static_cast<char*>(out.raw());
    for (int64_t o = 0; o < outer; ++o) {
      for (const Tensor& t : tensors) {
        std::memcpy(at, static_cast<const char*>(t.raw()) + o * inner, static_cast<size_t>(inner));
        at += inner;
      }
    }
    return;
  }
  DimVector sizes(out.sizes()), strides(out.strides());
  const int64_t step = strides[d];
  sizes.erase(sizes.begin() + d);
  strides.erase(strides.begin() + d);
  for (size_t i = 0; i < tensors.size(); ++i) {
    copy_strided(alias(out, sizes, strides, out.offset() + static_cast<int64_t>(i) * step, false), tensors[i]);
  }
}

void flip(const Tensor& self, IntList dims, const Tensor& out) {
  if (out.numel() == 0) return;
  DimVector strides[2];
  char* data[] = {static_cast<char*>(out.raw()), static_cast<char*>(self.raw())};
  broadcast_strides(out, out.sizes().size(), strides[0]);
  broadcast_strides(self, self.sizes().size(), strides[1]);
  for (const int64_t dim : wrap_dims(dims, self.dim(), "flip")) {
    if (self.dim() == 0) break;
    const size_t d = static_cast<size_t>(dim);
    data[1] += (self.sizes()[d] - 1) * strides[1][d];
    strides[1][d] = -strides[1][d];
  }
  move_rows(make_plan(out.sizes(), strides, data), out.itemsize());
}

}  // namespace facula::cpu
