// Every pointwise operator. The host writes before this file:
//   types T, A0... (what the formula reads), I0... O0... (elements), the function formula(),
//   FACULA_INS, FACULA_OUTS, FACULA_SCALARS (inputs that are numbers of the host),
//   FACULA_SPLATS (inputs that stay along a vector), FACULA_VEC, FACULA_UNROLL, FACULA_DIMS,
//   FACULA_FORM (0 linear, 1 strided, 2 tiled), FACULA_WIDE (64-bit offsets),
//   FACULA_EACH_IN(X), FACULA_EACH_OUT(X) and FACULA_ARGS(k), which lists p.numbers where the formula has any
//   (FACULA_NUMBERS), in0[k], ..., out0[k].
// Of a group of operators (FACULA_GROUP, not tiled) it writes the function group<V>() of arrays in the place of formula(),
// and FACULA_GROUP_ARGS.
#include "facula/cuda/types.h"

namespace facula {

constexpr int kOperands = FACULA_INS + FACULA_OUTS;
#if FACULA_WIDE
using Offset = int64_t;
#else
using Offset = int32_t;
#endif

constexpr bool is_scalar(int i) { return (FACULA_SCALARS >> i & 1) != 0; }
constexpr bool is_splat(int i) { return (FACULA_SPLATS >> i & 1) != 0; }
constexpr int scalars_before(int i) {
  int n = 0;
  for (int k = 0; k < i; ++k) n += is_scalar(k);
  return n;
}

// Nothing that the form does not read: the driver copies all of it at each launch.
struct Params {
  char* data[kOperands];  // outputs first
  int64_t count;          // vectors in all
#if FACULA_NUMBERS
  Numbers numbers;
#endif
#if FACULA_SCALARS
  Slot scalars[scalars_before(FACULA_INS)];
#endif
#if FACULA_FORM == 1 && !FACULA_WIDE
  int32_t strides[FACULA_DIMS][kOperands];                    // in bytes
  Divisor divisors[FACULA_DIMS > 1 ? FACULA_DIMS - 1 : 1];  // by the sizes of all dims but the last
#elif FACULA_FORM
  int64_t strides[FACULA_DIMS][kOperands];
  int64_t sizes[FACULA_DIMS];
#endif
};

template <typename A, typename S, int V, int kInput>
struct Input {
  Vector<S, V> x;
  S one;
  FD void load(const Params&, const char* p) {
    if constexpr (is_scalar(kInput)) {
    } else if constexpr (is_splat(kInput)) {
      one = *reinterpret_cast<const S*>(p);
    } else {
      x.load(reinterpret_cast<const S*>(p));
    }
  }
  FD A get(const Params& p, int k) const {
#if FACULA_SCALARS
    if constexpr (is_scalar(kInput)) return p.scalars[scalars_before(kInput)].template get<A>();
#endif
    if constexpr (is_splat(kInput)) {
      return facula::load<A>(one);
    } else {
      return x.template get<A>(k);
    }
  }
};

// UNROLL vectors: all loads go out before the first value is needed.
template <int V, int U>
struct Work {
#define X(i) Input<A##i, I##i, V, i> in##i[U];
  FACULA_EACH_IN(X)
#undef X
  FD void load(const Params& p, int u, const Offset (&at)[kOperands]) {
#define X(i) in##i[u].load(p, p.data[FACULA_OUTS + i] + at[FACULA_OUTS + i]);
    FACULA_EACH_IN(X)
#undef X
  }
  FD void store(const Params& p, int u, const Offset (&at)[kOperands]) {
#define X(i) Y##i y##i[V];
    FACULA_EACH_OUT(X)
#undef X
#if FACULA_GROUP
#define X(i)                                                               \
  A##i a##i[V];                                                            \
  _Pragma("unroll") for (int k = 0; k < V; ++k) a##i[k] = in##i[u].get(p, k);
    FACULA_EACH_IN(X)
#undef X
    group<V>(FACULA_GROUP_ARGS);
#else
#pragma unroll
    for (int k = 0; k < V; ++k) formula(FACULA_ARGS(k));
#endif
#define X(i)                                                     \
  {                                                              \
    Vector<O##i, V> out;                                         \
    out.set(y##i);                                               \
    out.store(reinterpret_cast<O##i*>(p.data[i] + at[i]));       \
  }
    FACULA_EACH_OUT(X)
#undef X
  }
};

constexpr int kThreads = 256;

}  // namespace facula

using namespace facula;

#if FACULA_FORM == 0
// Everything lies side by side; the last block may have less to do.
extern "C" __global__ void __launch_bounds__(kThreads) facula_pointwise(const __grid_constant__ Params params) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kThreads * FACULA_UNROLL) * FACULA_VEC;
  Params p = params;
#define X(i) p.data[i] += first * static_cast<int64_t>(sizeof(O##i));
  FACULA_EACH_OUT(X)
#undef X
#define X(i) p.data[FACULA_OUTS + i] += is_scalar(i) || is_splat(i) ? 0 : first * static_cast<int64_t>(sizeof(I##i));
  FACULA_EACH_IN(X)
#undef X
  const auto places = [](int element, Offset(&at)[kOperands]) {
#define X(i) at[i] = element * static_cast<int>(sizeof(O##i));
    FACULA_EACH_OUT(X)
#undef X
#define X(i) at[FACULA_OUTS + i] = is_splat(i) ? 0 : element * static_cast<int>(sizeof(I##i));
    FACULA_EACH_IN(X)
#undef X
  };
  const int64_t left = p.count - first;
  if (left >= kThreads * FACULA_UNROLL * FACULA_VEC) {
    Work<FACULA_VEC, FACULA_UNROLL> work;
    Offset at[FACULA_UNROLL][kOperands];
#pragma unroll
    for (int u = 0; u < FACULA_UNROLL; ++u) {
      places((u * kThreads + static_cast<int>(threadIdx.x)) * FACULA_VEC, at[u]);
      work.load(p, u, at[u]);
    }
#pragma unroll
    for (int u = 0; u < FACULA_UNROLL; ++u) work.store(p, u, at[u]);
  } else {
    for (int i = threadIdx.x; i < left; i += kThreads) {
      Work<1, 1> work;
      Offset at[kOperands];
      places(i, at);
      work.load(p, 0, at);
      work.store(p, 0, at);
    }
  }
}

