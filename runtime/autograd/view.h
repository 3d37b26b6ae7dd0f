// Gradients through views by geometry: a view is the as-strided part of its base, whatever chain of
// operators made it.
#pragma once

#include "runtime/autograd/meta.h"

namespace facula {

// One tensor's geometry, in elements of its own dtype.
struct Geometry {
  DimVector sizes;
  DimVector strides;
  int64_t offset = 0;
  ScalarType dtype = ScalarType::Float32;
  Device device;
  Geometry() = default;
  explicit Geometry(const Tensor& t)
      : sizes(t.sizes()), strides(t.strides()), offset(t.offset()), dtype(t.dtype()), device(t.device()) {}
};

// Can gradients go from base to view: the same dtype, or one the complex type of the other (given
// that the core operators for it are installed)?
FACULA_API bool can_slice(ScalarType base, ScalarType view);
// The part of `t`, laid out as `base`, that `view` is. Differentiable.
FACULA_API Tensor slice_of(const Tensor& t, const Geometry& base, const Geometry& view);
// Gradient of `slice_of` with respect to the base: zeros laid out as `base` with `grad` added where
// `view` lies, repeatedly where it reaches an element through several indices. Differentiable.
FACULA_API Tensor scatter_slice(const Tensor& grad, const Geometry& base, const Geometry& view);

// The history of a view after its base changed in place.
class FACULA_API ViewOfBase final : public Node {
 public:
  ViewOfBase(const Tensor& base, const Tensor& view);
  const char* name() const override { return "ViewOfBase"; }
  void apply(std::span<const Tensor> grads, std::span<Tensor> results) override;

 private:
  Geometry base_, view_;
};

// The history of a base after one of its views changed in place by `change`: the gradient of the
// part goes through `change`, that of the rest through to the old base. Edge 0 leads to the base's
// history before, the others are those of `change` from 1 on.
class FACULA_API CopySlices final : public Node {
 public:
  CopySlices(const Tensor& base, const Tensor& view, intrusive_ptr<Node> change);
  const char* name() const override { return "CopySlices"; }
  void apply(std::span<const Tensor> grads, std::span<Tensor> results) override;
  void release_saved(Released& out) override { change_->release_saved(out); }
  void kept(Kept& out) const override { out.nodes.push_back(change_.get()); }
  bool runs_without_grad() const override { return change_->runs_without_grad(); }
  const Node& change() const { return *change_; }

 private:
  Geometry base_, view_;
  intrusive_ptr<Node> change_;
};

}  // namespace facula
