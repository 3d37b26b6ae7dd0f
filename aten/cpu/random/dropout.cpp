#include <algorithm>
#include <cstring>

#include "aten/cpu/random/dropout_loops.h"
#include "aten/cpu/common/dense.h"
#include "aten/cpu/random/random.h"
#include "facula/kernels.h"
#include "runtime/core/rounding.h"
#include "runtime/iterate/stream.h"

namespace facula::cpu {

void native_dropout(const Tensor& input, double p, const Generator& generator, const Tensor& out, const Tensor& mask) {
  // One draw from the stream, whatever the size.
  const Philox stream = generator_for(generator, input.device(), "dropout").next();
  const auto threshold = static_cast<uint64_t>(p * 4294967296.0 + 0.5);
  const Tensor x = dense_compute(input);
  const int64_t row = drawn_row();
  into_dense(mask, ScalarType::Bool, [&](const Tensor& keep) {
    into_dense(out, x.dtype(), [&](const Tensor& y) {
      const DropoutLoops& loops = FACULA_BY_ISA(dropout_loops);
      const int64_t n = x.numel();
      const bool past = static_cast<int64_t>(y.nbytes()) >= kStreamBytes && y.raw() != x.raw();
      const auto apply = [&](int64_t at, int64_t count) {
        const bool* k = keep.data<bool>() + at;
        if (x.dtype() == ScalarType::Float64) {
          loops.apply_double(count, x.data<double>() + at, k, 1.0 / (1.0 - p), y.data<double>() + at, past);
        } else {
          loops.apply_float(count, x.data<float>() + at, k, static_cast<float>(1.0 / (1.0 - p)), y.data<float>() + at,
                            past);
        }
      };
      if (row > 0) {  // what is drawn for the first serves all
        bool* const k = keep.data<bool>();
        for (int64_t g = 0; g * kRandomGroup < row; ++g) {
          uint32_t words[kRandomGroup];
          const int64_t at = g * kRandomGroup;
          FACULA_BY_ISA(random_table).words({stream.seed(), stream.offset()}, g, g + 1, words);
          loops.mask(std::min<int64_t>(kRandomGroup, row - at), words, threshold, k + at);
        }
        for (int64_t at = row; at < n; at += row) std::memcpy(k + at, k, static_cast<size_t>(row));
        apply(0, n);
        if (past) stream_done();
        return;
      }
      parallel_for(0, ceil_div(n, kRandomGroup), 512, [&](int64_t begin, int64_t end) {
        constexpr int64_t kStep = 16;  // groups whose mask is still in cache when it is applied
        uint32_t words[kStep * kRandomGroup];
        for (int64_t g = begin; g < end; g += kStep) {
          const int64_t last = std::min(g + kStep, end);
          const int64_t at = g * kRandomGroup, count = std::min(last * kRandomGroup, n) - at;
          FACULA_BY_ISA(random_table).words({stream.seed(), stream.offset()}, g, last, words);
          loops.mask(count, words, threshold, keep.data<bool>() + at);
          apply(at, count);
        }
        if (past) stream_done();
      });
    });
  });
}

}  // namespace facula::cpu
