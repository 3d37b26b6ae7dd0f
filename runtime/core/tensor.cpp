#include "runtime/core/tensor.h"

#include "runtime/core/captured.h"
#include "runtime/core/interrupt.h"
#include "runtime/core/checked.h"
#include "runtime/core/compound.h"
#include "runtime/core/pool.h"
#include "runtime/core/shown.h"
#include "runtime/core/thread_state.h"

namespace facula {

void (*autograd_release)(AutogradMeta* m) noexcept = nullptr;
void (*pyobject_release)(_object* object) = nullptr;
Device (*place_on_device)(Device device, ScalarType dtype) = nullptr;

namespace {

size_t bytes_of(int64_t numel, ScalarType dtype, IntList sizes) {
  int64_t bytes = 0;
  FACULA_CHECK(!__builtin_mul_overflow(numel, static_cast<int64_t>(itemsize(dtype)), &bytes), Shape,
               "a tensor of shape ", shape_string(sizes), " and dtype ", dtype_name(dtype),
               " would need more bytes than can be addressed");
  return static_cast<size_t>(bytes);
}

// One reachable element range of a view, in elements relative to the storage: [low, high].
struct Extent {
  int64_t low, high;
  bool empty;
};

Extent extent_of(IntList sizes, IntList strides, int64_t offset) {
  Extent e{offset, offset, false};
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return {offset, offset, true};
    int64_t step = 0;
    int64_t& end = strides[i] < 0 ? e.low : e.high;
    FACULA_CHECK(!__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) && !__builtin_add_overflow(end, step, &end),
                 Shape, "the strides ", shape_string(strides), " of shape ", shape_string(sizes), " overflow");
  }
  return e;
}

// By a product: a quotient of the bytes would be a third of the check's time.
bool lies_within(const Extent& e, size_t itemsize, size_t nbytes) {
  size_t needed = 0;
  return e.low >= 0 &&
         (e.empty || (!__builtin_mul_overflow(static_cast<size_t>(e.high) + 1, itemsize, &needed) && needed <= nbytes));
}

Tensor make_over(Storage storage, IntList sizes, IntList strides, int64_t offset, ScalarType dtype) {
  intrusive_ptr<TensorImpl> impl = make_intrusive<TensorImpl>();
  impl->device = storage->device();
  impl->storage = std::move(storage);
  impl->sizes.assign(sizes.begin(), sizes.end());
  impl->strides.assign(strides.begin(), strides.end());
  impl->offset = offset;
  impl->dtype = dtype;
  impl->inference = tls_state.inference;
  impl->refresh();
  return Tensor(std::move(impl));
}

void check_geometry(IntList sizes, IntList strides) {
  FACULA_CHECK(sizes.size() == strides.size(), Value, sizes.size(), " sizes but ", strides.size(), " strides");
}

Device normalized(Device device, ScalarType dtype) {
  if (device.type > kMeta) [[unlikely]]
    return place_on_device != nullptr ? place_on_device(device, dtype) : device;
  device.index = -1;  // one CPU, whatever its number
  return device;
}

}  // namespace

void* TensorImpl::operator new(size_t size) { return pool_allocate_object(size); }
void TensorImpl::operator delete(void* p) noexcept { pool_deallocate_object(p, sizeof(TensorImpl)); }
void TensorImpl::dispose(TensorImpl* t) noexcept {
  if (t->owns_pyobject && pyobject_release != nullptr) [[unlikely]] {
    pyobject_release(t->pyobject);
    return;
  }
  delete t;
}

TensorImpl::~TensorImpl() {
  if (wrapping == nullptr) [[likely]]
    return;
  if (wrapping->level == kCompoundLevel) {
    delete static_cast<CompoundWrapping*>(wrapping);
  } else {
    delete wrapping;
  }
}

void TensorImpl::refresh() {
  std::atomic_ref<int64_t>(numel).store(numel_of(sizes), std::memory_order_relaxed);
  contiguous = ::facula::is_contiguous(sizes, strides);
  // Of an empty tensor the offset may be any number.
  data = storage && storage->data() != nullptr
             ? static_cast<char*>(storage->data()) + (numel == 0 ? 0 : offset * static_cast<int64_t>(itemsize(dtype)))
             : nullptr;
}

