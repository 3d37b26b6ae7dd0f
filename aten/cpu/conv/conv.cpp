// Convolution, transposed convolution and their gradients: the methods, and which serves which case.
#include "aten/cpu/common/images.h"
#include "aten/cpu/common/tuning.h"
#include "aten/cpu/conv/bias.h"
#include "aten/cpu/conv/columns.h"
#include "aten/cpu/conv/depthwise.h"
#include "aten/cpu/conv/direct.h"
#include "aten/cpu/conv/implicit_gemm.h"
#include "aten/cpu/conv/methods.h"
#include "aten/cpu/conv/nhwc_gemm.h"
#include "aten/cpu/conv/nhwc_weight.h"
#include "aten/cpu/conv/pointwise.h"
#include "aten/cpu/conv/row_tiles.h"
#include "aten/cpu/conv/small_channels.h"
#include "aten/cpu/conv/unpadded.h"
#include "aten/cpu/conv/winograd.h"
#include "facula/kernels.h"
#include "runtime/core/facts.h"

namespace facula::cpu {
namespace conv {
namespace {

constexpr Three kOnes{1, 1, 1};

// ---- operands in the layout that a method takes ----

template <typename T>
Images<T> images_of(const Tensor& t) {
  const int64_t channels = t.size(1), places = t.size(2) * t.size(3);
  T* data = const_cast<T*>(t.data<std::remove_const_t<T>>());
  if (t.is_contiguous() && places != 1) return {data, channels * places, places, 1};
  return {data, channels * places, 1, channels};
}

// fn(image, out, weight, bias) for images as they lie.
template <typename T, typename F>
void in_either(const Call& c, const F& fn) {
  into_format(c.out, c.image.dtype(), is_channels_last(c.out), [&](const Tensor& y) {
    fn(images_of<const T>(c.image), images_of<T>(y), c.other.data<T>(), data_or_null<T>(c.bias));
  });
}

template <typename T>
using Plain = void (*)(const Geometry& g, const T* image, const T* weight, const T* bias, T* out);

template <typename T, Plain<T> kRun>
bool in_nchw(const Call& c) {
  const Tensor x = dense(c.image);
  into_dense(c.out, x.dtype(),
             [&](const Tensor& y) { kRun(c.g, x.data<T>(), c.other.data<T>(), data_or_null<T>(c.bias), y.data<T>()); });
  return true;
}

template <typename T, Plain<T> kRun>
bool in_nhwc(const Call& c) {
  into_format(c.out, c.image.dtype(), true, [&](const Tensor& y) {
    kRun(c.g, c.image.data<T>(), c.other.data<T>(), data_or_null<T>(c.bias), y.data<T>());
  });
  return true;
}

template <typename T>
using PlainWeight = void (*)(const Geometry& g, const T* image, const T* grad, T* out);

template <typename T, PlainWeight<T> kRun>
bool weight_in_nchw(const Call& c) {
  const Tensor x = dense(c.image), grad = dense(c.other);
  kRun(c.g, x.data<T>(), grad.data<T>(), c.out.data<T>());
  return true;
}

// ---- the methods: what they serve, where they pay, what they run ----

bool always(const Call&) { return true; }
bool padded(const Call& c) { return !c.mostly_padding; }
template <Result kResult>
bool unpadded_pays(const Call& c) {
  return c.mostly_padding || small_results_pay(c.g, kResult);
}
bool columns_serves(const Call& c) {
  return !c.mostly_padding && c.image.numel() > 0 && c.other.numel() > 0 && columns_fit(c.g);
}
bool columns_pay(const Call& c) { return conv::columns_pay(c.g); }
bool in_planes(const Call& c) { return c.plain() && c.image.dim() == 4; }
bool depthwise(const Call& c) { return !c.mostly_padding && c.g.depthwise(); }
// Longer sums lose digits in T.
bool short_sums(const Call& c) { return product(c.g.kernel) <= tuning::kLongConv; }
bool short_gathers(const Call& c) { return short_sums(c) && gather_excess(c.g) <= tuning::kColumnsExcess; }

// The convolution as one that Winograd's method serves; from the gradient to the input with `back`.
Conv3x3 as_3x3(const Geometry& g, bool back) {
  if (back) {
    return {g.batch, g.out_channels, g.channels,       g.out[1],        g.out[2],
            g.in[1], g.in[2],        2 - g.padding[1], 2 - g.padding[2]};
  }
  return {g.batch, g.channels, g.out_channels, g.in[1], g.in[2], g.out[1], g.out[2], g.padding[1], g.padding[2]};
}
bool winograd_serves(const Call& c) {
  const Geometry& g = c.g;
  return g.kernel == Three{1, 3, 3} && g.stride == kOnes && g.dilation == kOnes && g.padding[1] <= 2 &&
         g.padding[2] <= 2 && in_planes(c);
}
// By one image, as an image's result must not depend on how many there are.
template <bool kBack>
bool winograd_pays(const Call& c) {
  Conv3x3 one = as_3x3(c.g, kBack);
  one.batch = 1;
  return cpu::winograd_pays(one, tuning::kWinogradImageTiles);
}
bool winograd_weight_pays(const Call& c) { return cpu::winograd_pays(as_3x3(c.g, false), tuning::kWinogradMinTiles); }

void run_alone(const Call& c, bool back);
// Each image as if it were the only one.
void run_each(const Call& c, bool back) {
  Geometry g = c.g;
  g.batch = 1;
  const auto image = [](const Tensor& t, int64_t i) {
    DimVector sizes(t.sizes());
    sizes[0] = 1;
    return alias(t, sizes, t.strides(), t.offset() + i * t.strides()[0], false);
  };
  for (int64_t i = 0; i < c.g.batch; ++i) {
    const Tensor from = image(c.image, i), to = image(c.out, i);
    run_alone({g, from, c.other, c.bias, to, c.mostly_padding}, back);
  }
}

template <typename T, bool kBack>
bool winograd(const Call& c) {
  bool finite = false;
  in_either<T>(c, [&](const auto& x, const auto& y, const T* w, const T* bias) {
    const int64_t row = 9 * c.g.channels;
    const Filters<T> filters = kBack ? Filters<T>{w, 9, row, true} : Filters<T>{w, row, 9, false};
    finite = winograd_forward<T>(as_3x3(c.g, kBack), x, filters, bias, y);
  });
  if (finite || c.g.batch == 1) return finite;
  run_each(c, kBack);  // what is not finite is the matter of its image alone
  return true;
}

bool pointwise_serves(const Call& c) {
  return c.g.kernel == kOnes && c.g.stride == kOnes && c.g.padding == Three{0, 0, 0} && in_planes(c);
}
// A product with a single row or column is no product.
bool pointwise_pays(const Call& c) { return c.g.channels > 1 && c.g.out_channels > 1; }
template <typename T, bool kBack>
bool pointwise(const Call& c) {
  const Geometry& g = c.g;
  in_either<T>(c, [&](const auto& x, const auto& y, const T* w, const T* bias) {
    if (kBack) {
      cpu::pointwise<T>({g.batch, g.out_channels, g.channels, product(g.in)}, x, {w, 1, g.channels, false}, bias, y);
    } else {
      cpu::pointwise<T>({g.batch, g.channels, g.out_channels, product(g.in)}, x, {w, g.channels, 1, false}, bias, y);
    }
  });
  return true;
}

template <bool kBack>
bool nhwc_gemm_pays(const Call& c) {
  return cpu::nhwc_gemm_pays(c.g, kBack);
}
template <typename T, bool kBack>
bool nhwc_gemm(const Call& c) {
  in_either<T>(c, [&](const auto& x, const auto& y, const T* w, const T* bias) {
    kBack ? nhwc_gemm_backward_input<T>(c.g, x, w, bias, y) : nhwc_gemm_forward<T>(c.g, x, w, bias, y);
  });
  return true;
}

template <typename T>
bool small_channels_serves(const Call& c) {
  return c.g.dilation[2] == 1 && c.g.out_channels % conv_tile<T>().lanes == 0 && c.plain() && c.nhwc();
}
bool small_channels_pays(const Call& c) { return cpu::small_channels_pays(c.g); }
template <typename T>
bool small_channels(const Call& c) {
  into_format(c.out, c.image.dtype(), true, [&](const Tensor& y) {
    small_channels_forward<T>(c.g, images_of<const T>(c.image), c.other.data<T>(), data_or_null<T>(c.bias),
                              images_of<T>(y));
  });
  return true;
}

bool depthwise_nhwc(const Call& c) { return depthwise(c) && c.nhwc(); }
bool depthwise_without_stride(const Call& c) { return depthwise(c) && c.g.stride == kOnes; }

bool row_tiles_serves(const Call& c) { return !c.mostly_padding && c.g.flat() && c.g.channels > 0; }
template <typename T>
bool row_tiles_pays(const Call& c) {
  return !direct_pays(c.g.groups, c.g.out_channels) && row_tiles_pay<T>(c.g);
}

bool direct_forward_pays(const Call& c) { return direct_pays(c.g.groups, c.g.out_channels); }
bool direct_input_pays(const Call& c) { return direct_pays(c.g.groups, c.g.channels); }

bool nhwc_weight_pays(const Call& c) { return cpu::nhwc_weight_pays(c.g); }
template <typename T>
bool nhwc_weight(const Call& c) {
  nhwc_gemm_backward_weight<T>(c.g, images_of<const T>(c.image), images_of<const T>(c.other), c.out.data<T>());
  return true;
}
template <typename T>
bool winograd_weight(const Call& c) {
  return winograd_backward_weight<T>(as_3x3(c.g, false), images_of<const T>(c.image), images_of<const T>(c.other),
                                     c.out.data<T>());
}
bool depthwise_nhwc_weight_serves(const Call& c) { return depthwise_nhwc(c) && is_channels_last(c.other); }
template <typename T>
bool depthwise_nhwc_weight(const Call& c) {
  depthwise_nhwc_backward_weight<T>(c.g, c.image.data<T>(), c.other.data<T>(), c.out.data<T>());
  return true;
}

// Of more terms than the other methods, which sum them in T, are good for.
template <typename T, bool kBack>
bool long_sums_pay(const Call& c) {
  const Geometry& g = c.g;
  const int64_t depth = (kBack ? g.out_channels : g.channels) * product(g.kernel);
  // `direct` does the same, a row at a time.
  return sizeof(T) < sizeof(double) && depth > tuning::kLongConv &&
         !direct_pays(g.groups, kBack ? g.channels : g.out_channels);
}

template <typename T>
constexpr Method kForward[] = {
    {"unpadded", always, unpadded_pays<Result::Forward>, in_nchw<T, unpadded_forward<T>>},
    {"winograd", winograd_serves, winograd_pays<false>, winograd<T, false>},
    {"long_sums", padded, long_sums_pay<T, false>, in_nchw<T, long_sums_forward<T>>},
    {"pointwise", pointwise_serves, pointwise_pays, pointwise<T, false>},
    {"nhwc_gemm", in_planes, nhwc_gemm_pays<false>, nhwc_gemm<T, false>},
    {"small_channels", small_channels_serves<T>, small_channels_pays, small_channels<T>},
    {"depthwise_nhwc", depthwise_nhwc, short_sums, in_nhwc<T, depthwise_nhwc_forward<T>>},
    {"depthwise", depthwise, short_sums, in_nchw<T, depthwise_forward<T>>},
    {"row_tiles", row_tiles_serves, row_tiles_pays<T>, in_nchw<T, row_tiles_forward<T>>},
    {"direct", padded, direct_forward_pays, in_nchw<T, direct_forward<T>>},
    {"implicit_gemm", padded, always, in_nchw<T, implicit_gemm_forward<T>>},
};

template <typename T>
constexpr Method kBackwardInput[] = {
    {"columns", columns_serves, columns_pay, in_nchw<T, columns_backward_input<T>>},
    {"unpadded", always, unpadded_pays<Result::BackwardInput>, in_nchw<T, unpadded_backward_input<T>>},
    {"winograd", winograd_serves, winograd_pays<true>, winograd<T, true>},
    {"long_sums", padded, long_sums_pay<T, true>, in_nchw<T, long_sums_backward_input<T>>},
    {"pointwise", pointwise_serves, pointwise_pays, pointwise<T, true>},
    {"nhwc_gemm", in_planes, nhwc_gemm_pays<true>, nhwc_gemm<T, true>},
    {"depthwise_nhwc", depthwise_nhwc, short_gathers, in_nhwc<T, depthwise_nhwc_backward_input<T>>},
    {"depthwise", depthwise_without_stride, short_gathers, in_nchw<T, depthwise_backward_input<T>>},
    {"direct", padded, direct_input_pays, in_nchw<T, direct_backward_input<T>>},
    {"implicit_gemm", padded, always, in_nchw<T, implicit_gemm_backward_input<T>>},
};

template <typename T>
constexpr Method kBackwardWeight[] = {
    {"unpadded", always, unpadded_pays<Result::BackwardWeight>, weight_in_nchw<T, unpadded_backward_weight<T>>},
    {"winograd", winograd_serves, winograd_weight_pays, winograd_weight<T>},
    {"nhwc_gemm", in_planes, nhwc_weight_pays, nhwc_weight<T>},
    {"depthwise_nhwc", depthwise_nhwc_weight_serves, always, depthwise_nhwc_weight<T>},
    {"depthwise", depthwise, always, weight_in_nchw<T, depthwise_backward_weight<T>>},
    {"direct", padded, direct_forward_pays, weight_in_nchw<T, direct_backward_weight<T>>},
    {"implicit_gemm", padded, always, weight_in_nchw<T, implicit_gemm_backward_weight<T>>},
};

constinit Methods forward_methods("FACULA_CONV_FORWARD", kForward<float>, kForward<double>);
constinit Methods input_methods("FACULA_CONV_BACKWARD_INPUT", kBackwardInput<float>, kBackwardInput<double>);
constinit Methods weight_methods("FACULA_CONV_BACKWARD_WEIGHT", kBackwardWeight<float>, kBackwardWeight<double>);
[[maybe_unused]] const bool told = [] {
  add_fact("conv_forward", [] { return forward_methods.done(); });
  add_fact("conv_backward_input", [] { return input_methods.done(); });
  add_fact("conv_backward_weight", [] { return weight_methods.done(); });
  return true;
}();

void run_alone(const Call& c, bool back) { (back ? input_methods : forward_methods).run(c); }

void forward(const Geometry& g, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& out) {
  if (out.numel() > 0) forward_methods.run({g, x, w, b, out, cpu::mostly_padding(g, false)});
}
void backward_input(const Geometry& g, const Tensor& grad, const Tensor& w, const Tensor& b, const Tensor& out) {
  if (out.numel() > 0) input_methods.run({g, grad, w, b, out, cpu::mostly_padding(g, true)});
}
void backward_weight(const Geometry& g, const Tensor& x, const Tensor& grad, const Tensor& out) {
  into_dense(out, x.dtype(),
             [&](const Tensor& gw) { weight_methods.run({g, x, grad, Tensor(), gw, cpu::mostly_padding(g, false)}); });
}

// A tensor as it is when it is contiguous or channels_last, else a contiguous copy.
Tensor laid_out(const Tensor& t) { return in_format(t, compute_type(t.dtype()), is_channels_last(t)); }

}  // namespace
}  // namespace conv

void convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                 IntList dilation, bool transposed, IntList, int64_t groups, const Tensor& out) {
  const Tensor x = conv::laid_out(input), w = dense_compute(weight), b = dense_compute(bias);
  if (transposed) {
    const auto g = conv::geometry(out.sizes(), x.sizes(), w.sizes(), stride, padding, dilation, groups);
    conv::backward_input(g, x, w, b, out);
  } else {
    const auto g = conv::geometry(x.sizes(), out.sizes(), w.sizes(), stride, padding, dilation, groups);
    conv::forward(g, x, w, b, out);
  }
}

