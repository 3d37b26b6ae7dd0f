#include "aten/cpu/conv/direct.h"

#include "aten/cpu/conv/windows.h"
#include "aten/cpu/nn/loops.h"
#include "runtime/core/interrupt.h"

namespace facula::cpu::conv {
namespace {

// Of the taps of an output channel those that meet the image from some outputs of a row; the others are left out where
// they are many, as large kernels see margins more than the image.
template <typename T>
class Met {
 public:
  explicit Met(const Windows& w) : w_(w), all_(static_cast<int64_t>(w.taps.size())) {
    planes_ = all_;
    for (const Reach& r : w.reach) planes_ /= std::max<int64_t>(static_cast<int64_t>(r.taps.size()), 1);
  }
  // Of outputs [x, x + n) of row (z, y), whose weights are those at `weight` for all taps.
  void find(int64_t z, int64_t y, int64_t x, int64_t n, const T* weight) {
    count = all_, taps = w_.taps.data(), weights = weight;
    if (all_ < tuning::kClippedTaps) return;
    const std::array<Range, 3> met{range(0, z, 1), range(1, y, 1), range(2, x, n)};
    const int64_t met_count = planes_ * met[0].size() * met[1].size() * met[2].size();
    if (met_count > all_ - all_ / 8) return;
    count = 0;
    if (met_count == 0) return;
    const auto rows = static_cast<int64_t>(w_.reach[1].taps.size()),
               width = static_cast<int64_t>(w_.reach[2].taps.size());
    some_taps_.resize(static_cast<size_t>(all_));
    some_weights_.resize(static_cast<size_t>(all_));
    for (int64_t c = 0; c < planes_; ++c) {
      for (int64_t i = met[0].first; i < met[0].last; ++i) {
        for (int64_t j = met[1].first; j < met[1].last; ++j) {
          const int64_t from =
              ((c * static_cast<int64_t>(w_.reach[0].taps.size()) + i) * rows + j) * width + met[2].first;
          std::copy_n(w_.taps.data() + from, met[2].size(), some_taps_.data() + count);
          std::copy_n(weight + from, met[2].size(), some_weights_.data() + count);
          count += met[2].size();
        }
      }
    }
    taps = some_taps_.data(), weights = some_weights_.data();
  }
  int64_t count = 0;
  const int64_t* taps = nullptr;
  const T* weights = nullptr;

 private:
  struct Range {
    int64_t first, last;
    int64_t size() const { return last - first; }
  };
  // Taps whose places for the outputs [from, from + n) are of the image for one of them; they rise or fall.
  Range range(size_t d, int64_t from, int64_t n) const {
    const Reach& r = w_.reach[d];
    const auto before = [&](int64_t tap) { return tap + (from + n - 1) * r.step < r.low; };
    const auto beyond = [&](int64_t tap) { return tap + from * r.step >= r.high; };
    const auto begin = r.taps.begin(), end = r.taps.end();
    const bool rises = r.taps.size() < 2 || r.taps[0] < r.taps[1];
    const auto first = rises ? std::partition_point(begin, end, before) : std::partition_point(begin, end, beyond);
    const auto last =
        std::partition_point(first, end, [&](int64_t tap) { return rises ? !beyond(tap) : !before(tap); });
    return {first - begin, last - begin};
  }
  const Windows& w_;
  int64_t all_, planes_;  // planes of taps, one a channel
  std::vector<int64_t> some_taps_;
  std::vector<T> some_weights_;
};

// A row of results of one output channel at a time.
template <typename T>
void multiply_rows(const Windows& w, int64_t batch, int64_t groups, int64_t out_channels, const Weights<T>& weights,
                   const T* bias, const T* image, int64_t group_stride, T* out) {
  const auto depth = static_cast<int64_t>(w.taps.size());
  const TypedBuffer<T> gathered(groups * out_channels * depth);
  T* weight = gathered.get();
  for (int64_t c = 0; c < groups * out_channels; ++c) {
    const T* from = weights.data + c / out_channels * weights.group + c % out_channels * weights.row;
    for (int64_t p = 0; p < depth; ++p) weight[c * depth + p] = from[weights.offsets[static_cast<size_t>(p)]];
  }
  const int64_t rows = w.out[0] * w.out[1], positions = w.positions();
  // Long rows in pieces of whole vectors, with a look for signals between them.
  constexpr int64_t kVectors = 256, kWork = 1 << 22;
  // Pieces of rows that see little of the image at a time are no longer than that.
  const Reach& row = w.reach[2];
  const bool narrow = depth >= tuning::kClippedTaps && (row.high - row.low) / row.step < kVectors;
  const int64_t piece =
      narrow ? kVectors / 4 : std::max(kVectors, kWork / std::max<int64_t>(depth, 1) / kVectors * kVectors);
  const auto steps = static_cast<int32_t>(std::clamp<int64_t>(piece * depth >> 14, 1, 256));
  parallel_for(0, batch * groups * out_channels, grain_for(positions * depth, tuning::kConvWork / 4),
               [&](int64_t begin, int64_t end) {
                 Met<T> met(w);
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t channel = i % (groups * out_channels);
                   const T* source = image + i / out_channels * group_stride;
                   for (int64_t r = 0; r < rows; ++r) {
                     const T* from = source + r / w.out[1] * w.step[0] + r % w.out[1] * w.step[1];
                     for (int64_t x = 0; x < w.out[2]; x += piece) {
                       count_step(steps);
                       const int64_t n = std::min(piece, w.out[2] - x);
                       met.find(r / w.out[1], r % w.out[1], x, n, weight + channel * depth);
                       conv_loops<T>().row(met.count, met.taps, met.weights, bias != nullptr ? bias[channel] : T(0), n,
                                           from + x, out + i * positions + r * w.out[2] + x);
                     }
                   }
                 }
               });
}

}  // namespace

