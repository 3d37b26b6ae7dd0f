// Kernels of operators, registered by the name that ops.yaml gives them.
#pragma once

#include <vector>

#include "launch/host.h"

namespace facula::cuda {

std::vector<FaculaKernelEntry>& kernel_entries();

struct Registers {
  Registers(std::initializer_list<FaculaKernelEntry> entries) {
    kernel_entries().insert(kernel_entries().end(), entries);
  }
};

// Arguments of a call.
inline const FaculaTensor& tensor(const FaculaCall* call, int i) { return call->args[i].at.tensors[0]; }
inline bool absent(const FaculaCall* call, int i) {
  return call->args[i].kind == FACULA_NONE || call->args[i].at.tensors[0].ndim < 0;
}
inline const FaculaTensor& result(const FaculaCall* call, int i = 0) {
  return tensor(call, call->nargs - call->nouts + i);
}
inline bool has_result(const FaculaCall* call, int i) { return !absent(call, call->nargs - call->nouts + i); }
inline int wrapped_dim(int64_t dim, const FaculaTensor& t) {
  return static_cast<int>(t.ndim == 0 ? 0 : dim < 0 ? dim + t.ndim : dim);
}
inline bool on_device(const FaculaTensor& t) { return t.index >= 0; }
inline bool is_dense(const FaculaTensor& t) { return (t.flags & FACULA_CONTIGUOUS) != 0; }

}  // namespace facula::cuda
