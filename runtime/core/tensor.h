// The tensor: geometry over a storage, with an optional autograd record.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runtime/core/device.h"
#include "runtime/core/dtype.h"
#include "runtime/core/interrupt.h"
#include "runtime/core/scalar.h"
#include "runtime/core/small_vector.h"
#include "runtime/core/storage.h"

struct _object;  // PyObject

namespace facula {

// The layers a call may pass before it reaches a device, highest bit first.
enum class Layer : uint8_t { Autograd = 0, Autocast, Tracing, Batching, Python, Observing };
inline constexpr int kNumLayers = 6;
using LayerSet = uint8_t;
constexpr LayerSet layer_bit(Layer l) { return static_cast<LayerSet>(1u << static_cast<int>(l)); }

// Known to runtime/autograd alone, which makes records and sets what ends them; core only owns them.
struct AutogradMeta;
extern FACULA_API void (*autograd_release)(AutogradMeta* m) noexcept;
struct AutogradMetaDeleter {
  void operator()(AutogradMeta* m) const noexcept { autograd_release(m); }
};

// Hands a tensor that is about to die to the Python object that it owns, which then lives or dies as
// Python says; nothing else may be done with the tensor. Set by the bindings.
extern FACULA_API void (*pyobject_release)(_object* object);

class Tensor;

// What a tensor of a level stands for: see runtime/dispatch/levels.h. Such a tensor has the sizes and strides that the
// function within the level sees, and neither storage nor data; calls with it pass Layer::Batching.
struct Wrapping;

class FACULA_API TensorImpl final : public RefCounted {
 public:
  static void dispose(TensorImpl* t) noexcept;
  bool drop() const { return drop_unweak(); }
  // Memory comes from a thread-local free list.
  static void* operator new(size_t size);
  static void operator delete(void* p) noexcept;

  TensorImpl() {}  // NOLINT: not "= default", after which `new TensorImpl()` would clear the memory first
  ~TensorImpl();

  ScalarType dtype = ScalarType::Float32;  // these beside the count of references, where there is room
  Device device;
  LayerSet layers = 0;  // Autograd is set while requires_grad or a tangent is
  Storage storage;
  char* data = nullptr;  // storage->data() + offset * itemsize, kept in step
  int64_t offset = 0;    // in elements
  int64_t numel = 0;
  DimVector sizes;
  DimVector strides;  // in elements
  bool contiguous = true;
  bool wrapped_number = false;  // made from a Python number: promotes as a number
  bool inference = false;       // made in inference mode
  bool no_grad_view = false;    // a view made while gradients were off
  bool requires_grad = false;   // kept by set_requires_grad, set_history and rebase_history
  bool owns_pyobject = false;
  std::unique_ptr<AutogradMeta, AutogradMetaDeleter> autograd;
  intrusive_ptr<TensorImpl> base;  // root of the view chain, when this is a view
  _object* pyobject = nullptr;     // borrowed, unless owns_pyobject
  Wrapping* wrapping = nullptr;    // owned

  // After a change of sizes, strides, storage, offset or dtype.
  void refresh();
};

using TensorList = std::span<const Tensor>;

// A counted handle. Undefined tensors (`!defined()`) stand for absent optional arguments.
class FACULA_API Tensor {
 public:
  Tensor() = default;
  explicit Tensor(intrusive_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return static_cast<bool>(impl_); }
  TensorImpl* impl() const { return impl_.get(); }
  intrusive_ptr<TensorImpl> take() { return std::move(impl_); }
  bool is_same(const Tensor& o) const { return impl_ == o.impl_; }
  void reset() { impl_.reset(); }

  IntList sizes() const { return impl_->sizes; }
  IntList strides() const { return impl_->strides; }
  int64_t dim() const { return static_cast<int64_t>(impl_->sizes.size()); }
  int64_t size(int64_t d) const;  // wraps negative d, raises IndexError out of range
  int64_t stride(int64_t d) const;
  int64_t numel() const { return impl_->numel; }
  // Outside of a call (see in_call.h), when another thread may be changing the tensor.
  int64_t numel_hint() const { return std::atomic_ref<int64_t>(impl_->numel).load(std::memory_order_relaxed); }
  int64_t offset() const { return impl_->offset; }
  ScalarType dtype() const { return impl_->dtype; }
  Device device() const { return impl_->device; }
  bool is_cpu() const { return impl_->device.type == kCPU; }
  bool is_meta() const { return impl_->device.type == kMeta; }
  bool is_contiguous() const { return impl_->contiguous; }
  size_t itemsize() const { return ::facula::itemsize(impl_->dtype); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * itemsize(); }
  bool is_floating_point() const { return is_floating(dtype()); }
  bool is_complex() const { return ::facula::is_complex(dtype()); }
  const Storage& storage() const { return impl_->storage; }
  uint32_t version() const;
  bool is_wrapped() const { return impl_->wrapping != nullptr; }
  void bump_version(WriterName writer = {}) const {
    if (impl_->storage) impl_->storage->bump_version(writer);
  }
  // The storage that counts the versions of this tensor; null for none.
  StorageImpl* counted() const;

