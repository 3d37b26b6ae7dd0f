#include "aten/cpu/conv/winograd.h"

#include <array>
#include <atomic>
#include <cmath>

#include "aten/cpu/common/step_sums.h"
#include "aten/cpu/common/tuning.h"
#include "aten/cpu/gemm/loops.h"

namespace facula::cpu {
namespace {

// Tiles that are transformed at a time: as many as keep 16 values for each of `channels` in the second-level cache.
template <typename T>
int64_t tiles_for(int64_t channels) {
  return std::clamp(tuning::kWinogradBytes / (16 * static_cast<int64_t>(sizeof(T)) * channels),
                    tuning::kWinogradFewTiles, tuning::kWinogradManyTiles);
}

// Planes of 16 values lie so far apart that they do not compete for the same places in the caches.
int64_t plane_size(int64_t n) { return round_up(n, 64) + 16; }

// A piece of work: input rows as NHWC with margins, and the tiles in them.
template <typename T>
class InputTile {
 public:
  InputTile(const Conv3x3& g, int64_t rows)
      : g_(g),
        columns_(2 * ceil_div(g.out_width, 2) + 2),
        pitch_(round_up(g.channels, conv_tile<T>().lanes)),
        pixels_(4 * rows * columns_ * pitch_) {
    std::fill(pixels_.get(), pixels_.get() + 4 * rows * columns_ * pitch_, T(0));
  }
  void load(const Images<const T>& x, const std::vector<Part>& parts) {
    int64_t at = 0;
    for (const Part& p : parts) {
      const int64_t rows = 2 * p.count + 2;
      load_nhwc(x, p.image, g_.height, g_.width, g_.channels, 2 * p.first - g_.top, rows, -g_.left, columns_,
                pixels_.get() + at * columns_ * pitch_, pitch_, places_);
      at += rows;
    }
  }
  // Transforms tile `tx` of tile row `ty` of part `part` (whose rows start at `start` of the input tile).
  void transform(int64_t start, int64_t ty, int64_t tx, T* v, int64_t block, int64_t plane) const {
    conv_tile<T>().winograd_input(pitch_, pixels_.get() + ((start + 2 * ty) * columns_ + 2 * tx) * pitch_,
                                  columns_ * pitch_, pitch_, v, block, plane);
  }

 private:
  const Conv3x3& g_;
  int64_t columns_, pitch_;
  TypedBuffer<T> pixels_;
  std::vector<int64_t> places_;
};

// Calls fn(part, start of its input rows, tile row in it, tile column) for tiles [from, to) of the parts.
template <typename F>
void for_tiles(const std::vector<Part>& parts, int64_t across, int64_t from, int64_t to, const F& fn) {
  int64_t base = 0, start = 0;
  for (size_t i = 0; i < parts.size() && base < to; ++i) {
    const int64_t count = parts[i].count * across;
    for (int64_t t = std::max(from, base); t < std::min(to, base + count); ++t) {
      fn(i, start, (t - base) / across, (t - base) % across);
    }
    base += count;
    start += 2 * parts[i].count + 2;
  }
}

// Filters as panels: for each panel of nr output channels and each of 16 places, (channels, nr).
template <typename T>
void transform_filters(const Conv3x3& g, const Filters<T>& filters, T* out) {
  const ConvTile<T>& loops = conv_tile<T>();
  const int64_t nr = loops.nr, panel = g.channels * nr, panels = ceil_div(g.out_channels, nr);
  parallel_for(0, panels * g.channels, grain_for(nr * 32), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / g.channels * nr, c = i % g.channels;
      for (int64_t f = 0; f < nr; f += loops.lanes) {
        const int64_t count = std::clamp<int64_t>(g.out_channels - first - f, 0, loops.lanes);
        loops.winograd_filters(count, filters.data + (first + f) * filters.out_channel + c * filters.channel,
                               filters.out_channel, filters.turned, out + i / g.channels * 16 * panel + c * nr + f,
                               panel);
      }
    }
  });
}

