// Groups with steps along rows: FACULA_LANES threads a row, which is read once where it fits in registers. Elements are
// shared among threads, and their sums among accumulators, as reduce.h has them, so that results have the same bits.
// Before it stand: FACULA_LANES, FACULA_VEC, FACULA_ITEMS and FACULA_TAILS (vectors and single elements of a thread),
// FACULA_HELD (whether they stay in registers), FACULA_GUARDED (the last vectors may lie behind the row; no tails
// then).
#pragma once

#include "facula/cuda/rows.h"

namespace facula {

constexpr int kStep = FACULA_LANES * FACULA_VEC;
constexpr int kAhead = 4;  // loads on their way, of rows that are read again
constexpr int kVectors = FACULA_HELD ? FACULA_ITEMS : kAhead, kSingles = FACULA_HELD ? FACULA_TAILS : kAhead;

template <int V>
struct Width {
  static constexpr int value = V;
};

// An operand along a row: dense, or elements `step` bytes apart.
template <typename S, bool kDense>
struct Along {
  const char* at;
  int64_t step;
  Vector<S, FACULA_VEC> vectors[kVectors > 0 ? kVectors : 1];
  S singles[kSingles > 0 ? kSingles : 1];

  FD void load_vector(int i, int place) {
    if constexpr (kDense) {
      vectors[i].load(reinterpret_cast<const S*>(at) + place);
    } else {
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) vectors[i].at[k] = *reinterpret_cast<const S*>(at + (place + k) * step);
    }
  }
  FD void load_single(int i, int place) {
    singles[i] = *reinterpret_cast<const S*>(at + place * (kDense ? static_cast<int64_t>(sizeof(S)) : step));
  }
  // Of values that a phase makes for those after it.
  template <typename A, int V>
  FD void put(Width<V>, int i, const A (&x)[V]) {
    if constexpr (V == 1) {
      singles[i] = element<S>(x[0]);
    } else {
      vectors[i].set(x);
    }
  }
  template <typename A, int V>
  FD void get(Width<V>, int i, A (&x)[V]) const {
    if constexpr (V == 1) {
      x[0] = facula::load<A>(singles[i]);
    } else {
#pragma unroll
      for (int k = 0; k < V; ++k) x[k] = vectors[i].template get<A>(k);
    }
  }
};

// What stays in registers; all is asked for before the first is used.
template <typename In>
FD void load_held(In& in, int length) {
#if FACULA_HELD
  const int lane = threadIdx.x % FACULA_LANES;
#pragma unroll
  for (int i = 0; i < FACULA_ITEMS; ++i) {
    const int place = (i * FACULA_LANES + lane) * FACULA_VEC;
    if (!FACULA_GUARDED || place < length) in.load_vector(i, place);
  }
#pragma unroll
  for (int i = 0; i < FACULA_TAILS; ++i) {
    const int place = FACULA_ITEMS * kStep + i * FACULA_LANES + lane;
    if (place < length) in.load_single(i, place);
  }
#endif
}

// Calls f(width, held index, place, accumulator, whole): a single element that is not one of a whole four goes to the
// first accumulator.
template <typename In, typename F>
FD void each(In& in, int length, const F& f) {
  const int lane = threadIdx.x % FACULA_LANES;
#if FACULA_HELD
#pragma unroll
  for (int i = 0; i < FACULA_ITEMS; ++i) {
    const int place = (i * FACULA_LANES + lane) * FACULA_VEC;
    if (!FACULA_GUARDED || place < length) f(Width<FACULA_VEC>(), i, place, 0, false);
  }
#pragma unroll
  for (int i = 0; i < FACULA_TAILS; ++i) {
    const int place = FACULA_ITEMS * kStep + i * FACULA_LANES + lane;
    if (place < length) f(Width<1>(), i, place, i % 4, FACULA_VEC == 1 && place + (3 - i % 4) * FACULA_LANES < length);
  }
#else
  int place = lane * FACULA_VEC;
#if FACULA_VEC > 1
  const int end = FACULA_GUARDED ? length : length / kStep * kStep;
  for (; place + (kAhead - 1) * kStep < end; place += kAhead * kStep) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) in.load_vector(u, place + u * kStep);
