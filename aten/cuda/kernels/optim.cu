// A step of Adam on one parameter. Before it stand: P, G, M, V (elements of the parameter, the gradient
// and the running means), T.
#include "facula/cuda/walk.h"

namespace facula {

struct AdamParams {
  char* param;
  const char* grad;
  char* mean;
  char* square;
  char* largest;       // or null
  const double* step;  // on the device, or null: then `count` is the step
  double count;
  int64_t n;
  double lr, beta1, beta2, eps, decay;
  int64_t decoupled, maximize;
};

}  // namespace facula

using namespace facula;

extern "C" __global__ void __launch_bounds__(256) facula_adam(const __grid_constant__ AdamParams p) {
  const double t = p.step != nullptr ? *p.step : p.count;
  const T beta1 = static_cast<T>(p.beta1), beta2 = static_cast<T>(p.beta2), eps = static_cast<T>(p.eps);
  const T rate = static_cast<T>(p.lr / (1 - ::pow(p.beta1, t))), root = static_cast<T>(::sqrt(1 - ::pow(p.beta2, t)));
  const T shrink = static_cast<T>(1 - p.lr * p.decay), decay = static_cast<T>(p.decay);
  for (int64_t i = thread_index(); i < p.n; i += thread_count()) {
    P* const param = reinterpret_cast<P*>(p.param) + i;
    M* const mean = reinterpret_cast<M*>(p.mean) + i;
    V* const square = reinterpret_cast<V*>(p.square) + i;
    T x = load<T>(*param), g = load<T>(reinterpret_cast<const G*>(p.grad)[i]);
    if (p.maximize != 0) g = -g;
    if (p.decoupled != 0) {
      x *= shrink;
    } else {
      g += decay * x;
    }
    T m = load<T>(*mean);
    m += (g - m) * (T(1) - beta1);
    T v = load<T>(*square) * beta2 + g * g * (T(1) - beta2);
    *mean = element<M>(m);
    *square = element<V>(v);
    if (p.largest != nullptr) {
      V* const largest = reinterpret_cast<V*>(p.largest) + i;
      v = math::maximum(load<T>(*largest), v);
      *largest = element<V>(v);
    }
    *param = element<P>(x - rate * m / (math::sqrt(v) / root + eps));
  }
}

extern "C" __global__ void facula_step(P* step, double* count) {
  *step = element<P>(load<T>(*step) + T(1));
  *count = load<double>(*step);
}
