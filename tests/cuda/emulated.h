// A kernel of rows on the host: a thread for each of a block, which meet where the kernel says.
#include <barrier>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <thread>
#include <type_traits>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __noinline__
#define __global__
#define __launch_bounds__(threads)
#define __grid_constant__
#define __shared__ static

struct uint2 {
  uint32_t x, y;
};
struct uint4 {
  uint32_t x, y, z, w;
};
struct Dim {
  unsigned x, y, z;
};
inline thread_local Dim threadIdx{}, blockIdx{};
inline Dim gridDim{}, blockDim{};
inline std::unique_ptr<std::barrier<>> block_barrier, warp_barriers[32];
inline uint64_t lanes[32][32];

inline void __syncthreads() { block_barrier->arrive_and_wait(); }
template <typename T>
T value_of_lane(T x, unsigned lane) {
  const unsigned warp = threadIdx.x / 32;
  std::memcpy(&lanes[warp][threadIdx.x % 32], &x, sizeof(T));
  warp_barriers[warp]->arrive_and_wait();
  T y;
  std::memcpy(&y, &lanes[warp][lane % 32], sizeof(T));
  warp_barriers[warp]->arrive_and_wait();
  return y;
}
template <typename T>
T __shfl_down_sync(unsigned, T x, unsigned distance) {
  const unsigned lane = threadIdx.x % 32;
  return value_of_lane(x, lane + distance < 32 ? lane + distance : lane);
}
template <typename T>
T __shfl_xor_sync(unsigned, T x, unsigned mask) {
  return value_of_lane(x, threadIdx.x % 32 ^ mask);
}
template <typename T>
T __shfl_sync(unsigned, T x, unsigned lane, unsigned width) {
  return value_of_lane(x, threadIdx.x % 32 / width * width + lane);
}
inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }
inline float __expf(float x) { return ::expf(x); }
inline uint64_t __cvta_generic_to_shared(const void* p) { return reinterpret_cast<uint64_t>(p); }

template <typename P>
void run_kernel(void (*kernel)(P), unsigned grid, unsigned block, const void* params) {
  std::remove_cv_t<P> p;
  std::memcpy(&p, params, sizeof(p));
  gridDim = {grid, 1, 1};
  blockDim = {block, 1, 1};
  for (unsigned b = 0; b < grid; ++b) {
    block_barrier = std::make_unique<std::barrier<>>(block);
    for (unsigned w = 0; w < block / 32; ++w) warp_barriers[w] = std::make_unique<std::barrier<>>(32);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < block; ++i) {
      threads.emplace_back([&, i] {
        threadIdx = {i, 0, 0};
        blockIdx = {b, 0, 0};
        kernel(p);
      });
    }
    for (std::thread& t : threads) t.join();
  }
}
