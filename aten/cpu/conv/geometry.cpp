#include "aten/cpu/conv/geometry.h"

namespace facula::cpu::conv {

std::vector<Phase> phases_of(const Geometry& g, size_t d, bool back) {
  std::vector<Phase> all;
  for (int64_t r = 0; r < (back ? std::min(g.stride[d], g.in[d]) : 1); ++r) {
    Phase p{r, back ? ceil_div(g.in[d] - r, g.stride[d]) : g.out[d], {}, {}};
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

}  // namespace facula::cpu::conv
