// Work on whole rows: FACULA_LANES threads a row, values held in registers where they fit.
// Before it stand: FACULA_LANES, FACULA_VEC, FACULA_ITEMS (vectors of a thread; 0: read again each time).
#pragma once

#include "facula/cuda/strided_iterator.h"

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

// Reductions over the threads of a row; all of them get the results. Every thread of the block must come here.
// One barrier each: what is passed on lies in one of two places by turns, and by the time that the first is
// written again all threads have been through the other's barrier.
class RowReduction {
  int turn_ = 0;

 public:
  template <typename Join, typename A, int N>
  FD void over(A (&x)[N]) {
#pragma unroll
    for (int distance = (FACULA_LANES < 32 ? FACULA_LANES : 32) / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int n = 0; n < N; ++n) x[n] = Join::join(x[n], __shfl_xor_sync(0xffffffffu, x[n], distance));
    }
    if constexpr (FACULA_LANES > 32) {
      __shared__ A places[2][N][kRowThreads / 32];
      A(&warps)[N][kRowThreads / 32] = places[turn_];
      turn_ ^= 1;
      if (threadIdx.x % 32 == 0) {
#pragma unroll
        for (int n = 0; n < N; ++n) warps[n][threadIdx.x / 32] = x[n];
      }
      __syncthreads();
      const int first = threadIdx.x / FACULA_LANES * (FACULA_LANES / 32);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        x[n] = warps[n][first];
#pragma unroll
        for (int i = 1; i < FACULA_LANES / 32; ++i) x[n] = Join::join(x[n], warps[n][first + i]);
      }
    }
  }
  template <typename Join, typename A>
  FD A over(A x) {
    A one[1] = {x};
    over<Join>(one);
    return one[0];
  }
};

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

// Of softmaxes: beside one infinite element the others have no share; several have no limit.
template <typename T>
FD T below(T x, T top) {
  return top == math::infinity<T> && x == top ? T(0) : x - top;
}
template <typename T>
FD T sum_below(T sum, T top) {
  return top == math::infinity<T> && sum != T(1) ? math::nan<T> : sum;
}

// Vectors of a line: dense, or single elements `step` bytes apart.
template <typename S, typename T>
FD void read_vector(const char* line, int64_t place, int64_t step, T (&x)[FACULA_VEC]) {
  Vector<S, FACULA_VEC> v;
  v.load(reinterpret_cast<const S*>(line + place * step));
#pragma unroll
  for (int k = 0; k < FACULA_VEC; ++k) x[k] = v.template get<T>(k);
}
template <typename S, typename T>
FD void write_vector(char* line, int64_t place, int64_t step, const T (&x)[FACULA_VEC]) {
  Vector<S, FACULA_VEC> v;
  v.set(x);
  v.store(reinterpret_cast<S*>(line + place * step));
}

// The vectors of a row that a thread holds, as they lie in memory: all are asked for before the first is used.
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
      for (int k = 0; k < FACULA_VEC; ++k) x[k] = at[i].template get<T>(k);
    } else {
      read_vector<S>(line, place, step, x);
    }
  }
};

// The vectors of a thread of the next rows of kOperands lines, asked for ahead and kept in shared memory as they
// lie: it takes more on its way than registers have room for. A thread reads only what it asked for itself, so there
// is no barrier. Rows whose vectors have no whole words or do not fit are read when they are used.
template <typename S, int kOperands>
class RowsAhead {
  using Held = Vector<S, FACULA_VEC>;
  static constexpr int kRoom = 46 << 10;  // of the 48 KiB of a block
  static constexpr int kBytes = kRowThreads * kHeld * Held::kBytes * kOperands;
  static constexpr bool kUsed = FACULA_ITEMS > 0 && Held::kBytes >= 4 && Held::kBytes <= 16 && kBytes <= kRoom;
  static constexpr int kRows = !kUsed ? 1 : kRoom / kBytes < 3 ? kRoom / kBytes : 3;  // three measured best

  int row_ = 0;  // place of the oldest row

  static FD typename Held::Word* slot(int row, int operand, int i) {
    __shared__ typename Held::Word slots[kUsed ? kRows * kOperands * kHeld * kRowThreads : 1];
    return slots + ((row * kOperands + operand) * kHeld + i) * kRowThreads + threadIdx.x;
  }

 public:
  // Calls ask(row) for the first rows of this block; it calls load().
  template <typename F>
  static FD void start(const F& ask) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) ask(blockIdx.x + static_cast<int64_t>(i) * gridDim.x);
  }
  // The row to ask for when row r has been read.
  static FD int64_t after(int64_t r) { return r + static_cast<int64_t>(kRows) * gridDim.x; }

  FD void load(const char* const (&lines)[kOperands], int64_t length) {
    if constexpr (kUsed) {
      each_vector(length, [&](int i, int64_t place) {
#pragma unroll
        for (int n = 0; n < kOperands; ++n) {
          const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(slot(row_, n, i)));
          asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to),
                       "l"(reinterpret_cast<const S*>(lines[n]) + place), "n"(Held::kBytes)
                       : "memory");
        }
      });
      asm volatile("cp.async.commit_group;" ::: "memory");
      row_ = row_ + 1 < kRows ? row_ + 1 : 0;
    }
  }
  // Until the oldest row is there.
  FD void wait() const {
    if constexpr (kUsed) asm volatile("cp.async.wait_group %0;" ::"n"(kRows - 1) : "memory");
  }
  // Vector i of the oldest row of an operand, which lies at `place` of its line.
  template <typename T>
  FD void get(int operand, int i, const char* line, int64_t place, T (&x)[FACULA_VEC]) const {
    if constexpr (kUsed) {
      Held v;
      v.words[0] = *slot(row_, operand, i);
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) x[k] = v.template get<T>(k);
    } else {
      read_vector<S>(line, place, sizeof(S), x);
    }
  }
};

}  // namespace facula
