// Running sums and their kin. Before it stand: I (elements read), O0 (written), T (computed in),
// FACULA_SCAN (0 sum, 1 product, 2 maximum, 3 minimum, 4 logarithm of sums of exponentials, 5 affine).
#include "facula/cuda/strided_iterator.h"

namespace facula {

struct Acc;
struct ScanParams {
  const char* in;
  const char* in2;  // of the affine recurrence
  char* out;
  char* indices;
  int64_t length, reverse;
  int64_t in_step, in2_step, out_step, indices_step;
  int64_t vectors;        // elements in order, side by side, whole vectors of kItems
  int64_t chunk, chunks;  // elements of a row that a block has, and how many such parts there are
  Acc* parts;             // what stands before each; null where rows are whole
  StridedIterator<4> iterator;           // rows
};

using R = math::real_t<T>;

struct Acc {
  T value;
#if FACULA_SCAN == 2 || FACULA_SCAN == 3
  int64_t place;
#elif FACULA_SCAN == 4 || FACULA_SCAN == 5
  T other;  // the sum beside its largest exponent; the factor of what came before
#endif
};

FD Acc start() {
  Acc acc;
#if FACULA_SCAN == 0
  acc.value = T(0);
#elif FACULA_SCAN == 1
  acc.value = T(1);
#elif FACULA_SCAN == 2 || FACULA_SCAN == 3
  acc.value = T(0);
  acc.place = -1;
#elif FACULA_SCAN == 4
  acc.value = -math::infinity<T>;
  acc.other = T(0);
#else
  acc.value = T(0);
  acc.other = T(1);
#endif
  return acc;
}
FD Acc read(const ScanParams& p, const int64_t (&at)[4], int64_t i) {
  const int64_t place = p.reverse != 0 ? p.length - 1 - i : i;
  Acc acc;
  acc.value = load<T>(*reinterpret_cast<const I*>(p.in + at[0] + place * p.in_step));
#if FACULA_SCAN == 2 || FACULA_SCAN == 3
  acc.place = i;
#elif FACULA_SCAN == 4
  acc.other = T(1);
#elif FACULA_SCAN == 5
  acc.other = acc.value;
  acc.value = load<T>(*reinterpret_cast<const I*>(p.in2 + at[1] + place * p.in2_step));
#endif
  return acc;
}
FD Acc combine(Acc a, Acc b) {
#if FACULA_SCAN == 0
  a.value = a.value + b.value;
  return a;
#elif FACULA_SCAN == 1
  a.value = a.value * b.value;
  return a;
#elif FACULA_SCAN == 2 || FACULA_SCAN == 3
  if (a.place < 0) return b;
  if (b.place < 0) return a;
  // the last among equals; NaN stays
  const bool takes = math::isnan(b.value) || (!math::isnan(a.value) && (FACULA_SCAN == 2 ? b.value >= a.value : b.value <= a.value));
  return takes ? b : a;
#elif FACULA_SCAN == 4
  const bool b_larger = b.value > a.value;
  const Acc &large = b_larger ? b : a, &small = b_larger ? a : b;
  Acc sum;
  if (math::isnan(a.value) || math::isnan(b.value)) {
    sum.value = math::nan<T>;
    sum.other = T(1);
    return sum;
  }
  sum.value = large.value;
  sum.other = math::isinf(large.value) ? T(1) : large.other + small.other * math::exp(small.value - large.value);
  if (small.value == -math::infinity<T>) sum.other = large.other;
  return sum;
#else
  Acc c;
  c.other = a.other * b.other;
  c.value = b.other * a.value + b.value;
  return c;
#endif
}
FD void write(const ScanParams& p, const int64_t (&at)[4], int64_t i, Acc acc) {
  const int64_t place = p.reverse != 0 ? p.length - 1 - i : i;
#if FACULA_SCAN == 4
  acc.value = math::isinf(acc.value) ? acc.value : acc.value + math::log(acc.other);
#endif
  *reinterpret_cast<O0*>(p.out + at[2] + place * p.out_step) = element<O0>(acc.value);
#if FACULA_SCAN == 2 || FACULA_SCAN == 3
  *reinterpret_cast<int64_t*>(p.indices + at[3] + place * p.indices_step) = acc.place;
#endif
}

constexpr int kThreads = 256, kItems = 4;

}  // namespace facula

using namespace facula;

// kItems elements from `begin` on, and as many results there.
FD void read_items(const ScanParams& p, const int64_t (&at)[4], int64_t begin, int64_t end, Acc (&mine)[kItems]) {
#if FACULA_SCAN < 2
  if (p.vectors != 0 && begin + kItems <= end) {
    Vector<I, kItems> v;
    v.load(reinterpret_cast<const I*>(p.in + at[0]) + begin);
#pragma unroll
    for (int k = 0; k < kItems; ++k) mine[k].value = load<T>(v.at[k]);
    return;
  }
#endif
#pragma unroll
  for (int k = 0; k < kItems; ++k) mine[k] = begin + k < end ? read(p, at, begin + k) : start();
}
FD void write_items(const ScanParams& p, const int64_t (&at)[4], int64_t begin, int64_t end, Acc (&mine)[kItems]) {
#if FACULA_SCAN < 2
  if (p.vectors != 0 && begin + kItems <= end) {
    Vector<O0, kItems> v;
#pragma unroll
    for (int k = 0; k < kItems; ++k) v.at[k] = element<O0>(mine[k].value);
    v.store(reinterpret_cast<O0*>(p.out + at[2]) + begin);
    return;
  }
#endif
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    if (begin + k < end) write(p, at, begin + k, mine[k]);
  }
}

