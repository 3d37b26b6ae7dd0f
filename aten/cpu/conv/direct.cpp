// Convolution, transposed convolution and their gradients in one to three dims.
//
// Images are copied with their margin of zeros; then every tap of the kernel is a fixed offset from
// an output's place, and the product with the weights is blocked as in a matrix product whose second
// operand is gathered panel by panel (implicit im2col). With a stride the columns of the copy are
// sorted by their residue, so that neighbouring outputs always read neighbouring elements. A transposed convolution of
// stride s is one such product per residue of the output's place modulo s, with the taps that meet it. Groups of few
// output channels (depthwise) are summed row by row.
#include "aten/cpu/conv/direct.h"

#include <vector>

#include "aten/cpu/conv/loops.h"
#include "aten/cpu/conv/pixels.h"
#include "aten/cpu/conv/row.h"
#include "aten/cpu/gemm/gemm.h"
#include "aten/cpu/gemm/loops.h"
#include "aten/cpu/nn/loops.h"

namespace facula::cpu {
namespace conv {
namespace {

constexpr int64_t kColumns = 8;     // panels of output positions that are packed at a time
constexpr int64_t kWork = 1 << 21;  // multiplications that a piece for a thread should have

// ---- images with margins ----

// A copy of planes whose row 0 stands for `origin` of the plane (negative: margin), `size` long; the
// columns of a row come by residue modulo `split`.
struct Margins {
  Three size, origin;
  int64_t split = 1;
};

template <typename T>
class Padded {
 public:
  Padded(const T* data, int64_t planes, const Three& from, const Margins& to)
      : height_(to.size[1]),
        columns_((to.size[2] + to.split - 1) / to.split),
        split_(to.split),
        plane_(to.size[0] * height_ * columns_ * split_),
        copy_(planes * plane_ + kSlack) {
    const int64_t source = product(from);
    parallel_for(0, planes, grain_for(plane_), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) copy_plane(data + i * source, from, to, copy_.get() + i * plane_);
    });
    std::fill(copy_.get() + planes * plane_, copy_.get() + planes * plane_ + kSlack, T(0));
  }
  const T* data() const { return copy_.get(); }
  int64_t plane() const { return plane_; }
  // Offset of a place along one dim.
  int64_t at(size_t dim, int64_t place) const {
    if (dim == 2) return place % split_ * columns_ + place / split_;
    return place * columns_ * split_ * (dim == 0 ? height_ : 1);
  }