void convolution_backward(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& bias,
                          IntList stride, IntList padding, IntList dilation, bool transposed, IntList, int64_t groups,
                          const std::vector<bool>& mask, const Tensor& grad_input, const Tensor& grad_weight,
                          const Tensor& grad_bias) {
  const Tensor x = conv::laid_out(input), w = dense_compute(weight);
  // What works channel by channel within a pixel needs both images so.
  const bool nhwc = is_channels_last(x) && groups > 1 && groups == x.size(1) && groups == grad.size(1);
  const Tensor dy = nhwc ? in_format(grad, x.dtype(), true) : conv::laid_out(grad);
  const Tensor& wide = transposed ? dy : x;
  const Tensor& narrow = transposed ? x : dy;
  const auto g = conv::geometry(wide.sizes(), narrow.sizes(), w.sizes(), stride, padding, dilation, groups);
  if (mask[0] && transposed) conv::forward(g, dy, w, Tensor(), grad_input);
  if (mask[0] && !transposed) conv::backward_input(g, dy, w, Tensor(), grad_input);
  if (mask[1]) conv::backward_weight(g, wide, narrow, grad_weight);
  if (!mask[2] || !bias.defined()) return;
  visit_compute(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    into_dense(grad_bias, x.dtype(), [&](const Tensor& gb) {
      if (is_channels_last(dy)) {
        conv::backward_bias_nhwc<T>(dy.numel() / dy.size(1), dy.size(1), dy.data<T>(), gb.data<T>());
      } else {
        conv::backward_bias_nchw<T>(dy.sizes(), dy.data<T>(), gb.data<T>());
      }
    });
  });
}

}  // namespace facula::cpu
