// What kernels of the CPU say of themselves to those who fuse calls.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "runtime/core/error.h"

namespace facula {

enum class Fusible : uint8_t {
  No,
  Copy,    // the result has the elements of the first argument, converted
  Reduce,  // it takes the elements of the first argument, if real, by take_pieces() (pieces.h) and in no other way
};

using KernelFn = void (*)();
FACULA_API Fusible fusible_kernel(KernelFn kernel);
// While the library is loaded.
FACULA_API bool add_fusible_kernels(Fusible as, std::initializer_list<KernelFn> kernels);

}  // namespace facula
