// The reduction template. Before it stand: types I (elements read), O0, O1... through FACULA_OUTS,
// T (computed in), and `struct Reduction` with
//   Acc init(); void add(Acc&, T, int64_t place); Acc combine(Acc, Acc);
//   void finish(Acc, const ReduceParams&, char* const (&out)[FACULA_OUTS]);
// and FACULA_VEC, FACULA_KEPT and FACULA_REDUCED (numbers of dims), FACULA_WIDE, FACULA_LANES.
// Every order of additions is fixed: the same call gives the same bits.
#pragma once

#include "facula/cuda/types.h"

namespace facula {

struct ReduceParams {
  const char* in;
  char* out[FACULA_OUTS];
  char* scratch;    // an Acc for each part of each output, when there are several parts
  int64_t outputs;  // elements that stay
  int64_t length;   // elements reduced into each
  int64_t part;     // elements of a part
  int64_t parts;
#if FACULA_NUMBERS
  double numbers[FACULA_NUMBERS];
#endif
  int64_t kept_in[FACULA_KEPT], kept_out[FACULA_KEPT][FACULA_OUTS], reduced_in[FACULA_REDUCED];
  // Sizes of all dims but the last, which needs none.
#if FACULA_KEPT > 1
  int64_t kept_sizes[FACULA_KEPT - 1];
#endif
#if FACULA_REDUCED > 1 && FACULA_WIDE
  int64_t reduced_sizes[FACULA_REDUCED - 1];
#elif FACULA_REDUCED > 1
  Divisor reduced_divisors[FACULA_REDUCED - 1];
#endif
};

}  // namespace facula

#include FACULA_REDUCTION_FILE

namespace facula {

using Acc = Reduction::Acc;

// Calls fn(dim, index) with the index of an output along each dim that stays.
template <typename F>
FD void each_kept(const ReduceParams& p, int64_t output, const F& fn) {
#if FACULA_KEPT > 1
#pragma unroll
  for (int d = 0; d < FACULA_KEPT - 1; ++d) {
    const int64_t next = output / p.kept_sizes[d];
    fn(d, output - next * p.kept_sizes[d]);
    output = next;
  }
#endif
  fn(FACULA_KEPT - 1, output);
}
FD const char* input_of(const ReduceParams& p, int64_t output) {
  const char* at = p.in;
  each_kept(p, output, [&](int d, int64_t index) { at += index * p.kept_in[d]; });
  return at;
}
FD void finish(const ReduceParams& p, int64_t output, Acc acc) {
  char* out[FACULA_OUTS];
#pragma unroll
  for (int i = 0; i < FACULA_OUTS; ++i) out[i] = p.out[i];
  each_kept(p, output, [&](int d, int64_t index) {
#pragma unroll
    for (int i = 0; i < FACULA_OUTS; ++i) out[i] += index * p.kept_out[d][i];
  });
  Reduction::finish(acc, p, out);
}
// Where element `i` of those to reduce lies.
FD int64_t place_of(const ReduceParams& p, int64_t i) {
#if FACULA_REDUCED == 1
  return i * p.reduced_in[0];
#elif FACULA_WIDE
  int64_t at = 0;
#pragma unroll
  for (int d = 0; d < FACULA_REDUCED - 1; ++d) {
    const int64_t next = i / p.reduced_sizes[d];
    at += (i - next * p.reduced_sizes[d]) * p.reduced_in[d];
    i = next;
  }
  return at + i * p.reduced_in[FACULA_REDUCED - 1];
#else
  int64_t at = 0;
  uint32_t rest = static_cast<uint32_t>(i);
#pragma unroll
  for (int d = 0; d < FACULA_REDUCED - 1; ++d) {
    const uint32_t next = p.reduced_divisors[d].divide(rest);
    at += static_cast<int64_t>(rest - next * p.reduced_divisors[d].d) * p.reduced_in[d];
    rest = next;
  }
  return at + static_cast<int64_t>(rest) * p.reduced_in[FACULA_REDUCED - 1];
#endif
}

constexpr int kAccWords = (static_cast<int>(sizeof(Acc)) + 3) / 4;
union Words {
  Acc acc;
  uint32_t word[kAccWords];
  FD Words() {}
};
static_assert(sizeof(Acc) <= 48);

FD Acc shuffled(Acc acc, int distance) {
  Words w;
  w.acc = acc;
#pragma unroll
  for (int i = 0; i < kAccWords; ++i) w.word[i] = __shfl_down_sync(0xffffffffu, w.word[i], distance);
  return w.acc;
}

constexpr int kThreads = 256;

// The Acc of FACULA_LANES neighbouring threads, right in the first of them.
FD Acc combine_lanes(Acc acc) {
#if FACULA_LANES > 32
  __shared__ Words warps[kThreads / 32];
#endif
#pragma unroll
  for (int distance = (FACULA_LANES < 32 ? FACULA_LANES : 32) / 2; distance > 0; distance /= 2) {
    const Acc other = shuffled(acc, distance);
    acc = Reduction::combine(acc, other);
  }
#if FACULA_LANES > 32
  const int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) warps[warp].acc = acc;
  __syncthreads();
  if (threadIdx.x % FACULA_LANES == 0) {
#pragma unroll
    for (int i = 1; i < FACULA_LANES / 32; ++i) acc = Reduction::combine(acc, warps[warp + i].acc);
  }
#endif
  return acc;
}

FD void deliver(const ReduceParams& p, int64_t output, Acc acc) {
  if (p.parts == 1) {
    finish(p, output, acc);
  } else {
    reinterpret_cast<Acc*>(p.scratch)[blockIdx.y * p.outputs + output] = acc;
  }
}

}  // namespace facula

