// Places of elements: numbers in a row, elements that are not zero, and a sorted sequence's gaps.
#include "facula/cuda/strided_iterator.h"

#if FACULA_PART == 0
// arange: T is double or int64_t.
namespace facula {
struct Params {
  char* out;
  T start, step;
  StridedIterator<1> iterator;
};
}  // namespace facula
using namespace facula;
extern "C" __global__ void __launch_bounds__(256) facula_range(const __grid_constant__ Params p) {
  for (int64_t i = thread_index(); i < p.iterator.count; i += thread_count()) {
    int64_t at[1];
    p.iterator.places(i, at);
    if constexpr (std::is_same_v<T, double>) {
      *reinterpret_cast<S*>(p.out + at[0]) = element<S>(__dadd_rn(p.start, __dmul_rn(static_cast<T>(i), p.step)));
    } else {
      *reinterpret_cast<S*>(p.out + at[0]) = element<S>(static_cast<T>(p.start + i * p.step));
    }
  }
}

#elif FACULA_PART == 1
// Blocks of 1024 elements are counted, then the counts are summed, then the places are written.
namespace facula {
struct Params {
  const char* in;
  int64_t* out;
  int64_t* counts;
  int64_t blocks, room, ndim;
  int64_t out_steps[2];
  int64_t sizes[kMaxDims];
  StridedIterator<1> iterator;
};
constexpr int kBlock = 1024;
FD bool is_set(const Params& p, int64_t i) {
  if (i >= p.iterator.count) return false;
  int64_t at[1];
  p.iterator.places(i, at);
  return load<bool>(*reinterpret_cast<const S*>(p.in + at[0]));
}
}  // namespace facula
using namespace facula;
extern "C" __global__ void __launch_bounds__(1024) facula_nonzero_count(const __grid_constant__ Params p) {
  const int n = __syncthreads_count(is_set(p, static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x));
  if (threadIdx.x == 0) p.counts[blockIdx.x] = n;
}
extern "C" __global__ void __launch_bounds__(1024) facula_nonzero_sum(const __grid_constant__ Params p) {
  __shared__ int64_t sums[kBlock];
  int64_t carry = 0;
  for (int64_t first = 0; first < p.blocks; first += kBlock) {
    const int64_t i = first + threadIdx.x;
    const int64_t mine = i < p.blocks ? p.counts[i] : 0;
    sums[threadIdx.x] = mine;
    __syncthreads();
    for (int step = 1; step < kBlock; step *= 2) {
      const int64_t other = static_cast<int>(threadIdx.x) >= step ? sums[threadIdx.x - step] : 0;
      __syncthreads();
      sums[threadIdx.x] += other;
      __syncthreads();
    }
    if (i < p.blocks) p.counts[i] = carry + sums[threadIdx.x] - mine;
    carry += sums[kBlock - 1];
    __syncthreads();
  }
}
extern "C" __global__ void __launch_bounds__(1024) facula_nonzero_write(const __grid_constant__ Params p) {
  __shared__ int warps[32];
  int64_t i = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  const bool set = is_set(p, i);
  const unsigned ballot = __ballot_sync(0xffffffffu, set);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) warps[warp] = __popc(ballot);
  __syncthreads();
  int before = __popc(ballot & ((1u << lane) - 1));
  for (int w = 0; w < warp; ++w) before += warps[w];
  const int64_t row = p.counts[blockIdx.x] + before;
  if (!set || row >= p.room) return;
  for (int d = static_cast<int>(p.ndim) - 1; d >= 0; --d) {
    p.out[row * p.out_steps[0] + d * p.out_steps[1]] = i % p.sizes[d];
    i /= p.sizes[d];
  }
}

#else
// searchsorted: T is double or int64_t, all is dense.
namespace facula {
struct Params {
  const T* sequence;
  const T* values;
  const int64_t* sorter;
  char* out;
  int64_t count, length, row, right;  // row: values for each sequence; 0 for one sequence
};
FD bool less(T a, T b) { return a < b || (math::isnan(b) && !math::isnan(a)); }
}  // namespace facula
using namespace facula;
extern "C" __global__ void __launch_bounds__(256) facula_search(const __grid_constant__ Params p) {
  for (int64_t i = thread_index(); i < p.count; i += thread_count()) {
    const int64_t base = p.row == 0 ? 0 : i / p.row * p.length;
    const T x = p.values[i];
    int64_t low = 0, high = p.length;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      int64_t at = middle;
      if (p.sorter != nullptr) {
        at = p.sorter[base + middle];
        if (at < 0 || at >= p.length) {
          report(kIndexOutOfRange, at, p.length);
          at = 0;
        }
      }
      const T y = p.sequence[base + at];
      if (p.right != 0 ? !less(x, y) : less(y, x)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    reinterpret_cast<S*>(p.out)[i] = static_cast<S>(low);
  }
}
#endif
