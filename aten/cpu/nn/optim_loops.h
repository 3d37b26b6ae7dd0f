// Steps of the optimizers over contiguous elements, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

// The arrays of a step: parameter, gradient, then what the optimizer keeps between steps. All but
// the gradient are written; those that the options leave out are null.
inline constexpr int kStepArrays = 5;

struct SgdStep {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, maximize, first;
};
struct AdamStep {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled, maximize;
  double rate = 0, root = 1;  // lr / (1 - beta1^t), sqrt(1 - beta2^t)
};
struct NAdamStep {
  double lr, beta1, beta2, eps, weight_decay, momentum_decay;
  bool decoupled, maximize;
  double grad_rate = 0, mean_rate = 0, correction = 1;  // correction: 1 - beta2^t
};
struct AdamaxStep {
  double lr, beta1, beta2, eps, weight_decay;
  bool maximize;
  double rate = 0;
};
struct RmspropStep {
  double lr, alpha, eps, weight_decay, momentum;
  bool maximize;
};
struct AdagradStep {
  double lr, lr_decay, eps, weight_decay;
  bool maximize;
  double rate = 0;
};
struct AdadeltaStep {
  double lr, rho, eps, weight_decay;
  bool maximize;
};

template <typename T>
struct OptimLoops {
  void (*sgd)(int64_t n, const SgdStep& step, T* const* x);            // + momentum buffer
  void (*adam)(int64_t n, const AdamStep& step, T* const* x);          // + mean, square, largest square
  void (*nadam)(int64_t n, const NAdamStep& step, T* const* x);        // + mean, square
  void (*adamax)(int64_t n, const AdamaxStep& step, T* const* x);      // + mean, largest
  void (*rmsprop)(int64_t n, const RmspropStep& step, T* const* x);    // + square, mean, momentum buffer
  void (*adagrad)(int64_t n, const AdagradStep& step, T* const* x);    // + sum of squares
  void (*adadelta)(int64_t n, const AdadeltaStep& step, T* const* x);  // + square, square of the steps
  bool (*unscale)(int64_t n, T by, T* x);                              // x *= by; were all finite before?
};
FACULA_DECLARE_BY_ISA(OptimLoops<float>, optim_loops_float)
FACULA_DECLARE_BY_ISA(OptimLoops<double>, optim_loops_double)

template <typename T>
const OptimLoops<T>& optim_loops() {
  if constexpr (sizeof(T) == sizeof(float)) {
    return FACULA_BY_ISA(optim_loops_float);
  } else {
    return FACULA_BY_ISA(optim_loops_double);
  }
}

}  // namespace facula