 private:
  void copy_plane(const T* from, const Three& n, const Margins& to, T* out) const {
    for (int64_t d = 0; d < to.size[0]; ++d) {
      for (int64_t h = 0; h < height_; ++h) {
        const int64_t sd = d + to.origin[0], sh = h + to.origin[1];
        if (sd < 0 || sd >= n[0] || sh < 0 || sh >= n[1]) {
          out = std::fill_n(out, columns_ * split_, T(0));
          continue;
        }
        out = copy_row(from + (sd * n[1] + sh) * n[2], n[2], to.origin[2], split_, columns_, out);
      }
    }
  }
  int64_t height_, columns_, split_, plane_;
  TypedBuffer<T> copy_;
};

// ---- the product with windows ----

// Output position (d, h, w) of image n reads at n * image + d * step[0] + h * step[1] + w + tap.
struct Windows {
  Three out;
  int64_t image, step[2];
  bool dense;                 // rows of positions are neighbouring rows of the image
  std::vector<int64_t> taps;  // by channel, then by place in the kernel
  int64_t positions() const { return product(out); }
};

// Runs of the positions [from, from + count), counted through all images.
void runs_of(const Windows& w, int64_t from, int64_t count, std::vector<Run>& runs) {
  runs.clear();
  while (count > 0) {
    const int64_t x = from % w.out[2], row = from / w.out[2], y = row % w.out[1], plane = row / w.out[1];
    const int64_t n = std::min(count, w.out[2] - x);
    const int64_t offset = plane / w.out[0] * w.image + plane % w.out[0] * w.step[0] + y * w.step[1] + x;
    if (!runs.empty() && runs.back().offset + runs.back().count == offset) {  // rows that touch
      runs.back().count += n;
    } else {
      runs.push_back({offset, n});
    }
    from += n;
    count -= n;
  }
}

// The weight of feature f of group g for tap p lies at data[g * group + f * row + offsets[p]].
template <typename T>
struct Weights {
  const T* data;
  int64_t group, row;
  std::vector<int64_t> offsets;
};

// out (batch, groups, features, positions) = bias + weights times windows.
template <typename T>
void multiply_few(const Windows& w, int64_t batch, int64_t groups, int64_t features, const Weights<T>& weights,
                  const T* bias, const T* image, int64_t group_stride, T* out) {
  const auto depth = static_cast<int64_t>(w.taps.size());
  const TypedBuffer<T> gathered(groups * features * depth);
  T* weight = gathered.get();
  for (int64_t c = 0; c < groups * features; ++c) {
    const T* from = weights.data + c / features * weights.group + c % features * weights.row;
    for (int64_t p = 0; p < depth; ++p) weight[c * depth + p] = from[weights.offsets[static_cast<size_t>(p)]];
  }
  const int64_t rows = w.out[0] * w.out[1], positions = w.positions();
  parallel_for(0, batch * groups * features, grain_for(positions * depth, kWork / 4), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t channel = i % (groups * features);
      const T* source = image + i / features * group_stride;
      for (int64_t r = 0; r < rows; ++r) {
        conv_loops<T>().row(depth, w.taps.data(), weight + channel * depth, bias != nullptr ? bias[channel] : T(0),
                            w.out[2], source + r / w.out[1] * w.step[0] + r % w.out[1] * w.step[1],
                            out + i * positions + r * w.out[2]);
      }
    }
  });
}

// Without stride the positions of a whole image with its margins lie in one run, and panels need no
// gathering; the columns of the margins are computed in vain. That pays where they are few for the
// work that a gathered panel would serve.
bool straight(const Windows& w, int64_t features) {
  const int64_t row = w.step[1];
  return w.dense && w.out[0] == 1 && w.taps.size() >= 64 && (row - w.out[2]) * features < 12 * row;
}

template <typename T>
void multiply_straight(const Windows& w, int64_t batch, int64_t groups, int64_t features, const T* packed, int64_t mr,
                       int64_t padded, const T* bias, const T* image, int64_t group_stride, T* out) {
  const GemmLoops<T>& gemm = gemm_loops<T>();
  const auto depth = static_cast<int64_t>(w.taps.size());
  const int64_t row = w.step[1], positions = w.positions(), columns = (w.out[1] - 1) * row + w.out[2];
  const int64_t nr = gemm.nr, width = kColumns * nr, tiles = (columns + width - 1) / width;
  const int64_t work = std::max<int64_t>(1, features * depth * std::min(width, columns));
  parallel_for(0, batch * groups * tiles, std::max<int64_t>(1, kWork / work), [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> apart(mr * nr);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t bg = i / tiles, g = bg % groups, first = i % tiles * width, last = std::min(first + width, columns);
      T* block = out + bg * features * positions;
      for (int64_t p = 0; p < depth; p += kPanelDepth) {
        const int64_t np = std::min(kPanelDepth, depth - p);
        const T* a = packed + g * padded * depth + p * padded;
        for (int64_t f = 0; f < features; f += mr) {
          const int64_t rows = std::min(mr, features - f);
          for (int64_t c = first; c < last; c += nr) {
            const T* from = image + bg * group_stride + c;
            const int64_t cols = std::min(nr, last - c), y = c / row, x = c % row;
            T* to = block + f * positions + y * w.out[2] + x;
            if (x + cols <= w.out[2] && p > 0) {
              gemm.tile_taps(np, a + f * np, mr, from, w.taps.data() + p, {}, to, positions, to, positions, rows, cols,
                             false);
              continue;
            }
            gemm.tile_taps(np, a + f * np, mr, from, w.taps.data() + p, {}, nullptr, 0, apart.get(), nr, rows, cols,
                           false);
            for (int64_t k = 0; k < cols;) {  // the part of each row
              const int64_t yk = (c + k) / row, xk = (c + k) % row;
              const int64_t n = std::min(cols - k, row - xk), valid = std::min(n, w.out[2] - xk);
              for (int64_t r = 0; r < rows && valid > 0; ++r) {
                const T* part = apart.get() + r * nr + k;
                T* place = block + (f + r) * positions + yk * w.out[2] + xk;
                if (p > 0) {
                  for (int64_t q = 0; q < valid; ++q) place[q] += part[q];
                } else {
                  const T start = bias != nullptr ? bias[g * features + f + r] : T(0);
                  for (int64_t q = 0; q < valid; ++q) place[q] = part[q] + start;
                }
              }
              k += n;
            }
          }
        }
      }
    }
  });
}