#pragma unroll
    for (int u = 0; u < kAhead; ++u) f(Width<FACULA_VEC>(), u, place + u * kStep, 0, false);
  }
  for (; place < end; place += kStep) {
    in.load_vector(0, place);
    f(Width<FACULA_VEC>(), 0, place, 0, false);
  }
  if (FACULA_GUARDED) return;
  place = end + lane;
#endif
  for (; place + (kAhead - 1) * FACULA_LANES < length; place += kAhead * FACULA_LANES) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) in.load_single(u, place + u * FACULA_LANES);
#pragma unroll
    for (int u = 0; u < kAhead; ++u) f(Width<1>(), u, place + u * FACULA_LANES, u, FACULA_VEC == 1);
  }
  for (; place < length; place += FACULA_LANES) {
    in.load_single(0, place);
    f(Width<1>(), 0, place, 0, false);
  }
#endif
}

// What a thread has reduced of a row.
template <typename R>
struct Partial {
  typename R::Acc at[4];
  FD Partial() {
#pragma unroll
    for (int k = 0; k < 4; ++k) at[k] = R::init();
  }
  template <typename T, typename X, int V>
  FD void add(Width<V>, const X (&x)[V], int64_t place, int u, bool whole) {
    if constexpr (V > 1) {
#pragma unroll
      for (int k = 0; k < V; ++k) R::add(at[k % 4], convert<T>(x[k]), place + k);
    } else if (whole) {
      R::add(at[u], convert<T>(x[0]), place);
    } else {
      R::add(at[0], convert<T>(x[0]), place);
    }
  }
};

// Partials of the threads of a row, combined in the order of reduce.h; all of them get the result. Every thread of the
// block must come here; places by turns as in RowReduction.
class OrderedReduction {
  int turn_ = 0;
  template <typename Acc>
  union Words {
    // Where every thread has elements for sure, nobody need be told that it has any.
    static constexpr bool kKnown = FACULA_HELD && FACULA_ITEMS > 0 && !FACULA_GUARDED && requires(Acc a) { a.any; };
    static constexpr int kAll = (static_cast<int>(sizeof(Acc)) + 3) / 4;
    static constexpr int count() {
      if constexpr (kKnown) return (static_cast<int>(sizeof(typename Acc::Element)) + 3) / 4;
      return kAll;
    }
    static constexpr int kCount = count();
    Acc acc;
    uint32_t word[kAll];
    FD Words() {}
    FD Acc got() const {
      Acc other = acc;
      if constexpr (kKnown) other.any = true;
      return other;
    }
  };

 public:
  template <typename R>
  FD typename R::Acc over(const Partial<R>& partial) {
    using Acc = typename R::Acc;
    Acc acc = partial.at[0];
#pragma unroll
    for (int k = 1; k < 4; ++k) acc = R::combine(acc, partial.at[k]);
    Words<Acc> w;
#pragma unroll
    for (int distance = (FACULA_LANES < 32 ? FACULA_LANES : 32) / 2; distance > 0; distance /= 2) {
      w.acc = acc;
#pragma unroll
      for (int i = 0; i < w.kCount; ++i) w.word[i] = __shfl_down_sync(0xffffffffu, w.word[i], distance);
      acc = R::combine(acc, w.got());
    }
    if constexpr (FACULA_LANES > 32) {
      __shared__ Words<Acc> places[2][kRowThreads / 32];
      Words<Acc>(&warps)[kRowThreads / 32] = places[turn_];
      turn_ ^= 1;
      if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32].acc = acc;
      __syncthreads();
      const int first = threadIdx.x / FACULA_LANES * (FACULA_LANES / 32);
      acc = warps[first].got();
#pragma unroll
      for (int i = 1; i < FACULA_LANES / 32; ++i) acc = R::combine(acc, warps[first + i].got());
    } else if constexpr (FACULA_LANES > 1) {
      w.acc = acc;
#pragma unroll
      for (int i = 0; i < w.kCount; ++i) w.word[i] = __shfl_sync(0xffffffffu, w.word[i], 0, FACULA_LANES);
      acc = w.got();
    }
    return acc;
  }
};

}  // namespace facula
