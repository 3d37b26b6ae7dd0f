// Convolution of planes by bands of rows: a band is copied with its margins, and products take the windows where they
// lie, a row of results at a time. Nothing is gathered, and what is copied stays in the second-level cache.
#include "aten/cpu/conv/bands.h"

#include "aten/cpu/conv/pixels.h"
#include "aten/cpu/conv/row.h"
#include "aten/cpu/conv/starts.h"
#include "aten/cpu/gemm/loops.h"

namespace facula::cpu {

using conv::Geometry;

namespace {

constexpr int64_t kPatch = 1 << 17;  // bytes of a band
constexpr int64_t kMost = 1 << 19;   // bytes of one whose neighbours read much of it too
constexpr int64_t kWork = 1 << 24;   // multiplications of a band
constexpr int64_t kBurst = 1 << 13;  // bytes that are fetched at a time

// The part of an image that a band of results reads.
template <typename T>
struct Band {
  const Geometry& g;
  int64_t height, rows, columns;  // results; rows of the image; places of a residue in a row
  explicit Band(const Geometry& of) : g(of) {
    columns = g.out[2] + (g.kernel[2] - 1) * g.dilation[2] / g.stride[2];
    const int64_t halo = (g.kernel[1] - 1) * g.dilation[1] + 1;
    const int64_t line = g.channels * row() * static_cast<int64_t>(sizeof(T));
    const auto fit = [&](int64_t bytes) { return (bytes / line - halo) / g.stride[1] + 1; };
    const int64_t work = g.out[2] * g.features * g.channels * g.kernel[1] * g.kernel[2];
    // Rows that two bands read should be few.
    const int64_t few = std::min(2 * halo / g.stride[1], fit(kMost));
    const int64_t most = std::clamp<int64_t>(std::max(std::min(fit(kPatch), kWork / work), few), 1, g.out[1]);
    // Each thread has some.
    const int64_t shared = ceil_div(g.batch * g.groups * g.out[1], 4 * int64_t{get_num_threads()});
    height = ceil_div(g.out[1], ceil_div(g.out[1], std::min(most, shared)));
    rows = (height - 1) * g.stride[1] + halo;
  }
  int64_t row() const { return columns * g.stride[2]; }
  int64_t bands() const { return ceil_div(g.out[1], height); }
  // Channels of one group.
  int64_t size() const { return g.channels * rows * row(); }
  void load(const T* x, int64_t first, T* to) const {
    for (int64_t c = 0; c < g.channels; ++c) {
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = first * g.stride[1] - g.padding[1] + r;
        if (at < 0 || at >= g.in[1]) {
          to = std::fill_n(to, row(), T(0));
        } else {
          to = copy_row(x + (c * g.in[1] + at) * g.in[2], g.in[2], -g.padding[2], g.stride[2], columns, to);
        }
      }
    }
  }
  // Fetches share number i of n.
  void fetch(const T* x, int64_t first, int64_t i, int64_t n) const {
    const int64_t all = g.channels * rows, begin = i * all / n, bytes = g.in[2] * static_cast<int64_t>(sizeof(T));
    const int64_t end = std::min((i + 1) * all / n, begin + ceil_div(kBurst, bytes));
    for (int64_t k = begin; k < end; ++k) {
      const int64_t at = first * g.stride[1] - g.padding[1] + k % rows;
      if (at < 0 || at >= g.in[1]) continue;
      const T* from = x + (k / rows * g.in[1] + at) * g.in[2];
      fetch_later(from, from + g.in[2]);
    }
  }
  std::vector<int64_t> taps() const {
    std::vector<int64_t> at;
    for (int64_t c = 0; c < g.channels; ++c) {
      for (int64_t y = 0; y < g.kernel[1]; ++y) {
        for (int64_t k = 0; k < g.kernel[2]; ++k) {
          const int64_t left = k * g.dilation[2];
          at.push_back((c * rows + y * g.dilation[1]) * row() + left % g.stride[2] * columns + left / g.stride[2]);
        }
      }
    }
    return at;
  }
};

}  // namespace