  // A view follows its base, which may have come to require grad after the view was made.
  bool requires_grad() const {
    const TensorImpl* i = impl_.get();
    return i->requires_grad || (i->base && i->base->requires_grad && !i->no_grad_view && is_differentiable(i->dtype));
  }
  bool is_view() const { return static_cast<bool>(impl_->base); }
  bool is_wrapped_number() const { return impl_->wrapped_number; }

  void* raw() const { return impl_->data; }
  // T must match the dtype; checked in debug builds.
  template <typename T>
  T* data() const {
    return reinterpret_cast<T*>(impl_->data);
  }

 private:
  intrusive_ptr<TensorImpl> impl_;
};

struct Wrapping {
  Tensor inner;
  uint64_t level = 0;  // number of the level, which no other level of the process has
  int64_t dim = -1;    // of `inner`, which the function does not see; -1: there is none
};

inline StorageImpl* Tensor::counted() const {
  if (impl_->storage) [[likely]]
    return impl_->storage.get();
  return impl_->wrapping != nullptr ? impl_->wrapping->inner.counted() : nullptr;
}

inline uint32_t Tensor::version() const {
  if (impl_->storage) [[likely]]
    return impl_->storage->version();
  return impl_->wrapping != nullptr ? impl_->wrapping->inner.version() : 0;  // views of one tensor count together
}

// What a shape rule answers. Empty strides with sizes mean contiguous.
struct Meta {
  DimVector sizes;
  ScalarType dtype = ScalarType::Float32;
  Device device;
  DimVector strides;
};

// Fills in the index of a device with an interface, and raises when it holds no such dtype. Set by runtime/device.
extern FACULA_API Device (*place_on_device)(Device device, ScalarType dtype);

// While a kernel writes: what an interrupt leaves half written counts as written.
class HalfWritten {
 public:
  explicit HalfWritten(TensorList written) : written_(written), raised_(detail::tls_watch.raised) {}
  explicit HalfWritten(const Tensor& written) : HalfWritten(TensorList(&written, 1)) {}
  ~HalfWritten() {
    if (detail::tls_watch.raised == raised_) [[likely]]
      return;
    for (const Tensor& t : written_) {
      if (t.defined()) t.bump_version();
    }
  }
  HalfWritten(const HalfWritten&) = delete;
  HalfWritten& operator=(const HalfWritten&) = delete;

 private:
  TensorList written_;
  uint32_t raised_;
};

// ---- making tensors (no autograd, no dispatch) ----
FACULA_API Tensor make_empty(IntList sizes, ScalarType dtype, Device device = {});
// The same on the CPU, with the sizes of a tensor that is there.
FACULA_API Tensor make_empty_as(const TensorImpl& like, ScalarType dtype);
FACULA_API Tensor make_empty_strided(IntList sizes, IntList strides, ScalarType dtype, Device device = {});
FACULA_API Tensor make_tensor(const Meta& meta);
// A 0-d CPU tensor that promotes like a Python number.
FACULA_API Tensor wrapped_number(const Scalar& value);
// A tensor over the same storage; `as_view` links it to the base for autograd.
FACULA_API Tensor alias(const Tensor& self, IntList sizes, IntList strides, int64_t offset, bool as_view = true);
// A tensor of a level over `inner`, without a history of its own.
FACULA_API Tensor make_wrapped(Tensor inner, uint64_t level, int64_t dim);
// The tensor with data that `t` stands for; where that has dims which `t` does not show, an error: `who` reads values.
FACULA_API const Tensor& with_data(const Tensor& t, const char* who);
// Raises for such a tensor, which has no memory of its own to show.
FACULA_API void check_memory(const Tensor& t, const char* who);
FACULA_API Tensor from_storage(Storage storage, IntList sizes, IntList strides, int64_t offset, ScalarType dtype);

// ---- geometry ----
FACULA_API DimVector contiguous_strides(IntList sizes);
// Strides of a dense result laid out in the order of `self`'s dims (torch's preserve_format).
FACULA_API DimVector preserved_strides(const Tensor& self);
FACULA_API bool is_contiguous(IntList sizes, IntList strides);
// Every element of the extent used once, whatever the dim order.
FACULA_API bool is_non_overlapping_and_dense(IntList sizes, IntList strides);
// Product with overflow check (raises).
FACULA_API int64_t numel_of(IntList sizes);
// -dim..dim-1 -> 0..dim-1; a 0-d tensor takes -1 and 0. Raises IndexError named `op`.
FACULA_API int64_t wrap_dim(int64_t dim, int64_t ndim, const char* op = nullptr);
FACULA_API DimVector broadcast_shapes(IntList a, IntList b, const char* op = nullptr);
enum class Overlap : uint8_t { No, Full, Partial, TooHard };
// Do the two tensors share memory? Full means the same elements in the same places.
FACULA_API Overlap overlap_of(const Tensor& a, const Tensor& b);
// Does a tensor touch one element through two indices (an expanded tensor, say)?
FACULA_API bool has_internal_overlap(const Tensor& t);
// Raises outside of inference mode for a tensor made in it.
FACULA_API void check_not_inference(const Tensor& t, const char* op);
// Raises when writing to `t` is not allowed: internal overlap, read-only or meta-less storage, made in inference mode.
FACULA_API void check_writable(const Tensor& t, const char* op);
FACULA_API std::string shape_string(IntList sizes);  // "(3, 4)"

}  // namespace facula