template <typename T>
void multiply(const Windows& w, int64_t batch, int64_t groups, int64_t features, const Weights<T>& weights,
              const T* bias, const T* image, int64_t group_stride, T* out) {
  const auto depth = static_cast<int64_t>(w.taps.size());
  const int64_t positions = w.positions(), columns = batch * positions;
  if (groups * features * columns == 0) return;
  if (few(groups, features)) {
    multiply_few(w, batch, groups, features, weights, bias, image, group_stride, out);
    return;
  }
  const GemmLoops<T>& gemm = gemm_loops<T>();
  const int64_t mr = even_panel(features, gemm.mr), nr = gemm.nr, padded = round_up(features, mr);
  const TypedBuffer<T> packed(groups * padded * depth);
  parallel_for(0, groups * (padded / mr), grain_for(mr * depth), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t g = i / (padded / mr), first = i % (padded / mr) * mr;
      for (int64_t p = 0; p < depth; p += kPanelDepth) {
        const int64_t np = std::min(kPanelDepth, depth - p);
        conv_loops<T>().pack_weights(np, weights.offsets.data() + p, std::min(mr, features - first), weights.row, mr,
                                     weights.data + g * weights.group + first * weights.row,
                                     packed.get() + g * padded * depth + p * padded + first * np);
      }
    }
  });
  if (straight(w, features)) {
    multiply_straight(w, batch, groups, features, packed.get(), mr, padded, bias, image, group_stride, out);
    return;
  }
  const int64_t width = std::min(kColumns * nr, round_up(columns, nr));
  const int64_t tiles = (columns + width - 1) / width;
  const int64_t work = std::max<int64_t>(1, features * depth * width);
  parallel_for(0, groups * tiles, std::max<int64_t>(1, kWork / work), [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> buffer(width * std::min(depth, kPanelDepth) + kSlack + mr * nr);
    T *panels = buffer.get(), *apart = panels + width * std::min(depth, kPanelDepth) + kSlack;
    std::vector<Run> runs;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t g = i / tiles, first = i % tiles * width, count = std::min(width, columns - first);
      // The result of column c: rows (features) are `positions` apart.
      const auto place = [&](int64_t c) {
        return out + (c / positions * groups + g) * features * positions + c % positions;
      };
      if (bias != nullptr) {
        for (int64_t c = first; c < first + count;) {
          const int64_t n = std::min(first + count - c, positions - c % positions);
          T* to = place(c);
          for (int64_t f = 0; f < features; ++f) std::fill_n(to + f * positions, n, bias[g * features + f]);
          c += n;
        }
      }
      for (int64_t p = 0; p < depth; p += kPanelDepth) {
        const int64_t np = std::min(kPanelDepth, depth - p);
        const bool accumulate = p > 0 || bias != nullptr;
        for (int64_t j = 0; j < count; j += nr) {
          runs_of(w, first + j, std::min(nr, count - j), runs);
          conv_loops<T>().pack_windows(np, w.taps.data() + p, runs.data(), static_cast<int64_t>(runs.size()), nr,
                                       image + g * group_stride, panels + j * np);
        }
        const T* a = packed.get() + g * padded * depth + p * padded;
        for (int64_t f = 0; f < features; f += mr) {
          const int64_t rows = std::min(mr, features - f);
          for (int64_t j = 0; j < count; j += nr) {
            const int64_t c = first + j, cols = std::min(nr, count - j);
            T* to = place(c) + f * positions;
            if (c % positions + cols <= positions) {
              gemm.tile(np, a + f * np, mr, panels + j * np, to, positions, rows, cols, accumulate);
              continue;
            }
            gemm.tile(np, a + f * np, mr, panels + j * np, apart, nr, rows, cols, false);
            for (int64_t k = 0; k < cols;) {  // the part of each image
              const int64_t n = std::min(cols - k, positions - (c + k) % positions);
              T* part = place(c + k) + f * positions;
              for (int64_t r = 0; r < rows; ++r) {
                const T* from = apart + r * nr + k;
                for (int64_t x = 0; x < n; ++x) {
                  part[r * positions + x] = accumulate ? part[r * positions + x] + from[x] : from[x];
                }
              }
              k += n;
            }
          }
        }
      }
    }
  });
}

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

