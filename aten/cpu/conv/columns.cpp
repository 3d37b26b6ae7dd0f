#include "aten/cpu/conv/columns.h"

#include "aten/cpu/common/dense.h"
#include "aten/cpu/common/tuning.h"
#include "aten/cpu/conv/loops.h"
#include "aten/cpu/conv/meetings.h"
#include "aten/cpu/conv/unpadded.h"
#include "aten/cpu/gemm/gemm.h"

namespace facula::cpu::conv {

bool columns_fit(const Geometry& g) {
  return saturated_mul(product(g.kernel), product(g.out)) <= tuning::kColumnsMostElements;
}

bool columns_pay(const Geometry& g) {
  return g.out_channels >= tuning::kColumnsMinOutputs && g.out_channels <= tuning::kLongConv &&
         gather_excess(g) > tuning::kColumnsExcess;
}

template <typename T>
void columns_backward_input(const Geometry& given, const T* grad, const T* weight, const T* bias, T* out) {
  const Geometry g = merged(given, false);
  const Rows rows(g);
  const int64_t places = product(g.in), positions = product(g.out), taps = product(g.kernel);
  // Channels at a time, whatever the number of threads and images.
  const int64_t most = std::clamp<int64_t>(tuning::kColumnsElements / (taps * positions), 1, ceil_div(g.channels, 4));
  const int64_t blocks = ceil_div(g.channels, most);
  const int64_t work = std::max<int64_t>(1, most * taps * positions * g.out_channels);
  parallel_for(0, g.batch * g.groups * blocks, std::max<int64_t>(1, tuning::kConvWork / work),
               [&](int64_t begin, int64_t end) {
                 const TypedBuffer<T> columns(most * taps * positions);
                 const TypedBuffer<double> sums(places);
                 double* const to = sums.get();
                 for (int64_t i = begin; i < end; ++i) {
                   // Images one after the other, so that the weights stay in the cache.
                   const int64_t block = i / g.batch, group = block / blocks, plane = i % g.batch * g.groups + group;
                   const int64_t first = block % blocks * most, count = std::min(most, g.channels - first);
                   const T* w = weight + (group * g.out_channels * g.channels + first) * taps;
                   gemm<T>(count * taps, positions, g.out_channels, 1, {w, 1, g.channels * taps},
                           {grad + plane * g.out_channels * positions, positions, 1}, 0, {columns.get(), positions, 1});
                   for (int64_t c = 0; c < count; ++c) {
                     const T* from = columns.get() + c * taps * positions;
                     const int64_t channel = group * g.channels + first + c;
                     std::fill(to, to + places, bias != nullptr ? static_cast<double>(bias[channel]) : 0.0);
                     rows.each([&](int64_t tap, int64_t place, int64_t position, int64_t n) {
                       conv_loops<T>().add_times(n, T(1), from + tap * positions + position,
                                                 rows.along_taps() ? positions : 1, to + place, rows.step());
                     });
                     T* const result = out + (plane * g.channels + first + c) * places;
                     std::transform(to, to + places, result, [](double sum) { return static_cast<T>(sum); });
                   }
                 }
               });
}

template void columns_backward_input<float>(const Geometry&, const float*, const float*, const float*, float*);
template void columns_backward_input<double>(const Geometry&, const double*, const double*, const double*, double*);

}  // namespace facula::cpu::conv
