// Copies between devices, and the kernels that follow from them.
#include <algorithm>
#include <cstring>

#include "runtime/device/kernels.h"
#include "runtime/device/memory.h"
#include "runtime/iterate/strided.h"

namespace facula {

namespace {

bool on_interface(const Tensor& t) { return t.device().type > kMeta; }

// Elements from the first to the last that the tensor reaches, relative to its data.
struct Extent {
  int64_t low = 0, count = 0;
};
Extent extent_of(const Tensor& t) {
  if (t.numel() == 0) return {};
  int64_t low = 0, high = 0;
  for (size_t d = 0; d < t.sizes().size(); ++d) {
    const int64_t reach = (t.sizes()[d] - 1) * t.strides()[d];
    (reach < 0 ? low : high) += reach;
  }
  return {low, high - low + 1};
}
char* start_of(const Tensor& t, const Extent& e) {
  return static_cast<char*>(t.raw()) + e.low * static_cast<int64_t>(t.itemsize());
}

bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  for (size_t d = 0; d < a.sizes().size(); ++d) {
    if (a.sizes()[d] != 1 && a.strides()[d] != b.strides()[d]) return false;
  }
  return true;
}

Tensor dense(const Tensor& t) {
  if (is_non_overlapping_and_dense(t.sizes(), t.strides())) return t;
  const Tensor made = make_empty(t.sizes(), t.dtype(), t.device());
  if (t.is_cpu()) {
    copy_strided(made, t);
  } else {
    device_copy(made, t, false);
  }
  return made;
}

// Both on one device.
void copy_within(const Tensor& self, const Tensor& src) {
  DeviceInterface& interface = interface_of(self.device().type);
  if (same_layout(self, src) && is_non_overlapping_and_dense(self.sizes(), self.strides())) {
    transfer(start_of(self, extent_of(self)), self.device(), start_of(src, extent_of(src)), src.device(),
             self.nbytes());
    return;
  }
  std::string refusal;
  if (device_convert(interface, self, src, refusal)) return;
  if (!interface.fallback.load(std::memory_order_relaxed)) {
    throw MissingKernel(concat("device '", interface.name, "' has no template for ", dtype_name(src.dtype()), " to ",
                               dtype_name(self.dtype()), " copies", refusal.empty() ? "" : ": ", refusal,
                               "; its package must serve the formula \"copy\" in `pointwise`"),
                        "copy", "copy", interface.name, refusal);
  }
  count_fallback(interface, "copy", self.device(), refusal);
  const Tensor target = host_mirror(self);
  copy_strided(target, host_mirror(src));
  write_mirror(self, target);
}

}  // namespace

void transfer(void* dst, Device to, const void* src, Device from, size_t nbytes, bool non_blocking) {
  if (nbytes == 0) return;
  const bool to_host = to.type <= kMeta, from_host = from.type <= kMeta;
  const Device lead = from_host ? to : from;
  DeviceInterface& interface = started_interface(lead.type);
  void* const stream = current_stream(lead);
  if ((to_host || from_host) && interface.memory->is_captured(lead.index, stream) &&
      !(non_blocking && is_pinned(to_host ? dst : src))) {
    raise_in_capture(lead, to_host ? "its values can be read on the host when the graph has been replayed"
                                   : "copy from the host before the capture, or with non_blocking=True from "
                                     "pinned memory of the same dtype and layout");
  }
  const bool peers = !to_host && !from_host && !(to == from);
  if (peers) {  // the memory of `to` is ready when its stream comes here
    DeviceEvent ready(to);
    ready.record(current_stream(to));
    ready.wait(from, stream);
  }
  const FaculaCopy copy{dst,   src, nbytes, to_host ? FACULA_HOST : to.index, from_host ? FACULA_HOST : from.index,
                        stream};
  interface.check(interface.api.copy(interface.api.context, &copy), lead.index, "copying memory failed");
  if (peers) {
    DeviceEvent done(from);
    done.record(stream);
    done.wait(to, current_stream(to));
    return;
  }
  if (to_host || from_host) {
    if (non_blocking && use_pinned(to_host ? dst : src, lead, stream)) return;
    synchronize_stream(lead, stream);
  }
}

void device_copy(const Tensor& self, const Tensor& src, bool non_blocking) {
  FACULA_CHECK(!src.is_meta() && !self.is_meta(), Values, "copy: a tensor on the meta device has no values");
  const DimVector sizes = broadcast_shapes(self.sizes(), src.sizes(), "copy");
  FACULA_CHECK(sizes == DimVector(self.sizes()), Shape, "copy: the values are ", shape_string(src.sizes()),
               " and do not broadcast to the ", shape_string(self.sizes()), " they are written to");
  if (self.numel() == 0 || self.is_same(src)) return;
  if (self.device() == src.device()) {
    if (self.is_cpu()) return copy_strided(self, src);
    return copy_within(self, src);
  }
  if (on_interface(self) && on_interface(src) && self.device().type != src.device().type) {
    const Tensor middle = make_empty(src.sizes(), src.dtype());
    device_copy(middle, src, false);
    return device_copy(self, middle, false);
  }
  if (src.is_cpu() && src.dtype() != self.dtype() && !interface_of(self.device().type).supports(src.dtype())) {
    const Tensor converted = make_empty(src.sizes(), self.dtype());
    copy_strided(converted, src);
    return device_copy(self, converted, non_blocking);
  }
  std::string refusal;
  if (src.is_cpu() && src.numel() == 1 && device_convert(interface_of(self.device().type), self, src, refusal)) return;
  const Tensor moved = dense(src);
  const bool direct = same_layout(self, moved) && is_non_overlapping_and_dense(self.sizes(), self.strides());
  const Tensor landing =
      direct ? self : make_empty_strided(moved.sizes(), moved.strides(), moved.dtype(), self.device());
  transfer(start_of(landing, extent_of(landing)), landing.device(), start_of(moved, extent_of(moved)), moved.device(),
           moved.nbytes(), non_blocking && direct && moved.is_same(src));
  if (!direct) device_copy(self, landing, false);
}

void device_fill(const Tensor& out, const Scalar& value) {
  if (out.numel() == 0) return;
  const Tensor number = make_empty({}, out.dtype());
  visit_dtype(out.dtype(), [&]<typename T>(std::type_identity<T>) {
    if constexpr (is_reduced_float_v<T>) {
      *number.data<T>() = T(value.to<float>());
    } else {
      *number.data<T>() = value.to<T>();
    }
  });
  device_copy(out, number, false);
}

Scalar device_scalar(const Tensor& self) {
  FACULA_CHECK(self.numel() == 1, Shape, Operator{"item"}, "a tensor of ", self.numel(), " elements is not one number");
  const Tensor host = host_mirror(self);
  return load_element(host.raw(), self.dtype());
}

Tensor host_mirror(const Tensor& t) {
  const Extent e = extent_of(t);
  const Storage storage = StorageImpl::allocate(static_cast<size_t>(e.count) * t.itemsize(), Device{});
  transfer(storage->data(), Device{}, start_of(t, e), t.device(), storage->nbytes());
  return from_storage(storage, t.sizes(), t.strides(), -e.low, t.dtype());
}

void write_mirror(const Tensor& t, const Tensor& host) {
  const Extent e = extent_of(t);
  transfer(start_of(t, e), t.device(), host.storage()->data(), Device{}, static_cast<size_t>(e.count) * t.itemsize());
}

}  // namespace facula
