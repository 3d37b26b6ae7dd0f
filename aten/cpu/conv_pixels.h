// Images by pixels: what the convolutions that work channel by channel within a pixel share.
#pragma once

#include <vector>

#include "aten/cpu/conv_tile.h"
#include "aten/cpu/dense.h"

namespace facula::cpu {

inline int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Images in either layout: strides of image, channel and pixel; rows lie width * pixel apart.
template <typename T>
struct Pixels {
  T* data;
  int64_t image, channel, pixel;
  operator Pixels<const T>() const  // NOLINT: like T* to const T*
    requires(!std::is_const_v<T>)
  {
    return {data, image, channel, pixel};
  }
};

// Filter (feature f, channel c) at data[f * feature + c * channel], turned by half a turn or not.
template <typename T>
struct Filters {
  const T* data;
  int64_t feature, channel;
  bool turned;
};

// Copies rows [first, first + rows) of one image (height, width), columns [left, left + columns), to
// `out` (rows, columns, pitch); what lies outside is zero. `places` is scratch.
template <typename T>
void load_pixels(const Pixels<const T>& x, int64_t n, int64_t height, int64_t width, int64_t channels, int64_t first,
                 int64_t rows, int64_t left, int64_t columns, T* out, int64_t pitch, std::vector<int64_t>& places) {
  const int64_t low = std::clamp<int64_t>(-left, 0, columns);
  const int64_t high = std::clamp<int64_t>(width - left, low, columns);
  const int64_t from = std::clamp<int64_t>(-first, 0, rows), to = std::clamp<int64_t>(height - first, from, rows);
  const int64_t row = columns * pitch;
  std::fill(out, out + from * row, T(0));
  std::fill(out + to * row, out + rows * row, T(0));
  for (int64_t r = from; r < to; ++r) {
    std::fill(out + r * row, out + r * row + low * pitch, T(0));
    std::fill(out + r * row + high * pitch, out + (r + 1) * row, T(0));
  }
  if (from == to || low == high) return;
  const T* source = x.data + n * x.image + (first + from) * width * x.pixel;
  if (x.channel == 1) {
    for (int64_t r = from; r < to; ++r, source += width * x.pixel) {
      T* place = out + r * row + low * pitch;
      const T* pixel = source + (left + low) * x.pixel;
      if (x.pixel == pitch && channels == pitch) {
        std::copy(pixel, pixel + (high - low) * pitch, place);
        continue;
      }
      for (int64_t i = low; i < high; ++i, pixel += x.pixel, place += pitch) std::copy(pixel, pixel + channels, place);
    }
    return;
  }
  if (low == -left && high == width - left) {  // whole rows are one run
    places.resize(static_cast<size_t>((to - from) * width));
    for (int64_t r = from, i = 0; r < to; ++r) {
      for (int64_t p = 0; p < width; ++p, ++i) places[static_cast<size_t>(i)] = r * row + (low + p) * pitch;
    }
    conv_tile<T>().to_pixels((to - from) * width, channels, source, x.channel, places.data(), out);
    return;
  }
  places.resize(static_cast<size_t>(high - low));
  for (int64_t p = low; p < high; ++p) places[static_cast<size_t>(p - low)] = p * pitch;
  for (int64_t r = from; r < to; ++r, source += width) {
    conv_tile<T>().to_pixels(high - low, channels, source + left + low, x.channel, places.data(), out + r * row);
  }
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