// The results of one piece of work: at once into the output where its pixels take whole vectors.
template <typename T>
class Results {
 public:
  Results(const Conv3x3& g, const Images<T>& y, int64_t rows)
      : g_(g),
        y_(y),
        direct_(y.channel == 1 && g.out_channels % conv_tile<T>().lanes == 0),
        pitch_(round_up(g.out_channels, conv_tile<T>().lanes)),
        pixels_(direct_ ? 0 : 2 * rows * g.out_width * pitch_),
        unused_(pitch_) {}
  // Where the four pixels of a tile go; those outside the image nowhere.
  std::array<T*, 4> at(const Part& p, int64_t before, int64_t ty, int64_t tx) const {
    std::array<T*, 4> r;
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < 2; ++j) {
        const int64_t y = 2 * (p.first + ty) + i, x = 2 * tx + j;
        T*& to = r[static_cast<size_t>(2 * i + j)];
        if (y >= g_.out_height || x >= g_.out_width) {
          to = unused_.get();
        } else if (direct_) {
          to = y_.data + p.image * y_.image + (y * g_.out_width + x) * y_.pixel;
        } else {
          to = pixels_.get() + ((2 * (before + ty) + i) * g_.out_width + x) * pitch_;
        }
      }
    }
    return r;
  }
  // Takes output channels [first, last) to the output.
  void store(const std::vector<Part>& parts, int64_t first, int64_t last) const {
    if (direct_) return;
    int64_t before = 0;
    for (const Part& p : parts) {
      const int64_t y = 2 * p.first, count = std::min(2 * p.count, g_.out_height - y) * g_.out_width;
      const T* from = pixels_.get() + 2 * before * g_.out_width * pitch_ + first;
      T* to = y_.data + p.image * y_.image + y * g_.out_width * y_.pixel + first * y_.channel;
      if (y_.channel == 1) {
        for (int64_t i = 0; i < count; ++i) {
          std::copy(from + i * pitch_, from + i * pitch_ + last - first, to + i * y_.pixel);
        }
      } else {
        conv_tile<T>().nhwc_to_nchw(count, last - first, from, pitch_, to, y_.channel);
      }
      before += p.count;
    }
  }

 private:
  const Conv3x3& g_;
  const Images<T>& y_;
  bool direct_;
  int64_t pitch_;
  TypedBuffer<T> pixels_, unused_;
};

}  // namespace

bool winograd_pays(const Conv3x3& g, int64_t least) {
  const int64_t tiles = g.batch * ceil_div(g.out_height, 2) * ceil_div(g.out_width, 2);
  return g.channels >= tuning::kWinogradMinChannels && g.out_channels >= tuning::kWinogradMinChannels &&
         tiles >= least && g.out_height > 1 && g.out_width > 1;
}

