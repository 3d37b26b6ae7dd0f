// Convolution, transposed convolution and their gradients: which method serves which case.
#include "aten/cpu/conv/bands.h"
#include "aten/cpu/conv/depthwise.h"
#include "aten/cpu/conv/direct.h"
#include "aten/cpu/conv/pointwise.h"
#include "aten/cpu/conv/shallow.h"
#include "aten/cpu/conv/sparse.h"
#include "aten/cpu/conv/strided.h"
#include "aten/cpu/conv/weight.h"
#include "aten/cpu/conv/winograd.h"
#include "aten/cpu/common/images.h"
#include "facula/kernels.h"

namespace facula::cpu {
namespace {

using conv::Geometry;
using conv::Three;

// A tensor as it is when its pixels or its planes are contiguous, else a contiguous copy.
Tensor laid_out(const Tensor& t) { return in_format(t, compute_type(t.dtype()), is_channels_last(t)); }

template <typename T>
Pixels<T> pixels_of(const Tensor& t) {
  const int64_t channels = t.size(1), places = t.size(2) * t.size(3);
  T* data = const_cast<T*>(t.data<std::remove_const_t<T>>());
  if (t.is_contiguous() && places != 1) return {data, channels * places, places, 1};
  return {data, channels * places, 1, channels};
}

// The convolution as one that Winograd's method serves; from `grad` to the input with `back`.
std::optional<Conv3x3> as_3x3(const Geometry& g, const Tensor& x, bool back) {
  const Three one{1, 1, 1};
  if (g.kernel != Three{1, 3, 3} || g.stride != one || g.dilation != one || g.groups != 1 || g.in[0] != 1) return {};
  if (x.dim() != 4 || g.padding[1] > 2 || g.padding[2] > 2) return {};
  Conv3x3 r{g.batch, g.channels, g.features, g.in[1], g.in[2], g.out[1], g.out[2], g.padding[1], g.padding[2]};
  if (back)
    r = {g.batch, g.features, g.channels, g.out[1], g.out[2], g.in[1], g.in[2], 2 - g.padding[1], 2 - g.padding[2]};
  if (!winograd_pays(r)) return {};
  return r;
}

bool is_pointwise(const Geometry& g) {
  const Three one{1, 1, 1};
  return g.kernel == one && g.stride == one && g.padding == Three{0, 0, 0} && g.groups == 1 && g.in[0] == 1 &&
         g.channels > 1 && g.features > 1;
}

template <typename T>
void forward(const Geometry& g, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& out) {
  if (out.numel() == 0) return;
  if (is_sparse(g, false)) {
    const Tensor planes = dense(x);
    into_dense(out, x.dtype(), [&](const Tensor& y) {
      sparse_forward<T>(g, planes.data<T>(), w.data<T>(), data_or_null<T>(b), y.data<T>());
    });
    return;
  }
  if (const auto c = as_3x3(g, x, false)) {
    bool done = false;
    into_format(out, x.dtype(), is_channels_last(out), [&](const Tensor& y) {
      const Filters<T> filters{w.data<T>(), 9 * g.channels, 9, false};
      done = winograd_forward<T>(*c, pixels_of<const T>(x), filters, data_or_null<T>(b), pixels_of<T>(y));
    });
    if (done) return;
  }
  if (is_pointwise(g) && x.dim() == 4) {
    into_format(out, x.dtype(), is_channels_last(out), [&](const Tensor& y) {
      pointwise<T>({g.batch, g.channels, g.features, conv::product(g.in)}, pixels_of<const T>(x),
                   {w.data<T>(), g.channels, 1, false}, data_or_null<T>(b), pixels_of<T>(y));
    });
    return;
  }
  if (x.dim() == 4 && strided_pays(g, false)) {
    into_format(out, x.dtype(), is_channels_last(out), [&](const Tensor& y) {
      strided_forward<T>(g, pixels_of<const T>(x), w.data<T>(), data_or_null<T>(b), pixels_of<T>(y));
    });
    return;
  }
  if (shallow_pays(g) && is_channels_last(x)) {
    into_format(out, x.dtype(), true, [&](const Tensor& y) {
      shallow_forward<T>(g, pixels_of<const T>(x), w.data<T>(), data_or_null<T>(b), pixels_of<T>(y));
    });
    return;
  }
  if (is_depthwise(g) && is_channels_last(x)) {
    into_format(out, x.dtype(), true, [&](const Tensor& y) {
      depthwise_forward_pixels<T>(g, x.data<T>(), w.data<T>(), data_or_null<T>(b), y.data<T>());
    });
    return;
  }
  const Tensor planes = dense(x);
  into_dense(out, x.dtype(), [&](const Tensor& y) {
    if (is_depthwise(g)) {
      depthwise_forward<T>(g, planes.data<T>(), w.data<T>(), data_or_null<T>(b), y.data<T>());
      return;
    }
    if (bands_pay<T>(g)) {
      bands_forward<T>(g, planes.data<T>(), w.data<T>(), data_or_null<T>(b), y.data<T>());
      return;
    }
    conv::forward<T>(g, planes.data<T>(), w.data<T>(), data_or_null<T>(b), y.data<T>());
  });
}

template <typename T>
void backward_input(const Geometry& g, const Tensor& grad, const Tensor& w, const Tensor& b, const Tensor& out) {
  if (out.numel() == 0) return;
  if (is_sparse(g, true)) {
    const Tensor planes = dense(grad);
    into_dense(out, grad.dtype(), [&](const Tensor& y) {
      sparse_backward_input<T>(g, planes.data<T>(), w.data<T>(), data_or_null<T>(b), y.data<T>());
    });
    return;
  }
  if (const auto c = as_3x3(g, grad, true)) {
    bool done = false;
    into_format(out, grad.dtype(), is_channels_last(out), [&](const Tensor& y) {
      const Filters<T> filters{w.data<T>(), 9, 9 * g.channels, true};
      done = winograd_forward<T>(*c, pixels_of<const T>(grad), filters, data_or_null<T>(b), pixels_of<T>(y));
    });
    if (done) return;
  }
  if (is_pointwise(g) && grad.dim() == 4) {
    into_format(out, grad.dtype(), is_channels_last(out), [&](const Tensor& y) {
      pointwise<T>({g.batch, g.features, g.channels, conv::product(g.in)}, pixels_of<const T>(grad),
                   {w.data<T>(), 1, g.channels, false}, data_or_null<T>(b), pixels_of<T>(y));
    });
    return;
  }
  if (grad.dim() == 4 && strided_pays(g, true)) {
    into_format(out, grad.dtype(), is_channels_last(out), [&](const Tensor& y) {
      strided_backward_input<T>(g, pixels_of<const T>(grad), w.data<T>(), data_or_null<T>(b), pixels_of<T>(y));
    });
    return;
  }
  if (is_depthwise(g) && is_channels_last(grad)) {
    into_format(out, grad.dtype(), true, [&](const Tensor& y) {
      depthwise_backward_input_pixels<T>(g, grad.data<T>(), w.data<T>(), data_or_null<T>(b), y.data<T>());
    });
    return;
  }
  const Tensor planes = dense(grad);
  into_dense(out, grad.dtype(), [&](const Tensor& y) {
    if (is_depthwise(g) && g.stride == Three{1, 1, 1}) {
      depthwise_backward_input<T>(g, planes.data<T>(), w.data<T>(), data_or_null<T>(b), y.data<T>());
      return;
    }
    conv::backward_input<T>(g, planes.data<T>(), w.data<T>(), data_or_null<T>(b), y.data<T>());
  });
}

template <typename T>
void backward_weight(const Geometry& g, const Tensor& x, const Tensor& grad, const Tensor& out) {
  into_dense(out, x.dtype(), [&](const Tensor& gw) {
    if (is_sparse(g, false)) {
      const Tensor planes = dense(x), grads = dense(grad);
      sparse_backward_weight<T>(g, planes.data<T>(), grads.data<T>(), gw.data<T>());
      return;
    }
    if (const auto c = as_3x3(g, x, false)) {
      if (winograd_weight_grad<T>(*c, pixels_of<const T>(x), pixels_of<const T>(grad), gw.data<T>())) return;
    }
    if (x.dim() == 4 && x.numel() > 0 && grad.numel() > 0 && weight_grad_by_pixels_pays(g)) {
      weight_grad_by_pixels<T>(g, pixels_of<const T>(x), pixels_of<const T>(grad), gw.data<T>());
      return;
    }
    if (is_depthwise(g) && is_channels_last(x) && is_channels_last(grad)) {
      depthwise_backward_weight_pixels<T>(g, x.data<T>(), grad.data<T>(), gw.data<T>());
      return;
    }
    const Tensor planes = dense(x), grads = dense(grad);
    if (is_depthwise(g)) {
      depthwise_backward_weight<T>(g, planes.data<T>(), grads.data<T>(), gw.data<T>());
    } else {
      conv::backward_weight<T>(g, planes.data<T>(), grads.data<T>(), gw.data<T>());
    }
  });
}

}  // namespace

void convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                 IntList dilation, bool transposed, IntList, int64_t groups, const Tensor& out) {
  const Tensor x = laid_out(input), w = dense_compute(weight), b = dense_compute(bias);
  visit_compute(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    if (transposed) {
      backward_input<T>(conv::geometry(out.sizes(), x.sizes(), w.sizes(), stride, padding, dilation, groups), x, w, b,
                        out);
    } else {
      forward<T>(conv::geometry(x.sizes(), out.sizes(), w.sizes(), stride, padding, dilation, groups), x, w, b, out);
    }
  });
}

