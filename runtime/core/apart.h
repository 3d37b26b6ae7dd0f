// Long work of a library that looks for no signals.
#pragma once

#include <functional>

#include "runtime/core/error.h"

namespace facula {

// Runs `work` on a thread of its own while this one looks for signals, where that is what this one does. When a signal
// ends the call, `work` goes on unheard: it must own all that it uses but memory of cpu_allocate(), which is kept until
// it is done. It must not throw.
FACULA_API void run_apart(std::function<void()> work);

}  // namespace facula
