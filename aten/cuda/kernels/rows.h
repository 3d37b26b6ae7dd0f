// Work on whole rows: FACULA_LANES threads a row, values held in registers where they fit.
// Before it stand: FACULA_LANES, FACULA_VEC, FACULA_ITEMS (vectors of a thread; 0: read again each time).
#pragma once

#include "facula/cuda/walk.h"

namespace facula {

constexpr int kRowThreads = FACULA_LANES > 128 ? FACULA_LANES : 128;
constexpr int kRowsOfBlock = kRowThreads / FACULA_LANES;
constexpr int kHeld = FACULA_ITEMS > 0 ? FACULA_ITEMS : 1;

struct Add {
  template <typename A>
  static FD A join(A a, A b) {
    return a + b;
  }
};
struct Largest {
  template <typename A>
  static FD A join(A a, A b) {
    return a > b ? a : b;  // NaN shows in what is summed
  }
};

// Over the threads of a row; all of them get it. Every thread of the block must come here.
template <typename Join, typename A>
FD A over_row(A x) {
#pragma unroll
  for (int distance = (FACULA_LANES < 32 ? FACULA_LANES : 32) / 2; distance > 0; distance /= 2) {
    x = Join::join(x, __shfl_xor_sync(0xffffffffu, x, distance));
  }
  if constexpr (FACULA_LANES > 32) {
    __shared__ A warps[kRowThreads / 32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    const int first = threadIdx.x / FACULA_LANES * (FACULA_LANES / 32);
    x = warps[first];
#pragma unroll
    for (int i = 1; i < FACULA_LANES / 32; ++i) x = Join::join(x, warps[first + i]);
  }
  return x;
}

// Calls each(held index, place, V) for the vectors of this thread.
template <typename F>
FD void each_vector(int64_t length, const F& each) {
  const int lane = threadIdx.x % FACULA_LANES;
  if constexpr (FACULA_ITEMS > 0) {
#pragma unroll
    for (int i = 0; i < FACULA_ITEMS; ++i) {
      const int place = (i * FACULA_LANES + lane) * FACULA_VEC;
      if (place < static_cast<int>(length)) each(i, static_cast<int64_t>(place));
    }
  } else {
    for (int64_t place = static_cast<int64_t>(lane) * FACULA_VEC; place < length; place += FACULA_LANES * FACULA_VEC) {
      each(0, place);
    }
  }
}

// Vectors of a line: dense, or single elements `step` bytes apart.
template <typename S, typename T>
FD void read_vector(const char* line, int64_t place, int64_t step, T (&x)[FACULA_VEC]) {
  Vector<S, FACULA_VEC> v;
  v.load(reinterpret_cast<const S*>(line + place * step));
#pragma unroll
  for (int k = 0; k < FACULA_VEC; ++k) x[k] = load<T>(v.at[k]);
}
template <typename S, typename T>
FD void write_vector(char* line, int64_t place, int64_t step, const T (&x)[FACULA_VEC]) {
  Vector<S, FACULA_VEC> v;
  v.set(x);
  v.store(reinterpret_cast<S*>(line + place * step));
}

// The vectors of a row that this thread holds, as they lie in memory: asked for a row ahead.
template <typename S>
struct HeldRow {
  Vector<S, FACULA_VEC> at[kHeld];
  FD void load(const char* line, int64_t step, int64_t length) {
    if constexpr (FACULA_ITEMS > 0) {
      each_vector(length, [&](int i, int64_t place) { at[i].load(reinterpret_cast<const S*>(line + place * step)); });
    }
  }
  // Vector i of the row, which lies at `place` of the line when it is not held.
  template <typename T>
  FD void get(int i, const char* line, int64_t place, int64_t step, T (&x)[FACULA_VEC]) const {
    if constexpr (FACULA_ITEMS > 0) {
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) x[k] = facula::load<T>(at[i].at[k]);
    } else {
      read_vector<S>(line, place, step, x);
    }
  }
};

}  // namespace facula
