#include "runtime/dispatch/stub.h"

namespace facula {

namespace {

void check_castable(ScalarType from, const Tensor& out, const char* op, const char* what) {
  FACULA_CHECK(can_cast(from, out.dtype()), Dtype, Operator{op}, "the result is ", dtype_name(from), " and ", what,
               " is ", dtype_name(out.dtype()), ", which cannot hold it; give ", what, " the dtype ", dtype_name(from));
}

void check_device(const Meta& meta, const Tensor& out, const char* op, const char* what) {
  FACULA_CHECK(meta.device.type == out.device().type &&
                   (meta.device.index < 0 || meta.device.type <= kMeta || meta.device.index == out.device().index),
               Device, Operator{op}, Argument{what}, " is on ", to_string(out.device()), " and the result on ",
               to_string(meta.device), "; put both on one device");
}

// A copy that is the write of another operator.
void copy_as(WriterName writer, const Tensor& to, const Tensor& from) {
  struct Restore {
    WriterName before = detail::tls_writer;
    ~Restore() { detail::tls_writer = before; }
  } restore;
  if (restore.before.op == nullptr) detail::tls_writer = writer;
  core_operators().copy_into(to, from);
}

}  // namespace

constinit thread_local OneWrite::Write OneWrite::tls_write_ __attribute__((tls_model("initial-exec")));

void detail::raise_recorded_out(const char* op) {
  raise(ErrorKind::Runtime, Operator{op},
        "out requires grad, and out= does not record gradients; call it without out, or under no_grad()");
}

void detail::raise_mixed_devices(const char* op, Device device, std::initializer_list<const char*> names,
                                 std::initializer_list<TensorList> inputs) {
  const char *here = nullptr, *there = nullptr;
  Device other;
  auto name = names.begin();
  for (TensorList list : inputs) {
    for (const Tensor& t : list) {
      if (!t.defined()) continue;
      if (t.device() == device && here == nullptr) here = *name;
      if (!is_readable_on(t, device) && there == nullptr) {
        there = *name;
        other = t.device();
      }
    }
    ++name;
  }
  raise(ErrorKind::Device, Operator{op}, Argument{there != nullptr ? there : "an input"}, " is on ", to_string(other),
        " and ", here != nullptr ? here : "the result", " on ", to_string(device),
        "; tensors must be on one device; move them with .to(device)");
}

Tensor prepare_out(const Tensor& out, const Meta& meta, const char* op, std::initializer_list<TensorList> inputs) {
  check_unrecorded(out, op);
  check_device(meta, out, op, "out");
  check_castable(meta.dtype, out, op, "out");
  const bool same_shape = IntList(meta.sizes) == out.sizes();
  if (!same_shape) {
    FACULA_CHECK(out.numel() == 0 && !out.is_view() && out.storage()->resizable(), Shape, Operator{op}, "out is ",
                 shape_string(out.sizes()), " and the result ", shape_string(meta.sizes),
                 "; pass out of that shape, or an empty tensor to be resized");
    const Changing changing(out);
    FACULA_CHECK(out.numel() == 0, Shape, Operator{op}, "another thread gave out another size meanwhile");
    TensorImpl& impl = *out.impl();
    impl.storage->resize(static_cast<size_t>(numel_of(meta.sizes)) * out.itemsize());
    impl.sizes = meta.sizes;
    impl.strides = contiguous_strides(meta.sizes);
    impl.offset = 0;
    impl.refresh();
  }
  check_writable(out, op);
  if (out.dtype() != meta.dtype) return make_tensor(meta);
  for (TensorList list : inputs) {
    for (const Tensor& t : list) {
      if (t.defined() && overlap_of(t, out) != Overlap::No) return make_tensor(meta);
    }
  }
  return out;
}

void finish_out(const Tensor& out, const Tensor& target, WriterName writer) {
  const HalfWritten half(out);
  if (!target.is_same(out) && !out.is_meta()) {
    if (!out.is_cpu() || !target.is_cpu()) return copy_as(writer, out, target);  // marks the write itself
    copy_strided(out, target);
  }
  out.bump_version(writer);
}

Tensor prepare_inplace(const Tensor& self, const Meta& meta, const char* op, bool direct) {
  check_device(meta, self, op, "self");
  check_castable(meta.dtype, self, op, "self");
  FACULA_CHECK(IntList(meta.sizes) == self.sizes(), Shape, Operator{concat(op, "_")}, Argument{"self"}, " is ",
               shape_string(self.sizes()), " and the result ", shape_string(meta.sizes),
               "; an in-place form cannot change the shape, use ", op, "()");
  check_writable(self, op);
  return direct && meta.dtype == self.dtype() ? self : make_tensor(meta);
}

void write_inplace(const Tensor& self, const Tensor& result, const char* op) {
  check_castable(result.dtype(), self, op, "self");
  FACULA_CHECK(result.sizes() == self.sizes(), Shape, Operator{concat(op, "_")}, Argument{"self"}, " is ",
               shape_string(self.sizes()), " and the result ", shape_string(result.sizes()),
               "; an in-place form cannot change the shape, use ", op, "()");
  copy_as({op, "_"}, self, result);
}

void write_out(const Tensor& out, const Tensor& result, const char* op) {
  FACULA_CHECK(!GradMode::enabled() || !(needs_grad(out) || needs_grad(result)), Runtime, Operator{op},
               "out= does not record gradients; call it without out, or under no_grad()");
  if (out.is_wrapped() || result.is_wrapped()) [[unlikely]] {
    check_castable(result.dtype(), out, op, "out");
    FACULA_CHECK(result.sizes() == out.sizes(), Shape, Operator{op}, "out is ", shape_string(out.sizes()),
                 " and the result ", shape_string(result.sizes()),
                 "; within a function transform out must have that shape already");
    return copy_as({op}, out, result);
  }
  Meta meta{DimVector(result.sizes()), result.dtype(), result.device(), {}};
  prepare_out(out, meta, op, {});
  finish_out(out, result, {op});
}

}  // namespace facula
