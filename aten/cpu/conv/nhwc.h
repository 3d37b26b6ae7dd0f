// Images in NHWC (channels within pixels), and what the methods that work so share.
#pragma once

#include <vector>

#include "aten/cpu/conv/tile.h"
#include "aten/cpu/common/dense.h"
#include "runtime/core/rounding.h"
#include "runtime/iterate/stream.h"

namespace facula::cpu {

// Images in either layout: strides of image, channel and pixel; rows lie width * pixel apart.
template <typename T>
struct Images {
  T* data;
  int64_t image, channel, pixel;
  operator Images<const T>() const  // NOLINT: like T* to const T*
    requires(!std::is_const_v<T>)
  {
    return {data, image, channel, pixel};
  }
};

// Filter (output channel f, channel c) at data[f * out_channel + c * channel], turned by half a turn or not.
template <typename T>
struct Filters {
  const T* data;
  int64_t out_channel, channel;
  bool turned;
};

// Copies rows [first, first + rows) of one image (height, width), columns [left, left + columns), to
// `out` (rows, columns, pitch); what lies outside is zero. The columns, a multiple of `split`, come by
// residue modulo `split`. `places` is scratch.
template <typename T>
void load_nhwc(const Images<const T>& x, int64_t n, int64_t height, int64_t width, int64_t channels, int64_t first,
               int64_t rows, int64_t left, int64_t columns, T* out, int64_t pitch, std::vector<int64_t>& places,
               int64_t split = 1) {
  const int64_t low = std::clamp<int64_t>(-left, 0, columns);
  const int64_t high = std::clamp<int64_t>(width - left, low, columns);
  const int64_t from = std::clamp<int64_t>(-first, 0, rows), to = std::clamp<int64_t>(height - first, from, rows);
  const int64_t row = columns * pitch, part = columns / split;
  const auto place = [&](int64_t column) {
    return split == 1 ? column * pitch : (column % split * part + column / split) * pitch;
  };
  std::fill(out, out + from * row, T(0));
  std::fill(out + to * row, out + rows * row, T(0));
  for (int64_t r = from; r < to; ++r) {
    for (int64_t i = 0; i < low; ++i) std::fill_n(out + r * row + place(i), pitch, T(0));
    for (int64_t i = high; i < columns; ++i) std::fill_n(out + r * row + place(i), pitch, T(0));
  }
  if (from == to || low == high) return;
  const T* source = x.data + n * x.image + (first + from) * width * x.pixel;
  if (x.channel == 1) {
    for (int64_t r = from; r < to; ++r, source += width * x.pixel) {
      const T* pixel = source + (left + low) * x.pixel;
      if (split == 1 && x.pixel == pitch && channels == pitch) {
        std::copy(pixel, pixel + (high - low) * pitch, out + r * row + low * pitch);
        continue;
      }
      for (int64_t i = low; i < high; ++i, pixel += x.pixel) {
        std::copy(pixel, pixel + channels, out + r * row + place(i));
      }
    }
    return;
  }
  const bool whole = low == -left && high == width - left;  // rows that touch are one run
  const int64_t together = whole ? to - from : 1;
  places.clear();
  for (int64_t r = 0; r < together; ++r) {
    for (int64_t p = low; p < high; ++p) places.push_back(r * row + place(p));
  }
  for (int64_t r = from; r < to; r += together, source += width) {
    conv_tile<T>().nchw_to_nhwc(together * (high - low), channels, source + left + low, x.channel, places.data(),
                                out + r * row);
  }
}

// Whether a result of `count` elements is written by streaming stores: it is large, and runs that are `step` apart
// consist of whole lines.
template <typename T>
bool streams_lines(const T* to, int64_t step, int64_t count) {
  return count * static_cast<int64_t>(sizeof(T)) >= kStreamBytes && whole_lines(to) &&
         step * static_cast<int64_t>(sizeof(T)) % 64 == 0;
}

// Rows [first, last), counted through all images, in parts of one image each.
struct Part {
  int64_t image, first, count;
};
inline void parts_of(int64_t first, int64_t last, int64_t per_image, std::vector<Part>& parts) {
  parts.clear();
  while (first < last) {
    const int64_t n = std::min(last - first, per_image - first % per_image);
    parts.push_back({first / per_image, first % per_image, n});
    first += n;
  }
}

}  // namespace facula::cpu