template <typename T>
void direct_forward(const Geometry& g, const T* input, const T* weight, const T* bias, T* out) {
  forward_by<T>(multiply_rows<T>, g, input, weight, bias, out);
}

template <typename T>
void direct_backward_input(const Geometry& g, const T* grad, const T* weight, const T* bias, T* out) {
  backward_input_by<T>(multiply_rows<T>, g, grad, weight, bias, out);
}

template <typename T>
void direct_backward_weight(const Geometry& g, const T* input, const T* grad, T* out) {
  const int64_t positions = product(g.out), depth = g.channels * product(g.kernel);
  std::fill(out, out + g.groups * g.out_channels * depth, T(0));
  if (g.batch * g.groups * g.out_channels * positions * depth == 0) return;
  const Padded<T> image(input, g.batch * g.groups * g.channels, g.in, input_margins(g));
  const Windows w = input_windows(g, image);
  const int64_t group_stride = g.channels * image.plane();
  const int64_t rows = g.out[0] * g.out[1];
  // What is quick for short rows is one sum, which would lose digits of long ones.
  const auto sum_row = w.out[2] <= 256 ? conv_loops<T>().correlate : dot_loops<T>().dot;
  parallel_for(0, g.groups * g.out_channels, grain_for(g.batch * positions * depth, tuning::kConvWork / 4),
               [&](int64_t begin, int64_t end) {
                 for (int64_t c = begin; c < end; ++c) {
                   for (int64_t p = 0; p < depth; ++p) {
                     count_step(16);
                     double sum = 0;
                     for (int64_t n = 0; n < g.batch; ++n) {
                       const T* dy = grad + (n * g.groups * g.out_channels + c) * positions;
                       const T* x = image.data() + (n * g.groups + c / g.out_channels) * group_stride +
                                    w.taps[static_cast<size_t>(p)];
                       for (int64_t r = 0; r < rows; ++r) {
                         const T* from = x + r / w.out[1] * w.step[0] + r % w.out[1] * w.step[1];
                         sum += static_cast<double>(sum_row(w.out[2], dy + r * w.out[2], from));
                       }
                     }
                     out[c * depth + p] = static_cast<T>(sum);
                   }
                 }
               });
}

#define FACULA_DIRECT_FOR(T)                                                                 \
  template void direct_forward<T>(const Geometry&, const T*, const T*, const T*, T*);        \
  template void direct_backward_input<T>(const Geometry&, const T*, const T*, const T*, T*); \
  template void direct_backward_weight<T>(const Geometry&, const T*, const T*, T*);
FACULA_DIRECT_FOR(float)
FACULA_DIRECT_FOR(double)
#undef FACULA_DIRECT_FOR

}  // namespace facula::cpu::conv
