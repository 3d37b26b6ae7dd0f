#include "aten/cpu/conv/meetings.h"

namespace facula::cpu::conv {

Meetings meetings_of(const Geometry& g, size_t d, bool by_output) {
  const int64_t count = by_output ? g.out[d] : g.kernel[d], step = by_output ? g.stride[d] : g.dilation[d];
  const int64_t others = by_output ? g.kernel[d] : g.out[d], other_step = by_output ? g.dilation[d] : g.stride[d];
  Meetings all;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * step - g.padding[d];  // of the first of the others
    if (at >= g.in[d]) break;
    const int64_t first = at < 0 ? ceil_div(-at, other_step) : 0;
    const int64_t last = std::min(others, floor_div(g.in[d] - 1 - at, other_step) + 1);
    if (first < last) all.push_back({i, first, last, first * other_step + at});
  }
  return all;
}

Geometry merged(const Geometry& g, bool channels) {
  Geometry m = g;
  // A window as large as the image, which sees all of it from one place.
  const auto covered = [&](size_t d) {
    return m.out[d] == 1 && m.kernel[d] == m.in[d] && m.padding[d] == 0 && m.dilation[d] == 1;
  };
  const auto move = [&](size_t from, size_t to) {
    m.in[to] = m.in[from], m.out[to] = m.out[from], m.kernel[to] = m.kernel[from];
    m.stride[to] = m.stride[from], m.padding[to] = m.padding[from], m.dilation[to] = m.dilation[from];
    m.in[from] = m.out[from] = m.kernel[from] = m.stride[from] = m.dilation[from] = 1;
    m.padding[from] = 0;
  };
  const auto one = [&](size_t d) { return covered(d) && m.in[d] == 1; };
  if (channels && one(0)) {  // they are a dim that the kernel covers
    m.in[0] = m.kernel[0] = m.channels;
    m.channels = 1;
  }
  // Dims d - 1 and d are one, which lies at d.
  const auto join = [&](size_t d) {
    if (one(d)) return move(d - 1, d);
    // With margins in bounds products of sizes are those of tensors.
    if (!covered(d) || m.dilation[d - 1] != 1 || m.padding[d - 1] > m.in[d - 1]) return;
    const int64_t row = m.in[d];
    move(d - 1, d);
    m.in[d] *= row, m.kernel[d] *= row, m.stride[d] *= row, m.padding[d] *= row;
  };
  join(2);
  join(1);
  join(2);
  return m;
}

}  // namespace facula::cpu::conv
