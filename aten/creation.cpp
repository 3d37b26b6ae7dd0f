// Making tensors, by filling and copying alone: serves every device.
#include "aten/geometry.h"
#include "facula/kernels.h"
#include "facula/ops.h"
#include "runtime/core/in_call.h"
#include "runtime/iterate/fusible.h"
#include "runtime/iterate/strided.h"

namespace facula::any {

namespace {

// Short of the dispatch where the device is known: this is the hot path of zeros(3).
void fill_with(const Tensor& out, const Scalar& value) {
  if (out.is_cpu()) {
    cpu::fill(out, value, out);
  } else {
    ops::fill_(out, value);
  }
}

void copy_into(const Tensor& out, const Tensor& self) {
  FACULA_CHECK(!self.is_meta(), Values, Operator{"to"}, "a tensor on the meta device has no values to copy to ",
               to_string(out.device()), "; make a new one with empty_like()");
  if (out.is_cpu() && self.is_cpu()) {
    copy_strided(out, self);
  } else {
    ops::copy_(out, self);
  }
}

}  // namespace

void empty(IntList, std::optional<ScalarType>, std::optional<Device>, std::optional<MemoryFormat>, const Tensor&) {}
void empty_strided(IntList, IntList, std::optional<ScalarType>, std::optional<Device>, const Tensor&) {}
void empty_like(const Tensor&, std::optional<ScalarType>, std::optional<Device>, std::optional<MemoryFormat>,
                const Tensor&) {}
void new_empty(const Tensor&, IntList, std::optional<ScalarType>, std::optional<Device>, const Tensor&) {}

void zeros(IntList, std::optional<ScalarType>, std::optional<Device>, const Tensor& out) { fill_with(out, 0); }
void zeros_like(const Tensor&, std::optional<ScalarType>, std::optional<Device>, std::optional<MemoryFormat>,
                const Tensor& out) {
  fill_with(out, 0);
}
void new_zeros(const Tensor&, IntList, std::optional<ScalarType>, std::optional<Device>, const Tensor& out) {
  fill_with(out, 0);
}

void ones(IntList, std::optional<ScalarType>, std::optional<Device>, const Tensor& out) { fill_with(out, 1); }
void ones_like(const Tensor&, std::optional<ScalarType>, std::optional<Device>, std::optional<MemoryFormat>,
               const Tensor& out) {
  fill_with(out, 1);
}
void new_ones(const Tensor&, IntList, std::optional<ScalarType>, std::optional<Device>, const Tensor& out) {
  fill_with(out, 1);
}

void full(IntList, const Scalar& fill_value, std::optional<ScalarType>, std::optional<Device>, const Tensor& out) {
  fill_with(out, fill_value);
}
void full_like(const Tensor&, const Scalar& fill_value, std::optional<ScalarType>, std::optional<Device>,
               std::optional<MemoryFormat>, const Tensor& out) {
  fill_with(out, fill_value);
}
void new_full(const Tensor&, IntList, const Scalar& fill_value, std::optional<ScalarType>, std::optional<Device>,
              const Tensor& out) {
  fill_with(out, fill_value);
}
void scalar_tensor(const Scalar& s, std::optional<ScalarType>, std::optional<Device>, const Tensor& out) {
  fill_with(out, s);
}

void arange(const Scalar& end, std::optional<ScalarType> dtype, std::optional<Device> device, const Tensor& out) {
  ops::arange_start_out(0, end, 1, dtype, device, out);
}

void eye(int64_t, std::optional<int64_t>, std::optional<ScalarType>, std::optional<Device>, const Tensor& out) {
  fill_with(out, 0);
  ops::fill_(ops::diagonal(out), 1);
}

void clone(const Tensor& self, std::optional<MemoryFormat>, const Tensor& out) { copy_into(out, self); }
void to_copy(const Tensor& self, std::optional<ScalarType>, std::optional<Device>, std::optional<MemoryFormat>,
             const Tensor& out) {
  copy_into(out, self);
}
[[maybe_unused]] const bool fusible =
    add_fusible_kernels(Fusible::Copy, {reinterpret_cast<KernelFn>(&clone), reinterpret_cast<KernelFn>(&to_copy)});

void complex_parts(const Tensor& real, const Tensor& imag, const Tensor& out) {
  const Tensor pairs = ops::view_as_real(out);
  ops::copy_(ops::select(pairs, -1, 0), real);
  ops::copy_(ops::select(pairs, -1, 1), imag);
}

// Gives a tensor another size in place; its memory grows when it must.
void resize(const Tensor& self, IntList size, std::optional<MemoryFormat> memory_format) {
  for (const int64_t s : size) {
    FACULA_CHECK(s >= 0, Shape, Operator{"resize_"}, "sizes must not be negative: ", shape_string(size));
  }
  const int64_t numel = numel_of(size);
  DimVector strides = memory_format ? format_strides(size, *memory_format, "resize_") : DimVector();
  const Changing changing(self);
  TensorImpl& impl = *self.impl();
  if (strides.empty()) strides = contiguous_strides(size);
  // Of the size that it has a tensor keeps its strides, unless a format is asked for.
  if (self.sizes() == size && (!memory_format || IntList(strides) == self.strides())) return;
  FACULA_CHECK(!needs_grad(self), Runtime, Operator{"resize_"}, "self requires grad; detach() it first");
  size_t needed = 0;
  FACULA_CHECK(impl.offset >= 0 && !__builtin_mul_overflow(static_cast<size_t>(checked_add(impl.offset, numel)),
                                                           self.itemsize(), &needed),
               Shape, Operator{"resize_"}, shape_string(size), " is too large");
  if (needed > impl.storage->nbytes()) {
    FACULA_CHECK(!self.is_view() && impl.storage->users() == 1, Shape, Operator{"resize_"}, shape_string(size),
                 " needs ", needed, " bytes, more than the ", impl.storage->nbytes(),
                 " of memory that other tensors use as well; make a new tensor");
    impl.storage->resize(needed);
  }
  impl.sizes = DimVector(size);
  impl.strides = strides;
  impl.refresh();
}

}  // namespace facula::any
