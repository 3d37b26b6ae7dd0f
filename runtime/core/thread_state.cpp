#include "runtime/core/thread_state.h"

namespace facula {

constinit thread_local ThreadState tls_state __attribute__((tls_model("initial-exec")));

}  // namespace facula