Margins input_margins(const Geometry& g) {
  Margins m;
  for (size_t d = 0; d < 3; ++d) {
    m.origin[d] = -g.padding[d];
    m.size[d] = (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] + 1;
  }
  m.split = g.stride[2];
  return m;
}

// Where outputs read, and the taps, in an image with input_margins.
template <typename T>
Windows input_windows(const Geometry& g, const Padded<T>& image) {
  Windows w{g.out,
            g.groups * g.channels * image.plane(),
            {image.at(0, g.stride[0]), image.at(1, g.stride[1])},
            g.stride == Three{1, 1, 1},
            {}};
  std::array<std::vector<int64_t>, 3> at;
  for (size_t d = 0; d < 3; ++d) {
    for (int64_t k = 0; k < g.kernel[d]; ++k) at[d].push_back(image.at(d, k * g.dilation[d]));
  }
  add_taps(w, g.channels, image.plane(), at);
  return w;
}

// What a convolution that sees nothing gives: the bias of each feature, zero without one.
template <typename T>
void fill_bias(int64_t batch, int64_t features, int64_t positions, const T* bias, T* out) {
  for (int64_t i = 0; i < batch * features; ++i) {
    std::fill(out + i * positions, out + (i + 1) * positions, bias != nullptr ? bias[i % features] : T(0));
  }
}

}  // namespace

template <typename T>
void forward(const Geometry& g, const T* input, const T* weight, const T* bias, T* out) {
  const int64_t positions = product(g.out);
  if (g.batch * g.groups * g.features * positions == 0) return;
  if (g.channels == 0) return fill_bias(g.batch, g.groups * g.features, positions, bias, out);
  const Padded<T> image(input, g.batch * g.groups * g.channels, g.in, input_margins(g));
  const int64_t depth = g.channels * product(g.kernel);
  Weights<T> weights{weight, g.features * depth, depth, {}};
  for (int64_t p = 0; p < depth; ++p) weights.offsets.push_back(p);
  multiply(input_windows(g, image), g.batch, g.groups, g.features, weights, bias, image.data(),
           g.channels * image.plane(), out);
}