// A row's last vector is in part computed in vain; panels that are gathered cost as much as the products of some 12
// features.
template <typename T>
bool bands_pay(const Geometry& g) {
  const int64_t whole = round_up(g.out[2], conv_tile<T>().lanes);
  if (g.in[0] != 1 || g.kernel[0] != 1 || g.padding[0] != 0 || g.channels == 0 || conv::few(g.groups, g.features) ||
      g.out[1] == 1 || (whole - g.out[2]) * g.features >= 12 * whole) {
    return false;
  }
  // What one row of results reads is small enough; margins may be larger than any memory.
  const auto reach = [&](size_t d) { return static_cast<double>((g.kernel[d] - 1) * g.dilation[d] + 1); };
  const double row = static_cast<double>((g.out[2] - 1) * g.stride[2]) + reach(2);
  return static_cast<double>(g.channels) * reach(1) * row * static_cast<double>(sizeof(T)) <= kMost;
}

template <typename T>
void bands_forward(const Geometry& g, const T* x, const T* weight, const T* bias, T* y) {
  const GemmLoops<T>& loops = gemm_loops<T>();
  const int64_t depth = g.channels * g.kernel[1] * g.kernel[2], width = g.out[2], positions = g.out[1] * width;
  const int64_t mr = even_panel(g.features, loops.mr), nr = loops.nr, panels = ceil_div(g.features, mr);
  const int64_t padded = panels * mr;
  const TypedBuffer<T> packed(g.groups * padded * depth);
  parallel_for(0, g.groups * panels, grain_for(mr * depth), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i / panels, f = i % panels * mr;
      for (int64_t p = 0; p < depth; p += kPanelDepth) {
        const int64_t np = std::min(kPanelDepth, depth - p);
        loops.pack(np, std::min(mr, g.features - f), mr, weight + (group * g.features + f) * depth + p, depth, 1,
                   packed.get() + group * padded * depth + p * padded + f * np);
      }
    }
  });
  const Starts<T> starts(g.groups * g.features, g.groups * g.features + mr, nr, bias);
  const Band<T> band(g);
  const std::vector<int64_t> taps = band.taps();
  const int64_t step = g.stride[1] * band.row(), source = g.channels * g.in[1] * g.in[2];
  const bool stream = depth <= kPanelDepth && streams_lines(y, width, g.batch * g.groups * g.features * positions);
  const int64_t work = band.height * width * g.features * depth;
  parallel_for(0, g.batch * g.groups * band.bands(), grain_for(work, 1 << 20), [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> patch(band.size() + nr);
    std::fill_n(patch.get() + band.size(), nr, T(0));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / band.bands(), group = image % g.groups, first = i % band.bands() * band.height;
      const int64_t count = std::min(band.height, g.out[1] - first);
      band.load(x + image * source, first, patch.get());
      // What comes next is fetched during the products.
      const int64_t next = std::min(i + 1, end - 1), calls = panels * count;
      const T* a = packed.get() + group * padded * depth;
      for (int64_t p = 0; p < depth; p += kPanelDepth) {
        const int64_t np = std::min(kPanelDepth, depth - p);
        for (int64_t call = 0; call < calls; ++call) {
          const int64_t f = call / count * mr, r = call % count, feature = group * g.features + f;
          if (p == 0 && next > i) {
            band.fetch(x + next / band.bands() * source, next % band.bands() * band.height, call, calls);
          }
          T* row = y + (image * g.features + f) * positions + (first + r) * width;
          for (int64_t w = 0; w < width; w += nr) {
            const T* b = patch.get() + r * step + w;
            loops.tile_taps(np, a + p * padded + f * np, mr, b, taps.data() + p, {},
                            p > 0 ? row + w : starts.at(feature), p > 0 ? positions : nr, row + w, positions,
                            std::min(mr, g.features - f), std::min(nr, width - w), stream);
          }
        }
      }
    }
    if (stream) stream_done();
  });
}

template bool bands_pay<float>(const Geometry&);
template bool bands_pay<double>(const Geometry&);
template void bands_forward<float>(const Geometry&, const float*, const float*, const float*, float*);
template void bands_forward<double>(const Geometry&, const double*, const double*, const double*, double*);

}  // namespace facula::cpu
