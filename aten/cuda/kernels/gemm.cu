// Matrix products of any dtype and layout, where no library has them: out = alpha a b + beta out.
// Before it stand: S (elements), T (computed in).
#include "facula/cuda/types.h"

namespace facula {

struct Params {
  const char *a, *b;
  char* out;
  int64_t batch, rows, columns, inner;
  int64_t a_steps[3], b_steps[3], out_steps[3];  // bytes: batch, row, column
  Slot alpha, beta;
  int64_t plain;  // alpha is 1 and beta 0
};
constexpr int kTile = 32;

}  // namespace facula

using namespace facula;

extern "C" __global__ void __launch_bounds__(256) facula_gemm(const __grid_constant__ Params p) {
  __shared__ T a[kTile][kTile + 1], b[kTile][kTile + 1];
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;  // 32 x 8 threads, 4 rows each
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile + x;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTile;
  for (int64_t batch = blockIdx.z; batch < p.batch; batch += gridDim.z) {
    T sum[4] = {T(0), T(0), T(0), T(0)};
    for (int64_t k = 0; k < p.inner; k += kTile) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int64_t row = first_row + y + 8 * r, at = k + y + 8 * r;
        a[y + 8 * r][x] = row < p.rows && k + x < p.inner
                              ? load<T>(*reinterpret_cast<const S*>(p.a + batch * p.a_steps[0] + row * p.a_steps[1] + (k + x) * p.a_steps[2]))
                              : T(0);
        b[y + 8 * r][x] = at < p.inner && column < p.columns
                              ? load<T>(*reinterpret_cast<const S*>(p.b + batch * p.b_steps[0] + at * p.b_steps[1] + column * p.b_steps[2]))
                              : T(0);
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kTile; ++i) {
#pragma unroll
        for (int r = 0; r < 4; ++r) sum[r] = static_cast<T>(sum[r] + a[y + 8 * r][i] * b[i][x]);
      }
      __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int64_t row = first_row + y + 8 * r;
      if (row >= p.rows || column >= p.columns) continue;
      S* const to = reinterpret_cast<S*>(p.out + batch * p.out_steps[0] + row * p.out_steps[1] + column * p.out_steps[2]);
      T value = sum[r];
      if (p.plain == 0) value = static_cast<T>(p.alpha.get<T>() * value + p.beta.get<T>() * load<T>(*to));
      *to = element<S>(value);
    }
  }
}
