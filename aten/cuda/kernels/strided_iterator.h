// The elements of K operands in one order: strides in bytes, outermost dim first.
#pragma once

#include "facula/cuda/types.h"

namespace facula {

template <int K>
struct StridedIterator {
  int64_t count;
  int64_t ndim;
  int64_t sizes[kMaxDims];
  int64_t strides[K][kMaxDims];
  FD void places(int64_t i, int64_t (&at)[K]) const {
#pragma unroll
    for (int k = 0; k < K; ++k) at[k] = 0;
    for (int d = static_cast<int>(ndim) - 1; d >= 0; --d) {
      int64_t next, here;
      if (((i | sizes[d]) >> 32) == 0) {
        next = static_cast<uint32_t>(i) / static_cast<uint32_t>(sizes[d]);
      } else {
        next = i / sizes[d];
      }
      here = i - next * sizes[d];
#pragma unroll
      for (int k = 0; k < K; ++k) at[k] += here * strides[k][d];
      i = next;
    }
  }
};

FD int64_t thread_index() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
FD int64_t thread_count() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

}  // namespace facula