void convolution_backward(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& bias,
                          IntList stride, IntList padding, IntList dilation, bool transposed, IntList, int64_t groups,
                          const std::vector<bool>& mask, const Tensor& grad_input, const Tensor& grad_weight,
                          const Tensor& grad_bias) {
  const Tensor x = laid_out(input), w = dense_compute(weight);
  // What works channel by channel within a pixel needs both images so.
  const bool by_pixels = is_channels_last(x) && groups > 1 && groups == x.size(1) && groups == grad.size(1);
  const Tensor dy = by_pixels ? in_format(grad, x.dtype(), true) : laid_out(grad);
  visit_compute(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const Tensor& wide = transposed ? dy : x;
    const Tensor& narrow = transposed ? x : dy;
    const Geometry g = conv::geometry(wide.sizes(), narrow.sizes(), w.sizes(), stride, padding, dilation, groups);
    if (mask[0]) {
      if (transposed) {
        forward<T>(g, dy, w, Tensor(), grad_input);
      } else {
        backward_input<T>(g, dy, w, Tensor(), grad_input);
      }
    }
    if (mask[1]) backward_weight<T>(g, wide, narrow, grad_weight);
    if (mask[2] && bias.defined()) {
      into_dense(grad_bias, x.dtype(), [&](const Tensor& gb) {
        if (is_channels_last(dy)) {
          bias_grad_by_pixels<T>(dy.numel() / dy.size(1), dy.size(1), dy.data<T>(), gb.data<T>());
        } else {
          conv::backward_bias<T>(dy.sizes(), dy.data<T>(), gb.data<T>());
        }
      });
    }
  });
}

}  // namespace facula::cpu
