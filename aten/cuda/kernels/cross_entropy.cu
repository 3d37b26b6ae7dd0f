// nll_loss of log_softmax over dense rows, and its gradient. Before it stand: I (elements), T, W (of the
// weights), X (of the targets), O (of the loss), FACULA_KIND (0 forward, 1 gradient, 2 the sum of the rows).
#include "facula/cuda/rows.h"

namespace facula {

struct LossParams {
  const char* in;
  const X* target;
  const W* weight;  // or null
  char* out;        // losses of rows, the loss, or the gradient
  T* tops;     // of rows: the largest element, and the logarithm of the sum of exp(element - largest)
  double* losses;  // of rows, and their weights
  double* weights;
  double* total;
  const char* grad;
  int64_t rows, length, ignored, reduction;  // 0 none, 1 mean, 2 sum
  int64_t grad_step;
};

FD T weight_of(const LossParams& p, int64_t target) {
  if (target == p.ignored) return T(0);
  if (target < 0 || target >= p.length) {
    report(kIndexOutOfRange, target, p.length);
    return T(0);
  }
  return p.weight != nullptr ? load<T>(p.weight[target]) : T(1);
}

// Elements of 16 bits are taken to powers of two, which the hardware has: exp(x) = 2^(x kUnit).
constexpr bool kPowers = sizeof(I) == 2;
constexpr T kUnit = static_cast<T>(kPowers ? 1.4426950408889634 : 1.0);
FD T power(T x) {
  if constexpr (kPowers) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(static_cast<float>(x)));
    return static_cast<T>(y);
  } else {
    return math::exp(x);
  }
}

}  // namespace facula

using namespace facula;

#if FACULA_KIND < 2
extern "C" __global__ void __launch_bounds__(kRowThreads) facula_loss(const __grid_constant__ LossParams p) {
  const int64_t blocks = ceil_div(p.rows, kRowsOfBlock);
#if FACULA_KIND == 0
  RowReduction reduction;
#endif
  for (int64_t r = blockIdx.x; r < blocks; r += gridDim.x) {
    const int64_t row = r * kRowsOfBlock + threadIdx.x / FACULA_LANES;
    const bool real = row < p.rows;
    const int64_t length = real ? p.length : 0;
    constexpr int64_t kStep = sizeof(I);
    const char* const in = p.in + (real ? row * p.length * kStep : 0);
    const int64_t target = real ? static_cast<int64_t>(p.target[row]) : p.ignored;
    const T weight = weight_of(p, target);
#if FACULA_KIND == 0
    // one reading: the sum is scaled anew when the largest so far grows
    constexpr int kAhead = 4;
    T top = -math::infinity<T>, sum = T(0);
    const int64_t lane = threadIdx.x % FACULA_LANES;
    for (int64_t first = 0; first < length; first += kAhead * FACULA_LANES * FACULA_VEC) {
      Vector<I, FACULA_VEC> v[kAhead];
      const auto place = [&](int u) { return first + (u * FACULA_LANES + lane) * FACULA_VEC; };
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        if (place(u) < length) v[u].load(reinterpret_cast<const I*>(in) + place(u));
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        if (place(u) >= length) continue;
        T x[FACULA_VEC], here = top;
#pragma unroll
        for (int k = 0; k < FACULA_VEC; ++k) {
          x[k] = v[u].template get<T>(k) * kUnit;
          here = Largest::join(x[k], here);
        }
        if (here > top) {
          sum *= power(top - here);
          top = here;
        }
        const T base = top == -math::infinity<T> ? T(0) : top;
#pragma unroll
        for (int k = 0; k < FACULA_VEC; ++k) sum += power(below(x[k], base));
      }
    }
    const T whole = reduction.over<Largest>(top);
    sum = reduction.over<Add>(top == -math::infinity<T> ? sum : sum * power(below(top, whole)));
    sum = sum_below(sum, whole);
    if (real && lane == 0) {
      // An element again, without what the unit rounded.
      const T most = kPowers ? load<T>(element<I>(whole / kUnit)) : whole;
      const T log_sum = math::isinf(whole) && sum == 0 ? T(0) : math::log(sum);
      p.tops[2 * row] = most;
      p.tops[2 * row + 1] = log_sum;
      double loss = 0;
      if (weight != T(0)) loss = double(log_sum - below(load<T>(reinterpret_cast<const I*>(in)[target]), most)) * weight;
      p.losses[row] = loss;
      p.weights[row] = weight;
      if (p.reduction == 0) reinterpret_cast<O*>(p.out)[row] = element<O>(loss);
    }
#else
    const T grad = real ? load<T>(*reinterpret_cast<const O*>(p.grad + row * p.grad_step)) : T(0);
    const T scale = p.reduction == 1 ? static_cast<T>(grad / *p.total * weight) : grad * weight;
    const T most = real ? p.tops[2 * row] : T(0);
    const T log_sum = real ? p.tops[2 * row + 1] * kUnit : T(0);
    char* const out = p.out + (real ? row * p.length * kStep : 0);
    each_vector(length, [&](int, int64_t place) {
      T x[FACULA_VEC];
      read_vector<I>(in, place, kStep, x);
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) {
        x[k] = weight == T(0) ? T(0) : (power(below(x[k], most) * kUnit - log_sum) - (place + k == target ? T(1) : T(0))) * scale;
      }
      write_vector<I>(out, place, kStep, x);
    });
#endif
  }
}

#else
// One block, in a fixed order.
extern "C" __global__ void __launch_bounds__(1024) facula_loss_sum(const __grid_constant__ LossParams p) {
  __shared__ double losses[1024], weights[1024];
  double loss = 0, weight = 0;
  for (int64_t i = threadIdx.x; i < p.rows; i += 1024) {
    loss += p.losses[i];
    weight += p.weights[i];
  }
  losses[threadIdx.x] = loss;
  weights[threadIdx.x] = weight;
  __syncthreads();
  for (int step = 512; step > 0; step /= 2) {
    if (static_cast<int>(threadIdx.x) < step) {
      losses[threadIdx.x] += losses[threadIdx.x + step];
      weights[threadIdx.x] += weights[threadIdx.x + step];
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  *p.total = weights[0];
  if (p.reduction != 0) {
    *reinterpret_cast<O*>(p.out) = element<O>(p.reduction == 1 ? losses[0] / weights[0] : losses[0]);
  }
}
#endif