std::vector<Phase> phases_of(const Geometry& g, size_t d, bool back) {
  std::vector<Phase> all;
  for (int64_t r = 0; r < (back ? std::min(g.stride[d], g.in[d]) : 1); ++r) {
    Phase p{r, back ? (g.in[d] - r + g.stride[d] - 1) / g.stride[d] : g.out[d], {}, {}};
    for (int64_t k = 0; k < g.kernel[d]; ++k) {
      const int64_t at = back ? r + g.padding[d] - k * g.dilation[d] : k * g.dilation[d] - g.padding[d];
      if (back && at % g.stride[d] != 0) continue;
      p.taps.push_back(k);
      p.offsets.push_back(back ? at / g.stride[d] : at);
    }
    all.push_back(std::move(p));
  }
  return all;
}

template <typename T>
void backward_input(const Geometry& g, const T* grad, const T* weight, const T* bias, T* out) {
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
  const bool empty = product(g.out) == 0 || g.features == 0;
  const Padded<T> image(grad, empty ? 0 : g.batch * g.groups * g.features, g.out, margins);
  const int64_t taps = product(g.kernel);
  const bool direct = g.stride == one;
  for (const Phase& z : phases[0]) {
    for (const Phase& y : phases[1]) {
      for (const Phase& x : phases[2]) {
        Windows w{{z.count, y.count, x.count},
                  g.groups * g.features * image.plane(),
                  {image.at(0, 1), image.at(1, 1)},
                  true,
                  {}};
        std::array<std::vector<int64_t>, 3> at{z.offsets, y.offsets, x.offsets};
        for (size_t d = 0; d < 3; ++d) {
          for (int64_t& offset : at[d]) offset = image.at(d, offset - margins.origin[d]);
        }
        if (!empty) add_taps(w, g.features, image.plane(), at);
        Weights<T> weights{weight, g.features * g.channels * taps, taps, {}};
        for (int64_t f = 0; f < g.features && !empty; ++f) {
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
          multiply(w, g.batch, g.groups, g.channels, weights, bias, image.data(), g.features * image.plane(), result);
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

template <typename T>
void backward_weight(const Geometry& g, const T* input, const T* grad, T* out) {
  const int64_t positions = product(g.out), depth = g.channels * product(g.kernel);
  std::fill(out, out + g.groups * g.features * depth, T(0));
  if (g.batch * g.groups * g.features * positions * depth == 0) return;
  const Padded<T> image(input, g.batch * g.groups * g.channels, g.in, input_margins(g));
  const Windows w = input_windows(g, image);
  const int64_t group_stride = g.channels * image.plane();
  if (few(g.groups, g.features)) {
    const int64_t rows = g.out[0] * g.out[1];
    parallel_for(
        0, g.groups * g.features, grain_for(g.batch * positions * depth, kWork / 4), [&](int64_t begin, int64_t end) {
          for (int64_t c = begin; c < end; ++c) {
            for (int64_t p = 0; p < depth; ++p) {
              double sum = 0;
              for (int64_t n = 0; n < g.batch; ++n) {
                const T* dy = grad + (n * g.groups * g.features + c) * positions;
                const T* x =
                    image.data() + (n * g.groups + c / g.features) * group_stride + w.taps[static_cast<size_t>(p)];
                for (int64_t r = 0; r < rows; ++r) {
                  sum += static_cast<double>(conv_loops<T>().correlate(
                      w.out[2], dy + r * w.out[2], x + r / w.out[1] * w.step[0] + r % w.out[1] * w.step[1]));
                }
              }
              out[c * depth + p] = static_cast<T>(sum);
            }
          }
        });
    return;
  }
  const GemmLoops<T>& gemm = gemm_loops<T>();
  const int64_t mr = even_panel(g.features, gemm.mr), nr = gemm.nr, padded = round_up(g.features, mr);
  const int64_t batch_groups = g.batch * g.groups;
  constexpr int64_t kPositions = 256;  // depth of the panels here
  // The gradient in panels of features, position by position.
  const TypedBuffer<T> packed(batch_groups * padded * positions);
  parallel_for(0, batch_groups, grain_for(padded * positions), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t p = 0; p < positions; p += kPositions) {
        const int64_t np = std::min(kPositions, positions - p);
        for (int64_t f = 0; f < g.features; f += mr) {
          gemm.pack(np, std::min(mr, g.features - f), mr, grad + (i * g.features + f) * positions + p, positions, 1,
                    packed.get() + i * padded * positions + p * padded + f * np);
        }
      }
    }
  });
  // Where there are few panels of taps, the batch is cut too, in pieces that do not depend on the
  // number of threads.
  const int64_t columns = (depth + nr - 1) / nr;
  const int64_t pieces = g.groups * columns >= 16 ? 1 : std::min<int64_t>(g.batch, 8);
  const int64_t piece = (g.batch + pieces - 1) / pieces;
  const int64_t size = g.groups * g.features * depth;
  const TypedBuffer<T> partial(pieces > 1 ? pieces * size : 0);
  const int64_t work = std::max<int64_t>(1, g.features * nr * positions * piece);
  parallel_for(0, pieces * g.groups * columns, std::max<int64_t>(1, kWork / work), [&](int64_t begin, int64_t end) {
    const int64_t stride = std::min(kPositions, positions) + kSlack;
    const TypedBuffer<T> buffer(nr * std::min(kPositions, positions) + nr * stride);
    T *panel = buffer.get(), *rows = panel + nr * std::min(kPositions, positions);
    std::vector<Run> runs;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % columns * nr, group = i / columns % g.groups, part = i / columns / g.groups;
      const int64_t count = std::min(nr, depth - column);
      T* to = (pieces > 1 ? partial.get() + part * size : out) + group * g.features * depth + column;
      bool accumulate = false;
      for (int64_t n = part * piece; n < std::min((part + 1) * piece, g.batch); ++n) {
        const int64_t bg = n * g.groups + group;
        for (int64_t p = 0; p < positions; p += kPositions) {
          const int64_t np = std::min(kPositions, positions - p);
          runs_of(w, p, np, runs);
          conv_loops<T>().gather_rows(count, w.taps.data() + column, runs.data(), static_cast<int64_t>(runs.size()),
                                      stride, image.data() + bg * group_stride, rows);
          gemm.pack(np, count, nr, rows, stride, 1, panel);
          const T* a = packed.get() + bg * padded * positions + p * padded;
          for (int64_t f = 0; f < g.features; f += mr) {
            gemm.tile(np, a + f * np, mr, panel, to + f * depth, depth, std::min(mr, g.features - f), count,
                      accumulate);
          }
          accumulate = true;
        }
      }
      if (!accumulate) {
        for (int64_t f = 0; f < g.features; ++f) std::fill(to + f * depth, to + f * depth + count, T(0));
      }
    }
  });
  if (pieces == 1) return;
  for (int64_t part = 0; part < pieces; ++part) {
    const T* from = partial.get() + part * size;
    for (int64_t i = 0; i < size; ++i) out[i] += from[i];
  }
}

template <typename T>
void backward_bias(IntList sizes, const T* grad, T* out) {
  const int64_t channels = sizes[1], positions = numel_of(sizes.subspan(2));
  parallel_for(0, channels, grain_for(sizes[0] * positions), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      double sum = 0;
      for (int64_t n = 0; n < sizes[0] && positions > 0; ++n) {
        sum += norm_loops<T>().sum(positions, grad + (n * channels + c) * positions);
      }
      out[c] = static_cast<T>(sum);
    }
  });
}

#define FACULA_CONV_FOR(T)                                                            \
  template void forward<T>(const Geometry&, const T*, const T*, const T*, T*);        \
  template void backward_input<T>(const Geometry&, const T*, const T*, const T*, T*); \
  template void backward_weight<T>(const Geometry&, const T*, const T*, T*);          \
  template void backward_bias<T>(IntList, const T*, T*);
FACULA_CONV_FOR(float)
FACULA_CONV_FOR(double)
#undef FACULA_CONV_FOR

}  // namespace conv
}  // namespace facula::cpu
