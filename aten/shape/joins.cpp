// Shape rules of joins.
#include "aten/geometry.h"
#include "facula/shapes.h"
#include "runtime/iterate/result_type.h"

namespace facula::shape {

namespace {

// The common dtype and device of a list.
Meta joined(TensorList tensors, const char* op) {
  FACULA_CHECK(!tensors.empty(), Value, Operator{op}, "at least one tensor is needed");
  ResultType type;
  Device device = tensors[0].device();
  for (size_t i = 0; i < tensors.size(); ++i) {
    type.add(tensors[i]);
    FACULA_CHECK(tensors[i].device() == device, Device, Operator{op}, "tensors[", i, "] is on ",
                 to_string(tensors[i].device()), ", tensors[0] on ", to_string(device));
  }
  return {{}, type.get(), device, {}};
}

// What torch ignores in cat(): tensors of shape (0,) beside others.
bool is_void(const Tensor& t) { return t.dim() == 1 && t.numel() == 0; }

}  // namespace

Meta cat(TensorList tensors, int64_t dim) {
  Meta meta = joined(tensors, "cat");
  const Tensor* first = nullptr;
  size_t first_at = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    FACULA_CHECK(tensors[i].dim() > 0, Shape, Operator{"cat"}, "tensors[", i,
                 "] is 0-d and cannot be joined; use stack()");
    if (first == nullptr && !is_void(tensors[i])) {
      first = &tensors[i];
      first_at = i;
    }
  }
  if (first == nullptr) {
    wrap_dim(dim, 1, "cat");
    meta.sizes = {0};
    return meta;
  }
  const size_t d = static_cast<size_t>(wrap_dim(dim, first->dim(), "cat"));
  meta.sizes = DimVector(first->sizes());
  meta.sizes[d] = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    if (is_void(t)) continue;
    bool fits = t.dim() == first->dim();
    for (size_t k = 0; fits && k < meta.sizes.size(); ++k) fits = k == d || t.sizes()[k] == meta.sizes[k];
    FACULA_CHECK(fits, Shape, Operator{"cat"}, "sizes must agree but for dim ", d, "; tensors[", i, "] is ",
                 shape_string(t.sizes()), ", tensors[", first_at, "] is ", shape_string(first->sizes()));
    FACULA_CHECK(!__builtin_add_overflow(meta.sizes[d], t.sizes()[d], &meta.sizes[d]), Runtime, Operator{"cat"},
                 "the result is too large");
  }
  return meta;
}

Meta stack(TensorList tensors, int64_t dim) {
  Meta meta = joined(tensors, "stack");
  meta.sizes = DimVector(tensors[0].sizes());
  for (size_t i = 1; i < tensors.size(); ++i) {
    FACULA_CHECK(tensors[i].sizes() == tensors[0].sizes(), Shape, Operator{"stack"}, "sizes must agree; tensors[", i,
                 "] is ", shape_string(tensors[i].sizes()), ", tensors[0] is ", shape_string(tensors[0].sizes()));
  }
  const size_t d = static_cast<size_t>(wrap_dim(dim, tensors[0].dim() + 1, "stack"));
  meta.sizes.insert(meta.sizes.begin() + d, static_cast<int64_t>(tensors.size()));
  return meta;
}

Meta flipped(const Tensor& self, IntList dims) {
  wrap_dims(dims, self.dim(), "flip");
  return {DimVector(self.sizes()), self.dtype(), self.device(), {}};
}

}  // namespace facula::shape