template <typename T>
bool winograd_forward(const Conv3x3& g, const Images<const T>& x, const Filters<T>& filters, const T* bias,
                      const Images<T>& y) {
  const ConvTile<T>& loops = conv_tile<T>();
  const int64_t down = ceil_div(g.out_height, 2), across = ceil_div(g.out_width, 2), all = g.batch * down;
  const int64_t blocks = ceil_div(g.channels, kPitch), nr = loops.nr, panel = g.channels * nr;
  const int64_t out_channels = round_up(g.out_channels, loops.lanes);
  const TypedBuffer<T> panels(16 * panel * ceil_div(g.out_channels, nr)), shift(out_channels);
  transform_filters(g, filters, panels.get());
  std::fill(shift.get(), shift.get() + out_channels, T(0));
  if (bias != nullptr) std::copy(bias, bias + g.out_channels, shift.get());

  const int64_t most = tiles_for<T>(g.channels), rows = std::clamp<int64_t>(most / across, 1, all);
  const int64_t size = std::min(most, rows * across), mr = even_panel(size, loops.mr);
  const int64_t block = round_up(size, mr) * kPitch, plane = plane_size(blocks * block);
  const int64_t m_plane = plane_size(round_up(size, mr) * nr);
  // Few pieces are cut by output channels too, so that there is work for all threads.
  const int64_t count = ceil_div(all, rows), wide = ceil_div(g.out_channels, nr);
  const int64_t cuts =
      get_num_threads() == 1 ? 1 : std::clamp<int64_t>(tuning::kWinogradCuts * get_num_threads() / count, 1, wide);
  const int64_t part_out_channels = ceil_div(wide, cuts) * nr;
  const int64_t none = 0;
  std::atomic<bool> finite{true};
  parallel_for(0, count * cuts, 1, [&](int64_t begin, int64_t end) {
    InputTile<T> input_tile(g, rows);
    const Results<T> results(g, y, rows);
    const TypedBuffer<T> buffer(16 * plane + 16 * m_plane + loops.lanes);
    T *v = buffer.get(), *m = v + 16 * plane, *check = m + 16 * m_plane;
    std::fill(v, v + 16 * plane, T(0));
    std::fill(check, check + loops.lanes, T(0));
    std::vector<Part> parts;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t i = unit / cuts, first = unit % cuts * part_out_channels,
                    until = std::min(first + part_out_channels, g.out_channels);
      if (first >= until) continue;
      parts_of(i * rows, std::min((i + 1) * rows, all), down, parts);
      input_tile.load(x, parts);
      const int64_t tiles = (std::min((i + 1) * rows, all) - i * rows) * across;
      for (int64_t t = 0; t < tiles; t += size) {
        const int64_t last = std::min(t + size, tiles);
        T* to = v;
        for_tiles(parts, across, t, last, [&](size_t, int64_t start, int64_t ty, int64_t tx) {
          input_tile.transform(start, ty, tx, to, block, plane);
          to += kPitch;
        });
        for (int64_t f = first; f < until; f += nr) {
          const int64_t cols = std::min(nr, out_channels - f);
          const T* u = panels.get() + f / nr * 16 * panel;
          for (int64_t k = 0; k < 16; ++k) {
            for (int64_t r = 0; r < last - t; r += mr) {
              loops.rows(1, &none, g.channels, v + k * plane + r * kPitch, block, u + k * panel,
                         m + k * m_plane + r * nr, nr, std::min(mr, last - t - r), cols, false);
            }
          }
          const T* from = m;
          int64_t before = 0;
          size_t part = 0;
          for_tiles(parts, across, t, last, [&](size_t p, int64_t, int64_t ty, int64_t tx) {
            for (; part < p; ++part) before += parts[part].count;
            std::array<T*, 4> out = results.at(parts[p], before, ty, tx);
            for (T*& o : out) o += f;
            loops.winograd_output(cols, from, m_plane, shift.get() + f, out.data(), check);
            from += nr;
          });
        }
      }
      results.store(parts, first, until);
    }
    for (int64_t i = 0; i < loops.lanes; ++i) {
      if (check[i] != T(0)) finite = false;
    }
  });
  return finite;
}

