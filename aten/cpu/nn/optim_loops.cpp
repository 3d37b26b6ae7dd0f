// build: levels
#include "aten/cpu/nn/optim_loops.h"

#include <cmath>

namespace facula {
namespace {

// What stays the same over a loop is chosen by selection, not by branches: the loops stay vectors.
template <typename T>
inline __attribute__((always_inline)) T towards(T from, T to, T weight) {
  return weight < T(0.5) ? from + weight * (to - from) : to - (to - from) * (T(1) - weight);
}

template <typename T>
inline __attribute__((always_inline)) T direction(T grad, T param, bool maximize, T decay) {
  const T g = maximize ? -grad : grad;
  return decay != T(0) ? g + decay * param : g;
}

// max that keeps a NaN of either
template <typename T>
inline __attribute__((always_inline)) T larger(T a, T b) {
  return a > b || a != a ? a : b;
}

template <typename T>
void sgd(int64_t n, const SgdStep& s, T* const* x) {
  T *p = x[0], *b = x[2];
  const T* g = x[1];
  const T lr = static_cast<T>(s.lr), decay = static_cast<T>(s.weight_decay), momentum = static_cast<T>(s.momentum);
  const T keep = static_cast<T>(1 - s.dampening);
  const bool maximize = s.maximize, nesterov = s.nesterov, first = s.first;
  if (b == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) p[i] -= lr * direction(g[i], p[i], maximize, decay);
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T d = direction(g[i], p[i], maximize, decay);
    const T next = first ? d : momentum * b[i] + keep * d;
    b[i] = next;
    p[i] -= lr * (nesterov ? d + momentum * next : next);
  }
}

template <typename T, bool Largest>
void adam_step(int64_t n, const AdamStep& s, T* const* x) {
  T *p = x[0], *m = x[2], *v = x[3], *h = x[4];
  const T* g = x[1];
  const T w1 = static_cast<T>(1 - s.beta1), beta2 = static_cast<T>(s.beta2), w2 = static_cast<T>(1 - s.beta2);
  const T decay = s.decoupled ? T(0) : static_cast<T>(s.weight_decay);
  const T shrink = s.decoupled ? static_cast<T>(1 - s.lr * s.weight_decay) : T(1);
  const T rate = static_cast<T>(s.rate), root = static_cast<T>(s.root), eps = static_cast<T>(s.eps);
  const bool maximize = s.maximize;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T d = direction(g[i], p[i], maximize, decay);
    const T mean = towards(m[i], d, w1), square = beta2 * v[i] + w2 * d * d;
    m[i] = mean;
    v[i] = square;
    T over = square;
    if constexpr (Largest) h[i] = over = larger(h[i], square);
    p[i] = shrink * p[i] - rate * mean / (std::sqrt(over) / root + eps);
  }
}

template <typename T>
void adam(int64_t n, const AdamStep& s, T* const* x) {
  x[4] == nullptr ? adam_step<T, false>(n, s, x) : adam_step<T, true>(n, s, x);
}

template <typename T>
void nadam(int64_t n, const NAdamStep& s, T* const* x) {
  T *p = x[0], *m = x[2], *v = x[3];
  const T* g = x[1];
  const T w1 = static_cast<T>(1 - s.beta1), beta2 = static_cast<T>(s.beta2), w2 = static_cast<T>(1 - s.beta2);
  const T decay = s.decoupled ? T(0) : static_cast<T>(s.weight_decay);
  const T shrink = s.decoupled ? static_cast<T>(1 - s.lr * s.weight_decay) : T(1);
  const T grad_rate = static_cast<T>(s.grad_rate), mean_rate = static_cast<T>(s.mean_rate);
  const T correction = static_cast<T>(s.correction), eps = static_cast<T>(s.eps);
  const bool maximize = s.maximize;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T d = direction(g[i], p[i], maximize, decay);
    const T mean = towards(m[i], d, w1), square = beta2 * v[i] + w2 * d * d;
    m[i] = mean;
    v[i] = square;
    const T over = std::sqrt(square / correction) + eps;
    p[i] = shrink * p[i] - grad_rate * d / over - mean_rate * mean / over;
  }
}

