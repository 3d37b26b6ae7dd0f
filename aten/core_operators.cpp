// What the runtime asks of operators: see CoreOperators.
#include "facula/ops.h"
#include "runtime/core/thread_state.h"
#include "runtime/dispatch/core_operators.h"

namespace facula {

namespace {

Tensor filled(const Meta& meta, const Scalar& value) {
  if (meta.strides.empty()) return ops::full(meta.sizes, value, meta.dtype, meta.device);
  const Tensor t = ops::empty_strided(meta.sizes, meta.strides, meta.dtype, meta.device);
  return ops::fill_(t, value);
}

Tensor cast(const Tensor& t, ScalarType dtype, Device device) {
  const Tensor real = t.is_complex() && !is_complex(dtype) ? ops::real(t) : t;
  return ops::to_device(real, device, dtype);
}

bool has_nan(const Tensor& t) {
  if (t.is_meta() || !(t.is_floating_point() || t.is_complex())) return false;
  GradMode off(false);
  return ops::local_scalar(ops::any(ops::isnan(t))).to<bool>();
}

CoreOperators make_roles() {
  CoreOperators r = core_operators();  // what others installed stays
  r.accumulate = [](const Tensor& a, const Tensor& b) { return ops::add(a, b); };
  r.accumulate_into = [](const Tensor& into, const Tensor& b) { ops::add_(into, b); };
  r.sum_to = [](const Tensor& grad, IntList sizes) { return ops::sum_to_size(grad, sizes); };
  r.cast = cast;
  r.real_part = [](const Tensor& t) { return ops::real(t); };
  r.conjugate = [](const Tensor& t) { return ops::conj(t); };
  r.zeros = [](const Meta& meta) { return filled(meta, 0); };
  r.ones = [](const Meta& meta) { return filled(meta, 1); };
  r.clone = [](const Tensor& t) { return ops::clone(t); };
  r.as_strided = [](const Tensor& t, IntList sizes, IntList strides, int64_t offset) {
    return ops::as_strided(t, sizes, strides, offset);
  };
  r.view = [](const Tensor& t, IntList sizes) { return ops::view(t, sizes); };
  r.copy_into = [](const Tensor& into, const Tensor& source) { ops::copy_(into, source); };
  r.move_dim = [](const Tensor& t, int64_t from, int64_t to) {
    return ops::movedim(t, IntList(&from, 1), IntList(&to, 1));
  };
  r.add_dim = [](const Tensor& t, int64_t dim) { return ops::unsqueeze(t, dim); };
  r.expand = [](const Tensor& t, IntList sizes) { return ops::expand(t, sizes); };
  r.reshape = [](const Tensor& t, IntList sizes) { return ops::reshape(t, sizes); };
  r.row = [](const Tensor& t, int64_t dim, int64_t index) { return ops::select(t, dim, index); };
  r.stack = [](TensorList list) { return ops::stack(list, 0); };
  r.view_as_real = [](const Tensor& t) { return ops::view_as_real(t); };
  r.view_as_complex = [](const Tensor& t) { return ops::view_as_complex(t); };
  r.has_nan = has_nan;
  return r;
}

[[maybe_unused]] const bool installed = (core_operators() = make_roles(), true);

}  // namespace

}  // namespace facula
