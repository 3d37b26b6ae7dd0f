#include "aten/cpu/conv/windows.h"

namespace facula::cpu::conv {
namespace {

// Taps of a kernel over `channels` planes: offset of place (z, y, x) is the sum of `at` by dim.
void add_taps(Windows& w, int64_t channels, int64_t plane, const std::array<std::vector<int64_t>, 3>& at) {
  w.taps.reserve(static_cast<size_t>(channels) * at[0].size() * at[1].size() * at[2].size());
  for (int64_t c = 0; c < channels; ++c) {
    for (const int64_t z : at[0]) {
      for (const int64_t y : at[1]) {
        for (const int64_t x : at[2]) w.taps.push_back(c * plane + z + y + x);
      }
    }
  }
}

// What a convolution that sees nothing gives: the bias of each output channel, zero without one.
template <typename T>
void fill_bias(int64_t batch, int64_t out_channels, int64_t positions, const T* bias, T* out) {
  for (int64_t i = 0; i < batch * out_channels; ++i) {
    std::fill(out + i * positions, out + (i + 1) * positions, bias != nullptr ? bias[i % out_channels] : T(0));
  }
}

}  // namespace

Margins input_margins(const Geometry& g) {
  Margins m;
  for (size_t d = 0; d < 3; ++d) {
    m.origin[d] = -g.padding[d];
    m.size[d] = (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] + 1;
  }
  m.split = g.stride[2];
  return m;
}

template <typename T>
Windows input_windows(const Geometry& g, const Padded<T>& image) {
  Windows w{g.out,
            g.groups * g.channels * image.plane(),
            {image.at(0, g.stride[0]), image.at(1, g.stride[1])},
            g.stride == Three{1, 1, 1},
            {},
            {}};
  std::array<std::vector<int64_t>, 3> at;
  for (size_t d = 0; d < 3; ++d) {
    w.reach[d] = {{}, g.stride[d], g.padding[d], g.padding[d] + g.in[d]};
    for (int64_t k = 0; k < g.kernel[d]; ++k) {
      w.reach[d].taps.push_back(k * g.dilation[d]);
      at[d].push_back(image.at(d, k * g.dilation[d]));
    }
  }
  add_taps(w, g.channels, image.plane(), at);
  return w;
}

template <typename T>
void forward_by(Multiply<T> multiply, const Geometry& g, const T* input, const T* weight, const T* bias, T* out) {
  const int64_t positions = product(g.out);
  if (g.batch * g.groups * g.out_channels * positions == 0) return;
  if (g.channels == 0) return fill_bias(g.batch, g.groups * g.out_channels, positions, bias, out);
  const Padded<T> image(input, g.batch * g.groups * g.channels, g.in, input_margins(g));
  const int64_t depth = g.channels * product(g.kernel);
  Weights<T> weights{weight, g.out_channels * depth, depth, {}};
  for (int64_t p = 0; p < depth; ++p) weights.offsets.push_back(p);
  multiply(input_windows(g, image), g.batch, g.groups, g.out_channels, weights, bias, image.data(),
           g.channels * image.plane(), out);
}

template <typename T>
void backward_input_by(Multiply<T> multiply, const Geometry& g, const T* grad, const T* weight, const T* bias, T* out) {
  const int64_t places = product(g.in), channels = g.groups * g.channels;
  if (g.batch * channels * places == 0) return;
  const Three one{1, 1, 1};
  const std::array<std::vector<Phase>, 3> phases{phases_of(g, 0, true), phases_of(g, 1, true), phases_of(g, 2, true)};
  Margins margins;
  for (size_t d = 0; d < 3; ++d) {
    int64_t low = 0, high = 0;  // places of grad that are read
    for (const Phase& p : phases[d]) {
      for (const int64_t offset : p.offsets) {
        low = std::min(low, offset);
        high = std::max(high, offset + p.count - 1);
      }
    }
    margins.origin[d] = low;
    margins.size[d] = high - low + 1;
  }
  const bool empty = product(g.out) == 0 || g.out_channels == 0;
  const Padded<T> image(grad, empty ? 0 : g.batch * g.groups * g.out_channels, g.out, margins);
  const int64_t taps = product(g.kernel);
  const bool direct = g.stride == one;
  for (const Phase& z : phases[0]) {
    for (const Phase& y : phases[1]) {
      for (const Phase& x : phases[2]) {
        Windows w{{z.count, y.count, x.count},
                  g.groups * g.out_channels * image.plane(),
                  {image.at(0, 1), image.at(1, 1)},
                  true,
                  {},
                  {}};
        std::array<std::vector<int64_t>, 3> at{z.offsets, y.offsets, x.offsets};
        for (size_t d = 0; d < 3; ++d) {
          w.reach[d] = {{}, 1, -margins.origin[d], g.out[d] - margins.origin[d]};
          for (int64_t& offset : at[d]) {
            w.reach[d].taps.push_back(offset - margins.origin[d]);
            offset = image.at(d, offset - margins.origin[d]);
          }
        }
        if (!empty) add_taps(w, g.out_channels, image.plane(), at);
        Weights<T> weights{weight, g.out_channels * g.channels * taps, taps, {}};
        for (int64_t f = 0; f < g.out_channels && !empty; ++f) {
          for (const int64_t kz : z.taps) {
            for (const int64_t ky : y.taps) {
              for (const int64_t kx : x.taps) {
                weights.offsets.push_back(f * g.channels * taps + (kz * g.kernel[1] + ky) * g.kernel[2] + kx);
              }
            }
          }
        }
        const int64_t positions = product(w.out);
        const TypedBuffer<T> part(direct ? 0 : g.batch * channels * positions);
        T* result = direct ? out : part.get();
        if (w.taps.empty()) {
          fill_bias(g.batch, channels, positions, bias, result);
        } else {
          multiply(w, g.batch, g.groups, g.channels, weights, bias, image.data(), g.out_channels * image.plane(),
                   result);
        }
        if (direct) continue;
        parallel_for(0, g.batch * channels, grain_for(positions), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T* from = result + i * positions;
            for (int64_t a = 0; a < z.count; ++a) {
              for (int64_t b = 0; b < y.count; ++b, from += x.count) {
                T* row = out + i * places +
                         ((z.first + a * g.stride[0]) * g.in[1] + y.first + b * g.stride[1]) * g.in[2] + x.first;
                for (int64_t c = 0; c < x.count; ++c) row[c * g.stride[2]] = from[c];
              }
            }
          }
        });
      }
    }
  }
}

#define FACULA_WINDOWS_FOR(T)                                                                  \
  template Windows input_windows<T>(const Geometry&, const Padded<T>&);                        \
  template void forward_by<T>(Multiply<T>, const Geometry&, const T*, const T*, const T*, T*); \
  template void backward_input_by<T>(Multiply<T>, const Geometry&, const T*, const T*, const T*, T*);
FACULA_WINDOWS_FOR(float)
FACULA_WINDOWS_FOR(double)
#undef FACULA_WINDOWS_FOR

}  // namespace facula::cpu::conv