template <typename T>
void adamax(int64_t n, const AdamaxStep& s, T* const* x) {
  T *p = x[0], *m = x[2], *u = x[3];
  const T* g = x[1];
  const T w1 = static_cast<T>(1 - s.beta1), beta2 = static_cast<T>(s.beta2), decay = static_cast<T>(s.weight_decay);
  const T rate = static_cast<T>(s.rate), eps = static_cast<T>(s.eps);
  const bool maximize = s.maximize;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T d = direction(g[i], p[i], maximize, decay);
    const T mean = towards(m[i], d, w1), largest = larger(beta2 * u[i], std::abs(d) + eps);
    m[i] = mean;
    u[i] = largest;
    p[i] -= rate * mean / largest;
  }
}

template <typename T, bool Centered, bool Momentum>
void rmsprop_step(int64_t n, const RmspropStep& s, T* const* x) {
  T *p = x[0], *v = x[2], *m = x[3], *b = x[4];
  const T* g = x[1];
  const T lr = static_cast<T>(s.lr), alpha = static_cast<T>(s.alpha), w = static_cast<T>(1 - s.alpha);
  const T decay = static_cast<T>(s.weight_decay), eps = static_cast<T>(s.eps), momentum = static_cast<T>(s.momentum);
  const bool maximize = s.maximize;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T d = direction(g[i], p[i], maximize, decay);
    const T square = alpha * v[i] + w * d * d;
    v[i] = square;
    T spread = square;
    if constexpr (Centered) {
      const T mean = towards(m[i], d, w);
      m[i] = mean;
      spread = square - mean * mean;
    }
    const T over = std::sqrt(spread) + eps;
    if constexpr (Momentum) {
      const T next = momentum * b[i] + d / over;
      b[i] = next;
      p[i] -= lr * next;
    } else {
      p[i] -= lr * d / over;
    }
  }
}

template <typename T>
void rmsprop(int64_t n, const RmspropStep& s, T* const* x) {
  if (x[3] == nullptr) {
    x[4] == nullptr ? rmsprop_step<T, false, false>(n, s, x) : rmsprop_step<T, false, true>(n, s, x);
  } else {
    x[4] == nullptr ? rmsprop_step<T, true, false>(n, s, x) : rmsprop_step<T, true, true>(n, s, x);
  }
}

template <typename T>
void adagrad(int64_t n, const AdagradStep& s, T* const* x) {
  T *p = x[0], *v = x[2];
  const T* g = x[1];
  const T decay = static_cast<T>(s.weight_decay), rate = static_cast<T>(s.rate), eps = static_cast<T>(s.eps);
  const bool maximize = s.maximize;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T d = direction(g[i], p[i], maximize, decay);
    const T sum = v[i] + d * d;
    v[i] = sum;
    p[i] -= rate * d / (std::sqrt(sum) + eps);
  }
}

template <typename T>
void adadelta(int64_t n, const AdadeltaStep& s, T* const* x) {
  T *p = x[0], *v = x[2], *u = x[3];
  const T* g = x[1];
  const T lr = static_cast<T>(s.lr), rho = static_cast<T>(s.rho), w = static_cast<T>(1 - s.rho);
  const T decay = static_cast<T>(s.weight_decay), eps = static_cast<T>(s.eps);
  const bool maximize = s.maximize;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T d = direction(g[i], p[i], maximize, decay);
    const T square = rho * v[i] + w * d * d;
    v[i] = square;
    const T delta = std::sqrt(u[i] + eps) / std::sqrt(square + eps) * d;
    u[i] = rho * u[i] + w * delta * delta;
    p[i] -= lr * delta;
  }
}

template <typename T>
bool unscale(int64_t n, T by, T* x) {
  T all = T(0);  // stays 0 while x - x is, NaN once it is not
#pragma omp simd reduction(+ : all)
  for (int64_t i = 0; i < n; ++i) {
    all += x[i] - x[i];
    x[i] *= by;
  }
  return all == T(0);
}

}  // namespace

#define FACULA_OPTIM_LOOPS(T) {sgd<T>, adam<T>, nadam<T>, adamax<T>, rmsprop<T>, adagrad<T>, adadelta<T>, unscale<T>}
FACULA_DEFINE_BY_ISA(OptimLoops<float>, optim_loops_float, FACULA_OPTIM_LOOPS(float))
FACULA_DEFINE_BY_ISA(OptimLoops<double>, optim_loops_double, FACULA_OPTIM_LOOPS(double))

}  // namespace facula
