// Padding with a constant; sums over overlapping windows.
#include <algorithm>

#include "aten/cpu/common/dense.h"
#include "facula/kernels.h"
#include "runtime/core/checked.h"

namespace facula::cpu {

void constant_pad_nd(const Tensor& input, IntList pad, const Scalar& value, const Tensor& out) {
  if (out.numel() == 0) return;
  visit_dtype(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T fill;
    if constexpr (is_reduced_float_v<T>) {
      fill = T(value.to<float>());
    } else {
      fill = value.to<T>();
    }
    const Tensor one = make_empty(IntList{}, out.dtype());
    *one.data<T>() = fill;
    copy_strided(out, one);
  });
  // The part of the input that is kept, and its place in the result.
  const auto n = static_cast<size_t>(input.dim());
  DimVector sizes(input.sizes());
  int64_t from = input.offset(), to = out.offset();
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t d = n - 1 - i;
    const int64_t before = pad[2 * i], after = pad[2 * i + 1];
    const int64_t first = before < 0 ? saturated_mul(before, -1) : 0, cut = after < 0 ? saturated_mul(after, -1) : 0;
    sizes[d] = first >= sizes[d] || cut >= sizes[d] - first ? 0 : sizes[d] - first - cut;
    if (sizes[d] == 0) return;
    from += first * input.strides()[d];
    to += std::max<int64_t>(0, before) * out.strides()[d];
  }
  if (input.numel() == 0) return;
  copy_strided(alias(out, sizes, out.strides(), to, false), alias(input, sizes, input.strides(), from, false));
}

namespace {

// Blocks of (N, C, H, W): fn(place in the image, place in the columns) for what lies inside.
struct Blocks {
  int64_t batch, channels, in[2], out[2], kernel[2], dilation[2], padding[2], stride[2];
};
Blocks blocks(IntList image, IntList kernel, IntList dilation, IntList padding, IntList stride) {
  Blocks b{image[0], image[1], {image[2], image[3]}, {}, {}, {}, {}, {}};
  for (size_t d = 0; d < 2; ++d) {
    b.kernel[d] = kernel[d];
    b.dilation[d] = dilation[d];
    b.padding[d] = padding[d];
    b.stride[d] = stride[d];
    b.out[d] = (b.in[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1;
  }
  return b;
}
template <typename F>
void for_block_rows(const Blocks& b, int64_t plane, const F& fn) {
  for (int64_t ky = 0; ky < b.kernel[0]; ++ky) {
    for (int64_t kx = 0; kx < b.kernel[1]; ++kx) {
      const int64_t tap = (plane * b.kernel[0] + ky) * b.kernel[1] + kx;
      for (int64_t y = 0; y < b.out[0]; ++y) {
        fn((tap * b.out[0] + y) * b.out[1], y * b.stride[0] - b.padding[0] + ky * b.dilation[0],
           kx * b.dilation[1] - b.padding[1]);
      }
    }
  }
}

}  // namespace

void im2col(const Tensor& input, IntList kernel_size, IntList dilation, IntList padding, IntList stride,
            const Tensor& out) {
  if (out.numel() == 0) return;
  const Blocks b = blocks(input.sizes(), kernel_size, dilation, padding, stride);
  const Tensor x = dense_compute(input);
  into_dense(out, x.dtype(), [&](const Tensor& y) {
    visit_compute(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      parallel_for(0, b.batch * b.channels, grain_for(out.numel() / (b.batch * b.channels)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t p = begin; p < end; ++p) {
                       const T* plane = x.data<T>() + p * b.in[0] * b.in[1];
                       for_block_rows(b, p, [&](int64_t to, int64_t row, int64_t first) {
                         for (int64_t i = 0; i < b.out[1]; ++i) {
                           const int64_t col = first + i * b.stride[1];
                           const bool inside = row >= 0 && row < b.in[0] && col >= 0 && col < b.in[1];
                           y.data<T>()[to + i] = inside ? plane[row * b.in[1] + col] : T(0);
                         }
                       });
                     }
                   });
    });
  });
}

void col2im(const Tensor& input, IntList output_size, IntList kernel_size, IntList dilation, IntList padding,
            IntList stride, const Tensor& out) {
  if (out.numel() == 0) return;
  (void)output_size;
  const Blocks b = blocks(out.sizes(), kernel_size, dilation, padding, stride);
  const Tensor x = dense_compute(input);
  into_dense(out, x.dtype(), [&](const Tensor& y) {
    visit_compute(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const int64_t size = b.in[0] * b.in[1];
      parallel_for(0, b.batch * b.channels, grain_for(size), [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
          T* plane = y.data<T>() + p * size;
          std::fill(plane, plane + size, T(0));
          for_block_rows(b, p, [&](int64_t from, int64_t row, int64_t first) {
            if (row < 0 || row >= b.in[0]) return;
            for (int64_t i = 0; i < b.out[1]; ++i) {
              const int64_t col = first + i * b.stride[1];
              if (col >= 0 && col < b.in[1]) plane[row * b.in[1] + col] += x.data<T>()[from + i];
            }
          });
        }
      });
    });
  });
}

}  // namespace facula::cpu
