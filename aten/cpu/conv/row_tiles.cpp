// What a tile of rows of results reads is copied with its margins, and products take the windows where they lie, a row
// of results at a time. Nothing is gathered, and what is copied stays in the second-level cache.
#include "aten/cpu/conv/row_tiles.h"

#include "aten/cpu/common/tuning.h"
#include "aten/cpu/conv/nhwc.h"
#include "aten/cpu/conv/row.h"
#include "aten/cpu/conv/starts.h"
#include "aten/cpu/gemm/loops.h"

namespace facula::cpu {

using conv::Geometry;

namespace {

// Rows of results, and the input tile that they read.
template <typename T>
struct RowTile {
  const Geometry& g;
  int64_t height, rows, columns;  // results; rows of the image; places of a residue in a row
  explicit RowTile(const Geometry& of) : g(of) {
    columns = g.out[2] + (g.kernel[2] - 1) * g.dilation[2] / g.stride[2];
    const int64_t halo = (g.kernel[1] - 1) * g.dilation[1] + 1;
    const int64_t line = g.channels * row() * static_cast<int64_t>(sizeof(T));
    const auto fit = [&](int64_t bytes) { return (bytes / line - halo) / g.stride[1] + 1; };
    const int64_t work = g.out[2] * g.out_channels * g.channels * g.kernel[1] * g.kernel[2];
    // Rows that two tiles read should be few.
    const int64_t overlap = std::min(2 * halo / g.stride[1], fit(tuning::kRowTileMaxBytes));
    const int64_t most = std::clamp<int64_t>(
        std::max(std::min(fit(tuning::kRowTileBytes), tuning::kRowTileWork / work), overlap), 1, g.out[1]);
    // Each thread has some.
    const int64_t shared = ceil_div(g.batch * g.groups * g.out[1], 4 * int64_t{get_num_threads()});
    height = ceil_div(g.out[1], ceil_div(g.out[1], std::min(most, shared)));
    rows = (height - 1) * g.stride[1] + halo;
  }
  int64_t row() const { return columns * g.stride[2]; }
  int64_t tiles() const { return ceil_div(g.out[1], height); }
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
  // What the tile from result row `first` on reads.
  void add_to(FetchAhead& ahead, const T* x, int64_t first) const {
    const int64_t top = first * g.stride[1] - g.padding[1], from = std::max<int64_t>(0, top);
    ahead.add_blocks(x + from * g.in[2], g.channels, g.in[1] * g.in[2], std::min(g.in[1], top + rows) - from, g.in[2],
                     g.in[2]);
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
// output channels.
template <typename T>
bool row_tiles_pay(const Geometry& g) {
  const int64_t whole = round_up(g.out[2], conv_tile<T>().lanes);
  if (g.out[1] == 1 || (whole - g.out[2]) * g.out_channels >= tuning::kGatherInProducts * whole) return false;
  // What one row of results reads is small enough; margins may be larger than any memory.
  const auto reach = [&](size_t d) { return static_cast<double>((g.kernel[d] - 1) * g.dilation[d] + 1); };
  const double row = static_cast<double>((g.out[2] - 1) * g.stride[2]) + reach(2);
  return static_cast<double>(g.channels) * reach(1) * row * static_cast<double>(sizeof(T)) <= tuning::kRowTileMaxBytes;
}

template <typename T>
void row_tiles_forward(const Geometry& g, const T* x, const T* weight, const T* bias, T* y) {
  const GemmLoops<T>& loops = gemm_loops<T>();
  const int64_t depth = g.channels * g.kernel[1] * g.kernel[2], width = g.out[2], positions = g.out[1] * width;
  const int64_t mr = even_panel(g.out_channels, loops.mr), nr = loops.nr, panels = ceil_div(g.out_channels, mr);
  const int64_t padded = panels * mr;
  const TypedBuffer<T> packed(g.groups * padded * depth);
  parallel_for(0, g.groups * panels, grain_for(mr * depth), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i / panels, f = i % panels * mr;
      for (int64_t p = 0; p < depth; p += kPanelDepth) {
        const int64_t np = std::min(kPanelDepth, depth - p);
        loops.pack(np, std::min(mr, g.out_channels - f), mr, weight + (group * g.out_channels + f) * depth + p, depth,
                   1, packed.get() + group * padded * depth + p * padded + f * np);
      }
    }
  });
  const Starts<T> starts(g.groups * g.out_channels, g.groups * g.out_channels + mr, nr, bias);
  const RowTile<T> tile(g);
  const std::vector<int64_t> taps = tile.taps();
  const int64_t step = g.stride[1] * tile.row(), source = g.channels * g.in[1] * g.in[2];
  const bool stream = depth <= kPanelDepth && streams_lines(y, width, g.batch * g.groups * g.out_channels * positions);
  const int64_t work = tile.height * width * g.out_channels * depth;
  parallel_for(
      0, g.batch * g.groups * tile.tiles(), grain_for(work, tuning::kConvTileWork), [&](int64_t begin, int64_t end) {
        const TypedBuffer<T> input_tile(tile.size() + nr);
        std::fill_n(input_tile.get() + tile.size(), nr, T(0));
        for (int64_t i = begin; i < end; ++i) {
          const int64_t image = i / tile.tiles(), group = image % g.groups, first = i % tile.tiles() * tile.height;
          const int64_t count = std::min(tile.height, g.out[1] - first);
          tile.load(x + image * source, first, input_tile.get());
          // What comes next is fetched during the products.
          const int64_t next = i + 1, calls = panels * count;
          FetchAhead ahead;
          if (next < end) {
            tile.add_to(ahead, x + next / tile.tiles() * source, next % tile.tiles() * tile.height);
            ahead.spread(calls, tuning::kRowTileFetch);
          }
          const T* a = packed.get() + group * padded * depth;
          for (int64_t p = 0; p < depth; p += kPanelDepth) {
            const int64_t np = std::min(kPanelDepth, depth - p);
            for (int64_t call = 0; call < calls; ++call) {
              const int64_t f = call / count * mr, r = call % count, out_channel = group * g.out_channels + f;
              ahead.step();
              T* row = y + (image * g.out_channels + f) * positions + (first + r) * width;
              for (int64_t w = 0; w < width; w += nr) {
                const T* b = input_tile.get() + r * step + w;
                loops.tile_taps(np, a + p * padded + f * np, mr, b, taps.data() + p, {},
                                p > 0 ? row + w : starts.at(out_channel), p > 0 ? positions : nr, row + w, positions,
                                std::min(mr, g.out_channels - f), std::min(nr, width - w), stream);
              }
            }
          }
        }
        if (stream) stream_done();
      });
}

template bool row_tiles_pay<float>(const Geometry&);
template bool row_tiles_pay<double>(const Geometry&);
template void row_tiles_forward<float>(const Geometry&, const float*, const float*, const float*, float*);
template void row_tiles_forward<double>(const Geometry&, const double*, const double*, const double*, double*);

}  // namespace facula::cpu