int64_t Tensor::size(int64_t d) const { return impl_->sizes[static_cast<size_t>(wrap_dim(d, dim(), "size"))]; }
int64_t Tensor::stride(int64_t d) const { return impl_->strides[static_cast<size_t>(wrap_dim(d, dim(), "stride"))]; }

namespace {

Tensor make_dense(IntList sizes, int64_t numel, size_t nbytes, ScalarType dtype, Device device) {
  count_step();  // each operator makes a tensor, also those of a long composition
  Storage storage = StorageImpl::allocate(nbytes, device);
  intrusive_ptr<TensorImpl> impl = make_intrusive<TensorImpl>();
  TensorImpl& t = *impl;
  t.data = static_cast<char*>(storage->data());
  t.storage = std::move(storage);
  const size_t ndim = sizes.size();
  t.sizes.resize(ndim);
  t.strides.resize(ndim);
  int64_t stride = 1;
  for (size_t i = ndim; i-- > 0;) {
    t.sizes[i] = sizes[i];
    t.strides[i] = stride;
    stride *= sizes[i] > 1 ? sizes[i] : 1;  // cannot overflow unless numel is 0; see numel_of
  }
  t.numel = numel;
  t.dtype = dtype;
  t.device = device;
  t.inference = tls_state.inference;
  return Tensor(std::move(impl));
}

}  // namespace

Tensor make_empty(IntList sizes, ScalarType dtype, Device device) {
  device = normalized(device, dtype);
  const int64_t numel = numel_of(sizes);
  return make_dense(sizes, numel, bytes_of(numel, dtype, sizes), dtype, device);
}

Tensor make_empty_as(const TensorImpl& like, ScalarType dtype) {
  return make_dense(like.sizes, like.numel, static_cast<size_t>(like.numel) * itemsize(dtype), dtype, {});
}

Tensor make_empty_strided(IntList sizes, IntList strides, ScalarType dtype, Device device) {
  count_step();
  check_geometry(sizes, strides);
  numel_of(sizes);
  const Extent e = extent_of(sizes, strides, 0);
  FACULA_CHECK(e.low >= 0, Value, "strides must not be negative: ", shape_string(strides));
  const int64_t span = e.empty ? 0 : checked_add(e.high, 1);
  return make_over(StorageImpl::allocate(bytes_of(span, dtype, sizes), normalized(device, dtype)), sizes, strides, 0,
                   dtype);
}

Tensor make_tensor(const Meta& meta) {
  return meta.strides.empty() ? make_empty(meta.sizes, meta.dtype, meta.device)
                              : make_empty_strided(meta.sizes, meta.strides, meta.dtype, meta.device);
}

Tensor wrapped_number(const Scalar& value) {
  const auto made = [&]<typename T>(std::type_identity<T>) {
    Tensor t = make_empty({}, dtype_of_v<T>);
    *t.data<T>() = value.to<T>();
    t.impl()->wrapped_number = true;
    return t;
  };
  switch (value.kind()) {  // the widest type of the kind: nothing of the number is lost
    case Category::Bool:
      return made(std::type_identity<bool>{});
    case Category::Integral:
      if (value.is_beyond_int64()) return made(std::type_identity<uint64_t>{});
      return made(std::type_identity<int64_t>{});
    case Category::Floating:
      return made(std::type_identity<double>{});
    case Category::Complex:
      return made(std::type_identity<complex128>{});
  }
  __builtin_unreachable();
}

Tensor make_wrapped(Tensor inner, uint64_t level, int64_t dim) {
  count_step();
  intrusive_ptr<TensorImpl> impl = make_intrusive<TensorImpl>();
  TensorImpl& t = *impl;
  const TensorImpl& from = *inner.impl();
  t.sizes = from.sizes;
  t.strides = from.strides;
  if (dim >= 0) {
    t.sizes.erase(t.sizes.begin() + static_cast<size_t>(dim));
    t.strides.erase(t.strides.begin() + static_cast<size_t>(dim));
  }
  t.offset = from.offset;
  t.dtype = from.dtype;
  t.device = from.device;
  t.wrapped_number = from.wrapped_number;
  t.inference = tls_state.inference;
  t.refresh();
  t.layers = layer_bit(Layer::Batching);
  t.wrapping = new Wrapping{std::move(inner), level, dim};
  return Tensor(std::move(impl));
}

