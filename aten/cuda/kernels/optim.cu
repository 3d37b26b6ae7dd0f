// A step of an optimizer on many parameters in one launch. Before it stand: P, G, M, V (elements of the
// parameters, the gradients and what is kept of them), T, FACULA_VEC.
#include "facula/cuda/strided_iterator.h"

namespace facula {

// The same as in optim.cpp.
constexpr int kTensors = 48, kChunk = 8192;
struct StepTensor {
  char* param;
  const char* grad;
  char* mean;     // the momentum of sgd, or null
  char* square;
  char* largest;  // or null
  const double* step;  // on the device; null: `rate` and `root` are right
  double rate, root;
  int64_t n;
};
struct StepParams {
  StepTensor tensors[kTensors];
  int32_t begin[kTensors];  // a tensor's first block
  int32_t count, flags;     // bits: decoupled or nesterov, maximize, first
  double lr, beta1, beta2, eps, decay;
};

// The vectors of this block's part of its tensor: each(place).
template <typename F>
FD const StepTensor& step_vectors(const StepParams& p, const F& each) {
  const int block = static_cast<int>(blockIdx.x);
  int low = 0, high = p.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (p.begin[middle] <= block ? low : high) = middle;
  }
  const StepTensor& t = p.tensors[low];
  const int64_t first = static_cast<int64_t>(block - p.begin[low]) * kChunk;
  const int64_t end = first + kChunk < t.n ? first + kChunk : t.n;
  each(t, first + threadIdx.x * FACULA_VEC, end);
  return t;
}

template <typename S>
FD void read(const char* data, int64_t i, T (&x)[FACULA_VEC]) {
  Vector<S, FACULA_VEC> v;
  v.load(reinterpret_cast<const S*>(data) + i);
#pragma unroll
  for (int k = 0; k < FACULA_VEC; ++k) x[k] = v.template get<T>(k);
}
template <typename S>
FD void write(char* data, int64_t i, const T (&x)[FACULA_VEC]) {
  Vector<S, FACULA_VEC> v;
  v.set(x);
  v.store(reinterpret_cast<S*>(data) + i);
}

}  // namespace facula

using namespace facula;

extern "C" __global__ void __launch_bounds__(256) facula_adam(const __grid_constant__ StepParams p) {
  step_vectors(p, [&](const StepTensor& t, int64_t first, int64_t end) {
    double rate64 = t.rate, root64 = t.root;
    if (t.step != nullptr) {
      rate64 = p.lr / (1 - ::pow(p.beta1, *t.step));
      root64 = ::sqrt(1 - ::pow(p.beta2, *t.step));
    }
    const bool decoupled = (p.flags & 1) != 0, maximize = (p.flags & 2) != 0;
    const T w1 = static_cast<T>(1 - p.beta1), beta2 = static_cast<T>(p.beta2), w2 = static_cast<T>(1 - p.beta2);
    const T eps = static_cast<T>(p.eps), rate = static_cast<T>(rate64), unroot = static_cast<T>(1 / root64);
    const T shrink = static_cast<T>(decoupled ? 1 - p.lr * p.decay : 1);
    const T decay = static_cast<T>(decoupled ? 0 : p.decay);
#pragma unroll 2
    for (int64_t i = first; i < end; i += 256 * FACULA_VEC) {
      T x[FACULA_VEC], g[FACULA_VEC], m[FACULA_VEC], v[FACULA_VEC], h[FACULA_VEC];
      read<P>(t.param, i, x);
      read<G>(t.grad, i, g);
      read<M>(t.mean, i, m);
      read<V>(t.square, i, v);
      if (t.largest != nullptr) read<V>(t.largest, i, h);
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) {
        T d = maximize ? -g[k] : g[k];
        if (decay != T(0)) d += decay * x[k];
        x[k] *= shrink;
        m[k] += (d - m[k]) * w1;
        v[k] = v[k] * beta2 + d * d * w2;
        T s = v[k];
        if (t.largest != nullptr) s = h[k] = math::maximum(h[k], s);
        x[k] -= rate * m[k] / (math::sqrt(s) * unroot + eps);
      }
      write<P>(t.param, i, x);
      write<M>(t.mean, i, m);
      write<V>(t.square, i, v);
      if (t.largest != nullptr) write<V>(t.largest, i, h);
    }
  });
}

extern "C" __global__ void __launch_bounds__(256) facula_sgd(const __grid_constant__ StepParams p) {
  step_vectors(p, [&](const StepTensor& t, int64_t first, int64_t end) {
    const bool nesterov = (p.flags & 1) != 0, maximize = (p.flags & 2) != 0, fresh = (p.flags & 4) != 0;
    const T lr = static_cast<T>(p.lr), momentum = static_cast<T>(p.beta1), keep = static_cast<T>(1 - p.beta2);
    const T decay = static_cast<T>(p.decay);
#pragma unroll 2
    for (int64_t i = first; i < end; i += 256 * FACULA_VEC) {
      T x[FACULA_VEC], g[FACULA_VEC], b[FACULA_VEC];
      read<P>(t.param, i, x);
      read<G>(t.grad, i, g);
      if (t.mean != nullptr && !fresh) read<M>(t.mean, i, b);
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) {
        T d = maximize ? -g[k] : g[k];
        if (decay != T(0)) d += decay * x[k];
        if (t.mean != nullptr) {
          b[k] = fresh ? d : momentum * b[k] + keep * d;
          d = nesterov ? d + momentum * b[k] : b[k];
        }
        x[k] -= lr * d;
      }
      write<P>(t.param, i, x);
      if (t.mean != nullptr) write<M>(t.mean, i, b);
    }
  });
}

extern "C" __global__ void facula_step(P* step, double* count) {
  *step = element<P>(load<T>(*step) + T(1));
  *count = load<double>(*step);
}