// The value of the thread `distance` before this one in its warp.
FD Acc from_before(const Acc& acc, int distance) {
  static_assert(sizeof(Acc) % 4 == 0);
  union Words {
    Acc acc;
    uint32_t at[sizeof(Acc) / 4];
    FD Words() {}
  } words;
  words.acc = acc;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Acc) / 4); ++i) {
    words.at[i] = __shfl_up_sync(0xffffffffu, words.at[i], distance);
  }
  return words.acc;
}

// What stands before this thread's value in the block, and the whole; every thread must come here.
FD Acc before_in_block(Acc mine, Acc& total) {
  __shared__ Acc warps[kThreads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const Acc left = from_before(mine, step);
    if (lane >= step) mine = combine(left, mine);
  }
  __syncthreads();
  if (lane == 31) warps[warp] = mine;
  __syncthreads();
  Acc before = start();
  total = start();
#pragma unroll
  for (int i = 0; i < kThreads / 32; ++i) {
    if (i == warp) before = total;
    total = combine(total, warps[i]);
  }
  const Acc left = from_before(mine, 1);
  return lane > 0 ? combine(before, left) : before;
}

// A block a row, or a part of one.
extern "C" __global__ void __launch_bounds__(kThreads) facula_scan_rows(const __grid_constant__ ScanParams p) {
  for (int64_t job = blockIdx.x; job < p.iterator.count * p.chunks; job += gridDim.x) {
    const int64_t row = job / p.chunks, start_at = (job - row * p.chunks) * p.chunk;
    const int64_t end = start_at + p.chunk < p.length ? start_at + p.chunk : p.length;
    int64_t at[4];
    p.iterator.places(row, at);
    Acc carry = p.parts != nullptr ? p.parts[job] : start();
    for (int64_t first = start_at; first < end; first += kThreads * kItems) {
      const int64_t begin = first + static_cast<int64_t>(threadIdx.x) * kItems;
      Acc mine[kItems];
      read_items(p, at, begin, end, mine);
#pragma unroll
      for (int k = 1; k < kItems; ++k) mine[k] = combine(mine[k - 1], mine[k]);
      Acc total;
      const Acc before = combine(carry, before_in_block(mine[kItems - 1], total));
#pragma unroll
      for (int k = 0; k < kItems; ++k) mine[k] = combine(before, mine[k]);
      write_items(p, at, begin, end, mine);
      carry = combine(carry, total);
    }
  }
}

// Each part as a whole ...
extern "C" __global__ void __launch_bounds__(kThreads) facula_scan_parts(const __grid_constant__ ScanParams p) {
  for (int64_t job = blockIdx.x; job < p.iterator.count * p.chunks; job += gridDim.x) {
    const int64_t row = job / p.chunks, start_at = (job - row * p.chunks) * p.chunk;
    const int64_t end = start_at + p.chunk < p.length ? start_at + p.chunk : p.length;
    int64_t at[4];
    p.iterator.places(row, at);
    Acc carry = start();
    for (int64_t first = start_at; first < end; first += kThreads * kItems) {
      const int64_t begin = first + static_cast<int64_t>(threadIdx.x) * kItems;
      Acc mine[kItems];
      read_items(p, at, begin, end, mine);
#pragma unroll
      for (int k = 1; k < kItems; ++k) mine[k] = combine(mine[k - 1], mine[k]);
      Acc total;
      before_in_block(mine[kItems - 1], total);
      carry = combine(carry, total);
    }
    if (threadIdx.x == 0) p.parts[job] = carry;
  }
}

// ... and what stands before it.
extern "C" __global__ void __launch_bounds__(kThreads) facula_scan_before(const __grid_constant__ ScanParams p) {
  for (int64_t row = blockIdx.x; row < p.iterator.count; row += gridDim.x) {
    Acc* const parts = p.parts + row * p.chunks;
    Acc carry = start();
    for (int64_t first = 0; first < p.chunks; first += kThreads) {
      const int64_t i = first + threadIdx.x;
      Acc total;
      const Acc before = before_in_block(i < p.chunks ? parts[i] : start(), total);
      if (i < p.chunks) parts[i] = combine(carry, before);
      carry = combine(carry, total);
    }
  }
}

// A thread a row, where neighbouring rows lie side by side or rows are short.
extern "C" __global__ void __launch_bounds__(kThreads) facula_scan_threads(const __grid_constant__ ScanParams p) {
  for (int64_t row = thread_index(); row < p.iterator.count; row += thread_count()) {
    int64_t at[4];
    p.iterator.places(row, at);
    Acc acc = start();
    for (int64_t i = 0; i < p.length; ++i) {
      acc = combine(acc, read(p, at, i));
      write(p, at, i, acc);
    }
  }
}