template <typename T>
bool winograd_backward_weight(const Conv3x3& g, const Images<const T>& x, const Images<const T>& grad, T* out) {
  const ConvTile<T>& loops = conv_tile<T>();
  constexpr int64_t kOutChannels = 2 * kPitch;
  const int64_t down = ceil_div(g.out_height, 2), across = ceil_div(g.out_width, 2), all = g.batch * down;
  const int64_t wide = ceil_div(g.channels, kPitch), tall = ceil_div(g.out_channels, kOutChannels);
  const int64_t units = wide * tall;
  // Whatever the number of threads; few where there is little to sum.
  const int64_t pieces =
      std::min(all, std::clamp(all * across / tuning::kWinogradPieceTiles, ceil_div(tuning::kWeightMinUnits, units),
                               ceil_div(tuning::kWeightMaxUnits, units)));
  const int64_t most = tiles_for<T>(3 * kPitch), rows = std::clamp<int64_t>(most / across, 1, all);
  const int64_t size = std::min(most, rows * across);
  // Sums by piece, unit and place: (output channels of the unit, kPitch).
  const int64_t high = std::min(kOutChannels, round_up(g.out_channels, loops.mr)), sum = plane_size(high * kPitch);
  const TypedBuffer<T> sums(pieces * units * 16 * sum);
  std::vector<int64_t> at_tile;
  for (int64_t t = 0; t < size; ++t) at_tile.push_back(t * kPitch);
  parallel_for(0, pieces * units, 1, [&](int64_t begin, int64_t end) {
    const int64_t block = size * kPitch, plane = plane_size(block), g_plane = plane_size(2 * block);
    const TypedBuffer<T> buffer(16 * (plane + g_plane));
    T *v = buffer.get(), *d = v + 16 * plane;
    std::fill(v, v + 16 * (plane + g_plane), T(0));
    std::vector<Part> parts;
    std::vector<int64_t> places;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t piece = i / units, c = i % units % wide * kPitch, f = i % units / wide * kOutChannels;
      Conv3x3 part = g;
      part.channels = std::min(kPitch, g.channels - c);
      part.out_channels = std::min(kOutChannels, g.out_channels - f);
      const Images<const T> px{x.data + c * x.channel, x.image, x.channel, x.pixel};
      const Images<const T> pg{grad.data + f * grad.channel, grad.image, grad.channel, grad.pixel};
      const int64_t pitch = round_up(part.out_channels, loops.lanes);
      InputTile<T> input_tile(part, rows);
      const TypedBuffer<T> pixels(2 * rows * 2 * across * pitch);
      std::fill(pixels.get(), pixels.get() + 2 * rows * 2 * across * pitch, T(0));
      T* to = sums.get() + i * 16 * sum;
      StepSums<T> steps(to, 1, 16 * sum, 16 * sum);
      const int64_t from = piece * all / pieces, until = (piece + 1) * all / pieces;
      for (int64_t row = from; row < until; row += rows) {
        parts_of(row, std::min(row + rows, until), down, parts);
        input_tile.load(px, parts);
        int64_t before = 0;
        for (const Part& p : parts) {
          load_nhwc(pg, p.image, g.out_height, g.out_width, part.out_channels, 2 * p.first, 2 * p.count, 0, 2 * across,
                    pixels.get() + 2 * before * 2 * across * pitch, pitch, places);
          before += p.count;
        }
        const int64_t tiles = (std::min(row + rows, until) - row) * across;
        for (int64_t t = 0; t < tiles; t += size) {
          const int64_t last = std::min(t + size, tiles);
          T *vt = v, *dt = d;
          before = 0;
          size_t at = 0;
          for_tiles(parts, across, t, last, [&](size_t p, int64_t start, int64_t ty, int64_t tx) {
            for (; at < p; ++at) before += parts[at].count;
            input_tile.transform(start, ty, tx, vt, block, plane);
            loops.winograd_grad(pitch, pixels.get() + ((before + ty) * 2 * across + tx) * 2 * pitch, 2 * across * pitch,
                                pitch, dt, block, g_plane);
            vt += kPitch;
            dt += kPitch;
          });
          const bool accumulate = steps.step();
          for (int64_t k = 0; k < 16; ++k) {
            for (int64_t q = 0; q < part.out_channels; q += kPitch) {
              const int64_t count = std::min(kPitch, part.out_channels - q), mr = even_panel(count, loops.mr);
              for (int64_t j = 0; j < part.channels; j += loops.nr) {
                for (int64_t r = 0; r < count; r += mr) {
                  loops.outer(last - t, d + k * g_plane + q / kPitch * block + r, v + k * plane + j, at_tile.data(),
                              to + k * sum + (q + r) * kPitch + j, kPitch, std::min(mr, count - r),
                              std::min(loops.nr, round_up(part.channels - j, loops.lanes)), accumulate);
                }
              }
            }
          }
        }
      }
      steps.finish();
    }
  });
  std::atomic<bool> finite{true};
  parallel_for(0, g.out_channels, grain_for(g.channels * 16 * pieces), [&](int64_t begin, int64_t end) {
    bool ok = true;
    for (int64_t f = begin; f < end; ++f) {
      for (int64_t c = 0; c < g.channels; c += loops.lanes) {
        const int64_t unit = f / kOutChannels * wide + c / kPitch;
        T* to = out + (f * g.channels + c) * 9;
        const int64_t count = std::min(loops.lanes, g.channels - c);
        loops.winograd_filter_grads(count, sums.get() + unit * 16 * sum + f % kOutChannels * kPitch + c % kPitch, sum,
                                    pieces, units * 16 * sum, to, 9);
        T check = 0;
        for (int64_t i = 0; i < 9 * count; ++i) check += to[i] * T(0);
        ok = ok && check == T(0);
      }
    }
    if (!ok) finite = false;
  });
  return finite;
}

#define FACULA_WINOGRAD_FOR(T)                                                                           \
  template bool winograd_forward<T>(const Conv3x3&, const Images<const T>&, const Filters<T>&, const T*, \
                                    const Images<T>&);                                                   \
  template bool winograd_backward_weight<T>(const Conv3x3&, const Images<const T>&, const Images<const T>&, T*);
FACULA_WINOGRAD_FOR(float)
FACULA_WINOGRAD_FOR(double)
#undef FACULA_WINOGRAD_FOR

}  // namespace facula::cpu