Wrapping* copy_wrapping(const Wrapping& w) {
  return w.level == kCompoundLevel ? new CompoundWrapping(static_cast<const CompoundWrapping&>(w)) : new Wrapping(w);
}

Tensor make_compound(IntList sizes, Compound compound) {
  count_step();
  intrusive_ptr<TensorImpl> impl = make_intrusive<TensorImpl>();
  TensorImpl& t = *impl;
  Tensor first = compound.parts.front();
  t.sizes.assign(sizes.begin(), sizes.end());
  t.strides = contiguous_strides(sizes);
  t.dtype = first.dtype();
  t.device = first.device();
  t.inference = tls_state.inference;
  t.refresh();
  t.layers = layer_bit(Layer::Batching);
  auto* wrapping = new CompoundWrapping;
  wrapping->inner = std::move(first);
  wrapping->level = kCompoundLevel;
  wrapping->compound = std::make_shared<const Compound>(std::move(compound));
  t.wrapping = wrapping;
  return Tensor(std::move(impl));
}

constinit std::atomic<size_t> active_captures = 0;
void (*settle_captured)(const Tensor& t) = nullptr;

const Tensor& with_data(const Tensor& t, const char* who) {
  const Tensor* at = &t;
  while (at->is_wrapped()) {
    FACULA_CHECK(!is_compound(*at), Layout, Operator{who},
                 "the tensor's layout is not strided, so it has no element in each place; use x.to_dense()");
    FACULA_CHECK(at->impl()->wrapping->dim < 0, Values, Operator{who},
                 "it reads a value, which differs by row of the batch that vmap() goes through; compute with tensors "
                 "instead (where() in place of a branch), or do this outside of vmap()");
    at = &at->impl()->wrapping->inner;
  }
  if (((at->impl()->layers | tls_state.included) & kCaptureLayer) != 0) [[unlikely]]
    settle_captured(*at);
  return *at;
}

void check_memory(const Tensor& t, const char* who) {
  with_data(t, who);
  FACULA_CHECK(!t.is_wrapped(), Values, Operator{who},
               "a tensor of a function transform (grad, vjp, jvp, ...) has no memory to show; use t.tolist() or "
               "t.item() to look at its values, or return it from the transformed function");
  if (t.storage()) show_memory(*t.storage());
}

Tensor alias(const Tensor& self, IntList sizes, IntList strides, int64_t offset, bool as_view) {
  count_step();  // of many views at once, each
  check_geometry(sizes, strides);
  const TensorImpl& from = *self.impl();
  const size_t available = from.storage ? from.storage->nbytes() : 0;
  FACULA_CHECK(lies_within(extent_of(sizes, strides, offset), itemsize(from.dtype), available), Runtime,
               "a view of shape ", shape_string(sizes), " with strides ", shape_string(strides), " from offset ",
               offset, " leaves the storage of ", available / itemsize(from.dtype), " elements");
  intrusive_ptr<TensorImpl> impl = make_intrusive<TensorImpl>();
  TensorImpl& t = *impl;
  t.storage = from.storage;
  t.sizes.assign(sizes.begin(), sizes.end());
  t.strides.assign(strides.begin(), strides.end());
  t.offset = offset;
  t.dtype = from.dtype;
  t.device = from.device;
  t.inference = from.inference;
  t.layers = static_cast<LayerSet>(from.layers & kCaptureLayer);
  t.refresh();
  if (as_view) {
    t.base = from.base ? from.base : intrusive_ptr<TensorImpl>::share(self.impl());
    t.no_grad_view = !tls_state.grad_enabled || from.no_grad_view;
  }
  return Tensor(std::move(impl));
}

Tensor from_storage(Storage storage, IntList sizes, IntList strides, int64_t offset, ScalarType dtype) {
  check_geometry(sizes, strides);
  FACULA_CHECK(lies_within(extent_of(sizes, strides, offset), itemsize(dtype), storage->nbytes()), Shape,
               "a tensor of shape ", shape_string(sizes), " with strides ", shape_string(strides), " from offset ",
               offset, " needs more than the ", storage->nbytes(), " bytes of its memory");
  normalized(storage->device(), dtype);  // refuses what the device has not
  return make_over(std::move(storage), sizes, strides, offset, dtype);
}

}  // namespace facula
