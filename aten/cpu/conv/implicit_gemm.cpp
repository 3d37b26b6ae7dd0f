#include "aten/cpu/conv/implicit_gemm.h"

#include "aten/cpu/common/step_sums.h"
#include "aten/cpu/common/tuning.h"
#include "aten/cpu/conv/windows.h"
#include "aten/cpu/gemm/loops.h"

namespace facula::cpu::conv {
namespace {

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

// Without stride the positions of a whole image with its margins lie in one run, and panels need no
// gathering; the columns of the margins are computed in vain. That pays where they are few for the
// work that a gathered panel would serve.
bool read_in_place(const Windows& w, int64_t out_channels) {
  const int64_t row = w.step[1];
  return w.dense && w.out[0] == 1 && static_cast<int64_t>(w.taps.size()) >= tuning::kInPlaceMinDepth &&
         (row - w.out[2]) * out_channels < tuning::kGatherInProducts * row;
}

template <typename T>
void multiply_in_place(const Windows& w, int64_t batch, int64_t groups, int64_t out_channels, const T* packed,
                       int64_t mr, int64_t padded, const T* bias, const T* image, int64_t group_stride, T* out) {
  const GemmLoops<T>& gemm = gemm_loops<T>();
  const auto depth = static_cast<int64_t>(w.taps.size());
  const int64_t row = w.step[1], positions = w.positions(), columns = (w.out[1] - 1) * row + w.out[2];
  const int64_t nr = gemm.nr, width = tuning::kGatherPanels * nr, tiles = ceil_div(columns, width);
  const int64_t work = std::max<int64_t>(1, out_channels * depth * std::min(width, columns));
  parallel_for(0, batch * groups * tiles, std::max<int64_t>(1, tuning::kConvWork / work),
               [&](int64_t begin, int64_t end) {
                 const TypedBuffer<T> apart(mr * nr);
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t bg = i / tiles, g = bg % groups, first = i % tiles * width,
                                 last = std::min(first + width, columns);
                   T* block = out + bg * out_channels * positions;
                   for (int64_t p = 0; p < depth; p += kPanelDepth) {
                     const int64_t np = std::min(kPanelDepth, depth - p);
                     const T* a = packed + g * padded * depth + p * padded;
                     for (int64_t f = 0; f < out_channels; f += mr) {
                       const int64_t rows = std::min(mr, out_channels - f);
                       for (int64_t c = first; c < last; c += nr) {
                         const T* from = image + bg * group_stride + c;
                         const int64_t cols = std::min(nr, last - c), y = c / row, x = c % row;
                         T* to = block + f * positions + y * w.out[2] + x;
                         if (x + cols <= w.out[2] && p > 0) {
                           gemm.tile_taps(np, a + f * np, mr, from, w.taps.data() + p, {}, to, positions, to, positions,
                                          rows, cols, false);
                           continue;
                         }
                         gemm.tile_taps(np, a + f * np, mr, from, w.taps.data() + p, {}, nullptr, 0, apart.get(), nr,
                                        rows, cols, false);
                         for (int64_t k = 0; k < cols;) {  // the part of each row
                           const int64_t yk = (c + k) / row, xk = (c + k) % row;
                           const int64_t n = std::min(cols - k, row - xk), valid = std::min(n, w.out[2] - xk);
                           for (int64_t r = 0; r < rows && valid > 0; ++r) {
                             const T* part = apart.get() + r * nr + k;
                             T* place = block + (f + r) * positions + yk * w.out[2] + xk;
                             if (p > 0) {
                               for (int64_t q = 0; q < valid; ++q) place[q] += part[q];
                             } else {
                               const T start = bias != nullptr ? bias[g * out_channels + f + r] : T(0);
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
void multiply(const Windows& w, int64_t batch, int64_t groups, int64_t out_channels, const Weights<T>& weights,
              const T* bias, const T* image, int64_t group_stride, T* out) {
  const auto depth = static_cast<int64_t>(w.taps.size());
  const int64_t positions = w.positions(), columns = batch * positions;
  if (groups * out_channels * columns == 0) return;
  const GemmLoops<T>& gemm = gemm_loops<T>();
  const int64_t mr = even_panel(out_channels, gemm.mr), nr = gemm.nr, padded = round_up(out_channels, mr);
  const TypedBuffer<T> packed(groups * padded * depth);
  parallel_for(0, groups * (padded / mr), grain_for(mr * depth), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t g = i / (padded / mr), first = i % (padded / mr) * mr;
      for (int64_t p = 0; p < depth; p += kPanelDepth) {
        const int64_t np = std::min(kPanelDepth, depth - p);
        conv_loops<T>().pack_weights(np, weights.offsets.data() + p, std::min(mr, out_channels - first), weights.row,
                                     mr, weights.data + g * weights.group + first * weights.row,
                                     packed.get() + g * padded * depth + p * padded + first * np);
      }
    }
  });
  if (read_in_place(w, out_channels)) {
    multiply_in_place(w, batch, groups, out_channels, packed.get(), mr, padded, bias, image, group_stride, out);
    return;
  }
  const int64_t width = std::min(tuning::kGatherPanels * nr, round_up(columns, nr));
  const int64_t tiles = ceil_div(columns, width);
  const int64_t work = std::max<int64_t>(1, out_channels * depth * width);
  parallel_for(0, groups * tiles, std::max<int64_t>(1, tuning::kConvWork / work), [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> buffer(width * std::min(depth, kPanelDepth) + kSlack + mr * nr);
    T *panels = buffer.get(), *apart = panels + width * std::min(depth, kPanelDepth) + kSlack;
    std::vector<Run> runs;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t g = i / tiles, first = i % tiles * width, count = std::min(width, columns - first);
      // The result of column c: rows (output channels) are `positions` apart.
      const auto place = [&](int64_t c) {
        return out + (c / positions * groups + g) * out_channels * positions + c % positions;
      };
      if (bias != nullptr) {
        for (int64_t c = first; c < first + count;) {
          const int64_t n = std::min(first + count - c, positions - c % positions);
          T* to = place(c);
          for (int64_t f = 0; f < out_channels; ++f) std::fill_n(to + f * positions, n, bias[g * out_channels + f]);
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
        for (int64_t f = 0; f < out_channels; f += mr) {
          const int64_t rows = std::min(mr, out_channels - f);
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

// The same by runs of the depth, whose results add up in double: of a long sum in T digits would be lost.
template <typename T>
void multiply_runs(const Windows& w, int64_t batch, int64_t groups, int64_t out_channels, const Weights<T>& weights,
                   const T* bias, const T* image, int64_t group_stride, T* out) {
  const auto depth = static_cast<int64_t>(w.taps.size());
  if (depth <= tuning::kLongConvRun)
    return multiply(w, batch, groups, out_channels, weights, bias, image, group_stride, out);
  const int64_t size = batch * groups * out_channels * w.positions();
  const TypedBuffer<double> totals(size);
  // The lists of all taps are not copied: there may be a run for each hundred of millions.
  Windows run{w.out, w.image, {w.step[0], w.step[1]}, w.dense, {}, {}};
  Weights<T> part{weights.data, weights.group, weights.row, {}};
  for (int64_t p = 0; p < depth; p += tuning::kLongConvRun) {
    const int64_t end = std::min(depth, p + tuning::kLongConvRun);
    run.taps.assign(w.taps.begin() + p, w.taps.begin() + end);
    part.offsets.assign(weights.offsets.begin() + p, weights.offsets.begin() + end);
    multiply(run, batch, groups, out_channels, part, p == 0 ? bias : nullptr, image, group_stride, out);
    parallel_for(0, size, grain_for(1), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const double total = (p > 0 ? totals.get()[i] : 0) + static_cast<double>(out[i]);
        totals.get()[i] = total;
        if (end == depth) out[i] = static_cast<T>(total);
      }
    });
  }
}

}  // namespace

template <typename T>
void long_sums_forward(const Geometry& g, const T* input, const T* weight, const T* bias, T* out) {
  forward_by<T>(multiply_runs<T>, g, input, weight, bias, out);
}

template <typename T>
void long_sums_backward_input(const Geometry& g, const T* grad, const T* weight, const T* bias, T* out) {
  backward_input_by<T>(multiply_runs<T>, g, grad, weight, bias, out);
}

template <typename T>
void implicit_gemm_forward(const Geometry& g, const T* input, const T* weight, const T* bias, T* out) {
  forward_by<T>(multiply<T>, g, input, weight, bias, out);
}

template <typename T>
void implicit_gemm_backward_input(const Geometry& g, const T* grad, const T* weight, const T* bias, T* out) {
  backward_input_by<T>(multiply<T>, g, grad, weight, bias, out);
}

template <typename T>
void implicit_gemm_backward_weight(const Geometry& g, const T* input, const T* grad, T* out) {
  const int64_t positions = product(g.out), depth = g.channels * product(g.kernel);
  std::fill(out, out + g.groups * g.out_channels * depth, T(0));
  if (g.batch * g.groups * g.out_channels * positions * depth == 0) return;
  const Padded<T> image(input, g.batch * g.groups * g.channels, g.in, input_margins(g));
  const Windows w = input_windows(g, image);
  const int64_t group_stride = g.channels * image.plane();
  const GemmLoops<T>& gemm = gemm_loops<T>();
  const int64_t mr = even_panel(g.out_channels, gemm.mr), nr = gemm.nr, padded = round_up(g.out_channels, mr);
  const int64_t batch_groups = g.batch * g.groups;
  constexpr int64_t kPositions = tuning::kGatherPositions;
  // The gradient in panels of output channels, position by position.
  const TypedBuffer<T> packed(batch_groups * padded * positions);
  parallel_for(0, batch_groups, grain_for(padded * positions), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t p = 0; p < positions; p += kPositions) {
        const int64_t np = std::min(kPositions, positions - p);
        for (int64_t f = 0; f < g.out_channels; f += mr) {
          gemm.pack(np, std::min(mr, g.out_channels - f), mr, grad + (i * g.out_channels + f) * positions + p,
                    positions, 1, packed.get() + i * padded * positions + p * padded + f * np);
        }
      }
    }
  });
  // Where there are few panels of taps, the batch is cut too, in pieces that do not depend on the
  // number of threads.
  const int64_t columns = ceil_div(depth, nr);
  const int64_t pieces =
      g.groups * columns >= tuning::kWeightMinColumns ? 1 : std::min(g.batch, tuning::kWeightMaxBatchPieces);
  const int64_t piece = ceil_div(g.batch, pieces);
  const int64_t size = g.groups * g.out_channels * depth;
  const TypedBuffer<T> partial(pieces > 1 ? pieces * size : 0);
  const int64_t work = std::max<int64_t>(1, g.out_channels * nr * positions * piece);
  parallel_for(
      0, pieces * g.groups * columns, std::max<int64_t>(1, tuning::kConvWork / work), [&](int64_t begin, int64_t end) {
        const int64_t stride = std::min(kPositions, positions) + kSlack;
        const TypedBuffer<T> buffer(nr * std::min(kPositions, positions) + nr * stride);
        T *panel = buffer.get(), *rows = panel + nr * std::min(kPositions, positions);
        std::vector<Run> runs;
        for (int64_t i = begin; i < end; ++i) {
          const int64_t column = i % columns * nr, group = i / columns % g.groups, part = i / columns / g.groups;
          const int64_t count = std::min(nr, depth - column);
          T* to = (pieces > 1 ? partial.get() + part * size : out) + group * g.out_channels * depth + column;
          StepSums<T> sums(to, g.out_channels, count, depth);
          bool any = false;
          for (int64_t n = part * piece; n < std::min((part + 1) * piece, g.batch); ++n) {
            const int64_t bg = n * g.groups + group;
            for (int64_t p = 0; p < positions; p += kPositions) {
              const int64_t np = std::min(kPositions, positions - p);
              runs_of(w, p, np, runs);
              conv_loops<T>().gather_rows(count, w.taps.data() + column, runs.data(), static_cast<int64_t>(runs.size()),
                                          stride, image.data() + bg * group_stride, rows);
              gemm.pack(np, count, nr, rows, stride, 1, panel);
              const T* a = packed.get() + bg * padded * positions + p * padded;
              const bool accumulate = sums.step();
              for (int64_t f = 0; f < g.out_channels; f += mr) {
                gemm.tile(np, a + f * np, mr, panel, to + f * depth, depth, std::min(mr, g.out_channels - f), count,
                          accumulate);
              }
              any = true;
            }
          }
          sums.finish();
          if (!any) {
            for (int64_t f = 0; f < g.out_channels; ++f) std::fill(to + f * depth, to + f * depth + count, T(0));
          }
        }
      });
  if (pieces == 1) return;
  for (int64_t part = 0; part < pieces; ++part) {
    const T* from = partial.get() + part * size;
    for (int64_t i = 0; i < size; ++i) out[i] += from[i];
  }
}

#define FACULA_IMPLICIT_GEMM_FOR(T)                                                                 \
  template void long_sums_forward<T>(const Geometry&, const T*, const T*, const T*, T*);            \
  template void long_sums_backward_input<T>(const Geometry&, const T*, const T*, const T*, T*);     \
  template void implicit_gemm_forward<T>(const Geometry&, const T*, const T*, const T*, T*);        \
  template void implicit_gemm_backward_input<T>(const Geometry&, const T*, const T*, const T*, T*); \
  template void implicit_gemm_backward_weight<T>(const Geometry&, const T*, const T*, T*);
FACULA_IMPLICIT_GEMM_FOR(float)
FACULA_IMPLICIT_GEMM_FOR(double)
#undef FACULA_IMPLICIT_GEMM_FOR

}  // namespace facula::cpu::conv