#elif FACULA_FORM == 1
// Any strides; FACULA_VEC elements side by side along the first dim.
FD void strided_places(const Params& p, int64_t index, Offset (&at)[kOperands]) {
#pragma unroll
  for (int i = 0; i < kOperands; ++i) at[i] = 0;
#if FACULA_WIDE
  int64_t rest = index;
#else
  uint32_t rest = static_cast<uint32_t>(index);
#endif
#pragma unroll
  for (int d = 0; d < FACULA_DIMS; ++d) {
#if FACULA_WIDE
    const int64_t next = d + 1 < FACULA_DIMS ? rest / p.sizes[d] : 0;
    const int64_t here = d + 1 < FACULA_DIMS ? rest - next * p.sizes[d] : rest;
#else
    const uint32_t next = d + 1 < FACULA_DIMS ? p.divisors[d].divide(rest) : 0;
    const uint32_t here = d + 1 < FACULA_DIMS ? rest - next * p.divisors[d].d : rest;
#endif
#pragma unroll
    for (int i = 0; i < kOperands; ++i) at[i] += static_cast<Offset>(here) * static_cast<Offset>(p.strides[d][i]);
    rest = next;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) facula_pointwise(const __grid_constant__ Params p) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kThreads * FACULA_UNROLL) + threadIdx.x;
  Work<FACULA_VEC, FACULA_UNROLL> work;
  Offset at[FACULA_UNROLL][kOperands];
#pragma unroll
  for (int u = 0; u < FACULA_UNROLL; ++u) {
    const int64_t index = first + u * kThreads;
    if (index < p.count) {
      strided_places(p, index, at[u]);
      work.load(p, u, at[u]);
    }
  }
#pragma unroll
  for (int u = 0; u < FACULA_UNROLL; ++u) {
    if (first + u * kThreads < p.count) work.store(p, u, at[u]);
  }
}

#else
// Outputs run along dim 0, the inputs of FACULA_TURNED along dim 1: these go through shared memory.
constexpr bool is_turned(int i) { return (FACULA_TURNED >> i & 1) != 0; }
constexpr int kTile = FACULA_TILE, kRows = kThreads / 32;
template <typename S>
struct Tile {
  // an odd number of banks from row to row; from pair of rows to pair when elements go in pairs
  static constexpr int kPitch = kTile + (sizeof(S) >= 4 || FACULA_VEC > 1 ? 1 : 4 / static_cast<int>(sizeof(S)));
  S at[kTile * kPitch];
};
template <typename S, bool kUsed>
struct MaybeTile {
  S at[1];  // never touched
};
template <typename S>
struct MaybeTile<S, true> : Tile<S> {};

