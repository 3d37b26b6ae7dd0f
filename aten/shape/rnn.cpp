// Shapes and argument checks of recurrent layers.
#include "facula/shapes.h"
#include "runtime/core/checked.h"

namespace facula::shape {
namespace {

void check_shape(const Tensor& t, IntList sizes, std::string_view op, const char* name) {
  FACULA_CHECK(t.sizes() == sizes, Shape, Operator{op}, Argument{name}, " is ", shape_string(t.sizes()), ", expected ",
               shape_string(sizes));
}

void check_like(const Tensor& t, const Tensor& gates, std::string_view op, const char* name) {
  FACULA_CHECK(t.dtype() == gates.dtype(), Dtype, Operator{op}, Argument{name}, " is ", dtype_name(t.dtype()),
               ", the input is ", dtype_name(gates.dtype()), "; they must have one dtype");
  FACULA_CHECK(t.device() == gates.device(), Device, Operator{op}, Argument{name}, " is on ", to_string(t.device()),
               ", the input on ", to_string(gates.device()), "; they must be on one device");
}

}  // namespace

Meta recurrent(const Tensor& gates, const Tensor& hx, const Tensor& cx, const Tensor& weight, const Tensor& bias,
               IntList batch_sizes, int64_t count, std::string_view op) {
  FACULA_CHECK(gates.is_floating_point(), NotImplemented, Operator{op}, "the input is ", dtype_name(gates.dtype()),
               "; it must have a floating-point dtype");
  FACULA_CHECK(hx.dim() == 2, Shape, Operator{op}, "the initial state is ", shape_string(hx.sizes()),
               ", expected (batch, hidden)");
  FACULA_CHECK(!batch_sizes.empty(), Runtime, Operator{op}, "expected sequence length to be larger than 0");
  const int64_t n = hx.size(1);
  int64_t rows = 0, last = batch_sizes[0];
  for (const int64_t size : batch_sizes) {
    FACULA_CHECK(size >= 0 && size <= last, Value, Operator{op}, Argument{"batch_sizes"},
                 " must not grow from time to time nor be negative, they are ", shape_string(batch_sizes));
    last = size;
    FACULA_CHECK(!__builtin_add_overflow(rows, size, &rows), Value, Operator{op}, "batch_sizes are too large");
  }
  check_shape(gates, IntList{rows, checked_mul(count, n)}, op, "the input's share of the gates");
  check_shape(hx, IntList{batch_sizes[0], n}, op, "the initial state");
  check_shape(weight, IntList{checked_mul(count, n), n}, op, "weight_hh");
  check_like(hx, gates, op, "the initial state");
  check_like(weight, gates, op, "weight_hh");
  if (cx.defined()) {
    check_shape(cx, hx.sizes(), op, "the initial cell state");
    check_like(cx, gates, op, "the initial cell state");
  }
  if (bias.defined()) {
    check_shape(bias, IntList{checked_mul(count, n)}, op, "bias_hh");
    check_like(bias, gates, op, "bias_hh");
  }
  return {DimVector{rows, n}, gates.dtype(), gates.device(), {}};
}

Meta recurrent_kept(const Tensor& gates, const Tensor& hx, int64_t count) {
  return {DimVector{gates.size(0), checked_mul(count, hx.size(1))}, gates.dtype(), gates.device(), {}};
}

Meta recurrent_backward(const Tensor& grad_output, const Tensor& grad_hy, const Tensor& grad_cy, const Tensor& gates,
                        const Tensor& hx, const Tensor& cx, const Tensor& weight, const Tensor& bias,
                        const Tensor& output, const Tensor& activations, const Tensor& cells, IntList batch_sizes,
                        int64_t count, std::string_view op) {
  recurrent(gates, hx, cx, weight, bias, batch_sizes, count, op);
  const int64_t rows = gates.size(0), n = hx.size(1);
  const DimVector states{rows, n};
  check_shape(grad_output, states, op, "grad_output");
  check_shape(output, states, op, "output");
  check_shape(grad_hy, hx.sizes(), op, "grad_hy");
  if (grad_cy.defined()) check_shape(grad_cy, hx.sizes(), op, "grad_cy");
  if (activations.defined()) check_shape(activations, IntList{rows, checked_mul(4, n)}, op, "activations");
  if (cells.defined()) check_shape(cells, states, op, "cells");
  for (const Tensor* t : {&grad_output, &output, &grad_hy, &grad_cy, &activations, &cells}) {
    if (t->defined()) check_like(*t, gates, op, "a gradient or a kept value");
  }
  return {DimVector(gates.sizes()), gates.dtype(), gates.device(), {}};
}

}  // namespace facula::shape