using namespace facula;

#if FACULA_ROWS
// FACULA_LANES threads reduce one output; elements lie side by side when FACULA_VEC > 1.
extern "C" __global__ void __launch_bounds__(kThreads) facula_reduce(const __grid_constant__ ReduceParams p) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * (kThreads / FACULA_LANES) + threadIdx.x / FACULA_LANES;
  const int lane = threadIdx.x % FACULA_LANES;
  constexpr int kAccs = FACULA_VEC < 4 ? 4 : (FACULA_VEC > 4 ? 4 : FACULA_VEC);
  Acc acc[kAccs];
#pragma unroll
  for (int k = 0; k < kAccs; ++k) acc[k] = Reduction::init();
  if (output < p.outputs) {
    const char* const in = input_of(p, output);
    const int64_t begin = blockIdx.y * p.part, end = begin + p.part < p.length ? begin + p.part : p.length;
    int64_t i = begin;
#if FACULA_VEC > 1
    constexpr int kStep = FACULA_LANES * FACULA_VEC;
    constexpr int kUnroll = 4;
    const I* const row = reinterpret_cast<const I*>(in);
    for (; i + kStep * kUnroll <= end; i += kStep * kUnroll) {
      Vector<I, FACULA_VEC> x[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) x[u].load(row + i + u * kStep + lane * FACULA_VEC);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
        for (int k = 0; k < FACULA_VEC; ++k) {
          Reduction::add(acc[k % kAccs], load<T>(x[u].at[k]), i + u * kStep + lane * FACULA_VEC + k);
        }
      }
    }
    for (; i + kStep <= end; i += kStep) {
      Vector<I, FACULA_VEC> x;
      x.load(row + i + lane * FACULA_VEC);
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) Reduction::add(acc[k % kAccs], load<T>(x.at[k]), i + lane * FACULA_VEC + k);
    }
    for (i += lane; i < end; i += FACULA_LANES) Reduction::add(acc[0], load<T>(row[i]), i);
#else
    for (i += lane; i + 3 * FACULA_LANES < end; i += 4 * FACULA_LANES) {
      I x[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) x[u] = *reinterpret_cast<const I*>(in + place_of(p, i + u * FACULA_LANES));
#pragma unroll
      for (int u = 0; u < 4; ++u) Reduction::add(acc[u], load<T>(x[u]), i + u * FACULA_LANES);
    }
    for (; i < end; i += FACULA_LANES)
      Reduction::add(acc[0], load<T>(*reinterpret_cast<const I*>(in + place_of(p, i))), i);
#endif
  }
#pragma unroll
  for (int k = 1; k < kAccs; ++k) acc[0] = Reduction::combine(acc[0], acc[k]);
  const Acc whole = combine_lanes(acc[0]);
  if (output < p.outputs && lane == 0) deliver(p, output, whole);
}

#else
// Outputs lie side by side: a thread has FACULA_VEC of them, the 8 rows of threads share the elements.
extern "C" __global__ void __launch_bounds__(kThreads) facula_reduce(const __grid_constant__ ReduceParams p) {
  constexpr int kRows = kThreads / 32;
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32;
  const int64_t output = (static_cast<int64_t>(blockIdx.x) * 32 + lane) * FACULA_VEC;
  Acc acc[FACULA_VEC];
#pragma unroll
  for (int k = 0; k < FACULA_VEC; ++k) acc[k] = Reduction::init();
  if (output < p.outputs) {
    const char* const in = input_of(p, output);
    const int64_t begin = blockIdx.y * p.part, end = begin + p.part < p.length ? begin + p.part : p.length;
    int64_t i = begin + row;
    for (; i + 3 * kRows < end; i += 4 * kRows) {
      Vector<I, FACULA_VEC> x[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) x[u].load(reinterpret_cast<const I*>(in + place_of(p, i + u * kRows)));
#pragma unroll
      for (int u = 0; u < 4; ++u) {
#pragma unroll
        for (int k = 0; k < FACULA_VEC; ++k) Reduction::add(acc[k], load<T>(x[u].at[k]), i + u * kRows);
      }
    }
    for (; i < end; i += kRows) {
      Vector<I, FACULA_VEC> x;
      x.load(reinterpret_cast<const I*>(in + place_of(p, i)));
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) Reduction::add(acc[k], load<T>(x.at[k]), i);
    }
  }
  __shared__ Words rows[kRows][32];
#pragma unroll
  for (int k = 0; k < FACULA_VEC; ++k) {
    rows[row][lane].acc = acc[k];
    __syncthreads();
    if (row == k % kRows && output + k < p.outputs) {
      Acc whole = rows[0][lane].acc;
#pragma unroll
      for (int r = 1; r < kRows; ++r) whole = Reduction::combine(whole, rows[r][lane].acc);
      deliver(p, output + k, whole);
    }
    __syncthreads();
  }
}
#endif

// A warp an output combines its parts.
extern "C" __global__ void __launch_bounds__(kThreads) facula_reduce_parts(const __grid_constant__ ReduceParams p) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  Acc acc = Reduction::init();
  if (output < p.outputs) {
    for (int64_t i = lane; i < p.parts; i += 32) {
      acc = Reduction::combine(acc, reinterpret_cast<const Acc*>(p.scratch)[i * p.outputs + output]);
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const Acc other = shuffled(acc, distance);
    acc = Reduction::combine(acc, other);
  }
  if (output < p.outputs && lane == 0) finish(p, output, acc);
}