extern "C" __global__ void __launch_bounds__(kThreads) facula_pointwise(const __grid_constant__ Params p) {
#define X(i) __shared__ MaybeTile<I##i, is_turned(i)> tile##i;
  FACULA_EACH_IN(X)
#undef X
  // blocks: tiles of dim 0, of dim 1, then the other dims
  const int64_t tiles0 = ceil_div(p.sizes[0], kTile), tiles1 = ceil_div(p.sizes[1], kTile);
  int64_t rest = blockIdx.x;
  const int64_t begin0 = rest % tiles0 * kTile;
  rest /= tiles0;
  const int64_t begin1 = rest % tiles1 * kTile;
  rest /= tiles1;
  const char* data[kOperands];
#pragma unroll
  for (int i = 0; i < kOperands; ++i) data[i] = p.data[i] + begin0 * p.strides[0][i] + begin1 * p.strides[1][i];
#pragma unroll
  for (int d = 2; d < FACULA_DIMS; ++d) {
    const int64_t here = rest % p.sizes[d];
    rest /= p.sizes[d];
#pragma unroll
    for (int i = 0; i < kOperands; ++i) data[i] += here * p.strides[d][i];
  }
  const int size0 = static_cast<int>(p.sizes[0] - begin0 < kTile ? p.sizes[0] - begin0 : kTile);
  const int size1 = static_cast<int>(p.sizes[1] - begin1 < kTile ? p.sizes[1] - begin1 : kTile);
  constexpr int kLine = 32 * FACULA_VEC;  // elements of a warp
  const int lane = threadIdx.x % 32 * FACULA_VEC, row = threadIdx.x / 32;
#define X(i)                                                                                      \
  if constexpr (is_turned(i)) {                                                                   \
    _Pragma("unroll") for (int b = 0; b < kTile; b += kRows) {                                    \
      _Pragma("unroll") for (int a = 0; a < kTile; a += kLine) {                                  \
        if (b + row < size0 && a + lane < size1) {                                                \
          Vector<I##i, FACULA_VEC> v;                                                             \
          v.load(reinterpret_cast<const I##i*>(data[FACULA_OUTS + i] +                            \
                                               (b + row) * p.strides[0][FACULA_OUTS + i]) +       \
                 a + lane);                                                                       \
          _Pragma("unroll") for (int k = 0; k < FACULA_VEC; ++k) {                                \
            tile##i.at[(b + row) * Tile<I##i>::kPitch + a + lane + k] = v.at[k];                  \
          }                                                                                       \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
  }
  FACULA_EACH_IN(X)
#undef X
  __syncthreads();
#pragma unroll
  for (int b = 0; b < kTile; b += kRows) {
#pragma unroll
    for (int a = 0; a < kTile; a += kLine) {
      const int at0 = a + lane, at1 = b + row;
      if (at0 < size0 && at1 < size1) {
#define X(i) Y##i y##i[FACULA_VEC];
        FACULA_EACH_OUT(X)
#undef X
#pragma unroll
        for (int k = 0; k < FACULA_VEC; ++k) {
          constexpr int u = 0;
#define X(i)                                                                                          \
  struct Element##i {                                                                                 \
    const Params& p;                                                                                  \
    Input<A##i, I##i, 1, i> one;                                                                      \
    FD A##i get(const Params&, int) const { return one.get(p, 0); }                                   \
  };                                                                                                  \
  Element##i in##i[1] = {{p, {}}};                                                                    \
  if constexpr (is_turned(i)) {                                                                       \
    in##i[0].one.x.at[0] = tile##i.at[(at0 + k) * Tile<I##i>::kPitch + at1];                          \
  } else if constexpr (!is_scalar(i)) {                                                               \
    in##i[0].one.load(p, data[FACULA_OUTS + i] + (at0 + k) * p.strides[0][FACULA_OUTS + i] +          \
                             at1 * p.strides[1][FACULA_OUTS + i]);                                    \
  }
          FACULA_EACH_IN(X)
#undef X
          formula(FACULA_ARGS(k));
        }
#define X(i)                                                                                            \
  {                                                                                                     \
    Vector<O##i, FACULA_VEC> v;                                                                         \
    v.set(y##i);                                                                                        \
    v.store(reinterpret_cast<O##i*>(const_cast<char*>(data[i]) + at0 * p.strides[0][i] + at1 * p.strides[1][i])); \
  }
        FACULA_EACH_OUT(X)
#undef X
      }
    }
  }
}
#endif
