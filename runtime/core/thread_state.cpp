#include "runtime/core/thread_state.h"

namespace facula {

constinit thread_local ThreadState tls_state __attribute__((tls_model("initial-exec")));

LayerSet layers_of(TensorList list) {
  LayerSet set = 0;
  for (const Tensor& t : list) set |= layers_of(t);
  return set;
}

}  // namespace facula
